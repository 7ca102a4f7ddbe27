"""
Any S3-compatible object store as a remote.

Below its prefix: `mulligan.json` (which timeline, whether encrypted), `keys/` (the remote's key, wrapped for each member),
`packs/xx/NAME` (immutable) and `log/MACHINE/NUMBER` (segments, immutable). A push sends packs first and the segment last; a
reader reads segments first. Nothing is ever changed in place, so a kill leaves at most a pack that no segment names.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from hashlib import sha256
from typing import Any, NamedTuple

from mulligan.errors import RemoteDamaged, RemoteFailed
from mulligan.model.bounded import read_json
from mulligan.remotes.chain import Arrived, Diverged, walk_chain
from mulligan.remotes.protocol import FORMAT, LARGEST_SEGMENT, PackNote, Segment, digest_of, is_id
from mulligan.remotes.records import ChainMark, RemoteNote
from mulligan.remotes.sealed import Sealed
from mulligan.remotes.spool import Spool
from mulligan.remotes.urls import bucket_and_prefix, shown
from mulligan.remotes.words import bucket_trouble, code_of
from mulligan.safefs.directory import random_name
from mulligan.store.objects import ObjectStore
from mulligan.timeline.secrets import Keyring

ABOUT = "mulligan.json"
#: What a server was seen to do: refuse to create twice, show what was just written, delete.
CREATES, LISTS, DELETES = "create", "list", "delete"
_SMALL = 32 << 20
_PIECE = 8 << 20
# Seconds in which an interrupted push may go on with the packs that it sent: the collection leaves them alone for a day.
_YOUNG = 6 * 3600
_MOST_KEYS = 10_000_000


class FoundObject(NamedTuple):
    """One object of the store: its key below the prefix, its size and the server's time."""

    key: str
    size: int
    at: float


class BucketObjects:
    """The objects below one prefix, with errors in plain words."""

    def __init__(self, remote: RemoteNote) -> None:
        try:
            import obstore
            from obstore.store import S3Store
        except ImportError as error:
            raise RemoteFailed(
                f"Object stores need the library obstore, which cannot be loaded ({error}). Nothing was sent.",
                hint="pip install 'mulligan[remotes]'",
            ) from None
        self._api: Any = obstore
        self.remote = remote
        self.requests = 0
        bucket, prefix = bucket_and_prefix(remote.url)
        try:
            self._store = S3Store(
                bucket, prefix=prefix or None, client_options={"allow_http": True, "timeout": "300s", "connect_timeout": "10s"},
                retry_config={"max_retries": 3, "retry_timeout": timedelta(seconds=20)},
            )  # fmt: skip
        except obstore.exceptions.BaseError as error:
            raise bucket_trouble(remote, error) from None

    def _call(self, what: str, *args: Any, **more: Any) -> Any:
        self.requests += 1
        try:
            return getattr(self._api, what)(self._store, *args, **more)
        except (self._api.exceptions.BaseError, OSError, ValueError) as error:
            raise bucket_trouble(self.remote, error) from None

    def create(self, key: str, data: Any) -> bool:
        """Writes a new object; returns False, with nothing changed, where there is one already."""
        self.requests += 1
        try:
            self._api.put(self._store, key, data, mode="create")
        except (self._api.exceptions.AlreadyExistsError, self._api.exceptions.PreconditionError, FileExistsError):
            return False
        except (self._api.exceptions.BaseError, OSError, ValueError) as error:
            raise bucket_trouble(self.remote, error) from None
        return True

    def put(self, key: str, data: Any) -> None:
        """Writes an object, over one that is there."""
        self._call("put", key, data)

    def get(self, key: str, most: int) -> bytes | None:
        """Returns an object's bytes, None where there is none; raises RemoteDamaged for one that is too large."""
        self.requests += 1
        try:
            found = self._api.get(self._store, key)
            if found.meta["size"] > most:
                raise RemoteDamaged(f"{key} at {shown(self.remote.url)} is too large to be what it should be.")
            return bytes(found.bytes())
        except (self._api.exceptions.NotFoundError, FileNotFoundError) as error:
            if code_of(error) == "NoSuchBucket":
                raise bucket_trouble(self.remote, error) from None
            return None
        except (self._api.exceptions.BaseError, OSError, ValueError) as error:
            raise bucket_trouble(self.remote, error) from None

    def download(self, key: str, write: Callable[[bytes], None], most: int) -> int:
        """Hands an object on piece by piece; returns its size, -1 where there is none."""
        self.requests += 1
        try:
            total = 0
            for piece in self._api.get(self._store, key).stream(min_chunk_size=_PIECE):
                total += len(piece)
                if total > most:
                    raise RemoteDamaged(f"{key} at {shown(self.remote.url)} is larger than its segment says.")
                write(bytes(piece))
            return total
        except (self._api.exceptions.NotFoundError, FileNotFoundError):
            return -1
        except (self._api.exceptions.BaseError, OSError, ValueError) as error:
            raise bucket_trouble(self.remote, error) from None

    def listed(self, prefix: str, after: str = "") -> list[FoundObject]:
        """Returns the objects below a prefix, sorted by key."""
        self.requests += 1
        found: list[FoundObject] = []
        try:
            for page in self._api.list(self._store, prefix, offset=after or None):
                found += [
                    FoundObject(str(row["path"]), int(row["size"]), row["last_modified"].timestamp()) for row in page
                ]
                if len(found) > _MOST_KEYS:
                    raise RemoteDamaged(f"There are too many objects below {prefix} at {shown(self.remote.url)}.")
        except (self._api.exceptions.BaseError, OSError, ValueError) as error:
            raise bucket_trouble(self.remote, error) from None
        return sorted(row for row in found if row.key > after)

    def below(self, prefix: str) -> list[str]:
        """Returns the names directly below a prefix that hold objects."""
        rows = self._call("list_with_delimiter", prefix)["common_prefixes"]
        return [str(row).rstrip("/").rpartition("/")[2] for row in rows]

    def delete(self, keys: list[str]) -> None:
        """Removes objects."""
        if keys:
            self._call("delete", keys)


