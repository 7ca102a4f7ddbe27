"""Ignore rules by hand: each paragraph of gitignore(5), our own lists, keys and limits."""

from __future__ import annotations

import pytest

from mulligan.scan.ignore import IgnoreRules, Patterns
from mulligan.scan.wildmatch import MAX_FILE, MAX_LINE, MAX_TRIED


def says(content: bytes, path: bytes) -> bool | None:
    """The verdict of one root ignore file; a path ending in a slash is a directory."""
    return IgnoreRules.base(content).verdict(path.rstrip(b"/"), path.endswith(b"/"))


@pytest.mark.parametrize(
    ("content", "ignored", "not_mentioned"),
    [
        (b"foo\n", [b"foo", b"a/foo", b"a/b/foo/"], [b"foo2", b"afoo", b"foo/bar"]),
        (b"/foo\n", [b"foo", b"foo/"], [b"a/foo"]),
        (b"foo/\n", [b"foo/", b"a/foo/"], [b"foo", b"a/foo"]),
        (b"a/foo\n", [b"a/foo"], [b"b/a/foo", b"a/x/foo"]),
        (b"a/b/\n", [b"a/b/"], [b"a/b", b"x/a/b/"]),
        (b"*.c\n", [b"x.c", b"a/x.c", b".c"], [b"x.cc", b"c"]),
        (b"/*.c\n", [b"x.c"], [b"a/x.c"]),
        (b"a/*.c\n", [b"a/x.c"], [b"a/b/x.c"]),
        (b"lib*\n", [b"lib", b"libx", b"a/libz.a"], [b"alib"]),
        (b"a*z\n", [b"az", b"abcz"], [b"a", b"z", b"azb"]),
        (b"ab*ba\n", [b"abba", b"abxba"], [b"aba"]),
        (b"?\n", [b"a", b"x/b"], [b"ab"]),
        (b"*\n", [b"a", b"a/b"], []),
        (b"**\n", [b"a", b"a/b"], []),
        (b"**/foo\n", [b"foo", b"a/foo", b"a/b/foo"], [b"foo/x", b"xfoo"]),
        (b"**/a/b\n", [b"a/b", b"x/a/b", b"x/y/a/b"], [b"a/x/b", b"xa/b"]),
        (b"foo/**\n", [b"foo/x", b"foo/x/y"], [b"foo/", b"foo", b"a/foo/x"]),
        (b"a/**/b\n", [b"a/b", b"a/x/b", b"a/x/y/b"], [b"a/xb", b"b", b"x/a/b"]),
        (b"a/**/b/**/c\n", [b"a/b/c", b"a/x/b/y/b/c"], [b"a/c", b"a/c/b"]),
        (b"a**b\n", [b"ab", b"axb"], [b"a/b"]),
        (b"x/a**b\n", [b"x/ab", b"x/acb"], [b"x/a/b"]),
        (b"**\\/b\n", [b"a/b", b"x/a/b"], [b"b"]),
        (b"[ab].c\n", [b"a.c", b"b.c"], [b"c.c", b"ab.c"]),
        (b"[!a]\n", [b"b", b"\xff"], [b"a"]),
        (b"[^a-c]x\n", [b"dx"], [b"ax", b"cx"]),
        (b"[]-]\n", [b"]", b"-"], [b"["]),
        (b"[a-]\n", [b"a", b"-"], [b"b"]),
        (b"x[/]y\n", [], [b"x/y", b"xy"]),
        (b"x?y/z\n", [b"xay/z"], [b"x/y/z"]),
        (b"[[:digit:]]\n", [b"0", b"9"], [b"a"]),
        (b"[[:upper:][:space:]x]\n", [b"A", b" ", b"x"], [b"a"]),
        (b"[[:nope:]]\n[a\na\\\n", [], [b"a", b"[a", b"a\\", b":"]),
        (b"\\#a\n\\!b\n\\*\n", [b"#a", b"!b", b"*"], [b"a", b"b"]),
        (b"# a\n\n   \n", [], [b"# a", b" ", b"a"]),
        (b"a \nb\\ \nc\\\\ \nd \\ \n", [b"a", b"b ", b"c\\", b"d  "], [b"a ", b"b", b"c", b"d "]),
        (b" a\n", [b" a"], [b"a"]),
        (b"a\t\n", [b"a\t"], [b"a"]),
        (b"a\r\nb\r\r\nc\r", [b"a", b"b\r", b"c"], [b"a\r", b"b", b"c\r"]),
        (b"\xef\xbb\xbfa\n", [b"a"], [b"\xef\xbb\xbfa"]),
        (b"x\n\xef\xbb\xbfa\n", [b"\xef\xbb\xbfa"], [b"a"]),
        (b"a\0b\n", [b"a"], [b"b", b"ab"]),
        (b"/\n//\na//b\n//a\n!\n", [], [b"a", b"a/b", b"b"]),
        (b"foo", [b"foo"], []),
    ],
)
def test_patterns_mean_what_the_manual_says(content: bytes, ignored: list[bytes], not_mentioned: list[bytes]) -> None:
    """One file, the paths it hides, and near misses."""
    assert [path for path in ignored if says(content, path) is not True] == []
    assert [path for path in not_mentioned if says(content, path) is not None] == []


