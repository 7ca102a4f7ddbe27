"""
A git server that cannot read what it keeps: chains of commits whose files are encrypted.

Each push adds one commit. Its tree holds `segment.age` and those before it; its parents are the commit before and one commit for
each pack that the segment names, which holds the pack, cut into files of at most 32 MiB, because many hosts refuse larger ones. The ref `keys` beside the chains holds the remote's key, wrapped for each member.
The server sees ids of machines, sizes, times, and how many packs come at a time.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator

from mulligan.errors import RemoteDamaged, RemoteFailed
from mulligan.model.objects import BLOB, COMMIT, MODE_FILE, TREE, TreeEntry, encode_tree, parse_commit, parse_tree
from mulligan.remotes.chain import Arrived, Diverged
from mulligan.remotes.gitserver import KEYS, GitServer
from mulligan.remotes.protocol import LARGEST_SEGMENT, PackNote, Segment, digest_of
from mulligan.remotes.records import HIDDEN, ChainMark, RemoteNote
from mulligan.remotes.sealed import MEMBERS, Sealed, packs_of
from mulligan.remotes.spool import Spool
from mulligan.remotes.words import Incomplete, NotServed
from mulligan.safefs.directory import random_name
from mulligan.store.objects import ObjectStore
from mulligan.store.pack_writer import PackWriter
from mulligan.timeline.secrets import Keyring

_SEGMENT = b"segment.age"
_LARGEST_FILE = 32 << 20
#: What age adds to a file: a header, and a few bytes to each 64 KiB.
_SLACK = 65536


class SealedGitServer(Sealed, GitServer):
    """One git server, with everything encrypted."""

    _apart = (KEYS,)
    _segment_name = _SEGMENT

    def __init__(
        self, remote: RemoteNote, spool: Spool, timeline: str, progress: Callable[[str, int, int], None] | None,
        *, source: ObjectStore, keys: Keyring,
    ) -> None:  # fmt: skip
        super().__init__(remote, spool, timeline, progress)
        self._source, self._keys = source, keys
        self._key_files: dict[str, bytes] | None = None
        self._key_tip = ""
        self.sent_bytes = 0

    # -- beginning and keys -----------------------------------------------------------------------

    def begin(self) -> RemoteNote:
        """Finds out what the server allows, and makes the remote's key, or joins with the one that is there."""
        self.remote = super().begin()
        if self.key_file(MEMBERS) is None:
            try:
                self.write_keys(self.make_keys())
            except RemoteFailed:
                self._opened = self._key_files = None  # where another machine was faster, its key counts
                if self.key_file(MEMBERS) is None:
                    raise
        return self.remote._replace(pins=self.envelope.pins)

    def join(self, timeline: str) -> tuple[RemoteNote, str]:
        """Returns the remote and the timeline that it holds; raises KeyMissing where this user is no member."""
        self.remote, self.timeline = super().join(timeline)
        if not self.remote.encrypted:
            raise RemoteFailed(f"{self.remote.name} is not encrypted any more. Nothing was made.")
        return self.remote._replace(pins=self.envelope.pins), self.timeline

    def key_file(self, name: str) -> bytes | None:
        """Returns one of the files with keys, None where there is none; all of them are fetched at the first call."""
        if self._key_files is None:
            self._fetch_keys()
            self._key_tip = self.spool.chains().get(KEYS, "")
            self._key_files = self._read_keys(bytes.fromhex(self._key_tip)) if self._key_tip else {}
        return self._key_files.get(name)

    def _fetch_keys(self) -> None:
        # With a star, because that may match nothing.
        heads = [f"+{self.remote.place or HIDDEN}/{self.timeline}/{KEYS}*:refs/chains/{KEYS}*"]
        try:
            self._fetch(heads)
        except Incomplete:
            self.spool.start_over()
            self._fetch(heads)
        self.spool.objects.refresh()

    def _read_keys(self, tip: bytes) -> dict[str, bytes]:
        tree = parse_commit(self._read(tip, COMMIT, 1 << 16)).tree
        found = parse_tree(self._read(tree, TREE, 1 << 20))
        files = {f"keys/{os.fsdecode(each.name)}": self._read(each.oid, BLOB, 1 << 20) for each in found}
        if self.spool.objects.has(tip):
            self.spool.keep(tip)
        return files

    def write_keys(self, changes: dict[str, bytes | None]) -> None:
        """Writes files with keys, all in one step; raises RemoteFailed where another machine did at the same time."""
        known = {**(self._key_files or {}), **changes}
        files = {name: data for name, data in known.items() if data is not None}
        tree = self.spool.add_tree({name.removeprefix("keys/").encode(): data for name, data in files.items()})
        tip = self._commit(tree, [], "mulligan", 0)
        try:
            self._swap(self._ref(KEYS), tip, self._key_tip)
        except Diverged:
            raise RemoteFailed(
                f"Another machine changed the members of {self.remote.name} at the same time. Nothing was changed.",
                hint="Run the command again.",
            ) from None
        self._key_files, self._key_tip = files, tip.hex()

    # -- pushing --------------------------------------------------------------------------------

    def send(self, segment: Segment, base: bytes | None, before: ChainMark) -> ChainMark:
        """Adds a segment and its packs, encrypted, to this machine's chain; raises Diverged where the chain is another."""
        notes, made = list[PackNote](), list[bytes]()
        envelope = self.envelope  # first, because fetching the key may empty the spool
        self.spool.clear()  # an object that an interrupted push left here would not be packed again
        with self.spool.objects.writer() as writer:
            for stem, note in self.pack_new(segment, base):
                made.append(self._commit(self._add_pack(stem, name := random_name(20), writer), [], "mulligan", 0))
                notes.append(note._replace(name=name, commit=made[-1].hex()))
            writer.finish()
        data = segment._replace(packs=tuple(notes)).encode()
        tree = self._link(self.spool.add(BLOB, envelope.seal(data)), segment, before)
        parents = [bytes.fromhex(before.tip)] if before.tip and not segment.full else []
        tip = self._commit(tree, [*parents, *made], "mulligan", segment.at // 10**9)
        self._swap(self._ref(segment.machine), tip, before.tip)
        self.spool.set_chain(segment.machine, tip)
        self.spool.clear()
        return ChainMark(segment.number, digest_of(data), tip.hex(), segment.name, segment.applied)

    def _add_pack(self, stem: bytes, name: str, writer: PackWriter) -> bytes:
        """Adds a pack of the spool, encrypted and cut into files; returns their tree."""
        sealed = f"{self.spool.path}/out/{name}"
        self.envelope.seal_file(f"{self.spool.path}/objects/pack/{os.fsdecode(stem)}.pack", sealed)
        pieces, length = self.spool.pieces(sealed)
        self.sent_bytes += length
        entries = [
            TreeEntry(f"{name}.age.{number:04d}".encode(), MODE_FILE, writer.add(BLOB, data))
            for number, data in enumerate(_joined(pieces))
        ]
        self.spool.drop_out(name)
        return self.spool.add(TREE, encode_tree(entries))

    # -- pulling --------------------------------------------------------------------------------

    def receive(
        self, marks: dict[str, ChainMark], *, own: str = "", only: str = "", rows_only: bool = False
    ) -> list[Arrived]:
        """Fetches every chain (or `only` one), after the key, because fetching that may empty the spool."""
        _ = self.envelope
        return GitServer.receive(self, marks, own=own, only=only, rows_only=rows_only)

    def _open_segment(self, oid: bytes) -> bytes:
        return self.envelope.open(self._read(oid, BLOB, LARGEST_SEGMENT * 2), "A segment")

    def fetch_packs(self, arrived: list[Arrived]) -> None:
        """Opens the packs that came with the chains."""
        self.take_packs(arrived, self._progress)

    def bring_packs(self, packs: list[PackNote]) -> None:
        """Has git send some packs, and opens them."""
        self._fetch([pack.commit for pack in packs if pack.commit])
        self.spool.objects.refresh()
        for pack in packs:
            self.fetch_pack(pack)

    def fetch_contents(self, machine: str, commits: list[bytes], near: list[bytes]) -> None:
        """Has git send the packs that hold some checkpoints of a machine."""
        try:
            self.fetch_needed(machine, commits, near)
        except (NotServed, Incomplete):
            self.fetch_again(machine)

    def fetch_pack(self, pack: PackNote) -> str:
        """Puts one pack together from its parts, verified; returns what is wrong with it, empty if nothing is."""
        left = pack.size + pack.size // 1024 + _SLACK
        try:
            parts = self._names_in(bytes.fromhex(pack.commit))
            with self.spool.writing(pack.name) as write:
                for _, oid in sorted(parts.items()):
                    data = self._read(oid, BLOB, min(left, _LARGEST_FILE))
                    left -= len(data)
                    write(data)
        except RemoteDamaged as error:
            return error.message
        return self.take_pack(pack)

    def fetch_again(self, machine: str) -> None:
        """Has git send the whole chain of one machine, and opens its packs."""
        self.spool.start_over()
        self.fetch_packs(self.receive({}, only=machine))

    def check_packs(
        self,
        found: list[Arrived],
        part: float,
        bad: list[tuple[str, str]],
        progress: Callable[[str, int, int], None] | None,
    ) -> tuple[int, int]:
        """Looks for every pack that segments name, and opens a part of them; returns how many of each."""
        there = {pack.name for _, pack in packs_of(found) if pack.commit and self._has(bytes.fromhex(pack.commit))}
        return self.read_packs(found, there, part, bad, progress)


def _joined(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yields the same bytes in pieces of the largest size that a file may have."""
    waiting, size = list[bytes](), 0
    for piece in pieces:
        if size + len(piece) > _LARGEST_FILE:
            yield b"".join(waiting)
            waiting, size = [], 0
        waiting.append(piece)
        size += len(piece)
    yield b"".join(waiting)
