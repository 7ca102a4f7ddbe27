"""The layout of a store."""

from __future__ import annotations

import os
import stat

import pytest

from mulligan.safefs.directory import Directory
from mulligan.store import layout, repository
from stores import opened
from tools import git


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077, 0o777])
def test_nobody_else_can_read_a_store_under_any_umask(tmp_path, umask):
    os.mkdir(tmp_path / "store", 0o700)
    os.umask(umask)
    with opened(tmp_path / "store"):
        pass
    os.umask(0o022)
    for folder, _, files in os.walk(tmp_path / "store"):
        assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700, folder
        for name in files:
            assert stat.S_IMODE(os.stat(os.path.join(folder, name)).st_mode) == 0o600, name


def test_making_it_again_changes_nothing(tmp_path):
    def state():
        return {str(p): (p.stat().st_mtime_ns, p.stat().st_ino) for p in sorted((tmp_path / "store").rglob("*"))}

    with opened(tmp_path / "store"):
        pass
    before = state()
    with opened(tmp_path / "store") as store:
        layout.create(store.directory, name="another")
        assert repository.store_id(store.directory) == "test"
    assert before == state()


def test_a_half_made_store_is_completed(tmp_path):
    """Whatever part is missing, `create` makes it again."""
    for part in ("HEAD", "config", "refs/heads/main", "tmp", "refs/checkpoints"):
        with opened(tmp_path / "store") as store:
            target = tmp_path / "store" / part
            target.rmdir() if target.is_dir() else target.unlink()
            layout.create(store.directory, name="test")
            assert target.exists()
            assert repository.missing_parts(store.directory) == []


def test_missing_parts_are_named(tmp_path):
    with opened(tmp_path / "store") as store:
        (tmp_path / "store" / "HEAD").unlink()
        os.rename(tmp_path / "store" / "objects", tmp_path / "aside")
        assert repository.missing_parts(store.directory) == ["HEAD", "objects"]
        os.rename(tmp_path / "store" / "refs" / "checkpoints", tmp_path / "aside2")
        assert repository.missing_parts(store.directory) == ["HEAD", "objects", "refs/checkpoints"]


def test_a_store_without_a_config_has_no_id(tmp_path):
    with Directory.open(tmp_path) as directory:
        assert None is repository.store_id(directory)


def test_an_id_that_could_break_the_config_is_refused(tmp_path):
    with Directory.open(tmp_path) as directory, pytest.raises(ValueError):
        layout.create(directory, name="x\n[core]")
    assert os.listdir(tmp_path) == []


def test_a_person_who_finds_it_is_told_what_it_is(tmp_path):
    with opened(tmp_path / "store"):
        pass
    assert b"mulligan store" in git("show", "HEAD:README", cwd=tmp_path / "store")


def test_plain_git_refuses_to_tidy_it(tmp_path):
    """Precious objects: a careless `git gc` or `git prune` removes nothing."""
    with opened(tmp_path / "store"):
        pass
    with pytest.raises(AssertionError, match="precious"):
        git("prune", cwd=tmp_path / "store")
