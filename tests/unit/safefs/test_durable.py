"""What was acknowledged is on the disk; what the disk did not confirm is not acknowledged."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from faults import Counting, FailsAlways, FailsAt
from mulligan.errors import DurabilityLost
from mulligan.safefs import syscalls
from mulligan.safefs.directory import Directory
from mulligan.safefs.durable import make_private, sync, sync_filesystem, write_durably


@pytest.fixture
def here(tmp_path):
    with Directory.open(tmp_path) as directory:
        yield directory


def test_the_order_is_bytes_file_name_directory(here, tmp_path):
    with syscalls.using(Counting()) as calls:
        write_durably(here, b"name", [b"a", b"b"], temporary=b"on its way", what="it")
    assert [name for name in calls.seen if name in {"write", "fsync", "rename"}] == [
        "write",
        "write",
        "fsync",
        "rename",
        "fsync",
    ]
    assert (tmp_path / "name").read_bytes() == b"ab"


def test_a_failing_call_leaves_the_old_file_or_the_new_and_nothing_else(here, tmp_path):
    number = 0
    while True:
        number += 1
        (tmp_path / "name").write_bytes(b"old")
        lie = FailsAt(number, errno.EIO)
        try:
            with syscalls.using(lie):
                write_durably(here, b"name", [b"new"], temporary=b"on its way", what="it")
            break
        except (OSError, DurabilityLost):
            assert (tmp_path / "name").read_bytes() in (b"old", b"new")
            assert os.listdir(tmp_path) == ["name"]
    assert number > 4


@pytest.mark.parametrize("call", [sync, lambda fd, what: sync_filesystem(Directory(fd), what)])
def test_a_refused_sync_is_final(here, call):
    with pytest.raises(DurabilityLost) as lost, syscalls.using(FailsAlways(errno.EIO, "fsync", "syncfs")) as calls:
        call(here.fd, "it")
    assert lost.value.exit_code == 91
    assert calls.count == 1


def test_directories_of_the_store_are_private_and_durable(tmp_path):
    before = os.umask(0)
    try:
        with syscalls.using(Counting()) as calls:
            make_private(os.fspath(tmp_path / "a/b/c"))
    finally:
        os.umask(before)
    assert all((tmp_path / path).stat().st_mode & 0o7777 == 0o700 for path in ("a", "a/b", "a/b/c"))
    assert calls.seen.count("fsync") == 3
    make_private(os.fspath(tmp_path / "a/b/c"))
    with pytest.raises(DurabilityLost), syscalls.using(FailsAlways(errno.EIO, "fsync")):
        make_private(os.fspath(tmp_path / "d"))


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="no two kinds of file systems are sure to be there")
def test_what_is_known_of_one_disk_is_not_taken_for_another_with_the_same_number(tmp_path, monkeypatch):
    # As an overlay has the number of the disk that it lies on.
    monkeypatch.setattr(os, "fstatvfs", lambda _: SimpleNamespace(f_fsid=7))
    kinds = []
    for calls in (one := syscalls.Calls(), one, syscalls.Calls()):
        for place in (tmp_path, "/proc"):
            fd = os.open(place, os.O_RDONLY)
            kinds.append(calls.kind_of_disk(fd))
            os.close(fd)
    assert kinds[0] != kinds[1] == 0x9FA0
    assert kinds == kinds[:2] * 3
