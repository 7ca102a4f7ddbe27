"""
Which session this is and how many tokens it used, for the context of checkpoints.

A session's number is never used twice, although a rollback takes the progress file back: the checkpoints remember it too.
"""

from __future__ import annotations

import os
import threading
from typing import Any

from mulligan.errors import UserError
from mulligan.loop.project import ProjectCheckpoints
from mulligan.safefs.userfile import read_user_file
from mulligan.state.progress import PROGRESS_FILE, last_session

_LIMIT = 64 << 20


class ContextTracker:
    """
    Counts sessions and tokens of one project; threads may share one.

        tracker = ContextTracker(project_dir)
        tracker.start_session()
        tracker.add_tokens(1200)
        manager = CheckpointManager(project_dir, figures=tracker.figures)
    """

    def __init__(self, project_dir: str | os.PathLike[str], *, checkpoints: ProjectCheckpoints | None = None) -> None:
        self._checkpoints = checkpoints or ProjectCheckpoints(project_dir)
        self._root = os.path.realpath(project_dir)
        self._mutex = threading.Lock()
        self.session_number = 0
        self.token_usage = 0

    def start_session(self) -> int:
        """Begins the next session and returns its number: one more than any that was seen here."""
        known = max(self._in_checkpoints(), self._in_progress_file())
        with self._mutex:
            self.session_number = max(self.session_number, known) + 1
            return self.session_number

    def _in_checkpoints(self) -> int:
        numbers = (each.context.get("session_number") for each in self._checkpoints.workspace.log())
        return max((n for n in numbers if isinstance(n, int) and not isinstance(n, bool)), default=0)

    def _in_progress_file(self) -> int:
        try:
            return last_session(read_user_file(os.path.join(self._root, PROGRESS_FILE), limit=_LIMIT))
        except OSError:
            return 0  # a directory, a device, not to be read: it says nothing

    def add_tokens(self, tokens: int) -> int:
        """Counts tokens and returns how many were used in all."""
        if isinstance(tokens, bool) or not isinstance(tokens, int) or tokens < 0:
            raise UserError(f"Tokens are a whole number from 0 on, not {tokens!r}. Nothing was counted.")
        with self._mutex:
            self.token_usage += tokens
            return self.token_usage

    def figures(self) -> dict[str, Any]:
        """Returns what belongs into the context of a checkpoint."""
        with self._mutex:
            return {"session_number": self.session_number, "token_usage": self.token_usage}
