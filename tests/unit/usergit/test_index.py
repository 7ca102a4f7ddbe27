"""The index, from bytes that git wrote and from bytes that nobody should have."""

from __future__ import annotations

import os
import random
import struct
from pathlib import Path

import pytest

from counting import lines_run
from mulligan.usergit import index as index_format
from mulligan.usergit.index import (
    Index,
    Malformed,
    RawIndex,
    merge,
    parse_cache_tree,
    parse_index,
    parse_link,
    root_oid,
)
from mulligan.usergit.repository import Repository
from tools import git, sweep


def entry(name: bytes, *, mode: int = 0o100644, flags: int = 0, extended: int | None = None) -> bytes:
    head = struct.pack(">10I20sH", 1, 2, 3, 4, 5, 6, mode, 7, 8, 9, b"o" * 20, flags | min(len(name), 0xFFF))
    head += struct.pack(">H", extended) if extended is not None else b""
    return head + name + bytes(8 - (len(head) + len(name)) % 8)


def index_file(*entries: bytes, version: int = 2, count: int | None = None, extensions: bytes = b"") -> bytes:
    number = len(entries) if count is None else count
    return b"DIRC" + struct.pack(">II", version, number) + b"".join(entries) + extensions + bytes(20)


def extension(name: bytes, data: bytes) -> bytes:
    return name + struct.pack(">I", len(data)) + data


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with a few hundred tracked files."""
    root = tmp_path_factory.mktemp("written")
    git("init", "-q", ".", cwd=root)
    dice = random.Random(7)
    for number in range(400):
        folder = root / "/".join(dice.choice(("a", "bb", "a.b", "c-d")) for _ in range(dice.randint(0, 3)))
        folder.mkdir(parents=True, exist_ok=True)
        (folder / ("f" * dice.randint(1, 40) + str(number))).write_text(str(number))
    (root / "link").symlink_to("a")
    git("add", "-A", cwd=root)
    git("write-tree", cwd=root)
    return root


def test_an_entry_says_all_that_git_noted(tmp_path: Path) -> None:
    """Mode, id, size and times are those of the file."""
    git("init", "-q", ".", cwd=tmp_path)
    (tmp_path / "run").write_text("#!/bin/sh\n")
    (tmp_path / "run").chmod(0o755)
    git("add", "run", cwd=tmp_path)
    found = parse_index((tmp_path / ".git/index").read_bytes()).find(b"run")
    status = os.stat(tmp_path / "run")
    assert (found.mode, found.size, found.stage) == (0o100755, status.st_size, 0)
    assert found.mtime_ns == status.st_mtime_ns
    assert found.oid.hex() == git("rev-parse", ":run", cwd=tmp_path).decode().strip()


def test_flags_are_told_apart() -> None:
    """Stages, assume-valid, skip-worktree, intent-to-add, submodules, sparse directories."""
    found = parse_index(
        index_file(
            entry(b"assumed", flags=0x8000),
            *(entry(b"conflict", flags=stage << 12) for stage in (1, 2, 3)),
            entry(b"intended", flags=0x4000, extended=0x2000),
            entry(b"module", mode=0o160000),
            entry(b"plain"),
            entry(b"skipped", flags=0x4000, extended=0x4000),
            entry(b"sparse/", mode=0o040000, flags=0x4000, extended=0x4000),
            version=3,
            extensions=extension(b"sdir", b""),
        )
    )
    assert {path for path in found.heads if found.find(path).assume_valid} == {b"assumed"}
    assert found.unmerged == {b"conflict"}
    assert found.intent_to_add == {b"intended"}
    assert {path for path in found.heads if found.find(path).skip_worktree} == {b"skipped", b"sparse/"}
    assert found.links == {b"module"}
    assert found.sparse == {b"sparse/"}
    assert found.tracked() == {b"assumed", b"conflict", b"intended", b"plain", b"skipped"}
    assert found.find(b"conflict").stage and found.is_odd
    assert len(found) == 7
    assert found.sparse_directory(b"sparse/x/y") == b"sparse/"
    assert found.sparse_directory(b"other/x") is None


def test_tracked_below_a_directory() -> None:
    """Relative to it, and nothing that only shares its first letters."""
    names = [b"src-x/a", b"src.py", b"src/a", b"src/b/c", b"src0"]
    found = parse_index(index_file(*map(entry, names), entry(b"src/z", flags=0x2000)))
    assert found.tracked(b"src") == {b"a", b"b/c", b"z"}
    assert found.tracked(b"src/b") == {b"c"}
    assert found.tracked(b"nothing") == set()
    assert found.below(b"src/") == [b"src/a", b"src/b/c"]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"DIRC",
        bytes(1000),
        index_file(entry(b"a"), version=1),
        index_file(entry(b"a"), version=5),
        index_file(entry(b"a"), count=0xFFFFFFFF),
        index_file(entry(b"a"), count=2),
        index_file(entry(b"a"), count=0),
        index_file(entry(b"a"))[:-25],
        index_file(entry(b"a", flags=0x0FF0)),
        index_file(entry(b"a", flags=0x4000, extended=0)),
        index_file(entry(b"x" * 5000)[:4000]),
        index_file(entry(b"../../etc/passwd")),
        index_file(entry(b"a/../b")),
        index_file(entry(b"..")),
        index_file(entry(b"/etc/passwd")),
        index_file(entry(b"a\0b")),
        index_file(entry(b"a"), extensions=b"TREE\xff\xff\xff\xff"),
        index_file(entry(b"a"), extensions=b"TR"),
        index_file(entry(b"a"), extensions=extension(b"must", b"")),
        index_file(entry(b"a"), extensions=extension(b"link", b"short")),
        index_file(entry(b"a"), extensions=extension(b"link", b"s" * 20)),
        index_file(entry(b"a")[:62] + b"\x05a\0", version=4),
        index_file(entry(b"a")[:62] + b"\xff" * 60, version=4),
        index_file(entry(b"a")[:62] + b"\x00" + b"a" * 60, version=4),
    ],
)
def test_malformed_indexes_are_none(data: bytes) -> None:
    """Wrong lengths, unknown parts and names that lead out: all the same."""
    assert parse_index(data) is None
    raw = RawIndex(data)
    assert not raw.searchable or raw.find(b"b") is None


def test_an_index_with_too_many_entries_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number is bounded before anything is built."""
    monkeypatch.setattr(index_format, "ENTRIES_LIMIT", 2)
    assert parse_index(index_file(entry(b"a"), entry(b"b"))) is not None
    assert parse_index(index_file(entry(b"a"), entry(b"b"), entry(b"c"))) is None


