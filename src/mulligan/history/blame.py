"""
Which prompt wrote each line of a file.

The history of a file is the chain from the workspace over the last checkpoint to its parents. Renames are followed. A line
that an undo or a restore brought back belongs to the step that first wrote it, where that is still kept.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from mulligan.diff.lines import is_binary
from mulligan.diff.renames import find_renames
from mulligan.errors import FileSealed, UnknownPath, UserError
from mulligan.history.attribution import LinePlace, attribute, common_lines, split_lines
from mulligan.history.origins import RESTORE, UNKNOWN, UNSAVED, Origin, Origins
from mulligan.model.objects import BLOB, MODE_DIR, MODE_LINK, TreeEntry
from mulligan.model.paths import parent_of, to_text
from mulligan.safefs.directory import Directory
from mulligan.timeline.trees import Trees

if TYPE_CHECKING:
    from mulligan.timeline.commits import Entry
    from mulligan.timeline.store import Store
    from mulligan.timeline.trees import State

#: A larger file is refused: lines of so much text are not for reading.
LARGEST = 16 << 20
#: So many earlier versions are searched for lines that a restore brought back.
_BROUGHT_BACK = 50
_NEW = b""


class BlamedLine(NamedTuple):
    """One line, and where it comes from."""

    line: int
    text: str
    origin: Origin

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON form."""
        return {"line": self.line, "text": self.text, **self.origin.to_dict()}


