"""
Damaged packs taken out of use.

What can still be read of them is copied into a new pack first; the damaged files are then moved to objects/damaged/, where
nobody looks for objects, and not removed: somebody may know how to get more out of them.
"""

from __future__ import annotations

from collections.abc import Iterable

from mulligan.gitformat.record import TREE_LIMIT
from mulligan.model.objects import BLOB
from mulligan.safefs.directory import Directory
from mulligan.safefs.durable import sync
from mulligan.store.objects import ObjectStore

PLACE = b"damaged"


def retire(store: ObjectStore, stems: Iterable[bytes]) -> list[str]:
    """Moves packs (names without ending) out of the way, keeping what can be read of them; returns the files moved."""
    leaving = set(stems)
    _copy(store, leaving)
    moved: list[str] = []
    with store.directory.child(b"objects") as objects, store.directory.descend(b"objects/pack") as packs:
        if not objects.exists(PLACE):
            objects.mkdir(PLACE)
            sync(objects.fd, "a directory of the store")
        with objects.child(PLACE) as place:
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
