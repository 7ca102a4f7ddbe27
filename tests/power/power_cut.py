"""
Cuts the power under `mulligan` on a real ext4 image, again and again, and looks at what the disk still has.

    python tests/power/power_cut.py [--size N] [--seed N] [--mode acknowledged|anytime]

The cut is ext4's shutdown ioctl without a log flush: whatever is not durable is gone, as after a pulled plug with an
honest disk. `acknowledged` cuts right after the last acknowledgement, `anytime` at a random moment. After the cut the
image is mounted again, and every acknowledged checkpoint must be there, whole, with nothing damaged beside it.
Needs root, loop mounts and mkfs.ext4. The exit code is 1 if anything was lost or damaged.
"""

from __future__ import annotations

import argparse
import ctypes
import fcntl
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import mulligan
from checker import judge
from tally import cannot, hand_in
from tools import loop_mounts_work, plain_environment
from tree import contents, put

SHUTDOWN, NO_LOG_FLUSH = 0x8004587D, 2
WORKER = """
    import os, sys, mulligan
    project, store = sys.argv[1:]
    ws = mulligan.open(project, store=store)
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(1, 1000):
        for name in ("a", "d/b", f"n{number % 3}"):
            with open(os.path.join(project, name), "w") as file:
                file.write(f"{name} {number}\\n" * 200)
        print("saved", ws.save(f"s{number}").id, number, flush=True)
        if number % 4 == 0:
            ws.restore("base")
            print("restored", flush=True)
            ws.undo()
            print("undone", number, flush=True)
        if number % 7 == 0:
            ws.delete(f"s{number - 3}")
            print("deleted", number - 3, flush=True)
            ws.prune()
"""


def prepare(image: Path, point: Path) -> None:
    """An ext4 image with a project and one checkpoint, safely on disk."""
    with image.open("wb") as file:
        file.truncate(48 << 20)
    subprocess.run(["mkfs.ext4", "-q", "-F", image], check=True, capture_output=True)
    with mounted(image, point):
        apart("--prepare", point)


def fill(point: Path) -> None:
    """The project and its first checkpoint."""
    project = point / "project"
    put(project, "a", "base\n")
    put(project, "d/b", "base\n")
    mulligan.open(project, store=point / "store").save("base")
    os.sync()


def apart(*options: str | Path, said: str = "") -> list[str]:
    """Runs this script on the mount in a process of its own, whose open files end with it; the lines it printed."""
    command = [sys.executable, __file__, *map(os.fspath, options)]
    done = subprocess.run(command, input=said, capture_output=True, text=True, env=plain_environment(), check=False)
    return done.stdout.splitlines() + ([done.stderr] if done.returncode else [])


@contextmanager
def mounted(image: Path, point: Path) -> Iterator[None]:
    """The image at its mount point for a while."""
    subprocess.run(["mount", "-o", "loop", image, point], check=True)
    try:
        yield
    finally:
        for _attempt in range(100):
            if subprocess.run(["umount", point], capture_output=True, check=False).returncode == 0:
                break
            time.sleep(0.02)
        else:
            subprocess.run(["umount", "--lazy", point], check=True)


