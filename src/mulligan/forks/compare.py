"""
Compares two ways: two forks, or two checkpoints, by their files, their lines, and the result of a command in each.

A fork is saved first if it changed, so that it is compared as it is. A command runs in a fork's own directory; for a checkpoint
it runs in a scratch fork.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from mulligan.forks.bisect import last_lines
from mulligan.forks.state import save_fork
from mulligan.forks.verbs import diff_between, forks, open_fork, scratch
from mulligan.loop.commands import run_shell

if TYPE_CHECKING:
    from mulligan.engine.workspace import Workspace
    from mulligan.forks.record import Fork
    from mulligan.model.checkpoint import Checkpoint
    from mulligan.model.diff import Diff


class CommandOutcome(NamedTuple):
    """What a command left in one of the two: its exit code, how long it took, and its last lines."""

    code: int
    seconds: float
    tail: str

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON form."""
        return {"exit_code": self.code, "seconds": round(self.seconds, 3), "tail": self.tail}


class ComparedSide(NamedTuple):
    """One of the two: what was named, the checkpoint that holds it, and what it changed since it was forked."""

    name: str
    checkpoint: Checkpoint
    fork: Fork | None = None
    since: Diff | None = None
    outcome: CommandOutcome | None = None

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON form."""
        return {
            "name": self.name,
            "checkpoint": self.checkpoint.id,
            "fork": self.fork.directory if self.fork is not None else None,
            "changed": counts(self.since) if self.since is not None else None,
            "run": self.outcome.to_dict() if self.outcome is not None else None,
        }


class Comparison(NamedTuple):
    """Two sides and what differs from the first to the second."""

    a: ComparedSide
    b: ComparedSide
    diff: Diff

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON form."""
        differing = {key: value for key, value in self.diff.to_dict().items() if key not in ("from", "to")}
        return {"a": self.a.to_dict(), "b": self.b.to_dict(), "diff": {**differing, **counts(self.diff)}}


def counts(diff: Diff) -> dict[str, int]:
    """Returns how many files and lines a difference has."""
    stats = diff.stat
    return {
        "files": len(stats),
        "additions": sum(each.additions for each in stats),
        "deletions": sum(each.deletions for each in stats),
    }


def compare(
    workspace: Workspace,
    a: str,
    b: str,
    *,
    base: str = "",
    command: str = "",
    with_ignored: bool = False,
    tell: Callable[[ComparedSide], None] | None = None,
) -> Comparison:
    """Compares two forks or checkpoints; `base` is the directory that names of forks are relative to."""
    found = [_side(workspace, name, base or workspace.root) for name in (a, b)]
    with ExitStack() as stack:
        opened = [stack.enter_context(open_fork(workspace, s.fork)) if s.fork else workspace for s in found]
        diff = diff_between(opened[0], found[0].checkpoint.id, opened[1], found[1].checkpoint.id)
        diff.stat  # noqa: B018 - read while both stores are open
    if command:
        heard = tell or (lambda _: None)
        for at, side in enumerate(found):
            heard(side)
            found[at] = side._replace(outcome=_outcome(workspace, side, command, with_ignored=with_ignored))
            heard(found[at])
    return Comparison(found[0], found[1], diff)


def _side(workspace: Workspace, name: str, base: str) -> ComparedSide:
    place = os.path.realpath(os.path.join(base, name))
    fork = next((each for each in forks(workspace) if each.directory == place), None)
    if fork is None:
        return ComparedSide(name, workspace.get(name))
    saved = save_fork(workspace, fork, "before mulligan compare")
    with open_fork(workspace, fork) as opened:
        since = opened.diff(opened.log()[-1], saved)
        since.stat  # noqa: B018 - read while the fork is open
    return ComparedSide(name, saved, fork, since)


def _outcome(workspace: Workspace, side: ComparedSide, command: str, *, with_ignored: bool) -> CommandOutcome:
    with _place(workspace, side, with_ignored=with_ignored) as directory:
        begun = time.monotonic()
        ran = run_shell(command, cwd=directory)
        return CommandOutcome(ran.code, time.monotonic() - begun, last_lines(ran))


@contextmanager
def _place(workspace: Workspace, side: ComparedSide, *, with_ignored: bool) -> Iterator[str]:
    if side.fork is not None:
        yield side.fork.directory
        return
    with scratch(workspace, side.checkpoint, with_ignored=with_ignored) as made:
        yield made.root
