"""Freeing a little at a time: dead objects go, live ones never, whatever others do between two portions."""

from __future__ import annotations

import os
import random
import shutil

import pytest

from mulligan.model.objects import BLOB
from mulligan.safefs import syscalls
from mulligan.store import gc
from mulligan.store.gc import collect, replace, wasteful_groups
from mulligan.store.layout import PERMANENT
from mulligan.store.trash import sweep_temporaries
from mulligan.store.verify import verify_packs
from stores import add_all, edited, opened, pack_files, text


def noise(number: int, size: int = 600) -> bytes:
    return random.Random(number).randbytes(size)


def freed(store, live, *, between=lambda: None):
    """Frees all there is to free; `between` happens before each group is replaced."""
    live |= PERMANENT
    for group in wasteful_groups(store, live):
        between()
        store.refresh()
        replace(store, group)


def test_packs_that_hold_much_that_is_dead_give_what_is_live_and_go(tmp_path):
    with opened(tmp_path / "store") as store:
        oids = [add_all(store, [noise(10 * n + m) for m in range(10)]) for n in range(6)]
        live = {oid for pack in oids for oid in pack[:4]}
        freed(store, live)
        assert all(store.has(oid) == (oid in live) for pack in oids for oid in pack)
        assert [noise(10 * n) for n in range(6)] == [store.read(pack[0], BLOB) for pack in oids]
        assert verify_packs(store) == []
        assert len(pack_files(tmp_path / "store")) <= 2


def test_a_pack_of_which_little_is_dead_stays_as_it_is(tmp_path):
    with opened(tmp_path / "store") as store:
        oids = add_all(store, [noise(number) for number in range(10)])
        before = pack_files(tmp_path / "store")
        freed(store, set(oids[1:]))
        assert pack_files(tmp_path / "store") == before
        freed(store, set(oids[3:]))
        assert not any(store.has(oid) for oid in oids[:3])


def test_a_portion_takes_few_packs_or_one_large_one_and_nothing_is_ever_missing(tmp_path, monkeypatch):
    monkeypatch.setattr(gc, "PORTION", 3000)
    with opened(tmp_path / "store") as store:
        oids = add_all(store, [noise(number) for number in range(40)])
        for number in range(40, 64, 4):
            oids += add_all(store, [noise(each) for each in range(number, number + 4)])
        live, sizes = set(oids[::2]), [store.disk_bytes()]

        def look():
            with opened(tmp_path / "store") as other:
                assert [noise(n) for n in range(0, 64, 2)] == [other.read(oid, BLOB) for oid in oids[::2]]
                sizes.append(other.disk_bytes())

        freed(store, live, between=look)
        look()
        assert len(sizes) > 4
        assert sizes == sorted(sizes, reverse=True)
        assert not any(store.has(oid) for oid in oids[1::2])


def test_what_is_needed_again_when_the_batch_is_placed_stays(tmp_path):
    """A save found an object that was dead when somebody looked, and leaned on it."""
    with opened(tmp_path / "store") as store:
        oids = [add_all(store, [noise(10 * n + m) for m in range(10)]) for n in range(3)]
        live = {pack[0] for pack in oids[:2]}
        freed(store, live, between=lambda: live.update((oids[0][5], oids[2][7])))
        assert all(store.has(oid) for oid in live)
        assert not store.has(oids[1][5])
        assert store.read(oids[2][7], BLOB) == noise(27)


def test_deltas_whose_base_is_dead_get_another(tmp_path):
    chance = random.Random(1)
    history = [text(200, chance)]
    while len(history) < 40:
        history.append(edited(history[-1], chance, hunks=2))
    with opened(tmp_path / "store") as store:
        chain = add_all(store, history)
        collect(store, set(chain), chains=[chain])
        freed(store, set(chain[::3]))
        assert history[::3] == [store.read(oid, BLOB) for oid in chain[::3]]
        assert not store.has(chain[1])
        assert verify_packs(store) == []


def test_a_pack_that_cannot_be_read_stays_and_the_rest_is_done(tmp_path, monkeypatch):
    monkeypatch.setattr(gc, "PORTION", 2000)
    with opened(tmp_path / "store") as store:
        bad = add_all(store, [noise(number) for number in range(5)])
        path = next(path for path in pack_files(tmp_path / "store") if path.stat().st_size > 3000)
        good = [add_all(store, [noise(10 * n + m) for m in range(5)]) for n in range(2, 5)]
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
    with opened(tmp_path / "store") as store:
        freed(store, {*bad[:4], *(pack[0] for pack in good)})
        assert path.exists()
        assert [noise(10 * n) for n in range(2, 5)] == [store.read(pack[0], BLOB) for pack in good]
        assert not any(store.has(oid) for oid in good[2][1:])


class DiesAt(syscalls.Calls):
    """Dies at the n-th call that changes something."""

    class Killed(BaseException):
        """The process is gone."""

    def __init__(self, number: int) -> None:
        self.left = number

    def _count(self) -> None:
        self.left -= 1
        if self.left <= 0:
            raise self.Killed

    def write(self, fd, data):
        self._count()
        return super().write(fd, data)

    def rename(self, *args, **more):
        self._count()
        return super().rename(*args, **more)

    def unlink(self, *args, **more):
        self._count()
        return super().unlink(*args, **more)

    def fsync(self, fd):
        self._count()
        return super().fsync(fd)


def test_a_kill_at_any_moment_loses_nothing_and_what_is_there_twice_goes_the_next_time(tmp_path, monkeypatch):
    monkeypatch.setattr(gc, "PORTION", 2000)
    with opened(tmp_path / "before") as store:
        oids = [add_all(store, [noise(10 * n + m) for m in range(10)]) for n in range(3)]
        live = {oid for pack in oids for oid in pack[:5]}
    for number in range(1, 400):
        path = tmp_path / f"store{number}"
        shutil.copytree(tmp_path / "before", path)
        killed = False
        with opened(path) as store:
            try:
                with syscalls.using(DiesAt(number)):
                    freed(store, live)
            except DiesAt.Killed:
                killed = True
        with opened(path) as store:
            sweep_temporaries(store.directory)
            assert os.listdir(path / "tmp") == [], number
            assert [noise(10 * n) for n in range(3)] == [store.read(pack[0], BLOB) for pack in oids], number
            assert verify_packs(store) == [], number
            store.refresh()
            freed(store, live)
            assert all(store.has(oid) == (oid in live) for pack in oids for oid in pack), number
            held = [oid for pack in store.packs() for oid in pack.index.oids()]
            assert len(held) == len(set(held)), number
        if not killed:
            break
    else:
        pytest.fail("it never succeeded")
    assert number > 15
