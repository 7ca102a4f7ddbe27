"""
A file system that takes names for one that differ only in case or normalisation, and keeps the spelling it was given.

    python tests/proofs/filesystems/folding.py BACKING POINT [--exchange] [--first-spelling]

It passes everything on to the directory BACKING and shows it at POINT (FUSE, by `mfusepy`). As on older FUSE servers, a rename
with flags is refused; with `--exchange` it is not. With `--first-spelling` a rename onto a name that is there keeps the spelling
that was there, as vfat and ext4 do; otherwise the new spelling stands, as on APFS.
"""

from __future__ import annotations

import argparse
import ctypes
import ctypes.util
import errno
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

NOREPLACE, EXCHANGE = 1, 2
_FUSE = Path("/dev/fuse")
_PR_SET_PDEATHSIG = 1


def fold(name: str) -> str:
    """What this file system compares."""
    return unicodedata.normalize("NFD", unicodedata.normalize("NFD", name).casefold())


class Names:
    """Finds the entry of the backing directory that a path means."""

    def __init__(self, backing: str) -> None:
        self._backing = backing

    def real(self, path: str) -> str:
        """The path below the backing directory, each part in the spelling that stands there, else as it was given."""
        at = self._backing
        for part in path.split("/"):
            if part:
                at = f"{at}/{self._spelling(at, part)}"
        return at

    def as_given(self, path: str) -> str:
        """The same, with the last part as it was given."""
        above, _, name = path.rpartition("/")
        return f"{self.real(above)}/{name}"

    @staticmethod
    def _spelling(directory: str, name: str) -> str:
        if os.path.lexists(f"{directory}/{name}"):
            return name
        try:
            return next((each for each in os.listdir(directory) if fold(each) == fold(name)), name)
        except OSError:
            return name


class Folding:
    """The operations, in the words of mfusepy."""

    def __init__(self, backing: str, *, exchanges: bool, first_spelling: bool) -> None:
        self._names = Names(backing)
        self._exchanges = exchanges
        self._first_spelling = first_spelling
        self.real = self._names.real

    def getattr(self, path: str, fh: int | None = None) -> dict[str, Any]:
        status = os.fstat(fh) if fh is not None else os.lstat(self.real(path))
        shown = {name: getattr(status, name) for name in dir(status) if name.startswith("st_")}
        return shown | {f"st_{each}time": getattr(status, f"st_{each}time_ns") for each in "amc"}

    def readdir(self, path: str, _fh: int) -> Iterator[tuple[str, dict[str, int], int]]:
        real = self.real(path)
        for name in (".", "..", *os.listdir(real)):
            status = os.lstat(f"{real}/{name}")
            yield name, {"st_mode": status.st_mode, "st_ino": status.st_ino}, 0

    def readlink(self, path: str) -> str:
        return os.readlink(self.real(path))

    def mknod(self, path: str, mode: int, dev: int) -> int:
        os.mknod(self._free(path), mode, dev)
        return 0

    def mkdir(self, path: str, mode: int) -> int:
        os.mkdir(self._free(path), mode)
        return 0

    def symlink(self, path: str, target: str) -> int:
        os.symlink(target, self._free(path))
        return 0

    def link(self, path: str, target: str) -> int:
        os.link(self.real(target), self._free(path), follow_symlinks=False)
        return 0

    def unlink(self, path: str) -> int:
        os.unlink(self.real(path))
        return 0

    def rmdir(self, path: str) -> int:
        os.rmdir(self.real(path))
        return 0

    def renamed(self, old: str, new: str, flags: int) -> int:
        """Renames; with another spelling of the same name, changes the spelling."""
        if flags and not self._exchanges:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        source, there = self.real(old), self.real(new)
        if flags & EXCHANGE:
            aside = f"{there}.exchanged"
            for one, other in ((there, aside), (source, there), (aside, source)):
                os.rename(one, other)
            return 0
        if there != source and os.path.lexists(there):
            if flags & NOREPLACE:
                raise OSError(errno.EEXIST, os.strerror(errno.EEXIST))
            os.rename(source, there)
            source = there
            if self._first_spelling:
                return 0
        os.rename(source, self._names.as_given(new))
        return 0

    def create(self, path: str, mode: int, flags: int) -> int:
        return os.open(self.real(path), flags | os.O_CREAT | os.O_NOFOLLOW, mode)

    def open(self, path: str, flags: int) -> int:
        return os.open(self.real(path), flags | os.O_NOFOLLOW)

    def read(self, _path: str, size: int, offset: int, fh: int) -> bytes:
        return os.pread(fh, size, offset)

    def write(self, _path: str, data: bytes, offset: int, fh: int) -> int:
        return os.pwrite(fh, data, offset)

    def truncate(self, path: str, length: int, fh: int | None = None) -> int:
        os.truncate(fh if fh is not None else self.real(path), length)
        return 0

    def flush(self, _path: str, _fh: int) -> int:
        return 0

    def fsync(self, _path: str, _datasync: int, fh: int) -> int:
        os.fsync(fh)
        return 0

    def fsyncdir(self, path: str, _datasync: int, _fh: int) -> int:
        fd = os.open(self.real(path), os.O_RDONLY)
        os.fsync(fd)
        os.close(fd)
        return 0

    def release(self, _path: str, fh: int) -> int:
        os.close(fh)
        return 0

    def chmod(self, path: str, mode: int) -> int:
        os.chmod(self.real(path), mode)
        return 0

    def chown(self, path: str, uid: int, gid: int) -> int:
        os.chown(self.real(path), uid, gid, follow_symlinks=False)
        return 0

    def utimens(self, path: str, times: tuple[int, int] | None = None) -> int:
        os.utime(self.real(path), ns=times, follow_symlinks=False)
        return 0

    def statfs(self, path: str) -> dict[str, int]:
        found = os.statvfs(self.real(path))
        return {name: getattr(found, name) for name in dir(found) if name.startswith("f_")}

    def _free(self, path: str) -> str:
        if os.path.lexists(self.real(path)):
            raise OSError(errno.EEXIST, os.strerror(errno.EEXIST))
        return self._names.as_given(path)


