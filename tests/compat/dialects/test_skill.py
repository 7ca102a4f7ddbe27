"""
The checkpoint-manager skill's behaviours, one by one, with real git; then its own examples, and its worst defects shown fixed.

The numbers in the names are those of the list of behaviours that a drop-in must show.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mulligan.dialects.skill import (
    Checkpoint,
    CheckpointConfig,
    CheckpointManager,
    CheckpointType,
    FeatureState,
    GitSnapshot,
    GitState,
    RollbackHandler,
    RollbackResult,
    StateSnapshot,
    count_passing_tests,
)
from mulligan.errors import UnsafePath, UserError
from mulligan.loop.context import ContextTracker
from tools import git, plain_environment

ID = re.compile(r"^checkpoint-\d{8}-\d{6}(-\d+)?$")
SHAPES: dict[str, Any] = {
    "ids": [{"id": f"auth-00{n}", "category": "a", "description": f"d{n}", "steps": [], "passes": n < 3} for n in (1, 2, 3, 4)],
    "no ids": [{"category": "a", "description": f"auth-00{n}", "steps": ["x"], "passes": n < 3} for n in (1, 2, 3, 4)],
    "object": {
        "features": [{"id": f"auth-00{n}", "description": "", "status": "x", "passes": n < 3} for n in (1, 2, 3, 4)],
        "total": 4,
        "completed": 2,
    },
}  # fmt: skip


def run(awaitable: Any) -> Any:
    async def wait() -> Any:
        return await awaitable

    return asyncio.run(wait())


def head(repo: Path) -> str:
    return git("rev-parse", "HEAD", cwd=repo).decode().strip()


def commit(repo: Path, message: str) -> str:
    git("add", "-A", cwd=repo)
    git("commit", "-q", "-m", message, cwd=repo)
    return head(repo)


def files(root: Path) -> dict[str, bytes]:
    """Every file of the project but git's own and the records."""
    found = (path for path in root.rglob("*") if path.is_file())
    names = {path.relative_to(root).as_posix(): path for path in found}
    return {name: path.read_bytes() for name, path in names.items() if not name.startswith((".git/", ".claude/check"))}


def everything(root: Path) -> tuple[Any, ...]:
    """What a refused rollback must leave alone, git's view included."""
    status = git("status", "--porcelain=v2", "--branch", "-z", cwd=root, GIT_OPTIONAL_LOCKS="0")
    return files(root), git("symbolic-ref", "-q", "HEAD", cwd=root, check=False), head(root), status


def records(root: Path) -> set[str]:
    folder = root / ".claude" / "checkpoints"
    return {entry.name for entry in folder.iterdir()} - {".gitignore"} if folder.exists() else set()


@pytest.fixture
def repo(project: Path) -> Path:
    """A repository on `main` with one commit, a feature list and a progress file."""
    git("init", "-q", "-b", "main", cwd=project)
    (project / "src").mkdir()
    (project / "src" / "app.ts").write_text("v1\n")
    (project / "feature_list.json").write_text(json.dumps(SHAPES["ids"], indent=1))
    (project / "claude-progress.txt").write_text("# Session Progress\n")
    commit(project, "Initial setup")
    return project


@pytest.fixture
def manager(repo: Path) -> CheckpointManager:
    return CheckpointManager(repo)


# -- creating -----------------------------------------------------------------------------------


def test_01_create_echoes_what_it_was_told_and_where_git_stands(manager, repo):
    made = run(manager.create_checkpoint(name="before-refactor", description="State before major refactoring"))
    assert ID.match(made.id)
    assert (made.name, made.description) == ("before-refactor", "State before major refactoring")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", made.timestamp)
    assert made.id.startswith("checkpoint-" + re.sub(r"[-:]", "", made.timestamp).replace("T", "-"))
    assert made.git_state.commit_hash == head(repo)
    assert made.git_state.branch == "main"
    assert made.checkpoint_type is CheckpointType.MANUAL


def test_02_dirty_files_are_named_as_git_would_name_them_unquoted(manager, repo):
    (repo / "src" / "app.ts").write_text("v2\n")
    (repo / "new file é.txt").write_text("x")
    git("mv", "claude-progress.txt", "renamed.txt", cwd=repo)
    dirty = run(manager.create_checkpoint("x")).git_state.dirty_files
    assert set(dirty) == {"src/app.ts", "new file é.txt", "renamed.txt"}


def test_03_a_clean_tree_has_no_dirty_files(manager):
    assert run(manager.create_checkpoint("x")).git_state.dirty_files == []
    # The records themselves are no reason to be dirty.
    assert run(manager.create_checkpoint("y")).git_state.dirty_files == []


