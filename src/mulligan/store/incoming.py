"""
Packs that somebody else fills: made in tmp/, made durable, handed on like those of a second process, or thrown away.

Promise: what `keep` returns survives a power cut once it is placed, and nothing remains of what was not kept.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

from mulligan.safefs import seam
from mulligan.safefs.directory import Directory, write_all
from mulligan.safefs.durable import sync

if TYPE_CHECKING:
    from mulligan.store.pack_writer import Share


class Incoming:
    """Some new packs; use it with `with`, fill the files, and call `keep`."""

    def __init__(self, root: Directory, stems: Sequence[bytes]) -> None:
        self._tmp, self._stems, self._files = root.child(b"tmp"), stems, ExitStack()
        self._left: set[bytes] = set()
        self.fds: list[int] = []
        try:
            for stem in stems:
                self.fds.append(self._create(stem + b".pack"))
        except BaseException:
            self.__exit__()
            raise

    def _create(self, name: bytes) -> int:
        fd = self._tmp.create(name)
        self._files.callback(seam.calls.close, fd)
        self._left.add(name)
        return fd

    def __enter__(self) -> Incoming:
        return self

    def __exit__(self, *_: object) -> None:
        self._files.close()
        with suppress(OSError):  # what cannot be removed now is swept by the next writer
            for name in self._left:
                self._tmp.unlink(name, missing_ok=True)
        self._tmp.close()

    def keep(self, made: Sequence[tuple[int, bytes, bytes]]) -> Share:
        """Makes the packs durable, each of so many bytes and with a checksum and an index; those without an index are thrown away."""
        written, total, waiting = list[tuple[bytes, bytes]](), 0, list[tuple[int, str]]()
        for stem, fd, (size, checksum, index) in zip(self._stems, self.fds, made, strict=True):
            if not index:
                continue
            beside = self._create(stem + b".idx")
            write_all(beside, index)
            waiting += [(fd, "a pack"), (beside, "the index of a pack")]
            written.append((stem, b"pack-" + checksum.hex().encode()))
            total += size + len(index)
        for fd, what in waiting:
            sync(fd, what)
        for stem, _ in written:
            self._left -= {stem + b".pack", stem + b".idx"}
        return written, total, []


def raise_for(error: int) -> None:
    """Raises what the system said, if it said something."""
    if error:
        raise OSError(error, os.strerror(error))