def choose_library() -> None:
    """Has mfusepy use version 3 of the library, which knows renames with flags, where version 2 is installed too."""
    if found := ctypes.util.find_library("fuse3"):
        os.environ.setdefault("FUSE_LIBRARY_PATH", found)


def serve(backing: str, point: str, operations: Folding) -> None:
    """Serves until it is unmounted."""
    choose_library()
    import mfusepy

    class WithFlags(mfusepy.FUSE):
        """Mfusepy drops the flags of a rename, and would replace what must not be replaced."""

        def rename_fuse_3(self, old: bytes, new: bytes, flags: int) -> int:
            return operations.renamed(os.fsdecode(old), os.fsdecode(new), flags)

    # The methods that an operations object of mfusepy may lack are looked for by name.
    made = type("Operations", (Folding, mfusepy.Operations), {"use_ns": True, "rename": Folding.renamed})
    made_operations = made.__new__(made)
    made_operations.__dict__ = operations.__dict__
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)  # a mount must not outlive its test
    with suppress(RuntimeError):  # so it says that it was ended by a signal
        WithFlags(
        made_operations, point, foreground=True, nothreads=True, use_ino=True, hard_remove=True,
        entry_timeout=0, attr_timeout=0, negative_timeout=0, default_permissions=True, fsname="folding",
    )  # fmt: skip


def why_not() -> str:
    """Why such a file system cannot be had here; empty if it can."""
    choose_library()
    try:
        import mfusepy  # noqa: F401
    except (ImportError, OSError) as error:
        return f"mfusepy: {error}"
    if not os.access(_FUSE, os.R_OK | os.W_OK):
        return f"{_FUSE} cannot be opened"
    return "" if shutil.which("fusermount3") else "fusermount3 is missing"


@contextmanager
def mounted(*options: str) -> Iterator[Path]:
    """An empty file system of this kind, served by a process that ends with the block."""
    with tempfile.TemporaryDirectory(prefix="folding-") as folder:
        backing, point = Path(folder, "backing"), Path(folder, "point")
        backing.mkdir()
        point.mkdir()
        server = subprocess.Popen([sys.executable, __file__, backing, point, *options], stdin=subprocess.DEVNULL)
        try:
            while not os.path.ismount(point):
                assert server.poll() is None, "the file system's process ended"
                time.sleep(0.01)
            yield point
        finally:
            server.terminate()  # it unmounts
            try:
                server.wait(20)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()


def main() -> int:
    """Serves one file system."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("backing")
    options.add_argument("point")
    options.add_argument("--exchange", action="store_true")
    options.add_argument("--first-spelling", action="store_true")
    given = options.parse_args()
    operations = Folding(given.backing, exchanges=given.exchange, first_spelling=given.first_spelling)
    serve(given.backing, given.point, operations)
    return 0


if __name__ == "__main__":
    sys.exit(main())