def test_a_name_that_repeats_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Version 4 can make much of little: each name may repeat the one before."""
    monkeypatch.setattr(index_format, "NAMES_LIMIT", 100_000)
    head = entry(b"a")[:62]
    rows = [head + b"\0" + b"x" * 4000 + b"\0"] + [head + b"\0y\0"] * 1000
    assert parse_index(index_file(*rows, version=4)) is None


def test_a_number_without_end_is_refused_at_once() -> None:
    head = entry(b"", flags=1)[:62]
    endless = index_file(head + b"\xff" * 300_000 + b"\0a\0", version=4)
    assert lines_run(lambda: parse_index(endless)) < 1000
    assert parse_index(endless) is None


@pytest.mark.parametrize("version", [2, 4])
def test_damage_never_raises(written: Path, version: int) -> None:
    """Cut anywhere, flipped anywhere: an answer or None."""
    git("update-index", "--index-version", str(version), cwd=written)
    data = (written / ".git/index").read_bytes()
    dice = random.Random(version)
    for _ in range(sweep(60)):
        damaged = bytearray(data[: dice.randrange(len(data))] if dice.random() < 0.3 else data)
        for _ in range(dice.randint(0, 4)):
            if damaged:
                damaged[dice.randrange(min(len(damaged), 400) if dice.random() < 0.5 else len(damaged))] = (
                    dice.randrange(256)
                )
        found, raw = parse_index(bytes(damaged)), RawIndex(bytes(damaged))
        assert found is None or found.cache_tree is None or found.tracked() is not None
        assert raw.find(b"a/bb/f1") is None or raw.searchable


def test_searching_the_bytes_finds_what_parsing_finds(written: Path) -> None:
    """Every name, no near miss, and the tree of all."""
    git("update-index", "--index-version", "2", cwd=written)
    data = (written / ".git/index").read_bytes()
    found, raw = parse_index(data), RawIndex(data)
    assert raw.searchable
    for path in found.paths:
        assert raw.find(path) == found.find(path)
        assert raw.find(path + b"0") == found.find(path + b"0")
        assert raw.find(path[:-1]) == found.find(path[:-1])
    assert raw.root_tree() == found.cache_tree.oid
    assert found.cache_tree.oid.hex() == git("write-tree", cwd=written).decode().strip()


def test_searching_an_index_with_flags_and_stages() -> None:
    """Extended heads are longer; an unmerged path is found by any of its stages."""
    names = [b"n%05d" % number for number in range(0, 3000, 2)]
    rows = [entry(name, flags=0x4000, extended=0x4000) if at % 3 else entry(name) for at, name in enumerate(names)]
    rows[700:701] = [entry(names[700], flags=stage << 12) for stage in (1, 2, 3)]
    raw = RawIndex(index_file(*rows, version=3))
    assert raw.searchable
    assert all(raw.find(name).name == name for name in names)
    assert all(raw.find(b"n%05d" % number) is None for number in range(1, 3000, 2))
    assert raw.find(names[700]).stage > 0
    assert raw.find(names[1]).skip_worktree


def test_split_and_sparse_indexes_are_not_searched(tmp_path: Path) -> None:
    """Their bytes do not hold every entry."""
    assert not RawIndex(index_file(entry(b"a"), extensions=extension(b"sdir", b""))).searchable
    git("init", "-q", ".", cwd=tmp_path)
    (tmp_path / "a").write_text("a")
    git("add", "a", cwd=tmp_path)
    with Repository.find(str(tmp_path)) as repo:
        assert repo.raw_index() is not None
    git("update-index", "--split-index", cwd=tmp_path)
    with Repository.find(str(tmp_path)) as repo:
        assert repo.raw_index() is None


def test_an_empty_index_is_searchable() -> None:
    """No entries, nothing found."""
    raw = RawIndex(index_file())
    assert raw.searchable
    assert raw.find(b"a") is None
    assert isinstance(parse_index(index_file()), Index)


# -- the cache-tree -----------------------------------------------------------------------------


def test_a_cache_tree_is_nested() -> None:
    """Each node knows its own children; an invalid one has no tree."""
    one, two = b"1" * 20, b"2" * 20
    data = b"\x003 2\n" + one + b"a\0-1 1\n" + b"b\x001 0\n" + two + b"c\x001 0\n" + two
    root = parse_cache_tree(data)
    assert root.oid == one
    assert root.children[b"a"].oid is None
    assert {name: node.oid for name, node in root.children[b"a"].children.items()} == {b"b": two}
    assert root.children[b"c"].oid == two
    assert root_oid(data) == one


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0",
        b"\x001",
        b"\x001 0\n",
        b"\x001 0\n" + b"x" * 19,
        b"\0-1 5\n",
        b"\0x y\n",
        b"\0-1 -1\n",
        b"\0-1 0" + b" " * 99,
    ],
)
def test_a_malformed_cache_tree_is_none(data: bytes) -> None:
    """A hint that cannot be read is no hint."""
    assert parse_cache_tree(data) is None
    assert root_oid(data) is None


def test_a_cache_tree_as_deep_as_it_is_long_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither depth nor number can be claimed without bound."""
    assert parse_cache_tree(b"a\0-1 1\n" * 100_000) is None
    monkeypatch.setattr(index_format, "NODES_LIMIT", 10)
    assert parse_cache_tree(b"\0-1 99\n" + b"a\0-1 0\n" * 99) is None


