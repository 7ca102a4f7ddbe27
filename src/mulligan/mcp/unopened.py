"""
A workspace that cannot be opened, for a server that runs all the same.

Some clients remember that a server exited and never start it again, in any project. So the server runs in a home directory too,
and each call is answered with the reason why nothing is protected there.
"""

from __future__ import annotations

from typing import NoReturn

from mulligan.errors import MulliganError


class Unopened:
    """Stands in for a workspace: whatever is asked of it raises the reason."""

    progress: object = None

    def __init__(self, reason: MulliganError) -> None:
        self._reason = reason

    def __getattr__(self, name: str) -> NoReturn:
        raise self._reason

    def close(self) -> None:
        """Nothing was opened."""
