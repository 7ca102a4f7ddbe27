"""
One watched workspace: which directories are watched, and where something happened since the last question.

Directories are watched by the scan itself, each before it is read, so nothing can change between the reading and the
watch. `sync` proves that every earlier notice has arrived: it opens the cookie, a file of the store that is watched by the
same queue, and reads until that is noticed. When it cannot be proven (a queue that ran over, a cookie that does not
come, a mount, a root that moved), the answer is None, and the next scan looks at everything.

`Marks` collect what was noticed, relative to the records of one stat cache: a mark goes only when a checkpoint holds what a walk
found there, so a walk that was not kept (a diff, a failed save) takes none away. `Watched` tells the walk where to look.

LIMIT: a file that has a second name in a place that is not watched can be written to through that name without a notice.
LIMIT: what is written through a mapping or by asynchronous calls is noticed when the file is closed, not before.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from mulligan.model.paths import join, parent_of
from mulligan.safefs import inotify, syscalls
from mulligan.safefs.clock import Seen, moved_since
from mulligan.safefs.directory import READ_FLAGS, Directory
from mulligan.safefs.inotify import Inotify, Mounts, notices, unwatchable
from mulligan.watch.dirty import EVERYTHING, Dirty, Names

COOKIE = b"HEAD"
_COOKIE_WAIT = 1.0
_STRUCTURE = inotify.CREATE | inotify.DELETE | inotify.MOVED_FROM | inotify.MOVED_TO
_SELF = inotify.DELETE_SELF | inotify.MOVE_SELF
_LIMITS = {
    errno.ENOSPC: "the system's limit of watches is reached (fs.inotify.max_user_watches)",
    errno.ENOMEM: "there is no memory for more watches",
    errno.EMFILE: "the system's limit of watchers is reached (fs.inotify.max_user_instances)",
    errno.ENOSYS: "the system cannot watch directories",
}


class Touched(NamedTuple):
    """
    Where something happened: names in directories, directories as a whole, and directories with all below them.

    In those that are `moved`, some of the names were made, removed or renamed, and not only written to.
    """

    names: dict[bytes, set[bytes]]
    moved: set[bytes]
    whole: set[bytes]
    deep: set[bytes]


class Watcher:
    """The watches of one workspace."""

    def __init__(self, root: Directory, path: str, store: Directory, *, ruling: frozenset[bytes]) -> None:
        """Starts; a change of a file with one of the `ruling` names concerns everything below its directory."""
        self.full_looks = 0
        self._place, self._ruling = path, ruling
        self._store, self._owner = Directory(os.dup(store.fd)), store
        self._process = os.getpid()
        self._identity = _identity(root)
        self._queue: Inotify | None = None
        self._mounts: Mounts | None = None
        self._cookie = -1
        self._paths: dict[int, bytes] = {}
        self._watches: dict[bytes, int] = {}
        self._below: dict[bytes, set[bytes]] = {}
        self._old: set[int] = set()
        self._touched = _nothing()
        self._lost = True
        self.reason = unwatchable(root)
        if not self.reason:
            try:
                self._open()
            except OSError as error:
                self._give_up(error)

    def _open(self) -> None:
        self._queue, self._mounts = Inotify(), Mounts(self._place)
        with self._store.reading(COOKIE) as fd:
            self._cookie = self._queue.watch(fd, inotify.OPEN)

    @property
    def usable(self) -> bool:
        """Whether it can tell anything; `reason` says why not."""
        return self._queue is not None and self._process == os.getpid()

    @property
    def fd(self) -> int:
        """The queue's descriptor, to wait for."""
        return self._queue.fd if self._queue is not None else -1

    @property
    def directories(self) -> int:
        """How many directories are watched."""
        return len(self._watches)

    def close(self) -> None:
        """Ends every watch; again is harmless."""
        self._shut()
        self._store.close()

    def belongs_to(self, store: Directory) -> bool:
        """Returns whether its cookie is in this store, and not in one that was removed since."""
        if self._store.fd < 0:
            return False
        return store is self._owner or _identity(self._store) == _identity(store)

    def _shut(self) -> None:
        for part in (self._queue, self._mounts):
            if part is not None:
                part.close()
        self._queue = self._mounts = None
        self._paths, self._watches, self._below = {}, {}, {}
        self._lost = True

    def _give_up(self, error: OSError) -> None:
        self._shut()
        self.reason = _LIMITS.get(error.errno or 0, f"the system refused ({error.strerror})")

    # -- which directories ----------------------------------------------------------------------

    def covers(self, path: bytes) -> bool:
        """Returns whether a directory is watched."""
        return path in self._watches

    def begin(self) -> None:
        """Starts to watch from nothing: a look at everything begins."""
        self._old.update(self._paths)
        self._paths, self._watches, self._below = {}, {}, {}

    def cover(self, path: bytes, fd: int) -> None:
        """Watches a directory that is about to be read."""
        if self._queue is None:
            return
        try:
            watch = self._queue.watch(fd)
        except OSError as error:
            self._give_up(error)
            return
        known = self._paths.get(watch)
        if known is not None and known != path and self._watches.get(known) == watch:
            del self._watches[known]  # the same directory under another name
        self._paths[watch] = path
        self._watches[path] = watch
        if path:
            self._below.setdefault(parent_of(path), set()).add(path)

    def end(self) -> None:
        """The look at everything is over: what it did not find is not watched any more."""
        if self._queue is None:
            return
        for watch in self._old - self._paths.keys():
            self._queue.unwatch(watch)
        self._old = set()
        self._lost = False
        self.full_looks += 1

    def _drop(self, path: bytes) -> None:
        """Stops to watch a directory and all below it: they have gone, or have another name now."""
        todo = [path]
        while todo:
            each = todo.pop()
            todo += self._below.pop(each, ())
            watch = self._watches.pop(each, -1)
            if watch >= 0 and self._queue is not None:
                self._paths.pop(watch, None)
                self._queue.unwatch(watch)

    # -- what happened --------------------------------------------------------------------------

    def sync(self, root: Directory) -> Touched | None:
        """Returns where something happened since the last question; None when it cannot be known."""
        if not self.usable or self._queue is None or self._mounts is None:
            return None
        try:
            syscalls.calls.close(syscalls.calls.open(COOKIE, READ_FLAGS, dir_fd=self._store.fd))
            if not self._collect(self._queue, self._queue.waiting()):
                self._reopen()
            mounted = self._mounts is None or self._mounts.changed()
        except OSError as error:
            self._give_up(error)
            return None
        here = _identity(root)
        if mounted or here != self._identity:
            self._lost = True
        self._identity = here
        touched, self._touched = self._touched, _nothing()
        return None if self._lost else touched

    def drain(self) -> None:
        """Empties the queue, so that it does not overflow before the next scan."""
        if not self.usable or self._queue is None:
            return
        try:
            while data := self._queue.read(0):
                self._take_all(data)
        except BaseException:
            self._lost = True  # the interrupt lost events already read
            raise

    def _collect(self, queue: Inotify, waiting: int) -> bool:
        """Reads what was waiting when the cookie was opened, and until the cookie came; returns whether it did."""
        seen, deadline = False, time.monotonic() + _COOKIE_WAIT
        while waiting > 0 or not seen:
            data = queue.read(max(deadline - time.monotonic(), 0.0))
            if not data:
                return False
            waiting -= len(data)
            seen |= self._take_all(data)
        return True

    def _reopen(self) -> None:
        """Makes a new queue, because the old one did not deliver."""
        self._shut()
        try:
            self._open()
        except OSError as error:
            self._give_up(error)

    def _take_all(self, data: bytes) -> bool:
        """Takes what the bytes of a queue say; returns whether the cookie was opened."""
        seen = False
        for notice in notices(data):
            seen |= notice.watch == self._cookie and bool(notice.what & inotify.OPEN)
            self._take(notice, self._touched)
        return seen

    def _take(self, notice: inotify.Notice, touched: Touched) -> None:
        watch, what, name = notice
        if what & (inotify.OVERFLOW | inotify.UNMOUNT):
            self._lost = True
            return
        path = self._paths.get(watch)
        if path is None:
            return  # the cookie, or a directory that is not watched any more: it will be read as a whole
        if what & inotify.IGNORED:
            self._paths.pop(watch, None)
            if self._watches.get(path) == watch:
                del self._watches[path]
                touched.whole.add(parent_of(path))
        elif what & _SELF:
            if not path:
                self._lost = True
            self._drop(path)
            touched.whole.add(parent_of(path))
        elif name:
            self._take_name(path, name, what, touched)
        else:
            touched.whole.add(path)

    def _take_name(self, path: bytes, name: bytes, what: int, touched: Touched) -> None:
        if name in self._ruling:
            touched.deep.add(path)
        if what & inotify.ISDIR:
            below = join(path, name)
            touched.whole.add(path)
            if what & _STRUCTURE:
                self._drop(below)
            else:
                touched.whole.add(below)
        else:
            touched.names.setdefault(path, set()).add(name)
            if what & _STRUCTURE:
                touched.moved.add(path)


