"""
Agno: hooks of an agent.

    agent = Agent(model=model, tools=tools, **mulligan_hooks(mulligan.open(".")))
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import Any
from uuid import uuid4

from mulligan.adapters.recorder import Recorder, in_words
from mulligan.engine.workspace import Workspace
from mulligan.model.event import AFTER, BEFORE, FAILED, PROMPT, STOP


def mulligan_hooks(
    workspace: Workspace, *, session: str | None = None, recorder: Recorder | None = None
) -> dict[str, Any]:
    """
    Returns the hooks: a checkpoint at each run and around each tool; one `undo` takes back what a run did.

    To add hooks of your own, extend the lists. `recorder.troubles`, if you give one, says what could not be saved.
    """
    told = recorder or Recorder(workspace, "agno", session)

    def begun(run_input: Any) -> None:
        told.record(PROMPT, text=in_words(getattr(run_input, "input_content", "")))

    def called(function_name: str, function_call: Callable[..., Any], arguments: dict[str, Any]) -> Any:
        about = {"tool": function_name, "call": uuid4().hex, "text": in_words(arguments)}
        told.record(BEFORE, **about)
        try:
            result = function_call(**arguments)
        except BaseException:
            told.record(FAILED, **about)
            raise
        if isawaitable(result):
            return _awaited(told, about, result)
        told.record(AFTER, **about)
        return result

    def ended() -> None:
        told.record(STOP)

    return {"pre_hooks": [begun], "tool_hooks": [called], "post_hooks": [ended]}


async def _awaited(told: Recorder, about: dict[str, str], result: Awaitable[Any]) -> Any:
    try:
        found = await result
    except BaseException:
        await told.tell(FAILED, **about)
        raise
    await told.tell(AFTER, **about)
    return found
