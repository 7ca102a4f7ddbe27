"""
The objects that a first checkpoint takes over, copied from the user's packs, in a second process where that is safe.

Before anything is copied, the files whose names do not say that they are no secrets are looked at: nothing of a secret gets
into the store. The verdicts are of files, not of objects: what one file may be taken for, another of the same bytes may not.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from mulligan.model.paths import join
from mulligan.safefs import syscalls
from mulligan.safefs.descent import descending
from mulligan.safefs.directory import READ_FLAGS, Directory
from mulligan.safefs.twin import Listener, can_twin
from mulligan.scan.expected import Declined, Expected
from mulligan.scan.git.records import Packs
from mulligan.scan.git.repository import Repository
from mulligan.scan.glance import depth_first
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


class Taking:
    """
    Copies objects; use it with `with`, say what is wanted, call `end`, and `keep` if they are to stay.

    A second process begins at once with what it can do before it knows what is wanted: opening the packs.
    """

    def __init__(self, root: Directory, repo: Repository, scope: Scope, sink: Sink) -> None:
        self._root, self._scope, self._sink = root, scope, sink
        self._wanted: dict[bytes, int] = {}
        self._unclear: list[Unclear] = []
        self._share: Any = None
        self._copied = set[bytes]()
        self._done = False
        try:
            self._packs = repo.common.descend(b"objects/pack")
        except OSError:
            raise Declined from None
        try:
            self._twin = Listener(self._part) if can_twin() else None
        except OSError:
            self._twin = None  # no pipes to be had: one process does it all
        except BaseException:
            self._packs.close()
            raise

    def __enter__(self) -> Taking:
        return self

    def __exit__(self, *_: object) -> None:
        twin, self._twin = self._twin, None
        if twin is not None:
            process = twin.pid
            with twin:
                pass
            if not self._done:
                self._sink.drop_share(process)
        self._packs.close()

    def want(self, expected: Expected) -> None:
        """Says what is wanted, once."""
        self._wanted = expected.wanted
        folders = sorted(expected.folders.items(), key=lambda item: depth_first(item[0]))
        self._unclear = [
            (path, [(at, folder.names[at], folder.stats[at], folder.oids[at]) for at in folder.unclear])
            for path, folder in folders
            if folder.unclear
        ]
        if self._twin is not None:
            from marshal import dumps

            self._twin.tell(dumps((self._wanted, self._unclear)))

    def end(self) -> Doubts:
        """Waits until all is copied, and returns what is not."""
        if self._twin is None:
            more, refused, files = self._take(Packs(self._packs))
        else:
            from marshal import loads

            answer = self._twin.answer()
            if answer is None:
                raise Declined  # it failed, and why shows when the files are read
            # The bytes come from a fork of this very process over a pipe that nobody else holds.
            self._share, more, refused, files = loads(answer)  # noqa: S302
            self._copied = (self._wanted.keys() | set(_cut(more))) - set(_cut(refused))
        return Doubts(frozenset(_cut(refused)), files)

    def keep(self) -> None:
        """Keeps what was copied by a second process; without this, nothing of it remains."""
        if self._share is not None:
            self._sink.take_over(self._share, self._copied)
            self._done = True

    def _part(self, heard: Callable[[], bytes], is_needed: Callable[[], bool]) -> bytes:
        """The second process's part."""
        from marshal import dumps, loads

        packs = Packs(self._packs)
        self._wanted, self._unclear = loads(heard())  # noqa: S302 - from its maker
        self._sink.part()
        found = self._take(packs, is_needed)
        return dumps((self._sink.hand_over(), *found))

    def _take(
        self, packs: Packs, is_needed: Callable[[], bool] = lambda: True
    ) -> tuple[bytes, bytes, list[tuple[bytes, int]]]:
        """Copies what is wanted; returns which objects were found to be wanted, too, which were not copied, and the files in doubt."""
        taken, (wanted, files) = set[bytes](), self._judge()
        try:
            for _ in packs.take(wanted, self._sink, taken):
                if not is_needed():
                    raise Declined
        finally:
            packs.close()
        return b"".join(wanted.keys() - self._wanted.keys()), b"".join(wanted.keys() - taken), files

    def _judge(self) -> tuple[dict[bytes, int], list[tuple[bytes, int]]]:
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


def _cut(oids: bytes) -> Iterator[bytes]:
    return (oids[at : at + 20] for at in range(0, len(oids), 20))
