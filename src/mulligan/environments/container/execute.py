"""
Commands inside a container.

A command runs by `/bin/sh` with its two outputs apart and an empty input. Out of time, it is ended with everything it
started, and nothing else in the container is: each carries a mark in its environment, by which they are found.

LIMIT: a program that empties its environment cannot be found by the mark and outlives its time.
"""

from __future__ import annotations

import os
import threading
import time
from typing import Any

from mulligan.environments.base import TIMED_OUT, CommandResult
from mulligan.environments.container.engine import Engine
from mulligan.environments.container.trouble import EngineRefused, EngineUnreachable
from mulligan.environments.output import Output, timed_out_note

MARK = "MULLIGAN_COMMAND"
# Twice over, since a process may have been starting another one during the first pass.
_END_MARKED = """
for pass in 1 2; do
  for process in /proc/[0-9]*; do
    if grep -qs "$1" "$process/environ"; then kill -9 "${process#/proc/}"; fi
  done
done
"""
_LAST_WORDS = 5.0


class _Running(threading.Thread):
    """A command that runs; reads what it prints until it ends."""

    def __init__(self, engine: Engine, run: str) -> None:
        super().__init__(name="mulligan-container-command", daemon=True)
        self.out, self.err = Output(), Output()
        self.trouble: BaseException | None = None
        self._engine, self._id = engine, run

    def run(self) -> None:
        """Reads both outputs."""
        try:
            with self._engine.started(self._id) as outputs:
                for is_error, part in outputs:
                    (self.err if is_error else self.out).add(part)
        except BaseException as error:  # noqa: BLE001 - handed to the thread that waits
            self.trouble = error


def run_command(engine: Engine, container: str, cmd: str, *, workdir: str, timeout: float | None) -> CommandResult:
    """Runs a shell command in a container and returns what it printed; out of time, with exit code 124."""
    mark = os.urandom(8).hex()
    with engine.asking("run the command"):
        run = engine.api.exec_create(
            container, ["/bin/sh", "-c", cmd], environment={MARK: mark}, workdir=workdir, stdout=True, stderr=True
        )["Id"]
    running = _Running(engine, run)
    running.start()
    running.join(timeout)
    timed_out = running.is_alive()
    if timed_out:
        _end(engine, container, mark)
        running.join(_LAST_WORDS)
    elif running.trouble is not None:
        raise _begun(running.trouble)
    err = running.err.text()
    if timed_out:
        still = "It could not be ended and still runs in the container." if running.is_alive() else ""
        return CommandResult(running.out.text(), timed_out_note(err, timeout, still), TIMED_OUT)
    try:
        return CommandResult(running.out.text(), err, _exit_code(engine, run))
    except EngineRefused as error:
        raise _begun(error) from error


def _begun(trouble: BaseException) -> BaseException:
    """Returns an error that says that the command had begun, so that no caller runs it again."""
    if isinstance(trouble, EngineRefused):
        return EngineRefused(
            f"The container was stopped or replaced while the command ran in it ({trouble}). Checkpoints are safe.",
            hint="Look at what the command did before you run it again",
        )
    return trouble


def _end(engine: Engine, container: str, mark: str) -> None:
    script = ["/bin/sh", "-c", _END_MARKED, "sh", f"{MARK}={mark}"]
    with engine.asking("end the command"):
        run = engine.api.exec_create(container, script, user="0")["Id"]
    with engine.started(run) as outputs:
        for _ in outputs:
            pass


def _exit_code(engine: Engine, run: str) -> int:
    """Returns how a command ended; an engine may need a moment to notice."""
    deadline = time.monotonic() + _LAST_WORDS
    while True:
        with engine.asking("learn how the command ended"):
            state: dict[str, Any] = engine.api.exec_inspect(run)
        if not state["Running"] and state["ExitCode"] is not None:
            return int(state["ExitCode"])
        if time.monotonic() >= deadline:
            raise EngineUnreachable("The container engine does not say how the command ended. Checkpoints are safe.")
        time.sleep(0.01)
