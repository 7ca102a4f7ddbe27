"""
One glance at everything that is remembered, for the directories that are, with all below them, as they were.

The same questions that the walk asks (`walk._fill`, `walk._differing`), asked of all records in one go and answered with yes
or no. What is answered with no, for whatever reason, goes the way of the walk, which stays the only one that decides,
reads and reports. Where it is safe, two processes share the looking.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterator
from typing import TYPE_CHECKING

from mulligan.model.paths import join
from mulligan.safefs.clock import SECOND, pass_coarse_tick, stamping_clock, tick_began
from mulligan.safefs.descent import descending
from mulligan.safefs.twin import MOST_TASKS, Twin, can_twin
from mulligan.scan.cache import Cache
from mulligan.scan.record import HEAD, HEAD_SIZE, STAT, Missed, head_in, key_in

if TYPE_CHECKING:
    from mulligan.safefs.native import Looking
    from mulligan.scan.frame import Frame
    from mulligan.scan.result import Scan

# So many directories make one task, and from so many on a second process pays for itself.
_TASK = 32
_SHARE_DIRECTORIES = 150
# Loading the native look takes 2 ms, which are 50 directories.
_HELP_DIRECTORIES = 50
# Of a record's flags: it may be trusted, and there are no ignore rules of its own.
_TRUSTED, _HAS_IGNORES, _LEANS = 1, 4, 8


Seen = dict[bytes, tuple[int, int, int]]
Span = tuple[int, int]  # of directories, in the order of a walk: the first, and the first that is not in it


class Found:
    """What a glance found; each directory has a place in the order of a walk, so that what is below it follows it."""

    def __init__(self, begun: Glancing | Looked, *, index_changed: bool) -> None:
        self._cache = begun.cache
        self._root = begun.root
        self._order = begun.order
        self._looking = begun.looking
        self._heads = [HEAD.unpack_from(self._cache.packed(path)) for path in self._order]
        self._end = self._join(begun.answer(), index_changed=index_changed)
        self._at = {path: at for at, path in enumerate(self._order)}

    def _join(self, same: bytes, *, index_changed: bool) -> list[int]:
        """Returns where the subtree of each directory ends, 0 for one that is not as it was, or not all below it is."""
        order, heads, count = self._order, self._heads, len(self._order)
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
                    if stop >= count or not end[stop] or heads[stop][3] != key or order[stop] != join(path, name):
                        stop = 0
                        break
                    stop = end[stop]
            end[at] = stop
        return end

    def __len__(self) -> int:
        return len(self._order)

    def find(self, path: bytes) -> int:
        """Returns the place of a directory, -1 for one that is not remembered."""
        return self._at.get(path, -1)

    def path(self, at: int) -> bytes:
        """Returns the directory at a place."""
        return self._order[at]

    def end(self, at: int) -> int:
        """Returns where the subtree of a directory ends, 0 if not all of it is as it was."""
        return self._end[at]

    def own(self, at: int) -> tuple[int, int, int]:
        """Returns the stat fields of a directory itself."""
        ino, mtime, ctime = self._heads[at][:3]
        return ino, mtime, ctime

    def files(self, span: Span) -> int:
        """Returns how many files are captured in the directories of a span."""
        return sum(head[11] for head in self._heads[slice(*span)])

    def missing(self, span: Span) -> Iterator[int]:
        """Yields the directories of a span in which something is not captured."""
        return (at for at in range(*span) if self._heads[at][10])

    def moved(self, spans: list[Span]) -> list[bytes]:
        """Looks at the directories of some spans once more; returns those that are no longer what they were."""
        inside = [at for span in spans for at in range(*span)]
        if self._looking is not None:
            still = self._looking.begin(again=True).answer()
            inside = [at for at in inside if not still[at]]
        return restless(self._root, {self._order[at]: self.own(at) for at in inside})


class Glance:
    """What was found by one glance, and what of it a walk made use of."""

    def __init__(self, begun: Glancing | Looked, *, index_changed: bool) -> None:
        self._cache = begun.cache
        self._found = begun.found(index_changed=index_changed)
        self._passed: list[Span] = []

    def pass_over(self, frame: Frame, scan: Scan) -> None:
        """Takes those directories in one as they were that need no walk; the others stay to be done."""
        found, left = self._found, []
        for name in frame.todo:
            path = join(frame.path, name)
            at = found.find(path)
            end = found.end(at) if at >= 0 else 0
            packed = self._cache.packed(path) if end else b""
            # Remembered under other rules, or looked at for what git tracks in it alone: the walk knows what that means.
            if not end or key_in(packed) != frame.key or name in frame.out:
                left.append(name)
                continue
            frame.children.append((name, head_in(packed)))
            self._pass((at, end))
            scan.files += found.files((at, end))
            scan.missed.update(self._missed_in((at, end)))
        frame.todo = left

    def _pass(self, span: Span) -> None:
        # Directories that stand side by side follow each other.
        if self._passed and self._passed[-1][1] == span[0]:
            span = (self._passed.pop()[0], span[1])
        self._passed.append(span)

    def begin_part(self) -> None:
        """Forgets what was passed over: a twin tells of its own part alone."""
        self._passed = []

    def visited(self, seen: Seen) -> Visited:
        """Returns the directories that were entered or passed over."""
        return Visited(seen, self._found, self._passed)

    def restless(self, root: int, seen: Seen, since: int = 0) -> list[bytes]:
        """Returns the directories that are no longer what was seen of them; see the function of this name."""
        return restless(root, seen, since) + self._found.moved(self._passed)

    def _missed_in(self, span: Span) -> Iterator[tuple[bytes, Missed]]:
        for at in self._found.missing(span):
            path = self._found.path(at)
            record = self._cache.get(path)
            for row in record.missed if record is not None else ():
                yield join(path, row.name), row


class Visited:
    """The directories that were entered, and those that were passed over."""

    def __init__(self, entered: Seen, found: Found, passed: list[Span]) -> None:
        self._entered, self._found, self._passed = entered, found, sorted(passed)

    def __contains__(self, path: object) -> bool:
        if not isinstance(path, bytes) or path in self._entered:
            return isinstance(path, bytes)
        at = self._found.find(path)
        nearest = bisect_right(self._passed, (at, len(self._found))) - 1
        return at >= 0 and nearest >= 0 and at < self._passed[nearest][1]

    def all(self) -> Seen:
        """Returns what was seen of each of them."""
        found = self._found
        return self._entered | {found.path(at): found.own(at) for span in self._passed for at in range(*span)}

    def gone(self) -> list[bytes]:
        """Returns the directories that are remembered, and were neither entered nor passed over."""
        starts, ends = [begin for begin, _ in self._passed], [0, *(end for _, end in self._passed)]
        left = [at for gap in zip(ends, [*starts, len(self._found)], strict=True) for at in range(*gap)]
        return [path for path in map(self._found.path, left) if path not in self._entered]


def begin(root: int, cache: Cache, *, alone: bool = False) -> Glancing | None:
    """
    Begins to look at everything that is remembered; None where nothing is, or it may not be trusted as it stands.

    `alone` is without a second process, for who has something else to do for it.
    """
    return Glancing(root, cache, alone=alone) if len(cache) and not cache.is_doubted else None


class Glancing:
    """A glance that was begun. It goes on by itself where it can, in a thread of the native look or a second process."""

    def __init__(self, root: int, cache: Cache, *, alone: bool = False) -> None:
        self.cache = cache
        self.order = order = sorted(cache.paths(), key=depth_first)
        self.root = root
        self._device = os.fstat(root).st_dev
        self._size = max(_TASK, len(order) // MOST_TASKS + 1)
        self._twin: Twin | None = None
        self.is_kept = (
            False  # whether somebody closes it in the end, so that nobody waits for a process to be taken apart
        )
        self.looking: Looking | None = None
        if len(order) >= _HELP_DIRECTORIES:
            from mulligan.safefs.native import look

            self.looking = look(root, order, map(cache.packed, order))
        if self.looking is None and not alone and len(order) >= _SHARE_DIRECTORIES and can_twin():
            self._twin = Twin(-(-len(order) // self._size), self._part)

    def found(self, *, index_changed: bool) -> Found:
        """Helps to the end and returns what was found; once."""
        return Found(self, index_changed=index_changed)

    def answer(self) -> bytes:
        """Helps to the end and returns 1 for each directory that is as it was, 0 for the others; once."""
        if self.looking is not None:
            return self.looking.answer()
        twin, size = self._twin, self._size
        if twin is None:
            return bytes(_each(self.root, self.cache, self.order, self._device))
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
        return bytes(_each(self.root, self.cache, paths, self._device))


class Looked:
    """A glance that is over: at which directories, and 1 for each that is as it was; `looking` looks again where it is native."""

    def __init__(self, root: int, cache: Cache, order: list[bytes], looking: Looking | None, same: bytes) -> None:
        self.root, self.cache, self.order, self.looking, self._same = root, cache, order, looking, same
        self._found: dict[bool, Found] = {}

    def found(self, *, index_changed: bool) -> Found:
        """Returns what was found; made when it is first asked for."""
        if index_changed not in self._found:
            self._found[index_changed] = Found(self, index_changed=index_changed)
        return self._found[index_changed]

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


def restless(root: int, seen: Seen, since: int = 0) -> list[bytes]:
    """
    Returns the directories that are no longer what was seen of them.

    Where stamps are whole seconds, also those that had changed in the second in which the clock stood at `since`, before
    they were looked at: another change in that second does not show. Returns when it is over.
    """
    found, young = [], []
    for path, own in seen.items():
        try:
            st = os.stat(path or b".", dir_fd=root, follow_symlinks=False)
        except OSError:
            # Too deep for one path, or gone: its parent tells.
            continue
        if (st.st_ino, st.st_mtime_ns, st.st_ctime_ns) != own:
            found.append(path)
        elif since and not own[2] % SECOND and own[2] >= tick_began(since, own[2], root):
            young.append(path)
    newest = max((seen[path][2] for path in young), default=0)
    if young and newest >= tick_began(stamping_clock(), newest, root):
        pass_coarse_tick(root)
    return found + young
