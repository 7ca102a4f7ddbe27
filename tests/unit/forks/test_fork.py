"""A fork is a second working directory at a checkpoint, and neither directory nor store can change the other."""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
import subprocess
import sys

import pytest

import mulligan
import mulligan.aio
from checker import judge
from faults import Killed, KilledAt
from mulligan.forks.fork import stands
from mulligan.forks.verbs import bring, diff_between, origin, remove_fork, scratch
from mulligan.safefs import syscalls
from tools import git, plain_environment
from tree import put, snapshot


@pytest.fixture
def state(ws, project):
    """A workspace with a checkpoint named `start` that holds odd things, and edits after it."""
    put(project, "src/a.py", "one\n")
    put(project, "src/deep/b.bin", bytes(range(256)) * 400)
    put(project, "run.sh", "#!/bin/sh\n")
    (project / "run.sh").chmod(0o755)
    put(project, "private", "x")
    (project / "private").chmod(0o600)
    (project / "empty").mkdir()
    (project / "link").symlink_to("src/a.py")
    put(project, ".env", "TOKEN=hush\n")
    put(project, ".gitignore", "built/\n")
    ws.save("start", state={"plan": [1]}, context={"why": "test"})
    was = plain(project)
    put(project, "src/a.py", "two\n")
    put(project, "new.txt", "new\n")
    put(project, "built/out.o", "object\n")
    put(project, "node_modules/x/index.js", "js\n")
    return was


def plain(root, *, without=()):
    return {
        path: (e.kind, e.mode, e.content) for path, e in snapshot(root).items() if path.split("/")[0] not in without
    }


def test_a_fork_holds_the_state_and_the_workspace_is_untouched(ws, project, state, tmp_path):
    before = snapshot(project)
    fork = ws.fork("start", tmp_path / "try")
    assert plain(tmp_path / "try") == state
    assert snapshot(project) == before
    assert fork.root == str(tmp_path / "try")


def test_a_forks_timeline_starts_at_that_checkpoint_and_knows_its_origin(ws, project, state, tmp_path):
    start = ws.get("start")
    fork = ws.fork("start", tmp_path / "try")
    (first,) = fork.log()
    assert (first.id, first.name, first.kind, first.parent) == (start.id, "start", "manual", None)
    assert (first.state, first.context) == ({"plan": [1]}, {"why": "test"})
    assert fork.position() == start.id
    assert fork.save(if_changed=True) is None
    assert origin(fork) == {"workspace": str(project), "store": ws.store_path, "checkpoint": start.id}
    assert origin(ws) is None
    assert [each.directory for each in ws.forks()] == [fork.root]
    with pytest.raises(mulligan.NothingToUndo):
        fork.undo()


def test_work_in_a_fork_is_undone_there_and_nowhere_else(ws, project, state, tmp_path):
    fork = ws.fork("start", tmp_path / "try")
    before, log = snapshot(project), [each.id for each in ws.log()]
    put(tmp_path / "try", "src/a.py", "fork\n")
    fork.save("in the fork")
    fork.undo()
    assert plain(tmp_path / "try") == state
    assert snapshot(project) == before and [each.id for each in ws.log()] == log


def test_what_is_not_saved_comes_along_when_asked_for(ws, project, state, tmp_path):
    ws.fork("start", tmp_path / "plain")
    ws.fork("start", tmp_path / "full", with_ignored=True)
    assert not (tmp_path / "plain" / "built").exists()
    assert (tmp_path / "full" / "built" / "out.o").read_text() == "object\n"
    assert (tmp_path / "full" / "node_modules" / "x" / "index.js").read_text() == "js\n"
    assert plain(tmp_path / "full", without=("built", "node_modules")) == state


def test_unchanged_files_keep_their_times(ws, project, state, tmp_path):
    os.utime(project / "run.sh", ns=(10**18, 10**18))
    ws.save("later")
    ws.fork("later", tmp_path / "try")
    assert (tmp_path / "try" / "run.sh").stat().st_mtime_ns == 10**18


def test_no_file_of_two_workspaces_is_one_and_stores_share_only_packs(ws, project, state, tmp_path):
    fork = ws.fork("start", tmp_path / "try", with_ignored=True)
    mine = {(p.lstat().st_dev, p.lstat().st_ino) for p in project.rglob("*")}
    assert not mine & {(p.lstat().st_dev, p.lstat().st_ino) for p in (tmp_path / "try").rglob("*")}
    for root in (ws.store_path, fork.store_path):
        shared = [os.path.join(d, n) for d, _, names in os.walk(root) for n in names]
        shared = [path for path in shared if os.stat(path).st_nlink > 1]
        assert all(os.path.dirname(path).endswith("objects/pack") for path in shared)
        assert all(path.endswith((".pack", ".idx")) for path in shared)
    assert not os.path.exists(os.path.join(fork.store_path, "objects", "info", "alternates"))


