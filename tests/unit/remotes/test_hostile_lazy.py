"""Contents that a lazy clone fetches from an encrypted git server are believed no more than anything else that comes from there."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

import pytest

import evil_packs
import mulligan
from fleet import bare_repository, check_store, joined, machine
from mulligan.errors import RemoteFailed
from mulligan.model.objects import BLOB, MODE_FILE, TREE, TreeEntry, encode_tree
from mulligan.remotes.protocol import PackNote
from mulligan.remotes.records import RemoteRecords
from mulligan.remotes.sealed import packs_of
from mulligan.remotes.sealedgit import SealedGitServer
from tree import put

SERVED = b"1" * 1000


@pytest.fixture
def url(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return bare_repository(tmp_path / "server.git")


@pytest.fixture
def laptop(tmp_path, url):
    with machine(tmp_path, "laptop", url, encrypt=True) as ws:
        for number in range(3):
            put(Path(ws.root), f"only{number}", f"{number}" * 1000)
            ws.save(f"s{number}")
            ws.push()
        yield ws


@pytest.fixture
def desk(tmp_path, url, laptop):
    with joined(tmp_path, "desk", url, lazy=True) as ws:
        yield ws


class Member:
    """A member who puts what they like in the place of another machine's chain: the server has no key for that."""

    def __init__(self, storage: SealedGitServer, machine: str) -> None:
        self.storage, self.machine = storage, machine
        self.tip = storage.timelines()[storage.timeline][machine]
        storage.look_anew()
        arrived = storage.receive({}, only=machine)
        storage.fetch_packs(arrived)
        self.segments = arrived[0].segments
        self.packs = [pack for _, pack in packs_of(arrived)]

    def add_pack(self, data: bytes, **said) -> PackNote:
        """A pack of these bytes, encrypted as it should be; `said` is what the segment says in place of the truth."""
        tree = self.storage.spool.add_tree({b"x.age.0000": self.storage.envelope.seal(data)})
        return self.note(tree, **{"digest": sha256(data).hexdigest(), "size": len(data), **said})

    def note(self, tree: bytes, **said) -> PackNote:
        """A note of a pack whose parts are in a tree."""
        commit = self.storage._commit(tree, [], "x", 0).hex()
        return PackNote(sha256(repr(said).encode()).hexdigest()[:40], said["digest"], said["size"], commit)

    def replace(self, packs: list[PackNote], **more) -> None:
        """Makes a chain of one segment that names these packs."""
        told = {each.id: each for segment in self.segments for each in segment.checkpoints}
        last = self.segments[-1]._replace(full=True, checkpoints=tuple(told.values()), packs=tuple(packs), **more)
        self.publish(self.storage.envelope.seal(last.encode()), packs)

    def publish(self, sealed: bytes, packs: list[PackNote] = ()) -> None:
        """Puts one commit in the place of the chain."""
        commits = [commit for pack in packs if self.storage._has(commit := bytes.fromhex(pack.commit))]
        tip = self.storage._commit(
            self.storage.spool.add_tree({b"segment.age": sealed}), list(dict.fromkeys(commits)), "x", 0
        )
        self.storage._swap(self.storage._ref(self.machine), tip, self.tip)


@contextmanager
def member(ws: mulligan.Workspace):
    """The laptop's own way to its remote, in the hands of another."""
    remote = ws.remotes.find("team")
    with ws.remotes._opened(remote, "push") as (_, store, storage):
        yield Member(storage, RemoteRecords(store).machine())


def is_untouched(desk: mulligan.Workspace) -> None:
    """Nothing of what was offered is in the store, and no row changed."""
    before = {each.name for each in desk.log() if each.held_by}
    assert before == {"first of laptop", "s0", "s1"}
    with pytest.raises(RemoteFailed, match="Nothing was changed"):
        desk.cat("laptop:s1", "only1")
    with pytest.raises(RemoteFailed, match="Nothing was changed"):
        desk.restore("laptop:s1")
    assert {each.name for each in desk.log() if each.held_by} == before
    assert not (Path(desk.root) / ".git").exists()
    check_store(desk)


