"""Collection: dead objects go, live ones never, with little room, and interrupted at any point."""

from __future__ import annotations

import os
import random
import shutil

import pytest

from mulligan.gitformat.record import compress
from mulligan.model.objects import BLOB, TREE, object_id
from mulligan.safefs import syscalls
from mulligan.safefs.room import disk_usage
from mulligan.store import gc as collecting
from mulligan.store import pack_writer, repack
from mulligan.store.gc import collect, merge_small
from mulligan.store.layout import PERMANENT
from mulligan.store.verify import verify_packs
from stores import add_all, edited, opened, pack_files, text
from tools import git


def noise(number: int, size: int = 600) -> bytes:
    return random.Random(number).randbytes(size)


def test_dead_objects_are_gone_and_the_disk_is_freed(tmp_path):
    with opened(tmp_path / "store") as store:
        oids = [add_all(store, [noise(10 * n + m) for m in range(10)]) for n in range(6)]
        live = {oid for pack in oids for oid in pack[:4]}
        before = disk_usage(store.packs_directory())
        foretold = collect(store, live, dry_run=True)
        assert disk_usage(store.packs_directory()) == before
        freed = collect(store, live)
        assert before - freed == disk_usage(store.packs_directory())
        assert freed == foretold > 36 * 600
        assert all(store.has(oid) == (oid in live) for pack in oids for oid in pack)
        assert [noise(10 * n) for n in range(6)] == [store.read(pack[0], BLOB) for pack in oids]
        assert verify_packs(store) == []


def test_what_belongs_to_the_store_itself_stays(tmp_path):
    with opened(tmp_path / "store") as store:
        add_all(store, [b"dead"])
        collect(store, set())
        assert all(store.has(oid) for oid in PERMANENT)
    assert b"mulligan" in git("show", "HEAD:README", cwd=tmp_path / "store")


def test_a_second_collection_finds_nothing_to_do(tmp_path):
    """Packs that are as they should be keep their names and their inodes."""
    with opened(tmp_path / "store") as store:
        chain = [oid for version in versions(12) for oid in add_all(store, [version])]
        collect(store, set(chain), chains=[chain])
        before = {path.name: path.stat().st_ino for path in pack_files(tmp_path / "store")}
        assert collect(store, set(chain), chains=[chain]) == 0
        assert before == {path.name: path.stat().st_ino for path in pack_files(tmp_path / "store")}


def versions(count: int, *, lines: int = 300, hunks: int = 2, seed: int = 1) -> list[bytes]:
    chance = random.Random(seed)
    found = [text(lines, chance)]
    while len(found) < count:
        found.append(edited(found[-1], chance, hunks=hunks))
    return found


def depths(path) -> dict[str, int]:
    """The depth of every delta, as git sees it."""
    lines = git("verify-pack", "-v", *[str(p) for p in pack_files(path, ".idx")], cwd=path).decode().splitlines()
    words = [line.split() for line in lines]
    return {w[0]: int(w[5]) for w in words if len(w) == 7}


def test_versions_become_deltas_the_newest_whole_and_none_too_deep(tmp_path):
    history = versions(130)
    with opened(tmp_path / "store") as store:
        chain = [oid for at in range(0, 130, 26) for oid in add_all(store, history[at : at + 26])]
        collect(store, set(chain), chains=[chain])
        assert history == [store.read(oid, BLOB) for oid in chain]
        assert store.disk_bytes() < 130 * 250 + 3 * len(history[0])
        assert (BLOB, len(history[0])) == store.kind_and_size(chain[0])
        assert history[3] == b"".join(store.stream(chain[3]))
    found = depths(tmp_path / "store")
    assert chain[-1].hex() not in found
    assert len(found) == 129
    assert max(found.values()) == 50


