"""One change of a plan that can be chosen by itself: some lines of a file, its permission bits, or a whole path."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

#: The kinds of hunks.
LINES, MODE, WHOLE = "lines", "mode", "whole"


class HunkLine(NamedTuple):
    r"""A line with its tag: " " stays, "-" goes, "+" comes, "\" says that the line above has no line end."""

    tag: str
    text: str


@dataclass(frozen=True)
class Hunk:
    """
    A change that can be chosen by itself.

    `id` is made from the path, both sides and the place of the change: it stays the same as long as they do. A hunk of the kind
    "mode" or "whole" has no lines, and `note` says what it does.
    """

    id: str
    path: str
    kind: str = LINES
    old_start: int = 0
    old_count: int = 0
    new_start: int = 0
    new_count: int = 0
    lines: tuple[HunkLine, ...] = ()
    note: str = ""

    @property
    def header(self) -> str:
        """The first line of the hunk, as in a patch; the note where there are no lines."""
        if self.kind != LINES:
            return self.note
        return f"@@ -{self.old_start},{self.old_count} +{self.new_start},{self.new_count} @@"

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON form."""
        return {**vars(self), "lines": [list(line) for line in self.lines], "header": self.header}


@dataclass(frozen=True)
class FileHunks:
    """The hunks of one path; `change` is what all of them together do: create, modify or delete."""

    path: str
    change: str
    hunks: tuple[Hunk, ...]

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON form."""
        return {"path": self.path, "change": self.change, "hunks": [hunk.to_dict() for hunk in self.hunks]}
