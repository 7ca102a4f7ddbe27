"""
An independent judge of a store and its workspace: plain git, hashlib, a copy of the timeline, and nothing of the package.

It answers one question, after any kill, cut or race: is there anything in this store, or left behind in this
workspace, that should not be as it is? It repairs nothing and opens nothing for writing. The invariants, as the project
publishes them (docs/explanation/store-format.md), and who judges them:

    I1, I2   a ref names only whole checkpoints, and every object hashes right   plain_git, check_checkpoints, check_packs
    I3, I4   acknowledged is there, unacknowledged is absent or complete         `holds`, `judge(at_rest=False)`
    I5, I6   a file is old or new, and what is not in the plan is untouched      `neither_old_nor_new`, `disturbed`
    I7       nothing outside is opened for writing                               `check_trace`
    I8       nothing needed was deleted                                          check_timeline, by the closure of all names
"""

from __future__ import annotations

import fcntl
import os
import re
import stat
import sys
from pathlib import Path

from check_checkpoints import State, read_checkpoint
from check_packs import packs
from check_timeline import NAME, View, is_whole, read_timeline, timeline_and_refs, view_of
from plain_git import (
    Objects,
    batch_objects,
    files_of,
    fsck,
    hashes,
    missing_from,
    objects_of,
    refs,
    run_git,
    tree_entries,
    tree_of,
)

__all__ = [
    "Objects",
    "View",
    "batch_objects",
    "disturbed",
    "files_of",
    "fsck",
    "hashes",
    "holds",
    "judge",
    "missing_from",
    "neither_old_nor_new",
    "objects_of",
    "refs",
    "rows",
    "run_git",
    "tree_entries",
    "tree_of",
    "view_of",
]
PACK_FILES = re.compile(r"^pack-[0-9a-f]{40}\.(pack|idx|rev|keep|mtimes|bitmap)$")
REF = re.compile(rb"[0-9a-f]{40}\n")
#: Everything that a store has at its top; a timeline that could not be read is kept beside the new one.
TOP = re.compile(
    r"HEAD|config|objects|refs|packed-refs|tmp|lock|pins|cache|timeline\.db(-wal|-shm)?"
    r"|timeline\.db\.damaged-\d+(-wal|-shm)?"
)
#: A file of the workspace that a restore displaced and has not removed yet: it keeps its own bits behind a private door.
DISPLACED = re.compile(r"tmp/gone-(\d+)-\d+")
#: A timeline that SQLite has not yet put into its final form has this beside it.
PASSING = re.compile(r"timeline\.db-journal")


PORTABLE = os.environ.get("MULLIGAN_PLATFORM") == "portable"
#: The name of a file that a restore without an exchange has moved aside.
ASIDE = re.compile(r"\.mulligan-[0-9a-f]+b?-1\d{9}")


def judge(
    store: str | os.PathLike[str],
    workspace: str | os.PathLike[str] | None = None,
    *,
    with_fsck: bool = True,
    at_rest: bool = True,
    returned: bool = False,
    view: View | None = None,
) -> list[str]:
    """
    Every violation found in a store that no process is using, and in its workspace; empty when all is well.

    Without `git fsck`, which is most of the time, every object is still read by git, hashed here and reached from its ref.
    Not `at_rest` is right after a crash: what the next writing command ends or sweeps away may be there, and no more. Where the
    last command had `returned` before it, every ref is there.
    A caller that has read the store itself gives its `view`.
    """
    place = Path(store)
    found: list[str] = []
    if place.exists():
        found += modes(place) + half_packs(place, at_rest=at_rest) + half_refs(place) + unknown(place, at_rest=at_rest)
        found += (leftovers(place) + empty_files(place) + held_lock(place)) if at_rest else []
        if is_whole(place):
            view = view or view_of(place)
            found += (fsck(place) if with_fsck else []) + hashes(view.objects) + packs(place)
            found += timeline_and_refs(place, view, at_rest=at_rest, returned=returned)
    if workspace is not None and at_rest:
        found += strangers(Path(workspace))
    return found


