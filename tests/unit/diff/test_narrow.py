"""A diff reduced to some paths keeps exactly their part of the patch."""

from __future__ import annotations

from mulligan.diff.narrow import narrowed
from mulligan.model.diff import Diff, FileStat, Rendered

PARTS = [
    "diff --git a/old b/new\nsimilarity index 100%\nrename from old\nrename to new\n",
    "diff --git a/src/a b/src/a\n--- a/src/a\n+++ b/src/a\n@@ -1 +1 @@\n-diff --git a/x b/x\n+\x0c\u2028two\n\\ No newline at end of file\n",
    # A file that became a link: two sections, one entry.
    "diff --git a/src/b b/src/b\ndeleted file mode 100644\ndiff --git a/src/b b/src/b\nnew file mode 120000\n",
    "diff --git a/srcs b/srcs\nnew file mode 100644\n",
]
STAT = (
    FileStat("new", "renamed", old_path="old"),
    FileStat("src/a", "modified", 1, 1),
    FileStat("src/b", "modified"),
    FileStat("srcs", "added"),
)
WHOLE = Diff("1", "2", ["srcs"], ["src/a", "src/b"], [], [("old", "new")], lambda: Rendered("".join(PARTS), STAT))


def test_a_directory_means_everything_below_it_and_nothing_beside_it():
    part = narrowed(WHOLE, ["src"])
    assert (part.added, part.modified, part.renamed, part.patch, part.stat) == (
        [],
        ["src/a", "src/b"],
        [],
        "".join(PARTS[1:3]),
        STAT[1:3],
    )


def test_a_rename_is_found_by_either_name():
    for name in ("old", "new"):
        part = narrowed(WHOLE, [name])
        assert (part.renamed, part.patch, part.stat) == ([("old", "new")], PARTS[0], STAT[:1])


def test_several_paths_and_none():
    assert narrowed(WHOLE, ["srcs", "src/a"]).patch == PARTS[1] + PARTS[3]
    assert narrowed(WHOLE, ["nowhere"]).is_empty and narrowed(WHOLE, ["nowhere"]).patch == ""
