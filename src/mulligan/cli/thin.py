"""
Entry point. Forwards a command to the watcher of its workspace if one is running; otherwise runs it here.

Loads the engine and the argument parser only for a command that runs here.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from mulligan.cli.client import HANDED_ON, ask, understand

if TYPE_CHECKING:
    from mulligan.scan.early import Early

# Commands whose process ends with them, SQLite's log left as it is; else `gc --dry-run` would free it, and `gc` more than it says.
_ENDING = HANDED_ON | {"gc"}
# Commands that look at everything in the workspace.
_LOOKING = frozenset({"save", "diff", "restore", "undo", "redo", "status"})


def main(argv: list[str] | None = None, *, last: bool = False) -> int:
    """Runs one command and returns its exit code; `last` says that the process ends with it."""
    words = list(sys.argv[1:] if argv is None else argv)
    answered = ask(words) if argv is None and not sys.flags.dev_mode else None
    if answered is not None:
        return answered
    early = _look_early(words) if last else None
    try:
        from mulligan.cli.entry import main as run

        return run(words, last=last, early=early)
    finally:
        if early is not None:
            early.close()


def process() -> int:
    """Runs the command of this process and ends it; returns the exit code where Python itself should end it."""
    last = _command(sys.argv[1:]) in _ENDING and not sys.flags.dev_mode and sys.gettrace() is None
    if last:
        import gc

        gc.disable()  # it looks for garbage among what was just loaded, and the process ends before there is any
    code = main(last=last)
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    except (OSError, ValueError):
        from mulligan.cli.streams import settle

        settle()
    if not last:
        return code
    os._exit(code)  # everything is written, and taking an interpreter apart costs 5 ms


def _command(words: list[str]) -> str | None:
    """Returns the command among the words, None where they are wrong."""
    from mulligan.cli.usage import UsageError, split_command

    try:
        return split_command(words).command
    except UsageError:
        return None  # it is said where the command runs


def _look_early(words: list[str]) -> Early | None:
    """Begins to look at the workspace that a command is probably about, while everything else is being loaded."""
    said = understand(words)
    if said.command not in _LOOKING or os.environ.get("MULLIGAN_STORE") or "-C" in words[2:] or "--store" in words:
        return None  # whose store it is says the store itself
    from mulligan.places import find_workspace, places, spot
    from mulligan.scan.early import look_early

    try:
        root = os.path.realpath(said.directory) if said.directory else find_workspace(".", os.environ)
        return look_early(*spot(root, None, os.environ, places(os.environ)))
    except (OSError, ValueError):
        return None  # the command itself tells what is wrong
