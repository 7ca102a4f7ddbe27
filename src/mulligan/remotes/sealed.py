"""
A remote that may be encrypted: its key, its members, and packs on their way out and in.

Both kinds of storage keep the same files: the remote's key wrapped for each member, and packs that are ordinary age files.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from mulligan.errors import KeyMissing, RemoteDamaged, RemoteFailed
from mulligan.model.bounded import read_json
from mulligan.model.objects import COMMIT
from mulligan.remotes.chain import Arrived
from mulligan.remotes.envelope import Envelope, Member, member_of, own_member, recipient_of
from mulligan.remotes.objects import Together, missing_below, new_objects, pack_into
from mulligan.remotes.protocol import PackNote, Segment, beginnings
from mulligan.remotes.records import ChainMark, RemoteNote
from mulligan.remotes.spool import Spool
from mulligan.store.objects import ObjectStore
from mulligan.store.verify import rebuild_index
from mulligan.timeline.secrets import Keyring

#: The members' public keys, encrypted.
MEMBERS = "keys/members"


class Sealed:
    """What both kinds of storage share; a storage says how it reads and writes the files with keys, and fetches a pack."""

    remote: RemoteNote
    spool: Spool
    _opened: Envelope | None = None
    #: The packs that could not be believed, and why.
    faults: dict[str, str]
    #: The machines whose chain could not be read and was left out, and why.
    torn: dict[str, str]
    _source: ObjectStore
    _keys: Keyring

    def key_file(self, name: str) -> bytes | None:
        """Returns one of the files with keys, None where there is none."""
        raise NotImplementedError

    def write_keys(self, changes: dict[str, bytes | None]) -> None:
        """Writes files with keys, in this order; None removes one."""
        raise NotImplementedError

    def fetch_pack(self, pack: PackNote) -> str:
        """Brings one pack into the spool, verified; returns what is wrong with it, empty if nothing is."""
        raise NotImplementedError

    def bring_packs(self, packs: list[PackNote]) -> None:
        """Brings some packs into the spool, verified."""
        raise NotImplementedError

    def receive(
        self, marks: dict[str, ChainMark], *, own: str = "", only: str = "", rows_only: bool = False
    ) -> list[Arrived]:
        """Returns the segments after those that are known, of every machine or `only` one; with `rows_only`, no contents."""
        raise NotImplementedError

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
        data = self.key_file(f"keys/{member.name}.age")
        if data is None:
            raise KeyMissing(
                f"Your key is not among those that open {self.remote.name}. Nothing was sent.",
                hint=f"Ask a member: mulligan remote member add NAME {member.recipient}",
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

    def make_keys(self) -> dict[str, bytes | None]:
        """Makes the remote's key; returns the files with keys, with this user as the only member."""
        member = self.member()
        self._opened = Envelope().renewed()
        return {
            f"keys/{member.name}.age": self._opened.wrapped(member.recipient),
            MEMBERS: self._sealed_members({member.name: member.recipient}),
        }

    def members(self) -> dict[str, str]:
        """Returns the members' public keys by their names."""
        data = self.key_file(MEMBERS)
        said = read_json(self.envelope.open(data, "The list of members")) if data else {}
        return {str(key): str(value) for key, value in said.items()}

    def add_member(self, recipient: str) -> str:
        """Lets one more key open the remote; returns the member's name."""
        recipient_of(recipient)
        members, name = self.members(), member_of(recipient)
        wrapped = self.envelope.wrapped(recipient)
        self.write_keys({f"keys/{name}.age": wrapped, MEMBERS: self._sealed_members({**members, name: recipient})})
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
        changes: dict[str, bytes | None] = {
            f"keys/{key}.age": renewed.wrapped(recipient) for key, recipient in left.items()
        }
        self.write_keys({**changes, MEMBERS: self._sealed_members(left), f"keys/{name}.age": None})
        self.remote = self.remote._replace(pins=renewed.pins)
        return name

    def _sealed_members(self, members: dict[str, str]) -> bytes:
        return self.envelope.seal(json.dumps(members, indent=1).encode())

    # -- packs ----------------------------------------------------------------------------------

    def pack_new(self, segment: Segment, base: bytes | None) -> list[tuple[bytes, PackNote]]:
        """
        Packs what the remote lacks into an empty spool; returns the name of each pack in the spool, and a note without its name.

        The newest checkpoint has packs of its own, so that a lazy clone need not fetch the others.
        """
        commits = [bytes.fromhex(told.commit) for told in segment.checkpoints]
        for commit in commits:
            self._source.read(commit, COMMIT)
        bases, packed, names = [] if base is None or segment.full else [base], set[bytes](), list[bytes]()
        for part in (commits[-1:], commits[:-1]):
            if part:
                names += pack_into(self.spool.objects, self._source, new_objects(self._source, part, bases), packed)
                bases = [*bases, *part]
        held = {pack.name: pack.index.oids() for pack in self.spool.objects.packs()}
        return [(name, PackNote("", *self.spool.digest(name), holds=beginnings(held[name]))) for name in names]

    def take_pack(self, pack: PackNote) -> str:
        """Opens and verifies a pack that came into `out`, and indexes it; returns what is wrong, empty if nothing is."""
        stem = f"pack-{pack.name}"
        try:
            if self.envelope.identities:
                self.envelope.open_file(
                    f"{self.spool.path}/out/{pack.name}",
                    f"{self.spool.path}/objects/pack/{stem}.pack",
                    f"Pack {pack.name}",
                )
                self.spool.drop_out(pack.name)
            else:
                self.spool.move_in(pack.name, f"{stem}.pack")
        except RemoteDamaged as error:
            self.spool.drop(stem)
            return error.message
        if self.spool.digest(stem.encode()) != (pack.digest, pack.size) or not rebuild_index(
            self.spool.directory, stem.encode()
        ):
            self.spool.drop(stem)
            return "its bytes are not what its segment says"
        return ""

    def take_packs(self, arrived: list[Arrived], progress: Callable[[str, int, int], None] | None) -> None:
        """Brings the packs of segments into the spool; one that is missing or wrong is left out, and its objects are missed later."""
        wanted = {pack.name: pack for _, pack in packs_of(arrived)}
        for at, pack in enumerate(wanted.values()):
            why = self.fetch_pack(pack)
            if why:
                self.faults[pack.name] = why
            if progress is not None:
                progress("receiving", at + 1, len(wanted))
        self.spool.objects.refresh()

    def fetch_needed(self, machine: str, commits: list[bytes], _near: list[bytes]) -> None:
        """Brings the packs that hold some checkpoints into the spool: as many as are needed, found by their notes."""
        self.spool.clear()
        packs = [pack for _, pack in packs_of(self.receive({}, only=machine, rows_only=True))][::-1]
        source, seen = Together(self.spool.objects, self._source), set[bytes]()
        missing = missing_below(source, [(commit, COMMIT) for commit in commits], seen)
        while missing and packs:
            wanted = {oid for oid, _ in missing}
            chosen = [pack for pack in packs if pack.may_hold(wanted)]
            if not chosen:
                return  # what is missing is noticed when the checkpoints are taken in
            packs = [pack for pack in packs if pack not in chosen]
            self.bring_packs(chosen)
            self.spool.objects.refresh()
            missing = missing_below(source, list(missing), seen)

    def read_packs(
        self, found: list[Arrived], there: set[str], part: float, bad: list[tuple[str, str]], progress: Any
    ) -> tuple[int, int]:
        """Looks for every pack that segments name, and reads a part of them; returns how many of each."""
        named = {pack.name: (machine, pack) for machine, pack in packs_of(found)}
        bad += [(machine, f"pack {name} is missing") for name, (machine, _) in named.items() if name not in there]
        chosen = [each for name, each in sorted(named.items()) if name in there]
        chosen = chosen[: max(1, round(part * len(chosen)))] if part else []
        for at, (machine, pack) in enumerate(chosen):
            if why := self.fetch_pack(pack):
                bad.append((machine, f"pack {pack.name}: {why}"))
            self.spool.drop(f"pack-{pack.name}")
            if progress is not None:
                progress("reading", at + 1, len(chosen))
        return len(named), len(chosen)


def packs_of(arrived: list[Arrived]) -> Iterator[tuple[str, PackNote]]:
    """Yields every pack that segments name, with the machine that sent it."""
    for each in arrived:
        for segment in each.segments:
            for pack in segment.packs:
                yield each.machine, pack