# -- split indexes ------------------------------------------------------------------------------


def bitmap(*words: int) -> bytes:
    return struct.pack(">II", 64, len(words)) + struct.pack(f">{len(words)}Q", *words) + bytes(4)


def marker(*, bit: int = 0, run: int = 0, literals: int = 0) -> int:
    return bit | run << 1 | literals << 33


def test_bitmaps_are_unpacked() -> None:
    """Runs and literal words, in order."""
    link = bytes(20) + bitmap(marker(bit=1, run=1, literals=1), 0b101) + bitmap(marker(run=1, literals=1), 1 << 63)
    assert parse_link(link, 128) == ([*range(64), 64, 66], [127])
    assert parse_link(bytes(20), 128) == ([], [])


@pytest.mark.parametrize(
    "rest",
    [
        b"\0",
        struct.pack(">II", 1, 0xFFFFFFFF),
        bitmap(marker(bit=1, run=0xFFFFFFFF)) + bitmap(0),
        bitmap(marker(literals=1), 1 << 63) + bitmap(0),
        bitmap(*[marker(literals=1), 1] * 50) + bitmap(0),
        bitmap(0),
    ],
)
def test_bitmaps_that_claim_too_much_are_refused(rest: bytes) -> None:
    """Positions beyond the shared index, and words beyond the bytes."""
    with pytest.raises(Malformed):
        parse_link(bytes(20) + rest, 10)


def test_replacements_have_no_name_and_are_not_more_than_there_are() -> None:
    """Else they would replace something else."""
    link = bytes(20) + bitmap(0) + bitmap(marker(literals=1), 0b11)
    shared = [b"a", b"b"], [b"1", b"2"]
    assert merge(shared, ([b"", b"", b"c"], [b"3", b"4", b"5"]), link) == ([b"a", b"b", b"c"], [b"3", b"4", b"5"])
    for names in ([b""], [b"x", b""]):
        with pytest.raises(Malformed):
            merge(shared, (names, [b"3"] * len(names)), link)
