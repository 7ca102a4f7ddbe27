"""The chain of one machine: its segments in order, each naming the one before by its hash."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from mulligan.errors import RemoteDamaged
from mulligan.remotes.protocol import Segment, decode, digest_of
from mulligan.remotes.records import ChainMark


class Arrived(NamedTuple):
    """New segments of one machine, oldest first, and where its chain ends now."""

    machine: str
    segments: list[Segment]
    mark: ChainMark


class Diverged(Exception):
    """The chain of this machine on the remote is not the one that this store wrote."""


def walk_chain(
    remote: str, timeline: str, machine: str, mark: ChainMark, numbers: Sequence[int], read: Callable[[str, int], bytes]
) -> Arrived:
    """Reads a chain of numbered segments back from its end to what is known, or to a full segment; raises RemoteDamaged."""
    segments: list[Segment] = []
    digest = awaited = ""
    for number in sorted(numbers, reverse=True):
        data = read(machine, number)
        segment = decode(data, timeline=timeline, machine=machine)
        if segment.number != number or (segments and digest_of(data) != awaited):
            raise torn(remote, machine)
        digest = digest or digest_of(data)
        segments.append(segment)
        awaited = segment.previous
        if segment.full:
            break
    last = segments[-1]
    if not last.full and (awaited != mark.digest or last.number != mark.number + 1):
        raise torn(remote, machine)
    segments.reverse()
    newest = segments[-1]
    return Arrived(machine, segments, ChainMark(newest.number, digest, "", newest.name, newest.applied))


def torn(remote: str, machine: str) -> RemoteDamaged:
    """Returns the error for a chain with a segment that is missing, changed or another's."""
    return RemoteDamaged(
        f"The chain of {machine[:8]} on {remote} does not hang together. Nothing of it was taken.",
        hint=f"mulligan check --remote {remote}",
    )
