"""
Generated workspaces for measurements: the same seed and count give the same bytes everywhere.

Owns the shape (about 14 files a directory, at most 6 directories deep), the contents (source-like text of 3.7 KB on
average, one file in a hundred binary, a few executable) and the edits that a measurement makes to them. Every content is a
function of the seed and the file's number, so nothing of a tree has to be held in memory to know what it should be.

Not promised: that a tree resembles any particular project; only that every contestant sees the same one.
"""

from __future__ import annotations

import hashlib
import math
import os
import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath

FILES_PER_DIRECTORY = 14
DEEPEST = 6
PAGE = -1
MEAN_TEXT_BYTES = 3_700
SIZE_SPREAD = 1.0
BINARY_EVERY = 100
EXECUTABLE_EVERY = 50
SUFFIXES = (".py", ".py", ".ts", ".tsx", ".go", ".rs", ".java", ".c", ".h", ".md", ".json", ".css")
VOCABULARY = """
    account actor adapter address agent alias anchor answer archive array asset atom attribute audit balance batch
    bench bind block board branch bridge buffer bucket build bundle cache call camera card cell chain channel chart
    check child circle class clause client clock cluster code column commit config content context cookie copy core
    count cursor daemon data date debug default delta depth device digest draft drive edge editor element engine entry
    epoch error event export factor fetch field file filter flag flow format frame function gate graph group guard
    handle hash header heap helper host image import index input item job join key label layer layout leaf level limit
    line link list loader lock logger loop mask match matrix memory merge message meter method mirror model module
    mount name network node note object offset option order output owner packet page panel parent parser patch path
    pattern payload peer pipe plan point policy pool port prefix printer process profile proxy query queue range rank
    rate reader record region release render report request reset resource result retry role root route row rule
    sample scale scanner schema scope score screen script search section seed segment sender series server session
    shape shard signal size slot socket source span stack stage state status step stream style subject suffix summary
    surface switch symbol table target task template term test text theme thread ticket timer token topic trace track
    tree trigger tuple type unit user value vector version view walker watch weight widget window worker writer zone
"""
WORDS = tuple(VOCABULARY.split())


@dataclass(frozen=True, slots=True)
class File:
    """One file of a tree: where it is and what kind it is; its bytes come from `Tree.content`."""

    number: int
    path: str
    binary: bool
    executable: bool


@dataclass(frozen=True, slots=True)
class Tree:
    """A planned workspace: the files in order, and the seed that their contents follow from."""

    seed: int
    files: tuple[File, ...]
    directories: tuple[str, ...]

    def content(self, file: File) -> bytes:
        """Returns the bytes of one file."""
        if file.number == PAGE:
            return page(seed=self.seed)
        rng = random.Random((self.seed << 32) ^ file.number)
        return _binary(rng) if file.binary else _text(rng, file.number)

    def texts(self) -> list[File]:
        """Returns the files that are text, in order."""
        return [file for file in self.files if not file.binary]


def plan(count: int, *, seed: int = 1) -> Tree:
    """Returns the tree of that many files."""
    rng = random.Random(seed)
    directories = _directories(rng, max(1, math.ceil(count / FILES_PER_DIRECTORY)))
    files = []
    for number in range(count):
        # The first pass gives every directory a file: git cannot hold an empty one, and the contest must be even.
        where = directories[number] if number < len(directories) else rng.choice(directories)
        binary = number % BINARY_EVERY == BINARY_EVERY - 1
        suffix = ".bin" if binary else rng.choice(SUFFIXES)
        name = f"{rng.choice(WORDS)}_{rng.choice(WORDS)}_{number}{suffix}"
        executable = not binary and number % EXECUTABLE_EVERY == EXECUTABLE_EVERY // 2
        files.append(File(number, f"{where}/{name}" if where else name, binary, executable))
    return Tree(seed, tuple(files), tuple(directories))


def with_page(tree: Tree, path: str) -> Tree:
    """Returns the tree with one more file, a large text (`page`), at that path."""
    directories = [str(parent) for parent in reversed(PurePosixPath(path).parents)][1:]
    added = File(PAGE, path, binary=False, executable=False)
    return Tree(tree.seed, (*tree.files, added), (*tree.directories, *directories))


def write(tree: Tree, root: Path) -> None:
    """Writes the whole tree below `root`, which must not hold any of it yet."""
    for directory in tree.directories:
        os.makedirs(root / directory, exist_ok=True)
    base = str(root)
    for file in tree.files:
        path = f"{base}/{file.path}"
        with open(path, "xb") as out:
            out.write(tree.content(file))
        os.chmod(path, 0o755 if file.executable else 0o644)


