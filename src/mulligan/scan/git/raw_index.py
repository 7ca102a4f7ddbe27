"""
An index that is not taken apart: single entries are looked up in its bytes.

Entries are sorted and begin at every eighth byte at most, so a look-up halves the file: it jumps to the middle, finds the
next place that can only be the begin of an entry, and compares names. Some twenty steps instead of a hundred thousand.
A hostile index can make a look-up miss; it cannot make it fail, or last.
"""

from __future__ import annotations

import re

from mulligan.scan.git.index_format import EXTENDED, HEAD, TRAILER, IndexEntry, decode, header, read_extensions
from mulligan.scan.git.split_index import Malformed

# The modes git writes, where an entry has its mode: plain, executable, link, submodule.
_MODE = re.compile(rb"\0\0(?:\x81\xa4|\x81\xed|\xa0\0|\xe0\0)")
_MODE_AT = 24
# Longer than the longest entry, so that the next one begins within.
_REACH = 8 << 10
_NEAR = 4 << 10


class RawIndex:
    """
    Looks up single entries of an index.

    `searchable` is False for version 4, split and sparse indexes: those have to be read as a whole.
    """

    __slots__ = ("_data", "_end", "extensions", "searchable")

    def __init__(self, data: bytes) -> None:
        """Looks at the header and the extensions."""
        self._data, self._end = data, 0
        self.extensions: dict[bytes, bytes] = {}
        try:
            version, _ = header(data)
            self._end = self._last() if version < 4 else 0
            self.extensions = read_extensions(data, self._end) if self._end else {}
        except Malformed:
            self._end = 0
        self.searchable = bool(self._end) and not self.extensions.keys() & {b"link", b"sdir"}

    def find(self, path: bytes) -> IndexEntry | None:
        """Returns an entry of the path (any of them, when it is unmerged), None where there is none."""
        low, high = 12, self._end
        while high - low > _NEAR:
            middle = (low + high) // 2
            start = self._next(middle, high)
            if start < 0 or self._name(start) > path:
                high = middle
            else:
                low = start
        while low < high and (after := self._after(low)) > 0:
            name = self._name(low)
            if name >= path:
                return decode(path, self._data[low : self._name_at(low)]) if name == path else None
            low = after
        return None

    def _last(self) -> int:
        """Returns where the entries end: the last place that still looks like one is followed by extensions only."""
        low, high = 12, len(self._data) - TRAILER
        while high - low > _NEAR:
            middle = (low + high) // 2
            start = self._next(middle, high)
            if start < 0:
                high = middle
            else:
                low = start
        while (after := self._after(low)) > 0:
            low = after
        return low

    def _next(self, at: int, high: int) -> int:
        """Returns the begin of the first entry from an offset on, -1 when none begins within reach."""
        found = _MODE.search(self._data, at + _MODE_AT, min(high, at + _REACH))
        while found:
            start = found.start() - _MODE_AT
            if (start - 12) % 8 == 0 and self._after(start) > 0:
                return start
            found = _MODE.search(self._data, found.start() + 1, min(high, at + _REACH))
        return -1

    def _name_at(self, start: int) -> int:
        return start + HEAD + (2 if self._data[start + 60] & EXTENDED else 0)

    def _name(self, start: int) -> bytes:
        name_at = self._name_at(start)
        return self._data[name_at : self._data.find(b"\0", name_at)]

    def _after(self, start: int) -> int:
        """Returns the end of the entry that begins here, -1 when none does."""
        data, last = self._data, len(self._data) - TRAILER
        if start + HEAD + 2 > last or not _MODE.match(data, start + _MODE_AT):
            return -1
        length = (data[start + 60] & 0xF) << 8 | data[start + 61]
        name_at = self._name_at(start)
        end = data.find(b"\0", name_at, name_at + max(length + 1, _REACH))
        after = start + ((end - start + 8) & -8)
        if end <= name_at or min(end - name_at, 0xFFF) != length or after > last or any(data[end:after]):
            return -1
        return after
