"""
What an undo, a redo or a restore will do or did: about what, which files, what was left alone, what to type next.

Nothing here prints. Paths and names come from a workspace that anyone may have written, so each is made harmless first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from mulligan.errors import UnknownCheckpoint
from mulligan.model.checkpoint import EXCLUDED, IGNORED, SECRET, TOO_LARGE, NotCaptured
from mulligan.present.text import PLAIN, Style, ago, count, shorten, some
from mulligan.present.visible import visible

if TYPE_CHECKING:
    from mulligan.model.checkpoint import Checkpoint
    from mulligan.model.gitposition import GitMove
    from mulligan.model.plan import Conflict, Keep, RestorePlan, RestoreReport, Undone

#: As many paths are named in the first sentence; with more, each kind of change has a line of its own.
MOST_NAMED = 6
MOST_PATHS = 20
_FIRST = 3
_DIRECTORIES = 4
_TEXT = 60

# Why a path was left alone: by a rule, and because something stood in the way.
_RULES = {
    "agent settings": "Left alone because it holds settings of your agents",
    "worktree": "Left alone because it is a git worktree of its own",
    "not empty": "Left in place because it holds files that are not saved",
    "not saved then": "Left alone because it was not saved then",
    "spared": "Left alone because it is new in a protected directory",
    "attributes": "Restored without some of its attributes",
}
_UNSAVED = (EXCLUDED, IGNORED, SECRET, TOO_LARGE)
_CONFLICTS = ("changed since by others", "conflict")
_TROUBLE = {
    "busy": "Left alone because it keeps changing",
    "moving": "Left alone because it keeps changing",
    "changed since by others": "Left alone because it was changed again since",
    "conflict": "Left alone because it was changed again since",
    "not clear who changed it": "Left alone because commands of two agents may have changed it",
    "not writable": "Not restored, can't write",
    "same name": "Not restored under its own name",
    "without its key": "Not restored, its key is missing",
}


def outcome_lines(
    report: RestoreReport, head: str, *, changed: str = "restored", again: str = "", style: Style = PLAIN
) -> list[str]:
    """Returns what was done, then one sentence for each reason why a path was left alone or lost."""
    made = [*report.created, *report.modified] if changed == "restored" else report.modified
    # A file in the place of a directory, or the other way round, is one change.
    standing = {above for path in (*report.created, *report.modified) for above in _with_above(path)}
    parts = [(changed, made), ("removed", [path for path in report.deleted if path not in standing])]
    if changed != "restored":
        parts.insert(0, ("created", report.created))
    parts = [(verb, paths) for verb, paths in parts if paths]
    word = again.partition(" ")[0].capitalize()
    tail = f" {word}: {style('bold', f'mulligan {again}')}" if again and report.undo else ""
    few = sum(len(paths) for _, paths in parts) <= MOST_NAMED
    said = "; ".join(
        f"{verb} {', '.join(map(visible, paths)) if few else count(len(paths), 'file')}" for verb, paths in parts
    )
    refused = not said and any(keep.failed for keep in report.kept)
    otherwise = "nothing was changed" if refused else "no file had to change"
    lines = [f"{_could_not(head) if refused else head}: {said or otherwise}.{tail}"]
    if not few:
        lines += [f"  {verb:<9} {_by_directory(paths)}" for verb, paths in parts]
    if report.merged:
        kept = "later" if report.undone is not None else "other"
        lines.append(f"Kept {kept} changes in: {some([visible(path) for path in report.merged], MOST_NAMED)}.")
    lines += git_lines(report.git, "Git moved too:", style)
    return [*lines, *left_lines(report, style)]


# A head says what was done; where nothing was, it must not.
_FAILED = {"Reverted": "revert", "Undid": "undo", "Redid": "redo", "Restored": "restore"}


def _could_not(head: str) -> str:
    done, _, what = head.partition(" ")
    return f"Could not {_FAILED[done]} {what}" if done in _FAILED else head


def _with_above(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[: end + 1]) for end in range(len(parts))]


def left_lines(report: RestoreReport, style: Style = PLAIN) -> list[str]:
    """Returns one sentence for each reason why a path was left alone, was not restored or is lost."""
    failed = [keep for keep in report.kept if keep.failed]
    protected = [keep for keep in report.kept if not keep.failed]
    lost = report.lost
    lines = [style("yellow", line) for line in _sentences(failed, _TROUBLE, "Not restored")]
    lines += [f"  To change that: {visible(hint)}" for hint in dict.fromkeys(keep.hint for keep in failed if keep.hint)]
    if lost:
        named = [f"{visible(keep.path)} ({visible(keep.reason)})" for keep in lost]
        lines.append(style("yellow", f"Not brought back, because it was never saved: {some(named, MOST_NAMED)}."))
    if report.reinstall:
        commands = " and ".join(style("bold", visible(command)) for command in report.reinstall)
        lines.append(f"Installed dependencies were not restored with their lock file. To make them fit: {commands}")
    return lines + [style("dim", line) for line in _sentences(protected, _RULES, "Left alone")]


def _sentences(keeps: Sequence[Keep], phrases: dict[str, str], otherwise: str) -> list[str]:
    groups: dict[tuple[str, str], list[str]] = {}
    for keep in keeps:
        groups.setdefault((keep.reason, keep.detail), []).append(visible(keep.path))
    lines = []
    for (reason, detail), paths in groups.items():
        known = f"{otherwise}, not saved ({reason})" if reason in _UNSAVED else phrases.get(reason)
        why = (
            ""
            if reason in _CONFLICTS
            else visible(detail)
            if known
            else visible(f"{reason}; {detail}" if detail else reason)
        )
        lines.append(f"{known or otherwise}: {some(paths, MOST_NAMED)}{f' ({why})' if why else ''}.")
    return lines


def conflict_lines(conflicts: Sequence[Conflict], style: Style = PLAIN) -> list[str]:
    """Returns the lines that could not be merged, from both sides, and what to type about them."""
    lines = []
    for conflict in conflicts[:MOST_NAMED]:
        marked = ", has conflict markers" if conflict.marked else ""
        if not conflict.clashes:
            lines.append(style("yellow", f"Conflict in {visible(conflict.path)}: {visible(conflict.reason)}"))
        for clash in conflict.clashes[:_FIRST]:
            lines.append(style("yellow", f"Conflict in {visible(conflict.path)}, line {clash.line}{marked}:"))
            lines += [*_side("now", clash.ours), *_side("before", clash.theirs)]
        more = len(conflict.clashes) - _FIRST
        lines += [f"  and {count(more, 'more place')}"] if more > 0 else []
    if len(conflicts) > MOST_NAMED:
        lines.append(style("yellow", f"and conflicts in {count(len(conflicts) - MOST_NAMED, 'more file')}"))
    if any(not conflict.marked for conflict in conflicts):
        lines.append("Decide with: --markers (edit them yourself), --ours (keep what is there now) or --theirs")
    return lines


def _side(label: str, text: str) -> list[str]:
    """Returns the first lines of one side of a conflict."""
    found = text.splitlines() or ["(no lines)"]
    shown = [
        f"  {label if not at else '':<7} {shorten(visible(line), _TEXT)}" for at, line in enumerate(found[:_FIRST])
    ]
    return shown + ([f"          +{len(found) - _FIRST} lines"] if len(found) > _FIRST else [])


def git_lines(move: GitMove | None, verb: str, style: Style = PLAIN) -> list[str]:
    """Returns where git goes, or went, and what is not quite as it was."""
    if move is None:
        return []
    return [f"{style('green', verb)} {visible(move.words())}", *(f"  {visible(note)}" for note in move.notes)]


def _by_directory(paths: Sequence[str]) -> str:
    """Returns `src/ 200, docs/ 90: docs/a.md, docs/b.md, +288 more`."""
    if len(paths) <= _FIRST:
        return ", ".join(map(visible, paths))
    tally: dict[str, int] = {}
    for path in paths:
        top, slash, _ = path.partition("/")
        tally[top + "/" if slash else "./"] = tally.get(top + "/" if slash else "./", 0) + 1
    largest = sorted(tally.items(), key=lambda each: -each[1])
    counts = [f"{visible(name)} {number:,}" for name, number in largest[:_DIRECTORIES]]
    if len(largest) > _DIRECTORIES:
        counts.append(f"elsewhere {sum(number for _, number in largest[_DIRECTORIES:]):,}")
    return f"{', '.join(counts)}: {some([visible(path) for path in paths[:_FIRST]], _FIRST, of=len(paths))}"


def named(checkpoint: Checkpoint, now: datetime) -> str:
    """Returns `"before the agent" (b9527b9a, 2 min ago)`, or the id and the age where it has no name."""
    when = ago(checkpoint.created_at, now)
    if not checkpoint.name:
        return f"{checkpoint.short_id} ({when})"
    return f'"{shorten(visible(checkpoint.name), _TEXT)}" ({checkpoint.short_id}, {when})'


def name_of(checkpoint: str, get: Callable[[str], Checkpoint]) -> str:
    """Returns the name of a checkpoint, empty where it has none or is gone."""
    try:
        return get(checkpoint).name if checkpoint else ""
    except UnknownCheckpoint:
        return ""


def about(undone: Undone, now: datetime, name: str = "") -> str:
    """Returns what an undo or a redo was about: `prompt 2 "now clean up" (2 min ago)`; `name` is its checkpoint's."""
    text = shorten(visible(undone.text or name), _TEXT)
    quoted = f' "{text}"' if text else ""
    when = f" ({ago(undone.at, now)})" if undone.at is not None else ""
    if undone.kind in {"turn", "tool"}:
        number = f"prompt {undone.prompt}" if undone.kind == "turn" else f"tool call {undone.tool}"
        return f"{number}{quoted}{when}"
    if undone.kind == "session":
        return f"session {visible(undone.session[:8])}{when}"
    if undone.kind == "revert":
        return f"the revert of {text}{when}"
    if undone.kind == "restore":
        named = quoted or (f" {undone.checkpoint[:8]}" if undone.checkpoint else "")
        return f"the restore of{named}{when}" if named else f"the last restore{when}"
    if undone.kind == "unsaved":
        return f"what changed since{quoted or ' ' + (undone.checkpoint[:8] or 'the last checkpoint')}"
    return f"checkpoint{quoted or ' ' + undone.checkpoint[:8]}{when}"


