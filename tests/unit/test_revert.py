"""Revert: one step goes, everything later stays; conflicts are listed; one undo takes the revert back."""

from __future__ import annotations

import os

import pytest

import mulligan
from mulligan.model.event import AFTER, BEFORE, PROMPT, STOP, AgentEvent
from tree import contents as snapshot
from tree import put

TEN = "".join(f"line {number}\n" for number in range(1, 11))


class Agent:
    """One session of an agent in a workspace."""

    def __init__(self, ws, project, session="session-1"):
        self.ws, self.project, self.session, self.calls = ws, project, session, 0

    def prompt(self, text, *calls):
        """Sends a prompt; each call is what one tool does, as `{path: text, or None to delete}` or a function."""
        self._tell(PROMPT, text)
        for call in calls:
            self.calls += 1
            self._tell(BEFORE, str(call), tool="Bash", call=str(self.calls))
            if callable(call):
                call()
            else:
                for path, data in call.items():
                    if data is None:
                        (self.project / path).unlink()
                    else:
                        put(self.project, path, data)
            self._tell(AFTER, str(call), tool="Bash", call=str(self.calls))
        self._tell(STOP, "")

    def _tell(self, kind, text, tool="", call=""):
        self.ws.record(AgentEvent("claude-code", self.session, kind, tool=tool, call=call, text=text))


@pytest.fixture
def agent(ws, project):
    put(project, "a", TEN)
    put(project, "b", TEN)
    ws.save("start")
    return Agent(ws, project)


def changed(number, word="changed", text=TEN):
    return text.replace(f"line {number}\n", f"{word} {number}\n")


def test_a_prompt_in_the_middle_is_reverted_and_later_ones_are_kept(ws, project, agent):
    agent.prompt("first", {"a": changed(1), "new": "1"})
    agent.prompt("second", {"a": changed(9, text=changed(1)), "b": changed(5)})
    report = ws.revert("@prompt-1")
    assert (project / "a").read_text() == changed(9)
    assert (project / "b").read_text() == changed(5)
    assert not (project / "new").exists()
    assert (report.modified, report.deleted, report.conflicts) == (["a"], ["new"], [])
    assert (report.undone.kind, report.undone.prompt, report.undone.text) == ("turn", 1, "first")
    assert report.complete


def test_the_story_marks_a_reverted_prompt_until_the_revert_is_undone(ws, agent):
    agent.prompt("first", {"a": changed(1), "b": changed(1)})
    agent.prompt("second", {"a": changed(9, text=changed(1))})
    ws.revert("@prompt-1", paths=["b"])
    assert [chapter.undone for chapter in ws.story()] == [False, False]
    ws.revert("@prompt-1")
    assert [chapter.undone for chapter in ws.story()] == [False, True]
    ws.undo()
    assert [chapter.undone for chapter in ws.story()] == [False, False]


def test_revert_then_undo_is_exact_and_redo_reverts_again(ws, project, agent):
    agent.prompt("first", {"a": changed(1)})
    agent.prompt("second", {"a": changed(9, text=changed(1))})
    put(project, "unsaved", "u")
    before = snapshot(project)
    ws.revert("@prompt-1")
    reverted = snapshot(project)
    ws.undo()
    assert snapshot(project) == before
    ws.redo()
    assert snapshot(project) == reverted
    ws.undo()
    assert snapshot(project) == before


def test_revert_of_the_newest_prompt_is_what_undo_does(ws, project, agent):
    agent.prompt("first", {"a": changed(1)})
    agent.prompt("second", {"a": changed(9, text=changed(1)), "b": None})
    before = snapshot(project)
    ws.revert("@prompt-2")
    reverted = snapshot(project)
    ws.undo()
    assert snapshot(project) == before
    ws.undo()
    assert snapshot(project) == reverted


def test_after_a_redo_the_hint_names_the_session_that_an_undo_would_pass_over(ws, project, agent):
    other = Agent(ws, project, "other-session")
    agent.prompt("first", {"a": changed(1)})
    other.prompt("later", {"b": changed(1)})
    ws.undo(session="session-1")
    report = ws.redo()
    assert report.again == "undo --session session-"
    ws.undo(session=report.again.split()[-1])
    assert (project / "a").read_text() == TEN
    assert (project / "b").read_text() == changed(1)
    ws.redo()
    ws.undo()
    assert (project / "b").read_text() == TEN
    assert ws.redo().again == ""


def test_edits_after_a_revert_are_undone_before_it(ws, project, agent):
    agent.prompt("first", {"a": changed(1)})
    ws.revert("@prompt-1")
    put(project, "later", "edit")
    ws.undo()
    assert (project / "a").read_text() == TEN
    assert not (project / "later").exists()
    ws.undo()
    assert (project / "a").read_text() == changed(1)


