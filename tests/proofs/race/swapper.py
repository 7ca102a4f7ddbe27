"""
Attackers that exchange names as fast as the kernel lets them, and a watch over what lies outside.

Each attacker is a process of its own that calls renameat2 in a loop and does nothing else. The watch (inotify) sees every
opening, reading, writing, creating and removing of the sentinels, so an escape is noticed even if it leaves no trace.
"""

from __future__ import annotations

import ctypes
import os
import signal
import struct
import sys
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path

LIBC = ctypes.CDLL(None, use_errno=True)
EXCHANGE = 2
_HERE = -100
_DIE_WITH_PARENT = 1
_OPEN, _ISDIR = 0x20, 0x40000000
_MOVES = 0x40 | 0x80
_ALL = 0xFFF
NAMES = {0x1: "read", 0x2: "written", 0x4: "attributes changed", 0x8: "closed after writing", 0x10: "closed", 0x20: "opened",
         0x40: "moved away", 0x80: "moved in", 0x100: "created", 0x200: "deleted", 0x400: "itself deleted", 0x800: "itself moved"}  # fmt: skip

#: Two names, and whether they are exchanged or the one is moved to the other and back.
Pair = tuple[bytes, bytes, int]


def can_exchange(place: Path) -> bool:
    """Whether the kernel and this file system exchange names."""
    one, other = place / "one", place / "other"
    one.write_bytes(b"1")
    other.write_bytes(b"2")
    try:
        return hasattr(LIBC, "renameat2") and not swap((os.fsencode(one), os.fsencode(other), EXCHANGE))
    finally:
        one.unlink()
        other.unlink()


def swap(pair: Pair) -> int:
    """Exchanges, or moves, once."""
    return int(LIBC.renameat2(_HERE, pair[0], _HERE, pair[1], pair[2]))


class Attackers:
    """One process for each group of pairs, from entering to leaving; afterwards every name is where it was."""

    def __init__(self, groups: Iterable[list[Pair]]) -> None:
        self._groups = list(groups)
        self._pids: list[int] = []
        self._home = {pair[0]: os.lstat(pair[0]).st_ino for group in self._groups for pair in group}

    def __enter__(self) -> Attackers:
        self._pids = [forked(lambda pairs=pairs: _attack(pairs)) for pairs in self._groups]
        return self

    def __exit__(self, *_: object) -> None:
        for pid in self._pids:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        for group in self._groups:
            for pair in group:
                self._settle(pair)

    def _settle(self, pair: Pair) -> None:
        try:
            at_home = os.lstat(pair[0]).st_ino == self._home[pair[0]]
        except FileNotFoundError:
            at_home = False
        if not at_home:
            swap(pair if pair[2] else (pair[1], pair[0], 0))


def _attack(pairs: list[Pair]) -> None:
    call = LIBC.renameat2
    while True:
        for one, other, flags in pairs:
            call(_HERE, one, _HERE, other, flags)
            call(_HERE, other, _HERE, one, flags)


def forked(act: Callable[[], object]) -> int:
    """Runs a function in a process of its own and returns its id; it ends with the function, or with the process that made it."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    LIBC.prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    try:
        act()
        code = 0
    except BaseException:  # noqa: BLE001 - the process ends here, and must say why
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(code)


class Watch:
    """Everything that happens to the sentinels below some directories."""

    def __init__(self, *tops: Path, moves: bool = True) -> None:
        self._fd = LIBC.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        self._places: dict[int, str] = {}
        for path in [path for top in tops for path in (top, *(top.rglob("*") if moves else top.iterdir()))]:
            self._add(path, moves=moves)
        self.events()

    def _add(self, path: Path, *, moves: bool) -> None:
        number = LIBC.inotify_add_watch(self._fd, os.fsencode(path), _ALL if moves else _ALL & ~_MOVES)
        if number < 0:
            raise OSError(ctypes.get_errno(), "inotify_add_watch")
        self._places[number] = path.name

    def events(self) -> list[str]:
        """What happened since the last time, as words; empty when nothing did."""
        found: list[str] = []
        while True:
            try:
                data = os.read(self._fd, 1 << 16)
            except BlockingIOError:
                return found
            at = 0
            while at < len(data):
                place, mask, _, size = struct.unpack_from("iIII", data, at)
                name = data[at + 16 : at + 16 + size].rstrip(b"\0").decode(errors="replace")
                told = " and ".join(word for bit, word in NAMES.items() if mask & bit) or hex(mask)
                found.append(f"{self._places.get(place, '?')}/{name} {told}")
                at += 16 + size

    def close(self) -> None:
        """Ends the watch."""
        os.close(self._fd)
