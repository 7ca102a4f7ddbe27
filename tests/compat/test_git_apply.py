"""What mulligan prints as a patch, plain git applies: the old tree becomes the new one, byte for byte."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from memory import File, Memory
from mulligan.diff.compare import compare_trees
from mulligan.diff.patch import render_patch
from mulligan.diff.renames import find_renames
from mulligan.model.diff import Rendered
from mulligan.model.objects import MODE_EXEC, MODE_FILE, MODE_LINK
from tools import git, sweep
from tree import Node, contents, wipe, write_nodes

Files = dict[bytes, File]


def rendered(old: Files, new: Files) -> Rendered:
    memory = Memory()
    changes = compare_trees(memory.read_tree, memory.tree(old), memory.tree(new))
    renames = find_renames(changes, memory.read_blob, memory.size_of)
    return render_patch(changes, renames, memory.read_entry, memory.read_entry)


def on_disk(files: Files) -> dict[str, Node]:
    nodes = {}
    for path, file in files.items():
        mode, data = file if isinstance(file, tuple) else (MODE_FILE, file)
        perm = {MODE_FILE: 0o644, MODE_EXEC: 0o755}.get(mode, 0)
        nodes[os.fsdecode(path)] = Node("link" if mode == MODE_LINK else "file", perm, data)
    return nodes


def check_applies(root: Path, old: Files, new: Files) -> str:
    """Applies the patch from old to new with git, and insists on the result and on git's own idea of the counts."""
    result = rendered(old, new)
    wipe(root)
    git("init", "-q", cwd=root)
    write_nodes(root, on_disk(old))
    if old != new:
        patch = result.patch.encode("utf-8", "surrogateescape")
        counted = git("apply", "--numstat", "-z", cwd=root, stdin=patch)
        git("apply", "--whitespace=nowarn", cwd=root, stdin=patch)
        assert _totals(counted) == (sum(s.additions for s in result.stat), sum(s.deletions for s in result.stat))
    found = {path: node for path, node in contents(root).items() if node.kind != "dir"}
    assert found == on_disk(new)
    return result.patch


def _totals(numstat: bytes) -> tuple[int, int]:
    rows = [row.split(b"\t", 2) for row in numstat.split(b"\0") if row.count(b"\t") >= 2]
    return sum(int(row[0]) for row in rows), sum(int(row[1]) for row in rows)


