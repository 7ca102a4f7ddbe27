"""
A scan that remembers sees what a scan that remembers nothing sees.

Random edits of the kinds that fool caches (same size, mtime put back, directories swapped, rules and index changed
elsewhere), and after each few of them the two are compared: same trees, same list of what is not captured.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

import mulligan
from checker import judge
from mulligan.model.checkpoint import IGNORED, NEWLY_IGNORED
from mulligan.model.policy import CapturePolicy, Settings
from mulligan.scan.cache import Cache
from mulligan.scan.observer import Observer
from mulligan.scan.result import Scan
from scans import later, settings_for
from tools import git, sweep

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

    def step(self) -> None:
        """One change; what cannot be done as drawn is left undone."""
        with suppress(OSError):
            self.rng.choice(self.ways)()

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
        shutil.rmtree(aside, ignore_errors=True)
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
        path.symlink_to(self.rng.choice(["a", "/nowhere", "src", ".."])) if self.rng.random() < 0.5 else os.link(
            self.a_file(), path
        )

    def make_special(self) -> None:
        os.mkfifo(self.a_place())

    def track(self) -> None:
        git("add", "-f", self.a_file(), cwd=self.root, check=False)

    def untrack(self) -> None:
        git("rm", "-r", "-q", "-f", "--cached", self.anything(), cwd=self.root, check=False)


def tick(place: Path) -> None:
    """Returns when the file system's clock has moved, so that the next edit has stat fields of its own."""
    probe = place / "probe"
    probe.write_bytes(b"")
    before = probe.stat().st_ctime_ns
    while probe.stat().st_ctime_ns == before:
        probe.chmod(0o600)


def scan_anew(settings: Settings, defaults: object) -> Scan:
    """A scan without any memory but the defaults that the other scan wrote its permission bits against."""
    cache = Cache()
    cache.note = json.dumps({"defaults": defaults}).encode()
    return Observer(settings, time.time_ns).scan(cache)[0]


def listed(scan: Scan) -> list[tuple[bytes, str]]:
    return sorted((path, IGNORED if m.reason == NEWLY_IGNORED else m.reason) for path, m in scan.missed.items())


def open_again(settings: Settings) -> mulligan.Workspace:
    return mulligan.Workspace(settings, now_ns=later)


@pytest.mark.parametrize("seed", range(sweep(4)))
def test_a_remembering_scan_sees_what_a_fresh_one_sees(tmp_path, seed):
    """Same trees, same list of what is not captured, whatever was edited, saved, deleted or pruned in between."""
    rng = random.Random(seed)
    tree = Tree(tmp_path / "project", rng)
    settings = settings_for(tree.root, CapturePolicy(max_file_size=LIMIT))
    spaces = [open_again(settings), open_again(settings)]
    history: list[str] = []
    for number in range(25):
        for _ in range(rng.randrange(1, 6)):
            tree.step()
        tick(tmp_path)
        ws = rng.choice(spaces)
        if rng.random() < 0.2:
            ws.close()
        entry = ws.save(f"{seed}.{number}")
        history.append(entry.id)
        seen = ws._bench.look().scan
        fresh = scan_anew(settings, list(seen.defaults))
        assert listed(seen) == listed(fresh), f"seed {seed}, round {number}"
        assert (seen.tree, seen.modes) == (fresh.tree, fresh.modes), f"seed {seed}, round {number}"
        assert ws._bench.vault.checkpoints.current().files_tree == fresh.tree
        if rng.random() < 0.2:
            rng.choice(spaces).delete(history.pop(rng.randrange(len(history))))
        if rng.random() < 0.15:
            rng.choice(spaces).prune()
    for ws in spaces:
        ws.close()
    assert judge(settings.store) == []
