"""
The modules of a command in one file, so that a fresh process makes their code in one go.

Python looks for each of a hundred modules in some directories, opens it, and makes its code for itself: a third of what a
save costs that way. Here the code that Python itself would take is kept together, and everything else about a module stays
Python's. It is code that runs as the user, so it is believed only in a directory and a file that are the user's own and that
nobody else may write to; and it is never stale: it counts for one interpreter and one place of the package, as long as every
source and every directory that it was made of is the very same. It is disposable: what is not in it, and what is wrong with
it, leaves Python to find the modules as ever. Imports next to nothing of mulligan: it is what the rest is loaded by.
"""

from __future__ import annotations

import marshal
import os
import sys
import time
from importlib.machinery import SourceFileLoader
from importlib.util import MAGIC_NUMBER, spec_from_file_location

TYPE_CHECKING = False  # not from `typing`, which costs more than all the rest here
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from importlib.machinery import ModuleSpec
    from types import CodeType, ModuleType
    from typing import Any

    from mulligan.safefs.directory import Directory

    Stamp = tuple[str, int, int, int, int, int]

#: Where it is, in the directory of what mulligan keeps for the user.
DIRECTORY = "modules"
PREFIX = "modules-"
_PACKAGE = "mulligan"
_LENGTH = 4
_LARGEST = 64 << 20
# A source that is younger may change once more within one tick of the clock.
_SETTLED_NS = 2_000_000_000
# So many installations of one user may have one each: the oldest goes.
_MOST = 8
_WRITABLE = 0o022