def test_04_the_feature_list_is_understood_and_copied(manager, repo):
    made = run(manager.create_checkpoint("x"))
    path = f".claude/checkpoints/{made.id}/feature_list.json"
    assert made.feature_state == FeatureState("auth-003", ["auth-001", "auth-002"], path)
    assert (repo / path).read_bytes() == (repo / "feature_list.json").read_bytes()
    copy = repo / ".claude" / "checkpoints" / made.id / "claude-progress.txt"
    assert copy.read_bytes() == (repo / "claude-progress.txt").read_bytes()


def test_05_without_a_feature_list(manager, repo):
    (repo / "feature_list.json").unlink()
    made = run(manager.create_checkpoint("x"))
    assert (made.feature_state.current, made.feature_state.completed) == (None, [])
    assert not (repo / made.feature_state.snapshot_path).exists()


@pytest.mark.parametrize("content", [b"{not json", b"", b"\xff\xfe\x00", b"[" * 100_000, b"17", b'[1, "x", null]'])
def test_06_a_feature_list_that_is_no_json_is_copied_as_it_is(manager, repo, content):
    (repo / "feature_list.json").write_bytes(content)
    made = run(manager.create_checkpoint("x"))
    assert (made.feature_state.current, made.feature_state.completed) == (None, [])
    assert (repo / made.feature_state.snapshot_path).read_bytes() == content
    assert count_passing_tests(repo) == (0, 0)


@pytest.mark.parametrize("shape", SHAPES)
def test_07_the_three_shapes_of_a_feature_list(manager, repo, shape):
    (repo / "feature_list.json").write_text(json.dumps(SHAPES[shape]))
    state = run(manager.create_checkpoint("x")).feature_state
    assert (state.current, state.completed) == ("auth-003", ["auth-001", "auth-002"])
    assert count_passing_tests(repo) == (2, 4)


def test_08_context_comes_back_from_disk(manager, repo):
    made = run(manager.create_checkpoint("x", context={"session_number": 5, "token_usage": 45000}))
    assert made.context == {"session_number": 5, "token_usage": 45000}
    assert run(CheckpointManager(repo).get_checkpoint(made.id)).context == made.context


def test_08_a_tracker_feeds_the_figures_of_the_session(repo):
    tracker = ContextTracker(repo)
    manager = CheckpointManager(repo, figures=tracker.figures)
    tracker.start_session()
    tracker.add_tokens(45000)
    made = run(manager.create_checkpoint("x", context={"token_usage": 1, "note": "mine"}))
    assert made.context == {"session_number": 1, "token_usage": 1, "note": "mine"}
    assert run(manager.create_checkpoint("y")).context == {"session_number": 1, "token_usage": 45000}


def test_09_to_dict_is_the_documented_json_with_the_type(manager, repo):
    made = run(manager.create_checkpoint("x", "y", CheckpointType.FEATURE, {"session_number": 5, "token_usage": 45000}))
    assert json.loads(json.dumps(made.to_dict())) == {
        "id": made.id,
        "name": "x",
        "description": "y",
        "timestamp": made.timestamp,
        "checkpoint_type": "feature",
        "git_state": {"commit_hash": head(repo), "branch": "main", "dirty_files": []},
        "feature_state": {
            "current": "auth-003",
            "completed": ["auth-001", "auth-002"],
            "snapshot_path": f".claude/checkpoints/{made.id}/feature_list.json",
        },
        "context": {"session_number": 5, "token_usage": 45000},
    }
    on_disk = json.loads((repo / ".claude" / "checkpoints" / made.id / "metadata.json").read_text())
    assert {key: on_disk[key] for key in made.to_dict()} == made.to_dict()
    assert Checkpoint.from_dict(on_disk) == made


def test_10_another_manager_sees_earlier_checkpoints(manager, repo):
    made = [run(manager.create_checkpoint(str(n))) for n in range(3)]
    assert run(CheckpointManager(repo).list_checkpoints()) == made[::-1]
    assert run(CheckpointManager(repo).get_latest()) == made[-1]
    assert run(manager.get_checkpoint("nope")) is None


# -- rolling back -------------------------------------------------------------------------------


def test_11_an_edited_file_is_as_it_was(manager, repo):
    made = run(manager.create_checkpoint("x"))
    (repo / "src" / "app.ts").write_text("v2\n")
    result = run(manager.rollback(made.id))
    assert result
    assert (result.success, result.checkpoint_id, result.restored) == (True, made.id, ["src/app.ts"])
    assert (repo / "src" / "app.ts").read_text() == "v1\n"


