"""
Pushing while a watcher is idle (`remotes.push_when_idle`, off by default).

Each push is a process of its own, `mulligan push NAME`, so no command waits for the network. It has no terminal and asks for
nothing. The push notes in the store how it ended, which `status` shows. A push that failed is tried again after a pause: as
long as the watcher waits before any push, doubled with each failure, an hour at most.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from mulligan.cli.watchers import start_apart
from mulligan.errors import MulliganError
from mulligan.settings.variables import environment
from mulligan.timeline.database import NAME

if TYPE_CHECKING:
    from mulligan.engine.workspace import Workspace

_LONGEST_PAUSE = 3600.0
_END = 10.0
#: Exit codes of a push that did what it could: all was sent, or some checkpoints are held back until a `forget`.
_WELL = (0, 3)


class IdlePushes:
    """The pushes of one watcher, one at a time."""

    def __init__(self) -> None:
        self._child: subprocess.Popen[str] | None = None
        self._name = ""
        self._pauses: dict[str, tuple[float, float]] = {}  # by remote: how long, and until when
        self._behind: list[str] = []
        self._state: tuple[tuple[int, int], ...] = ()

    @property
    def is_running(self) -> bool:
        """Whether a push was started that has not been seen to end."""
        return self._child is not None

    def turn(self, workspace: Workspace, idle: float) -> None:
        """Starts a push where one is due; `idle` are the seconds since the last command. Returns at once."""
        after = workspace.settings.remotes.push_when_idle
        if self._child is not None and not self._has_ended(self._child, after):
            return
        if not after or idle < after:
            return
        state = _state(workspace.store_path)
        if state != self._state:
            try:
                self._behind, self._state = workspace.remotes.behind(), state
            except MulliganError:
                return  # another process writes, or the store has a problem: a command will report it
        now = time.monotonic()
        due = [name for name in self._behind if self._pauses.get(name, (0.0, 0.0))[1] <= now]
        if due:
            self._start(workspace, due[0])

    def _start(self, workspace: Workspace, name: str) -> None:
        self._name = name
        self._child = start_apart(workspace.settings, ["push", name], {**environment(), "MULLIGAN_WATCH": "0"})

    def _has_ended(self, child: subprocess.Popen[str], after: int) -> bool:
        code = child.poll()
        if code is None:
            return False
        self._child = None
        if code in _WELL:
            self._pauses.pop(self._name, None)
        else:
            pause = min(2 * self._pauses.get(self._name, (after / 2, 0.0))[0], _LONGEST_PAUSE)
            self._pauses[self._name] = (pause, time.monotonic() + pause)
        return True

    def end(self) -> None:
        """Ends a push that is under way, with the programs that it started; the next push goes on with it."""
        child, self._child = self._child, None
        if child is None or child.poll() is not None:
            return
        for number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.killpg(child.pid, number)
            with suppress(subprocess.TimeoutExpired):
                child.wait(_END)
                return


def _state(store: str) -> tuple[tuple[int, int], ...]:
    """Returns what changes with every write to the timeline."""
    found = []
    for name in (NAME, f"{NAME}-wal"):
        with suppress(OSError):
            stat = os.stat(f"{store}/{name}")
            found.append((stat.st_mtime_ns, stat.st_size))
    return tuple(found)
