"""
Reading one file so that what is stored is a state the file really had.

A file is read between two looks at its stat fields; if they differ, it is read again, and after a few rounds given up as
`moving`. That they are the same proves something only if every write since the first look would have changed them: the file
must not have changed in the present tick of the kernel's clock, and no write that began before may still be under way
(`safefs.clock`). Never follows a link, never waits on a FIFO, never fails on a file that vanishes: it is not there, then.

LIMIT: a live writable mmap changes bytes without touching the stat fields until they are written back.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import sha1
from typing import Protocol

from mulligan.model.checkpoint import MOVING, SECRET, UNREADABLE
from mulligan.model.objects import BLOB, object_id
from mulligan.safefs import syscalls
from mulligan.safefs.clock import SECOND, let_writes_end, pass_coarse_tick, pass_time, stamping_clock, tick_began
from mulligan.safefs.directory import CHUNK, READ_FLAGS, Directory, NotRegular, read_all
from mulligan.scan.record import Stat
from mulligan.scan.scope import IGNORE_FILE
from mulligan.scan.secrets import secret_content

STREAM_FROM = 8 << 20
_ROUNDS = 4
_HEAD = 4096
# A write of 2 GiB, the most that one call does, may take minutes on a slow disk; the file has been stamped at its beginning.
_LONGEST_WRITE = 600_000_000_000
_MOST_LOOKS = 25
# Where a tick is a second long, a scan waits for as long as this in all; what changes in each of them is moving.
_PATIENCE = 4 * SECOND
# Not a property of the file but of this process: no finding, an error.
FATAL = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})
# Opening something fails so when it was removed, or swapped for something else.
GONE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})
IGNORES_LIMIT = 4 << 20
Progress = Callable[[int], None]


class Sink(Protocol):
    """Where the bytes of captured files go; `hash_only` where it wants ids alone."""

    hash_only: bool

    def add_hashed(self, oid: bytes, kind: bytes, data: bytes) -> None:
        """Takes an object whose id is known."""

    def add_stream(self, size: int, chunks: Iterable[bytes]) -> bytes:
        """Takes a large blob piece by piece and returns its id; ValueError if the pieces do not add up."""

    def add_run(self, data: bytes, rows: Sequence[tuple[bytes, int, int]]) -> None:
        """Takes finished records that stand one behind the other: id, CRC-32 and place of each."""

    def add_delta(self, oid: bytes, base: bytes, size: int, deflated: bytes, /) -> bool:
        """Takes an object as a deflated delta of `size` bytes of another; False where that does not stand in the same pack."""


class HashOnly:
    """A sink for looking without saving."""

    hash_only = True

    def add_hashed(self, oid: bytes, kind: bytes, data: bytes) -> None:
        """Forgets the bytes."""

    def add_stream(self, size: int, chunks: Iterable[bytes]) -> bytes:
        """Returns the id alone."""
        digest, seen = sha1(b"blob %d\0" % size, usedforsecurity=False), 0
        for chunk in chunks:
            digest.update(chunk)
            seen += len(chunk)
        if seen != size:
            raise ValueError("the file changed while it was read")
        return digest.digest()

    def add_run(self, data: bytes, rows: Sequence[tuple[bytes, int, int]]) -> None:
        """Forgets the records."""

    def add_delta(self, *_: object) -> bool:
        """Takes nothing."""
        return False


class Unreadable(Exception):
    """A file that should be captured and cannot be: reason and detail."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.detail = detail


def fields(st: os.stat_result) -> Stat:
    """Returns the stat fields that matter."""
    return Stat(st.st_ino, st.st_mode, st.st_size, st.st_mtime_ns, st.st_ctime_ns)


def names_in(directory: Directory) -> list[bytes]:
    """Returns the names in a directory, sorted; Unreadable with the reason."""
    try:
        return sorted(directory.names())
    except OSError as error:
        if error.errno in FATAL:
            raise
        raise Unreadable(UNREADABLE, os.strerror(error.errno or 0)) from None


def ignores_in(directory: Directory) -> tuple[bytes, str]:
    """Returns the ignore rules that stand in a directory, and why they could not be read if that is so."""
    try:
        return directory.read(IGNORE_FILE, limit=IGNORES_LIMIT), ""
    except OSError as error:
        if error.errno in FATAL:
            raise
        if not isinstance(error, NotRegular) and error.errno not in GONE:
            return b"", os.strerror(error.errno or 0)
        return b"", ""  # a link, a directory or unreadable: git does not read it either


