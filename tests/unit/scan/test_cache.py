"""The stat cache: what was remembered comes back, and a log that is cut anywhere never claims what it cannot show."""

from __future__ import annotations

import errno
import os

import pytest

from faults import FailsAlways
from mulligan.safefs import syscalls
from mulligan.safefs.directory import Directory
from mulligan.scan import cache as caching
from mulligan.scan.cache import Cache, DirectoryRecord, discard
from mulligan.scan.scanner import Scanner
from scans import later, settings_for

ONE, TWO = b"1" * 20, b"2" * 20


@pytest.fixture
def place(tmp_path):
    (tmp_path / "tmp").mkdir()
    with Directory.open(tmp_path) as directory:
        yield directory


def record(name: bytes) -> DirectoryRecord:
    made = DirectoryRecord()
    made.dirs = [name]
    return made


def save(
    cache: Cache, place: Directory, records: dict[bytes, DirectoryRecord], tree: bytes, gone: tuple[bytes, ...] = ()
) -> None:
    cache.save(place, cache.update([(path, record.encode()) for path, record in records.items()], gone, tree, b"{}"))


def loaded(place: Directory) -> Cache:
    cache = Cache()
    cache.load(place)
    return cache


def test_what_was_saved_is_loaded(place):
    cache = Cache()
    save(cache, place, {b"": record(b"x"), b"a": record(b"y")}, ONE)
    save(cache, place, {b"": record(b"z")}, TWO, gone=(b"a",))
    again = loaded(place)
    assert (again.root_tree, again.paths()) == (TWO, [b""])
    assert again.get(b"").dirs == [b"z"] and again.get(b"a") is None
    assert loaded(place).root_tree == TWO


def test_a_log_that_is_cut_anywhere_names_a_tree_only_with_all_its_records(place, tmp_path):
    """A record of the second checkpoint under the tree of the first would outlive the objects it names."""
    cache = Cache()
    save(cache, place, {b"": record(b"old"), b"a": record(b"old")}, ONE)
    first = (tmp_path / "cache").stat().st_size
    save(cache, place, {b"": record(b"new"), b"a": record(b"new")}, TWO)
    whole = (tmp_path / "cache").read_bytes()
    for end in range(len(whole) + 1):
        (tmp_path / "cache").write_bytes(whole[:end])
        found = loaded(place)
        wanted = {ONE: [b"old"], TWO: [b"new"]}.get(found.root_tree)
        if wanted is not None:
            assert [found.get(path).dirs for path in (b"", b"a")] == [wanted, wanted], end
    assert first < len(whole)


def test_zeros_that_a_power_cut_left_in_the_log_end_it(place, tmp_path):
    save(Cache(), place, {b"": record(b"x"), b"a": record(b"y")}, ONE)
    with (tmp_path / "cache").open("ab") as log:
        log.write(bytes(4096))
    again = loaded(place)
    assert (again.root_tree, sorted(again.paths()), again.files) == (ONE, [b"", b"a"], 0)


def test_a_log_that_names_no_tree_is_not_used(project, place, tmp_path):
    save(Cache(), place, {b"": record(b"x")}, ONE)
    os.truncate(tmp_path / "cache", (tmp_path / "cache").stat().st_size - 1)
    assert len(loaded(place)) == 1
    assert len(Scanner(settings_for(project), later).load(place, 7, lambda _: True)) == 0


def test_a_log_whose_tree_is_gone_is_not_used(project, place):
    cache = Cache()
    save(cache, place, {b"": record(b"x")}, ONE)
    scanner = Scanner(settings_for(project), later)
    assert len(scanner.load(place, 7, lambda oid: oid == ONE)) == 1
    assert len(scanner.load(place, 8, lambda _: False)) == 0


def remembered(project, place, *, boot: str, now_ns) -> None:
    """One look at the workspace, kept as a save keeps it."""
    scanner = Scanner(settings_for(project), now_ns, lambda: boot)
    scan, _, note = scanner.scan(scanner.load(None, 1, lambda _: False))
    scanner.remember(place, scan, note)


def trusts(project, place, *, boot: str) -> bool:
    """Whether the only file of the workspace would not be read again."""
    cache = Scanner(settings_for(project), later, lambda: boot).load(place, 1, lambda _: True)
    return cache.get(b"").stat_at(0).size >= 0


