"""The user's own files: links are followed, anything but a regular file is refused, reports are private."""

from __future__ import annotations

import os

import pytest

from mulligan.safefs.directory import NotRegular
from mulligan.safefs.userfile import read_user_file, write_private_file


def test_a_missing_file_is_none(tmp_path):
    assert read_user_file(str(tmp_path / "no/such"), limit=9) is None
    (tmp_path / "file").write_text("")
    assert read_user_file(str(tmp_path / "file/below"), limit=9) is None


def test_a_link_is_followed_and_the_limit_holds(tmp_path):
    (tmp_path / "real").write_bytes(b"0123456789")
    (tmp_path / "link").symlink_to("real")
    assert read_user_file(str(tmp_path / "link"), limit=4) == b"0123"


def test_a_pipe_or_a_directory_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for odd in (tmp_path / "pipe", tmp_path):
        with pytest.raises(NotRegular):
            read_user_file(str(odd), limit=9)


def test_a_report_is_readable_by_its_owner_only_and_never_replaces_another(tmp_path):
    path = write_private_file(str(tmp_path / "a/b"), "r.txt", b"x")
    assert (os.stat(path).st_mode & 0o777, os.stat(tmp_path / "a/b").st_mode & 0o777) == (0o600, 0o700)
    with pytest.raises(FileExistsError):
        write_private_file(str(tmp_path / "a/b"), "r.txt", b"y")


def test_of_many_reports_the_last_ones_stay(tmp_path):
    for number in range(7):
        write_private_file(str(tmp_path), f"{number}.txt", b"x", most=3)
    assert sorted(os.listdir(tmp_path)) == ["4.txt", "5.txt", "6.txt"]
