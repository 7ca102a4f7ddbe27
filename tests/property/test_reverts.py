"""
Random histories with random reverts, against a model of three-way merge that knows nothing of ours.

In the model a file is a row of numbered lines, or nothing. A step is what one prompt did to some of them. Reverting a step goes
line by line: one that still stands as the step left it goes back, one that was not touched by the step stays, and lines that both
the step and somebody later changed, or that touch each other, are a conflict, which leaves the whole file alone.
"""

from __future__ import annotations

import shutil
import tempfile
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import mulligan
from mulligan.diff import merge as merging
from mulligan.model.event import AFTER, BEFORE, PROMPT, STOP, AgentEvent
from mulligan.steps import three_way
from tools import sweep
from tree import contents

ROWS = 8
NAMES = ("a", "b", "deep/c")

File = tuple[str, ...] | None
Files = dict[str, File]


class Edit(NamedTuple):
    """What is done to one file: a row gets a new text; or the file is removed, or made anew."""

    name: str
    row: int
    what: str


class Visit(NamedTuple):
    """One prompt of an agent, or a person at work (session -1)."""

    session: int
    edits: list[Edit]


edits = st.builds(
    Edit, st.sampled_from(NAMES), st.integers(0, ROWS - 1), st.sampled_from(["row"] * 6 + ["first", "remove", "make"])
)
visits = st.builds(Visit, st.integers(-1, 1), st.lists(edits, min_size=1, max_size=3))
histories = st.lists(visits, min_size=2, max_size=6)


class History:
    """A project in which all of that happened, with the model's files before and after each prompt."""

    def __init__(self, folder: Path) -> None:
        self.project, self.number = folder / "project", 0
        self.files: Files = {name: tuple(f"{name} {row} as it was\n" for row in range(ROWS)) for name in NAMES}
        self.project.mkdir()
        self._write()
        self.ws = mulligan.open(self.project, store=folder / "store")
        self.ws.save("start")
        #: Of each prompt: its reference, and the files around it.
        self.steps: list[tuple[str, Files, Files]] = []
        self._prompts = [0, 0]

    def play(self, visit: Visit) -> None:
        """Lets an agent or a person do something."""
        before = dict(self.files)
        if visit.session < 0:
            self._do(visit.edits)
            return
        self._prompts[visit.session] += 1
        self._tell(visit, PROMPT)
        self._tell(visit, BEFORE)
        self._do(visit.edits)
        self._tell(visit, AFTER)
        self._tell(visit, STOP)
        if before != self.files:
            ref = f"@session-{visit.session}/prompt-{self._prompts[visit.session]}"
            self.steps.append((ref, before, dict(self.files)))

    def _tell(self, visit: Visit, kind: str) -> None:
        tool = "Bash" if kind in {BEFORE, AFTER} else ""
        call = f"{visit.session}-{self._prompts[visit.session]}" if tool else ""
        self.ws.record(AgentEvent("agent", f"session-{visit.session}", kind, tool=tool, call=call, text="work"))

    def _do(self, done: list[Edit]) -> None:
        for edit in done:
            self.number += 1
            file = self.files[edit.name]
            if edit.what == "remove":
                self.files[edit.name] = None
            elif edit.what == "make" or file is None:
                self.files[edit.name] = tuple(f"{edit.name} {row} of {self.number}\n" for row in range(ROWS))
            else:
                rows = list(file)
                rows[edit.row] = f"{edit.name} {edit.row} {'as it was' if edit.what == 'first' else self.number}\n"
                self.files[edit.name] = tuple(rows)
        self._write()

    def _write(self) -> None:
        for name, file in self.files.items():
            path = self.project / name
            if file is None:
                path.unlink(missing_ok=True)
            else:
                path.parent.mkdir(exist_ok=True)
                if not path.exists() or path.read_text() != "".join(file):
                    path.write_text("".join(file))

    def on_disk(self) -> Files:
        """The files as they stand."""
        return {name: self._read(self.project / name) for name in NAMES}

    @staticmethod
    def _read(path: Path) -> File:
        return tuple(path.read_text().splitlines(keepends=True)) if path.exists() else None


def without_step(now: Files, before: Files, after: Files) -> tuple[Files, set[str]]:
    """The model: the files without a step, and the names of those in conflict."""
    made, conflicts = dict(now), set()
    for name in NAMES:
        here, old, new = now[name], before[name], after[name]
        if old == new:
            continue
        if here == new:
            made[name] = old
        elif here == old:
            continue
        elif here is None or old is None or new is None:
            conflicts.add(name)
        else:
            rows = _merged(here, old, new)
            if rows is None:
                conflicts.add(name)
            else:
                made[name] = rows
    return made, conflicts


def _merged(here: tuple[str, ...], old: tuple[str, ...], new: tuple[str, ...]) -> File:
    ours = [row for row in range(ROWS) if here[row] != new[row]]
    theirs = [row for row in range(ROWS) if old[row] != new[row]]
    for start, end in _runs(sorted({*ours, *theirs})):
        rows = range(start, end)
        if (
            any(row in ours for row in rows)
            and any(row in theirs for row in rows)
            and here[start:end] != old[start:end]
        ):
            return None
    return tuple(old[row] if row in theirs else here[row] for row in range(ROWS))


