"""
The records of a pack: headers, bounded inflation, and the error they end in.

Everything here treats its input as hostile. Nothing is allocated on the word of a header alone: a declared size must be
possible for the bytes that stand there, and inflation stops one byte after it.
"""

from __future__ import annotations

import zlib
from hashlib import sha1
from typing import Any, NamedTuple

from mulligan.model.objects import BLOB, COMMIT, TREE

SIGNATURE = b"PACK\0\0\0\2"
HEADER_SIZE = 12
TRAILER_SIZE = 20
OFS_DELTA, REF_DELTA = 6, 7
KIND_OF_TYPE = {1: COMMIT, 2: TREE, 3: BLOB, 4: b"tag"}
TYPE_OF_KIND = {kind: number for number, kind in KIND_OF_TYPE.items()}
# No pack of ours grows beyond this, so that rewriting one never needs much room.
PACK_LIMIT = 64 << 20
# What may be held in memory as one object; a larger blob is streamed, a larger tree or commit is not one of ours.
WHOLE_LIMIT = 256 << 20
TREE_LIMIT = 64 << 20
# Ours are of objects up to 16 MiB.
DELTA_LIMIT = 64 << 20
CHAIN_LIMIT = 4096
# Deflate cannot do better than 1032:1; a header that promises more lies.
_MAX_RATIO = 1032
# The longest record header: nine bytes of size, and twenty of a base's id or ten of a distance.
LONGEST_HEADER = 32

LEVEL = 1
_STORED = 4096
# ISA-L is loaded when it pays: that takes 2 ms, in which zlib does what a save of one file needs. Each stream counts for a few bytes.
_ALONE = 64 << 10
_EACH = 1 << 10
_left = _ALONE
_fast: Any = None


class DamagedRecord(Exception):
    """Bytes of a pack are not what they must be. The store turns this into StoreDamaged, naming the object."""


class RecordHeader(NamedTuple):
    """What stands before the deflated bytes: `distance` says where an OFS_DELTA's base is, `base` a REF_DELTA's."""

    type: int
    size: int
    length: int
    distance: int = 0
    base: bytes = b""


def engine(size: int = _ALONE) -> Any:
    """Returns the module that deflates and inflates about so many bytes: zlib for the first few of a process, then ISA-L."""
    global _fast, _left  # noqa: PLW0603 - how much was done concerns the whole process
    if _fast is None:
        _left -= size + _EACH
        if _left > 0:
            return zlib
        from isal import isal_zlib

        _fast = isal_zlib
    return _fast


def inflate_errors() -> tuple[type[Exception], ...]:
    """Returns what an engine raises over bytes that do not inflate."""
    return (zlib.error,) if _fast is None else (zlib.error, _fast.error)


def crc32(data: bytes, before: int = 0) -> int:
    """Returns the CRC-32 of some bytes, and of those before them."""
    return int((_fast or zlib).crc32(data, before))


def compress(data: bytes, level: int) -> bytes:
    """Returns bytes deflated by ISA-L, for who has time."""
    return bytes(engine().compress(data, level))


def encode_header(number: int, size: int) -> bytes:
    """Returns the header of a record: its type and the size of its content, seven bits at a time."""
    byte, size = (number << 4) | (size & 15), size >> 4
    if not size:
        return bytes((byte,))
    out = bytearray()
    while size:
        out.append(byte | 0x80)
        byte, size = size & 0x7F, size >> 7
    out.append(byte)
    return bytes(out)


def encode_distance(distance: int) -> bytes:
    """Returns how far back an OFS_DELTA's base stands, in git's offset encoding."""
    out = [distance & 0x7F]
    distance >>= 7
    while distance:
        distance -= 1
        out.append(0x80 | (distance & 0x7F))
        distance >>= 7
    return bytes(reversed(out))


def deflate(data: bytes) -> bytes:
    """
    Returns bytes deflated as quickly as they can be.

    ISA-L's level 0 takes half the time of its level 1 and makes source a sixth larger. What it would only make larger,
    most trees among it, is stored as it is; a long piece is given to level 1 first, which may find something after all.
    """
    by = engine(len(data))
    quick: bytes = by.compress(data, 1 if by is zlib else 0)
    if len(quick) < len(data):
        return quick
    return zlib.compress(data, 0) if len(data) <= _STORED else bytes(by.compress(data, LEVEL))


def parse_header(data: bytes) -> RecordHeader:
    """Returns the header at the start of some bytes; raises DamagedRecord when there is none."""
    try:
        byte = data[0]
        number, size, shift, at = (byte >> 4) & 7, byte & 15, 4, 1
        while byte & 0x80:
            byte = data[at]
            size |= (byte & 0x7F) << shift
            shift, at = shift + 7, at + 1
            if shift > 67:
                raise DamagedRecord("its header is malformed")
        if number in KIND_OF_TYPE:
            return RecordHeader(number, size, at)
        if number == REF_DELTA and len(data) >= at + 20:
            return RecordHeader(number, size, at + 20, base=data[at : at + 20])
        if number == OFS_DELTA:
            distance, at = _parse_distance(data, at)
            return RecordHeader(number, size, at, distance=distance)
    except IndexError:
        raise DamagedRecord("its header is cut short") from None
    raise DamagedRecord("its type is unknown")


def _parse_distance(data: bytes, at: int) -> tuple[int, int]:
    byte = data[at]
    distance, at = byte & 0x7F, at + 1
    while byte & 0x80:
        byte = data[at]
        distance, at = ((distance + 1) << 7) | (byte & 0x7F), at + 1
        if distance >> 63:
            raise DamagedRecord("the distance to its base is malformed")
    return distance, at


def inflate(data: bytes, limit: int) -> bytes:
    """Returns what deflated bytes hold; raises DamagedRecord when that is more than the limit or no deflate at all."""
    stream = zlib.decompressobj()
    try:
        out = stream.decompress(data, limit + 1)
    except zlib.error as error:
        raise DamagedRecord(f"its bytes do not inflate ({error})") from None
    if len(out) > limit or not stream.eof:
        raise DamagedRecord("it does not have the size it may have")
    return out


def check_size(size: int, available: int, limit: int = WHOLE_LIMIT) -> None:
    """Raises DamagedRecord when so many bytes cannot come from what stands there, or are too many to hold."""
    if size > (available + 1) * _MAX_RATIO:
        raise DamagedRecord(f"it claims {size} bytes, more than {available} deflated bytes can hold")
    if size > limit:
        raise DamagedRecord(f"its {size} bytes are too many to be read at once")


def hash_of(kind: bytes, data: bytes) -> bytes:
    """Returns the id of an object without copying its bytes."""
    digest = sha1(b"%s %d\0" % (kind, len(data)), usedforsecurity=False)
    digest.update(data)
    return digest.digest()


def delta_sizes(delta: bytes) -> tuple[int, int]:
    """Returns the sizes that a delta announces: of its base and of its result."""
    base_size, at = parse_size(delta, 0)
    return base_size, parse_size(delta, at)[0]


def parse_size(delta: bytes, at: int) -> tuple[int, int]:
    """Returns the size that a delta announces at a place, and where it goes on."""
    size, shift = 0, 0
    while True:
        if at >= len(delta) or shift > 63:
            raise DamagedRecord("its delta announces no size")
        byte = delta[at]
        size |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not byte & 0x80:
            return size, at
