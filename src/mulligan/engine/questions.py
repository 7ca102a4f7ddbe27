"""The verbs that ask history something. The answers are made in `history`, which is loaded when one of them is asked."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from mulligan.engine.agents import WithSessions
from mulligan.errors import UserError
from mulligan.model.paths import parse_path

if TYPE_CHECKING:
    from mulligan.history.blame import Blame
    from mulligan.history.search import SearchResult


class WithQuestions(WithSessions):
    """Which prompt wrote a line, and where a text is."""

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
