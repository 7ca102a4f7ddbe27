"""The wildcard language on its own: what is hopeless, and that the cheap checks never lie."""

from __future__ import annotations

import pytest

from mulligan.scan.wildmatch import parse, segments


@pytest.mark.parametrize(
    "pattern", [b"", b"[a", b"[]", b"[!", b"[[:x:]]", b"[[:alpha:", b"a\\", b"a//b", b"a/", b"[a\\", b"[a-\\"]
)
def test_what_nothing_can_match_is_no_glob(pattern: bytes) -> None:
    """Unclosed brackets, unknown classes, a last backslash and empty parts never match."""
    assert parse(pattern, whole=True) is None


@pytest.mark.parametrize(
    ("pattern", "head", "tail"),
    [
        (b"a/b*.c", b"a/b", b".c"),
        (b"a/**", b"a/", b""),
        (b"a/**/b", b"a/", b"b"),
        (b"**/a/b?", b"", b""),
        (b"[ab]c/*d", b"", b"d"),
        (b"a\\*b/\\?", b"a*b/?", b"?"),
    ],
)
def test_literal_ends_are_those_of_every_match(pattern: bytes, head: bytes, tail: bytes) -> None:
    """What is checked before the expression: beginning and ending."""
    glob = parse(pattern, whole=True)
    assert glob is not None
    assert (head, tail) == (glob.head(), glob.tail())


def test_stars_that_touch_are_one() -> None:
    """A run of stars cuts a component once."""
    glob = parse(b"a***b*", whole=False)
    assert glob is not None
    assert [len(part) for part in segments(glob.groups[0][0])] == [1, 1, 0]
