"""
What agents did, told as a story: what you asked, what was done for it, what changed.

Pure: from events, and from what each checkpoint changed. Chapters come newest first, what happened within one in order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any, NamedTuple

from mulligan.model.event import BEFORE, ENDED, FAILED, GOING_ON, PROMPT, STOP, RecordedEvent, Turn

Changed = Callable[[str], tuple[str, ...]]
Rewound = Callable[[str], int]
#: Changes that no tool of this turn made, by when they were found.
OUTSIDE, BETWEEN, BACKGROUND = "changed outside the agent", "changed between turns", "in the background"
#: What became of a tool call. One without an end was denied if its turn ended, interrupted if another began, else it runs.
DONE, FAILURE, DENIED, INTERRUPTED, RUNNING = "done", "failed", "denied", "interrupted", "running"


class Happening(NamedTuple):
    """One thing that happened: a tool call, when it began and its outcome, or changes that no tool call made."""

    number: int
    name: str
    text: str
    at: str
    changed: tuple[str, ...] = ()
    checkpoint: str = ""
    failed: bool = False
    ended: bool = True
    subagent: str = ""
    outcome: str = DONE
    began: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON form."""
        return {**self._asdict(), "changed": list(self.changed)}


class Chapter(NamedTuple):
    """
    What one session did for one prompt.

    `ended` says that the turn came to its end, `interrupted` that another one began before. `certain` says that every tool call
    ended, and that its changes are in no checkpoint of others, so that what they changed is known. `undone` says that an undo took it back. `here` is the last checkpoint where that
    is in this chapter, or holds the project as the chapter left it. `machine` is the other machine that it happened on.
    """

    agent: str
    session: str
    prompt: int
    text: str
    at: str
    happened: tuple[Happening, ...]
    ended: bool
    short: str = ""
    interrupted: bool = False
    certain: bool = True
    undone: bool = False
    here: str = ""
    machine: str = ""

    @property
    def ref(self) -> str:
        """The reference of its beginning."""
        return f"{self.machine}{':' * bool(self.machine)}@{self.session}/prompt-{self.prompt}"

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON form."""
        return {**self._asdict(), "happened": [each.to_dict() for each in self.happened]}


def mark_chapters(chapters: list[Chapter], undone: set[Turn], position: str, *, landed: bool) -> list[Chapter]:
    """
    Returns chapters that say which of them are undone, and where the project is now.

    `landed` says that the position is what an undo left: the project then is where the newest chapter that stands left it.
    """
    known = [each._replace(undone=Turn(each.session, each.prompt) in undone) for each in chapters]
    for at, chapter in enumerate(known):
        inside = any(each.checkpoint == position for each in chapter.happened)
        if position and not chapter.undone and (inside or landed):
            known[at] = chapter._replace(here=position)
            break
    return known


def tell_story(
    events: Iterable[RecordedEvent], changed: Changed, rewound: Rewound = lambda _: 0, limit: int | None = None
) -> list[Chapter]:
    """Returns the newest chapters, newest first, of events that come newest first; `rewound` is as in `timeline.outside_changes`."""
    turns: dict[tuple[str, int], list[RecordedEvent]] = {}
    newest: dict[str, int] = {}
    for each in events:
        newest.setdefault(each.event.session, each.prompt)
        if each.prompt or each.number:
            turns.setdefault((each.event.session, each.prompt), []).append(each)
    return [
        _chapter(turn[::-1], changed, rewound, later=newest[session] > prompt)
        for (session, prompt), turn in islice(turns.items(), limit)
    ]


def _chapter(turn: list[RecordedEvent], changed: Changed, rewound: Rewound, *, later: bool) -> Chapter:
    first, last = turn[0], turn[-1]
    ended = last.event.kind not in GOING_ON
    open_ended = DENIED if any(each.event.kind == STOP for each in turn) else INTERRUPTED if later or ended else RUNNING
    asked = next((each.event.text for each in turn if each.event.kind == PROMPT and each.event.person), "")
    calls: dict[int, Happening] = {}
    begun_at: dict[int, str] = {}
    shared = False
    happened: list[Happening | int] = []
    for each in turn:
        event, paths = each.event, changed(each.checkpoint) if each.saved else ()
        at = each.created_at.isoformat()
        if event.kind == BEFORE:
            if paths:
                happened.append(Happening(0, OUTSIDE, "", at, paths, each.checkpoint))
            calls[each.number] = Happening(
                *(each.number, event.tool, event.text, at), ended=False, subagent=event.subagent, outcome=open_ended
            )
            happened.append(each.number)
            begun_at[each.number] = each.checkpoint
        elif event.kind in ENDED:
            # Saved by another hook or command while it ran: what it changed may be in there.
            shared |= not each.saved and begun_at.get(each.number, each.checkpoint) != each.checkpoint
            if each.number not in calls:
                happened.append(each.number)
            calls[each.number] = Happening(
                *(each.number, event.tool, event.text, at, paths, each.checkpoint if each.saved else ""),
                failed=event.kind == FAILED,
                subagent=event.subagent,
                outcome=FAILURE if event.kind == FAILED else DONE,
                began=calls[each.number].at if each.number in calls else "",
            )
        elif paths:
            name = BETWEEN if event.kind == PROMPT else BACKGROUND
            if event.kind == PROMPT and (prompt := rewound(each.checkpoint)):
                name = f"rewound to before prompt {prompt}"
            happened.append(Happening(0, name, "", at, paths, each.checkpoint))
    told = tuple(calls[each] if isinstance(each, int) else each for each in happened)
    begun = first.created_at.isoformat()
    return Chapter(
        *(first.event.agent, first.event.session, first.prompt, asked, begun, told, ended),
        interrupted=later and not ended,
        certain=not shared and all(each.outcome not in {INTERRUPTED, RUNNING} for each in told),
    )
