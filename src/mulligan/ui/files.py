"""
One file as it was, for the page: text as text, pictures as pictures, everything else as a size.

Nothing from a workspace is ever sent as something that a browser runs: HTML, SVG and scripts are text inside JSON, and only four
kinds of pictures, told by their first bytes and not by their names, are sent as themselves.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from mulligan.errors import UnknownPath, UserError
from mulligan.forks.verbs import open_fork
from mulligan.model.paths import parse_path
from mulligan.safefs.workfile import read_work_file
from mulligan.ui.changes import LONGEST_LINE
from mulligan.ui.forks import FORK, NOW, SAVED, find

if TYPE_CHECKING:
    from mulligan.engine.workspace import Workspace

LARGEST_TEXT = 4 << 20
LARGEST_PICTURE = 32 << 20


def picture_type(data: bytes) -> str | None:
    """Returns the media type of a picture that is safe to show, None for anything else."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return None


def read(workspace: Workspace, checkpoint: str, path: str) -> dict[str, Any]:
    """Returns one file at a checkpoint: its size, and its lines if it is text."""
    if checkpoint == NOW or checkpoint.startswith(FORK):
        raise UserError("A file is shown as a checkpoint holds it.")
    data = workspace.cat(checkpoint, path)
    binary = b"\0" in data[:8192]
    text = "" if binary else data[:LARGEST_TEXT].decode("utf-8", "surrogateescape")
    lines = text.splitlines() if "\r" not in text else text.split("\n")
    return {
        "path": path,
        "checkpoint": checkpoint,
        "size": len(data),
        "binary": binary,
        "picture": picture_type(data) is not None,
        "lines": [line[:LONGEST_LINE] for line in lines],
        "cut": not binary and len(data) > LARGEST_TEXT,
    }


def picture(workspace: Workspace, checkpoint: str, path: str) -> tuple[bytes, str]:
    """Returns a picture and its media type; raises UserError for a file that is none."""
    data = _bytes(workspace, checkpoint, path)
    kind = picture_type(data)
    if kind is None or len(data) > LARGEST_PICTURE:
        raise UserError("This file is not a picture that can be shown here.")
    return data, kind


def _bytes(workspace: Workspace, state: str, path: str) -> bytes:
    if state == NOW:
        return _present(workspace.root, path)
    if not state.startswith(FORK):
        return workspace.cat(state, path)
    fork = find(workspace, state)
    if not state.endswith(SAVED):
        return _present(fork.directory, path)
    with open_fork(workspace, fork) as opened:
        return opened.cat("@", path)


def _present(root: str, path: str) -> bytes:
    try:
        return read_work_file(root, parse_path(path))
    except OSError as error:
        raise UnknownPath(f"{path!r} cannot be read ({os.strerror(error.errno or 0)}).") from None
