"""
Text that may come from a hostile file, made safe to print.

A terminal obeys what it is sent: escape sequences can retitle a window, hide lines or answer as if typed, and
direction marks can show code in another order than it runs. After `visible`, nothing in the text acts; what would is
written out as an escape.
"""

from __future__ import annotations

import re

# Controls (C0, DEL, C1), lone surrogates, line and paragraph separators, direction marks, invisible spaces and tags.
# The joiners U+200C and U+200D stay: scripts and emoji need them, and they act on nothing but their neighbours.
_ACTS = (
    "[\x00-\x1f\x7f-\x9f\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ud800-\udfff\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f]"
)
_LETTERS = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}


def visible(text: str, *, keep: str = "") -> str:
    r"""
    Returns text with every character that would act on a terminal written as an escape (`\x1b`, `\u202e`).

    Newlines and tabs are written out too, as suits a name; `keep="\n\t"` leaves them, as suits a text.
    """
    if text.isascii() and text.isprintable():
        return text  # nearly always, and then `re` is not loaded

    def written(found: re.Match[str]) -> str:
        return found[0] if found[0] in keep else _escape(found[0])

    return re.sub(_ACTS, written, text)


def _escape(character: str) -> str:
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"  # a byte that was not UTF-8
    if character in _LETTERS:
        return _LETTERS[character]
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def columns(text: str) -> int:
    """Returns how many terminal columns a visible text takes: two for wide characters, none for combining marks."""
    if text.isascii():
        return len(text)
    return sum(_columns(character) for character in text)


def _columns(character: str) -> int:
    import unicodedata

    if unicodedata.combining(character) or unicodedata.category(character) in {"Mn", "Me", "Cf"}:
        return 0
    return 2 if unicodedata.east_asian_width(character) in {"W", "F"} else 1


def shortened(text: str, width: int) -> str:
    """Returns text that fits into a width, its beginning cut off: the end of a path says more."""
    if columns(text) <= width:
        return text
    room, at = max(width - 3, 0), len(text)
    while at > 0 and room >= _columns(text[at - 1]):
        at -= 1
        room -= _columns(text[at])
    return "..."[: max(width, 0)] + text[at:]


def clipped(text: str, width: int) -> str:
    """Returns text that fits into a width, an ellipsis where its end was cut off."""
    if columns(text) <= width:
        return text
    at, room = 0, max(width - 1, 0)
    while at < len(text) and room >= _columns(text[at]):
        room -= _columns(text[at])
        at += 1
    return text[:at] + "…"[: max(width, 0)]
