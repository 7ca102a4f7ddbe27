"""What stands at a path after a restore put something there."""

from __future__ import annotations

import os
import socket

import pytest

from mulligan.model.objects import BLOB, MODE_FILE, object_id
from mulligan.model.plan import Node
from mulligan.restore.place import reads_back
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
