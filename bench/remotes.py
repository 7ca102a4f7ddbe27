"""
How long a push and a pull of one more checkpoint take, against `git push`/`git fetch` of the same and restic.

Everything is on one machine: a bare repository behind `git daemon`, another behind nginx and `git http-backend` with a
password, an object store by moto. Ratios in one run are what counts; moto is slow, and equally so for both. Each figure is the
median of some rounds, with the start of every program.

    python bench/remotes.py [--files 10000] [--rounds 5] [--history 1000] [--only daemon|http|bucket|history|lazy]
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from cutting import cutter
from fleet import bare_repository, git_daemon, object_store
from servers import git_over_http


def timed(*words: str | Path, cwd: Path, env: dict[str, str]) -> float:
    """The seconds that one command takes; it must succeed."""
    start = time.perf_counter()
    done = subprocess.run([str(word) for word in words], cwd=cwd, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{words}: {done.stdout}{done.stderr}")
    return time.perf_counter() - start


class Place:
    """One project in two homes, with mulligan, a shadow git repository and restic."""

    def __init__(self, base: Path, files: int) -> None:
        self.base, self.project, self.copy = base, base / "project", base / "copy"
        self.mulligan = [sys.executable, "-m", "mulligan"]
        self.env = {**os.environ, "HOME": str(base), "XDG_STATE_HOME": str(base / "s1"), "XDG_DATA_HOME": str(base / "d"), "MULLIGAN_WATCH": "0", "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_AUTHOR_NAME": "b", "GIT_AUTHOR_EMAIL": "b@b", "GIT_COMMITTER_NAME": "b", "GIT_COMMITTER_EMAIL": "b@b"}  # fmt: skip
        for number in range(files):
            path = self.project / f"d{number // 100}" / f"f{number}.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{number}\n" + os.urandom(600).hex())
        self.edits = 0

    def edit(self) -> None:
        self.edits += 1
        (self.project / "d0" / "f7.txt").write_text(f"edit {self.edits}\n" + os.urandom(600).hex())

    def run(self, *words: str | Path, cwd: Path | None = None, **more: str) -> float:
        return timed(*self.mulligan, *words, cwd=cwd or self.project, env={**self.env, **more})

    def git(self, *words: str | Path, cwd: Path | None = None) -> float:
        return timed("git", *words, cwd=cwd or self.project, env=self.env)


def through_git(place: Place, ours: str, theirs: str, rounds: int) -> dict[str, float]:
    rows: dict[str, list[float]] = {}
    place.run("save", "first")
    place.run("remote", "add", "hub", ours)
    rows["mulligan push, first"] = [place.run("push", "hub")]
    place.run("clone", ours, place.copy, cwd=place.base, XDG_STATE_HOME=str(place.base / "s2"))
    shadow = place.base / "shadow.git"
    where = (f"--git-dir={shadow}", f"--work-tree={place.project}")
    place.git("init", "-q", "--bare", shadow)
    place.git(*where, "add", "-A")
    place.git(*where, "commit", "-qm", "0")
    rows["git push, first"] = [place.git(*where, "push", "-q", theirs, "HEAD:refs/heads/main")]
    place.git("clone", "-q", "--bare", theirs, place.base / "fetched.git")
    for _ in range(rounds):
        place.edit()
        place.run("save")
        place.git(*where, "commit", "-qam", "one more")
        rows.setdefault("mulligan push, one more", []).append(place.run("push", "hub"))
        rows.setdefault("git push, one more", []).append(
            place.git(*where, "push", "-q", theirs, "HEAD:refs/heads/main")
        )
        pulled = place.run("pull", cwd=place.copy, XDG_STATE_HOME=str(place.base / "s2"))
        rows.setdefault("mulligan pull, one more", []).append(pulled)
        fetched = place.git("fetch", "-q", theirs, "main:main", cwd=place.base / "fetched.git")
        rows.setdefault("git fetch, one more", []).append(fetched)
    return {name: statistics.median(values) for name, values in rows.items()}


def through_bucket(place: Place, variables: dict[str, str], rounds: int) -> dict[str, float]:
    place.env |= variables
    rows: dict[str, list[float]] = {}
    place.run("remote", "add", "bucket", "s3://bucket/mulligan")
    rows["mulligan push to S3, first"] = [place.run("push", "bucket")]
    restic = shutil.which("restic")
    env = {**place.env, "RESTIC_PASSWORD": "x", "AWS_DEFAULT_REGION": "us-east-1", "RESTIC_REPOSITORY": f"s3:{variables['AWS_ENDPOINT_URL']}/bucket/restic"}  # fmt: skip
    if restic:
        timed(restic, "init", "-q", cwd=place.project, env=env)
        rows["restic backup to S3, first"] = [timed(restic, "backup", "-q", ".", cwd=place.project, env=env)]
    for _ in range(rounds):
        place.edit()
        saved = place.run("save")
        rows.setdefault("mulligan save and push to S3, one more", []).append(saved + place.run("push", "bucket"))
        if restic:
            rows.setdefault("restic backup to S3, one more", []).append(
                timed(restic, "backup", "-q", ".", cwd=place.project, env=env)
            )
    return {name: statistics.median(values) for name, values in rows.items()}


def long_history(base: Path, server: str, length: int) -> dict[str, float]:
    """The first push and the clone of many checkpoints of a small project."""
    import mulligan

    project = base / "long"
    project.mkdir()
    for number in range(100):
        (project / f"f{number}").write_text(str(number))
    place = Place(base / "home", 0)
    place.base.mkdir(parents=True, exist_ok=True)
    store = base / "long.store"
    with mulligan.open(project, store=store) as ws:
        for number in range(length):
            (project / f"f{number % 100}").write_text(f"{number} changed")
            ws.save(f"c{number}")
    pushed = place.run("--store", store, "remote", "add", "hub", f"{server}/l.git", cwd=project)
    pushed = place.run("--store", store, "push", cwd=project)
    cloned = place.run("clone", f"{server}/l.git", base / "long-copy", cwd=base, XDG_STATE_HOME=str(base / "s3"))
    return {f"mulligan push of {length} checkpoints": pushed, f"mulligan clone of {length} checkpoints": cloned}


def lazy_clone(base: Path, server: str, variables: dict[str, str], length: int, rounds: int) -> list[str]:
    """A clone and a lazy clone of many checkpoints, and one restore after it: seconds and bytes on the wire."""
    import mulligan

    project, store = base / "lazy", base / "lazy.store"
    project.mkdir()
    for number in range(100):
        (project / f"f{number}").write_text(os.urandom(3000).hex())
    place = Place(base / "lazy-home", 0)
    place.base.mkdir(parents=True, exist_ok=True)
    place.env |= variables
    ways = {"git": f"{server}/p.git", "encrypted git": f"{server}/e.git", "object store": "s3://bucket/lazy"}
    for name, url in ways.items():
        place.run("--store", store, "remote", "add", name.replace(" ", "-"), url, "--as", "laptop", *(["--encrypt"] * (name != "git")), cwd=project)  # fmt: skip
    with mulligan.open(project, store=store) as ws:
        for number in range(length):
            (project / f"f{number % 100}").write_text(os.urandom(3000).hex())
            ws.save(f"c{number}")
            if number % 50 == 49:
                for name in ways:
                    place.run("--store", store, "push", name.replace(" ", "-"), cwd=project)
    lines = []
    git, s3 = (int(text.rpartition(":")[2]) for text in (server, variables["AWS_ENDPOINT_URL"]))
    for name, url in ways.items():
        with cutter(git if name != "object store" else s3) as relay:
            place.env["AWS_ENDPOINT_URL"] = f"http://127.0.0.1:{relay.port}"
            address = url.replace(f":{git}/", f":{relay.port}/")
            for what, words in {"clone": (), "clone --lazy": ("--lazy",)}.items():
                found: list[tuple[float, int]] = []
                for at in range(rounds):
                    copy, before = base / f"{name}-{what}-{at}".replace(" ", "-"), relay.bytes
                    seconds = place.run("clone", *words, address, copy, cwd=base, XDG_STATE_HOME=f"{copy}.state")
                    found.append((seconds, relay.bytes - before))
                seconds, size = (statistics.median(row[at] for row in found) for at in (0, 1))
                lines.append(
                    f"{name}: {what} of {length} checkpoints".ljust(50)
                    + f"{1000 * seconds:9.0f} ms {size / 1000:9.0f} kB"
                )
            before = relay.bytes
            seconds = place.run("restore", f"laptop:c{length // 2}", "-y", cwd=copy, XDG_STATE_HOME=f"{copy}.state")
            lines.append(f"{name}: restore of an old one after it".ljust(50) + f"{1000 * seconds:9.0f} ms {(relay.bytes - before) / 1000:9.0f} kB")  # fmt: skip
    return lines


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--history", type=int, default=1000)
    parser.add_argument("--only", choices=("daemon", "http", "bucket", "history", "lazy"))
    args = parser.parse_args()
    # Git may still tidy up in the background when the directory goes.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        base = Path(name)
        for each in ("m", "g", "l", "p", "e"):
            bare_repository(base / "srv" / f"{each}.git")
        with git_daemon(base / "srv") as server, object_store() as variables:
            if args.only in (None, "daemon", "bucket"):
                place = Place(base / "work", args.files)
                show("git daemon", through_git(place, f"{server}/m.git", f"{server}/g.git", args.rounds))
            if args.only in (None, "bucket"):
                show("object store", through_bucket(place, variables, args.rounds))
            if args.only in (None, "history") and args.history:
                show("long history", long_history(base, server, args.history))
            if args.only in (None, "lazy") and args.history:
                print(*lazy_clone(base, server, variables, args.history, args.rounds), sep="\n", flush=True)
        if args.only in (None, "http"):
            bare_repository(base / "http" / "srv" / "g.git", "http.receivepack=true")
            with git_over_http(base / "http") as address:
                url = address.replace("http://", "http://anna:pw@")
                place = Place(base / "work2", args.files)
                show("git over HTTP", through_git(place, url, url.replace("t.git", "g.git"), args.rounds))


def show(what: str, found: dict[str, float]) -> None:
    """Prints what was measured."""
    print(what)
    for row, seconds in found.items():
        print(f"  {row:45s} {1000 * seconds:9.0f} ms", flush=True)


if __name__ == "__main__":
    main()
