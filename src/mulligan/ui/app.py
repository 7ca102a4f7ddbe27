"""
The addresses of the server, and the boundary where errors become answers.

Reading is GET. Plans are made by POST, because they take lists of paths; of all addresses only `apply` changes files.
"""

from __future__ import annotations

import json
import os
import pkgutil
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_to_bytes

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.convertors import Convertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from mulligan.errors import (
    Busy,
    FileSealed,
    MulliganError,
    PlanStale,
    UnknownCheckpoint,
    UnknownPath,
    UnsafePath,
    UserError,
)
from mulligan.ui import changes, files, forks, timeline
from mulligan.ui.guard import Guard
from mulligan.ui.live import LiveStreams
from mulligan.ui.plans import AskedPlan, PagePlans, texts
from mulligan.ui.timeline import Timeline

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import ASGIApp

    from mulligan.engine.workspace import Workspace
    from mulligan.ui.logins import Logins

STATIC = {
    "/": ("static/index.html", "text/html; charset=utf-8"),
    "/app.js": ("static/app.js", "text/javascript; charset=utf-8"),
    "/app.css": ("static/app.css", "text/css; charset=utf-8"),
    "/icon.svg": ("static/icon.svg", "image/svg+xml"),
}
_STATUS: tuple[tuple[type[MulliganError], int], ...] = (
    (PlanStale, 409),
    (Busy, 503),
    (FileSealed, 403),
    (UnknownCheckpoint, 404),
    (UnknownPath, 404),
    (UnsafePath, 400),
    (UserError, 400),
)
#: Matches of a search that one answer holds.
MATCHES = 500
Unforeseen = Callable[[BaseException], str | None]


