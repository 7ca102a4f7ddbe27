"""
One directory of the workspace: listed, compared with its record, and what changed in it read.

Where names and rules are those of the last time, what was decided of each name still stands, and only files that are not as they
were are read. Otherwise every name is decided anew (`scan.scope`), and what is remembered of a file counts as far as its stat
fields are the same.

What is stored of a file is a state that it really had. It is read between two looks at its stat fields; if they differ, it is read
again, and after a few rounds given up as `moving`. That they are the same proves something only if every write since the first
look would have changed them: the file must not have changed in the present tick of the kernel's clock, and no write that began
before may still be under way (`safefs.clock`). Never follows a link, never waits on a FIFO, never fails on a file that vanishes.

LIMIT: a live writable mmap changes bytes without touching the stat fields until they are written back.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import NamedTuple

from mulligan.model.checkpoint import EXCLUDED, IGNORED, MOVING, SECRET, SPECIAL, UNREADABLE, WORKTREE
from mulligan.model.objects import BLOB, object_id
from mulligan.model.paths import join
from mulligan.safefs import syscalls
from mulligan.safefs.clock import SECOND, let_writes_end, pass_coarse_tick, pass_time, stamping_clock, tick_began
from mulligan.safefs.directory import ABSENT, CHUNK, EXHAUSTED, READ_FLAGS, Directory, NotRegular, is_in_cloud, read_all
from mulligan.scan.cache import NO_DIRECTORY, STAT, DirectoryRecord, Missed, Stat, can_be_remembered, unproven
from mulligan.scan.ignore import IgnoreRules
from mulligan.scan.scope import IGNORE_FILE, Listing, Scope, database_groups
from mulligan.scan.secrets import secret_content
from mulligan.scan.trees import Sink

STREAM_FROM = 8 << 20
_ROUNDS = 4
_HEAD = 4096
# A write of 2 GiB, the most that one call does, may take minutes on a slow disk; the file has been stamped at its beginning.
_LONGEST_WRITE = 600_000_000_000
_MOST_LOOKS = 25
# Where a tick is a second long, a scan waits for as long as this in all; what changes in each of them is moving.
_PATIENCE = 4 * SECOND
IGNORES_LIMIT = 4 << 20
Progress = Callable[[int], None]


class UnreadableFile(Exception):
    """A file that should be captured and cannot be: reason and detail."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.detail = detail


def _refused(error: OSError) -> UnreadableFile:
    """Returns the finding for what the system refuses to read; raises an error of this process."""
    if error.errno in EXHAUSTED:
        raise error
    return UnreadableFile(UNREADABLE, os.strerror(error.errno or 0))


def fields(st: os.stat_result) -> Stat:
    """Returns the stat fields that matter."""
    return Stat(st.st_ino, st.st_mode, st.st_size, st.st_mtime_ns, st.st_ctime_ns)


def names_in(directory: Directory) -> list[bytes]:
    """Returns the names in a directory, sorted; Unreadable with the reason."""
    try:
        return sorted(directory.names())
    except OSError as error:
        raise _refused(error) from None


def ignores_in(directory: Directory) -> tuple[bytes, str]:
    """Returns the ignore rules that stand in a directory, and why they could not be read if that is so."""
    try:
        return directory.read(IGNORE_FILE, limit=IGNORES_LIMIT), ""
    except OSError as error:
        if error.errno in EXHAUSTED:
            raise
        if not isinstance(error, NotRegular) and error.errno not in ABSENT:
            return b"", str(error.strerror)
        return b"", ""  # a link, a directory or unreadable: git does not read it either


