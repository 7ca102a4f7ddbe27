"""
The optional compiled part: where it may lie, when it is believed, how it is called.

It looks at many directories in two threads (`glance.c`; `scan/glance.py` asks it), also straight from the log of what is
remembered (`recalling.c`; `safefs/recalling.py` asks it), reads, hashes and deflates files
(`reading.c`, with `sha1.c` and `deflate.c`; `safefs/bulk.py` asks it), takes over what git knows of a repository at its first
checkpoint (`adopting.c`, `adopted.c`, `hinting.c`, `copying.c`; `safefs/adoption.py` asks it). It is code that
runs as the user, so it is loaded only from a directory and a file
that are the user's own and that nobody else may write to, under a name that holds the hash of the source that this version
came with; it is opened once, and what was looked at is what is loaded. Beside it lie our own modules in one file
(`together.py`).
"""

from __future__ import annotations

import os
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from mulligan.safefs import seam, together
from mulligan.safefs.directory import Directory

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mulligan.safefs.recalling import Recall

# What everything that is built begins with, finished or not.
PREFIX = b"glance-"
# One after the other they are one source: a later file uses what an earlier one defines.
SOURCES = (
    b"glance.c",
    b"sha1.c",
    b"deflate.c",
    b"reading.c",
    b"recalling.c",
    b"adopting.c",
    b"adopted.c",
    b"hinting.c",
    b"copying.c",
)
_LARGEST_SOURCE = 1 << 20
_paths: dict[tuple[int, int, int], str] = {}
_loaded: dict[str, Library] = {}


def source() -> bytes:
    """Returns its source, which is part of the package."""
    with Directory.open(os.path.dirname(os.path.abspath(__file__))) as package:
        return b"\n".join(package.read(name, limit=_LARGEST_SOURCE) for name in SOURCES)


def library_name() -> bytes:
    """Returns the name that a library built from this version's source has on this kind of machine."""
    known = together.known_library()
    if known is not None:
        return known
    made_of = b"%b\0%b\0%b" % (source(), os.uname().machine.encode(), os.uname().sysname.encode())
    return b"%b%b.so" % (PREFIX, blake2b(made_of, digest_size=16).hexdigest().encode())


class Untrusted(OSError):
    """The place, or the file, is not the user's alone."""


def _found(place: str) -> str | None:
    """Returns a path by which to load the library in a directory; None where there is none, or it is not the user's alone."""
    if not place or type(seam.calls) is not seam.Calls:
        return None  # a test that lies about the disk must not be passed by
    try:
        with Directory.open(place) as directory:
            return _path_of(directory, library_name())
    except OSError:
        return None  # it is optional


def _path_of(directory: Directory, name: bytes) -> str:
    if not together.belongs_to_user(os.fstat(directory.fd)):
        raise Untrusted(name)
    fd = directory.open_file(name)
    try:
        found = os.fstat(fd)
        if not together.belongs_to_user(found):
            raise Untrusted(name)
        key = (found.st_dev, found.st_ino, found.st_ctime_ns)
        if key not in _paths:
            # By a copy that stays open: a loader that meets the same name again takes what it has loaded under it.
            held = os.dup(fd)
            os.set_inheritable(held, False)
            _paths[key] = f"/proc/self/fd/{held}"
        return _paths[key]
    finally:
        seam.calls.close(fd)


def load(place: str) -> Library | None:
    """Returns the library in a directory; None where there is none, or it is not the user's alone."""
    path = _found(place)
    if path is None:
        return None
    if path not in _loaded:
        import ctypes

        try:
            _loaded[path] = Library(ctypes.CDLL(path))
        except OSError:
            return None  # not to be loaded on this machine
    return _loaded[path]


def recall(place: str, log: int, root: int) -> Recall | None:
    """Begins to read an open log of records, and to look at the directories beneath an open one; None where it cannot."""
    path = _found(place)
    if path is None:
        return None
    from mulligan.safefs.foreign import CDLL
    from mulligan.safefs.recalling import recall as begin

    try:
        return begin(CDLL(path), log, root, spare())
    except OSError:
        return None  # not to be loaded on this machine


