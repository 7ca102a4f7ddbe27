"""
What git's index says of a workspace, taken apart, looked at and copied by the compiled part (`adopting.c`, `adopted.c`, `hinting.c`, `copying.c`).

Files have places in the order of their directories, and directories in that of a walk. Which names are in scope, what is a
secret and whether git is to be believed is decided by the caller; here nothing is.
"""

from __future__ import annotations

import ctypes
import os
import struct
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

# Of a file: it proves nothing, its name says that it is no secret, it was looked at.
UNPROVEN, PLAIN, LOOKED_AT = 0, 1, 2
# Of a directory: permission bits are not the usual ones; it was seen, has ignore rules, has attributes.
ODD, SEEN, IGNORES, ATTRIBUTES = 4, 8, 32, 64
_HEAD = 62
_FOLDER = struct.Struct("=7Q")
_JUDGED = struct.Struct("<II")
_HIT = struct.Struct("=II")
_DELTA = struct.Struct("<20sBQ")


class Terms(NamedTuple):
    """What is expected of files, and when what the index says of one is sure."""

    upper: int
    latest: int
    since: int
    boot: int
    largest: int
    modes: tuple[int, int]
    usual: tuple[int, int, int]
    plain: Iterable[bytes]
    places: Iterable[bytes]
    built_in: Iterable[bytes]
    odd_parts: Iterable[bytes]
    odd_heads: Iterable[bytes]


class Folder(NamedTuple):
    """A directory: its record's place and size, its first file and how many, what is known of it, its tree's place and size."""

    record: int
    size: int
    first: int
    files: int
    flags: int
    tree: int
    tree_size: int


class Hints(Protocol):
    """What a name must be like for a rule to say something (`scan.hints`)."""

    names: set[bytes]
    heads: set[bytes]
    tails: set[bytes]
    prefixes: set[bytes]
    every: bool


class _Hints(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_char_p) for name in ("names", "heads", "tails", "prefixes")),
        ("every", ctypes.c_uint32),
    )

    @classmethod
    def of(cls, hints: Hints) -> _Hints:
        return cls(*map(_words, (hints.names, hints.heads, hints.tails, hints.prefixes)), hints.every)


class _Terms(ctypes.Structure):
    _fields_ = (
        ("upper", ctypes.c_uint64),
        *((name, ctypes.c_int64) for name in ("latest", "since", "boot", "largest")),
        *(
            (name, ctypes.c_uint32)
            for name in ("file", "executable", "usual_file", "usual_executable", "usual_directory")
        ),
        *((name, ctypes.c_char_p) for name in ("plain", "places", "built_in", "odd_parts", "odd_heads")),
    )


def _declare(calls: Any) -> None:
    pointer, number, length, time = ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint64, ctypes.c_int64
    text, flag = ctypes.c_char_p, ctypes.c_int
    for name, result, given in (
        ("adopt", pointer, (text, length, flag, pointer)),
        ("adopt_free", None, (pointer,)),
        ("adopt_expect", flag, (pointer, pointer, flag)),
        ("adopt_look", flag, (pointer, pointer, flag, flag)),
        ("adopt_wait", None, (pointer,)),
        ("adopt_hits", number, (pointer, pointer, pointer, length, pointer)),
        ("adopt_told", None, (pointer, pointer)),
        ("adopt_folders", None, (pointer, pointer)),
        ("adopt_entry", None, (pointer, number, pointer)),
        ("adopt_finish", None, (pointer, text, text, flag, time, time, pointer)),
        ("copy", pointer, (length,)),
        ("copy_free", None, (pointer,)),
        ("copy_add", flag, (pointer, flag, flag)),
        ("copy_open", None, (pointer, length, flag)),
        ("copy_uses", flag, (pointer, number)),
        ("copy_want", flag, (pointer, pointer)),
        ("copy_plan", number, (pointer, length, number, number)),
        ("copy_begin", None, (pointer, pointer, flag)),
        ("copy_end", None, (pointer, flag)),
        ("copy_made", None, (pointer, number, pointer)),
        ("copy_has", flag, (pointer, text)),
        ("copy_took", None, (pointer, text)),
        ("copy_deltas", number, (pointer, pointer)),
        ("copy_settle", number, (pointer, pointer)),
        ("copy_trees", number, (pointer, pointer, pointer)),
    ):
        call = getattr(calls, "mulligan_" + name)
        call.restype, call.argtypes = result, given


def _words(words: Iterable[bytes]) -> bytes:
    return b"".join(word + b"\0" for word in words if word)