def capture(
    directory: Directory, name: bytes, st: os.stat_result, sink: Sink, *, check_secrets: bool, since: int = 0
) -> tuple[bytes, Stat]:
    """
    Returns the id and stat fields of a file or link; FileNotFoundError if it is gone, Unreadable with the reason.

    The clock of stamps stood at `since` at some moment before `st` was looked at.
    """
    for _ in range(_ROUNDS):
        if stat.S_ISREG(st.st_mode) and st.st_ctime_ns >= tick_began(since, st.st_ctime_ns, directory.fd):
            st = _past_its_tick(directory, name, since)
        if stat.S_ISLNK(st.st_mode):
            found = _link(directory, name, st, sink)
        elif stat.S_ISREG(st.st_mode):
            fresh = st.st_ctime_ns >= since - _LONGEST_WRITE
            found = _regular(directory, name, st, sink, check_secrets=check_secrets, fresh=fresh)
        else:
            break
        if found is not None:
            return found, fields(st)
        st = directory.stat(name)
    raise UnreadableFile(MOVING, "it changed each time it was read")


def _past_its_tick(directory: Directory, name: bytes, since: int) -> os.stat_result:
    """Returns a look at a file such that every later write shows; waits for the end of the tick that it changed in."""
    latest = (since or stamping_clock()) + _PATIENCE
    for _ in range(_MOST_LOOKS):
        before = stamping_clock()
        st = directory.stat(name)
        began = tick_began(before, st.st_ctime_ns, directory.fd)
        # A stamp beyond the clock is finer than a tick, or of a future that a write would take back: no write repeats it.
        if st.st_ctime_ns < began or st.st_ctime_ns > stamping_clock():
            return st
        if began == before:
            pass_time()
        elif before < latest:
            pass_coarse_tick(directory.fd)
        else:
            break
    raise UnreadableFile(MOVING, "it changed in every tick of the system's clock")


def _open(directory: Directory, name: bytes) -> int | None:
    try:
        return syscalls.calls.open(name, READ_FLAGS, dir_fd=directory.fd)
    except FileNotFoundError:
        raise
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO, errno.EOPNOTSUPP, errno.ENOTDIR):
            return None  # swapped for a link or a socket: look again
        raise _refused(error) from None


def _regular(
    directory: Directory, name: bytes, st: os.stat_result, sink: Sink, *, check_secrets: bool, fresh: bool
) -> bytes | None:
    """Reads a file into the sink; returns its id, None where it is not what was looked at."""
    fd = _open(directory, name)
    if fd is None:
        return None
    try:
        if fresh:
            let_writes_end(fd)
        if st.st_size > STREAM_FROM:
            return _streamed(fd, st, sink, check_secrets=check_secrets)
        data = _whole(fd, st.st_size)
        after = os.fstat(fd)
    finally:
        syscalls.calls.close(fd)
    if len(data) != st.st_size or not _same(st, after):
        return None
    if check_secrets and (secret := secret_content(data[:_HEAD])):
        raise UnreadableFile(SECRET, secret)
    oid = object_id(BLOB, data)
    sink.add_hashed(oid, BLOB, data)
    return oid


def _whole(fd: int, size: int) -> bytes:
    try:
        return read_all(fd, size + 1, expect=size)
    except OSError as error:
        raise _refused(error) from None


def _streamed(fd: int, st: os.stat_result, sink: Sink, *, check_secrets: bool) -> bytes | None:
    try:
        head = os.pread(fd, _HEAD, 0) if check_secrets else b""
    except OSError as error:
        raise _refused(error) from None
    if secret := secret_content(head):
        raise UnreadableFile(SECRET, secret)
    try:
        oid = sink.add_stream(st.st_size, _chunks(fd, st.st_size))
    except ValueError:
        return None  # grew or shrank while it was read
    return oid if _same(st, os.fstat(fd)) else None


def _chunks(fd: int, size: int) -> Iterator[bytes]:
    # One byte more than expected is asked for, so that growth is noticed.
    left = size + 1
    while left > 0:
        try:
            chunk = syscalls.calls.read(fd, min(CHUNK, left))
        except OSError as error:
            raise _refused(error) from None
        if not chunk:
            return
        left -= len(chunk)
        yield chunk


