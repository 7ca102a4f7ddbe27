"""
The small record that belongs to one container environment: its lock, its journal, what people said about checkpoints.

Everything else about checkpoints stands in the labels of images and containers and outlives this file. The journal holds
the one step that is in progress; it is on the disk before the step changes anything, so that the next use after a crash
knows what to end. Promise: `begin` and `end` return when the disk has confirmed it.
"""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from mulligan.errors import Busy, StoreDamaged, UserError
from mulligan.safefs.directory import Directory, random_name
from mulligan.safefs.durable import make_private, write_durably
from mulligan.safefs.lock import exclusive

DEFAULT_WAIT = 60.0
_FILE, _NEW = b"record.json", b"record.new"
_LIMIT = 16 << 20
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
# Ids that were abandoned: their image may still appear, from an engine that went on after its client was killed.
_ABANDONED_KEPT = 50
# A waiting process may create the lock's file again while the directory is emptied.
_TRIES = 10


def valid_name(name: str) -> str:
    """Returns a name that containers, image tags and directories can all bear; ValueError otherwise."""
    if not _NAME.fullmatch(name):
        raise ValueError(
            f"{name!r} cannot name a container: letters, digits, '_', '.' and '-', at most 63, the first a letter or digit"
        )
    return name


class EnvironmentRecord:
    """The record of one environment; everything but `exists` needs the lock."""

    def __init__(self, root: str, name: str, *, wait: float = DEFAULT_WAIT) -> None:
        self.path = os.path.join(root, valid_name(name))
        self._name, self._wait = name, wait
        self._directory: Directory | None = None
        self._data: dict[str, Any] = {}

    @contextmanager
    def holding(self, purpose: str) -> Iterator[None]:
        """Holds the environment for one step; raises Busy when another process keeps it for too long."""
        while True:
            make_private(os.path.realpath(self.path))
            try:
                directory = Directory.open(os.path.realpath(self.path))
            except FileNotFoundError:
                continue  # its previous holder removed it just now
            with directory, self._lock(directory, purpose):
                if not self._is_current(directory):
                    continue  # its previous holder removed it
                self._directory = directory
                self._data = self._read(directory)
                try:
                    yield
                finally:
                    self._directory = None
                return

    @contextmanager
    def _lock(self, directory: Directory, purpose: str) -> Iterator[None]:
        try:
            lock = exclusive(directory, wait=self._wait, purpose=purpose)
            lock.__enter__()
        except Busy as error:
            raise Busy(str(error).replace("The store", f"The environment {self._name}"), hint="Try again") from None
        try:
            yield
        finally:
            lock.__exit__(None, None, None)

    def _is_current(self, directory: Directory) -> bool:
        try:
            there = os.stat(self.path)
        except FileNotFoundError:
            return False
        here = os.fstat(directory.fd)
        return (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino)

    def _read(self, directory: Directory) -> dict[str, Any]:
        try:
            data = json.loads(directory.read(_FILE, limit=_LIMIT))
        except FileNotFoundError:
            return {}
        except ValueError:
            data = None
        if not isinstance(data, dict):
            raise StoreDamaged(
                f"The record {self.path}/record.json cannot be read. Containers and images are untouched.",
                hint=f"Move it away, then repeat this: mv {self.path}/record.json{{,.damaged}}",
            )
        return data

    def _write(self) -> None:
        if self._directory is None:
            raise UserError("The record is changed by its holder only. Nothing was changed.")
        self._directory.unlink(_NEW, missing_ok=True)
        text = json.dumps(self._data, separators=(",", ":")).encode("ascii")
        write_durably(self._directory, _FILE, [text], temporary=_NEW, what="the record of the environment")

    # -- the step under way ---------------------------------------------------------------------

    @property
    def journal(self) -> dict[str, Any] | None:
        """The step under way, None if there is none."""
        return self._data.get("journal")

    def begin(self, journal: dict[str, Any]) -> None:
        """Notes the step under way, in place of the one before."""
        self._data["journal"] = journal
        self._write()

    def end(self, *, abandoned: str = "") -> None:
        """Notes that the step is over; an abandoned checkpoint is remembered, so that its image can be removed late."""
        self._data.pop("journal", None)
        if abandoned:
            self._data["abandoned"] = [*self.abandoned, abandoned][-_ABANDONED_KEPT:]
        self._write()

    @property
    def abandoned(self) -> list[str]:
        """The ids of checkpoints that were begun and given up."""
        return list(self._data.get("abandoned", ()))

    # -- what people said -----------------------------------------------------------------------

    @property
    def notes(self) -> list[dict[str, Any]]:
        """The notes about checkpoints, oldest first."""
        return list(self._data.get("notes", ()))

    def set_notes(self, notes: list[dict[str, Any]]) -> None:
        """Puts other notes in their place."""
        self._data["notes"] = notes
        self._write()

    def remove(self) -> None:
        """Removes the record, for an environment of which nothing is left."""
        name, gone = os.fsencode(os.path.basename(self.path)), f".gone-{random_name(8)}".encode()
        with Directory.open(os.path.realpath(os.path.dirname(self.path))) as parent:
            # Renamed first: a process that waits for its lock sees that it is not the record any more.
            parent.rename(name, gone)
            for _ in range(_TRIES):
                try:
                    parent.remove_tree(gone)
                except OSError as error:
                    if error.errno != errno.ENOTEMPTY:
                        raise
                else:
                    return
