"""
Objects by their id.

Promise: what `read` returns hashes to the id that was asked for; an object that is missing or damaged raises StoreDamaged
and names it, and a damaged copy is passed over when another pack holds a good one.
Another process may add or remove packs at any time: an object that is missing is looked for once more, after the directory was
listed again.
A store object belongs to one thread and does not own the directory it was given.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import suppress
from hashlib import sha1
from typing import TYPE_CHECKING

from mulligan.errors import StoreDamaged
from mulligan.gitformat.pack import ROW_SIZE, Pack
from mulligan.gitformat.record import KIND_OF_TYPE, DamagedRecord, RecordHeader, hash_of
from mulligan.model.objects import BLOB, TREE, TreeEntry, parse_tree
from mulligan.safefs.directory import Directory
from mulligan.store.pack_writer import PackWriter

if TYPE_CHECKING:
    from typing import TypeVar

    T = TypeVar("T")

# The ids of packs of up to so many objects are looked up in one dictionary, those of larger ones in each index in turn.
_SMALL = 2048
# As long as the dictionary has no more ids than this (5 MB).
_MOST_IDS = 1 << 15
# From so many packs on, an idle watcher joins the small ones; without a watcher, a save does.
MANY_PACKS = 48
# Descriptors held open; a process may be allowed as few as 64 in all.
_OPEN_PACKS = 16
_TREES = 1024
_STREAM_CHUNK = 1 << 20
# What is larger is hashed before it is held.
_LARGE = 32 << 20
_WRONG_BYTES = "its bytes do not hash to its id"


def damaged(oid: bytes, why: str) -> StoreDamaged:
    """Returns the error for an object that cannot be read."""
    return StoreDamaged(
        f"Object {oid.hex()} cannot be read from the store: {why}. Other objects are not affected.",
        hint="mulligan check",
    )


class ObjectStore:
    """The objects of one store."""

    def __init__(self, directory: Directory) -> None:
        self.directory = directory
        self._packs_directory: Directory | None = None
        self._packs: dict[bytes, Pack] = {}
        self._small: dict[bytes, Pack] = {}
        self._large: list[Pack] = []
        self._open: OrderedDict[bytes, Pack] = OrderedDict()
        self._trees: OrderedDict[bytes, list[TreeEntry]] = OrderedDict()
        self._listed: tuple[int, ...] | None = None
        self._writer: PackWriter | None = None

    def close(self) -> None:
        """Closes every file; the next use opens them again."""
        for pack in self._open.values():
            pack.close()
        self._open.clear()
        self._packs.clear()
        self._small.clear()
        self._large.clear()
        self._listed = None
        if self._packs_directory is not None:
            self._packs_directory.close()
            self._packs_directory = None

    # -- asking ---------------------------------------------------------------------------------

    def has(self, oid: bytes) -> bool:
        """Returns whether the store holds an object."""
        return self._knows(oid) or (self._refresh_if_changed() and self._knows(oid))

    def read(self, oid: bytes, kind: bytes) -> bytes:
        """Returns the bytes of an object; raises StoreDamaged when it is missing, wrong or of another kind."""
        found, data = self._each(oid, lambda pack, offset: _verified(pack, offset, oid))
        if found != kind:
            raise damaged(oid, f"it is a {found.decode()}, not a {kind.decode()}")
        return data

    def read_up_to(self, oid: bytes, most: int) -> bytes | int:
        """Returns the bytes of a blob as `read` does, or how many it has where they are more than `most`."""

        def use(pack: Pack, offset: int) -> tuple[bytes, bytes | int]:
            size = pack.kind_and_size(offset)
            return size if size[1] > most else _verified(pack, offset, oid)

        kind, found = self._each(oid, use)
        if kind != BLOB:
            raise damaged(oid, f"it is a {kind.decode()}, not a blob")
        return found

    def read_tree(self, oid: bytes) -> list[TreeEntry]:
        """Returns the entries of a tree; the list is shared, so look and do not change."""
        entries = self._trees.get(oid)
        if entries is None:
            entries = self._trees[oid] = parse_tree(self.read(oid, TREE))
            if len(self._trees) > _TREES:
                self._trees.popitem(last=False)
        return entries

    def kind_and_size(self, oid: bytes) -> tuple[bytes, int]:
        """Returns what an object is and how many bytes it has."""
        return self._each(oid, lambda pack, offset: pack.kind_and_size(offset))

    def readable(self, oid: bytes, *, without: Container[bytes] = ()) -> bool:
        """Returns whether any copy of an object, not one in packs of these names, can be read and hashes to its id."""

        def use(pack: Pack, offset: int) -> None:
            if pack.name in without:
                raise DamagedRecord("this pack does not count")
            check_copy(pack, offset, oid)

        try:
            self._each(oid, use)
        except StoreDamaged:
            return False
        return True

    def stream(self, oid: bytes) -> Iterator[bytes]:
        """Yields an object in chunks; raises StoreDamaged at the end if they do not hash to its id."""

        def place(pack: Pack, offset: int) -> tuple[Pack, int, RecordHeader]:
            if several:  # what was handed out cannot be taken back: find the good copy first
                check_copy(pack, offset, oid)
            return pack, offset, pack.header(offset)

        several = len(self.locations(oid)) > 1
        pack, offset, header = self._each(oid, place)
        if header.type not in KIND_OF_TYPE:
            _, data = self._each(oid, lambda pack, offset: _verified(pack, offset, oid))
            yield from (data[at : at + _STREAM_CHUNK] for at in range(0, len(data), _STREAM_CHUNK))
            return
        # A descriptor of its own: others may be opened, and this one pushed out, between two chunks.
        mine = Pack(pack.name, pack.index, pack.size)
        mine.fd = os.dup(pack.fd)
        try:
            yield from _hashed(mine, offset, header, oid)
        except DamagedRecord as error:
            raise damaged(oid, str(error)) from None
        finally:
            mine.close()

    def packed_size(self, oid: bytes) -> int:
        """Returns how many bytes an object takes on the disk, its row in the index included."""
        return self._each(oid, lambda pack, offset: pack.length_of(offset)) + ROW_SIZE

    def disk_bytes(self) -> int:
        """Returns how many bytes all packs and indexes have."""
        return sum(pack.size + pack.index.size for pack in self.packs())

    # -- writing --------------------------------------------------------------------------------

    def writer(self, *, anew: Container[bytes] = ()) -> PackWriter:
        """Returns a writer; objects in `anew` are written even if the store seems to hold them (it is damaged)."""
        self._refresh_if_changed()
        self._writer = PackWriter(self.directory, knows=self._knows, finished=self._adopt, anew=anew)
        return self._writer

    def is_private(self, oid: bytes) -> bool:  # noqa: ARG002 - the same for all
        """Returns that no object of a store is a secret in the plain."""
        return False

    def relied_on(self) -> set[bytes]:
        """Returns what the newest writer left out because it is here; a collection before it is done must keep that."""
        return self._writer.relied if self._writer is not None else set()

    def _adopt(self, names: list[bytes]) -> None:
        """Takes in packs that were just put in place; one that cannot be read now is for the next look at the directory."""
        directory = self.packs_directory()
        self._listed = None
        try:
            fresh = [Pack.load(directory, name) for name in names if name not in self._packs]
        except (OSError, DamagedRecord):
            return  # what is durable must not fail for want of a listing
        # In this order: one that is listed and not entered, for an interruption, would be looked for nowhere.
        self._enter(fresh)
        self._packs.update((pack.name, pack) for pack in fresh)

    # -- the packs ------------------------------------------------------------------------------

    def packs(self) -> list[Pack]:
        """Returns the packs that can be used, the oldest name first."""
        self._refresh_if_changed()
        return [self._packs[name] for name in sorted(self._packs)]

    def pack_count(self) -> int:
        """Returns how many packs there are."""
        self._refresh_if_changed()
        return len(self._packs)

    def opened(self, pack: Pack) -> Pack:
        """Returns a pack with its file open; FileNotFoundError if another process has removed it."""
        if pack.fd < 0:
            pack.open(self.packs_directory())
        self._open[pack.name] = pack
        self._open.move_to_end(pack.name)
        while len(self._open) > _OPEN_PACKS:
            self._open.popitem(last=False)[1].close()
        return pack

    def packs_directory(self) -> Directory:
        """Returns the directory of packs, open; raises StoreDamaged when it is gone."""
        if self._packs_directory is None:
            try:
                self._packs_directory = self.directory.descend(b"objects/pack")
            except (FileNotFoundError, NotADirectoryError):
                raise StoreDamaged(
                    "The store has lost its directory of packs (objects/pack).", hint="mulligan doctor"
                ) from None
        return self._packs_directory

    def refresh(self) -> None:
        """Reads the list of packs again."""
        try:
            self._refresh()
        except BaseException:
            # Half of it would hide objects that are there, or vouch for those of a pack that is gone.
            self._packs, self._small, self._large = {}, {}, []
            self._listed = None
            raise

    def _refresh(self) -> None:
        stamp = self._stamp()
        directory = self.packs_directory()
        names = {name[:-4] for name in directory.names() if name.startswith(b"pack-") and name.endswith(b".idx")}
        gone = [name for name, pack in self._packs.items() if name not in names or not _is_current(directory, pack)]
        for name in gone:
            self._open.pop(name, self._packs[name]).close()
            del self._packs[name]
        if gone:
            self._small, self._large = {}, []
            self._enter(self._packs.values())
        fresh = []
        for name in sorted(names - self._packs.keys()):
            # Removed since the listing, an index that lost its pack, or not an index: its objects count as missing,
            # and `verify_packs` tells why.
            with suppress(FileNotFoundError, DamagedRecord):
                fresh.append(Pack.load(directory, name))
        self._packs.update((pack.name, pack) for pack in fresh)
        self._enter(fresh)
        self._listed = stamp

    def _enter(self, packs: Iterable[Pack]) -> None:
        for pack in packs:
            if pack.index.count <= min(_SMALL, _MOST_IDS - len(self._small)):
                self._small.update(dict.fromkeys(pack.index.oids(), pack))
            else:
                self._large.append(pack)

    def _stamp(self) -> tuple[int, ...] | None:
        """Returns what changes when the directory does; a second change within one tick of the clock does not show."""
        try:
            status = os.stat(b"objects/pack", dir_fd=self.directory.fd, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            status = None
        if status is None or (self._packs_directory and os.fstat(self._packs_directory.fd).st_ino != status.st_ino):
            if self._packs_directory is not None:  # it was replaced under us
                self._packs_directory.close()
                self._packs_directory = None
            return None
        return (status.st_ino, status.st_mtime_ns, status.st_ctime_ns)

    def _refresh_if_changed(self) -> bool:
        if self._listed is not None and self._listed == self._stamp():
            return False
        self.refresh()
        return True

    # -- finding --------------------------------------------------------------------------------

    def _knows(self, oid: bytes) -> bool:
        return oid in self._small or any(pack.index.find(oid) >= 0 for pack in self._large)

    def locations(self, oid: bytes) -> list[Pack]:
        """Returns every pack that holds an object."""
        self._refresh_if_changed()
        first = self._small.get(oid)
        found = [pack for pack in self._large if pack.index.find(oid) >= 0]
        if first is None:
            return found
        asked = {id(first), *map(id, self._large)}
        small = (pack for pack in self._packs.values() if id(pack) not in asked)
        return [first, *found, *(pack for pack in small if pack.index.find(oid) >= 0)]

    def _first(self, oid: bytes) -> tuple[Pack, int] | None:
        """Returns a pack that holds an object, and the object's position there."""
        found = self._small.get(oid)
        if found is not None:
            return found, found.index.find(oid)
        for at, pack in enumerate(self._large):
            if (position := pack.index.find(oid)) >= 0:
                # Neighbours are asked for together: the pack that had this one probably has the next.
                if at:
                    self._large.insert(0, self._large.pop(at))
                return pack, position
        return None

    def _each(self, oid: bytes, use: Callable[[Pack, int], T]) -> T:
        """Uses the first copy of an object that can be used, looking again at the directory if none can."""
        if (first := self._first(oid)) is not None:
            pack, position = first
            try:
                return use(self.opened(pack), pack.index.offset(position))
            except (DamagedRecord, FileNotFoundError):
                pass  # another copy may do, and if none does, the loop below says why
        self.refresh()
        reason = "it is missing"
        for pack in self.locations(oid):
            try:
                return use(self.opened(pack), pack.index.offset(pack.index.find(oid)))
            except FileNotFoundError:
                continue
            except DamagedRecord as error:
                reason = str(error)
        raise damaged(oid, reason)


