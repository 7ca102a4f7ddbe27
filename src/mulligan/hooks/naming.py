"""
Which words of a shell command may be paths, and which tools change only the files they name.

Two agents whose commands run at the same time are told apart by it. The words are kept with the timeline, so secrets are left out.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

#: Tools of the clients that change the files they name and no others.
EDITING = frozenset(
    [
        "Edit",
        "Write",
        "MultiEdit",
        "NotebookEdit",
        "apply_patch",
        "write_file",
        "replace",
        "edit",
        "write",
        "patch",
        "search_replace",
        "edit_file",
    ]
)
_LONGEST, _MOST, _LONGEST_COMMAND = 300, 200, 64 << 10
# What separates words for a shell, and what stands around them.
_BETWEEN = r"[\s;|&<>()`\"'{},=$]+"
_NO_PATHS = frozenset((".", "..", "/", "*", "~"))


def words_of(arguments: Any, directory: str) -> tuple[str, ...]:
    """Returns the words of a shell command that may be paths, relative to the directory where they are below it."""
    command = arguments.get("command") if isinstance(arguments, Mapping) else None
    if isinstance(command, list):
        command = " ".join(word for word in command if isinstance(word, str))
    if not isinstance(command, str) or "*** Begin Patch" in command:
        return ()
    from mulligan.scan.secrets import redact

    found = dict.fromkeys(_paths(redact(command[:_LONGEST_COMMAND]), directory.rstrip("/") + "/"))
    return tuple(found)[:_MOST]


def _paths(command: str, above: str) -> Iterator[str]:
    for word in re.split(_BETWEEN, command):
        if not word or word.startswith("-") or "://" in word or len(word) > _LONGEST:
            continue
        path = os.path.normpath(word.removeprefix(above))
        if path not in _NO_PATHS and not path.startswith(("../", "/", "~")):
            yield path
