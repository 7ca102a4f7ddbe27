"""
The kernel's own notices of what happens in directories: inotify, by its three calls.

Raw on purpose: the libraries around it merge, delay and, worst of all, lose an overflow without a word. A notice is queued
before the call that caused it returns, so a reader of the queue up to its present end knows of everything that ended before.
"""

from __future__ import annotations

import array
import fcntl
import os
import re
import select
import struct
import termios
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from mulligan.safefs import syscalls
from mulligan.safefs.directory import Directory
from mulligan.safefs.platform import HERE
from mulligan.safefs.platform.portable import checked

MODIFY, ATTRIB, CLOSE_WRITE, OPEN = 0x2, 0x4, 0x8, 0x20
MOVED_FROM, MOVED_TO, CREATE, DELETE = 0x40, 0x80, 0x100, 0x200
DELETE_SELF, MOVE_SELF = 0x400, 0x800
UNMOUNT, OVERFLOW, IGNORED, ISDIR = 0x2000, 0x4000, 0x8000, 0x40000000
_ONLYDIR = 0x01000000

# A mapping that was written to ends with CLOSE_WRITE, which is why that is asked for beside MODIFY.
OF_DIRECTORIES = (
    MODIFY | ATTRIB | CLOSE_WRITE | MOVED_FROM | MOVED_TO | CREATE | DELETE | DELETE_SELF | MOVE_SELF | _ONLYDIR
)  # fmt: skip

_HEAD = struct.Struct("iIII")
_BUFFER = 1 << 18

# File systems whose every change passes this kernel. Network, FUSE and shared folders change behind its back, and the
# layers of an overlay may be changed beneath it.
_WATCHABLE = {
    0xEF53: "ext4",
    0x58465342: "xfs",
    0x9123683E: "btrfs",
    0x01021994: "tmpfs",
    0x858458F6: "ramfs",
    0xF2F52010: "f2fs",
    0x2FC12FC1: "zfs",
    0xCA451A4E: "bcachefs",
    0x3434: "nilfs2",
    0x52654973: "reiserfs",
    0x3153464A: "jfs",
}


class Notice(NamedTuple):
    """One thing that happened: the number of the watch, what, and to which name in it (empty: to itself)."""

    watch: int
    what: int
    name: bytes


class _Opened:
    """A descriptor, which a workspace that was dropped without `close` gives back all the same: there are few of them."""

    fd = -1

    def close(self) -> None:
        """Ends it, and what depends on it; again is harmless."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        with suppress(OSError):
            self.close()


class Inotify(_Opened):
    """One queue of notices."""

    def __init__(self) -> None:
        """Opens the queue; OSError where the system has none, or no more."""
        self.fd = checked(HERE.libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))

    def watch(self, fd: int, what: int = OF_DIRECTORIES) -> int:
        """Watches what an open descriptor stands for; returns the number of the watch, the same for the same inode."""
        return checked(HERE.libc.inotify_add_watch(self.fd, HERE.path_of(fd).encode(), what))

    def unwatch(self, watch: int) -> None:
        """Ends one watch; one that ended by itself is no mistake."""
        HERE.libc.inotify_rm_watch(self.fd, watch)

    def waiting(self) -> int:
        """Returns how many bytes of notices are in the queue."""
        size = array.array("i", [0])
        fcntl.ioctl(self.fd, termios.FIONREAD, size)
        return size[0]

    def read(self, wait: float) -> bytes:
        """Returns what is in the queue, waiting for something at most so many seconds; nothing when nothing came."""
        try:
            return os.read(self.fd, _BUFFER)
        except BlockingIOError:
            if not wait or not select.select([self.fd], [], [], wait)[0]:
                return b""
        try:
            return os.read(self.fd, _BUFFER)
        except BlockingIOError:
            return b""


def notices(data: bytes) -> Iterator[Notice]:
    """Yields what the bytes of a queue say, in the order in which it happened."""
    at, end, size, unpack, make = 0, len(data), _HEAD.size, _HEAD.unpack_from, tuple.__new__
    while at + size <= end:
        watch, what, _, length = unpack(data, at)
        at += size
        name = data[at : at + length]
        at += length
        yield make(Notice, (watch, what, name.rstrip(b"\0")))


def unwatchable(directory: Directory) -> str:
    """Returns why changes in a directory's file system may pass unnoticed, empty when they do not."""
    if not HERE.can.watch:
        return "this system has no notices of changes that mulligan can use"
    kind = syscalls.calls.kind_of_disk(directory.fd) & 0xFFFFFFFF
    if kind in _WATCHABLE:
        return ""
    return f"changes on this kind of file system ({kind:#x}) are not all announced"


class Mounts(_Opened):
    """Tells when something was mounted or unmounted in a directory; the kernel announces that here and nowhere else."""

    def __init__(self, directory: str) -> None:
        self._inside = os.fsencode(directory).rstrip(b"/") + b"/"
        self.fd = os.open(f"{HERE.proc}/self/mountinfo", os.O_RDONLY | os.O_CLOEXEC)
        self._poll = select.poll()
        self._poll.register(self.fd, select.POLLPRI)
        self._poll.poll(0)
        self._known = self._list()

    def changed(self) -> bool:
        """Returns whether there was a change since it was asked last."""
        if not self._poll.poll(0):
            return False
        before, self._known = self._known, self._list()
        return before != self._known

    def _list(self) -> list[bytes]:
        os.lseek(self.fd, 0, os.SEEK_SET)
        parts = []
        while part := os.read(self.fd, 1 << 16):
            parts.append(part)
        rows = [line.split(b" ") for line in b"".join(parts).splitlines()]
        inside = self._inside
        return [b" ".join(row[:6]) for row in rows if len(row) > 5 and (_plain(row[4]) + b"/").startswith(inside)]


def _plain(escaped: bytes) -> bytes:
    """Returns a path of mountinfo without its octal escapes."""
    return re.sub(rb"\\([0-7]{3})", lambda found: bytes([int(found[1], 8)]), escaped)
