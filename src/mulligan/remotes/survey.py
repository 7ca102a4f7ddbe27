"""Looking at a remote without taking anything in: its machines (a fleet), its checkpoints, and whether it is whole."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, NamedTuple

from mulligan.errors import RemoteDamaged, RemoteFailed
from mulligan.remotes.chain import Arrived
from mulligan.remotes.protocol import Told
from mulligan.remotes.records import RemoteRecords
from mulligan.remotes.storage import Storage


class RemoteCheck(NamedTuple):
    """What is wrong with a remote; how many machines, segments and packs were looked at, and how many packs were read."""

    problems: tuple[tuple[str, str], ...]
    machines: int
    packs: int
    read: int

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON form."""
        rows = [{"subject": subject, "detail": detail} for subject, detail in self.problems]
        return {"ok": self.ok, "problems": rows, "machines": self.machines, "packs": self.packs, "read": self.read}


def chains(
    storage: Storage, machines: list[str] | None = None, *, rows_only: bool = False
) -> tuple[list[Arrived], list[tuple[str, str]]]:
    """Returns every chain of a remote from its last full segment on, and which could not be read."""
    found: list[Arrived] = []
    bad: list[tuple[str, str]] = []
    storage.look_anew()
    for machine in storage.machines() if machines is None else machines:
        try:
            found += storage.receive({}, only=machine, rows_only=rows_only)
        except RemoteDamaged as error:
            bad.append((machine, error.message))
    return found, bad


def fleet(storage: Storage, records: RemoteRecords) -> list[dict[str, Any]]:
    """Returns one row for each machine of a remote: its name, when it was last seen, its agents, its last checkpoint, sizes."""
    found, bad = chains(storage, rows_only=True)
    own = records.machine()
    names = names_in(found)
    rows = [{**_row(each, own), "name": names[each.machine]} for each in found]
    rows += [{"machine": machine, "name": machine[:8], "problem": why} for machine, why in bad]
    return sorted(rows, key=lambda row: str(row.get("last_seen", "")), reverse=True)


def _row(each: Arrived, own: str) -> dict[str, Any]:
    about: dict[str, Any] = next((segment.about for segment in reversed(each.segments) if segment.about), {})
    newest = each.segments[-1]
    sessions = {event.event.session for segment in each.segments for event in segment.events}
    return {
        "machine": each.machine, "name": newest.name, "this": each.machine == own,
        "last_seen": datetime.fromtimestamp(min(max(newest.at, 0), 1 << 62) / 1e9, UTC).isoformat(timespec="seconds"),
        "segments": newest.number, "checkpoints": _whole(about.get("checkpoints")), "bytes": _whole(about.get("bytes")),
        "sessions": len(sessions), "agents": _names_of_agents(about.get("agents")), "last": _last(each), "packed": sum(pack.size for segment in each.segments for pack in segment.packs),
    }  # fmt: skip


def names_in(found: list[Arrived]) -> dict[str, str]:
    """Returns what each machine is called in references: with the beginning of its id where two have one name."""
    count = Counter(each.mark.name for each in found)
    return {m.machine: m.mark.name if count[m.mark.name] == 1 else f"{m.mark.name}-{m.machine[:4]}" for m in found}


def _whole(value: Any) -> int:
    return value if isinstance(value, int) and 0 <= value < 1 << 62 else 0


def _names_of_agents(told: Any) -> list[str]:
    return [each[:100] for each in told[:20] if isinstance(each, str)] if isinstance(told, list) else []


def _last(each: Arrived) -> dict[str, Any] | None:
    rows = listed([each])
    return rows[0] if rows else None


def listed(found: list[Arrived]) -> list[dict[str, Any]]:
    """Returns the checkpoints that chains hold now, newest first, as far as their segments tell."""
    rows, names = [], names_in(found)
    for each in found:
        told: dict[str, Told] = {}
        for segment in each.segments:
            told = {} if segment.full else {name: one for name, one in told.items() if name not in segment.gone}
            told |= {one.id: one for one in segment.checkpoints}
        for one in told.values():
            at = datetime.fromtimestamp(min(max(one.at, 0), 1 << 62) / 1e9, UTC)
            rows.append(
                {"machine": names[each.machine], "id": one.id, "name": one.name, "kind": one.kind, "created_at": at.isoformat(), "commit": one.commit}
            )  # fmt: skip
    return sorted(rows, key=lambda row: row["created_at"], reverse=True)


def check(
    storage: Storage,
    records: RemoteRecords,
    *,
    read_part: float = 0.0,
    progress: Callable[[str, int, int], None] | None = None,
) -> RemoteCheck:
    """Reads every chain and looks for every pack; downloads a part of the packs and verifies them."""
    found, bad = chains(storage)
    marks, own = records.marks(storage.remote.name), records.machine()
    ends = {each.machine: each.mark for each in found}
    for machine, mark in marks.items():
        if machine not in ends and machine not in dict(bad):
            bad.append((machine, "its chain is gone from the remote"))
        elif machine in ends and ends[machine].number < mark.number:
            bad.append((machine, f"its chain ends at segment {ends[machine].number}; {mark.number} was seen before"))
    if own in ends and own in marks and ends[own].digest != marks[own].digest and ends[own].number == marks[own].number:
        bad.append((own, "the last segment of this machine is not the one that it wrote"))
    packs, read = storage.check_packs(found, read_part, bad, progress)
    return RemoteCheck(tuple(bad), len(ends), packs, read)


def part_of(text: str) -> float:
    """Returns the part that `5%` means, from 0 to 1; raises RemoteFailed."""
    try:
        part = float(text.rstrip("%")) / 100
    except ValueError:
        part = -1.0
    if not 0 <= part <= 1:
        raise RemoteFailed(f"{text!r} is no part of the data. Nothing was read.", hint="--read-data 5%")
    return part


def as_html(name: str, rows: list[dict[str, Any]]) -> str:
    """Returns a fleet as one page."""
    cells = ("name", "last_seen", "checkpoints", "sessions", "agents", "bytes")
    head = "".join(f"<th>{each.replace('_', ' ')}</th>" for each in (*cells, "last checkpoint"))
    body = ""
    for row in rows:
        last = row.get("last") or {}
        values = [
            *(", ".join(row.get(each, ())) if each == "agents" else str(row.get(each, "")) for each in cells),
            str(last.get("name") or last.get("id", row.get("problem", ""))),
        ]
        body += "<tr>" + "".join(f"<td>{html.escape(value)}</td>" for value in values) + "</tr>\n"
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><title>{html.escape(name)}</title>"
        "<style>body{font:15px system-ui;margin:2em}td,th{padding:.3em 1em;text-align:left;border-bottom:1px solid #ccc}</style>"
        f"<h1>{html.escape(name)}</h1><table><tr>{head}</tr>\n{body}</table></html>\n"
    )
