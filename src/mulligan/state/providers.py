"""
Providers of agent state: a conversation, a plan, counters.

A provider is asked for its value at every save and handed it back by a restore of state. Handing back has two steps, so
that a value that cannot be taken is refused before anything changed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from mulligan.timeline.undo import Move

if TYPE_CHECKING:
    from mulligan.timeline.store import Store


class Provider(Protocol):
    """Something whose state belongs into a checkpoint."""

    def capture(self) -> Any:
        """Returns the state as JSON can hold it."""

    def stage(self, value: Any) -> Callable[[], None]:
        """Checks a value from a checkpoint and returns the call that makes it current; raises if it cannot."""


class Providers:
    """The providers of one open workspace, by name."""

    def __init__(self) -> None:
        self._named: dict[str, Provider] = {}

    def __bool__(self) -> bool:
        return bool(self._named)

    def add(self, name: str, provider: Provider) -> None:
        """Registers a provider; the same name replaces it."""
        self._named[name] = provider

    def remove(self, name: str) -> None:
        """Takes a provider out; an unknown name is harmless."""
        self._named.pop(name, None)

    def capture(self) -> dict[str, Any]:
        """Returns the state of every provider."""
        return {name: provider.capture() for name, provider in self._named.items()}

    def stage(self, state: dict[str, Any]) -> list[Callable[[], None]]:
        """Lets every provider check its part of a state; returns the calls that make it current."""
        return [provider.stage(state[name]) for name, provider in self._named.items() if name in state]


def settle(store: Store, providers: Providers, keep: Callable[[str], str]) -> bool:
    """
    Hands owed state to the providers; returns whether it did. The caller holds the store.

    `keep(about)` saves what is there now: needed only where the providers hold something that the checkpoint before that
    restore does not.
    """
    from mulligan.timeline.journal import state_given, state_owed

    owed = state_owed(store.database)
    entry = store.checkpoints.by_id(owed)
    if entry is None or store.checkpoints.position() != owed:
        state_given(store.database)
        return False
    staged = providers.stage(entry.checkpoint.state)
    if not _is_kept(store, providers):
        safety = keep(f"before the state of {entry.checkpoint.name or entry.checkpoint.short_id}")
        with store.database.transaction():
            store.moves.push(Move(safety, "state"), Move(owed, "state"))
    for make_current in staged:
        make_current()
    state_given(store.database)
    return True


def _is_kept(store: Store, providers: Providers) -> bool:
    """Returns whether a state that undo or redo leads to holds what the providers have now."""
    held, near = providers.capture(), [*store.moves.down(2), *store.moves.redoable()[:1]]
    entries = (store.checkpoints.by_id(move.id) for move in near if move.what != "files")
    return any(entry is not None and entry.checkpoint.state == held for entry in entries)