def test_the_last_match_wins_whatever_shape_it_has() -> None:
    """Order decides between names, endings, beginnings, paths and wildcards, in both directions."""
    shapes = [b"keep.txt", b"*.txt", b"keep*", b"k*p.txt", b"/a/keep.txt", b"a/k*t", b"**/keep.txt", b"[j-l]*", b"*"]
    for first in shapes:
        for second in shapes:
            assert says(first + b"\n!" + second + b"\n", b"a/keep.txt") is False, (first, second)
            assert says(b"!" + first + b"\n" + second + b"\n", b"a/keep.txt") is True, (first, second)


def test_a_repeated_line_counts_where_it_stands_last() -> None:
    """The same pattern, hidden, taken back and hidden again."""
    assert says(b"a\n!a\na\n", b"a") is True
    assert says(b"!a\na\n!a\n", b"a") is False


def test_a_deeper_file_is_stronger_and_relative_to_its_directory() -> None:
    """Rules of a directory come before those above it and are anchored there."""
    root = IgnoreRules.base(b"*.log\n").enter(b"", b"/build\n*.tmp\n")
    inner = root.enter(b"src/app", b"!*.log\n/build\nx/y\n")
    assert root.verdict(b"src/app/a.log", False) is True
    assert inner.verdict(b"src/app/a.log", False) is False
    assert inner.verdict(b"src/app/a.tmp", False) is True
    assert inner.verdict(b"src/app/build", True) is True
    assert inner.verdict(b"src/app/x/y", False) is True
    assert inner.verdict(b"src/app/z/build", True) is None


def test_layers_of_the_base_are_given_weakest_first() -> None:
    """`info/exclude` takes back what the global excludes hide, and ignore files both."""
    rules = IgnoreRules.base(b"a\nb\n", b"!a\nc\n")
    assert [rules.verdict(name, False) for name in (b"a", b"b", b"c")] == [False, True, True]
    assert rules.enter(b"", b"a\n!b\n").verdict(b"a", False) is True
    assert rules.enter(b"", b"a\n!b\n").verdict(b"b", False) is False


def test_rules_above_the_workspace_see_the_whole_path() -> None:
    """A file two levels up anchors there; one level up there; names count wherever they are written."""
    rules = (
        IgnoreRules.base().above(b"packages/web", b"/packages/web/dist\n/dist2\n*.log\n").above(b"web", b"web/*.tmp\n")
    )
    assert rules.verdict(b"dist", True) is True
    assert rules.verdict(b"dist2", True) is None
    assert rules.verdict(b"a/b.log", False) is True
    assert rules.verdict(b"x.tmp", False) is True
    assert rules.verdict(b"a/x.tmp", False) is None
    assert rules.enter(b"", b"!dist\n").verdict(b"dist", True) is False
    assert IgnoreRules.base().above(b"", b"/a\n").verdict(b"a", False) is True


def test_keys_name_the_context() -> None:
    """Equal chains have equal keys; another content, place, order or kind of layer has another."""
    base = IgnoreRules.base(b"a", b"b")
    assert base.key == IgnoreRules.base(b"a", b"b").key
    assert base.enter(b"d", b"") is base
    assert base.above(b"d", b"") is base
    others = [
        IgnoreRules.base(),
        IgnoreRules.base(b"b", b"a"),
        IgnoreRules.base(b"ab"),
        base,
        base.enter(b"d", b"x"),
        base.enter(b"e", b"x"),
        base.enter(b"d", b"y"),
        base.above(b"d", b"x"),
        base.enter(b"", b"dx"),
        base.enter(b"d", b"x").enter(b"d/e", b"x"),
    ]
    assert len({rules.key for rules in others}) == len(others)
    assert {len(rules.key) for rules in others} == {16}


@pytest.mark.parametrize(
    "line",
    [
        b"a*" * 5000 + b"b",
        b"*a" * 5000 + b"*c",
        b"*aaaaaaaaaaaaaaab" * 50,
        b"**/" * 3000 + b"x*y*z",
        b"**/a/" * 2000 + b"b",
        b"**/*a*a*a*a/" * 300 + b"*b",
        b"*/" * 500 + b"*a*a*a*a*a*b",
        b"?*" * 3000 + b"b",
        b"[ab]*" * 3000 + b"c",
        b"[[:alpha:]]*" * 2000 + b"[!a]",
        b"[" + b"a-z" * 15000 + b"]*[!a]",
        b"[" * 60000,
        b"[[:" * 20000,
        b"\\" * 60000,
        b"*" * 60000 + b"b",
    ],
)
def test_a_hostile_pattern_ends(line: bytes) -> None:
    """Patterns made to backtrack are answered at once; with a way back into each star they would outlast the sun."""
    rules = IgnoreRules.base(line + b"\n" + line.replace(b"/", b"") + b"\n")
    for path in (b"a" * 255, b"/".join([b"a" * 250] * 16), b"/".join([b"a"] * 1500)):
        assert rules.verdict(path, False) is None
        rules.verdict(path + b"b", False)