def test_one_tool_call_a_session_and_a_checkpoint_can_be_reverted(ws, project, agent):
    agent.prompt("first", {"a": changed(1)}, {"b": changed(2)})
    other = Agent(ws, project, "other")
    other.prompt("elsewhere", {"c": "other"})
    put(project, "d", "mine")
    saved = ws.save("mine")
    put(project, "e", "later")
    assert ws.revert("@session-1/tool-2").undone.kind == "tool"
    assert (project / "b").read_text() == TEN
    assert (project / "a").read_text() == changed(1)
    assert ws.revert(saved).deleted == ["d"]
    assert ws.revert("other").undone.kind == "session"
    assert not (project / "c").exists()
    assert ws.revert("session-1").modified == ["a"]
    assert (project / "e").read_text() == "later"


def test_conflicts_are_listed_with_both_sides_and_the_file_is_left_alone(ws, project, agent):
    agent.prompt("first", {"a": changed(1), "b": changed(2)})
    put(project, "a", changed(1, "mine"))
    report = ws.revert("@prompt-1")
    assert (project / "a").read_text() == changed(1, "mine")
    assert (project / "b").read_text() == TEN
    (conflict,) = report.conflicts
    assert (conflict.path, conflict.ours, conflict.theirs) == ("a", "mine 1\n", "line 1\n")
    assert conflict.clashes[0].line == 1
    assert not report.complete
    assert report.to_dict()["conflicts"][0]["clashes"][0]["base"] == "changed 1\n"


@pytest.mark.parametrize(
    ("conflicts", "expected"),
    [
        ("ours", changed(1, "mine")),
        ("theirs", TEN),
        ("markers", '<<<<<<< now\nmine 1\n=======\nline 1\n>>>>>>> before prompt 1 "first"\n' + TEN[7:]),
    ],
)
def test_a_conflict_gets_markers_or_one_side(ws, project, agent, conflicts, expected):
    agent.prompt("first", {"a": changed(9, text=changed(1))})
    put(project, "a", changed(9, text=changed(1, "mine")))
    before = snapshot(project)
    report = ws.revert("@prompt-1", conflicts=conflicts)
    assert (project / "a").read_text() == expected
    assert bool(report.conflicts) == (conflicts == "markers")
    assert report.complete == (conflicts != "markers")
    ws.undo()
    assert snapshot(project) == before


def test_what_is_not_text_is_listed_with_a_reason_or_taken_from_a_side(ws, project, agent):
    put(project, "binary", b"\0one")
    os.symlink("a", project / "link")
    ws.save("more")

    def work():
        put(project, "binary", b"\0two")
        (project / "link").unlink()
        os.symlink("b", project / "link")
        put(project, "made", "1")
        (project / "b").unlink()

    agent.prompt("first", work)
    put(project, "binary", b"\0three")
    (project / "link").unlink()
    os.symlink("elsewhere", project / "link")
    put(project, "made", "2")
    put(project, "b", "again")
    before = snapshot(project)
    plan = ws.revert("@prompt-1", dry_run=True)
    assert {each.path for each in plan.conflicts} == {"binary", "link", "made", "b"}
    assert all(each.reason and each.ours is None for each in plan.conflicts)
    report = ws.revert("@prompt-1")
    assert snapshot(project) == before
    assert [each.path for each in report.conflicts] == ["b", "binary", "link", "made"]
    ws.revert("@prompt-1", conflicts="theirs")
    assert (project / "binary").read_bytes() == b"\0one"
    assert os.readlink(project / "link") == "a"
    assert not (project / "made").exists()
    assert (project / "b").read_text() == TEN
    ws.undo()
    assert snapshot(project) == before


def test_a_rename_is_reverted_with_later_edits_under_the_new_name(ws, project, agent):
    def rename():
        (project / "a").rename(project / "renamed")
        put(project, "renamed", changed(1))

    agent.prompt("first", rename)
    put(project, "renamed", changed(9, text=changed(1)))
    before = snapshot(project)
    report = ws.revert("@prompt-1")
    assert report.complete
    assert not (project / "renamed").exists()
    assert (project / "a").read_text() == changed(9)
    ws.undo()
    assert snapshot(project) == before
    put(project, "renamed", changed(1, "mine"))
    (conflict,) = ws.revert("@prompt-1").conflicts
    assert conflict.path == "renamed"
    assert (project / "renamed").read_text() == changed(1, "mine")
    assert not (project / "a").exists()
    ws.revert("@prompt-1", conflicts="theirs")
    assert (project / "a").read_text() == TEN
    assert not (project / "renamed").exists()


