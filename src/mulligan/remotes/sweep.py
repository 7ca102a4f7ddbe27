"""
Garbage collection of an object store: by lease, mark and delayed sweep.

One machine at a time holds the lease. It marks the packs that no live segment names and that are old enough; a later run
deletes what was marked long enough ago, after reading all segments again. All ages are by the server's clock. A writer never
relies on a pack that it did not just send, so a marked pack is never needed again.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from mulligan.errors import RemoteFailed
from mulligan.model.bounded import read_json
from mulligan.remotes.bucket import CREATES, DELETES, Bucket
from mulligan.remotes.survey import chains
from mulligan.safefs.directory import random_name

#: Hours that a pack must be old, and then marked, before it goes.
GRACE_HOURS = 24.0
_LEASE, _MARKS = "gc/lease/", "gc/marks/"
_LEASE_SECONDS = 3600.0


class Swept(NamedTuple):
    """What a collection did: packs marked for later, packs and segments deleted, bytes freed."""

    marked: int
    packs: int
    segments: int
    freed: int

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON form."""
        return {"marked": self.marked, "packs": self.packs, "segments": self.segments, "freed_bytes": self.freed}


def sweep(bucket: Bucket, *, grace_hours: float = GRACE_HOURS, dry_run: bool = False) -> Swept:
    """Marks what no segment names and deletes what was marked long enough ago; raises RemoteFailed where that is not safe."""
    if CREATES not in bucket.remote.able or DELETES not in bucket.remote.able:
        raise RemoteFailed(
            f"{bucket.remote.name} cannot be collected safely: it overwrites objects, or this key may not delete. Nothing was deleted.",
            hint="Use a key that may delete, on a server that knows If-None-Match.",
        )
    lease, now = _take_lease(bucket)
    found, bad = chains(bucket)
    if bad:
        raise RemoteFailed(f"A chain on {bucket.remote.name} cannot be read: {bad[0][1]} Nothing was deleted.")
    named = {pack.name for each in found for segment in each.segments for pack in segment.packs}
    grace = grace_hours * 3600
    packs = {row.key.rpartition("/")[2]: row for row in bucket.objects.listed("packs/")}
    loose = {name: row for name, row in packs.items() if name not in named and now - row.at >= grace}
    before = _marks(bucket)
    going = {name: row for name, row in loose.items() if name in before and now - before[name] >= grace}
    old = _superseded(bucket, {each.machine: each.segments[0].number for each in found}, now - grace)
    marked = {name: before.get(name, now) for name in loose if name not in going}
    if dry_run:
        return Swept(len(marked), len(going), len(old), sum(row.size for row in going.values()))
    _refuse_lost(bucket, lease)
    bucket.objects.delete([row.key for row in going.values()])
    bucket.objects.delete(old)
    _write_marks(bucket, lease, marked)
    return Swept(len(marked), len(going), len(old), sum(row.size for row in going.values()))


def _superseded(bucket: Bucket, first: dict[str, int], until: float) -> list[str]:
    """Returns the segments before a machine's last full one, if that is old enough: a reader may still be at them."""
    found = []
    for machine, number in first.items():
        rows = bucket.objects.listed(f"log/{machine}/")
        full = [row for row in rows if row.key.endswith(f"/{number:020d}")]
        if full and full[0].at <= until:
            found += [row.key for row in rows if row.key < full[0].key]
    return found


def _take_lease(bucket: Bucket) -> tuple[int, float]:
    """Takes the lease by creating the next number; returns it and the server's time."""
    rows = bucket.objects.listed(_LEASE)
    taken = [*rows, *bucket.objects.listed(_MARKS)]
    last = max((int(row.key.rpartition("/")[2]) for row in taken), default=0)
    now, key, mine = bucket.clock(), f"{_LEASE}{last + 1:020d}", random_name(8).encode()
    held = [row for row in rows if now - row.at < _LEASE_SECONDS]
    # Where the answer was lost, a second try is refused although the first one took it.
    if held or not (bucket.objects.create(key, mine) or bucket.objects.get(key, 1 << 10) == mine):
        raise RemoteFailed(
            f"Another machine is collecting {bucket.remote.name}, or did within the last hour. Nothing was deleted.",
            hint="Try again later.",
        )
    return last + 1, now


def _refuse_lost(bucket: Bucket, lease: int) -> None:
    newest = max(int(row.key.rpartition("/")[2]) for row in bucket.objects.listed(_LEASE))
    if newest != lease:
        raise RemoteFailed(f"Another machine took over the collection of {bucket.remote.name}. Nothing was deleted.")


def _marks(bucket: Bucket) -> dict[str, float]:
    rows = bucket.objects.listed(_MARKS)
    data = bucket.objects.get(rows[-1].key, 64 << 20) if rows else None
    try:
        said = read_json(data) if data else {}
        return {str(key): float(value) for key, value in said.items()} if isinstance(said, dict) else {}
    except (ValueError, TypeError):
        return {}  # written in part by a collection that was killed: marked anew, so they go later


def _write_marks(bucket: Bucket, lease: int, marked: dict[str, float]) -> None:
    """Writes the marks, removes earlier ones, and ends the lease: its number stays taken."""
    old = [row.key for row in bucket.objects.listed(_MARKS)]
    key = f"{_MARKS}{lease:020d}"
    bucket.objects.create(key, json.dumps(marked, sort_keys=True).encode())
    bucket.objects.delete([each for each in old if each != key])
    leases = [row.key for row in bucket.objects.listed(_LEASE)]
    bucket.objects.delete(leases)
