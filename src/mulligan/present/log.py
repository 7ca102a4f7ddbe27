"""
Checkpoints as lines of text: the log, and all about one of them.

What comes from a workspace is made harmless before it is shown, as in `present.timeline`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from mulligan.model.checkpoint import Checkpoint
from mulligan.present.text import PLAIN, Style, ago, columns, count, date, minute
from mulligan.present.timeline import changes, title
from mulligan.present.visible import clipped, visible
from mulligan.present.visible import columns as measure

_NARROWEST = 8
_WIDEST = 48
_LOG_PAINT = ("cyan", "yellow", "dim", "dim", "bold", "")


def log_lines(
    checkpoints: Sequence[Checkpoint],
    *,
    position: str | None,
    now: datetime,
    style: Style = PLAIN,
    width: int | None = None,
    absolute: bool = False,
    graph: bool = False,
) -> list[str]:
    """Returns one line per checkpoint, in the order given, the position marked `@`; `graph` draws the tree beside them."""
    drawn = None
    if graph:
        from mulligan.present.graph import draw

        drawn = list(draw(checkpoints, position))
    rows = [
        (
            drawn[at].prefix if drawn else "@" if checkpoint.id == position else " ",
            checkpoint.short_id,
            minute(checkpoint.created_at) if absolute else ago(checkpoint.created_at, now),
            checkpoint.kind,
            title(checkpoint),
            changes(checkpoint),
        )
        for at, checkpoint in enumerate(checkpoints)
    ]
    taken = sum(max((measure(row[at]) for row in rows), default=0) + 2 for at in (0, 1, 2, 3, 5)) - 2
    room = max(width - taken - 2, _NARROWEST) if width is not None else _WIDEST
    rows = [(*row[:4], clipped(row[4], room), row[5]) for row in rows]

    def paint(_row: int, at: int, text: str) -> str:
        return style(_LOG_PAINT[at], text) if _LOG_PAINT[at] else text

    lines = columns(rows, paint=paint)
    if drawn is None:
        return lines
    return [line for each, row in zip(drawn, lines, strict=True) for line in (*each.joins, row)]


def remote_lines(rows: Sequence[dict[str, str]], *, now: datetime) -> list[str]:
    """Returns one line per checkpoint that a remote told of, in the order given."""
    return columns(
        [
            (
                visible(row["id"][:8]),
                ago(datetime.fromisoformat(row["created_at"]), now),
                visible(row["kind"]),
                clipped(visible(f"{row['machine']}:{row['name'] or row['id'][:8]}"), _WIDEST),
            )
            for row in rows
        ]
    )


def checkpoint_lines(checkpoint: Checkpoint, *, now: datetime, style: Style = PLAIN) -> list[str]:
    """Returns everything about a checkpoint but the paths it changed."""
    rows = [
        ("checkpoint", checkpoint.id),
        ("name", title(checkpoint)),
        ("kind", checkpoint.kind + ("" if checkpoint.complete else ", partial")),
        ("saved", f"{date(checkpoint.created_at)} ({ago(checkpoint.created_at, now)})"),
        ("parent", checkpoint.parent or "none, this is a first checkpoint"),
        ("commit", checkpoint.commit),
    ]
    if checkpoint.git is not None:
        dirty = (
            f", {count(len(checkpoint.git.dirty_files), 'file')} not committed" if checkpoint.git.dirty_files else ""
        )
        rows.append(
            ("git", f"{visible(checkpoint.git.branch)} at {checkpoint.git.commit_hash[:12] or 'no commit'}{dirty}")
        )
    rows += [("context", f"{visible(str(key))}={visible(str(value))}") for key, value in checkpoint.context.items()]
    lines = columns(rows, paint=lambda _row, at, text: style("dim", text) if at == 0 else text)
    description = checkpoint.description.strip()
    if description and visible(description) != title(checkpoint):
        lines += ["", *("    " + visible(line) for line in description.split("\n"))]
    return lines
