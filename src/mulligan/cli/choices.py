"""What a person can pick from: the prompts and checkpoints of a workspace, newest first, each with a preview."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from mulligan.errors import MulliganError
from mulligan.present.text import ago, count
from mulligan.present.visible import visible

if TYPE_CHECKING:
    from mulligan.engine.workspace import Workspace
    from mulligan.model.diff import Diff
    from mulligan.timeline.story import Chapter

#: With more files than this, a preview lists them and shows no patch.
_PATCHED = 40
_LISTED = 200
_LONGEST = 400


class Choice(NamedTuple):
    """One row: the reference that it stands for, what it is, and when it was."""

    ref: str
    kind: str
    title: str
    at: datetime
    before: str = ""
    after: str = ""

    def words(self) -> str:
        """Returns what a search in the list looks at."""
        return f"{self.kind} {self.title} {self.ref}".casefold()


def choices(workspace: Workspace, *, steps: bool) -> list[Choice]:
    """Returns the prompts and checkpoints; with `steps`, those that can be undone alone, with the states around each."""
    told = [chapter for chapter in workspace.story() if not chapter.machine]
    rows = [row for chapter in told for row in _chapter(chapter, steps=steps)]
    known = {each.checkpoint for chapter in told for each in chapter.happened if each.changed}
    for checkpoint in workspace.log():
        if checkpoint.kind == "safety" or checkpoint.id in known or (steps and not checkpoint.parent):
            continue
        title = checkpoint.name or checkpoint.description.strip().partition("\n")[0] or "-"
        kind = "saved" if checkpoint.kind == "manual" else checkpoint.kind
        around = (checkpoint.parent or "", checkpoint.id)
        rows.append(Choice(checkpoint.id[:12], kind, visible(title), checkpoint.created_at, *around))
    return sorted(rows, key=lambda row: row.at, reverse=True)


def _chapter(chapter: Chapter, *, steps: bool) -> list[Choice]:
    """Returns the rows of one prompt: itself, its tool calls that changed something, and what changed beside them."""
    session, rows = chapter.session, []
    for each in chapter.happened:
        at = datetime.fromisoformat(each.at)
        if each.number and each.changed:
            call = f"@{session}/tool-{each.number}"
            title = visible(f"{each.name}: {each.text}" if each.text else each.name)
            rows.append(Choice(call if steps else each.checkpoint[:12], "command", title, at, call, each.checkpoint))
        elif each.changed:
            rows.append(Choice(each.checkpoint[:12], "you", visible(each.name), at, "", each.checkpoint))
    changed = any(each.changed and each.number for each in chapter.happened)
    if not chapter.prompt or (steps and (chapter.undone or not changed)):
        return rows
    ref = f"@{session}/prompt-{chapter.prompt}"
    title = visible(f"{chapter.prompt}: {chapter.text or '-'}" + ("  (undone)" if chapter.undone else ""))
    at = datetime.fromisoformat(chapter.at)
    return [Choice(ref, "prompt", title, at, ref, f"@{session}/after-prompt-{chapter.prompt}"), *rows]


def preview(workspace: Workspace, choice: Choice, *, steps: bool) -> list[str]:
    """Returns what picking a row would mean: the files, and the patch where it is short."""
    try:
        if steps:
            before = choice.before or workspace.get(choice.after).parent
            diff, head = workspace.diff(before, choice.after), "This step changed"
        else:
            diff, head = workspace.diff("@", choice.ref), "Since the last checkpoint, restoring this changes"
    except MulliganError as error:
        return [visible(error.message)]
    return _diff_lines(diff, head)


def _diff_lines(diff: Diff, head: str) -> list[str]:
    rows = [
        *(("+", path) for path in diff.added),
        *(("~", path) for path in diff.modified),
        *(("-", path) for path in diff.deleted),
        *(("~", f"{old} -> {new}") for old, new in diff.renamed),
    ]
    lines = [f"{head} {count(len(rows), 'file') if rows else 'nothing'}."]
    lines += [f"{mark} {visible(path)}" for mark, path in rows[:_LISTED]]
    if len(rows) > _PATCHED:
        return lines
    text = [visible(line, keep="\t").expandtabs(4) for line in diff.patch.split("\n")[:_LONGEST]]
    return [*lines, "", *text]


def list_choices(rows: list[Choice], now: datetime, most: int) -> list[str]:
    """Returns rows as a numbered list, for a terminal without the picker."""
    return [f"{at:>4}  {ago(row.at, now):<12} {row.kind:<9} {row.title}" for at, row in enumerate(rows[:most], 1)]
