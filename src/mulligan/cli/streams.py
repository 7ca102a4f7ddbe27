"""
The standard streams of a command: closed, full or abandoned ones never change what the command did.

A stream that fails is replaced by the null device, so that the interpreter's own flush at exit succeeds. Without that
Python would end with exit code 120.
"""

from __future__ import annotations

import os
import sys
from typing import TextIO


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
