"""
Our own modules out of one file, for commands: Python finds, opens and reads eighty of them one by one, which is a tenth of a save.

`mulligan compile` writes the file (`gathering.py`), beside the compiled part, and it is believed where that is: in a directory and
a file that are the user's own and that nobody else may write to. A module of it counts only while its source is the very
file that it was made of, which is more than Python asks of a `.pyc`; all others are found as ever, and so is everything
where there is no such file. Loads nothing that Python has not loaded by then.
"""

from __future__ import annotations

import marshal
import os
import stat
import sys

TYPE_CHECKING = False  # not from `typing`, which costs more than this saves
if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec, SourceFileLoader
    from importlib.util import source_hash
    from types import ModuleType
    from typing import Any
else:
    from _frozen_importlib import ModuleSpec
    from _frozen_importlib_external import MAGIC_NUMBER, SourceFileLoader
    from _imp import source_hash as _source_hash

    def source_hash(text: bytes) -> bytes:
        """Returns what `importlib.util.source_hash` does: a hash that depends on what Python's code looks like."""
        return _source_hash(int.from_bytes(MAGIC_NUMBER, "little"), text)


PREFIX = b"modules-"
# What the file begins with: how long its table is.
LENGTH = 8
_HOME = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_MOST_TABLE = 1 << 20


def belongs_to_user(found: os.stat_result) -> bool:
    """Whether a file or directory is the user's, and nobody else may write to it."""
    return found.st_uid == os.geteuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def identity(relative: str) -> tuple[int, ...]:
    """Returns by what a source file is known, and known to be unchanged; its path is relative to where the package is."""
    found = os.stat(f"{_HOME}/{relative}")
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def file_name() -> bytes:
    """Returns the name of the file for this very package, Python and kind of machine."""
    # Not a secret and not a proof: two of them in one directory must only not be taken for each other.
    machine = os.uname()
    made_for = f"{_HOME}\0{machine.machine}\0{machine.sysname}\0{sys.version}"
    return PREFIX + source_hash(os.fsencode(made_for)).hex().encode()


class Together:
    """The modules of one file, as Python's import system asks for them."""

    def __init__(self, fd: int, begin: int, table: dict[str, Any], library: tuple[bytes, dict[str, Any]]) -> None:
        self._fd, self._begin, self._table, self._library = fd, begin, table, library

    def find_spec(self, name: str, _path: object = None, _target: object = None) -> ModuleSpec | None:
        """Returns where to get a module from; None where it is not here, or its source is another by now."""
        found = self._table.get(name)
        if found is None:
            return None
        relative, is_package, known, _, _ = found
        try:
            if identity(relative) != known:
                return None
        except OSError:
            return None  # it was removed; Python itself says so
        place = f"{_HOME}/{relative}"
        spec = ModuleSpec(name, self, origin=place)  # type: ignore[arg-type]  # as much of a loader as is asked for
        if is_package:
            spec.submodule_search_locations = [os.path.dirname(place)]
        return spec

    def create_module(self, _spec: ModuleSpec) -> None:
        """Leaves it to Python to make the module."""

    def exec_module(self, module: ModuleType) -> None:
        """Runs a module's code in it."""
        name = module.__name__
        relative, _, _, begin, size = self._table[name]
        module.__file__ = place = f"{_HOME}/{relative}"
        try:
            code = marshal.loads(os.pread(self._fd, size, self._begin + begin))  # noqa: S302 - our own, out of the user's own hands
        except (OSError, EOFError, ValueError, TypeError):
            code = SourceFileLoader(name, place).get_code(name)  # what cannot be read is read from where it came
        exec(code, module.__dict__)  # noqa: S102 - as any import does

    def library(self) -> bytes | None:
        """Returns the name of the compiled part that was built of the sources that are there; None where they changed."""
        name, sources = self._library
        try:
            return name if all(identity(source) == known for source, known in sources.items()) else None
        except OSError:
            return None  # one is gone: whoever needs it says so


_used: Together | None = None


def use(place: str) -> None:
    """Lets Python take our modules from the file in a directory, where there is one that can be believed."""
    global _used  # noqa: PLW0603 - how modules are found concerns the whole process
    if _used is None:
        try:
            _used = _opened(place)
        except (OSError, ValueError, EOFError, TypeError):
            return  # there is none, or none of this kind: it is optional
        if _used is not None:
            sys.meta_path.insert(0, _used)


def known_library() -> bytes | None:
    """Returns the name of the compiled part, where that is known without reading all of its sources."""
    return _used.library() if _used is not None else None


def _opened(place: str) -> Together | None:
    directory = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if not belongs_to_user(os.fstat(directory)):
            return None
        fd = os.open(file_name(), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
    finally:
        os.close(directory)
    made = None
    try:
        made = _read(fd)
    finally:
        if made is None:
            os.close(fd)
    return made


def _read(fd: int) -> Together | None:
    """Returns what an open file holds; None where it is not the user's alone, or not whole."""
    found = os.fstat(fd)
    length = int.from_bytes(os.pread(fd, LENGTH, 0), "big")
    if not (stat.S_ISREG(found.st_mode) and belongs_to_user(found) and 0 < length <= _MOST_TABLE):
        return None
    size, table, library = marshal.loads(os.pread(fd, length, LENGTH))  # noqa: S302 - see the head of this module
    return Together(fd, LENGTH + length, table, library) if size == found.st_size - LENGTH - length else None
