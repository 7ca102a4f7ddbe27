from __future__ import annotations

import pytest

from mulligan.present.visible import columns, shortened, visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text, ünï 日本 😀", "plain text, ünï 日本 😀"),
        ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("a\rb\nc\td", "a\\rb\\nc\\td"),
        ("\x9b31m\x7f\x00", "\\x9b31m\\x7f\\x00"),
        ("\u202eevil\u2066", "\\u202eevil\\u2066"),
        ("zero\u200bwidth\ufeff", "zero\\u200bwidth\\ufeff"),
        ("\u2028", "\\u2028"),
        ("caf\udce9", "caf\\xe9"),
        ("\ud83d", "\\ud83d"),
        ("\U000e0041", "\\U000e0041"),
        ("👨‍👩‍👧", "👨‍👩‍👧"),
    ],
)
def test_nothing_that_acts_is_left(text: str, shown: str) -> None:
    assert visible(text) == shown
    visible(text).encode("utf-8")


def test_every_control_is_written_out() -> None:
    """All of C0, DEL and C1."""
    for code in (*range(32), *range(127, 160)):
        assert visible(chr(code)).isprintable()


def test_a_text_keeps_its_lines_and_tabs() -> None:
    assert visible("a\n\tb\r\x1b", keep="\n\t") == "a\n\tb\\r\\x1b"


@pytest.mark.parametrize(("text", "width"), [("abc", 3), ("日本", 4), ("e\u0301", 1), ("a\u200db", 2), ("", 0)])
def test_columns_count_what_the_terminal_shows(text: str, width: int) -> None:
    assert columns(text) == width


@pytest.mark.parametrize(
    ("text", "width", "short"),
    [
        ("path/name", 9, "path/name"),
        ("path/name", 8, ".../name"),
        ("日本語", 5, "...語"),
        ("日本語", 4, "..."),
        ("abcdef", 2, ".."),
    ],
)
def test_a_path_is_shortened_at_its_beginning(text: str, width: int, short: str) -> None:
    assert shortened(text, width) == short
    assert columns(shortened(text, width)) <= width
