"""`mulligan serve`: commands and events as JSON lines, for programs that have mulligan inside."""

from __future__ import annotations

import argparse
import json
import os
import selectors
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import takewhile
from typing import Any, BinaryIO

from mulligan.cli import dispatch
from mulligan.cli.arguments import wants
from mulligan.cli.command import Result
from mulligan.cli.context import Context
from mulligan.cli.help import version
from mulligan.cli.server import ClientScreen
from mulligan.engine.workspace import Workspace
from mulligan.errors import MulliganError, UserError
from mulligan.model.checkpoint import Checkpoint
from mulligan.model.policy import Settings

USAGE = "serve [--follow]"
DESCRIPTION = """\
Serve a program over JSON lines: a request per line on standard input, an answer per line on standard output.

A request holds the words of a command. Its answer is what --json prints:
  {"v": 1, "id": 7, "run": ["save", "before the migration"]}
  {"v": 1, "id": 7, "exit": 0, "result": {"checkpoint": {…}}}

Requests are answered one after the other. It ends when standard input does. docs/howto/host-programs.md has an example.
"""
EXAMPLES = (
    ("mulligan serve", "what an editor or another host program starts, once"),
    ("mulligan serve --follow", "also reports checkpoints that other processes make"),
)
EXIT_CODES = (0, 1)

#: The protocol's number. A change that an existing program could stumble over raises it.
PROTOCOL = 1
# They need a terminal, or would not end by themselves.
_NOT_HERE = frozenset({"serve", "mcp", "ui", "repl", "watch", "demo", "run"})
_LONGEST = 16 << 20
_LOOK = 0.25
_AT_ONCE = 500


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's own arguments."""
    parser.add_argument("--follow", action="store_true", help="also print an event for each new checkpoint")


def run(context: Context, args: argparse.Namespace) -> Result:
    """Serves until standard input ends."""
    if context.json:
        raise UserError("The protocol has its own JSON; --json is not for it.", hint="mulligan serve")
    host = Host(context, follow=args.follow)
    try:
        host.serve()
    finally:
        host.close()
    return Result(None, dict)


class Host:
    """One program at the other end, and the workspace that it asks about."""

    def __init__(self, context: Context, *, follow: bool) -> None:
        self._environ = context.environ
        self._settings = context.settings
        self._sink: BinaryIO = sys.stdout.buffer
        self._workspace: Workspace | None = None
        self._follows = follow
        self._known: frozenset[str] = frozenset()
        self._newest = self._position = ""

    def serve(self) -> None:
        """Answers requests, and reports new checkpoints in between."""
        if self._follows:
            self._newest, self._position = self._now()
            self._fresh()
        self._send(event="ready", version=version(), workspace=self._settings.workspace)
        with selectors.SelectSelector() as selector:  # epoll refuses a file as standard input
            selector.register(0, selectors.EVENT_READ)
            data = b""
            while True:
                if selector.select(_LOOK if self._follows else None):
                    data += (more := os.read(0, 1 << 16))
                    # A last line needs no newline: one that was cut off is no JSON, and runs nothing.
                    *lines, data = (data if more else data + b"\n").split(b"\n")
                    for line in filter(bytes.strip, lines):
                        self._answer(line)
                    if not more:
                        return
                    if len(data) > _LONGEST:
                        raise UserError(f"A request is longer than {_LONGEST:,} bytes.")
                if self._follows:
                    self._report()

    def close(self) -> None:
        """Closes the workspace."""
        if self._workspace is not None:
            self._workspace.close()

    def _send(self, **fields: Any) -> None:
        self._sink.write(json.dumps({"v": PROTOCOL, **fields}).encode("ascii") + b"\n")
        self._sink.flush()

    # -- requests -------------------------------------------------------------------------------

    def _answer(self, line: bytes) -> None:
        number: Any = None
        try:
            request = json.loads(line)
            number = request.get("id") if isinstance(request, dict) else None
            words, given = _parse(request)
        except (ValueError, RecursionError, UserError) as error:
            message = error.message if isinstance(error, UserError) else "The line is not JSON."
            self._send(id=number, exit=2, result={"error": {"type": "UsageError", "message": message, "hint": ""}})
            return
        code, out = self._run(words, given)
        try:
            result = json.loads(out)
        except ValueError:
            result = {"text": out.decode("utf-8", "replace")} if out else None
        self._send(id=number, exit=code, result=result)

    def _run(self, words: list[str], given: str) -> tuple[int, bytes]:
        here = ["-C", self._settings.workspace, "--store", self._settings.store]
        named = [] if wants(words, "-C", "--store") else here
        extra = [] if dispatch.command_of(words) == "hook" else ["--json"]
        with _screens(given) as out:
            return dispatch.run([*named, *extra, *words], self._environ, self._lend), out()

    def _lend(self, settings: Settings) -> Workspace:
        """Returns an open workspace; the last one stays open, because the next request is likely to be about it too."""
        if self._workspace is None or self._workspace.settings != settings:
            self.close()
            self._workspace = Workspace(settings)
        return self._workspace

    # -- events ---------------------------------------------------------------------------------

    def _now(self) -> tuple[str, str]:
        """Returns the newest checkpoint and the position; both empty before the first save."""
        try:
            workspace = self._lend(self._settings)
            newest = workspace.log(limit=1)
            return (newest[0].id if newest else ""), workspace.position() or ""
        except MulliganError:
            return self._newest, self._position  # busy or damaged: a request will say so

    def _report(self) -> None:
        newest, position = self._now()
        if newest != self._newest:
            self._newest = newest
            for checkpoint in reversed(self._fresh()):
                self._send(event="checkpoint", checkpoint=checkpoint.to_dict())
        if position != self._position:
            self._position = position
            self._send(event="position", position=position)

    def _fresh(self) -> list[Checkpoint]:
        """Returns the checkpoints that are newer than all that were known, newest first; knows them from now on."""
        try:
            found = self._lend(self._settings).log(limit=_AT_ONCE)
        except MulliganError:
            return []
        fresh = list(takewhile(lambda checkpoint: checkpoint.id not in self._known, found))
        self._known = frozenset(checkpoint.id for checkpoint in found)
        return fresh


def _parse(request: Any) -> tuple[list[str], str]:
    """Returns the words of a request and what stands on its standard input; raises UserError."""
    if not isinstance(request, dict) or request.get("v") != PROTOCOL:
        raise UserError(f'A request is an object with "v": {PROTOCOL}. Nothing was run.')
    words, given = request.get("run"), request.get("stdin", "")
    if not isinstance(words, list) or not words or not all(isinstance(word, str) for word in words):
        raise UserError('"run" is a list of words, such as ["save", "first"]. Nothing was run.')
    if not isinstance(given, str):
        raise UserError('"stdin" is a text. Nothing was run.')
    if dispatch.command_of(words) in _NOT_HERE:
        raise UserError(f"{dispatch.command_of(words)!r} needs a terminal or does not end by itself. Nothing was run.")
    return words, given


@contextmanager
def _screens(given: str) -> Iterator[Any]:
    """Collects what a command prints; its remarks go to standard error as they are."""
    import io

    before = sys.stdin, sys.stdout
    screen = ClientScreen(terminal=False, columns=80)
    sys.stdin, sys.stdout = io.TextIOWrapper(io.BytesIO(given.encode("utf-8", "surrogateescape"))), screen

    def taken() -> bytes:
        screen.flush()
        return screen.taken.getvalue()

    try:
        yield taken
    finally:
        sys.stdin, sys.stdout = before
