"""After an undo or a restore, the next prompt of the agents concerned says what was undone."""

from __future__ import annotations

import json

import pytest

import tools
from play import Agent, typed

OTHER = "2cd24cd5-bbbb-4bbb-8ccc-000000000002"


@pytest.fixture
def agent(project):
    (project / "a.txt").write_text("1\n")
    (project / "b.txt").write_text("1\n")
    told = Agent(project)
    told.event("SessionStart", source="startup")
    return told


def heard(answer):
    """What the model reads with a prompt."""
    more = answer.get("hookSpecificOutput", {})
    assert not more or set(more) == {"hookEventName", "additionalContext"}
    return more.get("additionalContext", "")


def test_the_agent_hears_what_was_undone_once(project, agent):
    agent.turn("first", "echo 2 > a.txt")
    agent.turn("now clean up", "rm b.txt; echo junk > junk.txt")
    typed(project, "undo")
    answer = agent.begin("go on")
    said = heard(answer)
    assert answer["hookSpecificOutput"]["hookEventName"] == "UserPromptSubmit"
    assert "undid" in said and "restored b.txt" in said and "removed junk.txt" in said and "read them again" in said
    agent.stop()
    assert heard(agent.begin("and on")) == ""


def test_a_restore_and_a_redo_are_told_in_order(project, agent):
    typed(project, "save", "base")
    agent.turn("work", "echo 2 > a.txt")
    typed(project, "restore", "base")
    typed(project, "undo")
    said = heard(agent.begin("go on"))
    assert said.index("restored an earlier state") < said.index("undid")


def test_a_session_that_was_not_at_work_hears_nothing(project, agent):
    agent.turn("work", "echo 2 > a.txt")
    typed(project, "undo")
    new = Agent(project, OTHER)
    new.event("SessionStart", source="startup")
    assert heard(new.begin("hello")) == ""
    assert "a.txt" in heard(agent.begin("go on"))


def test_an_undo_that_changed_nothing_is_no_news(project, agent):
    agent.turn("look", "ls")
    typed(project, "undo", expect=1)
    assert heard(agent.begin("go on")) == ""


@pytest.mark.parametrize(("client", "event"), [("codex", "UserPromptSubmit"), ("gemini", "BeforeAgent")])
def test_codex_and_gemini_hear_it_in_their_own_form(project, client, event):
    before, after = {"codex": ("PreToolUse", "PostToolUse"), "gemini": ("BeforeTool", "AfterTool")}[client]
    tool = {"tool_name": "Bash", "tool_input": {"command": "x"}}

    def tell(name, **more):
        payload = {"session_id": "s1", "cwd": str(project), "hook_event_name": name, **more}
        env = tools.plain_environment()
        done = tools.run_mulligan(["hook", client], cwd=project, env=env, given=json.dumps(payload))
        return json.loads(done.stdout or "{}")

    (project / "a.txt").write_text("1\n")
    tell(event, prompt="work")
    tell(before, **tool)
    (project / "a.txt").write_text("2\n")
    tell(after, **tool)
    typed(project, "undo")
    answer = tell(event, prompt="go on")["hookSpecificOutput"]
    assert answer["hookEventName"] == event and "restored a.txt" in answer["additionalContext"]
