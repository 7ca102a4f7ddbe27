"""
Known-bad builds for the sweep of failing calls: engines that meet a failing call in one wrong way each.

Each turns the engine of this process into one that must not be shipped.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from mulligan.errors import DurabilityLost
from mulligan.restore import stage
from mulligan.safefs import directory, durable, errors, syscalls
from mulligan.store import pack_writer


def _spread(name: str, function: Any) -> None:
    """Puts a function of `durable` in the place of the real one, wherever it was imported to."""
    import sys

    real = getattr(durable, name)
    for module in list(sys.modules.values()):
        if getattr(module, "__name__", "").startswith("mulligan") and getattr(module, name, None) is real:
            setattr(module, name, function)


def _ignores_fsync() -> None:
    """An fsync that fails is taken for one that did not."""
    real = durable.sync

    def sync(fd: int, what: str) -> None:
        with suppress(DurabilityLost):
            real(fd, what)

    _spread("sync", sync)


def _repeats_fsync() -> None:
    """An fsync that fails is tried once more, and believed."""

    def sync(fd: int, what: str) -> None:
        try:
            syscalls.calls.fsync(fd)
        except OSError:
            syscalls.calls.fsync(fd)

    _spread("sync", sync)


def _leaves_temporaries() -> None:
    """What was staged for a restore that is given up stays in the workspace."""
    stage.Stager.clear = lambda self, sparing=(): True


def _leaks_descriptors() -> None:
    """A file that could not be made ready stays open."""

    def create(self: Any, name: bytes, mode: int = 0o600) -> int:
        fd = syscalls.calls.open(name, directory.CREATE_FLAGS, mode, dir_fd=self.fd)
        syscalls.calls.fchmod(fd, mode)
        return fd

    directory.Directory.create = create


def _says_it_in_pythons_words() -> None:
    """What the system refused is raised as it came."""
    errors.typed = lambda error: error


def _writes_short() -> None:
    """One write is taken to have written everything."""

    def write_all(fd: int, data: bytes) -> None:
        syscalls.calls.write(fd, data)

    for module in (directory, durable, pack_writer, stage):
        module.write_all = write_all


def _swallows_errors_of_reading() -> None:
    """A file that cannot be read is left out without a word."""
    from mulligan.scan.read import Reader

    real = Reader._try

    def attempt(self: Any, place: Any, record: Any, name: bytes, st: os.stat_result, found: Any) -> None:
        real(self, place, record, name, st, found)
        if name not in found:
            record.missed.clear()

    Reader._try = attempt


BUILDS: dict[str, Callable[[], None]] = {
    "ignores-fsync": _ignores_fsync,
    "repeats-fsync": _repeats_fsync,
    "leaves-temporaries": _leaves_temporaries,
    "leaks-descriptors": _leaks_descriptors,
    "python-errors": _says_it_in_pythons_words,
    "writes-short": _writes_short,
}