def test_12_what_was_dirty_at_the_checkpoint_is_dirty_again(manager, repo):
    (repo / "src" / "app.ts").write_text("dirty then\n")
    (repo / "untracked").write_text("untracked then\n")
    made = run(manager.create_checkpoint("x"))
    (repo / "src" / "app.ts").write_text("dirty now\n")
    (repo / "untracked").unlink()
    assert run(manager.rollback(made.id))
    assert (repo / "src" / "app.ts").read_text() == "dirty then\n"
    assert (repo / "untracked").read_text() == "untracked then\n"
    assert run(manager.create_checkpoint("y")).git_state == made.git_state


def test_13_commits_made_since_are_left_behind_and_stay_reachable(manager, repo):
    before = head(repo)
    made = run(manager.create_checkpoint("x"))
    (repo / "src" / "app.ts").write_text("v2\n")
    later = commit(repo, "later")
    assert run(manager.rollback(made.id))
    assert head(repo) == before
    assert git("symbolic-ref", "HEAD", cwd=repo) == b"refs/heads/main\n"
    assert git("status", "--porcelain", "--", "src", cwd=repo) == b""
    git("-c", "gc.reflogExpire=now", "gc", "-q", "--prune=now", cwd=repo)
    assert git("cat-file", "-t", later, cwd=repo) == b"commit\n"
    assert git("branch", "-a", "--contains", later, cwd=repo) == b""
    git("fsck", "--strict", cwd=repo)


def test_13_a_branch_that_was_switched_is_switched_back(manager, repo):
    made = run(manager.create_checkpoint("x"))
    git("switch", "-q", "-c", "experiment", cwd=repo)
    (repo / "src" / "app.ts").write_text("v2\n")
    experiment = commit(repo, "experiment")
    result = run(manager.rollback(made.id))
    assert (bool(result), result.branch, result.commit_hash) == (True, "main", made.git_state.commit_hash)
    assert git("symbolic-ref", "HEAD", cwd=repo) == b"refs/heads/main\n"
    assert git("rev-parse", "experiment", cwd=repo).decode().strip() == experiment


def test_14_files_made_since_go_and_files_deleted_since_come_back(manager, repo):
    before = files(repo)
    made = run(manager.create_checkpoint("x"))
    (repo / "tmp" / "deep").mkdir(parents=True)
    (repo / "tmp" / "deep" / "scratch").write_text("x")
    (repo / "src" / "app.ts").unlink()
    result = run(manager.rollback(made.id))
    assert files(repo) == before
    assert "tmp/deep/scratch" in result.removed
    assert not (repo / "tmp").exists()


@pytest.mark.parametrize("ignored", [False, True])
def test_15_feature_list_and_progress_file_go_back(manager, repo, ignored):
    if ignored:  # people keep these two out of their repository
        git("rm", "-q", "--cached", "feature_list.json", "claude-progress.txt", cwd=repo)
        (repo / ".gitignore").write_text("feature_list.json\nclaude-progress.txt\n")
        commit(repo, "not ours")
    before = files(repo)
    made = run(manager.create_checkpoint("x"))
    (repo / "feature_list.json").write_text(json.dumps([{"id": "auth-003", "passes": True}]))
    with (repo / "claude-progress.txt").open("a") as progress:
        progress.write("## Session 2\n")
    assert run(manager.rollback(made.id))
    assert files(repo) == before


def test_15_a_progress_file_that_was_not_there_is_removed(manager, repo):
    (repo / "claude-progress.txt").unlink()
    made = run(manager.create_checkpoint("x"))
    (repo / "claude-progress.txt").write_text("# Session Progress\n")
    assert run(manager.rollback(made.id))
    assert not (repo / "claude-progress.txt").exists()


def test_02_a_project_in_a_subdirectory_names_its_files_from_the_top_as_git_does(repo):
    part = repo / "packages" / "ä b"
    part.mkdir(parents=True)
    (part / "x").write_text("1")
    commit(repo, "a part")
    (part / "x").write_text("2")
    (part / "new").write_text("n")
    made = run(CheckpointManager(part).create_checkpoint("in a part"))
    assert made.git_state.dirty_files == ["packages/ä b/new", "packages/ä b/x"]
    assert GitSnapshot(part).capture() == made.git_state
    assert run(CheckpointManager(part).get_checkpoint(made.id)) == made
    shown = git("-c", "core.quotePath=false", "status", "--porcelain", "-z", cwd=part).decode().split("\0")
    assert sorted(row[3:] for row in shown if row) == made.git_state.dirty_files