def edited(content: bytes, *, number: int) -> bytes:
    """Returns the content with one line in its middle replaced by another, as an agent's edit would."""
    lines = content.split(b"\n")
    lines[len(lines) // 2] = b"    changed = %d  # edit number %d" % (number * 7919, number)
    return b"\n".join(lines)


def page(*, seed: int = 1, size: int = 50_000) -> bytes:
    """Returns one large source-like text of at least `size` bytes: the file whose history is measured."""
    rng = random.Random(f"page {seed}")
    lines: list[str] = []
    total = 0
    while total < size:
        line = f"{rng.choice(_lines())}  # {len(lines)}"
        lines.append(line)
        total += len(line) + 1
    return ("\n".join(lines) + "\n").encode()


def line_edit(content: bytes, *, number: int, seed: int = 1) -> bytes:
    """Returns the content with one line, somewhere, rewritten: the n-th of a long row of small edits."""
    rng = random.Random(f"edit {seed} {number}")
    lines = content.split(b"\n")
    lines[rng.randrange(len(lines) - 1)] = f"{rng.choice(_lines())}  # revision {number}".encode()
    return b"\n".join(lines)


def overwrite(root: Path, contents: Mapping[str, bytes]) -> None:
    """Writes these files in place, as an editor that truncates does."""
    for path, content in contents.items():
        with open(root / path, "wb") as out:
            out.write(content)


def blob_id(content: bytes) -> str:
    """Returns the name that git gives to this content."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def expected(tree: Tree) -> dict[str, str]:
    """Returns path and blob name of every file of the tree as generated."""
    return {file.path: blob_id(tree.content(file)) for file in tree.files}


def found(root: Path, *, leave_out: Iterable[str] = ()) -> dict[str, str]:
    """Returns path and blob name of every file really below `root`, reading all of them; the caches are hot afterwards."""
    return {path: blob_id((root / path).read_bytes()) for path in paths(root, leave_out=leave_out)}


def paths(root: Path, *, leave_out: Iterable[str] = ()) -> Iterator[str]:
    """Yields the path of every file below `root`, except below the named top-level entries."""
    skipped = frozenset(leave_out)
    pending = [""]
    while pending:
        prefix = pending.pop()
        with os.scandir(root / prefix) as entries:
            for entry in entries:
                if not prefix and entry.name in skipped:
                    continue
                if entry.is_dir(follow_symlinks=False):
                    pending.append(f"{prefix}{entry.name}/")
                else:
                    yield f"{prefix}{entry.name}"


def _directories(rng: random.Random, count: int) -> list[str]:
    made = [""]
    open_for_more = [""]
    while len(made) < count:
        parent = rng.choice(open_for_more)
        name = f"{rng.choice(WORDS)}{len(made)}"
        path = f"{parent}/{name}" if parent else name
        made.append(path)
        if path.count("/") + 1 < DEEPEST:
            open_for_more.append(path)
    return made


def _text(rng: random.Random, number: int) -> bytes:
    # Log-normal, as file sizes are: many small ones, a few large ones, and the mean where it was asked to be.
    size = min(60_000, int(rng.lognormvariate(math.log(MEAN_TEXT_BYTES) - SIZE_SPREAD**2 / 2, SIZE_SPREAD)))
    pool = _lines()
    lines = rng.choices(pool, k=max(1, round(size / _line_bytes())))
    lines[0] = f"// file {number}: {lines[0].strip()}"
    # A number in every fourth line keeps files from being mere shuffles of each other.
    lines[1::4] = [f"{line}  // {rng.randrange(1_000_000)}" for line in lines[1::4]]
    return ("\n".join(lines) + "\n").encode()


def _binary(rng: random.Random) -> bytes:
    return b"\x89BIN\r\n\x1a\n" + rng.randbytes(rng.randrange(2_000, 60_000))


@cache
def _line_bytes() -> float:
    return sum(map(len, _lines())) / len(_lines()) + 4


@cache
def _lines() -> list[str]:
    rng = random.Random("lines")
    shapes = (
        "{0} = {1}.{2}({3}, {4})",
        "if {0}.{1} is None or {2} > {3}:",
        "return {0}_{1}({2}[{3}], {4}={5})",
        "def {0}_{1}(self, {2}: {3}, {4}: int = 0) -> {5}:",
        "for {0} in {1}.{2}({3}):",
        "# The {0} of a {1} follows its {2}, never the {3}.",
        "self.{0}_{1} = {2}.get('{3}', {4})",
        "raise {0}Error(f'no {1} for {2}: {3}')",
        "const {0} = await {1}.{2}({{ {3}: {4} }});",
        "}}",
        "",
    )
    made = []
    for _ in range(6_000):
        indent = "    " * rng.randrange(4)
        made.append(indent + rng.choice(shapes).format(*rng.choices(WORDS, k=6)))
    return made
