from __future__ import annotations

import pytest

from memory import File, Memory
from mulligan.diff.compare import Change, compare_trees
from mulligan.diff.patch import MAX_FILE, TooLarge, make_diff, render_patch
from mulligan.diff.renames import find_renames
from mulligan.errors import StoreDamaged
from mulligan.model.diff import Diff, FileStat, Rendered
from mulligan.model.objects import MODE_EXEC, MODE_FILE, MODE_LINK, TreeEntry

LINES = b"".join(b"line %d\n" % number for number in range(20))


def rendered(old: dict[bytes, File], new: dict[bytes, File], **options: int) -> Rendered:
    memory = Memory()
    changes = compare_trees(memory.read_tree, memory.tree(old), memory.tree(new))
    renames = find_renames(changes, memory.read_blob, memory.size_of)
    return render_patch(changes, renames, memory.read_entry, memory.read_entry, **options)


def test_a_plain_edit_reads_as_git_prints_it() -> None:
    result = rendered({b"a.txt": b"1\n2\n3\n4\n5\n6\n7\n8\n9\n"}, {b"a.txt": b"1\n2\n3\n4\nfive\n6\n7\n8\n9\n"})
    assert result.patch == (
        "diff --git a/a.txt b/a.txt\n"
        "index 0719398..4c5701d 100644\n"
        "--- a/a.txt\n"
        "+++ b/a.txt\n"
        "@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n"
    )
    assert result.stat == (FileStat("a.txt", "modified", 1, 1),)


def test_no_changes_are_an_empty_patch() -> None:
    assert rendered({b"a": b"1"}, {b"a": b"1"}) == Rendered("", ())


def test_added_and_deleted_files_count_their_lines() -> None:
    result = rendered({b"gone": b"1\n2\n"}, {b"made": b"one\ntwo\nthree"})
    assert result.stat == (FileStat("gone", "deleted", 0, 2), FileStat("made", "added", 3, 0))
    assert "deleted file mode 100644\n" in result.patch
    assert "--- /dev/null\n+++ b/made\n@@ -0,0 +1,3 @@\n" in result.patch
    assert result.patch.endswith("+three\n\\ No newline at end of file\n")


def test_white_space_counts() -> None:
    assert rendered({b"a": b"x\n"}, {b"a": b"x \n"}).stat == (FileStat("a", "modified", 1, 1),)


def test_only_newlines_end_lines() -> None:
    """A carriage return, a form feed or a Unicode separator is content."""
    result = rendered({b"a": b"x\r\x0c\xe2\x80\xa8y\n"}, {b"a": b"x\r\x0c\xe2\x80\xa8z\n"})
    assert (result.stat[0].additions, result.stat[0].deletions) == (1, 1)


def test_bytes_that_are_not_utf8_survive() -> None:
    patch = rendered({b"a": b"caf\xe9\n"}, {b"a": b"caf\xff\n"}).patch
    assert b"-caf\xe9\n+caf\xff\n" in patch.encode("utf-8", "surrogateescape")


def test_a_binary_file_is_one_line() -> None:
    result = rendered({b"a": b"\0\x01"}, {b"a": b"\0\x02", b"b": b"\0"})
    assert result.stat == (FileStat("a", "modified", 0, 0, binary=True), FileStat("b", "added", 0, 0, binary=True))
    assert "Binary files a/a and b/a differ\n" in result.patch
    assert "Binary files /dev/null and b/b differ\n" in result.patch
    assert "@@" not in result.patch


def test_a_mode_alone_is_two_lines_and_reads_nothing() -> None:
    memory = Memory()
    old, new = memory.tree({b"a": b"x"}), memory.tree({b"a": (MODE_EXEC, b"x")})
    result = render_patch(compare_trees(memory.read_tree, old, new), [], memory.read_entry, memory.read_entry)
    assert result.patch == "diff --git a/a b/a\nold mode 100644\nnew mode 100755\n"
    assert result.stat == (FileStat("a", "modified", mode="100644 => 100755"),)
    assert memory.blobs_read == []


def test_a_rename_names_both_paths() -> None:
    result = rendered({b"a": LINES}, {b"d/b": LINES + b"more\n"})
    assert result.stat == (FileStat("d/b", "renamed", 1, 0, old_path="a"),)
    assert "similarity index 96%\nrename from a\nrename to d/b\n" in result.patch
    exact = rendered({b"a": LINES}, {b"d/b": LINES})
    assert exact.patch == "diff --git a/a b/d/b\nsimilarity index 100%\nrename from a\nrename to d/b\n"


def test_a_file_that_became_a_link_leaves_and_comes() -> None:
    result = rendered({b"a": b"text\n"}, {b"a": (MODE_LINK, b"text")})
    assert result.stat == (FileStat("a", "modified", 1, 1, mode="100644 => 120000"),)
    assert result.patch.count("diff --git") == 2
    assert result.patch.index("deleted file mode 100644") < result.patch.index("new file mode 120000")


