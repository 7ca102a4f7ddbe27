"""
Whether what git's index says of a file may be taken for the file itself.

Git calls a file clean, without reading it, while its stat fields are those that the index noted when git read it. That is
the standard of proof here too, and more is asked: the index must carry its own checksum and it must be right; nothing in
it may be assumed, skipped, unmerged, split or sparse; and nothing may have been able to turn the file's bytes into others
on their way into the object, or back. Line endings only ever lose bytes on the way in and gain some on the way out, so that an object
as long as its file is the file (the sizes are compared by `usergit.records`); a filter, another encoding or what is put into `$Id$` may
keep the length, and so where any attribute names one, nothing is believed. Neither is anything where objects are replaced by others
(`git replace`): the file is the other one then. A filter that is configured may have been in force when git read the files, although no
attribute names it today, and so it is a reason, too. Configuration is read for reasons to decline and for nothing else.

LIMIT: what stood between file and object when git read it, and has left no trace in attributes and configuration, cannot be
known; and neither can what `GIT_*` variables said then.
"""

from __future__ import annotations

import os
import re

from mulligan.model.gitconfig import parse_git_config
from mulligan.model.objects import BLOB, object_id
from mulligan.safefs.directory import Directory
from mulligan.safefs.userfile import read_user_file
from mulligan.usergit.files import open_directory, read_file, status
from mulligan.usergit.index import Index
from mulligan.usergit.repository import Repository

ATTRIBUTES = b".gitattributes"
_LIMIT = 1 << 20
_REFS_LIMIT = 32 << 20
# Attributes under which an object may be other bytes of the same length.
_REWRITES = re.compile(rb"(?:^|\s)[-!]?(?:filter|ident|working-tree-encoding)(?:[=\s]|$)", re.MULTILINE)
_COMMENT = re.compile(rb"^[ \t]*#.*$", re.MULTILINE)
# Where git looks for what holds for everybody, depending on who built it.
_SYSTEM = ("/etc", "/usr/etc", "/usr/local/etc", "/opt/homebrew/etc")
# The one filter that many have and that cannot deceive: what it puts in the place of a file is shorter than any file that is believed.
_LFS, _LFS_COMMANDS = "filter.lfs.", ("git-lfs ", "git lfs ")
# Settings that say where else attributes stand, which fields of a file count, or that this is not the usual kind of repository.
_DOUBTFUL = frozenset({
    *("core.attributesfile", "core.checkstat", "core.trustctime", "core.ignorestat", "core.worktree"),
    *("extensions.objectformat", "extensions.refstorage", "extensions.worktreeconfig", "core.sparsecheckout", "attr.tree"),
})  # fmt: skip


def believable_index(repo: Repository, home: str, git_home: str) -> tuple[Index, int] | None:
    """Returns the index and when it was written, None where what it says may not be taken for the files."""
    found = repo.checked_index()
    if found is None or found[0].is_odd:
        return None
    return found if not _is_doubtful(repo, found[0], home, git_home) else None


def may_rewrite(attributes: bytes | None, tracked: bytes = b"") -> bool:
    """
    Returns whether attributes name something that turns bytes into others; those that cannot be read may.

    So may those that are not what git tracks, by its id: what they said when git read the files is not what they say now.
    """
    if attributes is None or len(attributes) > _LIMIT or (tracked and object_id(BLOB, attributes) != tracked):
        return True
    return _REWRITES.search(_COMMENT.sub(b"", attributes)) is not None


def attributes_in(directory: Directory) -> bytes | None:
    """Returns the attributes that stand in a directory, None where they cannot be read."""
    return read_file(directory, ATTRIBUTES, limit=_LIMIT)


def _is_doubtful(repo: Repository, index: Index, home: str, git_home: str) -> bool:
    if status(repo.git_dir, b"config.worktree") is not None or _may_be_replaced(repo):
        return True
    own = read_file(repo.common, b"config", limit=_LIMIT)
    if own is None or _is_doubtful_config(own):
        return True
    if status(repo.common, b"info/attributes") is not None and may_rewrite(
        read_file(repo.common, b"info/attributes", limit=_LIMIT)
    ):
        return True
    configs = [os.path.join(home, ".gitconfig"), os.path.join(git_home, "config")]
    configs += [os.path.join(place, "gitconfig") for place in _SYSTEM]
    attributes = [os.path.join(git_home, "attributes"), *(os.path.join(place, "gitattributes") for place in _SYSTEM)]
    try:
        return (
            any(_is_doubtful_config(_user_file(path)) for path in configs)
            or any(may_rewrite(_user_file(path)) for path in attributes)
            or _above_may_rewrite(repo, index)
        )
    except (OSError, ValueError):
        return True  # there, and not to be read


def _user_file(path: str) -> bytes:
    return read_user_file(path, limit=_LIMIT + 1) or b""


def _is_doubtful_config(data: bytes) -> bool:
    if len(data) > _LIMIT:
        return True
    for key, value in parse_git_config(data.decode("utf-8", "surrogateescape")):
        if key in _DOUBTFUL or key.startswith(("include.", "includeif.")) or _is_filter(key, value or ""):
            return True
    return False


def _is_filter(key: str, value: str) -> bool:
    """Whether a setting names a program that may turn bytes into as many others."""
    if not (key.startswith("filter.") and key.endswith((".clean", ".smudge", ".process"))):
        return False
    return not (key.startswith(_LFS) and value.startswith(_LFS_COMMANDS))


def _may_be_replaced(repo: Repository) -> bool:
    """Whether git may have written another object's bytes into a file than those of the one that the index names."""
    try:
        with repo.common.descend(b"refs/replace") as replaced:
            if replaced.names():
                return True
    except (FileNotFoundError, NotADirectoryError):
        pass  # none of its own
    except OSError:
        return True
    if status(repo.common, b"packed-refs") is None:
        return False
    packed = read_file(repo.common, b"packed-refs", limit=_REFS_LIMIT)
    return packed is None or b" refs/replace/" in packed


def _above_may_rewrite(repo: Repository, index: Index) -> bool:
    """Whether attributes above a workspace that is a part of its repository reach into it."""
    here, rest, below = repo.top, repo.prefix, b""
    while rest:
        directory = open_directory(here)
        if directory is None:
            return True
        with directory:
            tracked = index.heads.get(below + ATTRIBUTES, b"")[40:60]
            if status(directory, ATTRIBUTES) is None:
                if tracked:
                    return True  # gone from the disk, and in force all the same
            elif may_rewrite(attributes_in(directory), tracked):
                return True
        name, _, rest = rest.partition(b"/")
        below += name + b"/"
        here = os.path.join(here, name)
    return False
