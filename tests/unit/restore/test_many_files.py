"""Restores of many files: whatever comes in their way, the rest comes back and nothing is left lying about."""

from __future__ import annotations

import errno
import os
import shutil
import socket
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import mulligan
from mulligan import engine
from mulligan.restore import place as places
from mulligan.restore import stage
from mulligan.restore.apply import Executor
from mulligan.safefs.directory import Directory
from scenes import left_lying, state_of
from tree import snapshot

FILES = 90


def text(number: int, version: str) -> bytes:
    return b"%d %b\n" % (number, version.encode()) * (number % 50 + 1)


def write(project: Path, version: str) -> None:
    """Writes half of the files in place, the others anew."""
    for number in range(FILES):
        place = project / f"d{number % 7}" / f"f{number}"
        place.parent.mkdir(exist_ok=True)
        if number % 2:
            place.unlink(missing_ok=True)
        place.write_bytes(text(number, version))


@pytest.fixture
def changed(ws, project) -> Any:
    """A workspace that was saved, and then changed everywhere; one file is new."""
    write(project, "one")
    ws.save("one")
    write(project, "two")
    (project / "d3" / "extra").write_bytes(b"extra")
    return ws


def test_changed_removed_and_new_files_come_back_and_an_undo_takes_it_back(changed, project):
    for number in range(0, 20, 2):
        (project / f"d{number % 7}" / f"f{number}").unlink()
    before = state_of(project)
    report = changed.restore("one")
    assert (len(report.modified), len(report.created), len(report.deleted)) == (FILES - 10, 10, 1)
    assert not report.kept and state_of(project)["d1/f1"][2] == text(1, "one")
    changed.undo()
    assert state_of(project) == before and left_lying(project) == []


def rewritten(place: Path) -> None:
    place.write_bytes(b"somebody's bytes")


def made_a_directory(place: Path) -> None:
    place.unlink()
    place.mkdir()
    (place / "inner").write_text("mine")


def made_a_link(place: Path) -> None:
    place.unlink()
    place.symlink_to("/etc/passwd")


def made_a_fifo(place: Path) -> None:
    place.unlink()
    os.mkfifo(place)


def made_a_socket(place: Path) -> None:
    place.unlink()
    here = os.getcwd()
    os.chdir(place.parent)
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(place.name)
    os.chdir(here)


def swapped_its_directory(place: Path) -> None:
    place.parent.rename(place.parent.parent / "moved")
    place.parent.symlink_to("moved")


def lost_its_directory(place: Path) -> None:
    shutil.rmtree(place.parent)


def linked_twice(place: Path) -> None:
    os.link(place, place.parent / "other name")


def other_bits(place: Path) -> None:
    place.chmod(0o640)


SURPRISES = [
    rewritten, Path.unlink, made_a_directory, made_a_link, made_a_fifo, made_a_socket, swapped_its_directory,
    lost_its_directory, linked_twice, other_bits,
]  # fmt: skip


@pytest.mark.parametrize("path", ["d3/f3", "d3/f45", "d3/extra"])
@pytest.mark.parametrize("surprise", SURPRISES)
@pytest.mark.parametrize("moment", ["surprises", "run"])
def test_what_comes_in_between_costs_no_other_file(changed, project, monkeypatch, moment, surprise, path):
    """Before the last look it is planned for once more; after it the file stays, the others come, and it is listed."""
    real: Callable[..., Any] = getattr(Executor, moment)
    pending = [project / path]

    def planted(executor: Executor, *args: Any) -> Any:
        if pending:
            surprise(pending.pop())
        return real(executor, *args)

    monkeypatch.setattr(Executor, moment, planted)
    changed.restore("one")
    elsewhere = [number for number in range(FILES) if number % 7 != 3]
    assert all((project / f"d{n % 7}" / f"f{n}").read_bytes() == text(n, "one") for n in elsewhere)
    assert left_lying(project) == []
    assert Path("/etc/passwd").read_bytes().startswith(b"root")


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("trouble", [partial(OSError, errno.ENOSPC, "full"), KeyboardInterrupt, MemoryError])
def test_a_safety_checkpoint_that_cannot_be_saved_ends_it_with_nothing_changed(
    changed, project, monkeypatch, trouble, late
):
    """Before anything of it is durable, and after; the next restore does what this one did not."""
    before, real = state_of(project), engine.restore.keep

    def refusing(*args: Any, **kwargs: Any) -> Any:
        if late:
            real(*args, **kwargs)
        raise trouble()

    with monkeypatch.context() as patched:
        patched.setattr(engine.restore, "keep", refusing)
        with pytest.raises((mulligan.MulliganError, KeyboardInterrupt, MemoryError)):
            changed.restore("one")
    assert state_of(project) == before and left_lying(project) == []
    assert changed.pending() is None
    assert len(changed.restore("one").modified) == FILES
    changed.undo()
    assert state_of(project) == before


def test_a_sync_that_fails_ends_it_and_is_not_asked_for_again(changed, project, monkeypatch):
    before, asked = state_of(project), list[str]()

    def failing(_: Directory, what: str) -> None:
        asked.append(what)
        raise mulligan.DurabilityLost("lost")

    for module in (stage, places):
        monkeypatch.setattr(module, "sync_filesystem", failing)
    with pytest.raises(mulligan.DurabilityLost):
        changed.restore("one")
    assert len(asked) == 1
    assert state_of(project) == before and left_lying(project) == []


def test_permission_bits_are_the_checkpoint_s_whatever_the_umask(ws, project):
    write(project, "one")
    (project / "d3" / "f45").chmod(0o666)
    ws.save("one")
    write(project, "two")
    before = os.umask(0o077)
    try:
        ws.restore("one")
    finally:
        os.umask(before)
    assert state_of(project)["d3/f45"][1] == 0o666


def test_few_open_files_are_enough(ws, project, monkeypatch):
    """A process may be allowed as few as 64."""
    monkeypatch.setattr("mulligan.restore.place.fair_share_of_files", lambda: 8)
    for version in ("one", "two"):
        for number in range(FILES):
            (project / f"e{number}").mkdir(exist_ok=True)
            (project / f"e{number}" / "f").write_bytes(text(number, version))
        ws.save(version)
    assert len(ws.restore("one").modified) == FILES


def test_displaced_files_go_when_the_store_is_closed(changed, store):
    changed.restore("one")
    assert len([path for path in snapshot(store) if "gone-" in path]) == FILES + 1
    changed.close()
    assert not [path for path in snapshot(store) if "gone-" in path]