def test_a_large_file_is_one_line() -> None:
    """No hunk of megabytes, on whichever side it is large."""
    large = b"x\n" * (MAX_FILE // 2 + 1)
    for old, new in ((large, b"x\n"), (b"x\n", large)):
        result = rendered({b"a": old}, {b"a": new})
        assert result.stat == (FileStat("a", "modified"),)
        assert result.patch.endswith("Files a/a and b/a are too large to compare here, and differ\n")


def test_a_reader_may_say_that_a_file_is_too_large() -> None:
    """So that it never has to be read."""

    def refuses(path: bytes, entry: TreeEntry) -> bytes:
        raise TooLarge

    change = Change(b"a", None, TreeEntry(b"a", MODE_FILE, b"\1" * 20))
    patch = render_patch([change], [], refuses, refuses).patch
    assert patch.endswith("Files /dev/null and b/a are too large to compare here, and differ\n")


@pytest.mark.parametrize("error", [FileNotFoundError(), PermissionError(), StoreDamaged("x"), KeyError(b"x")])
def test_a_file_that_cannot_be_read_is_no_deletion(error: Exception) -> None:
    """It is listed as modified, with a note, and the other files are compared."""
    memory = Memory()
    old, new = memory.tree({b"a": b"1\n", b"b": b"1\n"}), memory.tree({b"a": b"2\n", b"b": b"2\n"})

    def read_new(path: bytes, entry: TreeEntry) -> bytes:
        if path == b"a":
            raise error
        return memory.read_entry(path, entry)

    changes = compare_trees(memory.read_tree, old, new)
    result = render_patch(changes, [], memory.read_entry, read_new)
    assert result.stat == (FileStat("a", "modified"), FileStat("b", "modified", 1, 1))
    assert "Files a/a and b/a could not both be read, and are only known to differ\n" in result.patch
    assert "deleted" not in result.patch
    assert result.patch.count("\n-") == 2  # the `---` and the one deleted line of b


def test_a_file_put_back_while_we_looked_has_no_hunk() -> None:
    """It is still listed, for the trees do differ."""
    memory = Memory()
    old, new = memory.tree({b"a": b"1\n"}), memory.tree({b"a": b"2\n"})
    changes = compare_trees(memory.read_tree, old, new)
    result = render_patch(changes, [], memory.read_entry, lambda path, entry: b"1\n")
    assert result == Rendered("", (FileStat("a", "modified"),))


def test_an_entry_without_an_id_gets_one_from_its_content() -> None:
    """A file of the workspace may not have been hashed yet."""
    change = Change(b"a", None, TreeEntry(b"a", MODE_FILE, b""))
    assert "index 0000000..d00491f\n" in render_patch([change], [], lambda *_: b"", lambda *_: b"1\n").patch


def test_a_patch_has_an_end() -> None:
    """Past the limit files are counted, and their hunks left out."""
    old: dict[bytes, File] = {b"%d" % number: LINES for number in range(5)}
    result = rendered(old, dict.fromkeys(old, b"x" + LINES), limit=200)
    assert [(stat.additions, stat.deletions) for stat in result.stat] == [(1, 1)] * 5
    assert result.patch.count("@@ -") == 1
    assert result.patch.count("are left out because the patch is too long, and differ\n") == 4


def made(old: dict[bytes, File], new: dict[bytes, File], memory: Memory) -> Diff:
    changes = compare_trees(memory.read_tree, memory.tree(old), memory.tree(new), directories=True)
    renames = find_renames(changes, memory.read_blob, memory.size_of)
    memory.blobs_read.clear()
    return make_diff("one", "two", changes, renames, memory.read_entry, memory.read_entry)


def test_a_diff_lists_each_path_once_and_no_directory() -> None:
    memory = Memory()
    old: dict[bytes, File] = {b"mod": b"1\n", b"del\xff": b"2\n", b"x/ren": LINES, b"swap": b"3\n"}
    new: dict[bytes, File] = {b"mod": b"9\n", b"add": b"4\n", b"y/z/ren": LINES, b"swap/in": b"5\n"}
    diff = made(old, new, memory)
    assert (diff.from_, diff.to) == ("one", "two")
    assert diff.added == ["add", "swap/in"]
    assert diff.modified == ["mod"]
    assert diff.deleted == ["del\udcff", "swap"]
    assert diff.renamed == [("x/ren", "y/z/ren")]
    assert [stat.path for stat in diff.stat] == ["add", "del\udcff", "mod", "swap", "swap/in", "y/z/ren"]


def test_a_diff_reads_contents_only_for_its_patch() -> None:
    memory = Memory()
    diff = made({b"a": b"1\n"}, {b"a": b"2\n"}, memory)
    assert not diff.is_empty and diff.files == ["a"]
    assert memory.blobs_read == []
    assert diff.stat[0].additions == 1 and diff.patch
    assert len(memory.blobs_read) == 2
