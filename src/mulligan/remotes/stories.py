"""The stories of other machines: what their agents did, from the events that segments carry."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

from mulligan.errors import RemoteDamaged
from mulligan.remotes.events import events_of, in_order
from mulligan.remotes.pull import listed_entry, sum_segments
from mulligan.remotes.pulled import Pulled, names_of_machines
from mulligan.timeline.events import short_names
from mulligan.timeline.outside_changes import rewind_of
from mulligan.timeline.story import Chapter, tell_story

if TYPE_CHECKING:
    from collections.abc import Callable

    from mulligan.model.event import RecordedEvent
    from mulligan.remotes.chain import Arrived
    from mulligan.remotes.protocol import Told
    from mulligan.remotes.records import ForgottenNote
    from mulligan.timeline.commits import Entry
    from mulligan.timeline.store import Store


def pulled_story(store: Store, limit: int | None = None) -> list[Chapter]:
    """Returns what agents did on the machines whose checkpoints were pulled, newest first."""
    chapters: list[Chapter] = []
    for machine, name in names_of_machines(store.database).items():
        copies = Pulled(store.database, store.checkpoints.objects, machine)
        chapters += _tell(name, events_of(store.database, machine), copies.by_id, limit)
    return newest_first(chapters)[:limit]


def remote_story(found: list[Arrived], names: dict[str, str], notes: list[ForgottenNote]) -> list[Chapter]:
    """Returns what agents did as the chains of a remote tell it, newest first; nothing names a path that was forgotten."""
    chapters: list[Chapter] = []
    for each in found:
        full = max((at for at, segment in enumerate(each.segments) if segment.full), default=0)
        events = in_order(event for segment in each.segments[full:] for event in segment.events)
        chapters += _tell(names[each.machine], events, partial(_listed, *sum_segments(each.segments)[:2], notes), None)
    return newest_first(chapters)


def _listed(
    told: dict[str, Told], applied: dict[str, set[str]], notes: list[ForgottenNote], checkpoint: str
) -> Entry | None:
    """Returns what a remote lists of a checkpoint, without the paths that were forgotten and are still there."""
    if checkpoint not in told:
        return None
    with suppress(RemoteDamaged):
        return listed_entry(told[checkpoint], "", notes, applied[checkpoint])
    return None


def newest_first(chapters: Iterable[Chapter]) -> list[Chapter]:
    """Returns chapters of several machines, the one that something happened in last first."""

    def last(chapter: Chapter) -> datetime:
        return max(datetime.fromisoformat(at) for at in (chapter.at, *(each.at for each in chapter.happened)))

    return sorted(chapters, key=last, reverse=True)


def _tell(
    name: str, events: list[RecordedEvent], read: Callable[[str], Entry | None], limit: int | None
) -> list[Chapter]:
    def changed(checkpoint: str) -> tuple[str, ...]:
        found = read(checkpoint)
        # A first checkpoint holds everything, and says nothing of who changed what.
        return found.checkpoint.files_changed if found is not None and found.checkpoint.parent else ()

    def rewound(checkpoint: str) -> int:
        found = read(checkpoint)
        return rewind_of(found.checkpoint) if found is not None else 0

    names = short_names(each.event.session for each in events)
    told = tell_story(reversed(events), changed, rewound, limit)
    return [each._replace(machine=name, short=names[each.session]) for each in told]
