"""
Any S3-compatible object store as a remote.

Below its prefix: `mulligan.json` (which timeline, whether encrypted), `keys/` (the remote's key, wrapped for each member),
`packs/xx/NAME` (immutable) and `log/MACHINE/NUMBER` (segments, immutable). A push sends packs first and the segment last; a
reader reads segments first. Nothing is ever changed in place, so a kill leaves at most a pack that no segment names.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any, NamedTuple

from mulligan.errors import KeyMissing, RemoteDamaged, RemoteFailed
from mulligan.model.bounded import read_json
from mulligan.model.objects import COMMIT
from mulligan.remotes.chain import Arrived, Diverged, walk_chain
from mulligan.remotes.envelope import Envelope, Member, member_of, own_member, recipient_of
from mulligan.remotes.objects import new_objects, pack_into
from mulligan.remotes.protocol import FORMAT, LARGEST_SEGMENT, PackNote, Segment, digest_of, is_id
from mulligan.remotes.records import Mark, RemoteNote
from mulligan.remotes.spool import Spool
from mulligan.remotes.urls import bucket_and_prefix, shown
from mulligan.remotes.words import bucket_trouble
from mulligan.safefs.directory import random_name
from mulligan.store.objects import ObjectStore
from mulligan.store.verify import rebuild_index
from mulligan.timeline.secrets import Keyring

ABOUT, MEMBERS = "mulligan.json", "keys/members"
#: What a server was seen to do: refuse to create twice, show what was just written, delete.
CREATES, LISTS, DELETES = "create", "list", "delete"
_SMALL = 32 << 20
_PIECE = 8 << 20
# Seconds in which an interrupted push may go on with the packs that it sent: the collection leaves them alone for a day.
_YOUNG = 6 * 3600
_MOST_KEYS = 10_000_000


class Found(NamedTuple):
    """One object of the store: its key below the prefix, its size and the server's time."""

    key: str
    size: int
    at: float


class Objects:
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
            if "NoSuchBucket" in str(error):
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

    def listed(self, prefix: str, after: str = "") -> list[Found]:
        """Returns the objects below a prefix, sorted by key."""
        self.requests += 1
        found: list[Found] = []
        try:
            for page in self._api.list(self._store, prefix, offset=after or None):
                found += [Found(str(row["path"]), int(row["size"]), row["last_modified"].timestamp()) for row in page]
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


