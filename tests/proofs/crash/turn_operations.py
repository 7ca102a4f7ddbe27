"""
The undo of a turn, to be killed: three-way, on what others did since.

A turn is made by honest calls, as hooks make it; what comes after it is a person's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from operations import Operation
from places import Place

from mulligan.model.event import AgentEvent
from scenes import State, file, folder, link, state_of, write_state
from tree import put

_LINES = [f"line {number}\n" for number in range(30)]


def _turn(place: Place, after: State) -> None:
    """An agent's shell command makes the workspace this."""
    with place.open() as ws:
        ws.record(AgentEvent("agent", "session", "prompt", call="p", text="change something"))
        ws.record(AgentEvent("agent", "session", "before", tool="Bash", call="1", text="make"))
        write_state(place.project, after)
        ws.record(AgentEvent("agent", "session", "after", tool="Bash", call="1", text="make"))
        ws.record(AgentEvent("agent", "session", "stop"))


def _text(**edits: str) -> str:
    lines = list(_LINES)
    for where, by in edits.items():
        lines[int(where[1:])] = f"by {by}\n"
    return "".join(lines)


def _edited_later(place: Place) -> None:
    """A person edited another part of a text, and other files, after the turn; one of them in a directory that the turn made."""
    before: State = {
        "text": file(_text()), "gone": file("gone"), "bits": file("bits", 0o600), "d": folder(), "d/a": file("a"),
    }  # fmt: skip
    write_state(place.project, before)
    after: State = {
        "text": file(_text(l5="agent")), "bits": file("bits"), "d": folder(0o700), "d/a": file("by the agent"),
        "made": folder(), "made/one": file("1"), "link": link("text"),
    }  # fmt: skip
    _turn(place, after)
    put(place.project, "text", _text(l5="agent", l25="me"))
    put(place.project, "made/mine", "mine")
    put(place.project, "mine", "mine")


def _conflicting(place: Place) -> None:
    """A person edited the same line and replaced a file that the turn had made; the rest of the turn can be undone."""
    write_state(place.project, {"text": file(_text()), "other": file("other"), "gone": file("gone")})
    _turn(place, {"text": file(_text(l5="agent")), "other": file("by the agent"), "new": file("new"), "n2": file("n2")})
    put(place.project, "text", _text(l5="me"))
    put(place.project, "new", "mine now")


def _swapped(place: Place) -> None:
    """The turn made every kind of path into every other, and a person edited beside it."""
    kinds: dict[str, list[tuple[str, tuple[str, int, bytes]]]] = {
        "file": [("", file("one"))],
        "dir": [("", folder(0o750)), ("/deep", folder()), ("/deep/inner", file("inner"))],
        "empty": [("", folder())],
        "link": [("", link("elsewhere"))],
        "nothing": [],
    }
    states: list[State] = [{"beside": file("beside")}, {"beside": file("beside")}]
    for here, one in kinds.items():
        for there, other in kinds.items():
            for state, rows in zip(states, (one, other), strict=True):
                state.update({f"{here}-{there}{below}": node for below, node in rows} if here != there else {})
    write_state(place.project, states[0])
    _turn(place, states[1])
    put(place.project, "beside", "mine")


def _sealed(place: Place) -> None:
    """The turn changed one secret, removed a second and made a third; a person changed a fourth since."""
    before: State = {
        ".env.a": file("TOKEN=before", 0o600), "d": folder(), "d/.env.local": file("KEY=gone", 0o600),
        ".env.test": file("A=1"), "plain": file("plain"),
    }  # fmt: skip
    write_state(place.project, before)
    after = {path: node for path, node in before.items() if path != "d/.env.local"}
    after |= {".env.a": file("TOKEN=after", 0o600), "d/.env.new": file("NEW=1", 0o600), "plain": file("by the agent")}
    _turn(place, after)
    put(place.project, ".env.test", "A=mine")


def _undone(place: Place) -> None:
    _edited_later(place)
    with place.open() as ws:
        ws.undo()


def _undo(ws: Any, place: Place) -> None:
    before = state_of(place.project)
    report = ws.undo()
    assert report.undone.kind == "turn"
    assert state_of(place.project) != before


def _followed(place: Place) -> None:
    """Another prompt changed other lines of the same text, and more, after the turn that is reverted."""
    _edited_later(place)
    with place.open() as ws:
        ws.record(AgentEvent("agent", "session", "prompt", call="q", text="change more"))
        ws.record(AgentEvent("agent", "session", "before", tool="Bash", call="2", text="make"))
        put(place.project, "text", _text(l5="agent", l15="again", l25="me"))
        put(place.project, "later", "later")
        ws.record(AgentEvent("agent", "session", "after", tool="Bash", call="2", text="make"))
        ws.record(AgentEvent("agent", "session", "stop"))


def _revert(**options: Any) -> Callable[[Any, Place], None]:
    def revert(ws: Any, place: Place) -> None:
        before = state_of(place.project)
        chosen = options
        if "hunks" in options:
            hunks = [hunk.id for each in ws.hunks("@prompt-1", revert=True) for hunk in each.hunks]
            chosen = {"hunks": hunks[::2]}
        assert ws.revert("@prompt-1", **chosen).undone.prompt == 1
        assert state_of(place.project) != before

    return revert


def _reverted(place: Place) -> None:
    _followed(place)
    with place.open() as ws:
        ws.revert("@prompt-1")


TURNS: dict[str, Operation] = {
    "revert": Operation(_followed, _revert(), again=False),
    "revert-markers": Operation(_conflicting, _revert(conflicts="markers"), again=False),
    "revert-hunks": Operation(_followed, _revert(hunks=True), again=False),
    "revert-kinds": Operation(_swapped, _revert(), again=False),
    "undo-revert": Operation(_reverted, lambda ws, _: ws.undo(), again=False),
    "undo-turn": Operation(_edited_later, _undo, again=False),
    "undo-turn-conflict": Operation(_conflicting, _undo, again=False),
    "undo-turn-kinds": Operation(_swapped, _undo, again=False),
    "undo-turn-sealed": Operation(_sealed, _undo, again=False, seals=True),
    "redo-turn": Operation(_undone, lambda ws, _: ws.redo(), again=False),
}
