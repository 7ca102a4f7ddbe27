"""`mulligan ui`: the timeline in a browser."""

from __future__ import annotations

import argparse
import json
import os
import socket
import sys
from contextlib import suppress
from typing import Any

from mulligan.cli import browser, watchers
from mulligan.cli.arguments import bounded
from mulligan.cli.command import Result
from mulligan.cli.context import Context
from mulligan.cli.failure import interrupted_by_signals, write_report
from mulligan.cli.help import version
from mulligan.cli.listening import listening
from mulligan.errors import UserError
from mulligan.model.sizes import format_size
from mulligan.present.text import count
from mulligan.present.visible import visible
from mulligan.safefs.userfile import read_user_file, remove_user_file, write_private_file

USAGE = "ui [--port N] [--no-open] [--read-only] | ui --export FILE.html [--session ID]"
DESCRIPTION = """\
Show the timeline in a browser: what you asked, what each tool changed, and a plan for going back that you see before it is applied.

The page is served on 127.0.0.1 only, to the browser that opens the printed link. The server ends with Ctrl-C, or half an hour
after the last page was closed. A second `mulligan ui` opens the page of the first.
"""
EXAMPLES = (
    ("mulligan ui", "open the timeline of this project"),
    ("mulligan ui --no-open --port 7777", "print the address only, for ssh -L"),
    ("mulligan ui --export session.html", "the newest session as one file, secrets left out"),
)
EXIT_CODES = (0, 1)
_MISSING = "The web timeline needs two packages that are not installed."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's own arguments."""
    parser.add_argument(
        "--port",
        type=bounded("port", 0, 65535, int),
        metavar="N",
        default=0,
        help="the port (default: any that is free)",
    )
    parser.add_argument("--no-open", action="store_true", help="print the address and open no browser")
    parser.add_argument("--read-only", action="store_true", help="the page can change nothing")
    parser.add_argument("--export", metavar="FILE.html", help="write one session as a file, and serve nothing")
    parser.add_argument("--session", metavar="ID", help="the session to export (default: the newest)")


def run(context: Context, args: argparse.Namespace) -> Result:
    """Serves until it is interrupted or idle; or names the address of the server that runs already; or exports."""
    if args.export is not None:
        return _export(context, args)
    try:
        from mulligan.ui.serving import serve
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "mulligan":
            raise
        raise UserError(_MISSING, hint="pip install 'mulligan[ui]'") from None
    place = browser.place_of(context.settings, dict(context.environ))
    watchers.prepare(place)
    with watchers.alone(place) as free:
        if not free:
            url = browser.further_link(place)
            _announce(context, url, place, opens=not args.no_open, again=True)
            return Result(url, lambda: {"url": url})
        with listening(args.port, "mulligan ui --port 0", browser.last_port(place)) as listener:
            page, app, url = _built(context, args, listener)
            browser.remember(place, url.partition("/#")[0], page.logins.key)
            with suppress(KeyboardInterrupt), interrupted_by_signals():
                _announce(context, url, place, opens=not args.no_open)  # which says that Ctrl-C ends it: from here on
                serve(app, page.live, listener)
            browser.forget(place)
    return Result("", dict)


def _export(context: Context, args: argparse.Namespace) -> Result:
    """Writes one session into a file that only you can read; replaces nothing but an earlier export."""
    from mulligan.ui.export import MARK, export

    target = os.path.join(context.base, args.export)
    try:
        before = read_user_file(target, limit=len(MARK))
    except OSError as error:
        raise UserError(f"{args.export} cannot be written ({error.strerror or 'it is not a file'}).") from None
    if before is not None and before != MARK:
        raise UserError(
            f"{args.export} is there already, and is not an export. Nothing was written.", hint="Choose another name."
        )
    page, entries = export(context.saved, args.session, version())
    remove_user_file(target)
    write_private_file(os.path.dirname(target), os.path.basename(target), page)
    return Result((args.export, entries, len(page)), lambda: {"exported": target, "entries": entries})


def _built(context: Context, args: argparse.Namespace, listener: socket.socket) -> tuple[Any, Any, str]:
    """Returns the page, its application and the address that logs in."""
    from mulligan.ui.app import Page, build
    from mulligan.ui.logins import Logins

    port = listener.getsockname()[1]
    logins = Logins(port)
    page = Page(
        context.workspace,
        logins,
        read_only=args.read_only,
        version=version(),
        unforeseen=lambda error: write_report(error, ["ui"], context.environ),
    )
    context.quiet()
    context.workspace.progress = None
    return page, build(page, port), f"http://127.0.0.1:{port}/#{logins.new_link()}"


def _announce(context: Context, url: str, place: browser.Place, *, opens: bool, again: bool = False) -> None:
    """Prints the address, opens the browser where there is one, and says what to type where there is none."""
    if context.json:
        if not again:
            context.json = False  # the end of the server, also right after this line, is not a second document
            sys.stdout.write(json.dumps({"url": url}) + "\n")
            sys.stdout.flush()
        return
    first = "The timeline is open already" if again else "The timeline of this project"
    context.out.line(f"{first}: {url}")
    if advice := browser.advice(url, context.environ):
        context.out.lines(advice)
    elif opens and context.out.is_terminal:
        browser.show(place, url)
    if not again:
        context.out.line("Ctrl-C ends it.")
    context.out.stream.flush()


def render(context: Context, result: Result) -> None:
    """Prints where an export is; the address of a server was printed when it was known."""
    if isinstance(result.value, tuple):
        name, entries, size = result.value
        context.out.line(f"Wrote {visible(name)}: {count(entries, 'entry', 'entries')}, {format_size(size)}.")
        context.note("What looks like a secret was left out. Look through the file before you send it.")
