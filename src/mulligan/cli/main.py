"""
Entry point. Forwards a command to the watcher of its workspace if one is running; otherwise runs it here.

Loads the engine and the argument parser only for a command that runs here.
"""

from __future__ import annotations

import os
import sys

from mulligan.cli.commands import ALONE, HANDED_ON

# Commands whose process ends with them, SQLite's log left as it is; else `gc --dry-run` would free it, and `gc` more than it says.
_ENDING = HANDED_ON | {"gc", "push", "pull"}


def main(argv: list[str] | None = None) -> int:
    """Runs one command and returns its exit code; only the words of this process are handed to a watcher."""
    answered = _ask(sys.argv[1:]) if argv is None else None
    if answered is not None:
        return answered
    from mulligan.cli.dispatch import main as run

    return run(list(sys.argv[1:] if argv is None else argv))


def process() -> int:
    """Runs the command of this process and ends it; returns the exit code where Python itself should end it."""
    words, ends = sys.argv[1:], not sys.flags.dev_mode and sys.gettrace() is None
    code = _ask(words) if ends else None
    if code is None:
        code, ends = _run(words, ends=ends)
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    except (OSError, ValueError):
        from mulligan.cli.screen import settle

        settle()
    if not ends:
        return code
    os._exit(code)  # everything is written, and taking an interpreter apart costs 5 ms


def _ask(words: list[str]) -> int | None:
    """Returns the exit code of a command that a watcher ran; None when it has to be run here."""
    if os.environ.get("MULLIGAN_WATCH") == ALONE and "MULLIGAN_ASKED" not in os.environ:
        return None
    from mulligan.cli.client import ask

    return ask(words)


def _run(words: list[str], *, ends: bool) -> tuple[int, bool]:
    """Runs a command here; returns its exit code, and whether the process may end without ceremony."""
    from mulligan.cli.dispatch import command_of
    from mulligan.cli.dispatch import main as run

    last = ends and command_of(words) in _ENDING
    if not last:
        return run(words), False
    import gc

    gc.disable()  # it looks for garbage among what was just loaded, and the process ends before there is any
    return run(words, last=True), True