def rows(store: Path) -> dict[str, str]:
    """The checkpoints the timeline holds: id and commit."""
    return read_timeline(store).commits


# -- checkpoints ------------------------------------------------------------------------------------


def holds(objects: Objects, commit: str, wanted: State) -> list[str]:
    """Where a checkpoint differs from the workspace it must hold: kinds, permission bits and bytes."""
    held, found = read_checkpoint(objects, commit)
    if held is None:
        return found
    paths = sorted((wanted.keys() | held.files.keys()) - held.sealed.keys())
    found += [f"{path}: {_told(held.files, path)}, not {_told(wanted, path)}" for path in paths
              if held.files.get(path) != wanted.get(path)]  # fmt: skip
    # What is sealed only its key can open: here its permission bits and size count.
    there = {path: (wanted[path][1], len(wanted[path][2])) if path in wanted else None for path in held.sealed}
    return found + [
        f"{path}: sealed as {row}, not {there[path]}" for path, row in held.sealed.items() if there[path] != row
    ]


def _told(state: State, path: str) -> str:
    if path not in state:
        return "nothing"
    kind, mode, content = state[path]
    return f"{kind} {mode:o} {content[:24]!r}{f' ({len(content)} bytes)' if len(content) > 24 else ''}"


# -- the workspace ----------------------------------------------------------------------------------


def neither_old_nor_new(now: State, old: State, new: State, *, aside: bool = PORTABLE) -> list[str]:
    """
    The paths that are in no state between two: other bytes or bits, or gone although neither side removes them.

    A directory may be there or not while what is in it comes or goes, and may be open for the while. Where names cannot be
    exchanged, a file may stand `aside`.
    """
    wrong = []
    for path in sorted(now.keys() | (old.keys() & new.keys())):
        sides = [side[path] for side in (old, new) if path in side]
        if os.path.basename(path).startswith(".mulligan-") or (path in now and now[path][0] == "dir"):
            continue
        if path not in now:
            if all(side[0] != "dir" for side in sides) and not (aside and _is_aside(now, sides)):
                wrong.append(f"{path}: gone")
        elif now[path] not in sides:
            wrong.append(f"{path}: {_told(now, path)}")
    return wrong


def _is_aside(now: State, sides: list[tuple[str, int, bytes]]) -> bool:
    """Without an exchange, whether the file of a missing name stands aside, from where the next command puts it back."""
    return any(ASIDE.fullmatch(os.path.basename(path)) and entry in sides for path, entry in now.items())


def disturbed(now: dict[str, object], before: dict[str, object]) -> list[str]:
    """The bystanders that changed: given as `tree.snapshot` has them, with times and inodes."""
    return [f"{path} was touched" for path in sorted(now.keys() | before.keys()) if now.get(path) != before.get(path)]


def strangers(workspace: Path) -> list[str]:
    """Names of ours that were left in the workspace, and in the user's repository if it has one there."""
    found = []
    for folder, folders, files in os.walk(os.fsencode(workspace)):
        names = [*folders, *files]
        found += [
            f"left in the workspace: {os.path.join(folder, name)!r}" for name in names if name.startswith(b".mulligan-")
        ]
        if os.path.basename(folder) == b".git":
            found += [f"left in .git: {name!r}" for name in names if name.startswith(b"mulligan-")]
    return found


# -- the store's directory --------------------------------------------------------------------------


def modes(store: Path) -> list[str]:
    """Store entries that another user could enter or read, or that are not plain files and directories of ours."""
    found = []
    for folder, _folders, files in os.walk(store):
        for path, wanted in [(folder, 0o700), *((os.path.join(folder, name), 0o600) for name in files)]:
            if DISPLACED.fullmatch(os.path.relpath(path, store)):
                continue
            entry = os.lstat(path)
            mode = entry.st_mode
            if stat.S_IMODE(mode) != wanted or not (stat.S_ISDIR(mode) or stat.S_ISREG(mode)):
                found.append(f"mode of {os.path.relpath(path, store)}: {mode:o}")
            if entry.st_uid != os.geteuid():
                found.append(f"owner of {os.path.relpath(path, store)}: {entry.st_uid}")
    return found