LINES = b"".join(b"line %d\n" % number for number in range(40))
CASES: dict[str, tuple[Files, Files]] = {
    "an edit": ({b"a": LINES}, {b"a": LINES.replace(b"line 20\n", b"other\n")}),
    "edits far apart": ({b"a": LINES}, {b"a": b"new\n" + LINES.replace(b"line 20\n", b"") + b"end\n"}),
    "a new file": ({}, {b"dir/a": b"one\ntwo\n"}),
    "a deleted file": ({b"dir/a": b"one\ntwo\n", b"b": b"1"}, {b"b": b"1"}),
    "no newline on either side": ({b"a": b"x\ny"}, {b"a": b"x\nz"}),
    "a newline gained": ({b"a": b"x\ny"}, {b"a": b"x\ny\n"}),
    "a newline lost": ({b"a": b"x\ny\n"}, {b"a": b"x\ny"}),
    "CRLF": ({b"a": b"x\r\ny\r\nz\r\n"}, {b"a": b"x\r\nY\r\nz\r\n"}),
    "CRLF to LF": ({b"a": b"x\r\ny\r\n"}, {b"a": b"x\ny\n"}),
    "lone carriage returns and form feeds": ({b"a": b"x\ry\fz\n"}, {b"a": b"x\ry\fZ\v\x85\n"}),
    "a mode": ({b"a": b"x\n"}, {b"a": (MODE_EXEC, b"x\n")}),
    "a mode and an edit": ({b"a": LINES}, {b"a": (MODE_EXEC, LINES + b"more\n")}),
    "a mode of an odd name": ({b"a b/ b/c\n": b"x\n"}, {b"a b/ b/c\n": (MODE_EXEC, b"x\n")}),
    "an empty file made": ({}, {b"a": b""}),
    "an empty executable made": ({}, {b"a b": (MODE_EXEC, b"")}),
    "an empty file deleted": ({b"a": b""}, {}),
    "emptied": ({b"a": LINES}, {b"a": b""}),
    "filled": ({b"a": b""}, {b"a": LINES}),
    "a rename": ({b"a": LINES}, {b"b/c": LINES}),
    "a rename with an edit": ({b"a": LINES}, {b"b/c": LINES.replace(b"line 7\n", b"seven\n")}),
    "a rename with a mode": ({b"a": LINES}, {b"b": (MODE_EXEC, LINES)}),
    "a swap of names": ({b"a": LINES, b"b": LINES.upper()}, {b"b": LINES, b"a": LINES.upper()}),
    "renames of odd names": ({b"sp ace": LINES, b"\xff": b"1" + LINES}, {b"ta\tb": LINES, b'q"\\': b"1" + LINES}),
    "odd names": ({}, {b"\xff\xfe": b"1\n", b"new\nline": b"2\n", b'"': b"3\n", b"\\": b"4\n", b" lead": b"5\n"}),
    "more odd names": ({}, {b"trail ": b"1\n", b"\x01\x7f": b"2\n", "ünï/😀".encode(): b"3\n", b"a\tb": b"4\n"}),
    "odd names gone": ({b"\xff": b"1\n", b"a b": b"2\n", "é".encode(): b"3\n", b"tail\n": b"4\n"}, {}),
    "names like marks": ({b"--- a": b"1\n", b"dev/null": b"2\n"}, {b"--- a": b"2\n", b"dev/null": b"3\n"}),
    "content like marks": ({b"a": b"-- a/x\n@@ -1 +1 @@\n"}, {b"a": b"++ b/x\ndiff --git a/x b/x\n"}),
    "a link made": ({}, {b"a": (MODE_LINK, b"no/where")}),
    "a link moved": ({b"a": (MODE_LINK, b"one")}, {b"a": (MODE_LINK, b"two")}),
    "a link renamed": ({b"a": (MODE_LINK, b"one")}, {b"b": (MODE_LINK, b"one")}),
    "a link deleted": ({b"a": (MODE_LINK, b"one")}, {}),
    "a file to a link": ({b"a": b"text\n"}, {b"a": (MODE_LINK, b"text")}),
    "a link to a file": ({b"a": (MODE_LINK, b"text")}, {b"a": (MODE_EXEC, b"text")}),
    "a file to a directory": ({b"a": b"text\n"}, {b"a/b": b"other\n", b"a/c/d": b"more\n"}),
    "a directory to a file": ({b"a/b": b"other\n", b"a/c/d": b"more\n"}, {b"a": b"text\n"}),
    "not UTF-8": ({b"a": b"caf\xe9\n\xff\n"}, {b"a": b"caf\xe8\n\xff\n\xc3\x28\n"}),
    "one long line": ({b"a": b"x" * 100_000}, {b"a": b"x" * 100_001}),
    "equal lines": ({b"a": b"x\n" * 900}, {b"a": b"y\n" + b"x\n" * 700 + b"z\n" + b"x\n" * 90 + b"y\n"}),
}


@pytest.mark.parametrize("name", CASES)
def test_git_applies_the_patch(tmp_path: Path, name: str) -> None:
    """Each kind of change alone, forward and back."""
    old, new = CASES[name]
    check_applies(tmp_path, old, new)
    check_applies(tmp_path, new, old)


NAMES = [b"a", b"b.txt", b"sp ace", b"new\nline", b"-dash", "ünï".encode(), b"\xff\xfe", b'q"uote', b"tab\t", b"c\\"]


def random_text(rng: random.Random) -> bytes:
    words = [b"alpha", b"beta", b"}", b"", b"  indented", b"caf\xe9", b"cr\r"]
    text = b"\n".join(rng.choice(words) + b"%d" % rng.randrange(30) for _ in range(rng.randrange(60)))
    return text + rng.choice([b"", b"\n", b"\n", b"\n"])


