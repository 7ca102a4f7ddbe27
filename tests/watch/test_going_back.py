"""
Going back in a watched workspace where only contents changed: what goes back is known before the trees are made.

It must be what comparing the trees would say, the safety checkpoint must hold the workspace as it was, and whatever cannot be
told so goes the long way.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mulligan.engine import Workspace
from mulligan.errors import PlanStale
from mulligan.restore import procedure, staging
from mulligan.scan.patching import Patching
from mulligan.settings import resolve
from mulligan.timeline.sources import Source
from scenes import left_lying, state_of

FILES = 60


def write(project: Path, version: str, chosen: range = range(FILES)) -> None:
    for number in chosen:
        place = project / f"d{number % 5}" / f"e{number % 3}" / f"f{number}"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(f"{number} {version}\n" * (number % 40 + 8))


def more_than_contents(rng: random.Random, project: Path) -> None:
    """What no list of edits can say: names that come and go, other bits, other kinds of things."""
    place = project / f"d{rng.randrange(5)}" / f"more{rng.randrange(3)}"
    if place.is_symlink() or place.is_file():
        place.unlink()
    elif not place.is_dir():
        rng.choice([lambda: place.write_text("new"), lambda: place.symlink_to("e1"), place.mkdir])()
        place.is_dir() and (place / "inside").write_text("new")
    for file in project.glob(f"d{rng.randrange(5)}/e0/f*"):
        file.chmod(rng.choice([0o644, 0o755, 0o600]))


@pytest.fixture
def space(project, store, monkeypatch) -> Iterator[Any]:
    """A watched workspace whose restores sync as those of many files do."""
    monkeypatch.setattr(staging, "_SYNC_EACH", 0)
    with Workspace(resolve(project, store=store)) as ws, ws.watch():
        yield ws


@pytest.fixture
def compared(monkeypatch) -> list[tuple[Source, bytes, list[Any], bool]]:
    """What was said to differ from a tree, by whom, and whether trees were made for it."""
    noted: list[tuple[Source, bytes, list[Any], bool]] = []
    original = Source.changes_to

    def changes_to(self: Any, tree: bytes) -> list[Any]:
        found = original(self, tree)
        noted.append((self, tree, found, self._scan.edits() is None))
        return found

    monkeypatch.setattr(Source, "changes_to", changes_to)
    return noted


def by_trees(ws: Any, source: Any, tree: bytes) -> list[Any]:
    return Source(ws._bench.vault.objects, source._scan).changes(source._scan.tree, tree, directories=True)


def test_no_tree_is_compared_and_the_same_goes_back_again_and_again(project, space, compared):
    write(project, "saved")
    there, saved = space.save("there"), state_of(project)
    for number in range(3):
        write(project, f"edited {number}")
        before = state_of(project)
        report = space.restore(there.id)
        source, tree, found, trees = compared[-1]
        assert not trees and len(found) == FILES
        assert found == by_trees(space, source, tree)
        assert len(report.modified) == FILES and state_of(project) == saved and not left_lying(project)
    space.undo()
    assert state_of(project) == before
    assert not space.check().problems


@pytest.mark.parametrize("seed", range(4))
def test_whatever_happened_it_is_what_the_trees_say(project, space, compared, seed):
    rng = random.Random(seed)
    write(project, "first")
    saved = {space.save("first").id: state_of(project)}
    for number in range(14):
        for _ in range(rng.randrange(3)):
            write(project, f"{number}", range(rng.randrange(FILES), FILES, rng.randrange(1, 9)))
        if not rng.randrange(5):
            more_than_contents(rng, project)
        if not rng.randrange(4):
            write(project, "first", range(0, FILES, 3))
        if not rng.randrange(3):
            saved[space.save(f"n{number}").id] = state_of(project)
        before, goal = state_of(project), rng.choice([*saved])
        report = space.restore(goal)
        source, tree, found, _ = compared[-1]
        assert found == by_trees(space, source, tree)
        assert state_of(project) == saved[goal] and not left_lying(project)
        if report.modified or report.created or report.deleted:
            space.undo()
            assert state_of(project) == before
            if rng.randrange(2):
                space.redo()
                assert state_of(project) == saved[goal]
    assert any(not trees for _, _, _, trees in compared) and any(trees for _, _, _, trees in compared)
    assert not space.check().problems


def test_the_trees_are_made_before_anything_changes(project, space, compared, monkeypatch):
    write(project, "saved")
    there = space.save("there")
    write(project, "held")
    space.save("held")
    order: list[str] = []
    for module, name in ((procedure, "open_journal"), (Patching, "_seal_all"), (procedure, "set_phase")):
        original = getattr(module, name)
        monkeypatch.setattr(
            module, name, lambda *given, _do=original, _name=name, **more: (order.append(_name), _do(*given, **more))[1]
        )
    write(project, "edited")
    space.restore("held")
    assert order[0] == "_seal_all"
    assert order[-1] == "set_phase" and order.count("_seal_all") == 1
    space.restore(there.id)


def test_trees_that_cannot_be_made_after_all_end_it_with_nothing_changed(project, space, monkeypatch):
    write(project, "saved")
    space.save("there")
    write(project, "held")
    space.save("held")
    write(project, "edited")
    before = state_of(project)
    with monkeypatch.context() as patched:
        patched.setattr(Patching, "_seal", lambda *_: {})
        with pytest.raises(PlanStale):
            space.restore("held")
    assert state_of(project) == before and not left_lying(project)
    space.restore("held")
    space.undo()
    assert state_of(project) == before and not space.check().problems


def test_what_is_remembered_and_is_in_no_tree_is_not_believed(project, space, compared):
    write(project, "saved")
    space.save("there")
    write(project, "held")
    space.save("held")
    held = space._bench.observer._warm.image.trees._trees
    held[b"d1"] = (held[b"d1"][0], held[b"d1"][1][:-1] + b"?")
    write(project, "edited")
    space.restore("held")
    assert compared[-1][3]
    assert compared[-1][2] == by_trees(space, compared[-1][0], compared[-1][1])
