"""Stores for tests: made, opened, and filled with histories."""

from __future__ import annotations

import gc
import os
import random
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from mulligan.model.objects import (
    BLOB,
    COMMIT,
    MODE_DIR,
    MODE_FILE,
    TREE,
    Commit,
    TreeEntry,
    encode_commit,
    encode_tree,
)
from mulligan.safefs.directory import Directory
from mulligan.store import layout
from mulligan.store.objects import ObjectStore
from mulligan.store.pack_writer import PackWriter


@contextmanager
def opened(path: Path) -> Iterator[ObjectStore]:
    """A store at a path, made if it is not there."""
    path.mkdir(mode=0o700, exist_ok=True)
    with Directory.open(path) as directory:
        layout.create(directory, name="test")
        store = ObjectStore(directory)
        try:
            yield store
        finally:
            store.close()


def add_all(store: ObjectStore, blobs: Iterable[bytes]) -> list[bytes]:
    """Adds blobs in one pack and returns their ids."""
    with store.writer() as writer:
        oids = [writer.add(BLOB, blob) for blob in blobs]
        writer.finish()
    return oids


def add_tree(writer: PackWriter, files: Mapping[str, bytes]) -> bytes:
    """Adds a tree of files, given by path, and returns its id."""
    below: dict[str, dict[str, bytes]] = {}
    entries = []
    for path, data in files.items():
        head, slash, rest = path.partition("/")
        if slash:
            below.setdefault(head, {})[rest] = data
        else:
            entries.append(TreeEntry(head.encode(), MODE_FILE, writer.add(BLOB, data)))
    entries += [TreeEntry(name.encode(), MODE_DIR, add_tree(writer, inner)) for name, inner in below.items()]
    return writer.add(TREE, encode_tree(entries))


def add_commit(store: ObjectStore, files: Mapping[str, bytes], message: str = "a checkpoint") -> bytes:
    """Adds a commit whose `files/` are these, in a pack of its own, and returns its id."""
    with store.writer() as writer:
        tree = add_tree(writer, {f"files/{path}": data for path, data in files.items()})
        commit = writer.add(COMMIT, encode_commit(Commit(tree, message, 1_700_000_000)))
        writer.finish()
    return commit


def edited(data: bytes, chance: random.Random, *, hunks: int = 1) -> bytes:
    """A text with some of its lines replaced."""
    lines = data.splitlines(keepends=True)
    for _ in range(hunks):
        lines[chance.randrange(len(lines))] = b"    edited = %d\n" % chance.randrange(10**9)
    return b"".join(lines)


def text(lines: int, chance: random.Random) -> bytes:
    """Something like source code."""
    words = [b"alpha", b"beta", b"return", b"import", b"self", b"value", b"for", b"None"]
    return b"".join(
        b"    %s %d\n" % (b" ".join(chance.choices(words, k=5)), chance.randrange(999)) for _ in range(lines)
    )


def pack_files(path: Path, ending: str = ".pack") -> list[Path]:
    """The files of packs in a store, sorted."""
    return sorted((path / "objects" / "pack").glob(f"*{ending}"))


def open_descriptors() -> int:
    """How many files this process holds open, without those that only wait for the collector."""
    gc.collect()
    return len(os.listdir("/proc/self/fd"))