def edited(rng: random.Random, text: bytes) -> bytes:
    lines = text.split(b"\n")
    for _ in range(rng.randrange(1, 6)):
        at = rng.randrange(len(lines))
        lines[at : at + rng.randrange(3)] = [b"edit %d" % rng.randrange(99)] * rng.randrange(3)
        lines = lines or [b""]
    return b"\n".join(lines)


def random_files(rng: random.Random) -> Files:
    files: Files = {}
    for number in range(rng.randrange(1, 20)):
        path = rng.choice([b"", b"d/", b"d/e/", b"\xe9 x/"]) + rng.choice(NAMES) + b"%d" % number
        kind = rng.choice([MODE_FILE, MODE_FILE, MODE_FILE, MODE_EXEC, MODE_LINK])
        files[path] = (kind, b"target%d" % number if kind == MODE_LINK else random_text(rng))
    return files


def changed(rng: random.Random, files: Files) -> Files:
    """Some of the files edited, deleted, renamed, given another mode or kind, and new ones beside them."""
    after: Files = {}
    for path, file in files.items():
        assert isinstance(file, tuple)
        mode, data = file
        roll = rng.random()
        if roll < 0.15:
            continue
        if roll < 0.3:
            path = b"moved/" + path  # noqa: PLW2901 - under its new name
        if mode != MODE_LINK and rng.random() < 0.4:
            data = edited(rng, data)
        if rng.random() < 0.2:
            mode = rng.choice([MODE_FILE, MODE_EXEC])
        after[path] = (mode, data)
    for path, file in random_files(rng).items():
        after.setdefault(b"new" + path, file)
    return after


@pytest.mark.parametrize("seed", range(sweep(25)))
def test_git_applies_random_edits(tmp_path: Path, seed: int) -> None:
    """Many changes at once, with renames among them."""
    rng = random.Random(seed)
    old = random_files(rng)
    check_applies(tmp_path, old, changed(rng, old))


def test_git_says_the_same_about_names_modes_and_ids(tmp_path: Path) -> None:
    """For a plain edit, the patch is git's own, to the byte."""
    old = {b"a b": LINES, b"run": (MODE_FILE, b"x\n")}
    new = {b"a b": LINES.replace(b"line 20\n", b"other\n"), b"run": (MODE_EXEC, b"x\ny\n"), b"z": b"one\n"}
    git("init", "-q", cwd=tmp_path)
    git("config", "core.abbrev", "7", cwd=tmp_path)
    write_nodes(tmp_path, on_disk(old))
    git("add", "-A", cwd=tmp_path)
    wipe_all_but_git(tmp_path)
    write_nodes(tmp_path, on_disk(new))
    git("add", "-AN", cwd=tmp_path)
    theirs = git("diff", "--no-ext-diff", cwd=tmp_path).decode()
    ours = "".join(
        line if not line.startswith("@@") else line.split(" @@")[0] + " @@\n" for line in theirs.splitlines(True)
    )
    assert rendered(old, new).patch == ours


def wipe_all_but_git(root: Path) -> None:
    for path in root.iterdir():
        if path.name != ".git":
            path.unlink()


@pytest.mark.parametrize("new", [b"\0binary", b"x\n" * (3 << 20)], ids=["binary", "too large"])
@pytest.mark.parametrize("old", [None, b"text\n"], ids=["added", "modified"])
def test_git_refuses_what_was_not_compared(tmp_path: Path, old: bytes | None, new: bytes) -> None:
    """A missing hunk is never taken for an empty file: git changes nothing at all."""
    before: Files = {b"other": b"1\n"} | ({b"a": old} if old is not None else {})
    after: Files = {b"other": b"2\n", b"a": new}
    for left, right in ((before, after), (after, before)):
        wipe(tmp_path)
        git("init", "-q", cwd=tmp_path)
        write_nodes(tmp_path, on_disk(left))
        patch = rendered(left, right).patch
        assert len(patch) < 2000
        with pytest.raises(AssertionError, match="binary patch"):
            git("apply", cwd=tmp_path, stdin=patch.encode())
        assert contents(tmp_path) == on_disk(left)
