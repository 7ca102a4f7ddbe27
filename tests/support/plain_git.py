"""A store as plain git reads it: objects, trees, refs, and what `git fsck` says. Nothing of the package is used."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

GIT_ENV = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
#: Said by git of every bare repository whose HEAD names no branch yet; it is not a finding.
HARMLESS = re.compile(rb"^notice: HEAD points to an unborn branch")
#: By id: what kind of object it is, and its bytes.
Objects = dict[str, tuple[str, bytes]]
DIRECTORY = 0o40000


def run_git(store: Path, *args: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Runs plain git on the store, with no configuration but the store's own."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return subprocess.run(
        ["git", f"--git-dir={store}", *args], input=stdin, capture_output=True, env=env | GIT_ENV, check=False
    )


def fsck(store: Path) -> list[str]:
    """What `git fsck --strict --full` says."""
    done = run_git(store, "fsck", "--strict", "--full", "--no-dangling", "--no-progress")
    lines = [line for line in (done.stdout + done.stderr).splitlines() if not HARMLESS.match(line)]
    found = [f"fsck: {line.decode(errors='replace')}" for line in lines]
    return found + ([f"fsck: exit {done.returncode}"] if done.returncode else [])


def batch_objects(store: Path) -> Iterator[tuple[str, str, bytes]]:
    """Every object of the store as (id, type, content), read by plain git."""
    done = run_git(store, "cat-file", "--batch", "--batch-all-objects", "--unordered")
    data, at = done.stdout, 0
    while at < len(data):
        end = data.index(b"\n", at)
        words = data[at:end].split()
        if len(words) != 3:
            yield words[0].decode(), "missing", b""
            at = end + 1
            continue
        size = int(words[2])
        yield words[0].decode(), words[1].decode(), data[end + 1 : end + 1 + size]
        at = end + 1 + size + 1


def objects_of(store: Path) -> Objects:
    """Every object of the store by its id, read by plain git."""
    return {name: (kind, content) for name, kind, content in batch_objects(store)}


def hashes(objects: Objects) -> list[str]:
    """Objects whose bytes do not hash to their name, computed here and not by git."""
    found = []
    for name, (kind, content) in objects.items():
        real = hashlib.sha1(b"%s %d\0" % (kind.encode(), len(content)) + content).hexdigest()
        if kind == "missing" or real != name:
            found.append(f"object {name}: {kind}, hashes to {real}")
    return found


def tree_entries(content: bytes) -> Iterator[tuple[bytes, int, str]]:
    """The entries of a tree object: name, mode and object id."""
    at = 0
    while at < len(content):
        end = content.index(b"\0", at)
        mode, _, name = content[at:end].partition(b" ")
        yield name, int(mode, 8), content[end + 1 : end + 21].hex()
        at = end + 21


def tree_of(objects: Objects, commit: str) -> str:
    """The tree of a commit; nothing when that is not there."""
    kind, content = objects.get(commit, ("missing", b""))
    return content[5:45].decode("ascii", "replace") if kind == "commit" else ""


def missing_from(objects: Objects, commits: Iterable[str]) -> list[str]:
    """The objects that some commits need and the store does not hold, or holds as something else."""
    pending: list[tuple[str, str]] = [(commit, "commit") for commit in commits]
    seen: set[str] = set()
    found = []
    while pending:
        name, wanted = pending.pop()
        if name in seen:
            continue
        seen.add(name)
        kind, content = objects.get(name, ("missing", b""))
        if kind != wanted:
            found.append(f"{name} {kind}, not a {wanted}")
        elif kind == "commit":
            pending.append((tree_of(objects, name), "tree"))
        elif kind == "tree":
            pending += [
                (below, "tree" if mode == DIRECTORY else "blob") for _name, mode, below in tree_entries(content)
            ]
    return found


def files_of(objects: Objects, commit: str) -> dict[bytes, tuple[int, bytes]] | None:
    """What a checkpoint holds: mode and content of each path, directories included; None when it cannot be read whole."""
    if missing_from(objects, [commit]):
        return None
    top = {name: below for name, _mode, below in tree_entries(objects[tree_of(objects, commit)][1])}
    pending, found = [(b"", top[b"files"])] if b"files" in top else [], {}
    while pending:
        folder, tree = pending.pop()
        for name, mode, below in tree_entries(objects[tree][1]):
            path = folder + name
            found[path] = (mode, b"" if mode == DIRECTORY else objects[below][1])
            if mode == DIRECTORY:
                pending.append((path + b"/", below))
    return found


def refs(store: Path) -> dict[str, str]:
    """The checkpoint refs of the store: the last part of each name, and the commit it names."""
    done = run_git(store, "for-each-ref", "--format=%(refname) %(objectname)", "refs/checkpoints/")
    if done.returncode:
        return {"unreadable": done.stderr.decode(errors="replace").strip()}
    pairs = [line.split() for line in done.stdout.decode().splitlines()]
    return {name.removeprefix("refs/checkpoints/"): commit for name, commit in pairs}
