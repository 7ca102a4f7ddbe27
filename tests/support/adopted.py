"""
Git repositories whose first checkpoint may begin with what git knows, and that checkpoint made both ways.

`grow` makes a repository at random, from things that git and mulligan see differently: filters, line endings, modes, secrets,
ignored files that are tracked, history, deltas, dirt of every kind. `both_ways` saves it with and without git's help, into two stores.
"""

from __future__ import annotations

import hashlib
import os
import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import mulligan
from mulligan.model.policy import CapturePolicy
from mulligan.safefs.directory import Directory
from mulligan.scan.cache import Cache
from mulligan.scan.secrets import is_plain_name
from scans import later, settings_for
from tools import git

KEY = b"-----BEGIN OPENSSH PRIVATE KEY-----\n" + b"b3BlbnNzaC1rZXktdjEAAAAA" * 20 + b"\n"
TOKEN = b"ghp_" + b"a1B2" * 9 + b"\n"
ENDINGS = ("py", "py", "c", "md", "js", "json", "txt", "sh", "yml", "PY", "bin", "log", "lock", "crlf", "upper")
ODD = (
    ".env",
    ".env.example",
    "id_rsa",
    "key.pem",
    "Makefile",
    "auth.json",
    ".npmrc",
    "py",
    "data.db",
    "data.db-wal",
    "x.key",
)
FOLDERS = (
    "src",
    "lib",
    "docs",
    "a",
    "a-b",
    "a.b",
    "node_modules",
    ".github",
    ".ssh",
    ".claude",
    "checkpoints",
    "deep",
    "build",
)

#: Lines of ignore files: names, beginnings, ends, whole paths, and what no table holds.
IGNORED = (
    *("*.log", "build/", "!*.py", "# none", "docs", "file1*", "/lib", "src/*.py", "*.[lp]*", "a*/file2*", "**/deep/**"),
    *("deep/**/*.c", "/a/b", "f?le3.*", "*ile4*", "[!f]*.md", "node_modules", "*.db-wal", "/docs/*", "!.env.example"),
)


class Sides(NamedTuple):
    """A checkpoint that was made with git's help, and one that was made without."""

    taken: Any
    read: Any


class Saved(NamedTuple):
    """A first checkpoint: what it says, what is remembered, and how many files were read for it."""

    checkpoint: Any
    memory: dict[bytes, bytes]
    read: int
    store: Path


def settle(place: Path) -> None:
    """Returns when the file system's clock has moved so far that what was written is not too young for anybody."""
    probe = place / "probe"
    probe.write_bytes(b"")
    before = probe.stat().st_ctime_ns
    while probe.stat().st_ctime_ns < before + 60_000_000:
        probe.chmod(0o600)
    probe.unlink()


def new_repository(at: Path) -> Path:
    """An empty repository that looks at no configuration but its own."""
    at.mkdir(parents=True)
    git("init", "-q", "-b", "main", cwd=at)
    return at


def commit(at: Path, *packing: str) -> None:
    """Commits everything, and packs it if asked to."""
    settle(at.parent)
    git("add", "-A", cwd=at)
    git("commit", "-q", "--allow-empty", "-m", "a commit", cwd=at)
    if packing:
        git("repack", "-a", "-d", "-q", *packing, cwd=at)


def refresh(at: Path) -> None:
    """Gives the entries of an index the stat fields that their files have now, as `git update-index --refresh` does, without git."""
    index = at / ".git/index"
    data = bytearray(index.read_bytes())
    place, count = 12, int.from_bytes(data[8:12], "big")
    for _ in range(count):
        end = data.index(b"\0", place + 62)
        st = (at / os.fsdecode(bytes(data[place + 62 : end]))).lstat()
        times = [part for ns in (st.st_ctime_ns, st.st_mtime_ns) for part in divmod(ns, 1_000_000_000)]
        struct.pack_into(">6I", data, place, *times, st.st_dev & 0xFFFFFFFF, st.st_ino & 0xFFFFFFFF)
        place += (end - place + 8) & -8
    data[-20:] = hashlib.sha1(data[:-20], usedforsecurity=False).digest()
    index.write_bytes(data)


def content(rng: random.Random) -> bytes:
    """What stands in a file."""
    kind = rng.randrange(12)
    if kind == 0:
        return rng.choice([KEY, TOKEN, b"", b"x = 1\n", b'API_KEY = "' + TOKEN.strip() + b'"\n'])
    if kind == 1:
        return b"one\r\ntwo\r\n" * rng.randrange(1, 90)
    if kind == 2:
        return b"$Id$ and more\n" * rng.randrange(1, 60)
    lines = [b"line %d of many\n" % rng.randrange(40) for _ in range(rng.randrange(1, 120))]
    return b"".join(lines)


