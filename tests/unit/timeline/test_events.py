"""The events of agents: what is asked with every hook does not grow with what agents left behind."""

from __future__ import annotations

from mulligan.model.event import AgentEvent
from mulligan.timeline import events


def begun(number: int) -> AgentEvent:
    """A tool call of an agent that was killed before it ended."""
    return AgentEvent(
        "agent", f"session {number}", "before", tool="Edit", call=str(number), text="edits", paths=(f"f{number}",)
    )


def test_calls_that_never_ended_are_not_read_for_ever(ws, project, monkeypatch):
    monkeypatch.setattr(events, "_RUNNING", 5)
    (project / "a").write_text("a")
    ws.save()
    for number in range(12):
        ws.record(begun(number))
    found = ws.bench.store.events.running()
    assert [each.event.call for each in found] == ["7", "8", "9", "10", "11"]
    ws.record(begun(11)._replace(kind="after"))
    assert [each.event.call for each in ws.bench.store.events.running()] == ["6", "7", "8", "9", "10"]


def test_the_newest_calls_are_found_by_their_index(ws, project):
    (project / "a").write_text("a")
    ws.save()
    plan = ws.bench.store.database.rows("EXPLAIN QUERY PLAN SELECT * FROM deed WHERE open=1 ORDER BY seq DESC LIMIT 5")
    said = " ".join(row[3] for row in plan)
    assert "deed_open" in said
    assert "TEMP B-TREE" not in said
