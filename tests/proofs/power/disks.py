"""
Disks whose power can be cut: images of real file systems in memory, mounted where nobody else sees them.

The cut is the shutdown ioctl of ext4 and xfs without a log flush: whatever is not durable is gone, as after a pulled plug
with an honest disk. Every trial has an image of its own, copied from a template, so nothing that still knows the last
one can write to it. Needs root, loop mounts and the mkfs of the kind.
"""

from __future__ import annotations

import ctypes
import fcntl
import functools
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

KINDS = ("ext4", "xfs")
_SHUTDOWN, _NO_LOG_FLUSH = 0x8004587D, 2
_SIZE = 64 << 20
_MKFS: dict[str, tuple[tuple[str, ...], ...]] = {
    # No lazy initialisation: a kernel thread that writes tables meanwhile would make every trial another one.
    "ext4": (("-q", "-F", "-b", "4096", "-N", "4096", "-J", "size=4", "-E", "lazy_itable_init=0,lazy_journal_init=0"),),
    # A small log: it is zeroed, and copied with every image. A version without the first wants 300 MB at least.
    "xfs": (("--unsupported", "-q", "-f", "-l", "size=2000b"), ("-q", "-f")),
}
_PATIENCE_S = 30.0
_BIND = 0x1000
_BOOT_ID = "/proc/sys/kernel/random/boot_id"
_libc = ctypes.CDLL(None, use_errno=True)


def environment() -> dict[str, str]:
    """This environment, in which the tools of an administrator are found."""
    return os.environ | {"PATH": f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"}


@functools.cache
def why_not(kind: str) -> str:
    """Why the power of such a disk cannot be cut here; empty if it can."""
    if os.geteuid() != 0:
        return "not root"
    if not shutil.which(f"mkfs.{kind}", path=environment()["PATH"]):
        return f"mkfs.{kind} is missing"
    # In a process of its own: its mounts are nobody's business, and must not be.
    code = f"import disks; disks.keep_mounts_to_ourselves(); disks.try_once({kind!r})"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=Path(__file__).parent, capture_output=True, text=True, check=False
    )
    return f"a {kind} image cannot be mounted and cut off ({done.stderr[-200:]})" if done.returncode else ""


def try_once(kind: str) -> None:
    """Makes a disk, mounts it and cuts its power."""
    with tempfile.TemporaryDirectory(dir=_memory()) as folder:
        image, point = Path(folder, "image"), Path(folder, "point")
        point.mkdir()
        make(kind, image)
        with mounted(image, point):
            cut(point)


def _memory() -> str | None:
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def make(kind: str, image: Path, size: int = _SIZE) -> None:
    """Makes an image with an empty file system."""
    for options in _MKFS[kind]:
        image.unlink(missing_ok=True)
        with image.open("wb") as file:
            file.truncate(max(size, 300 << 20) if kind == "xfs" and options is _MKFS["xfs"][-1] else size)
        done = subprocess.run(
            [f"mkfs.{kind}", *options, image], capture_output=True, env=environment(), check=options is _MKFS[kind][-1]
        )
        if done.returncode == 0:
            break


def copy(template: Path, image: Path) -> None:
    """Copies an image, and of its holes nothing."""
    with template.open("rb") as source, image.open("wb") as target:
        size = os.fstat(source.fileno()).st_size
        target.truncate(size)
        at = 0
        while at < size:
            try:
                start = os.lseek(source.fileno(), at, os.SEEK_DATA)
            except OSError:
                break  # nothing but a hole up to the end
            at = os.lseek(source.fileno(), start, os.SEEK_HOLE)
            os.lseek(source.fileno(), start, os.SEEK_SET)
            os.lseek(target.fileno(), start, os.SEEK_SET)
            left = at - start
            while left:
                left -= os.sendfile(target.fileno(), source.fileno(), None, left)


def dig_holes(image: Path) -> None:
    """Gives back the pages of an image that hold zeros alone."""
    subprocess.run(["fallocate", "--dig-holes", image], capture_output=True, env=environment(), check=False)


