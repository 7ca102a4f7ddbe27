"""New packs: whole or absent, durable in the right order, nothing left behind."""

from __future__ import annotations

import errno
import os
import random

import pytest

from mulligan.errors import DurabilityLost
from mulligan.model.objects import BLOB, TREE, object_id
from mulligan.safefs import syscalls
from mulligan.store import pack_writer
from stores import add_all, opened, pack_files
from tools import git


class Recording(syscalls.Calls):
    """The operating system, with a note of every call that matters for durability."""

    def __init__(self) -> None:
        self.made: list[tuple[str, str]] = []

    def fsync(self, fd):
        self.made.append(("fsync", os.path.basename(os.readlink(f"/proc/self/fd/{fd}"))))
        os.fsync(fd)

    def rename(self, old, new, *, src_dir_fd, dst_dir_fd):
        self.made.append(("rename", os.fsdecode(new)))
        os.rename(old, new, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)


class FailsAt(syscalls.Calls):
    """The operating system, whose n-th changing call fails."""

    def __init__(self, number: int, code: int) -> None:
        self.left, self.code = number, code

    def _tick(self):
        self.left -= 1
        if self.left == 0:
            raise OSError(self.code, os.strerror(self.code))

    def open(self, *args, **kwargs):
        self._tick()
        return os.open(*args, **kwargs)

    def write(self, *args):
        self._tick()
        return os.write(*args)

    def fsync(self, fd):
        self._tick()
        os.fsync(fd)

    def rename(self, *args, **kwargs):
        self._tick()
        os.rename(*args, **kwargs)


def test_what_was_added_is_there_after_finish_and_not_before(tmp_path):
    with opened(tmp_path / "store") as store, opened(tmp_path / "store") as other:
        with store.writer() as writer:
            oid = writer.add(BLOB, b"hello")
            assert object_id(BLOB, b"hello") == oid
            assert not store.has(oid)
            names = writer.finish()
        assert len(names) == 1
        assert store.has(oid)
        assert b"hello" == store.read(oid, BLOB) == other.read(oid, BLOB)


def test_the_same_object_is_stored_once(tmp_path):
    """Within one writer, against the store, and whichever way it comes."""
    with opened(tmp_path / "store") as store:
        add_all(store, [b"twice", b"twice"])
        with store.writer() as writer:
            writer.add(BLOB, b"twice")
            writer.add_hashed(object_id(BLOB, b"twice"), BLOB, b"twice")
            writer.add_stream(5, [b"tw", b"ice"])
            assert writer.pending_bytes == 0
            assert writer.finish() == []
        with store.writer() as writer:
            writer.add_hashed(object_id(TREE, b""), TREE, b"")
            writer.add(TREE, b"")
            writer.finish()
        assert store.read(object_id(TREE, b""), TREE) == b""
    assert len(pack_files(tmp_path / "store")) == 3


def test_an_object_that_is_damaged_can_be_written_anew(tmp_path):
    with opened(tmp_path / "store") as store:
        (oid,) = add_all(store, [b"precious" * 30])
        broken = min(pack_files(tmp_path / "store"), key=lambda path: path.stat().st_size)
        data = bytearray(broken.read_bytes())
        data[20] ^= 0xFF
        broken.write_bytes(data)
        store.close()
        with store.writer(anew={oid}) as writer:
            writer.add(BLOB, b"precious" * 30)
            assert len(writer.finish()) == 1
        assert store.read(oid, BLOB) == b"precious" * 30


def test_an_aborted_writer_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(pack_writer, "PACK_LIMIT", 4096)
    with opened(tmp_path / "store") as store:
        with store.writer() as writer:
            for number in range(10):
                writer.add(BLOB, random.Random(number).randbytes(1500))
            writer.add_stream(2 << 20, [bytes(1 << 20)] * 2)
            assert list((tmp_path / "store/tmp").iterdir())
            assert writer.pending_bytes > 10 * 1500
        assert list((tmp_path / "store/tmp").iterdir()) == []
        assert len(pack_files(tmp_path / "store")) == 1
        assert not store.has(object_id(BLOB, random.Random(0).randbytes(1500)))


def test_many_objects_become_packs_of_bounded_size(tmp_path, monkeypatch):
    monkeypatch.setattr(pack_writer, "PACK_LIMIT", 20_000)
    blobs = [random.Random(number).randbytes(700) for number in range(100)]
    with opened(tmp_path / "store") as store:
        oids = add_all(store, blobs)
        assert len(pack_files(tmp_path / "store")) > 3
        assert all(path.stat().st_size <= 20_000 for path in pack_files(tmp_path / "store"))
        assert blobs == [store.read(oid, BLOB) for oid in oids]


