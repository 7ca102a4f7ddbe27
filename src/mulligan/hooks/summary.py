"""What a prompt or a tool's input was about, in one short line that holds no secret."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

LONGEST = 200
_TELLING = (
    "command",
    "file_path",
    "filePath",
    "path",
    "notebook_path",
    "pattern",
    "query",
    "url",
    "description",
    "prompt",
)


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
