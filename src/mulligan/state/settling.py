"""
The other half of a restore of everything, handed over late.

Files and state are two hands: a process can die between them, a provider can refuse, a terminal has no provider at all.
The store remembers whose state is owed; this hands it over as the end of that same restore, so that one undo still takes
back both. Once the files have moved on, the state of then is not theirs any more and nothing is handed over.
"""

from __future__ import annotations

from collections.abc import Callable

from mulligan.state.providers import Providers
from mulligan.timeline.journal import state_given, state_owed
from mulligan.timeline.moves import Move
from mulligan.timeline.vault import Vault


def settle(vault: Vault, providers: Providers, keep: Callable[[str], str]) -> bool:
    """
    Hands owed state to the providers; returns whether it did. The caller holds the store.

    `keep(about)` saves what is there now: needed only where the providers hold something that the checkpoint before that
    restore does not.
    """
    owed = state_owed(vault.database)
    entry = vault.checkpoints.by_id(owed)
    if entry is None or vault.checkpoints.position() != owed:
        state_given(vault.database)
        return False
    staged = providers.stage(entry.checkpoint.state)
    if not _is_kept(vault, providers):
        safety = keep(f"before the state of {entry.checkpoint.name or entry.checkpoint.short_id}")
        with vault.database.transaction():
            vault.moves.push(Move(safety, "state"), Move(owed, "state"))
    for make_current in staged:
        make_current()
    state_given(vault.database)
    return True


def _is_kept(vault: Vault, providers: Providers) -> bool:
    """Returns whether a state that undo or redo leads to holds what the providers have now."""
    held, near = providers.capture(), [*vault.moves.down(2), *vault.moves.redoable()[:1]]
    entries = (vault.checkpoints.by_id(move.id) for move in near if move.what != "files")
    return any(entry is not None and entry.checkpoint.state == held for entry in entries)
