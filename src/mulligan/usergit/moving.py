"""
Moving git: HEAD, branches and the index, each by git's own lock, and nothing else.

The plan says what each of them will be. Everything that can be refused is refused there, before anything changes: a commit that
is gone, a branch that another worktree has checked out, a name that is none.

Then three steps. `prepare` stages the new content, takes every lock and looks once more: what is refused is refused here, with
nothing changed. `finish` puts the new content in place, by renames that need no room and no permission that was not
needed before. `abandon` lets go. Each of them can be repeated after a crash, by another process: what is already done
stays done, and a part that another process moved since is left alone and listed.
The commits that are left behind get a ref first, so that no clean-up of git removes them.
"""

from __future__ import annotations

import errno
import os
import re
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain, count
from typing import NamedTuple

from mulligan.errors import Busy, DurabilityLost, GitNotMoved, MulliganError, NoRoom, PlanStale, StoreDamaged
from mulligan.model.gitposition import GitMove, GitPosition, GitRecord
from mulligan.model.paths import to_text
from mulligan.model.plan import Keep
from mulligan.safefs.durable import sync, write_synced
from mulligan.usergit.files import names_in, read_file, status
from mulligan.usergit.locks import GitFile, Lock, clear_empty, file_mode, make_parents, reflog_line, write_reflog
from mulligan.usergit.next_index import ALONE, fingerprint, joined_index, next_index
from mulligan.usergit.objects import UserObjects
from mulligan.usergit.position import (
    MERGING,
    head_content,
    obstacle,
    other_worktree_on,
    read_merging,
    read_position,
    read_staged,
    stranger,
)
from mulligan.usergit.refs import REF_LIMIT, is_ref_name, packed_names, read_packed, read_ref
from mulligan.usergit.repository import Repository

_DIRECTORY = 0o040000
# What git refuses in a name beyond what `is_ref_name` does.
_NO_REF = re.compile(rb"\.\.|@\{|[~^:?*\[\\]|(^|/)\.|\.lock(/|$)|\.$|/$")


class GitTarget(NamedTuple):
    """Where git shall stand; `index_data` is None where none was recorded, and then it is that of the commit."""

    position: GitPosition
    index_data: bytes | None
    index_mtime_ns: int = 0


class PlannedMove(NamedTuple):
    """A move, the bytes of the index after it (None where it stays as it is), and where git stood when it was planned."""

    move: GitMove
    index_data: bytes | None
    seen: GitRecord


def plan_move(repo: Repository, target: GitTarget) -> PlannedMove:
    """Returns the move from where a repository stands to a target; raises GitNotMoved, with nothing changed."""
    there = target.position
    wanted = dict(there.refs) | ({there.ref: there.commit} if there.ref else {})
    seen = read_position(repo, wanted)
    now = seen.position
    if now.problem:
        raise GitNotMoved(f"{now.problem} Nothing was changed.", hint=ALONE)
    _refuse_odd_names({**wanted, **dict(now.refs)})
    if not set(dict(there.merging)) <= set(MERGING):
        raise GitNotMoved("The record of where git stood is not one of ours. Nothing was changed.", hint=ALONE)
    changed = {name for name, value in dict(now.refs).items() if wanted.get(name, value) != value}
    after = there._replace(refs=tuple(sorted((name, wanted.get(name, value)) for name, value in now.refs)))
    with repo.objects() as objects:
        tree = _tree_of(objects, there.commit)
        for name in sorted(changed):
            _tree_of(objects, wanted[name])
        data, notes = next_index(objects, tree, target.index_data, target.index_mtime_ns, seen)
    after = after._replace(staged=fingerprint(data), problem="")
    same_index = after.staged == now.staged
    move = GitMove(now, after, notes=(*notes, *_part_only(repo)))
    if not move.is_noop:
        _refuse_obstacles(repo, move, changed)
    return PlannedMove(move, None if same_index else data, seen)


