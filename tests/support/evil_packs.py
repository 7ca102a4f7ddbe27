"""
Packs and stores made by somebody who means harm, byte by byte and by nothing of the package.

`pack` writes any records with a true checksum, `index` any index for it: what they say is up to the caller.
"""

from __future__ import annotations

import collections
import hashlib
import itertools
import struct
import zlib
from pathlib import Path

COMMIT, TREE, BLOB, OFS, REF = 1, 2, 3, 6, 7
KINDS = {COMMIT: b"commit", TREE: b"tree", BLOB: b"blob"}


def oid(kind: int, data: bytes) -> bytes:
    """The id of an object."""
    return hashlib.sha1(b"%b %d\0" % (KINDS[kind], len(data)) + data).digest()


def header(kind: int, size: int) -> bytes:
    """A record's header, with whatever size."""
    byte, size = (kind << 4) | (size & 15), size >> 4
    out = bytearray()
    while size:
        out.append(byte | 0x80)
        byte, size = size & 0x7F, size >> 7
    return bytes([*out, byte])


def whole(kind: int, data: bytes, claimed: int | None = None) -> bytes:
    """An object as it stands in a pack; its header may claim another size."""
    return header(kind, len(data) if claimed is None else claimed) + zlib.compress(data, 9 if len(data) > 4096 else 1)


def ref_delta(base: bytes, delta: bytes) -> bytes:
    """A delta against an object of this id."""
    return header(REF, len(delta)) + base + zlib.compress(delta)


def ofs_delta(distance: int, delta: bytes) -> bytes:
    """A delta against what stands so many bytes before it."""
    out = [distance & 0x7F]
    distance >>= 7
    while distance:
        distance -= 1
        out.append(0x80 | (distance & 0x7F))
        distance >>= 7
    return header(OFS, len(delta)) + bytes(reversed(out)) + zlib.compress(delta)


def size_of(number: int) -> bytes:
    """A size as a delta says it."""
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def copying(base: int, target: int, *, offset: int = 0, length: int = 0xFFFF) -> bytes:
    """A delta that copies the same stretch of its base until the target is full."""
    one = bytes([0x80 | 0x0F | 0x30]) + offset.to_bytes(4, "little") + length.to_bytes(2, "little")
    return size_of(base) + size_of(target) + one * (target // length)


def pack(records: list[bytes], count: int | None = None) -> tuple[bytes, list[int]]:
    """A pack of records, its checksum right, and where each stands; it may claim another count."""
    head = b"PACK" + struct.pack(">LL", 2, len(records) if count is None else count)
    offsets = list(itertools.accumulate(map(len, records[:-1]), initial=len(head))) if records else []
    body = b"".join([head, *records])
    return body + hashlib.sha1(body).digest(), offsets


def index(rows: list[tuple[bytes, int]], checksum: bytes, fanout: list[int] | None = None) -> bytes:
    """An index of these ids and offsets; its first table may say anything."""
    rows = sorted(rows)
    firsts = collections.Counter(row[0][0] for row in rows)
    counts = list(itertools.accumulate(firsts[first] for first in range(256)))
    body = b"\377tOc\0\0\0\2" + struct.pack(">256L", *(fanout or counts)) + b"".join(row[0] for row in rows)
    body += bytes(4 * len(rows)) + b"".join(struct.pack(">L", row[1] & 0xFFFFFFFF) for row in rows) + checksum
    return body + hashlib.sha1(body).digest()


def plant(store: Path, records: list[bytes], names: list[bytes], **lies: object) -> Path:
    """Puts a pack of records under these names into a store, and returns it without its ending."""
    data, offsets = pack(records, lies.get("count"))  # type: ignore[arg-type]
    stem = store / "objects/pack" / f"pack-{data[-20:].hex()}"
    stem.with_suffix(".pack").write_bytes(data)
    rows = list(zip(names, lies.get("offsets") or offsets, strict=False))  # type: ignore[call-overload]
    stem.with_suffix(".idx").write_bytes(index(rows, data[-20:], lies.get("fanout")))  # type: ignore[arg-type]
    for ending in (".pack", ".idx"):
        stem.with_suffix(ending).chmod(0o600)
    return stem


def tree(*entries: tuple[bytes, bytes, bytes]) -> bytes:
    """A tree, its entries as given: mode, name, id."""
    return b"".join(mode + b" " + name + b"\0" + target for mode, name, target in entries)
