"""
The resources: checkpoints and differences under addresses, for clients that attach them to a conversation.

    mulligan://status                          the state of protection
    mulligan://timeline                        the newest checkpoints
    mulligan://remotes                         where this history is pushed to, and which machines push there
    mulligan://diff                            what changed since the position, as a patch
    mulligan://checkpoint/{ref}                one checkpoint
    mulligan://checkpoint/{ref}/diff           what it changed, as a patch
    mulligan://checkpoint/{ref}/file/{+path}   one file as it was

They are the reading tools under another name: the same views, the same bounds.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from mulligan.errors import UserError
from mulligan.mcp import bounds
from mulligan.mcp.tools import TOOLS, Desk

SCHEME = "mulligan://"
JSON, PATCH, TEXT = "application/json", "text/x-diff", "text/plain"
PAGE = 50

_ESCAPED = re.compile(rb"%([0-9A-Fa-f]{2})")


class Fixed(NamedTuple):
    """A resource that is always there."""

    uri: str
    name: str
    description: str
    mime: str


class Template(NamedTuple):
    """A family of resources, by the pattern of their addresses."""

    uri: str
    name: str
    description: str
    mime: str
    pattern: re.Pattern[str]
    read: Callable[[Desk, dict[str, str]], str]


FIXED = (
    Fixed("mulligan://status", "status", "What is protected, what changed since the last checkpoint, what is not captured", JSON),
    Fixed("mulligan://timeline", "timeline", "The newest checkpoints, newest first", JSON),
    Fixed("mulligan://diff", "unsaved changes", "What changed since the last checkpoint, as a unified patch", PATCH),
    Fixed("mulligan://remotes", "remotes", "Where this history is pushed to, and the other machines whose checkpoints were pulled", JSON),
)  # fmt: skip


def _tool(desk: Desk, name: str, **given: Any) -> dict[str, Any]:
    return TOOLS[name].answer(desk, given)


def _as_json(view: dict[str, Any]) -> str:
    return json.dumps(view, indent=2)


def _patch(view: dict[str, Any]) -> str:
    patch = view["patch"]
    if patch is None:
        return ""
    rest = patch["next_offset"]
    return str(patch["text"]) + (f"[cut: use the tool diff or show with offset {rest}]\n" if rest is not None else "")


def _file(desk: Desk, found: dict[str, str]) -> str:
    view = _tool(desk, "read", ref=found["ref"], path=found["path"])
    if view["binary"]:
        return f"[{view['bytes']} bytes that are not text]\n"
    rest = view["content"]["next_offset"]
    return str(view["content"]["text"]) + (f"\n[cut: use the tool read with offset {rest}]\n" if rest else "")


TEMPLATES = (
    Template(
        "mulligan://checkpoint/{ref}",
        "checkpoint",
        "One checkpoint: when, why, what it changed, what it did not capture",
        JSON,
        re.compile(r"mulligan://checkpoint/(?P<ref>[^/]+)"),
        lambda desk, found: _as_json(_tool(desk, "show", ref=found["ref"])["checkpoint"]),
    ),
    Template(
        "mulligan://checkpoint/{ref}/diff",
        "changes of a checkpoint",
        "What a checkpoint changed against the one before it, as a unified patch",
        PATCH,
        re.compile(r"mulligan://checkpoint/(?P<ref>[^/]+)/diff"),
        lambda desk, found: _patch(_tool(desk, "show", ref=found["ref"], patch=True)["diff"]),
    ),
    Template(
        "mulligan://checkpoint/{ref}/file/{+path}",
        "file at a checkpoint",
        "One file as it was at a checkpoint",
        TEXT,
        re.compile(r"mulligan://checkpoint/(?P<ref>[^/]+)/file/(?P<path>.+)"),
        _file,
    ),
)

_READ_FIXED: dict[str, Callable[[Desk], str]] = {
    "mulligan://status": lambda desk: _as_json(_tool(desk, "status")),
    "mulligan://timeline": lambda desk: _as_json(_tool(desk, "list", limit=PAGE)),
    "mulligan://remotes": lambda desk: _as_json({"remotes": desk.workspace.remotes.overview()}),
    "mulligan://diff": lambda desk: _patch(_tool(desk, "diff")),
}


class UnknownResource(UserError):
    """No resource has this address."""


def listed(desk: Desk, offset: int) -> tuple[list[Fixed], int | None]:
    """Returns a page of resources (the fixed ones, then checkpoints, newest first) and where the next page begins."""
    view = _tool(desk, "list", limit=PAGE, offset=offset)
    found = [*FIXED] if offset == 0 else []
    for row in view["checkpoints"]:
        about = f"Checkpoint of {row['created_at'][:19]}, {row['kind']}, {row['files_changed']} files changed"
        found.append(Fixed(f"{SCHEME}checkpoint/{row['id']}", row["name"] or row["id"][:8], about, JSON))
    return found, view["next_offset"]


def read(desk: Desk, uri: str) -> tuple[str, str]:
    """Returns the text of a resource and its type; raises UnknownResource."""
    if uri in _READ_FIXED:
        return _READ_FIXED[uri](desk), next(fixed.mime for fixed in FIXED if fixed.uri == uri)
    for template in TEMPLATES:
        match = template.pattern.fullmatch(uri)
        if match:
            return template.read(desk, {key: _plain(value) for key, value in match.groupdict().items()}), template.mime
    raise UnknownResource(f"There is no resource {bounds.line(uri)!r}.", hint="List them: resources/list")


def _plain(part: str) -> str:
    """Returns a part of an address with its escapes resolved; what a path may be is judged by the engine."""
    raw = _ESCAPED.sub(lambda found: bytes([int(found[1], 16)]), part.encode("utf-8", "surrogatepass"))
    return raw.decode("utf-8", "surrogateescape")
