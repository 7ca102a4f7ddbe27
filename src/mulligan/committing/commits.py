"""
Commits on the user's own branch, made without touching anything a commit should not.

No hook runs and no filter: the bytes of changed files become objects, a commit is built from them on top of HEAD, and only
when it is complete do the index and then the branch move, the branch only from where it was seen. Whatever fails, both
stand where they stood. What is staged for other paths stays staged; submodules are left as they are. A file that git would
pass through a filter (large files kept elsewhere, encryption) is left out and named, since its raw bytes are not what the
repository keeps. A process killed between index and branch leaves the changes staged, and nothing lost.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import NamedTuple

from mulligan.committing.commands import Git
from mulligan.errors import GitFailed
from mulligan.safefs.directory import Directory, random_name
from mulligan.safefs.lock import alone
from mulligan.usergit.files import status
from mulligan.usergit.refs import packed_names

InScope = Callable[[bytes, bool], bool]
MAKING = "refs/mulligan/making/"
_ATTEMPTS = 3
_ARGUMENTS = 60_000
_LOCK_WAIT = 1.0
# Agents work side by side: waiting is better than a commit that was not made.
_TURN_WAIT = 30.0
_LONG_AGO = 24 * 3600
# What git leaves while it is in the middle of something.
_UNDER_WAY = ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply", "sequencer")
_LINK, _PROGRAM, _FILE = b"120000", b"100755", b"100644"


class MadeCommit(NamedTuple):
    """A commit: its hash, the files it changed (below the workspace), and those left out because of a filter."""

    commit: str
    files: tuple[bytes, ...]
    left_out: tuple[bytes, ...]


class _StagedChange(NamedTuple):
    """One line of a commit: a path from the top of the repository, and what it becomes; no mode for a deletion."""

    path: bytes
    mode: bytes = b""
    seen: os.stat_result | None = None


class _Row(NamedTuple):
    """What a commit did to one path."""

    path: bytes
    mode: bytes
    oid: bytes


def commit(root: str, message: bytes, in_scope: InScope, *, allow_empty: bool = False) -> MadeCommit:
    """
    Commits what changed in a workspace; where nothing did, there is no commit in the answer, unless `allow_empty`.

    `in_scope(path, tracked)` decides on each changed path below the workspace. Raises GitFailed, with nothing changed,
    while a merge or the like is under way.
    """
    within = Git(root)
    below = within.prefix + b"/" if within.prefix else b""
    git = Git(within.top) if below else within
    if not git.is_own:
        raise GitFailed(
            f"{git.directory} is not the repository of {git.top}: it does not point back, so no commit was made. Nothing was changed.",
            hint=f"If it is: git --git-dir={git.directory} config core.worktree {git.top}",
        )
    with Directory.open(git.directory) as place, alone(place, wait=_TURN_WAIT) as our_turn:
        if not our_turn:
            raise GitFailed("Another checkpoint is being committed here. Nothing was changed.", hint="Try again.")
        _sweep(git)
        for _ in range(_ATTEMPTS - 1):
            with suppress(_ConcurrentChange):
                return _attempt(git, below, message, in_scope, allow_empty=allow_empty)
        return _attempt(git, below, message, in_scope, allow_empty=allow_empty)


class _ConcurrentChange(GitFailed):
    """A file changed while it was read, or the branch moved. A retry may succeed."""


def _attempt(git: Git, below: bytes, message: bytes, in_scope: InScope, *, allow_empty: bool) -> MadeCommit:
    refuse_under_way(git)
    head = head_of(git)
    wanted, left_out = _changes(git, below, in_scope)
    if not wanted and not allow_empty:
        return MadeCommit("", (), left_out)
    name, ref = _build(git, head, message, wanted)
    rows = _rows(git, name)
    if not rows and not allow_empty:
        git.run(["update-ref", "-d", ref])
        return MadeCommit("", (), left_out)
    _move(git, head, (name, ref), rows)
    return MadeCommit(name, tuple(row.path[len(below) :] for row in rows), left_out)


def head_of(git: Git) -> str:
    """Returns the commit of HEAD, "" on a branch without one."""
    ran = git.run(["rev-parse", "--verify", "--quiet", "--end-of-options", "HEAD^{commit}"])
    return ran.out.decode("ascii", "replace").strip() if ran.code == 0 else ""


def refuse_under_way(git: Git) -> None:
    """Raises GitFailed in the middle of a merge, a rebase and the like, and while another git holds the index."""
    for name in _UNDER_WAY:
        if os.path.lexists(os.path.join(git.directory, name)):
            raise GitFailed(
                f"git is in the middle of something here ({name}), so no commit was made. Nothing was changed.",
                hint="Finish or abort it first: git status says how.",
            )
    deadline = time.monotonic() + _LOCK_WAIT
    while os.path.lexists(os.path.join(git.directory, "index.lock")):
        # An editor's own `git status` holds it for a moment.
        if time.monotonic() > deadline:
            raise GitFailed("Another git process is at work here (index.lock). Nothing was changed.", hint="git status")
        time.sleep(0.02)


def _sweep(git: Git) -> None:
    """Removes the refs of commits that a process began long ago and did not live to finish."""
    with Directory.open(git.shared) as common:
        some = status(common, MAKING.rstrip("/").encode()) is not None
        if not some and not any(name.startswith(MAKING.encode()) for name in packed_names(common)):
            return
    listed = git.run(["for-each-ref", "--format=%(committerdate:unix) %(refname)", MAKING.rstrip("/")]).out
    for line in os.fsdecode(listed).splitlines():
        when, _, ref = line.partition(" ")
        if when.isdigit() and int(when) < time.time() - _LONG_AGO:
            git.run(["update-ref", "-d", ref])


# -- what changed -------------------------------------------------------------------------------


def _changes(git: Git, below: bytes, in_scope: InScope) -> tuple[list[_StagedChange], tuple[bytes, ...]]:
    line = ["status", "--porcelain=v1", "-z", "--untracked-files=all", "--no-renames", "--no-ahead-behind"]
    where = ["--", os.fsdecode(below)] if below else []
    listed = git.run([*line, *where], check=True).out
    found: dict[bytes, _StagedChange] = {}
    for row in filter(None, listed.split(b"\0")):
        letters, path = row[:2], row[3:]
        if b"U" in letters or letters in (b"AA", b"DD"):
            raise GitFailed(
                f"{os.fsdecode(path)!r} has conflicts, so no commit was made. Nothing was changed.", hint="git status"
            )
        # A path ending in a slash is a repository of its own.
        if path.startswith(below) and not path.endswith(b"/") and in_scope(path[len(below) :], letters != b"??"):
            change = _look(git.top, path)
            if change is not None:
                found[path] = change
    filtered = _filtered(git, list(found))
    kept = [change for path, change in found.items() if path not in filtered]
    return kept, tuple(sorted(path[len(below) :] for path in filtered))


def _look(top: str, path: bytes) -> _StagedChange | None:
    """Returns what a path is now; None for what a commit cannot hold, a submodule above all."""
    try:
        seen = os.lstat(os.path.join(os.fsencode(top), path))
    except (FileNotFoundError, NotADirectoryError):
        return _StagedChange(path)
    if stat.S_ISLNK(seen.st_mode):
        return _StagedChange(path, _LINK, seen)
    if stat.S_ISREG(seen.st_mode):
        return _StagedChange(path, _PROGRAM if seen.st_mode & stat.S_IXUSR else _FILE, seen)
    return None


def _filtered(git: Git, paths: list[bytes]) -> frozenset[bytes]:
    """Returns the paths whose attributes name a filter of the configuration."""
    names = git.filters
    if not names or not paths:
        return frozenset()
    said = git.run(["check-attr", "-z", "--stdin", "filter"], input=b"\0".join([*paths, b""]), check=True).out
    fields = said.split(b"\0")
    known = {os.fsencode(name) for name in names}
    return frozenset(path for path, value in zip(fields[::3], fields[2::3], strict=False) if value in known)


# -- building -----------------------------------------------------------------------------------


def _build(git: Git, head: str, message: bytes, changes: list[_StagedChange]) -> tuple[str, str]:
    """Returns a new commit that nothing but a ref of its own points to yet."""
    objects = _objects(git, [change for change in changes if change.mode in (_FILE, _PROGRAM)])
    who = git.run(["var", "GIT_COMMITTER_IDENT"], check=True).out.rstrip(b"\n")
    ref = f"{MAKING}{random_name(8)}"
    parts = [f"feature done\ncommit {ref}\nmark :1\n".encode(), b"author %b\ncommitter %b\n" % (who, who)]
    parts.append(b"data %d\n%b\n" % (len(message), message))
    if head:
        parts.append(f"from {head}\n".encode())
    parts += [b"D %b\n" % _quoted(change.path) for change in changes if not change.mode]
    for change in changes:
        if change.mode == _LINK:
            target = _target(git.top, change.path)
            parts.append(b"M 120000 inline %b\ndata %d\n%b\n" % (_quoted(change.path), len(target), target))
        elif change.mode:
            parts.append(b"M %b %b %b\n" % (_mode(git, change), objects[change.path], _quoted(change.path)))
    parts.append(b"get-mark :1\ndone\n")
    ran = git.run(["fast-import", "--quiet", "--date-format=raw-permissive"], input=b"".join(parts), check=True)
    return ran.out.split()[0].decode("ascii"), ref


def _target(top: str, path: bytes) -> bytes:
    try:
        return os.readlink(os.path.join(os.fsencode(top), path))
    except OSError as error:
        raise _ConcurrentChange(f"{os.fsdecode(path)!r} changed while it was read. Nothing was changed.") from error


def _objects(git: Git, changes: list[_StagedChange]) -> dict[bytes, bytes]:
    """Writes the bytes of files as git's objects, with the line endings that git would give them; no filter runs."""
    if not changes:
        return {}
    lines = b"".join(_quoted(change.path) + b"\n" for change in changes)
    ran = git.run(["hash-object", "-w", "--stdin-paths"], input=lines)
    for change in changes:
        after = _look(git.top, change.path)
        if after is None or after.seen is None or change.seen is None or _face(after.seen) != _face(change.seen):
            raise _ConcurrentChange(f"{os.fsdecode(change.path)!r} changed while it was read. Nothing was changed.")
    if ran.code:
        raise GitFailed(f"A file cannot be made an object: {ran.complaint}. Nothing was changed.", hint="git status")
    return dict(zip((change.path for change in changes), ran.out.split(), strict=True))


