"""
What a restore cannot bring back, because it was never saved: ignored files, large ones, git's own data, dependencies.

A checkpoint lists what it did not save. What it lists, and is not there any more, disappeared in what is being undone.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence

from mulligan.model.bounded import read_json
from mulligan.model.checkpoint import EXCLUDED, IGNORED, MOVING, SECRET, TOO_LARGE, UNREADABLE
from mulligan.model.paths import covers
from mulligan.model.plan import Keep
from mulligan.timeline.commits import Entry
from mulligan.timeline.database import Database

_NEVER_SAVED = frozenset({IGNORED, EXCLUDED, SECRET, TOO_LARGE, UNREADABLE, MOVING})
# A project may have very many ignored files: so many are looked for.
_MOST = 10_000
#: In the store's own values: what was named as lost already, and is still not there.
_NAMED = "lost"
_DEPENDENCIES = {
    "node_modules": {
        "package-lock.json": "npm install",
        "yarn.lock": "yarn install",
        "pnpm-lock.yaml": "pnpm install",
        "package.json": "npm install",
    },
    ".venv": {
        "uv.lock": "uv sync",
        "poetry.lock": "poetry install",
        "Pipfile.lock": "pipenv install",
        "requirements.txt": "pip install -r requirements.txt",
        "pyproject.toml": "pip install -e .",
    },
    "vendor": {"composer.lock": "composer install", "Gemfile.lock": "bundle install"},
}


def lost_since(
    database: Database, workspace: str, start: Entry, paths: tuple[bytes, ...] | None, *, has_git: bool
) -> list[Keep]:
    """Returns what was there at a checkpoint, is gone and was never saved; each path is named by one restore only."""
    found = [
        Keep(row.path.rstrip("/"), row.reason, row.detail, failed=True)
        for row in start.checkpoint.not_captured[:_MOST]
        if row.reason in _NEVER_SAVED and not _stands(workspace, row.path.rstrip("/"))
    ]
    if start.checkpoint.git is not None and not has_git and not _stands(workspace, ".git"):
        found.insert(0, Keep(".git", "git's own data", failed=True))
    named = read_json(database.meta(_NAMED, "[]"))
    before = {path for path in named if isinstance(path, str) and not _stands(workspace, path)}
    if paths is not None:
        found = [keep for keep in found if any(covers(path, os.fsencode(keep.path)) for path in paths)]
    fresh = [keep for keep in found if keep.path not in before]
    _note(database, sorted(before | {keep.path for keep in fresh})[:_MOST])
    return fresh


def forget_named(database: Database) -> None:
    """Says that what was lost may be named again: the steps in which it disappeared are there again."""
    _note(database, [])


def _note(database: Database, paths: list[str]) -> None:
    said = json.dumps(paths)
    if said != database.meta(_NAMED, "[]"):
        with database.transaction():
            database.set_meta(_NAMED, said)


def _stands(workspace: str, path: str) -> bool:
    return os.path.lexists(os.path.join(workspace, path))


def to_reinstall(workspace: str, start: Entry, changed: Sequence[str]) -> list[str]:
    """Returns the commands that make unsaved dependencies fit the files that a restore brought back, one for each place."""
    unsaved = {row.path.rstrip("/") for row in start.checkpoint.not_captured if row.reason in _NEVER_SAVED}
    commands = []
    for above in dict.fromkeys(path.rpartition("/")[0] for path in changed):
        for installed, files in _DEPENDENCIES.items():
            place = os.path.join(above, installed)
            beside = [name for name in files if os.path.join(above, name) in changed]
            if beside and (place in unsaved or _stands(workspace, place)):
                first = next((name for name in files if _stands(workspace, os.path.join(above, name))), beside[0])
                commands.append(f"cd {above} && {files[first]}" if above else files[first])
    return commands
