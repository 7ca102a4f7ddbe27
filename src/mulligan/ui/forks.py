"""
The forks of the project as the page shows them, and what differs between one and another state.

An address names a fork by its key: `fork:KEY` is its directory as it is, `fork:KEY:saved` its last checkpoint. Comparing writes
nothing. The plan of a keep saves the fork and adds that checkpoint to the timeline of the project, as `mulligan keep` does; files
change when the plan is applied.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from mulligan.errors import UnknownCheckpoint, UserError
from mulligan.forks.fork import stands
from mulligan.forks.state import bring_fork, describe
from mulligan.forks.verbs import diff_between, open_fork, origin

if TYPE_CHECKING:
    from mulligan.engine.workspace import Workspace
    from mulligan.forks.record import Fork
    from mulligan.model.checkpoint import Checkpoint
    from mulligan.model.diff import Diff

FORK, SAVED = "fork:", ":saved"
NOTHING, NOW = "nothing", "now"


def key_of(fork: Fork) -> str:
    """Returns the key that addresses name a fork by: it follows from its directory."""
    return FORK + blake2b(os.fsencode(fork.directory), digest_size=6).hexdigest()


def listing(workspace: Workspace) -> dict[str, Any]:
    """Returns the forks of a workspace, newest first, and where the workspace itself was forked from."""
    found = [{**describe(workspace, each).to_dict(), "key": key_of(each)} for each in reversed(workspace.forks())]
    return {
        "forks": [{key: each[key] for key in each if key != "store"} for each in found],
        "origin": origin(workspace),
    }


def find(workspace: Workspace, state: str) -> Fork:
    """Returns the fork that a state names; raises UnknownCheckpoint or UserError where it is gone."""
    key = state.removesuffix(SAVED)
    found = next((each for each in workspace.forks() if key_of(each) == key), None)
    if found is None:
        raise UnknownCheckpoint("This project has no such fork. Nothing was changed.", hint="mulligan forks")
    if not stands(workspace.settings, found):
        raise UserError(
            f"{found.directory} is gone. Nothing was changed.",
            hint=f"Bring it back first: mulligan -C {found.directory} undo",
        )
    return found


@contextmanager
def difference(workspace: Workspace, a: str, b: str, paths: list[str] | None) -> Iterator[Diff]:
    """Yields what differs between two states of which at least one is a fork; the first is a fork's last checkpoint."""
    if a in {NOTHING, NOW}:
        raise UserError("A fork is compared with a checkpoint or another fork.")
    with ExitStack() as stack:

        def opened(state: str) -> Workspace:
            return stack.enter_context(open_fork(workspace, find(workspace, state)))

        mine, start = (opened(a), "@") if a.startswith(FORK) else (workspace, a)
        if b.startswith(FORK):
            yield diff_between(mine, start, opened(b), "@" if b.endswith(SAVED) else None, paths=paths)
        else:
            yield diff_between(mine, start, workspace, None if b == NOW else b, paths=paths)


def bring(workspace: Workspace, state: str) -> tuple[Fork, Checkpoint]:
    """Saves a fork, and adds that checkpoint to the timeline of the workspace; no file is touched."""
    fork = find(workspace, state)
    return fork, bring_fork(workspace, fork)
