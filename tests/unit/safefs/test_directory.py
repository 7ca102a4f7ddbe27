"""One name at a time, never through a link, also where the system lacks a call."""

from __future__ import annotations

import errno
import os

import pytest

from faults import Counting, FailsAlways
from mulligan.safefs import syscalls
from mulligan.safefs.directory import Directory, NotRegular


@pytest.fixture
def here(tmp_path):
    with Directory.open(tmp_path) as directory:
        yield directory


def test_a_link_is_never_entered(here, tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    with pytest.raises(OSError):
        here.child(b"link")
    with pytest.raises(OSError):
        here.descend(b"link/below")
    (tmp_path / "file").write_text("x")
    (tmp_path / "to_file").symlink_to("file")
    with pytest.raises(OSError):
        here.read(b"to_file")


def test_what_is_no_file_is_not_read(here, tmp_path):
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(NotRegular):
        here.read(b"fifo")


def test_modes_are_exact_under_any_umask(here, tmp_path):
    before = os.umask(0o077)
    try:
        os.close(here.create(b"file", 0o666))
        here.mkdir(b"dir", 0o777)
    finally:
        os.umask(before)
    assert (tmp_path / "file").stat().st_mode & 0o7777 == 0o666
    assert (tmp_path / "dir").stat().st_mode & 0o7777 == 0o777


def test_permissions_are_set_on_the_file_that_was_meant(here, tmp_path):
    (tmp_path / "a").write_text("x")
    (tmp_path / "a").chmod(0)
    inode = (tmp_path / "a").stat().st_ino
    assert here.chmod(b"a", 0o640, inode=inode)
    assert not here.chmod(b"a", 0o777, inode=inode + 1)
    assert (tmp_path / "a").stat().st_mode & 0o7777 == 0o640


class Lacking(Counting):
    """A system without some calls, as file systems put it."""

    def __init__(self, *missing: str) -> None:
        super().__init__()
        self.missing = missing

    def meet(self, name: str) -> None:
        if name in self.missing:
            code = errno.EPERM if name == "link" else errno.EINVAL
            raise OSError(code, os.strerror(code))


WITHOUT = [(), ("rename_new",), ("rename_new", "link")]


@pytest.mark.parametrize("missing", WITHOUT)
@pytest.mark.parametrize("move", ["rename_new", "rename_away"])
def test_a_rename_that_must_not_replace_works_everywhere(here, tmp_path, move, missing):
    """With flags, by a hard link, and by looking first; files, links and directories."""
    (tmp_path / "into").mkdir()
    (tmp_path / "file").write_text("x")
    (tmp_path / "link").symlink_to("nowhere")
    (tmp_path / "dir").mkdir()
    with here.child(b"into") as into, syscalls.using(Lacking(*missing)):
        for name in (b"file", b"link", b"dir"):
            getattr(here, move)(name, b"new " + name, to=into)
    assert sorted(os.listdir(tmp_path / "into")) == ["new dir", "new file", "new link"]
    assert os.listdir(tmp_path) == ["into"]


@pytest.mark.parametrize("missing", WITHOUT)
def test_a_name_that_is_taken_is_not_replaced(here, tmp_path, missing):
    (tmp_path / "a").write_text("a")
    (tmp_path / "b").write_text("b")
    with pytest.raises(FileExistsError), syscalls.using(Lacking(*missing)):
        here.rename_new(b"a", b"b")
    assert ((tmp_path / "a").read_text(), (tmp_path / "b").read_text()) == ("a", "b")


def test_two_names_are_swapped_in_one_step(here, tmp_path):
    (tmp_path / "a").write_text("a")
    (tmp_path / "b").mkdir()
    here.exchange(b"a", b"b")
    assert (tmp_path / "a").is_dir()
    assert (tmp_path / "b").read_text() == "a"


def test_other_errors_of_a_rename_are_told(here):
    for move in (here.rename_new, here.rename_away, here.exchange):
        with pytest.raises(FileNotFoundError):
            move(b"missing", b"new")
    with pytest.raises(OSError) as refused, syscalls.using(FailsAlways(errno.EIO, "rename_new")):
        here.rename_new(b"missing", b"new")
    assert refused.value.errno == errno.EIO
