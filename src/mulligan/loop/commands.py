"""
Running a command to its end, and to the end of everything it started.

A command runs in a session of its own, reads nothing (`/dev/null`), and both its outputs are kept up to a limit, the end
rather than the beginning. Promised: when `run` returns or raises, also through Ctrl-C, no process of the command's group
is alive, so nothing of it writes into the workspace while the next step runs. When this process is killed, a guard ends
the group. Words never pass a shell unless the caller
asks for one.
"""

from __future__ import annotations

import errno
import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import IO, Any, NamedTuple

from mulligan.errors import UserError

KEPT = 1 << 20
GRACE = 3.0
_CHUNK = 1 << 16
# Ctrl-C comes last: it is the one whose handler raises, and the others are in place by then.
_INTERRUPTS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
_GLANCE = 0.05
_DRAIN = 1.0
_GUARD = 'read -r group && { read -r line || { kill -s TERM -- "-$group"; sleep 3; kill -s KILL -- "-$group"; }; }'


class CommandError(UserError):
    """A command could not be started."""


class CommandRun(NamedTuple):
    """A command's result: exit code (negative for a signal), the end of its output, and a timeout."""

    code: int
    out: bytes
    err: bytes
    timed_out: bool = False

    @property
    def text(self) -> str:
        """Its standard output as text; bytes that are not UTF-8 are replaced."""
        return self.out.decode("utf-8", "replace")


class Tail:
    """The end of a stream: at most `limit` bytes are given back, at most twice as many are held."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._kept = bytearray()

    def add(self, data: bytes) -> None:
        """Takes the next bytes."""
        self._kept += data
        if len(self._kept) > 2 * self._limit:
            del self._kept[: -self._limit]

    def bytes(self) -> bytes:
        """Returns the end of what came."""
        return bytes(self._kept[-self._limit :])


def run(
    words: Sequence[str],
    *,
    cwd: str,
    timeout: float | None = None,
    limit: int = KEPT,
    on_output: Callable[[bytes], object] | None = None,
) -> CommandRun:
    """Runs a program with these arguments; raises CommandError where it cannot be started."""
    tails = (Tail(limit), Tail(limit))
    process: subprocess.Popen[bytes] | None = None
    guard: subprocess.Popen[bytes] | None = None
    try:
        with _signals_held():
            guard = _start_guard()
            process = _start(words, cwd, guard)
        timed_out = _listen(process, tails, timeout, on_output)
    finally:
        # Also through an exception: nothing that the command left behind may outlive the step.
        with _signals_held():
            if process is not None:
                _end_group(process)
                for stream in filter(None, (process.stdout, process.stderr)):
                    stream.close()
            if guard is not None:
                _dismiss(guard)
    return CommandRun(process.returncode, tails[0].bytes(), tails[1].bytes(), timed_out)


def run_shell(text: str, values: Sequence[str] = (), **options: Any) -> CommandRun:
    """Runs shell text; `values` are passed as the variables `mulligan_1`, `mulligan_2`, …."""
    names = " ".join(f"mulligan_{number}=${{{number}}}" for number in range(1, len(values) + 1))
    head = f"{names}\nshift {len(values)}\n" if values else ""
    return run(["/bin/sh", "-c", head + text, "sh", *values], **options)


@contextmanager
def _signals_held() -> Iterator[None]:
    """
    Keeps Ctrl-C and its like until the block has ended.

    An interrupt in the middle of starting a process would lose the only name by which it can be ended again.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread is interrupted
        return
    held: list[int] = []
    # Those that are ignored stay so, for the command too.
    caught = [number for number in _INTERRUPTS if callable(signal.getsignal(number))]
    before = {number: signal.signal(number, lambda heard, _: held.append(heard)) for number in caught}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for heard in held:
            signal.raise_signal(heard)


