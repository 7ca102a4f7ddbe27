"""
Random workspaces full of things that are nobody's business, and an agent that changes the rest.

`Photo` is everything that must not change on its own: kind, mode, bytes, time, inode, owner. What is a bystander is told by
its name alone, by rules that hold in every state of the workspace: `*.skip`, `build/`, special files, mounts, `.git`.
"""

from __future__ import annotations

import ctypes
import os
import random
import shutil
import socket
import stat
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tools import git
from tree import put

RULES = "build/\n*.skip\n"
MORE_RULES = ("", "*.txt\n", "c/\n", "/a/b\n", "*.log\n!keep.log\n", "f1*\n")
CONFIG = '[capture]\nmax_file_size = "64 KiB"\n'
_STRANGER = 4242
_FOLDERS = ("", "a/", "a/b/", "a/b/c/", "c/", "c/d/", "e e/", "vendor/lib/")
_NAMES = ("f1", "f2", "g.txt", "h.log", "run.sh", "ünï", "-dash", "new\nline", "\udcff", "x")
_PERMS = (0o644, 0o644, 0o644, 0o755, 0o600, 0o444, 0o640)
_SECRET = b"-----BEGIN OPENSSH PRIVATE KEY-----\nabc\n-----END OPENSSH PRIVATE KEY-----\n"
_HIDDEN_FOLDERS = frozenset({"build", "node_modules", "mnt", ".git"})


class Photo(NamedTuple):
    """One path, with all that a bystander must keep."""

    kind: str
    mode: int
    content: bytes
    mtime_ns: int
    ino: int
    owner: tuple[int, int]

    @property
    def promised(self) -> tuple[str, int, bytes]:
        """What an undo brings back exactly."""
        return self.kind, 0 if self.kind == "link" else self.mode, self.content


Album = dict[str, Photo]


def album(top: Path) -> Album:
    """Everything below a directory, by path."""
    found: Album = {}
    pending = [(os.fsencode(top), "")]
    while pending:
        place, prefix = pending.pop()
        with os.scandir(place) as entries:
            for entry in entries:
                path = prefix + os.fsdecode(entry.name)
                found[path] = photo = _photo(entry.path)
                if photo.kind == "dir":
                    pending.append((entry.path, path + "/"))
    return found


def _photo(path: bytes) -> Photo:
    st = os.lstat(path)
    kind, content = "special", b""
    if stat.S_ISREG(st.st_mode):
        kind = "file"
        with suppress(PermissionError), open(path, "rb") as file:
            content = file.read()
    elif stat.S_ISLNK(st.st_mode):
        kind, content = "link", os.readlink(path)
    elif stat.S_ISDIR(st.st_mode):
        kind = "dir"
    return Photo(kind, stat.S_IMODE(st.st_mode), content, st.st_mtime_ns, st.st_ino, (st.st_uid, st.st_gid))


def is_bystander(path: str, photo: Photo) -> bool:
    """Whether a path is out of every checkpoint, whatever the varying rules of the workspace say."""
    parts = path.split("/")
    hidden = parts[-1].endswith(".skip") or not _HIDDEN_FOLDERS.isdisjoint(parts[:-1])
    hidden = hidden or (parts[-1] in _HIDDEN_FOLDERS and photo.kind == "dir")
    return hidden or photo.kind == "special" or (photo.kind == "file" and len(photo.content) > 64 << 10)