def _nothing() -> Touched:
    return Touched({}, set(), set(), set())


def _identity(root: Directory) -> tuple[int, int]:
    found = os.fstat(root.fd)
    return found.st_dev, found.st_ino


# -- where a walk has to look -----------------------------------------------------------------------


class DirtyMark(NamedTuple):
    """What happened in a directory: with which notices it was last, to which names, and whether those tell all of it."""

    number: int
    names: frozenset[bytes]
    whole: bool


class Marks:
    """What a watcher noticed since the stat cache was last written."""

    def __init__(self, cache: object) -> None:
        self.cache = cache
        self.number = 0
        self.linked: set[bytes] = set()  # files with several names: a write through one is noticed at that one only
        self.observed: dict[bytes, Any] = {}  # see `Watched.observed`
        self._places: dict[bytes, DirtyMark] = {}
        self._deep: dict[bytes, int] = {}

    def add(self, touched: Touched) -> None:
        """Marks where something happened."""
        self.number += 1
        for path, names in touched.names.items():
            self._mark(path, names, whole=False)
        for path in (*touched.whole, *touched.deep):
            self.mark(path)
        self._deep.update(dict.fromkeys(touched.deep, self.number))

    def mark(self, path: bytes) -> None:
        """Marks a directory as a whole, with the notices that were the last."""
        self._mark(path, (), whole=True)

    def _mark(self, path: bytes, names: Collection[bytes], *, whole: bool) -> None:
        known = self._places.get(path)
        if known is not None:
            names, whole = known.names.union(names), whole or known.whole
        self._places[path] = DirtyMark(self.number, frozenset(names), whole)

    def dirty(self, always: Iterable[bytes]) -> Dirty:
        """Returns where to look: at what is marked, at files with several names, and at some directories in any case."""
        places: dict[bytes, Names] = {path: None if mark.whole else mark.names for path, mark in self._places.items()}
        for path in self.linked:
            names = places.get(parent_of(path), frozenset())
            if names is not None:
                places[parent_of(path)] = names | {path.rpartition(b"/")[2]}
        places.update(dict.fromkeys(always))
        written = {path: mark.names for path, mark in self._places.items() if mark.names}
        return Dirty(places, written, frozenset(self._deep))

    def settle(self, number: int) -> None:
        """Takes the marks away that a walk knew of, now that the stat cache holds what it found."""
        self._places = {path: mark for path, mark in self._places.items() if mark.number > number}
        self._deep = {path: last for path, last in self._deep.items() if last > number}


