"""Objects by id: verified, found after others changed the packs, without leaks."""

from __future__ import annotations

import os
import random
import time

import pytest

from mulligan.errors import StoreDamaged
from mulligan.gitformat.pack import PackIndex
from mulligan.model.objects import BLOB, COMMIT, MODE_FILE, TREE, TreeEntry, encode_tree, object_id
from mulligan.store import objects
from mulligan.store.gc import collect, merge_small
from mulligan.store.objects import ObjectStore
from stores import add_all, add_commit, open_descriptors, opened, pack_files


def test_an_object_of_another_kind_is_refused_by_name(tmp_path):
    with opened(tmp_path / "store") as store:
        (oid,) = add_all(store, [b"x"])
        with pytest.raises(StoreDamaged, match=oid.hex()):
            store.read(oid, COMMIT)


def test_a_missing_object_is_named_everywhere(tmp_path):
    missing = b"\5" * 20
    with opened(tmp_path / "store") as store:
        assert not store.has(missing)
        for ask in (
            lambda: store.read(missing, BLOB),
            lambda: store.kind_and_size(missing),
            lambda: store.read_up_to(missing, 100),
            lambda: store.packed_size(missing),
            lambda: list(store.stream(missing)),
            lambda: store.read_tree(missing),
        ):
            with pytest.raises(StoreDamaged, match="05050505"):
                ask()
        assert not store.readable(missing)


def test_kind_and_size_are_known_without_reading(tmp_path):
    with opened(tmp_path / "store") as store, store.writer() as writer:
        blob, tree = writer.add(BLOB, b"x" * 70_000), writer.add(TREE, b"")
        writer.finish()
        assert store.kind_and_size(blob) == (BLOB, 70_000)
        assert store.kind_and_size(tree) == (TREE, 0)


def test_a_blob_up_to_a_size_is_read_and_of_a_larger_one_the_size_is_told(tmp_path):
    small, long = b"x" * 100, random.Random(2).randbytes(70_000)
    with opened(tmp_path / "store") as store:
        first, second = add_all(store, [small, long])
        assert store.read_up_to(first, 100) == small
        assert store.read_up_to(first, 99) == 100
        assert store.read_up_to(second, 100) == 70_000
        assert store.read_up_to(second, 70_000) == long


def test_what_is_read_up_to_a_size_is_a_blob(tmp_path):
    with opened(tmp_path / "store") as store, store.writer() as writer:
        tree = writer.add(TREE, b"")
        writer.finish()
        with pytest.raises(StoreDamaged, match=tree.hex()):
            store.read_up_to(tree, 100)


def test_trees_are_parsed_and_kept(tmp_path):
    entry = TreeEntry(b"a", MODE_FILE, b"\1" * 20)
    with opened(tmp_path / "store") as store, store.writer() as writer:
        oid = writer.add(TREE, encode_tree([entry]))
        writer.finish()
        assert [entry] == store.read_tree(oid)
        assert store.read_tree(oid) is store.read_tree(oid)


def test_a_large_object_is_streamed_in_pieces(tmp_path):
    data = random.Random(1).randbytes(1 << 20) * 3 + bytes(5 << 20)
    with opened(tmp_path / "store") as store:
        with store.writer() as writer:
            oid = writer.add_stream(len(data), [data[at : at + 100_000] for at in range(0, len(data), 100_000)])
            writer.finish()
        parts = list(store.stream(oid))
        assert len(parts) > 8
        assert data == b"".join(parts) == store.read(oid, BLOB)


def test_a_stream_that_ends_wrong_says_so_at_the_end(tmp_path):
    data = random.Random(1).randbytes(2 << 20)
    with opened(tmp_path / "store") as store:
        with store.writer() as writer:
            oid = writer.add_stream(len(data), [data])
            writer.finish()
        path = max(pack_files(tmp_path / "store"), key=lambda p: p.stat().st_size)
        with path.open("r+b") as file:
            file.seek(1_900_000)
            file.write(b"!")
        with pytest.raises(StoreDamaged, match=oid.hex()):
            list(store.stream(oid))


