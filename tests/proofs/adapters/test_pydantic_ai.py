"""The real PydanticAI with a model that is a function: one undo takes back a run, also when a tool fails."""

from __future__ import annotations

import asyncio

import pytest

from tree import contents, put


@pytest.fixture
def pydantic_ai(needs):
    return needs("pydantic_ai", "pydantic-ai-slim")


def scripted(replies):
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel

    left = iter(replies)

    def answer(_messages, _info):
        reply = next(left)
        part = TextPart(reply) if isinstance(reply, str) else ToolCallPart(reply[0], reply[1])
        return ModelResponse(parts=[part])

    return FunctionModel(answer)


def test_one_undo_takes_back_a_run_also_what_a_failing_tool_left(pydantic_ai, ws, project):
    from mulligan.adapters.pydantic_ai import MulliganCapability

    put(project, "a.txt", "good\n")
    before = contents(project)
    capability = MulliganCapability(ws)
    script = scripted([("write", {"text": "bad\n"}), ("half", {}), "done"])
    agent = pydantic_ai.Agent(script, capabilities=[capability])

    @agent.tool_plain
    def write(text: str) -> str:
        put(project, "a.txt", text)
        return "ok"

    @agent.tool_plain
    def half() -> str:
        put(project, "half.txt", "begun")
        raise pydantic_ai.ModelRetry("not like that")

    assert asyncio.run(agent.run("break it")).output == "done"
    assert capability.recorder.troubles == []
    broken = contents(project)
    assert {"half.txt"} <= set(broken)
    causes = [cp.metadata["agent"] for cp in reversed(ws.log(kind="step")) if "agent" in cp.metadata]
    assert [(cause["name"], cause["when"]) for cause in causes if cause.get("name")] == [
        ("write", "after"),
        ("half", "failed"),
    ]
    ws.undo()
    assert contents(project) == before
    ws.redo()
    assert contents(project) == broken


def test_a_run_that_ends_with_an_error_is_one_turn_too(pydantic_ai, ws, project):
    from mulligan.adapters.pydantic_ai import MulliganCapability

    put(project, "a.txt", "good\n")
    agent = pydantic_ai.Agent(scripted([("burn", {})]), capabilities=[MulliganCapability(ws)])

    @agent.tool_plain
    def burn() -> str:
        put(project, "a.txt", "bad\n")
        raise RuntimeError("out of luck")

    with pytest.raises(RuntimeError, match="out of luck"):
        asyncio.run(agent.run("go"))
    ws.undo()
    assert (project / "a.txt").read_text() == "good\n"
