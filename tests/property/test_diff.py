"""The patch, applied to the old text by a reader that shares no code with its writer, gives the new text."""

from __future__ import annotations

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from memory import Memory
from mulligan.diff.compare import compare_trees
from mulligan.diff.patch import make_diff
from mulligan.diff.renames import find_renames
from mulligan.model.objects import MODE_EXEC, MODE_FILE, MODE_LINK
from mulligan.present.diff import render, render_stat

LINE = st.sampled_from(
    [b"", b"}", b"x", b"y\r", b"-- a", b"++ b", b"@@ -1 +1 @@", b"\\ No newline", b"caf\xe9", b"z" * 90]
)
TEXT = st.builds(lambda lines, end: b"\n".join(lines) + end, st.lists(LINE, max_size=40), st.sampled_from([b"", b"\n"]))
NAME = st.binary(min_size=1, max_size=6).filter(
    lambda name: not {b"/"[0], 0} & set(name) and name not in {b".", b".."} and b"git" not in name.lower()
)
PATH = st.lists(NAME, min_size=1, max_size=3).map(b"/".join)
FILES = st.dictionaries(PATH, st.tuples(st.sampled_from([MODE_FILE, MODE_EXEC, MODE_LINK]), TEXT), max_size=6)
HUNK = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@\n")


def applied(old: bytes, patch: bytes) -> bytes:
    """Applies the hunks of one file, insisting on every context and deleted line and on every count."""
    source = old.split(b"\n")
    source = [line + b"\n" for line in source[:-1]] + ([source[-1]] if source[-1] else [])
    lines = [line + b"\n" for line in patch.split(b"\n")[:-1]]
    result: list[bytes] = []
    at = taken = 0
    while at < len(lines):
        hunk = HUNK.fullmatch(lines[at])
        assert hunk, lines[at]
        start, count, new_start, new_count = (int(part) if part else 1 for part in hunk.groups())
        begin = start - 1 if count else start
        result += source[taken:begin]
        assert len(result) == (new_start - 1 if new_count else new_start)
        taken, at = begin, at + 1
        wanted = [count, new_count]
        while wanted != [0, 0]:
            mark, line = lines[at][:1], lines[at][1:]
            if at + 1 < len(lines) and lines[at + 1] == b"\\ No newline at end of file\n":
                line, at = line[:-1], at + 1
            at += 1
            assert mark in {b" ", b"-", b"+"}
            if mark != b"+":
                assert source[taken] == line
                taken += 1
                wanted[0] -= 1
            if mark != b"-":
                result.append(line)
                wanted[1] -= 1
    return b"".join(result + source[taken:])


@settings(deadline=None)
@given(old=TEXT, new=TEXT)
def test_the_patch_turns_the_old_text_into_the_new(old: bytes, new: bytes) -> None:
    memory = Memory()
    changes = compare_trees(memory.read_tree, memory.tree({b"f": old}), memory.tree({b"f": new}))
    diff = make_diff("a", "b", changes, [], memory.read_entry, memory.read_entry)
    patch = diff.patch.encode("utf-8", "surrogateescape")
    _, mark, hunks = patch.partition(b"+++ b/f\n")
    assert bool(mark) == (old != new)
    assert applied(old, hunks) == new
    added, deleted = sum(stat.additions for stat in diff.stat), sum(stat.deletions for stat in diff.stat)
    assert added - deleted == lines_in(new) - lines_in(old)


def lines_in(text: bytes) -> int:
    return text.count(b"\n") + (not text.endswith(b"\n") and bool(text))


@settings(deadline=None)
@given(old=FILES, new=FILES, width=st.integers(1, 200))
def test_every_diff_accounts_for_every_path_and_can_be_shown(
    old: dict[bytes, tuple[int, bytes]], new: dict[bytes, tuple[int, bytes]], width: int
) -> None:
    """Each changed file is in exactly one list, renames hold what moved, and nothing reaches the terminal."""
    old, new = without_swaps(old), without_swaps(new)
    memory = Memory()
    changes = compare_trees(memory.read_tree, memory.tree(old), memory.tree(new))
    assert [change.path for change in changes] == sorted(p for p in old.keys() | new.keys() if old.get(p) != new.get(p))
    renames = find_renames(changes, memory.read_blob, memory.size_of)
    diff = make_diff("a", "b", changes, renames, memory.read_entry, memory.read_entry)
    assert len(diff.files) == len(set(diff.files)) == len(changes)
    assert len(diff.stat) == len(changes) - len(renames)
    for gone, made in renames:
        assert gone.path not in new and made.path not in old
        assert old[gone.path][1] and new[made.path][1]
    shown = render(diff, colour=True, width=width) + render_stat(diff, colour=True, width=width)
    left = re.sub(r"\x1b\[\d+m", "", shown)
    assert all(c.isprintable() or c in "\n\t" for c in left if c < "\x7f" or "\ud800" <= c <= "\udfff")


def without_swaps(files: dict[bytes, tuple[int, bytes]]) -> dict[bytes, tuple[int, bytes]]:
    """The files whose path is no directory of another."""
    return {path: file for path, file in files.items() if not any(other.startswith(path + b"/") for other in files)}
