"""
smolagents: an agent whose runs are saved.

    agent = protect(CodeAgent(tools, model), mulligan.open("."))
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import wraps
from typing import Any, TypeVar

from smolagents import ActionStep

from mulligan.adapters.recorder import Recorder, in_words
from mulligan.engine.workspace import Workspace
from mulligan.model.event import AFTER, FAILED, PROMPT, STOP

AgentT = TypeVar("AgentT")


def protect(agent: AgentT, workspace: Workspace, *, session: str | None = None) -> AgentT:
    """
    Returns the same agent; each run is a turn, with a checkpoint after each step, and one `undo` takes a run back.

    `agent.mulligan.troubles` says what could not be saved.
    """
    changed: Any = agent
    recorder = changed.mulligan = Recorder(workspace, "smolagents", session)
    changed.step_callbacks.register(ActionStep, lambda step, **_: _record(recorder, step))
    run = changed.run

    @wraps(run)
    def saved_run(task: str, stream: bool = False, **options: Any) -> Any:  # noqa: FBT001, FBT002 - the library's signature
        if stream:
            return _streamed(recorder, task, lambda: run(task, stream=True, **options))
        with recorder.run(task):
            return run(task, stream=False, **options)

    changed.run = saved_run
    return agent


def _streamed(recorder: Recorder, task: str, begin: Any) -> Iterator[Any]:
    """Yields the steps of a run; the turn begins with the first and ends with the last."""
    recorder.record(PROMPT, text=task)
    try:
        yield from begin()
    finally:
        recorder.record(STOP)


def _record(recorder: Recorder, step: Any) -> None:
    """Saves what a step left; smolagents says nothing before a step, so that its beginning is the end of the last."""
    calls = step.tool_calls or ()
    kind = FAILED if step.error is not None else AFTER
    for call in calls[:1]:
        text = step.code_action or in_words(call.arguments)
        recorder.record(kind, tool=str(call.name), call=f"{step.step_number}-{call.id}", text=text)