def _link(directory: Directory, name: bytes, st: os.stat_result, sink: Sink) -> bytes | None:
    try:
        target = directory.readlink(name)
    except FileNotFoundError:
        raise
    except OSError:
        return None  # no link any more: look again
    if not _same(st, directory.stat(name)):
        return None
    oid = object_id(BLOB, target)
    sink.add_hashed(oid, BLOB, target)
    return oid


def _same(before: os.stat_result, after: os.stat_result) -> bool:
    return fields(before) == fields(after)


_DATABASE_ROUNDS = 3
# What is left out for one of these reasons stays out while name and rules are the same.
_STATIC = frozenset({IGNORED, EXCLUDED, SPECIAL, WORKTREE})
Found = dict[bytes, tuple[bytes, Stat]]  # by name: object id and stat fields


class DirectoryToRead(NamedTuple):
    """
    A directory to look at: the rules above it, what is remembered of it, and the names that may have changed, None for all.

    Where it is `only`, nothing is wanted but what is tracked or asked for by name. What is remembered of the names that were
    `written` proves nothing. `links` hears of files that have several names.
    """

    path: bytes
    directory: Directory
    rules: IgnoreRules
    old: DirectoryRecord | None
    only: bool
    names: Collection[bytes] | None
    written: Collection[bytes]
    links: Callable[[bytes, bytes], None]


