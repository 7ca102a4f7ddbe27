from __future__ import annotations

import pytest

from memory import File, Memory
from mulligan.diff import renames
from mulligan.diff.compare import Change, compare_trees
from mulligan.diff.renames import find_renames
from mulligan.errors import StoreDamaged
from mulligan.model.objects import EMPTY_TREE, MODE_DIR, MODE_EXEC, MODE_FILE, MODE_LINK

TEXT = b"".join(b"a line with the number %d\n" % number for number in range(20))


@pytest.fixture
def memory() -> Memory:
    return Memory()


def changed(memory: Memory, old: dict[bytes, File], new: dict[bytes, File]) -> list[Change]:
    return compare_trees(memory.read_tree, memory.tree(old), memory.tree(new))


def summary(changes: list[Change]) -> list[tuple[bytes, int | None, int | None]]:
    return [(c.path, c.old.mode if c.old else None, c.new.mode if c.new else None) for c in changes]


def renamed(memory: Memory, old: dict[bytes, File], new: dict[bytes, File]) -> list[tuple[bytes, bytes]]:
    pairs = find_renames(changed(memory, old, new), memory.read_blob, memory.size_of)
    return [(gone.path, made.path) for gone, made in pairs]


def test_equal_trees_are_not_read(memory: Memory) -> None:
    """The same id means the same content."""
    tree = memory.tree({b"a": b"1"})
    assert compare_trees(memory.read_tree, tree, tree) == []
    assert compare_trees(memory.read_tree, None, None) == []
    assert memory.trees_read == []


def test_equal_subtrees_are_not_read(memory: Memory) -> None:
    """The cost follows the change: its ancestors on both sides, and nothing else."""
    files: dict[bytes, File] = {b"d%d/e%d/f" % (d, e): b"%d" % d for d in range(10) for e in range(10)}
    changes = changed(memory, files, files | {b"d3/e4/f": b"other"})
    assert summary(changes) == [(b"d3/e4/f", MODE_FILE, MODE_FILE)]
    assert len(memory.trees_read) == 6


def test_changes_are_sorted_by_path(memory: Memory) -> None:
    """By the bytes of the whole path, past any batch and however trees sort their names."""
    old: dict[bytes, File] = {b"a/x": b"1", b"a-b": b"1", b"a.c": b"1"} | {b"m%d" % n: b"1" for n in range(150)}
    new: dict[bytes, File] = dict.fromkeys(old, b"2")
    paths = [change.path for change in changed(memory, old, new)]
    assert paths == sorted(old)


def test_added_deleted_and_modified(memory: Memory) -> None:
    """A mode alone is a change, and so is another kind."""
    old: dict[bytes, File] = {b"gone": b"1", b"mode": b"1", b"kind": b"1", b"same": b"1"}
    new: dict[bytes, File] = {b"made": b"1", b"mode": (MODE_EXEC, b"1"), b"kind": (MODE_LINK, b"1"), b"same": b"1"}
    assert summary(changed(memory, old, new)) == [
        (b"gone", MODE_FILE, None),
        (b"kind", MODE_FILE, MODE_LINK),
        (b"made", None, MODE_FILE),
        (b"mode", MODE_FILE, MODE_EXEC),
    ]


def test_nothing_against_a_tree_is_all_of_it(memory: Memory) -> None:
    """None stands for no tree, and the empty tree needs no object."""
    tree = memory.tree({b"a": b"1", b"d/b": b"2"})
    for nothing in (None, EMPTY_TREE):
        assert summary(compare_trees(memory.read_tree, nothing, tree)) == [
            (b"a", None, MODE_FILE),
            (b"d/b", None, MODE_FILE),
        ]
        assert summary(compare_trees(memory.read_tree, tree, nothing)) == [
            (b"a", MODE_FILE, None),
            (b"d/b", MODE_FILE, None),
        ]


def test_a_file_that_became_a_directory_is_a_deletion_and_additions(memory: Memory) -> None:
    """And the other way round."""
    file, folder = memory.tree({b"a": b"1"}), memory.tree({b"a/b": b"1", b"a/c/d": b"2"})
    assert summary(compare_trees(memory.read_tree, file, folder)) == [
        (b"a", MODE_FILE, None),
        (b"a/b", None, MODE_FILE),
        (b"a/c/d", None, MODE_FILE),
    ]
    assert summary(compare_trees(memory.read_tree, folder, file)) == [
        (b"a", None, MODE_FILE),
        (b"a/b", MODE_FILE, None),
        (b"a/c/d", MODE_FILE, None),
    ]


def test_directories_of_one_side_are_listed_when_asked_for(memory: Memory) -> None:
    """Each of them, also an empty one; one that both sides have is no change."""
    old = memory.tree({b"both/a": b"1", b"swap": b"1"}, directories=(b"old",))
    new = memory.tree({b"both/a": b"2", b"swap/x": b"1", b"new/deep/b": b"3"})
    assert summary(compare_trees(memory.read_tree, old, new, directories=True)) == [
        (b"both/a", MODE_FILE, MODE_FILE),
        (b"new", None, MODE_DIR),
        (b"new/deep", None, MODE_DIR),
        (b"new/deep/b", None, MODE_FILE),
        (b"old", MODE_DIR, None),
        (b"swap", MODE_FILE, MODE_DIR),
        (b"swap/x", None, MODE_FILE),
    ]
    assert summary(compare_trees(memory.read_tree, old, new)) == [
        (b"both/a", MODE_FILE, MODE_FILE),
        (b"new/deep/b", None, MODE_FILE),
        (b"swap", MODE_FILE, None),
        (b"swap/x", None, MODE_FILE),
    ]


