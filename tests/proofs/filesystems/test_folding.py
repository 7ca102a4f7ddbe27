"""Where `README` and `readme` are one file (macOS, Windows, vfat): renames that change only the case, and names that collide."""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import folding

import mulligan
import tools
from gate import NO_GATE, gate_works, passed
from play import Agent, tree, typed
from scenes import state_of
from tree import put

WHY_NOT = folding.why_not()
pytestmark = pytest.mark.skipif(bool(WHY_NOT), reason=f"{WHY_NOT}: TESTS OF FILE SYSTEMS THAT IGNORE CASE DO NOT RUN")
KINDS = {"as-apfs-without-flags": (), "as-ext4": ("--exchange", "--first-spelling")}
BASE = {"README": "readme\n", "Src/a.py": "a\n", "Src/Deep/b": "b\n", "Straße": "ß\n", "other": "o\n"}


@pytest.fixture(scope="module", params=KINDS)
def disk(request: pytest.FixtureRequest) -> Iterator[Path]:
    """A file system that ignores case."""
    with folding.mounted(*KINDS[request.param]) as point:
        yield point


@pytest.fixture
def project(disk: Path, request: pytest.FixtureRequest) -> Path:
    """A project on it."""
    folder = disk / f"project{abs(hash(request.node.nodeid))}"
    folder.mkdir()
    for path, text in BASE.items():
        put(folder, path, text)
    return folder


def respell(project: Path, old: str, new: str) -> None:
    """Renames as `git mv` does; `mv` refuses."""
    os.rename(project / old, project / new)


def respell_file(project: Path) -> None:
    respell(project, "README", "ReadMe")


def respell_and_edit(project: Path) -> None:
    respell(project, "README", "readme")
    put(project, "readme", "edited\n")
    respell(project, "Straße", "STRASSE")


def respell_directory(project: Path) -> None:
    respell(project, "Src", "src")


def respell_and_fill(project: Path) -> None:
    respell(project, "Src/Deep", "Src/deep")
    respell(project, "Src", "SRC")
    put(project, "SRC/a.py", "edited\n")
    put(project, "SRC/deep/new", "new\n")
    (project / "SRC/deep/b").unlink()


def file_for_directory(project: Path) -> None:
    shutil.rmtree(project / "Src")
    put(project, "src", "a file\n")
    (project / "README").unlink()
    put(project, "readme/inner", "a directory\n")


CHANGES = [respell_file, respell_and_edit, respell_directory, respell_and_fill, file_for_directory]


@pytest.mark.parametrize("change", CHANGES)
def test_a_rename_that_changes_only_the_case_is_undone_and_redone(project, change):
    typed(project, "save", "base")
    change(project)
    after = tree(project)
    assert after != BASE
    typed(project, "undo")
    assert tree(project) == BASE
    typed(project, "redo")
    assert tree(project) == after
    typed(project, "restore", "base", "-y")
    assert tree(project) == BASE
    typed(project, "undo")
    assert tree(project) == after


@pytest.mark.parametrize("change", CHANGES)
def test_a_turn_that_changed_only_the_case_is_undone_and_later_edits_are_kept(project, change):
    agent = Agent(project)
    agent.begin("rename it")
    agent.bash("git mv", lambda: change(project))
    agent.stop()
    after = tree(project)
    put(project, "other", "mine\n")
    typed(project, "undo")
    assert tree(project) == BASE | {"other": "mine\n"}
    typed(project, "redo")
    assert tree(project) == after | {"other": "mine\n"}


def test_a_directory_that_must_stay_keeps_its_spelling_and_gets_its_files_back(project):
    put(project, ".gitignore", "cache\n")
    typed(project, "save", "base")
    respell(project, "Src", "src")
    put(project, "src/a.py", "edited\n")
    put(project, "src/Deep/new", "new\n")
    put(project, "src/cache", "not saved\n")
    said = typed(project, "undo", expect=3)
    assert "Not restored under its own name: Src" in said
    back = {path.replace("Src/", "src/"): text for path, text in BASE.items()}
    assert tree(project) == back | {".gitignore": "cache\n", "src/cache": "not saved\n"}


def test_a_path_that_is_asked_for_comes_back_from_another_spelling(project):
    typed(project, "save", "base")
    respell_and_fill(project)
    put(project, "other", "mine\n")
    typed(project, "restore", "base", "-y", "--", "Src")
    assert tree(project) == BASE | {"other": "mine\n"}


