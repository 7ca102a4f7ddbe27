"""Packs read without their index."""

from __future__ import annotations

import pytest

from mulligan.gitformat.pack import Pack
from mulligan.gitformat.pack_scan import EMPTY_INDEX, checksums, measure, object_count, scan
from mulligan.gitformat.record import DamagedRecord
from stores import add_all, opened, pack_files


@pytest.fixture
def pack(tmp_path):
    """A pack of two objects, without its index."""
    with opened(tmp_path / "store") as store:
        add_all(store, [b"one" * 10, b"two" * 10])
        path = next(p for p in pack_files(tmp_path / "store") if p.read_bytes()[8:12] == b"\0\0\0\2")
        found = Pack(path.stem.encode(), EMPTY_INDEX, 0)
        found.open(store.packs_directory())
        yield found
        found.close()


def test_the_rows_are_those_of_the_index(pack, tmp_path):
    with opened(tmp_path / "store") as store:
        (known,) = [one for one in store.packs() if one.name == pack.name]
        assert known.index.rows() == sorted(scan(pack), key=lambda row: row.offset)


def test_a_record_is_measured_to_its_last_byte(pack):
    first = measure(pack, 12)
    second = measure(pack, 12 + first.length)
    assert pack.size - 20 == 12 + first.length + second.length


def test_checksums_agree_and_the_count_is_known(pack):
    actual, stated = checksums(pack)
    assert actual == stated
    assert object_count(pack) == 2


def test_a_place_that_is_no_record_is_damage(pack):
    for offset in (0, 13, pack.size - 20, pack.size + 5):
        with pytest.raises(DamagedRecord):
            measure(pack, offset)
