"""
The directory of records: `.claude/checkpoints/<id>/` with `metadata.json` and the copies of the project's state files.

Promises: an id is given to one checkpoint only, in whichever process and in however short a time; a record is there whole or
not at all, whenever the process is killed; only files that belong to a record are ever removed. No name here is followed
through a link. Records are notes beside the timeline, not the checkpoint itself: that is in the store.
"""

from __future__ import annotations

import json
import os
import re
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import Any

from mulligan.errors import UnsafePath, UserError
from mulligan.model.paths import ancestors, parent_of, parse_path
from mulligan.safefs import syscalls
from mulligan.safefs.directory import Directory, random_name, write_all
from mulligan.safefs.durable import sync, write_synced
from mulligan.state.project import FEATURE_LIST_FILE, PROGRESS_FILE

PLACE = ".claude/checkpoints"
METADATA = "metadata.json"
COPIES = (FEATURE_LIST_FILE, PROGRESS_FILE)
_CLAIM, _WRITING = b".claim-", b".writing-"
_ABANDONED = 86_400
_RECORD_LIMIT = 64 << 20
# Git's own way of keeping a directory out of `git status`, `git add` and `git clean`, whatever the project ignores.
_IGNORING, _ALL = b".gitignore", b"*\n"
_ID = re.compile(r"(checkpoint-\d{8}-\d{6})(?:-(\d+))?")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,200}")


class ProjectRecords:
    """The records of one project."""

    def __init__(self, root: str, place: str = PLACE) -> None:
        self._root = root
        self.place = _place_in(root, place)
        self._path = parse_path(self.place)

    def path_of(self, checkpoint_id: str, name: str) -> str:
        """Returns where a file of a record is, relative to the project."""
        return f"{self.place}/{checkpoint_id}/{name}"

    # -- ids --------------------------------------------------------------------------------------

    def claim(self, ids: Iterable[str]) -> str:
        """Returns the first of these ids that is neither claimed nor recorded, reserved until `write` or `release`."""
        with self._made() as place:
            for candidate in ids:
                try:
                    place.mkdir(_CLAIM + candidate.encode(), self._mode())
                except FileExistsError:
                    continue
                # Checked after the claim: the process that held it before has written its record by now.
                if not place.exists(candidate.encode()):
                    return candidate
                place.rmdir(_CLAIM + candidate.encode())
        raise ValueError("every id is taken")

    def release(self, checkpoint_id: str) -> None:
        """Gives a claimed id back."""
        with self._made() as place, suppress(FileNotFoundError):
            place.rmdir(_CLAIM + checkpoint_id.encode())

    def claimed(self) -> list[str]:
        """Returns the ids that are claimed: of checkpoints in progress, and of interrupted ones."""
        return [os.fsdecode(name[len(_CLAIM) :]) for name in self._names() if name.startswith(_CLAIM)]

    # -- writing ----------------------------------------------------------------------------------

    def write(self, checkpoint_id: str, files: Mapping[str, bytes]) -> None:
        """Puts a record in place, durably, all its files at once; one that is there already stays."""
        temporary = _WRITING + random_name(8).encode()
        with self._made() as place:
            place.mkdir(temporary, self._mode())
            try:
                with place.child(temporary) as record:
                    for name, data in files.items():
                        self._create(record, name.encode(), data)
                    sync(record.fd, "the record of a checkpoint")
                with suppress(FileExistsError):
                    place.rename_new(temporary, checkpoint_id.encode())
                sync(place.fd, "the record of a checkpoint")
            finally:
                _remove_record(place, temporary)
        self.release(checkpoint_id)

    def _create(self, record: Directory, name: bytes, data: bytes) -> None:
        fd = record.create(name, self._mode() & 0o666)
        try:
            write_all(fd, data)
            sync(fd, "the record of a checkpoint")
        finally:
            syscalls.calls.close(fd)

    def _mode(self) -> int:
        """Returns the permissions of the project's own directory: its records are no more secret than it is."""
        return stat.S_IMODE(os.stat(self._root).st_mode) & 0o777 | 0o700

    def remove(self, checkpoint_id: str) -> None:
        """Removes the files of a record, and its directory if nothing else is in it; again is harmless."""
        if not _NAME.fullmatch(checkpoint_id):
            return
        with self._existing() as place:
            if place is not None:
                _remove_record(place, checkpoint_id.encode())

    def sweep(self, is_known: Callable[[str], bool]) -> None:
        """Removes what a killed process left a day ago and no checkpoint needs."""
        with self._existing() as place:
            for name in place.names() if place is not None else ():
                if not name.startswith((_CLAIM, _WRITING)) or place is None:
                    continue
                with suppress(FileNotFoundError):
                    old = time.time() - place.stat(name).st_mtime > _ABANDONED
                    if old and not (name.startswith(_CLAIM) and is_known(os.fsdecode(name[len(_CLAIM) :]))):
                        _remove_record(place, name)

    # -- reading ----------------------------------------------------------------------------------

    def ids(self) -> list[str]:
        """Returns the ids of all records."""
        with self._existing() as place:
            names = [os.fsdecode(name) for name in place.names()] if place is not None else []
            return sorted(name for name in names if _NAME.fullmatch(name) and _is_directory(place, name))

    def read(self, checkpoint_id: str) -> dict[str, Any]:
        """Returns the metadata of a record; raises ValueError, saying what is wrong, where there is none to be had."""
        data = self.read_file(checkpoint_id, METADATA)
        if data is None:
            raise ValueError(f"{self.path_of(checkpoint_id, METADATA)} is missing")
        try:
            found = json.loads(data)
        except (ValueError, RecursionError):
            raise ValueError(f"{self.path_of(checkpoint_id, METADATA)} is not JSON") from None
        if not isinstance(found, dict) or found.get("id") != checkpoint_id:
            raise ValueError(f"{self.path_of(checkpoint_id, METADATA)} is not the record of this checkpoint")
        return found

    def read_file(self, checkpoint_id: str, name: str) -> bytes | None:
        """Returns a file of a record, None where there is no regular file of that name."""
        if not _NAME.fullmatch(checkpoint_id):
            return None
        try:
            with self._existing() as place:
                if place is None:
                    return None
                with place.child(checkpoint_id.encode()) as record:
                    return record.read(name.encode(), limit=_RECORD_LIMIT)
        except OSError:
            return None  # gone, a link, a directory, not to be read: in each case not a copy that can be used

    def read_beside(self, name: str) -> bytes | None:
        """Returns a state file of the project itself, None where there is no regular file of that name."""
        try:
            with Directory.open(self._root) as root:
                return root.read(name.encode(), limit=_RECORD_LIMIT)
        except OSError:
            return None  # gone, a link, a directory, not to be read: nothing to compare with

    def _names(self) -> list[bytes]:
        with self._existing() as place:
            return place.names() if place is not None else []

    @contextmanager
    def _made(self) -> Iterator[Directory]:
        """Opens the directory of records, made if need be."""
        with Directory.open(self._root) as root:
            for level in [*ancestors(self._path), self._path]:
                with self._descend(root, parent_of(level)) as above, suppress(FileExistsError):
                    above.mkdir(level.rpartition(b"/")[2], self._mode())
            with self._descend(root, self._path) as place:
                self._hide(place)
                yield place

    def _hide(self, place: Directory) -> None:
        """Makes git ignore a directory that is still empty; later changes by the user stay."""
        if not all(name.startswith((_CLAIM, _WRITING)) for name in place.names()):
            return
        temporary = _WRITING + random_name(8).encode()
        write_synced(place, temporary, [_ALL], "the record of a checkpoint", self._mode() & 0o666)
        try:
            with suppress(FileExistsError):
                place.rename_new(temporary, _IGNORING)
        finally:
            place.unlink(temporary, missing_ok=True)

    @contextmanager
    def _existing(self) -> Iterator[Directory | None]:
        """Opens the directory of records, None where there is none that can be used."""
        with Directory.open(self._root) as root:
            try:
                place = root.descend(self._path)
            except OSError:
                # Missing, a link, or a file: there are no records in each case. A write reports the reason.
                yield None
                return
            with place:
                yield place

    def _descend(self, root: Directory, path: bytes) -> Directory:
        try:
            return root.descend(path)
        except OSError as error:
            raise UserError(
                f"{self.place} in {self._root} cannot be used as a directory ({error.strerror}). Nothing was changed.",
                hint="mulligan keeps its records in a directory there, and follows no link.",
            ) from None


