"""Trees that are planted and edited at random, and what a scan says of them."""

from __future__ import annotations

import os
import random
import shutil
import stat
from pathlib import Path

from mulligan.scan.trees import Scan

NAMES = ["a", "b", "a-b", "a.py", "c d", "ä", "long" * 20, "z"]


def story(scan: Scan) -> dict[str, object]:
    """All that a scan says, to be compared."""
    return {
        "tree": scan.tree,
        "modes": scan.modes,
        "files": scan.files,
        "missed": scan.missed,
        "gone": sorted(scan.gone),
        "records": dict(scan.packed()),
        "objects": scan.objects,
        "observed": scan.observed,
    }


def plant(rng: random.Random, root: Path) -> None:
    """Makes a tree of some depth."""
    directories = [root]
    for _ in range(rng.randrange(2, 14)):
        below = rng.choice(directories) / rng.choice(NAMES)
        if not below.exists():
            below.mkdir()
            directories.append(below)
    for _ in range(rng.randrange(5, 40)):
        edit(rng, rng.choice(directories))
    for path, text in ((root / ".gitignore", "*.log\nz/\n"), (directories[-1] / ".gitignore", "b\n!a.py\n")):
        if rng.random() < 0.5 and path.parent.is_dir() and not path.exists():
            path.write_text(text)


def edit(rng: random.Random, directory: Path) -> None:
    """Does one of the things that people and programs do, and some that nobody does."""
    if not directory.is_dir():
        return  # an earlier edit moved it
    path = directory / rng.choice(NAMES)
    other = directory / rng.choice(NAMES)
    is_file = path.is_file() and not path.is_symlink()
    what = rng.randrange(14)
    if what <= 2 and (is_file or not os.path.lexists(path)):
        path.write_bytes(rng.randbytes(rng.randrange(9)))
    elif what == 3 and is_file:
        before = path.stat()
        path.write_bytes(rng.randbytes(before.st_size))
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    elif what == 4 and is_file:
        before = path.stat()
        fresh = directory / "fresh"
        fresh.write_bytes(rng.randbytes(before.st_size))
        os.utime(fresh, ns=(before.st_atime_ns, before.st_mtime_ns))
        fresh.rename(path)
    elif what == 5 and is_file:
        path.chmod(path.stat().st_mode ^ stat.S_IXUSR)
    elif what == 6 and is_file:
        path.unlink()
    elif what == 7 and not os.path.lexists(path):
        path.symlink_to(rng.choice(["a", "../b", ".", "/"]))
    elif what == 8 and path.is_symlink():
        path.unlink()
        path.symlink_to("elsewhere")
    elif what == 9 and path.is_dir() and not path.is_symlink():
        beside = directory / f"beside{rng.randrange(1 << 30)}"
        path.rename(beside)
        if rng.random() < 0.5:
            shutil.copytree(beside, path, symlinks=True)
            shutil.rmtree(beside)
        elif rng.random() < 0.5:
            path.symlink_to(beside.name)
    elif what == 10 and path.is_dir() and not path.is_symlink():
        path.chmod(0o700 if path.stat().st_mode & 0o077 else 0o755)
    elif what == 11 and is_file and other.is_file() and path != other and not other.is_symlink():
        third = directory / "third"
        path.rename(third)
        other.rename(path)
        third.rename(other)
    elif what == 12 and is_file and not os.path.lexists(other):
        os.link(path, other)
    elif what == 13:
        rules = directory / ".gitignore"
        rules.write_text(rng.choice(["a\n", "", "*.py\n"]))


def directories(root: Path) -> list[Path]:
    """The directories of a tree, itself included."""
    return [Path(where) for where, _, _ in os.walk(root)]
