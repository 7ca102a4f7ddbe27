"""
Thousands of random restores in workspaces full of bystanders; nothing but what the plan names may change.

    python tests/proofs/bystanders/bystander_walk.py [--size RESTORES] [--seed N] [--build NAME] [--as-user]

Before and after each restore (whole, of some paths, undo, redo, now and then with git) everything is photographed: bytes,
modes, times, inodes, owners. What changed must be named by the report, and by the plan that was made before; bytes that are
gone must be in the store, asked of plain git; bystanders and everything outside are exactly as they were; an undo brings back
kinds, modes, bytes and links exactly. A restore that is refused has changed nothing.
`--as-user` gives up root after the workspace was made, so that some of it belongs to somebody else.
"""

from __future__ import annotations

import ast
import codecs
import hashlib
import importlib
import json
import os
import random
import shutil
import subprocess
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "support"))

import pyrage
from world import CONFIG, Album, Photo, World, album, is_bystander, own_mounts

import mulligan
from checker import batch_objects, judge
from loose_builds import BUILDS
from mulligan.safefs import syscalls
from mulligan.settings import places
from tally import Tally, cannot, parser, workplace
from tools import git_environment
from tree import put

_PER_EPISODE = 60
_NOBODY = 65534
#: What the one door to `.git` may change, when it was asked to.
_GIT_MOVES = ("HEAD", "index", "logs", "refs", "packed-refs", "ORIG_HEAD")


