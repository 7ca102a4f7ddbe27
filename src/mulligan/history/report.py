"""
What agents really did: prompts, commands, every path that changed, what was not saved, what was undone.

A report is a plain document. Its chain has a link for each checkpoint: the hash of the link before and of what identifies the
checkpoint. The commit of a checkpoint is among that, and with it every byte of its files. Secrets in words are left out.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from mulligan.errors import UserError
from mulligan.history.filters import context_of
from mulligan.model.checkpoint import moment
from mulligan.model.event import BEFORE, ENDED, RecordedEvent, names_path
from mulligan.scan.secrets import redact
from mulligan.timeline.notices import recent_notices

if TYPE_CHECKING:
    from mulligan.timeline.commits import Entry
    from mulligan.timeline.store import Store
    from mulligan.timeline.story import Chapter, Happening

FORMAT = 1
#: The link before the first.
START = "0" * 64

Document = dict[str, Any]


class Report(NamedTuple):
    """A report about a session, or about everything that is kept."""

    document: Document

    def to_dict(self) -> Document:
        """Returns the JSON form."""
        return self.document


def make_report(store: Store, root: str, chapters: list[Chapter], session: str | None, now: datetime) -> Report:
    """Returns the report about some chapters, which come oldest first; with a session, about the time that it was at work."""
    events = [each for each in reversed(store.events.newest()) if session in (None, each.event.session)]
    if session is not None and not events:
        raise UserError(f"Nothing is known of session {session!r}.", hint="mulligan log --story")
    entries = list(reversed(store.checkpoints.newest()))
    if session is not None:
        first, last = events[0].created_ns, events[-1].created_ns
        entries = [entry for entry in entries if first <= entry.created_ns <= last]
    names = _names(events)
    prompts = [_prompt(chapter, names) for chapter in chapters]
    period = _period([*(entry.created_ns for entry in entries), *(each.created_ns for each in events)])
    restores = [_restore(at, notice) for at, notice in recent_notices(store.database) if _within(at, period)]
    document = {
        "format": FORMAT,
        "workspace": os.path.basename(root),
        "made_at": now.isoformat(),
        "session": session,
        "agents": sorted(set(context_of(events).agents.values())),
        "period": {"from": period[0], "to": period[1]},
        "prompts": prompts,
        "files": _files(prompts),
        **_unsaved(entries),
        "restores": restores,
        "chain": chain_of(entries),
    }
    return Report({**document, "totals": _totals(document)})


def _names(events: Iterable[RecordedEvent]) -> dict[tuple[str, int], tuple[str, ...]]:
    """Returns the paths that each tool call named."""
    found: dict[tuple[str, int], tuple[str, ...]] = {}
    for each in events:
        if each.event.kind == BEFORE or each.event.kind in ENDED:
            key = each.event.session, each.number
            found[key] = (*found.get(key, ()), *each.event.paths, *each.event.named)
    return found


def _prompt(chapter: Chapter, names: dict[tuple[str, int], tuple[str, ...]]) -> Document:
    return {
        "agent": chapter.agent,
        "session": chapter.session,
        "prompt": chapter.prompt,
        "text": redact(chapter.text),
        "at": chapter.at,
        "state": "ended" if chapter.ended else "interrupted" if chapter.interrupted else "not ended",
        "undone": chapter.undone,
        "steps": [_step(each, names.get((chapter.session, each.number), ())) for each in chapter.happened],
    }


def _step(each: Happening, named: tuple[str, ...]) -> Document:
    """Returns a tool call, or a change that no tool call made, with whether a tool named each path that changed."""
    changed = [{"path": path, "named": bool(each.number) and names_path(named, path)} for path in each.changed]
    return {
        "tool": each.number or None,
        "name": each.name,
        "text": redact(each.text),
        "at": each.at,
        "outcome": each.outcome if each.number else "",
        "subagent": each.subagent or None,
        "checkpoint": each.checkpoint or None,
        "changed": changed,
    }


def _files(prompts: list[Document]) -> list[Document]:
    """Returns every path that changed, how often, and whether some tool call named it each time."""
    found: dict[str, Document] = {}
    for prompt in prompts:
        for step in prompt["steps"]:
            for change in step["changed"]:
                row = found.setdefault(change["path"], {"path": change["path"], "changes": 0, "named": True, "by": []})
                row["changes"] += 1
                row["named"] = row["named"] and (change["named"] or step["tool"] is None)
                maker = prompt["agent"] if step["tool"] is not None else step["name"]
                row["by"] = [*row["by"], *([maker] if maker not in row["by"] else [])]
    return [found[path] for path in sorted(found)]


def _unsaved(entries: list[Entry]) -> Document:
    """Returns what the checkpoints did not save, and which files they hold sealed."""
    missed = {row: None for entry in entries for row in entry.checkpoint.not_captured}
    sealed = sorted({path for entry in entries for path in entry.checkpoint.sealed})
    partial = [entry.id for entry in entries if not entry.checkpoint.complete]
    return {"not_saved": [row.to_dict() for row in missed], "sealed": sealed, "partial": partial}


def _restore(at: int, notice: Any) -> Document:
    return {"at": moment(at).isoformat(), **notice._asdict(), "text": redact(notice.text)}


def _period(moments: list[int]) -> tuple[str | None, str | None]:
    if not moments:
        return None, None
    return moment(min(moments)).isoformat(), moment(max(moments)).isoformat()


def _within(at: int, period: tuple[str | None, str | None]) -> bool:
    """Whether a restore belongs to a period: it may follow the last event."""
    return period[0] is not None and moment(at).isoformat() >= period[0]


def _totals(document: Document) -> dict[str, int]:
    steps = [step for prompt in document["prompts"] for step in prompt["steps"]]
    return {
        "prompts": len(document["prompts"]),
        "commands": sum(step["tool"] is not None for step in steps),
        "failed": sum(step["outcome"] not in {"", "done"} for step in steps),
        "files": len(document["files"]),
        "not_named": sum(not row["named"] for row in document["files"]),
        "restores": len(document["restores"]),
        "left_alone": sum(len(row["left_alone"]) for row in document["restores"]),
        "checkpoints": document["chain"]["count"],
    }


# -- the chain ----------------------------------------------------------------------------------


def chain_of(entries: Iterable[Entry]) -> Document:
    """Returns the chain over checkpoints, which come oldest first."""
    links: list[Document] = []
    for number, entry in enumerate(entries, 1):
        cp = entry.checkpoint
        about = {"number": number, "id": cp.id, "commit": cp.commit, "at": cp.created_at.isoformat(), "kind": cp.kind}
        links.append({**about, "link": next_link(links[-1]["link"] if links else START, about)})
    return {"algorithm": "sha256", "count": len(links), "head": links[-1]["link"] if links else START, "links": links}


def next_link(before: str, about: Document) -> str:
    """Returns the hash of the link before and of a checkpoint."""
    return digest({"before": before, **{key: value for key, value in about.items() if key != "link"}})


def digest(document: Any) -> str:
    """Returns the hash of a document in its canonical form: sorted keys, no blanks, ASCII."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def chain_problems(chain: Document) -> list[str]:
    """Returns what is wrong with a chain: checkpoints that are missing, in another order, or not as they were."""
    links, problems, before = chain["links"], [], START
    if len(links) != chain["count"]:
        problems.append(
            f"The chain counts {chain['count']:,} checkpoints and holds {len(links):,}: some were cut off or added."
        )
    numbers = [row["number"] for row in links]
    if numbers != list(range(1, len(links) + 1)):
        problems.append("The checkpoints are not in their order, or some are missing.")
    for row in links:
        if row["link"] != next_link(before, row):
            problems.append(f"Checkpoint {row['number']:,} ({str(row['id'])[:8]}) does not follow the one before it.")
            break
        before = row["link"]
    else:
        if before != chain["head"]:
            problems.append("The last checkpoint is not the head of the chain: some were cut off or added at the end.")
    return problems