def test_no_pack_has_more_objects_than_its_limit(tmp_path, monkeypatch):
    """A million tiny ones would be held in memory until they fill a pack."""
    monkeypatch.setattr(pack_writer, "MOST_ROWS", 40)
    with opened(tmp_path / "store") as store:
        before = {pack.name for pack in store.packs()}
        oids = add_all(store, [b"%d" % number for number in range(100)])
        assert sorted(pack.index.count for pack in store.packs() if pack.name not in before) == [20, 40, 40]
        assert [b"%d" % number for number in range(100)] == [store.read(oid, BLOB) for oid in oids]


def test_what_is_pending_is_what_the_disk_will_take(tmp_path):
    with opened(tmp_path / "store") as store:
        before = store.disk_bytes()
        with store.writer() as writer:
            assert writer.pending_bytes == 0
            for number in range(50):
                writer.add(BLOB, random.Random(number).randbytes(300))
            writer.add_stream(3 << 20, [random.Random(1).randbytes(1 << 20)] * 3)
            pending = writer.pending_bytes
            writer.finish()
            assert writer.pending_bytes == 0
        assert before + pending == store.disk_bytes()


@pytest.mark.parametrize("size", [10, 3 << 20])
def test_a_stream_of_another_size_is_refused_and_leaves_nothing(tmp_path, size):
    with opened(tmp_path / "store") as store, store.writer() as writer:
        for wrong in ([b"x" * (size - 1)], [b"x" * size, b"y"], []):
            with pytest.raises(ValueError):
                writer.add_stream(size, wrong)
        assert list((tmp_path / "store/tmp").iterdir()) == []
        assert writer.finish() == []


def test_a_stream_that_fails_leaves_nothing_and_the_writer_goes_on(tmp_path):
    def chunks():
        yield bytes(1 << 20)
        raise OSError(errno.EIO, "gone")

    with opened(tmp_path / "store") as store, store.writer() as writer:
        with pytest.raises(OSError, match="gone"):
            writer.add_stream(2 << 20, chunks())
        oid = writer.add_stream(3 << 20, [b"z" * (3 << 20)])
        writer.finish()
        assert object_id(BLOB, b"z" * (3 << 20)) == oid
        assert b"".join(store.stream(oid)) == b"z" * (3 << 20)


def test_packs_are_synced_before_they_are_named_and_the_directory_last(tmp_path):
    with opened(tmp_path / "store") as store:
        store.refresh()
        calls = Recording()
        with syscalls.using(calls):
            add_all(store, [b"one", b"two"])
    kinds = [(what, name.rpartition(".")[2]) for what, name in calls.made]
    assert kinds[:4] == [("fsync", "pack"), ("fsync", "idx"), ("rename", "pack"), ("rename", "idx")]
    assert calls.made[4:] == [("fsync", "pack")]


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
def test_whichever_call_fails_nothing_is_acknowledged_and_nothing_remains(tmp_path, code):
    """The n-th call fails, for every n until none does; earlier objects stay readable and no descriptor leaks."""
    with opened(tmp_path / "store") as store:
        (early,) = add_all(store, [b"early"])
        before = sorted(os.listdir(tmp_path / "store/objects/pack"))
        for number in range(1, 60):
            held = len(os.listdir("/proc/self/fd"))
            try:
                with syscalls.using(FailsAt(number, code)), store.writer() as writer:
                    writer.add(BLOB, b"late")
                    writer.add_stream(2 << 20, [bytes(2 << 20)])
                    writer.finish()
            except (OSError, DurabilityLost):
                assert before == sorted(os.listdir(tmp_path / "store/objects/pack")), number
                assert os.listdir(tmp_path / "store/tmp") == [], number
                assert held == len(os.listdir("/proc/self/fd")), number
                assert store.read(early, BLOB) == b"early"
            else:
                break
        else:
            pytest.fail("it never succeeded")
        assert number > 10
        assert store.read(object_id(BLOB, b"late"), BLOB) == b"late"


def test_git_indexes_what_we_write_to_the_same_index(tmp_path):
    """`git index-pack` makes, byte for byte, the index that we wrote."""
    with opened(tmp_path / "store") as store:
        add_all(store, [random.Random(number).randbytes(number * 40) for number in range(40)])
    for path in pack_files(tmp_path / "store"):
        git("index-pack", "-o", str(tmp_path / "theirs.idx"), str(path), cwd=tmp_path)
        assert (tmp_path / "theirs.idx").read_bytes() == path.with_suffix(".idx").read_bytes()
        (tmp_path / "theirs.idx").unlink()