class Held:
    """What the store holds, asked of one long-lived plain git; what is sealed, of age."""

    def __init__(self, store: Path) -> None:
        self._store, self._opened = store, dict[str, bytes]()
        self._git = subprocess.Popen(
            ["git", "--git-dir", os.fspath(store), "-c", "safe.directory=*", "cat-file", "--batch-check"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=git_environment(),
        )  # fmt: skip

    def has(self, content: bytes) -> bool:
        """Whether these bytes are an object of the store, plain or sealed."""
        assert self._git.stdin is not None and self._git.stdout is not None
        self._git.stdin.write(hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest().encode() + b"\n")
        self._git.stdin.flush()
        return b"missing" not in self._git.stdout.readline() or content in self._sealed()

    def _sealed(self) -> set[bytes]:
        """The contents of everything that is sealed, each opened once."""
        for oid, _kind, data in batch_objects(self._store):
            if data.startswith(b"age-encryption.org/v1\n") and oid not in self._opened:
                keys = [path.read_text().strip() for path in Path(places().keys).iterdir() if path.name != "default"]
                self._opened[oid] = pyrage.decrypt(data, list(map(pyrage.x25519.Identity.from_str, keys)))
        return {*self._opened.values()}

    def close(self) -> None:
        """Ends git."""
        self._git.communicate()


class Walk:
    """One workspace and its restores."""

    def __init__(self, place: Path, world: World, tally: Tally, build: str) -> None:
        self.world, self.tally, self.build = world, tally, build
        self.store = place / "store"
        self.ws = mulligan.open(world.root, store=self.store)
        self.saved: dict[str, Album] = {}
        self.save()
        self.held = Held(self.store)

    def save(self) -> None:
        now = album(self.world.root)
        checkpoint = self.ws.save(git=self.world.with_git)
        self.saved[checkpoint.id] = now

    def run(self, restores: int) -> None:
        """Edits, saves and restores until so many restores were tried."""
        rng, aim = self.world.rng, self.tally.tried + restores
        while self.tally.tried < aim:
            for _ in range(rng.randrange(5)):
                self.world.act()
            if self.world.with_git and rng.random() < 0.15:
                self.world.commit()
            if rng.random() < 0.3:
                self.save()
            self.round()
        with suppress(mulligan.MulliganError):
            self.ws.save("end")
        self.tally.broke(judge(self.store, self.world.root, with_fsck=False))

    def round(self) -> None:
        """One restore of some kind, often taken back at once."""
        rng = self.world.rng
        ref = rng.choice(list(self.saved))
        roll = rng.random()
        if roll < 0.15:
            self.judged("undo", self.ws.undo)
        elif roll < 0.25:
            self.judged("redo", self.ws.redo)
        elif roll < 0.5:
            paths = self.some_paths(ref)
            self.and_back("paths", lambda: self.ws.restore(ref, paths=paths), ref, paths)
        elif self.world.with_git and roll < 0.7:
            self.and_back("git", lambda: self.ws.restore(ref, git=True), ref)
        else:
            self.and_back("whole", lambda: self.ws.restore(ref), ref)

    def some_paths(self, ref: str) -> list[str]:
        """Paths of the checkpoint or of the workspace; a bystander among them now and then."""
        known = sorted(self.saved[ref].keys() | album(self.world.root).keys())
        fine = [path for path in known if not path.startswith(".git") and "/.git" not in path]
        return self.world.rng.sample(fine, min(len(fine), self.world.rng.randrange(1, 5)))

    def and_back(self, what: str, restore: Callable[[], Any], ref: str, paths: list[str] | None = None) -> None:
        """A restore; if it changed something, an undo, which must be exact, and perhaps the redo of it."""
        planned = self.planned(ref, paths, git=what == "git")
        before = album(self.world.root)
        changed = self.judged(what, restore, planned)
        if not changed or self.world.rng.random() < 0.4:
            return
        after = album(self.world.root)
        self.judged("undo", self.ws.undo)
        self.same(f"undo of {what}", album(self.world.root), before)
        if self.world.rng.random() < 0.3:
            self.judged("redo", self.ws.redo)
            self.same(f"redo of {what}", album(self.world.root), after)

    def planned(self, ref: str, paths: list[str] | None, *, git: bool) -> set[str] | None:
        """The paths that a plan, made before, names."""
        try:
            plan = self.ws.plan(ref, paths=paths, git=git)
        except mulligan.MulliganError:
            return None
        return {os.fsdecode(action.path) for action in plan.actions}

    def same(self, what: str, now: Album, then: Album) -> None:
        """Insists on kinds, modes, bytes and links."""
        differing = [p for p in now.keys() | then.keys() if _promised(now.get(p)) != _promised(then.get(p))]
        differing = [path for path in differing if not path.startswith(".git/")]
        self.tally.broke([f"{what} is not exact: {p!r} {_told(then.get(p))} is {_told(now.get(p))}" for p in differing])

    def judged(self, what: str, act: Callable[[], Any], planned: set[str] | None = None) -> bool:
        """One restore, with everything compared before and after; returns whether anything changed."""
        before, outside = album(self.world.root), album(self.world.outside)
        refused = ""
        report = mulligan.RestoreReport("")
        try:
            with syscalls.using(BUILDS[self.build]()):
                report = act()
        except mulligan.MulliganError as error:
            refused = type(error).__name__
        after = album(self.world.root)
        self.tally.did(1, **{what: 1, **({"refused": 1, refused: 1} if refused else {})})
        wrong = [
            f"outside: {p!r} {_told(outside.get(p))} is {_told(now)}"
            for p, now in album(self.world.outside).items()
            if now != outside.get(p)
        ]
        wrong += self.unplanned(before, after, report, planned, refused=bool(refused))
        self.tally.broke([f"{what} ({refused or 'done'}): {line}" for line in wrong])
        return any(_promised(before.get(p)) != _promised(after.get(p)) for p in before.keys() | after.keys())

    def unplanned(
        self, before: Album, after: Album, report: Any, planned: set[str] | None, *, refused: bool
    ) -> list[str]:
        """What changed and is not named, and bytes that are nowhere any more; staging may have left a new time."""
        named = {*report.created, *report.modified, *report.deleted}
        wrong = (
            [f"{path!r} was changed and not planned" for path in sorted(named - planned)] if planned is not None else []
        )
        above = {os.path.dirname(path) for path in named}
        for path in list(above):
            while path:
                path = os.path.dirname(path)  # noqa: PLW2901 - every ancestor
                above.add(path)
        for path in sorted(before.keys() | after.keys()):
            old, new = before.get(path), after.get(path)
            if old == new or (path.startswith(".git/") and report.git and path.split("/")[1] in _GIT_MOVES):
                continue
            if path == ".git" and report.git and _but_time(old) == _but_time(new):
                continue
            if old is not None and is_bystander(path, old):
                wrong.append(f"the bystander {path!r} {_told(old)} is {_told(new)}")
            elif path not in named and not ((path in above or refused) and _is_frame(old, new)):
                wrong.append(f"{path!r} {_told(old)} is {_told(new)}, and was not named")
            elif old is not None and old.kind in {"file", "link"} and _content(old) != _content(new):
                wrong += [] if self.held.has(old.content) else [f"the bytes of {path!r} are in no checkpoint"]
            if old is not None and new is not None and old.kind == new.kind == "file" and old.owner != new.owner:
                told = any(keep.path == path for keep in report.kept)
                wrong += [] if told else [f"{path!r} belongs to {new.owner}, not {old.owner}"]
        return wrong


def _promised(photo: Photo | None) -> object:
    return photo.promised if photo is not None else None


def _content(photo: Photo | None) -> object:
    return (photo.kind, photo.content) if photo is not None else None


def _but_time(photo: Photo | None) -> object:
    return photo._replace(mtime_ns=0) if photo is not None else None


def _is_frame(old: Photo | None, new: Photo | None) -> bool:
    """A directory that comes, goes or has a new time because of what is in it."""
    if old is None or new is None:
        return (old or new or Photo("", 0, b"", 0, 0, (0, 0))).kind == "dir"
    return old.kind == "dir" and _but_time(old) == _but_time(new)


def _told(photo: Photo | None) -> str:
    if photo is None:
        return "(nothing)"
    return f"({photo.kind} {photo.mode:o} {photo.content[:12]!r} {photo.mtime_ns % 10**12} inode {photo.ino} of {photo.owner[0]})"


def episode(place: Path, seed: int, options: Any, restores: int) -> dict[str, Any]:
    """One workspace, in a process of its own with mounts of its own; returns its tally."""
    here, there = os.pipe()
    pid = os.fork()
    if not pid:
        code = 1
        try:
            os.close(here)
            _live(place, seed, options, restores, there)
            code = 0
        except BaseException:  # noqa: BLE001 - whatever it was, it is told and the fork ends here
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    os.close(there)
    with open(here, "rb") as pipe:
        said = pipe.read()
    _, status = os.waitpid(pid, 0)
    return (
        json.loads(said)
        if said
        else {"broken": [f"episode {seed} died with status {status}"], "counts": {}, "tried": 0}
    )


def _live(place: Path, seed: int, options: Any, restores: int, there: int) -> None:
    rng = random.Random(seed)
    with_mounts = os.geteuid() == 0 and own_mounts()
    world = World(place, rng, with_git=rng.random() < 0.2)
    tally = Tally("episode", 1 << 60)
    if options.as_user:
        _give_up_root(place)
    Walk(place, world, tally, options.build).run(restores)
    tally.counts.update({"with_git": int(world.with_git), "with_a_mount": int(with_mounts and world.mounted)})
    os.write(there, json.dumps({"broken": tally.broken[:40], "counts": tally.counts, "tried": tally.tried}).encode())


def _import_everything() -> None:
    """Loads all that the package may want later: an ordinary user may not be allowed to read the interpreter's folders."""
    wanted = set()
    for source in Path(mulligan.__path__[0]).rglob("*.py"):
        for node in ast.walk(ast.parse(source.read_bytes())):
            if isinstance(node, ast.Import):
                wanted |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                wanted |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    for name in sorted(wanted):
        with suppress(ImportError):  # what only an extra brings
            importlib.import_module(name)
    for encoding in ("utf-8-sig", "ascii", "latin-1"):
        codecs.lookup(encoding)


def _give_up_root(place: Path) -> None:
    """Gives all but some to nobody, and becomes nobody."""
    for top, folders, files in os.walk(os.fsencode(place)):
        for name in (b".", *folders, *files):
            path = os.path.join(top, name)
            if not os.path.basename(path).startswith((b"h.log", b"theirs")) and os.lstat(path).st_uid == 0:
                os.chown(path, _NOBODY, _NOBODY, follow_symlinks=False)
    os.setgroups([])
    os.setgid(_NOBODY)
    os.setuid(_NOBODY)


def main() -> int:
    """Runs episodes until enough restores were tried."""
    options = parser(__doc__, 100)
    options.add_argument("--build", choices=BUILDS, default="real")
    options.add_argument("--as-user", action="store_true")
    given = options.parse_args()
    tally = Tally(
        f"bystanders, {given.build} build{', as a user' if given.as_user else ''}", given.size, enough=given.enough
    )
    if given.as_user:
        if os.geteuid() != 0:
            return cannot("only root can give up root")
        _import_everything()
    with workplace(given.base) as place:
        os.chmod(place, 0o755)
        put(place, "home/.config/mulligan/config.toml", CONFIG)
        seed = given.seed * 1_000_000
        while not tally.over:
            seed += 1
            folder = place / "episode"
            folder.mkdir()
            said = episode(folder, seed, given, min(_PER_EPISODE, given.size - tally.tried))
            tally.did(said["tried"], episodes=1, **said["counts"])
            tally.broke([f"seed {seed}: {line}" for line in said["broken"]])
            shutil.rmtree(folder)
    return tally.end()


if __name__ == "__main__":
    sys.exit(main())
