"""What a watched workspace saves and restores is what a look at every file finds, whatever was changed and how."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import mulligan
from scenes import left_lying, state_of

FILES = 60


@pytest.fixture
def watched(project: Path, store: Path) -> Iterator[mulligan.Workspace]:
    """A saved and watched workspace of some depth."""
    for path in ("a/b/c", "d/e/f", "top", "a", "d"):
        (project / path).mkdir(parents=True, exist_ok=True)
        for name in ("one", "two", "six"):
            (project / path / name).write_text(f"{path} {name}\n" * 9)
    (project / ".gitignore").write_text("*.log\n")
    with mulligan.open(project, store=store) as ws, ws.watch():
        ws.save("first")
        yield ws


def saved(ws: mulligan.Workspace, project: Path, store: Path) -> tuple[str, ...]:
    """Saves; a workspace that remembers nothing finds no change after it."""
    changed = ws.save().files_changed
    (store / "cache").unlink(missing_ok=True)
    with mulligan.open(project, store=store) as fresh:
        status = fresh.status()
        assert (status["unsaved"], status["only_directories"]) == ({"added": 0, "modified": 0, "deleted": 0}, False)
    return changed


def rename_over(root: Path) -> None:
    (root / "d/.new").write_text("other\n" * 50)
    os.replace(root / "d/.new", root / "d/two")


def come_and_go(root: Path) -> None:
    rename_over(root)
    (root / "d/~lock").write_text("")
    (root / "d/~lock").unlink()


def other_mode(root: Path) -> None:
    (root / "d/two").write_text("other\n" * 50)
    (root / "d/two").chmod(0o755)


def becomes_link(root: Path) -> None:
    (root / "d/two").unlink()
    (root / "d/two").symlink_to("one")


def becomes_directory(root: Path) -> None:
    (root / "d/two").unlink()
    (root / "d/two").mkdir()
    (root / "d/two/inside").write_text("x")


def times_put_back(root: Path) -> None:
    before = (root / "d/two").stat()
    (root / "d/two").write_text((root / "d/two").read_text().replace("two", "TWO"))
    os.utime(root / "d/two", ns=(before.st_atime_ns, before.st_mtime_ns))


def several(root: Path) -> None:
    (root / "d/new").write_text("new\n" * 50)
    (root / "d/e/f/one").write_text("other\n" * 50)
    (root / "a/one").write_text("other\n" * 50)


EDITS: dict[Callable[[Path], object], tuple[str, ...]] = {
    rename_over: ("d/two",),
    come_and_go: ("d/two",),
    other_mode: ("d/two",),
    becomes_link: ("d/two",),
    becomes_directory: ("d/two", "d/two/inside"),
    times_put_back: ("d/two",),
    several: ("a/one", "d/e/f/one", "d/new"),
    lambda root: (root / "d/two").unlink(): ("d/two",),
}


@pytest.mark.parametrize(("edit", "changed"), EDITS.items())
def test_an_edit_is_saved_and_named(watched, project, store, edit, changed) -> None:
    edit(project)
    assert saved(watched, project, store) == changed
    assert watched.save(if_changed=True) is None


def test_edits_of_one_file_again_and_again(watched, project, store) -> None:
    for number in range(3):
        (project / "a/b/c/one").write_text(f"{number}\n" * 50)
        assert saved(watched, project, store) == ("a/b/c/one",)
        (project / f"a/b/c/new{number}").write_text("a name that came\n")
        assert saved(watched, project, store) == (f"a/b/c/new{number}",)


def test_what_is_written_through_a_second_name_is_saved_at_both(watched, project, store) -> None:
    os.link(project / "d/two", project / "a/again")
    watched.save()
    (project / "a/again").write_text("through the other name\n" * 9)
    assert saved(watched, project, store) == ("a/again", "d/two")


@pytest.mark.parametrize("then", ["gone", "another"])
def test_an_ignored_file_that_goes_while_another_is_replaced_is_no_longer_listed(watched, project, then) -> None:
    (project / "d/noise.log").write_text("noise")
    assert "d/noise.log" in {row.path for row in watched.save().not_captured}
    (project / "d/noise.log").rename(project / ("d/other.log" if then == "another" else "../away"))
    rename_over(project)
    listed = {row.path for row in watched.save().not_captured}
    assert "d/noise.log" not in listed
    assert ("d/other.log" in listed) is (then == "another")


def write(project: Path, version: str, chosen: range = range(FILES)) -> None:
    for number in chosen:
        place = project / f"d{number % 5}" / f"e{number % 3}" / f"f{number}"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(f"{number} {version}\n" * (number % 40 + 8))


def more_than_contents(rng: random.Random, project: Path) -> None:
    """Names that come and go, other bits, other kinds of things."""
    place = project / f"d{rng.randrange(5)}" / f"more{rng.randrange(3)}"
    if place.is_symlink() or place.is_file():
        place.unlink()
    elif not place.is_dir():
        rng.choice([lambda: place.write_text("new"), lambda: place.symlink_to("e1"), place.mkdir])()
        place.is_dir() and (place / "inside").write_text("new")
    for file in project.glob(f"d{rng.randrange(5)}/e0/f*"):
        file.chmod(rng.choice([0o644, 0o755, 0o600]))


@pytest.mark.parametrize("seed", range(4))
def test_a_watched_restore_its_undo_and_its_redo_are_exact(project, store, seed) -> None:
    rng = random.Random(seed)
    with mulligan.open(project, store=store) as ws, ws.watch():
        write(project, "first")
        states = {ws.save("first").id: state_of(project)}
        for number in range(14):
            for _ in range(rng.randrange(3)):
                write(project, f"{number}", range(rng.randrange(FILES), FILES, rng.randrange(1, 9)))
            if not rng.randrange(5):
                more_than_contents(rng, project)
            if not rng.randrange(3):
                states[ws.save(f"n{number}").id] = state_of(project)
            before, goal = state_of(project), rng.choice([*states])
            report = ws.restore(goal)
            assert state_of(project) == states[goal] and not left_lying(project)
            if report.modified or report.created or report.deleted:
                ws.undo()
                assert state_of(project) == before
                if rng.randrange(2):
                    ws.redo()
                    assert state_of(project) == states[goal]
        assert not ws.check().problems
