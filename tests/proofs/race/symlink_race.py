"""
A symlink swapper against restores and captures: two attackers inside the workspace, sentinels outside.

    python tests/proofs/race/symlink_race.py [--size N] [--mode executor|engine|capture] [--build NAME]

Directories turn into links to the outside and back, so do files, and a parent is moved out of the root and back, as fast as
the kernel renames. One path restored, or one file captured, under that is one attempt. Nothing outside may be opened, read,
written, made or removed (watched by inotify and compared byte by byte), and no byte of it may reach the store.
`--build` runs a build with one defence removed: the exit code must be 1.

Not an escape: a directory that was moved out while it is open stays what it was, and is written to where it now lies.
"""

from __future__ import annotations

import os
import random
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "support"))

from swapper import EXCHANGE, Attackers, Pair, Watch, can_exchange

import mulligan
from checker import batch_objects
from loose_builds import BUILDS
from mulligan.model.objects import BLOB, MODE_DIR, MODE_LINK, object_id
from mulligan.model.plan import Action, Node
from mulligan.model.policy import CapturePolicy
from mulligan.restore.apply import Executor
from mulligan.restore.place import Handles
from mulligan.restore.stage import Layout, Stager
from mulligan.safefs import syscalls
from mulligan.safefs.directory import Directory
from mulligan.scan.cache import Cache
from mulligan.scan.ignore import IgnoreRules
from mulligan.scan.scope import Scope, nothing_tracked
from mulligan.scan.trees import HashOnly
from mulligan.scan.walk import Options, walk
from tally import Tally, cannot, parser, workplace
from tree import put, snapshot

MARK = b"never to be seen inside"
OLD, NEW = b"old bytes\n" * 40, b"new bytes\n" * 50
_FILES = 6
_FOLDERS = ("d0", "d1", "d2", "m0/deep")
Plan = tuple[Action, ...]


class Scene:
    """A workspace with traps in it, and what the traps lead to."""

    def __init__(self, place: Path) -> None:
        self.root, self.outside, self.away, self.store = (place / n for n in ("project", "outside", "away", "store"))
        names = [f"f{number}" for number in range(_FILES)] + ["sub/g", "c"]
        for folder in (*_FOLDERS, "flat"):
            for name in names:
                put(self.root, f"{folder}/{name}", OLD)
                put(self.outside, f"{folder}/{name}", MARK + name.encode(), perm=0o640)
        put(self.away, "theirs", MARK, perm=0o640)
        traps = [f"d{number}" for number in range(3)] + [f"flat/f{number}" for number in range(_FILES)]
        for path in traps:
            (self.root / f"{path}.trap").symlink_to(self.outside / path)
        put(self.root, ".gitignore", "*.trap\n")
        pairs: list[Pair] = [
            (os.fsencode(self.root / path), os.fsencode(self.root / f"{path}.trap"), EXCHANGE) for path in traps
        ]
        out = (os.fsencode(self.root / "m0"), os.fsencode(self.away / "m0"), 0)
        self.attackers = Attackers([[*pairs[:3], out], [*pairs[3:], *pairs[:3]]])
        self.before = self._outside()
        self._watches = [Watch(self.outside), Watch(self.away, moves=False)]

    def _outside(self) -> list[object]:
        return [snapshot(self.outside), {p: e for p, e in snapshot(self.away).items() if not p.startswith("m0")}]

    def escapes(self) -> list[str]:
        """What happened outside since the last time."""
        return [event for watch in self._watches for event in watch.events() if not event.startswith("away/m0 ")]

    def end(self) -> list[str]:
        """What happened outside after all, seen by the watch or by its traces."""
        found = self.escapes()
        return found + (["the sentinels are not what they were"] if self._outside() != self.before else [])


# -- one path, by the executor alone --------------------------------------------------------------------------