def keep_mounts_to_ourselves() -> None:
    """
    Moves this process into a mount namespace of its own.

    Otherwise a container that starts meanwhile takes the mount with it and keeps the file system alive after we let go.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    new_namespace, recursive_private = 0x20000, 0x4000 | 0x40000
    if libc.unshare(new_namespace) or libc.mount(b"none", b"/", None, recursive_private, None):
        raise OSError(ctypes.get_errno(), "no mount namespace of our own")


def cut(point: Path) -> None:
    """Pulls the plug."""
    handle = os.open(point, os.O_RDONLY)
    try:
        fcntl.ioctl(handle, SHUTDOWN, bytes(ctypes.c_uint32(NO_LOG_FLUSH)))
    finally:
        os.close(handle)


def work(point: Path, rng: random.Random, mode: str) -> list[list[str]]:
    """Runs the worker until the cut, and returns what it had acknowledged by then."""
    script, places = textwrap.dedent(WORKER), [os.fspath(point / name) for name in ("project", "store")]
    child = subprocess.Popen(
        [sys.executable, "-c", script, *places],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=plain_environment(),
    )
    assert child.stdin is not None and child.stdout is not None
    child.stdout.readline()
    child.stdin.write("go\n")
    child.stdin.flush()
    said = ""
    if mode == "acknowledged":
        for _line in range(rng.randrange(1, 12)):
            said += child.stdout.readline()
    else:
        time.sleep(rng.random() * 0.4)
    cut(point)
    child.kill()
    # What it said after that was confirmed by the disk before the cut: it counts too.
    said += child.stdout.read()
    child.wait()
    child.stdin.close()
    child.stdout.close()
    return [line.split() for line in said.splitlines(keepends=True) if line.endswith("\n")]


def lost(point: Path, said: list[list[str]]) -> Iterator[str]:
    """Whatever was acknowledged and is not there, or is there and not whole."""
    ws = mulligan.open(point / "project", store=point / "store")
    found = {cp.id: cp for cp in ws.log()}
    kept = {words[1]: words[2] for words in said if words[0] == "saved"}
    deleted = {words[1] for words in said if words[0] == "deleted"}
    # A delete that was under way when the power went may have happened.
    last = max((int(number) for number in kept.values()), default=0)
    maybe = {str(last - 3)} if last % 7 == 0 else {str(last + 1 - 3)} if (last + 1) % 7 == 0 else set()
    for name, number in kept.items():
        if number in deleted | maybe:
            continue
        if name not in found:
            yield f"checkpoint s{number} was acknowledged and is gone"
            continue
        for path in ("a", "d/b", f"n{int(number) % 3}"):
            if ws.cat(name, path) != f"{path} {number}\n".encode() * 200:
                yield f"checkpoint s{number}: {path} has other bytes"
    after = ws.save("after")
    if not after:
        yield "no save after the cut"
    ws.restore("base")
    if {path: node.content for path, node in contents(point / "project").items() if node.kind == "file"} != {
        "a": b"base\n",
        "d/b": b"base\n",
    }:
        yield "a restore after the cut is not exact"
    if not ws.check().ok:
        yield f"check: {ws.check().problems}"
    yield from judge(point / "store", point / "project")


def main() -> int:
    """Runs the cuts and prints what was lost."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", "--trials", dest="trials", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--mode", choices=["acknowledged", "anytime"], default="acknowledged")
    parser.add_argument("--prepare", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--verify", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.prepare:
        fill(options.prepare)
        return 0
    if options.verify:
        print("".join(f"{line}\n" for line in verdict(options.verify, json.load(sys.stdin))), end="")
        return 0
    if not loop_mounts_work():
        return cannot("it needs root, loop mounts and mkfs.ext4")
    rng, failures, acknowledged = random.Random(options.seed), 0, 0
    shm = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="power-cut-", dir=shm) as base:
        os.environ["HOME"] = os.environ["XDG_STATE_HOME"] = os.environ["XDG_CONFIG_HOME"] = base
        fresh, point = (Path(base, name) for name in ("fresh", "point"))
        point.mkdir()
        keep_mounts_to_ourselves()
        prepare(fresh, point)
        for number in range(options.trials):
            image = Path(base, f"image{number}")  # a new file: nothing that still knows the last one can write to it
            shutil.copyfile(fresh, image)
            with mounted(image, point):
                said = work(point, rng, options.mode)
            acknowledged += sum(words[0] == "saved" for words in said)
            with mounted(image, point):
                wrong = apart("--verify", point, said=json.dumps(said))
            image.unlink()
            failures += bool(wrong)
            for line in wrong:
                print(f"LOST in trial {number}: {line}", flush=True)
    took = time.monotonic() - began
    print(
        f"{options.mode}: {options.trials} cuts, {acknowledged} acknowledged saves, {failures} bad trials, {took:.0f} s"
    )
    hand_in(f"power cuts, {options.mode}", tried=options.trials, broken=failures, acknowledged_saves=acknowledged)
    return 1 if failures else 0


def verdict(point: Path, said: list[list[str]]) -> list[str]:
    """What was lost, where an error of the engine counts as a loss."""
    try:
        return list(lost(point, said))
    except mulligan.MulliganError as error:
        return [f"{type(error).__name__}: {error}"]


if __name__ == "__main__":
    sys.exit(main())
