"""Records of the user's packs: what is handed on, and that whatever is wrong with a pack is left alone."""

from __future__ import annotations

import hashlib
import random
import zlib
from pathlib import Path

import pytest

from adopted import new_repository
from mulligan.safefs.directory import Directory
from mulligan.usergit import records
from mulligan.usergit.records import ANY_SIZE, take_records
from tools import git


class Box:
    """Takes everything in."""

    def __init__(self) -> None:
        self.rows: dict[bytes, bytes] = {}
        self.deltas: list[tuple[bytes, bytes]] = []

    def add_record(self, oid, record, crc):
        assert zlib.crc32(record) == crc
        self.rows[oid] = record

    def add_delta(self, oid, base, size, deflated):
        self.deltas.append((oid, base))
        return True


class Packed:
    """One pack of a repository, its files made writable."""

    def __init__(self, at: Path) -> None:
        new_repository(at)
        rng = random.Random(1)
        for number in range(9):
            (at / f"file{number}").write_bytes(rng.randbytes(500 + number))
        git("add", "-A", cwd=at)
        git("commit", "-q", "-m", "a commit", cwd=at)
        git("repack", "-a", "-d", "-q", cwd=at)
        self.place = at / ".git/objects/pack"
        self.pack, self.index = next(self.place.glob("*.pack")), next(self.place.glob("*.idx"))
        for path in (self.pack, self.index):
            path.chmod(0o644)
        listed = [line.split() for line in git("verify-pack", "-v", self.index, cwd=at).splitlines()]
        self.offsets = {bytes.fromhex(row[0].decode()): int(row[4]) for row in listed if len(row) == 5}
        self.wanted = {bytes.fromhex(row[0].decode()): int(row[2]) for row in listed if row[1:2] == [b"blob"]}

    def take(self, wanted=None) -> tuple[set[bytes], Box]:
        box = Box()
        with Directory.open(str(self.place)) as directory:
            return take_records(directory, self.wanted if wanted is None else wanted, box), box

    def change(self, path: Path, at: int, data: bytes) -> None:
        held = bytearray(path.read_bytes())
        held[at : at + len(data)] = data
        path.write_bytes(held)

    def seal(self) -> None:
        """Makes the checksum of the index right again."""
        held = self.index.read_bytes()[:-20]
        self.index.write_bytes(held + hashlib.sha1(held, usedforsecurity=False).digest())


@pytest.fixture
def packed(tmp_path):
    return Packed(tmp_path / "project")


def test_wanted_records_are_handed_on_as_they_stand(packed):
    taken, box = packed.take()
    assert taken == set(packed.wanted) == set(box.rows)
    data = packed.pack.read_bytes()
    assert all(data.startswith(record, packed.offsets[oid]) for oid, record in box.rows.items())


def test_an_object_of_another_size_or_kind_is_not_handed_on(packed):
    first, second, *others = packed.wanted
    wanted = {first: packed.wanted[first] + 1, second: ANY_SIZE, **{oid: packed.wanted[oid] for oid in others}}
    assert packed.take(wanted)[0] == set(others)


def test_what_is_not_there_is_not_found(packed):
    assert packed.take({bytes(20): 3, b"\xff" * 20: ANY_SIZE})[0] == set()


def test_a_damaged_record_is_not_handed_on(packed):
    broken = next(iter(packed.wanted))
    packed.change(packed.pack, packed.offsets[broken] + 40, b"damaged")
    assert packed.take()[0] == set(packed.wanted) - {broken}


def flip(path, at):
    return lambda packed: packed.change(getattr(packed, path), at, b"\xa5\xa5")


def cut(path, size):
    def lie(packed):
        held = getattr(packed, path).read_bytes()
        getattr(packed, path).write_bytes(held[:size])

    return lie


def false_offsets(packed):
    count = int.from_bytes(packed.index.read_bytes()[1028:1032], "big")
    packed.change(packed.index, 1032 + 24 * count, b"\xff\xff\xff\xf0" * count)
    packed.seal()


