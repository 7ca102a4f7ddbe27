"""The progress line: silent for short work, sparing for long work, gone afterwards."""

from __future__ import annotations

import io

from mulligan.present.progress import DELAY, INTERVAL, ProgressLine, line


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_short_work_shows_nothing():
    stream, clock = io.StringIO(), Clock()
    progress = ProgressLine(stream, clock=clock)
    for done in range(1000):
        progress("scanning", done, 1000)
    progress.clear()
    assert stream.getvalue() == ""


def test_long_work_is_shown_a_few_times_a_second_and_wiped():
    stream, clock = io.StringIO(), Clock()
    progress = ProgressLine(stream, clock=clock)
    clock.now += DELAY
    for done in range(1000):
        progress("scanning", done, 1000)
    clock.now += 2 * INTERVAL
    progress("scanning", 999, 1000)
    progress.clear()
    progress.clear()
    assert stream.getvalue().split("\r\x1b[2K") == ["", line("scanning", 0, 1000), line("scanning", 999, 1000), ""]


def test_the_line_has_a_bar_only_where_the_end_is_known():
    assert line("scanning", 1200, None) == "scanning 1,200"
    assert line("saving", 5, 10) == "saving " + "█" * 12 + "░" * 12 + " 5/10"
    assert line("saving", 20, 10).count("█") == 24
