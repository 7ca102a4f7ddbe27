"""
CrewAI: hooks around the tools of every crew that runs inside a block.

    with protected(mulligan.open(".")):
        crew.kickoff()

CrewAI's hooks belong to the process, so they also see crews that run in other threads at that time.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from crewai.hooks import InterceptionPoint, register_hook, unregister_hook

from mulligan.adapters.recorder import Recorder, in_words
from mulligan.engine.workspace import Workspace
from mulligan.model.event import AFTER, BEFORE, PROMPT, STOP


@contextmanager
def protected(workspace: Workspace, *, session: str | None = None) -> Iterator[Recorder]:
    """Saves at each crew's start and around each tool inside the block; one `undo` takes back what a crew did."""
    recorder = Recorder(workspace, "crewai", session)
    hooks = {
        InterceptionPoint.EXECUTION_START: lambda context: recorder.record(PROMPT, text=_asked(context)),
        InterceptionPoint.PRE_TOOL_CALL: lambda context: _tell(recorder, BEFORE, context),
        InterceptionPoint.POST_TOOL_CALL: lambda context: _tell(recorder, AFTER, context),
        InterceptionPoint.EXECUTION_END: lambda _: recorder.record(STOP),
    }
    for point, hook in hooks.items():
        register_hook(point, hook)
    try:
        yield recorder
    finally:
        for point, hook in hooks.items():
            unregister_hook(point, hook)


def _tell(recorder: Recorder, kind: str, context: Any) -> None:
    # CrewAI gives a call no id; the same dictionary of arguments is handed to both hooks of one call.
    recorder.record(
        kind, tool=str(context.tool_name), call=f"{id(context.tool_input):x}", text=in_words(context.tool_input)
    )


def _asked(context: Any) -> str:
    """Returns what the first task of a crew asks for."""
    tasks = getattr(context.crew, "tasks", None) or ()
    return str(getattr(tasks[0], "description", "")) if tasks else ""
