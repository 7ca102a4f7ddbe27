"""
Chimera's behaviours, one by one; then its own examples, and its worst defects shown fixed.

The numbers in the names are those of the list of behaviours that a drop-in must show. The behaviours of the container
environment (21) have a file of their own, since they need an engine.
"""

from __future__ import annotations

import asyncio
import os
import re
import stat
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import pytest

import mulligan
from mulligan.dialects.chimera import (
    CheckpointInfo,
    CheckpointManager,
    Environment,
    GhostCommitManager,
    GhostSnapshot,
    GitEnvironment,
    LargeCheckpointWarning,
    LocalEnvironment,
    LoopConfig,
    ToolExecutor,
)
from mulligan.dialects.slash import SlashCommands
from mulligan.environments import local
from tools import git as plain_git
from tools import plain_environment


def git(root: Path, *words: str) -> bytes:
    return plain_git(*words, cwd=root)


@pytest.fixture
def env(project: Path) -> LocalEnvironment:
    return LocalEnvironment(workdir=project)


@pytest.fixture
def manager(env: LocalEnvironment) -> CheckpointManager:
    return CheckpointManager(env)


@pytest.fixture
def ghost(project: Path) -> GhostCommitManager:
    return GhostCommitManager(project)


def everything(root: Path) -> dict[str, tuple[int, bytes]]:
    """Returns every file and link below a directory except git's own: its mode and its bytes or target."""
    found = {}
    for folder, directories, names in os.walk(root):
        directories[:] = [name for name in directories if name != ".git"]
        for name in [*names, *directories]:
            path = Path(folder, name)
            mode = path.lstat().st_mode
            if stat.S_ISLNK(mode):
                found[str(path.relative_to(root))] = (mode, os.fsencode(os.readlink(path)))
            elif stat.S_ISREG(mode):
                found[str(path.relative_to(root))] = (mode, path.read_bytes())
    return found


# -- the manager --------------------------------------------------------------------------------


def test_01_create_says_what_it_saved(manager: CheckpointManager) -> None:
    info = manager.create("initial", "before changes")
    assert isinstance(info, CheckpointInfo)
    assert (info.name, info.description) == ("initial", "before changes")
    assert info.id
    assert abs(info.timestamp - time.time()) < 60


def test_02_names_are_made_when_none_is_given(manager: CheckpointManager) -> None:
    assert [manager.create().name, manager.create().name] == ["checkpoint-1", "checkpoint-2"]


def test_02_a_made_name_never_repeats_one_that_was_given(manager: CheckpointManager) -> None:
    manager.create("checkpoint-2")
    assert manager.create().name == "checkpoint-3"


def test_03_the_list_is_in_order_and_a_copy(manager: CheckpointManager) -> None:
    manager.create("a")
    manager.create("b")
    manager.list_checkpoints().clear()
    assert [info.name for info in manager.list_checkpoints()] == ["a", "b"]


def test_04_restore_by_name(manager: CheckpointManager, env: LocalEnvironment) -> None:
    env.write_file("f.txt", "original")
    made = manager.create("start")
    env.write_file("f.txt", "changed")
    assert manager.restore_by_name("start") == made
    assert env.read_file("f.txt") == "original"
    with pytest.raises(KeyError, match="No checkpoint named 'x'"):
        manager.restore_by_name("x")
    assert env.read_file("f.txt") == "original"


def test_05_restore_by_id(manager: CheckpointManager, env: LocalEnvironment) -> None:
    env.write_file("f.txt", "original")
    made = manager.create("start")
    env.write_file("f.txt", "changed")
    with pytest.raises(KeyError, match="No checkpoint with ID 'x'"):
        manager.restore_by_id("x")
    assert env.read_file("f.txt") == "changed"
    assert manager.restore_by_id(made.id) == made
    assert env.read_file("f.txt") == "original"


def test_06_undo_goes_to_the_latest(manager: CheckpointManager, env: LocalEnvironment) -> None:
    assert manager.undo() is None
    env.write_file("f.txt", "before")
    manager.create("snap")
    env.write_file("f.txt", "after")
    undone = manager.undo()
    assert undone is not None and undone.name == "snap"
    assert env.read_file("f.txt") == "before"


def test_07_get(manager: CheckpointManager) -> None:
    made = manager.create("here")
    assert manager.get("here") == made
    assert manager.get("nowhere") is None


def test_08_clear_forgets_records_only(manager: CheckpointManager, env: LocalEnvironment) -> None:
    env.write_file("f.txt", "1")
    made = manager.create("a")
    env.write_file("f.txt", "2")
    manager.clear()
    assert manager.list_checkpoints() == []
    assert manager.undo() is None
    env.restore(made.id)
    assert env.read_file("f.txt") == "1"


