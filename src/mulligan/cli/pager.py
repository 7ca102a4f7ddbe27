"""
The pager: long output on a terminal goes through `GIT_PAGER`, else `PAGER`, else `less -FRX` where it does not fit the screen.

An empty value or `cat` means none.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

_DEFAULT = "less -FRX"
_NOT_FOUND = (126, 127)


def page(text: bytes, environ: Mapping[str, str]) -> None:
    """Shows text on the terminal, through a pager where one is wanted; raises OSError where it cannot be written."""
    command = _pager(text, environ)
    if command is None or not _shown_by(command, text):
        sys.stdout.flush()
        sys.stdout.buffer.write(text)
        sys.stdout.buffer.flush()


def _pager(text: bytes, environ: Mapping[str, str]) -> str | None:
    import shutil

    for name in ("GIT_PAGER", "PAGER"):
        if name in environ:
            return environ[name] if environ[name].strip() not in {"", "cat"} else None
    fits = text.count(b"\n") < shutil.get_terminal_size().lines
    return None if fits or shutil.which("less") is None else _DEFAULT


def _shown_by(command: str, text: bytes) -> bool:
    """Returns whether the pager showed the text; one that cannot be started shows nothing."""
    import subprocess

    try:
        # The user's own choice, in the form that git takes it too: a line for the shell.
        pager = subprocess.Popen(["/bin/sh", "-c", command], stdin=subprocess.PIPE)  # noqa: S603
    except OSError:
        return False
    try:
        pager.communicate(text)
    except BrokenPipeError:
        pass  # the reader left before the end
    except KeyboardInterrupt:
        pager.wait()  # Ctrl-C belongs to the pager, which gives the terminal back
    return pager.wait() not in _NOT_FOUND