class World:
    """One workspace, its surroundings, and the agent in it."""

    def __init__(self, place: Path, rng: random.Random, *, with_git: bool) -> None:
        self.root, self.outside, self.rng, self.with_git = place / "project", place / "outside", rng, with_git
        self.mounted = False
        self._count = 0
        put(self.root, ".gitignore", RULES)
        put(self.outside, "theirs", "theirs", perm=0o640)
        if with_git:
            git("init", "-q", "-b", "main", cwd=self.root)
            # Secrets that git tracks are saved like any other file; these are sealed.
            put(self.root, ".git/info/exclude", ".env\nid_rsa\nkey.pem\n")
        for _ in range(25):
            self.write()
        if with_git:
            self.commit()
        self._plant()

    # -- what is nobody's business ------------------------------------------------------------------------

    def _plant(self) -> None:
        root = self.root
        for path in ("build/out", "build/deep/out", "a/kept.skip", "node_modules/m/index.js", "vendor/lib/.git/HEAD"):
            put(root, path, f"bystander {path}", perm=self.rng.choice(_PERMS))
        for path in (".env", "a/b/.env", "c/id_rsa"):
            put(root, path, "SECRET=1", perm=0o600)
        put(root, "c/key.pem", _SECRET)
        put(root, "big.bin", b"b" * (70 << 10))
        put(root, "vendor/lib/.git/config", "[core]\n")
        os.mkfifo(root / "pipe")
        # Where the path is too long for a socket, there is none.
        with suppress(OSError), socket.socket(socket.AF_UNIX) as listener:
            listener.bind(os.fspath(root / "a" / "sock"))
        if os.geteuid() == 0:
            self._plant_as_root()
        (root / "empty.skip").mkdir()
        os.link(root / "build/out", root / "build/second")

    def _plant_as_root(self) -> None:
        with suppress(OSError):
            os.mknod(self.root / "c" / "null", 0o600 | stat.S_IFCHR, os.makedev(1, 3))
        for path in ("build/deep/out", "a/kept.skip"):
            os.chown(self.root / path, _STRANGER, _STRANGER)
        point = self.root / "mnt"
        point.mkdir()
        self.mounted = mount_tmpfs(point)
        put(point, "theirs", "on another file system")

    # -- what the agent does --------------------------------------------------------------------------------

    def act(self) -> None:
        """One change of a random kind; what cannot be done at this moment is not done."""
        acts = [self.write] * 5 + [self.remove, self.chmod, self.link, self.rename, self.make, self.swap, self.hide]
        acts += [self.hard_link, self.give_away, self.read_only, self.rules, self.remove_folder]
        with suppress(OSError):
            self.rng.choice(acts)()

    def _some(self, kinds: tuple[str, ...] = ("file",)) -> Path:
        found = [path for path, photo in album(self.root).items() if photo.kind in kinds and self._mine(path, photo)]
        if not found:
            raise FileNotFoundError
        return self.root / self.rng.choice(sorted(found))

    @staticmethod
    def _mine(path: str, photo: Photo) -> bool:
        return not is_bystander(path, photo) and path != ".gitignore" and photo.owner[0] != _STRANGER

    def _name(self) -> str:
        return self.rng.choice(_FOLDERS) + self.rng.choice(_NAMES)

    def _bytes(self) -> bytes:
        self._count += 1
        return b"%d\n" % self._count * self.rng.choice([0, 1, 3, 200])

    def write(self) -> None:
        """A new file, or other bytes in one that is there."""
        path = self._name()
        if self._count > 20 and self.rng.random() < 0.5:
            path = os.fspath(self._some().relative_to(self.root))
        put(self.root, path, self._bytes())
        (self.root / path).chmod(self.rng.choice(_PERMS))

    def remove(self) -> None:
        self._some(("file", "link")).unlink()

    def chmod(self) -> None:
        place = self._some(("file", "dir"))
        place.chmod(self.rng.choice([0o755, 0o700, 0o750] if place.is_dir() else _PERMS))

    def link(self) -> None:
        place = self.root / self._name()
        place.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):
            place.unlink()
        place.symlink_to(self.rng.choice(["nowhere", "../up", os.fspath(self.outside), ".env", "f1", "build"]))

    def rename(self) -> None:
        os.rename(self._some(("file", "link", "dir")), self.root / self._name())

    def make(self) -> None:
        (self.root / self._name()).mkdir(parents=True)

    def swap(self) -> None:
        """A file, link or directory turns into something else."""
        place = self._some(("file", "link", "dir"))
        if place.is_dir() and not place.is_symlink():
            if any(
                is_bystander(os.path.relpath(below, self.root), _photo(os.fsencode(below)))
                for below in place.rglob("*")
            ):
                return
            shutil.rmtree(place)
            place.write_bytes(self._bytes())
        else:
            place.unlink()
            put(place, self.rng.choice(_NAMES), self._bytes())

    def hide(self) -> None:
        """A bystander in a directory that a restore may want to remove."""
        put(self._some(("dir",)), self.rng.choice(["more.skip", "build/more", ".env"]), self._bytes() + b"hidden")

    def hard_link(self) -> None:
        """A second name for a captured file: outside, ignored, or captured too."""
        self._count += 1
        targets = [self.outside / f"h{self._count}", self.root / "build" / f"h{self._count}", self.root / self._name()]
        os.link(self._some(), self.rng.choice(targets))

    def give_away(self) -> None:
        if os.geteuid() == 0:
            os.chown(self._some(), _STRANGER, _STRANGER)

    def read_only(self) -> None:
        self._some(("dir",)).chmod(0o555)

    def rules(self) -> None:
        put(self.root, ".gitignore", RULES + self.rng.choice(MORE_RULES))

    def remove_folder(self) -> None:
        place = self._some(("dir",))
        if not any(is_bystander(os.path.relpath(p, self.root), _photo(os.fsencode(p))) for p in place.rglob("*")):
            shutil.rmtree(place)

    def commit(self) -> None:
        """Everything, by plain git, sometimes on another branch."""
        git("add", "-A", cwd=self.root, check=False)
        git("commit", "-q", "--allow-empty", "-m", f"n{self._count}", cwd=self.root, check=False)
        if self.rng.random() < 0.3:
            self._count += 1
            git("checkout", "-q", "-b", f"b{self._count}", cwd=self.root, check=False)


def own_mounts() -> bool:
    """Takes this process into a mount namespace of its own; returns whether that was allowed."""
    libc = ctypes.CDLL(None, use_errno=True)
    new_namespace, recursive_private = 0x20000, 0x44000
    return libc.unshare(new_namespace) == 0 and libc.mount(b"none", b"/", None, recursive_private, None) == 0


def mount_tmpfs(point: Path) -> bool:
    """Mounts an empty file system."""
    libc = ctypes.CDLL(None, use_errno=True)
    return bool(libc.mount(b"tmpfs", os.fsencode(point), b"tmpfs", 0, b"size=1m") == 0)
