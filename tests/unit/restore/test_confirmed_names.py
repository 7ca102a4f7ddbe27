"""
Every name that a restore makes, changes or removes in a workspace is confirmed by the disk before the restore ends.

The store may be on another disk: nothing that is confirmed there helps the workspace. A temporary or a lock of git that came
back after a power cut would stay for ever, because the journal that knows of it is closed.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import mulligan
from mulligan.safefs import syscalls
from tree import put
from users_repository import make_dirty, move_on, new_repository


class Watching(syscalls.Calls):
    """The real calls, and which directories of a workspace have names that were not confirmed."""

    def __init__(self, root: Path) -> None:
        self._root, self.owed = os.fspath(root), set[str]()

    def _note(self, *handles: int) -> None:
        places = {os.readlink(f"/proc/self/fd/{handle}").removesuffix(" (deleted)") for handle in handles}
        self.owed |= {place for place in places if (place + "/").startswith(self._root + "/")}

    def rename(self, old: bytes, new: bytes, *, src_dir_fd: int, dst_dir_fd: int) -> None:
        super().rename(old, new, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)
        self._note(src_dir_fd, dst_dir_fd)

    def _renameat2(self, old: bytes, new: bytes, src: int, dst: int, flags: int) -> None:
        super()._renameat2(old, new, src, dst, flags)
        self._note(src, dst)

    def link(self, *names: Any, src_dir_fd: int | None = None, dst_dir_fd: int, follow_symlinks: bool) -> None:
        os.link(*names, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd, follow_symlinks=follow_symlinks)
        self._note(dst_dir_fd)

    def unlink(self, name: bytes, *, dir_fd: int) -> None:
        os.unlink(name, dir_fd=dir_fd)
        self._note(dir_fd)

    def rmdir(self, name: bytes, *, dir_fd: int) -> None:
        os.rmdir(name, dir_fd=dir_fd)
        self._note(dir_fd)

    def mkdir(self, name: bytes, mode: int, *, dir_fd: int) -> None:
        os.mkdir(name, mode, dir_fd=dir_fd)
        self._note(dir_fd)

    def fsync(self, fd: int) -> None:
        os.fsync(fd)
        self.owed.discard(os.readlink(f"/proc/self/fd/{fd}"))

    def syncfs(self, fd: int) -> None:
        super().syncfs(fd)
        self.owed.clear()


def owed_after(root: Path, act: Callable[[], Any]) -> set[str]:
    """The directories that are still there with names that the disk was not asked to confirm."""
    with syscalls.using(Watching(root)) as watching:
        act()
    # What git calls a log is a help, not a promise.
    return {place for place in watching.owed if os.path.isdir(place) and "/.git/logs" not in place}


def dies_and_is_ended(ws: Any, root: Path, dies: Watching) -> None:
    """A restore ends in the middle, with temporaries of its own; the next save ends it, and every name is confirmed."""
    with pytest.raises(SystemExit), syscalls.using(dies):
        ws.restore("one")
    ws.close()
    assert list(root.rglob(".mulligan-*")) != []
    assert owed_after(root, lambda: ws.save("after")) == set()
    assert list(root.rglob(".mulligan-*")) == []


@pytest.fixture
def moved(project: Path, ws: Any) -> Any:
    """A repository in which an agent moved on since the checkpoint `one`."""
    new_repository(project)
    make_dirty(project)
    put(project, "deep/er/file", "one")
    ws.save("one", git=True)
    move_on(project)
    put(project, "deep/er/file", "two")
    put(project, "new/dir/file", "two")
    return ws


@pytest.mark.parametrize("git", [False, True])
def test_a_restore_and_its_undo_leave_no_name_unconfirmed(moved: Any, project: Path, *, git: bool) -> None:
    assert owed_after(project, lambda: moved.restore("one", git=git)) == set()
    assert owed_after(project, moved.undo) == set()
    assert owed_after(project, moved.redo) == set()


def test_a_restore_that_is_refused_leaves_no_name_unconfirmed(moved: Any, project: Path) -> None:
    put(project, ".git/HEAD.lock")

    def refused() -> None:
        with pytest.raises(mulligan.Busy):
            moved.restore("one", git=True)

    moved.settings = moved.settings._replace(wait=0.0)
    moved.bench.store.settings = moved.settings
    assert owed_after(project, refused) == set()
    assert [path for path in project.rglob("*") if "mulligan-" in path.name] == []


def test_a_restore_that_was_cut_short_is_taken_back_with_every_name_confirmed(
    moved: Any, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Dies(Watching):
        def exchange(self, *_names: Any, **_handles: Any) -> None:
            raise KeyboardInterrupt

        def fsync(self, fd: int) -> None:
            if os.path.basename(os.readlink(f"/proc/self/fd/{fd}")).startswith(".mulligan-"):
                raise SystemExit
            super().fsync(fd)

        def unlink(self, name: bytes, *, dir_fd: int) -> None:
            if not name.startswith(b".mulligan-"):
                super().unlink(name, dir_fd=dir_fd)
            else:
                raise OSError(5, "the machine is off")

    dies_and_is_ended(moved, project, Dies(project))


def test_a_restore_that_was_cut_short_after_its_files_got_names_is_finished_with_every_name_confirmed(
    moved: Any, project: Path
) -> None:
    class Dies(Watching):
        dead = False

        def exchange(self, *_names: Any, **_handles: Any) -> None:
            self.dead = True
            raise SystemExit

        def unlink(self, name: bytes, *, dir_fd: int) -> None:
            if self.dead:
                raise OSError(5, "the machine is off")
            super().unlink(name, dir_fd=dir_fd)

    dies_and_is_ended(moved, project, Dies(project))
    assert (project / "deep/er/file").read_text() == "one"