def test_a_growing_history_stays_small_over_many_collections(tmp_path):
    """Each collection reuses what the last one made; depth and size do not creep."""
    history = versions(90, lines=200)
    with opened(tmp_path / "store") as store:
        chain: list[bytes] = []
        for at in range(0, 90, 6):
            chain += add_all(store, history[at : at + 6])
            collect(store, set(chain), chains=[chain])
        grown = store.disk_bytes()
        assert history == [store.read(oid, BLOB) for oid in chain]
    assert max(depths(tmp_path / "store").values()) <= 50
    with opened(tmp_path / "once") as store:
        chain = add_all(store, history)
        collect(store, set(chain), chains=[chain])
        assert grown < 1.3 * store.disk_bytes()


@pytest.mark.parametrize("dead", [slice(0, 20), slice(-20, None), slice(10, 50), slice(None, None, 2)])
def test_deltas_whose_base_is_dead_get_another(tmp_path, dead):
    """With and without being told the chain again."""
    history = versions(60, lines=200)
    for told in (True, False):
        with opened(tmp_path / f"store{told}") as store:
            chain = add_all(store, history)
            collect(store, set(chain), chains=[chain])
            gone = set(chain[dead])
            left = [(oid, data) for oid, data in zip(chain, history, strict=True) if oid not in gone]
            collect(store, {oid for oid, _ in left}, chains=[chain] if told else ())
            assert [data for _, data in left] == [store.read(oid, BLOB) for oid, _ in left]
            assert not any(store.has(oid) for oid in gone)
            assert store.disk_bytes() < 4 * len(history[0])
            assert verify_packs(store) == []


def test_trees_are_deltas_too(tmp_path):
    chance = random.Random(4)
    entries = [b"100644 f%03d\0" % n + chance.randbytes(20) for n in range(300)]
    trees = []
    for _ in range(40):
        entries[chance.randrange(300)] = b"100644 f%03d\0" % 999 + chance.randbytes(20)
        trees.append(b"".join(entries))
    with opened(tmp_path / "store") as store:
        with store.writer() as writer:
            chain = [writer.add(TREE, tree) for tree in trees]
            writer.finish()
        collect(store, set(chain), chains=[chain])
        assert trees == [store.read(oid, TREE) for oid in chain]
        assert store.disk_bytes() < 3 * len(trees[0])


def test_what_a_save_deflated_in_a_hurry_is_deflated_well_once(tmp_path, monkeypatch):
    """And what was packed before is copied as it stands."""
    chance, packed = random.Random(5), []
    monkeypatch.setattr(repack, "compress", lambda data, level: packed.append(data) or compress(data, level))
    files = [text(120, chance) for _ in range(4)]
    with opened(tmp_path / "store") as store:
        oids = [oid for data in files[:2] for oid in add_all(store, [data])]
        hurried = store.disk_bytes()
        collect(store, set(oids))
        assert store.disk_bytes() < 0.95 * hurried
        assert set(files[:2]) <= set(packed)
        packed.clear()
        oids += add_all(store, files[2:])
        collect(store, set(oids))
        assert set(files[2:]) == set(packed)
        assert files == [store.read(oid, BLOB) for oid in oids]
    git("fsck", "--strict", "--full", cwd=tmp_path / "store")


def test_a_pack_with_very_many_objects_stands_alone_and_is_deflated_well_once(tmp_path, monkeypatch):
    """So that no more than a pack's worth of rows is in memory, whatever the number of files."""
    monkeypatch.setattr(collecting, "MOST_ROWS", 40)
    monkeypatch.setattr(collecting, "_SETTLED_COUNT", 20)
    chance = random.Random(6)
    files = [text(20, chance) for _ in range(60)]
    with opened(tmp_path / "store") as store:
        oids = [oid for at in (0, 30) for oid in add_all(store, files[at : at + 30])]
        hurried = store.disk_bytes()
        collect(store, set(oids))
        assert sorted(pack.index.count for pack in store.packs())[-2:] == [30, 30]
        assert store.disk_bytes() < 0.95 * hurried
        before = {path.name: path.stat().st_ino for path in pack_files(tmp_path / "store")}
        assert collect(store, set(oids)) == 0
        assert before == {path.name: path.stat().st_ino for path in pack_files(tmp_path / "store")}
        assert files == [store.read(oid, BLOB) for oid in oids]
        assert verify_packs(store) == []


