"""The verbs that ask history something. The answers are made in `history`, which is loaded when one of them is asked."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from mulligan.engine.agents import WithSessions
from mulligan.errors import UserError
from mulligan.model.checkpoint import moment
from mulligan.model.paths import parse_path

if TYPE_CHECKING:
    from mulligan.history.blame import Blame
    from mulligan.history.report import Report
    from mulligan.history.search import SearchResult


class WithQuestions(WithSessions):
    """Which prompt wrote a line, where a text is, what really happened."""

    def blame(self, path: str | os.PathLike[str]) -> Blame:
        """Returns which prompt, tool call, agent or person wrote each line of a file as it is now."""
        from mulligan.history.blame import blame

        with self._needing() as store:
            return blame(store, self.root, parse_path(path))

    def search(self, text: str, *, changes: bool = False, **bounds: Any) -> SearchResult:
        """
        Returns where a text is: in prompts, commands, names, paths, and the files of the last checkpoint.

        With `changes`, the steps in which it appeared in a file or disappeared from one. `bounds` are as for `log`.
        """
        from mulligan.history.search import search

        if not text:
            raise UserError("There is no text to search for.")
        with self._needing() as store:
            return search(store, text, changes=changes, bounds=bounds, progress=self._bench.counted("searching"))

    def report(self, session: str | None = None) -> Report:
        """Returns what agents did, every path that changed and what was not saved; of a session, or of all that is kept."""
        from mulligan.history.report import make_report

        with self._needing() as store:
            name = store.events.session(session) if session is not None else None
            chapters = self.story(session=name)[::-1]
            return make_report(store, self.root, chapters, name, moment(self._bench.now_ns()))
