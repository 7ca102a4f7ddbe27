"""
A second process of our own, for work that Python's threads cannot share.

A twin is a fork of this process that takes tasks from the same list and sends one answer back. It starts no program. It is
made only where forking is safe: when this process has a single thread, native ones included, and a processor to spare.
The twin lets go of every lock at once, so locks still die with the process that took them; whatever goes wrong in it
shows as no answer, and the caller does that part of the work itself.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress

from mulligan.safefs import syscalls
from mulligan.safefs.directory import read_all, write_all

# Task numbers wait in a pipe, which holds 64 KiB before a writer has to wait.
MOST_TASKS = 8192
_NUMBER = 4
_CHUNK = 1 << 20
_WHOLE = b"\1"


def can_twin() -> bool:
    """Returns whether forking is safe here and worth it."""
    try:
        alone = len(os.listdir("/proc/self/task")) == 1
    except OSError:
        return False
    return alone and len(os.sched_getaffinity(0)) > 1


class Twin:
    """One fork and the list of tasks it shares with its maker; use it with `with`."""

    def __init__(self, count: int, work: Callable[[Iterator[int]], bytes]) -> None:
        self._tasks, full = os.pipe()
        try:
            write_all(full, b"".join(number.to_bytes(_NUMBER, "little") for number in range(min(count, MOST_TASKS))))
            self._answer, answer = os.pipe()
        except OSError:
            os.close(self._tasks)
            raise
        finally:
            os.close(full)
        self._has_answered = False
        maker = os.getpid()
        try:
            self.pid = os.fork()
        except OSError:
            self.pid = 0  # none to be had: the maker does it all, as after one that failed
            os.close(answer)
            return
        if not self.pid:
            self._live(work, answer, maker)
        os.close(answer)

    def __enter__(self) -> Twin:
        return self

    def __exit__(self, *_: object) -> None:
        if self.pid and not self._has_answered:
            with suppress(ProcessLookupError):
                from _signal import SIGKILL  # type: ignore[import-not-found]  # `signal` itself loads `enum`

                os.kill(self.pid, SIGKILL)
        if self.pid:
            self._wait()
        os.close(self._tasks)
        os.close(self._answer)

    def tasks(self) -> Iterator[int]:
        """Yields the numbers of tasks that nobody has taken yet."""
        while number := os.read(self._tasks, _NUMBER):
            yield int.from_bytes(number, "little")

    def answer(self) -> bytes | None:
        """Waits for what the twin has to say and returns it; None when it failed. `with` waits for its end."""
        parts = []
        while part := os.read(self._answer, _CHUNK):
            parts.append(part)
        whole = b"".join(parts)
        self._has_answered = whole.endswith(_WHOLE)
        return whole[:-1] if self._has_answered else None

    def _wait(self) -> None:
        # A program around us may collect every child of its own accord.
        with suppress(ChildProcessError):
            os.waitpid(self.pid, 0)
        self.pid = 0

    def _live(self, work: Callable[[Iterator[int]], bytes], answer: int, maker: int) -> None:
        """The life of the twin: it ends here, without the clean-up that belongs to its maker."""
        code = 1
        try:
            # Not loaded means that nothing is held: a command makes its first twin before it loads much.
            if (lock := sys.modules.get("mulligan.safefs.lock")) is not None:
                lock.let_go()
            syscalls.calls.close(self._answer)
            write_all(answer, work(self._while_needed(maker)) + _WHOLE)
            syscalls.calls.close(answer)  # the maker goes on, while the system takes this process apart
            code = 0
        except BaseException:  # noqa: BLE001, S110 - no answer says it; the maker meets the same trouble and tells
            pass
        finally:
            os._exit(code)

    def _while_needed(self, maker: int) -> Iterator[int]:
        for number in self.tasks():
            if os.getppid() != maker:
                return
            yield number


class Listener(Twin):
    """
    A twin with one task, that is told something once, when its maker knows it; until then it does what it can do without.

    `work` gets who waits for that and returns it, and who says whether the maker is still there.
    """

    def __init__(self, work: Callable[[Callable[[], bytes], Callable[[], bool]], bytes]) -> None:
        self._ear, self._mouth = os.pipe()
        try:
            super().__init__(0, lambda _: self._listen(work))
        except OSError:
            os.close(self._mouth)
            raise
        finally:
            os.close(self._ear)

    def __exit__(self, *words: object) -> None:
        if self._mouth >= 0:
            os.close(self._mouth)
        super().__exit__(*words)

    def tell(self, data: bytes) -> None:
        """Tells it; one that is no more does not hear it, and has no answer."""
        mouth, self._mouth = self._mouth, -1
        try:
            with suppress(BrokenPipeError):
                write_all(mouth, data)
        finally:
            os.close(mouth)

    def _listen(self, work: Callable[[Callable[[], bytes], Callable[[], bool]], bytes]) -> bytes:
        maker = os.getppid()
        syscalls.calls.close(self._mouth)  # or it would wait for words of its own
        return work(lambda: read_all(self._ear), lambda: os.getppid() == maker)
