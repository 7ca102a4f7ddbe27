"""
Directory trees as values: what is on disk, read with plain calls, and random trees to put there.

Paths are relative, `/`-separated, as text with surrogate escapes, the way the engine names them.
"""

from __future__ import annotations

import os
import random
import shutil
import stat
from pathlib import Path
from typing import NamedTuple


class Entry(NamedTuple):
    """One path as it stands on disk."""

    kind: str  # "file", "link", "dir", "other"
    mode: int
    content: bytes  # a file's bytes, a link's target
    mtime_ns: int
    ino: int


class Node(NamedTuple):
    """One path as a checkpoint promises it: kind, permission bits of files, content."""

    kind: str
    perm: int
    content: bytes


def entry_at(path: bytes) -> Entry:
    """Reads one path without following it."""
    found = os.lstat(path)
    if stat.S_ISLNK(found.st_mode):
        kind, content = "link", os.readlink(path)
    elif stat.S_ISREG(found.st_mode):
        with open(path, "rb") as file:
            kind, content = "file", file.read()
    else:
        kind, content = ("dir" if stat.S_ISDIR(found.st_mode) else "other"), b""
    return Entry(kind, stat.S_IMODE(found.st_mode), content, found.st_mtime_ns, found.st_ino)


def snapshot(root: str | os.PathLike[str], *, skip: frozenset[str] = frozenset()) -> dict[str, Entry]:
    """Everything below `root`, except what lies in or below the names in `skip`."""
    top = os.fsencode(root)
    found: dict[str, Entry] = {}
    pending = [b""]
    while pending:
        folder = pending.pop()
        for name in os.listdir(os.path.join(top, folder) if folder else top):
            path = os.path.join(folder, name)
            if os.fsdecode(name) in skip:
                continue
            entry = entry_at(os.path.join(top, path))
            found[os.fsdecode(path)] = entry
            if entry.kind == "dir":
                pending.append(path)
    return found


def contents(root: str | os.PathLike[str], *, skip: frozenset[str] = frozenset({".git"})) -> dict[str, Node]:
    """Everything below `root` as a restore promises it: no times, no inodes, permission bits for files alone."""
    return {
        path: Node(entry.kind, entry.mode if entry.kind == "file" else 0, entry.content)
        for path, entry in snapshot(root, skip=skip).items()
    }


def wipe(root: str | os.PathLike[str]) -> None:
    """Empties a directory, however hostile the modes inside."""
    for name in os.listdir(os.fsencode(root)):
        path = os.path.join(os.fsencode(root), name)
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        else:
            os.unlink(path)


def write_nodes(root: str | os.PathLike[str], nodes: dict[str, Node]) -> None:
    """Builds a tree from its value, parents first."""
    for path in sorted(nodes, key=os.fsencode):
        node, place = nodes[path], os.path.join(os.fsencode(root), os.fsencode(path))
        os.makedirs(os.path.dirname(place), exist_ok=True)
        if node.kind == "dir":
            os.makedirs(place, exist_ok=True)
        elif node.kind == "link":
            os.symlink(node.content, place)
        else:
            with open(place, "wb") as file:
                file.write(node.content)
            os.chmod(place, node.perm)


def put(root: Path, path: str, value: str | bytes = b"", *, perm: int | None = None) -> Path:
    """Writes one file, making its parents."""
    place = root / path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(value.encode() if isinstance(value, str) else value)
    if perm is not None:
        place.chmod(perm)
    return place


def random_tree(rng: random.Random, *, files: int = 30) -> dict[str, Node]:
    """A tree of a few levels with files, links, empty directories and odd names."""
    names = ["a", "b.txt", "sp ace", "new\nline", "-dash", "ünï", "\udcff\udcfe", "😀", 'q"uote', "tab\t", "c.py"]
    nodes: dict[str, Node] = {}
    for number in range(files):
        folder = "/".join(f"d{rng.randrange(3)}" for _ in range(rng.randrange(4)))
        path = (folder + "/" if folder else "") + f"{rng.choice(names)}{number}"
        roll = rng.random()
        if roll < 0.1:
            nodes[path] = Node("link", 0, os.fsencode(rng.choice(["nowhere", "../up", "/abs/olute", "a"])))
        elif roll < 0.2:
            nodes[path] = Node("dir", 0, b"")
        else:
            perm = rng.choice([0o644, 0o644, 0o755, 0o600, 0o640, 0o444])
            nodes[path] = Node("file", perm, rng.randbytes(rng.choice([0, 1, 10, 3000, 70000])))
    for path in list(nodes):
        for parent in Path(path).parents:
            if str(parent) != ".":
                nodes.setdefault(str(parent), Node("dir", 0, b""))
    return nodes
