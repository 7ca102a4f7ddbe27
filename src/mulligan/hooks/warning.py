"""
The sentence before a destructive command: what of it an undo brings back, and what not.

Each path that the command names is asked about in the engine. Nothing is promised of paths that cannot be told beforehand:
there the sentence is about the whole project.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

from mulligan import engine
from mulligan.hooks.events import HookCall
from mulligan.hooks.reach import OWN_HISTORY, TRACKED, UNTRACKED, CommandReach, reached
from mulligan.model.checkpoint import EXCLUDED, IGNORED, SECRET, SPECIAL, Holding, NotCaptured
from mulligan.present.text import count, some
from mulligan.present.visible import visible

if TYPE_CHECKING:
    from mulligan.engine.workspace import Workspace

_MOST = 200
CONFIGURED = "capture.exclude"
_SHOWN = 5


class _Told:
    """Collects the findings, in the order in which the warning lists them."""

    def __init__(self) -> None:
        self.saved: dict[str, int | None] = {}
        self.lost: dict[str, None] = {}
        self.beyond: dict[str, None] = {}
        self.everything = False


def warning(call: HookCall, workspace: Workspace) -> str:
    """Returns what to say before a tool runs; empty where it destroys nothing that is there."""
    found = reached(call.arguments, call.cwd or workspace.root, call.home)
    told = _Told()
    for each in found:
        _ask(told, each, workspace)
    if not told.saved and not told.lost and not told.beyond:
        return ""
    why = "; ".join(dict.fromkeys(each.why for each in found))
    return f"{'The ' + why[4:] if why.startswith('the ') else why}. {_said(told)}"


def _said(told: _Told) -> str:
    names = [visible(path) for path in (*told.lost, *(told.beyond if told.saved else ()))]
    if not told.saved:
        return "mulligan cannot undo this." + (f" Not saved: {some(names, _SHOWN)}" if names else "")
    held = some([_counted(path, files) for path, files in told.saved.items()], _SHOWN)
    lost = some(names, _SHOWN) if names else ""
    if told.everything:
        lost = f"{lost}, and anything outside this project" if lost else "anything outside this project"
    return f"Saved and undoable: {held}." + (
        f" Not saved, cannot be undone: {lost}" if lost else " Undo: mulligan undo"
    )


def _counted(path: str, files: int | None) -> str:
    return f"{visible(path)} ({count(files, 'file')})" if files is not None else visible(path)


def _ask(told: _Told, reach: CommandReach, workspace: Workspace) -> None:
    """Asks the engine about the paths of one command."""
    root, inside = workspace.root, dict[str, None]()
    for path in islice(_standing(reach), _MOST):
        below = _below(path, root)
        if below is not None:
            inside[below] = None
            continue
        if _below(root, path) is not None:
            inside["."] = None  # the project is in it
        own = any(_below(each, path) is not None or _below(path, each) is not None for each in _own(workspace))
        told.lost[OWN_HISTORY if own else f"{path} (outside this project)"] = None
    if reach.widely:
        inside["."] = None
        told.everything |= not reach.only
    for holding in engine.agents.holding(workspace.bench, list(inside)) if inside else ():
        _note(told, reach, holding)
    if reach.beyond:
        told.beyond[reach.beyond] = None


def _note(told: _Told, reach: CommandReach, holding: Holding) -> None:
    if holding.files:
        name = "this project" if holding.path in {"", "."} else holding.path + "/" * holding.is_directory
        told.saved[name] = holding.files if holding.is_directory else None
    for row in holding.unsaved:
        if not (reach.only and _is_spared(row, reach.only)):
            told.lost[row.path] = None


def _is_spared(row: NotCaptured, only: str) -> bool:
    """Returns whether a command of git leaves a path alone that is not saved."""
    if os.path.basename(row.path) == ".git":
        return True
    if only == TRACKED:  # what git tracks is saved, unless it is too large or the user's configuration leaves it out
        return row.reason in {IGNORED, SECRET, SPECIAL} or (row.reason == EXCLUDED and row.detail != CONFIGURED)
    return only == UNTRACKED and row.reason == IGNORED


def _standing(reach: CommandReach) -> Iterator[str]:
    """Yields the paths that a command names and that are there, patterns of the shell filled in, links above them followed."""
    for typed in reach.paths:
        full = os.path.join(reach.cwd, typed)
        for path in _matches(full):
            directory, name = os.path.split(path.rstrip("/") or "/")
            found = (
                os.path.join(os.path.realpath(directory), name)
                if name not in {"", ".", ".."}
                else os.path.realpath(path)
            )
            if os.path.lexists(found):
                yield found


def _matches(path: str) -> Iterable[str]:
    if os.path.lexists(path) or not glob.has_magic(path):
        return (path,)
    return sorted(glob.iglob(path))


def _own(workspace: Workspace) -> tuple[str, ...]:
    return workspace.store_path, workspace.settings.stores


def _below(path: str, top: str) -> str | None:
    """Returns a path relative to a directory that holds it, None for any other."""
    if path == top:
        return "."
    beginning = top.rstrip("/") + "/"
    return path.removeprefix(beginning) if path.startswith(beginning) else None
