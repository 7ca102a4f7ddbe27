"""
Edits that fool caches and watchers, at random: same size, mtime put back, directories swapped, rules and index changed
elsewhere, second names, trees moved in and out.
"""

from __future__ import annotations

import mmap
import os
import random
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tools import git

NAMES = [
    "a",
    "b.py",
    "c.log",
    "data.db",
    "data.db-wal",
    "data.db-shm",
    "x.tmp",
    ".env",
    ".env.example",
    "\udcff\udcfe",
    "sp ace",
    "big",
]
FOLDERS = ["src", "lib", "node_modules", "build", "deep"]
RULES = ["*.log", "*.tmp", "build/", "/a", "!*.log", "*-wal", "src/", "*", "!b.py", "data.db", "lib/**", "deep/src"]
LIMIT = 4000


class Tree:
    """A workspace with a git repository, and the ways to change it."""

    def __init__(self, root: Path, rng: random.Random) -> None:
        self.root, self.rng = root, rng
        root.mkdir()
        git("init", "-q", root)
        self.ways: list[Callable[[], None]] = [
            *[self.write, self.edit_in_place, self.edit_keeping_times] * 3,
            *[self.rename, self.swap, self.delete, self.chmod, self.replace, self.ignore, self.unignore, self.link] * 2,
            *[self.track, self.untrack, self.exclude, self.make_special, self.rename_over],
        ]

    @property
    def more_ways(self) -> list[Callable[[], None]]:
        """What a watcher may miss and a walk does not."""
        return [
            *[self.append, self.move_out, self.move_in, self.plant, self.move_tree, self.edit_elsewhere] * 2,
            *[self.open_and_write_later, self.map_and_close, self.remake],
        ]

    def step(self) -> str:
        """One change, and its name; what cannot be done as drawn is left undone."""
        way = self.rng.choice(self.ways)
        with suppress(OSError):
            way()
        return way.__name__

    def folders(self) -> list[Path]:
        return [
            self.root,
            *(p for p in self.root.rglob("*") if p.is_dir() and not p.is_symlink() and ".git" not in p.parts),
        ]

    def anything(self) -> Path:
        found = [p for p in self.root.rglob("*") if ".git" not in p.parts]
        return self.rng.choice(found) if found else self.root / "a"

    def a_file(self) -> Path:
        found = [p for p in self.root.rglob("*") if p.is_file() and not p.is_symlink() and ".git" not in p.parts]
        if not found and (self.root / "a").is_fifo():
            (self.root / "a").unlink()  # opening one would wait for the other end
        return self.rng.choice(found) if found else self.root / "a"

    def a_place(self) -> Path:
        folder = self.rng.choice(self.folders())
        if self.rng.random() < 0.3:
            folder = folder / self.rng.choice(FOLDERS)
            folder.mkdir(exist_ok=True)
        return folder / self.rng.choice(NAMES)

    def body(self) -> bytes:
        if self.rng.random() < 0.1:
            return b"-----BEGIN RSA PRIVATE KEY-----\n" + self.rng.randbytes(40).hex().encode()
        return self.rng.randbytes(self.rng.choice([0, 1, 30, 900, LIMIT + 1]))

    def put(self, path: Path) -> None:
        if path.is_fifo():
            path.unlink()
        path.write_bytes(self.body())

    def write(self) -> None:
        self.put(self.a_place())

    def edit_in_place(self) -> None:
        with self.a_file().open("r+b") as file:
            file.write(self.rng.randbytes(self.rng.choice([1, 5, LIMIT + 9])))

    def edit_keeping_times(self) -> None:
        path = self.a_file()
        before = path.stat()
        with path.open("r+b") as file:
            file.write(self.rng.randbytes(min(before.st_size, 3)))
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    def rename(self) -> None:
        self.anything().rename(self.a_place())

    def rename_over(self) -> None:
        one, other = self.a_file(), self.a_file()
        one.rename(other)

    def swap(self) -> None:
        one, other = self.anything(), self.anything()
        aside = self.root.parent / "aside"
        clear(aside)
        one.rename(aside)
        try:
            other.rename(one)
            aside.rename(other)
        except OSError:
            aside.rename(one)

    def delete(self) -> None:
        path = self.anything()
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()

    def chmod(self) -> None:
        self.anything().chmod(self.rng.choice([0o644, 0o755, 0o600, 0o700, 0o775]))

    def replace(self) -> None:
        path = self.a_file()
        fresh = path.with_name("x.tmp")
        self.put(fresh)
        fresh.rename(path)

    def ignore(self) -> None:
        lines = self.rng.sample(RULES, self.rng.randrange(1, 4))
        path = self.rng.choice(self.folders()) / ".gitignore"
        if path.is_fifo():
            path.unlink()  # writing to one would wait for a reader
        path.write_text("\n".join(lines))

    def unignore(self) -> None:
        (self.rng.choice(self.folders()) / ".gitignore").unlink()

    def exclude(self) -> None:
        (self.root / ".git" / "info" / "exclude").write_text(self.rng.choice([*RULES, ""]))

    def link(self) -> None:
        path = self.a_place()
        if self.rng.random() < 0.5:
            path.symlink_to(self.rng.choice(["a", "/nowhere", "src", ".."]))
            return
        known = self.a_file()
        os.link(known, path)
        # Where the new name is in a place that is ignored, nobody else tells a watcher (docs/explanation/limits.md).
        os.utime(known)

    def append(self) -> None:
        with self.a_file().open("ab") as file:
            file.write(b"more\n")

    def move_out(self) -> None:
        path = self.anything()
        aside = self.root.parent / f"out{self.rng.randrange(3)}"
        clear(aside)
        path.rename(aside)

    def move_in(self) -> None:
        (self.root.parent / f"out{self.rng.randrange(3)}").rename(self.a_place())

    def plant(self) -> None:
        """A tree made at once, written to the bottom while its top is new."""
        top = self.rng.choice(self.folders()) / self.rng.choice(FOLDERS)
        deep = top / "one" / "two"
        deep.mkdir(parents=True, exist_ok=True)
        for place in (top, top / "one", deep):
            self.put(place / self.rng.choice(NAMES))

    def move_tree(self) -> None:
        folders = [folder for folder in self.folders() if folder != self.root]
        if folders:
            one = self.rng.choice(folders)
            one.rename(self.rng.choice(self.folders()) / f"moved{self.rng.randrange(3)}")

    def edit_elsewhere(self) -> None:
        """Writes to a file through another of its names, if it has one."""
        twice = [p for p in self.root.rglob("*") if p.is_file() and not p.is_symlink() and p.stat().st_nlink > 1]
        if twice:
            with self.rng.choice(twice).open("r+b") as file:
                file.write(self.rng.randbytes(4))

    def open_and_write_later(self) -> None:
        """A file that is renamed while a program holds it open, and written to under its new name."""
        path = self.a_file()
        with path.open("r+b") as file:
            path.rename(self.a_place())
            file.write(self.rng.randbytes(5))

    def map_and_close(self) -> None:
        path = self.a_file()
        if not path.stat().st_size:
            return
        with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
            mapped[0] = (mapped[0] + 1) % 256
        os.utime(path)  # on tmpfs a mapping leaves no trace in the times, so no scan could tell

    def remake(self) -> None:
        """A directory that goes and comes back with the same names in it."""
        folders = [folder for folder in self.folders() if folder != self.root]
        if folders:
            one = self.rng.choice(folders)
            names = [p.name for p in one.iterdir() if p.is_file()]
            shutil.rmtree(one)
            one.mkdir()
            for name in names:
                (one / name).write_bytes(self.body())

    def make_special(self) -> None:
        os.mkfifo(self.a_place())

    def track(self) -> None:
        git("add", "-f", self.a_file(), cwd=self.root, check=False)

    def untrack(self) -> None:
        git("rm", "-r", "-q", "-f", "--cached", self.anything(), cwd=self.root, check=False)


def clear(path: Path) -> None:
    """Removes what stands at a path; a FIFO is not opened for it, because that would wait for a writer."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def tick(place: Path) -> None:
    """Returns when the file system's clock has moved, so that the next edit has stat fields of its own."""
    probe = place / "probe"
    probe.write_bytes(b"")
    before = probe.stat().st_ctime_ns
    while probe.stat().st_ctime_ns == before:
        probe.chmod(0o600)
