"""
File systems of other kinds than the one that the tests run on, each mounted where no other process sees it.

Needs root, loop mounts, and the mkfs of the kind (packages btrfs-progs, xfsprogs, e2fsprogs).
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "power"))

import disks

#: Of kinds that live in an image: the mkfs, its options, and the size of the image.
_IMAGES: dict[str, tuple[str, tuple[str, ...], int]] = {
    "btrfs": ("mkfs.btrfs", ("-q", "-f", "-m", "single"), 256 << 20),
    "xfs": ("mkfs.xfs", ("-q", "-f"), 320 << 20),
    # Inodes of 128 bytes have no room for parts of a second.
    "seconds": ("mkfs.ext4", ("-q", "-F", "-I", "128"), 128 << 20),
}
#: Those on which the models run.
KINDS = ("btrfs", "xfs", "tmpfs", "overlay", "seconds")


@contextmanager
def mounted(kind: str) -> Iterator[Path]:
    """An empty file system of a kind; for a process that keeps its mounts to itself."""
    with tempfile.TemporaryDirectory(prefix=f"{kind}-", dir=_memory()) as folder:
        point = Path(folder, "point")
        point.mkdir()
        if kind in _IMAGES:
            program, options, size = _IMAGES[kind]
            image = Path(folder, "image")
            with image.open("wb") as file:
                file.truncate(size)
            _run(program, *options, image)
            _run("mount", "-o", "loop", image, point)
        elif kind == "tmpfs":
            _run("mount", "-t", "tmpfs", "-o", "mode=0755", "tmpfs", point)
        else:
            parts = {name: Path(folder, name) for name in ("lowerdir", "upperdir", "workdir")}
            for part in parts.values():
                part.mkdir()
            _run("mount", "-t", "overlay", "-o", ",".join(f"{name}={at}" for name, at in parts.items()), "none", point)
        try:
            work = point / "work"
            work.mkdir()
            yield work
        finally:
            disks.unmount(point)


@functools.cache
def why_not(kind: str) -> str:
    """Why such a file system cannot be mounted here; empty if it can."""
    if os.geteuid() != 0:
        return "not root"
    if kind in _IMAGES and not shutil.which(_IMAGES[kind][0], path=disks.environment()["PATH"]):
        return f"{_IMAGES[kind][0]} is missing"
    code = f"import mounts\nmounts.disks.keep_mounts_to_ourselves()\nwith mounts.mounted({kind!r}): pass"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=Path(__file__).parent, capture_output=True, text=True, check=False
    )
    return f"a file system of the kind {kind} cannot be mounted ({done.stderr[-200:]})" if done.returncode else ""


def _memory() -> str | None:
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def _run(*command: str | Path) -> None:
    done = subprocess.run(command, capture_output=True, text=True, env=disks.environment(), check=False)
    if done.returncode:
        raise OSError(f"{command[0]}: {done.stderr.strip()}")
