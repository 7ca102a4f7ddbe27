"""
From a recorded position to a move: what HEAD, branches and the index will be, or why not.

Everything that can be refused is refused here, before anything changes: a commit that is gone, a branch that another
worktree has checked out, a name that is none.
"""

from __future__ import annotations

import os
import re
from typing import NamedTuple

from mulligan.errors import GitNotMoved
from mulligan.model.gitposition import GitMove, GitPosition, GitRecord
from mulligan.model.paths import to_text
from mulligan.scan.git.files import status
from mulligan.scan.git.objects import Objects
from mulligan.scan.git.refs import is_ref_name, packed_names
from mulligan.scan.git.repository import Repository
from mulligan.usergit import indexes
from mulligan.usergit.committed import read_tree
from mulligan.usergit.next_index import next_index
from mulligan.usergit.position import ALONE, MERGING, obstacle, other_worktree_on, read_position, stranger

_DIRECTORY = 0o040000
# What git refuses in a name beyond what `is_ref_name` does.
_NO_REF = re.compile(rb"\.\.|@\{|[~^:?*\[\\]|(^|/)\.|\.lock(/|$)|\.$|/$")


class Target(NamedTuple):
    """Where git shall stand; `index_data` is None where none was recorded, and then it is that of the commit."""

    position: GitPosition
    index_data: bytes | None
    index_mtime_ns: int = 0


class Planned(NamedTuple):
    """A move, the bytes of the index after it (None where it stays as it is), and where git stood when it was planned."""

    move: GitMove
    index_data: bytes | None
    seen: GitRecord


def plan_move(repo: Repository, target: Target) -> Planned:
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
    after = after._replace(staged=indexes.fingerprint(data), problem="")
    same_index = after.staged == now.staged
    move = GitMove(now, after, notes=(*notes, *_part_only(repo)))
    if not move.is_noop:
        _refuse_obstacles(repo, move, changed)
    return Planned(move, None if same_index else data, seen)


def plan_staging(repo: Repository, commit: str) -> Planned:
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
    joined = indexes.joined(seen.index_data, data, repo.prefix + b"/") if repo.prefix else data
    if joined is None:
        raise GitNotMoved("The index cannot be read. Nothing was changed.", hint="git status")
    data = joined
    after = now._replace(staged=indexes.fingerprint(data))
    move = GitMove(now, after, notes=notes)
    if not move.is_noop and (problem := stranger(repo))[0]:
        raise GitNotMoved(f"{problem[0]} Nothing was changed.", hint=problem[1])
    return Planned(move, None if move.is_noop else data, seen)


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
        try:
            with repo.common.descend(here) as directory:
                for each in directory.names():
                    below = here + b"/" + each
                    if _is_file(repo, below):
                        return below
                    pending.append(below)
        except OSError:
            continue  # nothing there
    return None


def _tree_of(objects: Objects, commit: str) -> bytes | None:
    """Returns the tree of a commit (None for no commit at all); raises GitNotMoved when the repository has lost it."""
    if not commit:
        return None
    tree = objects.read_commit_tree(bytes.fromhex(commit)) if re.fullmatch("[0-9a-f]{40}", commit) else None
    if tree is None or read_tree(objects, tree) is None:
        raise GitNotMoved(f"The commit {commit[:12]} is no longer in the repository. Nothing was changed.", hint=ALONE)
    return tree
