"""Worktrees of git inside the project: each is a workspace of its own."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import tools
from play import Agent, tree, typed

FEATURE = ".claude/worktrees/feature"


@pytest.fixture
def feature(project: Path) -> Path:
    """A worktree inside the project."""
    tools.git("init", "-q", cwd=project)
    (project / "main.py").write_text("main\n")
    (project / "lib").mkdir()
    (project / "lib" / "one.py").write_text("one\n")
    tools.git("add", "-A", cwd=project)
    tools.git("commit", "-qm", "first", cwd=project)
    tools.git("worktree", "add", "-q", project / FEATURE, "-b", "feature", cwd=project)
    return project / FEATURE


def saved_files(cwd: Path) -> int:
    found: int = tools.cli_json("status", cwd=cwd)["files"]
    return found


def reasons(cwd: Path) -> dict[str, str]:
    return {row["path"]: row["reason"] for row in tools.cli_json("status", cwd=cwd)["not_captured"]}


def test_undo_in_the_project_leaves_the_worktree_alone(project: Path, feature: Path) -> None:
    agent = Agent(project)
    agent.begin("edit the main file")
    agent.bash("echo changed > main.py")
    (feature / "lib" / "one.py").write_text("work in the worktree\n")
    agent.stop()
    typed(project, "undo")
    assert (project / "main.py").read_text() == "main\n"
    assert (feature / "lib" / "one.py").read_text() == "work in the worktree\n"
    assert (feature / ".git").is_file()


def test_a_worktree_is_listed_and_the_checkpoint_is_complete(project: Path, feature: Path) -> None:
    saved = tools.cli_json("save", "good", cwd=project)["checkpoint"]
    assert saved["complete"]
    assert {row["path"]: row["reason"] for row in saved["not_captured"]} == {FEATURE: "worktree"}
    assert saved_files(project) == 2
    assert reasons(project)[FEATURE] == "worktree"
    assert saved_files(feature) == 2


def test_undo_in_the_worktree_does_not_touch_the_project(project: Path, feature: Path) -> None:
    typed(project, "save", "the project")
    agent = Agent(feature)
    agent.begin("work in the worktree")
    agent.bash("echo changed > main.py; rm -r lib")
    agent.stop()
    (project / "main.py").write_text("edited by hand\n")
    typed(feature, "undo")
    assert tree(feature) == {"main.py": "main\n", "lib/one.py": "one\n"}
    assert (project / "main.py").read_text() == "edited by hand\n"


def test_an_agent_that_moves_into_a_worktree_is_undone_there(project: Path, feature: Path) -> None:
    agent = Agent(project, cwd=feature)  # the client names the project, its commands run in the worktree
    agent.begin("work in the worktree")
    agent.bash("echo changed > main.py")
    agent.stop()
    typed(feature, "undo")
    assert (feature / "main.py").read_text() == "main\n"


def test_a_planted_git_file_does_not_switch_protection_off(project: Path, feature: Path) -> None:
    (project / "lib" / ".git").write_text((feature / ".git").read_text())
    typed(project, "save", "good")
    (project / "lib" / "one.py").unlink()
    typed(project, "undo")
    assert (project / "lib" / "one.py").read_text() == "one\n"


def test_a_saved_directory_that_turns_into_a_worktree_is_reported_and_left_alone(project: Path, feature: Path) -> None:
    tools.git("worktree", "remove", "--force", feature, cwd=project)
    shutil.copytree(project / "lib", project / "copy")
    typed(project, "save", "plain files")
    shutil.rmtree(project / "copy")
    tools.git("worktree", "add", "-q", project / "copy", "feature", cwd=project)
    (project / "copy" / "one.py").write_text("work in the worktree\n")
    said = typed(project, "save", "now a worktree")
    assert "copy" in said
    assert "worktree" in said
    done = tools.cli_json("restore", "plain files", "-y", cwd=project)["report"]
    assert [(keep["path"], keep["reason"]) for keep in done["kept"]] == [("copy", "worktree")]
    assert (project / "copy" / "one.py").read_text() == "work in the worktree\n"


def test_a_worktree_that_was_removed_is_plain_files_again(project: Path, feature: Path) -> None:
    typed(project, "save", "with a worktree")
    assert saved_files(project) == 2
    shutil.rmtree(project / ".git" / "worktrees")
    assert saved_files(project) == 4


def test_nested_repositories_and_submodules_stay_files_of_the_project(project: Path, feature: Path) -> None:
    nested = project / "vendor"
    nested.mkdir()
    tools.git("init", "-q", cwd=nested)
    (nested / "code.py").write_text("vendored\n")
    module = project / "module"
    module.mkdir()
    (module / ".git").write_text("gitdir: ../.git/modules/module\n")
    (module / "code.py").write_text("module\n")
    typed(project, "save", "good")
    (module / "code.py").unlink()
    (nested / "code.py").write_text("broken\n")
    typed(project, "undo")
    assert (nested / "code.py").read_text() == "vendored\n"
    assert (module / "code.py").read_text() == "module\n"


def test_a_watched_project_leaves_the_worktree_out_too(project: Path, feature: Path) -> None:
    typed(project, "save", "good")
    typed(project, "watch", "--background")
    try:
        tools.git("worktree", "add", "-q", project / "second", "-b", "second", cwd=project)
        (project / "main.py").write_text("changed\n")
        typed(project, "save", "more")
        assert reasons(project) == {FEATURE: "worktree", "second": "worktree"}
        (feature / "main.py").write_text("work\n")
        typed(project, "undo")
        assert (feature / "main.py").read_text() == "work\n"
    finally:
        typed(project, "watch", "--stop")