class Blame(NamedTuple):
    """The lines of a file as it is now, each with its origin; `revision` is the commit of git that holds the same bytes."""

    path: str
    lines: tuple[BlamedLine, ...]
    revision: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON form."""
        return {"path": self.path, "lines": [each.to_dict() for each in self.lines]}


class _Version(NamedTuple):
    """A content of the file, and the oldest checkpoint in a row that has it; `is_gap` where its own step is not kept."""

    oid: bytes
    path: bytes
    entry: Entry | None
    is_gap: bool = False


def blame(store: Store, root: str, path: bytes) -> Blame:
    """Returns where each line of a file comes from; raises UserError for what has no lines."""
    data, found = _read_now(root, path), _FileHistory(store, path)
    if data is None:
        raise UnknownPath(f"{to_text(path)!r} is not in the workspace. {found.last_seen()}", hint="mulligan log PATH")
    versions = found.versions
    if not versions:
        raise UnknownPath(
            f"No checkpoint holds {to_text(path)!r}, so nothing is known of its lines.", hint="mulligan save"
        )
    now = _Version(_NEW, path, None)
    unsaved = data != found.read(versions[0])
    owners = found.owners(data, [now, *versions] if unsaved else versions)
    makers = {owner: found.origin(owner) for owner in set(owners)}
    lines = [line.rstrip(b"\n").decode(errors="surrogateescape") for line in split_lines(data)]
    told = (BlamedLine(at + 1, text, makers[owner]) for at, (text, owner) in enumerate(zip(lines, owners, strict=True)))
    return Blame(to_text(path), tuple(told), "" if unsaved else found.revision())


class _FileHistory:
    """The versions of one file, newest first, along the parents of the last checkpoint."""

    def __init__(self, store: Store, path: bytes) -> None:
        self._store = store
        self._source = Trees(store.objects)
        self._path = path

    @cached_property
    def _entries(self) -> dict[str, Entry]:
        return {entry.id: entry for entry in self._store.checkpoints.newest()}

    @cached_property
    def _origins(self) -> Origins:
        return Origins(self._store.events.newest())

    @cached_property
    def versions(self) -> list[_Version]:
        """The contents of the file that differ from the one before, each with the checkpoint that made it."""
        kept: list[_Version] = []
        for version in self._states():
            if kept and (kept[-1].oid, kept[-1].path) == (version.oid, version.path):
                kept.pop()  # the same bytes as in a later checkpoint: the older one has them first
            kept.append(version)
        return kept

    def _states(self) -> Iterator[_Version]:
        entry, path = self._store.checkpoints.current(), self._path
        if entry is not None and path in entry.sealed:
            raise FileSealed(
                f"{to_text(path)!r} is a secret: it is saved sealed, and its lines are not compared.",
                hint="mulligan log PATH",
            )
        found = self._file(entry.files_tree, path) if entry is not None else None
        while entry is not None and found is not None:
            yield _Version(found.oid, path, entry)
            parent = self._entries.get(entry.checkpoint.parent or "")
            before = entry.before
            if before is not None and (parent is None or before.files != parent.files_tree):
                # Steps between the parent and this one are no longer kept: what they changed has no maker.
                found, path = self._earlier(entry.trees, before, path)
                if found is None:
                    return
                yield _Version(found.oid, path, entry, is_gap=True)
                if parent is not None:
                    found, path = self._earlier(before, parent.trees, path)
            elif parent is not None:
                found, path = self._earlier(entry.trees, parent.trees, path)
            entry = parent

    def _earlier(self, after: State, before: State, path: bytes) -> tuple[TreeEntry | None, bytes]:
        """Returns the file in the state before, by its name there."""
        found = self._file(before.files, path)
        if found is not None or before.files == after.files:
            return found, path
        changes = self._source.changes(before.files, after.files)
        size = self._store.objects.kind_and_size
        for old, new in find_renames(
            changes, lambda oid: self._store.objects.read(oid, BLOB), lambda oid: size(oid)[1]
        ):
            if new.path == path:
                return old.old, old.path
        return None, path

    def _file(self, tree: bytes, path: bytes) -> TreeEntry | None:
        found = self._source.lookup(tree, path)
        return found if found is not None and found.mode not in (MODE_DIR, MODE_LINK) else None

    def read(self, version: _Version) -> bytes:
        """Returns the content of a version."""
        return self._store.objects.read(version.oid, BLOB)

    def owners(self, data: bytes, versions: list[_Version]) -> list[_Version]:
        """Returns the version that wrote each line; a line that came back belongs to the version that it came from."""
        places = attribute((versions[0], data), ((each, self.read(each)) for each in versions[1:]))
        for at, version in enumerate(versions):
            if self._is_return(version) and any(place.key is version for place in places):
                places = self._brought_back(places, version, versions[at + 2 :][:_BROUGHT_BACK], versions)
        return [place.key for place in places]

    def _brought_back(
        self, places: list[LinePlace[_Version]], returned: _Version, older: list[_Version], versions: list[_Version]
    ) -> list[LinePlace[_Version]]:
        """Gives the lines of a restore to the versions that it took them from."""
        text = self.read(returned)
        for candidate in older:
            wanted = {place.line for place in places if place.key is returned}
            if not wanted & common_lines(self.read(candidate), text):
                continue
            rest = versions[versions.index(candidate) :]
            there = attribute((returned, text), ((each, self.read(each)) for each in rest))
            places = [there[place.line] if place.key is returned else place for place in places]
        return places

    def _is_return(self, version: _Version) -> bool:
        return version.entry is not None and not version.is_gap and self.origin(version).by == RESTORE

    def origin(self, version: _Version) -> Origin:
        """Returns who made a version."""
        if version.entry is None:
            return Origin(UNSAVED)
        if version.is_gap:
            return Origin(UNKNOWN, command="steps that are no longer kept")
        return self._origins.of(version.entry, to_text(version.path))

    def revision(self) -> str:
        """Returns the commit of the user's repository that holds the file as it is at the last checkpoint."""
        entry = self._store.checkpoints.current()
        git = entry.checkpoint.git if entry is not None else None
        return git.commit_hash if git is not None and to_text(self._path) not in git.dirty_files else ""

    def last_seen(self) -> str:
        """Returns a sentence about the newest checkpoint that holds the file."""
        for entry in self._entries.values():
            if self._file(entry.files_tree, self._path) is not None:
                return f"Checkpoint {entry.checkpoint.short_id} is the newest that holds it."
        return "No checkpoint holds it either."


def _read_now(root: str, path: bytes) -> bytes | None:
    """Returns the file as it is in the workspace, None where there is none."""
    if not path:
        raise UserError("The workspace itself is not a file: it has no lines.", hint="mulligan blame FILE")
    try:
        with Directory.open(root) as top, top.descend(parent_of(path)) as directory:
            name = os.path.basename(path)
            seen = directory.stat(name)
            if seen.st_mode & 0o170000 != 0o100000:
                raise UserError(f"{to_text(path)!r} is not a file: it has no lines.")
            if seen.st_size > LARGEST:
                raise UserError(f"{to_text(path)!r} is larger than {LARGEST >> 20} MiB. Its lines are not compared.")
            data = directory.read(name)
    except (FileNotFoundError, NotADirectoryError):
        return None
    if is_binary(data):
        raise UserError(f"{to_text(path)!r} is binary: it has no lines.", hint=f"mulligan log {to_text(path)}")
    return data
