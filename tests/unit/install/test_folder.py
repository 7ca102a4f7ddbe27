"""Installing: what is ours is brought up to date, what a person changed is theirs."""

from __future__ import annotations

import hashlib
import json
import os

import pytest

from faults import Killed, KilledAt
from mulligan.errors import MulliganError, UserError
from mulligan.install.folder import NOTE, InstalledFolder
from mulligan.install.targets import TARGETS, Destination, Home, InstallTarget, destination
from mulligan.safefs import syscalls

OLD = {"A.md": b"old", "scripts/run.py": b"print(1)\n", "gone.md": b"gone"}
NEW = {"A.md": b"new", "scripts/run.py": b"print(1)\n", "fresh/B.md": b"fresh"}


@pytest.fixture
def folder(project):
    return InstalledFolder(Destination(str(project), ".claude/skills/x"))


def found(project):
    top = project / ".claude" / "skills" / "x"
    return {
        path.relative_to(top).as_posix(): path.read_bytes()
        for path in sorted(top.rglob("*"))
        if path.is_file() and path.name != NOTE
    }


def actions(steps):
    return {step.path: step.action for step in steps}


def test_a_plan_writes_nothing(folder, project):
    assert actions(folder.plan(OLD)) == dict.fromkeys(OLD, "create")
    assert os.listdir(project) == []


def test_twice_is_the_same(folder, project):
    folder.install(OLD)
    assert found(project) == OLD
    assert set(actions(folder.install(OLD).steps).values()) == {"unchanged"}
    assert found(project) == OLD


def test_a_newer_version_replaces_and_removes_what_is_still_ours(folder, project):
    folder.install(OLD)
    done = folder.install(NEW)
    assert actions(done.steps) == {
        "A.md": "update", "scripts/run.py": "unchanged", "fresh/B.md": "create", "gone.md": "remove",
    }  # fmt: skip
    assert found(project) == NEW


def test_what_a_person_changed_is_refused_and_with_force_kept_beside(folder, project):
    folder.install(OLD)
    top = project / ".claude" / "skills" / "x"
    (top / "A.md").write_bytes(b"mine")
    (top / "gone.md").write_bytes(b"mine too")
    with pytest.raises(UserError, match=r"A\.md"):
        folder.install(NEW)
    assert found(project) == {**OLD, "A.md": b"mine", "gone.md": b"mine too"}
    assert folder.install(NEW, force=True).copies == ["A.md.yours"]
    assert found(project) == {**NEW, "A.md.yours": b"mine", "gone.md": b"mine too"}
    (top / "A.md").write_bytes(b"mine again")
    assert folder.install(NEW, force=True).copies == ["A.md.yours-2"]


def test_a_folder_of_somebody_else_is_refused(folder, project):
    top = project / ".claude" / "skills" / "x"
    top.mkdir(parents=True)
    (top / "A.md").write_bytes(b"another skill of that name")
    with pytest.raises(UserError, match="changed"):
        folder.install(NEW)
    assert found(project) == {"A.md": b"another skill of that name"}


def test_uninstalling_leaves_what_a_person_changed_or_added(folder, project):
    folder.install(OLD)
    top = project / ".claude" / "skills" / "x"
    (top / "A.md").write_bytes(b"mine")
    (top / "scripts" / "__pycache__").mkdir()
    (top / "scripts" / "__pycache__" / "run.pyc").write_bytes(b"x")
    assert actions(folder.uninstall().steps) == {"A.md": "keep", "scripts/run.py": "remove", "gone.md": "remove"}
    assert found(project) == {"A.md": b"mine"}
    assert not (top / "scripts").exists()
    (top / "A.md").unlink()
    folder.uninstall()
    assert not top.exists()
    assert (project / ".claude" / "skills").exists()


def test_a_run_that_is_cut_short_anywhere_is_finished_by_repeating_it(project):
    """What was half written is still known to be ours, so that the next run does not take it for a person's."""
    finished = number = 0
    while not finished:
        number += 1
        root = project / str(number)
        root.mkdir()
        folder = InstalledFolder(Destination(str(root), ".claude/skills/x"))
        folder.install(OLD)
        try:
            with syscalls.using(KilledAt(number)):
                folder.install(NEW)
            finished = number
        except Killed:
            folder.install(NEW)
        left = [name for name in found(root) if ".mulligan-" not in name]
        assert sorted(left) == sorted(NEW), number
        assert set(actions(folder.plan(NEW)).values()) == {"unchanged"}
    assert finished > 20


def test_uninstalling_what_was_never_installed(folder, project):
    assert folder.uninstall().steps == []
    assert os.listdir(project) == []


@pytest.mark.parametrize("note", [b"", b"{", b"[]", b'{"files": 7}', b'{"files": {"A.md": 7}}', b"[" * 50_000])
def test_a_note_that_cannot_be_read_makes_everything_a_persons(folder, project, note):
    folder.install(OLD)
    (project / ".claude" / "skills" / "x" / NOTE).write_bytes(note)
    with pytest.raises(UserError, match=r"A\.md"):
        folder.install(NEW)
    folder.uninstall()
    assert found(project) == OLD


def test_a_note_that_names_files_elsewhere_reaches_none(folder, project):
    folder.install(OLD)
    (project / "victim").write_bytes(b"new")
    digest = hashlib.sha256(b"new").hexdigest()
    bad = {"files": {"../../../victim": [digest], "/etc/hostname": [digest], "a//b": [digest]}}
    (project / ".claude" / "skills" / "x" / NOTE).write_text(json.dumps(bad))
    assert folder.uninstall().steps == []
    assert (project / "victim").exists()


@pytest.mark.parametrize("where", [".claude", ".claude/skills", ".claude/skills/x", ".claude/skills/x/A.md"])
def test_a_link_below_a_project_is_not_followed(folder, project, tmp_path, where):
    outside = tmp_path / "outside"
    outside.mkdir()
    (project / where).parent.mkdir(parents=True, exist_ok=True)
    (project / where).symlink_to(outside)
    with pytest.raises(MulliganError, match="no plain file"):
        folder.install(NEW)
    assert os.listdir(outside) == []


def test_below_a_home_a_link_is_followed(tmp_path):
    home, dotfiles = tmp_path / "home", tmp_path / "dotfiles"
    home.mkdir()
    dotfiles.mkdir()
    (home / ".claude").symlink_to(dotfiles)
    target = InstallTarget("x", "", "", ".claude/skills/x")
    to = destination(target, "user", project="/nowhere", home=Home(str(home)))
    assert to.directory == str(dotfiles / "skills" / "x")
    InstalledFolder(to).install(NEW)
    assert (dotfiles / "skills" / "x" / "A.md").read_bytes() == b"new"
    again = destination(target, "user", project="/nowhere", home=Home(str(home)))
    assert again.directory == to.directory
    assert set(actions(InstalledFolder(again).plan(NEW)).values()) == {"unchanged"}


def test_every_target_ships_with_the_package():
    for target in TARGETS.values():
        files = target.files()
        assert files
        assert not any("__pycache__" in path for path in files)
