"""
How long a fork takes beside `git worktree add` and `cp -a`, on several file systems, in one run.

    python bench/forks.py --files 20000 --runs 3        # as root: the file systems are loop mounts

Every contestant makes a second working directory of the same generated tree, with warm caches, in turn. The store stands on the
same file system as the tree. mulligan syncs what it wrote, the other two do not; `fork, no sync` shows the difference.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import mulligan
from bench import trees
from mulligan import Workspace

KINDS = ("ext4", "xfs", "overlay")
SIZE = "6G"


def sh(*words: str | Path, cwd: Path | None = None) -> None:
    """Runs a program and insists on its success."""
    subprocess.run([str(word) for word in words], cwd=cwd, check=True, capture_output=True)


@contextmanager
def mounted(kind: str, work: Path) -> Iterator[Path]:
    """A fresh file system of a kind: an image on a loop device, or an overlay on such an ext4."""
    with ExitStack() as stack:
        image, place = work / f"{kind}.img", work / kind
        place.mkdir()
        sh("truncate", "-s", SIZE, image)
        stack.callback(image.unlink)
        sh(*(("mkfs.xfs", "-q", "-m", "reflink=1", image) if kind == "xfs" else ("mkfs.ext4", "-q", "-F", image)))
        sh("mount", "-o", "loop", image, place)
        stack.callback(sh, "umount", place)
        if kind != "overlay":
            yield place
            return
        parts = {name: place / name for name in ("lower", "upper", "work", "merged")}
        for part in parts.values():
            part.mkdir()
        options = f"lowerdir={parts['lower']},upperdir={parts['upper']},workdir={parts['work']}"
        sh("mount", "-t", "overlay", "overlay", "-o", options, parts["merged"])
        stack.callback(sh, "umount", parts["merged"])
        yield parts["merged"]


def contestants(ws: Workspace, project: Path) -> dict[str, Callable[[Path], object]]:
    """Each way to make a second directory, given where."""
    from mulligan.safefs import syscalls

    class Unsynced(syscalls.Calls):
        syncfs = staticmethod(lambda _: None)

    def unsynced(there: Path) -> None:
        with syscalls.using(Unsynced()):
            ws.fork("start", there).close()

    return {
        "cp -a": lambda there: sh("cp", "-a", project, there),
        "git worktree add": lambda there: sh("git", "worktree", "add", "--detach", there, cwd=project),
        "mulligan fork": lambda there: ws.fork("start", there).close(),
        "fork, no sync": unsynced,
    }


def measure(kind: str, work: Path, files: int, runs: int) -> dict[str, list[float]]:
    """Returns the seconds of each contestant on one file system."""
    with mounted(kind, work) as place:
        project = place / "project"
        project.mkdir()
        trees.write(trees.plan(files), project)
        # The repository stands beside the tree, so that `cp -a` copies the tree alone; no collection runs beside us.
        git = (
            "git",
            "-c",
            "user.name=b",
            "-c",
            "user.email=b@example.org",
            "-c",
            "gc.auto=0",
            "-c",
            "maintenance.auto=0",
        )
        beside = f"--separate-git-dir={place / 'repository'}"
        for words in (("init", "-q", beside), ("add", "-A"), ("commit", "-qm", "start"), ("repack", "-adq")):
            sh(*git, *words, cwd=project)
        found: dict[str, list[float]] = {}
        with mulligan.open(project, store=place / "store" / "project") as ws:
            ws.save("start")
            for number in range(runs):
                for at, (name, make) in enumerate(contestants(ws, project).items()):
                    with open(place / "synced", "w") as file:
                        os.fsync(
                            file.fileno()
                        )  # what came before is on its way; a sync of the machine waits for others
                    there = place / f"try-{number}-{at}"
                    begun = time.perf_counter()
                    make(there)
                    found.setdefault(name, []).append(time.perf_counter() - begun)
                    shutil.rmtree(there)
        return found


def main() -> int:
    """Measures, and prints a table of medians with ratios to `cp -a`."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=20_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--work", type=Path, default=Path("/var/tmp"))
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False).stdout
    print(f"{args.files} files, median of {args.runs}, {datetime.now(UTC):%Y-%m-%d}, {commit.strip()}", flush=True)
    result = {}
    with tempfile.TemporaryDirectory(dir=args.work) as work:
        os.environ["HOME"] = work
        for kind in args.kinds.split(","):
            result[kind] = measure(kind, Path(work), args.files, args.runs)
            base = median(result[kind]["cp -a"])
            for name, times in result[kind].items():
                middle = median(times)
                print(f"{kind:<8} {name:<18} {middle:7.2f} s  {middle / base:5.2f} of cp -a", flush=True)
    if args.json:
        args.json.write_text(json.dumps(result, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