def next_id(moment: datetime, newest: str | None) -> str:
    """Returns the id of a moment; if that is not later than `newest`, `newest` with a number."""
    fresh = f"checkpoint-{moment:%Y%m%d-%H%M%S}"
    found = _ID.fullmatch(newest or "")
    if found is None or fresh > found[1]:
        return fresh
    return f"{found[1]}-{int(found[2] or 1) + 1}"


def _place_in(root: str, place: str) -> str:
    """Returns where a directory is, relative to the project and in one spelling only; raises UnsafePath for one outside."""
    relative = os.path.relpath(os.path.join(root, place), root) if place and "\0" not in place else "."
    if relative == "." or relative.split("/")[0] in ("..", ".git"):
        raise UnsafePath(
            f"checkpoint_dir is a directory inside the project, not {place!r}. Nothing was changed.",
            hint=f"The usual one: {PLACE}",
        )
    return relative


def _is_directory(place: Directory | None, name: str) -> bool:
    try:
        return place is not None and stat.S_ISDIR(place.stat(name.encode()).st_mode)
    except FileNotFoundError:
        return False


def _remove_record(place: Directory, name: bytes) -> None:
    with suppress(FileNotFoundError):
        if stat.S_ISREG(place.stat(name).st_mode):
            if name.startswith(_WRITING):
                place.unlink(name, missing_ok=True)
            return
    with suppress(FileNotFoundError, NotADirectoryError):
        with place.child(name) as record:
            for file in (METADATA, *COPIES):
                record.unlink(file.encode(), missing_ok=True)
        # Other files in the directory are not ours, so the directory stays.
        with suppress(OSError):
            place.rmdir(name)
