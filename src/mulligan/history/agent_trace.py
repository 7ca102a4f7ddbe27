"""
Blame as an Agent Trace record (RFC 0.1.0, January 2026): which conversation wrote which lines of a file.

One conversation stands for one prompt of a session. Its `url` is a URN, because a session of a local agent has no address.
What a person wrote is `human`, what was there first or is not clear is `unknown`. The model behind an agent is not recorded.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from mulligan.history.origins import AGENT, UNSAVED, YOU

if TYPE_CHECKING:
    from mulligan.history.blame import Blame, BlamedLine
    from mulligan.history.origins import Origin

VERSION = "0.1.0"
_TYPES = {AGENT: "ai", YOU: "human", UNSAVED: "unknown"}


def agent_trace(blamed: Blame, now: datetime, version: str) -> dict[str, Any]:
    """Returns the record; `version` is the version of mulligan."""
    groups: dict[tuple[str, str, str, int], list[BlamedLine]] = {}
    for line in blamed.lines:
        origin = line.origin
        groups.setdefault((_TYPES.get(origin.by, "unknown"), origin.agent, origin.session, origin.prompt), []).append(
            line
        )
    record: dict[str, Any] = {"version": VERSION, "id": str(uuid4()), "timestamp": now.isoformat()}
    if blamed.revision:
        record["vcs"] = {"type": "git", "revision": blamed.revision}
    record["tool"] = {"name": "mulligan", "version": version}
    conversations = [_conversation(lines[0].origin, lines) for lines in groups.values()]
    record["files"] = [{"path": blamed.path, "conversations": conversations}]
    asked = [_said(lines[0].origin) for lines in groups.values() if lines[0].origin.by == AGENT]
    return {**record, "metadata": {"dev.mulligan": {"prompts": asked}}}


def _conversation(origin: Origin, lines: list[BlamedLine]) -> dict[str, Any]:
    about: dict[str, Any] = {}
    if origin.by == AGENT and origin.session:
        about["url"] = _url(origin)
    about["contributor"] = {"type": _TYPES.get(origin.by, "unknown")}
    return {**about, "ranges": [_range(run) for run in _runs(lines)]}


def _url(origin: Origin) -> str:
    return f"urn:mulligan:{_quoted(origin.agent)}:{_quoted(origin.session)}:prompt-{origin.prompt}"


def _quoted(text: str) -> str:
    """Returns a text as part of a URN (RFC 3986)."""
    data = text.encode(errors="surrogateescape")
    return "".join(chr(byte) if bytes([byte]).isalnum() or byte in b"-._~" else f"%{byte:02X}" for byte in data)


def _said(origin: Origin) -> dict[str, Any]:
    return {
        "url": _url(origin),
        "agent": origin.agent,
        "session": origin.session,
        "prompt": origin.prompt,
        "text": origin.asked,
    }


def _runs(lines: Iterable[BlamedLine]) -> list[list[BlamedLine]]:
    """Returns lines that follow each other, together."""
    runs: list[list[BlamedLine]] = []
    for line in lines:
        if runs and runs[-1][-1].line + 1 == line.line:
            runs[-1].append(line)
        else:
            runs.append([line])
    return runs


def _range(run: list[BlamedLine]) -> dict[str, Any]:
    text = "\n".join(line.text for line in run).encode(errors="surrogateescape")
    hashed = f"sha256:{hashlib.sha256(text).hexdigest()}"
    return {"start_line": run[0].line, "end_line": run[-1].line, "content_hash": hashed}