class Blobs:
    """A store of two files."""

    def __init__(self, *contents: bytes) -> None:
        self._held = {object_id(BLOB, content): content for content in contents}

    def read(self, oid: bytes, _kind: bytes) -> bytes:
        return self._held[oid]

    def stream(self, oid: bytes) -> Iterator[bytes]:
        yield self._held[oid]

    def read_up_to(self, oid: bytes, _most: int) -> bytes:
        return self._held[oid]

    def is_private(self, _oid: bytes) -> bool:
        return False


def file(content: bytes, perm: int = 0o644) -> Node:
    return Node(0o100644, object_id(BLOB, content), perm)


def both_ways() -> list[tuple[Plan, Plan]]:
    """Small plans, each with the one that takes it back: every kind of step, at and below every trap."""
    link, folder = Node(MODE_LINK, object_id(BLOB, OLD)), Node(MODE_DIR, perm=0o755)
    there = []
    for name in (*_FOLDERS, "flat"):
        base = name.encode()
        there += [(Action(base + b"/f%d" % number, file(OLD), file(NEW)),) for number in range(_FILES)]
        there += [
            (Action(base + b"/sub/g", file(OLD), file(NEW)),),
            (Action(base + b"/c", file(OLD), file(OLD, 0o600)),),
        ]
        there += [(Action(base + b"/new", None, file(NEW)),), (Action(base + b"/link", None, link),)]
        there += [(Action(base + b"/made", None, folder), Action(base + b"/made/x", None, file(NEW)))]
    return [(plan, tuple(Action(a.path, a.after, a.before) for a in plan)) for plan in there]


class Victim:
    """Restores single paths, back and forth, whatever became of the last try."""

    def __init__(self, root: Path, tally: Tally) -> None:
        self._root = Directory.open(root)
        self._blobs = Blobs(OLD, NEW)
        self._tally = tally
        self._number = 0

    def restore(self, plan: Plan) -> str:
        """One attempt: `done`, `kept`, `refused` before anything changed, or `stale` because the path is elsewhere already."""
        self._number += 1
        staged, handles, layout = Handles(self._root), Handles(self._root), Layout(plan)
        token = f"{self._number:x}"
        stager = Stager(self._root, staged, self._blobs, token, layout)
        # Nothing is remembered, so that every path is compared by its bytes: more to attack.
        executor = Executor(self._root, handles, token, layout)
        try:
            try:
                stage = stager.stage(layout.staged)
                stale = bool(executor.surprises())
            except (mulligan.MulliganError, OSError):
                stager.clear()
                return "refused"
            if stale:
                stager.clear()
                return "stale"
            return "kept" if executor.run(stage).kept else "done"
        finally:
            staged.close()
            handles.close()

    def reset(self, path: bytes) -> None:
        """Takes a path to where its plans begin, by descriptors that no link leads astray, if it is there at this moment."""
        folder, _, name = path.rpartition(b"/")
        with suppress(OSError), self._root.descend(folder) as directory:
            for other in directory.names():
                if b".kept-" in other or other.startswith(b".mulligan-"):
                    self._tally.counts["set_aside"] += 1
                    directory.unlink(other)
            if name in {b"new", b"link", b"x"}:
                directory.unlink(name, missing_ok=True)
            elif name == b"made":
                directory.rmdir(name)
            elif stat.S_ISREG(directory.stat(name).st_mode):
                handle = os.open(name, os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW, dir_fd=directory.fd)
                os.write(handle, OLD)
                os.fchmod(handle, 0o644)
                os.close(handle)


def by_executor(scene: Scene, tally: Tally, rng: random.Random, build: str) -> None:
    """Restores path after path while the attackers run."""
    plans, at, failed = both_ways(), {}, {}
    victim = Victim(scene.root, tally)
    with scene.attackers, syscalls.using(BUILDS[build]()):
        while not tally.over:
            number = rng.randrange(len(plans))
            plan = plans[number][at.get(number, 0)]
            became = victim.restore(plan)
            tally.did(len(plan), **{became: len(plan)})
            failed[number] = 0 if became == "done" else failed.get(number, 0) + 1
            if became in {"done", "stale"}:
                at[number] = 1 - at.get(number, 0)
            if failed[number] > 5:
                for action in reversed(plan):
                    victim.reset(action.path)
                at[number] = failed[number] = 0
            if not tally.tried & 63:
                tally.broke(scene.escapes())