def capture(
    directory: Directory, name: bytes, st: os.stat_result, sink: Sink, *, check_secrets: bool, since: int = 0
) -> tuple[bytes, Stat]:
    """
    Returns the id and stat fields of a file or link; FileNotFoundError if it is gone, Unreadable with the reason.

    The clock of stamps stood at `since` at some moment before `st` was looked at.
    """
    for _ in range(_ROUNDS):
        if stat.S_ISREG(st.st_mode) and st.st_ctime_ns >= tick_began(since, st.st_ctime_ns, directory.fd):
            st = _past_its_tick(directory, name, since)
        if stat.S_ISLNK(st.st_mode):
            found = _link(directory, name, st, sink)
        elif stat.S_ISREG(st.st_mode):
            read, fresh = _small if st.st_size <= STREAM_FROM else _large, st.st_ctime_ns >= since - _LONGEST_WRITE
            found = read(directory, name, st, sink, check_secrets=check_secrets, fresh=fresh)
        else:
            break
        if found is not None:
            return found, fields(st)
        st = directory.stat(name)
    raise Unreadable(MOVING, "it changed each time it was read")


def _past_its_tick(directory: Directory, name: bytes, since: int) -> os.stat_result:
    """Returns a look at a file such that every later write shows; waits for the end of the tick that it changed in."""
    latest = (since or stamping_clock()) + _PATIENCE
    for _ in range(_MOST_LOOKS):
        before = stamping_clock()
        st = directory.stat(name)
        began = tick_began(before, st.st_ctime_ns, directory.fd)
        # A stamp beyond the clock is finer than a tick, or of a future that a write would take back: no write repeats it.
        if st.st_ctime_ns < began or st.st_ctime_ns > stamping_clock():
            return st
        if began == before:
            pass_time()
        elif before < latest:
            pass_coarse_tick(directory.fd)
        else:
            break
    raise Unreadable(MOVING, "it changed in every tick of the system's clock")


def _open(directory: Directory, name: bytes) -> int | None:
    try:
        return syscalls.calls.open(name, READ_FLAGS, dir_fd=directory.fd)
    except FileNotFoundError:
        raise
    except OSError as error:
        if error.errno in FATAL:
            raise
        if error.errno in (errno.ELOOP, errno.ENXIO, errno.ENOTDIR):
            return None  # swapped for a link or a socket meanwhile: look again
        raise Unreadable(UNREADABLE, os.strerror(error.errno or 0)) from None


def _small(
    directory: Directory, name: bytes, st: os.stat_result, sink: Sink, *, check_secrets: bool, fresh: bool
) -> bytes | None:
    fd = _open(directory, name)
    if fd is None:
        return None
    try:
        if fresh:
            let_writes_end(fd)
        data = syscalls.calls.read(fd, st.st_size + 1)
        if len(data) < st.st_size:  # a network file system may answer in pieces
            data += read_all(fd, st.st_size + 1 - len(data))
        after = os.fstat(fd)
    except OSError as error:
        if error.errno in FATAL:
            raise
        raise Unreadable(UNREADABLE, os.strerror(error.errno or 0)) from None
    finally:
        syscalls.calls.close(fd)
    if len(data) != st.st_size or not _same(st, after):
        return None
    if check_secrets and (secret := secret_content(data[:_HEAD])):
        raise Unreadable(SECRET, secret)
    oid = object_id(BLOB, data)
    sink.add_hashed(oid, BLOB, data)
    return oid


def _large(
    directory: Directory, name: bytes, st: os.stat_result, sink: Sink, *, check_secrets: bool, fresh: bool
) -> bytes | None:
    fd = _open(directory, name)
    if fd is None:
        return None
    try:
        if fresh:
            let_writes_end(fd)
        if check_secrets and (secret := secret_content(_head(fd))):
            raise Unreadable(SECRET, secret)
        oid = sink.add_stream(st.st_size, _chunks(fd, st.st_size))
        return oid if _same(st, os.fstat(fd)) else None
    except ValueError:
        return None  # grew or shrank while it was read
    finally:
        syscalls.calls.close(fd)


def _head(fd: int) -> bytes:
    try:
        return os.pread(fd, _HEAD, 0)
    except OSError as error:
        raise Unreadable(UNREADABLE, os.strerror(error.errno or 0)) from None


def _chunks(fd: int, size: int) -> Iterator[bytes]:
    # One byte more than expected is asked for, so that growth is noticed.
    left = size + 1
    while left > 0:
        try:
            chunk = syscalls.calls.read(fd, min(CHUNK, left))
        except OSError as error:
            if error.errno in FATAL:
                raise
            raise Unreadable(UNREADABLE, os.strerror(error.errno or 0)) from None
        if not chunk:
            return
        left -= len(chunk)
        yield chunk


def _link(directory: Directory, name: bytes, st: os.stat_result, sink: Sink) -> bytes | None:
    try:
        target = directory.readlink(name)
    except FileNotFoundError:
        raise
    except OSError:
        return None  # no link any more: look again
    if not _same(st, directory.stat(name)):
        return None
    oid = object_id(BLOB, target)
    sink.add_hashed(oid, BLOB, target)
    return oid


def _same(before: os.stat_result, after: os.stat_result) -> bool:
    # Spelled out, and the likeliest difference first: this is asked for every file that is read.
    return (
        before.st_ctime_ns == after.st_ctime_ns
        and before.st_mtime_ns == after.st_mtime_ns
        and before.st_size == after.st_size
        and before.st_ino == after.st_ino
        and before.st_mode == after.st_mode
    )
