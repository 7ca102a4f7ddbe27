"""
What is new in a timeline, counted by the rows that it gave to checkpoints and events.

A reader names the rows that it has seen and gets what came after them, at a cost that follows what is new. Rows are numbers of
the timeline itself, so a reader that was away can be answered by another process than before.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

from mulligan.model.event import Turn
from mulligan.timeline.outside_changes import rewind_of
from mulligan.timeline.story import mark_chapters, tell_story
from mulligan.timeline.turns import Stack

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mulligan.model.checkpoint import Checkpoint
    from mulligan.model.event import RecordedEvent
    from mulligan.timeline.store import Store
    from mulligan.timeline.story import Chapter


class TimelineRows(NamedTuple):
    """
    How far a timeline was read: the rows of its newest checkpoint and event.

    `gone` counts the checkpoints that were removed, `undone` is a digest of the prompts that are undone: where one of them differs,
    something changed besides what was added.
    """

    checkpoint: int = 0
    event: int = 0
    gone: int = 0
    undone: str = ""

    def __str__(self) -> str:
        """Returns the text that `parse_rows` reads."""
        return ".".join(map(str, self))


def parse_rows(text: str) -> TimelineRows | None:
    """Returns the rows that a text means, None for any other text."""
    *numbers, undone = text.split(".")
    if len(numbers) != 3 or not all(each.isascii() and each.isdigit() and len(each) < 19 for each in numbers):
        return None
    checkpoint, event, gone = map(int, numbers)
    return TimelineRows(checkpoint, event, gone, undone)


class News(NamedTuple):
    """
    What came after some rows: checkpoints, and the prompts that something happened for, newest first.

    `rows` is how far this reads. `whole` says that it is everything, because the reader's rows are none of this timeline. `removed`
    are checkpoints of the reader's that are no more; those with another parent for it are in `saved` again. `here` is the prompt
    that an undo went back to.
    """

    rows: TimelineRows
    position: str | None = None
    whole: bool = True
    saved: tuple[Checkpoint, ...] = ()
    told: tuple[Chapter, ...] = ()
    undone: frozenset[Turn] = frozenset()
    removed: frozenset[str] = frozenset()
    here: Turn | None = None

    def only_adds_to(self, rows: TimelineRows) -> bool:
        """Returns whether what was there at some rows is as it was."""
        return not self.whole and (rows.gone, rows.undone) == (self.rows.gone, self.rows.undone)


def newest_rows(store: Store) -> tuple[int, int, int, str, int]:
    """Returns what differs whenever something happened; cheap, for it is asked several times a second."""
    row = store.database.row("SELECT (SELECT max(seq) FROM deed), (SELECT max(seq) FROM redo)") or (0, 0)
    checkpoints = store.checkpoints
    return (checkpoints.ever(), row[0] or 0, checkpoints.gone(), checkpoints.position(), row[1] or 0)


def read_news(store: Store, before: TimelineRows | None, known: Mapping[str, str | None]) -> News:
    """Returns what came after some rows; everything, for rows that are none of this timeline. `known` is as in `Workspace.news`."""
    checkpoint, event, gone, *_ = newest_rows(store)
    stack, here = Stack(store), store.checkpoints.current()
    undone = stack.undone() | stack.reverted()
    marks = blake2b(repr(sorted(undone)).encode(errors="surrogatepass"), digest_size=4).hexdigest() if undone else ""
    rows = TimelineRows(checkpoint, event, gone, marks)
    whole = before is None or before.checkpoint > checkpoint or before.event > event or before.gone > gone
    seen = before if before is not None and not whole else TimelineRows()
    saved = store.checkpoints.newest(limit=None if whole else checkpoint - seen.checkpoint)
    events = store.events.newest(None) if whole else store.events.since(seen.event)
    removed: frozenset[str] = frozenset()
    if gone != seen.gone and not whole:
        parents = store.checkpoints.parents()
        removed = frozenset(known.keys() - parents.keys())
        moved = [each for each, parent in known.items() if parents.get(each, parent) != parent]
        saved += [entry for entry in map(store.checkpoints.by_id, moved) if entry is not None]
        retold = {each.seq: each for each in (*events, *store.events.around([*removed, *moved]))}
        events = [retold[seq] for seq in sorted(retold, reverse=True)]
    return News(
        rows,
        here.id if here is not None else None,
        whole,
        tuple(entry.checkpoint for entry in saved),
        tuple(told_by(store, events, undone)),
        frozenset(undone),
        removed,
        _went_back_to(store, undone) if here is not None and here.checkpoint.kind == "safety" else None,
    )


def told_by(
    store: Store, events: Iterable[RecordedEvent], undone: set[Turn], limit: int | None = None
) -> list[Chapter]:
    """Returns what agents did, newest first, from events that come newest first."""

    def changed(checkpoint: str) -> tuple[str, ...]:
        entry = store.checkpoints.by_id(checkpoint)
        # A first checkpoint holds everything, and says nothing of who changed what.
        return entry.checkpoint.files_changed if entry is not None and entry.checkpoint.parent else ()

    def rewound(checkpoint: str) -> int:
        entry = store.checkpoints.by_id(checkpoint)
        return rewind_of(entry.checkpoint) if entry is not None else 0

    names, here = store.events.short_names(), store.checkpoints.current()
    told = [each._replace(short=names[each.session]) for each in tell_story(events, changed, rewound, limit)]
    position, landed = (here.id, here.checkpoint.kind == "safety") if here is not None else ("", False)
    return mark_chapters(told, undone, position, landed=landed)


def _went_back_to(store: Store, undone: set[Turn]) -> Turn | None:
    """Returns the newest prompt that is not undone: the project is as it left it."""
    return next((turn for turn in store.events.turns() if turn not in undone), None)