@pytest.mark.parametrize("tracked", ["untracked", "tracked", "tracked later", "ignored"])
def test_16_the_records_outlive_a_rollback(manager, repo, tracked):
    if tracked == "ignored":
        (repo / ".gitignore").write_text(".claude/\n")
        commit(repo, "ignore")
    first = run(manager.create_checkpoint("first"))
    if tracked.startswith("tracked"):
        (repo / ".claude" / "checkpoints" / ".gitignore").unlink()
    if tracked == "tracked":
        commit(repo, "records too")
        first = run(manager.create_checkpoint("first, tracked"))
    second = run(manager.create_checkpoint("second"))
    if tracked.startswith("tracked"):
        commit(repo, "more records")
    (repo / "src" / "app.ts").write_text("v2\n")
    third = run(manager.create_checkpoint("third"))
    before = {path: path.read_bytes() for path in (repo / ".claude").rglob("*") if path.is_file()}
    for made in (first, third, second, third):
        assert run(manager.rollback(made.id)), made
        assert {path: path.read_bytes() for path in (repo / ".claude").rglob("*") if path.is_file()} == before


def test_16_git_neither_shows_nor_takes_nor_cleans_the_records(manager, repo):
    made = run(manager.create_checkpoint("first"))
    assert git("status", "--porcelain", cwd=repo) == b""
    git("add", "-A", cwd=repo)
    git("clean", "-fdq", cwd=repo)
    assert git("diff", "--cached", "--name-only", cwd=repo) == b""
    assert records(repo) == {made.id}
    assert run(manager.rollback(made.id))


def test_16_who_tracks_the_records_goes_on_tracking_them(manager, repo):
    folder = repo / ".claude" / "checkpoints" / "checkpoint-20250115-103000"
    folder.mkdir(parents=True)
    (folder / "metadata.json").write_text("{}")
    commit(repo, "the original's record")
    made = run(manager.create_checkpoint("mine"))
    assert f"?? .claude/checkpoints/{made.id}/".encode() in git("status", "--porcelain", cwd=repo).splitlines()


@pytest.mark.parametrize(
    "wrong", ["nope", "", "../../etc", "checkpoint-20250115-103000", "latest", "@", "x" * 5000, 7, None]
)
def test_17_an_unknown_id_changes_nothing(manager, repo, wrong):
    run(manager.create_checkpoint("before-refactor"))
    (repo / "src" / "app.ts").write_text("v2\n")
    before = everything(repo)
    result = run(manager.rollback(wrong))
    assert not result
    assert (result.success, bool(result.error)) == (False, True)
    assert everything(repo) == before


def test_18_rollback_to_latest_again_is_the_same(manager, repo):
    run(manager.create_checkpoint("older"))
    (repo / "src" / "app.ts").write_text("v2\n")
    newest = run(manager.create_checkpoint("newest", checkpoint_type="session"))
    (repo / "src" / "app.ts").write_text("v3\n")
    for _ in range(2):
        result = run(manager.rollback_to_latest())
        assert result
        assert result.checkpoint_id == newest.id
        assert (repo / "src" / "app.ts").read_text() == "v2\n"


def test_19_rollback_to_latest_of_nothing(manager, repo):
    before = everything(repo)
    assert not run(manager.rollback_to_latest())
    assert run(manager.get_latest()) is None
    assert run(manager.list_checkpoints()) == []
    assert everything(repo) == before
    assert not (repo / ".claude").exists()


# -- retention ----------------------------------------------------------------------------------


def test_20_each_type_is_kept_as_long_as_it_is_said(manager, repo):
    manual = [run(manager.create_checkpoint(f"m{n}")).id for n in range(10)]
    feature = [run(manager.create_checkpoint(f"f{n}", checkpoint_type=CheckpointType.FEATURE)).id for n in range(10)]
    session = [run(manager.create_checkpoint(f"s{n}", checkpoint_type="session")).id for n in range(4)]
    automatic = [run(manager.create_checkpoint(f"a{n}", checkpoint_type=CheckpointType.AUTOMATIC)).id for n in range(7)]
    kept = {*manual, *feature, *session[1:], *automatic[2:]}
    assert {each.id for each in run(manager.list_checkpoints())} == kept
    assert records(repo) == kept
    assert [each.id for each in run(manager.list_checkpoints("automatic"))] == automatic[:1:-1]
    assert run(manager.cleanup()) == []
    assert records(repo) == kept


def test_21_many_creations_in_one_second_have_their_own_ids(manager, repo):
    made = [run(manager.create_checkpoint(str(n))).id for n in range(8)]
    assert len(set(made)) == 8
    assert all(ID.match(each) for each in made)
    assert [each.id for each in run(manager.list_checkpoints())] == made[::-1]


