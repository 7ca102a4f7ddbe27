"""
Where the files that a walk wants go in: read by the compiled part where it can, each by itself otherwise.

The compiled part is asked for many files at once: for all of a directory that are to be read, or, in a watched workspace,
for everything that was written to, while the walk is on its way there. What it read counts only for a file with the very
stat fields that the walk sees; whatever it left alone is read by `scan.reading`, which decides and reports.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from mulligan.model.checkpoint import SECRET
from mulligan.model.paths import join
from mulligan.safefs.directory import Directory
from mulligan.scan.glance import load
from mulligan.scan.reading import Sink, Unreadable, capture
from mulligan.scan.record import STAT, Stat, has_room_for
from mulligan.scan.scope import Scope

if TYPE_CHECKING:
    from mulligan.safefs.bulk import Ahead, Reader, Taken, Wanted

Progress = Callable[[int], None]
Files = Sequence[tuple[bytes, os.stat_result]]

# Loading the compiled part and making room takes 2 ms, which are so many files read without it.
_HELP_FILES = 40
# A call for fewer files than this costs what it saves.
_FEW = 2
# How many files and bytes are asked for at once; the room that they get is twice as large.
_MOST_BYTES = 4 << 20


class Intake:
    """Reads files into a sink, and counts them."""

    def __init__(self, sink: Sink, scope: Scope, progress: Progress | None, compiled: str) -> None:
        self.sink = sink
        self.read = 0
        self._scope = scope
        self._progress = progress
        self._compiled = compiled
        self.clock = 0
        self._reader: Reader | None = None
        self._ahead: Ahead | None = None
        self._unused: dict[bytes, dict[bytes, Taken]] = {}  # what was read ahead, and not enough
        self._owed: list[Taken] = []  # what was read ahead, and taken, and has no record yet
        self.leaning: set[bytes] = set()  # files that are captured only because the git index tracks them
        self.later = False  # whether somebody will settle it when the walk is over

    def begin(self, clock: int) -> None:
        """Begins a walk; the clock of stamps stands at `clock`, and nothing was looked at yet."""
        self.clock, self.read, self.later = clock, 0, False
        self.end()

    def end(self) -> None:
        """Ends what was begun in the background, whatever of it was taken, unless somebody settles it `later`."""
        if self.later:
            return
        ahead, self._ahead, self._unused, self._owed = self._ahead, None, {}, []
        if ahead is not None:
            ahead.close()

    def settle(self) -> None:
        """Gives the sink what was read ahead and taken, and ends what was begun in the background; not what is for `later`."""
        if self._ahead is not None and self._owed and not self.later:
            self.sink.add_records(self._ahead.finished(self._owed))
        self.end()

    def part(self) -> None:
        """In a forked process: goes on with a share of its own."""
        self.read, self._progress = 0, None
        self.sink.part()

    def capture(self, directory: Directory, above: bytes, name: bytes, st: os.stat_result) -> tuple[bytes, Stat]:
        """Reads one file or link of a directory; see `scan.reading.capture`."""
        self._count(1)
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

    def many(self, directory: Directory, above: bytes, files: Files) -> dict[bytes, Taken]:
        """Returns those of some files that could be read in one go; the others are to be captured each."""
        done: dict[bytes, Taken] = {}
        if self._ahead is not None:
            ready = self._unused.pop(above, None) or self._ahead.take(above)[0]
            # What was read ahead counts as far as the files still have the stat fields that they had.
            done = {name: ready[name] for name, stat in _packed(files) if name in ready and ready[name][3] == stat}
            files = [(name, st) for name, st in files if name not in done]
            self.keep(done.values())
        if len(files) >= _FEW and self._has_help(len(files)) and self._reader is not None:
            read: dict[bytes, Taken] = {}
            for names, stats in _batches(files):
                each = zip(names, self._reader.read(directory.fd, names, stats, self.clock), strict=True)
                read |= {name: taken for name, taken in each if taken is not None}
            self.sink.add_records(read.values())
            self._count(len(read))
            done |= read
        return done

    def ready(self, directory: bytes, names: Collection[bytes]) -> tuple[bytes, dict[bytes, Taken]] | None:
        """
        Returns a directory's own stat fields and its files of these names, if all of them were read ahead; see `keep`.

        Not those that are not captured, and were found not to be there: they came and went.
        """
        own = self._ahead.own(directory) if self._ahead is not None else b""
        if self._ahead is None or not any(own):
            return None
        found, absent = self._ahead.take(directory)
        if found.keys() | absent == names:
            return own, found
        self._unused[directory] = found
        return None

    def keep(self, taken: Collection[Taken]) -> None:
        """Takes files in that were read ahead; the sink gets them with `settle`."""
        self._owed += taken
        self._count(len(taken))

    def read_ahead(self, root: Directory, most: int, files: Callable[[], Mapping[bytes, Wanted]]) -> None:
        """Begins to read at most so many files, by directory in the order of the walk; asks for them where it can be done."""
        library = load(self._compiled) if most >= _HELP_FILES else None
        wanted = files() if library is not None else {}
        if library is not None and wanted:
            from mulligan.safefs.bulk import Ahead

            self._ahead = Ahead(library, root.fd, wanted, self.clock, hash_only=self.sink.hash_only)

    def _has_help(self, count: int) -> bool:
        if self._reader is None and self._compiled and self.read + count >= _HELP_FILES:
            library, self._compiled = load(self._compiled), ""  # asked once: it does not come while we look
            if library is not None:
                from mulligan.safefs.bulk import Reader

                self._reader = Reader(library, hash_only=self.sink.hash_only)
        return self._reader is not None

    def _count(self, files: int) -> None:
        before, self.read = self.read, self.read + files
        if self._progress is not None and before >> 8 != self.read >> 8:
            self._progress(self.read)


def _packed(files: Files) -> Iterator[tuple[bytes, bytes]]:
    pack = STAT.pack
    for name, st in files:
        if has_room_for(st.st_mtime_ns) and has_room_for(st.st_ctime_ns):
            yield name, pack(st.st_ino, st.st_mode, st.st_size, st.st_mtime_ns, st.st_ctime_ns)


def _batches(files: Files) -> Iterator[tuple[list[bytes], list[bytes]]]:
    """Yields names and stat fields of files that are not too large, so many at a time that there is room for them."""
    from mulligan.safefs.bulk import LARGEST, MOST_FILES

    at, some = 0, [(name, st) for name, st in files if st.st_size <= LARGEST]
    while at < len(some):
        end, size = at, 0
        while end < len(some) and end - at < MOST_FILES and size <= _MOST_BYTES:
            size += some[end][1].st_size
            end += 1
        rows = [*_packed(some[at:end])]
        yield [name for name, _ in rows], [stat for _, stat in rows]
        at = end