def test_an_edit_is_reverted_in_a_file_that_was_renamed_since(ws, project, agent):
    agent.prompt("first", {"a": changed(1)})
    (project / "a").rename(project / "later")
    put(project, "later", changed(9, text=changed(1)))
    before = snapshot(project)
    assert ws.revert("@prompt-1").modified == ["later"]
    assert (project / "later").read_text() == changed(9)
    assert not (project / "a").exists()
    ws.undo()
    assert snapshot(project) == before


def test_changes_of_one_prompt_to_the_same_lines_are_reverted_as_one(ws, project, agent):
    agent.prompt("first", {"a": changed(1)}, {"a": changed(1, "again")}, {"a": TEN})
    put(project, "a", changed(1, "mine"))
    with pytest.raises(mulligan.NothingToUndo):
        ws.revert("@prompt-1")
    assert (project / "a").read_text() == changed(1, "mine")


def test_reverts_of_independent_steps_commute(ws, project, agent):
    agent.prompt("first", {"a": changed(1)})
    agent.prompt("second", {"a": changed(9, text=changed(1)), "b": None})
    ws.revert("@prompt-1")
    ws.revert("@prompt-2")
    one = snapshot(project)
    ws.undo()
    ws.undo()
    ws.revert("@prompt-2")
    ws.revert("@prompt-1")
    assert snapshot(project) == one
    assert (project / "a").read_text() == TEN


def test_some_paths_of_a_step_can_be_reverted(ws, project, agent):
    agent.prompt("first", {"a": changed(1), "b": changed(1)})
    ws.revert("@prompt-1", paths=["a"])
    assert (project / "a").read_text() == TEN
    assert (project / "b").read_text() == changed(1)


def test_a_secret_is_reverted_or_listed_and_never_shown(ws, project, agent):
    put(project, ".env", "KEY=1\n")
    ws.save("secret")
    agent.prompt("first", {".env": "KEY=2\n"})
    (files,) = ws.hunks("@prompt-1", revert=True)
    assert [hunk.lines for hunk in files.hunks] == [()]
    ws.revert("@prompt-1")
    assert (project / ".env").read_text() == "KEY=1\n"
    ws.undo()
    put(project, ".env", "KEY=3\n")
    (conflict,) = ws.revert("@prompt-1").conflicts
    assert (conflict.path, conflict.ours) == (".env", None)
    assert (project / ".env").read_text() == "KEY=3\n"


def test_permissions_are_reverted_on_a_file_that_was_edited_since(ws, project, agent):
    agent.prompt("first", lambda: (project / "a").chmod(0o755))
    put(project, "a", changed(1))
    (project / "a").chmod(0o755)
    ws.revert("@prompt-1")
    assert (project / "a").stat().st_mode & 0o777 == 0o644
    assert (project / "a").read_text() == changed(1)


def test_what_cannot_be_reverted_is_refused_with_nothing_changed(ws, project, agent):
    before = snapshot(project)
    with pytest.raises(mulligan.UserError, match="first checkpoint"):
        ws.revert("start")
    with pytest.raises(mulligan.UnknownCheckpoint):
        ws.revert("nonsense")
    with pytest.raises(mulligan.UserError, match="conflicts is one of"):
        ws.revert("start", conflicts="mine")
    agent.prompt("nothing", lambda: None)
    with pytest.raises(mulligan.NothingToUndo):
        ws.revert("@prompt-1")
    assert snapshot(project) == before


# -- hunks ---------------------------------------------------------------------------------------------


def edited(*numbers):
    text = TEN
    for number in numbers:
        text = changed(number, text=text)
    return text


def test_hunks_of_a_restore_can_be_chosen(ws, project, agent):
    put(project, "a", edited(1, 10))
    put(project, "new", "new\n")
    files = ws.hunks("start")
    assert [(each.path, each.change, len(each.hunks)) for each in files] == [("a", "modify", 2), ("new", "delete", 1)]
    first, second = files[0].hunks
    assert (first.header, second.header) == ("@@ -1,4 +1,4 @@", "@@ -7,4 +7,4 @@")
    assert first.lines[:2] == (("-", "changed 1"), ("+", "line 1"))
    assert ws.hunks("start") == files
    report = ws.restore("start", hunks=[second.id])
    assert (report.modified, report.deleted) == (["a"], [])
    assert (project / "a").read_text() == edited(1)
    assert (project / "new").exists()
    ws.undo()
    assert (project / "a").read_text() == edited(1, 10)