def test_a_line_over_the_limit_is_left_out() -> None:
    """The rest of the file still counts."""
    rules = IgnoreRules.base().enter(b"d", b"x\n" + b"[" + b"a" * MAX_LINE + b"]\ny\n")
    assert [rules.verdict(b"d/" + name, False) for name in (b"x", b"a", b"y")] == [True, None, True]


def test_a_file_over_the_limit_hides_nothing() -> None:
    """Too much to read means that more is captured, not less."""
    rules = IgnoreRules.base(b"*\n" * (MAX_FILE // 2 + 1))
    assert rules.verdict(b"a", False) is None


def test_of_too_many_wildcards_the_last_count() -> None:
    """A file of countless odd patterns is followed from its end."""
    rules = IgnoreRules.base(b"".join(b"%d*x*y\n" % number for number in range(MAX_TRIED + 10)))
    assert rules.verdict(b"%d-x-y" % (MAX_TRIED + 9), False) is True
    assert rules.verdict(b"0-x-y", False) is None


def test_many_plain_names_are_no_problem() -> None:
    """Names, endings and paths are looked up, so their number has no limit of its own."""
    rules = IgnoreRules.base(b"".join(b"name%d\n*.e%d\n/p/%d\n" % (n, n, n) for n in range(5000)))
    assert all(rules.verdict(path, False) for path in (b"a/name0", b"x.e4999", b"p/77"))
    assert rules.verdict(b"q/77", False) is None


def test_own_patterns_name_directories_with_all_they_hold() -> None:
    """`node_modules` and `build/` cover what is inside; the last match wins; nothing below one is taken back."""
    patterns = Patterns(["node_modules", "/build/", "*.bin", "!keep.bin", "!node_modules/a"])
    assert patterns
    assert patterns.match(b"web/node_modules/x/y.js", is_dir=False)
    assert patterns.match(b"build/x", is_dir=False)
    assert not patterns.match(b"build", is_dir=False)
    assert not patterns.match(b"a/build/x", is_dir=False)
    assert patterns.match(b"a.bin", is_dir=False)
    assert not patterns.match(b"keep.bin", is_dir=False)
    assert patterns.match(b"node_modules/a", is_dir=False)
    assert patterns.match(b"build/keep.bin", is_dir=False)


def test_an_empty_list_matches_nothing() -> None:
    """No patterns, comments alone and hopeless patterns are all empty lists."""
    for lines in ([], [""], ["# comment"], ["[a"]):
        assert not Patterns(lines)
        assert not Patterns(lines).match(b"a", is_dir=False)
        assert not Patterns(lines).may_match_below(b"a")


def test_lists_have_keys_by_their_lines() -> None:
    """The same lines, the same key."""
    assert Patterns(["a", "b"]).key == Patterns(iter(["a", "b"])).key
    assert Patterns(["a", "b"]).key != Patterns(["b", "a"]).key
    assert len(Patterns([]).key) == 16


@pytest.mark.parametrize(
    ("line", "opened", "closed"),
    [
        ("build/keep/*.txt", [b"build", b"build/keep"], [b"built", b"build/other", b"build/keep/x", b"a/build"]),
        ("/out", [b"out", b"out/x"], [b"a", b"a/out"]),
        ("a/**/b.txt", [b"a", b"a/x", b"a/x/y"], [b"b"]),
        ("a/b/**", [b"a", b"a/b", b"a/b/c"], [b"b", b"a/c"]),
        ("/*/keep", [b"any", b"any/keep", b"any/keep/x"], [b"any/other", b"a/b/keep"]),
        ("b[uv]ild/x/y", [b"build", b"bvild/x"], [b"bxild", b"build/y"]),
        (".env.example", [], [b"node_modules", b"a/b"]),
        ("**/keep.txt", [], [b"node_modules"]),
        ("**/a/keep.txt", [], [b"node_modules", b"a"]),
        ("node_modules", [b"node_modules", b"x/node_modules/y"], [b"x"]),
        ("!build/keep", [], [b"build"]),
        ("a//b", [], [b"a"]),
    ],
)
def test_an_include_opens_only_the_directories_on_its_way(line: str, opened: list[bytes], closed: list[bytes]) -> None:
    """An anchored pattern leads down its own path; one that may match anywhere opens nothing."""
    patterns = Patterns([line])
    assert [directory for directory in opened if not patterns.may_match_below(directory)] == []
    assert [directory for directory in closed if patterns.may_match_below(directory)] == []