def plan_staging(repo: Repository, commit: str) -> PlannedMove:
    """
    Returns the move that stages what a commit holds of the workspace; HEAD, branches and all other paths stay.

    Raises GitNotMoved, with nothing changed. A rebase under way is no obstacle: it goes on from HEAD.
    """
    seen = read_position(repo)
    now = seen.position
    if now.problem:
        raise GitNotMoved(f"{now.problem} Nothing was changed.", hint=ALONE)
    with repo.objects() as objects:
        data, notes = next_index(objects, _tree_of(objects, commit), None, 0, seen)
    joined = joined_index(seen.index_data, data, repo.prefix + b"/") if repo.prefix else data
    if joined is None:
        raise GitNotMoved("The index cannot be read. Nothing was changed.", hint="git status")
    data = joined
    after = now._replace(staged=fingerprint(data))
    move = GitMove(now, after, notes=notes)
    if not move.is_noop and (problem := stranger(repo))[0]:
        raise GitNotMoved(f"{problem[0]} Nothing was changed.", hint=problem[1])
    return PlannedMove(move, None if move.is_noop else data, seen)


def _part_only(repo: Repository) -> tuple[str, ...]:
    if not repo.prefix:
        return ()
    return (f"The workspace is {to_text(repo.prefix)}/ of a larger repository: files outside of it stay as they are.",)


def _refuse_odd_names(refs: dict[str, str]) -> None:
    for name in refs:
        raw = os.fsencode(name)
        if not is_ref_name(raw) or _NO_REF.search(raw) or not name.startswith("refs/heads/"):
            raise GitNotMoved(f"{name!r} is not a branch that HEAD can be put on. Nothing was changed.", hint=ALONE)


def _refuse_obstacles(repo: Repository, move: GitMove, changed: set[str]) -> None:
    before, after = move.before, move.after
    only_staged = before.same_head(after) and not changed and before.merging == after.merging
    problem, way_out = stranger(repo) if only_staged else obstacle(repo)
    if problem:
        raise GitNotMoved(f"{problem} Nothing was changed.", hint=way_out)
    busy = changed | ({move.after.ref} if move.after.ref and move.after.ref != move.before.ref else set())
    for name in sorted(busy):
        if other := other_worktree_on(repo, name):
            raise GitNotMoved(
                f"The branch {name.removeprefix('refs/heads/')!r} is checked out in another worktree ({other}). Nothing was changed.",
                hint=ALONE,
            )
    missing = [name for name, value in move.before.refs if not value and dict(move.after.refs)[name]]
    for name in missing:
        _refuse_conflict(repo, name)


def _refuse_conflict(repo: Repository, name: str) -> None:
    """A branch `a` and a branch `a/b` cannot both be."""
    raw, packed = os.fsencode(name), packed_names(repo.common)
    above = [raw[:at] for at in range(len("refs/heads/"), len(raw)) if raw[at : at + 1] == b"/"]
    taken = next((a for a in above if a in packed or _is_file(repo, a)), None)
    taken = taken or next((p for p in packed if p.startswith(raw + b"/")), None) or _branch_below(repo, raw)
    if taken is not None:
        raise GitNotMoved(
            f"The branch {to_text(raw[11:])!r} cannot be made again beside {to_text(taken[11:])!r}. Nothing was changed.",
            hint=f"git branch -m {to_text(taken[11:])} NEW-NAME",
        )


def _is_file(repo: Repository, name: bytes) -> bool:
    found = status(repo.common, name)
    return found is not None and found.st_mode & 0o170000 != _DIRECTORY


def _branch_below(repo: Repository, name: bytes) -> bytes | None:
    pending = [name]
    while pending:
        here = pending.pop()
        for each in names_in(repo.common, here):
            below = here + b"/" + each
            if _is_file(repo, below):
                return below
            pending.append(below)
    return None