def _face(seen: os.stat_result) -> tuple[int, ...]:
    return (seen.st_ino, seen.st_mode, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns)


def _mode(git: Git, change: _StagedChange) -> bytes:
    """Returns a file's mode; where the repository does not trust the bits of the disk, the one that is staged."""
    trusts = next((s.value for s in reversed(git.settings) if s.key.lower() == "core.filemode"), "true")
    if trusts.lower() not in {"false", "no", "off", "0"}:
        return change.mode
    staged = git.run(["ls-files", "-s", "-z", "--", os.fsdecode(change.path)]).out
    return staged[:6] if staged else _FILE


def _quoted(path: bytes) -> bytes:
    escaped = path.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n")
    return b'"' + escaped + b'"'


def _rows(git: Git, name: str) -> list[_Row]:
    """Returns what a commit changed against its parent, or against nothing for the first one."""
    said = git.run(["diff-tree", "-r", "-z", "--root", "--no-commit-id", "--no-renames", name], check=True).out
    fields = said.split(b"\0")
    return [
        _Row(path, words.split()[1], words.split()[3]) for words, path in zip(fields[::2], fields[1::2], strict=False)
    ]


# -- moving -------------------------------------------------------------------------------------


def _move(git: Git, head: str, made: tuple[str, str], rows: list[_Row]) -> None:
    """Brings the committed paths into the index, then the branch to the commit; takes the first back if the second fails."""
    name, ref = made
    before = _staged(git, [row.path for row in rows]) if rows else []
    # The branch moves only from where it was seen, and the ref that held the commit so far goes in the same step.
    branch = f"update HEAD\0{name}\0{head}\0" if head else f"create HEAD\0{name}\0"
    orders = f"{branch}delete {ref}\0{name}\0".encode()
    try:
        _write_index(git, list(_index_lines(rows)))
        moved = git.run(["update-ref", "-m", f"checkpoint: {name[:7]}", "-z", "--stdin"], input=orders)
        if moved.code:
            raise _ConcurrentChange(
                f"The branch could not be moved: {moved.complaint}. Nothing was changed.", hint="git status"
            )
    except BaseException:
        # Also for an interrupt: unless the branch has moved, nothing has.
        git.run(["update-ref", "-d", ref])
        if head_of(git) != name:
            _take_back(git, rows, before)
        raise
    # Only what git remembers of the files' times; without it the next `git status` is slower, not wrong.
    git.run(["update-index", "-q", "--refresh"])