def unknown(store: Path, *, at_rest: bool) -> list[str]:
    """Entries that are no part of a store."""
    names = sorted(path.name for path in store.iterdir() if not TOP.fullmatch(path.name))
    passing = not at_rest or is_unborn(store)
    found = [f"unknown: {name}" for name in names if not (passing and PASSING.fullmatch(name))]
    loose = [path for path in (store / "objects").glob("??/*") if path.is_file()]
    return found + [f"a loose object: {path.relative_to(store)}" for path in loose]


def half_refs(store: Path) -> list[str]:
    """References that hold no id: whole or not at all, at any instant, is what git needs of them."""
    found = sorted((store / "refs" / "checkpoints").glob("*"))
    return [f"half a ref: {path.name}" for path in found if not REF.fullmatch(path.read_bytes())]


def half_packs(store: Path, *, at_rest: bool) -> list[str]:
    """Packs without their index, which a crash may leave, and indexes without their pack, which nothing may."""
    names = sorted(path.name for path in (store / "objects" / "pack").glob("*"))
    found = [f"left in objects/pack/: {name}" for name in names if not PACK_FILES.match(name)]
    whole, listed = ({name.rsplit(".", 1)[0] for name in names if name.endswith(end)} for end in (".pack", ".idx"))
    return found + [f"half a pack: {stem}" for stem in sorted((whole ^ listed) if at_rest else (listed - whole))]


def leftovers(store: Path) -> list[str]:
    """Temporary files nobody will ever use; what a living process displaced, it removes itself."""
    there = (store / "tmp").rglob("*") if (store / "tmp").is_dir() else ()
    found = [f"left in tmp/: {path.name}" for path in there if not _is_somebodys(path.relative_to(store))]
    found += [f"left lock: {path.relative_to(store)}" for path in store.rglob("*.lock") if path.parent != store]
    return found


def _is_somebodys(path: Path) -> bool:
    displaced = DISPLACED.fullmatch(str(path))
    return displaced is not None and Path("/proc", displaced[1]).exists()


def is_unborn(store: Path) -> bool:
    """Whether the making of the store was cut short before anything was in it; the next save goes on from there."""
    timeline, refs = store / NAME, store / "refs/checkpoints"
    return not (timeline.exists() and timeline.stat().st_size) and not (refs.is_dir() and any(refs.iterdir()))


def empty_files(store: Path) -> list[str]:
    """Files of the repository that have a name and no bytes: what a cut leaves of a file that was never synced."""
    places = [store, *(store / name for name in ("objects/pack", "refs/checkpoints", "refs/heads"))]
    named = [path for place in places if place.is_dir() for path in place.iterdir() if path.is_file()]
    # SQLite truncates its log to nothing, the lock need not say who holds it, pins are locks on a file without bytes, and a cache may be lost.
    spared = {f"{NAME}-wal", f"{NAME}-shm", "lock", "pins", "cache"}
    spared |= {NAME, f"{NAME}-journal"} if is_unborn(store) else set()
    return [
        f"empty: {path.relative_to(store)}" for path in named if path.name not in spared and path.stat().st_size == 0
    ]


def held_lock(store: Path) -> list[str]:
    """Whether somebody still holds the store: a lock that outlives its process would need a person to remove it."""
    try:
        handle = os.open(store / "lock", os.O_RDONLY)
    except FileNotFoundError:
        return []
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return ["the lock is held"]
    finally:
        os.close(handle)
    return []


if __name__ == "__main__":
    verdicts = judge(*sys.argv[1:3])
    print("\n".join(verdicts) or "nothing wrong")
    sys.exit(1 if verdicts else 0)