class Reader:
    """Looks at directories, and reads files into a sink."""

    def __init__(self, scope: Scope, sink: Sink, progress: Progress | None, *, index_changed: bool) -> None:
        self.read = 0  # how many files
        self.observed: dict[bytes, Stat] = {}  # what was seen of files that are too young to be remembered
        self._scope, self._sink, self._progress, self._index_changed = scope, sink, progress, index_changed
        self._started = self._clock = 0

    def begin(self, started: int, clock: int) -> None:
        """Begins: nothing was looked at when the clocks stood there, the system's and that of stamps."""
        self._started, self._clock = started, clock

    def look(self, place: DirectoryToRead, st: os.stat_result) -> tuple[DirectoryRecord, IgnoreRules]:
        """Returns what is in a directory, the remembered record itself where nothing is new, and the rules in it."""
        old, own = place.old, (st.st_ino, st.st_mtime_ns, st.st_ctime_ns)
        nothing_happened = place.names is not None and not place.names
        is_listed = old is not None and (old.stat == own or nothing_happened)
        names = None if is_listed else names_in(place.directory)
        rules, unruly = place.rules, ""
        if old.has_ignores if old is not None and is_listed else IGNORE_FILE in (names or ()):
            content, unruly = ignores_in(place.directory)
            rules = rules.enter(place.path, content)
        key, perm = self._scope.key(rules, only_tracked=place.only), st.st_mode & 0o7777
        record = None
        if old is not None and old.trusted and (old.key, old.perm) == (key, perm) and not unruly:
            stands = is_listed or _holds_same_names(place.directory, old, names or [])
            record = self._refreshed(place, old) if stands and self._still_out(place, old) else None
        if record is None:
            names = names if names is not None else names_in(place.directory)
            record = self._decided(place, rules, names, unruly)
            record.key, record.perm, record.only = key, perm, place.only
        if record is not old or not is_listed:
            record = record.copy() if record is old else record
            record.stat = own if can_be_remembered(own[1], own[2], self._started) else NO_DIRECTORY
        return record, rules

    def _still_out(self, place: DirectoryToRead, old: DirectoryRecord) -> bool:
        """Whether what is in and what is out still is, now that the git index changed."""
        if not self._index_changed:
            return True
        if old.leans:
            return False
        tracked = self._scope.tracked
        paths = [join(place.path, row.name) for row in old.missed]
        return not any(path in tracked or tracked.below(path) for path in paths)

    # -- names and rules are as they were ---------------------------------------------------------------

    def _refreshed(self, place: DirectoryToRead, old: DirectoryRecord) -> DirectoryRecord | None:
        """Returns the record with what changed read; None where more than contents and bits of files changed."""
        try:
            changed = _changed(place, old)
        except OSError:
            return None  # something vanished
        if not changed:
            return old
        most, modes = self._scope.max_file_size, stat.S_IFMT
        if old.grouped or any(
            modes(st.st_mode) != modes(old.stat_at(at).mode)  # of a secret, only a link is captured
            or st.st_size > most
            or is_in_cloud(st)
            for at, _, st in changed
        ):
            return None
        record, stats, oids = old.copy(), bytearray(old.stats), bytearray(old.oids)
        for at, name, st in changed:
            try:
                oid, seen, leans = self._capture(place, name, st)
            except (UnreadableFile, FileNotFoundError):
                return None
            stats[at * STAT.size : (at + 1) * STAT.size] = self._remembered(place.path, name, seen)
            oids[at * 20 : at * 20 + 20] = oid
            record.leans |= leans
        record.stats, record.oids = bytes(stats), bytes(oids)
        return record

    # -- every name decided anew ------------------------------------------------------------------------

    def _decided(self, place: DirectoryToRead, rules: IgnoreRules, names: list[bytes], unruly: str) -> DirectoryRecord:
        listing = Listing(place.path, self._scope, rules, only=place.only)
        look, fd, add = os.stat, place.directory.fd, listing.add
        for name in names:
            if unruly and name == IGNORE_FILE:
                # More may be captured than its rules allow: that must not look like a whole checkpoint.
                listing.missed.append(Missed(name, UNREADABLE, unruly))
                continue
            try:
                st = look(name, dir_fd=fd, follow_symlinks=False)
            except FileNotFoundError:
                continue
            except OSError as error:
                if error.errno in EXHAUSTED:
                    raise
                listing.missed.append(Missed(name, UNREADABLE, os.strerror(error.errno or 0)))
                continue
            add(name, st)
        listing.group_databases()
        record = DirectoryRecord(has_ignores=IGNORE_FILE in names)
        record.grouped, record.leans = listing.grouped, listing.leans
        record.dirs, record.missed = sorted(listing.dirs), sorted(listing.missed)
        self._read_files(place, record, listing.files)
        record.trusted = all(
            row.reason in _STATIC or (row.reason == SECRET and row.name not in listing.files) for row in record.missed
        )
        return record

    def _read_files(self, place: DirectoryToRead, record: DirectoryRecord, files: dict[bytes, os.stat_result]) -> None:
        groups = database_groups(files) if record.grouped else {}
        found = self._known(place, files)
        record.leans |= (
            place.old is not None and place.old.leans and bool(found)
        )  # which of them lean is not remembered
        for main, others in groups.items():
            family = [main, *others]
            for name in family:
                found.pop(name, None)
            self._read_group(place, record, family, found)
        together = {name for main, others in groups.items() for name in (main, *others)}
        for name, st in files.items():
            if st.st_nlink > 1:
                place.links(place.path, name)
            if name not in found and name not in together:
                self._try(place, record, name, st, found)
        record.names = sorted(found)
        record.stats = b"".join([self._remembered(place.path, name, found[name][1]) for name in record.names])
        record.oids = b"".join([found[name][0] for name in record.names])

    def _known(self, place: DirectoryToRead, files: dict[bytes, os.stat_result]) -> Found:
        """Returns the files whose stat fields are those that are remembered."""
        old, found = place.old, Found()
        if old is None:
            return found
        # A file that the index tracked may begin like a secret: one that it tracks no longer is read again.
        doubted = old.leans and self._index_changed
        for at, (name, want) in enumerate(zip(old.names, STAT.iter_unpack(old.stats), strict=True)):
            st = files.get(name)
            if st is None or fields(st) != want or name in place.written:
                continue
            if not (doubted and join(place.path, name) not in self._scope.tracked):
                found[name] = (old.oid_at(at), Stat(*want))
        return found

    def _try(
        self, place: DirectoryToRead, record: DirectoryRecord, name: bytes, st: os.stat_result, found: Found
    ) -> None:
        try:
            oid, seen, leans = self._capture(place, name, st)
        except FileNotFoundError:
            return
        except UnreadableFile as finding:
            record.missed.append(Missed(name, finding.reason, finding.detail))
            return
        found[name] = (oid, seen)
        record.leans |= leans

    def _read_group(self, place: DirectoryToRead, record: DirectoryRecord, names: list[bytes], found: Found) -> None:
        """Reads a database and its journals until all of them held still together."""
        directory = place.directory
        for _ in range(_DATABASE_ROUNDS):
            group: Found = {}
            try:
                for name in names:
                    oid, seen, leans = self._capture(place, name, directory.stat(name))
                    group[name] = (oid, seen)
                    record.leans |= leans
                if all(fields(directory.stat(name)) == seen for name, (_, seen) in group.items()):
                    found.update(group)
                    return
            except FileNotFoundError:
                names = [name for name in names if directory.exists(name)]
            except UnreadableFile as finding:
                record.missed += [Missed(name, finding.reason, finding.detail) for name in names]
                return
        record.missed += [Missed(name, MOVING, "the database was written to each time it was read") for name in names]

    # -- one file ---------------------------------------------------------------------------------------

    def _capture(self, place: DirectoryToRead, name: bytes, st: os.stat_result) -> tuple[bytes, Stat, bool]:
        """Reads a file or link; returns its object, its stat fields, and whether it is captured only because git tracks it."""
        self.read += 1
        if self._progress is not None and not self.read & 0xFF:
            self._progress(self.read)
        directory, sink, clock = place.directory, self._sink, self._clock
        try:
            return *capture(directory, name, st, sink, check_secrets=self._scope.checks_secrets, since=clock), False
        except UnreadableFile as finding:
            # The index is read only for a file that begins like a secret: few do.
            if finding.reason != SECRET or join(place.path, name) not in self._scope.tracked:
                raise
        return *capture(directory, name, directory.stat(name), sink, check_secrets=False, since=clock), True

    def _remembered(self, path: bytes, name: bytes, seen: Stat) -> bytes:
        if not can_be_remembered(seen.mtime_ns, seen.ctime_ns, self._started):
            self.observed[join(path, name)] = seen
            return unproven(seen.mode)
        return STAT.pack(*seen)


