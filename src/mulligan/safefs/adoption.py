"""
What git's index says of a workspace, taken apart, looked at and copied by the compiled part (`adopting.c`, `adopted.c`, `copying.c`).

Files have places in the order of their directories, and directories in that of a walk. Which names are in scope, what is a
secret and whether git is to be believed is decided by the caller; here nothing is.
"""

from __future__ import annotations

import ctypes
import os
import struct

from mulligan.model.typed import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

# Of a file: it proves nothing, its name says that it is no secret, it was looked at.
UNPROVEN, PLAIN, LOOKED_AT = 0, 1, 2
# Of a directory: something in it is to be decided by name, it lies where files are secret for being there, permission bits are
# not the usual ones; it was seen, holds what it should and nothing else, and these files.
DECIDE, PLACE, ODD, SEEN, WHOLE, IGNORES, ATTRIBUTES = 1, 2, 4, 8, 16, 32, 64
_HEAD = 62
_FOLDER = struct.Struct("=7Q")
_JUDGED = struct.Struct("<II")
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


class Folder(NamedTuple):
    """A directory: its record's place and size, its first file and how many, what is known of it, its tree's place and size."""

    record: int
    size: int
    first: int
    files: int
    flags: int
    tree: int
    tree_size: int


class _Terms(ctypes.Structure):
    _fields_ = (
        ("upper", ctypes.c_uint64),
        *((name, ctypes.c_int64) for name in ("latest", "since", "boot", "largest")),
        *(
            (name, ctypes.c_uint32)
            for name in ("file", "executable", "usual_file", "usual_executable", "usual_directory")
        ),
        *((name, ctypes.c_char_p) for name in ("plain", "places", "built_in")),
    )


