"""A watcher in a process of its own, started by a command that goes on, or ends."""

from __future__ import annotations

import subprocess
import sys

from mulligan.cli import serving
from mulligan.cli.context import Context
from mulligan.errors import UserError

#: What a watcher says where it cannot notice changes, before the reason.
UNNOTICED = "The watcher cannot notice changes here, so each command scans all files: "


def start(context: Context, *, idle: float, told: int = subprocess.DEVNULL) -> subprocess.Popen[str]:
    """Starts a watcher that outlives this command; its output goes to `told`, open until it is ready."""
    root, store = context.settings.workspace, context.settings.store
    return subprocess.Popen(  # noqa: S603 - this very program
        [sys.executable, "-m", "mulligan", "-C", root, "--store", store, "watch", "--idle", str(idle)],
        cwd="/",
        env=dict(context.environ),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=told,
        text=True,
        start_new_session=True,
    )


def begin(context: Context, idle: float, place: serving.Place) -> tuple[int, str]:
    """Starts a watcher and waits until it is ready; returns its process and why it cannot watch."""
    context.close()
    child = start(context, idle=idle, told=subprocess.PIPE)
    said = child.stderr.readline() if child.stderr is not None else ""
    unnoticed = ""
    if said.startswith(UNNOTICED) and child.stderr is not None:
        unnoticed, said = said.removeprefix(UNNOTICED).strip(), child.stderr.readline()
    process = serving.running(place)
    if not process:
        raise UserError(
            f"The watcher ended right away ({said.strip() or 'without a message'}). Commands work without it.",
            hint="See why: mulligan watch (stays in front)",
        )
    return process, unnoticed
