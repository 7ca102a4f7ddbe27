"""
The directory of one remote inside the store: a small bare repository that borrows the store's objects.

What was fetched lies here until it is verified and taken in, what is to be sent until it is sent. Nothing here is needed
twice: it can be deleted at any time. So nothing waits for the disk either; what a power cut leaves damaged is fetched again.
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha1, sha256

from mulligan.model.objects import (
    BLOB,
    COMMIT,
    MODE_DIR,
    MODE_FILE,
    TREE,
    TreeEntry,
    encode_tree,
    object_id,
    parse_commit,
    parse_tree,
)
from mulligan.safefs.directory import Directory, write_all
from mulligan.safefs.durable import make_private, write_synced
from mulligan.safefs.lock import exclusive
from mulligan.store.objects import ObjectStore
from mulligan.store.pack_writer import remove_pack

_DIRECTORIES = (
    b"objects",
    b"objects/info",
    b"objects/pack",
    b"refs",
    b"refs/chains",
    b"refs/replace",
    b"tmp",
    b"out",
    b"segments",
)
_PIECE = 1 << 20
# How deep the trees of a chain's commit are: its files, `log/`, and the groups in that.
_DEEPEST = 3
_SHALLOW = b"shallow"
_CONFIG = b"""\
# Written by mulligan: a place for what comes from and goes to one remote. It may be deleted.
[core]
	repositoryformatversion = 0
	bare = true
	logAllRefUpdates = false
	alternateRefsPrefixes = refs/none
[gc]
	auto = 0
[maintenance]
	auto = false
[fetch]
	unpackLimit = 1
	writeCommitGraph = false
[transfer]
	unpackLimit = 1
	fsckObjects = false
[pack]
	writeReverseIndex = false
