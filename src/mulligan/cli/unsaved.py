"""The line that names what checkpoints leave out."""

from __future__ import annotations

from mulligan.cli.context import Context
from mulligan.errors import MulliganError
from mulligan.model.checkpoint import INCOMPLETE, NotCaptured
from mulligan.model.small import Iterable
from mulligan.present.timeline import unsaved_words


def unsaved_line(entries: Iterable[NotCaptured]) -> str:
    """Returns `Not saved: .env (secret), node_modules, +3. Details: mulligan status`, empty where a rule leaves nothing out."""
    apart = [entry for entry in entries if entry.reason not in INCOMPLETE]
    return f"Not saved: {unsaved_words(apart)}. Details: mulligan status" if apart else ""


def will_not_be_saved(context: Context) -> str:
    """Returns that line for the next checkpoint of the workspace; empty where it cannot be scanned."""
    try:
        return unsaved_line(context.workspace.not_captured())
    except MulliganError:
        return ""  # the first checkpoint tells what is wrong
