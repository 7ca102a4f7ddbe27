"""While files are staged nothing has changed: whatever fails then fails for free."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

import mulligan
from faults import ActsWhenStaged, Counting, FailsAlways
from mulligan.safefs import syscalls
from mulligan.safefs.syscalls import Calls
from scenes import OLD, Scene, left_lying, state_of
from tools import PACKAGE, plain_environment
from tree import put

SUPPORT = Path(__file__).parents[2] / "support"


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_a_damaged_object_is_found_before_anything_changes(scene):
    ws = scene.reset()
    largest = max((scene.store / "objects/pack").glob("*.pack"), key=lambda path: path.stat().st_size)
    ws.save("keeps its own copies")
    data = bytearray(largest.read_bytes())
    for at in range(12, len(data) - 20):
        data[at] ^= 0x55
    largest.write_bytes(data)
    with pytest.raises(mulligan.StoreDamaged):
        ws.restore("new")
    assert state_of(scene.project) == OLD
    assert ws.pending() is None
    ws.close()


@pytest.mark.parametrize(("code", "refusal"), [(errno.ENOSPC, mulligan.NoRoom), (errno.EDQUOT, mulligan.NoRoom)])
def test_a_full_disk_is_found_before_anything_changes(scene, code, refusal):
    ws = scene.reset()
    ws.save("so that only the restore writes")

    class Full(Counting):
        def write(self, fd, data):
            if ".mulligan-" in os.readlink(f"/proc/self/fd/{fd}"):
                raise OSError(code, os.strerror(code))
            return super().write(fd, data)

    with pytest.raises(refusal), syscalls.using(Full()):
        ws.restore("new")
    assert state_of(scene.project) == OLD
    assert ws.pending() is None
    ws.close()


def test_room_is_counted_before_anything_is_written(scene, monkeypatch):
    ws = scene.reset()
    ws.save("so that only the restore writes")
    real = os.fstatvfs

    def nearly_full(fd):
        found = list(real(fd))
        found[4] = 1
        return os.statvfs_result(found)

    monkeypatch.setattr(os, "fstatvfs", nearly_full)
    with pytest.raises(mulligan.NoRoom, match="needs") as refusal, syscalls.using(Counting()) as calls:
        ws.restore("new")
    assert "symlink" not in calls.seen
    assert refusal.value.hint
    assert state_of(scene.project) == OLD
    ws.close()


def test_what_cannot_be_cleared_now_is_cleared_by_the_next_command(scene):
    ws = scene.reset()

    class Stuck(Counting):
        def meet(self, name: str) -> None:
            super().meet(name)
            if (name == "symlink" and self.seen.count(name) == 2) or (name == "unlink" and "symlink" in self.seen):
                raise OSError(errno.EIO, os.strerror(errno.EIO))

    with pytest.raises(mulligan.MulliganError), syscalls.using(Stuck()):
        ws.restore("new")
    assert ws.pending()["phase"] == "staging"
    ws.save("after")
    assert "rolled back" in ws.last_recovery
    assert state_of(scene.project) == OLD
    ws.close()


def changed_pair(ws, project):
    for path in ("a", "b"):
        put(project, path, "1")
    ws.save("one")
    for path in ("a", "b"):
        put(project, path, "2")


def test_a_path_that_changes_while_files_are_staged_makes_a_plan_stale_that_is_applied_as_it_is(ws, project):
    changed_pair(ws, project)
    plan, count = ws.plan("one"), len(ws.log())
    with pytest.raises(mulligan.PlanStale), syscalls.using(ActsWhenStaged(lambda: put(project, "a", "3"))):
        ws.apply(plan)
    assert [(project / path).read_text() for path in ("a", "b")] == ["3", "2"]
    assert left_lying(project) == [] and len(ws.log()) == count


def test_a_plan_that_need_not_be_strict_leaves_alone_what_moved_and_lists_it(ws, project):
    changed_pair(ws, project)
    plan = ws.plan("one")
    put(project, "a", "3")
    report = ws.apply(plan, strict=False)
    assert [(project / path).read_text() for path in ("a", "b")] == ["3", "1"]
    assert [(keep.path, keep.reason, keep.failed) for keep in report.kept] == [("a", "busy", True)]
    assert not report.complete


def test_a_path_that_changes_once_while_files_are_staged_is_planned_again(ws, project):
    changed_pair(ws, project)
    with syscalls.using(ActsWhenStaged(lambda: put(project, "a", "3"))):
        report = ws.restore("one")
    assert [(project / path).read_text() for path in ("a", "b")] == ["1", "1"] and not report.kept
    assert ws.cat(report.undo, "a") == b"3"  # what came last is what the safety checkpoint holds
    assert [entry.kind for entry in ws.log()] == ["safety", "manual"]  # and there is one of it, not two
    assert left_lying(project) == []


def test_owner_and_attributes_of_a_replaced_file_are_taken_over(ws, project):
    place = put(project, "a", "1", perm=0o640)
    ws.save("one")
    put(project, "a", "2")
    try:
        os.setxattr(place, "user.note", b"kept")
    except OSError:
        pytest.skip("no extended attributes here")
    if os.geteuid() == 0:
        os.chown(place, 1234, 4321)
    before = place.stat()
    report = ws.restore("one")
    after = place.stat()
    assert place.read_text() == "1"
    assert os.getxattr(place, "user.note") == b"kept"
    assert (after.st_uid, after.st_gid, after.st_mode) == (before.st_uid, before.st_gid, before.st_mode)
    assert report.kept == []


@pytest.mark.parametrize(("call", "word"), [("setxattr", "user.note"), ("fchown", "owner")])
def test_what_cannot_be_taken_over_is_listed(ws, project, call, word):
    place = put(project, "a", "1")
    ws.save("one")
    put(project, "a", "2")
    try:
        os.setxattr(place, "user.note", b"1")
        os.setxattr(place, "user.other", b"1")
        os.chown(place, 1234, 4321)
    except OSError:
        pytest.skip("attributes or owners cannot be set here")
    with syscalls.using(FailsAlways(errno.EPERM, call)):
        report = ws.restore("one")
    assert place.read_text() == "1"
    assert [(kept.path, kept.reason) for kept in report.kept] == [("a", "attributes")]
    assert word in report.kept[0].detail
    assert report.complete
    assert call != "setxattr" or "user.other" in report.kept[0].detail


MANY_DIRECTORIES = """
import os, resource, sys
from pathlib import Path
import mulligan
from faults import Counting
from mulligan.safefs import syscalls