def test_chains_may_be_nonsense(tmp_path):
    """Unknown, repeated, dead, alone, of two kinds, too unlike: the objects stay right."""
    with opened(tmp_path / "store") as store:
        history = versions(10)
        oids = add_all(store, [*history, *[noise(n, 3000) for n in range(4)]])
        with store.writer() as writer:
            tree = writer.add(TREE, b"100644 a\0" + bytes(20))
            writer.finish()
        live = {*oids, tree}
        nonsense = [oids[:5], oids[2:8], [oids[9], tree, oids[9], b"?" * 20], oids[10:], [], [oids[0]]]
        for _ in range(3):
            collect(store, live, chains=nonsense)
            assert [*history, *[noise(n, 3000) for n in range(4)]] == [store.read(oid, BLOB) for oid in oids]
            assert verify_packs(store) == []


def small_limits(monkeypatch) -> None:
    for module in (pack_writer, repack, collecting):
        monkeypatch.setattr(module, "PACK_LIMIT", 64 << 10)
    monkeypatch.setattr(repack, "_LARGE_RECORD", 32 << 10)
    monkeypatch.setattr(collecting, "_SETTLED_SIZE", 32 << 10)


class Peak(syscalls.Calls):
    """The operating system, with a note of the most that the store ever took."""

    def __init__(self, path) -> None:
        self.path, self.most = path, 0

    def unlink(self, *args, **kwargs):
        self.most = max(self.most, sum(p.stat().st_size for p in self.path.rglob("*") if p.is_file()))
        os.unlink(*args, **kwargs)


def test_little_room_is_needed_at_a_time(tmp_path, monkeypatch):
    """One new pack and one object at the most, however much there is; large packs without dead objects stay."""
    small_limits(monkeypatch)
    with opened(tmp_path / "store") as store:
        oids = [oid for n in range(30) for oid in add_all(store, [noise(20 * n + m, 1000) for m in range(20)])]
        big = add_all(store, [noise(9999, 50_000)])
        kept = [oid for number, oid in enumerate(oids) if number % 3]
        settled = max(pack_files(tmp_path / "store"), key=lambda p: p.stat().st_size)
        before = sum(p.stat().st_size for p in (tmp_path / "store").rglob("*") if p.is_file())
        peak = Peak(tmp_path / "store")
        with syscalls.using(peak):
            freed = collect(store, {*kept, *big})
        assert freed > 150_000
        assert peak.most - before < (64 << 10) + 4000
        assert settled.exists()
        assert all(path.stat().st_size <= 64 << 10 for path in pack_files(tmp_path / "store"))
        assert len(pack_files(tmp_path / "store")) < 12
        assert all(store.readable(oid) for oid in [*kept, *big])


def test_a_large_object_is_copied_alone(tmp_path, monkeypatch):
    small_limits(monkeypatch)
    with opened(tmp_path / "store") as store:
        large, small, dead = add_all(store, [noise(1, 40_000), b"small", b"dead"])
        collect(store, {large, small})
        assert noise(1, 40_000) == store.read(large, BLOB)
        assert store.read(small, BLOB) == b"small"
        assert not store.has(dead)
        assert verify_packs(store) == []


def test_a_full_pack_starts_a_new_one_without_losing_a_base(tmp_path, monkeypatch):
    monkeypatch.setattr(repack, "PACK_LIMIT", 4500)
    history = versions(60, lines=100)
    with opened(tmp_path / "store") as store:
        chain = add_all(store, history)
        collect(store, set(chain), chains=[chain])
        assert history == [store.read(oid, BLOB) for oid in chain]
        assert verify_packs(store) == []
        assert len(pack_files(tmp_path / "store")) > 1


