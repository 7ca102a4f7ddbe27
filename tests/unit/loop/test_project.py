"""A project's checkpoints: engine and records together, whatever happens in between."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import mulligan
from faults import FailsAlways, Killed, KilledAt
from mulligan.errors import MulliganError, NoRoom, Unprotectable
from mulligan.loop.project import ProjectCheckpoints
from mulligan.loop.project_values import Checkpoint, CheckpointType
from mulligan.safefs import syscalls


@pytest.fixture
def checkpoints(project):
    (project / "a").write_text("1")
    (project / "feature_list.json").write_text("[]")
    return ProjectCheckpoints(project)


def folder(project):
    return project / ".claude" / "checkpoints"


def test_a_kill_at_any_call_leaves_a_checkpoint_that_works_or_none(checkpoints, project):
    """Before each call in turn the process dies; another one looks, rolls back and goes on."""
    first = checkpoints.create("first")
    number, finished = 0, False
    while not finished:
        number += 7
        (project / "a").write_text(f"try {number}")
        dying = ProjectCheckpoints(project)
        dying.workspace.position()
        try:
            with syscalls.using(KilledAt(number)):
                dying.create("second")
            finished = True
        except Killed:
            pass
        dying.close()
        for found in ProjectCheckpoints(project).all():
            result = ProjectCheckpoints(project).rollback(found.id)
            assert result, (number, result)
        assert (project / "a").read_text() == "1"
    assert number > 50
    assert checkpoints.get(first.id) == first


def test_a_full_disk_is_said_in_our_words_and_nothing_is_left(checkpoints, project):
    checkpoints.create("first")
    with syscalls.using(FailsAlways(28, "write")), pytest.raises(NoRoom):
        checkpoints.create("second")
    assert [each.name for each in checkpoints.all()] == ["first"]
    assert len({*os.listdir(folder(project))} - {".gitignore"}) == 1
    assert checkpoints.create("third").name == "third"


def test_a_read_only_project_is_refused_in_our_words(checkpoints, project):
    with syscalls.using(FailsAlways(30, "mkdir")), pytest.raises(MulliganError, match="No permission to write"):
        checkpoints.create("x")


def test_other_tools_automatic_checkpoints_are_neither_counted_nor_removed(checkpoints, project, store):
    """Each side keeps the five that its own limit allows."""
    workspace = checkpoints.workspace
    for n in range(8):
        (project / "a").write_text(str(n))
        workspace.save(f"other {n}", kind="automatic")
    made = [checkpoints.create(str(n), "", CheckpointType.AUTOMATIC) for n in range(6)]
    assert [each.id for each in checkpoints.all()] == [each.id for each in made[:0:-1]]
    assert len([cp for cp in workspace.log() if cp.name.startswith("other")]) == 5
    for n in range(8, 12):
        (project / "a").write_text(str(n))
        workspace.save(f"other {n}", kind="automatic")
    assert [each.id for each in checkpoints.all()] == [each.id for each in made[:0:-1]]


def test_what_an_undo_needs_outlives_its_type(checkpoints, project):
    """Rolled back to the oldest automatic checkpoint: the next ones do not take it away under the workspace."""
    made = [checkpoints.create(str(n), "", CheckpointType.AUTOMATIC) for n in range(5)]
    assert checkpoints.rollback(made[0].id)
    checkpoints.create("next", "", CheckpointType.AUTOMATIC)
    assert checkpoints.rollback(made[0].id)


def test_a_project_that_is_none(tmp_path):
    home = Path(os.environ["HOME"])
    with pytest.raises(Unprotectable):
        ProjectCheckpoints(home).create("x")
    assert not (home / ".claude").exists()
    with pytest.raises(MulliganError, match="does not exist"):
        ProjectCheckpoints(tmp_path / "nowhere").create("x")
    assert not (tmp_path / "nowhere").exists()


def test_links_in_place_of_the_state_files_are_kept_as_links(checkpoints, project, tmp_path):
    (tmp_path / "outside.json").write_text('[{"id": "x", "passes": true}]')
    (project / "feature_list.json").unlink()
    (project / "feature_list.json").symlink_to(tmp_path / "outside.json")
    made = checkpoints.create("x")
    assert made.feature_state.completed == []
    assert not (project / made.feature_state.snapshot_path).exists()
    (project / "feature_list.json").unlink()
    assert checkpoints.rollback(made.id)
    assert (project / "feature_list.json").is_symlink()


def test_a_context_that_is_no_json_saves_nothing(checkpoints, project):
    with pytest.raises(TypeError):
        checkpoints.create("x", context={"a": object()})
    assert checkpoints.all() == []
    assert os.listdir(folder(project)) == [".gitignore"]


@pytest.mark.parametrize("wrong", [None, [], {}, {"id": 1}, {"id": "x", "git_state": []}, {"id": "x", "name": 3},
                                   {"id": "x", "git_state": {"dirty_files": [1]}}, {"id": "x", "checkpoint_type": "y"}])  # fmt: skip
def test_json_that_is_no_checkpoint(wrong):
    with pytest.raises(ValueError, match=r"\w"):
        Checkpoint.from_dict(wrong)


def test_one_plain_undo_brings_state_files_back_that_git_ignores(checkpoints, project):
    (project / ".gitignore").write_text("feature_list.json\nclaude-progress.txt\n")
    saved = checkpoints.create("before")
    (project / "feature_list.json").write_text('[{"id": "a", "passes": true}]')
    (project / "claude-progress.txt").write_text("done: a\n")
    assert checkpoints.rollback(saved.id)
    assert (project / "feature_list.json").read_text() == "[]"
    assert not (project / "claude-progress.txt").exists()
    checkpoints.close()

    mulligan.open(project).undo()
    assert (project / "feature_list.json").read_text() == '[{"id": "a", "passes": true}]'
    assert (project / "claude-progress.txt").read_text() == "done: a\n"
