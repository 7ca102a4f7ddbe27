"""Moving git, against plain git: after `restore(git=True)` and after its undo, git says exactly what it said then."""

from __future__ import annotations

import errno
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import mulligan
from checker import judge
from faults import FailsAt
from mulligan.engine.git import is_recorded
from mulligan.restore.git import to_record
from mulligan.safefs import syscalls
from tools import cli, cli_json, git
from tree import put, snapshot
from users_repository import commits, expect_whole, git_directory, make_dirty, move_on, new_repository, restored, seen


def plain(tmp_path: Path) -> Path:
    """A repository at the root of the workspace."""
    return new_repository(tmp_path / "project")


def worktree(tmp_path: Path) -> Path:
    """A linked worktree on a branch of its own."""
    main = new_repository(tmp_path / "main")
    git("worktree", "add", "-q", "-b", "linked", tmp_path / "project", cwd=main)
    return tmp_path / "project"


def submodule(tmp_path: Path) -> Path:
    """A submodule with a branch checked out."""
    inner, outer = new_repository(tmp_path / "inner"), new_repository(tmp_path / "outer")
    git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", inner, "sub", cwd=outer)
    git("checkout", "-q", "-B", "main", cwd=outer / "sub")
    return outer / "sub"


def detached(tmp_path: Path) -> Path:
    """HEAD on a commit."""
    repo = plain(tmp_path)
    git("checkout", "-q", "--detach", "HEAD~1", cwd=repo)
    return repo


def unborn(tmp_path: Path) -> Path:
    """No commit yet."""
    repo = tmp_path / "project"
    repo.mkdir()
    git("init", "-q", "-b", "main", cwd=repo)
    for name in ("file", "only1", "only2", "dir/deep/other"):
        put(repo, name, "1\n")
    git("add", "only2", cwd=repo)
    return repo


def packed(tmp_path: Path) -> Path:
    """All refs packed, all objects too."""
    repo = plain(tmp_path)
    git("tag", "-a", "-m", "t", "v1", cwd=repo)
    git("pack-refs", "--all", cwd=repo)
    git("gc", "-q", cwd=repo)
    return repo


def nested_branch(tmp_path: Path) -> Path:
    """A branch whose name has directories."""
    repo = plain(tmp_path)
    git("checkout", "-q", "-b", "a/b/c", cwd=repo)
    return repo


def split(tmp_path: Path) -> Path:
    """A split index."""
    repo = plain(tmp_path)
    git("update-index", "--split-index", cwd=repo)
    return repo


def version_4(tmp_path: Path) -> Path:
    """A compressed index."""
    repo = plain(tmp_path)
    git("update-index", "--index-version", "4", cwd=repo)
    return repo


def untracked_cache(tmp_path: Path) -> Path:
    """An index with an untracked cache."""
    repo = plain(tmp_path)
    git("update-index", "--untracked-cache", cwd=repo)
    git("status", cwd=repo, GIT_OPTIONAL_LOCKS="1")
    return repo


SHAPES = [
    plain, worktree, submodule, detached, unborn, packed, nested_branch, split, version_4, untracked_cache,
]  # fmt: skip