def test_09_time_for_people() -> None:
    info = CheckpointInfo("1", "a", 1_772_807_400.0)
    assert info.time_str == time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(1_772_807_400.0))
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", info.time_str)


def test_10_auto_checkpoint_is_a_flag(manager: CheckpointManager) -> None:
    assert manager.auto_checkpoint is False
    manager.auto_checkpoint = True
    assert manager.auto_checkpoint is True


def test_11_of_one_name_the_newest_counts(manager: CheckpointManager, env: LocalEnvironment) -> None:
    env.write_file("f", "1")
    manager.create("twice")
    env.write_file("f", "2")
    second = manager.create("twice")
    env.write_file("f", "3")
    assert manager.get("twice") == second
    manager.restore_by_name("twice")
    assert env.read_file("f") == "2"


def test_12_undo_twice_is_the_same_latest(manager: CheckpointManager) -> None:
    for _ in range(3):
        manager.create("")
    assert [manager.undo(), manager.undo()] == [manager.get("checkpoint-3")] * 2
    assert len(manager.list_checkpoints()) == 3


def test_13_undo_removes_what_came_since(manager: CheckpointManager, env: LocalEnvironment) -> None:
    env.write_file("todos.json", "[1]")
    manager.create("clean")
    env.write_file("todos.json", "[]")
    env.write_file("deep/er/new.py", "x")
    manager.undo()
    assert env.list_files() == ["todos.json"]
    assert env.read_file("todos.json") == "[1]"
    assert not (env.workdir / "deep").exists()


# -- the local environment ----------------------------------------------------------------------


def test_14_a_round_trip_and_what_is_not_there(env: LocalEnvironment) -> None:
    env.write_file("sub/dir/f.txt", "1")
    first = env.checkpoint()
    assert first == "0"
    env.write_file("sub/dir/f.txt", "2")
    assert env.checkpoint() == "1"
    env.restore(first)
    assert env.read_file("sub/dir/f.txt") == "1"
    with pytest.raises(ValueError, match="Checkpoint 99 not found"):
        env.restore("99")
    with pytest.raises(FileNotFoundError):
        env.read_file("missing.txt")


@pytest.mark.parametrize("above", ["", "site/", "a/b/"])
@pytest.mark.parametrize("name", ["venv", "node_modules", "__pycache__", ".idea", ".chimera", "site-packages"])
def test_15_what_is_excluded_is_neither_captured_nor_removed(env: LocalEnvironment, above: str, name: str) -> None:
    env.write_file(f"{above}source.py", "1")
    env.write_file(f"{above}{name}/thing", "old")
    made = env.checkpoint()
    env.write_file(f"{above}source.py", "2")
    env.write_file(f"{above}{name}/thing", "new")
    env.write_file(f"{above}{name}/other", "new")
    env.restore(made)
    assert env.read_file(f"{above}source.py") == "1"
    assert env.read_file(f"{above}{name}/thing") == "new"
    assert env.read_file(f"{above}{name}/other") == "new"


def test_15_a_file_of_such_a_name_is_captured(env: LocalEnvironment) -> None:
    env.write_file("venv", "a file")
    env.write_file("env/x", "1")
    made = env.checkpoint()
    os.unlink(env.workdir / "venv")
    env.write_file("env/x", "2")
    env.restore(made)
    assert (env.read_file("venv"), env.read_file("env/x")) == ("a file", "1")


@pytest.mark.parametrize("name", ["build", "dist", "target"])
def test_15_source_in_a_directory_for_output_comes_back_and_output_stays(env: LocalEnvironment, name: str) -> None:
    env.write_file(f"src/{name}/step.py", "source")
    made = env.checkpoint()
    env.write_file(f"src/{name}/step.py", "broken")
    env.write_file(f"src/{name}/out.o", "made since")
    env.write_file(f"{name}/out.o", "made since")
    env.restore(made)
    assert env.read_file(f"src/{name}/step.py") == "source"
    assert env.read_file(f"src/{name}/out.o") == env.read_file(f"{name}/out.o") == "made since"


def test_16_nothing_is_put_into_the_directory(env: LocalEnvironment) -> None:
    env.setup()
    assert list(env.workdir.iterdir()) == []
    env.write_file(".chimera/todo.json", "[1]")
    env.write_file("f", "1")
    for _ in range(3):
        env.checkpoint()
    assert sorted(path.name for path in env.workdir.iterdir()) == [".chimera", "f"]
    assert [path.name for path in (env.workdir / ".chimera").iterdir()] == ["todo.json"]
    env.restore("0")
    assert env.read_file(".chimera/todo.json") == "[1]"


