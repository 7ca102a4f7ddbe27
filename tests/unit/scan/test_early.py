"""A look that begins before the engine is there counts only while nothing can have come between."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

import mulligan
from mulligan.safefs.directory import Directory
from mulligan.scan import early, observer
from mulligan.scan.early import look_early
from random_trees import directories, plant
from random_trees import edit as change
from scans import Looking, later, settings_for
from tools import cli, sweep

DIRECTORIES = 400  # enough for a second process


@pytest.fixture(params=["python", "native"])
def settings(project, request):
    request.getfixturevalue(f"{request.param}_look")
    for at in range(DIRECTORIES):
        (project / f"d{at}").mkdir()
        (project / f"d{at}/file").write_text("1")
    found = settings_for(project)
    with mulligan.Workspace(found, now_ns=later) as ws:
        ws.save("first")
    return found


def edit(settings, name: str, text: str) -> None:
    with open(os.path.join(settings.workspace, name), "w") as out:
        out.write(text)


def saved(settings, begun) -> tuple[str, ...]:
    with mulligan.Workspace(settings, now_ns=later) as ws:
        ws.expect(begun)
        return ws.save().files_changed


@pytest.fixture
def looks(monkeypatch) -> list[int]:
    """One number for each look that begins after the engine is there."""
    begun, begin = [], observer.begin
    monkeypatch.setattr(observer, "begin", lambda *given: begun.append(1) or begin(*given))
    return begun


def test_what_changed_before_an_early_look_is_saved_and_nobody_looks_twice(settings, monkeypatch):
    edit(settings, "d3/file", "22")
    begun = look_early(settings.workspace, settings.store)
    monkeypatch.setattr(observer, "begin", lambda *_: pytest.fail("it was looked at again"))
    assert saved(settings, begun) == ("d3/file",)
    begun.close()


@pytest.mark.parametrize("seed", range(sweep(4)))
@pytest.mark.parametrize("way", ["python", "native"])
def test_saves_that_begin_with_an_early_look_hold_what_is_there(project, seed, way, request):
    """Whatever happened since the last one, by a process of their own each."""
    request.getfixturevalue(f"{way}_look")
    rng, settings = random.Random(seed), settings_for(project)
    plant(rng, project)
    for _ in range(6):
        begun = look_early(settings.workspace, settings.store)
        with mulligan.Workspace(settings, now_ns=later) as ws:
            ws.expect(begun)
            ws.save()
            with ws._reading() as vault:
                assert vault.checkpoints.current().files_tree == Looking(project).look().tree
        if begun is not None:
            begun.close()
        for _ in range(rng.choice([0, 1, 1, 2, 5])):
            change(rng, rng.choice(directories(project)))


def test_another_save_in_between_makes_an_early_look_void(settings):
    begun = look_early(settings.workspace, settings.store)
    edit(settings, "d3/file", "22")
    assert saved(settings, None) == ("d3/file",)
    edit(settings, "d4/file", "333")
    assert saved(settings, begun) == ("d4/file",)
    begun.close()


def test_a_look_that_is_too_old_does_not_count(settings, monkeypatch, looks):
    begun = look_early(settings.workspace, settings.store)
    edit(settings, "d3/file", "22")
    monkeypatch.setattr(early, "_RECENT", 0)
    assert saved(settings, begun) == ("d3/file",)
    assert len(looks) == 1
    begun.close()


def test_a_recovery_makes_an_early_look_void(settings, monkeypatch, looks):
    begun = look_early(settings.workspace, settings.store)
    edit(settings, "d3/file", "22")
    with mulligan.Workspace(settings, now_ns=later) as ws:
        ws.expect(begun)
        monkeypatch.setattr(ws._bench, "recover", lambda: "A restore was finished.")
        assert ws.save().files_changed == ("d3/file",)
    assert len(looks) == 1
    begun.close()


def test_a_look_at_another_directory_does_not_count(settings, project):
    begun = look_early(settings.workspace, settings.store)
    aside = project.with_name("aside")
    project.rename(aside)
    project.mkdir()
    (project / "new").write_text("1")
    fd = os.open(project, os.O_RDONLY)
    try:
        assert begun.taken(fd, begun.cache) is None
    finally:
        os.close(fd)
    begun.close()


def test_a_look_with_the_memory_of_another_store_does_not_count(settings, tmp_path):
    begun = look_early(settings.workspace, settings.store)
    (tmp_path / "other").mkdir()
    os.link(Path(settings.store, "cache"), tmp_path / "other" / "cache")
    with Directory.open(settings.store) as store, Directory.open(str(tmp_path / "other")) as other:
        assert begun.is_fresh(store) and not begun.is_fresh(other)
    begun.close()


@pytest.mark.parametrize(
    "words", [["save", "--kind", "wrong"], ["save", "--if-changed"], ["status"], ["undo"], ["diff"]]
)
def test_a_command_that_began_to_look_leaves_no_process_behind(settings, words, tmp_path):
    """Also one whose words turn out to be wrong."""
    mark = f"MULLIGAN_TEST_MARK={os.getpid()} {words}"
    name, _, value = mark.partition("=")
    cli("-C", settings.workspace, "--store", settings.store, *words, cwd=tmp_path, MULLIGAN_WATCH="0", **{name: value})
    assert not [process for process in Path("/proc").glob("[0-9]*") if mark.encode() in environ_of(process)]


def environ_of(process: Path) -> bytes:
    try:
        return (process / "environ").read_bytes()
    except OSError:
        return b""  # it ended, or is somebody else's


def children() -> set[str]:
    """Returns the children of this process, those that other tests started included."""
    return {child for task in Path("/proc/self/task").iterdir() for child in (task / "children").read_text().split()}


def test_a_look_that_nobody_asked_for_leaves_nothing_behind(settings):
    open_before, children_before = len(os.listdir("/proc/self/fd")), children()
    begun = look_early(settings.workspace, settings.store)
    begun.close()
    begun.close()
    assert len(os.listdir("/proc/self/fd")) == open_before
    assert children() <= children_before


def test_without_a_store_nothing_is_begun(project):
    settings = settings_for(project)
    assert look_early(settings.workspace, settings.store) is None