def test_a_file_that_is_not_saved_is_not_replaced_by_another_spelling_of_its_name(project):
    typed(project, "save", "base")
    (project / "README").unlink()
    put(project, ".gitignore", "readme\n")
    put(project, "readme", "only here\n")
    typed(project, "save", "ignored")
    said = typed(project, "restore", "base", "-y", "--", "README", expect=3)
    assert "README" in said and "takes it for readme" in said
    assert (project / "readme").read_text() == "only here\n"
    plan = json.loads(typed(project, "--json", "restore", "base", "--dry-run", "--", "README"))["plan"]
    assert plan["creates"] == [] and plan["keeps"][0]["reason"] == "same name"


def test_a_checkpoint_with_two_spellings_is_restored_as_far_as_this_file_system_can(project, tmp_path):
    """Made where case counts, and taken over."""
    elsewhere = tmp_path / "elsewhere"
    for path, text in {"a": "small\n", "A": "capital\n", "D/one": "1\n", "d/two": "2\n", "d/ONE": "one\n"}.items():
        put(elsewhere, path, text)
    typed(elsewhere, "save", "both")
    for name in os.listdir(project):
        shutil.rmtree(project / name) if (project / name).is_dir() else (project / name).unlink()
    shutil.rmtree(elsewhere)
    typed(project, "adopt", str(elsewhere))
    said = typed(project, "restore", "both", "-y", expect=3)
    assert tree(project) == {"A": "capital\n", "D/one": "1\n", "D/two": "2\n"}
    assert all(name in said for name in ("a", "d", "d/ONE"))
    typed(project, "undo")
    assert tree(project) == {}


NAMES = ("a", "A", "b", "B", "Readme", "README", "é", "É")


def meddle(project: Path, rng: random.Random) -> None:
    """Writes, removes, moves or respells something."""
    path = project.joinpath(*rng.choices(NAMES, k=rng.choice((1, 1, 2, 3))))
    with suppress(OSError):  # a name that is taken, or a directory that is a file
        match rng.choice(("write", "write", "remove", "respell", "respell", "mkdir", "move")):
            case "write":
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(str(rng.random()))
            case "mkdir":
                path.mkdir(parents=True)
            case "remove":
                shutil.rmtree(path) if path.is_dir() else path.unlink()
            case "move":
                os.rename(path, project / rng.choice(NAMES))
            case _:
                found = rng.choice(sorted(project.rglob("*")))
                os.rename(found, found.parent / found.name.swapcase())


@pytest.mark.parametrize("seed", range(tools.sweep(2)))
def test_random_histories_come_back_exactly(project, tmp_path, seed):
    rng = random.Random(seed)
    with mulligan.open(project, store=tmp_path / "store") as ws:
        saved = {ws.save().id: state_of(project)}
        for _ in range(14):
            for _ in range(rng.randrange(1, 6)):
                meddle(project, rng)
            before, target = state_of(project), rng.choice(list(saved))
            if rng.random() < 0.4:
                saved[ws.save().id] = before
            elif before != saved[target]:
                assert ws.restore(target).complete
                assert state_of(project) == saved[target]
                ws.undo()
                assert state_of(project) == before
                ws.redo()
                assert state_of(project) == saved[target]
        assert ws.check().ok


@pytest.mark.skipif(not gate_works(), reason=NO_GATE)
@pytest.mark.parametrize(("change", "verb"), [(respell_and_edit, "restore"), (respell_and_fill, "undo")])
def test_an_undo_that_was_killed_anywhere_ends_in_one_of_both_spellings(project, tmp_path, change, verb):
    store, template = tmp_path / "store", tmp_path / "template"
    with mulligan.open(project, store=store) as ws:
        ws.save("base")
    change(project)
    after = tree(project)
    shutil.copytree(store, template)

    def act() -> None:
        with mulligan.open(project, store=store) as ws:
            ws.undo() if verb == "undo" else ws.restore("base")

    number, ends = 1, set()
    while True:
        seen = passed(act, die_at=number)
        assert seen.died or seen.code == 0
        with mulligan.open(project, store=store) as ws:
            ws.save("later", if_changed=True)
        assert tree(project) in (BASE, after), (number, seen.calls[-1])
        ends.add(tree(project) == BASE)
        if not seen.died:
            break
        number += max(1, 6 // tools.sweep(1))
        shutil.rmtree(store)
        shutil.copytree(template, store)
        for name in os.listdir(project):
            shutil.rmtree(project / name) if (project / name).is_dir() else (project / name).unlink()
        for path, text in after.items():
            put(project, path, text)
    assert ends == {True, False}
