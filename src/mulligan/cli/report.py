"""
The report of an internal error.

It holds versions, the command's name and options without their values, and the traceback; never a file's content, a
checkpoint's name or a description. It is readable by its owner only, and nothing is sent anywhere.
"""

from __future__ import annotations

import os
import platform
import sys
import time
import traceback
from collections.abc import Mapping, Sequence

from mulligan.cli.overview import version
from mulligan.cli.registry import COMMANDS
from mulligan.safefs.userfile import write_private_file
from mulligan.settings import places

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
