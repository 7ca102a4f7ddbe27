"""
Where the user's repository stands, read as data.

Promise: reads only, starts nothing, never follows a link inside the git directory. A state that cannot be understood is described in
words (`problem`), never guessed: a position with a problem is not one that anything moves from.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable

from mulligan.model.gitposition import GitPosition, GitRecord
from mulligan.model.paths import to_text
from mulligan.safefs.directory import Directory
from mulligan.usergit.files import names_in, notice, read_config, read_file, status
from mulligan.usergit.index import INDEX_LIMIT
from mulligan.usergit.next_index import fingerprint, whole
from mulligan.usergit.refs import REF_LIMIT, read_ref
from mulligan.usergit.repository import POINTER_LIMIT, Repository

# Settings that change how a repository must be read; those named here do not concern HEAD, branches and the index.
_HARMLESS = frozenset({"noop", "noop-v1", "preciousobjects", "partialclone", "worktreeconfig", "relativeworktrees"})
_PLAIN = {"objectformat": "sha1", "refstorage": "files"}
# What git leaves while it is in the middle of many steps, and what ends that.
_UNDER_WAY = {
    b"rebase-merge": "git rebase --abort",
    b"rebase-apply": "git rebase --abort, or git am --abort",
    b"sequencer": "git cherry-pick --abort, or git revert --abort",
}
# What it leaves in the middle of one step: small files, which are part of where it stands.
MERGING = ("MERGE_HEAD", "MERGE_MODE", "MERGE_MSG", "CHERRY_PICK_HEAD", "REVERT_HEAD", "SQUASH_MSG", "AUTO_MERGE")
_MERGING_LIMIT = 1 << 20


def read_position(repo: Repository, also: Iterable[str] = ()) -> GitRecord:
    """Returns where a repository stands, and where the branches `also` stand."""
    head = repo.head()
    names = sorted({*([head.ref] if head.ref else []), *also})
    values = [(name, read_ref(repo.git_dir, repo.common, name)) for name in names]
    refs = tuple((name, value) for name, value in values if value is not None)
    data, mtime_ns, readable = _read_index(repo)
    merging, unread = read_merging(repo)
    position = GitPosition(head.commit, head.branch, head.ref, fingerprint(data), refs, merging)
    problem = (
        foreign_format(repo)
        or unread
        or _unreadable(
            repo, [name for name, value in values if value is None], head_known=head.known, index_readable=readable
        )
    )
    return GitRecord(position._replace(problem=problem), data, mtime_ns)


def _unreadable(repo: Repository, odd: list[str], *, head_known: bool, index_readable: bool) -> str:
    found = status(repo.git_dir, b"HEAD")
    if not head_known or found is None or not stat.S_ISREG(found.st_mode):
        return "Where HEAD stands cannot be read."
    if odd:
        return f"The branch {odd[0]!r} is a symbolic ref, or cannot be read."
    return "" if index_readable else "The index cannot be read: it is a link, too large, or half of it is missing."


def read_merging(repo: Repository) -> tuple[tuple[tuple[str, str], ...], str]:
    """Returns the files that say that a merge is under way, and what is wrong with them."""
    found = []
    for name in MERGING:
        if status(repo.git_dir, name.encode("ascii")) is not None:
            data = read_file(repo.git_dir, name.encode("ascii"), limit=_MERGING_LIMIT)
            if data is None:
                return (), f"{name} cannot be read."
            found.append((name, to_text(data)))
    return tuple(sorted(found)), ""


def _read_index(repo: Repository) -> tuple[bytes, int, bool]:
    """Returns the bytes of the index (joined, where it is split), when it was written, and whether it could be read."""
    found = status(repo.git_dir, b"index")
    if found is None:
        return b"", 0, True
    data = read_file(repo.git_dir, b"index", limit=INDEX_LIMIT)
    if data is None:
        return b"", 0, False
    joined = whole(data, repo.shared_index)
    return (b"", 0, False) if joined is None else (joined, found.st_mtime_ns, True)


def read_staged(repo: Repository) -> str | None:
    """Returns the fingerprint of the index, None when it cannot be read."""
    data, _, readable = _read_index(repo)
    return fingerprint(data) if readable else None


def foreign_format(repo: Repository) -> str:
    """Returns why a repository's format is not one whose HEAD, branches and index can be moved, "" when it is."""
    settings = read_config(repo.common)
    if settings is None:
        return "The repository's configuration cannot be read." if status(repo.common, b"config") else ""
    for key, value in settings:
        section, _, name = key.partition(".")
        if section == "extensions" and name not in _HARMLESS and value.lower() != _PLAIN.get(name):
            return f"The repository has a format that mulligan only reads (extensions.{name} = {value})."
    return ""


