"""
One pack of the user's repository.

Everything in it is a claim: what is inflated is bounded, chains of deltas are bounded in length and in bytes, and a meter ends
reading that gets too much.
LIMIT: pack index version 1, which git stopped writing in 2007, is not read.
"""

from __future__ import annotations

import os
from contextlib import ExitStack

from mulligan.gitformat.pack import Limits, Pack
from mulligan.gitformat.pack_index import FileBytes, PackIndex
from mulligan.gitformat.record import Damaged
from mulligan.safefs.directory import Directory
from mulligan.scan.git.files import read_open

OBJECT_LIMIT = 32 << 20
LOOKUP_PRICE = 1024
# Small pack indexes are held in memory, large ones are read where needed.
_IN_MEMORY = 4 << 20
_LIMITS = Limits(blob=OBJECT_LIMIT, other=OBJECT_LIMIT, delta=OBJECT_LIMIT, chain=4 * OBJECT_LIMIT)


class Meter:
    """How much work reading may still be, in bytes inflated; look-ups have a price too."""

    __slots__ = ("left",)

    def __init__(self, left: int) -> None:
        self.left = left

    def spend(self, amount: int) -> None:
        """Takes from what is left; raises Damaged when nothing is."""
        self.left -= amount
        if self.left < 0:
            raise Damaged("reading it takes too much work")


class UserPack:
    """An open pack of the user's; `close` releases its descriptors."""

    def __init__(self, directory: Directory, stem: bytes, meter: Meter) -> None:
        """Opens the index; raises OSError or Damaged."""
        self._directory, self._meter, self._files = directory, meter, ExitStack()
        fd = self._files.enter_context(directory.reading(stem + b".idx"))
        try:
            data = read_open(fd, _IN_MEMORY) if os.fstat(fd).st_size <= _IN_MEMORY else None
            self._pack = Pack(stem, PackIndex(data or FileBytes(fd)), 0, limits=_LIMITS, spend=meter.spend)
        except BaseException:
            self._files.close()
            raise
        if data:
            self._files.close()

    def close(self) -> None:
        """Closes what is open. Idempotent."""
        self._files.close()
        self._pack.close()

    def offset_of(self, oid: bytes) -> int | None:
        """Returns where an object lies in the pack, None when it is not there; raises Damaged."""
        self._meter.spend(LOOKUP_PRICE)
        position = self._pack.index.find(oid)
        return None if position < 0 else self._pack.index.offset(position)

    def between(self, low: bytes, high: bytes, most: int) -> list[bytes]:
        """Returns the first few ids from one to another, both included; raises Damaged."""
        self._meter.spend(LOOKUP_PRICE)
        index = self._pack.index
        first = index.first_from(low)
        found = [index.oid(at) for at in range(first, min(first + most, index.count))]
        return [oid for oid in found if oid <= high]

    def read(self, offset: int) -> tuple[bytes, bytes]:
        """Returns kind and bytes of the object at an offset; raises Damaged or OSError."""
        self._pack.open(self._directory)
        return self._pack.load_at(offset)
