"""
The stores of this machine: listing them, purging those whose workspace is long gone, warnings about where one lies.

A workspace that only cannot be seen (a volume that is not mounted) is not gone.
"""

from __future__ import annotations

import os
import time
from contextlib import closing, suppress
from typing import Any

from mulligan.errors import MulliganError
from mulligan.model.policy import Settings
from mulligan.model.sizes import format_size
from mulligan.safefs.directory import Directory, is_missing
from mulligan.safefs.lock import exclusive
from mulligan.safefs.platform import HERE
from mulligan.safefs.removal import is_removed, remove_whole, sweep_removed
from mulligan.safefs.room import disk_usage
from mulligan.timeline.database import NAME, Database
from mulligan.timeline.root import Identity, identity_of, is_within

_DAY = 86_400
_MANY_FILES = 500_000
_VOLATILE = {
    "tmpfs": "it is gone at the next boot",
    "ramfs": "it is gone at the next boot",
    "overlay": "it is gone with its container",
}


def size_warning(files: int) -> str:
    """Returns what to say about a workspace with so many files that a scan takes long; empty for any other."""
    if files <= _MANY_FILES:
        return ""
    return (
        f"This workspace has {files:,} files, so that a first scan may take longer than an agent waits for a hook. "
        'To protect only the directory you start in, set workspace.root = "here" in your configuration.'
    )


def warnings(settings: Settings, *, replaced: bool, gone: bool = False, files: int = 0) -> list[str]:
    """Returns what a person should know about where the store lies and whose history it holds."""
    found = [said for said in (size_warning(files), total_warning(settings)) if said]
    kind = _filesystem(settings.store)
    if kind in _VOLATILE:
        found.append(f"The store is on {kind}: {_VOLATILE[kind]}. Name another with --store or MULLIGAN_STORE.")
    if is_within(settings.store, settings.workspace):
        found.append("The store is inside the workspace: deleting the workspace deletes its checkpoints too.")
    if gone:
        found.append(
            f"{settings.workspace} is gone. Its checkpoints are safe. Bring it back: mulligan -C {settings.workspace} undo"
        )
    elif replaced:
        found.append("Another directory stands where this history was made; undo is refused until the next save.")
    return found


def _filesystem(path: str) -> str:
    """Returns the type of the file system that holds a path, from the mount table; empty where there is none."""
    while not os.path.exists(path):
        path = os.path.dirname(path)
    if not HERE.proc:
        return ""
    best, kind = "", ""
    try:
        with Directory.open(f"{HERE.proc}/self") as proc:
            table = proc.read(b"mounts").decode("utf-8", "surrogateescape")
    except OSError:
        return ""
    for line in table.splitlines():
        _, mount, found, *_ = line.split(" ")
        if (mount == "/" or is_within(path, mount)) and len(mount) >= len(best):
            best, kind = mount, found
    return kind


# -- every store ------------------------------------------------------------------------------------


def stores(settings: Settings) -> list[dict[str, Any]]:
    """Returns every store on this machine that lies in the usual place, largest first."""
    found = [row for path in _paths(settings) if (row := describe(path))]
    return sorted(found, key=lambda row: -row["bytes"])


def _paths(settings: Settings) -> list[str]:
    with suppress(FileNotFoundError, NotADirectoryError), Directory.open(settings.stores) as home:
        names = sorted(name for name in home.names() if not is_removed(name))
        return [os.path.join(settings.stores, os.fsdecode(name)) for name in names]
    return []


def used_by_stores(settings: Settings, *, others: bool = False) -> int:
    """Returns the bytes of all stores in the usual place, or of all but this workspace's."""
    return sum(_size(path) for path in _paths(settings) if not (others and path == settings.store))


def total_warning(settings: Settings) -> str:
    """Returns a warning where nine tenths of the total budget are used; empty without one."""
    total = settings.retention.total_budget
    if not total or (used := used_by_stores(settings)) * 10 < total * 9:
        return ""
    said = (
        f"All stores use {format_size(used)} of {format_size(total)} (retention.total_budget). Saves then remove this "
    )
    return (
        f"{said}project's oldest automatic checkpoints, never those you made. Free space: mulligan stores, mulligan gc"
    )


