"""
Copies a store file by file while somebody saves, restores and tidies in it, as rsync would, and opens each copy.

    python tests/proofs/hostile/live_copy.py [--size N] [--seed N]

A copy whose files are of different instants is whole, or it is recognised: `check` says what is wrong with it or the store
says that it cannot be used, `doctor` makes what can be made of it, and then all that it lists can be read. Whatever a copy
hands out was saved under that name: every file carries the name of its checkpoint and a digest of itself.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import random
import shutil
import signal
import sys
from contextlib import suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "support"))

import mulligan
from checker import judge
from tally import Tally, parser, workplace

FILES = 6


def content(name: str, path: str) -> bytes:
    """What a file holds at a checkpoint: it says so itself."""
    text = f"{name} {path} " * 20
    return f"{text}{hashlib.sha1(text.encode()).hexdigest()}".encode()


def told(data: bytes) -> str:
    """The checkpoint that a file says it is of; empty if it was never written so."""
    name, path = data.decode("ascii", "replace").split(" ")[:2] if data.count(b" ") > 1 else ("", "")
    return name if content(name, path) == data else ""


def at_work(project: Path, store: Path, seed: int) -> None:
    """Saves, restores, deletes and tidies until it is killed."""
    chance = random.Random(seed)
    with mulligan.open(project, store=store) as ws:
        for number in itertools.count():
            name = f"n{number}"
            for path in chance.sample(range(FILES), 3):
                (project / str(path)).write_bytes(content(name, str(path)))
            ws.save(name, kind=chance.choice(["manual", "step"]))
            how = chance.randrange(12)
            names = [cp.name for cp in ws.log(limit=20) if cp.name]
            with suppress(mulligan.MulliganError):
                if how == 0:
                    ws.prune()
                elif how == 1:
                    ws.restore(chance.choice(names))
                elif how == 2:
                    ws.undo()
                elif how < 5 and len(names) > 15:
                    ws.delete(names[-1])
            if number % 40 == 0:
                ws.close()  # SQLite folds its log into the database


def copied(store: Path, copy: Path, chance: random.Random) -> None:
    """Copies what is listed, in any order, in pieces; what has gone meanwhile is left out."""
    shutil.rmtree(copy, ignore_errors=True)
    paths = [path.relative_to(store) for path in store.rglob("*")]
    copy.mkdir(mode=0o700)
    for path in paths:
        with suppress(OSError):
            if (store / path).is_dir():
                (copy / path).mkdir(mode=0o700, parents=True, exist_ok=True)
    files = [path for path in paths if not (copy / path).is_dir()]
    chance.shuffle(files)
    for path in files:
        with suppress(FileNotFoundError), open(store / path, "rb") as source:
            fd = os.open(copy / path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            while piece := source.read(chance.choice([512, 4096, 1 << 16])):
                os.write(fd, piece)
            os.close(fd)


def reads(ws) -> list[str]:
    """Every file of every checkpoint that a copy lists: what is wrong with those that it hands out."""
    wrong, unread = [], 0
    for cp in ws.log():
        for path in range(FILES):
            try:
                data = ws.cat(cp, str(path))
            except mulligan.UserError:
                continue  # this checkpoint has no such file
            except mulligan.StoreDamaged:
                unread += 1
                continue
            if not told(data):
                wrong.append(f"{cp.id}:{path} was never written")
    return [*wrong, *([f"{unread} files cannot be read"] if unread else [])]


def trial(project: Path, copy: Path, tally: Tally, *, thorough: bool) -> list[str]:
    """Opens a copy; what is wrong that nobody recognised."""
    if not (copy / "timeline.db").exists() and not any((copy / "refs/checkpoints").glob("*")):
        tally.counts["before_the_first_checkpoint"] += 1
        return []
    try:
        with mulligan.open(project, store=copy) as ws:
            found = [f"{problem.kind} {problem.detail}" for problem in ws.check().problems]
            wrong = reads(ws)
    except mulligan.MulliganError as error:
        found, wrong = [error.message], []
    except Exception as error:  # noqa: BLE001 - a bare error is what is looked for
        return [f"a bare error: {type(error).__name__}: {error}"]
    if not found:
        tally.counts["whole"] += 1
        return wrong + (judge(copy, at_rest=False) if thorough else [])
    tally.counts["recognised"] += 1
    wrong = [line for line in wrong if "never written" in line]
    try:
        with mulligan.open(project, store=copy) as ws:
            left = ws.doctor().problems
            after = reads(ws)
    except mulligan.MulliganError as error:
        return [*wrong, f"the doctor refuses: {error.message} (before: {found[:2]})"]
    tally.counts["made_whole" if not left else "made_usable"] += 1
    return wrong + ([] if left else after)


def main() -> int:
    """Runs the copies against a process at work."""
    given = parser(__doc__, 500).parse_args()
    tally = Tally("live copies", given.size, enough=given.enough)
    with workplace(given.base) as place:
        project, store, chance = place / "project", place / "store", random.Random(given.seed)
        project.mkdir()
        pid = os.fork()
        if not pid:
            try:
                at_work(project, store, given.seed)
            finally:
                os._exit(1)
        try:
            while not tally.over:
                if os.waitpid(pid, os.WNOHANG) != (0, 0):
                    tally.broke("whoever was at work is gone")
                    break
                if store.exists():
                    copied(store, place / "copy", chance)
                    wrong = trial(project, place / "copy", tally, thorough=tally.tried % 10 == 0)
                    tally.did()
                    tally.broke(wrong[:3])
        finally:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)
        return tally.end()


if __name__ == "__main__":
    sys.exit(main())
