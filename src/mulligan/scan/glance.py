"""
One glance at everything that is remembered, for the directories that are, with all below them, as they were.

The same questions that the walk asks (`walk._fill`, `walk._differing`), asked of all records in one go and answered with yes
or no. What is answered with no, for whatever reason, goes the way of the walk, which stays the only one that decides,
reads and reports. Where it is safe, two processes share the looking.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Container, Iterator

from mulligan.model.paths import join
from mulligan.model.typed import TYPE_CHECKING
from mulligan.safefs.descent import descending
from mulligan.safefs.twin import MOST_TASKS, Twin, can_twin
from mulligan.scan.cache import Cache
from mulligan.scan.record import HEAD, HEAD_SIZE, STAT, Missed, head_in

if TYPE_CHECKING:
    from mulligan.safefs.compiled import Library
    from mulligan.scan.frame import Frame
    from mulligan.scan.result import Scan

# So many directories make one task, and from so many on a second process pays for itself.
_TASK = 32
_SHARE_DIRECTORIES = 150
# Loading the compiled part takes 2 ms, which are 50 directories.
_HELP_DIRECTORIES = 50
# Of a record's flags: it may be trusted, and there are no ignore rules of its own.
_TRUSTED, _HAS_IGNORES, _LEANS = 1, 4, 8


Seen = dict[bytes, tuple[int, int, int]]


class Glance:
    """What was found by one glance."""

    def __init__(self, begun: Glancing | Looked, *, index_changed: bool) -> None:
        self._cache = begun.cache
        self._order = order = begun.order
        self._looking = begun.looking
        self._own: list[tuple[int, int, int]] = []
        self._files: list[int] = []
        self._keys: list[bytes] = []
        self._missed: list[int] = []
        self._end = self._join(begun.answer(), index_changed=index_changed)
        self._at = {path: at for at, path in enumerate(order) if self._end[at]}

    def _join(self, same: bytes, *, index_changed: bool) -> list[int]:
        """Returns where the subtree of each directory ends, 0 for one that is not as it was, or not all below it is."""
        order, count = self._order, len(self._order)
        heads = [HEAD.unpack_from(self._cache.packed(path)) for path in order]
        self._own = [head[:3] for head in heads]
        self._keys = keys = [head[3] for head in heads]
        self._files = [head[11] for head in heads]
        self._missed = [at for at, head in enumerate(heads) if head[10]]
        end = [0] * count
        for at in range(count - 1, -1, -1):
            _, _, _, key, _, _, _, flags, names, dirs, missed, _, below = heads[at]
            if not same[at] or flags & (_TRUSTED | _HAS_IGNORES) != _TRUSTED:
                continue
            if index_changed and (missed or flags & _LEANS):
                continue  # what is in and what is out may have changed with it
            stop = at + 1
            if below:
                start, path = HEAD_SIZE + names, order[at]
                for name in self._cache.packed(path)[start : start + dirs].split(b"\0"):
                    if stop >= count or not end[stop] or keys[stop] != key or order[stop] != join(path, name):
                        stop = 0
                        break
                    stop = end[stop]
            end[at] = stop
        return end

    def pass_over(self, frame: Frame, scan: Scan, seen: Seen) -> None:
        """Takes those directories in one as they were that need no walk; the others stay to be done."""
        left = []
        for name in frame.todo:
            path = join(frame.path, name)
            at = self._at.get(path, -1)
            # Remembered under other rules, or looked at for what git tracks in it alone: the walk knows what that means.
            if at < 0 or self._keys[at] != frame.key or name in frame.out:
                left.append(name)
                continue
            end = self._end[at]
            frame.children.append((name, head_in(self._cache.packed(path))))
            seen.update(zip(self._order[at:end], self._own[at:end], strict=True))
            scan.files += sum(self._files[at:end])
            scan.missed.update(self._missed_in(at, end))
        frame.todo = left

    def restless(self, root: int, seen: Seen) -> list[bytes]:
        """Returns the directories that are no longer what was seen of them."""
        if self._looking is None:
            return restless(root, seen)
        still = self._looking.begin(again=True).answer()
        passed = {path for at, path in enumerate(self._order) if still[at] and seen.get(path) == self._own[at]}
        return restless(root, {path: own for path, own in seen.items() if path not in passed})

    def _missed_in(self, begin: int, end: int) -> Iterator[tuple[bytes, Missed]]:
        for at in self._missed[bisect_left(self._missed, begin) : bisect_left(self._missed, end)]:
            path = self._order[at]
            record = self._cache.get(path)
            for row in record.missed if record is not None else ():
                yield join(path, row.name), row


def load(place: str) -> Library | None:
    """Returns the compiled part; None where there is none, and then what would load it is not loaded either."""
    if not os.path.isdir(place):
        return None
    from mulligan.safefs.compiled import load as found

    return found(place)


def begin(root: int, cache: Cache, compiled: str = "", *, alone: bool = False) -> Glancing | None:
    """
    Begins to look at everything that is remembered; None where nothing is, or it may not be trusted as it stands.

    `alone` is without a second process, for who has something else to do for it.
    """
    return Glancing(root, cache, compiled, alone=alone) if len(cache) and not cache.is_doubted else None


class Glancing:
    """A glance that was begun. It goes on by itself where it can, in a thread of the compiled part or a second process."""

    def __init__(self, root: int, cache: Cache, compiled: str, *, alone: bool = False) -> None:
        self.cache = cache
        self.order = order = sorted(cache.paths(), key=depth_first)
        self._root = root
        self._device = os.fstat(root).st_dev
        self._size = max(_TASK, len(order) // MOST_TASKS + 1)
        self._twin: Twin | None = None
        self.is_kept = (
            False  # whether somebody closes it in the end, so that nobody waits for a process to be taken apart
        )
        library = load(compiled) if len(order) >= _HELP_DIRECTORIES else None
        self.looking = library.look(root, order, [cache.packed(path) for path in order]) if library else None
        if self.looking is None and not alone and len(order) >= _SHARE_DIRECTORIES and can_twin():
            self._twin = Twin(-(-len(order) // self._size), self._part)

    def answer(self) -> bytes:
        """Helps to the end and returns 1 for each directory that is as it was, 0 for the others; once."""
        if self.looking is not None:
            return self.looking.answer()
        twin, size = self._twin, self._size
        if twin is None:
            return bytes(_each(self._root, self.cache, self.order, self._device))
        found = bytearray(len(self.order))
        try:
            for number in twin.tasks():
                found[number * size : (number + 1) * size] = self._task(number)
            answer = twin.answer() or b""  # without one, its part goes the way of the walk
        finally:
            if not self.is_kept:
                self.close()
        for at in range(0, len(answer), size + 4):
            number = int.from_bytes(answer[at : at + 4], "little")
            end = min((number + 1) * size, len(found))
            found[number * size : end] = answer[at + 4 : at + 4 + end - number * size]
        return bytes(found)

    def close(self) -> None:
        """Ends what nobody asked for any more; again is harmless."""
        twin, self._twin = self._twin, None
        if twin is not None:
            with twin:
                pass
        if self.looking is not None:
            self.looking.answer()

    def _part(self, numbers: Iterator[int]) -> bytes:
        """The second process's part: the number of each task and what was found."""
        done = [(number, self._task(number)) for number in numbers]
        return b"".join(number.to_bytes(4, "little") + same.ljust(self._size, b"\0") for number, same in done)

    def _task(self, number: int) -> bytes:
        paths = self.order[number * self._size : (number + 1) * self._size]
        return bytes(_each(self._root, self.cache, paths, self._device))


