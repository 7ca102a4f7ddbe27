"""Directories that the compiled part opens many at a time are those that would be opened one by one."""

from __future__ import annotations

import os

import pytest

from mulligan.restore.place import Handles
from mulligan.safefs.compiled import load
from mulligan.safefs.directory import Directory
from mulligan.safefs.placing import Placer


@pytest.fixture
def placer(library) -> Placer:
    found = load(library)
    assert found is not None
    return Placer(found)


def inode_by_name(root: Directory, path: bytes) -> int:
    """The inode of a directory that is opened name by name; -1 where that fails."""
    try:
        with root.descend(path) as directory:
            return os.fstat(directory.fd).st_ino
    except OSError:
        return -1


def test_links_files_and_what_is_missing_are_refused(tmp_path, placer):
    """In any order, and with the same one twice."""
    deep = "/".join(["deep"] * 60)
    for path in ("a/b/c", "a/b2", "ab/b", deep):
        (tmp_path / path).mkdir(parents=True)
    (tmp_path / "file").write_text("x")
    (tmp_path / "link").symlink_to("a")
    (tmp_path / "a" / "out").symlink_to("/")
    names = ["", "a", "a/b/c", "a/b2", "ab/b", "a/b", "a/b/c", "link", "link/b", "a/out", "a/out/etc", "file", "none/x"]
    paths = [os.fsencode(name) for name in [*names, "deep/deep", "a"]]
    with Directory.open(tmp_path) as root:
        found = placer.open(root.fd, paths)
        try:
            assert [fd if fd < 0 else os.fstat(fd).st_ino for fd in found] == [inode_by_name(root, p) for p in paths]
            assert not any(os.get_inheritable(fd) for fd in found if fd >= 0)
        finally:
            for fd in found:
                if fd >= 0:
                    os.close(fd)
        # What lies too deep is left to whoever opens it with fewer descriptors.
        assert placer.open(root.fd, [os.fsencode(deep)]) == [-1]


def test_no_more_are_open_than_may_be_and_none_is_left_open(tmp_path, placer):
    paths = [b"d%02d" % number for number in range(50)]
    for path in paths:
        (tmp_path / os.fsdecode(path)).mkdir()
    before = len(os.listdir("/proc/self/fd"))
    with Directory.open(tmp_path) as root:
        handles = Handles(root)
        handles.most = 20
        handles.get(paths[0])
        for start in range(0, 50, 10):
            handles.fill([*paths[start : start + 10], b"none"], placer.open)
            assert len(os.listdir("/proc/self/fd")) <= before + 1 + 20
            for path in paths[start : start + 10]:
                assert os.fstat(handles.get(path).fd).st_ino == (tmp_path / os.fsdecode(path)).stat().st_ino
        handles.fill(paths, placer.open)
        assert len(os.listdir("/proc/self/fd")) <= before + 1 + 20
        with pytest.raises(FileNotFoundError):
            handles.get(b"none")
        handles.close()
    assert len(os.listdir("/proc/self/fd")) == before
