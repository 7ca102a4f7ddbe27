"""
One installed folder: planned first, then written; and taken away again.

Beside its files stands a note of what was written, by hash. A file that has one of these hashes is ours and may be replaced or
removed; one that has not was changed by a person. The note is written before the files, with the old hashes and the new,
and once more after them: repeat an interrupted run to finish it.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from mulligan.errors import UserError
from mulligan.install.targets import Destination, only_plain_files
from mulligan.safefs.directory import Directory
from mulligan.safefs.workfile import read_work_file, write_work_file

NOTE = ".mulligan-install.json"
CREATE, UPDATE, UNCHANGED, REPLACE, REMOVE, KEEP = "create", "update", "unchanged", "replace", "remove", "keep"


class InstallStep(NamedTuple):
    """The action for one file; `replace` and `keep` are about files that were changed after install."""

    path: str
    action: str

    def to_dict(self) -> dict[str, str]:
        """Returns the JSON form."""
        return {"path": self.path, "action": self.action}


class Installed(NamedTuple):
    """The result of an installation: the steps, and the copies of replaced files."""

    steps: list[InstallStep]
    copies: list[str]


class InstalledFolder:
    """The folder of a target at its destination."""

    def __init__(self, to: Destination) -> None:
        self._to = to

    @property
    def directory(self) -> str:
        """The whole path of the folder."""
        return self._to.directory

    # -- planning ---------------------------------------------------------------------------------

    def plan(self, files: Mapping[str, bytes]) -> list[InstallStep]:
        """Returns what installing would do. Changes nothing."""
        with only_plain_files(self._to.directory):
            known = self._known()
            steps = [InstallStep(path, self._about(path, data, known)) for path, data in sorted(files.items())]
            obsolete = sorted(path for path in known if path not in files)
            return steps + [step for path in obsolete for step in self._removal(path, known)]

    def plan_removal(self) -> list[InstallStep]:
        """Returns what uninstalling would do. Changes nothing."""
        with only_plain_files(self._to.directory):
            known = self._known()
            return [step for path in sorted(known) for step in self._removal(path, known)]

    def _about(self, path: str, data: bytes, known: Mapping[str, list[str]]) -> str:
        present = self._read(path)
        if present is None:
            return CREATE
        if present == data:
            return UNCHANGED
        return UPDATE if _digest(present) in known.get(path, ()) else REPLACE

    def _removal(self, path: str, known: Mapping[str, list[str]]) -> Iterator[InstallStep]:
        present = self._read(path)
        if present is not None:
            yield InstallStep(path, REMOVE if _digest(present) in known[path] else KEEP)

    # -- acting -----------------------------------------------------------------------------------

    def install(self, files: Mapping[str, bytes], *, force: bool = False) -> Installed:
        """Writes the files; what a person changed is refused, or with `force` put aside under another name first."""
        steps = self.plan(files)
        changed = [step.path for step in steps if step.action == REPLACE]
        if changed and not force:
            raise UserError(
                f"In {self._to.directory} {', '.join(changed)} {'was' if len(changed) == 1 else 'were'} changed after install. Nothing was written.",
                hint="Put your changes elsewhere, or add --force: a copy of each is kept beside it.",
            )
        with only_plain_files(self._to.directory):
            known, fresh = self._known(), {path: _digest(data) for path, data in files.items()}
            self._write_note(
                {path: [*known.get(path, ()), digest] for path, digest in fresh.items()} | _without(known, fresh)
            )
            copies = [self._put_aside(path) for path in changed]
            for step in steps:
                if step.action in {CREATE, UPDATE, REPLACE}:
                    write_work_file(self._to.root, self._at(step.path), files[step.path])
                elif step.action == REMOVE:
                    self._remove(step.path)
            self._write_note({path: [digest] for path, digest in fresh.items()})
        return Installed(steps, copies)

    def uninstall(self) -> Installed:
        """Removes what was installed and is still as it was; what a person changed, or added, stays."""
        steps = self.plan_removal()
        with only_plain_files(self._to.directory):
            for step in steps:
                if step.action == REMOVE:
                    self._remove(step.path)
            if not any(step.action == KEEP for step in steps):
                self._remove(NOTE)
            self._remove_empty({os.path.dirname(step.path) for step in steps})
        return Installed(steps, [])

    def _put_aside(self, path: str) -> str:
        """Renames a file that a person changed; returns its new name."""
        folder, name = os.path.split(path)
        with self._open(folder) as directory:
            for number in range(1, 1000):
                aside = f"{name}.yours" if number == 1 else f"{name}.yours-{number}"
                with suppress(FileExistsError):
                    directory.rename_new(os.fsencode(name), os.fsencode(aside))
                    return os.path.join(folder, aside)
        raise UserError(f"There are too many copies of {path} already. Nothing was replaced.")

    def _remove(self, path: str) -> None:
        folder, name = os.path.split(path)
        with suppress(FileNotFoundError), self._open(folder) as directory:
            directory.unlink(os.fsencode(name), missing_ok=True)

    def _remove_empty(self, folders: set[str]) -> None:
        """Removes the directories that nothing is left in, and the byte code that running a script left there."""
        for folder in sorted(folders | {""}, key=len, reverse=True):
            with suppress(FileNotFoundError), self._open(folder) as directory, suppress(OSError):
                # Python makes it anew when it is needed.
                directory.remove_tree(b"__pycache__")
            with suppress(OSError), self._open(os.path.dirname(folder), above=not folder) as parent:
                parent.rmdir(os.fsencode(os.path.basename(folder or self._to.path)))

    # -- the note ---------------------------------------------------------------------------------

    def _known(self) -> dict[str, list[str]]:
        """Returns the hashes of what was installed, by path; nothing where there is no note that can be used."""
        try:
            note: Any = json.loads(self._read(NOTE) or b"{}").get("files", {})
            return {
                str(path): [str(digest) for digest in digests] for path, digests in note.items() if _is_inside(path)
            }
        except (ValueError, AttributeError, TypeError, RecursionError):
            return {}  # then every file counts as changed, which is the careful side

    def _write_note(self, files: Mapping[str, list[str]]) -> None:
        document = {
            "note": "Written by mulligan install; it tells your changes from its own files.",
            "files": dict(files),
        }
        write_work_file(self._to.root, self._at(NOTE), json.dumps(document, indent=1, sort_keys=True).encode() + b"\n")

    # -- reading ----------------------------------------------------------------------------------

    def _at(self, path: str) -> bytes:
        return os.fsencode(os.path.join(self._to.path, path))

    def _read(self, path: str) -> bytes | None:
        try:
            return read_work_file(self._to.root, self._at(path))
        except FileNotFoundError:
            return None

    def _open(self, folder: str, *, above: bool = False) -> Directory:
        path = os.path.dirname(self._to.path) if above else os.path.join(self._to.path, folder).rstrip("/")
        with Directory.open(self._to.root) as root:
            return root.descend(os.fsencode(path))


def _digest(data: bytes) -> str:
    return hashlib.sha256(data, usedforsecurity=False).hexdigest()


def _without(known: Mapping[str, list[str]], fresh: Mapping[str, str]) -> dict[str, list[str]]:
    return {path: digests for path, digests in known.items() if path not in fresh}


def _is_inside(path: str) -> bool:
    parts = path.split("/")
    return "\0" not in path and all(part not in {"", ".", ".."} for part in parts)