def grow(rng: random.Random, at: Path) -> Path:
    """A repository with everything in it, clean."""
    new_repository(at)
    folders = [at]
    for _ in range(rng.randrange(1, 9)):
        below = rng.choice(folders) / rng.choice(FOLDERS)
        below.mkdir(exist_ok=True)
        folders.append(below)
    texts = [content(rng) for _ in range(9)]
    for number in range(rng.randrange(12, 50)):
        name = rng.choice(ODD) if rng.random() < 0.15 else f"file{number}.{rng.choice(ENDINGS)}"
        path = rng.choice(folders) / name
        if not path.exists():
            # Alike, so that there is something to make deltas of.
            _write(path, rng.choice(texts) + b"end %d\n" % number if rng.random() < 0.7 else content(rng))
            path.chmod(rng.choice([0o644, 0o644, 0o644, 0o755, 0o600, 0o664]))
    _rules(rng, at, folders)
    packing = rng.choice([(), ("-f",), ("-f", "--depth=20", "--window=20"), ("--depth=0",)])
    # Of a filter either attributes or configuration are left: without both nobody can know of it.
    filtered, story = rng.random() < 0.5, rng.random() < 0.3
    if filtered and story:  # a filter for all files, of which no attribute tells any more
        (at / ".gitattributes").write_text("* filter=upper\n")
    for _ in range(rng.randrange(1, 4)):
        commit(at, *packing)
        if rng.random() < 0.5:
            dirty(rng, at, unseen=False)
        if filtered and (story or rng.random() < 0.3):
            for path in at.rglob(".gitattributes"):
                path.unlink()
    commit(at, *packing) if rng.random() < 0.8 else commit(at)
    if rng.random() < 0.8:
        settle(at.parent)
        git("update-index", "-q", "--refresh", cwd=at, check=False)
    if not filtered:
        git("config", "--unset", "filter.upper.clean", cwd=at)
    return at


def _write(path: Path, data: bytes) -> None:
    """Writes a file; what is named like source code holds no key, which nobody would look for in it."""
    path.write_bytes(data.replace(b"BEGIN", b"began") if is_plain_name(os.fsencode(path.name)) else data)


def _rules(rng: random.Random, at: Path, folders: list[Path]) -> None:
    for _ in range(rng.choice([0, 1, 1, 3])):
        lines = rng.sample(IGNORED, rng.randrange(1, 4))
        (rng.choice(folders) / ".gitignore").write_text("".join(line + "\n" for line in lines))
    if rng.random() < 0.5:
        said = rng.choice(
            ["* text=auto\n", "*.crlf text eol=crlf\n", "*.md ident\n", *["* filter=upper\n"] * 2, "*.c -diff\n"]
        )
        (rng.choice(folders) / ".gitattributes").write_text(said)
    git("config", "filter.upper.clean", "tr a-z A-Z", cwd=at)
    if rng.random() < 0.3:
        git("config", "core.autocrlf", rng.choice(["input", "true", "false"]), cwd=at)


def dirty(rng: random.Random, at: Path, *, unseen: bool = True) -> None:
    """Does things to the work tree that git notices, and, unless that is to be committed, some that it does not: an edit within the second, other rules."""
    # In order, so that a seed is the same repository every time.
    found = sorted(at.rglob("*"))
    files = [path for path in found if path.is_file() and not path.is_symlink() and ".git" not in path.parts]
    files = [path for path in files if unseen or path.name != ".gitattributes"]
    for path in rng.sample(files, min(len(files), rng.randrange(6))):
        what, before = rng.choice((0, *[1] * 8, *range(2, 9))), path.stat()
        if what == 0 or (what == 1 and not unseen):
            _write(path, content(rng))
        elif what == 1:
            path.write_bytes(path.read_bytes()[::-1])
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        elif what == 2:
            path.unlink()
        elif what == 3:
            path.touch()
        elif what == 4:
            path.chmod(before.st_mode ^ 0o111)
        elif what == 5:
            path.rename(path.with_name("moved" + path.suffix))
        elif what == 6:
            path.unlink()
            path.symlink_to("elsewhere")
        elif what == 7:
            _write(path.parent / f"new{rng.randrange(9)}.py", content(rng))
        else:
            (path.parent / "empty").mkdir(exist_ok=True)


def save(at: Path, store: Path, *, take: bool, now: Callable[[], int] = later, **policy: Any) -> Saved:
    """Makes the first checkpoint of a workspace, with git's help or without."""
    home = at.parent / "home"
    settings = settings_for(at, CapturePolicy(take_from_git=take, **policy), git_home=str(home / "git"))
    with mulligan.Workspace(settings._replace(store=str(store)), now_ns=now) as ws:
        looks = looks_of(ws)
        checkpoint = ws.save("first")
        assert not ws.check().problems
        assert ws.save("nothing new", if_changed=True) is None
    memory = Cache()
    with Directory.open(str(store)) as directory:
        memory.load(directory)
    return Saved(checkpoint, {path: memory.packed(path) for path in memory.paths()}, looks[0].scan.read, store)


def looks_of(ws: Any) -> list[Any]:
    """The looks at a workspace, from now on."""
    looks: list[Any] = []
    look = ws.bench.look
    ws.bench.look = lambda *args, **more: looks.append(look(*args, **more)) or looks[-1]
    return looks


def both_ways(at: Path, place: Path, **policy: Any) -> Sides:
    """Makes the first checkpoint of a workspace with git's help, and without."""
    taken = save(at, place / "taken", take=True, **policy)
    return Sides(taken, save(at, place / "read", take=False, **policy))


def said(saved: Saved) -> dict[str, object]:
    """All that a checkpoint says, but for when and where."""
    checkpoint = saved.checkpoint
    listed = git("ls-tree", "-r", "-t", "-z", checkpoint.commit, cwd=saved.store).split(b"\0")
    kept = (b"\tfiles", b"\tmodes")
    return {
        "trees": [line for line in listed if any(word in line for word in kept)],
        "changed": checkpoint.files_changed,
        "git": checkpoint.git,
        "not captured": checkpoint.not_captured,
        "complete": checkpoint.complete,
        "memory": saved.memory,
    }
