"""
An independent judge of a store: plain git, hashlib and a read-only SQLite connection, and nothing of the package.

It answers one question, after any kill, cut or race: is there anything in this store, or left behind in this
workspace, that should not be as it is? It repairs nothing and opens nothing for writing.
"""

from __future__ import annotations

import hashlib
import os
import re
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

GIT_ENV = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
#: Said by git of every bare repository whose HEAD names no branch yet; it is not a finding.
HARMLESS = re.compile(rb"^notice: HEAD points to an unborn branch")
#: By id: what kind of object it is, and its bytes.
Objects = dict[str, tuple[str, bytes]]
PACK_FILES = re.compile(r"^pack-[0-9a-f]{40}\.(pack|idx|rev|keep|mtimes|bitmap)$")


def judge(
    store: str | os.PathLike[str], workspace: str | os.PathLike[str] | None = None, *, with_fsck: bool = True
) -> list[str]:
    """
    Every violation found in a store that no process is using, and in its workspace; empty when all is well.

    Without `git fsck`, which is most of the time, every object is still read by git, hashed here and reached from its ref.
    """
    place = Path(store)
    found: list[str] = []
    if place.exists():
        found += modes(place) + leftovers(place) + empty_files(place)
        if (place / "objects").is_dir():
            objects = objects_of(place)
            found += (fsck(place) if with_fsck else []) + hashes(objects) + rows_and_refs(place, objects)
    if workspace is not None:
        found += strangers(Path(workspace))
    return found


def run_git(store: Path, *args: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Runs plain git on the store, with no configuration but the store's own."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return subprocess.run(
        ["git", f"--git-dir={store}", *args], input=stdin, capture_output=True, env=env | GIT_ENV, check=False
    )


def fsck(store: Path) -> list[str]:
    """What `git fsck --strict --full` says."""
    done = run_git(store, "fsck", "--strict", "--full", "--no-dangling", "--no-progress")
    lines = [line for line in (done.stdout + done.stderr).splitlines() if not HARMLESS.match(line)]
    found = [f"fsck: {line.decode(errors='replace')}" for line in lines]
    return found + ([f"fsck: exit {done.returncode}"] if done.returncode else [])


def batch_objects(store: Path) -> Iterator[tuple[str, str, bytes]]:
    """Every object of the store as (id, type, content), read by plain git."""
    done = run_git(store, "cat-file", "--batch", "--batch-all-objects", "--unordered")
    data, at = done.stdout, 0
    while at < len(data):
        end = data.index(b"\n", at)
        words = data[at:end].split()
        if len(words) != 3:
            yield words[0].decode(), "missing", b""
            at = end + 1
            continue
        size = int(words[2])
        yield words[0].decode(), words[1].decode(), data[end + 1 : end + 1 + size]
        at = end + 1 + size + 1


def objects_of(store: Path) -> Objects:
    """Every object of the store by its id, read by plain git."""
    return {name: (kind, content) for name, kind, content in batch_objects(store)}


def hashes(objects: Objects) -> list[str]:
    """Objects whose bytes do not hash to their name, computed here and not by git."""
    found = []
    for name, (kind, content) in objects.items():
        real = hashlib.sha1(b"%s %d\0" % (kind.encode(), len(content)) + content).hexdigest()
        if kind == "missing" or real != name:
            found.append(f"object {name}: {kind}, hashes to {real}")
    return found


def tree_entries(content: bytes) -> Iterator[tuple[bytes, int, str]]:
    """The entries of a tree object: name, mode and object id."""
    at = 0
    while at < len(content):
        end = content.index(b"\0", at)
        mode, _, name = content[at:end].partition(b" ")
        yield name, int(mode, 8), content[end + 1 : end + 21].hex()
        at = end + 21


def tree_of(objects: Objects, commit: str) -> str:
    """The tree of a commit; nothing when that is not there."""
    kind, content = objects.get(commit, ("missing", b""))
    return content[5:45].decode("ascii", "replace") if kind == "commit" else ""


def missing_from(objects: Objects, commits: Iterable[str]) -> list[str]:
    """The objects that some commits need and the store does not hold, or holds as something else."""
    pending: list[tuple[str, str]] = [(commit, "commit") for commit in commits]
    seen: set[str] = set()
    found = []
    while pending:
        name, wanted = pending.pop()
        if name in seen:
            continue
        seen.add(name)
        kind, content = objects.get(name, ("missing", b""))
        if kind != wanted:
            found.append(f"{name} {kind}, not a {wanted}")
        elif kind == "commit":
            pending.append((tree_of(objects, name), "tree"))
        elif kind == "tree":
            pending += [(below, "tree" if mode == 0o40000 else "blob") for _name, mode, below in tree_entries(content)]
    return found


