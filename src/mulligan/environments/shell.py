"""
Commands, and shells that remember where they are.

`run_once` starts a fresh shell for one command; a `Session` is one shell that keeps its directory, variables and functions
from command to command. Either way a command gets a process group of its own, an empty standard input, and when its time
is up the whole group is ended. A program that a command leaves in the background does not hold the answer up.
"""

from __future__ import annotations

import math
import os
import selectors
import shlex
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from typing import IO

from mulligan.environments.base import TIMED_OUT, CommandResult
from mulligan.environments.output import Output, timed_out_note
from mulligan.safefs.directory import random_name

_CHUNK = 1 << 16
# Where something in the background still holds the pipe of a command that has ended: how long it must be silent, and how long it
# may go on to print, until the answer is given.
_GRACE, _LAST_WORDS = 0.2, 1.0
_POLL = 0.05
_SHELLS = ("/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash", "/bin/sh")


class _Stream(Output):
    """The output of one pipe so far."""

    def __init__(self, pipe: IO[bytes]) -> None:
        super().__init__()
        self.fd = pipe.fileno()
        self.ended = False

    def read(self) -> None:
        """Takes what is there; the pipe was found readable."""
        part = os.read(self.fd, _CHUNK)
        self.ended = not part
        self.add(part)


def run_once(cmd: str, *, cwd: str, timeout: float | None) -> CommandResult:
    """Runs a command in a fresh shell."""
    with _start(["-c", cmd], cwd, stdin=subprocess.DEVNULL) as process:
        out, err = _streams(process)
        deadline = _deadline(timeout)
        in_time = _pump([out, err], deadline, lambda: process.poll() is not None)
        if in_time:
            with suppress(subprocess.TimeoutExpired):
                process.wait(_left(deadline))
        if process.poll() is None:
            end_group(process)
            _pump([out, err], time.monotonic() + _GRACE, lambda: True)
            return _timed_out(out, err, timeout)
        return CommandResult(out.text(), err.text(), _exit_code(process))


class ShellSession:
    """One shell that stays."""

    def __init__(self, cwd: str) -> None:
        self._cwd = cwd
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, cmd: str, *, timeout: float | None) -> CommandResult:
        """Runs a command where the last one left off; out of time, the shell is ended and the next starts afresh."""
        process = self._alive()
        mark = f"mulligan-{random_name(12)}"
        out, err = _streams(process)
        deadline = _deadline(timeout)
        # Its own descriptors 8 and 9 are the pipes: a command that redirects the shell for good cannot hide the mark.
        line = (
            f"eval {shlex.quote(cmd)} </dev/null >&8 2>&9 8>&- 9>&-; "
            f"printf '\\n%s %s\\n' {mark} \"$?\" >&8; printf '\\n%s\\n' {mark} >&9\n"
        )
        if not self._tell(process, line):
            self.close()
            return CommandResult("", "The shell ended by itself; the next command starts a new one.", 1)
        token = mark.encode()
        marked = lambda: token in out.data[-256:] and token in err.data[-256:]  # noqa: E731 - one use
        if not _pump([out, err], deadline, lambda: process.poll() is not None, until=marked):
            self.close()
            return _timed_out(out, err, timeout, "The shell was ended; the next command starts a new one.")
        if token not in out.data:  # `exit` in the command: its streams are closed a moment before it has ended
            with suppress(subprocess.TimeoutExpired):
                process.wait(_left(deadline))
        return self._result(process, out, err, token)

    def _result(self, process: subprocess.Popen[bytes], out: _Stream, err: _Stream, token: bytes) -> CommandResult:
        body, found, tail = bytes(out.data).rpartition(b"\n" + token + b" ")
        if not found:
            code = _exit_code(process)
            self.close()
            return CommandResult(out.text(), err.text(), code)
        out.data, err.data = bytearray(body), bytearray(bytes(err.data).rpartition(b"\n" + token)[0])
        return CommandResult(out.text(), err.text(), int(tail.split()[0]))

    def _alive(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            self.close()
            self._process = _start([], self._cwd, stdin=subprocess.PIPE)
            self._tell(self._process, "exec 8>&1 9>&2\n")
        return self._process

    @staticmethod
    def _tell(process: subprocess.Popen[bytes], line: str) -> bool:
        try:
            if process.stdin is not None:
                process.stdin.write(line.encode("utf-8", "surrogateescape"))
                process.stdin.flush()
        except (BrokenPipeError, OSError):
            return False
        return True

    def close(self) -> None:
        """Ends the shell and what it started; again is harmless."""
        process, self._process = self._process, None
        if process is not None:
            end_group(process)
            for pipe in (process.stdin, process.stdout, process.stderr):
                if pipe is not None:
                    with suppress(OSError):  # what was still to be written has no reader any more
                        pipe.close()


def end_group(process: subprocess.Popen[bytes]) -> None:
    """Ends a process with everything in its group, and waits for it."""
    with suppress(ProcessLookupError, PermissionError):
        os.kill(-process.pid, signal.SIGKILL)
    with suppress(subprocess.TimeoutExpired):
        process.wait(5)


def _start(arguments: list[str], cwd: str, *, stdin: int) -> subprocess.Popen[bytes]:
    shell = next((path for path in _SHELLS if os.path.exists(path)), "sh")
    return subprocess.Popen(  # noqa: S603 - running what the caller asks for is the purpose
        [shell, *arguments], cwd=cwd, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )  # fmt: skip


def _streams(process: subprocess.Popen[bytes]) -> tuple[_Stream, _Stream]:
    if process.stdout is None or process.stderr is None:
        raise ValueError("the process has no pipes")
    return _Stream(process.stdout), _Stream(process.stderr)


def _pump(
    streams: list[_Stream],
    deadline: float | None,
    ended: Callable[[], bool],
    *,
    until: Callable[[], bool] = lambda: False,
) -> bool:
    """Reads until the pipes close, `until` holds, or the process has ended and had its last words; returns False out of time."""
    quiet = closing = math.inf
    with selectors.DefaultSelector() as selector:
        for stream in streams:
            selector.register(stream.fd, selectors.EVENT_READ, stream)
        while selector.get_map() and not until():
            now = time.monotonic()
            if deadline is not None and now >= deadline:
                return False
            ready = selector.select(min(_POLL, deadline - now) if deadline is not None else _POLL)
            for key, _ in ready:
                key.data.read()
                if key.data.ended:
                    selector.unregister(key.fd)
            if ended():
                quiet = math.inf if ready else min(quiet, now + _GRACE)
                closing = min(closing, now + _LAST_WORDS)
            if now > min(quiet, closing):
                return True
    return True


def _deadline(timeout: float | None) -> float | None:
    return None if timeout is None else time.monotonic() + timeout


def _left(deadline: float | None) -> float | None:
    return None if deadline is None else max(deadline - time.monotonic(), 0)


def _exit_code(process: subprocess.Popen[bytes]) -> int:
    """Returns the exit code as a shell tells it: 128 and the signal for one that was killed."""
    code = process.returncode
    if code is None:
        return 1
    return code if code >= 0 else 128 - code


def _timed_out(out: _Stream, err: _Stream, timeout: float | None, also: str = "") -> CommandResult:
    return CommandResult(out.text(), timed_out_note(err.text(), timeout, also), TIMED_OUT)