def swapped(evil: Member) -> None:
    commits = [pack.commit for pack in evil.packs]
    evil.replace(
        [pack._replace(commit=commit) for pack, commit in zip(evil.packs, [*commits[1:], commits[0]], strict=True)]
    )


def truncated(evil: Member) -> None:
    plain = [plain_pack(evil, pack) for pack in evil.packs]
    evil.replace([evil.add_pack(data[:-30], digest=pack.digest, size=pack.size) for data, pack in zip(plain, evil.packs, strict=True)])  # fmt: skip


def cut_short(evil: Member) -> None:
    """Encrypted bytes that end too early."""
    notes = []
    for pack in evil.packs:
        sealed = evil.storage.envelope.seal(plain_pack(evil, pack))
        notes.append(evil.note(evil.storage.spool.add_tree({b"x.age.0000": sealed[:-10]}), digest=pack.digest, size=pack.size))  # fmt: skip
    evil.replace(notes)


def larger_than_it_says(evil: Member) -> None:
    evil.replace([evil.add_pack(plain_pack(evil, pack) + b"\0" * 300_000, digest=pack.digest, size=pack.size) for pack in evil.packs])  # fmt: skip


def not_encrypted(evil: Member) -> None:
    notes = []
    for pack in evil.packs:
        tree = evil.storage.spool.add_tree({b"x.age.0000": plain_pack(evil, pack)})
        notes.append(evil.note(tree, digest=pack.digest, size=pack.size))
    evil.replace(notes)


def no_files(evil: Member) -> None:
    """Where the parts of a pack should be, there are trees."""
    inner = evil.storage.spool.add(TREE, encode_tree([]))
    tree = evil.storage.spool.add(TREE, encode_tree([TreeEntry(b"x.age.0000", MODE_FILE, inner)]))
    evil.replace([evil.note(tree, digest=pack.digest, size=pack.size) for pack in evil.packs])


def too_many_parts(evil: Member) -> None:
    blob = evil.storage.spool.add(BLOB, b"x")
    tree = evil.storage.spool.add(TREE, encode_tree([TreeEntry(b"x.age.%05d" % n, MODE_FILE, blob) for n in range(30_000)]))  # fmt: skip
    evil.replace([evil.note(tree, digest=pack.digest, size=pack.size) for pack in evil.packs])


def of_another_timeline(evil: Member) -> None:
    evil.replace(evil.packs, timeline="ab" * 16)


def of_another_machine(evil: Member) -> None:
    evil.replace(evil.packs, machine="ab" * 8)


def other_objects(evil: Member) -> None:
    """A whole pack that opens and is what its segment says, with none of the objects that are needed."""
    data, _ = evil_packs.pack([evil_packs.whole(evil_packs.BLOB, b"evil")])
    evil.replace([evil.add_pack(data)])


def a_bomb(evil: Member) -> None:
    """64 MB of zeros in one record, and a second one that claims to be larger than it is."""
    data, _ = evil_packs.pack([evil_packs.whole(evil_packs.BLOB, bytes(64 << 20)), evil_packs.whole(evil_packs.BLOB, b"x", claimed=1 << 40)])  # fmt: skip
    evil.replace([evil.add_pack(data)])


def no_commit(evil: Member) -> None:
    evil.replace([pack._replace(commit="ab" * 20) for pack in evil.packs])


def garbage(evil: Member) -> None:
    evil.publish(b"age-encryption.org/v1\n" + b"x" * 500)


def plain_pack(evil: Member, pack: PackNote) -> bytes:
    return Path(evil.storage.spool.path, "objects", "pack", f"pack-{pack.name}.pack").read_bytes()


ATTACKS = (swapped, truncated, cut_short, larger_than_it_says, not_encrypted, no_files, too_many_parts, of_another_timeline, of_another_machine, other_objects, a_bomb, no_commit, garbage)  # fmt: skip


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda each: each.__name__)
def test_contents_that_are_not_what_they_should_be_are_not_taken(laptop, desk, attack: Callable[[Member], None]):
    with member(laptop) as evil:
        attack(evil)
    is_untouched(desk)
    laptop.remotes.push("team", full=True)  # and the machine itself can put it right
    desk.pull()
    assert desk.cat("laptop:s1", "only1") == SERVED
    check_store(desk)