def plan_lines(plan: RestorePlan, style: Style = PLAIN) -> list[str]:
    """Returns what a restore will do, path by path, long lists cut."""
    lines = [
        *_marked("+", "green", plan.creates, style),
        *_marked("~", "yellow", plan.modifies, style),
        *_marked("-", "red", plan.deletes, style),
    ]
    totals = [
        f"{number:,} to {verb}"
        for number, verb in (
            (len(plan.creates), "create"),
            (len(plan.modifies), "change"),
            (len(plan.deletes), "delete"),
        )
        if number
    ]
    lines.append(
        (", ".join(totals) or ("no file to change" if plan.git else "nothing to change"))
        + (f", {len(plan.keeps):,} left alone" if plan.keeps else "")
    )
    return [*lines, *git_lines(plan.git, "git to", style), *not_captured_lines(plan.keeps)]


def not_captured_lines(entries: Iterable[NotCaptured | Keep], *, most: int = 5) -> list[str]:
    """Returns one line per reason: how many, the first few paths, and the detail they share."""
    groups: dict[tuple[str, str], list[str]] = {}
    for entry in entries:
        groups.setdefault((entry.reason, entry.detail), []).append(visible(entry.path))
    lines = []
    for (reason, detail), paths in groups.items():
        why = f" ({visible(detail)})" if detail else ""
        lines.append(f"  {reason}: {some(paths, most)}{why}")
    return lines


def _marked(mark: str, colour: str, paths: Sequence[str], style: Style) -> list[str]:
    lines = [style(colour, f"  {mark} {visible(path)}") for path in paths[:MOST_PATHS]]
    if len(paths) > MOST_PATHS:
        lines.append(style(colour, f"  {mark} … and {len(paths) - MOST_PATHS:,} more"))
    return lines