"""


#: Loose objects in this one of 256 directories, from which on there are too many: about 2,000 in all.
_SAMPLE, _FULL = b"17", 8


class Spool:
    """The open directory of one remote."""

    def __init__(self, store_path: str, name: str) -> None:
        self.path = f"{store_path}/remotes/{name}"
        make_private(self.path)
        self.directory = Directory.open(self.path)
        for path in _DIRECTORIES:
            above, _, last = path.rpartition(b"/")
            with self.directory.descend(above) as parent:
                if not parent.exists(last):
                    parent.mkdir(last)
        self._write_once(b"", b"HEAD", b"ref: refs/heads/none\n")
        self._write_once(b"objects/info", b"alternates", b"../../../objects\n")
        self._write_once(b"", b"config", _CONFIG)
        self.objects = ObjectStore(self.directory)

    def _write_once(self, path: bytes, name: bytes, data: bytes) -> None:
        with self.directory.descend(path) as parent:
            if not parent.exists(name):
                write_synced(parent, name, [data], "a file of a remote")

    def close(self) -> None:
        """Closes the directory."""
        self.objects.close()
        self.directory.close()

    def alone(self, wait: float, purpose: str) -> exclusive:
        """Holds the remote, so that one process at a time pushes to it or pulls from it; raises Busy."""
        return exclusive(self.directory, wait=wait, purpose=purpose)

    def add(self, kind: bytes, data: bytes) -> bytes:
        """Writes one loose object, as git has them, and returns its id."""
        oid = object_id(kind, data)
        name = oid.hex().encode()
        with self.directory.child(b"objects") as objects:
            if not objects.exists(name[:2]):
                with suppress(FileExistsError):
                    objects.mkdir(name[:2])
            with objects.child(name[:2]) as place:
                if not place.exists(name[2:]) or self.loose(oid) is None:
                    _put(place, name[2:], zlib.compress(b"%b %d\0%b" % (kind, len(data), data), 1))
        return oid

    def add_tree(self, files: dict[bytes, bytes]) -> bytes:
        """Writes a tree of files, and returns its id."""
        entries = [TreeEntry(name, MODE_FILE, self.add(BLOB, data)) for name, data in files.items()]
        return self.add(TREE, encode_tree(entries))

    def loose(self, oid: bytes) -> tuple[bytes, bytes] | None:
        """Returns kind and bytes of a loose object, None where there is none; removes one that is damaged."""
        name = oid.hex().encode()
        with suppress(OSError), self.directory.descend(b"objects/" + name[:2]) as place:
            with suppress(zlib.error):
                data = zlib.decompressobj().decompress(place.read(name[2:], limit=64 << 20), 64 << 20)
                head, _, body = data.partition(b"\0")
                if sha1(data, usedforsecurity=False).digest() == oid:
                    return head.partition(b" ")[0], body
            place.unlink(name[2:], missing_ok=True)
        return None

    def chains(self) -> dict[str, str]:
        """Returns where each chain ends, as far as it is known here."""
        found = {}
        with self.directory.descend(b"refs/chains") as chains:
            for name in chains.names():
                tip = chains.read(name, limit=64).strip().decode("ascii", "replace")
                if re.fullmatch("[0-9a-f]{40}", tip):
                    found[os.fsdecode(name)] = tip
        return found

    def set_chain(self, machine: str, tip: bytes) -> None:
        """Notes where a chain ends, so that git asks for what follows."""
        with self.directory.descend(b"refs/chains") as chains:
            _put(chains, machine.encode(), tip.hex().encode() + b"\n")
        self._tidy()

    @contextmanager
    def replacing(self, commits: Iterable[str], by: bytes) -> Iterator[None]:
        """Makes git read one commit in the place of others while this lasts."""
        names = [commit.encode() for commit in commits]
        with self.directory.descend(b"refs/replace") as replaced:
            try:
                for name in names:
                    _put(replaced, name, by.hex().encode() + b"\n")
                yield
            finally:
                for name in names:
                    replaced.unlink(name, missing_ok=True)

    # -- packs of an object store -------------------------------------------------------------------

    def digest(self, stem: bytes) -> tuple[str, int]:
        """Returns the SHA-256 of a pack here, and its size."""
        found, size = sha256(), 0
        with self.directory.descend(b"objects/pack") as packs, packs.reading(stem + b".pack") as fd:
            while piece := os.read(fd, _PIECE):
                found.update(piece)
                size += len(piece)
        return found.hexdigest(), size

    def pieces(self, path: str) -> tuple[Iterator[bytes], int]:
        """Returns the bytes of a file of the spool, piece by piece, and how many there are."""
        place, _, name = path.removeprefix(self.path + "/").rpartition("/")
        with self.directory.descend(place.encode()) as parent:
            fd = parent.open_file(name.encode())

        def read() -> Iterator[bytes]:
            try:
                while piece := os.read(fd, _PIECE):
                    yield piece
            finally:
                os.close(fd)

        return read(), os.fstat(fd).st_size

    @contextmanager
    def writing(self, name: str) -> Iterator[Callable[[bytes], None]]:
        """Takes a file that comes in, piece by piece."""
        with self.directory.child(b"out") as out:
            out.unlink(name.encode(), missing_ok=True)
            fd = out.create(name.encode())
            try:
                yield lambda piece: write_all(fd, piece)
            finally:
                os.close(fd)

    def move_in(self, name: str, pack: str) -> None:
        """Makes a file that came in a pack."""
        with self.directory.child(b"out") as out, self.directory.descend(b"objects/pack") as packs:
            out.rename(name.encode(), pack.encode(), to=packs)

    def drop(self, stem: str) -> None:
        """Removes a pack that is not what it should be, or not needed any more."""
        with self.directory.descend(b"objects/pack") as packs:
            remove_pack(packs, stem.encode())

    def drop_out(self, name: str) -> None:
        """Removes a file on its way out or in."""
        with self.directory.child(b"out") as out:
            out.unlink(name.encode(), missing_ok=True)

    def keep(self, tip: bytes, *, whole: bool = False) -> None:
        """Keeps the end of a chain when everything else goes: its commit, its trees and the files in the first, or `whole` ones."""
        commit = self.objects.read(tip, COMMIT)
        self.add(COMMIT, commit)
        waiting = [parse_commit(commit).tree]
        for depth in range(_DEEPEST):
            trees, waiting = waiting, list[bytes]()
            for tree in trees:
                if self.objects.has(tree):
                    self.add(TREE, self.objects.read(tree, TREE))
                    entries = self.objects.read_tree(tree)
                    waiting += [entry.oid for entry in entries if entry.mode == MODE_DIR]
                    for entry in entries if whole or depth == 0 else ():
                        if entry.mode != MODE_DIR and self.objects.has(entry.oid):
                            self.add(BLOB, self.objects.read(entry.oid, BLOB))

    def segment(self, name: str) -> bytes | None:
        """Returns a segment that was kept here, None where there is none."""
        with self.directory.child(b"segments") as place:
            return place.read(name.encode(), limit=64 << 20) if place.exists(name.encode()) else None

    def keep_segment(self, name: str, data: bytes) -> None:
        """Keeps a segment, so that it need not be asked for again."""
        with self.directory.child(b"segments") as place:
            temporary = b"tmp-" + name.encode()
            place.unlink(temporary, missing_ok=True)
            write_synced(place, temporary, [data], "a segment")
            place.rename(temporary, name.encode())

    def drop_segments(self) -> None:
        """Removes the segments that are kept here."""
        with self.directory.child(b"segments") as place:
            for name in place.names():
                place.unlink(name, missing_ok=True)

    def unlock(self) -> bool:
        """Removes the locks that a killed git left; returns whether there were some. One process at a time works here."""
        found = 0
        for path in (b"", b"refs/chains"):
            with self.directory.descend(path) as place:
                for name in place.names():
                    if name.endswith(b".lock"):
                        place.unlink(name, missing_ok=True)
                        found += 1
        return found > 0

    def is_shallow(self) -> bool:
        """Returns whether chains were fetched without what they lead to."""
        return self.directory.exists(_SHALLOW)

    def _tidy(self) -> None:
        """Removes loose objects once there are some thousands, apart from the ends of the chains."""
        with self.directory.child(b"objects") as objects:
            count = 0
            with suppress(FileNotFoundError), objects.child(_SAMPLE) as place:
                count = len(place.names())  # ids are spread evenly over 256 directories
            if count <= _FULL:
                return
        kept = set[bytes]()
        waiting = [bytes.fromhex(tip) for tip in self.chains().values()]
        while waiting:
            oid = waiting.pop()
            found = self.loose(oid) if oid not in kept else None
            if found is None:
                continue
            kept.add(oid)
            if found[0] == COMMIT:
                waiting.append(parse_commit(found[1]).tree)
                waiting += [entry.oid for entry in parse_tree((self.loose(waiting[-1]) or (TREE, b""))[1])]
            elif found[0] == TREE:
                waiting += [entry.oid for entry in parse_tree(found[1]) if entry.mode == MODE_DIR]
        self._drop_loose(kept)

    def _drop_loose(self, kept: Collection[bytes] = ()) -> None:
        names = {each.hex().encode("ascii") for each in kept}
        with self.directory.child(b"objects") as objects:
            for folder in objects.names():
                if len(folder) == 2:
                    with objects.child(folder) as place:
                        for name in place.names():
                            if folder + name not in names:
                                place.unlink(name, missing_ok=True)

    def start_over(self) -> None:
        """Forgets where the chains end, so that everything is fetched again."""
        self.clear()
        self._drop_loose()
        with self.directory.descend(b"refs/chains") as chains:
            for name in chains.names():
                chains.unlink(name, missing_ok=True)
        for name in (b"packed-refs", _SHALLOW):
            self.directory.unlink(name, missing_ok=True)

    def clear(self) -> None:
        """Removes every pack, and what is on its way out."""
        self.objects.close()
        with self.directory.descend(b"objects/pack") as packs:
            for name in packs.names():
                if name.endswith(b".pack"):
                    remove_pack(packs, name[:-5])
            for name in packs.names():
                packs.unlink(name, missing_ok=True)
        for place in (b"tmp", b"out"):
            with self.directory.child(place) as parent:
                for name in parent.names():
                    parent.unlink(name, missing_ok=True)


def _put(place: Directory, name: bytes, data: bytes) -> None:
    """Writes a file in one step, without waiting for the disk."""
    temporary = b"tmp-" + name
    place.unlink(temporary, missing_ok=True)
    fd = place.create(temporary)
    try:
        write_all(fd, data)
    finally:
        os.close(fd)
    place.rename(temporary, name)
