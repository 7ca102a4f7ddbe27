"""
Names as git writes them in a patch.

A name with a control character, a quote, a backslash, or bytes that are not UTF-8 is put in quotes with C escapes;
any other stands as it is, also beyond ASCII. `git apply` reads both.
"""

from __future__ import annotations

_LETTERS = {7: b"a", 8: b"b", 9: b"t", 10: b"n", 11: b"v", 12: b"f", 13: b"r", 34: b'"', 92: b"\\"}
_MUST = bytes(range(32)) + b'"\\\x7f'
_BLANKS = b" \t\n\v\f\r"


def quoted(name: bytes) -> bytes:
    """Returns a name, in quotes if git would need them."""
    foreign = not _is_utf8(name)
    if not foreign and not any(byte in _MUST for byte in name):
        return name
    return b'"' + b"".join([_escaped(byte, foreign=foreign) for byte in name]) + b'"'


def file_line(mark: bytes, name: bytes) -> bytes:
    """Returns a `---` or `+++` line; a tab ends a name with blanks, or a reader takes what follows for a date."""
    shown = quoted(name)
    end = b"\t\n" if not shown.startswith(b'"') and any(byte in _BLANKS for byte in shown) else b"\n"
    return mark + b" " + shown + end


def _escaped(byte: int, *, foreign: bool) -> bytes:
    if byte in _LETTERS:
        return b"\\" + _LETTERS[byte]
    if byte < 32 or byte == 127 or (foreign and byte >= 128):
        return b"\\%03o" % byte
    return bytes((byte,))


def _is_utf8(name: bytes) -> bool:
    try:
        name.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
