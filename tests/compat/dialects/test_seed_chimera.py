"""Seed 003, line by line: what its document says, played with mulligan's dialect."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

import pytest

import mulligan
from mulligan.dialects.chimera import (
    CheckpointManager,
    GhostCommitManager,
    LocalEnvironment,
    LoopConfig,
    ToolExecutor,
)


def tree(project: Path) -> dict[str, str]:
    found = (path for path in project.rglob("*") if path.is_file())
    return {path.relative_to(project).as_posix(): path.read_text() for path in found}


# -- "env = LocalEnvironment(working_dir="/tmp/project"); manager = CheckpointManager(env)" ---------------


def test_the_quick_start_works_in_a_directory_that_does_not_exist_yet(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    env = LocalEnvironment(working_dir="fresh")
    manager = CheckpointManager(env)
    assert manager.list_checkpoints() == []
    assert not (tmp_path / "fresh").exists()
    cp = manager.create(name="before-refactor", description="Clean state before refactoring")
    assert cp.name == "before-refactor"
    env.write_file("a.txt", "x")
    assert manager.undo() == cp
    assert tree(tmp_path / "fresh") == {}


# -- "auto_checkpoint: Set manager.auto_checkpoint = True to enable automatic checkpoint creation" --------


@pytest.mark.parametrize(
    ("flag", "given", "saves"), [(None, None, 1), (True, None, 1), (False, None, 0), (None, False, 0), (False, True, 1)]
)
def test_auto_checkpoint_says_what_the_loop_does(project: Path, flag: Any, given: Any, saves: int) -> None:
    manager = CheckpointManager(LocalEnvironment(project))
    assert manager.auto_checkpoint is False
    if flag is not None:
        manager.auto_checkpoint = flag
    config = LoopConfig(checkpoint_manager=manager, auto_checkpoint=given)
    ToolExecutor(config, {"write_file": lambda path, text: (project / path).write_text(text)}).execute(
        "write_file", path="a.txt", text="x"
    )
    assert len(manager.list_checkpoints()) == saves
    assert manager.auto_checkpoint is bool(saves)


# -- "It snapshots individual file contents before every file-modifying tool call" ------------------------


def _rename(project: Path, source: str, destination: str) -> None:
    os.rename(project / source, project / destination)


@pytest.mark.parametrize(
    ("tool", "arguments", "work"),
    [
        ("write_file", {"path": "a.txt"}, lambda p, path: (p / path).write_text("new")),
        ("multi_edit", {"file_path": "a.txt"}, lambda p, file_path: (p / file_path).write_text("new")),
        ("delete_file", {"path": "a.txt"}, lambda p, path: (p / path).unlink()),
        ("rename_file", {"source": "a.txt", "destination": "c.txt"}, _rename),
        ("bash", {"command": "echo new > a.txt; rm b.txt; echo d > d.txt"}, lambda p, command: os.system(f"cd {p}; {command}")),
        ("apply_patch", {"patch": "…"}, lambda p, patch: (p / "a.txt").write_text("new")),
    ],
)  # fmt: skip
def test_ghost_snapshots_cover_every_file_modifying_tool(project: Path, tool: str, arguments: Any, work: Any) -> None:
    (project / "a.txt").write_text("a")
    (project / "b.txt").write_text("b")
    before = tree(project)
    ghost = GhostCommitManager(workdir=str(project), max_snapshots=50)
    executor = ToolExecutor(LoopConfig(ghost_commits=ghost), {tool: lambda **given: work(project, **given)})
    executor.execute(tool, arguments)
    assert tree(project) != before
    assert ghost.depth == 1
    assert ghost.undo()
    assert tree(project) == before


def test_a_tool_that_only_reads_leaves_no_snapshot(project: Path) -> None:
    ghost = GhostCommitManager(workdir=str(project))
    ToolExecutor(LoopConfig(ghost_commits=ghost), {"read_file": lambda path: path}).execute("read_file", path="a.txt")
    assert ghost.depth == 0


def test_snapshot_label_without_paths_covers_the_workspace(project: Path) -> None:
    (project / "a.txt").write_text("a")
    (project / "sub").mkdir()
    (project / "sub" / "b.txt").write_text("b")
    before = tree(project)
    ghost = GhostCommitManager(workdir=str(project))
    ghost.snapshot("before the shell")
    (project / "a.txt").write_text("changed")
    (project / "sub" / "b.txt").unlink()
    (project / "new.txt").write_text("new")
    seen = ghost.peek()
    assert seen is not None
    assert seen.files == {"a.txt": "a", "sub/b.txt": "b", "new.txt": ""}
    assert ghost.undo() == ["restored: a.txt", "restored: sub/b.txt", "deleted: new.txt"]
    assert tree(project) == before
    ghost.snapshot("nothing", [])
    assert ghost.undo() == []


# -- "When set, the loop can create checkpoints automatically at configurable intervals" ------------------


def test_checkpoints_of_a_long_loop_are_not_evicted(project: Path) -> None:
    manager = CheckpointManager(LocalEnvironment(project))
    tools = {"write_file": lambda path, text: (project / path).write_text(text)}
    executor = ToolExecutor(LoopConfig(checkpoint_manager=manager, checkpoint_interval=1), tools)
    for number in range(230):
        executor.execute("write_file", path="a.txt", text=str(number))
    assert len(manager.list_checkpoints()) == 230
    manager.restore_by_id(manager.list_checkpoints()[0].id)
    assert (project / "a.txt").read_text() == "0"


def test_a_checkpoint_that_the_budget_removes_is_said(project: Path) -> None:
    env = LocalEnvironment(project)
    CheckpointManager(env).create("one")
    gone = env.workspace.log(limit=1)[0]
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        env._warn_if_evicted(gone)
    assert "Checkpoint 0 (one) was removed: the store reached its budget." in str(said[0].message)


# -- "LoopConfig: checkpoint_manager + ghost_commits fields" ----------------------------------------------


def test_loop_config_takes_and_passes_through_what_it_does_not_use() -> None:
    bus = object()
    config = LoopConfig(event_bus=bus, middleware=[], yolo_mode=True)
    assert (config.event_bus, config.middleware, config.yolo_mode) == (bus, [], True)
    assert config.permissions is None
    assert config.cancellation is None
    assert LoopConfig().auto_compact_threshold == 0.8
    with pytest.raises(AttributeError):
        config._private


def test_both_stacks_are_in_the_timeline_of_the_workspace(project: Path) -> None:
    (project / "a.txt").write_text("a")
    CheckpointManager(LocalEnvironment(project)).create("named")
    GhostCommitManager(project).snapshot("write_file: a.txt", ["a.txt"])
    with mulligan.open(project) as ws:
        assert {each.name for each in ws.log()} >= {"named", "ghost-1"}
