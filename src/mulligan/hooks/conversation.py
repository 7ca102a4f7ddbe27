"""
The conversation that led to a checkpoint: where its transcript stood, and a copy of what was said since the last one.

The copy is bounded and goes through the rules for secrets, because agents print what they read: what a tool returned from a file
that is named like a secret is left out whole, and what looks like a key or a password is left out wherever it stands. It is
there to be read. To go on from a checkpoint, the transcript itself is used: its beginning, up to where it stood, becomes a new
session beside the old one, which stays as it is. Only clients that keep one JSON object per line, and can resume a session by
its id, allow that; for the others the output names the command to type.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from mulligan.errors import UserError
from mulligan.hooks.clients import CLIENTS
from mulligan.model.checkpoint import Checkpoint
from mulligan.model.event import AgentEvent
from mulligan.safefs.userfile import read_user_part, write_private_file
from mulligan.scan.secrets import LEFT_OUT, redact, secret_name

NAME = "conversation"
#: Of what was said since the last checkpoint, the newest part.
MOST_COPIED = 64 << 10
#: Before that: where the calls are looked for whose results come now.
LOOKED_BACK = 256 << 10
LARGEST = 256 << 20
_CALLS = frozenset({"tool_use", "function_call", "custom_tool_call", "local_shell_call"})
_OF_CALL = ("call_id", "tool_use_id")
_GIVEN = ("input", "arguments", "args", "action")
_ANSWERS = frozenset({"result", "output", "resultDisplay"})
_PATH = r"[^\s\"'`;|&<>()=]+"
_RESUME = {"claude-code": "claude --resume {}", "codex": "codex resume {}"}
_OTHERWISE = {
    "gemini": "start gemini and type /resume, then /rewind to the prompt",
    "opencode": "opencode --session {}, then /undo there",
    "cursor": "in Cursor, use the checkpoint of that prompt in the chat",
    "aider": "in aider, type /clear",
}


def conversation(event: AgentEvent, since: int) -> dict[str, Any]:
    """Returns what a checkpoint keeps of the conversation: its place, and what was said since a position."""
    found: dict[str, Any] = {"agent": event.agent, "session": event.session, "path": event.transcript, "at": event.at}
    if event.transcript and event.at:
        begin = max(since if since <= event.at else 0, event.at - 4 * MOST_COPIED)
        back = min(begin, LOOKED_BACK)
        lines = list(_filtered(_part(event.transcript, begin - back, event.at), back))
        kept: list[str] = []
        room = MOST_COPIED
        for line in reversed(lines):
            room -= len(line)
            if room < 0:
                break
            kept.append(line)
        found["said"] = list(reversed(kept))
        if begin > since or len(kept) < len(lines):
            found["cut"] = True
    return found


def _part(path: str, begin: int, end: int) -> bytes:
    try:
        return read_user_part(path, begin, end)
    except OSError:
        return b""  # gone since, or no regular file: the position alone is kept


def _filtered(data: bytes, begin: int) -> Iterator[str]:
    """Yields lines of a transcript, from a position on, with secrets left out; a line that is no JSON object is left out."""
    calls, at = _Calls(), 0
    for line in data.splitlines(keepends=True):
        told, at = at >= begin, at + len(line)
        if not told and b"call" not in line and b"tool_use" not in line:
            continue
        try:
            cleaned = calls.clean(json.loads(line))
        except (ValueError, RecursionError):
            continue  # the beginning of it is in an earlier copy, its end is not written yet, or it is unreadable
        if told:
            yield json.dumps(cleaned, ensure_ascii=False)


class _Calls:
    """
    The calls of tools that a transcript told of so far, and those that name a secret.

    A result of a call that was not seen may be anything, and is left out.
    """

    def __init__(self) -> None:
        self._seen: set[str] = set()
        self._secret: set[str] = set()

    def clean(self, value: Any) -> Any:
        """Returns a part of a transcript with secrets left out, and takes note of the calls in it."""
        if isinstance(value, str):
            return redact(value)
        if isinstance(value, list):
            return [self.clean(each) for each in value]
        if not isinstance(value, dict):
            return value
        if str(value.get("type")) not in _CALLS and not self._vouched(value):
            kept = {key: value[key] for key in value if key in {"type", *_OF_CALL}}
            return {**kept, "content": LEFT_OUT}
        if self._is_secret_call(value):
            value = {key: LEFT_OUT if key in _ANSWERS else each for key, each in value.items()}
        named = value.get("filePath") or value.get("file_path")
        if isinstance(named, str) and _is_secret(named) and "content" in value:
            value = {**value, "content": LEFT_OUT}
        if "toolUseResult" in value and LEFT_OUT in json.dumps(self.clean(value.get("message"))):
            value = {**value, "toolUseResult": LEFT_OUT}
        return {key: self._named(key, each) for key, each in value.items()}

    def _named(self, key: str, value: Any) -> Any:
        """Returns a value that has a name, which may say that it is a secret."""
        if isinstance(value, str):
            return redact(f"{key}={value}").removeprefix(f"{key}=")
        return self.clean(value)

    def _vouched(self, value: dict[str, Any]) -> bool:
        """Returns whether a part is about no call, or about one that was seen and names no secret."""
        ids = {value[key] for key in _OF_CALL if isinstance(value.get(key), str)}
        return not ids or bool(ids & self._seen - self._secret)

    def _is_secret_call(self, value: dict[str, Any]) -> bool:
        ids = {value[key] for key in ("id", *_OF_CALL) if isinstance(value.get(key), str)}
        given = [value[key] for key in _GIVEN if value.get(key)]
        secret = bool(ids) and any(map(_names_a_secret, given))
        if given or str(value.get("type")) in _CALLS:
            self._seen |= ids
            self._secret |= ids if secret else set()
        return secret


def _names_a_secret(given: Any) -> bool:
    text = given if isinstance(given, str) else json.dumps(given) if given else ""
    return any(_is_secret(word.strip("\\,:")) for word in re.findall(_PATH, text[:LARGEST]))


def _is_secret(path: str) -> bool:
    return bool(secret_name(path.strip("/").encode("utf-8", "surrogateescape")))


# -- going back --------------------------------------------------------------------------------------


class Resumed(NamedTuple):
    """The result of a resume: the file of the new session, if there is one, and what to type."""

    file: str
    type: str


def place_of(event: AgentEvent | None, checkpoint: Checkpoint) -> dict[str, Any] | None:
    """Returns where the conversation stood: at an event of the agent, else at a checkpoint; None where neither knows."""
    if event is not None and event.agent in CLIENTS:
        return conversation(event._replace(at=0), 0) | {"at": event.at}
    value = checkpoint.state.get(NAME)
    return dict(value) if isinstance(value, Mapping) and value.get("agent") else None


def resume(place: Mapping[str, Any], fresh_id: str) -> tuple[Resumed, Callable[[], None]]:
    """
    Returns what to type to go on from a place of a conversation, and the call that makes that possible.

    Raises UserError, with nothing changed, where the transcript does not hold it any more.
    """
    agent, session, path, at = (place.get(key) for key in ("agent", "session", "path", "at"))
    if agent not in _RESUME:
        return Resumed("", _OTHERWISE.get(str(agent), "").format(session)), _nothing
    if not at:
        return Resumed("", f"nothing was said before: start {_RESUME[str(agent)].split()[0]} anew"), _nothing
    # The file is named after its session; one that is not would be written over, and not be found again.
    known = bool(session) and str(session) in os.path.basename(str(path))
    data = _part(str(path), 0, int(at)) if int(at) <= LARGEST and known else b""
    if len(data) < int(at):
        raise UserError(
            f"The transcript {path} does not hold this conversation any more. Nothing was changed.",
            hint="Restore the files alone: mulligan restore REF",
        )
    whole = data[: data.rfind(b"\n") + 1].replace(str(session).encode(), fresh_id.encode())
    folder, name = os.path.split(str(path).replace(str(session), fresh_id))
    there = Resumed(os.path.join(folder, name), _RESUME[str(agent)].format(fresh_id))
    return there, lambda: _written(folder, name, whole)


def _nothing() -> None:
    """The client has no way back, or needs none."""


def _written(folder: str, name: str, data: bytes) -> None:
    write_private_file(folder, name, data)
