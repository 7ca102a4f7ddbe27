"""A walk over a watched workspace goes where something happened and nowhere else, and finds what any other walk finds."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import mulligan
from adopted import settle
from mulligan.scan.cache import Cache
from mulligan.scan.scanner import Scanner
from mulligan.scan.trees import Scan
from scans import misjudged, settings_for
from scenes import left_lying, state_of


class Place:
    """A saved and watched workspace of some depth."""

    def __init__(self, project: Path) -> None:
        for path in ("a", "a/b/c", "d", "top", "d/e/f"):
            (project / path).mkdir(parents=True, exist_ok=True)
            for name in ("one", "two", "six"):
                (project / path / name).write_text(f"{path} {name}\n" * 9)
        (project / ".gitignore").write_text("*.log\n")
        self.root = project
        self.settings = settings_for(project)
        self.ws = mulligan.Workspace(self.settings)
        self.ws.watch()
        self.ws.save()

    def look(self) -> Scan:
        """Returns a look that is the same as one without any memory."""
        scan = self.ws.bench.look().scan
        cache = Cache()
        cache.note = b'{"defaults": %s}' % str(list(scan.defaults)).encode()
        fresh = Scanner(self.settings, time.time_ns).scan(cache)[0]
        assert (scan.tree, scan.modes, scan.files, scan.missed) == (fresh.tree, fresh.modes, fresh.files, fresh.missed)
        assert sorted(scan.captured()) == sorted(fresh.captured())
        assert not misjudged(scan, self.ws.bench.store.objects.read_tree)
        assert all(record.tree == fresh.tree_of(path) for path, record in scan.records.items())
        return scan


@pytest.fixture
def place(project) -> Iterator[Place]:
    made = Place(project)
    settle(project.parent)
    made.ws.save()
    yield made
    made.ws.close()


def test_only_directories_with_edits_are_entered_and_those_above_get_new_trees(place):
    (place.root / "a/b/c/one").write_text("longer\n" * 50)
    (place.root / "d/two").write_text("other\n" * 50)
    scan = place.look()
    assert set(scan.entered) == {b"", b"a/b/c", b"d"}
    assert set(scan.records) == {b"", b"a", b"a/b", b"a/b/c", b"d"}
    assert place.ws.save().files_changed == ("a/b/c/one", "d/two")
    assert set(place.look().entered) == {b""}


def test_a_file_renamed_over_another_is_the_only_one_that_is_read(place):
    (place.root / "d/.new").write_text("other\n" * 50)
    os.replace(place.root / "d/.new", place.root / "d/two")
    (place.root / "d/~lock").write_text("")
    (place.root / "d/~lock").unlink()
    scan = place.look()
    assert set(scan.entered) == {b"", b"d"} and scan.read == 1
    assert place.ws.save().files_changed == ("d/two",)


@pytest.mark.parametrize("then", ["gone", "another"])
def test_what_was_left_out_and_goes_while_another_is_replaced_is_not_listed_any_more(place, then):
    noise = place.root / "d/noise.log"
    noise.write_text("noise")
    place.ws.save()
    assert b"d/noise.log" in place.look().missed
    if then == "gone":
        noise.unlink()
    else:
        noise.rename(place.root / "d/other.log")
    (place.root / "d/.new").write_text("other\n" * 50)
    os.replace(place.root / "d/.new", place.root / "d/two")
    scan = place.look()
    assert b"d/noise.log" not in scan.missed
    assert (b"d/other.log" in scan.missed) is (then == "another")


@pytest.mark.parametrize("how", ["mode", "link", "gone", "kind", "rules", "times"])
def test_whatever_happens_to_a_file_is_seen(place, how):
    path = place.root / "d/two"
    before = path.stat()
    path.write_text(path.read_text().replace("two", "TWO"))
    if how == "mode":
        path.chmod(0o755)
    elif how == "link":
        path.unlink()
        path.symlink_to("one")
    elif how == "gone":
        path.unlink()
    elif how == "kind":
        path.unlink()
        path.mkdir()
        (path / "inside").write_text("x")
    elif how == "rules":
        (place.root / "d/.gitignore").write_text("two\n")
    else:
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert b"d" in place.look().records
    place.ws.save()
    place.look()


def test_a_file_that_was_written_to_and_is_the_same_changes_no_tree(place):
    before = place.look().tree
    path = place.root / "d/two"
    path.write_text(path.read_text())
    scan = place.look()
    assert scan.tree == before and set(scan.records) <= {b"d"}
    assert place.ws.save(if_changed=True) is None


def test_a_directory_that_is_looked_at_for_nothing_is_not_written_down(place):
    settle(place.root.parent)
    os.utime(place.root / "d", None)
    place.ws.save()
    settle(place.root.parent)
    path = place.root / "a/b/c/one"
    path.write_text(path.read_text())
    place.ws.save()
    assert not place.look().records


def test_a_second_name_that_was_there_before_is_thought_of(place):
    """Also where the directory that holds it was only compared, and not listed, when the watching began."""
    os.link(place.root / "d/two", place.root / "a/again")
    settle(place.root.parent)
    place.ws.save()
    with mulligan.Workspace(place.settings) as ws, ws.watch():
        ws.diff()
        with (place.root / "a/again").open("r+") as file:
            file.write("through the other name")
        assert ws.diff().modified == ["a/again", "d/two"]


def edit(rng: random.Random, project: Path, version: str) -> None:
    for number in range(rng.randrange(60), 60, rng.randrange(1, 9)):
        file = project / f"d{number % 5}" / f"e{number % 3}" / f"f{number}"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{number} {version}\n" * (number % 40 + 8))
    if rng.randrange(5):
        return
    odd = project / f"d{rng.randrange(5)}" / f"more{rng.randrange(3)}"
    if odd.is_symlink() or odd.is_file():
        odd.unlink()
    elif not odd.is_dir() and odd.parent.is_dir():
        rng.choice([lambda: odd.write_text("new"), lambda: odd.symlink_to("e1"), odd.mkdir])()
        odd.is_dir() and (odd / "inside").write_text("new")
    for file in project.glob(f"d{rng.randrange(5)}/e0/f*"):
        file.chmod(rng.choice([0o644, 0o755, 0o600]))


@pytest.mark.parametrize("seed", range(4))
def test_whatever_was_edited_a_restore_and_its_undo_bring_back_what_was_there(project, ws: Any, seed):
    rng, saved = random.Random(seed), dict[str, Any]()
    with ws.watch():
        edit(rng, project, "first")
        saved[ws.save("first").id] = state_of(project)
        for number in range(14):
            edit(rng, project, f"{number}")
            if not rng.randrange(3):
                saved[ws.save(f"n{number}").id] = state_of(project)
            before, goal = state_of(project), rng.choice([*saved])
            report = ws.restore(goal)
            assert state_of(project) == saved[goal] and not left_lying(project)
            if report.modified or report.created or report.deleted:
                ws.undo()
                assert state_of(project) == before
                if rng.randrange(2):
                    ws.redo()
                    assert state_of(project) == saved[goal]
    assert not ws.check().problems