def test_two_thousand_levels_are_no_problem(memory: Memory) -> None:
    """A tree may be deeper than Python recurses."""
    deep = b"/".join([b"d"] * 2000)
    changes = changed(memory, {deep + b"/f": b"1"}, {deep + b"/f": b"2"})
    assert summary(changes) == [(deep + b"/f", MODE_FILE, MODE_FILE)]
    tree = memory.tree({deep + b"/f": b"1"})
    assert len(compare_trees(memory.read_tree, None, tree, directories=True)) == 2001


def test_equal_contents_are_a_rename(memory: Memory) -> None:
    """Also of binary and large files, which are not read for it."""
    content = b"\0" * (2 << 20)
    assert renamed(memory, {b"a": content}, {b"d/b": content}) == [(b"a", b"d/b")]
    assert memory.blobs_read == []


def test_equal_contents_pair_by_file_name_first(memory: Memory) -> None:
    """Of several equal files, the one with the same name moved."""
    old: dict[bytes, File] = {b"x/one": b"same", b"x/two": b"same"}
    new: dict[bytes, File] = {b"y/two": b"same", b"y/three": b"same"}
    assert renamed(memory, old, new) == [(b"x/one", b"y/three"), (b"x/two", b"y/two")]


def test_each_file_is_in_one_rename_only(memory: Memory) -> None:
    """One file that became two is a rename and an addition."""
    assert renamed(memory, {b"a": TEXT}, {b"b": TEXT, b"c": TEXT}) == [(b"a", b"b")]
    assert renamed(memory, {b"a": TEXT}, {b"b": TEXT + TEXT[:90], b"c": TEXT + b"\n"}) == [(b"a", b"c")]


def test_similar_text_is_a_rename(memory: Memory) -> None:
    """From half the bytes on."""
    lines = TEXT.splitlines(keepends=True)
    other = [line.upper() for line in lines]
    assert renamed(memory, {b"a": TEXT}, {b"b": b"".join(lines[:12] + other[12:])}) == [(b"a", b"b")]
    assert renamed(memory, {b"a": TEXT}, {b"b": b"".join(lines[:8] + other[8:])}) == []


def test_the_most_similar_pair_wins(memory: Memory) -> None:
    """Whatever the order of names."""
    old: dict[bytes, File] = {b"a": TEXT, b"b": TEXT.replace(b"line", b"row")}
    new: dict[bytes, File] = {b"c": TEXT.replace(b"line", b"row") + b"more\n", b"d": TEXT + b"more\n"}
    assert renamed(memory, old, new) == [(b"b", b"c"), (b"a", b"d")]


def test_a_unique_file_name_guides_the_search(memory: Memory) -> None:
    """A file that kept its name and most of its text is not given away to a closer stranger."""
    old: dict[bytes, File] = {b"x/app.py": TEXT}
    new: dict[bytes, File] = {b"y/app.py": TEXT + b"some more text\n" * 3, b"y/copy.py": TEXT + b"1\n"}
    assert renamed(memory, old, new) == [(b"x/app.py", b"y/app.py")]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"", b""),
        ((MODE_LINK, b"target"), b"target"),
        ((MODE_LINK, b"a/long/target/one"), (MODE_LINK, b"a/long/target/two")),
        (b"\0" + TEXT, b"\0" + TEXT + b"more"),
        (TEXT * 3000, TEXT * 3000 + b"more"),
        (TEXT, TEXT * 3),
    ],
    ids=["empty", "link and file", "similar links", "similar binaries", "similar and large", "grown threefold"],
)
def test_what_is_no_rename(memory: Memory, old: File, new: File) -> None:
    """It stays a deletion and an addition."""
    assert renamed(memory, {b"a": old}, {b"b": new}) == []


def test_a_blob_that_cannot_be_read_is_no_rename(memory: Memory) -> None:
    """The others are found all the same."""
    changes = changed(memory, {b"a": TEXT, b"c": b"x" + TEXT}, {b"b": TEXT + b"1\n", b"d": b"y" + TEXT + b"2\n"})
    broken = changes[0].old.oid if changes[0].old else b""

    def read(oid: bytes) -> bytes:
        if oid == broken:
            raise StoreDamaged("gone")
        return memory.read_blob(oid)

    assert [(old.path, new.path) for old, new in find_renames(changes, read, memory.size_of)] == [(b"c", b"b")]

    def size(oid: bytes) -> int:
        raise FileNotFoundError

    assert find_renames(changes, memory.read_blob, size) == []


def test_too_many_candidates_pair_by_name_and_content_alone(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Past the limit the search costs what its input costs."""
    monkeypatch.setattr(renames, "MAX_PAIRS", 8)
    old: dict[bytes, File] = {b"x/%d" % n: b"%d" % n + TEXT for n in range(3)} | {b"x/keep": b"k" + TEXT}
    new: dict[bytes, File] = {b"y/n%d" % n: b"%d" % n + TEXT + b"1\n" for n in range(3)} | {
        b"y/keep": b"k" + TEXT + b"\n"
    }
    assert renamed(memory, old, new) == [(b"x/keep", b"y/keep")]


def test_reading_and_comparing_have_a_bound(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    """What does not fit is no rename; nothing fails."""
    old: dict[bytes, File] = {b"a%d" % n: b"%d" % n + TEXT for n in range(5)}
    new: dict[bytes, File] = {b"b%d" % n: b"%d" % n + TEXT + b"1\n" for n in range(5)}
    assert len(renamed(memory, old, new)) == 5
    monkeypatch.setattr(renames, "MAX_READ", 2 * renames.LEAST_READ)
    memory.blobs_read.clear()
    assert len(renamed(memory, old, new)) == 1
    assert len(memory.blobs_read) == 2
    monkeypatch.setattr(renames, "MAX_STEPS", 0)
    assert renamed(memory, old, new) == []