def test_21_ids_do_not_collide_between_processes(repo):
    program = (
        "import asyncio, sys; from mulligan.dialects.skill import CheckpointManager\n"
        "async def main():\n"
        "    m = CheckpointManager(sys.argv[1])\n"
        "    for c in await asyncio.gather(*(m.create_checkpoint(str(n)) for n in range(4))): print(c.id)\n"
        "asyncio.run(main())\n"
    )
    started = [
        subprocess.Popen(
            [sys.executable, "-c", program, repo], env=plain_environment(), stdout=subprocess.PIPE, text=True
        )
        for _ in range(3)
    ]
    ids = [line for process in started for line in process.communicate(timeout=120)[0].split()]
    assert len(ids) == len(set(ids)) == 12
    assert {each.id for each in run(CheckpointManager(repo).list_checkpoints())} == set(ids) == records(repo)


# -- odd places ---------------------------------------------------------------------------------


def test_22_without_git(project):
    (project / "feature_list.json").write_text(json.dumps(SHAPES["ids"]))
    (project / "claude-progress.txt").write_text("1")
    (project / "a").write_text("1")
    before, manager = files(project), CheckpointManager(project)
    made = run(manager.create_checkpoint("x"))
    assert made.git_state == GitState("", "", [])
    for name in ("feature_list.json", "claude-progress.txt", "a", "b"):
        (project / name).write_text("2")
    assert run(manager.rollback(made.id))
    assert files(project) == before


def test_23_before_the_first_commit(project):
    git("init", "-q", "-b", "main", cwd=project)
    (project / "a").write_text("1")
    manager = CheckpointManager(project)
    made = run(manager.create_checkpoint("x"))
    assert made.git_state == GitState("", "main", ["a"])
    (project / "a").write_text("2")
    first = commit(project, "first")
    assert run(manager.rollback(made.id))
    assert (project / "a").read_text() == "1"
    assert git("symbolic-ref", "HEAD", cwd=project) == b"refs/heads/main\n"
    assert git("rev-parse", "-q", "--verify", "HEAD", cwd=project, check=False) == b""
    assert git("cat-file", "-t", first, cwd=project) == b"commit\n"


def test_24_a_detached_head_stays_detached(manager, repo):
    first = head(repo)
    (repo / "src" / "app.ts").write_text("v2\n")
    commit(repo, "second")
    git("checkout", "-q", first, cwd=repo)
    made = run(manager.create_checkpoint("x"))
    assert made.git_state == GitState(first, "HEAD", [])
    git("checkout", "-q", "main", cwd=repo)
    assert run(manager.rollback(made.id))
    assert git("symbolic-ref", "-q", "HEAD", cwd=repo, check=False) == b""
    assert head(repo) == first
    assert (repo / "src" / "app.ts").read_text() == "v1\n"


@pytest.mark.parametrize("form", [str, Path, lambda path: Path(os.path.relpath(path))])
def test_25_a_path_in_any_form_and_a_change_of_directory(repo, tmp_path, monkeypatch, form):
    monkeypatch.chdir(repo.parent)
    manager = CheckpointManager(form(repo))
    assert manager.project_dir == Path(form(repo))
    made = run(manager.create_checkpoint("x"))
    (repo / "src" / "app.ts").write_text("v2\n")
    monkeypatch.chdir("/")
    assert run(manager.rollback(made.id))
    assert (repo / "src" / "app.ts").read_text() == "v1\n"


def test_26_together_and_at_once(manager, repo):
    async def story() -> list[Checkpoint]:
        others = [CheckpointManager(repo) for _ in range(3)]
        made = await asyncio.gather(*(each.create_checkpoint(f"{n}") for each in (manager, *others) for n in range(3)))
        assert all(await asyncio.gather(*(manager.rollback(each.id) for each in made[:4])))
        return made

    made = asyncio.run(story())
    assert len({each.id for each in made}) == 12
    for each in made:
        on_disk = json.loads((repo / ".claude" / "checkpoints" / each.id / "metadata.json").read_text())
        assert Checkpoint.from_dict(on_disk) == each


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:20])


@pytest.mark.parametrize(
    "break_it", [Path.unlink, _cut, lambda path: path.write_bytes(b"")], ids=["gone", "cut", "empty"]
)
@pytest.mark.parametrize("name", ["metadata.json", "feature_list.json", "claude-progress.txt"])
def test_27_a_broken_record_is_refused_and_the_others_work(
    manager, repo, name: str, break_it: Callable[[Path], object]
):
    if name == "claude-progress.txt":
        (repo / name).write_text("longer than twenty characters, to be cut\n")
    good, broken = (run(manager.create_checkpoint(each)) for each in ("good", "broken"))
    break_it(repo / ".claude" / "checkpoints" / broken.id / name)
    (repo / "src" / "app.ts").write_text("v2\n")
    commit(repo, "later")
    before = everything(repo)
    assert good in run(CheckpointManager(repo).list_checkpoints())
    refused = run(manager.rollback(broken.id))
    assert not refused
    assert name in refused.error
    assert not run(manager.rollback_to_latest())
    assert everything(repo) == before
    assert run(manager.rollback(good.id))
    assert (repo / "src" / "app.ts").read_text() == "v1\n"
    # What was saved is in the store, so that the record can be had again.
    assert run(manager.repair_checkpoint(broken.id)) == broken
    assert run(manager.rollback(broken.id))