def _take_back(git: Git, rows: list[_Row], before: list[bytes]) -> None:
    """Stages again what was staged before, except for paths that another process has committed with the same content."""
    committed = _listed(git, ["ls-tree", "-r", "-z", "--full-tree", "HEAD"], [row.path for row in rows])
    head = {line.partition(b"\t")[2]: line.split(None, 3)[0::2][:2] for line in committed}
    other = {row.path for row in rows if head.get(row.path, [b"000000", b"0" * len(row.oid)]) != [row.mode, row.oid]}
    gone = [_Row(row.path, b"000000", b"0" * len(row.oid)) for row in rows if row.path in other]
    _write_index(git, [*_index_lines(gone), *(line for line in before if line.partition(b"\t")[2] in other)])


def _staged(git: Git, paths: list[bytes]) -> list[bytes]:
    """Returns what is staged for some paths, as lines that bring it back."""
    return _listed(git, ["ls-files", "-s", "-z"], paths, check=True)


def _listed(git: Git, words: list[str], paths: list[bytes], *, check: bool = False) -> list[bytes]:
    """Returns the lines that a command of git says about some paths, each of which ends in a tab and its path."""
    few = sum(map(len, paths)) + len(paths) < _ARGUMENTS
    where = ["--", *(os.fsdecode(path) for path in paths)] if few else []
    wanted = frozenset(paths)
    listed = git.run([*words, *where], check=check).out.split(b"\0")
    return [line for line in listed if line and line.partition(b"\t")[2] in wanted]


def _index_lines(rows: list[_Row]) -> Iterator[bytes]:
    # Deletions first: a file may have become a directory.
    for row in sorted(rows, key=lambda row: row.mode != b"000000"):
        mode = b"0" if row.mode == b"000000" else row.mode
        yield b"%b %b\t%b" % (mode, row.oid, row.path)


def _write_index(git: Git, lines: list[bytes]) -> None:
    if not lines:
        return
    given = b"\0".join([*lines, b""])
    ran = git.run(["update-index", "--add", "--replace", "-z", "--index-info"], input=given)
    if ran.code:
        raise _ConcurrentChange(
            f"The index could not be written: {ran.complaint}. Nothing was changed.", hint="git status"
        )
