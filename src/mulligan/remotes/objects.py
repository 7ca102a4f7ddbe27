"""
Objects on their way: which ones a checkpoint needs and another does not, and how they come in.

Whatever comes in was read through a store object, which hashes every byte; here each checkpoint is followed to its last blob
before a row mentions it, sizes are bounded, and unsafe names refuse the checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

from mulligan.errors import MulliganError, RemoteDamaged, StoreDamaged
from mulligan.model.objects import BLOB, COMMIT, MODE_DIR, TREE, TreeEntry, object_id, parse_commit, parse_tree
from mulligan.store.objects import ObjectStore
from mulligan.store.pack_writer import PackWriter

#: A blob from here on is copied in pieces.
_LARGE = 8 << 20
_LARGEST_TREE, _LARGEST_COMMIT = 64 << 20, 4 << 20
_SLACK = 1 << 20

Progress = Callable[[int], None]


class Source(Protocol):
    """Where objects are read from: an `ObjectStore`, or something with the same reading methods."""

    def has(self, oid: bytes, /) -> bool:
        """Returns whether an object is there."""

    def read(self, oid: bytes, kind: bytes, /) -> bytes:
        """Returns an object's bytes, verified."""

    def read_tree(self, oid: bytes, /) -> list[TreeEntry]:
        """Returns a tree's entries."""

    def kind_and_size(self, oid: bytes, /) -> tuple[bytes, int]:
        """Returns what an object is and how many bytes it has."""

    def stream(self, oid: bytes, /) -> Iterator[bytes]:
        """Yields an object's bytes."""


class MemoryObjects:
    """A few objects that were made on the way; a writer and a source."""

    def __init__(self) -> None:
        self.held: dict[bytes, tuple[bytes, bytes]] = {}

    def add(self, kind: bytes, data: bytes, _inside: bytes = b"") -> bytes:
        """Takes an object and returns its id."""
        oid = object_id(kind, data)
        self.held[oid] = (kind, data)
        return oid

    def has(self, oid: bytes) -> bool:
        """Returns whether an object is here."""
        return oid in self.held

    def read(self, oid: bytes, kind: bytes) -> bytes:
        """Returns an object's bytes."""
        found, data = self.held[oid]
        if found != kind:
            raise StoreDamaged(f"Object {oid.hex()} is a {found.decode()}, not a {kind.decode()}.")
        return data

    def read_tree(self, oid: bytes) -> list[TreeEntry]:
        """Returns a tree's entries."""
        return parse_tree(self.read(oid, TREE))

    def kind_and_size(self, oid: bytes) -> tuple[bytes, int]:
        """Returns what an object is and how many bytes it has."""
        kind, data = self.held[oid]
        return kind, len(data)

    def stream(self, oid: bytes) -> Iterator[bytes]:
        """Yields an object's bytes."""
        yield self.held[oid][1]


class Together:
    """Several sources as one; the first that has an object gives it."""

    def __init__(self, *sources: Source) -> None:
        self._sources = sources

    def _of(self, oid: bytes) -> Source:
        return next((source for source in self._sources if source.has(oid)), self._sources[-1])

    def has(self, oid: bytes) -> bool:
        """Returns whether an object is there."""
        return any(source.has(oid) for source in self._sources)

    def __getattr__(self, name: str) -> Any:
        return lambda oid, *more: getattr(self._of(oid), name)(oid, *more)


def new_objects(source: Source, commits: Iterable[bytes], bases: Iterable[bytes] = ()) -> Iterator[tuple[bytes, bytes]]:
    """Yields id and kind of everything that commits reach and their bases do not have at the same place; each once."""
    seen: set[bytes] = set()
    known = [parse_commit(source.read(base, COMMIT)).tree for base in bases]
    for commit in commits:
        if commit in seen:
            continue
        seen.add(commit)
        yield commit, COMMIT
        tree = parse_commit(_bounded(source, commit, COMMIT, _LARGEST_COMMIT)).tree
        yield from _below(source, tree, known[-2:], seen)
        known.append(tree)


def _below(source: Source, root: bytes, bases: list[bytes], seen: set[bytes]) -> Iterator[tuple[bytes, bytes]]:
    known = {entry.oid for base in bases for entry in source.read_tree(base)}
    waiting = [(root, bases)]
    while waiting:
        tree, beside = waiting.pop()
        if tree in seen or tree in known or tree in beside:
            continue
        seen.add(tree)
        yield tree, TREE
        if source.kind_and_size(tree)[1] > _LARGEST_TREE:
            raise RemoteDamaged(f"Tree {tree.hex()} is larger than any tree of ours. Nothing of it was taken.")
        before = [{entry.name: entry for entry in source.read_tree(base)} for base in beside]
        for entry in source.read_tree(tree):
            same = [names[entry.name] for names in before if entry.name in names]
            if any(other.oid == entry.oid for other in same):
                continue
            if entry.mode == MODE_DIR:
                waiting.append((entry.oid, [other.oid for other in same if other.mode == MODE_DIR]))
            elif entry.oid not in seen and entry.oid not in known:
                seen.add(entry.oid)
                yield entry.oid, BLOB


def _bounded(source: Source, oid: bytes, kind: bytes, most: int) -> bytes:
    found, size = source.kind_and_size(oid)
    if found != kind or size > most:
        raise RemoteDamaged(f"Object {oid.hex()} is not the {kind.decode()} that it should be. Nothing was taken.")
    return bytes(source.read(oid, kind))


def copy(
    source: Source, wanted: Iterable[tuple[bytes, bytes]], writer: PackWriter, has: Callable[[bytes], bool]
) -> int:
    """Writes objects that are not there yet; returns how many bytes they have. Raises StoreDamaged, RemoteDamaged."""
    total = 0
    for oid, kind in wanted:
        if has(oid):
            continue
        found, size = source.kind_and_size(oid)
        if found != kind:
            raise RemoteDamaged(f"Object {oid.hex()} is a {found.decode()}, not a {kind.decode()}. Nothing was taken.")
        if kind == BLOB and size >= _LARGE:
            writer.add_stream(size, source.stream(oid))
        else:
            writer.add_hashed(oid, kind, source.read(oid, kind))
        total += size
    return total


def pack_into(
    spool: ObjectStore, source: Source, wanted: Iterable[tuple[bytes, bytes]], packed: set[bytes]
) -> list[bytes]:
    """Writes objects that are not `packed` yet into packs of a spool directory and returns the names of the packs."""

    def is_packed(oid: bytes) -> bool:
        known = oid in packed
        packed.add(oid)
        return known

    with spool.writer() as writer:
        copy(source, wanted, writer, is_packed)
        return writer.finish()


def missing_below(source: Source, waiting: list[tuple[bytes, bytes]], seen: set[bytes]) -> set[tuple[bytes, bytes]]:
    """Returns id and kind of what lacks below some objects, as far as that can be seen; what cannot be read is not followed."""
    missing: set[tuple[bytes, bytes]] = set()
    while waiting:
        oid, kind = waiting.pop()
        if oid in seen:
            continue
        if not source.has(oid):
            missing.add((oid, kind))
            continue
        seen.add(oid)
        try:
            if kind == COMMIT:
                waiting.append((parse_commit(_bounded(source, oid, COMMIT, _LARGEST_COMMIT)).tree, TREE))
            elif kind == TREE:
                entries = parse_tree(_bounded(source, oid, TREE, _LARGEST_TREE))
                waiting += [(entry.oid, TREE if entry.mode == MODE_DIR else BLOB) for entry in entries]
        except MulliganError:
            continue  # the checkpoint is refused when it is taken in
    return missing
