"""What agents in Python tell: without secrets, and never at the cost of the agent."""

from __future__ import annotations

from mulligan.adapters.recorder import Recorder, in_words
from mulligan.hooks.events import HookCall
from mulligan.model.event import AFTER, PROMPT

TOKEN = "ghp_" + "a1B2" * 9


def test_what_a_tool_was_given_is_remembered_without_secrets(ws, project):
    (project / "a.txt").write_text("1")
    recorder = Recorder(ws, "some-agent")
    recorder.record(PROMPT, text=f"use {TOKEN}")
    (project / "a.txt").write_text("2")
    recorder.record(AFTER, tool="login", call="c", text=in_words({"user": "me", "password": "open-sesame"}))
    told = str([event.to_dict() for event in ws.agent_events()]) + str([cp.to_dict() for cp in ws.log()])
    assert "login" in told and "left-out" in told
    assert TOKEN not in told and "open-sesame" not in told
    assert recorder.troubles == []


def test_trouble_that_nobody_foresaw_stops_no_agent_and_is_seen_in_status(ws):
    ws.save()
    recorder = Recorder(ws, "some-agent")

    def strange() -> HookCall:
        raise LookupError("nobody thought of this")

    assert "nobody thought of this" in recorder.take(strange)
    assert len(recorder.troubles) == 1
    assert ws.protection()["failures"]["count"] == 1
