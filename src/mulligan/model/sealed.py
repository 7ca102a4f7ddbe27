"""
What a checkpoint says about secrets that git does not track: they are saved sealed, beside the other files.

A sealed file is known by a keyed hash of its content: the same content has the same one on one machine, and it tells nothing
to a reader who lacks the key.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from mulligan.model.objects import MODE_SEALED, Change, TreeEntry
from mulligan.model.paths import parse_path, to_text

if TYPE_CHECKING:
    from mulligan.model.plan import Node


class SealedFile(NamedTuple):
    """
    One secret: its ciphertext, the key it is sealed with, the keyed hash of its content, its permission bits and its size.

    `plain`, the id of the content itself, is known while a scan is in memory, and never written.
    """

    oid: bytes
    key: str
    digest: str
    perm: int
    size: int
    plain: bytes = b""

    @property
    def node(self) -> Node:
        """The state of its path, in a plan."""
        from mulligan.model.plan import Node

        return Node(MODE_SEALED, self.content_id, self.perm)

    @property
    def content_id(self) -> bytes:
        """The beginning of the keyed hash, as long as an object id."""
        return bytes.fromhex(self.digest)[:20]

    def is_as(self, other: SealedFile) -> bool:
        """Returns whether another one has the same content and permission bits."""
        return (self.key, self.digest, self.perm) == (other.key, other.digest, other.perm)


Sealed = Mapping[bytes, SealedFile]
NO_FILES: Sealed = MappingProxyType({})


class Secrets(NamedTuple):
    """The sealed files of a checkpoint, and the key of the machine that saved it (empty where none was needed yet)."""

    key: str = ""
    files: Sealed = NO_FILES

    def to_plain(self) -> dict[str, Any]:
        """Returns the JSON form."""
        rows = [
            [to_text(path), file.oid.hex(), file.key, file.digest, file.perm, file.size]
            for path, file in sorted(self.files.items())
        ]
        return {"key": self.key, "files": rows}


def from_plain(value: Any) -> Secrets:
    """Returns what `to_plain` gave; raises ValueError, TypeError or KeyError on anything else."""
    files = {}
    for path, oid, key, digest, perm, size in value["files"]:
        file = SealedFile(bytes.fromhex(oid), str(key), str(digest), int(perm) & 0o7777, int(size))
        if len(file.oid) != 20 or len(file.content_id) != 20:
            raise ValueError("not a sealed file")
        files[parse_path(path)] = file
    return Secrets(str(value["key"]), files)


def entry_of(path: bytes, file: SealedFile | None) -> TreeEntry | None:
    """Returns a sealed file as one side of a change."""
    return None if file is None else TreeEntry(path.rpartition(b"/")[2], MODE_SEALED, file.content_id)


def with_sealed(changes: Iterable[Change], old: Sealed, new: Sealed) -> list[Change]:
    """Returns changes of plain files together with those of sealed ones; a path that crossed over is modified."""
    found = {change.path: change for change in changes}
    for path in old.keys() | new.keys():
        before, after, plain = old.get(path), new.get(path), found.get(path, Change(path, None, None))
        if before is None or after is None or not before.is_as(after):
            found[path] = Change(path, entry_of(path, before) or plain.old, entry_of(path, after) or plain.new)
    return sorted(found.values(), key=lambda change: change.path)
