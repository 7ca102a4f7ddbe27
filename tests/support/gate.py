"""
A gate that a process must pass before every system call that changes something on a disk.

`passed` runs a function in a fork of this process and returns the calls that came to the gate, in order, those of its own
children included; given a number, the caller of that call is killed with SIGKILL before the call happens. So "kill it at
every call" is one loop, without starting an interpreter or a tracer for each kill. It is the kernel that stops the calls
(a seccomp filter with a listener), so nothing passes by, whoever made it: Python, SQLite, or a library.
Needs Linux 5.5 and a machine type in `NUMBERS`; nothing here imports the package.
"""

from __future__ import annotations

import ctypes
import fcntl
import functools
import os
import platform
import select
import signal
import socket
import struct
import time
import traceback
from collections.abc import Callable, Iterator
from typing import NamedTuple

# Calls whose second argument decides: writing opens, and locks (what SQLite shares by memory changes between those).
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
LOCKING = (fcntl.F_SETLK, fcntl.F_SETLKW, 37, 38)
OPENS = {"open": 1, "openat": 2}
_X86 = """
    write 1 open 2 pwrite64 18 writev 20 sendfile 40 fcntl 72 flock 73 fsync 74 fdatasync 75 truncate 76 ftruncate 77
    rename 82 mkdir 83 rmdir 84 creat 85 link 86 unlink 87 symlink 88 chmod 90 fchmod 91 chown 92 fchown 93 lchown 94
    utime 132 mknod 133 sync 162 setxattr 188 lsetxattr 189 fsetxattr 190 removexattr 197 lremovexattr 198
    fremovexattr 199 utimes 235 openat 257 mkdirat 258 mknodat 259 fchownat 260 futimesat 261 unlinkat 263 renameat 264
    linkat 265 symlinkat 266 fchmodat 268 splice 275 sync_file_range 277 utimensat 280 fallocate 285 pwritev 296
    syncfs 306 renameat2 316 copy_file_range 326 pwritev2 328 openat2 437 fchmodat2 452
"""
_ARM = """
    setxattr 5 lsetxattr 6 fsetxattr 7 removexattr 14 lremovexattr 15 fremovexattr 16 fcntl 25 flock 32 mknodat 33
    mkdirat 34 unlinkat 35 symlinkat 36 linkat 37 renameat 38 truncate 45 ftruncate 46 fallocate 47 fchmod 52 fchmodat 53
    fchownat 54 fchown 55 openat 56 write 64 writev 66 pwrite64 68 pwritev 70 sendfile 71 splice 76 sync 81 fsync 82
    fdatasync 83 sync_file_range 84 utimensat 88 syncfs 267 renameat2 276 copy_file_range 285 pwritev2 287 openat2 437
    fchmodat2 452
"""


def _table(text: str) -> dict[str, int]:
    words = text.split()
    return dict(zip(words[::2], map(int, words[1::2]), strict=True))


#: By machine type: what the kernel calls the architecture, the number of seccomp itself, and the calls that change something.
NUMBERS = {"x86_64": (0xC000003E, 317, _table(_X86)), "aarch64": (0xC00000B7, 277, _table(_ARM))}
_ALLOW, _NOTIFY = 0x7FFF0000, 0x7FC00000
_LOAD, _IF_EQUAL, _IF_BITS, _RETURN = 0x20, 0x15, 0x45, 0x06
_RECEIVE, _SEND = 0xC0502100, 0xC0182101
_GO_ON = 1
_PATIENCE_MS = 60_000


class Point(NamedTuple):
    """Where to kill: at which call, from 1 on, and of which kind it is."""

    call: str
    number: int


class Passage(NamedTuple):
    """What became of a process: the calls that came to the gate, who was killed, and how the process ended."""

    calls: list[str]
    killed: bool
    code: int
    seconds: float

    @property
    def died(self) -> bool:
        """Whether the process itself was killed, and not only a child of it."""
        return self.code == -signal.SIGKILL