def obstacle(repo: Repository) -> tuple[str, str]:
    """Returns why git must not be moved from here, and what to do about it; "" twice if it may."""
    for name, way_out in _UNDER_WAY.items():
        if status(repo.git_dir, name) is not None:
            what = "a cherry-pick or revert" if name == b"sequencer" else "a rebase"
            return f"Git is in the middle of {what}, which goes on from where HEAD stands.", way_out
    return stranger(repo)


def stranger(repo: Repository) -> tuple[str, str]:
    """Returns why a repository is not this workspace's own to change, and what to do about it; "" twice if it is."""
    found = os.fstat(repo.git_dir.fd)
    if found.st_uid != os.geteuid():
        return "The repository belongs to another user.", "Run as its owner."
    if not points_back(repo):
        return (
            f"{to_text(repo.git_path)} is not the repository of {to_text(repo.top)}: it does not point back.",
            "git config core.worktree, or restore the files alone",
        )
    return "", ""


def points_back(repo: Repository) -> bool:
    """
    Returns whether a repository that lies elsewhere says itself that this is its work tree.

    Without that, a planted `.git` file could make a restore move another project's branches.
    """
    plain = os.path.join(repo.top, b".git")
    found = os.stat(plain, follow_symlinks=False)
    if repo.common_path != repo.git_path:
        back = read_file(repo.git_dir, b"gitdir", limit=POINTER_LIMIT)
        home = os.path.join(repo.common_path, b"worktrees")
        listed = _same(os.path.dirname(os.path.realpath(repo.git_path)), home)
        return back is not None and listed and _same(os.path.join(repo.git_path, back.rstrip(b"\r\n")), plain)
    if stat.S_ISDIR(found.st_mode):
        return True
    trees = _work_trees(repo.common) if stat.S_ISREG(found.st_mode) else []
    return any(_same(os.path.join(repo.git_path, tree), repo.top) for tree in trees)


def _work_trees(common: Directory) -> list[bytes]:
    settings = [*(read_config(common) or ()), *(read_config(common, b"config.worktree") or ())]
    return [os.fsencode(value) for key, value in settings if key == "core.worktree" and value and "\0" not in value]


def _is_bare(common: Directory) -> bool:
    settings = dict(read_config(common) or ())
    return (settings.get("core.bare", "false") or "true").lower() in ("true", "yes", "on", "1")


def _same(one: bytes, other: bytes) -> bool:
    try:
        return os.path.samefile(one, other)
    except (OSError, ValueError) as error:
        notice(error)
        return False


def head_content(position: GitPosition) -> bytes:
    """Returns what the file HEAD holds at a position."""
    return b"ref: %s\n" % os.fsencode(position.ref) if position.ref else position.commit.encode("ascii") + b"\n"


def other_worktree_on(repo: Repository, ref: str) -> str:
    """Returns the worktree that has a branch checked out, other than this one; "" when none has."""
    wanted, mine = b"ref: " + os.fsencode(ref), os.fstat(repo.git_dir.fd)
    names = sorted(names_in(repo.common, b"worktrees"))
    if not names:
        return ""  # no linked worktree, so there is only this one
    main = () if _is_bare(repo.common) else (b"",)
    for place in (*main, *(b"worktrees/" + name for name in names)):
        try:
            with repo.common.descend(place) as directory:
                found = os.fstat(directory.fd)
                head = read_file(directory, b"HEAD", limit=REF_LIMIT) or b""
        except OSError:
            continue  # removed since it was listed
        if (found.st_dev, found.st_ino) != (mine.st_dev, mine.st_ino) and head.strip() == wanted:
            return to_text(place.rpartition(b"/")[2]) or "the main one"
    return ""
