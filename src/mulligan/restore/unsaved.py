"""
Files that no checkpoint or scan sees: those that a restore writes where a rule hides them, and those it cannot bring back.

The undo of a restore must know the first by name; otherwise it would take back the step before. A directory is never among
them, because its name would stand for all that is put there later. The second were never saved (ignored, too large, git's own
data, dependencies): what a checkpoint lists as not saved and is not there any more disappeared in what is being undone.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence

from mulligan.model.bounded import read_json
from mulligan.model.checkpoint import EXCLUDED, IGNORED, MOVING, SECRET, TOO_LARGE, UNREADABLE
from mulligan.model.paths import covers, parent_of
from mulligan.model.plan import Keep, RestorePlan, is_sealed
from mulligan.scan.read import IGNORES_LIMIT
from mulligan.scan.scanner import Scanner
from mulligan.scan.scope import IGNORE_FILE
from mulligan.scan.secrets import secret_name
from mulligan.store.objects import ObjectStore
from mulligan.timeline.commits import Entry
from mulligan.timeline.database import Database


def written_in_hiding(plan: RestorePlan, scanner: Scanner, store: ObjectStore) -> list[bytes]:
    """Returns the files that a plan writes although a rule of today hides them, or a rule that it brings back will."""
    coming = _coming_rules(plan, store)
    # A secret is seen by its name, whatever hides it.
    after = [
        action
        for action in plan.actions
        if action.after is not None and not action.after.is_dir and not (is_sealed(action) and secret_name(action.path))
    ]
    made = [(action.path, False) for action in after if action.before is None]
    found = scanner.hidden(made) if made else []
    if coming:
        found += scanner.hidden([(action.path, False) for action in after], coming)
    return list(dict.fromkeys(found))


def _coming_rules(plan: RestorePlan, store: ObjectStore) -> dict[bytes, bytes]:
    """Returns the ignore files that a plan writes or removes: by directory, what they will say."""
    found = {}
    for action in plan.actions:
        if os.path.basename(action.path) == IGNORE_FILE:
            node, said = action.after, b""
            is_file = node is not None and not (node.is_dir or node.is_link) and not is_sealed(action)
            for chunk in store.stream(node.oid) if node is not None and is_file else ():
                said += chunk
                if len(said) > IGNORES_LIMIT:
                    break
            found[parent_of(action.path)] = said[:IGNORES_LIMIT]
    return found


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
