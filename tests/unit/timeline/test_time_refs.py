"""Times as references: what a text means, and which checkpoint that is."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mulligan
from mulligan.timeline.time_refs import Span, nanoseconds, parse_time
from tools import cli

NOW = datetime(2026, 11, 18, 15, 30, 20, 500_000, tzinfo=UTC)
NOW_NS = nanoseconds(NOW)
SECOND = 1_000_000_000
UNITS = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800, "min": 60, "h": 3600, "s": 1, "m": 60}


@pytest.fixture(autouse=True)
def zone(monkeypatch):
    """A zone in which local times differ from UTC and days have 24 hours."""
    monkeypatch.setenv("TZ", "CET-2")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def local(*parts: int) -> int:
    return nanoseconds(datetime(*parts, tzinfo=UTC) - timedelta(hours=2))


@pytest.mark.parametrize(
    ("text", "start", "length"),
    [
        ("@14:05", local(2026, 11, 18, 14, 5), 60),
        ("14:05:30", local(2026, 11, 18, 14, 5, 30), 1),
        ("@23:59", local(2026, 11, 17, 23, 59), 60),  # it is 17:30 there: yesterday's
        ("yesterday", local(2026, 11, 17), 86_400),
        ("Today", local(2026, 11, 18), 86_400),
        ("yesterday at 9:15", local(2026, 11, 17, 9, 15), 60),
        ("2026-11-16", local(2026, 11, 16), 86_400),
        ("2026-11-16T10:00", local(2026, 11, 16, 10), 60),
        ("2026-11-16 10:00:07", local(2026, 11, 16, 10, 0, 7), 1),
        ("2026-11-16T10:00:07Z", nanoseconds(datetime(2026, 11, 16, 10, 0, 7, tzinfo=UTC)), 1),
        ("@2026-11-16T10:00:07+05:30", nanoseconds(datetime(2026, 11, 16, 4, 30, 7, tzinfo=UTC)), 1),
        ("1970-01-01T00:00Z", 0, 60),
    ],
)
def test_a_time_means_the_whole_unit_it_is_written_in(text, start, length):
    assert parse_time(text, NOW_NS) == Span(start, start + length * SECOND - 1)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("an hour ago", 3600),
        ("an hour and 5 min ago", 3900),
        ("1h20m ago", 4800),
        ("2 days, 3 hours ago", 183_600),
        ("a week ago", 604_800),
    ],
)
def test_an_age_is_counted_back_from_now(text, seconds):
    at = NOW_NS - seconds * SECOND
    assert parse_time(text, NOW_NS) == Span(at, at)


def test_months_and_years_are_those_of_the_calendar():
    assert parse_time("1 month ago", NOW_NS).end == nanoseconds(NOW.replace(month=10))
    assert parse_time("2 years ago", NOW_NS).end == nanoseconds(NOW.replace(year=2024))
    assert parse_time("9 months ago", nanoseconds(NOW.replace(day=30))).end == nanoseconds(NOW.replace(month=2, day=28))


@pytest.mark.parametrize(
    "text",
    ["", "@", "now", "20", "minutes ago", "20 minutes", "in 20 minutes", "2026", "20261118", "deadbeef", "25:00", "14:61",
     "2026-02-30", "2026-13-01", "999999 years ago", "release 14:05", "2026-W47-1", "and ago", "a ago"],
)  # fmt: skip
def test_other_words_are_no_time(text):
    assert parse_time(text, NOW_NS) is None


@given(st.lists(st.tuples(st.integers(1, 9999), st.sampled_from(sorted(UNITS))), min_size=1, max_size=4))
def test_amounts_add_up_in_any_order(parts):
    text = " ".join(f"{number} {unit}{'s' if len(unit) > 2 and number != 1 else ''}" for number, unit in parts) + " ago"
    at = NOW_NS - sum(number * UNITS[unit] for number, unit in parts) * SECOND
    assert parse_time(text, NOW_NS) == Span(max(at, 0), max(at, 0))


@given(st.datetimes(min_value=datetime(1971, 1, 1), max_value=datetime(2260, 1, 1)), st.integers(-14 * 60, 14 * 60))
def test_every_moment_that_is_written_out_is_found_again(at, minutes):
    """ISO 8601 as Python writes it, in any zone; what a checkpoint's own time says finds that checkpoint."""
    offset = timedelta(minutes=minutes)
    aware = at.replace(tzinfo=UTC)
    written = aware.astimezone(datetime.now().astimezone().tzinfo).isoformat()
    elsewhere = (aware + offset).replace(
        tzinfo=None
    ).isoformat() + f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"
    for text in (written, elsewhere, "@" + elsewhere):
        span = parse_time(text, NOW_NS)
        assert span.start == nanoseconds(aware)
        assert span.end - span.start in {999, SECOND - 1}


@given(st.text(max_size=40))
def test_no_text_makes_the_parser_fail(text):
    span = parse_time(text, NOW_NS)
    assert span is None or 0 <= span.start <= span.end


def test_a_time_means_the_newest_checkpoint_at_or_before_it(project):
    ws = mulligan.open(project)
    made = []
    for text in ("one", "two", "three"):
        (project / "a").write_text(text)
        made.append(ws.save(text))
    for cp in made:
        assert ws.get(cp.created_at.isoformat()).id == cp.id
        assert ws.get(f"@{cp.created_at.isoformat()}").id == cp.id
    before = made[1].created_at - timedelta(microseconds=1)
    assert ws.get(before.isoformat()).id == made[0].id
    assert ws.cat("0 seconds ago", "a") == b"three"


def test_names_win_over_times(project):
    ws = mulligan.open(project)
    (project / "a").write_text("one")
    first = ws.save("yesterday")
    (project / "a").write_text("two")
    ws.save("second")
    assert ws.get("yesterday").id == first.id


def test_a_time_before_the_first_checkpoint_is_an_error_that_names_the_oldest(project):
    (project / "a").write_text("one")
    first = mulligan.open(project).save("first")
    done = cli("restore", "20 minutes ago", cwd=project)
    assert done.returncode == 1
    assert "No checkpoint is as old as '20 minutes ago'" in done.stderr and first.short_id in done.stderr
    assert "mulligan log --time" in done.stderr


def test_commands_take_times_with_colons(project):
    (project / "a").write_text("one")
    at = mulligan.open(project).save("first").created_at.astimezone()
    assert cli("cat", f"@{at:%Y-%m-%dT%H:%M:%S}:a", cwd=project).stdout == "one"
    (project / "a").write_text("two")
    assert "-one" in cli("diff", "0 seconds ago", cwd=project).stdout
    assert cli("restore", "0 minutes ago", cwd=project).returncode == 0
    assert (project / "a").read_text() == "one"
