"""What is stored of a file is a state that it had; a file that will not be read is a finding, never a hang."""

from __future__ import annotations

import errno
import hashlib
import os
import tracemalloc

import pytest

from loose_builds import replaced
from mulligan.model.checkpoint import INCOMPLETE
from mulligan.safefs import syscalls
from mulligan.safefs.directory import Directory
from mulligan.scan import read
from mulligan.scan.read import STREAM_FROM, UnreadableFile, capture
from mulligan.scan.trees import HashOnly
from tree import put


class Interfering(syscalls.Calls):
    """A system in which something happens to a file at each read."""

    def __init__(self, at_read):
        self.at_read = at_read

    def read(self, fd, size):
        return self.at_read(fd, size)


@pytest.fixture
def place(tmp_path):
    with Directory.open(tmp_path) as directory:
        yield directory


def captured(place, name=b"f", **more):
    return capture(place, name, place.stat(name), HashOnly(), **{"check_secrets": True} | more)


def git_id(data: bytes) -> bytes:
    return hashlib.sha1(b"blob %d\0" % len(data) + data).digest()


@pytest.mark.parametrize("size", [0, 1, 5000, STREAM_FROM, STREAM_FROM + 1])
def test_the_id_is_the_one_git_gives(place, tmp_path, size):
    put(tmp_path, "f", b"x" * size)
    assert captured(place)[0] == git_id(b"x" * size)


@pytest.mark.parametrize("size", [100, STREAM_FROM + 100])
def test_a_file_that_changes_while_it_is_read_is_read_again(place, tmp_path, size):
    put(tmp_path, "f", b"a" * size)
    changes = iter([lambda: put(tmp_path, "f", b"b" * (size + 1))])

    def at_read(fd, count):
        next(changes, lambda: None)()
        return os.read(fd, count)

    with syscalls.using(Interfering(at_read)):
        oid, seen = captured(place)
    assert (oid, seen.size) == (git_id(b"b" * (size + 1)), size + 1)


def test_a_file_that_never_holds_still_is_moving(place, tmp_path):
    put(tmp_path, "f", b"a")

    def at_read(fd, count):
        with (tmp_path / "f").open("ab") as file:
            file.write(b"more")
        return os.read(fd, count)

    with syscalls.using(Interfering(at_read)), pytest.raises(UnreadableFile) as caught:
        captured(place)
    assert caught.value.reason == "moving"


def test_a_system_that_answers_in_pieces_is_asked_again(place, tmp_path):
    put(tmp_path, "f", b"0123456789" * 100)
    with syscalls.using(Interfering(lambda fd, size: os.read(fd, min(size, 7)))):
        assert captured(place)[0] == git_id(b"0123456789" * 100)


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_a_file_that_turns_into_something_else_never_hangs(place, tmp_path, make):
    put(tmp_path, "f", b"a")
    before = place.stat(b"f")
    (tmp_path / "f").unlink()
    make(tmp_path / "f")
    with pytest.raises(UnreadableFile) as caught:
        capture(place, b"f", before, HashOnly(), check_secrets=True)
    assert caught.value.reason in INCOMPLETE


def test_a_file_that_turns_into_a_link_is_captured_as_one(place, tmp_path):
    put(tmp_path, "f", b"a")
    before = place.stat(b"f")
    (tmp_path / "f").unlink()
    (tmp_path / "f").symlink_to("elsewhere")
    assert capture(place, b"f", before, HashOnly(), check_secrets=True)[0] == git_id(b"elsewhere")


@pytest.mark.parametrize("size", [10, STREAM_FROM + 10])
def test_a_disk_that_fails_is_a_finding_and_a_process_that_is_out_of_files_an_error(place, tmp_path, size):
    put(tmp_path, "f", b"x" * size)

    def failing(code):
        def at_read(_fd, _size):
            raise OSError(code, os.strerror(code))

        return at_read

    with syscalls.using(Interfering(failing(errno.EIO))), pytest.raises(UnreadableFile):
        captured(place)
    with syscalls.using(Interfering(failing(errno.EMFILE))), pytest.raises(OSError, match=os.strerror(errno.EMFILE)):
        captured(place)