class Gathered:
    """What is kept for this installation, if anything is; the modules that are in it are found here from `use` on."""

    def __init__(self, place: str) -> None:
        self._place = place
        self._package = os.path.dirname(os.path.abspath(sys.modules[_PACKAGE].__file__ or ""))
        self._before = frozenset(sys.modules)
        self._paths: dict[str, str] = {}
        self._first: dict[str, bytes] = {}
        self._packed: bytes | memoryview = b""  # the rest, until one of it is needed
        self._rest: dict[str, CodeType] = {}

    def __len__(self) -> int:
        return len(self._paths)

    # -- finding modules --------------------------------------------------------------------------

    def use(self) -> None:
        """Finds modules in what is kept from now on, if it is there, the user's own, and of what is there now."""
        try:
            data = _read(self._place, self._name())
        except OSError:
            return  # none there, or not to be believed: Python finds the modules
        key = self._key()
        if not data.startswith(key):
            return
        start = len(key) + _LENGTH
        end = start + int.from_bytes(data[len(key) : start], "big")
        stamps, self._paths, self._first = _made(memoryview(data)[start:end])
        if not _are_same(stamps):
            self._paths = {}
            return
        self._packed = memoryview(data)[end:]
        sys.meta_path.insert(0, self)

    def find_spec(
        self, name: str, _path: Sequence[str] | None = None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Returns where a module comes from, None for one that is not kept here."""
        path = self._paths.get(name)
        if path is None:
            return None
        inside = [os.path.dirname(path)] if path.endswith("/__init__.py") else None
        return spec_from_file_location(name, path, loader=_Loader(name, path, self), submodule_search_locations=inside)

    def code(self, name: str) -> CodeType | None:
        """Returns the code of a module, None where there is none."""
        if name in self._first:
            alone: CodeType = _made(self._first[name])
            return alone
        if self._packed:
            packed, self._packed = self._packed, b""
            self._rest = _made(packed)
        return self._rest.get(name)

    # -- keeping them -----------------------------------------------------------------------------

    def keep(self, first: Iterable[str]) -> None:
        """Keeps the modules that this process loaded, each by itself of those that are needed `first`, the others together."""
        from mulligan.errors import MulliganError

        if sys.dont_write_bytecode or not _may_be_made(self._place):
            return
        try:
            self._keep(frozenset(first))
        except (OSError, MulliganError, ImportError, ValueError):
            return  # disposable, and nobody asked for it

    def _keep(self, first: frozenset[str]) -> None:
        from mulligan.safefs.directory import Directory, random_name
        from mulligan.safefs.durable import make_private, write_durably

        paths = {name: path for name, path in _loaded(self._package) if name not in self._before}
        stamps = [_stamp(path) for path in sorted({*paths.values(), *map(os.path.dirname, paths.values())})]
        if max(stamp[-1] for stamp in stamps) > time.time_ns() - _SETTLED_NS:
            return
        make_private(self._place)
        with Directory.open(self._place) as directory:
            if not _is_own(os.fstat(directory.fd)):
                return
            codes = {name: SourceFileLoader(name, path).get_code(name) for name, path in paths.items()}
            alone = {name: marshal.dumps(code) for name, code in codes.items() if name in first}
            head = marshal.dumps((stamps, paths, alone))
            rest = marshal.dumps({name: code for name, code in codes.items() if name not in first})
            parts = [self._key(), len(head).to_bytes(_LENGTH, "big"), head, rest]
            temporary = f"{PREFIX}{random_name(6)}.tmp".encode()
            # Durable, although it is disposable: Python does not survive half of it.
            write_durably(directory, self._name().encode(), parts, temporary=temporary, what="the modules of a command")
            for _, old in sorted((directory.stat(name).st_mtime_ns, name) for name in _kept(directory))[:-_MOST]:
                directory.unlink(old, missing_ok=True)

    def _name(self) -> str:
        found = os.stat(self._package)
        return f"{PREFIX}{found.st_dev:x}-{found.st_ino:x}-{sys.implementation.cache_tag}-{sys.flags.optimize}"

    def _key(self) -> bytes:
        made_for = f"{MAGIC_NUMBER.hex()} {sys.hexversion:x} {sys.flags.optimize}"
        return f"mulligan-modules-1 {made_for} {self._package}\n".encode(errors="surrogateescape")


def discard(place: str) -> None:
    """Removes what is kept in a directory: the next save keeps what it needs then."""
    from mulligan.safefs.directory import Directory

    try:
        with Directory.open(place) as directory:
            for name in _kept(directory):
                directory.unlink(name, missing_ok=True)
    except OSError:
        return  # nothing is kept there, or it cannot be removed and stays true


def _kept(directory: Directory) -> list[bytes]:
    return [name for name in directory.names() if name.startswith(PREFIX.encode())]


class _Loader(SourceFileLoader):
    """Python's own loader of a source file, that has its code already."""

    def __init__(self, name: str, path: str, gathered: Gathered) -> None:
        super().__init__(name, path)
        self._gathered = gathered

    def get_code(self, fullname: str) -> CodeType | None:
        return self._gathered.code(fullname) or super().get_code(fullname)


def _made(packed: bytes | memoryview) -> Any:
    return marshal.loads(packed)  # noqa: S302 - of a file that is the user's own, as Python's own caches are


def _read(place: str, name: str) -> bytes:
    """Returns the bytes of a file that is the user's own, in a directory that is; raises OSError otherwise."""
    folder = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if not _is_own(os.fstat(folder)):
            raise PermissionError(place)
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, dir_fd=folder)
    finally:
        os.close(folder)
    try:
        found = os.fstat(fd)
        if not _is_own(found) or found.st_mode & 0o170000 != 0o100000 or found.st_size > _LARGEST:
            raise PermissionError(name)
        data = os.read(fd, found.st_size + 1)
        if len(data) != found.st_size:
            raise OSError(name)
        return data
    finally:
        os.close(fd)


def _is_own(found: os.stat_result) -> bool:
    return found.st_uid == os.geteuid() and not found.st_mode & _WRITABLE


def _may_be_made(place: str) -> bool:
    """Whether a directory is there or may be made, in one that is the user's own: root leaves nothing in another's home."""
    while not os.path.isdir(place):
        place = os.path.dirname(place)
    return _is_own(os.stat(place))


def _stamp(path: str) -> Stamp:
    found = os.stat(path)
    return path, found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _are_same(stamps: list[Stamp]) -> bool:
    try:
        return stamps == [_stamp(stamp[0]) for stamp in stamps]
    except OSError:
        return False  # one of them is gone


def _loaded(package: str) -> Iterable[tuple[str, str]]:
    """Yields the modules of the package that were loaded, and where their sources are."""
    for name, module in list(sys.modules.items()):
        path = getattr(module, "__file__", None)
        if name.startswith(_PACKAGE + ".") and path and path.startswith(package + "/") and path.endswith(".py"):
            yield name, path
