"""
Other frameworks for agents in Python, each the real library with a scripted model.

All play one scene: a run calls a tool that spoils a file and a tool that fails half way. The story names the prompt and both
tools, and one undo takes the run back.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tree import contents, put

PROMPT = "break it, please"
# What these libraries warn of is theirs to mend.
pytestmark = pytest.mark.filterwarnings("ignore")


class Scene:
    """A project, the two tools of an agent, and what must hold after a run of it."""

    def __init__(self, ws, project) -> None:
        self.ws = ws
        self.project = project
        put(project, "a.txt", "good\n")
        self.before = contents(project)

    def write(self, text: str) -> str:
        """Writes a text."""
        put(self.project, "a.txt", text)
        return "ok"

    def half(self) -> str:
        """Begins something and fails."""
        put(self.project, "half.txt", "begun")
        raise ValueError("not like that")

    def judge(self, recorder, tools=("write", "half")) -> None:
        """Compares the story with the run, and takes the run back."""
        assert recorder.troubles == []
        broken = contents(self.project)
        assert set(broken) > set(self.before), "the tools of the scene were not called"
        assert broken != self.before
        (chapter,) = self.ws.story()
        assert PROMPT in str(chapter)
        assert all(tool in str(chapter) for tool in tools)
        self.ws.undo()
        assert contents(self.project) == self.before
        self.ws.redo()
        assert contents(self.project) == broken


@pytest.fixture
def scene(ws, project):
    return Scene(ws, project)


# -- LangChain and deepagents -------------------------------------------------------------------


def scripted_chat_model():
    from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage

    class Scripted(GenericFakeChatModel):
        def bind_tools(self, tools, **options):
            return self

    def call(name, arguments):
        return AIMessage("", tool_calls=[{"name": name, "args": arguments, "id": f"call-{name}"}])

    return Scripted(messages=iter([call("write", {"text": "bad\n"}), call("half", {}), AIMessage("done")]))


def chat_tools(scene):
    from langchain_core.tools import StructuredTool

    return [
        StructuredTool.from_function(tool, name=tool.__name__, handle_tool_error=True)
        for tool in (scene.write, scene.half)
    ]


def forgiving():
    """A failing tool of LangChain ends the run, unless the agent is told to go on."""
    from langchain.agents.middleware import ToolRetryMiddleware

    return ToolRetryMiddleware(max_retries=0, on_failure="continue")


@pytest.mark.parametrize("coroutine", [False, True])
def test_langchain(needs, scene, coroutine):
    agents = needs("langchain.agents", "langchain")
    from mulligan.adapters.langchain import MulliganMiddleware

    middleware = MulliganMiddleware(scene.ws)
    agent = agents.create_agent(scripted_chat_model(), chat_tools(scene), middleware=[forgiving(), middleware])
    asked = {"messages": [("user", PROMPT)]}
    done = asyncio.run(agent.ainvoke(asked)) if coroutine else agent.invoke(asked)
    assert done["messages"][-1].content == "done"
    scene.judge(middleware.recorder)


def test_deepagents(needs, scene):
    deepagents = needs("deepagents", "deepagents")
    from mulligan.adapters.langchain import MulliganMiddleware

    middleware = MulliganMiddleware(scene.ws)
    agent = deepagents.create_deep_agent(scripted_chat_model(), chat_tools(scene), middleware=[forgiving(), middleware])
    assert agent.invoke({"messages": [("user", PROMPT)]})["messages"][-1].content == "done"
    scene.judge(middleware.recorder)


# -- Google ADK ---------------------------------------------------------------------------------


def test_google_adk(needs, scene):
    needs("google.adk", "google-adk")
    from google.adk.agents import LlmAgent
    from google.adk.apps import App
    from google.adk.models.base_llm import BaseLlm
    from google.adk.models.llm_response import LlmResponse
    from google.adk.runners import InMemoryRunner
    from google.genai import types

    from mulligan.adapters.google_adk import MulliganPlugin

    call = types.Part.from_function_call
    parts = [call(name="write", args={"text": "bad\n"}), call(name="half", args={})]
    left = iter([*parts, types.Part.from_text(text="done")])

    class Scripted(BaseLlm):
        async def generate_content_async(self, llm_request, stream=False):
            yield LlmResponse(content=types.Content(role="model", parts=[next(left)]))

    plugin = MulliganPlugin(scene.ws)
    agent = LlmAgent(name="helper", model=Scripted(model="scripted"), tools=[scene.write, scene.half])
    runner = InMemoryRunner(app=App(name="app", root_agent=agent, plugins=[plugin]))

    async def run():
        session = await runner.session_service.create_session(app_name="app", user_id="me")
        message = types.Content(role="user", parts=[types.Part.from_text(text=PROMPT)])
        async for _ in runner.run_async(user_id="me", session_id=session.id, new_message=message):
            pass

    with pytest.raises(ValueError, match="not like that"):
        asyncio.run(run())  # a failing tool ends a run of this library
    scene.judge(plugin.recorder)


# -- Strands ------------------------------------------------------------------------------------


def test_strands(needs, scene):
    strands = needs("strands", "strands-agents")
    from strands.models.model import Model

    from mulligan.adapters.strands import MulliganHooks

    left = iter([("write", {"text": "bad\n"}), ("half", {}), "done"])

    class Scripted(Model):
        def update_config(self, **_):
            pass

        def get_config(self):
            return {}

        async def structured_output(self, *_, **__):
            yield {}

        async def stream(self, *_, **__):
            said = next(left)
            yield {"messageStart": {"role": "assistant"}}
            if isinstance(said, str):
                yield {"contentBlockDelta": {"delta": {"text": said}}}
            else:
                use = {"name": said[0], "toolUseId": f"use-{said[0]}"}
                yield {"contentBlockStart": {"start": {"toolUse": use}}}
                yield {"contentBlockDelta": {"delta": {"toolUse": {"input": json.dumps(said[1])}}}}
            yield {"contentBlockStop": {}}
            yield {"messageStop": {"stopReason": "end_turn" if isinstance(said, str) else "tool_use"}}

    hooks = MulliganHooks(scene.ws)
    tools = [strands.tool(scene.write), strands.tool(scene.half)]
    agent = strands.Agent(model=Scripted(), tools=tools, hooks=[hooks], callback_handler=None)
    assert "done" in str(agent(PROMPT))
    scene.judge(hooks.recorder)


# -- Microsoft Agent Framework ------------------------------------------------------------------


def test_agent_framework(needs, scene):
    framework = needs("agent_framework", "agent-framework-core")
    from mulligan.adapters.agent_framework import mulligan_middleware

    said = iter([("write", {"text": "bad\n"}), ("half", {}), "done"])

    def content(reply):
        if isinstance(reply, str):
            return framework.Content.from_text(reply)
        return framework.Content.from_function_call(f"call-{reply[0]}", reply[0], arguments=reply[1])

    class Scripted(framework.FunctionInvocationLayer, framework.BaseChatClient):
        def _inner_get_response(self, *, messages, stream, options, **_):
            async def answer():
                return framework.ChatResponse(messages=[framework.Message("assistant", [content(next(said))])])

            return answer()

    middleware = mulligan_middleware(scene.ws)
    tools = [framework.tool(each, approval_mode="never_require") for each in (scene.write, scene.half)]
    agent = framework.Agent(Scripted(), tools=tools, middleware=middleware)
    assert asyncio.run(agent.run(PROMPT)).text == "done"
    scene.judge(middleware[0].recorder)


# -- CrewAI -------------------------------------------------------------------------------------


def test_crewai(needs, scene, monkeypatch):
    monkeypatch.setenv("CREWAI_DISABLE_TELEMETRY", "true")
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    crewai = needs("crewai", "crewai")
    from crewai.tools import tool

    from mulligan.adapters.crewai import protected

    steps = [("write", '{"text": "bad\\n"}'), ("half", "{}")]
    said = iter([*(f"Thought: go\nAction: {name}\nAction Input: {given}\n" for name, given in steps)])

    class Scripted(crewai.BaseLLM):
        def call(self, *_: Any, **__: Any) -> str:
            return next(said, "Thought: I now know the final answer\nFinal Answer: done")

    @tool("write")
    def write(text: str) -> str:
        """Writes a text."""
        return scene.write(text)

    @tool("half")
    def half() -> str:
        """Begins something and fails."""
        return scene.half()

    agent = crewai.Agent(
        role="helper", goal="help", backstory="none", llm=Scripted(model="scripted"), tools=[write, half]
    )
    task = crewai.Task(description=PROMPT, expected_output="done", agent=agent)
    with protected(scene.ws) as recorder:
        assert "done" in str(crewai.Crew(agents=[agent], tasks=[task]).kickoff())
    scene.judge(recorder)


# -- smolagents ---------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True])
def test_smolagents(needs, scene, stream):
    smolagents = needs("smolagents", "smolagents")
    from smolagents.models import ChatMessage, MessageRole

    from mulligan.adapters.smolagents import protect

    codes = iter(["write('bad\\n')", "half()", "final_answer('done')"])

    class Scripted(smolagents.Model):
        def generate(self, *_: Any, **__: Any):
            return ChatMessage(role=MessageRole.ASSISTANT, content=f"Thought\n<code>\n{next(codes)}\n</code>")

    @smolagents.tool
    def write(text: str) -> str:
        """
        Writes a text.

        Args:
            text: what to write
        """
        return scene.write(text)

    @smolagents.tool
    def half() -> str:
        """Begins something and fails."""
        return scene.half()

    agent = protect(smolagents.CodeAgent([write, half], Scripted(), verbosity_level=0), scene.ws)
    done = list(agent.run(PROMPT, stream=True))[-1].output if stream else agent.run(PROMPT)
    assert done == "done"
    scene.judge(agent.mulligan, tools=("python_interpreter",))


# -- Agno ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("coroutine", [False, True])
def test_agno(needs, scene, coroutine):
    needs("agno", "agno")
    from agno.agent import Agent
    from agno.models.base import Model
    from agno.models.response import ModelResponse

    from mulligan.adapters.agno import mulligan_hooks
    from mulligan.adapters.recorder import Recorder

    left = iter([("write", {"text": "bad\n"}), ("half", {}), "done"])

    class Scripted(Model):
        def invoke(self, *_: Any, **__: Any):
            said = next(left)
            if isinstance(said, str):
                return ModelResponse(role="assistant", content=said)
            function = {"name": said[0], "arguments": json.dumps(said[1])}
            call = {"id": f"call-{said[0]}", "type": "function", "function": function}
            return ModelResponse(role="assistant", tool_calls=[call])

        async def ainvoke(self, *_: Any, **__: Any):
            return self.invoke()

        def invoke_stream(self, *_: Any, **__: Any):
            yield self.invoke()

        async def ainvoke_stream(self, *_: Any, **__: Any):
            yield self.invoke()

        def _parse_provider_response(self, response: Any, **_: Any):
            return response

        def _parse_provider_response_delta(self, response: Any):
            return response

    recorder = Recorder(scene.ws, "agno")
    hooks = mulligan_hooks(scene.ws, recorder=recorder)
    agent = Agent(model=Scripted(id="scripted"), tools=[scene.write, scene.half], telemetry=False, **hooks)
    done = asyncio.run(agent.arun(PROMPT)) if coroutine else agent.run(PROMPT)
    assert done.content == "done"
    scene.judge(recorder)
