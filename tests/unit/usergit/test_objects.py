"""Objects, loose and packed, from stores that may be damaged or hostile."""

from __future__ import annotations

import hashlib
import random
import struct
import zlib
from pathlib import Path

import pytest

from mulligan.gitformat.delta import apply_delta
from mulligan.gitformat.record import DamagedRecord, inflate
from mulligan.usergit import objects as module
from mulligan.usergit.objects import UserObjects, canonical, parse_tree
from tools import git, sweep

OID = bytes(range(20))


def store(path: Path) -> UserObjects:
    return UserObjects(bytes(path))


def loose(root: Path, kind: bytes, data: bytes, oid: bytes | None = None) -> bytes:
    whole = b"%s %d\0" % (kind, len(data)) + data
    oid = oid or hashlib.sha1(whole).digest()
    path = root / oid.hex()[:2] / oid.hex()[2:]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(zlib.compress(whole))
    return oid


def packed(root: Path, entries: dict[bytes, bytes], *, fan: int | None = None) -> None:
    """Writes a pack from raw entries, without any checksum."""
    (root / "pack").mkdir(parents=True, exist_ok=True)
    data, offsets = b"PACK" + struct.pack(">II", 2, len(entries)), {}
    for oid, raw in entries.items():
        offsets[oid] = len(data)
        data += raw
    oids = sorted(entries)
    table = [sum(oid[0] <= first for oid in oids) if fan is None else fan for first in range(256)]
    index = b"\xfftOc\0\0\0\x02" + struct.pack(">256I", *table) + b"".join(oids) + bytes(4 * len(oids))
    index += b"".join(struct.pack(">I", offsets[oid]) for oid in oids)
    (root / "pack" / "pack-x.pack").write_bytes(data + bytes(20))
    (root / "pack" / "pack-x.idx").write_bytes(index + bytes(40))


def raw_entry(kind: int, data: bytes, *, size: int | None = None, base: bytes = b"") -> bytes:
    size = len(data) if size is None else size
    head, rest = [kind << 4 | size & 15], size >> 4
    while rest:
        head[-1] |= 0x80
        head.append(rest & 0x7F)
        rest >>= 7
    return bytes(head) + base + zlib.compress(data)


def test_trees_of_users_may_hold_what_ours_never_do() -> None:
    """Submodules and old modes are understood; names that are none, and bytes that are no tree, are not."""
    data = b"".join(b"%s %s\0" % row + OID for row in ((b"100664", b"old"), (b"160000", b"sub"), (b"40000", b"dir")))
    assert parse_tree(data) == [(b"old", 0o100644, OID), (b"sub", 0o160000, OID), (b"dir", 0o040000, OID)]
    for bad in (
        b"100644 x",
        b"100644 \0" + OID,
        b"100644 a/b\0" + OID,
        b"9 x\0" + OID,
        b"x\0" + OID,
        b"100644 x\0" + OID[1:],
    ):
        assert parse_tree(bad) is None
    assert [canonical(mode) for mode in (0o100600, 0o100775, 0o120777, 0o40755)] == [
        0o100644,
        0o100755,
        0o120000,
        0o40000,
    ]


def test_loose_objects(tmp_path: Path) -> None:
    """A commit leads to its tree; anything else to None."""
    tree = loose(tmp_path, b"tree", b"100644 x\0" + OID)
    commit = loose(tmp_path, b"commit", b"tree %s\nauthor x\n\nmessage" % tree.hex().encode())
    bad = [loose(tmp_path, b"commit", text) for text in (b"", b"tree zz", b"tree " + b"z" * 40 + b"\n", b"parent x\n")]
    with store(tmp_path) as objects:
        assert objects.read_commit_tree(commit) == tree
        assert objects.read_tree(tree) == [(b"x", 0o100644, OID)]
        assert [objects.read_commit_tree(oid) for oid in (*bad, tree, OID)] == [None] * 6
        assert objects.read_tree(commit) is None
        assert objects.read(b"short") is None


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"junk",
        zlib.compress(b"tree 5"),
        zlib.compress(b"tree 9\0x"),
        zlib.compress(b"tree -1\0"),
        zlib.compress(b"tree 1\0x")[:-3],
    ],
)
def test_broken_loose_objects_are_none(tmp_path: Path, content: bytes) -> None:
    """Not deflated, cut short, a wrong size."""
    oid = loose(tmp_path, b"tree", b"")
    (tmp_path / oid.hex()[:2] / oid.hex()[2:]).write_bytes(content)
    with store(tmp_path) as objects:
        assert objects.read(oid) is None


def test_a_deflate_bomb_is_refused() -> None:
    """Only as much is inflated as is allowed."""
    with pytest.raises(DamagedRecord):
        inflate(zlib.compress(bytes(10_000_000)), 1_000_000)


def test_missing_or_odd_stores_are_empty(tmp_path: Path) -> None:
    """No directory, a file in its place."""
    (tmp_path / "file").write_bytes(b"")
    for name in ("missing", "file"):
        with store(tmp_path / name) as objects:
            assert objects.read(OID) is None


def test_alternates_are_bounded(tmp_path: Path) -> None:
    """Rings, absurd numbers and odd lines end; what lies within the bounds is found."""
    for name in ("one", "two"):
        (tmp_path / name / "info").mkdir(parents=True)
    (tmp_path / "one/info/alternates").write_bytes(b"# comment\n\n../two\n/dev/null\n" + b"/nonsense\n" * 5000)
    (tmp_path / "two/info/alternates").write_bytes(b"../one\n" + bytes(tmp_path / "two") + b"\n\xff\0\n")
    oid = loose(tmp_path / "two", b"tree", b"")
    with store(tmp_path / "one") as objects:
        assert objects.read_tree(oid) == []


