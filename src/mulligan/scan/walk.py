"""
The walk over the workspace.

Directories are opened one below the other and never through a link. A directory whose own stat fields, scope rules and
entries' stat fields are as remembered is not read at all; otherwise it is listed, each name decided, and what changed is read.
After the walk every directory is looked at once more: one that changed meanwhile makes the walk start over with what is
known, and one that will not hold still is listed as `moving`.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from typing import NamedTuple

from mulligan.model.checkpoint import (
    EXCLUDED,
    IGNORED,
    MOVING,
    OTHER_FILESYSTEM,
    SECRET,
    SPECIAL,
    UNREADABLE,
)
from mulligan.model.paths import join
from mulligan.safefs.directory import Directory
from mulligan.scan.cache import Cache
from mulligan.scan.ignore import Rules
from mulligan.scan.listing import Listing
from mulligan.scan.reading import FATAL, Sink, Unreadable, capture, fields
from mulligan.scan.record import NO_DIRECTORY, STAT, Missed, Record, Stat, can_be_remembered, unproven
from mulligan.scan.result import Defaults, Scan
from mulligan.scan.scope import IGNORE_FILE, Scope, database_groups
from mulligan.scan.trees import Sealed, seal

# A file younger than this when it was looked at is read again next time: a second edit within the same tick of the
# kernel's clock leaves the same stat fields. Ticks are 1 to 10 ms; whole seconds betray a file system without finer stamps.
_YOUNG = 40_000_000
_YOUNG_COARSE = 2_100_000_000
_ROUNDS = 3
_OPEN_LEVELS = 128
_IGNORES_LIMIT = 4 << 20
_STATIC = frozenset({IGNORED, EXCLUDED, SPECIAL})
# Opening a directory fails so when it was removed, or swapped for something else.
_GONE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})

Progress = Callable[[int], None]


class Options(NamedTuple):
    """How a scan is made."""

    sink: Sink
    settle: bool = True
    index_changed: bool = False
    progress: Progress | None = None


class _Frame:
    """A directory that is being walked."""

    __slots__ = (
        "changed",
        "children",
        "directory",
        "key",
        "modes",
        "next",
        "old",
        "only",
        "out",
        "path",
        "perm",
        "record",
        "rules",
    )

    def __init__(self, path: bytes, directory: Directory, rules: Rules, key: bytes, *, only: bool) -> None:
        self.path = path
        self.directory = directory
        self.rules = rules
        self.key = key
        self.only = only
        self.out: frozenset[bytes] = frozenset()
        self.next = 0
        self.perm = 0o755
        self.changed = True
        self.record = Record()
        self.old: Record | None = None
        self.modes: list[int] = []
        self.children: list[tuple[bytes, Record]] = []


class Scanner:
    """One scan of one workspace; make a new one for each."""

    def __init__(
        self,
        root: Directory,
        scope: Scope,
        cache: Cache,
        defaults: Defaults,
        now_ns: Callable[[], int],
        options: Options,
    ) -> None:
        self._root = root
        self._scope = scope
        self._cache = cache
        self._defaults = defaults
        self._now_ns = now_ns
        self._options = options
        self._device = os.fstat(root.fd).st_dev
        self._earlier: dict[bytes, Record] = {}

    def run(self) -> Scan:
        """Returns the workspace as it is."""
        for _ in range(_ROUNDS):
            scan = self._walk()
            restless = self._restless() if self._options.settle else []
            if not restless:
                return scan
            self._earlier = {**self._earlier, **scan.records}
        for path in restless:
            scan.missed[path] = Missed(path, MOVING, "files came and went while it was read")
        return scan

    def _walk(self) -> Scan:
        self._started = self._now_ns()
        self._scan = Scan(self._defaults, self._cache)
        self._seen: dict[bytes, tuple[int, int, int]] = {}
        self._read = 0
        rules, scope = self._scope.rules, self._scope
        root = _Frame(b"", Directory(os.dup(self._root.fd)), rules, scope.key(rules, only_tracked=False), only=False)
        stack = [root]
        try:
            self._fill(root)
            while stack:
                self._step(stack)
        finally:
            for frame in stack:
                frame.directory.close()
        self._scan.tree, self._scan.modes = root.record.tree, root.record.modes
        self._scan.visited, self._scan.is_wanted = (
            self._seen,
            lambda path: self._scope.wanted_inside(path, is_dir=False),
        )
        self._scan.gone = [path for path in self._cache.paths() if path not in self._seen]
        return self._scan

    def _step(self, stack: list[_Frame]) -> None:
        frame = stack[-1]
        if frame.next < len(frame.record.dirs):
            name = frame.record.dirs[frame.next]
            frame.next += 1
            child = self._enter(frame, name) if self._reopened(frame) else None
            if child is not None:
                stack.append(child)
                if len(stack) > _OPEN_LEVELS + 1:
                    stack[-_OPEN_LEVELS - 1].directory.close()
            return
        stack.pop()
        frame.directory.close()
        self._finish(frame)
        if stack and (frame.record.names or frame.record.dirs or not frame.only):
            stack[-1].children.append((frame.path.rpartition(b"/")[2], frame.record))
            stack[-1].changed |= frame.changed
        elif stack:
            # Nothing in it today; what is wanted may come back without a trace in the directory above.
            stack[-1].changed = True
            stack[-1].record.trusted = False

    def _reopened(self, frame: _Frame) -> bool:
        """Opens a directory again that was closed because too many were open; returns whether it is still there."""
        if frame.directory.fd >= 0:
            return True
        try:
            frame.directory = self._root.descend(frame.path)
        except OSError as error:
            if error.errno not in _GONE:
                raise
            frame.changed = True  # the second look at its parent notices
            return False
        return True

    # -- one directory ----------------------------------------------------------------------------

    def _enter(self, parent: _Frame, name: bytes) -> _Frame | None:
        path = join(parent.path, name)
        try:
            directory = parent.directory.child(name)
        except OSError as error:
            if error.errno in FATAL:
                raise
            # Gone or swapped meanwhile: the second look at the parent notices. There, and not to be read: a finding.
            if error.errno not in _GONE:
                self._miss_directory(parent, name, UNREADABLE, os.strerror(error.errno or 0))
            parent.changed = True
            return None
        only = parent.only or name in parent.out
        frame = _Frame(path, directory, parent.rules, parent.key, only=only)
        if only != parent.only:
            frame.key = self._scope.key(frame.rules, only_tracked=True)
        try:
            if os.fstat(directory.fd).st_dev != self._device:
                directory.close()
                self._miss_directory(parent, name, OTHER_FILESYSTEM, "another file system is mounted here")
                return None
            self._fill(frame)
        except Unreadable as finding:
            directory.close()
            del self._seen[path]
            self._miss_directory(parent, name, finding.reason, finding.detail)
            return None
        except BaseException:
            directory.close()
            raise
        return frame

    def _miss_directory(self, parent: _Frame, name: bytes, reason: str, detail: str) -> None:
        if parent.record is parent.old:
            parent.record = parent.record.copy()
        parent.record.missed.append(Missed(name, reason, detail))
        parent.record.trusted = False
        parent.changed = True

    def _fill(self, frame: _Frame) -> None:
        st = os.fstat(frame.directory.fd)
        own = (st.st_ino, st.st_mtime_ns, st.st_ctime_ns)
        self._seen[frame.path] = own
        frame.perm = st.st_mode & 0o7777
        frame.old = old = self._earlier.get(frame.path) or self._cache.get(frame.path)
        known = old is not None and old.stat == own
        names = None if known else _names(frame.directory)
        if old.has_ignores if known and old else IGNORE_FILE in (names or ()):
            frame.rules = frame.rules.enter(frame.path, self._ignore_file(frame.directory))
            frame.key = self._scope.key(frame.rules, only_tracked=frame.only)
        if (
            known
            and old
            and old.key == frame.key
            and old.trusted
            and old.perm == frame.perm
            and self._still_out(frame, old)
        ):
            record = self._verify(frame, old)
            if record is not None:
                frame.record, frame.out = record, frozenset(m.name for m in record.missed)
                return
        record = frame.record = self._evaluate(frame, _names(frame.directory) if names is None else names)
        frame.out = frozenset(m.name for m in record.missed)
        record.key, record.perm = frame.key, frame.perm
        record.stat = own if can_be_remembered(st.st_mtime_ns) and not self._is_young(st.st_ctime_ns) else NO_DIRECTORY

    def _ignore_file(self, directory: Directory) -> bytes:
        try:
            return directory.read(IGNORE_FILE, limit=_IGNORES_LIMIT)
        except OSError as error:
            if error.errno in FATAL:
                raise
            return b""  # a link, a directory or unreadable: git does not read it either

    def _still_out(self, frame: _Frame, old: Record) -> bool:
        """Whether what is in and what is out still is, now that the git index changed."""
        if not self._options.index_changed:
            return True
        if old.leans:
            return False
        tracked = self._scope.tracked
        paths = [join(frame.path, m.name) for m in old.missed]
        return not any(path in tracked or tracked.below(path) for path in paths)

    def _is_young(self, ctime_ns: int) -> bool:
        return ctime_ns >= self._started - (_YOUNG if ctime_ns % 1_000_000_000 else _YOUNG_COARSE)

    # -- the quick way: everything as remembered, or nearly ---------------------------------------

    def _verify(self, frame: _Frame, old: Record) -> Record | None:
        look, fd, changed = os.stat, frame.directory.fd, []
        try:
            for name, want in zip(old.names, STAT.iter_unpack(old.stats), strict=True):
                st = look(name, dir_fd=fd, follow_symlinks=False)
                if (st.st_ino, st.st_mode, st.st_size, st.st_mtime_ns, st.st_ctime_ns) != want:
                    changed.append((name, st))
        except OSError:
            return None  # something vanished: list the directory
        if not changed:
            # What an earlier round saw is in no checkpoint yet: its trees must be made once more.
            frame.changed = frame.path in self._earlier
            return old
        return None if old.grouped or len(changed) > len(old.names) // 2 + 8 else self._patch(frame, old, changed)

    def _patch(self, frame: _Frame, old: Record, changed: list[tuple[bytes, os.stat_result]]) -> Record | None:
        record = old.copy()
        stats, oids = bytearray(old.stats), bytearray(old.oids)
        modes = [mode for _, mode, _, _, _ in STAT.iter_unpack(old.stats)]
        for name, st in changed:
            if not (stat.S_ISREG(st.st_mode) or stat.S_ISLNK(st.st_mode)) or st.st_size > self._scope.max_file_size:
                return None
            try:
                oid, seen = self._capture(frame, name, st)
            except (Unreadable, FileNotFoundError):
                return None
            at = old.find(name)
            stats[at * STAT.size : (at + 1) * STAT.size] = self._remember(frame, name, seen)
            oids[at * 20 : at * 20 + 20] = oid
            modes[at] = seen.mode
        frame.modes, record.stats, record.oids = modes, bytes(stats), bytes(oids)
        return record

    # -- the long way: list, decide, read -----------------------------------------------------------

    def _evaluate(self, frame: _Frame, names: list[bytes]) -> Record:
        listing = Listing(frame.path, self._scope, frame.rules, only=frame.only)
        for name in names:
            try:
                st = frame.directory.stat(name)
            except FileNotFoundError:
                continue
            except OSError as error:
                if error.errno in FATAL:
                    raise
                listing.missed.append(Missed(name, UNREADABLE, os.strerror(error.errno or 0)))
                continue
            listing.add(name, st)
        listing.group_databases()
        record = Record(has_ignores=IGNORE_FILE in names)
        record.grouped, record.leans = listing.grouped, listing.leans
        record.dirs, record.missed = listing.dirs, sorted(listing.missed)
        self._read_files(frame, record, listing.files)
        record.trusted = all(
            m.reason in _STATIC or (m.reason == SECRET and m.name not in listing.files) for m in record.missed
        )
        return record

    def _read_files(self, frame: _Frame, record: Record, files: dict[bytes, os.stat_result]) -> None:
        old, stats, oids = frame.old, [], []
        known = {name: at for at, name in enumerate(old.names)} if old else {}
        groups = database_groups(files) if record.grouped else {}
        together = {name: main for main, names in groups.items() for name in (main, *names)}
        found: dict[bytes, tuple[bytes, Stat]] = {}
        for main, names in groups.items():
            self._read_group(frame, record, [main, *names], found)
        for name in sorted(files):
            at = known.get(name, -1)
            seen = fields(files[name])
            if name in together:
                if name not in found:
                    continue
                oid, seen = found[name]
            elif old is not None and at >= 0 and old.stat_at(at) == seen:
                oid = old.oid_at(at)
            else:
                result = self._try(frame, record, name, files[name])
                if result is None:
                    continue
                oid, seen = result
            record.names.append(name)
            frame.modes.append(seen.mode)
            stats.append(self._remember(frame, name, seen))
            oids.append(oid)
        record.stats, record.oids = b"".join(stats), b"".join(oids)

    def _try(self, frame: _Frame, record: Record, name: bytes, st: os.stat_result) -> tuple[bytes, Stat] | None:
        try:
            return self._capture(frame, name, st)
        except FileNotFoundError:
            return None
        except Unreadable as finding:
            record.missed.append(Missed(name, finding.reason, finding.detail))
            return None

    def _read_group(
        self, frame: _Frame, record: Record, names: list[bytes], found: dict[bytes, tuple[bytes, Stat]]
    ) -> None:
        """Reads a database and its journals until all of them held still together."""
        for _ in range(_ROUNDS):
            group: dict[bytes, tuple[bytes, Stat]] = {}
            try:
                for name in names:
                    group[name] = self._capture(frame, name, frame.directory.stat(name))
                if all(fields(frame.directory.stat(name)) == seen for name, (_, seen) in group.items()):
                    found.update(group)
                    return
            except FileNotFoundError:
                names = [name for name in names if frame.directory.exists(name)]
            except Unreadable as finding:
                record.missed += [Missed(name, finding.reason, finding.detail) for name in names]
                return
        record.missed += [Missed(name, MOVING, "the database was written to each time it was read") for name in names]

    def _capture(self, frame: _Frame, name: bytes, st: os.stat_result) -> tuple[bytes, Stat]:
        self._read += 1
        if self._options.progress is not None and not self._read & 255:
            self._options.progress(self._read)
        wanted = self._scope.has_includes and self._scope.included(join(frame.path, name))
        return capture(frame.directory, name, st, self._options.sink, check_secrets=not wanted)

    def _remember(self, frame: _Frame, name: bytes, seen: Stat) -> bytes:
        if self._is_young(seen.ctime_ns) or not can_be_remembered(seen.mtime_ns):
            self._scan.observed[join(frame.path, name)] = seen
            return unproven(seen.mode)
        return STAT.pack(*seen)

    # -- after the directory ------------------------------------------------------------------------

    def _finish(self, frame: _Frame) -> None:
        record, scan = frame.record, self._scan
        if frame.changed:
            if record is frame.old:
                record = frame.record = record.copy()
            if len(frame.modes) != len(record.names):
                frame.modes = [mode for _, mode, _, _, _ in STAT.iter_unpack(record.stats)]
            record.dirs = [name for name, _ in frame.children]
            seal(Sealed(record, frame.modes, frame.children), self._defaults, scan.objects)
            scan.records[frame.path] = record
            if frame.old is not None:
                scan.remember_trees(frame.path, frame.old, record)
        scan.files += len(record.names)
        for m in record.missed:
            scan.missed[join(frame.path, m.name)] = m

    def _restless(self) -> list[bytes]:
        """Returns the directories that changed while the walk went on."""
        restless = []
        for path, seen in self._seen.items():
            try:
                st = os.stat(path or b".", dir_fd=self._root.fd, follow_symlinks=False)
            except OSError:
                # Too deep for one path, or gone: its parent tells.
                continue
            if (st.st_ino, st.st_mtime_ns, st.st_ctime_ns) != seen:
                restless.append(path)
        return restless


def _names(directory: Directory) -> list[bytes]:
    try:
        return sorted(directory.names())
    except OSError as error:
        if error.errno in FATAL:
            raise
        raise Unreadable(UNREADABLE, os.strerror(error.errno or 0)) from None
