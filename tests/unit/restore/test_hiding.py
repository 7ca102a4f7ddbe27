"""Files that a restore writes and that the rules it brings back hide: undo and redo are exact all the same."""

from __future__ import annotations

import pytest

import mulligan
from checker import judge
from scenes import state_of
from tools import git
from tree import put


@pytest.fixture
def released(ws, project):
    """A checkpoint with files that its own rules hide, which git tracked then; rules and tracking are gone since."""
    git("init", "-q", "-b", "main", cwd=project)
    put(project, ".gitignore", "*.log\n")
    put(project, "x.log", "then")
    put(project, "d/y.log", "then")
    put(project, "seen", "s")
    git("add", "-f", "x.log", "d/y.log", cwd=project)
    ws.save("then")
    git("rm", "-q", "--cached", "x.log", "d/y.log", cwd=project)
    (project / ".gitignore").unlink()
    return project


def gone(project):
    (project / "x.log").unlink()
    (project / "d/y.log").unlink()
    (project / "d").rmdir()


def changed(project):
    put(project, "x.log", "now")
    put(project, "d/y.log", "now")


def replaced(project):
    (project / "x.log").unlink()
    put(project, "x.log/inner", "now a directory")
    put(project, "z.log", "only now")


@pytest.mark.parametrize("since", [gone, changed, replaced])
@pytest.mark.parametrize("saved", [True, False])
def test_undo_is_exact_for_files_that_the_returning_rules_hide(ws, released, store, since, saved):
    since(released)
    if saved:
        ws.save("now")
    before = state_of(released)
    assert ws.restore("then").complete
    after = state_of(released)
    assert after["x.log"][2] == b"then"
    for _ in range(2):
        ws.undo()
        assert state_of(released) == before
        ws.redo()
        assert state_of(released) == after
    ws.close()
    assert judge(store, released) == []


def test_undo_is_exact_for_a_file_that_is_made_where_the_rules_of_today_hide_everything(ws, project):
    """It was tracked when it was saved, in a directory that is ignored; it is neither tracked nor there any more."""
    git("init", "-q", "-b", "main", cwd=project)
    put(project, ".gitignore", "out/\n*.log\n")
    put(project, "out/x", "then")
    put(project, "a.log", "then")
    put(project, "seen", "then")
    git("add", "-f", "out/x", "a.log", cwd=project)
    ws.save("then")
    git("rm", "-q", "--cached", "out/x", "a.log", cwd=project)
    (project / "out/x").unlink()
    (project / "a.log").unlink()
    put(project, "out/hidden", "mine")
    put(project, "seen", "now")
    before = state_of(project)
    ws.restore("then")
    after = state_of(project)
    assert after["out/x"][2] == after["a.log"][2] == b"then"
    for _ in range(2):
        ws.undo()
        assert state_of(project) == before
        ws.redo()
        assert state_of(project) == after


def test_undo_leaves_a_hidden_file_alone_that_was_made_after_the_last_save(ws, project):
    """The restore took the rule away that hid it, and the undo took it for something made since."""
    put(project, "f", "then")
    ws.save("then")
    put(project, ".gitignore", "*.txt\n")
    put(project, "f", "now")
    ws.save("now")
    put(project, "mine.txt", "hidden, and in no checkpoint")
    before = state_of(project)
    ws.restore("then")
    ws.undo()
    assert state_of(project) == before


def test_what_somebody_puts_beside_such_a_file_is_left_alone_by_the_undo(ws, released):
    gone(released)
    ws.restore("then")
    put(released, "d/mine.log", "hidden, and nobody's business")
    ws.undo()
    assert (released / "d/mine.log").read_text() == "hidden, and nobody's business"
    assert not (released / "d/y.log").exists() and not (released / "x.log").exists()


def test_bytes_that_such_a_file_got_meanwhile_are_kept_in_a_checkpoint(ws, released):
    gone(released)
    ws.restore("then")
    put(released, "x.log", "edited since")
    ws.undo()
    held = []
    for checkpoint in [*ws.log(), *ws.log(kind="safety")]:
        try:
            held.append(ws.cat(checkpoint, "x.log"))
        except mulligan.MulliganError:
            continue
    assert b"edited since" in held