class Adoption:
    """An index that was taken apart."""

    def __init__(self, calls: Any, begun: int, data: bytes, told: tuple[int, int, bool]) -> None:
        self._calls, self.begun, self._data = calls, begun, data
        self.files, self.directories, self.has_attributes = told
        self._told = (ctypes.c_uint64 * 10)()

    def __del__(self) -> None:
        self._calls.mulligan_adopt_free(self.begun)

    def entry(self, at: int) -> tuple[bytes, bytes]:
        """Returns the path of a file and what the index says before its name."""
        self._calls.mulligan_adopt_entry(self.begun, at, self._told)
        path, size, name, length, head = self._told[:5]
        above, below = ctypes.string_at(path, size), ctypes.string_at(name, length)
        return above + b"/" + below if above else below, ctypes.string_at(head, _HEAD)

    def expect(self, terms: Terms, threads: int) -> bool:
        """Makes a record of each directory as it is expected, in so many threads more; returns whether there was room for that."""
        times = (terms.latest, terms.since, terms.boot, terms.largest)
        words = (terms.plain, terms.places, terms.built_in, terms.odd_parts, terms.odd_heads)
        # These are looked at until the end.
        self._terms = _Terms(terms.upper, *times, *terms.modes, *terms.usual, *map(_words, words))
        return bool(self._calls.mulligan_adopt_expect(self.begun, ctypes.byref(self._terms), threads))

    def _where(self) -> list[int]:
        self._calls.mulligan_adopt_told(self.begun, self._told)
        return self._told[:]

    def look(self, root: int, copying: Copying, threads: int) -> bool:
        """Begins to look at everything, and to find in packs what may be wanted; the root stays open until `wait`."""
        self._copying = copying
        return bool(self._calls.mulligan_adopt_look(self.begun, copying.begun, root, threads))

    def wait(self) -> None:
        """Helps, and waits until everything was looked at and the trees are made."""
        self._calls.mulligan_adopt_wait(self.begun)

    def hits(self, files: Hints, dirs: Hints) -> list[tuple[int, int]] | None:
        """
        Returns over which names there is something to decide, each as a directory and a place among its files, and behind them its directories.

        By rules, or by what a name that is not source code holds or begins with; None where there was no room to find out.
        """
        rows = ctypes.create_string_buffer(_HIT.size * (self.files + self.directories))
        given = ctypes.byref(_Hints.of(files)), ctypes.byref(_Hints.of(dirs)), int.from_bytes(os.urandom(8), "little")
        count = self._calls.mulligan_adopt_hits(self.begun, *given, rows)
        if count > self.files + self.directories:
            return None
        return list(_HIT.iter_unpack(memoryview(rows)[: _HIT.size * count]))

    def paths(self) -> list[bytes]:
        """Returns every directory."""
        told = self._where()
        return ctypes.string_at(told[2], told[3]).split(b"\0")

    def folders(self) -> list[Folder]:
        """Returns what is known of each directory."""
        rows = ctypes.create_string_buffer(_FOLDER.size * self.directories)
        self._calls.mulligan_adopt_folders(self.begun, rows)
        make = tuple.__new__
        return [make(Folder, row) for row in _FOLDER.iter_unpack(rows)]

    def names(self) -> bytes:
        """Returns the path of every file, sorted, with a NUL between them."""
        told = self._where()
        return ctypes.string_at(told[8], told[9] - 1)

    def records(self, folders: Iterable[Folder]) -> list[bytes]:
        """Returns the records of directories."""
        start, cut = self._where()[0], ctypes.string_at
        return [cut(start + folder.record, folder.size) for folder in folders]

    def record(self, folder: Folder) -> bytes:
        """Returns the record of a directory."""
        return ctypes.string_at(self._where()[0] + folder.record, folder.size)

    def states(self) -> bytes:
        """Returns what is known of each file."""
        return ctypes.string_at(self._where()[4], self.files)

    def set_states(self, states: Iterable[tuple[int, int]]) -> None:
        """Says what is known of files, after the look."""
        known = (ctypes.c_ubyte * self.files).from_address(self._where()[4])
        for at, state in states:
            known[at] = state

    def tree(self, folder: Folder) -> bytes:
        """Returns the bytes of a directory's tree."""
        return ctypes.string_at(self._where()[7] + folder.tree, folder.tree_size)

    def to_judge(self) -> Iterator[tuple[int, bytes]]:
        """Yields the files whose first bytes may be a secret's, and these."""
        told = self._where()
        data, at = ctypes.string_at(told[5], told[6]) if told[6] else b"", 0
        while at < len(data):
            place, size = _JUDGED.unpack_from(data, at)
            at += _JUDGED.size + size
            yield place, data[at - size : at]

    def finish(self, flags: bytes, keys: bytes, latest: tuple[int, int]) -> bytes:
        """Completes the records, with flags and a key for each or one for all; returns 1 for each that is as it was, 0 for the others."""
        same = ctypes.create_string_buffer(self.directories)
        one = len(keys) == 16
        if len(flags) != self.directories or not (one or len(keys) == 16 * self.directories):
            raise ValueError("flags and keys of other directories")
        self._calls.mulligan_adopt_finish(self.begun, flags, keys, int(one), *latest, same)
        return same.raw[: self.directories]


