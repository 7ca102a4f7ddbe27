"""
The standard streams of a command, and its screens.

A stream that is closed, full or abandoned never changes what the command did. It is replaced by the null device, so that the
interpreter's own flush at exit succeeds; Python would end with exit code 120 otherwise.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TextIO

from mulligan.cli.commands import PAGED

if TYPE_CHECKING:
    from mulligan.present.text import Style


def steady_streams() -> None:
    """Replaces closed streams by the null device and makes odd encodings escape what they cannot say."""
    for name in ("stdin", "stdout", "stderr"):
        stream: TextIO | None = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "r" if name == "stdin" else "w", encoding="utf-8"))  # noqa: SIM115 - for the life of the process
        elif name != "stdin" and hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def abandon(stream: TextIO) -> None:
    """Sends what the stream still buffers, and all that follows, to the null device."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, stream.fileno())
    except (OSError, ValueError):
        return  # no descriptor behind this stream (a test, an embedding program)
    finally:
        os.close(nowhere)


def tell(text: str, stream: TextIO | None = None) -> None:
    """Writes to stderr; drops text that cannot be written, since the exit code reports the result."""
    out = sys.stderr if stream is None else stream
    try:
        out.write(text)
        out.flush()
    except OSError:
        abandon(out)


def settle() -> None:
    """Flushes both output streams before the process ends, and abandons one that cannot be flushed."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except (OSError, ValueError):
            abandon(stream)


def as_json(document: Any) -> str:
    """Returns a document as the one line of JSON that a command prints, indented for a person."""
    import json

    text: str = json.dumps(document, indent=2 if sys.stdout.isatty() else None)
    return text + "\n"


def is_paged(command: str, words: Sequence[str]) -> bool:
    """Returns whether the output of a command goes through a pager: a long one, on a terminal, as text."""
    options = words[: words.index("--")] if "--" in words else words
    if command not in PAGED or "--no-pager" in options or "--json" in options:
        return False
    return sys.stdout is not None and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


class Screen:
    """One of the two streams: whether it is a terminal, its width, and whether colour is welcome."""

    def __init__(self, stream: TextIO, environ: Mapping[str, str], color: str = "auto") -> None:
        self.stream = stream
        self.is_terminal = stream.isatty()
        welcome = self.is_terminal and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"
        self._colour = welcome if color == "auto" else color == "always"

    @cached_property
    def style(self) -> Style:
        """Colour, or the absence of it; a result as JSON asks for neither."""
        from mulligan.present.text import Style

        return Style(enabled=self._colour)

    @cached_property
    def width(self) -> int | None:
        """The columns of the terminal, None where there is none."""
        if not self.is_terminal:
            return None
        told: int | None = getattr(self.stream, "columns", None)
        if told:
            return told
        import shutil

        return shutil.get_terminal_size().columns

    @property
    def draws(self) -> bool:
        """Whether the stream can show more than ASCII."""
        try:
            "█…─".encode(getattr(self.stream, "encoding", None) or "ascii")
        except (UnicodeError, LookupError):
            return False
        return True

    def lines(self, lines: Sequence[str]) -> None:
        """Prints lines."""
        if lines:
            self.stream.write("\n".join(lines) + "\n")

    def line(self, text: str = "") -> None:
        """Prints one line."""
        self.stream.write(text + "\n")

    def take(self, write: Callable[[], None]) -> bytes:
        """Returns what `write` prints here, and prints none of it."""
        import io

        real, taken = self.stream, io.BytesIO()
        self.width  # noqa: B018 - asked of the real stream, and kept
        self.stream = io.TextIOWrapper(taken, real.encoding, "backslashreplace", newline="\n", write_through=True)
        try:
            write()
            return taken.getvalue()
        finally:
            self.stream = real

    def data(self, data: bytes) -> None:
        """Prints bytes as they are."""
        self.stream.flush()
        self.stream.buffer.write(data)
        self.stream.buffer.flush()
