from __future__ import annotations

import re

import pytest

from memory import File, Memory
from mulligan.diff.compare import compare_trees
from mulligan.diff.patch import make_diff
from mulligan.diff.renames import find_renames
from mulligan.model.diff import Diff, FileStat, Rendered
from mulligan.model.objects import MODE_EXEC, MODE_LINK
from mulligan.present.diff import render, render_stat

LINES = b"".join(b"line %d\n" % number for number in range(20))


def diff_of(old: dict[bytes, File], new: dict[bytes, File]) -> Diff:
    memory = Memory()
    changes = compare_trees(memory.read_tree, memory.tree(old), memory.tree(new))
    renames = find_renames(changes, memory.read_blob, memory.size_of)
    return make_diff("a", "b", changes, renames, memory.read_entry, memory.read_entry)


def plain(text: str) -> list[str]:
    """The lines without their colours."""
    return re.sub(r"\x1b\[\d+m", "", text).split("\n")[:-1]


def heads(old: dict[bytes, File], new: dict[bytes, File]) -> list[str]:
    return [line.rstrip("─ ") for line in plain(render(diff_of(old, new), colour=True, width=60)) if "──" in line]


def test_without_a_terminal_the_patch_is_untouched() -> None:
    """So that it can be applied."""
    diff = diff_of({b"a": b"\x1b\xff\n"}, {b"a": b"\x1b\xfe\r\n"})
    assert render(diff, colour=False, width=80) == diff.patch


def test_a_terminal_without_colour_is_safe_too() -> None:
    diff = diff_of({b"a": b"x\n"}, {b"a": b"\x1b[2J\ty\r\n"})
    shown = render(diff, colour=False, width=80, terminal=True)
    assert "+\\x1b[2J\ty\\r\n" in shown
    assert "\x1b" not in shown


def test_nothing_changed_is_nothing_to_show() -> None:
    diff = diff_of({b"a": b"x\n"}, {b"a": b"x\n"})
    assert render(diff, colour=True, width=80) == render_stat(diff, colour=True, width=80) == ""


def test_each_file_has_a_head_that_says_what_happened() -> None:
    old: dict[bytes, File] = {b"mod": b"1\n", b"gone": b"2\n", b"x/old name": LINES, b"run": b"3\n"}
    new: dict[bytes, File] = {b"mod": b"9\n", b"made": b"", b"y/new name": LINES, b"run": (MODE_EXEC, b"3\n")}
    assert heads(old, new) == [
        "deleted gone",
        "added made",
        "modified mod",
        "modified run",
        "renamed x/old name → y/new name (100%)",
    ]
    assert "plain file → executable" in plain(render(diff_of(old, new), colour=True, width=60))


def test_odd_names_and_kinds_have_heads_too() -> None:
    new: dict[bytes, File] = {b"a b/ b/c": b"1\n", b"\x1b[31m\xff": b"2\n", b"l": (MODE_LINK, b"t"), b"a/a/": b""}
    del new[b"a/a/"]
    assert heads({}, new) == ['added "\\033[31m\\377"', "added a b/ b/c", "added l (link)"]


def test_a_head_reaches_across_the_terminal_and_no_further() -> None:
    lines = plain(render(diff_of({}, {"日本".encode(): b"x\n"}), colour=True, width=50))
    assert len(lines[0]) + 2 == 50  # two of its characters are two columns wide
    long = b"n" * 200
    assert plain(render(diff_of({}, {long: b"x\n"}), colour=True, width=50))[0] == "added " + "n" * 200


def test_lines_have_the_colours_everybody_knows() -> None:
    shown = render(diff_of({b"a": LINES}, {b"a": LINES.replace(b"line 9\n", b"") + b"new\n"}), colour=True, width=80)
    assert "\x1b[31m-line 9\x1b[0m\n" in shown
    assert "\x1b[32m+new\x1b[0m\n" in shown
    assert "\x1b[36m@@ -7,7 +7,6 @@\x1b[0m\n" in shown
    assert "\n line 8\n" in shown


def test_the_words_that_changed_are_marked() -> None:
    shown = render(diff_of({b"a": b"total = old + 1\n"}, {b"a": b"total = newer + 1\n"}), colour=True, width=80)
    assert "-total = \x1b[7mold\x1b[27m + 1" in shown
    assert "+total = \x1b[7mnewer\x1b[27m + 1" in shown


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"alpha\n", b"omega\n"),
        (b"a = 1\nb = 1\n", b"a = 2\n"),
        (b"a = " + b"x" * 2000 + b"1\n", b"a = " + b"x" * 2000 + b"2\n"),
    ],
    ids=["nothing in common", "not in pairs", "very long"],
)
def test_lines_without_a_counterpart_are_not_marked(old: bytes, new: bytes) -> None:
    assert "\x1b[7m" not in render(diff_of({b"a": old}, {b"a": new}), colour=True, width=80)


