"""
Staging, looking at and putting in place many plain files in one call of the compiled part (`placing.c`).

It takes the steps that `restore/` takes for each of them, in the same order, and of each it says how far it came: its caller
goes on from there as if it had come so far itself. Directories are open ones, -1 for one that could not be opened, and
names are single names.
"""

from __future__ import annotations

import os
import struct

from mulligan.model.small import Sequence, suppress
from mulligan.model.typed import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from mulligan.safefs.compiled import Library

#: So many files make one call at most: who wants to stop the program waits for no more than these.
MOST = 128
# And so many calls may be under way, each with the directories of its files open once more.
_IN_FLIGHT = 6
# So many packs are held open for them.
_PACKS = 16
#: No file that is larger than this is compared here.
LARGEST = 1 << 18
#: What happens to a file: it changes places with what stands there, it comes where nothing stands, or it goes.
SWAP, PUT, REMOVE = range(3)
#: How far it came: nothing changed; what stood there has the temporary's name; that is gone; it is in place and was read back.
UNTOUCHED, MOVED, THROWN, PLACED = range(4)

#: What is known of a file: stat fields and id of what stands there, id and mode of what shall, and what happens.
ROW = struct.Struct("=40s20s20sIB3x")
pack = ROW.pack
#: Where the content of a new file comes from: offset, the end of what counts in its pack, size, id, and the pack, -1 for none.
_ORIGIN = struct.Struct("=QQQ20si")
#: The stat fields of nothing, and the id.
NOTHING, NO_OID = bytes(40), bytes(20)


class NewFile(NamedTuple):
    """A file to be staged: where, under which name, instead of which name there (None for none), and what it shall be."""

    directory: int
    temporary: bytes
    replaced: bytes | None
    perm: int
    content: bytes
    origin: bytes


def given(content: bytes) -> bytes:
    """Returns the origin of a content that is at hand."""
    return _ORIGIN.pack(0, 0, len(content), NO_OID, -1)


# A file to be put in place: its directory and name, those of its temporary, and what is known of it, packed.
Placing = tuple[int, bytes, int, bytes, bytes]


class Placer:
    """Works on many files at once."""

    def __init__(self, library: Library) -> None:
        self._calls = library.calls

    def lane(self) -> Lane:
        """Returns where files can be staged in the background."""
        return Lane(self._calls)

    def open(self, root: int, paths: Sequence[bytes]) -> list[int]:
        """Opens directories below an open one, each name by name and through no link; -1 for one that cannot be had."""
        import ctypes

        count = len(paths)
        found = (ctypes.c_int * count)()
        self._calls.mulligan_open(root, count, (ctypes.c_char_p * count)(*paths), found)
        return [*found]

    def unchanged(self, files: Sequence[Placing]) -> bytes:
        """Returns 1 for each file whose path is exactly as it was seen, 0 for any other."""
        import ctypes

        count = len(files)
        same = ctypes.create_string_buffer(count)
        where, names, _, _, rows = zip(*files, strict=True)
        given = (ctypes.c_int * count)(*where), (ctypes.c_char_p * count)(*names), b"".join(rows)
        self._calls.mulligan_unchanged(count, *given, same)
        return same.raw

    def run(self, files: Sequence[Placing], inodes: Sequence[int], trash: int, gone: Sequence[bytes]) -> Run:
        """
        Returns the work of putting files in place, the temporaries of which have these inodes.

        What they displace is moved to an open directory by the names `gone`; where that is -1, it is removed.
        """
        return Run(self._calls, files, inodes, trash, gone)


