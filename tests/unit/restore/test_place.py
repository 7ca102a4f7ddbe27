"""What stands at a path after a restore put something there."""

from __future__ import annotations

import os
import socket

import pytest

from mulligan.model.objects import BLOB, MODE_FILE, object_id
from mulligan.model.plan import Node
from mulligan.restore.place import Handles, reads_back
from mulligan.safefs import syscalls
from mulligan.safefs.directory import Directory

FILE = Node(MODE_FILE, object_id(BLOB, b"1"), 0o644)


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with Directory.open(str(tmp_path)) as directory:
        yield directory


def test_what_was_put_in_place_reads_back(place, tmp_path):
    (tmp_path / "a").write_text("1")
    (tmp_path / "a").chmod(0o644)
    assert reads_back(place, b"a", FILE, (tmp_path / "a").stat().st_ino)


@pytest.mark.parametrize("kind", ["socket", "fifo", "directory", "link", "nothing"])
def test_whatever_was_put_in_its_place_is_no_error_and_not_the_file(place, tmp_path, kind):
    if kind == "socket":
        with socket.socket(socket.AF_UNIX) as wire:
            wire.bind("a")
    elif kind == "fifo":
        os.mkfifo("a")
    elif kind == "directory":
        os.mkdir("a")
    elif kind == "link":
        os.symlink("/etc/hostname", "a")
    inode = os.lstat("a").st_ino if kind != "nothing" else 0
    assert not reads_back(place, b"a", FILE, inode)


@pytest.fixture
def opens(monkeypatch) -> list[bytes]:
    """The names of the directories that are opened."""
    found: list[bytes] = []

    class Watched(syscalls.Calls):
        def open(self, path, flags, mode=0o777, *, dir_fd=None):
            found.append(path)
            return super().open(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(syscalls, "calls", Watched())
    return found


@pytest.fixture
def handles(place, tmp_path):
    for top in "ab":
        for middle in "cd":
            for low in range(6):
                (tmp_path / f"{top}/{middle}/e/f{low}").mkdir(parents=True)
    handles = Handles(place)
    yield handles
    handles.close()


def deep() -> list[bytes]:
    return [b"%c/%c/e/f%d" % (top, middle, low) for top in b"ab" for middle in b"cd" for low in range(6)]


def test_a_directory_on_the_way_is_opened_once_for_all_below_it(handles, opens):
    for path in deep():
        handles.get(path)
    assert len(opens) == len(deep()) + 2 + 4 + 4


def test_every_directory_is_the_one_that_was_asked_for(handles, tmp_path):
    handles.most = 3
    paths = [*deep(), b"", b"a", b"a/c", *deep()[::-5], b"b/d/e", b"a/d"]
    for path in paths * 2:
        assert os.fstat(handles.get(path).fd).st_ino == os.stat(tmp_path / os.fsdecode(path)).st_ino


def test_few_are_open_however_deep_they_lie(place, tmp_path):
    depth = 60
    (tmp_path / "/".join("x" * depth)).mkdir(parents=True)
    before = len(os.listdir("/proc/self/fd"))
    handles = Handles(place)
    for levels in range(depth, 0, -7):
        handles.get(b"/".join([b"x"] * levels))
    assert len(os.listdir("/proc/self/fd")) - before <= 9 + 8
    handles.close()
    assert len(os.listdir("/proc/self/fd")) <= before


def test_what_was_forgotten_is_reached_by_its_name_again(handles, tmp_path):
    """A directory that is made anew at a path is another one."""
    handles.get(b"a/c/e/f1")
    handles.get(b"a/c/e/f2/".rstrip(b"/"))
    (tmp_path / "a").rename(tmp_path / "old")
    (tmp_path / "a/c/e/f3").mkdir(parents=True)
    handles.forget(b"a")
    assert os.fstat(handles.get(b"a/c/e/f3").fd).st_ino == (tmp_path / "a/c/e/f3").stat().st_ino


def test_no_link_is_followed_on_the_way(handles, tmp_path):
    (tmp_path / "way").symlink_to("a")
    with pytest.raises(OSError, match="way"):
        handles.get(b"way/c")
    with pytest.raises(OSError, match="way"):
        handles.get(b"way/c/e")
    assert os.fstat(handles.get(b"a/c").fd).st_ino == (tmp_path / "a/c").stat().st_ino