def test_a_damaged_copy_is_passed_over_for_a_good_one(tmp_path):
    with opened(tmp_path / "store") as store:
        for more in (b"1", b"2"):
            with store.writer(anew={object_id(BLOB, b"shared" * 99)}) as writer:
                writer.add(BLOB, b"shared" * 99)
                writer.add(BLOB, more)
                writer.finish()
        oid = object_id(BLOB, b"shared" * 99)
        assert len(store.locations(oid)) == 2
        for path in pack_files(tmp_path / "store"):
            whole = path.read_bytes()
            path.write_bytes(whole[:13] + b"\0\0\0\0" + whole[17:])
            assert b"shared" * 99 == store.read(oid, BLOB) == b"".join(store.stream(oid))
            assert store.readable(oid)
            path.write_bytes(whole)


def test_packs_that_another_process_adds_or_removes_are_noticed(tmp_path):
    with opened(tmp_path / "store") as mine, opened(tmp_path / "store") as other:
        oids = []
        for number in range(40):
            oids += add_all(other, [b"%d" % number])
            assert mine.has(oids[-1])
        assert mine.read(oids[0], BLOB) == b"0"
        collect(other, set(oids))
        assert len(pack_files(tmp_path / "store")) == 1
        assert [b"%d" % number for number in range(40)] == [mine.read(oid, BLOB) for oid in oids]
        collect(other, set(oids[:3]))
        mine.refresh()
        assert not mine.has(oids[20])


def test_a_settled_directory_is_not_listed_again_for_a_miss(tmp_path, monkeypatch):
    with opened(tmp_path / "store") as store:
        os.utime(tmp_path / "store/objects/pack", (1, 1))
        store.refresh()
        monkeypatch.setattr(ObjectStore, "refresh", lambda self: pytest.fail("listed again"))
        assert not store.has(b"\1" * 20)


def test_a_directory_that_was_replaced_is_found_again(tmp_path):
    with opened(tmp_path / "store") as store:
        (oid,) = add_all(store, [b"moved"])
        os.rename(tmp_path / "store/objects/pack", tmp_path / "aside")
        with pytest.raises(StoreDamaged, match="objects/pack"):
            store.refresh()
        os.rename(tmp_path / "aside", tmp_path / "store/objects/pack")
        assert store.read(oid, BLOB) == b"moved"


def test_few_descriptors_are_held_and_all_are_given_back(tmp_path):
    before = open_descriptors()
    with opened(tmp_path / "store") as store:
        oids = [add_all(store, [b"%d" % number])[0] for number in range(60)]
        for oid in oids:
            store.read(oid, BLOB)
        assert open_descriptors() < before + 25
        abandoned = store.stream(oids[0])
        next(abandoned)
        abandoned.close()
    assert before == open_descriptors()


def test_disk_bytes_are_what_the_files_take(tmp_path):
    with opened(tmp_path / "store") as store:
        (oid,) = add_all(store, [random.Random(1).randbytes(5000)])
        files = sum(path.stat().st_size for path in (tmp_path / "store/objects/pack").iterdir())
        assert files == store.disk_bytes()
        assert 5000 < store.packed_size(oid) < 5100


def test_an_index_that_was_made_anew_is_read_again(tmp_path):
    with opened(tmp_path / "store") as store:
        (oid,) = add_all(store, [b"x" * 50])
        path = next(p for p in pack_files(tmp_path / "store", ".idx") if oid in p.read_bytes())
        good = path.read_bytes()
        path.write_bytes(b"nonsense")
        store.refresh()
        assert not store.has(oid)
        path.write_bytes(good)
        os.utime(path, ns=(1, time.time_ns()))
        assert store.read(oid, BLOB) == b"x" * 50


