"""Opening a store: whose it is, whether it is whole, and what is said when it is not."""

from __future__ import annotations

import os
import shutil
import subprocess
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import mulligan
from checker import judge
from mulligan.safefs.directory import Directory
from tools import git
from tree import put


def test_a_store_that_is_deleted_under_an_open_workspace_begins_anew(ws, project, store):
    """What the process remembers of the old store's objects does not pass for the new one's."""
    put(project, "f", "1")
    ws.save("one")
    ws.save("two")
    shutil.rmtree(store)
    assert ws.log() == []
    assert ws.save("three").parent is None
    assert [cp.name for cp in ws.log()] == ["three"] and ws.cat("@", "f") == b"1"
    ws.close()
    assert judge(store) == []


def test_a_timeline_that_is_rebuilt_elsewhere_is_seen(ws, project, store):
    put(project, "f", "1")
    ws.save("one")
    (store / "timeline.db").unlink()
    other = mulligan.open(project, store=store)
    other.doctor()
    other.save("two")
    assert [cp.name for cp in ws.log()] == ["two", "one"]


@pytest.mark.parametrize("make", ["repository", "folder"])
def test_a_directory_with_something_else_in_it_never_becomes_a_store(project, store, make):
    """A store is pruned, and pruning would take what is not a checkpoint's."""
    put(project, "f", "1")
    store.mkdir(mode=0o700)
    if make == "repository":
        git("init", "-q", "--bare", store)
    else:
        put(store, "thesis", "x")
    before = sorted(store.rglob("*"))
    with pytest.raises(mulligan.Unprotectable, match="no store of mulligan"):
        mulligan.open(project, store=store).save("one")
    assert sorted(store.rglob("*")) == before


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_store_that_another_process_makes_at_this_moment_is_not_taken_for_something_else(
    project, store, monkeypatch, moment
):
    """Whether it comes just before or just after the look at what is there: nobody's first save is refused."""
    put(project, "f", "1")
    real = Directory.names

    def look(directory: Directory) -> list[bytes]:
        monkeypatch.setattr(Directory, "names", real)
        found = real(directory)
        mulligan.open(project, store=store).save("theirs")
        return real(directory) if moment == "before" else found

    monkeypatch.setattr(Directory, "names", look)
    mulligan.open(project, store=store).save("mine")
    assert [cp.name for cp in mulligan.open(project, store=store).log()] == ["mine", "theirs"]


def test_a_store_whose_making_was_cut_short_is_completed(project, store):
    put(project, "f", "1")
    for parts in (["objects/pack", "refs"], ["tmp"], []):
        for part in parts:
            (store / part).mkdir(parents=True)
        for folder in store.rglob("*") if store.exists() else ():
            folder.chmod(0o700)
        store.mkdir(exist_ok=True)
        store.chmod(0o700)
        ws = mulligan.open(project, store=store)
        ws.save("one")
        ws.close()
        assert judge(store) == []
        shutil.rmtree(store)


def test_an_empty_timeline_beside_checkpoints_is_damage_and_no_empty_history(ws, project, store):
    put(project, "f", "1")
    ws.save("one")
    ws.close()
    os.truncate(store / "timeline.db", 0)
    for verb in (ws.log, ws.save, ws.check):
        with pytest.raises(mulligan.StoreDamaged, match="empty"):
            verb()
        ws.close()
    assert ws.doctor().ok
    assert [cp.name for cp in ws.log()] == ["one"]


def test_the_timeline_of_another_store_is_refused(tmp_path, project):
    put(project, "f", "1")
    for name in ("a", "b"):
        ws = mulligan.open(project, store=tmp_path / name)
        ws.save(name)
        ws.close()
    shutil.copy(tmp_path / "b" / "timeline.db", tmp_path / "a" / "timeline.db")
    for verb in ("log", "doctor", "save"):
        refused = pytest.raises(mulligan.StoreDamaged, match="belongs to another store")
        with mulligan.open(project, store=tmp_path / "a") as ws, refused:
            getattr(ws, verb)()


def test_a_copied_store_is_a_store(ws, tmp_path, project, store):
    put(project, "f", "1")
    ws.save("one")
    ws.close()
    shutil.copytree(store, tmp_path / "copy")
    copy = mulligan.open(project, store=tmp_path / "copy")
    copy.save("two")
    assert [cp.name for cp in copy.log()] == ["two", "one"] and [cp.name for cp in ws.log()] == ["one"]


@pytest.mark.parametrize("part", ["HEAD", "config", "objects", "refs"])
def test_a_store_that_was_deleted_in_part_says_what_it_lacks(ws, project, store, part):
    put(project, "f", "1")
    ws.save("one")
    ws.close()
    place = store / part
    shutil.rmtree(place) if place.is_dir() else place.unlink()
    with pytest.raises(mulligan.StoreDamaged, match=part) as caught:
        ws.log()
    assert "doctor" in caught.value.hint


@contextmanager
def not_writable(place: Path) -> Iterator[None]:
    """A directory that this user may not write, root or not."""
    if os.geteuid() == 0:
        bind = subprocess.run(["mount", "--bind", "-o", "ro", place, place], capture_output=True, check=False)
        if bind.returncode:
            pytest.skip("mounts are forbidden here")
    else:
        for path in (place, *place.rglob("*")):
            path.chmod(0o500 if path.is_dir() else 0o400)
    try:
        yield
    finally:
        if os.geteuid() == 0:
            subprocess.run(["umount", place], check=True)
        place.chmod(0o700)


@pytest.mark.parametrize("left_open", [False, True])
def test_a_store_that_may_not_be_written_can_be_read(ws, tmp_path, project, store, left_open):
    """Also one whose last writer was killed, so that its newest rows are in SQLite's log alone."""
    put(project, "f", "1")
    ws.save("one")
    put(project, "f", "2")
    if not left_open:
        ws.close()
    shutil.copytree(store, tmp_path / "odd?#%name")
    with not_writable(tmp_path / "odd?#%name"):
        reader = mulligan.open(project, store=tmp_path / "odd?#%name")
        assert [cp.name for cp in reader.log()] == ["one"]
        assert (reader.cat("one", "f"), reader.diff("one").modified) == (b"1", ["f"])
        assert reader.check().ok
        with pytest.raises(mulligan.MulliganError, match="No permission to write"):
            reader.save("two")
        reader.close()
    assert reader.save("two").name == "two"


def test_a_forked_process_opens_the_store_anew_and_leaves_the_parents_alone(project, store):
    """SQLite forbids a connection to cross a fork."""
    put(project, "a", "1")
    ws = mulligan.open(project, store=store)
    ws.save("parent")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the test runner has threads; the child touches none
        child = os.fork()
    if not child:
        code = 1
        try:
            put(project, "a", "2")
            ws.save("child")
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    put(project, "a", "3")
    ws.save("parent again")
    assert [cp.name for cp in ws.log()] == ["parent again", "child", "parent"]
    assert judge(store) == []
