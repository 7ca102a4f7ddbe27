"""
A checkpoint in few words: its title, and what to say after a save.

Names, descriptions and paths come from an untrusted workspace: every one of them is made harmless
before it is shown. Nothing here prints.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mulligan.model.checkpoint import IGNORED, INCOMPLETE, SECRET, TOO_LARGE, Checkpoint, NotCaptured
from mulligan.model.policy import as_pattern
from mulligan.present.text import PLAIN, Style, count
from mulligan.present.visible import visible

# Ignored as a rule, made by hand or filled at work, and in no other place. Secrets are not here: they are saved sealed.
_DATABASES = (".sqlite", ".sqlite3", ".db", ".db3", ".duckdb")
_LOCAL = (".local.toml", ".local.json", ".local.yml", ".local.yaml", ".local.md")
_NAMES = frozenset({
    ".envrc", ".tool-versions", "local_settings.py", "settings_local.py",
    "docker-compose.override.yml", "docker-compose.override.yaml", "compose.override.yml", "compose.override.yaml",
})  # fmt: skip
_CACHES = frozenset({"thumbs.db", "ehthumbs.db"})
_MOST_MISSED = 3


def title(checkpoint: Checkpoint) -> str:
    """Returns the name of a checkpoint on one harmless line, else its description's first line, else a dash."""
    text = checkpoint.name or checkpoint.description.strip().partition("\n")[0]
    if checkpoint.machine:
        return visible(f"{checkpoint.machine}:{text or checkpoint.short_id}")
    return visible(text) or "-"


def changes(checkpoint: Checkpoint) -> str:
    """Returns how many files a checkpoint changed, and whether it is partial."""
    _, total = checkpoint.first_changed(0)
    text = count(total, "file") if total else "no files"
    text += f", on {checkpoint.held_by}" if checkpoint.held_by else ""
    return text if checkpoint.complete else f"{text}, partial"


def saved_lines(checkpoint: Checkpoint, style: Style = PLAIN) -> list[str]:
    """Returns what to say after a save: one line, and what is missing if something is."""
    first = checkpoint.parent is None
    files = count(checkpoint.first_changed(0)[1], "file")
    what = f"{files} saved" if first else f"{files} changed"
    name = f"  {style('bold', title(checkpoint))}" if title(checkpoint) != "-" else ""
    lines = [f"{style('green', 'saved')} {style('yellow', checkpoint.short_id)}{name}  {what}"]
    if not checkpoint.complete:
        from mulligan.present.outcome import not_captured_lines

        missing = [entry for entry in checkpoint.not_captured if entry.reason in INCOMPLETE]
        lines.append(style("yellow", "partial: these could not be saved"))
        lines += not_captured_lines(missing)
    return lines


def unsaved_words(entries: Iterable[NotCaptured], most: int = 3) -> str:
    """Returns `.env (secret), node_modules, .venv, +3`: secrets first, then what is too large, then the rest."""
    order = (SECRET, TOO_LARGE)
    ranked = sorted(entries, key=lambda entry: order.index(entry.reason) if entry.reason in order else len(order))
    shown = []
    for entry in ranked[:most]:
        why = {SECRET: " (secret)", TOO_LARGE: f" ({visible(entry.detail)})"}.get(entry.reason, "")
        shown.append(visible(entry.path.rstrip("/")) + why)
    return ", ".join(shown) + (f", +{len(ranked) - most:,}" if len(ranked) > most else "")


def unsaved_lines(entries: Sequence[NotCaptured]) -> list[str]:
    """Returns `Not saved: .env (secret), node_modules, +3. Details: mulligan status`, and what may be missed among them."""
    apart = sorted((entry for entry in entries if entry.reason not in INCOMPLETE), key=lambda each: not _matters(each))
    lines = [f"Not saved: {unsaved_words(apart)}. Details: mulligan status"] if apart else []
    found = [entry.path for entry in apart if _matters(entry)]
    if found:
        import shlex

        patterns = " ".join(shlex.quote(as_pattern(path)) for path in found[:_MOST_MISSED])
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
