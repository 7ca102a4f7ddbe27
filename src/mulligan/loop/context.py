"""
Which session this is and how many tokens it used, for the context of checkpoints.

A session's number is never used twice, although a rollback restores an older progress file: checkpoints and a note in the
store remember it too. What one tracker counts is in that note, so trackers in other objects and processes report it.
"""

from __future__ import annotations

import os
import threading
from typing import Any

from mulligan.errors import UserError
from mulligan.loop.project import ProjectCheckpoints
from mulligan.safefs.userfile import read_user_file, read_user_part
from mulligan.state.project import PROGRESS_FILE, last_session, tokens_of

_LIMIT = 64 << 20
#: The end of a transcript is enough: each answer of a model repeats how large the conversation is.
_TAIL = 1 << 20
_COUNTED, _AGENT = "context:counted", "context:agent session"


class ContextTracker:
    """
    Counts sessions and tokens of one project; threads may share one.

        tracker = ContextTracker(project_dir)
        tracker.start_session()
        tracker.add_tokens(1200)
    """

    def __init__(self, project_dir: str | os.PathLike[str], *, checkpoints: ProjectCheckpoints | None = None) -> None:
        self._checkpoints = checkpoints or ProjectCheckpoints(project_dir)
        self._root = os.path.realpath(project_dir)
        self._mutex = threading.Lock()
        self.session_number = 0
        self.token_usage = 0

    def start_session(self) -> int:
        """Begins the next session and returns its number: one more than any that was seen here."""
        known = self._known()
        with self._mutex:
            self.session_number = max(self.session_number, known) + 1
            self._keep()
            return self.session_number

    def add_tokens(self, tokens: int) -> int:
        """Counts tokens and returns how many were used in all."""
        if isinstance(tokens, bool) or not isinstance(tokens, int) or tokens < 0:
            raise UserError(f"Tokens are a whole number from 0 on, not {tokens!r}. Nothing was counted.")
        with self._mutex:
            self.token_usage += tokens
            self._keep()
            return self.token_usage

    def figures(self) -> dict[str, Any]:
        """
        Returns what belongs into the context of a checkpoint.

        Where this tracker counted nothing: what another tracker counted, else what the hooks of an agent recorded, else
        the last session of the progress file.
        """
        with self._mutex:
            if self.session_number or self.token_usage:
                return {"session_number": self.session_number, "token_usage": self.token_usage}
        counted = self._counted()
        number = self._number()
        same = counted.get("session_number") == number
        tokens = counted["token_usage"] if same else self._in_transcript()
        return {"session_number": number, "token_usage": tokens}

    # -- sessions ---------------------------------------------------------------------------------

    def _known(self) -> int:
        counted = self._counted().get("session_number", 0)
        return max(self._in_checkpoints(), self._in_progress_file(), int(counted))

    def _number(self) -> int:
        """Returns the number of the session that goes on; a new session of an agent with hooks has the next one."""
        known = max(self._known(), 1)
        workspace = self._checkpoints.workspace
        newest = next(iter(workspace.agent_events(limit=1)), None)
        if newest is None:
            return known
        session, seen = newest.event.session, workspace.note(_AGENT)
        if seen is not None and seen["session"] == session:
            return max(known, int(seen["number"]))
        number = known if seen is None else max(known, int(seen["number"])) + 1
        workspace.update_note(_AGENT, lambda _: {"session": session, "number": number})
        return number

    def _in_checkpoints(self) -> int:
        numbers = (each.context.get("session_number") for each in self._checkpoints.workspace.log())
        return max((n for n in numbers if isinstance(n, int) and not isinstance(n, bool)), default=0)

    def _in_progress_file(self) -> int:
        try:
            return last_session(read_user_file(os.path.join(self._root, PROGRESS_FILE), limit=_LIMIT))
        except OSError:
            return 0  # a directory, a device, not to be read: it says nothing

    # -- tokens -----------------------------------------------------------------------------------

    def _in_transcript(self) -> int:
        """Returns the size of the conversation that the hooks of an agent named, in tokens; 0 where none did."""
        newest = next(iter(self._checkpoints.workspace.agent_events(limit=1)), None)
        if newest is None or not newest.event.transcript:
            return 0
        path = newest.event.transcript
        try:
            size = os.stat(path).st_size
            return tokens_of(read_user_part(path, max(0, size - _TAIL), size))
        except OSError:
            return 0  # moved, deleted or unreadable: it says nothing

    # -- what other trackers see ------------------------------------------------------------------

    def _keep(self) -> None:
        figures = {"session_number": self.session_number, "token_usage": self.token_usage}
        self._checkpoints.workspace.update_note(_COUNTED, lambda _: figures)

    def _counted(self) -> dict[str, Any]:
        found: dict[str, Any] = self._checkpoints.workspace.note(_COUNTED, {})
        return found
