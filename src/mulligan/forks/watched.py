"""
Runs any command watched: a checkpoint after each burst of changes, and a receipt at the end.

For agents without hooks. The whole run is one turn in the story, so one undo takes it back. What the command changes is saved
when the changes rest for a second; if this process is killed, the next command that saves holds the rest.
"""

from __future__ import annotations

import os
import select
import shlex
import time
from collections.abc import Callable, Sequence
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from mulligan.engine.watching import catch_up, notices
from mulligan.errors import MulliganError
from mulligan.forks.foreground import run_attached
from mulligan.model.event import AFTER, BEFORE, FAILED, PROMPT, STOP, AgentEvent
from mulligan.safefs.directory import random_name

if TYPE_CHECKING:
    from mulligan.engine.workspace import Workspace
    from mulligan.model.diff import Diff

# Seconds: between two looks, of rest after which a burst is over, the longest wait for that, and between looks without a watcher.
_LOOK = 0.25
_REST = 1.0
_LONGEST = 10.0
_UNWATCHED = 5.0
_RUN = "run"


class Receipt(NamedTuple):
    """What a watched command did: its exit code, how long it took, what changed, and the session that holds it."""

    command: str
    code: int
    seconds: float
    session: str
    checkpoints: int
    start: str
    end: str
    diff: Diff | None = None
    problem: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON form."""
        diff = self.diff
        changed = {key: getattr(diff, key) if diff else [] for key in ("added", "modified", "deleted")}
        return {
            "command": self.command,
            "exit_code": self.code,
            "seconds": round(self.seconds, 3),
            "session": self.session,
            "checkpoints": self.checkpoints,
            "from": self.start,
            "to": self.end,
            **changed,
            "renamed": [list(pair) for pair in diff.renamed] if diff else [],
            "undo": "mulligan undo" if diff is not None else None,
            "problem": self.problem or None,
        }


class WatchedRun:
    """One command under watch."""

    def __init__(self, workspace: Workspace, words: Sequence[str], cwd: str, *, stdout: IO[str] | None = None) -> None:
        self._workspace = workspace
        self._words = list(words)
        self._cwd = cwd
        self._stdout = stdout
        self._agent = os.path.basename(words[0])
        self._text = shlex.join(words)
        self._session = f"run-{random_name(6)}"
        self._bursts = self._saved = 0
        self._begun = time.monotonic()
        self._problem = ""

    def run(self) -> Receipt:
        """Runs the command to its end; raises CommandError where it cannot be started."""
        self._workspace.record(self._event(PROMPT))
        start = self._workspace.position() or ""
        with self._workspace.watch():
            self._workspace.record(self._event(BEFORE, tool=self._agent, call=_RUN))
            code = 1
            try:
                code = run_attached(self._words, self._cwd, stdout=self._stdout, while_running=self._follow)
            finally:
                self._end(failed=code != 0)
        end = self._workspace.position() or ""
        diff = self._workspace.diff(start, end) if start != end else None
        seconds = time.monotonic() - self._begun
        return Receipt(self._text, code, seconds, self._session, self._saved, start, end, diff, self._problem)

    def _event(self, kind: str, *, tool: str = "", call: str = "") -> AgentEvent:
        return AgentEvent(self._agent, self._session, kind, tool=tool, call=call, text=self._text)

    def _follow(self, ended: Callable[[float], bool]) -> None:
        """Saves after each burst of changes, until the command has ended."""
        first = last = 0.0  # the first and the last change that are not saved yet
        while not ended(_LOOK):
            now = time.monotonic()
            if self._has_news(now):
                first, last = first or now, now
            if first and (now - last >= _REST or now - first >= _LONGEST):
                self._save_burst()
                first = last = 0.0

    def _has_news(self, now: float) -> bool:
        """Whether something may have changed since the last look."""
        fd = notices(self._workspace.bench)
        if fd < 0:
            return now % _UNWATCHED < _LOOK  # no watcher here: look from time to time
        if not select.select([fd], [], [], 0)[0]:
            return False
        catch_up(self._workspace.bench)
        return True

    def _save_burst(self) -> None:
        if self._trying(lambda: not self._workspace.diff().is_empty):
            self._bursts += 1
            text = f"changes until {time.monotonic() - self._begun:.0f} s after the start"
            event = self._event(AFTER, tool=self._agent, call=f"burst-{self._bursts}")._replace(text=text)
            self._saved += bool(self._trying(lambda: self._workspace.record(event)))

    def _end(self, *, failed: bool) -> None:
        """Saves what is left, and ends the turn."""
        last = self._event(FAILED if failed else AFTER, tool=self._agent, call=_RUN)
        self._saved += bool(self._trying(lambda: self._workspace.record(last)))
        self._saved += bool(self._trying(lambda: self._workspace.record(self._event(STOP))))

    def _trying(self, act: Callable[[], Any]) -> Any:
        """Does something that must not end the command: what goes wrong is in the receipt, unless it works later."""
        try:
            done = act()
        except MulliganError as error:
            self._problem = error.message
            return None
        self._problem = ""
        return done
