"""A diff of some paths holds exactly their part, also when files are put back while somebody looks."""

from __future__ import annotations

import pytest

from tree import put

LONG = "a long enough content to be found again\n" * 9


@pytest.fixture
def changed(ws, project):
    """Every kind of change, most of them below `src` and beside it; saved before as `one` and after as `two`."""
    put(project, "src/a", "1\n")
    put(project, "src/kind", "k\n")
    put(project, "srcs", "s\n")
    put(project, "old", LONG)
    put(project, "gone/deep", "g\n")
    ws.save("one")
    put(project, "src/a", "2\n")
    (project / "src/kind").unlink()
    (project / "src/kind").symlink_to("a")
    put(project, "srcs", "t\n")
    (project / "old").rename(project / "new")
    (project / "gone/deep").unlink()
    put(project, "gone/fresh", "diff --git a/src/a b/src/a\n")
    ws.save("two")
    return ws


def both_ways(ws, *paths: str):
    """The diff of two checkpoints, after the one against the workspace was found to be the same."""
    live, kept = ws.diff("one", paths=paths), ws.diff("one", "two", paths=paths)
    assert (live.files, live.patch, live.stat) == (kept.files, kept.patch, kept.stat)
    return kept


def test_a_directory_means_everything_below_it_and_nothing_beside_it(changed):
    part = both_ways(changed, "src")
    assert (part.files, [entry.path for entry in part.stat]) == (["src/a", "src/kind"], ["src/a", "src/kind"])
    # A file that became a link is two sections.
    assert part.patch.count("diff --git a/src/") == part.patch.count("diff --git ") == 3


def test_a_rename_is_found_by_either_name(changed):
    for name in ("old", "new"):
        part = both_ways(changed, name)
        assert (part.renamed, part.files) == ([("old", "new")], ["new", "old"])
        assert "rename from old\nrename to new\n" in part.patch


def test_the_parts_are_the_whole(changed):
    whole = changed.diff("one", "two")
    parts = [both_ways(changed, path) for path in ("gone", "new", "src", "srcs")]
    assert "".join(part.patch for part in parts) == whole.patch
    assert tuple(entry for part in parts for entry in part.stat) == whole.stat
    assert both_ways(changed, "srcs", "gone/deep", "src/a").files == ["gone/deep", "src/a", "srcs"]
    assert both_ways(changed, "").patch == whole.patch


def test_no_path_and_a_path_without_changes_have_no_difference(changed):
    for paths in ((), ("nowhere",), ("sr",), ("src/a/below",)):
        part = both_ways(changed, *paths)
        assert part.is_empty and part.patch == "" and part.stat == ()


def test_files_put_back_between_the_look_and_the_patch_leave_other_paths_out(ws, project):
    """Neither a file that was asked for nor one that was not makes the patch say more than was asked."""
    for name in ("asked/a", "asked/b", "other/a", "other/b"):
        put(project, name, "1\n")
    ws.save("one")
    for name in ("asked/a", "asked/b", "other/a", "other/b"):
        put(project, name, "2\n")
    part = ws.diff(paths=["asked"])
    put(project, "asked/a", "1\n")
    put(project, "other/a", "1\n")
    assert part.patch.count("diff --git ") == 1 and "diff --git a/asked/b b/asked/b\n" in part.patch
    assert [(entry.path, entry.additions) for entry in part.stat] == [("asked/a", 0), ("asked/b", 1)]
    assert (part.modified, part.files) == (["asked/a", "asked/b"], ["asked/a", "asked/b"])


def test_one_path_in_place_of_a_list_is_refused(changed):
    with pytest.raises(TypeError):
        changed.diff("one", paths="src")