def test_a_file_that_is_gone_is_gone(place, tmp_path):
    put(tmp_path, "f", b"a")
    before = place.stat(b"f")
    (tmp_path / "f").unlink()
    with pytest.raises(FileNotFoundError):
        capture(place, b"f", before, HashOnly(), check_secrets=True)


@pytest.mark.parametrize("more", [b"", b"x" * STREAM_FROM])
def test_a_file_that_begins_like_a_key_is_a_secret_unless_it_is_asked_for(place, tmp_path, more):
    put(tmp_path, "f", b"-----BEGIN RSA PRIVATE KEY-----\n" + more)
    with pytest.raises(UnreadableFile) as caught:
        captured(place)
    assert caught.value.reason == "secret"
    assert captured(place, check_secrets=False)[0]


def test_pieces_that_do_not_add_up_are_refused():
    with pytest.raises(ValueError, match="changed"):
        HashOnly().add_stream(3, [b"ab"])


def test_a_large_file_is_never_in_memory_as_a_whole(place, tmp_path):
    with (tmp_path / "f").open("wb") as file:
        file.truncate(100 << 20)
    tracemalloc.start()
    try:
        captured(place)
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


class Clock:
    """A clock of stamps that stands at the time a file changed, for some looks at it."""

    def __init__(self, at: int, looks: int) -> None:
        self.at, self.looks, self.passed = at, looks, 0

    def now(self) -> int:
        return self.at if self.passed < self.looks else self.at + 1

    def passing(self) -> None:
        self.passed += 1

    def standing(self):
        return replaced(read, stamping_clock=self.now, pass_time=self.passing)


def test_a_file_that_changed_in_this_tick_is_read_after_it(place, tmp_path):
    """In the same tick a second write leaves the same stamps; only after it does a write show."""
    put(tmp_path, "f", b"x")
    clock = Clock(place.stat(b"f").st_ctime_ns, looks=3)
    with clock.standing():
        assert captured(place)[0] == git_id(b"x")
    assert clock.passed == 3


def test_a_file_that_changes_in_every_tick_is_moving(place, tmp_path):
    put(tmp_path, "f", b"x")
    with Clock(place.stat(b"f").st_ctime_ns, looks=1 << 60).standing(), pytest.raises(UnreadableFile) as caught:
        captured(place)
    assert caught.value.reason == "moving"


@pytest.mark.parametrize("ahead", [-1, 10**9, 10**18])
def test_no_time_passes_for_a_file_whose_stamp_no_write_repeats(place, tmp_path, ahead):
    """Older than the tick, finer than the clock, or of a future that was taken back."""
    put(tmp_path, "f", b"x")
    clock = Clock(place.stat(b"f").st_ctime_ns - ahead, looks=1 << 60)
    with clock.standing():
        assert captured(place)[0] == git_id(b"x")
    assert clock.passed == 0


def test_old_files_are_read_without_waiting_for_anything(place, tmp_path):
    put(tmp_path, "f", b"x")
    asked = []
    with replaced(read, let_writes_end=asked.append, stamping_clock=lambda: asked.append(0) or 0):
        captured(place, since=place.stat(b"f").st_ctime_ns + 10**12)
        assert asked == []
        captured(place, since=place.stat(b"f").st_ctime_ns + 1)
    assert len(asked) == 1


def test_a_file_with_holes_is_read_from_its_beginning(place, tmp_path):
    with (tmp_path / "f").open("wb") as file:
        file.seek(1 << 20)
        file.write(b"end")
    assert captured(place)[0] == git_id(bytes(1 << 20) + b"end")
    with (tmp_path / "f").open("wb") as file:
        file.truncate(1 << 16)
    assert captured(place)[0] == git_id(bytes(1 << 16))
