"""Git's locks: held or not, ours or not, and what a crash leaves."""

from __future__ import annotations

import errno
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from faults import FailsAlways
from mulligan.errors import Busy, GitNotMoved
from mulligan.safefs import syscalls
from mulligan.safefs.directory import Directory
from mulligan.usergit.locks import GitFile, Lock


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Directory]:
    (tmp_path / "refs/heads").mkdir(parents=True)
    (tmp_path / "refs/heads/main").write_bytes(b"old\n")
    with Directory.open(tmp_path) as directory:
        yield directory


@pytest.fixture
def lock(root: Directory) -> Lock:
    return Lock(GitFile(root, b"refs/heads/main"), b"mulligan-t-1")


def names(tmp_path: Path) -> list[str]:
    return sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file())


def test_taken_and_put_in_place(tmp_path: Path, lock: Lock) -> None:
    lock.stage(b"new\n", 0o644)
    lock.take(until=0)
    assert lock.is_ours() and names(tmp_path) == ["mulligan-t-1", "refs/heads/main", "refs/heads/main.lock"]
    lock.put_in_place()
    lock.let_go()
    assert names(tmp_path) == ["refs/heads/main"]
    assert (tmp_path / "refs/heads/main").read_bytes() == b"new\n"
    assert (tmp_path / "refs/heads/main").stat().st_mode & 0o777 == 0o644


def test_let_go_changes_nothing_and_can_be_repeated(tmp_path: Path, lock: Lock) -> None:
    lock.stage(b"new\n", 0o644)
    lock.take(until=0)
    lock.let_go()
    lock.let_go()
    assert names(tmp_path) == ["refs/heads/main"] and (tmp_path / "refs/heads/main").read_bytes() == b"old\n"


def test_somebody_elses_lock_is_busy_and_stays(tmp_path: Path, lock: Lock) -> None:
    foreign = tmp_path / "refs/heads/main.lock"
    foreign.write_bytes(b"new\n")  # the same bytes do not make it ours
    lock.stage(b"new\n", 0o644)
    with pytest.raises(Busy) as refusal:
        lock.take(until=time.monotonic())
    assert "refs/heads/main.lock" in refusal.value.message and ".git/refs/heads/main.lock" in refusal.value.hint
    assert not lock.is_ours() and lock.held() is not None
    lock.let_go()
    assert foreign.read_bytes() == b"new\n"


def test_a_short_lock_is_waited_for(tmp_path: Path, lock: Lock) -> None:
    foreign = tmp_path / "refs/heads/main.lock"
    foreign.write_bytes(b"")
    lock.stage(b"new\n", 0o644)
    releasing = threading.Timer(0.05, foreign.unlink)
    releasing.start()
    lock.take(until=time.monotonic() + 30)
    releasing.join()
    assert lock.is_ours()


def test_another_process_knows_it_by_its_name(root: Directory, lock: Lock) -> None:
    lock.stage(b"new\n", 0o644)
    lock.take(until=0)
    assert Lock(GitFile(root, b"refs/heads/main"), b"mulligan-t-1").is_ours()
    assert not Lock(GitFile(root, b"refs/heads/main"), b"mulligan-other-1").is_ours()


def test_a_directory_that_is_gone_holds_no_lock(root: Directory) -> None:
    lock = Lock(GitFile(root, b"refs/heads/gone/branch"), b"mulligan-t-1")
    assert lock.held() is None and not lock.is_ours()
    lock.let_go()


def test_a_file_system_without_links_is_said(lock: Lock) -> None:
    lock.stage(b"new\n", 0o644)
    with syscalls.using(FailsAlways(errno.EPERM, "link")), pytest.raises(GitNotMoved, match="hard links"):
        lock.take(until=0)


def test_a_link_in_the_way_is_not_followed(tmp_path: Path, root: Directory) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "refs/evil").symlink_to(tmp_path / "outside")
    lock = Lock(GitFile(root, b"refs/evil/branch"), b"mulligan-t-1")
    lock.stage(b"new\n", 0o644)
    with pytest.raises(OSError):
        lock.take(until=0)
    assert list((tmp_path / "outside").iterdir()) == []