def files_of(objects: Objects, commit: str) -> dict[bytes, tuple[int, bytes]] | None:
    """What a checkpoint holds: mode and content of each path, directories included; None when it cannot be read whole."""
    if missing_from(objects, [commit]):
        return None
    top = {name: below for name, _mode, below in tree_entries(objects[tree_of(objects, commit)][1])}
    pending, found = [(b"", top[b"files"])] if b"files" in top else [], {}
    while pending:
        folder, tree = pending.pop()
        for name, mode, below in tree_entries(objects[tree][1]):
            path = folder + name
            found[path] = (mode, b"" if mode == 0o40000 else objects[below][1])
            if mode == 0o40000:
                pending.append((path + b"/", below))
    return found


def refs(store: Path) -> dict[str, str]:
    """The checkpoint refs of the store: the last part of each name, and the commit it names."""
    done = run_git(store, "for-each-ref", "--format=%(refname) %(objectname)", "refs/checkpoints/")
    pairs = [line.split() for line in done.stdout.decode().splitlines()]
    return {name.removeprefix("refs/checkpoints/"): commit for name, commit in pairs}


def rows(store: Path) -> dict[str, str]:
    """The checkpoints the timeline holds: id and commit."""
    database = store / "timeline.db"
    if not database.exists():
        return {}
    connection = sqlite3.connect(f"file:{database}?mode=ro", uri=True)
    try:
        found = connection.execute("SELECT id, commit_id FROM checkpoint").fetchall()
        verdict = connection.execute("PRAGMA integrity_check").fetchone()
    finally:
        connection.close()
    if verdict[0] != "ok":
        return {"integrity_check": verdict[0]}
    return {str(name): commit.hex() if isinstance(commit, bytes) else str(commit) for name, commit in found}


def rows_and_refs(store: Path, objects: Objects) -> list[str]:
    """Where timeline and refs disagree, and commits whose closure cannot be read."""
    named, known = refs(store), rows(store)
    found = [f"row {name} has no ref" for name in sorted(known.keys() - named.keys())]
    found += [f"ref {name} has no row" for name in sorted(named.keys() - known.keys())]
    both = sorted(known.keys() & named.keys())
    found += [f"{name}: row says {known[name]}, ref {named[name]}" for name in both if known[name] != named[name]]
    commits = sorted(set(known.values()) | set(named.values()))
    return found + [f"closure: {line}" for line in missing_from(objects, commits)]


def modes(store: Path) -> list[str]:
    """Store entries that another user could enter or read, or that are not plain files and directories."""
    found = []
    for folder, _folders, files in os.walk(store):
        for path, wanted in [(folder, 0o700), *((os.path.join(folder, name), 0o600) for name in files)]:
            mode = os.lstat(path).st_mode
            if stat.S_IMODE(mode) != wanted or not (stat.S_ISDIR(mode) or stat.S_ISREG(mode)):
                found.append(f"mode of {os.path.relpath(path, store)}: {mode:o}")
    return found


def leftovers(store: Path) -> list[str]:
    """Temporary files nobody will ever use."""
    found = [f"left in tmp/: {path.name}" for path in (store / "tmp").rglob("*")] if (store / "tmp").is_dir() else []
    packs = sorted(path.name for path in (store / "objects" / "pack").glob("*"))
    found += [f"left in objects/pack/: {name}" for name in packs if not PACK_FILES.match(name)]
    stems = [{name.rsplit(".", 1)[0] for name in packs if name.endswith(end)} for end in (".pack", ".idx")]
    found += [f"half a pack: {stem}" for stem in sorted(stems[0] ^ stems[1])]
    for path in store.rglob("*.lock"):
        if path.parent != store:
            found.append(f"left lock: {path.relative_to(store)}")
    return found


def empty_files(store: Path) -> list[str]:
    """Files of the repository that have a name and no bytes: what a cut leaves of a file that was never synced."""
    places = [store, *(store / name for name in ("objects/pack", "refs/checkpoints", "refs/heads"))]
    named = [path for place in places if place.is_dir() for path in place.iterdir() if path.is_file()]
    # SQLite truncates its log to nothing, the lock need not say who holds it, and a cache may be lost.
    spared = {"timeline.db-wal", "timeline.db-shm", "lock", "cache"}
    return [
        f"empty: {path.relative_to(store)}" for path in named if path.name not in spared and path.stat().st_size == 0
    ]


def strangers(workspace: Path) -> list[str]:
    """Names of ours that were left in the workspace."""
    found = []
    for folder, folders, files in os.walk(os.fsencode(workspace)):
        names = [*folders, *files]
        found += [
            f"left in the workspace: {os.path.join(folder, name)!r}" for name in names if name.startswith(b".mulligan-")
        ]
    return found


if __name__ == "__main__":
    verdicts = judge(*sys.argv[1:3])
    print("\n".join(verdicts) or "nothing wrong")
    sys.exit(1 if verdicts else 0)