def _tree_of(objects: UserObjects, commit: str) -> bytes | None:
    """Returns the tree of a commit (None for no commit at all); raises GitNotMoved when the repository has lost it."""
    if not commit:
        return None
    tree = objects.read_commit_tree(bytes.fromhex(commit)) if re.fullmatch("[0-9a-f]{40}", commit) else None
    if tree is None or objects.read_tree(tree) is None:
        raise GitNotMoved(f"The commit {commit[:12]} is no longer in the repository. Nothing was changed.", hint=ALONE)
    return tree


OLD, NEW, OTHER = "old", "new", "other"
BEFORE = b"refs/mulligan/before"
_INDEX, _HEAD, _PACKED = b"index", b"HEAD", b"packed-refs"
_TRIES = 5
# Numbers of what is staged: index, HEAD, packed refs, then these.
_MERGE, _REFS = 3, 20


class _Edit(NamedTuple):
    """One file to be changed: its lock, its content, which of the two states it is in, and whether it is to go instead."""

    lock: Lock
    content: Callable[[], bytes]
    state: Callable[[], str]
    removes: bool = False


class Mover:
    """Carries out one move of one repository; `read` returns the bytes that the store keeps under an id."""

    def __init__(self, repo: Repository, move: GitMove, token: str, read: Callable[[str], bytes]) -> None:
        self._repo, self._move, self._token, self._read = repo, move, token, read
        self._staged: tuple[object, str | None] | None = None
        self._spare = b"mulligan-%s-ref" % token.encode()
        old, new = dict(move.before.refs), dict(move.after.refs)
        self._changed = {name: (old[name], new[name]) for name in old if name in new and old[name] != new[name]}
        self._edits = list(self._make_edits())

    # -- what is to be done -------------------------------------------------------------------------

    def _lock(self, number: int, path: bytes) -> Lock:
        shared = path == _PACKED or path.startswith(b"refs/")
        root = self._repo.common if shared else self._repo.git_dir
        return Lock(GitFile(root, path), b"mulligan-%s-%d" % (self._token.encode(), number))

    def _make_edits(self) -> Iterator[_Edit]:
        """In the order in which the locks are taken; the content goes into place in the reverse order."""
        move = self._move
        if move.before.staged != move.after.staged:
            yield _Edit(self._lock(0, _INDEX), lambda: self._read(move.index_object), self._index_state)
        if self._changed or not move.before.same_head(move.after):
            yield _Edit(self._lock(1, _HEAD), lambda: head_content(move.after), self._head_state)
        yield from self._merging_edits()
        for number, name in enumerate(sorted(self._changed), _REFS):
            content = self._changed[name][1].encode("ascii") + b"\n"
            write, look = partial(bytes, content), partial(self._ref_state, name)
            yield _Edit(self._lock(number, os.fsencode(name)), write, look, removes=content == b"\n")
        if self._dropped():
            yield _Edit(self._lock(2, _PACKED), self._without_dropped, self._packed_state)

    def _merging_edits(self) -> Iterator[_Edit]:
        old, new = dict(self._move.before.merging), dict(self._move.after.merging)
        for number, name in enumerate(MERGING, _MERGE):
            if old.get(name) != new.get(name):
                content = os.fsencode(new.get(name, ""))
                look = partial(self._merging_state, name)
                yield _Edit(self._lock(number, name.encode()), partial(bytes, content), look, removes=name not in new)

    def _merging_state(self, name: str) -> str:
        now = dict(read_merging(self._repo)[0]).get(name)
        return _which(now, dict(self._move.before.merging).get(name), dict(self._move.after.merging).get(name))

    def _dropped(self) -> set[bytes]:
        return {os.fsencode(name) for name, (_, new) in self._changed.items() if not new}

    def _index_state(self) -> str:
        key = self._repo.index_key()
        if self._staged is None or self._staged[0] != key:
            self._staged = key, read_staged(self._repo)
        return _which(self._staged[1], self._move.before.staged, self._move.after.staged)

    def _head_state(self) -> str:
        now = read_file(self._repo.git_dir, _HEAD, limit=REF_LIMIT) or b""
        old, new = head_content(self._move.before), head_content(self._move.after)
        return _which(now.strip(), old.strip(), new.strip())

    def _ref_state(self, name: str) -> str:
        old, new = self._changed[name]
        return _which(read_ref(self._repo.git_dir, self._repo.common, name), old, new)

    def _packed_state(self) -> str:
        if read_packed(self._repo.common) is None:
            return OTHER
        return OLD if self._dropped() & packed_names(self._repo.common) else NEW

    def _without_dropped(self) -> bytes:
        """Returns the packed refs without those that go, and without what is noted of the tags they may be."""
        kept, skipping = [], False
        data = read_packed(self._repo.common)
        if data is None:
            raise GitNotMoved("The packed refs cannot be read. Nothing was changed.", hint="git fsck")
        for line in data.splitlines(keepends=True):
            if not line.startswith(b"^"):
                skipping = line.rstrip(b"\n").partition(b" ")[2] in self._dropped()
            if not skipping:
                kept.append(line)
        return b"".join(kept)

    # -- doing it -----------------------------------------------------------------------------------

    def prepare(self, wait: float) -> None:
        """Stages and locks everything; raises Busy, PlanStale, NoRoom or GitNotMoved with nothing changed or left behind."""
        try:
            until = time.monotonic() + wait
            for edit in self._edits:
                self._acquire(edit, until)
            if not self._stands():
                raise PlanStale(
                    "HEAD, a branch or the index changed while the restore was prepared. Nothing was changed.",
                    hint="Run the command again.",
                )
            self._keep_commits()
        except OSError as error:
            self.abandon()
            raise _refusal(error) from error
        except BaseException as error:
            self.abandon(confirm=not isinstance(error, DurabilityLost))
            raise

    def _stands(self) -> bool:
        """Whether git is still where the plan saw it."""
        before, head = self._move.before, self._repo.head()
        refs = tuple((name, read_ref(self._repo.git_dir, self._repo.common, name)) for name, _ in before.refs)
        same = head.known and (head.ref, head.commit, refs) == (before.ref, before.commit, before.refs)
        return same and OTHER not in self.states()

    def _acquire(self, edit: _Edit, until: float) -> None:
        make_parents(edit.lock.place)
        clear_empty(edit.lock.place)
        for _ in range(_TRIES):
            content = edit.content()
            edit.lock.stage(content, file_mode(self._repo))
            edit.lock.take(until=until)
            if edit.content() == content:
                return
            edit.lock.let_go()  # the packed refs changed between reading and locking them
        raise edit.lock.busy()

    def finish(self) -> list[Keep]:
        """Puts everything in place, from wherever things stand; returns what could not be moved, and why."""
        kept: list[Keep] = []
        self._write_reflogs()
        for edit in reversed(self._edits):
            try:
                state = self._finish_one(edit)
            except StoreDamaged as error:
                kept.append(_kept(edit, "damaged in the store", error.message))
                continue
            if state == OTHER:
                kept.append(_kept(edit, "changed during the restore", "git moved it; it stays as it is"))
        self._drop_reflogs()
        self.abandon()
        return kept

    def _finish_one(self, edit: _Edit) -> str:
        """Puts one file in place if it is still the old one; returns the state it was found in."""
        held, state = edit.lock.is_ours(), edit.state()
        if held and state == OTHER:
            state = OLD  # it cannot have moved, since it was locked before it was checked: it could not be read
        if state == OLD and not held:
            self._acquire(edit, time.monotonic())
            state = edit.state()
        if state == OLD and edit.removes:
            edit.lock.remove_file()
        elif state == OLD:
            edit.lock.put_in_place()
        return state

    def _drop_reflogs(self) -> None:
        """A branch that is gone has no reflog, as with git: it would stand in the way of a branch below that name."""
        for name in self._dropped():
            log = GitFile(self._repo.common, b"logs/" + name)
            try:
                with log.parent() as parent:
                    parent.unlink(log.name, missing_ok=True)
            except (FileNotFoundError, NotADirectoryError):
                continue  # it had none

    def abandon(self, *, confirm: bool = True) -> None:
        """Releases all our locks and removes staged files, durably if asked; changes nothing else."""
        for edit in self._edits:
            edit.lock.let_go(confirm=confirm)
        self._repo.common.unlink(self._spare, missing_ok=True)
        if not confirm:
            return
        # Once the journal is closed (it may be on another disk), no recovery looks for them.
        for directory in (self._repo.git_dir, self._repo.common):
            sync(directory.fd, "the git directory")

    # -- after a crash ------------------------------------------------------------------------------

    def states(self) -> set[str]:
        """Returns in which states the parts of the move are."""
        return {edit.state() for edit in self._edits}

    def blocked(self) -> Busy | None:
        """Returns why the move cannot be finished now: a lock that is not ours."""
        for edit in self._edits:
            if edit.state() == OLD and edit.lock.held() is not None and not edit.lock.is_ours():
                return edit.lock.busy()
        return None

    # -- what is left behind ------------------------------------------------------------------------

    def _write_reflogs(self) -> None:
        move, states = self._move, self.states()
        if OLD not in states:
            return
        lines = [(os.fsencode(name), *pair) for name, pair in self._changed.items() if pair[1]]
        if self._changed or not move.before.same_head(move.after):
            lines.append((_HEAD, move.before.commit, move.after.commit))
        for path, old, new in lines:
            root = self._repo.git_dir if path == _HEAD else self._repo.common
            try:
                write_reflog(self._repo, GitFile(root, b"logs/" + path), reflog_line(old, new, move.when, move.about))
            except OSError:
                continue  # a help for the user and not part of the move; the refs below hold the commits

    def _keep_commits(self) -> None:
        """Gives each commit that is left behind a ref, unless an earlier move did."""
        left = [old for old, _ in self._changed.values() if old]
        if self._move.before.detached and not self._move.before.same_head(self._move.after):
            left.append(self._move.before.commit)
        heads = [text for name, text in self._move.before.merging if name.endswith("_HEAD")]
        left += [word for text in heads for word in text.split() if len(word) == 40]
        kept = _kept_commits(self._repo)
        for commit in dict.fromkeys(left):
            if commit in kept.values():
                continue
            first = self._move.keep.encode("ascii")
            name = next(name for name in chain([first], (b"%s-%d" % (first, n) for n in count(2))) if name not in kept)
            kept[name] = commit
            place = GitFile(self._repo.common, BEFORE + b"/" + name)
            make_parents(place)
            with place.parent() as parent:
                common, content = self._repo.common, [commit.encode("ascii") + b"\n"]
                write_synced(common, self._spare, content, "a ref of the repository", file_mode(self._repo))
                common.rename(self._spare, name, to=parent)
                sync(parent.fd, "a ref of the repository")


def _kept(edit: _Edit, reason: str, detail: str) -> Keep:
    return Keep(".git/" + to_text(edit.lock.place.path), reason, detail, failed=True)


def _refusal(error: OSError) -> MulliganError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return NoRoom("The disk is full. Nothing was changed.", hint="Free space, then run the same command again.")
    return GitNotMoved(
        f"The git directory cannot be written as needed ({error.strerror}). Nothing was changed.",
        hint="Restore the files alone, or look at the permissions below .git",
    )


def _which(now: object, old: object, new: object) -> str:
    return NEW if now == new else OLD if now == old else OTHER


def _kept_commits(repo: Repository) -> dict[bytes, str | None]:
    """Returns the refs of earlier moves and the commits that they hold."""
    names = set(names_in(repo.common, BEFORE))
    names |= {name[len(BEFORE) + 1 :] for name in packed_names(repo.common) if name.startswith(BEFORE + b"/")}
    return {name: read_ref(repo.git_dir, repo.common, to_text(BEFORE + b"/" + name)) for name in names}
