"""
Reading many files with the compiled part: for each its object id and its finished record of a pack.

What is read here was looked at, read and looked at again as `scan/reading.py` does it. What the compiled part leaves alone,
for whatever reason, is not in an answer, and its caller reads it the usual way. Memory is bounded: what there is no room for
is left alone as well.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mulligan.safefs.compiled import Library

# state, CRC-32, where the record lies, its length, object id, stat fields
_ROW = struct.Struct("<IIQI20s40s")
_DONE, _ABSENT, _PACKED = 1, 3, 4
# So many directories are one task, as `READ_TASK` in reading.c says.
_READ_TASK = 8
# Before a name that is not to be read: only whether it is there is asked.
_LOOK = b"/"
_STAT = 40
_HASH_ONLY, _LATER = 1, 4
# So many files, of so many bytes in all, are read in one go.
MOST_FILES = 1024
LARGEST = 1 << 18
_ROOM = 8 << 20
# For the files and, behind each, its record.
_ROOM_AHEAD = 96 << 20


# A file that was read: its id, its record (empty where only ids were wanted), the CRC-32 of that, and its stat fields.
Taken = tuple[bytes, bytes, int, bytes]
# Names in a directory that are to be read, and names that are only to be looked for.
Wanted = tuple[Sequence[bytes], Sequence[bytes]]


def _memory(size: int) -> tuple[Any, memoryview]:
    """Returns room for C to write to, as an address that keeps it and as bytes; what is never used takes no memory."""
    import ctypes
    from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap

    room = mmap(-1, size, flags=MAP_PRIVATE | MAP_ANONYMOUS)  # a twin must not write into its maker's
    return ctypes.byref(ctypes.c_char.from_buffer(room)), memoryview(room)


class Reader:
    """Reads files of open directories, one directory at a time."""

    def __init__(self, library: Library, *, hash_only: bool) -> None:
        self._calls, self._reader = library.calls, None
        self._flags = _HASH_ONLY if hash_only else 0
        self._rows, self._seen = _memory(_ROW.size * MOST_FILES)
        self._records, self._made = _memory(1 if hash_only else _ROOM)
        self._reader = self._calls.mulligan_reader(self._flags)

    def read(self, directory: int, names: Sequence[bytes], stats: Sequence[bytes], since: int) -> list[Taken | None]:
        """Reads files with these stat fields, at most `MOST_FILES`; None for each that was left alone."""
        if not self._reader:
            return [None] * len(names)
        self._calls.mulligan_read(
            self._reader, directory, len(names), b"\0".join(names), b"".join(stats), self._rows, self._records,
            len(self._made), since, self._flags,
        )  # fmt: skip
        made = self._made
        return [
            (oid, made[at : at + length].tobytes(), crc, stat) if state == _DONE else None
            for state, crc, at, length, oid, stat in _ROW.iter_unpack(self._seen[: len(names) * _ROW.size])
        ]

    def __del__(self) -> None:
        if self._reader:
            self._calls.mulligan_reader_end(self._reader)


class Ahead:
    """Files in many directories that are being read, in the background, before anybody asks for them."""

    def __init__(
        self, library: Library, root: int, wanted: Mapping[bytes, Wanted], since: int, *, hash_only: bool
    ) -> None:
        """Begins to read names in directories below a root; `wanted` names them in the order in which they will be asked for."""
        import ctypes

        self._calls = library.calls
        self._job: int | None = None
        self._waited = -1
        self._number = {path: at for at, path in enumerate(wanted)}
        self._names = [[*read, *[_LOOK + name for name in look]] for read, look in wanted.values()]
        first, count = [0], 0
        for names in self._names:
            count += len(names)
            first.append(count)
        self._first = first
        # These hold on to what the threads use, until `close` has waited for them.
        self._paths = (ctypes.c_char_p * len(wanted))(*wanted)
        self._joined = (ctypes.c_char_p * len(wanted))(*map(b"\0".join, self._names))
        self._firsts = (ctypes.c_uint32 * len(first))(*first)
        self._rows, self._seen = _memory(max(_ROW.size * count, 1))
        self._own, self._directories = _memory(_STAT * len(wanted))
        self._flags = _HASH_ONLY if hash_only else _LATER
        self._records, self._made = _memory(1 if hash_only else min(_ROOM_AHEAD, 3 * LARGEST * count))
        spare = min(len(os.sched_getaffinity(0)) - 1, 1)
        self._job = self._calls.mulligan_ahead(
            root, len(wanted), self._paths, self._joined, self._firsts, self._rows, self._own, self._records,
            len(self._made), since, self._flags, spare,
        )  # fmt: skip

    def own(self, path: bytes) -> bytes:
        """Waits for one directory and returns its own stat fields, as it was before its files were read; empty if unknown."""
        number = self._number.get(path, -1)
        if number < 0 or not self._job:
            return b""
        self._wait(number)
        return self._directories[number * _STAT : (number + 1) * _STAT].tobytes()

    def take(self, path: bytes) -> tuple[dict[bytes, Taken], set[bytes]]:
        """
        Waits for the files of one directory; returns those that were read, and the names that are not there, once.

        Their records are not there yet: see `finished`. Instead of a CRC-32 each has the number of its row.
        """
        number = self._number.pop(path, -1)
        if number < 0 or not self._job:
            return {}, set()
        self._wait(number)
        start, end = self._first[number], self._first[number + 1]
        rows = _ROW.iter_unpack(self._seen[start * _ROW.size : end * _ROW.size])
        found, absent = dict[bytes, Taken](), set[bytes]()
        for row, name, (state, _, _, _, oid, stat) in zip(range(start, end), self._names[number], rows, strict=True):
            if state in (_DONE, _PACKED):
                found[name] = (oid, b"", row, stat)
            elif state == _ABSENT:
                absent.add(name[1:])
        return found, absent

    def finished(self, taken: Iterable[Taken]) -> Iterable[Taken]:
        """Waits for the records of files that were taken, and returns these with them."""
        if self._flags & _HASH_ONLY:
            return taken
        if not self._job or not self._calls.mulligan_ahead_packed(self._job):
            raise MemoryError
        size, unpack, seen, made = _ROW.size, _ROW.unpack_from, self._seen, self._made
        found = []
        for _, _, row, _ in taken:
            _, crc, at, length, oid, stat = unpack(seen, row * size)
            found.append((oid, made[at : at + length].tobytes(), crc, stat))
        return found

    def _wait(self, number: int) -> None:
        # Directories are read some at a time: whoever waited for one of them need not ask for its neighbours.
        if number // _READ_TASK != self._waited:
            self._calls.mulligan_ahead_wait(self._job, number)
            self._waited = number // _READ_TASK

    def close(self) -> None:
        """Ends it; again is harmless."""
        job, self._job = self._job, None
        if job:
            self._calls.mulligan_ahead_end(job)

    def __del__(self) -> None:
        self.close()
