"""A program at a terminal of a given size: what it shows, and what a person types at the right moment."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import termios
import time
from pathlib import Path

from tools import plain_environment, start_mulligan

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07]*\x07|[()][A-Z0-9]|[=>78])")


class Terminal:
    """`mulligan …` with all three streams on a terminal."""

    def __init__(self, *words: str, cwd: Path, rows: int = 24, columns: int = 80, **env: str) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        environment = plain_environment(TERM="xterm", PROMPT_TOOLKIT_NO_CPR="1", **env)
        streams = (theirs, theirs, theirs)
        self._process = start_mulligan(words, cwd=cwd, env=environment, streams=streams, session=True)
        os.close(theirs)
        self.shown = ""

    def until(self, text: str, *, seconds: float = 20) -> str:
        """Reads until a text is shown; returns what was shown since the last time, without what only draws."""
        start, end = len(self.shown), time.monotonic() + seconds
        while text not in (seen := _ESCAPES.sub("", self.shown[start:])):
            assert time.monotonic() < end and self._read(), f"{text!r} was not shown: {seen}"
        return seen

    def type(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def end(self) -> tuple[int, str]:
        """Waits for the end; returns the exit code, and what was shown."""
        while self._read():
            pass
        os.close(self._ours)
        return self._process.wait(), _ESCAPES.sub("", self.shown)

    def _read(self) -> bool:
        if not select.select([self._ours], [], [], 20)[0]:
            return False
        try:
            part = os.read(self._ours, 65536)
        except OSError:
            return False
        self.shown += part.decode(errors="replace")
        return bool(part)