@pytest.fixture(params=SHAPES, ids=lambda shape: shape.__name__)
def repo(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return request.param(tmp_path)


@pytest.fixture
def ws(repo: Path, store: Path) -> Any:
    return mulligan.open(repo, store=store)


def test_git_says_the_same_as_at_the_checkpoint_and_after_undo_as_before(repo: Path, ws: Any, store: Path) -> None:
    """The whole circle: save, an agent at work, restore, undo, redo, undo by another process."""
    if git("rev-parse", "-q", "--verify", "HEAD", cwd=repo, check=False):
        make_dirty(repo)
    then = seen(repo)
    ws.save("then", git=True)
    move_on(repo)
    later, made = seen(repo), commits(repo)
    report = restored(ws, "then")
    assert report.git is not None
    assert seen(repo) == _same_refs(then, repo)
    assert made <= commits(repo), "a commit is not reachable any more"
    expect_whole(repo)
    ws.undo()
    assert seen(repo) == later
    expect_whole(repo)
    ws.redo()
    assert seen(repo) == _same_refs(then, repo)
    cli_json("--store", store, "undo", cwd=repo)
    assert seen(repo) == later
    expect_whole(repo)
    assert judge(store, repo) == [] and ws.check().ok


def _same_refs(then: dict[tuple[str, ...], bytes], repo: Path) -> dict[tuple[str, ...], bytes]:
    """A branch that was made since is not removed: only the one that is checked out goes back."""
    refs = ("for-each-ref", "refs/heads", "refs/tags", "refs/stash")
    now = {line.split()[2]: line for line in git(*refs, cwd=repo).splitlines()}
    old = {line.split()[2]: line for line in then[refs].splitlines()}
    assert {name: now.get(name) for name in old} == old
    return then | {refs: git(*refs, cwd=repo)}


def test_without_a_recorded_index_the_commit_is_the_index(repo: Path, ws: Any) -> None:
    """A checkpoint saved without git knows commit and branch; nothing is staged after the restore."""
    unborn_then = not git("rev-parse", "-q", "--verify", "HEAD", cwd=repo, check=False)
    ws.save("then")
    head = git("rev-parse", "-q", "--verify", "HEAD", cwd=repo, check=False)
    branch = git("symbolic-ref", "-q", "HEAD", cwd=repo, check=False)
    files = seen(repo)["files",]
    move_on(repo)
    restored(ws, "then")
    assert git("rev-parse", "-q", "--verify", "HEAD", cwd=repo, check=False) == head
    assert git("symbolic-ref", "-q", "HEAD", cwd=repo, check=False) == branch
    assert git("diff", "--cached", "--name-only", cwd=repo) == b""
    assert git("ls-files", cwd=repo) == b"" if unborn_then else git("write-tree", cwd=repo)
    assert seen(repo)["files",] == files
    expect_whole(repo)


def test_a_restore_of_files_alone_touches_no_byte_of_git(repo: Path, ws: Any) -> None:
    ws.save("then", git=True)
    move_on(repo)
    before = snapshot(git_directory(repo))
    ws.restore("then")
    ws.undo()
    ws.redo()
    ws.save("more")
    ws.undo()
    assert snapshot(git_directory(repo)) == before


def test_a_plan_shows_the_move_and_changes_nothing(repo: Path, ws: Any) -> None:
    ws.save("then", git=True)
    move_on(repo)
    before = snapshot(git_directory(repo))
    plan = ws.plan("then", git=True)
    assert (
        plan.git is not None and not plan.is_noop and plan.to_dict()["git"]["after"]["commit"] == plan.git.after.commit
    )
    assert snapshot(git_directory(repo)) == before
    report = ws.apply(plan)
    assert report.git is not None and report.git.after.same(plan.git.after)
    assert ws.plan("then", git=True).is_noop


def test_a_plan_is_stale_when_git_moved_under_it(tmp_path: Path, store: Path) -> None:
    repo = plain(tmp_path)
    ws = mulligan.open(repo, store=store)
    ws.save("then", git=True)
    move_on(repo)
    plan = ws.plan("then", git=True)
    git("commit", "-q", "-m", "meanwhile", cwd=repo)
    before = snapshot(repo)
    with pytest.raises(mulligan.PlanStale):
        ws.apply(plan)
    assert snapshot(repo) == before


def test_commits_between_the_rollback_and_the_undo_are_not_lost(tmp_path: Path, store: Path) -> None:
    """Undo takes the restore back all the same; what was committed meanwhile has a ref."""
    repo = plain(tmp_path)
    ws = mulligan.open(repo, store=store)
    ws.save("then", git=True)
    move_on(repo)
    later = seen(repo)
    restored(ws, "then")
    git("commit", "-q", "--allow-empty", "-m", "meanwhile", cwd=repo)
    meanwhile = git("rev-parse", "HEAD", cwd=repo).strip()
    report = ws.undo()
    assert report.git is not None and seen(repo) == later
    git("reflog", "expire", "--expire=now", "--all", cwd=repo)
    git("gc", "-q", "--prune=now", cwd=repo)
    assert meanwhile in commits(repo)
    ws.redo()
    assert git("rev-parse", "HEAD", cwd=repo).strip() == meanwhile
    expect_whole(repo)


def test_undo_of_edits_after_a_rollback_leaves_git_alone(tmp_path: Path, store: Path) -> None:
    """The first undo takes the edits back, and only the second, which takes the restore back, moves git."""
    repo = plain(tmp_path)
    ws = mulligan.open(repo, store=store)
    ws.save("then", git=True)
    move_on(repo)
    later = seen(repo)
    restored(ws, "then")
    put(repo, "file", "an edit\n")
    git("commit", "-q", "-a", "-m", "and a commit", cwd=repo)
    head = git("rev-parse", "HEAD", cwd=repo)
    assert ws.undo().git is None
    assert git("rev-parse", "HEAD", cwd=repo) == head
    assert ws.undo().git is not None
    assert seen(repo) == later


def test_a_step_that_was_taken_back_moves_git_no_more(tmp_path: Path, store: Path) -> None:
    """Restore with git, undo, and then steps about files alone: going back over them leaves git where it is."""
    repo = plain(tmp_path)
    ws = mulligan.open(repo, store=store)
    ws.save("then", git=True)
    move_on(repo)
    restored(ws, "then")
    ws.undo()
    git("commit", "-q", "--allow-empty", "-m", "later still", cwd=repo)
    head = git("rev-parse", "HEAD", cwd=repo)
    ws.restore("then")
    assert ws.undo().git is None
    assert ws.undo().git is None and (repo / "file").read_text() == "3\n"
    assert git("rev-parse", "HEAD", cwd=repo) == head


def test_a_save_on_top_is_taken_back_without_git(tmp_path: Path, store: Path) -> None:
    repo = plain(tmp_path)
    ws = mulligan.open(repo, store=store)
    ws.save("then", git=True)
    move_on(repo)
    restored(ws, "then")
    put(repo, "file", "new work\n")
    git("commit", "-q", "-a", "-m", "new work", cwd=repo)
    head = git("rev-parse", "HEAD", cwd=repo)
    ws.save("new work", git=True)
    assert ws.undo().git is None and git("rev-parse", "HEAD", cwd=repo) == head


def test_staged_content_that_git_has_lost_is_staged_as_committed(tmp_path: Path, store: Path) -> None:
    repo = plain(tmp_path)
    ws = mulligan.open(repo, store=store)
    make_dirty(repo)
    ws.save("then", git=True)
    git("reset", "-q", "--hard", cwd=repo)
    git("reflog", "expire", "--expire=now", "--all", cwd=repo)
    git("gc", "-q", "--prune=now", cwd=repo)
    report = restored(ws, "then")
    assert any("no longer in the repository" in note for note in report.git.notes), report.git.notes
    assert git("diff", "--cached", "--name-status", cwd=repo) == b"D\tonly2\n"
    assert (repo / "file").read_text() == "staged and then changed\n"
    expect_whole(repo)


def test_a_merge_under_way_is_left_and_comes_back_with_undo(tmp_path: Path, store: Path) -> None:
    repo = plain(tmp_path)
    ws = mulligan.open(repo, store=store)
    git("checkout", "-q", "side", cwd=repo)
    put(repo, "file", "side\n")
    git("commit", "-q", "-a", "-m", "side", cwd=repo)
    git("checkout", "-q", "main", cwd=repo)
    clean = seen(repo)
    ws.save("clean", git=True)
    git("merge", "-q", "side", cwd=repo, check=False)
    assert b"u UU" in git("status", "--porcelain=v2", cwd=repo)
    merging = seen(repo)
    parent = (repo / ".git/MERGE_HEAD").read_bytes()
    restored(ws, "clean")
    assert seen(repo) == clean and not (repo / ".git/MERGE_HEAD").exists()
    ws.undo()
    assert seen(repo) == merging and (repo / ".git/MERGE_HEAD").read_bytes() == parent
    put(repo, "file", "resolved\n")
    git("commit", "-q", "-a", "--no-edit", cwd=repo)
    assert len(git("rev-list", "--parents", "-1", "HEAD", cwd=repo).split()) == 3
    expect_whole(repo)


def test_a_rebase_under_way_is_refused(tmp_path: Path, store: Path) -> None:
    repo = plain(tmp_path)
    ws = mulligan.open(repo, store=store)
    ws.save("then", git=True)
    git("checkout", "-q", "side", cwd=repo)
    put(repo, "file", "side\n")
    git("commit", "-q", "-a", "-m", "side", cwd=repo)
    git("rebase", "-q", "main", cwd=repo, check=False)
    before = snapshot(repo)
    with pytest.raises(mulligan.GitNotMoved, match="rebase") as refusal:
        ws.restore("then", git=True)
    assert "git rebase --abort" in refusal.value.hint
    assert snapshot(repo) == before
    git("rebase", "--abort", cwd=repo)
    restored(ws, "then")
    expect_whole(repo)


def test_a_workspace_in_a_subdirectory_moves_all_of_git_and_its_own_files(tmp_path: Path, store: Path) -> None:
    repo = plain(tmp_path)
    ws = mulligan.open(repo / "dir", store=store)
    head = git("rev-parse", "HEAD", cwd=repo)
    ws.save("then", git=True)
    move_on(repo)
    later = seen(repo)
    report = restored(ws, "then")
    assert "larger repository" in report.git.notes[0]
    assert git("rev-parse", "HEAD", cwd=repo) == head
    assert (repo / "dir/deep/other").read_text() == "3\n" * 5
    assert (repo / "file").read_text() == "agent, not committed\n", "files outside of the workspace are not touched"
    ws.undo()
    assert seen(repo) == later
    expect_whole(repo)


def test_a_branch_that_was_deleted_is_made_again_and_undo_deletes_it(tmp_path: Path, store: Path) -> None:
    repo = nested_branch(tmp_path)
    ws = mulligan.open(repo, store=store)
    ws.save("then", git=True)
    then = seen(repo)
    git("checkout", "-q", "main", cwd=repo)
    git("branch", "-q", "-D", "a/b/c", cwd=repo)
    later = seen(repo)
    restored(ws, "then")
    assert seen(repo) == then
    git("pack-refs", "--all", cwd=repo)
    ws.undo()
    assert seen(repo) == later
    expect_whole(repo)


@pytest.mark.parametrize("pack", [False, True], ids=["loose", "packed"])
@pytest.mark.parametrize("taken", ["a", "a/b/c/d"])
def test_branches_that_cannot_both_be_are_refused(tmp_path: Path, store: Path, taken: str, pack: bool) -> None:
    repo = nested_branch(tmp_path)
    ws = mulligan.open(repo, store=store)
    ws.save("then", git=True)
    git("checkout", "-q", "main", cwd=repo)
    git("branch", "-q", "-D", "a/b/c", cwd=repo)
    git("branch", taken, cwd=repo)
    if pack:
        git("pack-refs", "--all", cwd=repo)
    before = snapshot(repo)
    with pytest.raises(mulligan.GitNotMoved, match="cannot be made again"):
        ws.restore("then", git=True)
    assert snapshot(repo) == before


def test_empty_directories_of_deleted_branches_are_no_conflict(tmp_path: Path, store: Path) -> None:
    repo = plain(tmp_path)
    ws = mulligan.open(repo, store=store)
    git("checkout", "-q", "-b", "a", cwd=repo)
    ws.save("then", git=True)
    then = seen(repo)
    git("checkout", "-q", "main", cwd=repo)
    git("branch", "-q", "-D", "a", cwd=repo)
    (repo / ".git/refs/heads/a/b").mkdir(parents=True)
    (repo / ".git/logs/refs/heads/a/b").mkdir(parents=True)
    restored(ws, "then")
    assert seen(repo) == then
    expect_whole(repo)


def test_a_branch_that_another_worktree_has_is_refused(tmp_path: Path, store: Path) -> None:
    repo = plain(tmp_path)
    ws = mulligan.open(repo, store=store)
    ws.save("then", git=True)
    move_on(repo)
    git("worktree", "add", "-q", tmp_path / "elsewhere", "main", cwd=repo)
    before = snapshot(repo)
    with pytest.raises(mulligan.GitNotMoved, match="another worktree"):
        ws.restore("then", git=True)
    assert snapshot(repo) == before
    ws.restore("then")


def test_a_commit_that_is_gone_is_refused_before_anything_changes(tmp_path: Path, store: Path) -> None:
    repo = plain(tmp_path)
    ws = mulligan.open(repo, store=store)
    git("checkout", "-q", "-b", "doomed", cwd=repo)
    git("commit", "-q", "--allow-empty", "-m", "doomed", cwd=repo)
    ws.save("then", git=True)
    git("checkout", "-q", "main", cwd=repo)
    git("branch", "-q", "-D", "doomed", cwd=repo)
    git("reflog", "expire", "--expire=now", "--all", cwd=repo)
    git("gc", "-q", "--prune=now", cwd=repo)
    put(repo, "file", "changed\n")
    before = snapshot(repo)
    with pytest.raises(mulligan.GitNotMoved, match="no longer in the repository"):
        ws.restore("then", git=True)
    with pytest.raises(mulligan.GitNotMoved):
        ws.plan("then", git=True)
    assert snapshot(repo) == before
    ws.restore("then")
    assert (repo / "file").read_text() == "3\n"


def test_no_repository_then_and_now(project: Path, store: Path) -> None:
    """Nothing to record, nothing to move; a repository made since is left alone."""
    ws = mulligan.open(project, store=store)
    put(project, "a", "1")
    assert ws.git_position() is None
    ws.save("then", git=True)
    put(project, "a", "2")
    report = ws.restore("then", git=True)
    assert report.git is None and (project / "a").read_text() == "1"
    new_repository(project)
    before = snapshot(project / ".git")
    assert ws.restore("then", git=True).git is None
    assert snapshot(project / ".git") == before


def test_a_repository_that_is_gone_is_said(tmp_path: Path, store: Path) -> None:
    repo = plain(tmp_path)
    ws = mulligan.open(repo, store=store)
    ws.save("then", git=True)
    shutil.rmtree(repo / ".git")
    put(repo, "file", "changed\n")
    with pytest.raises(mulligan.GitNotMoved, match="there is none here now"):
        ws.restore("then", git=True)
    assert (repo / "file").read_text() == "changed\n"


@pytest.mark.parametrize("option", ["--object-format=sha256", "--ref-format=reftable"])
def test_formats_that_are_only_read_are_refused(tmp_path: Path, store: Path, option: str) -> None:
    try:
        repo = new_repository(tmp_path / "project", option)
    except AssertionError:
        # An older git: the setting alone has to do.
        repo = plain(tmp_path)
        git("config", "extensions.refStorage", "reftable", cwd=repo)
    ws = mulligan.open(repo, store=store)
    put(repo, "file", "at the checkpoint\n")
    checkpoint = ws.save("then", git=True)
    assert checkpoint is not None and ws.git_position().problem
    put(repo, "file", "changed\n")
    before = snapshot(repo)
    with pytest.raises(mulligan.GitNotMoved):
        ws.restore("then", git=True)
    assert snapshot(repo) == before
    ws.restore("then")
    assert (repo / "file").read_text() == "at the checkpoint\n"


@pytest.mark.parametrize(
    "options",
    [
        ["--no-cone", "/file", "/only1", "/only2", "/only3"],
        ["--cone", "nothing"],
        ["--cone", "--sparse-index", "nothing"],
    ],
    ids=["patterns", "cone", "sparse index"],
)
def test_a_sparse_checkout_stays_sparse(tmp_path: Path, store: Path, options: list[str]) -> None:
    repo = plain(tmp_path)
    put(repo, "another/one", "1\n")
    git("add", "-A", cwd=repo)
    git("commit", "-q", "-m", "another directory", cwd=repo)
    git("sparse-checkout", "set", *options, cwd=repo)
    assert not (repo / "dir").exists()
    ws = mulligan.open(repo, store=store)
    for record in (True, False):
        ws.save("then", git=record)
        then = seen(repo)
        put(repo, "file", f"agent {record}\n")
        git("commit", "-q", "-a", "-m", "agent", cwd=repo)
        later = seen(repo)
        restored(ws, "then")
        assert seen(repo) == then
        ws.undo()
        assert seen(repo) == later
    expect_whole(repo)


def test_filters_and_line_ends_are_git_s_own_business(tmp_path: Path, store: Path) -> None:
    """The index holds the filtered content, the work tree the raw bytes; git finds both as they were."""
    repo = plain(tmp_path)
    put(repo, ".gitattributes", "*.txt text eol=crlf\n")
    (repo / "a.txt").write_bytes(b"one\r\ntwo\r\n")
    git("add", "-A", cwd=repo)
    git("commit", "-q", "-m", "text", cwd=repo)
    ws = mulligan.open(repo, store=store)
    then = seen(repo)
    ws.save("then", git=True)
    (repo / "a.txt").write_bytes(b"three\r\n")
    git("commit", "-q", "-a", "-m", "more", cwd=repo)
    restored(ws, "then")
    assert seen(repo) == then and (repo / "a.txt").read_bytes() == b"one\r\ntwo\r\n"


def test_names_that_are_not_text_and_marks_of_the_user_stay(tmp_path: Path, store: Path) -> None:
    repo = plain(tmp_path)
    os.mkdir(os.fsencode(repo) + b"/d\xff")
    with open(os.fsencode(repo) + b"/d\xff/n\xe9\n", "wb") as file:
        file.write(b"x")
    put(repo, "l" * 200 + "/" + "n" * 200, "long\n")
    git("add", "-A", cwd=repo)
    git("commit", "-q", "-m", "names", cwd=repo)
    git("update-index", "--assume-unchanged", "only1", cwd=repo)
    git("checkout", "-q", "-b", "zweig-\u00e4", cwd=repo)
    ws = mulligan.open(repo, store=store)
    then = seen(repo)
    ws.save("then", git=True)
    git("update-index", "--no-assume-unchanged", "only1", cwd=repo)
    move_on(repo)
    later = seen(repo)
    restored(ws, "then")
    assert seen(repo) == _same_refs(then, repo)
    ws.undo()
    assert seen(repo) == later


def test_an_edit_in_the_same_tick_is_seen_by_git_after_the_move(tmp_path: Path, store: Path) -> None:
    """A file changed right after it was staged, same size and time: a new index must not vouch for it."""
    repo = plain(tmp_path)
    git("config", "core.trustctime", "false", cwd=repo)
    ws = mulligan.open(repo, store=store)
    for number in range(10):
        put(repo, "file", f"{number}a\n")
        git("add", "file", cwd=repo)
        status = (repo / "file").stat()
        put(repo, "file", f"{number}b\n")
        os.utime(repo / "file", ns=(status.st_mtime_ns, status.st_mtime_ns))
        os.utime(repo / ".git/index", ns=(status.st_mtime_ns, status.st_mtime_ns))
        ws.save(f"then {number}", git=True)
        put(repo, "only1", f"{number}\n")
        git("add", "only1", cwd=repo)
        git("commit", "-q", "-m", "on", cwd=repo)
        restored(ws, f"then {number}")
        assert git("status", "--porcelain", "file", cwd=repo) == b"MM file\n"


def test_the_command_line_moves_git_when_told_to(tmp_path: Path, store: Path) -> None:
    repo = plain(tmp_path)
    then = seen(repo)
    assert cli("--store", store, "save", "then", "--git", cwd=repo).returncode == 0
    move_on(repo)
    later = seen(repo)
    planned = cli("--store", store, "restore", "then", "--git", "--dry-run", cwd=repo)
    assert "git to main at" in planned.stdout and seen(repo) == later
    done = cli("--store", store, "restore", "then", "--git", cwd=repo)
    assert "Git moved too: main at" in done.stdout and "another one" not in done.stdout, done.stdout + done.stderr
    assert seen(repo) == _same_refs(then, repo)
    undone = cli("--store", store, "undo", cwd=repo)
    assert "Git moved too: agent at" in undone.stdout and "mulligan redo" in undone.stdout
    assert seen(repo) == later
    refused = cli("--store", store, "restore", "then", "--git", "--", "file", cwd=repo)
    assert refused.returncode == 1 and seen(repo) == later


def test_git_without_paths_and_not_with_state_alone(tmp_path: Path, store: Path) -> None:
    repo = plain(tmp_path)
    ws = mulligan.open(repo, store=store)
    ws.save("then", git=True)
    for options in ({"paths": ["file"]}, {"what": "state"}):
        with pytest.raises(mulligan.UserError):
            ws.restore("then", git=True, **options)
        with pytest.raises(mulligan.UserError):
            ws.plan("then", git=True, **options)


def test_if_changed_counts_git_when_git_is_recorded(tmp_path: Path, store: Path) -> None:
    repo = plain(tmp_path)
    ws = mulligan.open(repo, store=store)
    assert ws.save("one", git=True, if_changed=True) is not None
    assert ws.save("two", git=True, if_changed=True) is None
    git("commit", "-q", "--allow-empty", "-m", "only git", cwd=repo)
    assert ws.save("three", if_changed=True) is None
    assert ws.save("four", git=True, if_changed=True) is not None


def test_an_index_that_was_spoilt_is_put_right_and_undo_is_exact(tmp_path: Path, store: Path) -> None:
    repo = plain(tmp_path)
    ws = mulligan.open(repo, store=store)
    then = seen(repo)
    ws.save("then", git=True)
    put(repo, ".git/index", b"no index at all")
    restored(ws, "then")
    assert seen(repo) == then
    ws.undo()
    assert (repo / ".git/index").read_bytes() == b"no index at all"
    ws.redo()
    assert seen(repo) == then
    expect_whole(repo)


def test_a_reflog_says_what_happened_as_git_would(tmp_path: Path, store: Path) -> None:
    repo = plain(tmp_path)
    ws = mulligan.open(repo, store=store)
    checkpoint = ws.save("then", git=True)
    before = git("rev-parse", "HEAD", cwd=repo).strip()
    git("commit", "-q", "--allow-empty", "-m", "on", cwd=repo)
    left = git("rev-parse", "HEAD", cwd=repo).strip()
    restored(ws, "then")
    for ref in ("HEAD", "main"):
        assert git("rev-parse", f"{ref}@{{1}}", cwd=repo).strip() == left
        first = git("reflog", "-1", "--format=%H %gs", ref, cwd=repo).strip()
        assert first == before + b" mulligan: restore to " + checkpoint.short_id.encode()
    git("config", "core.logAllRefUpdates", "false", cwd=repo)
    (repo / ".git/logs/HEAD").unlink()
    ws.undo()
    assert not (repo / ".git/logs/HEAD").exists()
    assert git("rev-parse", "main@{1}", cwd=repo).strip() == before


def test_forgetting_a_path_keeps_where_git_stood(tmp_path: Path, store: Path) -> None:
    repo = plain(tmp_path)
    ws = mulligan.open(repo, store=store)
    make_dirty(repo)
    ws.save("then", git=True)
    staged = git("ls-files", "--stage", cwd=repo)
    ws.forget("untracked")
    ws.prune()
    move_on(repo)
    restored(ws, "then")
    assert git("ls-files", "--stage", cwd=repo) == staged
    assert judge(store, repo) == [] and ws.check().ok


def test_collecting_keeps_what_is_recorded_and_drops_it_with_the_checkpoint(tmp_path: Path, store: Path) -> None:
    repo = plain(tmp_path)
    ws = mulligan.open(repo, store=store)
    checkpoint = ws.save("then", git=True)
    index = git("ls-tree", "-r", checkpoint.commit, "git/", cwd=store).split()[2].decode()
    ws.save("other")
    ws.prune()
    assert git("cat-file", "blob", index, cwd=store) == (repo / ".git/index").read_bytes()
    ws.delete("then")
    put(repo, "file", "x\n")
    ws.save("more")
    ws.prune()
    assert git("cat-file", "-e", index, cwd=store, check=False) == b"" and not _has(store, index)
    assert judge(store, repo) == []


def _has(store: Path, oid: str) -> bool:
    return oid.encode() in git("cat-file", "--batch-all-objects", "--batch-check", cwd=store)


def test_a_timeline_rebuilt_from_the_repository_still_knows_git(tmp_path: Path, store: Path) -> None:
    repo = plain(tmp_path)
    ws = mulligan.open(repo, store=store)
    make_dirty(repo)
    then = seen(repo)
    ws.save("then", git=True)
    move_on(repo)
    ws.close()
    for name in ("timeline.db", "timeline.db-wal", "timeline.db-shm"):
        (store / name).unlink(missing_ok=True)
    ws = mulligan.open(repo, store=store)
    ws.doctor()
    restored(ws, "then")
    assert seen(repo) == _same_refs(then, repo)


def test_two_workspaces_of_one_repository_keep_apart(tmp_path: Path) -> None:
    """A worktree moves its own HEAD, index and branch, and no other's."""
    main = plain(tmp_path)
    git("worktree", "add", "-q", "-b", "linked", tmp_path / "linked", cwd=main)
    first, second = (
        mulligan.open(place, store=tmp_path / f"store {place.name}") for place in (main, tmp_path / "linked")
    )
    first.save("then", git=True)
    second.save("then", git=True)
    move_on(main)
    put(tmp_path / "linked", "file", "linked\n")
    git("commit", "-q", "-a", "-m", "linked", cwd=tmp_path / "linked")
    linked = {key: value for key, value in seen(tmp_path / "linked").items() if key[0] != "for-each-ref"}
    restored(first, "then")
    assert {key: value for key, value in seen(tmp_path / "linked").items() if key[0] != "for-each-ref"} == linked
    restored(second, "then")
    second.undo()
    first.undo()
    expect_whole(main)
    expect_whole(tmp_path / "linked")


def test_a_save_with_git_that_cannot_read_where_git_stands_says_so(tmp_path: Path) -> None:
    """Whoever asked for git must not believe that this checkpoint can bring it back."""
    repo = new_repository(tmp_path / "project")
    (repo / ".git/HEAD").write_text("nonsense\n")
    with mulligan.open(repo, store=tmp_path / "store") as ws:
        told: list[object] = []
        ws.on("partial", told.append)
        saved = ws.save("asked", git=True)
        assert [row for row in saved.not_captured if row.path == ".git"] == [
            (".git", "unreadable", "Where HEAD stands cannot be read.")
        ]
        assert (saved.complete, len(told)) == (False, 1)
        assert ws.get("asked").not_captured == saved.not_captured
        assert ws.check().ok
        assert ws.save("not asked").complete, "the files are all there"
        assert judge(tmp_path / "store", repo) == []


def test_a_save_with_git_that_is_refused_a_look_at_the_repository_records_it_or_says_so(
    tmp_path: Path,
) -> None:
    """The first calls of a save are those that look at git; the rest are about files."""
    repo, silent = new_repository(tmp_path / "project"), []
    with mulligan.open(repo, store=tmp_path / "store") as ws:
        ws.save("first")
        for number in range(1, 50):
            lie, saved = FailsAt(number, errno.EIO), None
            with syscalls.using(lie), suppress(mulligan.MulliganError):
                saved = ws.save(f"n{number}", git=True)
            if saved is not None and saved.complete and not _stands(ws, saved):
                silent.append(f"call {number}, {lie.failed}")
    assert silent == []


def _stands(ws: mulligan.Workspace, saved: mulligan.Checkpoint) -> bool:
    """Whether a checkpoint holds where git stands."""
    return is_recorded(ws.bench.store, ws.bench.store.checkpoints.resolve(saved), to_record(ws.settings)[0])
