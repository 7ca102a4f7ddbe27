"""Claude Code's own `/rewind` puts files back without an event; an undo does not bring back what it removed."""

from __future__ import annotations

import json

import pytest

from play import Agent, tree, typed


@pytest.fixture
def agent(project):
    (project / "a.txt").write_text("1\n")
    told = Agent(project)
    told.event("SessionStart", source="startup")
    return told


def test_an_undo_after_a_rewind_undoes_the_turn_before_it(project, agent):
    start = tree(project)
    agent.turn("first", "echo one > one.txt; echo 2 > a.txt")
    first = tree(project)
    agent.turn("second", "echo two > two.txt; echo 3 > a.txt")
    # What the client writes when a person rewinds to the second prompt.
    (project / "two.txt").unlink()
    (project / "a.txt").write_text("2\n")
    agent.begin("third")
    agent.stop()
    assert tree(project) == first
    typed(project, "undo")
    assert tree(project) == start
    typed(project, "undo", expect=1)
    assert tree(project) == start


def test_work_after_a_rewind_is_undone_first(project, agent):
    agent.turn("first", "echo one > one.txt")
    agent.turn("second", "echo two > two.txt")
    (project / "two.txt").unlink()
    first = tree(project)
    agent.turn("third", "echo three > three.txt")
    typed(project, "undo")
    assert tree(project) == first
    typed(project, "undo")
    assert set(tree(project)) == {"a.txt"}


def test_a_rewind_over_several_prompts(project, agent):
    start = tree(project)
    agent.turn("first", "echo one > one.txt")
    agent.turn("second", "echo two > two.txt; echo 2 > a.txt")
    for name in ("one.txt", "two.txt"):
        (project / name).unlink()
    (project / "a.txt").write_text("1\n")
    agent.begin("third")
    agent.stop()
    typed(project, "undo", expect=1)
    assert tree(project) == start


def test_what_a_shell_command_did_and_the_rewind_left_is_undone(project, agent):
    agent.turn("first", "echo one > one.txt")
    first = tree(project)
    agent.turn("second", "echo two > two.txt; echo shell > left.txt")
    (project / "two.txt").unlink()
    agent.begin("third")
    agent.stop()
    typed(project, "undo")
    assert tree(project) == first


def test_the_rewind_is_not_told_as_the_next_prompt_s_work(project, agent):
    agent.turn("first", "echo one > one.txt")
    agent.turn("second", "echo two > two.txt")
    (project / "two.txt").unlink()
    agent.begin("third")
    agent.stop()
    newest = json.loads(typed(project, "--json", "log"))["checkpoints"][0]
    assert newest["description"] == "rewound to before prompt 2" and "third" not in typed(project, "log")
    assert "rewound to before prompt 2" in typed(project, "log", "--story")


def test_a_person_s_own_edits_between_turns_are_no_rewind(project, agent):
    agent.turn("first", "echo one > one.txt")
    (project / "one.txt").write_text("mine\n")
    agent.begin("second")
    agent.stop()
    newest = json.loads(typed(project, "--json", "log"))["checkpoints"][0]
    assert "rewound" not in json.dumps(newest)