# -- captures -----------------------------------------------------------------------------------------------------


class Looking(HashOnly):
    """A sink that knows what must not come in."""

    def __init__(self) -> None:
        self.taken = self.strange = 0

    def add_hashed(self, oid: bytes, kind: bytes, data: bytes) -> None:
        self.taken += 1
        self.strange += MARK in data


def by_capture(scene: Scene, tally: Tally, _rng: random.Random, build: str) -> None:
    """Scans the whole workspace again and again while the attackers run, remembering nothing."""
    root = Directory.open(scene.root)
    scope = Scope(CapturePolicy(), IgnoreRules.base(), nothing_tracked())
    with scene.attackers, syscalls.using(BUILDS[build]()):
        while not tally.over:
            sink = Looking()
            scan = walk(root, Cache(), Options(scope, sink, time.time_ns))
            tally.did(sink.taken + len(scan.missed), scans=1, not_captured=len(scan.missed))
            tally.broke(scene.escapes())
            tally.broke([f"{sink.strange} captured files are of the outside"] if sink.strange else [])


# -- the whole engine ------------------------------------------------------------------------------------------------


def disturb(root: Directory, number: int) -> None:
    """Gives the next restore something to do, by descriptors that no link leads astray."""
    for folder in (b"d0", b"d1", b"d2", b"flat", b"m0/deep"):
        with suppress(OSError), root.descend(folder) as directory:
            for name, flags in ((b"f%d" % (number % _FILES), os.O_TRUNC), (b"more%d" % number, os.O_CREAT)):
                handle = os.open(name, os.O_WRONLY | os.O_NOFOLLOW | flags, 0o644, dir_fd=directory.fd)
                os.write(handle, b"%d" % number)
                os.close(handle)


def by_engine(scene: Scene, tally: Tally, _rng: random.Random, build: str) -> None:
    """Saves and restores through the front door; every path that a report names is an attempt, a refusal is one too."""
    with mulligan.open(scene.root, store=scene.store) as ws, Directory.open(scene.root) as root:
        ws.save("base")
        with scene.attackers, syscalls.using(BUILDS[build]()):
            number = 0
            while not tally.over:
                number += 1
                disturb(root, number)
                try:
                    report = ws.restore("base")
                except mulligan.MulliganError as error:
                    tally.did(1, refused=1, **{type(error).__name__: 1})
                else:
                    done = len(report.created) + len(report.modified) + len(report.deleted)
                    tally.did(max(1, done + len(report.kept)), done=done, kept=len(report.kept))
                tally.broke(scene.escapes())
    strange = [name for name, _kind, content in batch_objects(scene.store) if MARK in content]
    tally.broke([f"object {name} is of the outside" for name in strange])


MODES = {"executor": by_executor, "engine": by_engine, "capture": by_capture}


def main() -> int:
    """Runs one mode against one build."""
    options = parser(__doc__, 20_000)
    options.add_argument("--mode", choices=MODES, default="executor")
    options.add_argument("--build", choices=BUILDS, default="real")
    given = options.parse_args()
    with workplace(given.base) as place:
        if not can_exchange(place):
            return cannot("names cannot be exchanged on this file system")
        scene, tally = (
            Scene(place),
            Tally(f"symlink race, {given.mode}, {given.build} build", given.size, enough=given.enough),
        )
        MODES[given.mode](scene, tally, random.Random(given.seed), given.build)
        tally.broke(scene.end())
        return tally.end()


if __name__ == "__main__":
    sys.exit(main())
