"""Which deletions are renames."""

from __future__ import annotations

import hashlib

import pytest

from mulligan.usergit import staged
from mulligan.usergit.staged import renamed

FILE, LINK = 0o100644, 0o120000
LINES = [b"line number %d\n" % number for number in range(20)]


def run(deleted: dict[bytes, bytes], added: dict[bytes, bytes], mode: int = FILE) -> set[bytes]:
    blobs = {hashlib.sha1(content).digest(): content for content in (*deleted.values(), *added.values())}
    ids = {content: oid for oid, content in blobs.items()}
    old = {path: (FILE, ids[content]) for path, content in deleted.items()}
    new = {path: (mode, ids[content]) for path, content in added.items()}
    return renamed(old, new, blobs.get)


def test_equal_content_is_a_rename() -> None:
    """Each old name once, the same base name first."""
    assert run({b"a": b"x"}, {b"b": b"x"}) == {b"a"}
    assert run({b"a": b"x", b"d/b": b"x"}, {b"b": b"x"}) == {b"d/b"}
    assert run({b"a": b"x"}, {b"b": b"x"}, mode=LINK) == set()


def test_similar_content_is_a_rename() -> None:
    """Half of it, or three quarters to be preferred for the same base name."""
    whole = b"".join(LINES)
    assert run({b"a": whole}, {b"b": whole + b"more\n"}) == {b"a"}
    assert run({b"a": whole}, {b"b": b"".join(LINES[:11])}) == {b"a"}
    assert run({b"a": whole}, {b"b": b"".join(LINES[:9])}) == set()
    assert run({b"x/a": whole, b"y/q": whole + b"!\n"}, {b"z/a": whole + b"?\n"}) == {b"x/a"}
    assert run({b"a": whole}, {b"b": b""}) == set()


def test_line_ends_do_not_count_in_text() -> None:
    """As git compares: CRLF and LF are the same, in text."""
    whole = b"".join(LINES)
    assert run({b"a": whole}, {b"b": whole.replace(b"\n", b"\r\n")}) == {b"a"}


@pytest.mark.parametrize("limit", ["PAIRS_LIMIT", "TOTAL_LIMIT", "WORK_LIMIT", "BLOB_LIMIT"])
def test_beyond_the_limits_only_equal_content_counts(monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    """Nobody can make the comparison last."""
    monkeypatch.setattr(staged, limit, 0)
    whole = b"".join(LINES)
    assert run({b"a": whole, b"c": b"same"}, {b"b": whole + b"more\n", b"d": b"same"}) == {b"c"}