def _declare(calls: Any) -> None:
    pointer, number, length, time = ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint64, ctypes.c_int64
    text, flag = ctypes.c_char_p, ctypes.c_int
    for name, result, given in (
        ("adopt", pointer, (text, length, pointer)),
        ("adopt_free", None, (pointer,)),
        ("adopt_expect", flag, (pointer, pointer)),
        ("adopt_look", flag, (pointer, flag, flag)),
        ("adopt_wait", None, (pointer,)),
        ("adopt_trees", None, (pointer,)),
        ("adopt_told", None, (pointer, pointer)),
        ("adopt_folders", None, (pointer, pointer)),
        ("adopt_entry", None, (pointer, number, pointer)),
        ("adopt_finish", None, (pointer, text, text, flag, time, time, pointer)),
        ("copy", pointer, (pointer, length)),
        ("copy_free", None, (pointer,)),
        ("copy_add", length, (pointer, flag, flag, length)),
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
    return b"".join(word + b"\0" for word in words)


class Adoption:
    """An index that was taken apart."""

    def __init__(self, calls: Any, begun: int, data: bytes, told: tuple[int, int]) -> None:
        self._calls, self._begun, self._data = calls, begun, data
        self.files, self.directories = told
        self._told = (ctypes.c_uint64 * 10)()

    def __del__(self) -> None:
        self._calls.mulligan_adopt_free(self._begun)

    def entry(self, at: int) -> tuple[bytes, bytes]:
        """Returns the path of a file and what the index says before its name."""
        self._calls.mulligan_adopt_entry(self._begun, at, self._told)
        path, size, name, length, head = self._told[:5]
        above, below = ctypes.string_at(path, size), ctypes.string_at(name, length)
        return above + b"/" + below if above else below, ctypes.string_at(head, _HEAD)

    def expect(self, terms: Terms) -> bool:
        """Makes a record of each directory as it is expected; returns whether there was room for that."""
        times = (terms.latest, terms.since, terms.boot, terms.largest)
        # These are looked at until the end.
        self._terms = _Terms(
            terms.upper, *times, *terms.modes, *terms.usual, *map(_words, (terms.plain, terms.places, terms.built_in))
        )
        return bool(self._calls.mulligan_adopt_expect(self._begun, ctypes.byref(self._terms)))

    def _where(self) -> list[int]:
        self._calls.mulligan_adopt_told(self._begun, self._told)
        return self._told[:]

    def look(self, root: int, threads: int) -> bool:
        """Begins to look at everything; the root stays open until `wait`."""
        return bool(self._calls.mulligan_adopt_look(self._begun, root, threads))

    def wait(self) -> None:
        """Helps, and waits until everything was looked at."""
        self._calls.mulligan_adopt_wait(self._begun)

    def make_trees(self) -> None:
        """Makes the trees, after the look."""
        self._calls.mulligan_adopt_trees(self._begun)

    def paths(self) -> list[bytes]:
        """Returns every directory."""
        told = self._where()
        return ctypes.string_at(told[2], told[3]).split(b"\0")

    def folders(self) -> list[Folder]:
        """Returns what is known of each directory."""
        rows = ctypes.create_string_buffer(_FOLDER.size * self.directories)
        self._calls.mulligan_adopt_folders(self._begun, rows)
        make = tuple.__new__
        return [make(Folder, row) for row in _FOLDER.iter_unpack(rows)]

    def names(self) -> bytes:
        """Returns the path of every file, sorted, with a NUL between them."""
        told = self._where()
        return ctypes.string_at(told[8], told[9] - 1)

    def records(self) -> bytes:
        """Returns the records, one behind the other."""
        told = self._where()
        return ctypes.string_at(told[0], told[1])

    def states(self) -> bytes:
        """Returns what is known of each file."""
        return ctypes.string_at(self._where()[4], self.files)

    def set_state(self, at: int, state: int) -> None:
        """Says what is known of a file, after the look."""
        if not 0 <= at < self.files:
            raise IndexError(at)
        ctypes.c_ubyte.from_address(self._where()[4] + at).value = state

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
        self._calls.mulligan_adopt_finish(self._begun, flags, keys, int(one), *latest, same)
        return same.raw[: self.directories]

    def copying(self) -> Copying | None:
        """Returns who copies the objects of what was found to be as the index says, and the trees; None where there is no room."""
        begun = self._calls.mulligan_copy(self._begun, int.from_bytes(os.urandom(8), "little"))
        return Copying(self._calls, begun, self._begun) if begun else None


class Copying:
    """Objects on their way from the user's packs into our own; whatever is in it was copied."""

    def __init__(self, calls: Any, begun: int, adoption: int) -> None:
        self._calls, self._begun, self._adoption = calls, begun, adoption
        self._count = 0

    def __del__(self) -> None:
        self._calls.mulligan_copy_free(self._begun)

    def __contains__(self, oid: object) -> bool:
        return isinstance(oid, bytes) and len(oid) == 20 and bool(self._calls.mulligan_copy_has(self._begun, oid))

    def add(self, index: int, pack: int, limit: int) -> int:
        """Finds what is wanted in an open pack, which stays open; returns the size of its index, 0 where it is not usable."""
        size: int = self._calls.mulligan_copy_add(self._begun, index, pack, limit)
        return size

    def plan(self, limit: int, most: int, parts: int) -> int:
        """Returns how many new packs there are to be, of at most so many bytes and rows."""
        self._count = int(self._calls.mulligan_copy_plan(self._begun, limit, most, parts))
        return self._count

    def begin(self, files: Sequence[int], threads: int) -> None:
        """Begins to fill the new packs, in the background where there are threads; files and sources stay open until the end."""
        if len(files) != self._count:
            raise ValueError("other files than new packs")
        self._calls.mulligan_copy_begin(self._begun, (ctypes.c_int * self._count)(*files), threads)

    def end(self, *, leave: bool = False) -> None:
        """Helps, and waits until all is copied; or leaves the rest."""
        self._calls.mulligan_copy_end(self._begun, int(leave))

    def made(self, at: int) -> tuple[int, int, bytes, bytes]:
        """Returns of a new pack the system's error number, its size, its checksum and its index."""
        told = (ctypes.c_uint64 * 5)()
        self._calls.mulligan_copy_made(self._begun, at, told)
        error, size, checksum, index, length = told
        return error, size, ctypes.string_at(checksum, 20), ctypes.string_at(index, length) if index else b""

    def deltas(self) -> list[tuple[bytes, int, int]]:
        """Returns the wanted objects that are deltas, and what these may stand on: id, kind and size."""
        count = self._calls.mulligan_copy_deltas(self._begun, None)
        rows = ctypes.create_string_buffer(_DELTA.size * count + 1)
        self._calls.mulligan_copy_deltas(self._begun, rows)
        return list(_DELTA.iter_unpack(rows.raw[: _DELTA.size * count]))

    def took(self, oid: bytes) -> None:
        """Says that an object was copied by somebody else."""
        self._calls.mulligan_copy_took(self._begun, oid)

    def settle(self) -> int:
        """Takes the proof from every file whose object was not copied; returns how many had one."""
        refused: int = self._calls.mulligan_copy_settle(self._begun, self._adoption)
        return refused

    def trees_left(self, directories: int) -> list[int]:
        """Returns those of so many directories whose trees were not copied."""
        found = (ctypes.c_uint32 * directories)()
        return found[: self._calls.mulligan_copy_trees(self._begun, self._adoption, found)]


def taken_apart(calls: Any, data: bytes) -> Adoption | None:
    """Takes an index apart; None for one that is not plain."""
    _declare(calls)
    told = (ctypes.c_uint32 * 2)()
    begun = calls.mulligan_adopt(data, len(data), told)
    return Adoption(calls, begun, data, (told[0], told[1])) if begun else None