@pytest.mark.parametrize("place", [".chimera_checkpoints", ".chimera/checkpoints"])
def test_17_copies_of_the_original_can_be_restored_and_ids_go_on(env: LocalEnvironment, place: str) -> None:
    for number in range(3):
        copy = env.workdir / place / str(number)
        (copy / "src").mkdir(parents=True)
        (copy / "src" / "f.txt").write_text(f"v{number}")
    env.write_file("src/f.txt", "now")
    env.write_file("added.txt", "now")
    before = everything(env.workdir / place)
    assert env.checkpoint_ids() == ["0", "1", "2"]
    assert env.checkpoint() == "3"
    env.restore("1")
    assert env.list_files("src/*") == ["src/f.txt"] and env.read_file("src/f.txt") == "v1"
    assert not (env.workdir / "added.txt").exists()
    env.restore("3")
    assert (env.read_file("src/f.txt"), env.read_file("added.txt")) == ("now", "now")
    assert everything(env.workdir / place) == before
    assert env.checkpoint() == "4"


def test_17_a_link_that_poses_as_a_copy_is_none(env: LocalEnvironment, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "f").write_text("x")
    (env.workdir / ".chimera_checkpoints").mkdir()
    (env.workdir / ".chimera_checkpoints" / "5").symlink_to(tmp_path / "outside")
    with pytest.raises(ValueError, match="not found"):
        env.restore("5")


def test_18_everything_is_kept_unless_the_project_says_otherwise(env: LocalEnvironment) -> None:
    env.write_file("f", "x")
    for _ in range(6):
        env.checkpoint()
    assert env.checkpoint_ids() == [str(number) for number in range(6)]


@pytest.mark.parametrize(("retain", "left"), [(2, ["3", "4"]), (1, ["4"])])
def test_18_retain_keeps_the_newest(env: LocalEnvironment, retain: int, left: list[str]) -> None:
    env.write_file(".chimera/config.toml", f"[storage.checkpoints]\nretain = {retain}\n")
    copy = env.workdir / ".chimera_checkpoints"
    for number in range(5):
        env.write_file("f", str(number))
        env.checkpoint()
    assert env.checkpoint_ids() == left
    # The next undo needs two, whatever the project says.
    assert [checkpoint.metadata["id"] for checkpoint in env.workspace.log()] == ["4", "3"]
    env.restore("4")
    assert env.read_file("f") == "4"
    (copy / "9").mkdir(parents=True)
    env.checkpoint()
    assert "9" in env.checkpoint_ids() and (copy / "9").is_dir()


@pytest.mark.parametrize("text", ["retain", "[storage]\ncheckpoints = 3", "[storage.checkpoints]\nretain = 0", "\xff"])
def test_18_a_config_that_makes_no_sense_changes_nothing(env: LocalEnvironment, text: str) -> None:
    (env.workdir / ".chimera").mkdir()
    (env.workdir / ".chimera" / "config.toml").write_bytes(text.encode("latin-1"))
    for _ in range(3):
        env.checkpoint()
    assert env.checkpoint_ids() == ["0", "1", "2"]


def test_18_the_manager_lists_what_can_be_restored(env: LocalEnvironment, manager: CheckpointManager) -> None:
    env.write_file(".chimera/config.toml", "[storage.checkpoints]\nretain = 2\n")
    for name in "abcd":
        manager.create(name)
    assert [info.name for info in manager.list_checkpoints()] == ["c", "d"]
    assert manager.get("a") is None


def test_19_a_large_checkpoint_warns(env: LocalEnvironment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "CHECKPOINT_SIZE_WARN_BYTES", 1000)
    env.write_file("node_modules/big", "x" * 5000)
    env.write_file("small", "x")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env.checkpoint()
    env.write_file("big", "x" * 5000)
    with pytest.warns(LargeCheckpointWarning, match="retain"):
        env.checkpoint()


@pytest.mark.parametrize("place", ["/", "home"])
def test_19_the_machine_and_the_home_are_refused(place: str, private_home: Path) -> None:
    env = LocalEnvironment(place if place == "/" else private_home)
    for refused in (env.checkpoint, lambda: env.restore("0")):
        with pytest.raises(PermissionError):
            refused()


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "a/../../x", "out/x", "out-file", "a\0b"])
def test_19_paths_do_not_leave(env: LocalEnvironment, tmp_path: Path, path: str) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "x").write_text("theirs")
    (env.workdir / "out").symlink_to(tmp_path / "elsewhere")
    (env.workdir / "out-file").symlink_to(tmp_path / "elsewhere" / "x")
    with pytest.raises(PermissionError, match="Path escapes workdir: "):
        env.read_file(path)
    with pytest.raises(PermissionError, match="Path escapes workdir: "):
        env.write_file(path, "mine")
    assert (tmp_path / "elsewhere" / "x").read_text() == "theirs"