def far_offsets(packed):
    count = int.from_bytes(packed.index.read_bytes()[1028:1032], "big")
    packed.change(packed.index, 1032 + 24 * count, b"\x7f\xff\xff\xf0" * count)
    packed.seal()


def one_offset(packed):
    count = int.from_bytes(packed.index.read_bytes()[1028:1032], "big")
    packed.change(packed.index, 1032 + 24 * count, b"\0\0\0\x0c" * count)
    packed.seal()


def too_many(packed):
    packed.change(packed.index, 1028, b"\xff\xff\xff\xff")
    packed.seal()


LIES = {
    "a damaged index": flip("index", 1200),
    "no index": flip("index", 0),
    "a short index": cut("index", 900),
    "an empty index": cut("index", 0),
    "more rows than there are": too_many,
    "offsets in no table": false_offsets,
    "offsets beyond the pack": far_offsets,
    "one offset for all": one_offset,
    "no pack": flip("pack", 0),
    "a pack cut short": cut("pack", 3000),
    "an empty pack": cut("pack", 0),
    "another trailer": lambda packed: packed.change(packed.pack, packed.pack.stat().st_size - 3, b"\xa5"),
}


@pytest.mark.parametrize("lie", LIES)
def test_nothing_is_taken_from_a_pack_that_lies(packed, lie):
    LIES[lie](packed)
    assert packed.take()[0] == set()


def test_a_pack_that_is_gone_is_no_error(packed):
    packed.pack.unlink()
    assert packed.take()[0] == set()


def test_a_delta_is_handed_on_if_its_base_is(tmp_path):
    at = new_repository(tmp_path / "project")
    text = b"".join(b"line %d of a long file\n" % number for number in range(300))
    for number in range(9):
        (at / f"file{number}").write_bytes(text + b"end %d\n" % number)
    git("add", "-A", cwd=at)
    git("repack", "-a", "-d", "-q", cwd=at)
    git("commit", "-q", "-m", "a commit", cwd=at)
    git("repack", "-a", "-d", "-f", "-q", cwd=at)
    place = at / ".git/objects/pack"
    rows = [line.split() for line in git("verify-pack", "-v", next(place.glob("*.idx")), cwd=at).splitlines()]
    whole = {bytes.fromhex(row[0].decode()): int(row[2]) for row in rows if len(row) == 5 and row[1] == b"blob"}
    deltas = {bytes.fromhex(row[0].decode()): len(text) + 6 for row in rows if len(row) == 7 and row[1] == b"blob"}
    assert deltas
    with Directory.open(str(place)) as directory:
        assert take_records(directory, whole | deltas, Box()) == set(whole | deltas)
        assert take_records(directory, deltas, Box()) == set()
        longer = {oid: size + 1 for oid, size in deltas.items()}
        assert take_records(directory, whole | longer, Box()) == set(whole)


def test_long_chains_of_deltas_are_cut(tmp_path, monkeypatch):
    monkeypatch.setattr(records, "_DEEPEST", 0)
    at = new_repository(tmp_path / "deep")
    text = b"".join(b"line %d of a long file\n" % number for number in range(300))
    for number in range(9):
        (at / f"file{number}").write_bytes(text + b"more\n" * number)
    git("add", "-A", cwd=at)
    git("commit", "-q", "-m", "a commit", cwd=at)
    git("repack", "-a", "-d", "-f", "-q", "--depth=20", cwd=at)
    place = at / ".git/objects/pack"
    rows = [line.split() for line in git("verify-pack", "-v", next(place.glob("*.idx")), cwd=at).splitlines()]
    depth = {bytes.fromhex(r[0].decode()): int(r[5]) if len(r) == 7 else 0 for r in rows if r[1:2] == [b"blob"]}
    sizes = {bytes.fromhex(blob(path.read_bytes())): path.stat().st_size for path in at.glob("file*")}
    assert max(depth.values()) > 0
    with Directory.open(str(place)) as directory:
        assert take_records(directory, sizes, Box()) == {oid for oid, deep in depth.items() if deep == 0}


def blob(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