def test_28_ignored_and_outside_files_are_left_alone(manager, repo, tmp_path):
    (repo / ".gitignore").write_text("*.log\nbuild/\n")
    commit(repo, "ignore")
    made = run(manager.create_checkpoint("x"))
    (repo / "build").mkdir()
    (repo / "node_modules").mkdir()
    outside = tmp_path / "outside"
    kept = [repo / "run.log", repo / "build" / "out", repo / "node_modules" / "m.js", outside]
    for path in kept:
        path.write_text("mine")
    (repo / "link").symlink_to(outside)
    assert run(manager.rollback(made.id))
    assert [path.read_text() for path in kept] == ["mine"] * len(kept)
    assert not (repo / "link").is_symlink()


# -- the skill's own examples -------------------------------------------------------------------


def test_the_quick_start_runs_as_it_is_written(repo, monkeypatch):
    """Create, roll back, roll back to the latest: the lines of the skill's quick start."""
    project_dir = repo

    async def story() -> None:
        manager = CheckpointManager(project_dir)
        checkpoint = await manager.create_checkpoint(
            name="before-refactor",
            description="State before major refactoring",
        )
        (repo / "src" / "app.ts").write_text("broken")
        await manager.rollback(checkpoint.id)
        assert (repo / "src" / "app.ts").read_text() == "v1\n"
        # or rollback to latest
        (repo / "src" / "app.ts").write_text("broken again")
        await manager.rollback_to_latest()
        assert (repo / "src" / "app.ts").read_text() == "v1\n"

    asyncio.run(story())


def test_the_documented_json_loads_although_it_has_no_type():
    sample = {
        "id": "checkpoint-20250115-103000",
        "name": "before-refactor",
        "description": "State before major refactoring",
        "timestamp": "2025-01-15T10:30:00",
        "git_state": {"commit_hash": "abc1234", "branch": "main", "dirty_files": ["src/app.ts"]},
        "feature_state": {
            "current": "auth-003",
            "completed": ["auth-001", "auth-002"],
            "snapshot_path": ".claude/checkpoints/checkpoint-xxx/feature_list.json",
        },
        "context": {"session_number": 5, "token_usage": 45000},
    }
    loaded = Checkpoint.from_dict(sample)
    assert loaded.checkpoint_type is CheckpointType.MANUAL
    assert loaded.git_state == GitState("abc1234", "main", ["src/app.ts"])
    assert loaded.to_dict() == {**sample, "checkpoint_type": "manual"}


def test_the_siblings_spelling(repo):
    manager = CheckpointManager(repo, CheckpointConfig(max_checkpoints=2))
    made = [run(manager.create_checkpoint(name=str(n), checkpoint_type="auto")) for n in range(3)]
    assert [each.id for each in run(manager.list_checkpoints())] == [made[2].id, made[1].id]
    assert (made[0].git_commit, made[0].feature_id) == (head(repo), "auth-003")
    (repo / "src" / "app.ts").write_text("v2\n")
    assert run(manager.restore_checkpoint(made[2].id))
    assert (repo / "src" / "app.ts").read_text() == "v1\n"
    with pytest.raises(ValueError, match="weekly"):
        run(manager.create_checkpoint("x", checkpoint_type="weekly"))


def test_another_directory_for_the_records_and_no_git(repo):
    manager = CheckpointManager(repo, CheckpointConfig(checkpoint_dir="state/points", include_git=False))
    made = run(manager.create_checkpoint("x"))
    assert (repo / "state" / "points" / made.id / "metadata.json").exists()
    (repo / "src" / "app.ts").write_text("v2\n")
    later = commit(repo, "later")
    second = run(manager.create_checkpoint("y"))
    assert run(manager.rollback(made.id))
    assert (repo / "src" / "app.ts").read_text() == "v1\n"
    assert head(repo) == later
    assert (repo / "state" / "points" / second.id / "metadata.json").exists()