# -- mounting ---------------------------------------------------------------------------------------


def keep_mounts_to_ourselves() -> None:
    """
    Moves this process into a mount namespace of its own.

    Otherwise a container that starts meanwhile takes the mount with it and keeps the file system alive after we let go.
    """
    new_namespace, recursive_private = 0x20000, 0x4000 | 0x40000
    if _libc.unshare(new_namespace) or _libc.mount(b"none", b"/", None, recursive_private, None):
        raise OSError(ctypes.get_errno(), "no mount namespace of our own")


def bind(what: Path, there: Path) -> None:
    """Shows a file or directory in another place as well."""
    if _libc.mount(os.fsencode(what), os.fsencode(there), None, _BIND, None):
        raise OSError(ctypes.get_errno(), f"{what} cannot be bound to {there}")


def let_go_below(folder: Path, sparing: Collection[Path]) -> None:
    """In a mount namespace of one's own: unmounts what others have mounted below a folder, which is none of our business."""
    detach = 2
    for line in Path("/proc/self/mounts").read_text().splitlines():
        point = Path(line.split()[1])
        if folder in point.parents and point not in sparing:
            _libc.umount2(os.fsencode(point), detach)


class Boots:
    """What the machine says about its starts, to this process and its children: a cut is a start to them."""

    def __init__(self, home: Path) -> None:
        self._file, self._number = home / "boot_id", 0
        self.another()
        bind(self._file, Path(_BOOT_ID))

    def another(self) -> None:
        """The machine was started once more."""
        self._number += 1
        self._file.write_text(f"{self._number:08x}-0000-4000-8000-{os.getpid():012x}\n")


def mount(image: Path, point: Path, options: str = "loop") -> None:
    """Mounts an image; a file system that was cut off recovers here."""
    done = subprocess.run(["mount", "-o", options, image, point], capture_output=True, check=False)
    if done.returncode:
        # Copies of one xfs image have one name, and several of them may be mounted at a time.
        subprocess.run(["mount", "-t", "xfs", "-o", f"{options},nouuid", image, point], check=True, capture_output=True)


def unmount(point: Path, image: Path | None = None) -> None:
    """Unmounts, and waits for processes that are just ending, until nobody holds the image any more."""
    deadline = time.monotonic() + _PATIENCE_S
    while _libc.umount2(os.fsencode(point), 0):
        if time.monotonic() > deadline:
            raise OSError(ctypes.get_errno(), f"{point} cannot be unmounted")
        time.sleep(0.01)
    while image is not None and _is_held(image):
        if time.monotonic() > deadline:
            raise OSError(f"{image} is still in use")
        time.sleep(0.01)


def _is_held(image: Path) -> bool:
    """Whether some file system still lives on an image: mounted again now, it would have two masters."""
    for device in Path("/sys/block").glob("loop*/loop/backing_file"):
        with suppress(OSError):
            if device.read_text().rstrip("\n") == os.fspath(image):
                return True
    return False


@contextmanager
def mounted(image: Path, point: Path, options: str = "loop") -> Iterator[None]:
    """The image at its mount point for a while."""
    mount(image, point, options)
    try:
        yield
    finally:
        unmount(point, image)


# -- power ------------------------------------------------------------------------------------------


def cut(point: Path) -> None:
    """Pulls the plug."""
    handle = os.open(point, os.O_RDONLY)
    try:
        fcntl.ioctl(handle, _SHUTDOWN, bytes(ctypes.c_uint32(_NO_LOG_FLUSH)))
    finally:
        os.close(handle)


def sync(point: Path) -> None:
    """Makes everything that was written so far durable, as somebody who waits long enough has it."""
    handle = os.open(point, os.O_RDONLY)
    try:
        if _libc.syncfs(handle):
            raise OSError(ctypes.get_errno(), "not synced")
    finally:
        os.close(handle)
