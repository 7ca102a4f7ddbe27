"""`undo` as typed: with git, in some paths, as a plan, several at once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from play import Agent, tree, typed
from tools import git


@pytest.fixture
def agent(project: Path) -> Agent:
    """A repository with one commit, one staged file, and an agent in it."""
    (project / "src").mkdir()
    for name in ("app.py", "src/shop.py", "src/login.py"):
        (project / name).write_text(f"# {name}\n")
    git("init", "-q", "-b", "main", cwd=project)
    git("config", "user.name", "someone", cwd=project)
    git("config", "user.email", "someone@example.org", cwd=project)
    git("add", "-A", cwd=project)
    git("commit", "-q", "-m", "first", cwd=project)
    (project / "src/staged.py").write_text("staged\n")
    git("add", "src/staged.py", cwd=project)
    return Agent(project)


def standing(project: Path) -> dict[str, bytes]:
    """Where git stands: branch, commit, what is staged and what is not, and the branches."""
    return {
        "branch": git("symbolic-ref", "HEAD", cwd=project),
        "commit": git("rev-parse", "HEAD", cwd=project),
        "status": git("status", "--porcelain", cwd=project),
        "staged": git("ls-files", "-s", cwd=project),
    }


WORK = {
    "a commit": ("echo 2 >> app.py", "git add -A", "git commit -q -m agent"),
    "two commits": ("git commit -q -m one", "rm src/shop.py", "git commit -q -a -m two"),
    "a new branch": ("git checkout -q -b feature", "echo 2 >> app.py", "git commit -q -a -m agent"),
    "unstaging": ("git reset -q", "echo 2 >> app.py"),
    "a hard reset": ("git reset -q --hard",),
    "an amended commit": ("echo 2 >> app.py", "git commit -q -a --amend -m other"),
}


@pytest.mark.parametrize("work", WORK)
def test_undo_with_git_brings_back_head_branch_index_and_files(project, agent, work):
    before, stood = tree(project), standing(project)
    agent.turn(work, *WORK[work])
    after, left = tree(project), standing(project)
    assert left != stood
    said = typed(project, "undo", "--git")
    assert (tree(project), standing(project)) == (before, stood)
    assert f'Undid prompt 1 "{work}"' in said and "Git moved too" in said
    typed(project, "redo")
    assert (tree(project), standing(project)) == (after, left)


def test_undo_without_git_leaves_git_where_it_is(project, agent):
    agent.turn("work", *WORK["a commit"])
    left = git("rev-parse", "HEAD", cwd=project)
    typed(project, "undo")
    assert git("rev-parse", "HEAD", cwd=project) == left
    assert (project / "app.py").read_text() == "# app.py\n"


def test_undo_with_git_keeps_what_you_changed_since(project, agent):
    agent.turn("work", *WORK["a commit"])
    (project / "mine.txt").write_text("mine\n")
    typed(project, "undo", "--git")
    assert (project / "mine.txt").read_text() == "mine\n"
    assert git("log", "--format=%s", cwd=project) == b"first\n"


def test_undo_with_git_and_a_plan_moves_nothing(project, agent):
    agent.turn("work", *WORK["a new branch"])
    before, stood = tree(project), standing(project)
    said = typed(project, "undo", "--git", "--dry-run")
    assert 'Would undo prompt 1 "work"' in said and "~ app.py" in said and "main" in said
    plan = json.loads(typed(project, "--json", "undo", "--git", "--dry-run"))["plan"]
    assert plan["modifies"] == ["app.py"] and plan["git"] is not None
    assert (tree(project), standing(project)) == (before, stood)


def test_undo_with_git_where_there_never_was_a_repository_is_a_plain_undo(project, private_home):
    (project / "a").write_text("1\n")
    typed(project, "save")
    (project / "a").write_text("2\n")
    assert "Git" not in typed(project, "undo", "--git")
    assert (project / "a").read_text() == "1\n"


def test_undo_with_git_of_a_checkpoint_that_was_saved_with_git(project, agent):
    typed(project, "save", "one", "--git")
    stood = standing(project)
    git("commit", "-q", "-m", "mine", cwd=project)
    (project / "app.py").write_text("changed\n")
    typed(project, "undo", "--git")
    assert (standing(project), (project / "app.py").read_text()) == (stood, "# app.py\n")


@pytest.mark.parametrize("words", [("--", "src"), ("src",), ("--", "src/*.py"), ("src/shop.py", "src/login.py")])
def test_undo_in_some_paths_leaves_the_others(project, agent, words):
    before = tree(project)
    agent.turn("one", "rm src/shop.py; echo 2 >> src/login.py; echo 2 >> app.py; echo j > junk.txt")
    after = tree(project)
    typed(project, "undo", *words)
    changed = {name: text for name, text in before.items() if name.startswith("src/")}
    assert tree(project) == {**after, **changed}
    typed(project, "redo")
    assert tree(project) == after


def test_undo_in_a_path_that_nothing_changed_says_so(project, agent):
    agent.turn("one", "echo 2 >> app.py")
    before = tree(project)
    assert "Nothing to undo in these paths" in typed(project, "undo", "src/shop.py", expect=1)
    assert "matches no changed path" in typed(project, "undo", "--", "*.rs", expect=1)
    assert tree(project) == before


def test_several_operations_are_undone_at_once(project, agent):
    before = tree(project)
    for number in (1, 2, 3):
        agent.turn(f"turn {number}", f"echo {number} > new{number}.txt")
    said = typed(project, "undo", "2")
    assert 'Undid prompt 3 "turn 3"' in said and 'Undid prompt 2 "turn 2"' in said
    assert tree(project) == {**before, "new1.txt": "1\n"}
    said = json.loads(typed(project, "--json", "undo", "5", expect=3))
    assert [report["deleted"] for report in said["reports"]] == [["new1.txt"]]
    assert tree(project) == before
    for _ in range(3):
        typed(project, "redo")
    assert (project / "new3.txt").exists()
    typed(project, "undo", "0", expect=2)
    typed(project, "undo", "2", "--dry-run", expect=2)