def _runs(rows: list[int]) -> list[tuple[int, int]]:
    """Rows that touch each other, as stretches."""
    runs: list[tuple[int, int]] = []
    for row in rows:
        if runs and runs[-1][1] == row:
            runs[-1] = (runs[-1][0], row + 1)
        else:
            runs.append((row, row + 1))
    return runs


def _touched(step: tuple[str, Files, Files]) -> set[str]:
    return {name for name in NAMES if step[1][name] != step[2][name]}


@pytest.fixture
def played():
    """Plays a history in a folder of its own."""
    folders = []

    def play(history: list[Visit]) -> History:
        folders.append(Path(tempfile.mkdtemp()))
        made = History(folders[-1])
        for visit in history:
            made.play(visit)
        return made

    yield play
    for folder in folders:
        shutil.rmtree(folder)


often = settings(
    max_examples=sweep(25),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@often
@given(histories, st.integers(0, 9))
def test_a_revert_is_what_the_model_says_and_undo_is_exact(played, history, choice):
    world = played(history)
    if not world.steps:
        return
    ref, before, after = world.steps[choice % len(world.steps)]
    expected, conflicts = without_step(world.on_disk(), before, after)
    start = contents(world.project)
    try:
        report = world.ws.revert(ref)
    except mulligan.NothingToUndo:
        assert expected == world.on_disk() and not conflicts
        return
    assert world.on_disk() == expected
    assert {each.path for each in report.conflicts} == conflicts
    assert report.complete == (not conflicts)
    if report.undo is None:
        assert contents(world.project) == start
        return
    reverted = contents(world.project)
    world.ws.undo()
    assert contents(world.project) == start
    world.ws.redo()
    assert contents(world.project) == reverted


@often
@given(histories)
def test_a_revert_of_the_newest_step_is_what_undo_does(played, history):
    world = played([visit for visit in history if visit.session >= 0])
    if not world.steps:
        return
    ref, *_ = world.steps[-1]
    report = world.ws.revert(ref)
    assert report.complete
    reverted = contents(world.project)
    world.ws.undo()
    assert world.ws.undo().undone.kind == "turn"
    assert contents(world.project) == reverted


@often
@given(histories)
def test_reverts_of_independent_steps_commute(played, history):
    world = played(history)
    pairs = [pair for pair in combinations(world.steps, 2) if not _touched(pair[0]) & _touched(pair[1])]
    if not pairs:
        return
    first, second = pairs[-1]
    ends = []
    for order in ((first, second), (second, first)):
        done = 0
        for ref, *_ in order:
            try:
                done += world.ws.revert(ref).undo is not None
            except mulligan.NothingToUndo:
                continue
        ends.append(contents(world.project))
        for _ in range(done):
            world.ws.undo()
    assert ends[0] == ends[1]


@often
@given(histories, st.integers(0, 9), st.data())
def test_chosen_hunks_are_all_that_changes_and_all_of_them_are_the_whole(played, history, choice, data):
    world = played(history)
    if not world.steps:
        return
    ref, *_ = world.steps[choice % len(world.steps)]
    try:
        plan = world.ws.revert(ref, dry_run=True)
    except mulligan.NothingToUndo:
        return
    hunks = [hunk for each in world.ws.hunks(plan) for hunk in each.hunks]
    assert world.ws.revert(ref, dry_run=True, hunks=[hunk.id for hunk in hunks]).actions == plan.actions
    if not hunks:
        return
    picked = data.draw(st.sets(st.sampled_from([hunk.id for hunk in hunks]), min_size=1))
    start, world_before = contents(world.project), world.on_disk()
    world.ws.revert(ref, hunks=picked)
    for path in NAMES:
        mine = [hunk for hunk in hunks if hunk.path == path]
        if not picked.intersection(hunk.id for hunk in mine):
            assert world.on_disk()[path] == world_before[path]
    rest = [hunk for hunk in hunks if hunk.id not in picked]
    if not rest:
        whole = contents(world.project)
        world.ws.undo()
        world.ws.revert(ref)
        assert contents(world.project) == whole
    world.ws.undo()
    assert contents(world.project) == start


@pytest.mark.parametrize("fault", ["forgets conflicts", "takes the wrong side"])
def test_the_model_notices_a_wrong_merge(played, monkeypatch, fault):
    real = merging.merge_pieces

    def wrong(base, ours, theirs):
        pieces = real(base, ours, theirs)
        if pieces is None or fault == "takes the wrong side":
            return real(base, theirs, theirs)
        return [piece._replace(theirs=piece.ours) for piece in pieces]

    monkeypatch.setattr(three_way, "merge_pieces", wrong)
    row = Edit("a", 0, "row")
    with pytest.raises(AssertionError):
        for later in ([row], [Edit("a", 7, "row")]):
            test_a_revert_is_what_the_model_says_and_undo_is_exact.hypothesis.inner_test(
                played, [Visit(0, [row]), Visit(-1, later)], 0
            )