# -- the git environment ------------------------------------------------------------------------


def commits(root: Path) -> list[str]:
    return git(root, "log", "--format=%s").decode().splitlines()


def test_20_setup_makes_a_repository(project: Path) -> None:
    env = GitEnvironment(project)
    env.setup()
    assert (project / ".git").is_dir()
    assert commits(project) == ["initial"]
    env.setup()
    assert commits(project) == ["initial"]


def test_20_back_and_forth(project: Path) -> None:
    env = GitEnvironment(project)
    env.write_file("f", "v1")
    first = env.checkpoint()
    env.write_file("f", "v2")
    env.write_file("added", "later")
    second = env.checkpoint()
    assert len(first) == len(second) == 40
    assert commits(project)[:2] == ["checkpoint", "checkpoint"]
    for _ in range(2):
        env.restore(first)
        assert (env.read_file("f"), (project / "added").exists()) == ("v1", False)
        env.restore(second[:10])
        assert (env.read_file("f"), env.read_file("added")) == ("v2", "later")
    assert git(project, "rev-parse", "HEAD").decode().strip() == second
    assert git(project, "status", "--porcelain") == b""


def test_20_an_untracked_file_is_removed_and_one_undo_brings_it_back(project: Path) -> None:
    env = GitEnvironment(project)
    env.write_file("f", "v1")
    made = env.checkpoint()
    env.write_file("untracked", "three days of work")
    env.restore(made)
    assert not (project / "untracked").exists()
    env.workspace.undo()
    assert env.read_file("untracked") == "three days of work"


# -- the ghost stack ----------------------------------------------------------------------------


def test_22_edit_and_undo(ghost: GhostCommitManager, project: Path) -> None:
    (project / "a.py").write_text("v1")
    assert ghost.snapshot("edit", ["a.py"]) == "ghost-1"
    (project / "a.py").write_text("v2")
    said = ghost.undo()
    assert len(said) == 1 and "restored" in said[0]
    assert said == ["restored: a.py"]
    assert (project / "a.py").read_text() == "v1"


def test_22_a_new_file_is_deleted_again(ghost: GhostCommitManager, project: Path) -> None:
    ghost.snapshot("write", ["new.py"])
    entry = ghost.peek()
    assert entry is not None and entry.files["new.py"] == ""
    (project / "new.py").write_text("x")
    assert ghost.undo() == ["deleted: new.py"]
    assert not (project / "new.py").exists()


def test_22_two_at_once(ghost: GhostCommitManager, project: Path) -> None:
    for version in ("v1", "v2"):
        (project / "a.py").write_text(version)
        ghost.snapshot(version, ["a.py"])
    (project / "a.py").write_text("v3")
    assert ghost.depth == 2
    assert ghost.undo(2) == ["restored: a.py", "restored: a.py"]
    assert (project / "a.py").read_text() == "v1"
    assert ghost.depth == 0


def test_22_the_oldest_go_first(project: Path) -> None:
    ghost = GhostCommitManager(project, max_snapshots=3)
    (project / "a").write_text("x")
    for number in range(5):
        ghost.snapshot(str(number), ["a"])
    assert ghost.depth == 3
    assert [entry.label for entry in ghost.history] == ["2", "3", "4"]


def test_22_peek(ghost: GhostCommitManager, project: Path) -> None:
    assert ghost.peek() is None
    (project / "a").write_text("text")
    ghost.snapshot("the label", ["a"])
    entry = ghost.peek()
    assert isinstance(entry, GhostSnapshot)
    assert (entry.id, entry.label, entry.files) == ("ghost-1", "the label", {"a": "text"})
    assert ghost.depth == 1


def test_23_more_than_there_are(ghost: GhostCommitManager, project: Path) -> None:
    (project / "a").write_text("x")
    ghost.snapshot("1", ["a"])
    ghost.snapshot("2", ["a"])
    assert len(ghost.undo(5)) == 2
    assert ghost.undo() == []
    assert ghost.undo(0) == []


def test_24_directories_come_back(ghost: GhostCommitManager, project: Path) -> None:
    (project / "deep" / "er").mkdir(parents=True)
    (project / "deep" / "er" / "f").write_text("x")
    ghost.snapshot("rm -r deep", ["deep/er/f"])
    (project / "deep" / "er" / "f").unlink()
    (project / "deep" / "er").rmdir()
    (project / "deep").rmdir()
    assert ghost.undo() == ["restored: deep/er/f"]
    assert (project / "deep" / "er" / "f").read_text() == "x"


