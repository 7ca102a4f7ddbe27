"""Problems of a store as lines: what, where, which checkpoints it touches."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mulligan.present.text import Style, some
from mulligan.present.visible import visible


def problem_lines(problems: Iterable[Any], style: Style) -> list[str]:
    """Returns one line per problem."""
    lines = []
    for problem in problems:
        touched = some([each[:8] for each in problem.checkpoints], 5)
        where = f"  (checkpoints: {touched})" if touched else ""
        lines.append(f"{style('red', problem.kind)}  {visible(problem.subject)}: {visible(problem.detail)}{where}")
    return lines
