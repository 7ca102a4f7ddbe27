"""The wildcard language on its own: what is hopeless, and that the cheap checks never lie."""

from __future__ import annotations

import pytest

from mulligan.scan.wildmatch import parse, segments, spellings


@pytest.mark.parametrize(
    "pattern", [b"", b"[a", b"[]", b"[!", b"[[:x:]]", b"[[:alpha:", b"a\\", b"a//b", b"a/", b"[a\\", b"[a-\\"]
)
def test_what_nothing_can_match_is_no_glob(pattern: bytes) -> None:
    """Unclosed brackets, unknown classes, a last backslash and empty parts never match."""
    assert parse(pattern, whole=True) is None


@pytest.mark.parametrize(
    ("pattern", "head", "tail", "least"),
    [
        (b"a/b*.c", b"a/b", b".c", 5),
        (b"a/**", b"a/", b"", 1),
        (b"a/**/b", b"a/", b"b", 3),
        (b"**/a/b?", b"", b"", 4),
        (b"[ab]c/*d", b"", b"d", 4),
        (b"a\\*b/\\?", b"a*b/?", b"?", 5),
    ],
)
def test_literal_ends_are_those_of_every_match(pattern: bytes, head: bytes, tail: bytes, least: int) -> None:
    """What is checked before the expression: beginning, ending and least length."""
    glob = parse(pattern, whole=True)
    assert glob is not None
    assert (head, tail, least) == (glob.head(), glob.tail(), glob.least())


def test_small_brackets_are_spelled_out() -> None:
    """A few spellings become names; many, or a star, do not."""
    glob = parse(b"[Bb]in[12]", whole=False)
    assert glob is not None
    assert spellings(glob.groups[0][0]) == [b"Bin1", b"Bin2", b"bin1", b"bin2"]
    for many in (b"[a-z]", b"?", b"a*", b"[ab][ab][ab][ab][ab]"):
        glob = parse(many, whole=False)
        assert glob is not None
        assert spellings(glob.groups[0][0]) is None


def test_stars_that_touch_are_one() -> None:
    """A run of stars cuts a component once."""
    glob = parse(b"a***b*", whole=False)
    assert glob is not None
    assert [len(part) for part in segments(glob.groups[0][0])] == [1, 1, 0]