class Looked:
    """A glance that is over; of some directories it is known by now that they are not what was remembered."""

    def __init__(self, begun: Glancing, same: bytes, changed: Container[bytes]) -> None:
        self.cache, self.order, self.looking = begun.cache, begun.order, begun.looking
        self._same = bytes(was and path not in changed for was, path in zip(same, begun.order, strict=True))

    def answer(self) -> bytes:
        """Returns 1 for each directory that is as it was, 0 for the others."""
        return self._same

    def close(self) -> None:
        """Has nothing to end."""


def depth_first(path: bytes) -> bytes:
    """Returns a key by which directories are sorted as a walk meets them."""
    # No name holds a NUL, and nothing sorts before it: what is below a directory follows it, before its next sibling.
    return path.replace(b"/", b"\0")


def _each(root: int, cache: Cache, paths: list[bytes], device: int) -> Iterator[bool]:
    for path, fd in zip(paths, descending(root, paths), strict=True):
        try:
            yield fd >= 0 and _is_same(fd, cache.packed(path), device)
        except (OSError, ValueError):
            yield False  # something vanished, or no record that could be read


def _is_same(fd: int, packed: bytes, device: int) -> bool:
    """Returns whether an open directory and all that was captured in it are as a record says."""
    head, st, look = HEAD.unpack_from(packed), os.fstat(fd), os.stat
    if (st.st_ino, st.st_mtime_ns, st.st_ctime_ns) != head[:3] or st.st_mode & 0o7777 != head[6] or st.st_dev != device:
        return False
    _, _, _, _, _, _, _, _, size, dirs, missed, count, _ = head
    names = packed[HEAD_SIZE : HEAD_SIZE + size].split(b"\0") if count else []
    start = HEAD_SIZE + size + dirs + missed
    for name, want in zip(names, STAT.iter_unpack(packed[start : start + count * STAT.size]), strict=True):
        st = look(name, dir_fd=fd, follow_symlinks=False)
        if (st.st_ino, st.st_mode, st.st_size, st.st_mtime_ns, st.st_ctime_ns) != want:
            return False
    return True


def restless(root: int, seen: Seen) -> list[bytes]:
    """Returns the directories that are no longer what was seen of them."""
    found = []
    for path, own in seen.items():
        try:
            st = os.stat(path or b".", dir_fd=root, follow_symlinks=False)
        except OSError:
            # Too deep for one path, or gone: its parent tells.
            continue
        if (st.st_ino, st.st_mtime_ns, st.st_ctime_ns) != own:
            found.append(path)
    return found
