"""
The packs of a store, byte by byte: checksums, indexes, and the checksum that an index keeps of each record.

Read with `struct`, `hashlib` and `zlib` alone, after git's own description of the two formats (gitformat-pack).
"""

from __future__ import annotations

import collections
import hashlib
import itertools
import struct
import zlib
from pathlib import Path

_MAGIC = b"\xfftOc\0\0\0\2"
_FANOUT = struct.Struct(">256I")
_LARGE = 1 << 31


def packs(store: Path) -> list[str]:
    """What is wrong with any pack or its index."""
    found = []
    for pack in sorted((store / "objects" / "pack").glob("*.pack")):
        index = pack.with_suffix(".idx")
        if index.exists():
            found += [f"{pack.name}: {line}" for line in _pair(pack.read_bytes(), index.read_bytes(), pack.stem)]
    return found


def _pair(pack: bytes, index: bytes, stem: str) -> list[str]:
    if len(pack) < 32 or pack[:8] != b"PACK\0\0\0\2":
        return ["no pack of version 2"]
    if not index.startswith(_MAGIC) or len(index) < 8 + 1024 + 40:
        return ["its index is none of version 2"]
    found = []
    if hashlib.sha1(pack[:-20]).digest() != pack[-20:]:
        found.append("its bytes do not have its checksum")
    if stem != f"pack-{pack[-20:].hex()}":
        found.append("it is not named after its checksum")
    if hashlib.sha1(index[:-20]).digest() != index[-20:]:
        found.append("the bytes of its index do not have their checksum")
    if index[-40:-20] != pack[-20:]:
        found.append("its index is of another pack")
    return found + _rows(pack, index)


def _rows(pack: bytes, index: bytes) -> list[str]:
    fanout = _FANOUT.unpack_from(index, 8)
    count = fanout[-1]
    names_at = 8 + 1024
    sums_at, offsets_at = names_at + 20 * count, names_at + 24 * count
    large_at = names_at + 28 * count
    if len(index) < large_at + 40 or count != int.from_bytes(pack[8:12], "big"):
        return ["its index has another number of objects"]
    names = [index[names_at + 20 * at : names_at + 20 * at + 20] for at in range(count)]
    found = [] if names == sorted(set(names)) else ["the names in its index are not in order"]
    firsts = collections.Counter(name[0] for name in names)
    if list(fanout) != list(itertools.accumulate(firsts[first] for first in range(256))):
        found.append("the table of its index is wrong")
    sums = struct.unpack_from(f">{count}I", index, sums_at)
    offsets = []
    for short in struct.unpack_from(f">{count}I", index, offsets_at):
        long = struct.unpack_from(">Q", index, large_at + 8 * (short ^ _LARGE))[0] if short & _LARGE else short
        offsets.append(long)
    ends = [*sorted(offsets), len(pack) - 20]
    if ends[0] != 12 or any(one >= other for one, other in itertools.pairwise(ends)):
        return [*found, "the offsets in its index are not those of its records"]
    after = dict(itertools.pairwise(ends))
    for name, checksum, offset in zip(names, sums, offsets, strict=True):
        if zlib.crc32(pack[offset : after[offset]]) != checksum:
            found.append(f"the record of {name.hex()} does not have its checksum")
    return found