@pytest.mark.parametrize("emptied", ["fork", "parent"])
def test_emptying_one_store_harms_no_other(ws, project, state, tmp_path, emptied):
    fork = ws.fork("start", tmp_path / "try")
    put(tmp_path / "try", "more", "more\n" * 1000)
    fork.save("more")
    one, other = (fork, ws) if emptied == "fork" else (ws, fork)
    for checkpoint in one.log():
        if checkpoint.id != one.position():
            one.delete(checkpoint)
    one.prune()
    assert other.check().ok and one.check().ok
    assert judge(other.store_path) == []
    other.restore("start")
    assert plain(other.root, without=("built", "node_modules")) == state


def test_a_fork_inside_the_workspace_is_a_workspace_of_its_own(ws, project, state, tmp_path):
    fork = ws.fork("start", project / "forks" / "inner")
    assert ("forks/inner", "worktree") in [(row.path, row.reason) for row in ws.not_captured()]
    put(project, "forks/inner/only-there", "x")
    saved = ws.save("with a fork inside")
    assert not ws.holds(saved, "forks/inner/only-there")
    ws.restore("start")
    assert (project / "forks" / "inner" / "only-there").read_text() == "x"
    assert fork.diff().added == ["only-there"]


def test_a_fork_is_refused_where_something_stands(ws, project, state, tmp_path):
    put(tmp_path, "taken/file", "x")
    for place in (tmp_path / "taken", project, tmp_path, tmp_path / "taken" / "file"):
        with pytest.raises(mulligan.UserError, match="Nothing was forked"):
            ws.fork("start", place)
    with pytest.raises(mulligan.UnknownCheckpoint):
        ws.fork("no such", tmp_path / "try")
    assert not ws.forks() and not (tmp_path / "try").exists()
    (tmp_path / "there").mkdir()
    ws.fork("start", tmp_path / "there")
    assert plain(tmp_path / "there") == state


def test_a_fork_that_was_deleted_by_hand_can_be_brought_back_or_removed(ws, project, state, tmp_path):
    fork = ws.fork("start", tmp_path / "try")
    shutil.rmtree(tmp_path / "try")
    assert [stands(ws.settings, each) for each in ws.forks()] == [False]
    with pytest.raises(mulligan.UserError, match="history of its own"):
        ws.fork("start", tmp_path / "try")
    fork.undo()
    assert plain(tmp_path / "try") == state
    remove_fork(ws, tmp_path / "try")
    assert not ws.forks() and not (tmp_path / "try").exists() and not os.path.exists(fork.store_path)


def test_another_directory_in_the_place_of_a_fork_is_never_removed(ws, project, state, tmp_path):
    ws.fork("start", tmp_path / "try")
    shutil.rmtree(tmp_path / "try")
    put(tmp_path, "try/mine", "x")
    remove_fork(ws, tmp_path / "try")
    assert (tmp_path / "try" / "mine").read_text() == "x" and not ws.forks()


def test_removing_a_fork_removes_read_only_directories_too(ws, project, state, tmp_path):
    ws.fork("start", tmp_path / "try")
    (tmp_path / "try" / "src" / "deep").chmod(0o555)
    remove_fork(ws, tmp_path / "try")
    assert not (tmp_path / "try").exists()


def test_a_checkpoint_of_a_fork_comes_back_under_its_id_and_one_undo_takes_it_back(ws, project, state, tmp_path):
    fork = ws.fork("start", tmp_path / "try")
    put(tmp_path / "try", "winner", "yes\n")
    saved = fork.save("winner")
    before = plain(project)
    brought = bring(ws, fork, "winner")
    assert brought.id == saved.id and ws.position() != saved.id and plain(project) == before
    ws.restore(brought)
    assert (project / "winner").read_text() == "yes\n" and (project / "built" / "out.o").exists()
    ws.undo()
    assert plain(project) == before
    assert judge(ws.store_path) == []


def test_two_forks_are_compared_across_their_stores(ws, project, state, tmp_path):
    one, two = ws.fork("start", tmp_path / "one"), ws.fork("start", tmp_path / "two")
    put(tmp_path / "one", "src/a.py", "from one\n")
    put(tmp_path / "two", "src/a.py", "from two\n")
    put(tmp_path / "two", "b", "b")
    one.save("1")
    two.save("2")
    diff = diff_between(one, "@", two)
    assert (diff.added, diff.modified) == (["b"], ["src/a.py"])
    assert "-from one\n+from two\n" in diff.patch