def test_25_history_is_a_copy_and_numbers_go_on(ghost: GhostCommitManager) -> None:
    assert [ghost.snapshot("a"), ghost.snapshot("b", [])] == ["ghost-1", "ghost-2"]
    ghost.history.clear()
    assert [entry.id for entry in ghost.history] == ["ghost-1", "ghost-2"]
    assert [entry.files for entry in ghost.history] == [{}, {}]
    assert ghost.undo() == []
    ghost.clear()
    assert ghost.depth == 0
    assert ghost.snapshot("c") == "ghost-3"


# -- examples, REPL, loop -----------------------------------------------------------------------


def test_26_the_quick_start(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "main.py").write_text("good")
    env = LocalEnvironment(working_dir=str(project))
    manager = CheckpointManager(env)
    # Save a checkpoint
    cp = manager.create(name="before-refactor", description="Clean state before refactoring")
    print(cp.time_str)
    (project / "main.py").write_text("bad")
    # Undo to the most recent checkpoint
    manager.undo()
    assert (project / "main.py").read_text() == "good"

    cp1 = manager.create(name="initial", description="Starting state")
    manager.create(name="after-tests", description="All tests passing")
    for cp in manager.list_checkpoints():
        print(f"{cp.name} ({cp.time_str}): {cp.description}")
    restored = manager.restore_by_name("initial")
    print(f"Restored to: {restored.name}")
    restored = manager.restore_by_id(cp1.id)
    result = manager.undo()
    print(f"Undone to: {result.name}" if result else "No checkpoints to undo to")
    info = manager.get("before-refactor")
    assert info is not None
    out = capsys.readouterr().out
    assert "Restored to: initial" in out and "Undone to: after-tests" in out

    ghost = GhostCommitManager(workdir=str(project), max_snapshots=50)
    config = LoopConfig(ghost_commits=ghost)
    assert config.ghost_commits is ghost and config.checkpoint_manager is None
    ghost.snapshot("write_file: main.py", paths=["main.py"])
    (project / "main.py").write_text("worse")
    ghost.undo()
    assert (project / "main.py").read_text() == "good"


def test_27_what_the_repl_says(manager: CheckpointManager, env: LocalEnvironment) -> None:
    repl = SlashCommands(manager)
    assert repl.run("/checkpoint") == "No checkpoints."
    assert repl.run("/checkpoint undo") == "No checkpoints to undo."
    env.write_file("f", "1")
    assert repl.run("/checkpoint save one") == "Checkpoint saved: one (0)"
    assert repl.run("/checkpoint create two") == "Checkpoint saved: two (1)"
    assert repl.run("/checkpoint save") == "Checkpoint saved: checkpoint-3 (2)"
    times = [info.time_str for info in manager.list_checkpoints()]
    listed = [f"  0  one  {times[0]}", f"  1  two  {times[1]}", f"  2  checkpoint-3  {times[2]}"]
    assert repl.run("/checkpoint list") == repl.run("/checkpoint") == "\n".join(listed)
    assert repl.run("/checkpoint restore one") == "Restored to checkpoint: one"
    assert repl.run("/checkpoint restore") == "Usage: /checkpoint restore <name>"
    assert repl.run("/checkpoint restore nope") == "No checkpoint named 'nope'"
    assert repl.run("/checkpoint undo") == "Undone to checkpoint: checkpoint-3"
    assert repl.run("/checkpoint frob") == "Unknown checkpoint command: frob"
    assert SlashCommands().run("/checkpoint save") == "No checkpoint manager active."


def test_27_undo_pops_the_ghost_stack(ghost: GhostCommitManager, project: Path) -> None:
    repl = SlashCommands(None, ghost)
    assert repl.run("/undo") == "Nothing to undo."
    for version in ("v1", "v2"):
        (project / "a").write_text(version)
        ghost.snapshot("write_file: a", ["a"])
    (project / "a").write_text("v3")
    assert repl.run("/undo") == "restored: a"
    assert (project / "a").read_text() == "v2"
    assert repl.run("/undo x") == "Usage: /undo [n]"


