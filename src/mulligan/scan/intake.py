"""Reads the files that a walk wants into the store, and counts them."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection

from mulligan.model.checkpoint import SECRET
from mulligan.model.paths import join
from mulligan.safefs.directory import Directory
from mulligan.scan.reading import Sink, Unreadable, capture
from mulligan.scan.record import Stat
from mulligan.scan.scope import Scope

Progress = Callable[[int], None]


class Intake:
    """Reads files into a sink, and counts them."""

    def __init__(self, sink: Sink, scope: Scope, progress: Progress | None) -> None:
        self.sink = sink
        self.read = 0
        self._scope = scope
        self._progress = progress
        self.clock = 0
        self.leaning: set[bytes] = set()  # files that are captured only because the git index tracks them

    def begin(self, clock: int) -> None:
        """Begins a walk; the clock of stamps stands at `clock`, and nothing was looked at yet."""
        self.clock, self.read = clock, 0

    def part(self) -> None:
        """In a forked process: goes on with a share of its own."""
        self.read, self._progress = 0, None
        self.sink.part()

    def capture(self, directory: Directory, above: bytes, name: bytes, st: os.stat_result) -> tuple[bytes, Stat]:
        """Reads one file or link of a directory; see `scan.reading.capture`."""
        self.read += 1
        if self._progress is not None and not self.read & 0xFF:
            self._progress(self.read)
        path, checks = join(above, name), self._scope.checks_secrets
        try:
            return capture(directory, name, st, self.sink, check_secrets=checks, since=self.clock)
        except Unreadable as finding:
            # The index is read only for a file that begins like a secret: few do.
            if finding.reason != SECRET or path not in self._scope.tracked:
                raise
        self.leaning.add(path)
        return capture(directory, name, directory.stat(name), self.sink, check_secrets=False, since=self.clock)

    def leans(self, directory: bytes, names: Collection[bytes]) -> bool:
        """Returns whether some files of a directory are captured only because the git index tracks them."""
        return bool(self.leaning) and any(join(directory, name) in self.leaning for name in names)