def keep(place: str, made: str) -> str:
    """Puts a library that a compiler made in the directory into its place there, for its owner alone; returns its path."""
    name = library_name()
    with Directory.open(place) as directory:
        if not together.belongs_to_user(os.fstat(directory.fd)):
            raise Untrusted(place)
        with directory.reading(os.fsencode(made)) as fd:
            seam.calls.fchmod(fd, 0o500)
        directory.rename(os.fsencode(made), name, to=directory)
        _sweep(directory, (PREFIX,), keep=name)
    return os.path.join(place, name.decode())


def remove(place: str) -> bool:
    """Removes what was built, by whatever version, and the modules beside it; returns whether there was anything."""
    try:
        with Directory.open(place) as directory:
            return _sweep(directory, (PREFIX, together.PREFIX))
    except FileNotFoundError:
        return False


def _sweep(directory: Directory, prefixes: tuple[bytes, ...], *, keep: bytes = b"") -> bool:
    # Ours alone: what somebody else put there is none of our business.
    old = [name for name in directory.names() if name.startswith(prefixes) and name != keep]
    for name in old:
        directory.unlink(name, missing_ok=True)
    return bool(old)


def spare() -> int:
    """Returns how many threads beside the caller's have a processor."""
    return min(len(os.sched_getaffinity(0)) - 1, 1)


class Looking:
    """Many directories that are being looked at."""

    def __init__(self, library: Library, root: int, paths: Sequence[bytes], records: Sequence[bytes]) -> None:
        import ctypes

        count = len(paths)
        self._calls = library.calls
        self._root = root
        self._count = count
        # These hold on to what the threads read, until `answer` has waited for them.
        self._paths = (ctypes.c_char_p * count)(*paths)
        self._records = (ctypes.c_char_p * count)(*records)
        self._sizes = (ctypes.c_uint32 * count)(*map(len, records))
        self._same = ctypes.create_string_buffer(max(count, 1))
        self._job: int | None = None

    def begin(self, *, again: bool = False) -> Looking:
        """Begins to look, in the background: at everything, or only whether the directories are still the same."""
        given = (self._paths, self._records, self._sizes, self._same)
        self._job = self._calls.mulligan_begin(self._root, self._count, *given, int(again), spare())
        return self

    def answer(self) -> bytes:
        """Helps with what is left, waits, and returns 1 or 0 for each; what could not be begun is 0."""
        job, self._job = self._job, None
        if not job:
            return bytes(self._count)
        self._calls.mulligan_end(job)
        return self._same.raw[: self._count]

    def __del__(self) -> None:
        self.answer()  # its threads read what is about to be freed


class Library:
    """The compiled part, loaded."""

    def __init__(self, calls: Any) -> None:
        import ctypes

        self.calls = calls
        pointer = ctypes.c_void_p
        calls.mulligan_begin.argtypes = (
            ctypes.c_int, ctypes.c_uint32, pointer, pointer, pointer, pointer, ctypes.c_int, ctypes.c_int,
        )  # fmt: skip
        calls.mulligan_begin.restype = pointer
        calls.mulligan_end.argtypes, calls.mulligan_end.restype = (pointer,), None
        number, length, flags = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_int
        since = ctypes.c_int64
        calls.mulligan_reader.argtypes, calls.mulligan_reader.restype = (flags,), pointer
        calls.mulligan_reader_end.argtypes, calls.mulligan_reader_end.restype = (pointer,), None
        calls.mulligan_read.argtypes = (
            pointer, ctypes.c_int, number, ctypes.c_char_p, ctypes.c_char_p, pointer, pointer, length, since, flags,
        )  # fmt: skip
        calls.mulligan_read.restype = None
        calls.mulligan_ahead.argtypes = (
            ctypes.c_int, number, pointer, pointer, pointer, pointer, pointer, pointer, length, since, flags, ctypes.c_int,
        )  # fmt: skip
        calls.mulligan_ahead.restype = pointer
        calls.mulligan_ahead_wait.argtypes, calls.mulligan_ahead_wait.restype = (pointer, number), None
        calls.mulligan_ahead_packed.argtypes, calls.mulligan_ahead_packed.restype = (pointer,), flags
        calls.mulligan_ahead_end.argtypes, calls.mulligan_ahead_end.restype = (pointer,), None

    def look(self, root: int, paths: Sequence[bytes], records: Sequence[bytes]) -> Looking:
        """Begins to look at directories beneath an open one; each has a record of what should be there."""
        return Looking(self, root, paths, records).begin()
