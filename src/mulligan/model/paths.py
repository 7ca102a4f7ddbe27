"""
Names and paths, safe by construction.

A path inside the workspace is `bytes`, `/`-separated, relative, without `.`, `..`, empty parts or NUL, and none of its
parts is a spelling of `.git`. `parse_path` is the only way from outside text to such a path; `to_text` the way back
(names that are not UTF-8 use surrogate escapes).
"""

from __future__ import annotations

import os

from mulligan.errors import UnsafePath

#: Code points that HFS+ ignores when it compares names, as UTF-8: `.g\u200cit` is `.git` there (CVE-2014-9390).
HFS_IGNORED = tuple(
    chr(c).encode() for c in (*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF)
)


def is_dot_git(name: bytes) -> bool:
    """Returns whether a name is `.git` on any file system a workspace may be copied to."""
    if name == b".git":
        return True
    low = name.lower()
    if low[:1] not in (b".", b"g", b"\xe2", b"\xef"):
        return False
    if low.startswith(b"git~") and low[4:].isdigit():
        return True
    low = low.split(b":", 1)[0]  # NTFS streams: `.git::$INDEX_ALLOCATION`
    if b"\xe2" in low or b"\xef" in low:
        for ignored in HFS_IGNORED:
            low = low.replace(ignored, b"")
    return low.rstrip(b". ") == b".git"


def check_name(name: bytes) -> bytes:
    """Returns the name if it can stand in a tree; raises UnsafePath otherwise."""
    if not name or name in (b".", b"..") or b"/" in name or b"\0" in name or len(name) > 255:
        raise UnsafePath(f"{to_text(name)!r} is not a file name; nothing was touched.")
    if is_dot_git(name):
        raise UnsafePath(f"{to_text(name)!r} belongs to git; mulligan never writes there.")
    return name


def parse_path(raw: str | bytes | os.PathLike[str]) -> bytes:
    """Returns a workspace path from outside text (`b""` is the root); raises UnsafePath if it could leave."""
    path = os.fsencode(raw)
    if path.startswith(b"/"):
        raise UnsafePath(f"{to_text(path)!r} is absolute; paths are relative to the workspace.")
    parts = [part for part in path.split(b"/") if part not in (b"", b".")]
    for part in parts:
        check_name(part)
    return b"/".join(parts)


def to_text(path: bytes) -> str:
    """Returns a path as text for people and JSON."""
    return os.fsdecode(path)


def parent_of(path: bytes) -> bytes:
    """Returns the directory that holds a path (`b""` for the root's own entries)."""
    return path.rpartition(b"/")[0]


def join(directory: bytes, name: bytes) -> bytes:
    """Returns the path of a name inside a directory."""
    return directory + b"/" + name if directory else name


def ancestors(path: bytes) -> list[bytes]:
    """Returns the directories above a path, outermost first, without the root."""
    found, at = [], path.find(b"/")
    while at >= 0:
        found.append(path[:at])
        at = path.find(b"/", at + 1)
    return found


def covers(directory: bytes, path: bytes) -> bool:
    """Returns whether a path is the given one or lies below it (the root, `b""`, covers all)."""
    return not directory or path == directory or path.startswith(directory + b"/")


def fold(path: bytes) -> bytes:
    """Returns the same for all spellings that any file system takes for one path; may give false positives."""
    if path.isascii():
        return path.lower()
    from unicodedata import normalize

    for ignored in HFS_IGNORED:
        path = path.replace(ignored, b"")
    text = normalize("NFKD", normalize("NFKD", os.fsdecode(path)).upper().casefold())
    return text.encode("utf-8", "surrogatepass")
