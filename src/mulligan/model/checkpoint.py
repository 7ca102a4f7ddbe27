"""
A checkpoint and what belongs to it.

Secrets that git does not track are saved sealed, beside the other files. A sealed file is known by a keyed hash of its content:
the same content has the same one on one machine, and it tells nothing to a reader who lacks the key.

Values only. The long lists of a checkpoint (what changed, what was not captured) are decoded when they are first read:
a timeline of a thousand checkpoints is read without unpacking a hundred thousand names each.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from mulligan.errors import StoreDamaged, UnsafePath
from mulligan.model.bounded import beginning, read_json, unpack
from mulligan.model.objects import MODE_SEALED, Change, TreeEntry
from mulligan.model.paths import parse_path, to_text

if TYPE_CHECKING:
    from mulligan.model.plan import Node

KINDS = ("manual", "feature", "session", "automatic", "step", "safety")
#: Those that a person or an agent saves; a safety checkpoint is made by restores alone.
SAVED_KINDS = KINDS[:-1]
#: Those that only an explicit delete removes.
LASTING_KINDS = ("manual", "feature")

# Reasons why a path is not captured. The first seven are policy: listed, and the checkpoint is complete all the same.
IGNORED, EXCLUDED, SECRET = "ignored", "excluded", "secret"
TOO_LARGE, SPECIAL, OTHER_FILESYSTEM, WORKTREE = "too large", "special", "other filesystem", "worktree"
UNREADABLE, MOVING, NEWLY_IGNORED = "unreadable", "moving", "newly ignored"
INCOMPLETE = frozenset({UNREADABLE, MOVING, NEWLY_IGNORED})

_LAST_MOMENT = (1 << 63) - 1
_PART = 8192
# What is shorter hardly gets shorter, and to set up the packer takes longer than anything else that is done for a save's list.
_SHORT = 256
# Deflating so little takes zlib 60 µs and does not save a page.
_LITTLE = 1 << 10
# From so many bytes on a list of paths is packed in pieces of so many; and what JSON says as it stands, with the NUL between paths.
_VERY_LONG, _PIECE = 1 << 20, 1 << 20
_AS_THEY_ARE = bytes({0, *range(0x20, 0x7F)} - {*b'"\\'})
# A packed list that is longer than this is not unpacked as a whole only to be counted.
_LONG = 32 << 10


class NotCaptured(NamedTuple):
    """A path that is not in the checkpoint, and why; a directory stands for all below it."""

    path: str
    reason: str
    detail: str = ""

    def to_dict(self) -> dict[str, str]:
        """Returns the JSON form."""
        return {"path": self.path, "reason": self.reason, "detail": self.detail}


class Holding(NamedTuple):
    """One path of the workspace: how many files at or below it are saved as they are now, and what of it is not saved."""

    path: str
    files: int
    unsaved: tuple[NotCaptured, ...] = ()
    is_directory: bool = False


def sealed_rows(paths: Iterable[str]) -> list[NotCaptured]:
    """Returns sealed files as paths that must not be written anywhere in the plain, as into a commit of the user's."""
    return [NotCaptured(path, SECRET, "saved sealed") for path in paths]


