"""
What machines tell each other: segments.

A segment is what one push adds to the chain of one machine: new checkpoints, those that are gone, paths that were forgotten.
Chains are add-only and each has one writer, so they never conflict. A *full* segment stands for all before it.
Everything here is read as hostile input: sizes are bounded, names are checked, unknown formats and other timelines refused.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from bisect import bisect_left
from hashlib import sha256
from typing import Any, NamedTuple

from mulligan.errors import RemoteDamaged, UnsafePath
from mulligan.model.bounded import read_json
from mulligan.model.event import RecordedEvent
from mulligan.model.paths import parse_path, to_text
from mulligan.remotes.events import MOST_EVENTS, read_event, to_row

FORMAT = 1
#: A segment names at most so many checkpoints; a push with more makes several.
MOST_CHECKPOINTS = 1000
MOST_PACKS = 4096
LARGEST_SEGMENT = 64 << 20
LARGEST_PACK = 16 << 30
_MOST_TOLD = 20_000
_ID = r"[0-9a-f]{8,64}"
_COMMIT = r"[0-9a-f]{40}"
_DIGEST = r"[0-9a-f]{64}"
_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}"
_CHECKPOINT = r"[0-9A-Za-z_-]{4,64}"
_PACK = r"[0-9a-f]{40}"
_LAST_NUMBER = 10**15
_LONGEST_NAME = 200
#: So many bytes of each object's id say which pack may hold it.
_PREFIX = 4


class Told(NamedTuple):
    """A checkpoint that a segment adds, or whose commit was rewritten; `row` is what the log shows of it besides."""

    id: str
    commit: str
    name: str = ""
    kind: str = ""
    at: int = 0
    row: dict[str, Any] = {}  # noqa: RUF012 - never changed in place


class Forgotten(NamedTuple):
    """A path that a machine removed from all history; the id names this one removal."""

    id: str
    path: str


class PackNote(NamedTuple):
    """
    A pack of an encrypted remote or an object store: its name there, the hash of what it holds in the plain, and its size.

    `commit` is where a git server keeps it. `holds` are the beginnings of its objects' ids, sorted: a hint for readers who
    want a part of the packs.
    """

    name: str
    digest: str
    size: int
    commit: str = ""
    holds: str = ""

    def may_hold(self, oids: set[bytes]) -> bool:
        """Returns whether some of these objects may be in the pack; without a hint, any may."""
        if not self.holds:
            return True
        data = b64decode(self.holds)
        known = [data[at : at + _PREFIX] for at in range(0, len(data), _PREFIX)]
        return any(
            (at := bisect_left(known, oid[:_PREFIX])) < len(known) and known[at] == oid[:_PREFIX] for oid in oids
        )


def beginnings(oids: list[bytes]) -> str:
    """Returns the hint which objects a pack holds."""
    return b64encode(b"".join(sorted({oid[:_PREFIX] for oid in oids}))).decode("ascii")


class Segment(NamedTuple):
    """What one push adds to the chain of one machine."""

    timeline: str
    machine: str
    name: str
    number: int
    previous: str
    at: int
    full: bool = False
    checkpoints: tuple[Told, ...] = ()
    gone: tuple[str, ...] = ()
    forgets: tuple[Forgotten, ...] = ()
    applied: tuple[str, ...] = ()
    packs: tuple[PackNote, ...] = ()
    events: tuple[RecordedEvent, ...] = ()
    about: dict[str, Any] = {}  # noqa: RUF012 - never changed in place

    def encode(self) -> bytes:
        """Returns the bytes that a remote keeps."""
        plain = {"format": FORMAT, **self._asdict()}
        for key in ("checkpoints", "forgets", "packs"):
            plain[key] = [each._asdict() for each in plain[key]]
        plain["events"] = [to_row(each) for each in self.events]
        return json.dumps(plain, ensure_ascii=True, sort_keys=True, indent=1).encode("ascii") + b"\n"


def digest_of(data: bytes) -> str:
    """Returns the hash by which the next segment names this one."""
    return sha256(data).hexdigest()


def decode(data: bytes, *, timeline: str, machine: str) -> Segment:
    """Returns the segment that bytes hold; raises RemoteDamaged where they hold none of this timeline and machine."""
    try:
        if len(data) > LARGEST_SEGMENT:
            raise ValueError("it is too large")
        said = read_json(data)
        if not isinstance(said, dict):
            raise ValueError("it is no object")  # noqa: TRY004 - what a stranger sent has a wrong value
        if said.get("format") != FORMAT:
            raise RemoteDamaged(
                f"The remote has a segment of format {said.get('format')!r}; this mulligan reads format {FORMAT}.",
                hint="Upgrade: pip install -U mulligan",
            )
        if said["timeline"] != timeline:
            raise ValueError("it belongs to another timeline")
        if said["machine"] != machine:
            raise ValueError("it belongs to another machine")
        return _read(said)
    except (UnsafePath, ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise RemoteDamaged(
            f"A segment of machine {machine[:8]} on the remote cannot be believed ({error}). Nothing of it was taken.",
            hint="mulligan check --remote NAME",
        ) from None


def _read(said: dict[str, Any]) -> Segment:
    number = said["number"]
    if not isinstance(number, int) or isinstance(number, bool) or not 0 < number < _LAST_NUMBER:
        raise ValueError("its number is none")
    return Segment(
        timeline=_text(said["timeline"], _ID), machine=_text(said["machine"], _ID), name=_text(said["name"], _NAME),
        number=number, previous=_text(said["previous"], _DIGEST) if said["previous"] else "", at=int(said["at"]),
        full=said["full"] is True,
        checkpoints=tuple(_told(row) for row in _rows(said, "checkpoints", MOST_CHECKPOINTS)),
        gone=tuple(_text(each, _CHECKPOINT) for each in _rows(said, "gone")),
        forgets=tuple(_forgotten(row) for row in _rows(said, "forgets")),
        applied=tuple(_text(each, _ID) for each in _rows(said, "applied")),
        packs=tuple(_pack(row) for row in _rows(said, "packs", MOST_PACKS)),
        events=tuple(read_event(row) for row in _rows({"events": [], **said}, "events", MOST_EVENTS)),
        about=said["about"] if isinstance(said.get("about"), dict) else {},
    )  # fmt: skip


def _rows(said: dict[str, Any], key: str, most: int = _MOST_TOLD) -> list[Any]:
    rows = said[key]
    if not isinstance(rows, list) or len(rows) > most:
        raise ValueError(f"{key} is no list of at most {most}")
    return rows


def _text(value: Any, pattern: str) -> str:
    if not isinstance(value, str) or not re.fullmatch(pattern, value):
        raise ValueError(f"{str(value)[:40]!r} is no name")
    return value


def _told(row: Any) -> Told:
    name, kind, at = row.get("name", ""), row.get("kind", ""), row.get("at", 0)
    if not isinstance(name, str) or not isinstance(kind, str) or not isinstance(at, int) or len(name) > _LONGEST_NAME:
        raise ValueError("a checkpoint has no name")
    more = row.get("row", {})
    if not isinstance(more, dict):
        raise ValueError("what the log shows of a checkpoint is no object")  # noqa: TRY004 - a stranger sent it
    return Told(_text(row["id"], _CHECKPOINT), _text(row["commit"], _COMMIT), name, kind[:20], at, more)


def _forgotten(row: Any) -> Forgotten:
    path = to_text(parse_path(row["path"]))
    if not path:
        raise ValueError("a path is empty")
    return Forgotten(_text(row["id"], _ID), path)


def _pack(row: Any) -> PackNote:
    size = row["size"]
    if not isinstance(size, int) or not 0 < size <= LARGEST_PACK:
        raise ValueError("the size of a pack is none")
    commit, holds = row.get("commit", ""), _text(row.get("holds", ""), r"[A-Za-z0-9+/]*={0,2}")
    b64decode(holds, validate=True)
    return PackNote(
        _text(row["name"], _PACK), _text(row["digest"], _DIGEST), size, _text(commit, _COMMIT) if commit else "", holds
    )


def machine_name(text: str) -> str:
    """Returns a name for a machine that is allowed in references: letters, digits, dots and dashes."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", text.split(".", maxsplit=1)[0]).strip("-._")[:40]
    return name or "machine"


def is_machine_name(text: str) -> bool:
    """Returns whether a text may name a machine or a remote."""
    return re.fullmatch(_NAME, text) is not None


def is_id(text: str) -> bool:
    """Returns whether a text may be the id of a timeline or machine."""
    return re.fullmatch(_ID, text) is not None