def test_after_a_start_of_the_machine_recent_edits_are_read_again(project, place):
    """A power cut leaves new times and sizes on old bytes; found by tests/proofs/power."""
    (project / "file").write_text("bytes")
    remembered(project, place, boot="one", now_ns=later)
    assert trusts(project, place, boot="one")
    assert not trusts(project, place, boot="two")


def test_after_a_start_of_the_machine_what_had_long_been_written_is_trusted(project, place):
    (project / "file").write_text("bytes")
    remembered(project, place, boot="one", now_ns=lambda: later() + 2 * 3_600_000_000_000)
    assert trusts(project, place, boot="two")


def test_what_was_read_again_after_a_start_is_trusted_from_then_on(project, place):
    (project / "file").write_text("bytes")
    remembered(project, place, boot="one", now_ns=later)
    scanner = Scanner(settings_for(project), later, lambda: "two")
    scan, _, note = scanner.scan(scanner.load(place, 1, lambda _: True))
    scanner.remember(place, scan, note)
    assert scanner.load(place, 1, lambda _: True).get(b"").stat_at(0).size == 5
    assert trusts(project, place, boot="two")


def test_the_log_of_another_process_is_not_appended_to(place):
    mine, other = Cache(), Cache()
    save(mine, place, {b"": record(b"mine")}, ONE)
    save(other, place, {b"": record(b"other")}, TWO)
    save(mine, place, {b"a": record(b"mine")}, ONE)
    assert {path: loaded(place).get(path).dirs for path in (b"", b"a")} == {b"": [b"mine"], b"a": [b"mine"]}


def test_the_log_does_not_grow_without_bound(place, tmp_path):
    cache = Cache()
    big = DirectoryRecord()
    big.dirs = [b"x" * 200] * 500
    for _ in range(30):
        save(cache, place, {b"": big}, ONE)
    assert (tmp_path / "cache").stat().st_size < 3 * len(big.encode()) + (1 << 20)


def test_garbage_is_no_cache(place, tmp_path):
    for content in (b"", b"mulligan-cache-0\n", caching._MAGIC + b"\xff" * 100, b"\0" * 50):
        (tmp_path / "cache").write_bytes(content)
        assert len(loaded(place)) == 0
    discard(place)
    discard(place)
    assert loaded(place).root_tree == b""


@pytest.mark.parametrize("call", ["write", "rename"])
def test_a_log_that_cannot_be_written_anew_leaves_nothing_behind(place, tmp_path, call):
    """A temporary beside it would stay until the next time it is written anew, which may be never."""
    with syscalls.using(FailsAlways(errno.ENOSPC, call)), pytest.raises(OSError, match="space"):
        save(Cache(), place, {b"": record(b"x")}, ONE)
    assert os.listdir(tmp_path) == ["tmp"] and os.listdir(tmp_path / "tmp") == []


_MUCH = 96 << 10


def test_a_log_is_read_as_far_as_it_is_whole(place, tmp_path):
    """A cut or a flipped bit ends the reading."""
    cache, long = Cache(), record(b"d" * (3 * _MUCH))
    records = {b"%d" % number: record(b"x" * (number % 997)) for number in range(800)} | {b"long": long}
    save(cache, place, {**records, b"last": record(b"y")}, ONE)
    whole = (tmp_path / "cache").read_bytes()
    assert len(whole) > 6 * _MUCH
    again = loaded(place)
    assert (again.root_tree, again.note, again.is_current(place)) == (ONE, b"{}", True)
    assert {path: again.packed(path) for path in again.paths()} == {path: cache.packed(path) for path in cache.paths()}
    for cut in (_MUCH, _MUCH + 1, 5 * _MUCH - 1, len(whole) - 1):
        (tmp_path / "cache").write_bytes(whole[:cut])
        part = loaded(place)
        assert part.root_tree == b"" and 0 < len(part) <= len(again)
        assert all(part.packed(path) == again.packed(path) for path in part.paths())
    (tmp_path / "cache").write_bytes(whole[:-5] + bytes([whole[-5] ^ 1]) + whole[-4:])
    assert loaded(place).root_tree == b""
