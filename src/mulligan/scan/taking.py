"""
The objects that a first checkpoint takes over, copied from the user's packs.

Before anything is copied, the files whose names do not say that they are no secrets are looked at: nothing of a secret gets
into the store. The verdicts are of files, not of objects: what one file may be taken for, another of the same bytes may not.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from mulligan.model.paths import join
from mulligan.safefs import syscalls
from mulligan.safefs.descent import depth_first, descending
from mulligan.safefs.directory import READ_FLAGS, Directory
from mulligan.scan.expected import Declined, Expected
from mulligan.scan.git.records import Packs
from mulligan.scan.git.repository import Repository
from mulligan.scan.reading import Sink, fields
from mulligan.scan.record import STAT
from mulligan.scan.scope import Scope
from mulligan.scan.secrets import secret_content, secret_name

_SNIFFED = 4096
# A directory, and of each file in it that is to be looked at: its place, name, stat fields to be expected, id.
Unclear = tuple[bytes, list[tuple[int, bytes, bytes, bytes]]]


class Doubts(NamedTuple):
    """What proves nothing: objects that were not copied, and files by their directory and place in it."""

    oids: frozenset[bytes]
    files: list[tuple[bytes, int]]


def take(root: Directory, repo: Repository, scope: Scope, sink: Sink, expected: Expected) -> Doubts:
    """Copies the objects that are expected to be needed; returns what is not copied, or not to be believed."""
    taken = set[bytes]()
    wanted, files = _Judging(root, scope, expected).run()
    try:
        directory = repo.common.descend(b"objects/pack")
    except OSError:
        raise Declined from None
    with directory:
        packs = Packs(directory)
        try:
            for _ in packs.take(wanted, sink, taken):
                pass
        finally:
            packs.close()
    return Doubts(frozenset(wanted.keys() - taken), files)


class _Judging:
    """Looks at the files whose names do not say that they are no secrets."""

    def __init__(self, root: Directory, scope: Scope, expected: Expected) -> None:
        self._root, self._scope, self._wanted = root, scope, expected.wanted
        folders = sorted(expected.folders.items(), key=lambda item: depth_first(item[0]))
        self._unclear: list[Unclear] = [
            (path, [(at, folder.names[at], folder.stats[at], folder.oids[at]) for at in folder.unclear])
            for path, folder in folders
            if folder.unclear
        ]

    def run(self) -> tuple[dict[bytes, int], list[tuple[bytes, int]]]:
        """Returns the objects to be copied, with their sizes, and the files that prove nothing."""
        wanted, doubts = dict(self._wanted), []
        for (path, rows), fd in zip(
            self._unclear, descending(self._root.fd, [path for path, _ in self._unclear]), strict=True
        ):
            for at, name, proof, oid in rows:
                expected = STAT.unpack(proof)
                harmless = fd >= 0 and self._is_harmless(path, fd, name, expected)
                if not harmless or wanted.setdefault(oid, expected[2]) != expected[2]:
                    doubts.append((path, at))
        return wanted, doubts

    def _is_harmless(self, path: bytes, fd: int, name: bytes, expected: tuple[int, ...]) -> bool:
        """Looks at a file's name and how it begins, and returns whether it is the file that was expected and no secret."""
        full = join(path, name)
        if expected[2] < 0 or self._scope.leaves_out(full):
            return False
        wanted = self._scope.included(full)
        if secret_name(full) and not wanted:
            return False
        try:
            opened = syscalls.calls.open(name, READ_FLAGS, dir_fd=fd)
        except OSError:
            return False  # gone, or not to be read: the walk says which
        try:
            if fields(os.fstat(opened)) != expected:
                return False
            return wanted or not secret_content(os.pread(opened, _SNIFFED, 0))
        except OSError:
            return False  # the walk says why
        finally:
            syscalls.calls.close(opened)
