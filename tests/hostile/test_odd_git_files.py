"""
An index and packs that git never wrote, with checksums that are right: none of it gets into a store, and nothing lasts.

Names out of order, names that are none, a file and a directory of one name, an object twice in one pack, numbers without end.
"""

from __future__ import annotations

import hashlib
import os
import struct
import zlib
from hashlib import sha1
from pathlib import Path

import pytest

import adopted
from adopted import Sides
from counting import lines_run
from mulligan.gitformat.pack import encode_index
from mulligan.scan import from_git
from mulligan.usergit import records
from plain_git import fsck

Entries = list[tuple[bytes, bytes]]


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A clean repository, packed; no file is read to see whether git is right."""
    monkeypatch.setattr(from_git, "LEAST", 1)
    monkeypatch.setattr(from_git, "_TRIED_LEAST", 0)
    monkeypatch.setattr(from_git, "_TRIED_MOST", 0)
    at = adopted.new_repository(tmp_path / "project")
    for number in range(12):
        folder = at / f"src/part{number % 3}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"file{number}.py").write_bytes(b"%d\n" % number + os.urandom(200).hex().encode())
    adopted.commit(at, "-f")
    return at


def entries_of(repo: Path) -> Entries:
    """The entries of an index: what stands before the name, and the name."""
    data, at, found = (repo / ".git/index").read_bytes(), 12, []
    for _ in range(int.from_bytes(data[8:12], "big")):
        end = data.index(b"\0", at + 62)
        found.append((data[at : at + 60], data[at + 62 : end]))
        at += (end - at + 8) & -8
    return found


def write_index(repo: Path, entries: Entries) -> None:
    """Writes an index of these entries, in this order, and its checksum."""
    data = b"DIRC" + struct.pack(">II", 2, len(entries))
    for head, name in entries:
        entry = head + struct.pack(">H", min(len(name), 0xFFF)) + name
        data += entry + bytes(8 - len(entry) % 8)
    (repo / ".git/index").write_bytes(data + hashlib.sha1(data, usedforsecurity=False).digest())


def plant(repo: Path, rows: list[tuple[bytes, bytes]]) -> None:
    """Plants a pack of records, each with the id that stands for it."""
    pack, placed = b"PACK" + struct.pack(">II", 2, len(rows)), []
    for oid, record in rows:
        placed.append((oid, zlib.crc32(record), len(pack)))
        pack += record
    pack += sha1(pack).digest()
    folder = repo / ".git/objects/pack"
    (folder / "pack-planted.pack").write_bytes(pack)
    (folder / "pack-planted.idx").write_bytes(encode_index(placed, pack[-20:]))


def saved(repo: Path, tmp_path: Path) -> Sides:
    """The checkpoint with git's help and without, which must be the same, in a store that git finds nothing in."""
    adopted.settle(tmp_path)
    sides = adopted.both_ways(repo, tmp_path)
    assert adopted.said(sides.taken) == adopted.said(sides.read)
    assert fsck(sides.taken.store) == []
    return sides


def test_names_out_of_order_make_no_records(repo: Path, tmp_path: Path) -> None:
    (repo / "src/part0/loose.py").write_bytes(b"not packed\n" * 40)
    adopted.commit(repo)
    write_index(repo, entries_of(repo)[::-1])
    saved(repo, tmp_path)


ODD = (
    b"",
    b"src/",
    b"src//x.py",
    b"src/./x.py",
    b"src/part0",
    b"src/part0/file0.py/x.py",
    b".git/config",
    b"src/.git/x.py",
)


@pytest.mark.parametrize(
    "name", [*ODD, b"d/" * 600 + b"x.py", b"long" * 80 + b".py", b"src/line\n.py"], ids=lambda n: n[:20]
)
def test_names_that_are_none_make_no_trees(repo: Path, tmp_path: Path, name: bytes) -> None:
    entries = entries_of(repo)
    write_index(repo, sorted([*entries, (entries[0][0], name)], key=lambda entry: entry[1]))
    saved(repo, tmp_path)


def test_an_object_twice_in_a_pack_is_once_in_ours(repo: Path, tmp_path: Path) -> None:
    data = os.urandom(400)
    (repo / "src/twice.py").write_bytes(data)
    adopted.commit(repo)
    oid = sha1(b"blob 400\0" + data).digest()
    record = bytes([0xB0 | 400 & 15, 400 >> 4]) + zlib.compress(data)
    plant(repo, [(oid, record), (oid, record)])
    assert saved(repo, tmp_path).taken.read == 0


@pytest.mark.parametrize("begin", [b"\xbf", b"\xe5\x01"], ids=["size", "distance"])
def test_numbers_without_end_are_not_read_to_it(repo: Path, tmp_path: Path, begin: bytes) -> None:
    entries, oid = entries_of(repo), hashlib.sha1(b"no object", usedforsecurity=False).digest()
    write_index(repo, [(entries[0][0][:40] + oid, entries[0][1]), *entries[1:]])
    plant(repo, [(oid, begin + b"\xff" * 1_000_000 + b"\1" + zlib.compress(b"x"))])
    assert lines_run(lambda: saved(repo, tmp_path)) < 500_000


def test_indexes_of_packs_are_read_as_far_as_memory_is_meant_for_them(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of them together: the same pack may be there under many names."""
    folder = repo / ".git/objects/pack"
    (index,) = folder.glob("*.idx")
    for number in range(20):
        for ending in (".idx", ".pack"):
            os.link(index.with_suffix(ending), folder / f"pack-{number}{ending}")
    monkeypatch.setattr(records, "INDEX_LIMIT", 5 * index.stat().st_size)
    from mulligan.safefs.directory import Directory

    opened = list[int]()
    monkeypatch.setattr(records, "_take_from", lambda fd, *_: opened.append(fd))
    with Directory.open(str(folder)) as directory:
        records.take_records(directory, {}, None)
    assert len(opened) == 5
