"""
The walk over the workspace.

Directories are opened one below the other and never through a link. A directory whose own stat fields, scope rules and
entries' stat fields are as remembered is not read at all; otherwise it is listed, each name decided, and what changed is read.
After the walk every directory is looked at once more: one that changed meanwhile makes the walk start over with what is
known, and one that will not hold still is listed as `moving`.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator

from mulligan.model.checkpoint import EXCLUDED, IGNORED, MOVING, OTHER_FILESYSTEM, SECRET, SPECIAL, UNREADABLE, WORKTREE
from mulligan.model.paths import join
from mulligan.safefs.clock import stamping_clock
from mulligan.safefs.directory import Directory
from mulligan.safefs.twin import MOST_TASKS, Twin, can_twin
from mulligan.scan.cache import Cache
from mulligan.scan.frame import Frame, Subtree, attach, changed_files, same_names
from mulligan.scan.glance import Glance, restless
from mulligan.scan.intake import Intake
from mulligan.scan.options import Options
from mulligan.scan.reading import FATAL, GONE, IGNORES_LIMIT, Unreadable, fields, ignores_in, names_in
from mulligan.scan.record import (
    NO_DIRECTORY,
    STAT,
    Head,
    Missed,
    Record,
    Stat,
    can_be_remembered,
    modes_in,
    unproven,
)
from mulligan.scan.result import Defaults, Scan
from mulligan.scan.scope import IGNORE_FILE, Scope, database_groups
from mulligan.scan.trees import Sealed, seal

__all__ = ["IGNORES_LIMIT", "Options", "Scanner"]

_ROUNDS = 3
_OPEN_LEVELS = 128
# A twin costs a few milliseconds: it is made when so much was read, or so many directories were looked at, and the walk
# is not over, with at least so many directories still to enter.
_SHARE_READ = 1500
_SHARE_DIRECTORIES = 150
_SHARE_LEAST = 4
_STATIC = frozenset({IGNORED, EXCLUDED, SPECIAL, WORKTREE})


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
        self._intake = Intake(options.sink, scope, options.progress)

    def run(self) -> Scan:
        """Returns the workspace as it is."""
        for _ in range(_ROUNDS):
            scan = self._walk()
            restless = self._restless() if self._options.settle else []
            if not restless:
                return scan
            self._earlier.update(scan.seen_records())
        for path in restless:
            scan.missed[path] = Missed(path, MOVING, "files came and went while it was read")
        return scan

    def _begin(self) -> None:
        self._started = self._now_ns()
        self._intake.begin(stamping_clock())
        self._scan = Scan(self._defaults, self._cache)
        self._seen: dict[bytes, tuple[int, int, int]] = {}
        self._entered = 0
        self._glance: Glance | None = None
        self._alone_until = (_SHARE_READ, _SHARE_DIRECTORIES)

    def _walk(self) -> Scan:
        rules, scope, options, stack = self._scope.rules, self._scope, self._options, list[Frame]()
        try:
            self._begin()
            head: Head | Record | None = self._patched()
            if head is None:
                begun = options.glance(self._root.fd) if options.glance is not None and not self._earlier else None
                self._glance = Glance(begun, index_changed=options.index_changed) if begun is not None else None
                key, directory = scope.key(rules, only_tracked=False), Directory(os.dup(self._root.fd))
                root = Frame(b"", directory, rules, key, only=False)
                stack.append(root)
                self._look_at(root)
            while stack:
                self._step(stack)
                if self._intake.read >= self._alone_until[0] or self._entered >= self._alone_until[1]:
                    self._share(stack)
        finally:
            for frame in stack:
                frame.directory.close()
        head = head or root.record
        self._scan.tree, self._scan.modes = head.tree, head.modes
        self._scan.read = self._intake.read
        self._scan.is_wanted = lambda path: scope.wanted_inside(path, is_dir=False)
        self._conclude(self._scan)
        return self._scan

    def _patched(self) -> Head | None:
        """Does what can be done without a walk; returns the root if that is all."""
        return None

    def _conclude(self, scan: Scan) -> None:
        """Says which directories were seen, and which are not there any more."""
        if self._glance is not None:
            scan.visited = visited = self._glance.visited(self._seen)
            scan.gone = visited.gone()
            return
        scan.visited = self._seen
        scan.gone = [path for path in self._cache.paths() if path not in self._seen]

    def _step(self, stack: list[Frame]) -> None:
        frame = stack[-1]
        if frame.next < len(frame.todo):
            name = frame.todo[frame.next]
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
        if stack:
            name = frame.path.rpartition(b"/")[2]
            attach(stack[-1], name, Subtree(0, frame.record, frame.changed, frame.only))

    # -- two processes ------------------------------------------------------------------------------

    def _share(self, stack: list[Frame]) -> None:
        """Walks what is left of the open directories together with a twin, where there can be one and it pays."""
        tasks = [(frame, name) for frame in stack for name in frame.todo[frame.next :]][:MOST_TASKS]
        if len(tasks) < _SHARE_LEAST or not can_twin():
            again = 2 if len(tasks) < _SHARE_LEAST else 1 << 60
            self._alone_until = (self._alone_until[0] * again, self._alone_until[1] * again)
            return
        self._alone_until = (1 << 60, 1 << 60)
        for frame, _ in tasks:
            frame.next += 1
        sink, taken, twin = self._options.sink, False, Twin(len(tasks), lambda numbers: self._part(tasks, numbers))
        process, todo = twin.pid, dict(enumerate(tasks))
        try:
            with twin:
                for number in twin.tasks():
                    self._take(*todo.pop(number))
                answer = twin.answer()
            if answer is not None:
                from mulligan.scan.sharing import merge

                part = merge(answer, self._scan, self._before)
                sink.take_over(part.share)
                taken = True
                self._seen.update(part.seen)
                self._intake.read += part.read
                for subtree in part.subtrees:
                    attach(*todo.pop(subtree.task), subtree)
        finally:
            if not taken:
                sink.drop_share(process)
        for parent, name in todo.values():  # what the twin could not enter, or all that it took when it failed
            self._take(parent, name)

    def _part(self, tasks: list[tuple[Frame, bytes]], numbers: Iterator[int]) -> bytes:
        """The twin's part: walks the tasks it gets and returns what it found."""
        from mulligan.scan.sharing import Part, encode

        self._scan, self._seen = Scan(self._defaults, self._cache), {}
        self._intake.part()
        if self._glance is not None:
            self._glance.begin_part()
        done = []
        for number in numbers:
            frame = self._subtree(*tasks[number])
            if frame is not None:
                done.append(Subtree(number, frame.record, frame.changed, frame.only))
        seen = self._glance.visited(self._seen).all() if self._glance is not None else self._seen
        return encode(Part(done, self._options.sink.hand_over(), seen, self._intake.read), self._scan)

    def _take(self, parent: Frame, name: bytes) -> None:
        frame = self._subtree(parent, name)
        if frame is not None:
            attach(parent, name, Subtree(0, frame.record, frame.changed, frame.only))

    def _subtree(self, parent: Frame, name: bytes) -> Frame | None:
        """Walks one directory to its end."""
        child = self._enter(parent, name) if self._reopened(parent) else None
        if child is None:
            return None
        stack = [child]
        try:
            while stack:
                self._step(stack)
        finally:
            for frame in stack:
                frame.directory.close()
        return child

    def _before(self, path: bytes) -> Record | None:
        return self._earlier.get(path) or self._cache.get(path)

    def _reopened(self, frame: Frame) -> bool:
        """Opens a directory again that was closed because too many were open; returns whether it is still there."""
        if frame.directory.fd >= 0:
            return True
        try:
            frame.directory = self._root.descend(frame.path)
        except OSError as error:
            if error.errno not in GONE:
                raise
            frame.changed = True  # the second look at its parent notices
            return False
        return True

    # -- one directory ----------------------------------------------------------------------------

    def _enter(self, parent: Frame, name: bytes) -> Frame | None:
        path = join(parent.path, name)
        try:
            directory = parent.directory.child(name)
        except OSError as error:
            if error.errno in FATAL:
                raise
            # Gone or swapped meanwhile: the second look at the parent notices. There, and not to be read: a finding.
            if error.errno not in GONE:
                parent.miss(name, UNREADABLE, os.strerror(error.errno or 0))
            parent.changed = True
            return None
        only = parent.only or name in parent.out
        frame = Frame(path, directory, parent.rules, parent.key, only=only)
        if only != parent.only:
            frame.key = self._scope.key(frame.rules, only_tracked=True)
        try:
            if os.fstat(directory.fd).st_dev != self._device:
                directory.close()
                parent.miss(name, OTHER_FILESYSTEM, "another file system is mounted here")
                return None
            self._look_at(frame)
        except Unreadable as finding:
            directory.close()
            self._seen.pop(path, None)
            parent.miss(name, finding.reason, finding.detail)
            return None
        except BaseException:
            directory.close()
            raise
        return frame

    def _look_at(self, frame: Frame) -> None:
        """Learns what is in a directory, and which of the directories in it are to be entered."""
        self._entered += 1
        self._fill(frame)
        frame.todo = frame.record.dirs
        if self._glance is not None and not frame.only:
            self._glance.pass_over(frame, self._scan)

    def _fill(self, frame: Frame) -> None:
        st = os.fstat(frame.directory.fd)
        own = (st.st_ino, st.st_mtime_ns, st.st_ctime_ns)
        self._seen[frame.path] = own
        frame.perm = st.st_mode & 0o7777
        frame.old = old = self._before(frame.path)
        known = old is not None and old.stat == own
        names = None if known else names_in(frame.directory)
        if old.has_ignores if known and old else IGNORE_FILE in (names or ()):
            frame.rules = frame.rules.enter(frame.path, self._ignore_file(frame))
            frame.key = self._scope.key(frame.rules, only_tracked=frame.only)
        remembered = self._remember_own(own)
        if (
            old
            and (known or same_names(frame.directory, old, names or []))
            and old.key == frame.key
            and old.trusted
            and not frame.unruly
            and old.perm == frame.perm
            and self._still_out(frame, old)
        ):
            record = self._verify(frame, old)
            if record is not None:
                if not known:
                    record, frame.changed = record.copy(), True
                    record.stat = remembered
                frame.record, frame.out = record, frozenset(m.name for m in record.missed)
                return
        record = frame.record = self._evaluate(frame, names_in(frame.directory) if names is None else names)
        frame.out = frozenset(m.name for m in record.missed)
        record.key, record.perm, record.stat = frame.key, frame.perm, remembered

    def _ignore_file(self, frame: Frame) -> bytes:
        content, frame.unruly = ignores_in(frame.directory)
        return content

    def _still_out(self, frame: Frame, old: Record) -> bool:
        """Whether what is in and what is out still is, now that the git index changed."""
        if not self._options.index_changed:
            return True
        if old.leans:
            return False
        tracked = self._scope.tracked
        paths = [join(frame.path, m.name) for m in old.missed]
        return not any(path in tracked or tracked.below(path) for path in paths)

    # -- the quick way: everything as remembered, or nearly ---------------------------------------

    def _verify(self, frame: Frame, old: Record) -> Record | None:
        try:
            changed = changed_files(frame.directory, old)
        except OSError:
            return None  # something vanished: list the directory
        if not changed:
            # What an earlier round saw is in no checkpoint yet: its trees must be made once more.
            frame.changed = frame.path in self._earlier
            return old
        return None if old.grouped or len(changed) > len(old.names) // 2 + 8 else self._patch(frame, old, changed)

    def _patch(self, frame: Frame, old: Record, changed: list[tuple[bytes, os.stat_result]]) -> Record | None:
        record = old.copy()
        stats, oids = bytearray(old.stats), bytearray(old.oids)
        modes = modes_in(old.stats)
        if any(
            not (stat.S_ISREG(st.st_mode) or stat.S_ISLNK(st.st_mode))
            or st.st_size > self._scope.max_file_size
            or stat.S_IFMT(st.st_mode) != stat.S_IFMT(modes[old.find(name)])  # of a secret, only a link is captured
            for name, st in changed
        ):
            return None
        for name, st in changed:
            try:
                oid, seen = self._capture(frame, name, st)
            except (Unreadable, FileNotFoundError):
                return None
            at = old.find(name)
            stats[at * STAT.size : (at + 1) * STAT.size] = self._remember(frame.path, name, seen)
            oids[at * 20 : at * 20 + 20] = oid
            modes[at] = seen.mode
        frame.modes, record.stats, record.oids = modes, bytes(stats), bytes(oids)
        record.leans |= self._intake.leans(frame.path, [name for name, _ in changed])
        return record

    # -- the long way: list, decide, read -----------------------------------------------------------

    def _evaluate(self, frame: Frame, names: list[bytes]) -> Record:
        from mulligan.scan.listing import Listing

        listing = Listing(frame.path, self._scope, frame.rules, only=frame.only)
        look, fd, add = os.stat, frame.directory.fd, listing.add
        for name in names:
            if frame.unruly and name == IGNORE_FILE:
                # More may be captured than its rules allow: that must not look like a whole checkpoint.
                listing.missed.append(Missed(name, UNREADABLE, frame.unruly))
                continue
            try:
                st = look(name, dir_fd=fd, follow_symlinks=False)
            except FileNotFoundError:
                continue
            except OSError as error:
                if error.errno in FATAL:
                    raise
                listing.missed.append(Missed(name, UNREADABLE, os.strerror(error.errno or 0)))
                continue
            add(name, st)
        listing.group_databases()
        record = Record(has_ignores=IGNORE_FILE in names)
        record.grouped, record.leans = listing.grouped, listing.leans
        record.dirs, record.missed = listing.dirs, sorted(listing.missed)
        self._read_files(frame, record, listing.files)
        record.leans |= self._intake.leans(frame.path, listing.files)
        record.trusted = all(
            m.reason in _STATIC or (m.reason == SECRET and m.name not in listing.files) for m in record.missed
        )
        return record

    def _read_files(self, frame: Frame, record: Record, files: dict[bytes, os.stat_result]) -> None:
        old, groups = frame.old, database_groups(files) if record.grouped else {}
        together = {name for main, names in groups.items() for name in (main, *names)}
        found: dict[bytes, tuple[bytes, Stat]] = {}
        for main, names in groups.items():
            self._read_group(frame, record, [main, *names], found)
        todo = [(name, files[name]) for name in sorted(files.keys() - together if together else files)]
        if old is not None:
            known = {name: at for at, name in enumerate(old.names)}
            # A file that the index tracked may begin like a secret: one that it tracks no longer is read again.
            doubted = old.leans and self._options.index_changed
            for name, st in todo:
                at = known.get(name, -1)
                if at >= 0 and old.stat_at(at) == fields(st) and not (doubted and self._is_untracked(frame, name)):
                    found[name] = (old.oid_at(at), fields(st))
            record.leans |= old.leans and bool(found)  # which of them lean is not remembered
            todo = [(name, st) for name, st in todo if name not in found]
        for name, st in todo:
            result = self._try(frame, record, name, st)
            if result is not None:
                found[name] = result
        rows = [  # name, mode, stat fields to remember, object id
            (name, seen.mode, self._remember(frame.path, name, seen), oid) for name, (oid, seen) in found.items()
        ]
        rows.sort()
        record.names, frame.modes = [row[0] for row in rows], [row[1] for row in rows]
        record.stats, record.oids = b"".join([row[2] for row in rows]), b"".join([row[3] for row in rows])

    def _is_untracked(self, frame: Frame, name: bytes) -> bool:
        return join(frame.path, name) not in self._scope.tracked

    def _try(self, frame: Frame, record: Record, name: bytes, st: os.stat_result) -> tuple[bytes, Stat] | None:
        try:
            return self._capture(frame, name, st)
        except FileNotFoundError:
            return None
        except Unreadable as finding:
            record.missed.append(Missed(name, finding.reason, finding.detail))
            return None

    def _read_group(
        self, frame: Frame, record: Record, names: list[bytes], found: dict[bytes, tuple[bytes, Stat]]
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

    def _capture(self, frame: Frame, name: bytes, st: os.stat_result) -> tuple[bytes, Stat]:
        return self._intake.capture(frame.directory, frame.path, name, st)

    def _remember_own(self, own: tuple[int, int, int]) -> tuple[int, int, int]:
        return own if can_be_remembered(own[1], own[2], self._started) else NO_DIRECTORY

    def _remember(self, path: bytes, name: bytes, seen: Stat) -> bytes:
        if not can_be_remembered(seen.mtime_ns, seen.ctime_ns, self._started):
            self._scan.observed[join(path, name)] = seen
            return unproven(seen.mode)
        return STAT.pack(*seen)

    # -- after the directory ------------------------------------------------------------------------

    def _finish(self, frame: Frame) -> None:
        record, scan = frame.record, self._scan
        if frame.changed:
            if record is frame.old:
                record = frame.record = record.copy()
            if len(frame.modes) != len(record.names):
                frame.modes = modes_in(record.stats)
            frame.children.sort()
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
        return (self._glance.restless if self._glance else restless)(self._root.fd, self._seen, self._intake.clock)