def test_hunks_of_a_revert_and_of_an_undo_can_be_chosen(ws, project, agent):
    agent.prompt("first", {"a": edited(1, 10), "b": edited(1)})
    put(project, "a", edited(1, 5, 10))
    before = snapshot(project)
    hunks = {hunk.lines[0].text: hunk.id for each in ws.hunks("@prompt-1", revert=True) for hunk in each.hunks}
    (files, _) = ws.hunks(ws.undo(dry_run=True))
    plan = ws.revert("@prompt-1", hunks=[files.hunks[-1].id], dry_run=True)
    assert (plan.modifies, plan.deletes) == (["a"], [])
    ws.apply(plan)
    assert (project / "b").read_text() == edited(1)
    assert hunks
    ws.undo()
    assert snapshot(project) == before
    ws.undo(hunks=[files.hunks[0].id])
    assert (project / "b").read_text() == edited(1)
    ws.redo()
    assert snapshot(project) == before


def test_all_hunks_together_are_the_whole_restore(ws, project, agent):
    put(project, "a", edited(1, 10))
    (project / "a").chmod(0o755)
    put(project, "deep/new/file", "new\n")
    put(project, "binary", b"\0")
    (project / "b").unlink()
    os.symlink("a", project / "link")
    expected = ws.plan("start")
    ids = [hunk.id for each in ws.hunks("start") for hunk in each.hunks]
    assert ws.plan("start", hunks=ids).actions == expected.actions
    kinds = {hunk.kind for each in ws.hunks("start") for hunk in each.hunks}
    assert kinds == {"lines", "mode", "whole"}


def test_a_stale_or_unknown_hunk_is_refused(ws, project, agent):
    put(project, "a", edited(1))
    (files,) = ws.hunks("start")
    put(project, "a", edited(2))
    before = snapshot(project)
    for hunks in ([files.hunks[0].id], ["nonsense"]):
        with pytest.raises(mulligan.PlanStale):
            ws.restore("start", hunks=hunks)
        with pytest.raises(mulligan.PlanStale):
            ws.plan("start", hunks=hunks)
    with pytest.raises(TypeError):
        ws.restore("start", hunks="abc")
    assert snapshot(project) == before
    assert ws.plan("start", hunks=[]).is_noop


# -- plans that are applied ----------------------------------------------------------------------------


def test_plans_of_undo_redo_and_revert_are_applied_as_if_the_verb_was_called(ws, project, agent):
    agent.prompt("first", {"a": edited(1)})
    agent.prompt("second", {"a": edited(1, 9)})
    start = snapshot(project)
    for plan in (lambda: ws.undo(dry_run=True), lambda: ws.revert("@prompt-1", dry_run=True)):
        made = plan()
        assert snapshot(project) == start
        assert made.digest == plan().digest
        report = ws.apply(made)
        assert report.undone == made.undone
        assert snapshot(project) != start
        if made.request.verb == "undo":
            forward = ws.redo(dry_run=True)
            assert forward.undone.prompt == 2
            ws.apply(forward)
        else:
            ws.undo()
        assert snapshot(project) == start
    ws.apply(ws.undo(dry_run=True))
    ws.apply(ws.undo(dry_run=True))
    assert (project / "a").read_text() == TEN
    ws.apply(ws.redo(dry_run=True))
    assert (project / "a").read_text() == edited(1)
    ws.undo()
    assert (project / "a").read_text() == TEN


def test_a_plan_that_no_longer_holds_is_refused(ws, project, agent):
    agent.prompt("first", {"a": edited(1), "b": edited(1)})
    undo, revert = ws.undo(dry_run=True), ws.revert("@prompt-1", dry_run=True)
    put(project, "a", edited(1, 9))
    before = snapshot(project)
    for plan in (undo, revert):
        with pytest.raises(mulligan.PlanStale):
            ws.apply(plan)
        assert snapshot(project) == before
    report = ws.apply(revert, strict=False)
    assert (report.modified, [keep.path for keep in report.kept]) == (["b"], ["a"])
    assert (project / "a").read_text() == edited(1, 9)


def test_a_plan_of_an_undo_is_stale_once_it_was_applied(ws, project, agent):
    agent.prompt("first", {"a": edited(1)})
    agent.prompt("second", {"b": edited(1)})
    plan = ws.undo(dry_run=True)
    ws.apply(plan)
    with pytest.raises(mulligan.PlanStale):
        ws.apply(plan)
    assert (project / "a").read_text() == edited(1)


def test_plans_of_saves_and_restores_are_applied_too(ws, project, agent):
    put(project, "a", edited(1))
    ws.save("two")
    ws.apply(ws.undo(dry_run=True))
    assert (project / "a").read_text() == TEN
    ws.apply(ws.redo(dry_run=True))
    assert (project / "a").read_text() == edited(1)
    ws.restore("start")
    ws.apply(ws.undo(dry_run=True))
    assert (project / "a").read_text() == edited(1)
    ws.apply(ws.redo(dry_run=True))
    assert (project / "a").read_text() == TEN
