from __future__ import annotations

import pytest

from mulligan.diff.patch import file_line, quoted


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        (b"plain/name.py", b"plain/name.py"),
        (b"with blank", b"with blank"),
        ("ünï/😀".encode(), "ünï/😀".encode()),
        (b"tab\there", b'"tab\\there"'),
        (b"new\nline", b'"new\\nline"'),
        (b'q"uote', b'"q\\"uote"'),
        (b"back\\slash", b'"back\\\\slash"'),
        (b"\x01\x1b\x7f", b'"\\001\\033\\177"'),
        (b"caf\xe9", b'"caf\\351"'),
        (b"\xc3\xa9\xff", b'"\\303\\251\\377"'),
    ],
)
def test_names_are_quoted_as_git_does(name: bytes, shown: bytes) -> None:
    assert quoted(name) == shown


def test_a_name_with_blanks_ends_in_a_tab() -> None:
    """Else what follows the blank is taken for a date."""
    assert file_line(b"---", b"a/x") == b"--- a/x\n"
    assert file_line(b"---", b"a/x y") == b"--- a/x y\t\n"
    assert file_line(b"+++", b"b/x\ty") == b'+++ "b/x\\ty"\n'
