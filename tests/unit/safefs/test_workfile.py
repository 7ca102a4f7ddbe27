"""One file of the workspace: whole or not at all, never through a link."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from faults import FailsAlways
from mulligan.safefs import syscalls
from mulligan.safefs.directory import NotRegular
from mulligan.safefs.workfile import make_work_directory, read_work_file, write_work_file


def test_what_was_written_is_read(tmp_path: Path) -> None:
    write_work_file(str(tmp_path), b"a/b/f", b"\x00\xff")
    assert read_work_file(str(tmp_path), b"a/b/f") == b"\x00\xff"
    write_work_file(str(tmp_path), b"a/b/f", b"")
    assert read_work_file(str(tmp_path), b"a/b/f") == b""


def test_permission_bits_stay_and_a_set_id_bit_does_not(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("1")
    (tmp_path / "f").chmod(0o4710)
    write_work_file(str(tmp_path), b"f", b"2")
    assert stat.S_IMODE((tmp_path / "f").stat().st_mode) == 0o710


@pytest.mark.parametrize("path", [b"link/f", b"link/deep/f"])
def test_a_link_on_the_way_is_not_followed(tmp_path: Path, path: bytes) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "link").symlink_to(tmp_path / "outside")
    with pytest.raises(OSError):
        write_work_file(str(tmp_path / "root"), path, b"x")
    with pytest.raises(OSError):
        read_work_file(str(tmp_path / "root"), path)
    assert list((tmp_path / "outside").iterdir()) == []


def test_a_link_in_the_files_place_is_replaced_and_its_target_is_not_written(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("theirs")
    (tmp_path / "f").symlink_to("target")
    with pytest.raises(OSError):
        read_work_file(str(tmp_path), b"f")
    write_work_file(str(tmp_path), b"f", b"mine")
    assert ((tmp_path / "f").read_text(), (tmp_path / "target").read_text()) == ("mine", "theirs")


@pytest.mark.parametrize("call", ["write", "rename", "fchmod"])
def test_a_failure_leaves_what_was_there(tmp_path: Path, call: str) -> None:
    (tmp_path / "f").write_text("old")
    with syscalls.using(FailsAlways(errno.ENOSPC, call)), pytest.raises(OSError):
        write_work_file(str(tmp_path), b"f", b"new")
    assert [path.name for path in tmp_path.iterdir()] == ["f"]
    assert (tmp_path / "f").read_text() == "old"


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    os.mkfifo(tmp_path / "fifo")
    for refused in (read_work_file, lambda root, path: write_work_file(root, path, b"x")):
        with pytest.raises(IsADirectoryError):
            refused(str(tmp_path), b"d")
    with pytest.raises(NotRegular):
        read_work_file(str(tmp_path), b"fifo")
    with pytest.raises(FileNotFoundError):
        read_work_file(str(tmp_path), b"d/missing")


def test_directories_are_made_once(tmp_path: Path) -> None:
    make_work_directory(str(tmp_path), b"a/b")
    make_work_directory(str(tmp_path), b"a/b")
    assert (tmp_path / "a" / "b").is_dir()
