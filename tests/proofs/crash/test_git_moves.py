"""
A restore that moves git too, killed or failing at any call to the operating system.

At every instant HEAD, each branch and the index are old or new, each whole. After one writing command files and git are
both old or both new, and nothing of ours is left in either.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import mulligan
from faults import FailsAt, FsyncFailsAt, Killed, KilledAt
from mulligan.safefs import syscalls
from tools import git, sweep
from tree import contents
from users_repository import expect_whole, make_dirty, move_on, new_repository, seen

VERBS: dict[str, Callable[[Any], Any]] = {
    "restore": lambda ws: ws.restore("then", git=True),
    "undo": lambda ws: ws.undo(),
}
BRANCHES = ("main", "agent")
HEADS = (("symbolic-ref", "-q", "HEAD"), ("rev-parse", "-q", "--verify", "HEAD"), ("ls-files", "--stage", "-v"))


def points(total: int) -> list[int]:
    """Calls to be killed at: few of those before the files change, more of the last, where git moves. All, when asked."""
    if sweep(1) > 3:
        return list(range(1, total + 1))
    return [*range(5, total - 60, 50), *range(max(1, total - 60), total + 1, 6)]


class Scene:
    """A repository after an agent was at work, or after that was rolled back, to be set up again and again."""

    def __init__(self, home: Path) -> None:
        self.home, self.project, self.store = home, home / "project", home / "store"
        new_repository(self.project)
        make_dirty(self.project)
        ws = self.open()
        ws.save("then", git=True)
        move_on(self.project)
        self.later = seen(self.project)
        self._keep("restore", ws)
        ws = self.open()
        ws.restore("then", git=True)
        self.then = seen(self.project)
        self._keep("undo", ws)

    def open(self) -> Any:
        """A new workspace object, as a new process would have it."""
        return mulligan.open(self.project, store=self.store)

    def _keep(self, name: str, ws: Any) -> None:
        ws.close()
        for place in (self.project, self.store):
            shutil.copytree(place, self.home / name / place.name, symlinks=True)

    def ready(self, verb: str) -> Any:
        """Everything as it was before a verb."""
        for place in (self.project, self.store):
            # The directory itself stays: another one in its place would be another project.
            for entry in os.scandir(place):
                shutil.rmtree(entry.path) if entry.is_dir(follow_symlinks=False) else os.unlink(entry.path)
            shutil.copytree(self.home / verb / place.name, place, symlinks=True, dirs_exist_ok=True)
        return self.open()

    def old_and_new(self, verb: str) -> tuple[dict[Any, bytes], dict[Any, bytes]]:
        """What git says before and after a verb."""
        return (self.later, self.then) if verb == "restore" else (self.then, self.later)

    def half_done(self) -> list[str]:
        """Files of git that are neither old nor new, each looked at alone."""
        found = []
        heads = [b"ref: refs/heads/main\n", b"ref: refs/heads/agent\n"]
        if (self.project / ".git/HEAD").read_bytes() not in heads:
            found.append("HEAD")
        kinds = {name: git("cat-file", "-t", f"refs/heads/{name}", cwd=self.project, check=False) for name in BRANCHES}
        found += [name for name, kind in kinds.items() if kind != b"commit\n"]
        staged = git("ls-files", "--stage", "-v", cwd=self.project, check=False)
        if staged not in {state["ls-files", "--stage", "-v"] for state in (self.later, self.then)}:
            found.append("index")
        return found


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def expect_one_or_the_other(scene: Scene, verb: str, at: str) -> str:
    """One writing command later: both halves old, or both new; returns which."""
    ws = scene.open()
    ws.save("after")
    now, (old, new) = seen(scene.project), scene.old_and_new(verb)
    assert now in (old, new), (at, ws.last_recovery, [key for key in now if now[key] not in (old[key], new[key])])
    assert "Kept" not in ws.last_recovery, (at, ws.last_recovery)
    expect_whole(scene.project)
    assert ws.pending() is None
    ws.close()
    return "old" if now == old else "new"


@pytest.mark.parametrize("verb", VERBS)
def test_a_kill_before_any_call_leaves_both_old_or_both_new(scene: Scene, verb: str) -> None:
    ends = set()
    for number in points(_calls(scene, verb)):
        ws = scene.ready(verb)
        with suppress(Killed), syscalls.using(KilledAt(number)):
            VERBS[verb](ws)
        ws.close()
        assert scene.half_done() == [], number
        ends.add(expect_one_or_the_other(scene, verb, str(number)))
    assert ends == {"old", "new"}


def test_a_kill_during_recovery_is_recovered(scene: Scene) -> None:
    """The restore is killed, then the command that ends it, and the next one ends it all the same."""
    total = _calls(scene, "restore")
    for number in points(total)[-10 :: 1 if sweep(1) > 3 else 3]:
        for second in range(1 + number % 11, 200, 7 if sweep(1) > 3 else 40):
            ws = scene.ready("restore")
            with suppress(Killed), syscalls.using(KilledAt(number)):
                VERBS["restore"](ws)
            ws.close()
            ws = scene.open()
            with suppress(Killed), syscalls.using(KilledAt(second)):
                ws.save("not yet")
            ws.close()
            assert scene.half_done() == [], (number, second)
            expect_one_or_the_other(scene, "restore", f"{number}, then {second}")


def _calls(scene: Scene, verb: str) -> int:
    ws, counting = scene.ready(verb), KilledAt(10_000)
    with syscalls.using(counting):
        VERBS[verb](ws)
    ws.close()
    return counting.count


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC, errno.EACCES], ids=errno.errorcode.get)
def test_a_failing_call_changes_nothing_or_is_ended_by_the_next_command(scene: Scene, verb: str, code: int) -> None:
    """An error is typed; what it says was not changed is not changed, on both sides."""
    step = 1 if sweep(1) > 3 else 71
    for number in range(1 + code % step, 10_000, step):
        ws, lie, error, report = scene.ready(verb), FailsAt(number, code), None, None
        with syscalls.using(lie):
            try:
                report = VERBS[verb](ws)
            except mulligan.MulliganError as refusal:
                error = refusal
        pending = ws.pending()
        ws.close()
        at = f"call {number} ({lie.failed}): {error}"
        assert scene.half_done() == [], at
        old, new = scene.old_and_new(verb)
        if error is not None and not pending:
            assert seen(scene.project) == old, at
            expect_whole(scene.project)
        if report is None or report.complete:
            expect_one_or_the_other(scene, verb, at)
        else:
            # A file of the workspace could not be read or written and is listed; git moved all the same.
            assert all(seen(scene.project)[words] == new[words] for words in HEADS), at
            expect_whole(scene.project)
        if not lie.failed:
            break


def test_a_disk_that_does_not_confirm_is_never_believed(scene: Scene) -> None:
    for number in range(1, 200, 1 if sweep(1) > 3 else 4):
        ws, lie = scene.ready("restore"), FsyncFailsAt(number)
        failed = False
        with syscalls.using(lie):
            try:
                VERBS["restore"](ws)
            except mulligan.MulliganError:
                failed = True
        ws.close()
        if lie.syncs < number:
            break
        assert failed, number
        expect_one_or_the_other(scene, "restore", f"sync {number}")


def test_somebody_elses_lock_after_a_crash_takes_the_files_back(scene: Scene) -> None:
    """Killed in the middle of the files, our locks removed by hand, git at work since: the old state comes back, on both sides."""
    total, tried = _calls(scene, "restore"), 0
    for number in range(total // 2, total, 1 if sweep(1) > 3 else 15):
        ws, killer = scene.ready("restore"), KilledAt(number)
        with suppress(Killed), syscalls.using(killer):
            VERBS["restore"](ws)
        ws.close()
        if killer.count < number:
            break  # it took fewer calls than the one that was counted: how many are read again depends on the clock
        begun = contents(scene.project) != contents(scene.home / "restore/project")
        head, new = (scene.project / ".git/HEAD").read_bytes(), b"ref: refs/heads/main\n"
        if (
            not begun
            or head == new
            or git("rev-parse", "main", cwd=scene.project) == git("rev-parse", "HEAD~2", cwd=scene.project, check=False)
        ):
            continue
        lock = scene.project / ".git/index.lock"
        lock.unlink(missing_ok=True)
        lock.write_bytes(b"")
        tried += 1
        ws = scene.open()
        try:
            ws.save("after")
        except mulligan.Busy:
            lock.unlink()
            ws.save("after")
        assert lock.exists() or seen(scene.project) == scene.then, number
        lock.unlink(missing_ok=True)
        assert seen(scene.project) in (scene.later, scene.then), number
        expect_whole(scene.project)
        ws.close()
    assert tried


def test_a_user_who_commits_over_a_crash_keeps_that_commit(scene: Scene) -> None:
    """Locks removed by hand and a commit made before the next command: what git moved to is left alone and named."""
    total = _calls(scene, "restore")
    ws = scene.ready("restore")
    number = total - 45
    with pytest.raises(Killed), syscalls.using(KilledAt(number)):
        VERBS["restore"](ws)
    ws.close()
    for lock in (scene.project / ".git").rglob("*.lock"):
        lock.unlink()
    git("commit", "-q", "--allow-empty", "-a", "-m", "over the crash", cwd=scene.project)
    made = git("rev-parse", "HEAD", cwd=scene.project).strip()
    with scene.open() as ws:
        ws.save("after")
    assert made in git("rev-list", "--all", cwd=scene.project).split()
    expect_whole(scene.project)