def test_the_parts_by_themselves(manager, repo):
    (repo / "src" / "app.ts").write_text("v2\n")
    assert GitSnapshot(repo).capture() == GitState(head(repo), "main", ["src/app.ts"])
    snapshot = StateSnapshot(repo)
    assert snapshot.capture() == FeatureState("auth-003", ["auth-001", "auth-002"], "")
    assert snapshot.files()["claude-progress.txt"] == b"# Session Progress\n"
    made = run(manager.create_checkpoint("x"))
    (repo / "src" / "app.ts").write_text("v3\n")
    handler = RollbackHandler(repo)
    assert run(handler.preview(made))["modifies"] == ["src/app.ts"]
    assert run(handler.rollback(made)) == RollbackResult(
        True, made.id, restored=["src/app.ts"], commit_hash=head(repo), branch="main", undo=run(manager.undo()).target
    )


# -- the original's worst defects, shown fixed --------------------------------------------------


def test_one_undo_brings_everything_back(manager, repo):
    """Work that was uncommitted when somebody rolled back is not lost: files, HEAD, branch and index come back."""
    made = run(manager.create_checkpoint("x"))
    git("switch", "-q", "-c", "feature", cwd=repo)
    (repo / "src" / "app.ts").write_text("v2\n")
    commit(repo, "second")
    (repo / "src" / "app.ts").write_text("staged\n")
    git("add", "src/app.ts", cwd=repo)
    (repo / "src" / "app.ts").write_text("not even staged\n")
    (repo / "scratch").write_text("untracked")
    (repo / "claude-progress.txt").unlink()
    before = everything(repo)
    assert run(manager.rollback(made.id))
    assert everything(repo) != before
    run(manager.undo())
    assert everything(repo) == before


def test_deleting_removes_the_checkpoint_and_its_record_only(manager, repo):
    first, second = (run(manager.create_checkpoint(each)) for each in ("first", "second"))
    (repo / ".claude" / "checkpoints" / second.id / "my notes").write_text("mine")
    assert run(manager.delete_checkpoint(first.id)) is True
    assert run(manager.delete_checkpoint(first.id)) is False
    assert records(repo) == {second.id}
    assert not run(manager.rollback(first.id))
    assert run(manager.delete_checkpoint(second.id)) is True
    assert [path.name for path in (repo / ".claude" / "checkpoints" / second.id).iterdir()] == ["my notes"]


def test_a_record_follows_a_checkpoint_that_another_door_deleted(manager, repo):
    first = run(manager.create_checkpoint("first"))
    manager.project.workspace.delete(first.mulligan_id)
    second = run(manager.create_checkpoint("second"))
    assert records(repo) == {second.id}


def test_records_that_came_with_a_clone_are_left_alone(manager, repo, tmp_path):
    made = run(manager.create_checkpoint("x"))
    git("add", "-f", ".claude", cwd=repo)
    commit(repo, "records too")
    git("clone", "-q", repo, tmp_path / "clone")
    there = CheckpointManager(tmp_path / "clone")
    mine = run(there.create_checkpoint("mine"))
    assert records(tmp_path / "clone") == {made.id, mine.id}
    assert run(there.list_checkpoints()) == [mine]
    assert not run(there.rollback(made.id))


def test_checkpoints_of_the_original_are_listed_and_can_be_gone_back_to(manager, repo):
    """A record of the skill itself: a commit (in short), copies of two files, no type."""
    first = head(repo)
    folder = repo / ".claude" / "checkpoints" / "checkpoint-20250115-103000"
    folder.mkdir(parents=True)
    (folder / "feature_list.json").write_text("[]")
    (folder / "metadata.json").write_text(
        json.dumps({
            "id": folder.name, "name": "before-refactor", "description": "", "timestamp": "2025-01-15T10:30:00",
            "git_state": {"commit_hash": first[:7], "branch": "main", "dirty_files": []},
            "feature_state": {"current": None, "completed": [], "snapshot_path": ""},
        })
    )  # fmt: skip
    (repo / "src" / "app.ts").write_text("v2\n")
    commit(repo, "later")
    assert [each.id for each in run(manager.list_checkpoints())] == [folder.name]
    made = run(manager.create_checkpoint("mine"))
    assert [each.id for each in run(manager.list_checkpoints())] == [made.id, folder.name]
    for n in range(7):
        run(manager.create_checkpoint(str(n), checkpoint_type="automatic"))
    result = run(manager.rollback(folder.name))
    assert result, result
    assert result.restored == ["feature_list.json", "src/app.ts"]
    assert (head(repo), (repo / "src" / "app.ts").read_text()) == (first, "v1\n")
    assert (repo / "feature_list.json").read_text() == "[]"
    assert run(manager.rollback(made.id))
    assert (repo / "src" / "app.ts").read_text() == "v2\n"
    assert run(manager.delete_checkpoint(folder.name))
    assert not folder.exists()