class Lane:
    """
    Files that are staged one after the other, beside whatever else is done.

    It has copies of the directories it is given, for as long as it needs them. Whoever drops it waits for it.
    """

    def __init__(self, calls: Any) -> None:
        self._calls = calls
        self._last: int | None = None
        # What the threads read and write, until they have ended.
        self._batches: list[tuple[int | None, Any, tuple[Any, ...]]] = []
        self._packs: dict[bytes, int] = {}

    def pack(self, name: bytes, fd: int) -> int:
        """Returns a copy of an open pack that stays open for as long as files are staged; -1 where there can be no more."""
        if name not in self._packs:
            self._packs[name] = -1
            with suppress(OSError):  # no descriptor left: its objects are read by Python
                if len(self._packs) <= _PACKS:
                    self._packs[name] = os.dup(fd)
        return self._packs[name]

    def origins(self, places: Sequence[tuple[int, int, bytes, int]]) -> list[tuple[bytes, int]]:
        """
        Returns the origin and size of objects by their offset, the end of what counts in their pack, their id and the pack.

        The origin of what is no whole blob of at most `LARGEST` bytes is empty. None is read, let alone compared with its id.
        """
        import ctypes

        count, pack = len(places), _ORIGIN.pack
        sizes = (ctypes.c_uint64 * count)()
        rows = b"".join([pack(offset, end, 0, oid, fd) for offset, end, oid, fd in places])
        self._calls.mulligan_sizes(count, rows, sizes)
        return [
            (pack(offset, end, size, oid, fd), size) if size <= LARGEST else (b"", 0)
            for (offset, end, oid, fd), size in zip(places, sizes, strict=True)
        ]

    def add(self, files: Sequence[NewFile]) -> None:
        """Begins to stage some files behind those that were added before; waits where many of those are still to be staged."""
        import ctypes

        count = len(files)
        texts = ctypes.c_char_p * count
        where, temporaries, replaced, perms, contents, origins = zip(*files, strict=True)
        inodes = (ctypes.c_uint64 * count)()
        given = (
            (ctypes.c_int * count)(*where), texts(*temporaries), texts(*replaced), (ctypes.c_uint32 * count)(*perms),
            texts(*contents), b"".join(origins), inodes,
        )  # fmt: skip
        if len(self._batches) >= _IN_FLIGHT:
            self._wait(self._batches[-_IN_FLIGHT][0])
        batch = self._calls.mulligan_stage(self._last, count, *given)
        self._batches.append((batch, inodes, given))
        self._last = batch or self._last

    def _wait(self, batch: int | None) -> None:
        if batch:
            self._calls.mulligan_stage_wait(batch)

    def end(self) -> list[int]:
        """Waits; returns the inode of each file, 0 for one that is left to the caller (and may be there in part)."""
        last, self._last = self._last, None
        if last:
            self._calls.mulligan_stage_end(last)
        while self._packs:
            fd = self._packs.popitem()[1]
            if fd >= 0:
                os.close(fd)
        batches, self._batches = self._batches, []
        return [inode for _, inodes, _ in batches for inode in inodes]

    def __del__(self) -> None:
        self.end()  # its threads read what is about to be freed


class Run:
    """Files that are put in place one after the other."""

    def __init__(
        self, calls: Any, files: Sequence[Placing], inodes: Sequence[int], trash: int, gone: Sequence[bytes]
    ) -> None:
        import ctypes

        count = len(files)
        texts, directories = ctypes.c_char_p * count, ctypes.c_int * count
        where, names, stages, temporaries, rows = zip(*files, strict=True)
        self._go = calls.mulligan_place
        self._count = count
        self._given = (
            directories(*where), texts(*names), directories(*stages), texts(*temporaries), b"".join(rows),
            (ctypes.c_uint64 * count)(*inodes), trash, texts(*gone),
        )  # fmt: skip
        self._reached = (ctypes.c_uint8 * count)()

    def go_on(self, start: int) -> tuple[int, int]:
        """
        Goes on with a file and those behind it; returns the first that is not in place, and how far that one came.

        Some behind it may be in place already: they were moved before it was read back.
        """
        at = self._go(start, self._count, *self._given, self._reached)
        return at, self._reached[at] if at < self._count else PLACED
