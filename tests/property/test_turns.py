"""
Undo of a turn against a model: random turns of three agents and a person, rich in files that become directories and back.

Where nothing that a turn touched was touched again by another, an undo gives exactly the workspace without that turn, and a redo
gives exactly what was there. Where something was, it changes no path outside of the turn, and lists what it could not undo.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import mulligan
from mulligan.model.event import AFTER, BEFORE, PROMPT, STOP, AgentEvent
from mulligan.steps import three_way
from mulligan.timeline.turns import Stack
from tools import sweep

PERSON = 3
BASES = ("one", "two", "three", "mine")
BELOW = ("", "/x", "/x/y", "/z")

Shape = dict[str, tuple[str, int, bytes]]


class Deal(NamedTuple):
    """One thing that somebody does: to which path, and what."""

    what: str
    base: str
    below: str
    number: int


class Call(NamedTuple):
    """One tool call of an agent, or one visit of the person: who, whether a turn begins or ends with it, and what is done."""

    who: int
    begins: bool
    ends: bool
    deals: list[Deal]


def deals(bases: tuple[str, ...]) -> st.SearchStrategy[Deal]:
    """What is done at paths below some names."""
    kinds = st.sampled_from(["write", "write", "remove", "directory", "link", "chmod", "edit"])
    return st.builds(Deal, kinds, st.sampled_from(bases), st.sampled_from(BELOW), st.integers(0, 5))


def calls(*, shared: bool) -> st.SearchStrategy[Call]:
    """What happens, by somebody; each in files of their own, or in those of all."""
    return st.integers(0, PERSON).flatmap(
        lambda who: st.builds(
            Call,
            st.just(who),
            st.booleans(),
            st.booleans(),
            st.lists(deals((*BASES, "common") if shared else (BASES[who],)), min_size=1, max_size=4),
        )
    )


class World:
    """A project with agents, and who touched which path when."""

    def __init__(self, folder: Path) -> None:
        self.project = folder / "project"
        self.project.mkdir()
        for base in BASES:
            (self.project / base).mkdir()
            (self.project / base / "x").write_text("".join(f"{number}\n" for number in range(9)))
        (self.project / "common").write_text("".join(f"{number}\n" for number in range(9)))
        self.ws = mulligan.open(self.project, store=folder / "store")
        self.prompts = [0, 0, 0]
        self.working = [False, False, False]
        #: Each change: who made it, for which prompt, the paths, and the workspace before it.
        self.past: list[tuple[int, int, set[str], Shape]] = []
        self._calls = 0
        self.ws.save("start")

    def shape(self) -> Shape:
        """Every path as it stands."""
        found: Shape = {}
        for folder, names, files in os.walk(self.project):
            for name in (*names, *files):
                path = os.path.join(folder, name)
                key = os.path.relpath(path, self.project)
                if os.path.islink(path):
                    found[key] = ("link", 0, os.fsencode(os.readlink(path)))
                elif os.path.isdir(path):
                    found[key] = ("dir", os.lstat(path).st_mode & 0o777, b"")
                else:
                    found[key] = ("file", os.lstat(path).st_mode & 0o777, Path(path).read_bytes())
        return found

    def play(self, call: Call) -> None:
        """Lets somebody do something."""
        before = self.shape()
        if call.who == PERSON:
            self._do(call.deals)
        else:
            self._call(call)
        after = self.shape()
        touched = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
        prompt = self.prompts[call.who] if call.who != PERSON else 0
        self.past.append((call.who, prompt, touched, before))

    def _call(self, call: Call) -> None:
        who = call.who
        if call.begins or not self.working[who]:
            self.prompts[who] += 1
            self._tell(who, PROMPT)
            self.working[who] = True
        self._calls += 1
        self._tell(who, BEFORE, call=str(self._calls))
        self._do(call.deals)
        self._tell(who, AFTER, call=str(self._calls))
        if call.ends:
            self._tell(who, STOP)
            self.working[who] = False

    def _tell(self, who: int, kind: str, call: str = "") -> None:
        tool = "Bash" if call else ""
        self.ws.record(AgentEvent("claude-code", f"session-{who}", kind, tool=tool, call=call, text=kind))

    def _do(self, deals: list[Deal]) -> None:
        for deal in deals:
            path = os.path.join(self.project, deal.base + deal.below)
            if deal.what in ("chmod", "edit"):
                self._change(deal, path)
                continue
            self._clear(path, make=deal.what != "remove")
            if deal.what == "write":
                Path(path).write_text(f"{deal.number}\n" * (deal.number + 1))
            elif deal.what == "directory":
                os.mkdir(path)
            elif deal.what == "link":
                os.symlink(f"target-{deal.number}", path)

    def _change(self, deal: Deal, path: str) -> None:
        if os.path.islink(path) or not os.path.exists(path):
            return
        if deal.what == "chmod":
            os.chmod(path, (0o755, 0o700, 0o750, 0o711, 0o744, 0o740)[deal.number])
        elif os.path.isfile(path):
            lines = Path(path).read_text().splitlines(keepends=True)
            at = deal.number * 2 % (len(lines) + 1)
            Path(path).write_text("".join([*lines[:at], f"edited {deal.number}\n", *lines[at + 1 :]]))

    def _clear(self, path: str, *, make: bool) -> None:
        parts = os.path.relpath(path, self.project).split("/")
        for depth in range(1, len(parts)):
            above = os.path.join(self.project, *parts[:depth])
            if os.path.islink(above) or os.path.isfile(above):
                if not make:
                    return
                os.unlink(above)
        if make:
            os.makedirs(os.path.dirname(path), exist_ok=True)
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        elif os.path.lexists(path):
            os.unlink(path)

    # What an undo owes

    def undo_last(self, who: int) -> None:
        """Undoes the newest turn of an agent that shows in the workspace, and looks at the result."""
        turns = sorted({prompt for by, prompt, touched, _ in self.past if by == who and touched}, reverse=True)
        if not turns:
            return
        now = self.shape()
        try:
            report = self.ws.undo(session=f"session-{who}")
        except mulligan.NothingToUndo:
            assert all(self._may_be_passed(who, turn, now) for turn in turns)
            return
        assert report.undone is not None and report.undone.kind == "turn"
        turn = report.undone.prompt
        assert all(self._may_be_passed(who, newer, now) for newer in turns if newer > turn), "a newer turn is left"
        mine, others, wanted = self._owed(who, turn, now)
        after = self.shape()
        changed = {path for path in now.keys() | after.keys() if now.get(path) != after.get(path)}
        above = {"/".join(path.split("/")[:depth]) for path in mine for depth in range(1, path.count("/") + 1)}
        assert changed <= mine | above, "an undo changed what the turn never touched"
        if not related(mine, others):
            assert after == wanted
            assert report.complete and not report.kept
        elif report.complete:
            # A directory that the turn made stays where others put something into it.
            theirs = others | {"/".join(path.split("/")[:depth]) for path in others for depth in range(1, 9)}
            assert all(after.get(path) == wanted.get(path) or path in theirs for path in mine)
        self.ws.redo() if changed else None
        assert self.shape() == now, "a redo brings back exactly what was there"

    def _owed(self, who: int, turn: int, now: Shape) -> tuple[set[str], set[str], Shape]:
        """Returns the paths of a turn, those that others touched since it began, and the workspace without the turn."""
        first = next(
            at for at, (by, prompt, touched, _) in enumerate(self.past) if (by, prompt) == (who, turn) and touched
        )
        mine = set().union(*(touched for by, prompt, touched, _ in self.past if (by, prompt) == (who, turn)))
        others = set().union(*(touched for by, prompt, touched, _ in self.past[first:] if (by, prompt) != (who, turn)))
        before = self.past[first][3]
        wanted = {path: node for path, node in now.items() if path not in mine}
        return mine, others, wanted | {path: before[path] for path in mine if path in before}

    def _may_be_passed(self, who: int, turn: int, now: Shape) -> bool:
        """Whether nothing of a turn is left: it put back what it changed, or others touched its paths."""
        mine, others, wanted = self._owed(who, turn, now)
        return now == wanted or related(mine, others)

    def undo_all(self) -> None:
        """Undoes everything and redoes it: files of the person stay while a turn is left, and all comes back."""
        start, person = self.shape(), self._of_person()
        waits, kinds = any(self._is_left(who) for who in range(PERSON)), []
        for _ in range(100):
            try:
                kinds.append(self.ws.undo().undone.kind)
            except mulligan.NothingToUndo:
                break
            assert kinds[-1] != "turn" or self._of_person() == person, "an undo of a turn changed a file of the person"
        assert not waits or kinds[0] == "turn"
        assert "turn" not in kinds[kinds.index("step") :] if "step" in kinds else True
        for _ in kinds:
            self.ws.redo()
        assert self.shape() == start

    def _is_left(self, who: int) -> bool:
        """Whether the newest turn of an agent shows in the workspace."""
        turn = max((prompt for by, prompt, touched, _ in self.past if by == who and touched), default=0)
        calls = [
            (touched, before) for by, prompt, touched, before in self.past if (by, prompt) == (who, turn) and touched
        ]
        now = self.shape()
        return any(now.get(path) != calls[0][1].get(path) for touched, _ in calls for path in touched)

    def _of_person(self) -> Shape:
        return {path: node for path, node in self.shape().items() if path.split("/")[0] == "mine"}


def related(mine: set[str], others: set[str]) -> bool:
    """Whether some path is one of the others, or above or below one."""
    return any(a == b or a.startswith(b + "/") or b.startswith(a + "/") for a in mine for b in others)


def play(happened: list[Call], *, everything: bool = False) -> None:
    """Plays what happened, then undoes it: the newest turn of each agent, or everything."""
    folder = Path(tempfile.mkdtemp(prefix="turns-"))
    try:
        world = World(folder)
        for call in happened:
            world.play(call)
        if everything:
            world.undo_all()
        for who in range(PERSON) if not everything else ():
            world.undo_last(who)
        world.ws.close()
    finally:
        shutil.rmtree(folder)


RANDOM = settings(
    max_examples=sweep(8), deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


@RANDOM
@given(st.lists(calls(shared=False), min_size=1, max_size=8))
def test_an_undo_gives_exactly_the_workspace_without_the_turn(happened):
    play(happened)


@RANDOM
@given(st.lists(calls(shared=True), min_size=1, max_size=8))
@example(
    [
        Call(0, False, True, [Deal("remove", "two", "", 0)]),
        Call(0, False, False, [Deal("write", "two", "/x", 0)]),
        Call(1, False, False, [Deal("write", "two", "/z", 0)]),
    ]
)
def test_an_undo_lists_what_others_touched_and_changes_nothing_else(happened):
    play(happened)


@RANDOM
@given(st.lists(calls(shared=False), min_size=1, max_size=8))
def test_undos_of_turns_keep_the_persons_files_and_redos_bring_all_back(happened):
    play(happened, everything=True)


def test_a_build_that_forgets_the_bits_of_directories_is_caught(monkeypatch):
    """A turn that changed only those was passed over, and the turn before it was undone instead."""
    happened = [
        Call(0, True, True, [Deal("write", "one", "/z", 1)]),
        Call(0, True, True, [Deal("chmod", "one", "", 1)]),
    ]
    play(happened)
    monkeypatch.setattr(three_way, "bits_that_differ", lambda *_: iter(()))
    with pytest.raises(AssertionError):
        play(happened)


def test_a_build_that_leaves_a_directory_where_a_file_was_is_caught(monkeypatch):
    happened = [
        Call(0, True, True, [Deal("write", "one", "/x", 1)]),
        Call(0, True, True, [Deal("directory", "one", "/x", 1), Deal("write", "one", "/x/y", 1)]),
    ]
    play(happened)
    good = three_way._edited

    def bad(source, tree, nodes):
        kept = {path: node for path, node in nodes.items() if node is None or b"/" not in path or node.is_dir}
        return good(source, tree, kept)

    monkeypatch.setattr(three_way, "_edited", bad)
    with pytest.raises(AssertionError):
        play(happened)


def test_a_build_that_goes_back_to_the_state_before_the_turn_is_caught(monkeypatch):
    """Then the person's later work goes with the turn."""
    happened = [
        Call(0, True, True, [Deal("write", "one", "/z", 1)]),
        Call(PERSON, True, True, [Deal("write", "mine", "/z", 1)]),
    ]
    play(happened, everything=True)
    monkeypatch.setattr(Stack, "waiting", lambda *_: (None, False))
    with pytest.raises(AssertionError):
        play(happened, everything=True)