def _changed(place: DirectoryToRead, old: DirectoryRecord) -> list[tuple[int, bytes, os.stat_result]]:
    """Returns the captured names that are not as remembered, with their places in the record; OSError where one is gone, or one came."""
    look, fd, changed, written = os.stat, place.directory.fd, list[tuple[int, bytes, os.stat_result]](), place.written
    if place.names is None:
        asked: Iterable[tuple[int, bytes]] = enumerate(old.names)
    else:
        asked = [(at, name) for name in place.names if (at := _position(place, old, name)) >= 0]
    for at, name in asked:
        st = look(name, dir_fd=fd, follow_symlinks=False)
        if st.st_nlink > 1:
            place.links(place.path, name)
        want = STAT.unpack_from(old.stats, at * STAT.size)
        if (st.st_ino, st.st_mode, st.st_size, st.st_mtime_ns, st.st_ctime_ns) != want or name in written:
            changed.append((at, name, st))
    return changed


def _position(place: DirectoryToRead, old: DirectoryRecord, name: bytes) -> int:
    """Returns the place of a name in a record, -1 for one that is left out or not there; OSError for one that came."""
    at = old.find(name)
    if at < 0 and not any(row.name == name for row in old.missed) and place.directory.exists(name):
        raise FileExistsError(name)
    return at


def _holds_same_names(directory: Directory, old: DirectoryRecord, names: list[bytes]) -> bool:
    """
    Returns whether a directory that changed holds the same names as before, so that what was decided of each still stands.

    An editor that renames a new file over the old one, and every restore, changes the directory and none of its names.
    What was left out may have become another kind of thing, of which the rules say something else: that is decided anew.
    """
    if old.missed or old.grouped or names != sorted((*old.names, *old.dirs)):
        return False
    try:
        return all(stat.S_ISDIR(directory.stat(name).st_mode) for name in old.dirs)
    except OSError:
        return False