def describe(path: str) -> dict[str, Any]:
    """Returns what there is to say about a store; nothing for what is not a directory."""
    if not os.path.isdir(path) or os.path.islink(path):
        return {}
    row: dict[str, Any] = {
        "path": path,
        "workspace": "",
        "checkpoints": 0,
        "bytes": _size(path),
        "exists": False,
        "gone": False,
    }
    row["last_used"] = _last_used(path)
    try:
        row["workspace"], row["checkpoints"] = contents_of(path)
    except MulliganError as error:
        row["problem"] = error.message
        return row
    except OSError as error:
        row["problem"] = f"It cannot be opened ({error.strerror})."
        return row
    workspace = row["workspace"]
    row["exists"] = os.path.isdir(workspace)
    row["gone"] = not row["exists"] and os.path.isdir(os.path.dirname(workspace))
    return row


def contents_of(path: str) -> tuple[str, int]:
    """Returns the workspace that a store is of, and how many checkpoints it holds."""
    with Directory.open(path) as directory:
        # Read only, which leaves the log as it is: a list of stores must not change what they take on the disk.
        database = Database(path, create=False, directory=directory, look=True)
    try:
        return database.meta("workspace"), database.number("SELECT count(*) FROM checkpoint")
    finally:
        database.close()


def _size(path: str) -> int:
    try:
        with Directory.open(path) as directory:
            return disk_usage(directory)
    except OSError:
        return 0  # removed since, or unreadable: what follows says so


def _last_used(path: str) -> str:
    stamp = _stamp(path)
    return time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(stamp)) if stamp else ""


def purge(settings: Settings, older_than_days: float = 30) -> list[dict[str, Any]]:
    """Removes the stores whose workspace is gone and that were not used for a while; returns them."""
    removed = []
    with suppress(FileNotFoundError, NotADirectoryError), Directory.open(settings.stores) as home:
        sweep_removed(home)
    for row in stores(settings):
        unused = time.time() - _stamp(row["path"]) > older_than_days * _DAY
        if not row["gone"] or not unused:
            continue
        with Directory.open(settings.stores) as home:
            name = os.fsencode(os.path.basename(row["path"]))
            with home.child(name) as store, exclusive(store, wait=settings.wait, purpose="purge"):
                remove_whole(home, name)
        removed.append(row)
    return removed


def discard(settings: Settings, *, below: str = "") -> None:
    """Removes the store of a workspace, whole, and the directory `below` which it stood, if nothing else is there."""
    home, name = os.path.split(settings.store)
    if not os.path.lexists(os.path.join(settings.store, NAME)):
        return  # no store, or not one of ours
    encoded = os.fsencode(name)
    with (
        Directory.open(home) as parent,
        parent.child(encoded) as store,
        exclusive(store, wait=settings.wait, purpose="discard"),
    ):
        remove_whole(parent, encoded)
    if below:
        with Directory.open(os.path.dirname(below)) as above, suppress(OSError):  # files of others stay
            above.rmdir(os.fsencode(os.path.basename(below)))


def _stamp(path: str) -> float:
    times = [
        os.lstat(os.path.join(path, name)).st_mtime
        for name in (NAME, "lock")
        if os.path.lexists(os.path.join(path, name))
    ]
    return max(times, default=0.0)


# -- a project that moved ---------------------------------------------------------------------------


def moved_from(settings: Settings) -> str:
    """Returns the directory that a workspace was moved from, if its history is still kept for there; else empty."""
    try:
        with Directory.open(settings.stores) as home:
            names = sorted(name for name in home.names() if not name.startswith(b"."))
    except OSError:
        return ""  # there is no store at all
    paths = [os.path.join(settings.stores, os.fsdecode(name)) for name in names]
    others = [path for path in paths if path != settings.store]
    here = identity_of(settings.workspace) if others else Identity()
    found = (_left_by(path, here) for path in others if here.inode)
    return next((place for place in found if place), "")


def _left_by(path: str, here: Identity) -> str:
    """Returns the workspace of a store, if it is gone and was this very directory."""
    try:
        with Directory.open(path) as directory, closing(Database(path, create=False, directory=directory)) as database:
            recorded, place = Identity.from_meta(database.meta), database.meta("workspace")
    except (OSError, MulliganError):
        return ""  # no store, or one that cannot be asked
    same = bool(recorded.inode) and not recorded.is_another(here, last_ns=0)
    return place if same and place and is_missing(place) else ""
