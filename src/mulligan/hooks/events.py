"""
One event of an agent, translated to the words that all of them share, and the answer to it.

`Reply` is in our words too: what to say to the person, and whether to let the client ask before it goes on.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from mulligan.model.event import AgentEvent


class HookCall(NamedTuple):
    """
    An event that a hook received.

    `event` is None where there is nothing to do. `arguments` are the tool's own, as far as they came, `name` is the client's word
    for the event, which some of them want to hear again. `cwd` is where a command of the agent would run, `home` the user's home.
    """

    event: AgentEvent | None
    directory: str = ""
    arguments: Any = None
    name: str = ""
    cwd: str = ""
    home: str = ""


class Reply(NamedTuple):
    """The answer to an event: a message for the person, a reason to ask first, a line for the model."""

    message: str = ""
    ask: str = ""
    context: str = ""


NOTHING = HookCall(None)
