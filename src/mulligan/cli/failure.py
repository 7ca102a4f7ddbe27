"""
How a command fails: what happened, what is safe, what to type next.

With `--json` an error is a JSON document too. An internal error becomes a report in the state directory, ready to be sent,
and exit code 70. The report holds versions, the command's name and options without their values, and the traceback; never a
file's content, a checkpoint's name or a description. Only its owner can read it, and nothing is sent anywhere.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType

from mulligan.cli.arguments import wants
from mulligan.cli.commands import COMMANDS, READING
from mulligan.cli.help import version
from mulligan.cli.screen import abandon, as_json, steady_streams, tell
from mulligan.errors import MulliganError
from mulligan.safefs.userfile import write_private_file
from mulligan.settings import places

INTERRUPTED = 130
UNEXPECTED = 70
# Not a mistake of ours and not the store's: the machine refuses, and says why.
_REFUSALS = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE})

# Each event of a broken hook may leave one.
_MOST = 20


def write_report(error: BaseException, words: Sequence[str], environ: Mapping[str, str]) -> str | None:
    """Writes the report and returns its path, None if even that is impossible."""
    name = f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.txt"
    try:
        return write_private_file(
            places(environ).reports, name, report(error, words).encode("utf-8", "backslashreplace"), most=_MOST
        )
    except OSError:
        return None  # a full or read-only disk: the message on the terminal has to do


def report(error: BaseException, words: Sequence[str]) -> str:
    """Returns the text of a report."""
    import platform
    import traceback

    trace = "".join(traceback.format_exception(error))
    return (
        "An internal error of mulligan. Please send this report to the project;\n"
        "read it first: paths and messages in the traceback are yours.\n\n"
        f"mulligan   {version()}\n"
        f"python     {sys.version.split()[0]} ({platform.python_implementation()})\n"
        f"system     {platform.system()} {platform.release()} {platform.machine()}\n"
        f"command    mulligan {' '.join(_without_values(words))}\n\n"
        f"{trace}"
    )


def _without_values(words: Sequence[str]) -> list[str]:
    kept = [word.partition("=")[0] if word.startswith("-") else word if word in COMMANDS else "…" for word in words]
    return [word[:2] if word.startswith("-C") else word for word in kept]


@contextmanager
def interrupted_by_signals() -> Iterator[None]:
    """Raises KeyboardInterrupt in the block when the process is asked to end."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may say what signals do
        return
    before = {number: signal.signal(number, _interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def explain(error: BaseException, words: list[str]) -> int:
    """Says what went wrong before or after a command; returns the exit code."""
    steady_streams()
    return explain_error(error, words, os.environ, json=wants(words, "--json"))


def unprinted(error: OSError, code: int, name: str) -> int:
    """Says that the output of a command could not be written; returns the exit code."""
    abandon(sys.stdout)
    changing = name not in READING
    done = " The command itself is done." if changing else ""
    tell(f"mulligan: The output could not be written ({error.strerror}).{done}\n")
    return code or (3 if changing else 1)


def explain_error(error: BaseException, words: list[str], environ: Mapping[str, str], *, json: bool) -> int:
    """Says what went wrong in a command of this environment; returns the exit code."""
    from mulligan.present.visible import visible

    message, hint, code = _account(error, words, environ)
    if json:
        kind = type(error).__name__
        tell(as_json({"error": {"type": kind, "message": message, "hint": hint, "exit_code": code}}), sys.stdout)
    else:
        tell(f"mulligan: {visible(message)}\n" + (f"hint: {visible(hint)}\n" if hint else ""))
    return code


def _account(error: BaseException, words: list[str], environ: Mapping[str, str]) -> tuple[str, str, int]:
    """Returns what to say about an error: the message, what to type next, the exit code."""
    if isinstance(error, MulliganError):
        return error.message, error.hint, error.exit_code
    if isinstance(error, KeyboardInterrupt):
        return str(error) or "Interrupted. Nothing is half done.", "", INTERRUPTED
    if isinstance(error, OSError) and error.errno in _REFUSALS:
        where = f": {error.filename}" if isinstance(error.filename, str) else ""
        return f"The system refused ({error.strerror}{where}). Earlier checkpoints are safe.", "", 1
    place = write_report(error, words, environ)
    told = f"Report: {place}" if place else "No report could be written."
    return (
        f"Internal error ({type(error).__name__}). This is a bug in mulligan; your checkpoints are safe. {told}",
        "Verify them: mulligan check",
        UNEXPECTED,
    )
