"""
One watched workspace: which directories are watched, and where something happened since the last question.

Directories are watched by the scan itself, each before it is read, so nothing can change between the reading and the
watch. `sync` proves that every earlier notice has arrived: it opens the cookie, a file of the store that is watched by the
same queue, and reads until that is noticed. When it cannot be proven (a queue that ran over, a cookie that does not
come, a mount, a root that moved), the answer is None, and the next scan looks at everything.

LIMIT: a file that has a second name in a place that is not watched can be written to through that name without a notice.
LIMIT: what is written through a mapping or by asynchronous calls is noticed when the file is closed, not before.
"""

from __future__ import annotations

import errno
import os
import time
from typing import NamedTuple

from mulligan.model.paths import join, parent_of
from mulligan.safefs import inotify, syscalls
from mulligan.safefs.directory import READ_FLAGS, Directory
from mulligan.safefs.inotify import Inotify, Mounts, notices, unwatchable

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
