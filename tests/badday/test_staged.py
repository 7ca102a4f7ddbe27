"""Going back to a prompt with `--git` keeps what was staged then."""

from __future__ import annotations

import json

import pytest

import tools
from play import Agent, typed


@pytest.fixture
def agent(project):
    (project / "a.txt").write_text("1\n")
    (project / "b.txt").write_text("1\n")
    tools.git("init", "-q", cwd=project)
    tools.git("add", "-A", cwd=project)
    tools.git("commit", "-qm", "first", cwd=project)
    told = Agent(project)
    told.event("SessionStart", source="startup")
    return told


def staged(project):
    return tools.git("diff", "--cached", "--name-status", cwd=project).decode().split("\n")[:-1]


def test_restoring_a_prompt_with_git_keeps_what_was_staged(project, agent):
    (project / "new.txt").write_text("staged\n")
    (project / "a.txt").write_text("2\n")
    tools.git("add", "new.txt", "a.txt", cwd=project)
    before = staged(project)
    agent.turn("commit it all", "git add -A; git commit -qm second; rm b.txt; git add -A")
    typed(project, "restore", "@prompt-1", "--git")
    assert staged(project) == before == ["M\ta.txt", "A\tnew.txt"] and (project / "b.txt").exists()
    assert tools.git("log", "--format=%s", cwd=project) == b"first\n"


def test_staged_work_survives_where_the_turn_never_touched_git(project, agent):
    (project / "new.txt").write_text("staged\n")
    tools.git("add", "new.txt", cwd=project)
    agent.turn("work", "echo 2 > b.txt")
    agent.turn("more work", "echo 3 > b.txt")
    typed(project, "restore", "@prompt-2", "--git")
    assert staged(project) == ["A\tnew.txt"] and (project / "b.txt").read_text() == "2\n"


def test_prompts_without_staged_work_make_no_checkpoint_of_their_own(project, agent):
    before = len(json.loads(typed(project, "--json", "log"))["checkpoints"])
    for _ in range(3):
        agent.turn("explain", "ls")
    assert len(json.loads(typed(project, "--json", "log"))["checkpoints"]) == before


def test_the_plan_says_that_nothing_staged_was_recorded(project, agent):
    agent.begin("work")
    agent.bash("echo 2 > b.txt; git add b.txt")
    agent.bash("git commit -qm second; echo 3 > b.txt; git add b.txt")
    agent.stop()
    said = typed(project, "restore", "@tool-2", "--git", "--dry-run")
    assert "Nothing staged was recorded with this checkpoint" in said
