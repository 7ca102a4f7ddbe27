"""
Where HEAD stands: loose refs, packed refs, symbolic refs.

LIMIT: repositories that keep their refs as a reftable, or use SHA-256, are recognised but not read: the commit is unknown.
Links inside `.git` are not followed, except the old form of a symbolic ref that is itself a link to `refs/…`.
"""

from __future__ import annotations

import os
import stat
from typing import NamedTuple

from mulligan.model.paths import to_text
from mulligan.safefs.directory import Directory
from mulligan.usergit.files import read_file, status

REF_LIMIT = 1 << 12
PACKED_LIMIT = 64 << 20
# As many as git follows.
_CHAIN = 5
_PER_WORKTREE = (b"refs/worktree/", b"refs/bisect/", b"refs/rewritten/")
_HEX = frozenset(b"0123456789abcdef")


class Head(NamedTuple):
    """
    Where HEAD stands.

    `commit` is "" for a branch without commits, and also where it could not be read: then `known` is False.
    `branch` is "HEAD" when no branch is checked out; `ref` is the full name HEAD points to, None when it is detached.
    """

    commit: str
    branch: str
    ref: str | None
    known: bool = True


UNKNOWN = Head("", "HEAD", None, known=False)


def read_head(git_dir: Directory, common: Directory) -> Head:
    """Returns where HEAD stands; never fails."""
    reftable = status(common, b"reftable")
    if reftable is not None and stat.S_ISDIR(reftable.st_mode):
        return UNKNOWN
    name, first = b"HEAD", b""
    for _ in range(_CHAIN + 1):
        content = _content(git_dir, common, name)
        if content is None:
            # HEAD itself is always there; a branch may be yet unborn.
            return _on(first, "") if first else UNKNOWN
        if content.startswith(b"ref:"):
            name = content[4:].strip()
            if not is_ref_name(name):
                break
            first = first or name
            continue
        commit = _commit(content)
        return _on(first, commit) if commit else _on(first, "")._replace(known=False)
    return _on(first, "")._replace(known=False)


def read_ref(git_dir: Directory, common: Directory, name: str) -> str | None:
    """Returns the commit of a ref, "" where there is no such ref, None where it is symbolic or cannot be read."""
    raw = os.fsencode(name)
    content = _content(git_dir, common, raw) if is_ref_name(raw) else b""
    return "" if content is None else _commit(content) or None


def read_packed(common: Directory) -> bytes | None:
    """Returns the packed refs as they are written, b"" where there are none, None where they cannot be read."""
    data = read_file(common, b"packed-refs", limit=PACKED_LIMIT)
    return b"" if data is None and status(common, b"packed-refs") is None else data


def packed_names(common: Directory) -> frozenset[bytes]:
    """Returns the names of all packed refs, none where the file cannot be read."""
    data = read_packed(common) or b""
    rows = (line.partition(b" ") for line in data.split(b"\n") if line[:1] not in (b"#", b"^"))
    return frozenset(name for commit, _, name in rows if len(commit) == 40)


def is_ref_name(name: bytes) -> bool:
    """Returns whether a name may be looked up below a git directory: within `refs/`, and without a way out."""
    if not name.startswith(b"refs/") or len(name) > 1024 or min(name) <= 0x20 or b"\x7f" in name:
        return False
    return all(part not in (b"", b".", b"..") for part in name.split(b"/"))


def _on(ref: bytes, commit: str) -> Head:
    if not ref:
        return Head(commit, "HEAD", None)
    branch = ref.removeprefix(b"refs/heads/") if ref.startswith(b"refs/heads/") else ref.removeprefix(b"refs/")
    return Head(commit, to_text(branch), to_text(ref))


def _commit(content: bytes) -> str:
    text = content.split(maxsplit=1)[0].lower() if content.strip() else b""
    if len(text) != 40 or not _HEX.issuperset(text) or text == b"0" * 40:
        return ""
    return text.decode("ascii")


def _content(git_dir: Directory, common: Directory, name: bytes) -> bytes | None:
    """Returns what a ref says, None where there is none, and b"" where something unreadable stands in its place."""
    root = git_dir if name == b"HEAD" or name.startswith(_PER_WORKTREE) else common
    found = status(root, name)
    if found is not None and stat.S_ISLNK(found.st_mode):
        target = _link(root, name)
        return b"ref: " + target if target.startswith(b"refs/") else b""
    if found is not None and not stat.S_ISDIR(found.st_mode):
        return read_file(root, name, limit=REF_LIMIT) or b""
    return _packed(common, name)


def _link(root: Directory, name: bytes) -> bytes:
    try:
        return root.readlink(name)
    except OSError:  # replaced since
        return b""


def _packed(common: Directory, name: bytes) -> bytes | None:
    data = read_file(common, b"packed-refs", limit=PACKED_LIMIT)
    if data is None:
        return b"" if status(common, b"packed-refs") is not None else None
    at = data.find(b" " + name + b"\n")
    while at >= 0:
        start = data.rfind(b"\n", 0, at) + 1
        if at - start == 40:
            return data[start:at]
        at = data.find(b" " + name + b"\n", at + 1)
    return None


def head_bytes(git_dir: Directory) -> bytes:
    """Returns HEAD as it is written, for a fingerprint."""
    return read_file(git_dir, b"HEAD", limit=REF_LIMIT) or os.fsencode("link ") + _link(git_dir, b"HEAD")
