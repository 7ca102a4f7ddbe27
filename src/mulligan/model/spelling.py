"""Names that some file systems take for one: they differ in case, in normalisation, or in characters that are ignored."""

from __future__ import annotations

import os

from mulligan.model.paths import HFS_IGNORED


def fold(path: bytes) -> bytes:
    """Returns the same for all spellings that any file system takes for one path; may give false positives."""
    if path.isascii():
        return path.lower()
    from unicodedata import normalize

    for ignored in HFS_IGNORED:
        path = path.replace(ignored, b"")
    text = normalize("NFKD", normalize("NFKD", os.fsdecode(path)).upper().casefold())
    return text.encode("utf-8", "surrogatepass")
