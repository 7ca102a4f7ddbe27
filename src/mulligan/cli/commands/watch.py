"""`mulligan watch`: a file watcher, so that commands need no rescan."""

from __future__ import annotations

import argparse
import os
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from mulligan.cli import watchers
from mulligan.cli.arguments import bounded
from mulligan.cli.command import Result
from mulligan.cli.context import Context
from mulligan.cli.failure import interrupted_by_signals
from mulligan.cli.server import Server
from mulligan.errors import UserError
from mulligan.present.text import ago, columns, count
from mulligan.present.visible import visible
from mulligan.safefs.platform import HERE

USAGE = "watch [--background] [--idle MINUTES] | watch --stop | watch --status | watch --list"
DESCRIPTION = """\
Run a file watcher so that commands don't rescan the project. Results are the same with and without it.

While idle it joins packs and frees expired data. It ends when it is stopped, after some idle time, or when the project or its
store is gone. Only you can reach it. There is one per project and at most 8 in all (`watch.most`); one more ends the least
recently used, never one with a command in progress.
"""
EXAMPLES = (
    ("mulligan watch --background", "start one and go on"),
    ("mulligan watch --status", "whether one runs"),
    ("mulligan watch --stop", "end it"),
    ("mulligan watch --list", "every watcher of yours"),
)
EXIT_CODES = (0, 1, 10)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's own arguments."""
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--background", action="store_true", help="start it as a background process and return")
    what.add_argument("--stop", action="store_true", help="end the watcher of this workspace")
    what.add_argument("--status", action="store_true", help="say whether one runs")
    what.add_argument("--list", action="store_true", help="list the watchers of all your projects")
    parser.add_argument(
        "--idle",
        type=bounded("number of minutes", 1e-9, 7 * 24 * 60, float),
        metavar="MINUTES",
        default=30.0,
        help="end after so long without a command (default: 30)",
    )


def run(context: Context, args: argparse.Namespace) -> Result:
    """Starts, stops or asks."""
    if args.list:
        found = watchers.all_running(dict(context.environ))
        most = context.settings.watch.most
        rows = [{"process": each.process, "workspace": each.workspace, "used_at": _stamp(each.used)} for each in found]
        return Result(("list", rows, str(most)), lambda: {"watchers": rows, "most": most})
    if (args.stop or args.status) and not os.path.isdir(context.settings.store):
        return _result("none", 0)  # where nothing was saved, none can run
    workspace = context.saved
    place = watchers.place_of(workspace.settings, dict(context.environ))
    if not place.directory:
        raise UserError("There is no place for a watcher's socket. Nothing was started.", hint="Set XDG_RUNTIME_DIR")
    if args.stop:
        return _result("stopped" if watchers.stop(place) else "none", 0)
    process = watchers.running(place)
    if args.status:
        return _result("running" if process else "none", process)
    if process:
        return _result("already", process)
    if not HERE.can.watch:
        raise UserError(
            "mulligan has no file watcher on this system, so none was started. Commands work without one: each scans all files.",
            hint="See what this system can do: mulligan doctor",
        )
    watchers.prepare(place)
    if args.background:
        return _result("started", *watchers.begin(context, args.idle, place))
    return _serve(context, args, place)


def _stamp(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def _result(what: str, process: int, unnoticed: str = "") -> Result:
    found: dict[str, Any] = {"running": bool(process), "process": process or None}
    if unnoticed:
        found["reason"] = unnoticed
    return Result((what, process, unnoticed), lambda: {"watcher": found})


def _serve(context: Context, args: argparse.Namespace, place: watchers.WatcherPlace) -> Result:
    with watchers.alone(place, context.settings.workspace) as free:
        if not free:
            return _result("already", watchers.running(place))
        server = Server(context.workspace, place, idle=args.idle * 60)

        def ready() -> None:
            watching = server.workspace.watch()
            if not watching.active:
                context.note(f"{watchers.UNNOTICED}{visible(watching.reason)}")
            context.note(f"Watching {visible(context.settings.workspace)}; Ctrl-C ends it.")
            context.err.stream.flush()
            watchers.end_oldest(place, context.settings.watch.most, dict(context.environ))

        # Ctrl-C is the usual end of a watcher in front.
        with suppress(KeyboardInterrupt), interrupted_by_signals():
            server.run(ready)
    return Result(("ended", server.served, ""), lambda: {"watcher": {"running": False, "process": None}})


def render(context: Context, result: Result) -> None:
    """Prints one line, and why changes are not noticed where that is so."""
    what, number, unnoticed = result.value
    if what == "list":
        rows = [
            (f"process {row['process']}", ago(datetime.fromisoformat(row["used_at"]), context.now()), row["workspace"])
            for row in sorted(number, key=lambda row: row["used_at"], reverse=True)
        ]
        context.out.lines(columns([(process, used, visible(where)) for process, used, where in rows]))
        context.out.line(
            f"{count(len(number), 'watcher')} of at most {unnoticed} (watch.most); the least recently used ends first"
        )
        return
    lines = {
        "stopped": "The watcher ended.",
        "none": "No watcher runs here.",
        "running": f"Process {number} watches this workspace.",
        "already": f"Process {number} watches this workspace already.",
        "started": f"Process {number} watches this workspace from now on; mulligan watch --stop ends it.",
        "ended": f"Ended after {count(number, 'command')}.",
    }
    context.out.line(lines[what])
    if unnoticed:
        context.note(f"{watchers.UNNOTICED}{visible(unnoticed)}")