def passed(act: Callable[[], object], *, die_at: int = 0) -> Passage:
    """Runs a function in a fork, behind the gate; `die_at` is the number, from 1, of the call whose caller is killed."""
    here, there = socket.socketpair()
    began = time.perf_counter()
    pid = os.fork()
    if not pid:
        here.close()
        _live(act, there)
    there.close()
    try:
        _, (listener,), *_ = socket.recv_fds(here, 1, 1)
    except ValueError:
        raise OSError("the gate could not be closed behind the process") from None
    finally:
        here.close()
    try:
        calls, killed = _watch(listener, die_at)
    except BaseException:
        os.kill(pid, signal.SIGKILL)
        raise
    finally:
        os.close(listener)
        _, status = os.waitpid(pid, 0)
    return Passage(calls, killed, os.waitstatus_to_exitcode(status), time.perf_counter() - began)


def _live(act: Callable[[], object], there: socket.socket) -> None:
    """The life of the fork: 0 when it came through, 1 with the reason on standard error when it did not."""
    code = 1
    try:
        listener = _install()
        socket.send_fds(there, [b"x"], [listener])
        os.close(listener)
        there.close()
        act()
        code = 0
    except BaseException:  # noqa: BLE001 - whatever it was, it is told and the fork ends here
        traceback.print_exc()
    finally:
        os._exit(code)


def _watch(listener: int, die_at: int) -> tuple[list[str], bool]:
    """Lets every call pass, or kills the caller of one of them, until nobody is behind the gate any more."""
    names = {number: name for name, number in NUMBERS[platform.machine()][2].items()}
    waiting = select.poll()
    waiting.register(listener, select.POLLIN)
    calls: list[str] = []
    killed = False
    while True:
        ready = waiting.poll(_PATIENCE_MS)
        if not ready:
            raise TimeoutError(f"no call for {_PATIENCE_MS / 1000} s after {calls[-3:]}")
        if not ready[0][1] & select.POLLIN:
            return calls, killed
        request = bytearray(80)
        try:
            fcntl.ioctl(listener, _RECEIVE, request)
            number, pid, _flags, call = struct.unpack_from("QIIi", request)
            calls.append(names[call])
            if len(calls) == die_at:
                os.kill(pid, signal.SIGKILL)
                killed = True
                continue
            fcntl.ioctl(listener, _SEND, bytearray(struct.pack("QqiI", number, 0, 0, _GO_ON)))
        except (FileNotFoundError, ProcessLookupError):
            continue  # the caller died while it waited


def _install() -> int:
    """Closes the gate behind this process and returns the descriptor at which it is watched."""
    _, seccomp, _ = NUMBERS[platform.machine()]
    steps = list(_program())
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    filter_ = struct.pack("HxxxxxxQ", len(steps), ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    no_new_privileges, set_filter, with_listener = 38, 1, 8
    if libc.prctl(no_new_privileges, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")
    listener = int(libc.syscall(seccomp, set_filter, with_listener, filter_))
    if listener < 0:
        raise OSError(ctypes.get_errno(), "seccomp")
    return listener


def _program() -> Iterator[tuple[int, int, int, int]]:
    """The filter, one small block for each call: anything else is allowed."""
    architecture, _, numbers = NUMBERS[platform.machine()]
    yield _LOAD, 0, 0, 4
    yield _IF_EQUAL, 1, 0, architecture
    yield _RETURN, 0, 0, _ALLOW
    yield _LOAD, 0, 0, 0
    for name, number in numbers.items():
        if name in OPENS:
            yield _IF_EQUAL, 0, 4, number
            yield _LOAD, 0, 0, 16 + 8 * OPENS[name]
            yield _IF_BITS, 1, 0, WRITING
            yield _RETURN, 0, 0, _ALLOW
        elif name == "fcntl":
            yield _IF_EQUAL, 0, 7, number
            yield _LOAD, 0, 0, 24
            for left, command in zip((4, 3, 2, 1), LOCKING, strict=True):
                yield _IF_EQUAL, left, 0, command
            yield _RETURN, 0, 0, _ALLOW
        else:
            yield _IF_EQUAL, 0, 1, number
        yield _RETURN, 0, 0, _NOTIFY
    yield _RETURN, 0, 0, _ALLOW


@functools.cache
def gate_works() -> bool:
    """Whether this machine has such gates, and lets this process use one."""
    if platform.machine() not in NUMBERS:
        return False
    try:
        seen = passed(lambda: os.fsync(os.open("/", os.O_RDONLY)), die_at=1)
    except OSError:
        return False
    return seen.died and seen.calls == ["fsync"]


NO_GATE = "no seccomp listener here: kills cannot be placed at system calls"