def test_large_and_small_packs_are_searched(tmp_path):
    blobs = [b"%d" % number for number in range(2000)]
    with opened(tmp_path / "store") as store:
        many = add_all(store, blobs)
        few = add_all(store, [b"a", b"b"])
        commit = add_commit(store, {"f": b"x"})
        assert all(store.has(oid) for oid in [*many, *few, commit])
        assert blobs == [store.read(oid, BLOB) for oid in many]
        assert not store.has(b"\0" * 20)


def test_what_was_just_written_is_found_without_asking_each_pack(tmp_path, monkeypatch):
    """Else each save of many files makes the next one slower: it asks of every object in every such pack."""
    with opened(tmp_path / "store") as store:
        packs = [add_all(store, [b"%d %d" % (pack, number) for number in range(600)]) for pack in range(3)]
        with monkeypatch.context() as patch:
            patch.setattr(PackIndex, "find", lambda *_: pytest.fail("a pack was asked"))
            assert all(store.has(oid) for pack in packs for oid in pack)
        assert store.read(packs[0][5], BLOB) == b"0 5"
        assert [len(store.locations(pack[0])) for pack in packs] == [1, 1, 1]
        store.close()
        assert all(store.has(oid) for pack in packs for oid in pack)


def test_of_the_packs_that_were_written_here_no_more_than_some_are_held_in_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(objects, "_MOST_IDS", 1300)
    with opened(tmp_path / "store") as store:
        packs = [add_all(store, [b"%d %d" % (pack, number) for number in range(600)]) for pack in range(4)]
        assert 1200 <= len(store._small) <= 1300
        assert all(store.has(oid) for pack in packs for oid in pack)
        with store.writer(anew={packs[0][0]}) as writer:
            writer.add(BLOB, b"0 0")
            writer.finish()
        assert len(store.locations(packs[0][0])) == 2
        assert len(store.locations(packs[3][0])) == 1


def test_merging_under_a_reader_is_harmless(tmp_path):
    with opened(tmp_path / "store") as mine, opened(tmp_path / "store") as other:
        oids = [add_all(other, [b"%d" % number])[0] for number in range(40)]
        assert mine.has(oids[0])
        stream = mine.stream(oids[5])
        assert merge_small(other)
        assert b"".join(stream) == b"5"
        assert mine.read(oids[7], BLOB) == b"7"


def test_objects_are_found_in_small_packs_and_in_large_ones(tmp_path, monkeypatch):
    """None is passed over, and both copies of an object are known."""
    monkeypatch.setattr("mulligan.store.objects._SMALL", 4)
    with opened(tmp_path / "store") as store:
        packs = [[b"%d of %d" % (number, size) for number in range(size)] for size in (2, 25, 28, 40, 3)]
        oids = [oid for contents in packs for oid in add_all(store, contents)]
        with store.writer(anew=set(oids)) as writer:
            twice = [writer.add(BLOB, data) for data in packs[1][:10]]
            writer.finish()
        for oid, data in zip(oids, (data for contents in packs for data in contents), strict=True):
            assert store.has(oid) and store.read(oid, BLOB) == data
            assert len(store.locations(oid)) == 1 + (oid in twice)
            assert not store.has(object_id(BLOB, data + b"?"))


@pytest.mark.parametrize("place", ["_enter", "_stamp"])
def test_a_look_at_the_packs_that_was_interrupted_hides_nothing(tmp_path, monkeypatch, place):
    with opened(tmp_path / "s") as first:
        with first.writer() as writer:
            oid = writer.add(BLOB, b"there")
            writer.finish()
        store = ObjectStore(first.directory)

        def interrupted(*_: object) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setattr(ObjectStore, place, interrupted)
            with pytest.raises(KeyboardInterrupt):
                store.refresh()
        assert store.read(oid, BLOB) == b"there"
        store.close()
