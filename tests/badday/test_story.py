"""The story tells a denied, a running, an interrupted and a finished tool call apart."""

from __future__ import annotations

import json
import subprocess

import pytest
from play import Agent, typed


@pytest.fixture
def agent(project):
    (project / "a.txt").write_text("1\n")
    told = Agent(project)
    told.event("SessionStart", source="startup")
    return told


def begun(agent, command, **more):
    """A tool call of which nothing but the beginning is heard; the command runs all the same."""
    agent.event("PreToolUse", tool_name="Bash", tool_input={"command": command}, tool_use_id=command, **more)
    subprocess.run(["/bin/sh", "-c", command], cwd=agent.cwd, capture_output=True, timeout=60, check=False)


def chapters(project):
    found = json.loads(typed(project, "--json", "log", "--story"))["story"]
    return {each["prompt"]: each for each in found}


def outcomes(project, prompt):
    return [(each["text"], each["outcome"]) for each in chapters(project)[prompt]["happened"] if each["number"]]


def test_a_tool_call_that_was_denied_is_called_so(project, agent):
    agent.begin("work")
    begun(agent, "true")
    agent.bash("echo 2 > a.txt")
    agent.stop()
    assert outcomes(project, 1) == [("true", "denied"), ("echo 2 > a.txt", "done")]
    assert "denied" in typed(project, "log", "--story")


def test_a_tool_call_that_runs_is_not_cut_off(project, agent):
    agent.begin("work")
    begun(agent, "echo 2 > a.txt")
    assert outcomes(project, 1) == [("echo 2 > a.txt", "running")]
    said = typed(project, "log", "--story")
    assert "running" in said and "no files changed" not in said and "cut off" not in said


def test_an_interrupted_turn_is_told_with_what_it_left(project, agent):
    agent.begin("work")
    begun(agent, "echo 2 > a.txt")
    agent.begin("no, do something else")
    agent.stop()
    assert outcomes(project, 1) == [("echo 2 > a.txt", "interrupted")] and chapters(project)[1]["interrupted"]
    said = typed(project, "log", "--story")
    assert "interrupted" in said and "a.txt" in said.split("prompt 1")[0]
    assert "no files changed" not in said.split("prompt 1")[1]


def test_what_a_person_changes_between_turns_is_no_work_of_the_agent(project, agent):
    agent.turn("work", "echo 2 > a.txt")
    (project / "mine.txt").write_text("mine\n")
    agent.turn("go on", "echo 3 > a.txt")
    first = chapters(project)[2]["happened"][0]
    assert (first["name"], first["changed"]) == ("changed between turns", ["mine.txt"])


def test_calls_of_subagents_are_marked(project, agent):
    agent.begin("work")
    call = {"tool_name": "Bash", "tool_input": {"command": "x"}, "tool_use_id": "t1", "agent_id": "a2d622e1"}
    agent.event("PreToolUse", **call)
    agent.event("PostToolUse", **call)
    agent.bash("y")
    agent.stop()
    said = typed(project, "log", "--story")
    assert "Bash: x (subagent)" in said and "Bash: y (subagent)" not in said