def _start(words: Sequence[str], cwd: str, guard: subprocess.Popen[bytes]) -> subprocess.Popen[bytes]:
    """Starts a command; its group is given to the guard first, so that a kill leaves no orphan."""
    try:
        return subprocess.Popen(  # noqa: S603 - running the command of an agent is the point, and no shell sees its words
            list(words),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            preexec_fn=lambda: _tell(guard, f"{os.getpid()}\n"),  # noqa: PLW1509 - one write, which needs no lock
            bufsize=0,
        )
    except (OSError, ValueError) as error:
        raise CommandError(_why(error, words, cwd)) from None


def _start_guard() -> subprocess.Popen[bytes]:
    """
    Starts a process that ends a group when this one dies, however it dies.

    It reads the number of the group, then waits for a second line. The end of its input means that this process is gone.
    """
    return subprocess.Popen(  # noqa: S603 - fixed words
        ["/bin/sh", "-c", _GUARD],
        cwd="/",
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        bufsize=0,
    )


def _tell(guard: subprocess.Popen[bytes], line: str) -> None:
    with suppress(BrokenPipeError):  # the guard was ended from outside
        _piped(guard.stdin).write(line.encode("ascii"))


def _dismiss(guard: subprocess.Popen[bytes]) -> None:
    """Ends the guard of a command that has ended, or was never started."""
    _tell(guard, "-\ndone\n")
    _piped(guard.stdin).close()
    guard.wait()


def _why(error: OSError | ValueError, words: Sequence[str], cwd: str) -> str:
    program = words[0] if words else ""
    if isinstance(error, ValueError):
        return f"{program!r} cannot be started: an argument holds a zero byte. Nothing was run."
    if isinstance(error, FileNotFoundError) and not os.path.isdir(cwd):
        return f"{program!r} cannot be started: the directory {cwd} is not there. Nothing was run."
    if isinstance(error, FileNotFoundError):
        return f"The program {program!r} was not found. Nothing was run."
    if error.errno == errno.E2BIG:
        longest = max(map(len, words), default=0)
        return f"{program!r} cannot be started: an argument is too long for the system ({longest:,} characters). Nothing was run."
    return f"{program!r} cannot be started ({error.strerror}). Nothing was run."


def _listen(
    process: subprocess.Popen[bytes],
    tails: tuple[Tail, Tail],
    timeout: float | None,
    on_output: Callable[[bytes], object] | None,
) -> bool:
    """Reads both outputs until the command has ended; returns whether it took too long."""
    deadline = None if timeout is None else time.monotonic() + timeout
    closing: float | None = None
    with selectors.DefaultSelector() as selector:
        for stream, tail in zip((process.stdout, process.stderr), tails, strict=True):
            selector.register(_piped(stream), selectors.EVENT_READ, tail)
        while selector.get_map():
            now = time.monotonic()
            if deadline is not None and now >= deadline:
                return True
            if process.poll() is not None:
                # A process that the command started still holds its output: read what is there, and do not wait for more.
                closing = closing or now + _DRAIN
                if now >= closing:
                    return False
            for key, _ in selector.select(_GLANCE):
                data = os.read(key.fd, _CHUNK)
                if not data:
                    selector.unregister(key.fileobj)
                    continue
                key.data.add(data)
                if on_output is not None:
                    on_output(data)
    try:
        process.wait(None if deadline is None else max(deadline - time.monotonic(), 0))
    except subprocess.TimeoutExpired:
        return True
    return False


def _piped(stream: IO[bytes] | None) -> IO[bytes]:
    if stream is None:
        raise AssertionError("both outputs are pipes")
    return stream


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """
    Ends the command and everything in its group, first politely.

    LIMIT: a process that left the command's session on purpose (a daemon) is not in the group and lives on.
    """
    try:
        if _signal(process, signal.SIGTERM):
            _await_silence(process)
    finally:
        # Also when the waiting ends in an exception.
        _signal(process, signal.SIGKILL)
        process.wait()


def _await_silence(process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + GRACE
    while time.monotonic() < until:
        process.poll()
        if not _signal(process, 0):
            return
        time.sleep(_GLANCE)


def _signal(process: subprocess.Popen[bytes], number: int) -> bool:
    """Sends a signal to the group; returns whether a process was there to receive it."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
        return True
    return False