def test_a_scratch_fork_is_gone_afterwards(ws, project, state, tmp_path):
    with scratch(ws, "start") as made:
        assert plain(made.root) == state
        put_in, kept = made.root, made.store_path
        assert os.path.basename(put_in) == project.name and not ws.forks()
    assert not os.path.exists(os.path.dirname(put_in)) and not os.path.exists(kept)


def test_a_scratch_fork_whose_process_died_is_removed_by_the_next_command(ws, project, state, tmp_path):
    words = f"import mulligan, os; from mulligan.forks.verbs import scratch; w = mulligan.open({str(project)!r}, store={ws.store_path!r}); "
    words += "s = scratch(w, 'start'); print(s.__enter__().root, flush=True); os._exit(9)"
    done = subprocess.run([sys.executable, "-c", words], env=plain_environment(), capture_output=True, check=False)
    place = done.stdout.decode().strip()
    assert done.returncode == 9 and os.path.isdir(place), done.stderr
    ws.save("after")
    assert not os.path.exists(place)


def test_forking_works_as_a_coroutine(ws, project, state, tmp_path):
    async def go():
        there = mulligan.aio.Workspace(ws)
        fork = await there.fork("start", tmp_path / "try")
        return await there.forks(), fork

    forks, fork = asyncio.run(go())
    assert [each.directory for each in forks] == [str(tmp_path / "try")] and fork.root == str(tmp_path / "try")


def test_a_fork_on_another_disk_copies_its_objects(ws, project, state, tmp_path):
    class NoLinks(syscalls.Calls):
        def link(self, *args, **kwargs):
            raise OSError(18, "Invalid cross-device link")

    with syscalls.using(NoLinks()):
        fork = ws.fork("start", tmp_path / "try")
    assert plain(tmp_path / "try") == state and fork.check().ok
    names = [os.path.join(d, n) for d, _, names in os.walk(fork.store_path) for n in names]
    assert all(os.stat(each).st_nlink == 1 for each in names)


def test_a_kill_at_any_call_leaves_a_whole_fork_or_none(ws, project, state, tmp_path):
    before, at = snapshot(project), 0
    while True:
        at += 3
        place = tmp_path / f"try-{at}"
        killed = KilledAt(at)
        with mulligan.open(project, store=ws.store_path) as victim:
            try:
                with syscalls.using(killed):
                    victim.fork("start", place)
            except Killed:
                pass
            else:
                break
        with mulligan.open(project, store=ws.store_path) as next_one:
            next_one.save("after", if_changed=True)
            known = [each.directory for each in next_one.forks()]
            assert place.exists() == (str(place) in known), at
            assert not place.exists() or plain(place) == state
        assert not [name for name in os.listdir(tmp_path) if name.startswith(".mulligan-")], at
    assert snapshot(project) == before
    assert judge(ws.store_path) == []


def test_what_a_user_puts_in_the_place_of_an_interrupted_fork_stays(ws, project, state, tmp_path):
    at, place = 0, tmp_path / "try"
    while True:
        at += 5
        try:
            with mulligan.open(project, store=ws.store_path) as victim, syscalls.using(KilledAt(at)):
                victim.fork("start", place)
        except Killed:
            shutil.rmtree(place, ignore_errors=True)
            put(place, "mine", "x")
        else:
            break
        with mulligan.open(project, store=ws.store_path) as next_one:
            next_one.save("after", if_changed=True)
        assert (place / "mine").read_text() == "x", at
        for fork in ws.forks():
            remove_fork(ws, fork.directory)
        assert (place / "mine").read_text() == "x", at
        shutil.rmtree(place)


def test_a_fork_can_be_a_git_worktree(project, tmp_path):
    from mulligan.forks.worktree import make_worktree

    git("init", "-q", cwd=project)
    put(project, "a", "1\n")
    git("add", "-A", cwd=project)
    git("commit", "-qm", "one", cwd=project)
    put(project, "a", "2\n")
    ws = mulligan.open(project)
    start = ws.save("start")
    ws.fork("start", tmp_path / "try")
    assert make_worktree(str(project), str(tmp_path / "try"), start) == "branch try"
    assert git("status", "--short", cwd=tmp_path / "try") == b" M a\n"
    assert git("status", "--short", cwd=project) == b" M a\n"
    assert stat.S_ISREG((tmp_path / "try" / ".git").lstat().st_mode)
    assert (tmp_path / "try" / "a").read_text() == "2\n"
