"""
One session as a file: the same page, with the answers that it would ask the server for, and secrets left out.

The file needs no server and no network, and changes nothing. Its own policy lets it run no script but the one that is in it.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import pkgutil
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from mulligan.errors import MulliganError, UserError
from mulligan.scan.secrets import LEFT_OUT, redact, secret_name
from mulligan.ui import changes, files
from mulligan.ui.forks import NOTHING
from mulligan.ui.timeline import Entry, entries_of

if TYPE_CHECKING:
    from mulligan.engine.workspace import Workspace

#: The first bytes of every exported file.
MARK = b"<!doctype html><!-- exported by mulligan ui -->"
#: What the lines and pictures of an exported file may take, in bytes of JSON.
ROOM, ROOM_FOR_PICTURE = 24 << 20, 1 << 20


def export(workspace: Workspace, session: str | None, version: str) -> tuple[bytes, int]:
    """Returns one session (the newest, by default) as a web page, and how many entries it has."""
    found = _chosen(workspace, session)
    if not found:
        raise UserError("There is no step to export. Nothing was written.", hint="mulligan log --story")
    carried = _Carried(workspace)
    for a, b in _spans(found):
        carried.add(a, b)
    about = {"workspace": os.path.basename(workspace.root), "read_only": True, "version": version}
    page = {
        "entries": _redacted(found),
        "next": None,
        "total": len(found),
        "version": "",
        "position": None,
        "here": None,
    }
    answers = {"/api/about": about, "/api/steps?limit=500": page, **carried.answers}
    return _page({"answers": answers, "counts": carried.counts, "pictures": carried.pictures}), len(found)


def _chosen(workspace: Workspace, session: str | None) -> list[Entry]:
    """Returns the entries of a session, and the checkpoints that were made while it ran."""
    told = entries_of(workspace)
    prompts = [each for each in told if each["type"] == "prompt"]
    if session is not None:
        prompts = [each for each in prompts if each["session"].startswith(session)]
        if not prompts:
            raise UserError(f"No session begins with {session!r}. Nothing was written.", hint="mulligan log --story")
    if not prompts:
        return told
    name = prompts[0]["session"]
    times = [each["at"] for each in prompts if each["session"] == name]
    return [
        each
        for each in told
        if (each["type"] == "prompt" and each["session"] == name)
        or (each["type"] == "checkpoint" and min(times) <= each["at"])
    ]


def _spans(found: list[Entry]) -> Iterator[tuple[str, str]]:
    """Yields the pairs of states that the page can show."""
    for entry in found:
        if entry["type"] == "checkpoint":
            yield entry["parent"] or NOTHING, entry["checkpoint"]
            continue
        kept = [each for each in entry["happened"] if each["checkpoint"] and not each["expired"]]
        yield from ((each["parent"] or NOTHING, each["checkpoint"]) for each in kept)
        if kept:
            yield kept[0]["parent"] or NOTHING, kept[-1]["checkpoint"]


class _Carried:
    """The answers about differences, as long as there is room."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._room = ROOM
        self.answers: dict[str, Any] = {}
        self.counts: dict[str, Any] = {}
        self.pictures: dict[str, str] = {}

    def add(self, a: str, b: str) -> None:
        """Adds what differs between two states, file by file."""
        address = f"/api/diff/{a}/{b}"
        if address in self.answers or self._room <= 0:
            return
        try:
            listed = changes.overview(self._workspace, a, b)
        except MulliganError:
            return  # an expired state: the page says that it is not part of the file
        self.answers[address] = listed
        total = {"additions": 0, "deletions": 0}
        for each in listed["files"]:
            found = self._lines(a, b, each["path"])
            for name in total:
                total[name] += found.get(name, 0)
        self.counts.setdefault(b, total)

    def _lines(self, a: str, b: str, path: str) -> dict[str, Any]:
        if self._room <= 0:
            return {}
        if secret_name(os.fsencode(path)):
            return {}
        found = changes.lines_of(self._workspace, a, b, [path])
        for each in found["files"]:
            for hunk in each["hunks"]:
                hunk["lines"] = redacted_lines(hunk["lines"])
                hunk["about"] = redact(hunk["about"])
            if each["binary"]:
                self._picture(a, path)
                self._picture(b, path)
        self.answers[f"/api/diff/{a}/{b}?path={_encoded(path)}"] = found
        self._room -= len(json.dumps(found))
        return found["files"][0] if found["files"] else {}

    def _picture(self, state: str, path: str) -> None:
        address = f"/api/file/{state}/{_encoded(path)}?raw"
        try:
            data, kind = files.picture(self._workspace, state, path)
        except MulliganError:
            return  # not there, or not a picture
        if len(data) <= ROOM_FOR_PICTURE and address not in self.pictures:
            self.pictures[address] = f"data:{kind};base64,{base64.b64encode(data).decode()}"
            self._room -= len(data) * 4 // 3


def redacted_lines(lines: list[str]) -> list[str]:
    """Returns the lines of a hunk, each with its tag, without what looks like a secret."""
    shown, inside = [], False
    for line in lines:
        inside = inside or ("-----BEGIN" in line and "PRIVATE KEY" in line)
        shown.append(line[:1] + (LEFT_OUT if inside else redact(line[1:])))
        inside = inside and "-----END" not in line
    return shown


def _redacted(value: Any) -> Any:
    """Returns entries in which every text is redacted; ids, times and paths have nothing to leave out."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, list):
        return [_redacted(each) for each in value]
    return {name: _redacted(each) for name, each in value.items()} if isinstance(value, dict) else value


def _encoded(path: str) -> str:
    """Returns a path as the page encodes it."""
    return quote(os.fsencode(path), safe="/!'()*")


def _page(carried: dict[str, Any]) -> bytes:
    script = (pkgutil.get_data("mulligan.ui", "static/app.js") or b"").replace(b"</script", b"<\\/script")
    style = pkgutil.get_data("mulligan.ui", "static/app.css") or b""
    digest = base64.b64encode(hashlib.sha256(script).digest()).decode()
    policy = f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data:"
    # No tag can begin inside the data.
    data = json.dumps(carried, separators=(",", ":")).replace("<", "\\u003c").encode()
    head = f'<html lang="en"><head><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{policy}">'
    view = '<meta name="viewport" content="width=device-width, initial-scale=1"><title>mulligan</title><style>'
    return b"".join(
        (
            MARK,
            (head + view).encode(),
            style,
            b'</style></head><body><div id="app"></div><script type="application/json" id="exported">',
            data,
            b'</script><script type="module">',
            script,
            b"</script></body></html>\n",
        )
    )
