"""
Providers of agent state: a conversation, a plan, counters.

A provider is asked for its value at every save and handed it back by a restore of state. Handing back has two steps, so
that a value that cannot be taken is refused before anything changed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol


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