class Page:
    """One workspace behind the addresses."""

    def __init__(
        self, workspace: Workspace, logins: Logins, *, read_only: bool, version: str, unforeseen: Unforeseen
    ) -> None:
        self.workspace = workspace
        self.logins = logins
        self.timeline = Timeline(workspace)
        self.live = LiveStreams(self.timeline)
        self.plans = PagePlans(workspace)
        self.read_only = read_only
        self.version = version
        self.unforeseen = unforeseen

    # -- reading --------------------------------------------------------------------------------

    def about(self, _request: Request) -> Any:
        """Says which workspace this is."""
        return {"workspace": self.workspace.root, "read_only": self.read_only, "version": self.version}

    def steps(self, request: Request) -> Any:
        """Answers with a page of the timeline."""
        asked = _query(request)
        limit = _number(asked.get("limit", [str(timeline.PAGE)])[0], timeline.LARGEST_PAGE)
        return self.timeline.page(asked.get("before", [None])[0], limit)

    def diff(self, request: Request) -> Any:
        """Answers with the files that differ, or with the lines of some of them."""
        a, b = request.path_params["a"], request.path_params["b"]
        paths = _query(request).get("path")
        return changes.lines_of(self.workspace, a, b, paths) if paths else changes.overview(self.workspace, a, b)

    def counts(self, request: Request) -> Any:
        """Answers with the lines that some checkpoints added and removed."""
        return {"counts": self.timeline.counts(_query(request).get("step", [])[: timeline.COUNTED])}

    def file(self, request: Request) -> Any:
        """Answers with a file at a checkpoint; with `raw`, with a picture as itself."""
        checkpoint, path = request.path_params["checkpoint"], _rest(request, 3)
        if "raw" not in _query(request):
            return files.read(self.workspace, checkpoint, path)
        data, kind = files.picture(self.workspace, checkpoint, path)
        return Response(data, media_type=kind, headers={"Content-Disposition": "inline"})

    def history(self, request: Request) -> Any:
        """Answers with the checkpoints that changed a file, newest first."""
        found = self.workspace.log(path=_one(request, "path"))
        return {
            "versions": [
                {"checkpoint": each.id, "at": each.created_at.isoformat(), "label": each.name or each.description}
                for each in found
            ]
        }

    def blame(self, request: Request) -> Any:
        """Answers with the lines of a file as it is now, each with the prompt, the agent or the person that wrote it."""
        return self.workspace.blame(_one(request, "path")).to_dict()

    def search(self, request: Request) -> Any:
        """Answers with the prompts, commands, checkpoints, paths and lines that hold a text."""
        found = self.workspace.search(_one(request, "q")).to_dict()
        matches = found["matches"]
        return {"matches": matches[:MATCHES], "more": max(len(matches) - MATCHES, 0), "left_out": found["left_out"]}

    def health(self, _request: Request) -> Any:
        """Answers with the state of protection."""
        return self.workspace.status()

    def forks(self, _request: Request) -> Any:
        """Answers with the forks of the project, and what is new in each."""
        return forks.listing(self.workspace)

    def events(self, request: Request) -> Any:
        """Opens a stream of what is new."""
        seen = request.headers.get("last-event-id") or _query(request).get("after", [""])[0]
        return StreamingResponse(self.live.stream(request, seen), media_type="text/event-stream")

    # -- plans ----------------------------------------------------------------------------------

    def plan(self, request: Request, said: dict[str, Any]) -> Any:
        """Makes a plan of a restore, a revert, or of keeping a fork."""
        verb, ref = said.get("verb", "restore"), said.get("ref")
        if not isinstance(ref, str) or verb not in ("restore", "revert", "keep"):
            raise UserError("A plan needs a `verb` (restore, revert or keep) and a state, `ref`. Nothing was changed.")
        if verb == "keep" and self.read_only:
            raise UserError(
                "This server was started with --read-only, and to keep a fork it is saved first. Nothing was changed.",
                hint="mulligan keep DIR",
            )
        return self.plans.show(request.scope["page"], AskedPlan(verb, ref, *_limits(said)))

    def undo(self, request: Request, said: dict[str, Any]) -> Any:
        """Makes the plan of an undo."""
        return self.plans.show(request.scope["page"], AskedPlan("undo", "", *_limits(said)))

    def redo(self, request: Request, _said: dict[str, Any]) -> Any:
        """Makes the plan of a redo."""
        return self.plans.show(request.scope["page"], AskedPlan("redo"))

    def preview(self, request: Request) -> Any:
        """Answers with the hunks of a plan that was shown."""
        return self.plans.preview(request.scope["page"], request.path_params["digest"])

    def apply(self, request: Request, _said: dict[str, Any]) -> Any:
        """Applies a plan that was shown: the one address that changes files."""
        if self.read_only:
            raise UserError("This server was started with --read-only. Nothing was changed.", hint="mulligan ui")
        return self.plans.apply(request.scope["page"], request.path_params["digest"])

    # -- coming in ------------------------------------------------------------------------------

    def login(self, _request: Request, said: dict[str, Any]) -> Any:
        """Exchanges the token of a link for a cookie."""
        token = said.get("token")
        value = self.logins.enter(token) if isinstance(token, str) else None
        if value is None:
            return _json({"error": {"message": "This link does not work any more.", "hint": "mulligan ui"}}, 403)
        answer = _json({"ok": True})
        answer.set_cookie(self.logins.cookie, value, httponly=True, samesite="strict", path="/")
        return answer

    def link(self, request: Request, _said: dict[str, Any]) -> Any:
        """Hands a further link to another `mulligan ui` of the same user."""
        if not self.logins.is_key(request.headers.get("authorization", "")):
            return _json({"error": {"message": "The key is wrong."}}, 403)
        return {"token": self.logins.new_link()}


def build(page: Page, port: int) -> ASGIApp:
    """Returns the application, guarded."""
    reads = {
        "/api/about": page.about,
        "/api/steps": page.steps,
        "/api/diff/{a}/{b}": page.diff,
        "/api/counts": page.counts,
        "/api/file/{checkpoint}/{path:anything}": page.file,
        "/api/history": page.history,
        "/api/blame": page.blame,
        "/api/search": page.search,
        "/api/health": page.health,
        "/api/forks": page.forks,
        "/api/plans/{digest}/hunks": page.preview,
        "/api/events": page.events,
    }
    posts = {
        "/api/login": page.login,
        "/api/links": page.link,
        "/api/plans": page.plan,
        "/api/undo": page.undo,
        "/api/redo": page.redo,
        "/api/plans/{digest}/apply": page.apply,
    }
    routes = [Route(path, _reading(page, job)) for path, job in reads.items()]
    routes += [Route(path, _posting(page, job), methods=["POST"]) for path, job in posts.items()]
    routes += [Route(path, _static(*what)) for path, what in STATIC.items()]
    routes.append(Route("/api/openapi.json", _static("openapi.json", "application/json")))
    return Guard(Starlette(routes=routes, exception_handlers={HTTPException: _unknown}), page.logins, port)


