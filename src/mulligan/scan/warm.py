"""
The walk over a watched workspace: only where something happened.

A directory that nothing happened in is taken as it was remembered, without a look at anything in it; one of which some
names were written to has those names looked at; everything else goes the way of the full walk. Each directory is watched
before it is read. Where the watcher cannot vouch for what happened, everything is looked at, and watched anew.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Container, Iterable, Iterator, Mapping

from mulligan.model.paths import ancestors, join, parent_of
from mulligan.safefs.directory import Directory
from mulligan.scan.cache import Cache
from mulligan.scan.frame import Frame
from mulligan.scan.image import Flags, Image, Names, Taken, Warm
from mulligan.scan.options import Options
from mulligan.scan.patching import Doing, Patching, Place
from mulligan.scan.reading import fields
from mulligan.scan.record import NO_DIRECTORY, STAT, Head, Record, head_in, without_proof
from mulligan.scan.result import Defaults, Scan
from mulligan.scan.scope import Scope
from mulligan.scan.walk import Scanner
from mulligan.watch.watcher import Touched


class WarmScanner(Scanner):
    """One scan of one watched workspace."""

    def __init__(
        self,
        root: Directory,
        scope: Scope,
        cache: Cache,
        defaults: Defaults,
        now_ns: Callable[[], int],
        options: Options,
        warm: Warm,
    ) -> None:
        super().__init__(root, scope, cache, defaults, now_ns, options)
        self._warm = warm
        self._watcher = warm.watcher
        self._everything = False
        self._strange = False

    def run(self) -> Scan:
        """Returns the workspace as it is."""
        scan = super().run()
        if self._strange and not self._full:
            # A file has a second name that nobody knew of: what is written through one is noticed at that one only.
            self._everything = True
            scan = super().run()
        return scan

    # -- the walk -------------------------------------------------------------------------------

    def _begin(self) -> None:
        super()._begin()
        # After the clock was read: what happens from here on is too young to be remembered.
        touched, image = self._noticed()
        key = self._scope.key(self._scope.rules, only_tracked=False)
        self._bases: dict[bytes, Record | None] = {}
        self._flags: dict[bytes, Flags] = {}
        self._gone: list[bytes] = []
        self._apart: set[bytes] = set()
        self._made: Mapping[bytes, tuple[bytes, bytes]] = {}
        self._full = (
            self._everything or touched is None or image is None or image.cache is not self._cache or image.key != key
        )
        if self._full or touched is None or image is None:
            self._warm.image, self._image = None, Image(self._cache, key)
            self._watcher.begin()
            self._alone_until = (1 << 60, 1 << 60) if self._everything else self._alone_until
            return
        self._image, self._alone_until = image, (1 << 60, 1 << 60)
        self._scan.files, self._scan.missed = image.files, dict(image.missed)
        self._scan.observed_before = image.observed
        self._wanted: dict[bytes, Names] = image.wanted(index_changed=self._options.index_changed)
        self._deep = image.deep
        self._only: dict[bytes, set[bytes]] = {}
        for path, flags in image.flags.items():
            if flags.only:
                self._only.setdefault(parent_of(path), set()).add(path.rpartition(b"/")[2])
        self._ways = _ways(self._wanted)

    def _patched(self) -> Head | None:
        if self._full or self._earlier or self._options.index_changed:
            return None
        places = {
            path: Place(names or frozenset(), mark.names, moved=mark.moved, whole=names is None)
            for path, names in self._wanted.items()
            for mark in (self._image.mark_of(path),)
        }
        doing = Doing(self._remember, self._remember_own, self._note_names)
        known = self._is_as_ever if self._deep else self._watcher.covers
        patching = Patching(self._root, self._scope, self._cache, self._intake, doing, known, self._image.trees)
        done = patching.run(places, self._ways, self._scan, later=self._options.later)
        self._seen.update((path, own) for path, own in done.items() if own is not None)
        self._made = patching.made
        if self._scan.edits() is not None:
            return self._cache.head_of(b"")  # but for its tree, which is not made yet
        if b"" in done:
            return self._head_of(b"")
        # What is left goes the way of the walk, which meets it from above.
        left = {path: None for path in (*self._wanted, *self._ways) if path not in done}
        self._wanted = {path: names for path, names in self._wanted.items() if path in left}
        self._ways = _ways(left)
        return None

    def _is_as_ever(self, path: bytes) -> bool:
        return self._watcher.covers(path) and not self._is_deep(path)

    def _head_of(self, path: bytes) -> Head | None:
        patch = self._scan.patches.get(path)
        return head_in(patch.packed) if patch is not None else self._cache.head_of(path)

    def _noticed(self) -> tuple[Touched | None, Image | None]:
        """Returns where something happened, marked, and the image; without one, everything is looked at."""
        # Whoever interrupts this takes notices along: until all are marked, nothing is known.
        image, self._warm.image = self._warm.image, None
        touched = self._watcher.sync(self._root)
        if touched is not None and image is not None:
            image.add(touched)
            self._warm.image = image
        return touched, image

    def _conclude(self, scan: Scan) -> None:
        image, number = self._image, self._image.number
        if self._full:
            super()._conclude(scan)
            self._watcher.end()
        else:
            scan.gone, scan.visited = self._gone, _Visited(self._seen, self._cache, set(self._gone))
        taken = scan.taken = Taken(image, number, scan.files, dict(scan.missed), self._flags, self._made)
        if self._full:
            image.rebase(scan, taken)
            image.mark_later(self._apart)
        self._warm.image = image if self._watcher.usable else None

    def _restless(self) -> list[bytes]:
        touched, _ = self._noticed()
        if touched is None:
            return super()._restless()
        return sorted(touched.whole | touched.moved)

    def _share(self, stack: list[Frame]) -> None:
        mine = set(self._seen)
        super()._share(stack)
        # What the twin read was not watched: it is looked at again next time.
        self._apart |= {path for path in self._seen.keys() - mine if not self._watcher.covers(path)}

    def _part(self, tasks: list[tuple[Frame, bytes]], numbers: Iterator[int]) -> bytes:
        self._watcher.leave_to_parent()
        return super()._part(tasks, numbers)

    # -- one directory --------------------------------------------------------------------------

    def _look_at(self, frame: Frame) -> None:
        path = frame.path
        if self._full:
            self._watcher.cover(path, frame.directory.fd)
            super()._look_at(frame)
            return
        self._scan.patches.pop(path, None)  # what was patched, and has to be entered all the same, is told anew
        base = self._bases[path] = self._cache.get(path)
        self._take_back(path, base)
        deep = self._is_deep(path)
        covered = self._watcher.covers(path)
        if not covered:
            self._watcher.cover(path, frame.directory.fd)
            self._image.mark(path)  # watched from now on, and still not what the cache knows by this name
        names = self._wanted.get(path, frozenset()) if covered and not deep else None
        if names is None or not (self._touch_up(frame, names) if names else self._pass(frame)):
            self._fill(frame)
        frame.todo = self._below(frame, base, deep=deep, clean=covered and path not in self._wanted)

    def _take_back(self, path: bytes, base: Record | None) -> None:
        """Takes a directory out of the sums, before it is added to them as it is now."""
        if base is not None:
            self._scan.files -= len(base.names)
            for m in base.missed:
                self._scan.missed.pop(join(path, m.name), None)

    def _is_deep(self, path: bytes) -> bool:
        return bool(self._deep) and (
            path in self._deep or b"" in self._deep or not self._deep.isdisjoint(ancestors(path))
        )

    def _below(self, frame: Frame, base: Record | None, *, deep: bool, clean: bool) -> list[bytes]:
        """Returns the directories in one that have to be entered."""
        path, dirs = frame.path, frame.record.dirs
        if base is None or deep or frame.key != base.key:
            self._deep.add(path)
            return dirs
        ways = self._ways.get(path, ())
        if clean:
            return [name for name in dirs if name in ways] if ways else []
        then, inside, todo = {m.name for m in base.missed}, set(base.dirs), []
        for name in dirs:
            below = join(path, name)
            known = name in inside and self._watcher.covers(below) and below in self._cache
            if name in ways or not known or (name in frame.out) != (name in then):
                todo.append(name)
        return todo

    def _before(self, path: bytes) -> Record | None:
        record = self._earlier.get(path) or (self._bases[path] if path in self._bases else self._cache.get(path))
        written = frozenset() if record is None or self._full else self._image.mark_of(path).names
        return record if record is None or not written else without_proof(record, written)

    def _pass(self, frame: Frame) -> bool:
        """Takes a directory that nothing happened in as it was; returns whether that can be done."""
        old = self._before(frame.path)
        if old is None or not self._rules_hold(frame, old):
            return False
        frame.old, frame.record, frame.perm = old, old, old.perm
        frame.out = frozenset(m.name for m in old.missed)
        frame.changed = frame.path in self._earlier
        return True

    def _rules_hold(self, frame: Frame, old: Record) -> bool:
        """Enters a directory's ignore rules; returns whether its decisions still stand by them."""
        rules, key = frame.rules, frame.key
        if old.has_ignores:
            frame.rules = rules.enter(frame.path, self._ignore_file(frame))
            frame.key = self._scope.key(frame.rules, only_tracked=frame.only)
        if old.key == frame.key and not frame.unruly:
            return True
        frame.rules, frame.key, frame.unruly = rules, key, ""
        return False

    def _touch_up(self, frame: Frame, names: frozenset[bytes]) -> bool:
        """Looks at some names of a directory; returns whether that is enough."""
        rules, key = frame.rules, frame.key
        if frame.path not in self._earlier and self._pass(frame):
            old, st = frame.record, os.fstat(frame.directory.fd)
            moved = self._image.mark_of(frame.path).moved
            own = (st.st_ino, st.st_mtime_ns, st.st_ctime_ns)
            if (
                old.trusted
                and not old.grouped
                and not frame.only
                and old.perm == st.st_mode & 0o7777
                and (old.stat in (own, NO_DIRECTORY))
                and not (moved and names & frame.out)  # one that was left out may have gone
                and self._still_out(frame, old)
            ):
                changed = self._changed_names(frame, old, names - frame.out)
                record = None if changed is None else self._patch(frame, old, changed) if changed else old
                if record is not None:
                    self._seen[frame.path] = own
                    frame.record, frame.changed = record, bool(changed)
                    return True
        frame.rules, frame.key, frame.changed = rules, key, True
        return False

    def _changed_names(
        self, frame: Frame, old: Record, names: frozenset[bytes]
    ) -> list[tuple[bytes, os.stat_result]] | None:
        changed = []
        for name in names:
            at = old.find(name)
            try:
                now = frame.directory.stat(name)
            except OSError:
                return None
            if at < 0:
                return None
            if fields(now) != old.stat_at(at):
                changed.append((name, now))
        return changed

    # -- files with more than one name ----------------------------------------------------------

    def _note_names(self, above: bytes, found: Iterable[tuple[bytes, os.stat_result]]) -> None:
        for name, st in found:
            if st.st_nlink > 1 and not stat.S_ISDIR(st.st_mode):
                path, linked = join(above, name), self._image.linked
                self._strange |= path not in linked
                linked.add(path)

    def _differing(self, frame: Frame, old: Record) -> list[tuple[bytes, os.stat_result]]:
        look, fd, changed = os.stat, frame.directory.fd, []
        for name, want in zip(old.names, STAT.iter_unpack(old.stats), strict=True):
            st = look(name, dir_fd=fd, follow_symlinks=False)
            if st.st_nlink > 1:
                self._note_names(frame.path, [(name, st)])
            if (st.st_ino, st.st_mode, st.st_size, st.st_mtime_ns, st.st_ctime_ns) != want:
                changed.append((name, st))
        return changed

    def _patch(self, frame: Frame, old: Record, changed: list[tuple[bytes, os.stat_result]]) -> Record | None:
        self._note_names(frame.path, changed)
        return super()._patch(frame, old, changed)

    def _read_files(self, frame: Frame, record: Record, files: dict[bytes, os.stat_result]) -> None:
        self._note_names(frame.path, files.items())
        super()._read_files(frame, record, files)

    # -- after the directory --------------------------------------------------------------------

    def _finish(self, frame: Frame) -> None:
        path, full, patches = frame.path, self._full, self._scan.patches
        if patches and not frame.changed:
            frame.changed = any(join(path, name) in patches for name in frame.record.dirs)
        if frame.changed and not full:
            todo = set(frame.todo)
            for name in frame.record.dirs:
                head = None if name in todo else self._head_of(join(path, name))
                if head is not None:
                    frame.children.append((name, head))
        super()._finish(frame)
        record = frame.record
        self._flags[path] = Flags(not record.trusted, record.leans or bool(record.missed), frame.only)
        base = None if full else self._bases.get(path)
        if base is not None:
            for name in self._known_in(path, base) - set(record.dirs):
                self._lose(join(path, name))

    def _known_in(self, path: bytes, base: Record) -> set[bytes]:
        """Returns the directories in one that there are records of; one entered for a few names may hold none of them."""
        return self._only.get(path, set()).union(base.dirs)

    def _lose(self, path: bytes) -> None:
        """Takes a directory that is not there any more, and all below it, out of the sums."""
        todo = [path]
        while todo:
            each = todo.pop()
            record = self._cache.get(each)
            if self._scan.patches.pop(each, None) is not None:
                self._seen.pop(each, None)
            if each in self._seen or record is None:
                continue
            if each not in self._bases:
                self._take_back(each, record)
            self._gone.append(each)
            todo += [join(each, name) for name in self._known_in(each, record)]


class _Visited:
    """The directories that a look saw or vouches for."""

    def __init__(self, seen: Container[bytes], cache: Cache, gone: Container[bytes]) -> None:
        self._seen, self._cache, self._gone = seen, cache, gone

    def __contains__(self, path: object) -> bool:
        return isinstance(path, bytes) and self._has(path)

    def _has(self, path: bytes) -> bool:
        return path in self._seen or (path in self._cache and path not in self._gone)


def _ways(wanted: Mapping[bytes, object]) -> dict[bytes, set[bytes]]:
    """Returns, for each directory on the way to a wanted one, the names to follow."""
    ways: dict[bytes, set[bytes]] = {}
    for each in wanted:
        path = each
        while path:
            above, name = parent_of(path), path.rpartition(b"/")[2]
            names = ways.setdefault(above, set())
            if name in names:
                break
            names.add(name)
            path = above
    return ways
