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
