"""The lines that name what checkpoints leave out, and what to type to save it too."""

from __future__ import annotations

from collections.abc import Sequence

from mulligan.cli.context import Context
from mulligan.errors import MulliganError
from mulligan.model.checkpoint import IGNORED, INCOMPLETE, NotCaptured
from mulligan.model.policy import as_pattern
from mulligan.present.timeline import unsaved_words
from mulligan.present.visible import visible

# Ignored as a rule, made by hand or filled at work, and in no other place. Secrets are not here: they are saved sealed.
_DATABASES = (".sqlite", ".sqlite3", ".db", ".db3", ".duckdb")
_LOCAL = (".local.toml", ".local.json", ".local.yml", ".local.yaml", ".local.md")
_NAMES = frozenset({
    ".envrc", ".tool-versions", "local_settings.py", "settings_local.py",
    "docker-compose.override.yml", "docker-compose.override.yaml", "compose.override.yml", "compose.override.yaml",
})  # fmt: skip
_CACHES = frozenset({"thumbs.db", "ehthumbs.db"})
_MOST = 3


def unsaved_lines(entries: Sequence[NotCaptured]) -> list[str]:
    """Returns `Not saved: .env (secret), node_modules, +3. Details: mulligan status`, and what may be missed among them."""
    apart = sorted((entry for entry in entries if entry.reason not in INCOMPLETE), key=lambda each: not _matters(each))
    lines = [f"Not saved: {unsaved_words(apart)}. Details: mulligan status"] if apart else []
    found = [entry.path for entry in apart if _matters(entry)]
    if found:
        import shlex

        patterns = " ".join(shlex.quote(as_pattern(path)) for path in found[:_MOST])
        these = visible(found[0]) if len(found) == 1 else "these"
        lines.append(
            f"To save {these} although git ignores {'it' if len(found) == 1 else 'them'}: mulligan include {visible(patterns)}"
        )
    return lines


def _matters(entry: NotCaptured) -> bool:
    """Returns whether an ignored file is one that people miss: a local database or local settings."""
    if entry.reason != IGNORED or entry.detail:
        return False
    name = entry.path.rpartition("/")[2].lower()
    return name in _NAMES or name.endswith(_LOCAL) or (name.endswith(_DATABASES) and name not in _CACHES)


def will_not_be_saved(context: Context) -> list[str]:
    """Returns these lines for the next checkpoint of the workspace; none where it cannot be scanned."""
    try:
        return unsaved_lines(context.workspace.not_captured())
    except MulliganError:
        return []  # the first checkpoint tells what is wrong