@pytest.mark.parametrize(
    "entry",
    [
        b"",
        b"\xff" * 60,
        raw_entry(0, b""),
        raw_entry(5, b""),
        raw_entry(2, b"x", size=5),
        raw_entry(2, b"xyz", size=1),
        raw_entry(2, b"", size=1 << 40),
        raw_entry(6, b"\0\0", base=b"\0"),
        raw_entry(6, b"\0\0", base=b"\x7f"),
        raw_entry(6, b"\0\0", base=b"\xff" * 12 + b"\x01"),
        raw_entry(7, b"\0\0", base=OID),
        raw_entry(7, b"\0\0", base=bytes(20)),
        b"\x21" + b"\x78\x01" + b"\0\0\0\xff\xff" * 40_000,
    ],
)
def test_broken_entries_of_packs_are_none(tmp_path: Path, entry: bytes) -> None:
    """Wrong kinds, sizes and bases, a delta of itself, a stream without end."""
    packed(tmp_path, {OID: entry})
    with store(tmp_path) as objects:
        assert objects.read(OID) is None


def test_a_delta_of_a_named_base_is_read(tmp_path: Path) -> None:
    """The base is looked up in the same pack."""
    base = b"100644 x\0" + OID
    delta = bytes((len(base), len(base) + 1, 0x80 | 0x10, len(base), 1)) + b"!"
    packed(tmp_path, {OID: raw_entry(7, delta, base=b"b" * 20), b"b" * 20: raw_entry(2, base)})
    with store(tmp_path) as objects:
        assert objects.read(OID) == (b"tree", base + b"!")


@pytest.mark.parametrize(
    "delta",
    [
        b"",
        b"\x03",
        b"\x04\x01\x01a",
        b"\x03\x02\x01a",
        b"\x03\x01\x02ab",
        b"\x03\x01\x00",
        b"\x03\x01\x91",
        b"\x03\x01\x05a",
        b"\xff" * 20,
    ],
)
def test_broken_deltas_are_refused(delta: bytes) -> None:
    """Cut short, wrong sizes, a command that is none."""
    with pytest.raises(DamagedRecord):
        apply_delta(b"abc", delta)


def test_pack_indexes_that_lie(tmp_path: Path) -> None:
    """A fan-out beyond the file, a version that is unknown, a pipe's worth of nothing."""
    packed(tmp_path, {OID: raw_entry(2, b"")}, fan=0xFFFFFFFF)
    for name in (b"short", b"\xfftOc\0\0\0\x03" + bytes(2000), bytes(2000)):
        (tmp_path / "pack" / f"pack-{len(name)}.idx").write_bytes(name)
    with store(tmp_path) as objects:
        assert objects.read(OID) is None


def test_large_pack_indexes_are_read_where_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same answers, whether the index is held in memory or not."""
    git("init", "-q", ".", cwd=tmp_path)
    for number in range(40):
        (tmp_path / str(number)).write_text(str(number))
    git("add", "-A", cwd=tmp_path)
    git("commit", "-qm", "x", cwd=tmp_path)
    git("gc", "-q", cwd=tmp_path)
    oids = [
        bytes.fromhex(row.split()[0].decode())
        for row in git("cat-file", "--batch-all-objects", "--batch-check", cwd=tmp_path).splitlines()
    ]
    with store(tmp_path / ".git/objects") as objects:
        before = [objects.read(oid) for oid in oids]
    monkeypatch.setattr(module, "_IN_MEMORY", 0)
    with store(tmp_path / ".git/objects") as objects:
        assert before == [objects.read(oid) for oid in oids]
    assert all(
        oid == hashlib.sha1(b"%s %d\0" % (k, len(d)) + d).digest() for oid, (k, d) in zip(oids, before, strict=True)
    )


def test_reading_has_a_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When it is used up, everything further is unknown."""
    oid = loose(tmp_path, b"tree", b"100644 a\0" + bytes(20))
    monkeypatch.setattr(module, "WORK_LIMIT", 20_000)
    with store(tmp_path) as objects:
        found = [objects.read_tree(oid) for _ in range(50)]
    assert found[0] == [(b"a", 0o100644, bytes(20))]
    assert found[-1] is None


def test_damaged_packs_never_raise(tmp_path: Path) -> None:
    """Bits flipped in pack and index: an object or None."""
    git("init", "-q", ".", cwd=tmp_path)
    for number in range(12):
        (tmp_path / "d").mkdir(exist_ok=True)
        (tmp_path / "d" / f"name{number}").write_text(f"{number}\n" * 30)
        git("add", "-A", cwd=tmp_path)
        git("commit", "-qm", "x", cwd=tmp_path)
    git("gc", "-q", cwd=tmp_path)
    oids = [
        bytes.fromhex(row.split()[0].decode())
        for row in git("cat-file", "--batch-all-objects", "--batch-check", cwd=tmp_path).splitlines()
    ]
    files = [path for path in (tmp_path / ".git/objects/pack").iterdir() if path.suffix in (".idx", ".pack")]
    whole = {path: path.read_bytes() for path in files}
    dice = random.Random(3)
    for _ in range(sweep(40)):
        for path, data in whole.items():
            damaged = bytearray(data)
            for _ in range(dice.randint(0, 6)):
                damaged[dice.randrange(len(damaged))] ^= 1 << dice.randrange(8)
            path.chmod(0o600)
            path.write_bytes(damaged[: dice.randrange(len(damaged))] if dice.random() < 0.2 else damaged)
        with store(tmp_path / ".git/objects") as objects:
            for oid in oids:
                objects.read_commit_tree(oid)
                objects.read_tree(oid)