class DiesAt(syscalls.Calls):
    """The operating system of a process that is killed before its n-th changing call, and changes nothing after it."""

    class Killed(BaseException):
        """Not an error that anybody handles."""

    def __init__(self, number: int) -> None:
        self.left = number

    def _tick(self):
        self.left -= 1
        if self.left <= 0:
            raise self.Killed

    def write(self, *args):
        self._tick()
        return os.write(*args)

    def rename(self, *args, **kwargs):
        self._tick()
        os.rename(*args, **kwargs)

    def unlink(self, *args, **kwargs):
        self._tick()
        os.unlink(*args, **kwargs)

    def fsync(self, fd):
        self._tick()
        os.fsync(fd)


@pytest.mark.parametrize("action", ["collect", "merge"])
def test_killed_at_any_step_every_live_object_is_still_there(tmp_path, monkeypatch, action):
    """And the next collection removes whatever the interruption left."""
    from mulligan.store.trash import sweep_temporaries

    small_limits(monkeypatch)
    history = versions(4, lines=60)
    with opened(tmp_path / "before") as store:
        chain = [add_all(store, [version, b"dead %d" % n])[0] for n, version in enumerate(history)]
    for number in range(1, 400):
        path = tmp_path / f"store{number}"
        shutil.copytree(tmp_path / "before", path)
        with opened(path) as store:
            try:
                with syscalls.using(DiesAt(number)):
                    if action == "collect":
                        collect(store, set(chain), chains=[chain])
                    else:
                        merge_small(store, at_least=3)
            except DiesAt.Killed:
                killed = True
            else:
                killed = False
        with opened(path) as store:
            assert history == [store.read(oid, BLOB) for oid in chain], number
            sweep_temporaries(store.directory)
            assert os.listdir(path / "tmp") == [], number
            assert verify_packs(store) == [], number
            collect(store, set(chain), chains=[chain])
            assert len(pack_files(path)) == 1, number
            assert history == [store.read(oid, BLOB) for oid in chain], number
        if not killed:
            break
    else:
        pytest.fail("it never succeeded")
    assert number > 15


def test_a_pack_with_a_damaged_live_object_is_left_alone_and_the_rest_is_done(tmp_path):
    with opened(tmp_path / "store") as store:
        good = add_all(store, [noise(1), noise(2)])
        bad = add_all(store, [noise(3), noise(4), noise(5)])
        more = add_all(store, [noise(6), noise(7)])
        path = max(pack_files(tmp_path / "store"), key=lambda p: p.stat().st_size)
        data = bytearray(path.read_bytes())
        data[100] ^= 1
        path.write_bytes(data)
        collect(store, {good[0], *bad, more[0]})
        assert path.exists()
        assert sum(store.readable(oid) for oid in bad) == 2
        assert store.readable(good[0])
        assert store.readable(more[0])
        assert not store.has(good[1])


def test_a_live_delta_whose_dead_base_is_damaged_stays_where_it_is(tmp_path):
    """Nothing can be made of it here and now, and whoever repairs the pack needs all of it."""
    history = versions(6)
    with opened(tmp_path / "store") as store:
        chain = add_all(store, history)
        collect(store, set(chain), chains=[chain])
        (path,) = pack_files(tmp_path / "store")
        data = bytearray(path.read_bytes())
        data[200] ^= 1
        path.write_bytes(data)
        store.close()
        assert not store.readable(chain[-1])
        collect(store, set(chain[:-1]), chains=[chain])
        assert path.exists()