class Tools:
    """What an agent can do."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def write_file(self, path: str, content: str) -> str:
        (self.root / path).write_text(content)
        return "ok"

    def fail(self) -> None:
        raise OSError("the tool failed")

    def say_no(self) -> dict[str, Any]:
        return {"success": False}

    def table(self) -> dict[str, Any]:
        return {"write_file": self.write_file, "fail": self.fail, "say_no": self.say_no, "deploy": lambda: "ok"}


@pytest.fixture
def tools(project: Path) -> dict[str, Any]:
    return Tools(project).table()


def test_28_before_a_write_the_file_goes_on_the_stack(
    ghost: GhostCommitManager, project: Path, tools: dict[str, Any]
) -> None:
    (project / "main.py").write_text("before")
    executor = ToolExecutor(LoopConfig(ghost_commits=ghost), tools)
    assert executor.execute("write_file", {"path": "main.py", "content": "after"}) == "ok"
    entry = ghost.peek()
    assert ghost.depth == 1 and entry is not None
    assert (entry.label, entry.files) == ("write_file: main.py", {"main.py": "before"})
    ghost.undo()
    assert (project / "main.py").read_text() == "before"


def test_28_after_a_success_a_checkpoint_and_none_after_a_failure(
    manager: CheckpointManager, tools: dict[str, Any]
) -> None:
    executor = ToolExecutor(LoopConfig(checkpoint_manager=manager), tools)
    executor.execute("write_file", path="a", content="1")
    assert [info.description for info in manager.list_checkpoints()] == ["After write_file"]
    with pytest.raises(OSError, match="the tool failed"):
        executor.execute("fail")
    executor.execute("say_no")
    assert len(manager.list_checkpoints()) == 1


def test_28_the_flag_is_obeyed_once_it_was_set(manager: CheckpointManager, tools: dict[str, Any]) -> None:
    executor = ToolExecutor(LoopConfig(checkpoint_manager=manager), tools)
    manager.auto_checkpoint = False
    executor.execute("write_file", path="a", content="1")
    assert manager.list_checkpoints() == []
    manager.auto_checkpoint = True
    executor.execute("write_file", path="a", content="2")
    assert len(manager.list_checkpoints()) == 1


def test_28_the_interval_and_the_risky_tools(manager: CheckpointManager, tools: dict[str, Any]) -> None:
    config = LoopConfig(checkpoint_manager=manager, checkpoint_interval=3, risky_tools=["deploy"], max_steps=9)
    executor = ToolExecutor(config, tools)
    for number in range(4):
        executor.execute("write_file", path="a", content=str(number))
    assert len(manager.list_checkpoints()) == 1
    executor.execute("deploy")
    assert manager.list_checkpoints()[1].description == "before deploy: listed as risky"
    assert config.max_steps == 9  # type: ignore[attr-defined]


def test_28_tools_that_are_coroutines(manager: CheckpointManager, ghost: GhostCommitManager, project: Path) -> None:
    async def write_file(path: str, content: str) -> str:
        (project / path).write_text(content)
        return "ok"

    executor = ToolExecutor(LoopConfig(checkpoint_manager=manager, ghost_commits=ghost), {"write_file": write_file})
    assert asyncio.run(executor.execute_async("write_file", path="a", content="1")) == "ok"
    assert (ghost.depth, [info.description for info in manager.list_checkpoints()]) == (1, ["After write_file"])
    with pytest.raises(TypeError, match="coroutine"):
        executor.execute("write_file", path="a", content="2")
    assert ghost.undo() == ["deleted: a"]


def test_28_a_path_outside_is_the_tools_own_affair(ghost: GhostCommitManager, tools: dict[str, Any]) -> None:
    executor = ToolExecutor(LoopConfig(ghost_commits=ghost), tools)
    assert executor.execute("write_file", path="../outside", content="x") == "ok"
    assert ghost.depth == 0


# -- the worst defects of the original, fixed ---------------------------------------------------


def test_records_survive_the_process(project: Path) -> None:
    (project / "f").write_text("1")
    program = (
        "from mulligan.dialects.chimera import *; import sys\n"
        "CheckpointManager(LocalEnvironment(sys.argv[1])).create('early', 'by another process')\n"
        "GhostCommitManager(sys.argv[1]).snapshot('edit', ['f'])\n"
    )
    subprocess.run([sys.executable, "-c", program, project], check=True, env=plain_environment())
    (project / "f").write_text("2")
    manager = CheckpointManager(project)
    assert [(info.name, info.description) for info in manager.list_checkpoints()] == [("early", "by another process")]
    assert GhostCommitManager(project).undo() == ["restored: f"]
    (project / "f").write_text("3")
    manager.undo()
    assert (project / "f").read_text() == "1"


def test_a_manager_takes_a_directory_or_a_workspace(project: Path) -> None:
    (project / "f").write_text("1")
    for over in (project, str(project), mulligan.open(project)):
        manager = CheckpointManager(over)
        manager.create("x")
        (project / "f").write_text("2")
        manager.undo()
        assert (project / "f").read_text() == "1"


def test_a_manager_takes_any_environment_that_can_save_and_restore() -> None:
    class Minimal:
        def __init__(self) -> None:
            self.value, self.saved = 1, dict[str, int]()

        def checkpoint(self) -> str:
            self.saved[str(len(self.saved))] = self.value
            return str(len(self.saved) - 1)

        def restore(self, checkpoint_id: str) -> None:
            self.value = self.saved[checkpoint_id]

    env = Minimal()
    manager = CheckpointManager(env)  # type: ignore[arg-type]
    manager.create("a")
    env.value = 2
    assert manager.undo() is not None
    assert env.value == 1
    manager.clear()
    assert manager.list_checkpoints() == []


def test_links_modes_and_empty_directories_come_back_exactly(env: LocalEnvironment) -> None:
    root = env.workdir
    (root / "dir").mkdir()
    (root / "empty").mkdir()
    (root / "prog").write_bytes(b"\x00\xff\r\n")
    (root / "prog").chmod(0o755)
    (root / "dangling").symlink_to("nowhere")
    (root / "to-dir").symlink_to("dir")
    before = everything(root)
    made = env.checkpoint()
    for name in ("prog", "dangling", "to-dir"):
        (root / name).unlink()
    (root / "empty").rmdir()
    (root / "to-dir").mkdir()
    (root / "prog").write_text("other")
    env.restore(made)
    assert everything(root) == before
    assert (root / "empty").is_dir()


def test_a_restore_is_one_undo_away(env: LocalEnvironment) -> None:
    env.write_file("f", "1")
    made = env.checkpoint()
    env.write_file("f", "unsaved work")
    env.restore(made)
    mulligan.open(env.workdir).undo()
    assert env.read_file("f") == "unsaved work"


def test_git_a_bogus_id_touches_nothing(project: Path) -> None:
    env = GitEnvironment(project)
    env.write_file("f", "1")
    env.checkpoint()
    env.write_file("untracked", "work")
    git(project, "add", "untracked")
    before, status = everything(project), git(project, "status", "--porcelain")
    for bogus in ("f" * 40, "deadbeef", "HEAD", "main", "--help", "; touch pwned #", "", "0"):
        with pytest.raises(ValueError, match="not found"):
            env.restore(bogus)
    assert everything(project) == before
    assert git(project, "status", "--porcelain") == status


def test_git_staged_new_files_go_and_the_index_follows(project: Path) -> None:
    env = GitEnvironment(project)
    env.write_file("f", "1")
    made = env.checkpoint()
    env.write_file("staged", "new")
    git(project, "add", "staged")
    env.restore(made)
    assert not (project / "staged").exists()
    assert git(project, "status", "--porcelain") == b""


def test_git_a_failing_hook_a_signing_key_and_a_filter_change_nothing(project: Path) -> None:
    env = GitEnvironment(project)
    env.setup()
    for name in ("pre-commit", "commit-msg", "post-commit", "post-checkout", "reference-transaction"):
        hook = project / ".git" / "hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text("#!/bin/sh\ntouch hook-ran\nexit 1\n")
        hook.chmod(0o755)
    git(project, "config", "commit.gpgsign", "true")
    git(project, "config", "gpg.program", "false")
    env.write_file("f", "1")
    before = git(project, "rev-parse", "HEAD").decode().strip()
    made = env.checkpoint()
    assert made != before == git(project, "rev-parse", f"{made}^").decode().strip()
    env.write_file("f", "2")
    env.restore(made)
    assert env.read_file("f") == "1"
    assert not (project / "hook-ran").exists()


def test_git_secrets_are_not_committed_and_come_back(project: Path) -> None:
    env = GitEnvironment(project)
    env.write_file(".env", "TOKEN=abc")
    env.write_file("f", "1")
    made = env.checkpoint()
    assert git(project, "ls-tree", "-r", "--name-only", made).decode().split() == [".gitkeep", "f"]
    env.write_file(".env", "TOKEN=def")
    env.restore(made)
    assert env.read_file(".env") == "TOKEN=abc"


def test_git_a_part_of_a_repository_touches_only_itself(project: Path) -> None:
    git(project, "init", "-q")
    (project / "outside").write_text("1")
    git(project, "add", "outside")
    git(project, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "mine")
    (project / "part").mkdir()
    (project / "outside").write_text("2")
    env = GitEnvironment(project / "part")
    env.write_file("f", "1")
    made = env.checkpoint()
    assert not (project / "part" / ".git").exists()
    assert git(project, "show", "--format=", "--name-only", made).decode().split() == ["part/f"]
    env.write_file("f", "2")
    env.restore(made)
    assert (env.read_file("f"), (project / "outside").read_text()) == ("1", "2")
    assert git(project, "status", "--porcelain") == b" M outside\n"


def test_git_a_commit_of_somebody_else_can_be_restored(project: Path) -> None:
    env = GitEnvironment(project)
    env.write_file("f", "theirs")
    env.setup()
    git(project, "add", "f")
    git(project, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "theirs", "--allow-empty")
    theirs = git(project, "rev-parse", "HEAD").decode().strip()
    env.write_file("f", "mine")
    env.checkpoint()
    env.restore(theirs)
    assert env.read_file("f") == "theirs"


def test_git_clone_is_a_copy_of_its_own(project: Path, tmp_path: Path) -> None:
    env = GitEnvironment(project)
    env.write_file("f", "1")
    env.checkpoint()
    copy = env.clone(tmp_path / "copy")
    assert copy.read_file("f") == "1"
    copy.write_file("f", "2")
    assert env.read_file("f") == "1"
    assert commits(tmp_path / "copy") == commits(project)


def test_ghost_an_empty_file_is_not_nothing(ghost: GhostCommitManager, project: Path) -> None:
    (project / "empty").touch()
    ghost.snapshot("write", ["empty"])
    (project / "empty").write_text("x")
    assert ghost.undo() == ["restored: empty"]
    assert (project / "empty").read_bytes() == b""


def test_ghost_keeps_bytes_modes_links_and_directories(ghost: GhostCommitManager, project: Path) -> None:
    (project / "bin").write_bytes(bytes(range(256)))
    (project / "bin").chmod(0o755)
    (project / "crlf").write_bytes(b"a\r\nb\n")
    (project / "link").symlink_to("crlf")
    (project / "dir").mkdir()
    (project / "dir" / "f").write_text("x")
    before = everything(project)
    ghost.snapshot("all of them", ["bin", "crlf", "link", "dir"])
    (project / "bin").write_text("gone")
    (project / "bin").chmod(0o600)
    (project / "link").unlink()
    (project / "link").write_text("a file")
    (project / "crlf").write_text("a\nb\n")
    (project / "dir" / "f").unlink()
    (project / "dir" / "g").write_text("new")
    assert ghost.undo() == ["restored: bin", "restored: crlf", "restored: link", "restored: dir"]
    assert everything(project) == before


def test_ghost_directories_made_for_a_new_file_go_with_it(ghost: GhostCommitManager, project: Path) -> None:
    ghost.snapshot("write", ["a/b/new.py"])
    (project / "a" / "b").mkdir(parents=True)
    (project / "a" / "b" / "new.py").write_text("x")
    assert ghost.undo() == ["deleted: a/b/new.py"]
    assert list(project.iterdir()) == []


def test_ghost_leaves_alone_what_somebody_else_put_there(ghost: GhostCommitManager, project: Path) -> None:
    ghost.snapshot("write", ["a/b/new.py"])
    (project / "a" / "b").mkdir(parents=True)
    (project / "a" / "b" / "new.py").write_text("x")
    (project / "a" / "mine").write_text("keep")
    ghost.undo()
    assert sorted(everything(project)) == ["a/mine"]
    assert not (project / "a" / "b").exists()


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "out", ".git/config", "a/../../x"])
def test_ghost_paths_do_not_leave(ghost: GhostCommitManager, project: Path, path: str) -> None:
    (project / "out").symlink_to("/etc/passwd")
    with pytest.raises(PermissionError, match="Path escapes workdir"):
        ghost.snapshot("x", [path])
    assert ghost.depth == 0


def test_ghost_undo_is_one_undo_away(ghost: GhostCommitManager, project: Path) -> None:
    (project / "a").write_text("before")
    ghost.snapshot("edit", ["a"])
    (project / "a").write_text("what the agent wrote")
    ghost.undo()
    mulligan.open(project).undo()
    assert (project / "a").read_text() == "what the agent wrote"


def test_ghost_writes_nothing_into_a_repository(ghost: GhostCommitManager, project: Path) -> None:
    git(project, "init", "-q")
    (project / "a").write_text("1")
    before = everything(project / ".git")
    ghost.snapshot("edit", ["a"])
    (project / "a").write_text("2")
    ghost.undo()
    assert everything(project / ".git") == before


@pytest.mark.parametrize("path", [".env", "debug.log", "logs/deep/x.txt", "we ird*[1].log"])
def test_ghost_brings_back_what_checkpoints_leave_out(ghost: GhostCommitManager, project: Path, path: str) -> None:
    (project / ".gitignore").write_text("*.log\nlogs/\n")
    for existed in (True, False):
        target = project / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if existed:
            target.write_bytes(b"old\r\n")
        else:
            target.unlink()
        ghost.snapshot("write", [path])
        target.write_text("new")
        assert ghost.undo() == [f"restored: {path}" if existed else f"deleted: {path}"]
        assert (target.read_bytes() if existed else target.exists()) == (b"old\r\n" if existed else False)


def test_every_environment_is_an_environment(project: Path) -> None:
    assert issubclass(LocalEnvironment, Environment) and issubclass(GitEnvironment, LocalEnvironment)
    with LocalEnvironment(project) as env, pytest.raises(NotImplementedError):
        env.clone()