class _Anything(Convertor[str]):
    """The rest of an address: a path, which may hold line ends too."""

    regex = r"[\s\S]*"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("anything", _Anything())


async def _unknown(_request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    return _json({"error": {"message": "This server has no such address, or not for this method."}}, status)


def _static(name: str, kind: str) -> Callable[[Request], Any]:
    data = pkgutil.get_data("mulligan.ui", name) or b""

    async def answer(_request: Request) -> Response:
        return Response(data, media_type=kind)

    return answer


def _reading(page: Page, job: Callable[[Request], Any]) -> Callable[[Request], Any]:
    async def answer(request: Request) -> Response:
        return await _answered(page, lambda: job(request))

    return answer


def _posting(page: Page, job: Callable[[Request, dict[str, Any]], Any]) -> Callable[[Request], Any]:
    async def answer(request: Request) -> Response:
        try:
            said = json.loads(await request.body() or b"{}")
        except ValueError:
            said = None
        if not isinstance(said, dict):
            return _json({"error": {"message": "The request is not a JSON object. Nothing was changed."}}, 400)
        return await _answered(page, lambda: job(request, said))

    return answer


async def _answered(page: Page, job: Callable[[], Any]) -> Response:
    page.live.last = time.monotonic()
    try:
        answer = await run_in_threadpool(job)
    except MulliganError as error:
        status = next((code for kind, code in _STATUS if isinstance(error, kind)), 500)
        said = {"type": type(error).__name__, "message": error.message, "hint": error.hint}
        return _json({"error": said}, status)
    except Exception as error:  # noqa: BLE001 - the one boundary of this door
        place = page.unforeseen(error)
        told = f" A report was written to {place}." if place else ""
        message = f"Internal error. This is a bug in mulligan; your checkpoints are safe.{told}"
        return _json({"error": {"type": "InternalError", "message": message, "hint": "mulligan check"}}, 500)
    finally:
        page.live.last = time.monotonic()
    return answer if isinstance(answer, Response) else _json(answer)


def _json(document: Any, status: int = 200) -> Response:
    # ASCII, so that a name that is not UTF-8 arrives as the lone surrogates that stand for its bytes.
    return Response(json.dumps(document, separators=(",", ":")), status, media_type="application/json")


def _query(request: Request) -> dict[str, list[str]]:
    """Returns the query by name; bytes that are not UTF-8 become surrogates, as in all paths of the engine."""
    found: dict[str, list[str]] = {}
    for pair in request.scope["query_string"].split(b"&"):
        name, _, value = pair.replace(b"+", b" ").partition(b"=")
        if name:
            found.setdefault(os.fsdecode(unquote_to_bytes(name)), []).append(os.fsdecode(unquote_to_bytes(value)))
    return found


def _one(request: Request, name: str) -> str:
    """Returns one value of the query; raises UserError where it is missing."""
    found = _query(request).get(name, [""])[0]
    if not found:
        raise UserError(f"The address needs `{name}`.")
    return found


def _limits(said: dict[str, Any]) -> tuple[list[str] | None, list[str] | None]:
    return texts(said.get("paths"), "paths"), texts(said.get("hunks"), "hunks")


def _rest(request: Request, parts: int) -> str:
    """Returns the path of a file from an address: everything after the first parts."""
    raw = request.scope["raw_path"].split(b"?")[0]
    return os.fsdecode(unquote_to_bytes(raw.split(b"/", parts + 1)[-1]))


def _number(text: str, most: int) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 8 and int(text)):
        raise UserError("limit is a number from 1 on.")
    return min(int(text), most)
