"""The real OpenAI Agents SDK with a model that is a script: one undo takes back a run, tools of every kind."""

from __future__ import annotations

import asyncio
import json
import shutil
from itertools import count

import pytest

from tree import contents, put

NUMBERS = count()


@pytest.fixture
def agents(needs, monkeypatch):
    monkeypatch.setenv("OPENAI_AGENTS_DISABLE_TRACING", "1")
    return needs("agents", "openai-agents")


def scripted(agents, replies):
    """A model that answers with calls of tools, then with words."""
    from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

    class Script(agents.models.interface.Model):
        def __init__(self):
            self.replies = iter(replies)

        async def get_response(self, *_args, **_more):
            reply = next(self.replies)
            if isinstance(reply, str):
                text = ResponseOutputText(text=reply, type="output_text", annotations=[])
                item = ResponseOutputMessage(
                    id="m", content=[text], role="assistant", status="completed", type="message"
                )
            else:
                name, given = reply
                item = ResponseFunctionToolCall(
                    id="f",
                    call_id=f"call-{next(NUMBERS)}",
                    name=name,
                    arguments=json.dumps(given),
                    type="function_call",
                )
            return agents.ModelResponse(output=[item], usage=agents.Usage(), response_id=None)

        def stream_response(self, *_args, **_more):
            raise NotImplementedError

    return Script()


def test_one_undo_takes_back_a_run_whatever_its_tools_did(agents, ws, project):
    from mulligan.adapters.openai_agents import MulliganHooks

    put(project, "a.txt", "good\n")
    put(project, "src/app.py", "x = 1\n")
    before = contents(project)

    @agents.function_tool
    def write(path: str, text: str) -> str:
        put(project, path, text)
        return "ok"

    @agents.function_tool
    def wipe(path: str) -> str:
        shutil.rmtree(project / path)
        return "gone"

    heard = []

    class Mine(agents.RunHooks):
        async def on_tool_start(self, context, agent, tool):
            heard.append(tool.name)

    script = scripted(agents, [("write", {"path": "a.txt", "text": "bad\n"}), ("wipe", {"path": "src"}), "done"])
    agent = agents.Agent(name="worker", tools=[write, wipe], model=script)
    hooks = MulliganHooks(ws, inner=Mine())
    result = asyncio.run(agents.Runner.run(agent, "break everything", hooks=hooks))
    assert result.final_output == "done"
    assert heard == ["write", "wipe"]
    assert hooks.recorder.troubles == []
    assert "src/app.py" not in contents(project)
    causes = [cp.metadata["agent"] for cp in reversed(ws.log(kind="step")) if "agent" in cp.metadata]
    assert [cause["name"] for cause in causes if cause.get("name")] == ["write", "wipe"]
    broken = contents(project)
    ws.undo()
    assert contents(project) == before
    ws.redo()
    assert contents(project) == broken


def test_two_runs_are_two_turns(agents, ws, project):
    from mulligan.adapters.openai_agents import MulliganHooks

    put(project, "a.txt", "0")

    @agents.function_tool
    def write(text: str) -> str:
        put(project, "a.txt", text)
        return "ok"

    hooks = MulliganHooks(ws)
    for number in ("1", "2"):
        agent = agents.Agent(
            name="worker", tools=[write], model=scripted(agents, [("write", {"text": number}), "done"])
        )
        asyncio.run(agents.Runner.run(agent, f"write {number}", hooks=hooks))
    for state in ("1", "0"):
        ws.undo()
        assert (project / "a.txt").read_text() == state


def test_trouble_of_ours_does_not_stop_the_agent_and_is_told(agents, ws, project, store):
    from mulligan.adapters.openai_agents import MulliganHooks

    store.write_text("no directory")

    @agents.function_tool
    def write(text: str) -> str:
        put(project, "a.txt", text)
        return "ok"

    agent = agents.Agent(name="worker", tools=[write], model=scripted(agents, [("write", {"text": "1"}), "done"]))
    hooks = MulliganHooks(ws)
    assert asyncio.run(agents.Runner.run(agent, "go", hooks=hooks)).final_output == "done"
    assert hooks.recorder.troubles
    assert "could not save" in hooks.recorder.troubles[0]
