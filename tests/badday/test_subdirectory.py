"""Started in a subdirectory: which directory is protected, and what an undo there brings back."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import tools
from play import Agent, tree, typed


def repository(project: Path) -> dict[str, str]:
    tools.git("init", "-q", cwd=project)
    for name in ("src/app.py", "tests/test_app.py", "README.md"):
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).write_text(f"{name}\n")
    return tree(project)


def workspace_of(cwd: Path) -> str:
    found: str = tools.cli_json("status", cwd=cwd)["workspace"]
    return found


def test_an_agent_started_in_a_subdirectory_is_undone_outside_of_it_too(project: Path) -> None:
    before = repository(project)
    agent = Agent(project / "src")
    agent.begin("clean up")
    agent.bash("rm -r ../tests; echo changed > app.py")
    agent.stop()
    said = typed(project, "undo", cwd=project / "src")
    assert tree(project) == before
    assert str(project) in said, "the workspace is named, since it is not the current directory"


def test_an_edit_beside_the_subdirectory_belongs_to_the_agent_that_named_it(project: Path) -> None:
    before = repository(project)
    one = Agent(project / "src", "aaaaaaaa-0000-4000-8000-000000000001")
    two = Agent(project, "bbbbbbbb-0000-4000-8000-000000000002")
    one.begin("edit the tests")
    two.begin("edit the readme")
    one.write("../tests/test_app.py", "one\n")
    two.write("README.md", "two\n")
    one.stop()
    two.stop()
    typed(project, "undo", "--session", "aaaaaaaa")
    assert tree(project) == before | {"README.md": "two\n"}


def test_save_in_a_subdirectory_protects_the_whole_repository(project: Path) -> None:
    before = repository(project)
    typed(project, "save", "all of it", cwd=project / "src")
    shutil.rmtree(project / "tests")
    typed(project, "undo", cwd=project / "src")
    assert tree(project) == before


def test_typed_paths_are_relative_to_where_one_stands(project: Path) -> None:
    repository(project)
    typed(project, "save", "good")
    (project / "src" / "app.py").write_text("broken\n")
    (project / "README.md").write_text("edited\n")
    assert typed(project, "cat", "good:src/app.py", cwd=project / "src") == "src/app.py\n"
    assert typed(project, "cat", "good:./app.py", cwd=project / "src") == "src/app.py\n"
    assert "good" in typed(project, "log", "--", "app.py", cwd=project / "src")
    typed(project, "restore", "good", "-y", "--", "app.py", cwd=project / "src")
    assert (project / "src" / "app.py").read_text() == "src/app.py\n"
    assert (project / "README.md").read_text() == "edited\n"


def test_a_command_never_climbs_into_the_home_directory(private_home: Path) -> None:
    tools.git("init", "-q", cwd=private_home)  # a repository of dotfiles
    notes = private_home / "notes"
    notes.mkdir()
    (notes / "one.txt").write_text("one\n")
    typed(notes, "save")
    assert workspace_of(notes) == str(notes)


def test_outside_git_the_nearest_history_upward_counts_else_the_directory_itself(project: Path) -> None:
    below = project / "a" / "b"
    below.mkdir(parents=True)
    assert workspace_of(below) == str(below)
    typed(project, "save")
    assert workspace_of(below) == str(project)


def test_a_history_above_the_repository_does_not_count(project: Path) -> None:
    (project / "other").mkdir()
    (project / "other" / "file.txt").write_text("mine\n")
    typed(project, "save")
    inner = project / "repo"
    inner.mkdir()
    repository(inner)
    assert workspace_of(inner / "src") == str(inner)


def test_an_older_history_in_a_subdirectory_stays_in_use_and_status_says_so(project: Path) -> None:
    repository(project)
    typed(project, "-C", "src", "save")
    assert workspace_of(project / "src") == str(project / "src")
    said = typed(project, "status", cwd=project / "src")
    assert f"mulligan -C {project} save" in said
    assert workspace_of(project / "tests") == str(project)


def test_the_user_can_keep_to_the_directory_one_starts_in(project: Path) -> None:
    repository(project)
    config = Path(os.environ["XDG_CONFIG_HOME"]) / "mulligan"
    config.mkdir()
    (config / "config.toml").write_text('[workspace]\nroot = "here"\n')
    typed(project, "save", cwd=project / "src")
    assert workspace_of(project / "src") == str(project / "src")


def test_status_names_the_workspace_and_where_one_stands(project: Path) -> None:
    repository(project)
    assert f"{project} (you are in src)" in typed(project, "status", cwd=project / "src")