def test_of_two_copies_the_good_one_is_kept(tmp_path):
    oid = object_id(BLOB, noise(1))
    with opened(tmp_path / "store") as store:
        for extra in (noise(2, 3000), noise(3, 10)):
            with store.writer(anew={oid}) as writer:
                writer.add(BLOB, noise(1))
                writer.add(BLOB, extra)
                writer.finish()
        path = max(pack_files(tmp_path / "store"), key=lambda p: p.stat().st_size)
        data = bytearray(path.read_bytes())
        data[100] ^= 1
        path.write_bytes(data)
        live = {oid, object_id(BLOB, noise(2, 3000)), object_id(BLOB, noise(3, 10))}
        collect(store, live)
        assert all(store.readable(one) for one in live)
        assert verify_packs(store) == []
        assert len(pack_files(tmp_path / "store")) == 1


def test_progress_ends_at_the_total(tmp_path):
    with opened(tmp_path / "store") as store:
        live = {add_all(store, [noise(n)])[0] for n in range(5)}
        seen: list[tuple[int, int]] = []
        collect(store, live, progress=lambda done, total: seen.append((done, total)))
        assert seen[-1][0] == seen[-1][1] > 0


def test_a_pack_is_rewritten_for_its_deltas_only_if_they_pay(tmp_path):
    with opened(tmp_path / "store") as store:
        history = versions(20)
        chain = add_all(store, history)
        collect(store, set(chain))
        assert len(pack_files(tmp_path / "store")) == 1
        before = store.disk_bytes()
        assert collect(store, set(chain), chains=[chain]) > before // 2
        random_chain = add_all(store, [noise(n, 5000) for n in range(20)])
        collect(store, {*chain, *random_chain})
        names = pack_files(tmp_path / "store")
        assert collect(store, {*chain, *random_chain}, chains=[random_chain]) == 0
        assert names == pack_files(tmp_path / "store")


# -- merging ------------------------------------------------------------------------------------


def test_many_small_packs_become_one(tmp_path):
    with opened(tmp_path / "store") as store:
        oids = [add_all(store, [noise(n), b"%d" % n])[0] for n in range(33)]
        chain = add_all(store, versions(5))
        collect(store, {*oids[:2], *chain}, chains=[chain])
        for n in range(40):
            oids += add_all(store, [noise(100 + n)])
        before = len(pack_files(tmp_path / "store"))
        assert merge_small(store)
        assert not merge_small(store)
        assert before - 40 == len(pack_files(tmp_path / "store"))
        assert [noise(100 + n) for n in range(40)] == [store.read(oid, BLOB) for oid in oids[33:]]
        assert versions(5) == [store.read(oid, BLOB) for oid in chain]
        assert verify_packs(store) == []


def test_merging_leaves_large_packs_and_few_packs_alone(tmp_path):
    with opened(tmp_path / "store") as store:
        for n in range(10):
            add_all(store, [noise(n)])
        assert not merge_small(store)
        assert not merge_small(store, limit_bytes=2000, at_least=5)
        add_all(store, [noise(99, 100_000)])
        large = max(pack_files(tmp_path / "store"), key=lambda p: p.stat().st_size)
        assert merge_small(store, at_least=5)
        assert large.exists()
        assert len(pack_files(tmp_path / "store")) == 2


def test_merging_passes_over_damage_and_duplicates(tmp_path):
    twin = object_id(BLOB, b"twin")
    with opened(tmp_path / "store") as store:
        for n in range(12):
            with store.writer(anew={twin}) as writer:
                writer.add(BLOB, noise(n))
                if n in {3, 4}:
                    writer.add(BLOB, b"twin")
                writer.finish()
        damaged = next(p for p in pack_files(tmp_path / "store") if noise(7)[:50] in p.read_bytes())
        data = bytearray(damaged.read_bytes())
        data[-30] ^= 1
        damaged.write_bytes(data)
        assert merge_small(store, at_least=8)
        assert damaged.exists()
        assert len(pack_files(tmp_path / "store")) == 3
        assert store.read(twin, BLOB) == b"twin"