class Bucket:
    """One prefix of an object store, for one timeline."""

    def __init__(
        self, remote: RemoteNote, spool: Spool, timeline: str, progress: Callable[[str, int, int], None] | None,
        *, source: ObjectStore, keys: Keyring, records: Any,
    ) -> None:  # fmt: skip
        self.remote, self.spool, self.timeline = remote, spool, timeline
        self.objects = Objects(remote)
        self._progress, self._source, self._keys, self._records = progress, source, keys, records
        self._opened: Envelope | None = None
        self.sent_bytes = 0

    # -- keys -----------------------------------------------------------------------------------

    def member(self) -> Member:
        """Returns who this user is for the remote."""
        return own_member(self._keys, self.remote.identity)

    @property
    def envelope(self) -> Envelope:
        """The remote's key; read anew once per command, so that a removed member notices."""
        if self._opened is None:
            self._opened = self._unwrap() if self.remote.encrypted else Envelope()
        return self._opened

    def _unwrap(self) -> Envelope:
        member = self.member()
        data = self.objects.get(f"keys/{member.name}.age", 1 << 20)
        if data is None:
            raise KeyMissing(
                f"Your key is not among those that open {self.remote.name}. Nothing was sent.",
                hint=f"Ask a member: mulligan remote member add {self.remote.name} {member.recipient}",
            )
        found = member.unwrap(data)
        # A storage could offer a key of its own, and read all that is sent: it does not know the one that was used first.
        if not set(self.remote.pins) <= set(found.pins):
            raise RemoteDamaged(
                f"{self.remote.name} offers another key than before. Nothing was sent.",
                hint="If the remote was made anew: mulligan remote rm, then add it again.",
            )
        self.remote = self.remote._replace(pins=found.pins)
        return found

    def members(self) -> dict[str, str]:
        """Returns the members' public keys by their names."""
        data = self.objects.get(MEMBERS, 1 << 20)
        said = read_json(self.envelope.open(data, "The list of members")) if data else {}
        return {str(key): str(value) for key, value in said.items()}

    def add_member(self, recipient: str) -> str:
        """Lets one more key open the remote; returns the member's name."""
        recipient_of(recipient)
        members, name = self.members(), member_of(recipient)
        self.objects.put(f"keys/{name}.age", self.envelope.wrapped(recipient))
        self._write_members({**members, name: recipient})
        return name

    def remove_member(self, which: str) -> str:
        """Takes a member's copy of the key away and changes the key: what is sent from now on is closed to them."""
        members = self.members()
        name = which if which in members else member_of(which)
        if name not in members or len(members) == 1:
            raise RemoteFailed(
                f"{which} is not a member, or the last one. Nothing was changed.",
                hint=f"mulligan remote member list {self.remote.name}",
            )
        left = {key: value for key, value in members.items() if key != name}
        self._opened = renewed = self.envelope.renewed()
        for key, recipient in left.items():
            self.objects.put(f"keys/{key}.age", renewed.wrapped(recipient))
        self._write_members(left)
        self.objects.delete([f"keys/{name}.age"])
        self.remote = self.remote._replace(pins=renewed.pins)
        return name

    def _write_members(self, members: dict[str, str]) -> None:
        self.objects.put(MEMBERS, self.envelope.seal(json.dumps(members, indent=1).encode()))

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
            member = self.member()
            self._opened = Envelope().renewed()
            self.objects.put(f"keys/{member.name}.age", self._opened.wrapped(member.recipient))
            self._write_members({member.name: member.recipient})
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
        if not self.objects.create(key, b"1"):
            raise RemoteFailed(f"{shown(self.remote.url)} refuses new objects. Nothing was changed.")
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

    def send(self, segment: Segment, base: bytes | None, before: Mark) -> Mark:
        """Sends packs, then the segment that names them; raises Diverged where that segment is there already."""
        self._refuse_crowd(segment.machine)
        key = _key(segment.machine, before.number + 1)
        packs = self._send_packs(segment, None if segment.full else base)
        segment = segment._replace(number=before.number + 1, packs=packs)
        data = segment.encode()
        if CREATES not in self.remote.able and self.objects.get(key, LARGEST_SEGMENT * 2) is not None:
            raise Diverged
        if not self.objects.create(key, self.envelope.seal(data)):
            raise Diverged
        return Mark(segment.number, digest_of(data), "", segment.name, segment.applied)

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
        commits = [bytes.fromhex(told.commit) for told in segment.checkpoints]
        for commit in commits:
            self._source.read(commit, COMMIT)
        wanted = new_objects(self._source, commits, [base] if base is not None else [])
        names = pack_into(self.spool.objects, self._source, wanted)
        sent, notes = self._records.sent(), []
        for at, name in enumerate(names):
            path = f"{self.spool.path}/objects/pack/{os.fsdecode(name)}.pack"
            digest, size = self.spool.digest(name)
            if digest not in sent or not self._is_there(*sent[digest]):
                sent[digest] = [self._send_pack(path, digest), size, int(time.time())]
                self._records.note_sent(sent)
            notes.append(PackNote(sent[digest][0], digest, size))
            if self._progress is not None:
                self._progress("sending", at + 1, len(names))
        self.spool.clear()
        return tuple(notes)

    def _is_there(self, name: str, _size: int, at: int) -> bool:
        """Returns whether a pack that an interrupted push sent can be named: it is there, and too young to be collected."""
        key = f"packs/{name[:2]}/{name}"
        return 0 <= time.time() - at < _YOUNG and any(
            row.key == key for row in self.objects.listed(f"packs/{name[:2]}/")
        )

    def _send_pack(self, path: str, digest: str) -> str:
        name = random_name(20) if self.envelope.identities else digest[:40]
        source = path
        if self.envelope.identities:
            source = f"{self.spool.path}/out/{name}"
            self.envelope.seal_file(path, source)
        pieces, size = self.spool.pieces(source)
        self.sent_bytes += size
        key = f"packs/{name[:2]}/{name}"
        if size <= _SMALL:
            self.objects.create(key, b"".join(pieces))
        else:
            self.objects.put(key, pieces)
        return name

    # -- pulling --------------------------------------------------------------------------------

    def receive(self, marks: dict[str, Mark], *, own: str = "", only: str = "") -> list[Arrived]:
        """Returns the segments after those that are known, of every machine or `only` one."""
        machines = [only] if only else [each for each in self.machines() if each != own]
        found = []
        for machine in sorted(machines):
            mark = marks.get(machine, Mark())
            numbers = self.numbers(machine, mark.number)
            if numbers:
                found.append(walk_chain(self.remote.name, self.timeline, machine, mark, numbers, self._segment))
        return found

    def look_anew(self) -> None:
        """Has nothing to prepare: segments can be read again at any time."""

    def machines(self) -> list[str]:
        """Returns the machines that have a chain here."""
        return sorted(each for each in self.objects.below("log/") if is_id(each))

    def check_packs(
        self,
        found: list[Arrived],
        part: float,
        bad: list[tuple[str, str]],
        progress: Callable[[str, int, int], None] | None,
    ) -> tuple[int, int]:
        """Looks for every pack that segments name, and reads a part of them; returns how many of each."""
        there = {row.key.rpartition("/")[2] for row in self.objects.listed("packs/")}
        named = {
            pack.name: (each.machine, pack) for each in found for segment in each.segments for pack in segment.packs
        }
        bad += [(machine, f"pack {name} is missing") for name, (machine, _) in named.items() if name not in there]
        chosen = [each for name, each in sorted(named.items()) if name in there]
        chosen = chosen[: max(1, round(part * len(chosen)))] if part else []
        for at, (machine, pack) in enumerate(chosen):
            if why := self.fetch_pack(pack):
                bad.append((machine, f"pack {pack.name}: {why}"))
            self.spool.clear()
            if progress is not None:
                progress("reading", at + 1, len(chosen))
        return len(named), len(chosen)

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
        """Brings the packs of segments into the spool; one that is missing or wrong is left out, and its objects are missed later."""
        self.spool.clear()
        wanted = {pack.name: pack for each in arrived for segment in each.segments for pack in segment.packs}
        for at, pack in enumerate(wanted.values()):
            self.fetch_pack(pack)
            if self._progress is not None:
                self._progress("receiving", at + 1, len(wanted))
        self.spool.objects.refresh()

    def fetch_pack(self, pack: PackNote) -> str:
        """Brings one pack into the spool, verified; returns what is wrong with it, empty if nothing is."""
        out, stem = f"{self.spool.path}/out/{pack.name}", f"pack-{pack.name}"
        with self.spool.writing(pack.name) as write:
            size = self.objects.download(
                f"packs/{pack.name[:2]}/{pack.name}", write, pack.size + pack.size // 1024 + 65536
            )
        if size < 0:
            return "it is missing"
        target = f"{self.spool.path}/objects/pack/{stem}.pack"
        try:
            if self.envelope.identities:
                self.envelope.open_file(out, target, f"Pack {pack.name}")
            else:
                self.spool.move_in(pack.name, f"{stem}.pack")
        except RemoteDamaged as error:
            self.spool.drop(f"{stem}.pack")
            return error.message
        if self.spool.digest(stem.encode()) != (pack.digest, pack.size) or not rebuild_index(
            self.spool.directory, stem.encode()
        ):
            self.spool.drop(f"{stem}.pack")
            return "its bytes are not what its segment says"
        return ""

    def settled(self, _marks: dict[str, Mark]) -> None:
        """Drops what was fetched."""
        self.spool.clear()


def _key(machine: str, number: int) -> str:
    return f"log/{machine}/{number:020d}"
