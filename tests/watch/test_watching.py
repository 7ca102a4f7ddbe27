"""What `ws.watch()` promises: the same results, at the cost of what changed, and a word where that cannot be had."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import mulligan
from bad_watchers import using
from checker import judge
from mulligan import engine
from mulligan.engine.workspace import Workspace
from mulligan.safefs import inotify, syscalls
from mulligan.settings import resolve
from tools import plain_environment

QUEUE = Path("/proc/sys/fs/inotify/max_queued_events")


class Counting(syscalls.Calls):
    """Counts what is opened."""

    def __init__(self) -> None:
        self.opened = 0

    def open(self, *args: object, **kwargs: object) -> int:
        self.opened += 1
        return os.open(*args, **kwargs)


def fill(project: Path, folders: int) -> None:
    for number in range(folders):
        folder = project / f"d{number}"
        folder.mkdir(parents=True)
        (folder / "file").write_text(f"{number}")


def opened_by_a_save(ws: mulligan.Workspace, path: Path) -> int:
    path.write_text("another")
    with syscalls.using(Counting()) as counting:
        assert ws.save().files_changed == ("d1/file",)
    return counting.opened


def test_a_save_opens_as_little_in_a_large_project_as_in_a_small_one(tmp_path):
    counts = []
    for folders in (5, 120):
        project = tmp_path / str(folders)
        fill(project, folders)
        with mulligan.open(project, store=tmp_path / f"store{folders}") as ws, ws.watch() as watching:
            ws.save()
            ws.save()
            assert watching.active
            counts.append(opened_by_a_save(ws, project / "d1" / "file"))
    assert counts[0] == counts[1]


def test_a_look_that_finds_nothing_new_is_not_made_again(project, ws):
    """What was written to and is the same is looked at once more, not at every save in which nothing changed."""
    fill(project, 6)
    ws.save()
    with ws.watch():
        ws.save()
        for number in (1, 2):
            (project / f"d{number}" / "file").write_text(f"{number}")
        opened = []
        for _ in range(3):
            with syscalls.using(Counting()) as counting:
                assert ws.save(if_changed=True) is None
            opened.append(counting.opened)
        assert opened[0] > opened[1] == opened[2]


def test_watching_begins_with_the_first_checkpoint(project, ws):
    (project / "a").write_text("1")
    watching = ws.watch()
    assert not watching.active
    assert ws.status()["watcher"]["active"] is False
    ws.save()
    ws.diff()
    assert watching.active
    assert ws.status()["watcher"] == {"active": True, "directories": 1, "reason": ""}
    watching.close()
    assert ws.status()["watcher"] is None
    assert watching.reason == "it was closed"


def test_every_verb_sees_what_happened_while_watched(project, ws):
    fill(project, 3)
    first = ws.save("first")
    with ws.watch():
        ws.save()
        (project / "d1" / "file").write_text("edited")
        (project / "d9").mkdir()
        (project / "d9" / "new").write_text("new")
        (project / "d0" / "file").unlink()
        assert (ws.diff().added, ws.diff().modified, ws.diff().deleted) == (["d9/new"], ["d1/file"], ["d0/file"])
        assert set(ws.plan(first).modifies) == {"d1/file"}
        report = ws.restore(first)
        assert (project / "d1" / "file").read_text() == "1"
        assert report.created == ["d0/file"]
        assert ws.diff(first).stat == ws.diff(first, first).stat
        ws.undo()
        assert (project / "d9" / "new").read_text() == "new"
        ws.redo()
        assert not (project / "d9").exists()


def overflow(project: Path) -> None:
    """More notices than the queue holds, and one edit whose notice is lost."""
    limit = int(QUEUE.read_text())
    if limit > 200_000:
        pytest.skip(f"the queue holds {limit} notices here")
    one, other = project / "d1" / "file", project / "d2" / "file"
    for _ in range(limit // 2 + 10):  # alternating, because equal notices are merged
        os.utime(one)
        os.utime(other)
    (project / "d3" / "file").write_text("lost in the crowd")
    (project / "d4" / "deep" / "er").mkdir(parents=True)
    (project / "d4" / "deep" / "er" / "file").write_text("so is this")


def test_an_overflow_costs_a_look_at_everything_and_loses_nothing(project, ws):
    fill(project, 6)
    ws.save()
    with ws.watch() as watching:
        ws.save()
        before = ws.bench.scanner.watcher.full_looks
        overflow(project)
        assert ws.save().files_changed == ("d3/file", "d4/deep/er/file")
        assert ws.bench.scanner.watcher.full_looks == before + 1
        (project / "d4" / "deep" / "er" / "file").write_text("noticed again")
        assert ws.save().files_changed == ("d4/deep/er/file",)
        assert ws.bench.scanner.watcher.full_looks == before + 1
        assert watching.active


def test_an_overflow_that_is_overlooked_is_found_out(project, ws):
    fill(project, 6)
    ws.save()
    with using("overlooks-overflow"), ws.watch():
        ws.save()
        overflow(project)
        assert ws.save().files_changed != ("d3/file", "d4/deep/er/file")


def refuse_the_third(monkeypatch: pytest.MonkeyPatch) -> None:
    """The system lets a user have two watches."""
    real, made = inotify.Inotify.watch, []

    def watch(self: inotify.Inotify, fd: int, what: int = inotify.OF_DIRECTORIES) -> int:
        made.append(fd)
        if len(made) > 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(self, fd, what)

    monkeypatch.setattr(inotify.Inotify, "watch", watch)


def test_where_the_limit_of_watches_is_reached_everything_is_looked_at_and_status_says_why(project, ws, monkeypatch):
    fill(project, 5)
    ws.save()
    refuse_the_third(monkeypatch)
    with ws.watch() as watching:
        ws.save()
        assert not watching.active
        assert "max_user_watches" in ws.status()["watcher"]["reason"]
        (project / "d4" / "file").write_text("seen all the same")
        assert ws.save().files_changed == ("d4/file",)


def test_a_file_system_that_does_not_announce_changes_is_not_trusted(project, ws, monkeypatch):
    fill(project, 2)
    ws.save()
    monkeypatch.setattr(inotify, "_WATCHABLE", {})
    with ws.watch() as watching:
        (project / "d1" / "file").write_text("seen all the same")
        assert ws.save().files_changed == ("d1/file",)
        assert "file system" in watching.reason


def test_a_cookie_that_does_not_come_is_no_proof(project, store, ws):
    """The file that is the cookie was exchanged for another: nothing that was noticed is believed."""
    fill(project, 3)
    ws.save()
    with ws.watch() as watching:
        ws.save()
        head = (store / "HEAD").read_bytes()
        (store / "HEAD.new").write_bytes(head)
        (store / "HEAD.new").chmod(0o600)
        (store / "HEAD.new").rename(store / "HEAD")
        (project / "d2" / "file").write_text("edited")
        assert ws.save().files_changed == ("d2/file",)
        (project / "d0" / "file").write_text("edited")
        assert ws.save().files_changed == ("d0/file",)
        assert watching.active


def test_a_new_store_is_watched_with(project, store, ws):
    fill(project, 2)
    ws.save()
    with ws.watch() as watching:
        ws.save()
        store.rename(store.with_name("aside"))
        ws.save("first of a new store")
        (project / "d1" / "file").write_text("edited")
        assert ws.save().files_changed == ("d1/file",)
        assert ws.save(if_changed=True) is None
        assert watching.active


def test_a_root_that_was_exchanged_is_looked_at_anew(project, ws):
    fill(project, 3)
    ws.save()
    with ws.watch():
        ws.save()
        project.rename(project.with_name("aside"))
        fill(project, 2)
        assert ws.diff().deleted == ["d2/file"]
        (project / "d1" / "file").write_text("edited")
        assert ws.diff().modified == ["d1/file"]


def test_what_is_written_through_a_second_name_is_seen_at_the_first(project, ws):
    fill(project, 3)
    ws.save()
    with ws.watch():
        ws.save()
        os.link(project / "d0" / "file", project / "d1" / "same")
        ws.save()
        (project / "d1" / "same").write_text("through the other name")
        assert ws.save().files_changed == ("d0/file", "d1/same")


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting is for root")
def test_a_mount_in_the_workspace_is_noticed(project, ws):
    fill(project, 3)
    ws.save()
    with ws.watch():
        ws.save()
        done = subprocess.run(["mount", "-t", "tmpfs", "none", project / "d1"], capture_output=True, check=False)
        if done.returncode:
            pytest.skip("nothing can be mounted here")
        try:
            saved = ws.save()
            assert {(row.path, row.reason) for row in saved.not_captured} == {("d1", "other filesystem")}
        finally:
            subprocess.run(["umount", project / "d1"], check=True)
        assert ws.save().not_captured == ()


def test_a_forked_process_takes_nothing_from_its_parent(project, ws):
    """Notices that a child reads would be missing in the parent."""
    fill(project, 3)
    ws.save()
    with ws.watch():
        ws.save()
        (project / "d1" / "file").write_text("edited")
        child = os.fork()
        if not child:
            changed = ws.diff().modified
            os._exit(0 if changed == ["d1/file"] else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert ws.save().files_changed == ("d1/file",)


def test_a_workspace_that_is_dropped_gives_its_watcher_back(project, store):
    """At once, and not when the cycle collector finds the time."""
    fill(project, 1)
    program = (
        "import gc, mulligan, os, sys; gc.disable()\n"
        "count = lambda: sum(os.readlink(f'/proc/self/fd/{fd}').endswith('inotify')"
        " for fd in os.listdir('/proc/self/fd') if os.path.lexists(f'/proc/self/fd/{fd}'))\n"
        "for _ in range(20):\n"
        "    ws = mulligan.open(sys.argv[1], store=sys.argv[2]); ws.watch(); ws.save(); ws.diff()\n"
        "assert ws.status()['watcher']['active'] and count() <= 2, count()\n"
    )
    subprocess.run([sys.executable, "-c", program, project, store], env=plain_environment(), check=True)


def test_a_checkpoint_that_failed_forgets_nothing(project, ws, monkeypatch):
    """What a save that came to nothing had seen is still new to the next."""
    fill(project, 3)
    ws.save()
    with ws.watch():
        ws.save()
        (project / "d1" / "file").write_text("edited")
        with monkeypatch.context() as patch:
            patch.setattr(
                engine.save, "keep", lambda *_args, **_more: (_ for _ in ()).throw(OSError(errno.ENOSPC, "full"))
            )
            with pytest.raises(mulligan.MulliganError):
                ws.save()
        assert ws.save().files_changed == ("d1/file",)


def test_names_that_came_and_went_beside_edits_cost_no_listing_and_those_that_stayed_are_seen(project, store):
    """As editors and restores leave it: a new file renamed over the old one; here and there one that is not gone, or more than that."""
    fill(project, 80)
    settings = resolve(project, store=store)
    with Workspace(settings) as ws, ws.watch():
        ws.save("one")
        ws.save("two")
        for number in range(60):
            beside = project / f"d{number}" / ".beside"
            beside.write_text(f"edited {number}")
            beside.rename(project / f"d{number}" / "file")
        (project / "d3" / ".beside").write_text("stays")
        (project / "d4" / "file").unlink()
        (project / "d5" / "file").unlink()
        (project / "d5" / "file").symlink_to("elsewhere")
        os.link(project / "d6" / "file", project / "d7" / "second")
        saved = ws.save("three")
        assert saved.files_changed == tuple(
            sorted({*(f"d{number}/file" for number in range(60)), "d3/.beside", "d7/second"})
        )
        assert ws.cat("three", "d3/.beside") == b"stays" and ws.cat("three", "d9/file") == b"edited 9"
    with Workspace(settings) as ws:
        found = ws.diff()
        assert [*found.added, *found.modified, *found.deleted, *found.renamed] == []
    assert judge(store) == []


def test_notices_that_were_being_read_when_somebody_interrupted_are_not_lost(project, ws, monkeypatch):
    """An agent that takes longer than it may, or Ctrl-C in a program that goes on."""

    def interrupted(data: bytes) -> Iterator[inotify.Notice]:
        yield next(inotify.notices(data))
        raise KeyboardInterrupt

    fill(project, 3)
    with ws.watch():
        for name in ("first", "second", "third"):
            ws.save(name)
        for number in range(3):
            (project / f"d{number}" / "file").write_text("another")
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr("mulligan.watch.watcher.notices", interrupted)
            ws.diff()
        assert ws.save().files_changed == ("d0/file", "d1/file", "d2/file")


def test_an_interruption_between_memory_and_its_sums_costs_a_look_and_nothing_else(project, ws, monkeypatch):
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    (project / ".gitignore").write_text("*.log\n")
    fill(project, 3)
    with ws.watch():
        ws.save()
        (project / "d1" / "x.log").write_text("not captured")
        (project / "d1" / "more").write_text("more")
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr("mulligan.watch.watcher.Watched.remember", interrupted)
            ws.save()
        (project / "d1" / "x.log").unlink()
        (project / "d1" / "more").unlink()
        assert ws.status()["files"] == 4
        assert ws.save().not_captured == ()


def packs_of(store: Path) -> int:
    return len(list((store / "objects" / "pack").glob("*.idx")))


def test_packs_are_joined_between_the_saves_of_a_watched_workspace_and_not_by_one(project, ws, store):
    with ws.watch():
        for number in range(60):
            (project / "a").write_text(f"{number}")
            ws.save()
        assert packs_of(store) >= 60
        ws.tidy()
        assert packs_of(store) < 30
        ws.tidy()
        (project / "a").write_text("more")
        ws.save()
    assert judge(store) == []
