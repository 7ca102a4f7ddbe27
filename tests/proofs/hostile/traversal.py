"""
A store that lies, by the thousand: trees whose entries would lead a restore out of the workspace or into a repository.

    python tests/proofs/hostile/traversal.py [--size ENTRIES] [--seed N] [--build NAME]

Each entry is put into the tree of a checkpoint, in the shapes that a tree allows, by a pack that is written here and indexed by
plain git; then the checkpoint is planned, restored, read and compared. An evil entry must be refused by an error that names
it, with nothing changed anywhere; an odd one that is a name like any other comes out exactly where it belongs. Whatever
happens: not a byte outside the workspace and not a byte of `.git` changes. A size of 0 is the whole corpus.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import random
import shutil
import struct
import subprocess
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[2] / "support"))

from test_traversal import rewrite_rows

import mulligan
from loose_builds import replaced
from mulligan.model import objects as model_objects
from tally import Tally, parser, workplace
from tools import git, git_environment
from tree import put, snapshot

FILE, PROGRAM, LINK, TREE = b"100644", b"100755", b"120000", b"40000"
_IGNORED_BY_HFS = [*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF]
_KINDS = {"commit": 1, "tree": 2, "blob": 3}
_SHAPES = ("file", "program", "link", "directory", "empty", "beside", "below", "deep")


class Case(NamedTuple):
    """One entry: its name, the shape it comes in, and whether it must be refused."""

    name: bytes
    shape: str
    evil: bool


def evil_names() -> Iterator[bytes]:
    """Names that lead elsewhere, or are `.git` on some file system."""
    yield from (b"", b".", b"..", b"/", b"//", b"/etc/passwd", b"/abs", b"a/b", b"a//b", b"a/", b"./a", b"../x")
    yield from (b"../" * depth + b"x" for depth in range(2, 12))
    yield from (b"a/" * depth + b"../" * (depth + 1) + b"x" for depth in range(1, 8))
    yield from (b"..//x", b"a/./b", b"a/../../outside/theirs", b"../outside/theirs", b".git/config", b".git/hooks/x")
    dotted = [b"." + bytes(letters) for letters in itertools.product(b"gG", b"iI", b"tT")]
    yield from dotted
    yield from (b"git~%d" % number for number in range(1, 10))
    yield from (b"GIT~1", b"Git~2", b"gIT~3", b"git~10", b"git~123")
    for name, end in itertools.product(dotted[:3], (b".", b" ", b"..", b". ", b" .", b"  ", b". .", b"...")):
        yield name + end
    for name, stream in itertools.product(
        dotted[:3], (b":", b":x", b"::$INDEX_ALLOCATION", b"::$DATA", b" :x", b".:x")
    ):
        yield name + stream
    for code, at in itertools.product(_IGNORED_BY_HFS, range(5)):
        yield ".git"[:at].encode() + chr(code).encode() + ".git"[at:].encode()
    for one, other in itertools.product(_IGNORED_BY_HFS[::5], repeat=2):
        yield (chr(one) + ".g" + chr(other) + "IT").encode()
    yield from (b"x" * 256, b"x" * 1000, b"y" * 4096, b"z" * 70_000)


def odd_names() -> Iterator[bytes]:
    """Names that look dangerous and are none of it on this system."""
    yield from (
        b"...",
        b"....",
        b"..x",
        b"x..",
        b".gitx",
        b"git",
        b"git~",
        b"git~x",
        b".gi",
        b"..git",
        b".git_",
        b".gitignore",
    )
    yield from (
        b"x\r",
        b"\r",
        b"a\rb",
        b"x\n",
        b"\n",
        b"a\tb",
        b"\x01",
        b"\x7f",
        b"x\x1b[2J",
        b"-rf",
        b"--help",
        b"*",
        b"?",
        b"~",
    )
    yield from (
        b"a\\b",
        b"..\\x",
        b"C:",
        b"C:\\x",
        b"con",
        b"nul",
        b"aux.txt",
        b"COM1",
        b"x:y",
        b"x::$DATA",
        b"x ",
        b" x",
        b"x.",
    )
    yield from (
        b"\xff\xfe",
        b"\xc0\xae\xc0\xae",
        b"\xe2\x80\x8c",
        b"\xe2\x80\xaex",
        b"\xf0\x9f\x98\x80",
        b"$(touch x)",
        b"`id`",
        b"|id",
    )
    yield from (
        b"x" * 255,
        b"\xc3\xa9" * 127,
        b"e\xcc\x81",
        b"\xc3\xa9",
        b"%2e%2e",
        b"%00",
        b"file\\0",
        b"'",
        b'"',
        b";id",
        b"&id",
    )


def corpus() -> list[Case]:
    """Every name in every shape."""
    evil = [Case(name, shape, evil=True) for name in dict.fromkeys(evil_names()) for shape in _SHAPES]
    return evil + [Case(name, shape, evil=False) for name in odd_names() for shape in _SHAPES]


# -- objects, made here ---------------------------------------------------------------------------------------------


class Objects:
    """Objects to put into a store, in one pack."""

    def __init__(self) -> None:
        self._held: dict[str, tuple[str, bytes]] = {}

    def add(self, kind: str, content: bytes) -> str:
        """Takes an object, whatever it contains, and returns its id."""
        name = hashlib.sha1(b"%s %d\0" % (kind.encode(), len(content)) + content).hexdigest()
        self._held[name] = kind, content
        return name

    def tree(self, *entries: tuple[bytes, bytes, str]) -> str:
        """Takes a tree of any entries in any order."""
        return self.add("tree", b"".join(m + b" " + n + b"\0" + bytes.fromhex(oid) for m, n, oid in entries))

    def pack_into(self, store: Path) -> None:
        """Writes the pack; plain git makes its index."""
        out = [struct.pack(">4sII", b"PACK", 2, len(self._held))]
        for kind, content in self._held.values():
            size, head = len(content) >> 4, _KINDS[kind] << 4 | len(content) & 15
            while size:
                out.append(bytes([head | 128]))
                head, size = size & 127, size >> 7
            out += [bytes([head]), zlib.compress(content, 1)]
        data = b"".join(out)
        data += hashlib.sha1(data).digest()
        place = store / "objects" / "pack" / f"pack-{data[-20:].hex()}.pack"
        place.write_bytes(data)
        subprocess.run(["git", "index-pack", place], env=git_environment(), stdout=subprocess.DEVNULL, check=True)
        for path in place.parent.iterdir():
            path.chmod(0o600)


class Victim:
    """A workspace with a repository and neighbours, and one checkpoint whose tree is exchanged again and again."""

    def __init__(self, place: Path) -> None:
        self.place, self.project, self.store = place, place / "project", place / "store"
        git("init", "-q", self.project)
        put(self.project, "a", "1")
        put(place, "outside/theirs", "theirs")
        with mulligan.open(self.project, store=self.store) as ws:
            self.cp = ws.save("one")
        there = f"--git-dir={self.store}"
        self.root = git(there, "rev-parse", f"{self.cp.commit}^{{tree}}").decode().strip()
        self.files = git(there, "rev-parse", f"{self.cp.commit}:files").decode().strip()
        self.commit = git(there, "cat-file", "commit", self.cp.commit)
        raw = git(there, "cat-file", "tree", self.root)
        self.entries = []
        while raw:
            mode, _, rest = raw.partition(b" ")
            name, _, rest = rest.partition(b"\0")
            self.entries.append((mode, name, rest[:20].hex()))
            raw = rest[20:]
        self.now = {self.cp.commit: self.cp.commit, self.root: self.root, self.files: self.files}

    def plant(self, objects: Objects, case: Case) -> dict[str, str]:
        """Makes the objects of a checkpoint with this entry in it; returns what to put in the place of what."""
        blob = objects.add("blob", b"#!/bin/sh\necho owned\n")
        away = objects.add("blob", os.fsencode(self.place / "outside"))
        inner = objects.tree((FILE, b"theirs", blob), (FILE, b"x", blob))
        single = {"file": (FILE, blob), "beside": (FILE, blob), "program": (PROGRAM, blob), "link": (LINK, away)}
        mode, target = single.get(case.shape, (TREE, objects.tree() if case.shape == "empty" else inner))
        entries = [(mode, case.name, target)]
        if case.shape == "beside":  # honest ones before and after: none of them may be written either
            entries = [(FILE, b" honest", blob), *entries, (FILE, b"~~honest", blob)]
        files = objects.tree(*sorted(entries, key=lambda entry: entry[1]))
        for _ in range({"below": 1, "deep": 5}.get(case.shape, 0)):
            files = objects.tree((TREE, b"sub", files))
        root = objects.tree(*((m, n, files if n == b"files" else oid) for m, n, oid in self.entries))
        commit = objects.add("commit", self.commit.replace(self.root.encode(), root.encode()))
        return {self.cp.commit: commit, self.root: root, self.files: files}

    def become(self, planted: dict[str, str]) -> None:
        """Lets the checkpoint be another one, in row and ref alike."""
        rewrite_rows(self.store, {self.now[real]: fake for real, fake in planted.items()})
        ref = self.store / "refs" / "checkpoints" / self.cp.id
        ref.write_text(planted[self.cp.commit] + "\n")
        self.now = planted

    def outside(self) -> dict[str, Any]:
        """Everything that no restore may change."""
        found = snapshot(self.place, skip=frozenset({"store", "home"}))
        return {p: e for p, e in found.items() if p.split("/")[0] != "project" or p.split("/")[1:2] == [".git"]}

    def inside(self) -> dict[str, Any]:
        """What lies in the workspace, without times."""
        found = snapshot(self.project, skip=frozenset({".git"}))
        return {path: (entry.kind, entry.content) for path, entry in found.items()}


def where(case: Case) -> str:
    """Where an odd entry belongs."""
    folder = {"below": "sub/", "deep": "sub/" * 5}.get(case.shape, "")
    below = "/theirs" if case.shape in {"directory", "below", "deep"} else ""
    return folder + os.fsdecode(case.name) + below


def attempt(victim: Victim, case: Case, tally: Tally) -> None:
    """One entry through every door that reads trees."""
    outside, inside = victim.outside(), victim.inside()
    errors: list[str] = []
    with mulligan.open(victim.project, store=victim.store) as ws:
        for act in (lambda: ws.plan("one"), lambda: ws.diff("one"), lambda: ws.restore("one")):
            try:
                act()
            except (mulligan.UnsafePath, mulligan.StoreDamaged) as error:
                errors.append(str(error))
            except mulligan.MulliganError as error:
                tally.broke(f"{case}: {type(error).__name__}: {error}")
    after = victim.inside()
    tally.did(1, **{"evil" if case.evil else "odd": 1, f"as_a_{case.shape}": 1})
    if victim.outside() != outside:
        tally.broke(f"{case} changed something outside, or in .git")
    if case.evil:
        tally.counts["refusals"] += len(errors)
        tally.broke([] if len(errors) == 3 else [f"{case} was refused by {len(errors)} of 3 doors"])
        tally.broke([] if after == inside else [f"{case} was refused, and changed the workspace"])
    else:
        there = after.get(where(case), ("nothing", b""))
        tally.broke(errors[:1] and [f"{case} is a name like any other and was refused: {errors[0]}"])
        wanted = {"link": "link", "empty": "dir"}.get(case.shape, "file")
        tally.broke([] if there[0] == wanted else [f"{case}: {where(case)!r} is {there[0]}"])
        with mulligan.open(victim.project, store=victim.store) as ws:
            ws.undo()
        tally.broke([] if victim.inside() == inside else [f"{case}: undo did not bring everything back"])


#: The build that believes whatever a tree says.
BUILDS: dict[str, dict[str, Any]] = {"real": {}, "credulous": {"check_name": lambda name: name}}
_PER_STORE = 300


def main() -> int:
    """Tries the corpus, or a part of it."""
    options = parser(__doc__, 0)
    options.add_argument("--build", choices=BUILDS, default="real")
    given = options.parse_args()
    cases = corpus()
    random.Random(given.seed).shuffle(cases)
    cases = cases[: given.size] if given.size else cases
    tally = Tally(f"traversal, {given.build} build", len(cases), enough=given.enough)
    with workplace(given.base) as place, replaced(model_objects, **BUILDS[given.build]):
        for number, start in enumerate(range(0, len(cases), _PER_STORE)):
            home = place / f"victim{number}"
            home.mkdir()
            victim, objects = Victim(home), Objects()
            planted = [(case, victim.plant(objects, case)) for case in cases[start : start + _PER_STORE]]
            objects.pack_into(victim.store)
            for case, names in planted:
                victim.become(names)
                attempt(victim, case, tally)
                if tally.over:
                    break
            shutil.rmtree(home)
            if tally.over:
                break
    return tally.end()


if __name__ == "__main__":
    sys.exit(main())
