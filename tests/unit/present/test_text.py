"""Words for people."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from mulligan.present.text import Style, ago, bar, columns, count, date, shorten, some

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("past", "words"),
    [
        (timedelta(0), "just now"),
        (timedelta(seconds=5), "5 s ago"),
        (timedelta(seconds=59), "59 s ago"),
        (timedelta(seconds=60), "1 min ago"),
        (timedelta(minutes=3, seconds=40), "3 min ago"),
        (timedelta(hours=23, minutes=59), "23 h ago"),
        (timedelta(days=1), "1 day ago"),
        (timedelta(days=13), "1 week ago"),
        (timedelta(days=34), "4 weeks ago"),
        (timedelta(seconds=-30), "just now"),
    ],
)
def test_a_time_is_told_in_one_unit(past, words):
    assert ago(NOW - past, NOW) == words


@pytest.mark.parametrize("past", [timedelta(days=35), timedelta(days=4000), timedelta(hours=-2)])
def test_long_ago_and_the_future_are_told_as_a_date(past):
    assert ago(NOW - past, NOW) == date(NOW - past)


def test_counts_agree_in_number():
    assert [count(0, "file"), count(1, "file"), count(1234, "file"), count(2, "entry", "entries")] == [
        "0 files",
        "1 file",
        "1,234 files",
        "2 entries",
    ]


def test_a_long_list_shows_its_beginning_and_the_number_of_the_rest():
    assert some(["a", "b", "c"]) == "a, b, c"
    assert some(["a", "b", "c", "d", "e"]) == "a, b, c, +2 more"
    assert some(["a"], of=1001) == "a, +1,000 more"


def test_text_is_cut_with_an_ellipsis():
    assert (shorten("abc", 3), shorten("abcd", 3), shorten("abcd", 0)) == ("abc", "ab…", "…")


def test_columns_align_also_with_wide_characters():
    assert columns([("a", "1"), ("日本", "22")]) == ["a     1", "日本  22"]
    assert columns([("a", "1"), ("bb", "22")], right=frozenset({1})) == ["a    1", "bb  22"]
    assert columns([]) == []


def test_colour_is_added_after_padding_and_only_when_wanted():
    red = Style(enabled=True)
    assert columns([("a", "b")], paint=lambda _r, at, text: red("red", text) if at == 0 else text) == [
        "\x1b[31ma\x1b[0m  b"
    ]
    assert Style(enabled=False)("red", "x") == "x"
    assert red("red", "") == ""


def test_a_bar_shows_only_what_it_stands_for_and_never_overflows():
    assert (bar(0, 4), bar(0.001, 4), bar(0.5, 4), bar(7, 4)) == ("░░░░", "░░░░", "██░░", "████")