def test_a_pure_insertion_within_a_line_marks_one_side() -> None:
    shown = render(diff_of({b"a": b"call(one)\n"}, {b"a": b"call(one, two)\n"}), colour=True, width=80)
    assert "\x1b[31m-call(one)\x1b[0m\n" in shown
    assert "+call(one\x1b[7m, two\x1b[27m)" in shown


def test_content_that_looks_like_a_header_is_content() -> None:
    """A deleted `-- a` prints as `--- a`; the counts of the hunk tell."""
    shown = render(
        diff_of({b"a": b"-- a/x\nkeep\n"}, {b"a": b"++ b/x\nkeep\ndiff --git a/y b/y\n"}), colour=True, width=60
    )
    assert sum("──" in line for line in plain(shown)) == 1
    assert "\x1b[32m+diff --git a/y b/y\x1b[0m" in shown


def test_a_hostile_file_cannot_drive_the_terminal() -> None:
    """Neither by its name nor by its lines nor by direction marks; only our own colours are left."""
    evil = b"\x1b]0;owned\x07\x1b[2J\x9b\xc2\x9b\r\x08 \xe2\x80\xae\xff"
    name = evil.replace(b"\xff", b"") + b"\n"
    diff = diff_of({}, {name: evil * 3, b"moved" + evil: b"\0" + evil, b"t\tab": evil})
    for colour in (True, False):
        for text in (render(diff, colour=colour, width=80, terminal=True), render_stat(diff, colour=colour, width=80)):
            left = re.sub(r"\x1b\[(1|2|31|32|36|7|27|0)m", "", text) if colour else text
            assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e\udc80-\udcff]", left)
            text.encode("utf-8")


def test_what_was_not_compared_says_so() -> None:
    lines = plain(render(diff_of({b"a": b"\0"}, {b"a": b"\0\1"}), colour=True, width=60))
    assert lines[1:] == ["Binary files a/a and b/a differ"]


def stats(*rows: FileStat) -> Diff:
    return Diff("a", "b", modified=[row.path for row in rows], render=lambda: Rendered("", rows))


def test_the_short_form_reads_as_git_prints_it() -> None:
    diff = stats(
        FileStat("app.py", "modified", 3, 1),
        FileStat("img.png", "modified", binary=True),
        FileStat("new.py", "renamed", 0, 2, old_path="old.py"),
        FileStat("run", "modified"),
    )
    assert render_stat(diff, colour=False, width=80) == (
        " app.py           |   4 +++-\n"
        " img.png          | Bin\n"
        " old.py => new.py |   2 --\n"
        " run              |   0\n"
        " 4 files changed, 3 insertions(+), 3 deletions(-)\n"
    )
    assert "\x1b[32m+++\x1b[0m\x1b[31m-\x1b[0m" in render_stat(diff, colour=True, width=80)


@pytest.mark.parametrize(
    ("additions", "deletions", "totals"),
    [
        (1, 0, " 1 file changed, 1 insertion(+)"),
        (0, 1, " 1 file changed, 1 deletion(-)"),
        (2, 2, " 1 file changed, 2 insertions(+), 2 deletions(-)"),
        (0, 0, " 1 file changed, 0 insertions(+), 0 deletions(-)"),
    ],
)
def test_totals_are_grammatical(additions: int, deletions: int, totals: str) -> None:
    shown = render_stat(stats(FileStat("a", "modified", additions, deletions)), colour=False, width=80)
    assert shown.split("\n")[-2] == totals


@pytest.mark.parametrize("width", [1, 40, 60, 80, 200])
def test_bars_are_scaled_to_the_width(width: int) -> None:
    """No line is longer than the terminal, a small change beside a huge one still shows, long names lose their head."""
    diff = stats(
        FileStat("a", "modified", 100_000, 50_000),
        FileStat("b", "modified", 1, 1),
        FileStat("deep/" * 30 + "name.py", "modified", 0, 700),
    )
    lines = render_stat(diff, colour=False, width=width).split("\n")[:3]
    assert all(len(line) <= max(width, 40) for line in lines)
    assert lines[0].count("+") > lines[0].count("-") > 0
    assert lines[1].endswith(" +-")
    assert "name.py |" in lines[2] and lines[2].endswith("-")