def test_a_record_of_the_original_whose_commit_is_gone_changes_nothing(manager, repo):
    folder = repo / ".claude" / "checkpoints" / "old"
    folder.mkdir(parents=True)
    for commit_hash in ("0123456789" * 4, "abc1234", "", "--soft"):
        (folder / "metadata.json").write_text(json.dumps({"id": "old", "git_state": {"commit_hash": commit_hash}}))
        before = everything(repo)
        assert not run(manager.rollback("old"))
        assert everything(repo) == before


def test_a_permanent_checkpoint_survives_the_loss_of_its_commit_elsewhere(manager, repo):
    """Files come from the store, so that a feature checkpoint is more than the name of a commit."""
    git("switch", "-q", "-c", "gone", cwd=repo)
    (repo / "src" / "app.ts").write_text("v2\n")
    lost = commit(repo, "will be lost")
    made = run(manager.create_checkpoint("x", checkpoint_type="feature"))
    git("switch", "-q", "main", cwd=repo)
    git("branch", "-q", "-D", "gone", cwd=repo)
    git("reflog", "expire", "--expire=now", "--all", cwd=repo)
    git("gc", "-q", "--prune=now", cwd=repo)
    if git("cat-file", "-t", lost, cwd=repo, check=False):
        assert run(manager.rollback(made.id))  # kept reachable by the checkpoint itself
        return
    before = everything(repo)
    refused = run(manager.rollback(made.id))
    assert not refused
    assert everything(repo) == before
    assert run(CheckpointManager(repo, CheckpointConfig(include_git=False)).rollback(made.id))
    assert (repo / "src" / "app.ts").read_text() == "v2\n"


def test_a_link_in_place_of_the_records_is_not_followed(repo, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (repo / ".claude").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UserError, match="cannot be used"):
        run(CheckpointManager(repo).create_checkpoint("x"))
    assert list((tmp_path / "elsewhere").iterdir()) == []
    assert run(CheckpointManager(repo).list_checkpoints()) == []


def test_a_creation_that_was_killed_before_its_record_is_finished_later(manager, repo):
    """Killed between the save and the record: the checkpoint is there, and its record is made up for."""
    made = run(manager.create_checkpoint("x"))
    folder = repo / ".claude" / "checkpoints"
    for path in (folder / made.id).iterdir():
        path.unlink()
    (folder / made.id).rename(folder / f".claim-{made.id}")
    (repo / "src" / "app.ts").write_text("v2\n")
    assert run(CheckpointManager(repo).rollback(made.id))
    assert records(repo) == {made.id}


@pytest.mark.parametrize("place", ["", ".", "..", "../out", "/elsewhere", ".git", ".git/x", "a/../.."])
def test_a_directory_of_records_outside_of_the_project_is_refused_and_nothing_is_made(repo, place):
    before = everything(repo)
    with pytest.raises(UnsafePath, match="inside the project"):
        CheckpointManager(repo, CheckpointConfig(checkpoint_dir=place))
    assert everything(repo) == before


@pytest.mark.parametrize("place", ["./notes", "notes/", "a//b", "no*tes", "x/../[notes]", "absolute"])
def test_records_in_another_place_outlive_a_rollback_however_it_is_spelled(repo, place):
    given = str(repo / "absolute") if place == "absolute" else place
    manager = CheckpointManager(repo, CheckpointConfig(checkpoint_dir=given))
    first = run(manager.create_checkpoint("first"))
    second = run(manager.create_checkpoint("second"))
    assert second.git_state.dirty_files == first.git_state.dirty_files
    for made in (first, second):
        assert run(manager.rollback(made.id)), made
        assert (repo / made.feature_state.snapshot_path).exists()
    assert {path.name for path in manager.checkpoint_dir.iterdir()} == {".gitignore", first.id, second.id}


@pytest.mark.parametrize("number", [0, -1, "5", True])
def test_a_number_of_checkpoints_that_makes_no_sense_is_refused_before_anything_is_saved(number):
    with pytest.raises(ValueError, match="max_checkpoints"):
        CheckpointConfig(max_checkpoints=number)


def test_02_an_ignored_state_file_is_not_dirty_although_it_is_saved(manager, repo):
    (repo / "claude-progress.txt").unlink()
    (repo / ".gitignore").write_text("*.txt\n")
    commit(repo, "ignore")
    (repo / "claude-progress.txt").write_text("# Session Progress\n")
    (repo / "new.ts").write_text("")
    for _ in range(2):  # looked at from scratch, and by what changed
        made = run(manager.create_checkpoint("x"))
        assert made.git_state.dirty_files == ["new.ts"]
        (repo / "claude-progress.txt").write_text("# Session Progress\nmore\n")
