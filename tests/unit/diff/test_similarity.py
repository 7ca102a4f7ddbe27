from __future__ import annotations

import pytest

from mulligan.diff.lines import is_binary
from mulligan.diff.renames import fingerprint, score


@pytest.mark.parametrize(
    ("one", "other", "percent"),
    [
        (b"a\nb\n", b"a\nb\n", 100),
        (b"a\nb\n", b"b\na\n", 100),
        (b"a\nb\n", b"a\nc\n", 50),
        (b"a\n" * 4, b"a\n", 25),
        (b"a\n", b"b\n", 0),
        (b"", b"", 0),
        (b"x" * 640, b"x" * 320, 50),
        (b"x", b"x\n", 0),
    ],
)
def test_similarity_is_the_share_of_common_bytes(one: bytes, other: bytes, percent: int) -> None:
    """Order does not count, repetition does, and long lines count in pieces."""
    assert score(fingerprint(one), fingerprint(other)) == percent
    assert score(fingerprint(other), fingerprint(one)) == percent


def test_binary_is_what_has_a_nul_near_its_beginning() -> None:
    """As git decides."""
    assert is_binary(b"x" * 7999 + b"\0")
    assert not is_binary(b"x" * 8000 + b"\0")
    assert not is_binary(b"caf\xe9\n")