class Bucket(Sealed):
    """One prefix of an object store, for one timeline."""

    def __init__(
        self, remote: RemoteNote, spool: Spool, timeline: str, progress: Callable[[str, int, int], None] | None,
        *, source: ObjectStore, keys: Keyring, records: Any,
    ) -> None:  # fmt: skip
        self.remote, self.spool, self.timeline = remote, spool, timeline
        self.objects = BucketObjects(remote)
        self._progress, self._source, self._keys, self._records = progress, source, keys, records
        self.sent_bytes = 0
        self.faults, self.torn = {}, {}

    # -- keys -----------------------------------------------------------------------------------

    def key_file(self, name: str) -> bytes | None:
        """Returns one of the files with keys, None where there is none."""
        return self.objects.get(name, 1 << 20)

    def write_keys(self, changes: dict[str, bytes | None]) -> None:
        """Writes files with keys, in this order; None removes one."""
        for name, data in changes.items():
            if data is None:
                self.objects.delete([name])
            else:
                self.objects.put(name, data)

    # -- beginning ------------------------------------------------------------------------------

    def begin(self) -> RemoteNote:
        """Tries what the server does, and makes a remote there, or joins the one that is there."""
        able = self._probe()
        self.remote = self.remote._replace(able=able)
        said = self._about()
        if said is None:
            self._make()
            said = self._about() or {}
        if said.get("timeline") != self.timeline:
            raise RemoteFailed(
                f"{shown(self.remote.url)} holds another timeline. Nothing was changed.",
                hint="Use another prefix: s3://BUCKET/PREFIX; or pick that timeline up: mulligan clone URL DIR",
            )
        if said.get("encrypted") is not self.remote.encrypted:
            how = "encrypted" if said.get("encrypted") else "not encrypted"
            raise RemoteFailed(f"{shown(self.remote.url)} is {how}. Nothing was changed.", hint="--encrypt or --plain")
        return self._joined()

    def _joined(self) -> RemoteNote:
        envelope = self.envelope
        return self.remote._replace(pins=envelope.pins)

    def _make(self) -> None:
        """Makes the remote: keys first, then the file that says what it is."""
        if self.remote.encrypted:
            self.write_keys(self.make_keys())
        about = {"format": FORMAT, "timeline": self.timeline, "encrypted": self.remote.encrypted, "gc": 1}
        if not self.objects.create(ABOUT, json.dumps(about, indent=1).encode()):
            self._opened = None  # another machine was faster: its key counts

    def _about(self) -> dict[str, Any] | None:
        data = self.objects.get(ABOUT, 1 << 16)
        if data is None:
            return None
        try:
            said = read_json(data)
            if not isinstance(said, dict) or not is_id(str(said.get("timeline"))):
                raise ValueError("it names no timeline")
        except ValueError as error:
            raise RemoteDamaged(f"{ABOUT} at {shown(self.remote.url)} cannot be read ({error}).") from None
        if said.get("format") != FORMAT:
            raise RemoteFailed(
                f"{shown(self.remote.url)} has format {said.get('format')!r}; this mulligan reads {FORMAT}.",
                hint="Upgrade: pip install -U mulligan",
            )
        return said

    def join(self, timeline: str) -> tuple[RemoteNote, str]:
        """Returns the remote and the timeline that it holds; raises RemoteFailed where there is none."""
        said = self._about()
        if said is None or not str(said["timeline"]).startswith(timeline):
            raise RemoteFailed(
                f"There is no timeline {timeline} at {shown(self.remote.url)}. Nothing was made.", hint="mulligan push"
            )
        if self.remote.identity and not said["encrypted"]:
            raise RemoteFailed(f"{shown(self.remote.url)} is not encrypted, and you named a key. Nothing was made.")
        self.timeline = str(said["timeline"])
        self.remote = self.remote._replace(encrypted=said["encrypted"] is True, able=self._probe())
        return self._joined(), self.timeline

    def _probe(self) -> tuple[str, ...]:
        """Returns what the server was seen to do."""
        key, able = f"probe/{random_name(8)}", []
        self.objects.put(key, b"1")  # not `create`: where its answer is lost, the second try is refused
        if not self.objects.create(key, b"2"):
            able.append(CREATES)
        if key in {row.key for row in self.objects.listed("probe/")}:
            able.append(LISTS)
        try:
            self.objects.delete([key])
        except RemoteFailed:
            return tuple(able)
        return (*able, DELETES)

    # -- pushing --------------------------------------------------------------------------------

    def send(self, segment: Segment, base: bytes | None, before: ChainMark) -> ChainMark:
        """Sends packs, then the segment that names them; raises Diverged where that segment is there already."""
        self._refuse_crowd(segment.machine)
        key = _key(segment.machine, before.number + 1)
        packs = self._send_packs(segment, base)
        segment = segment._replace(number=before.number + 1, packs=packs)
        data = segment.encode()
        if CREATES not in self.remote.able and self.objects.get(key, LARGEST_SEGMENT * 2) is not None:
            raise Diverged
        sealed = self.envelope.seal(data)
        if not self.objects.create(key, sealed) and not self._completed(key, sealed):
            raise Diverged
        return ChainMark(segment.number, digest_of(data), "", segment.name, segment.applied)

    def _completed(self, key: str, data: bytes) -> bool:
        """Returns whether an object that is there already is ours, from a try whose connection was cut; completes it."""
        there = self.objects.get(key, LARGEST_SEGMENT * 2) or b""
        if there != data and data.startswith(there):
            self.objects.put(key, data)  # a server that keeps the first half of what it was sent
        return data.startswith(there)

    def _refuse_crowd(self, machine: str) -> None:
        if CREATES in self.remote.able:
            return
        others = [each for each in self.objects.below("log/") if each != machine]
        if others:
            raise RemoteFailed(
                f"{self.remote.name} overwrites objects without a word, so only one machine may push there, and another does. Nothing was sent.",
                hint="Use a server that knows If-None-Match, or another prefix for this machine.",
            )

    def _send_packs(self, segment: Segment, base: bytes | None) -> tuple[PackNote, ...]:
        """Packs what the remote lacks, encrypts and sends it; what an interrupted push sent already is not sent again."""
        self.spool.clear()
        packed = self.pack_new(segment, base)
        sent, notes = self._records.sent(), []
        for at, (name, note) in enumerate(packed):
            path = f"{self.spool.path}/objects/pack/{os.fsdecode(name)}.pack"
            key = self._content(name)
            if key not in sent or not self._is_there(sent[key][0]):
                sent[key] = [self._send_pack(path), note.digest, note.size]
                self._records.note_sent(sent)
            there, digest, size = sent[key]
            notes.append(note._replace(name=there, digest=digest, size=size))
            if self._progress is not None:
                self._progress("sending", at + 1, len(packed))
        self.spool.clear()
        return tuple(notes)

    def _content(self, stem: bytes) -> str:
        """Returns what names the objects in a pack; they may be compressed in another way the next time."""
        oids = next(pack.index.oids() for pack in self.spool.objects.packs() if pack.name == stem)
        return sha256(b"".join(sorted(oids))).hexdigest()

    def _is_there(self, name: str) -> bool:
        """Returns whether a pack that an interrupted push sent can be named: it is there, and too young to be collected."""
        found = [row for row in self.objects.listed(f"packs/{name[:2]}/") if row.key == f"packs/{name[:2]}/{name}"]
        return bool(found) and 0 <= self.clock() - found[0].at < _YOUNG

    def clock(self) -> float:
        """Returns the server's time, by which all ages are reckoned: this machine's clock may be wrong."""
        probe = f"probe/{random_name(8)}"
        self.objects.put(probe, b"1")
        now = next((row.at for row in self.objects.listed("probe/") if row.key == probe), 0.0)
        if DELETES in self.remote.able:
            self.objects.delete([probe])
        return now

    def _send_pack(self, path: str) -> str:
        # A name of its own each time: one by its content could be that of a pack that is about to be collected.
        name = random_name(20)
        source = path
        if self.envelope.identities:
            source = f"{self.spool.path}/out/{name}"
            self.envelope.seal_file(path, source)
        pieces, size = self.spool.pieces(source)
        self.sent_bytes += size
        key = f"packs/{name[:2]}/{name}"
        # Not `create`: some servers keep the first half of what was cut, and would refuse the whole. The name is this pack's own.
        self.objects.put(key, b"".join(pieces) if size <= _SMALL else pieces)
        return name

    # -- pulling --------------------------------------------------------------------------------

    def receive(
        self,
        marks: dict[str, ChainMark],
        *,
        own: str = "",
        only: str = "",
        rows_only: bool = False,  # noqa: ARG002 - as in the others
    ) -> list[Arrived]:
        """Returns the segments after those that are known, of every machine or `only` one; contents are apart from them anyway."""
        machines = [only] if only else [each for each in self.machines() if each != own]
        found = []
        for machine in sorted(machines):
            mark = marks.get(machine, ChainMark())
            numbers = self.numbers(machine, mark.number)
            try:
                found += [self._walk(machine, mark, numbers)] if numbers else []
            except RemoteDamaged as error:
                if only:
                    raise
                self.torn[machine] = error.message
        return found

    def _walk(self, machine: str, mark: ChainMark, numbers: list[int]) -> Arrived:
        """Reads a chain; in a lazy clone, which reads it again for each fetch, all but its end from what is kept here."""
        if self.remote.lazy:
            try:
                return walk_chain(
                    self.remote.name, self.timeline, machine, mark, numbers, partial(self._kept, max(numbers))
                )
            except RemoteDamaged:
                self.spool.drop_segments()  # the chain may have begun anew
        return walk_chain(self.remote.name, self.timeline, machine, mark, numbers, self._segment)

    def _kept(self, newest: int, machine: str, number: int) -> bytes:
        data = self.spool.segment(f"{machine}-{number}") if number != newest else None
        if data is None:
            data = self._segment(machine, number)
            self.spool.keep_segment(f"{machine}-{number}", data)
        return data

    def look_anew(self) -> None:
        """Has nothing to prepare: segments can be read again at any time."""

    def machines(self) -> list[str]:
        """Returns the machines that have a chain here."""
        return sorted(each for each in self.objects.below("log/") if is_id(each))

    def end_of(self, machine: str, known: ChainMark) -> ChainMark:
        """Returns where a chain ends that cannot be read."""
        return ChainMark(max([known.number, *self.numbers(machine)]))

    def check_packs(
        self,
        found: list[Arrived],
        part: float,
        bad: list[tuple[str, str]],
        progress: Callable[[str, int, int], None] | None,
    ) -> tuple[int, int]:
        """Looks for every pack that segments name, and reads a part of them; returns how many of each."""
        there = {row.key.rpartition("/")[2] for row in self.objects.listed("packs/")}
        return self.read_packs(found, there, part, bad, progress)

    def numbers(self, machine: str, after: int = 0) -> list[int]:
        """Returns the numbers of a machine's segments after one."""
        rows = self.objects.listed(f"log/{machine}/", _key(machine, after) if after else "")
        return [int(name) for row in rows if (name := row.key.rpartition("/")[2]).isdigit() and len(name) == 20]

    def _segment(self, machine: str, number: int) -> bytes:
        data = self.objects.get(_key(machine, number), LARGEST_SEGMENT * 2)
        if data is None:
            raise RemoteDamaged(
                f"Segment {number} of {machine[:8]} on {self.remote.name} is missing. Nothing of it was taken."
            )
        return self.envelope.open(data, f"Segment {number} of {machine[:8]}")

    def fetch_again(self, machine: str) -> None:
        """Brings every pack of one machine's chain into the spool."""
        self.fetch_packs(self.receive({}, only=machine))

    def fetch_packs(self, arrived: list[Arrived]) -> None:
        """Brings the packs of segments into the spool."""
        self.spool.clear()
        self.take_packs(arrived, self._progress)

    def bring_packs(self, packs: list[PackNote]) -> None:
        """Brings some packs into the spool, verified."""
        for at, pack in enumerate(packs):
            self.fetch_pack(pack)
            if self._progress is not None:
                self._progress("receiving", at + 1, len(packs))

    def fetch_contents(self, machine: str, commits: list[bytes], near: list[bytes]) -> None:
        """Brings the packs that hold some checkpoints of a machine into the spool."""
        self.fetch_needed(machine, commits, near)

    def fetch_pack(self, pack: PackNote) -> str:
        """Brings one pack into the spool, verified; returns what is wrong with it, empty if nothing is."""
        with self.spool.writing(pack.name) as write:
            size = self.objects.download(
                f"packs/{pack.name[:2]}/{pack.name}", write, pack.size + pack.size // 1024 + 65536
            )
        return "it is missing" if size < 0 else self.take_pack(pack)

    def settled(self, _marks: dict[str, ChainMark]) -> None:
        """Drops what was fetched."""
        self.spool.clear()


def _key(machine: str, number: int) -> str:
    return f"log/{machine}/{number:020d}"
