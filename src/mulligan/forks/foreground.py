"""
Runs a command in the foreground, with this terminal.

Ctrl-C reaches the command from the terminal, and only the command decides what it means. A request to end that comes to this
process alone is passed on. This process waits until the command has ended.
"""

from __future__ import annotations

import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import IO

from mulligan.loop.commands import CommandError

_PASSED_ON = (signal.SIGTERM, signal.SIGHUP)
_BY_SIGNAL = 128


def run_attached(
    words: Sequence[str],
    cwd: str,
    *,
    stdout: IO[str] | None = None,
    while_running: Callable[[Callable[[float], bool]], None] | None = None,
) -> int:
    """
    Runs a program to its end and returns its exit code, 128 and more for a signal as shells do.

    `while_running` gets a function that waits some seconds for the end and says whether it came; it is called once.
    """
    try:
        process = subprocess.Popen(list(words), cwd=cwd, stdout=stdout)  # noqa: S603 - the user's own command
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise CommandError(f"{words[0]!r} cannot be started ({why}). Nothing was run.") from None
    with _signals_of(process):
        if while_running is not None:
            while_running(lambda seconds: _ended(process, seconds))
        code = process.wait()
    return code if code >= 0 else _BY_SIGNAL - code


def _ended(process: subprocess.Popen[bytes], seconds: float) -> bool:
    with suppress(subprocess.TimeoutExpired):
        process.wait(seconds)
        return True
    return False


@contextmanager
def _signals_of(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Leaves Ctrl-C to the command, and passes on what asks this process to end."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def pass_on(number: int, _: object) -> None:
        with suppress(ProcessLookupError):
            process.send_signal(number)

    before = {signal.SIGINT: signal.signal(signal.SIGINT, lambda *_: None)}
    before |= {number: signal.signal(number, pass_on) for number in _PASSED_ON}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