class GitState(NamedTuple):
    """The position of the workspace's own git repository, read as data."""

    commit_hash: str
    branch: str
    dirty_files: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON form."""
        return {"commit_hash": self.commit_hash, "branch": self.branch, "dirty_files": list(self.dirty_files)}


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


def pack_list(rows: Iterable[Any]) -> bytes:
    """Returns a list as compressed JSON (ASCII, so that surrogate escapes survive), packed piece by piece."""
    rows = iter(rows)
    part = list(islice(rows, _PART))
    text = json.dumps(part, separators=(",", ":")).encode("ascii")
    if len(text) <= _SHORT and len(part) < _PART:
        return _stored(text)
    packer, packed, before = zlib.compressobj(1), [], b"["
    while part:
        packed.append(packer.compress(before + text[1:-1]))
        part, before = list(islice(rows, _PART)), b","
        text = json.dumps(part, separators=(",", ":")).encode("ascii")
    packed.append(packer.compress(b"]"))
    return b"".join(packed) + packer.flush()


def pack_paths(joined: bytes) -> bytes:
    """Packs NUL-separated paths like `pack_list`; a long list in a third of the time."""
    if len(joined) < _VERY_LONG or joined.translate(None, _AS_THEY_ARE):
        return pack_list(os.fsdecode(joined).split("\0") if joined else ())
    # Names of plain letters stand in JSON as they are. A save of so many files loads ISA-L anyway.
    from isal import isal_zlib

    text = memoryview(b'["%b"]' % joined.replace(b"\0", b'","'))
    packer: Any = isal_zlib.compressobj(1)
    packed = [packer.compress(text[at : at + _PIECE]) for at in range(0, len(text), _PIECE)]
    return b"".join(packed) + bytes(packer.flush())


def pack_text(text: bytes, deflate: Callable[[bytes], bytes]) -> bytes:
    """Returns text as a zlib stream, deflated if it is long."""
    return _stored(text) if len(text) <= _LITTLE else deflate(text)


def _stored(text: bytes) -> bytes:
    """Returns a short text between the two ends of a zlib stream, as it is."""
    lengths = len(text).to_bytes(2, "little") + (len(text) ^ 0xFFFF).to_bytes(2, "little")
    return b"\x78\x01\x01" + lengths + text + zlib.adler32(text).to_bytes(4, "big")


def unpack_list(packed: bytes) -> list[Any]:
    """Returns the list that `pack_list` packed; raises StoreDamaged where there is none."""
    if not packed:
        return []
    try:
        rows = unpack(packed)
        if isinstance(rows, list):
            return rows
        trouble = "it is no list"
    except ValueError as error:
        trouble = str(error)
    raise StoreDamaged(
        f"A list in the timeline cannot be read ({trouble}). The checkpoints themselves are untouched.",
        hint="mulligan doctor",
    )


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """One saved state of the workspace. Its long lists are decoded when they are first read."""

    id: str
    name: str
    description: str
    kind: str
    created_at: datetime
    parent: str | None
    complete: bool
    commit: str
    git: GitState | None = None
    context: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    machine: str = ""
    held_by: str = ""
    state_source: Callable[[], dict[str, Any]] = field(default=dict, repr=False, compare=False)
    packed_changes: bytes = field(default=b"", repr=False, compare=False)
    #: The list of paths not captured, packed; a long one is read from the store when it is first needed.
    not_captured_source: Callable[[], bytes] = field(default=bytes, repr=False, compare=False)
    #: The secrets that it holds sealed, in their JSON form; None where it knows nothing of any.
    plain_secrets: dict[str, Any] | None = field(default=None, repr=False, compare=False)

    def __hash__(self) -> int:
        return hash((self.id, self.commit))

    def replace(self, **changes: Any) -> Checkpoint:
        """Returns a copy with some fields changed, which decodes its lists again: callers can change some of them."""
        return replace(self, **changes)

    @cached_property
    def packed_not_captured(self) -> bytes:
        """The list of paths not captured, packed."""
        return self.not_captured_source()

    @cached_property
    def secrets(self) -> Secrets | None:
        """The secrets that it holds sealed; None where it knows nothing of any."""
        if self.plain_secrets is None:
            return None
        try:
            return from_plain(self.plain_secrets)
        except (ValueError, TypeError, KeyError, UnsafePath) as error:
            raise StoreDamaged(
                f"The list of sealed files of checkpoint {self.short_id} cannot be read ({error}).",
                hint="mulligan doctor",
            ) from None

    @property
    def sealed(self) -> tuple[str, ...]:
        """The secrets that it holds sealed, sorted by path."""
        return tuple(map(to_text, sorted(self.secrets.files))) if self.plain_secrets and self.secrets else ()

    @cached_property
    def files_changed(self) -> tuple[str, ...]:
        """The files that differ from its parent (all of them, for a first checkpoint)."""
        return tuple(map(str, unpack_list(self.packed_changes)))

    def first_changed(self, most: int) -> tuple[tuple[str, ...], int]:
        """Returns the first of `files_changed`, and how many those are, without holding them all: there may be millions."""
        packed = self.packed_changes
        found = beginning(packed, most) if len(packed) > _LONG and "files_changed" not in self.__dict__ else None
        if found is None:
            return self.files_changed[:most], len(self.files_changed)
        return tuple(found[0]), found[1]

    @cached_property
    def not_captured(self) -> tuple[NotCaptured, ...]:
        """The paths that the workspace held and the checkpoint does not."""
        rows = unpack_list(self.packed_not_captured)
        try:
            return tuple(NotCaptured(*map(str, row)) for row in rows)
        except TypeError as error:
            raise StoreDamaged(
                f"What checkpoint {self.short_id} did not capture cannot be read ({error}).", hint="mulligan doctor"
            ) from None

    @cached_property
    def state(self) -> dict[str, Any]:
        """The agent state saved with the files, read from the store when first needed."""
        return self.state_source()

    @property
    def short_id(self) -> str:
        """The first eight characters of the id."""
        return self.id[:8]

    def has(self, pairs: Mapping[str, Any]) -> bool:
        """Returns whether the metadata hold these pairs."""
        return all(key in self.metadata and self.metadata[key] == value for key, value in pairs.items())

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON form."""
        return {
            "id": self.id,
            "name": self.name,
            "description": self.description,
            "kind": self.kind,
            "created_at": self.created_at.isoformat(),
            "parent": self.parent,
            "files_changed": list(self.files_changed),
            "complete": self.complete,
            "not_captured": [entry.to_dict() for entry in self.not_captured],
            "sealed": list(self.sealed),
            "git": self.git.to_dict() if self.git else None,
            "context": self.context,
            "state": self.state,
            "metadata": self.metadata,
            "commit": self.commit,
            **{name: said for name in ("machine", "held_by") if (said := getattr(self, name))},
        }


def within_bounds(clock: Callable[[], int]) -> Callable[[], int]:
    """Returns a clock that a timeline has room for: 64 bits of nanoseconds end in the year 2262."""
    return lambda: min(max(0, clock()), _LAST_MOMENT)


def moment(nanoseconds: int) -> datetime:
    """Returns an aware time from nanoseconds since the epoch."""
    seconds, rest = divmod(nanoseconds, 1_000_000_000)
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest // 1000)


def as_json_object(value: Mapping[str, Any] | None, what: str) -> dict[str, Any]:
    """Returns a plain dict that JSON can hold; raises TypeError or ValueError naming the culprit otherwise."""
    plain = dict(value or {})
    if not plain:
        return plain
    try:
        copied: dict[str, Any] = read_json(json.dumps(plain, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise type(error)(f"{what} must be JSON: {error}") from None
    return copied