def _is_current(directory: Directory, pack: Pack) -> bool:
    try:
        return Pack.stamp_of(directory, pack.name) == pack.stamp
    except FileNotFoundError:
        return False


def check_copy(pack: Pack, offset: int, oid: bytes, *, streamed: bool = False) -> None:
    """Raises DamagedRecord unless the object at an offset hashes to its id; `streamed` leaves out what cannot be hashed so."""
    header = pack.header(offset)
    if header.type not in KIND_OF_TYPE:
        if not streamed:
            _verified(pack, offset, oid)
        return
    for _ in _hashed(pack, offset, header, oid):
        pass


def _verified(pack: Pack, offset: int, oid: bytes) -> tuple[bytes, bytes]:
    if pack.header(offset).size > _LARGE:
        check_copy(pack, offset, oid, streamed=True)  # a bomb under a false name is never held in memory
    found, data = pack.load_at(offset)
    if hash_of(found, data) != oid:
        raise DamagedRecord(_WRONG_BYTES)
    return found, data


def _hashed(pack: Pack, offset: int, header: RecordHeader, oid: bytes) -> Iterator[bytes]:
    digest = sha1(b"%b %d\0" % (KIND_OF_TYPE[header.type], header.size), usedforsecurity=False)
    for chunk in pack.stream_at(offset, header):
        digest.update(chunk)
        yield chunk
    if digest.digest() != oid:
        raise DamagedRecord(_WRONG_BYTES)
