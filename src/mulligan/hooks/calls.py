"""
What a call of a tool was about: one short line, the files that it names, and the words of a command that may be paths.

Two agents whose commands run at the same time are told apart by the words. All of it is kept with the timeline, so secrets are
left out.
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
        "Create",
        "apply_patch",
        "write_file",
        "replace",
        "edit",
        "write",
        "patch",
        "search_replace",
        "edit_file",
        "editor",
        "file_editor",
        "write_to_file",
        "replace_in_file",
    ]
)
_PATCHED = r"(?m)^\*\*\* (?:(?:Add|Update|Delete) File|Move to): (.+)$"
_PATH_KEYS = ("file_path", "filePath", "path", "notebook_path", "absolute_path")
_MOST_PATHS = 200
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


LONGEST = 200
_TELLING = "command file_path filePath path notebook_path pattern query url description prompt".split()  # noqa: SIM905 - as EDITING


def summary(given: Any, directory: str = "", longest: int = LONGEST) -> str:
    """Returns the telling part of what was asked, on one line, cut, with secrets taken out; paths below a directory without it."""
    from mulligan.scan.secrets import redact

    text = _telling(given)[: longest * 20]
    if directory:
        text = text.replace(directory.rstrip("/") + "/", "")
    text = " ".join(redact(text).split())
    return text if len(text) <= longest else text[: longest - 1] + "…"


def _telling(given: Any) -> str:
    if isinstance(given, str):
        return given
    if isinstance(given, list):
        return " ".join(item for item in given if isinstance(item, str))
    if isinstance(given, Mapping):
        for key in _TELLING:
            value = given.get(key)
            if isinstance(value, str | list) and value:
                return _telling(value)
        return ", ".join(str(key) for key in given)
    return ""


def paths_in(arguments: Any, directory: str) -> Iterator[str]:
    """Yields the files that a tool's input names, relative to the directory; one beside it begins with `..`."""
    if not isinstance(arguments, Mapping) or not directory:
        return
    named = [value for key in _PATH_KEYS if isinstance(value := arguments.get(key), str)]
    patch = arguments.get("command", arguments.get("input"))
    if isinstance(patch, str) and "*** Begin Patch" in patch:
        named += re.findall(_PATCHED, patch)
    for path in named[:_MOST_PATHS]:
        found = os.path.relpath(os.path.join(directory, path), directory) if "\0" not in path else "."
        if found != ".":
            yield found