project, store, most = Path(sys.argv[1]), sys.argv[2], 0
resource.setrlimit(resource.RLIMIT_NOFILE, (128, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
ws = mulligan.open(project, store=store)
for text in "12":
    for number in range(60):
        (project / f"d{number}" / "e").mkdir(parents=True, exist_ok=True)
        (project / f"d{number}" / "e" / "f").write_text(text)
    if text == "1":
        ws.save("one")

class Watching(Counting):
    def meet(self, name):
        global most
        if name in {"exchange", "write"}:
            most = max(most, len(os.listdir("/proc/self/fd")))

at_rest = len(os.listdir("/proc/self/fd"))
with syscalls.using(Watching()):
    ws.restore("one")
print(most - at_rest)
"""


def test_few_descriptors_are_enough_for_many_directories(project, store):
    """Each directory is opened as it is needed; where a process may have few, no more than a few stay open."""
    # In a process of its own: how many descriptors are open in this one depends on the tests before.
    done = subprocess.run(
        [sys.executable, "-c", MANY_DIRECTORIES, project, store],
        env=plain_environment(PYTHONPATH=f"{PACKAGE}{os.pathsep}{SUPPORT}"), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert 0 < int(done.stdout) < 50


def test_where_many_descriptors_may_be_had_no_directory_is_opened_more_than_twice(ws, project):
    """Once to stage in it, and once more by its name, to notice one that was moved away."""
    for number in range(30):
        for name in ("f", "g"):
            put(project, f"d{number}/{name}", "1")
    ws.save("one")
    for number in range(30):
        for name in ("f", "g"):
            put(project, f"d{number}/{name}", "2")
    opened = Counter()

    class Watching(Counting):
        def open(self, name, flags, *rest, dir_fd=None):
            if flags & os.O_DIRECTORY and not flags & os.O_TMPFILE & ~os.O_DIRECTORY and isinstance(name, bytes):
                opened[name] += 1
            return super().open(name, flags, *rest, dir_fd=dir_fd)

    with syscalls.using(Watching()):
        ws.plan("one")
        for_the_look = Counter(opened)
        opened.clear()
        ws.restore("one")
    assert {opened[b"d%d" % number] - for_the_look[b"d%d" % number] for number in range(30)} <= {1, 2}


def test_a_file_that_takes_nothing_over_is_made_with_its_bits_and_not_changed_again(ws, project):
    for path, perm in (("a", 0o644), ("b", 0o600), ("c", 0o755), ("d", 0o444)):
        put(project, path, "1").chmod(perm)
    ws.save("one")
    for path in "abcd":
        (project / path).unlink()
        put(project, path, "2")
    with syscalls.using(Counting()) as calls:
        ws.restore("one")
    assert [stat.S_IMODE((project / path).stat().st_mode) for path in "abcd"] == [0o644, 0o600, 0o755, 0o444]
    assert "fchmod" not in calls.seen


@pytest.mark.parametrize("umask", [0o000, 0o077, 0o777])
def test_a_restored_file_has_its_bits_whatever_the_umask(ws, project, umask):
    put(project, "a", "1").chmod(0o664)
    ws.save("one")
    put(project, "a", "2").chmod(0o664)
    before = os.umask(umask)
    try:
        ws.restore("one")
    finally:
        os.umask(before)
    assert stat.S_IMODE((project / "a").stat().st_mode) == 0o664


def test_nobody_else_may_open_a_staged_file_before_it_has_what_it_takes_over(ws, project):
    place = put(project, "a", "1")
    ws.save("one")
    put(project, "a", "2")
    try:
        os.setxattr(place, "user.note", b"mine")
    except OSError:
        pytest.skip("attributes cannot be set here")
    seen = []

    class Watching(Counting):
        def write(self, fd, data):
            if ".mulligan-" in os.readlink(f"/proc/self/fd/{fd}"):
                seen.append(stat.S_IMODE(os.fstat(fd).st_mode))
            return super().write(fd, data)

    with syscalls.using(Watching()):
        ws.restore("one")
    assert seen == [0o600]
    assert os.getxattr(place, "user.note") == b"mine"
    assert stat.S_IMODE(place.stat().st_mode) == 0o644


class Syncing(Counting):
    """Fails the first sync of a whole file system, if it is told to."""

    def __init__(self, *, fails: bool = False) -> None:
        super().__init__()
        self.fails = fails

    def syncfs(self, fd: int) -> None:
        self.meet("syncfs")
        if self.fails and self.seen.count("syncfs") == 1:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        Calls.syncfs(fd)


def many(ws, project):
    for number in range(600):
        put(project, f"f{number}", "1")
    ws.save("one")
    for number in range(600):
        put(project, f"f{number}", "2")


def test_the_last_sync_before_files_change_comes_after_the_last_was_staged(ws, project):
    many(ws, project)
    with syscalls.using(Syncing()) as calls:
        ws.restore("one")
    before = calls.seen[: calls.seen.index("exchange")]
    last = len(before) - before[::-1].index("syncfs")
    assert before[:last].count("write") >= 600
    assert {path.read_text() for path in project.glob("f*")} == {"1"}


def test_a_sync_that_fails_is_not_asked_for_again_and_ends_it_with_nothing_changed(ws, project):
    many(ws, project)
    with syscalls.using(Syncing(fails=True)) as calls, pytest.raises(mulligan.DurabilityLost):
        ws.restore("one")
    assert calls.seen.count("syncfs") == 1
    assert "exchange" not in calls.seen
    assert {path.read_text() for path in project.glob("f*")} == {"2"}
    assert left_lying(project) == []


def test_what_changes_each_time_the_disk_confirms_is_left_alone_and_listed(ws, project):
    many(ws, project)

    class Racing(Syncing):
        def syncfs(self, fd: int) -> None:
            super().syncfs(fd)
            put(project, "f7", f"{len(self.seen)}")

    with syscalls.using(Racing()):
        report = ws.restore("one")
    assert [(keep.path, keep.reason) for keep in report.kept] == [("f7", "busy")] and not report.complete
    assert {path.name for path in project.glob("f*") if path.read_text() != "1"} == {"f7"}
    assert left_lying(project) == []


def test_files_that_the_disk_did_not_confirm_where_they_belong_are_not_acknowledged(ws, project):
    many(ws, project)

    class Late(Syncing):
        def syncfs(self, fd: int) -> None:
            if "exchange" in self.seen:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            super().syncfs(fd)

    with syscalls.using(Late()), pytest.raises(mulligan.DurabilityLost):
        ws.restore("one")
    assert ws.pending() is not None
    ws.save("next")
    assert ws.pending() is None
    assert {path.read_text() for path in project.glob("f*")} == {"1"}
    assert left_lying(project) == []


def two(ws, project) -> None:
    for path in ("a", "d/b", "gone"):
        put(project, path, "1")
    ws.save("one")
    put(project, "a", "2")
    put(project, "d/b", "2")
    (project / "gone").unlink()
    put(project, "new", "2")


def test_no_file_of_yours_changes_before_all_new_ones_are_durable(ws, project):
    two(ws, project)
    with syscalls.using(Counting()) as calls:
        ws.restore("one")
    assert calls.seen[: calls.seen.index("exchange")].count("fsync") >= 3
    assert {(project / path).read_text() for path in ("a", "d/b", "gone")} == {"1"}
    assert not (project / "new").exists() and left_lying(project) == []
    ws.undo()
    assert (project / "new").read_text() == "2" and not (project / "gone").exists()


@pytest.mark.parametrize("call", ["link", "write", "fchmod", "open"])
@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC, errno.EPERM, errno.EMFILE])
def test_whatever_fails_on_the_way_files_are_old_or_new_and_nothing_is_left(ws, project, call, code):
    """A failing call of each kind, at each of its turns."""
    two(ws, project)
    (project / "a").chmod(0o640)
    before = state_of(project)

    class Failing(Counting):
        turn = 0

        def meet(self, name: str) -> None:
            super().meet(name)
            if name == call and self.seen.count(name) == self.turn:
                raise OSError(code, os.strerror(code))

    for turn in range(1, 60):
        calls = Failing()
        calls.turn = turn
        with syscalls.using(calls), suppress(mulligan.MulliganError, OSError):
            ws.restore("one")
        if calls.seen.count(call) < turn:
            break
        if ws.pending() is not None:
            ws.save("next")
        assert left_lying(project) == []
        if state_of(project) != before:
            assert {(project / path).read_text() for path in ("a", "d/b")} <= {"1", "2"}
            ws.undo()
        assert state_of(project) == before
    else:
        pytest.fail("it never came through")


def test_a_staged_file_that_the_disk_does_not_confirm_changes_nothing_and_says_so(ws, project):
    two(ws, project)
    before = state_of(project)

    class Lost(Counting):
        def fsync(self, fd: int) -> None:
            if ".mulligan-" in os.readlink(f"/proc/self/fd/{fd}"):
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            super().fsync(fd)

    with syscalls.using(Lost()), pytest.raises(mulligan.DurabilityLost):
        ws.restore("one")
    assert state_of(project) == before
    ws.save("next")  # which removes what was staged
    assert left_lying(project) == [] and ws.pending() is None
    assert ws.restore("one").modified == ["a", "d/b"]