class Watched:
    """A watcher and its marks: tells a walk where to look, and watches each directory before it is read."""

    def __init__(self, watcher: Watcher) -> None:
        self.watcher = watcher
        self.marks: Marks | None = None  # None: the next walk looks at everything
        self._walk = Marks(None)  # those of the walk that is under way
        self._always: Collection[bytes] = ()
        self._everywhere = False
        self._strange = False
        self._number = 0  # of the last notices that this round of the walk knows of
        self._known = 0  # the same, of the round before

    # -- before and after a walk ----------------------------------------------------------------------

    def begin(self, root: Directory, cache: object, always: Collection[bytes]) -> Dirty:
        """Begins a walk; returns where it has to look, `always` among others."""
        self._always = always
        touched, marks = self._sync(root)
        if touched is None or marks is None or marks.cache is not cache:
            return self._begin_everywhere(cache)
        return self._begin_at(marks)

    def again(self, root: Directory, seen: Seen, since: int, *, settle: bool) -> Dirty | None:
        """
        Returns where to look once more, None where the walk is over.

        With `settle`, that is where names came or went while it was under way: `seen` is what it saw of each directory, `since`
        the time of the stamping clock when it began.
        """
        if self._strange and not self._everywhere:
            # A second name that was not known: what was written through it was noticed at another place, or nowhere.
            return self._begin_everywhere(self._walk.cache)
        if not settle:
            return None
        touched, marks = self._sync(root)
        if touched is None or marks is None:
            moving = moved_since(root.fd, seen, since)
            return self._begin_everywhere(self._walk.cache)._replace(moving=tuple(moving)) if moving else None
        moving = sorted(touched.whole | touched.moved)
        return self._begin_at(marks)._replace(moving=tuple(moving)) if moving else None

    def done(self, changed: Iterable[bytes]) -> None:
        """A round of the walk is over, which found some directories not to be what the cache holds."""
        if self._everywhere:
            self.watcher.end()
            for path in changed:
                self._walk.mark(path)
        self.marks, self._known = self._walk if self.watcher.usable else None, self._number

    def noticed(self) -> tuple[Marks, int]:
        """Returns the marks, and the number of the last notices that the walk knows of: for `remember`."""
        return self._walk, self._known

    @property
    def observed(self) -> Mapping[bytes, Any]:
        """What earlier walks saw of files that were too young to be remembered, as long as nothing happened to them."""
        return self._walk.observed

    def remember(self, noticed: object, observed: Mapping[bytes, Any]) -> None:
        """The stat cache has taken over what a walk found."""
        if isinstance(noticed, tuple) and noticed[0] is self.marks and self.marks is not None:
            self.marks.settle(noticed[1])
            self.marks.observed.update(observed)
        else:
            self.marks = None

    def _sync(self, root: Directory) -> tuple[Touched | None, Marks | None]:
        """Returns what was noticed, and the marks with it; None where it cannot be known what happened."""
        # An interruption takes notices along: until all are marked, nothing is known.
        marks, self.marks = self.marks, None
        touched = self.watcher.sync(root)
        if touched is not None and marks is not None:
            marks.add(touched)
            self.marks = marks
        return touched, marks

    def _begin_at(self, marks: Marks) -> Dirty:
        self._walk, self._everywhere, self._strange, self._number = marks, False, False, marks.number
        return marks.dirty(self._always)

    def _begin_everywhere(self, cache: object) -> Dirty:
        self.marks, self._walk, self._everywhere, self._strange, self._number = None, Marks(cache), True, False, 0
        self.watcher.begin()
        return EVERYTHING

    # -- during a walk --------------------------------------------------------------------------------

    def enter(self, path: bytes, fd: int) -> None:
        """Watches a directory that is about to be read."""
        if self._everywhere:
            self.watcher.cover(path, fd)
        elif not self.watcher.covers(path):
            self.watcher.cover(path, fd)
            self._walk.mark(path)  # watched from now on, and still not what the cache knows by this name

    def keeps(self, path: bytes) -> bool:
        """Returns whether a directory that is not marked is as it is remembered."""
        return self.watcher.covers(path)

    def links(self, directory: bytes, name: bytes) -> None:
        """Notes a file that has several names."""
        path = join(directory, name)
        self._strange |= path not in self._walk.linked
        self._walk.linked.add(path)
