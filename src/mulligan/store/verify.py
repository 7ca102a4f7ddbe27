"""
Whether the packs of a store are whole.

Every byte counts: the pack's own checksum, the index's, the checksum of each record, and the hash of each object.
What is wrong is returned, never raised, and with it the ids of the objects that no pack can give any more.
`retire` takes damaged packs out of use: it copies what can be read into a new pack and moves the files to objects/damaged/.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from mulligan.gitformat.pack import IndexRow, Pack, PackIndex, encode_index, read_index
from mulligan.gitformat.pack_scan import EMPTY_INDEX, checksums, index_findings, measure, object_count, record_crc, scan
from mulligan.gitformat.record import TRAILER_SIZE, TREE_LIMIT, DamagedRecord, hash_of
from mulligan.model.objects import BLOB
from mulligan.safefs.directory import Directory
from mulligan.safefs.durable import sync, write_durably
from mulligan.store.objects import ObjectStore

DAMAGED_PACK, DAMAGED_INDEX = "damaged pack", "damaged index"
LOST_PACK, LOST_INDEX, STRAY = "lost pack", "lost index", "stray file"
_DAMAGED = b"damaged"
_PACK_FILE = re.compile(rb"(pack-[0-9a-f]{40})\.(pack|idx|rev|keep|bitmap|mtimes|promisor)")


class Problem(NamedTuple):
    """One thing that is wrong: what, with which file, in words, and the objects that cannot be read for it."""

    kind: str
    subject: str
    detail: str
    oids: frozenset[bytes]


def verify_packs(store: ObjectStore, *, progress: Callable[[int, int], None] | None = None) -> list[Problem]:
    """Returns everything that is wrong with the packs, reading every byte of them."""
    store.refresh()
    directory = store.packs_directory()
    names = sorted(directory.names())
    endings: dict[bytes, set[bytes]] = {}
    problems: list[Problem] = []
    for name in names:
        if found := _PACK_FILE.fullmatch(name):
            endings.setdefault(found[1], set()).add(found[2])
        else:
            problems.append(Problem(STRAY, _text(name), "it is no file of a pack", frozenset()))
    for done, (stem, present) in enumerate(endings.items()):
        problems += _verify_one(directory, stem, present)
        if progress is not None:
            progress(done + 1, len(endings))
    return [problem._replace(oids=_lost(store, problem.oids)) for problem in problems]


def rebuild_index(directory: Directory, pack_name: bytes) -> bool:
    """Makes the index of a pack anew from the pack (`directory` is the store's root); returns whether it could."""
    with directory.descend(b"objects/pack") as packs, directory.child(b"tmp") as tmp:
        try:
            with _bare(packs, pack_name) as pack:
                rows = scan(pack)
                actual, stated = checksums(pack)
        except (DamagedRecord, OSError):
            return False  # the pack itself is not whole: there is nothing to index
        if actual != stated or len({row.oid for row in rows}) != len(rows):
            return False
        temporary = pack_name + b".idx"
        tmp.unlink(temporary, missing_ok=True)
        index = encode_index(rows, actual)
        write_durably(packs, pack_name + b".idx", [index], temporary=temporary, what="the index of a pack", via=tmp)
    return True


@contextmanager
def _bare(packs: Directory, stem: bytes, index: PackIndex = EMPTY_INDEX) -> Iterator[Pack]:
    pack = Pack(stem, index, 0)
    pack.open(packs)
    try:
        yield pack
    finally:
        pack.close()


def _verify_one(directory: Directory, stem: bytes, present: set[bytes]) -> list[Problem]:
    subject = _text(stem)
    if b"pack" not in present:
        if b"idx" not in present:
            return [Problem(STRAY, subject, "its pack is gone", frozenset())]
        return [
            Problem(LOST_PACK, subject + ".pack", "the index is there, the pack is not", _index_oids(directory, stem))
        ]
    try:
        index = _index(directory, stem) if b"idx" in present else None
    except (DamagedRecord, OSError) as error:
        return [Problem(DAMAGED_INDEX, subject + ".idx", _text_of(error), _scanned_oids(directory, stem))]
    if index is None:
        return [
            Problem(LOST_INDEX, subject + ".idx", "the pack is there, its index is not", _scanned_oids(directory, stem))
        ]
    try:
        with _bare(directory, stem, index) as pack:
            return _verify_pair(pack, index, subject)
    except (DamagedRecord, OSError) as error:
        return [Problem(DAMAGED_PACK, subject + ".pack", _text_of(error), frozenset(index.oids()))]


def _index(directory: Directory, stem: bytes) -> PackIndex:
    return read_index(directory, stem, directory.stat(stem + b".idx").st_size)


def _verify_pair(pack: Pack, index: PackIndex, subject: str) -> list[Problem]:
    findings, bad = _verify_objects(pack, index)
    in_pack, checksum = [], b""
    try:
        if object_count(pack) != index.count:
            in_pack.append("it does not hold as many objects as its index")
        actual, checksum = checksums(pack)
        if actual != checksum:
            in_pack.append("its checksum is wrong")
    except DamagedRecord as error:
        in_pack.append(str(error))
    in_index = index_findings(index, pack.size)
    if checksum and index.pack_checksum != checksum:
        in_index.append("it is the index of another pack")
    problems = []
    if in_pack or (findings and not in_index):
        detail = "; ".join([*in_pack, *findings[:3]])
        problems.append(Problem(DAMAGED_PACK, subject + ".pack", detail, frozenset(bad)))
    if in_index:
        detail = "; ".join([*in_index, *findings[:3]])
        # What the index says is in doubt, its ids too: the pack itself knows what it holds.
        held = _scanned(pack) or frozenset([*bad, *index.oids()])
        problems.append(Problem(DAMAGED_INDEX, subject + ".idx", detail, held))
    return problems


def _verify_objects(pack: Pack, index: PackIndex) -> tuple[list[str], list[bytes]]:
    findings: list[str] = []
    bad: list[bytes] = []
    try:
        rows = index.rows()
    except DamagedRecord as error:
        return [str(error)], index.oids()
    ends = [row.offset for row in rows[1:]] + [pack.size - TRAILER_SIZE]
    for row, end in zip(rows, ends, strict=True):
        try:
            finding, readable = _verify_record(pack, row, end)
        except DamagedRecord as error:
            finding, readable = str(error), False
        if finding:
            findings.append(f"object {row.oid.hex()}: {finding}")
        if not readable:
            bad.append(row.oid)
    return findings, bad


def _verify_record(pack: Pack, row: IndexRow, end: int) -> tuple[str, bool]:
    """Returns what is wrong with one record, and whether its object can be read all the same."""
    length, oid = measure(pack, row.offset)
    if oid is None:
        oid = hash_of(*pack.load_at(row.offset))
    if oid != row.oid:
        return "its bytes do not hash to its id", False
    if row.offset + length != end:
        return "the next object does not follow it", True
    if record_crc(pack, row.offset, length) != row.crc:
        return "its checksum in the index is wrong", True
    return "", True


def _index_oids(directory: Directory, stem: bytes) -> frozenset[bytes]:
    try:
        return frozenset(_index(directory, stem).oids())
    except (DamagedRecord, OSError):
        return frozenset()  # neither can be read: what they held is unknown


def _scanned_oids(directory: Directory, stem: bytes) -> frozenset[bytes]:
    try:
        with _bare(directory, stem) as pack:
            return _scanned(pack)
    except (DamagedRecord, OSError):
        return frozenset()  # without an index and with a damaged pack, what it held is unknown


def _scanned(pack: Pack) -> frozenset[bytes]:
    index, pack.index = pack.index, EMPTY_INDEX
    try:
        return frozenset(row.oid for row in scan(pack))
    except DamagedRecord:
        return frozenset()
    finally:
        pack.index = index


def _lost(store: ObjectStore, oids: frozenset[bytes]) -> frozenset[bytes]:
    return frozenset(oid for oid in oids if not store.readable(oid))


def _text(name: bytes) -> str:
    return name.decode("utf-8", "replace")


def _text_of(error: DamagedRecord | OSError) -> str:
    return f"it cannot be opened ({error.strerror})" if isinstance(error, OSError) else str(error)


# -- packs taken out of use ---------------------------------------------------------------------


def retire(store: ObjectStore, stems: Iterable[bytes]) -> list[str]:
    """Moves packs (names without ending) out of the way, keeping what can be read of them; returns the files moved."""
    leaving = set(stems)
    _copy(store, leaving)
    moved: list[str] = []
    with store.directory.child(b"objects") as objects, store.directory.descend(b"objects/pack") as packs:
        if not objects.exists(_DAMAGED):
            objects.mkdir(_DAMAGED)
            sync(objects.fd, "a directory of the store")
        with objects.child(_DAMAGED) as place:
            for name in sorted(packs.names()):
                if name.rpartition(b".")[0] in leaving:
                    packs.rename(name, _free(place, name), to=place)
                    moved.append(name.decode("ascii", "replace"))
            sync(place.fd, "the move of a damaged pack")
        sync(packs.fd, "the move of a damaged pack")
    store.refresh()
    return moved


def _copy(store: ObjectStore, leaving: set[bytes]) -> None:
    """Writes what only these packs hold, and can be read, into a new one."""
    oids = [oid for pack in store.packs() if pack.name in leaving for oid in pack.index.oids()]
    needed = {oid for oid in oids if not store.readable(oid, without=leaving) and store.readable(oid)}
    with store.writer(anew=needed) as writer:
        for oid in needed:
            kind, size = store.kind_and_size(oid)
            if kind == BLOB and size > TREE_LIMIT:
                writer.add_stream(size, store.stream(oid))
            else:
                writer.add_hashed(oid, kind, store.read(oid, kind))
        writer.finish()


def _free(place: Directory, name: bytes) -> bytes:
    """Returns a name that nothing has: a pack that was damaged twice is kept twice."""
    taken, number = name, 1
    while place.exists(taken):
        number += 1
        taken = b"%b.%d" % (name, number)
    return taken
