"""
Tar archives, the way files enter and leave a container.

The archive is untrusted: programs in the container wrote it. Nothing of it is ever unpacked on this machine. Only names
are listed and the bytes of one regular file are taken, up to a limit; a name that leads elsewhere is left out.
"""

from __future__ import annotations

import tarfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from mulligan.environments.container.trouble import EngineRefused

#: The largest file that `read_file` brings out: it is held in memory.
LARGEST_READ = 256 << 20
_BLOCK = tarfile.BLOCKSIZE
_PERMISSIONS = 0o7777


class Owner(NamedTuple):
    """Whose a file is and what may be done with it."""

    uid: int = 0
    gid: int = 0
    mode: int = 0o644


class _ArchivePieces:
    """A file to read from, made of the pieces of a download."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = iter(pieces)
        self._rest = b""

    def read(self, size: int) -> bytes:
        """Returns exactly `size` bytes, fewer only at the end."""
        parts, have = [self._rest], len(self._rest)
        while have < size and (piece := next(self._pieces, None)) is not None:
            parts.append(piece)
            have += len(piece)
        joined = b"".join(parts)
        self._rest = joined[size:]
        return joined[:size]


@contextmanager
def _reading(pieces: Iterable[bytes]) -> Iterator[tarfile.TarFile]:
    try:
        with tarfile.open(fileobj=_ArchivePieces(pieces), mode="r|") as tar:  # type: ignore[call-overload] # it only reads
            yield tar
    except (tarfile.TarError, EOFError, OverflowError, UnicodeError) as error:
        raise EngineRefused(
            f"The container engine sent an archive that cannot be read ({error}). Nothing was changed."
        ) from error


def owner_of_first(pieces: Iterable[bytes]) -> Owner:
    """Returns whose the first entry of an archive is: the file or directory that was asked for."""
    with _reading(pieces) as tar:
        first = tar.next()
        return Owner(first.uid, first.gid, first.mode & _PERMISSIONS) if first is not None else Owner()


def read_regular(pieces: Iterable[bytes], path: str, *, limit: int = LARGEST_READ) -> bytes:
    """Returns the bytes of the one file an archive holds; anything but a regular file of moderate size is refused."""
    with _reading(pieces) as tar:
        first = tar.next()
        if first is None:
            raise FileNotFoundError(path)
        if first.isdir():
            raise IsADirectoryError(path)
        if not first.isreg():
            raise PermissionError(f"Not a regular file: {path}")
        if first.size > limit:
            raise PermissionError(f"{path} has {first.size} bytes; no more than {limit} are read at once")
        content = tar.extractfile(first)
        data = content.read() if content is not None else b""
        if len(data) != first.size:
            raise tarfile.ReadError("it ends too early")
        return data


def file_names(pieces: Iterable[bytes]) -> list[str]:
    """Returns the files (and links) of an archive whose names are relative to the directory it was made of, sorted."""
    found: set[str] = set()
    with _reading(pieces) as tar:
        # Not `for member in tar`: that keeps every member in memory.
        while (member := tar.next()) is not None:
            tar.members = []  # type: ignore[attr-defined] # the list that would grow
            name = member.name.removeprefix("./")
            plain = not {"..", ".", ""} & set(name.split("/"))
            if plain and (member.isreg() or member.issym() or member.islnk()):
                found.add(name)
    return sorted(found)


def pack(directories: Iterable[str], path: str, data: bytes, owner: Owner, *, now: float | None = None) -> bytes:
    """Returns an archive of some directories to be made and one file."""
    seconds = time.time() if now is None else now
    above = owner._replace(mode=0o755)
    parts = [_header(directory, tarfile.DIRTYPE, 0, above, seconds) for directory in directories]
    parts += [_header(path, tarfile.REGTYPE, len(data), owner, seconds), data, b"\0" * (-len(data) % _BLOCK)]
    return b"".join([*parts, b"\0" * 2 * _BLOCK])


def _header(name: str, kind: bytes, size: int, owner: Owner, mtime: float) -> bytes:
    info = tarfile.TarInfo(name)
    info.type, info.size, info.mtime = kind, size, int(mtime)
    info.uid, info.gid, info.mode = owner
    return info.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")
