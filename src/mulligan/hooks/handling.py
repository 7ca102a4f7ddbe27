"""
What is done about an event: one call of the engine, and a word to the person where there is one to say.

Everything that goes wrong ends in a `Reply`: that protection failed and why. It is remembered for `mulligan status`, and the
agent goes on.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from mulligan import engine
from mulligan.errors import MulliganError, Unprotectable
from mulligan.hooks.clients import client_named
from mulligan.hooks.events import HookCall, Reply
from mulligan.model.checkpoint import moment
from mulligan.model.event import BEFORE, PROMPT, SESSION, AgentEvent

if TYPE_CHECKING:
    from mulligan.engine.workspace import Workspace
    from mulligan.model.policy import Settings

_PAUSED = "mulligan is paused in this project: nothing is saved. To go on: mulligan resume"
OFF, SAVE, ASK = "off", "save", "ask"


class OutOfTime(Exception):
    """The hook took longer than an agent can be kept waiting."""


def handle(agent: str, call: HookCall, open_workspace: Callable[[str], Workspace]) -> Reply:
    """Does what an event asks for; never raises for trouble of ours."""
    event = call.event
    if event is None:
        return Reply()
    settings: Settings | None = None
    try:
        workspace = open_workspace(call.directory)
        settings = workspace.settings
        if settings.paused:
            return Reply(_PAUSED if event.kind == SESSION else "")
        event = event._replace(at=_size(event.transcript), paths=_inside(workspace.root, call.directory, event.paths))
        told = event
        heard = _news(workspace, event) if event.kind == PROMPT and client_named(agent).hears else ""
        workspace.record(event, state=lambda since: _conversation(told, since) if told.transcript else {})
        reply = Reply(context=heard) if heard else _told(agent, call, event, workspace)
        return _with_new_key(reply, workspace)
    except Unprotectable as error:
        # Said once, at the start: this directory will never be protected, and no tool call can change that.
        return Reply(f"mulligan does not protect this directory: {error.message}" if event.kind == SESSION else "")
    except (MulliganError, OSError, OutOfTime) as error:
        if settings is None:
            with suppress(MulliganError, OSError):
                settings = open_workspace(call.directory).settings
        return failed(agent, event, settings, str(error) or type(error).__name__)


def _inside(root: str, directory: str, paths: tuple[str, ...]) -> tuple[str, ...]:
    """Returns paths, relative to where the agent was started, as the workspace sees them; those outside are left out."""
    start = os.path.realpath(directory)
    found = (os.path.relpath(os.path.join(start, path), root) for path in paths)
    return tuple(path for path in found if path != "." and not path.startswith("../") and path != "..")


def failed(agent: str, event: AgentEvent, settings: Settings | None, why: str) -> Reply:
    """Remembers that protection failed, and says so."""
    from mulligan.timeline.notices import remember_failure

    remembered = (
        "See: mulligan status" if settings is not None else "Later steps are not saved either until this is fixed."
    )
    try:
        if settings is not None:
            at = moment(time.time_ns()).isoformat(timespec="seconds")
            remember_failure(settings, at=at, agent=agent, event=event.kind, why=why)
    except OSError as error:
        remembered = f"That could not be noted for mulligan status ({error.strerror})."
    return Reply(f"mulligan could not save this step: {why} {remembered}")


def _told(agent: str, call: HookCall, event: AgentEvent, workspace: Workspace) -> Reply:
    """Returns what to say at the start of a session in a project that was moved, and before a destructive command."""
    if event.kind == SESSION:
        from mulligan.timeline.stores import moved_from

        if old := moved_from(workspace.settings):
            return Reply(f"mulligan: this project was at {old} before. To take over its history: mulligan adopt {old}")
    policy = workspace.settings.hooks.destructive
    if event.kind != BEFORE or policy == OFF:
        return Reply()
    from mulligan.hooks.warning import warning

    text = warning(call, workspace)
    return Reply(ask=text) if policy == ASK and client_named(agent).asks else Reply(text)


def _with_new_key(reply: Reply, workspace: Workspace) -> Reply:
    """Adds to a reply, for the person, that a key for secrets was made."""
    if not (key := workspace.bench.store.new_key()):
        return reply
    from mulligan.present.text import new_key_words

    return reply._replace(message="\n".join(filter(None, (reply.message, f"mulligan: {new_key_words(key)}"))))


def _news(workspace: Workspace, event: AgentEvent) -> str:
    """Returns what was undone under a session since its last prompt, for the model."""
    notices = engine.agents.news_for(workspace.bench, event.session)
    if not notices:
        return ""
    from mulligan.hooks.replies import news

    return news(notices)


def _conversation(event: AgentEvent, since: int) -> dict[str, Any]:
    from mulligan.hooks.conversation import NAME, conversation

    return {NAME: conversation(event, since)}


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size if path else 0
    except OSError:
        return 0  # not written yet
