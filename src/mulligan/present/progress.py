"""
A progress line for a terminal.

It appears only when the work has already taken a moment, is redrawn a few times a second at most, and is wiped before
anything else is printed. The caller decides whether there is a terminal to show it on.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

DELAY = 0.4
INTERVAL = 0.1
WIDTH = 24


class Stream(Protocol):
    """The stream that the line is drawn on."""

    def write(self, text: str, /) -> object:
        """Takes the characters."""

    def flush(self) -> object:
        """Shows them."""


class ProgressLine:
    """Draws `label ███░░ 12/40` on one line; call it with (label, done, total)."""

    def __init__(self, stream: Stream, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self._begun = clock()
        self._drawn = float("-inf")
        self._visible = False

    def __call__(self, label: str, done: int, total: int | None) -> None:
        """Notes how far the work is, and draws it when it is time."""
        now = self._clock()
        if now - self._begun < DELAY or now - self._drawn < INTERVAL:
            return
        self._drawn = now
        self._visible = True
        self._stream.write("\r\x1b[2K" + line(label, done, total))
        self._stream.flush()

    def clear(self) -> None:
        """Wipes the line, if there is one."""
        if self._visible:
            self._visible = False
            self._stream.write("\r\x1b[2K")
            self._stream.flush()


def line(label: str, done: int, total: int | None) -> str:
    """Returns the text of the progress line."""
    if not total:
        return f"{label} {done:,}"
    filled = min(WIDTH, done * WIDTH // total)
    return f"{label} {'█' * filled}{'░' * (WIDTH - filled)} {done:,}/{total:,}"
