"""`mulligan hook`: what agents call at each of their events."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from mulligan.cli.command import Result
from mulligan.cli.context import Context
from mulligan.errors import MulliganError
from mulligan.hooks.clients import CLIENTS, client_named, understand
from mulligan.hooks.events import NOTHING, HookCall, Reply
from mulligan.hooks.handling import OutOfTime, failed, handle
from mulligan.hooks.replies import rendered
from mulligan.model.event import SESSION, AgentEvent

if TYPE_CHECKING:
    from mulligan.engine.workspace import Workspace

USAGE = "hook AGENT [EVENT] | hook --as NAME"
DESCRIPTION = """\
Called by agents' hooks; you never need to run it. `mulligan install AGENT` writes it where the agent looks.

Reads the event on stdin, saves what changed, with its cause, and answers in the agent's own form. It always exits with 0, so that
no failure of mulligan stops an agent: it is reported in the agent's channel and shown by `mulligan status`.
"""
EXAMPLES = (
    ("mulligan hook claude-code < event.json", "as Claude Code runs it"),
    ("mulligan hook --as my-agent < event.json", "any agent that sends events in the form of Claude Code"),
    ("mulligan hook git after post-commit", "as a hook of git runs it"),
)
EXIT_CODES = (0,)

LARGEST = 64 << 20
#: Seconds: for the first look at a project, and for everything else. The clients' own limits, as installed, are a little longer.
PATIENCE = {SESSION: 110.0}
USUALLY = 25.0
WAIT = 5.0


class UnreadableEvent(Exception):
    """The agent's input is not an event."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's own arguments; anything is taken, since a usage error would stop the agent."""
    parser.add_argument("words", nargs="*", metavar="AGENT [EVENT]", help=", ".join(CLIENTS))
    parser.add_argument(
        "--as", dest="name", metavar="NAME", help="an agent that sends events in the form of Claude Code"
    )


def run(context: Context, args: argparse.Namespace) -> Result:
    """Handles one event; whatever happens is no error."""
    agent = args.name or (args.words[0] if args.words else "")
    call, reply = NOTHING, Reply()
    try:
        client = client_named(agent) if args.name else CLIENTS.get(agent)
        if client is None:
            reply = Reply(f"mulligan knows no agent called {agent!r}; known are {', '.join(CLIENTS)}")
        else:
            _arm(USUALLY)  # a client that never closes our stdin must not hold itself up either
            payload = _payload(args.words)
            if agent == "claude-code" and context.environ.get("COPILOT_CLI") and "timestamp" in payload:
                agent, client, payload = "copilot", client_named("copilot"), _only_once(context, payload)
            call = understand(client, payload, directory=context.environ.get(client.project, ""))
            home, event = context.environ.get("HOME", ""), with_processes(call.event, context.caller)
            call = call._replace(home=home, event=event)
            reply = _in_time(context, agent, call)
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - an agent is never stopped for a mistake of ours
        reply = _unforeseen(context, agent, call, error)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return Result((agent, call, reply), lambda: {"message": reply.message, "ask": reply.ask})


def render(context: Context, result: Result) -> None:
    """Prints the answer in the agent's form."""
    text = rendered(*result.value)
    if text:
        context.out.line(text)


def _payload(words: list[str]) -> dict[str, Any]:
    """Returns what came on stdin; for a caller that can send nothing, what the words say."""
    import json

    if len(words) > 1:
        from mulligan.settings.locations import standing

        return {
            "event": words[1],
            "session_id": words[0],
            "cwd": standing(os.environ),
            "tool_name": " ".join(words[2:]),
        }
    data = b"" if sys.stdin.isatty() else sys.stdin.buffer.read(LARGEST)
    try:
        found = json.loads(data) if data.strip() else {}
    except (ValueError, RecursionError, SystemError):
        # Which of them depends on what is wrong with it, and on the version of Python.
        raise UnreadableEvent("the event that the agent sent is no JSON that can be read.") from None
    return found if isinstance(found, dict) else {}


def _only_once(context: Context, payload: dict[str, Any]) -> dict[str, Any]:
    """Returns an event that Copilot sent to the hooks of Claude Code; nothing where it has hooks of its own."""
    home, project = (context.environ.get(name, "") for name in ("HOME", "COPILOT_PROJECT_DIR"))
    own = (f"{home}/.copilot/hooks/mulligan.json", f"{project}/.github/hooks/mulligan.json")
    return {} if any(map(os.path.exists, own)) else payload


def _in_time(context: Context, agent: str, call: HookCall) -> Reply:
    if call.event is None:
        return Reply()
    _arm(PATIENCE.get(call.event.kind, USUALLY))
    reply = handle(agent, call, lambda directory: workspace_of(context, directory, call.cwd, wait=WAIT))
    if call.event.kind == SESSION:
        _look_for_hooks(context, agent)
    return reply


def _look_for_hooks(context: Context, agent: str) -> None:
    """Remembers, once a session, where this agent's hooks stand, so that their loss is noticed later."""
    from mulligan.cli.hook_files import expect_hooks

    with suppress(MulliganError, OSError, OutOfTime):
        expect_hooks(context, agent)


def _arm(seconds: float) -> None:
    for each in (signal.SIGALRM, signal.SIGTERM):
        signal.signal(each, _out_of_time)
    signal.setitimer(signal.ITIMER_REAL, seconds)


def _out_of_time(number: int, _frame: object) -> None:
    signal.setitimer(signal.ITIMER_REAL, 0)
    why = "it took too long" if number == signal.SIGALRM else "the agent ended it"
    raise OutOfTime(
        f"{why}. For a large project, run `mulligan save` once beforehand, "
        'or protect less than the whole repository: workspace.root = "here" in your configuration.'
    )


def _unforeseen(context: Context, agent: str, call: HookCall, error: BaseException) -> Reply:
    why = str(error) if isinstance(error, UnreadableEvent) else f"{type(error).__name__}: {error}."
    try:
        opened = context.workspace.settings
    except Exception:  # noqa: BLE001 - see above; the person still gets a message
        opened = None
    event = call.event or AgentEvent(agent, "", "unknown")
    if not isinstance(error, ValueError | UnreadableEvent):
        from mulligan.cli.failure import write_report

        write_report(error, ["hook", agent], context.environ)
    return failed(agent, event, opened, why)


def workspace_of(context: Context, directory: str, cwd: str, *, wait: float) -> Workspace:
    """Returns the workspace of an event: of the client's project, or of the worktree that the agent moved into."""
    from mulligan import settings
    from mulligan.settings.locations import standing

    if context.is_told_where:
        return context.open(context.settings._replace(wait=wait))  # `-C` or `--store` in the hook's own line wins
    here = os.path.realpath(directory) if directory else standing(context.environ)
    root = settings.find_workspace(here, context.environ)
    if cwd and _is_within(os.path.realpath(cwd), root):
        inner = settings.find_workspace(cwd, context.environ)
        if inner != root:
            from mulligan.usergit.repository import is_worktree

            # An agent that moved into a worktree works there, whatever project its session began in.
            root = inner if is_worktree(inner) else root
    found = settings.resolve(root, wait=wait, environ=context.environ)
    return context.open(found)


def _is_within(path: str, directory: str) -> bool:
    return path != directory and path.startswith(directory.rstrip("/") + "/")


def with_processes(event: AgentEvent | None, caller: int) -> AgentEvent | None:
    """Returns an event with the processes that its hook was started by."""
    if event is None:
        return None
    from mulligan.safefs.processes import ancestry

    return event._replace(processes=ancestry(caller))
