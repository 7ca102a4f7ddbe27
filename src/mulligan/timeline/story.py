"""
What agents did, told as a story: what you asked, what was done for it, what changed.

Pure: from deeds, and from what each checkpoint changed. Chapters come newest first, what happened within one in order.
"""

from __future__ import annotations

from mulligan.model.deed import BEFORE, ENDED, FAILED, GOING_ON, PROMPT, Recorded
from mulligan.model.small import Callable, Iterable
from mulligan.model.typed import Any, NamedTuple

Changed = Callable[[str], tuple[str, ...]]
#: Whose changes were found before a tool ran, and not made by one.
SOMEBODY = "somebody else"


class Happening(NamedTuple):
    """One thing that happened: a tool call, or changes that nobody's tool made."""

    number: int
    name: str
    text: str
    at: str
    changed: tuple[str, ...] = ()
    checkpoint: str = ""
    failed: bool = False
    ended: bool = True
    subagent: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON form."""
        return {**self._asdict(), "changed": list(self.changed)}


class Chapter(NamedTuple):
    """What one session did for one prompt."""

    agent: str
    session: str
    prompt: int
    text: str
    at: str
    happened: tuple[Happening, ...]
    ended: bool
    short: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON form."""
        return {**self._asdict(), "happened": [each.to_dict() for each in self.happened]}


def tell(deeds: Iterable[Recorded], changed: Changed) -> list[Chapter]:
    """Returns the chapters, newest first, of deeds that come newest first."""
    turns: dict[tuple[str, int], list[Recorded]] = {}
    for each in deeds:
        if each.prompt or each.number:
            turns.setdefault((each.deed.session, each.prompt), []).append(each)
    return [_chapter(list(reversed(turn)), changed) for turn in turns.values()]


def _chapter(turn: list[Recorded], changed: Changed) -> Chapter:
    first, last = turn[0], turn[-1]
    asked = next((each.deed.text for each in turn if each.deed.kind == PROMPT and each.deed.person), "")
    calls: dict[int, Happening] = {}
    happened: list[Happening | int] = []
    for each in turn:
        deed, paths = each.deed, changed(each.checkpoint) if each.saved else ()
        at = each.created_at.isoformat()
        if deed.kind == BEFORE:
            if paths:
                happened.append(Happening(0, SOMEBODY, "", at, paths, each.checkpoint))
            calls[each.number] = Happening(each.number, deed.tool, deed.text, at, ended=False, subagent=deed.subagent)
            happened.append(each.number)
        elif deed.kind in ENDED:
            if each.number not in calls:
                happened.append(each.number)
            calls[each.number] = Happening(
                *(each.number, deed.tool, deed.text, at, paths, each.checkpoint if each.saved else ""),
                failed=deed.kind == FAILED,
                subagent=deed.subagent,
            )
        elif paths and deed.kind != PROMPT:
            happened.append(Happening(0, "in the background", "", at, paths, each.checkpoint))
    told = tuple(calls[each] if isinstance(each, int) else each for each in happened)
    begun = first.created_at.isoformat()
    return Chapter(
        first.deed.agent, first.deed.session, first.prompt, asked, begun, told, last.deed.kind not in GOING_ON
    )