class Copying:
    """Objects on their way from the user's packs into our own; whatever is in it was copied."""

    def __init__(self, calls: Any, begun: int) -> None:
        self._calls, self.begun = calls, begun
        self._count = 0

    def __del__(self) -> None:
        self._calls.mulligan_copy_free(self.begun)

    def __contains__(self, oid: object) -> bool:
        return isinstance(oid, bytes) and len(oid) == 20 and bool(self._calls.mulligan_copy_has(self.begun, oid))

    def add(self, index: int, pack: int) -> bool:
        """Takes an open pack and its index, which stay open until `close`; returns False for one too many."""
        return bool(self._calls.mulligan_copy_add(self.begun, index, pack))

    def open(self, limit: int, threads: int) -> None:
        """Begins to read the indexes of the packs, of so many bytes at most, in the background where there is a thread."""
        self._calls.mulligan_copy_open(self.begun, limit, threads)

    def uses(self, at: int) -> bool:
        """Returns whether a pack can be used, after `want`; others may be closed."""
        return bool(self._calls.mulligan_copy_uses(self.begun, at))

    def want(self, adoption: Adoption) -> bool:
        """Wants the objects of what was found to be as the index says, and the trees; returns whether there was room for that."""
        return bool(self._calls.mulligan_copy_want(self.begun, adoption.begun))

    def plan(self, limit: int, most: int, parts: int) -> int:
        """Returns how many new packs there are to be, of at most so many bytes and rows."""
        self._count = int(self._calls.mulligan_copy_plan(self.begun, limit, most, parts))
        return self._count

    def begin(self, files: Sequence[int], threads: int) -> None:
        """Begins to fill the new packs, in the background where there are threads; files and sources stay open until the end."""
        if len(files) != self._count:
            raise ValueError("other files than new packs")
        self._calls.mulligan_copy_begin(self.begun, (ctypes.c_int * self._count)(*files), threads)

    def end(self) -> None:
        """Helps, and waits until all is copied."""
        self._calls.mulligan_copy_end(self.begun, 0)

    def close(self) -> None:
        """Waits until nothing of what is open is used any more; what was not begun is left. Again is harmless."""
        self._calls.mulligan_copy_end(self.begun, 1)

    def made(self, at: int) -> tuple[int, int, bytes, bytes]:
        """Returns of a new pack the system's error number, its size, its checksum and its index."""
        told = (ctypes.c_uint64 * 5)()
        self._calls.mulligan_copy_made(self.begun, at, told)
        error, size, checksum, index, length = told
        return error, size, ctypes.string_at(checksum, 20), ctypes.string_at(index, length) if index else b""

    def deltas(self) -> list[tuple[bytes, int, int]]:
        """Returns the wanted objects that are deltas, and what these may stand on: id, kind and size."""
        count = self._calls.mulligan_copy_deltas(self.begun, None)
        rows = ctypes.create_string_buffer(_DELTA.size * count + 1)
        self._calls.mulligan_copy_deltas(self.begun, rows)
        return list(_DELTA.iter_unpack(rows.raw[: _DELTA.size * count]))

    def took(self, oid: bytes) -> None:
        """Says that an object was copied by somebody else."""
        self._calls.mulligan_copy_took(self.begun, oid)

    def settle(self, adoption: Adoption) -> int:
        """Takes the proof from every file whose object was not copied; returns how many had one."""
        refused: int = self._calls.mulligan_copy_settle(self.begun, adoption.begun)
        return refused

    def trees_left(self, adoption: Adoption) -> list[int]:
        """Returns the directories whose trees were not copied."""
        found = (ctypes.c_uint32 * adoption.directories)()
        return found[: self._calls.mulligan_copy_trees(self.begun, adoption.begun, found)]


def new_copying(calls: Any) -> Copying | None:
    """Returns somebody who copies objects; None where there is no room."""
    _declare(calls)
    begun = calls.mulligan_copy(int.from_bytes(os.urandom(8), "little"))
    return Copying(calls, begun) if begun else None


def taken_apart(calls: Any, data: bytes, threads: int = 0) -> Adoption | None:
    """Takes an index apart, with a thread beside where there is one; None for one that is not plain, or whose checksum is not right."""
    _declare(calls)
    told = (ctypes.c_uint32 * 3)()
    begun = calls.mulligan_adopt(data, len(data), threads, told)
    return Adoption(calls, begun, data, (told[0], told[1], bool(told[2]))) if begun else None
