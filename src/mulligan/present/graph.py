"""The tree of checkpoints, drawn beside their rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from mulligan.model.checkpoint import Checkpoint


class GraphRow(NamedTuple):
    """The prefix of a row, and the lines above it where branches join."""

    joins: list[str]
    prefix: str


def draw(checkpoints: Sequence[Checkpoint], position: str | None) -> Iterator[GraphRow]:
    """Yields the lanes of each checkpoint, newest first; the position is `@`."""
    lanes: list[str] = []
    for checkpoint in checkpoints:
        mine = [at for at, expected in enumerate(lanes) if expected == checkpoint.id]
        if not mine:
            lanes.append(checkpoint.id)
            mine = [len(lanes) - 1]
        joins = []
        for extra in reversed(mine[1:]):
            joins.append(("| " * extra)[:-1] + "/")
            del lanes[extra]
        mark = "@" if checkpoint.id == position else "*"
        prefix = " ".join(mark if at == mine[0] else "|" for at in range(len(lanes)))
        yield GraphRow(joins, prefix)
        if checkpoint.parent is None:
            del lanes[mine[0]]
        else:
            lanes[mine[0]] = checkpoint.parent
