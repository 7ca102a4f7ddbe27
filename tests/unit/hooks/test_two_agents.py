"""Two agents, and a person, in one workspace: each undo takes back one session's work and keeps the others'."""

from __future__ import annotations

import os

import pytest

import mulligan
from mulligan.diff.merge import merge
from told import Session, files, write
from tools import cli

POEM = "".join(f"line {n}\n" for n in range(1, 21))


@pytest.fixture
def both(project):
    write(project, {"poem.txt": POEM, "a.txt": "a\n", "b.txt": "b\n", "src/deep/x.txt": "x\n"})
    one, two = Session(project, "aaaa-1"), Session(project, "bbbb-2")
    for each in (one, two):
        each.tell("SessionStart", source="startup")
    return one, two


def undo(project, **more):
    return mulligan.open(project).undo(**more)


def redo(project):
    return mulligan.open(project).redo()


def edited(**lines):
    text = POEM.splitlines(keepends=True)
    for name, words in lines.items():
        text[int(name[1:]) - 1] = words + "\n"
    return "".join(text)


def test_an_undo_keeps_what_another_agent_did_meanwhile(project, both):
    one, two = both
    one.prompt("one")
    two.prompt("two")
    one.does("1", {"a.txt": "by one\n", "one.txt": "1\n"})
    two.does("2", {"b.txt": "by two\n", "src/two.txt": "2\n"})
    one.does("3", {"src/deep/x.txt": None, "one/more.txt": "1\n"})
    two.stop()
    one.stop()
    everything = files(project)
    report = undo(project)
    assert files(project) == {
        "poem.txt": POEM,
        "a.txt": "a\n",
        "b.txt": "by two\n",
        "src/deep/x.txt": "x\n",
        "src/two.txt": "2\n",
    }
    assert report.complete and not (project / "one").exists()
    mulligan.open(project).redo()
    assert files(project) == everything


def test_edits_of_one_file_are_told_apart_by_their_lines(project, both):
    one, two = both
    one.prompt("one")
    two.prompt("two")
    one.does("1", {"poem.txt": edited(l2="ONE")})
    two.does("2", {"poem.txt": edited(l2="ONE", l10="TWO")})
    one.does("3", {"poem.txt": edited(l2="ONE", l10="TWO", l18="ONE AGAIN")})
    one.stop()
    two.stop()
    undo(project, session="aaaa")
    assert files(project)["poem.txt"] == edited(l10="TWO")
    undo(project, session="bbbb")
    assert files(project)["poem.txt"] == POEM
    with pytest.raises(mulligan.NothingToUndo):
        undo(project, session="aaaa")
    # Each of these was an operation of its own.
    redo(project)
    assert files(project)["poem.txt"] == edited(l10="TWO")
    redo(project)
    assert files(project)["poem.txt"] == edited(l2="ONE", l10="TWO", l18="ONE AGAIN")


def test_what_cannot_be_told_apart_is_left_and_listed_and_nothing_is_lost(project, both):
    one, two = both
    one.prompt("one")
    one.does("1", {"poem.txt": edited(l2="ONE"), "a.txt": "by one\n"})
    two.prompt("two")
    two.does("2", {"poem.txt": edited(l2="ONE AND TWO")})
    one.stop()
    two.stop()
    before = files(project)
    done = cli("undo", "--session", "aaaa-1", cwd=project)
    assert done.returncode == 3 and "poem.txt" in done.stdout and "changed again since" in done.stdout
    assert files(project) == {**before, "a.txt": "a\n"}
    redo(project)
    assert files(project) == before


def test_a_person_s_edit_in_the_middle_of_a_turn_is_kept(project, both):
    one, _ = both
    one.prompt("one")
    one.does("1", {"a.txt": "by one\n"})
    write(project, {"mine.txt": "mine\n", "poem.txt": edited(l20="MINE")})
    one.does("2", {"poem.txt": edited(l1="ONE", l20="MINE")})
    one.stop()
    undo(project)
    found = files(project)
    assert (found["a.txt"], found["mine.txt"], found["poem.txt"]) == ("a\n", "mine\n", edited(l20="MINE"))


def test_subagents_whose_calls_overlap_belong_to_one_turn(project, both):
    """What one subagent has changed when the call of another begins is the session's work, and nobody else's."""
    first, _ = both
    before = files(project)
    first.prompt("divide it")
    first.tell("PreToolUse", tool_name="Agent", tool_use_id="agent", tool_input={"prompt": "both halves"})
    write(project, {"mine.txt": "typed while they think\n"})
    calls = [{"tool_name": "Bash", "tool_use_id": who, "agent_id": who, "tool_input": {"command": who}} for who in "xy"]
    first.tell("PreToolUse", **calls[0])
    write(project, {"x.txt": "half done\n"})
    first.tell("PreToolUse", **calls[1])
    write(project, {"x.txt": "done\n", "y.txt": "done\n"})
    for call in calls:
        first.tell("PostToolUse", **call)
    first.tell("PostToolUse", tool_name="Agent", tool_use_id="agent", tool_input={"prompt": "both halves"})
    first.stop()
    undo(project)
    assert files(project) == before | {"mine.txt": "typed while they think\n"}


def test_overlapping_calls_are_told_apart_by_the_files_they_name(project, both):
    """A tool that ends while another runs may find the other's work too: the file that the other named is the other's."""
    one, two = both
    one.prompt("one")
    two.prompt("two")
    first = one.before("Edit", file_path=str(project / "a.txt"))
    second = two.before("Edit", file_path=str(project / "b.txt"))
    write(project, {"a.txt": "by one\n", "b.txt": "by two\n"})
    two.after(second)
    one.after(first)
    two.stop()
    one.stop()
    undo(project, session="bbbb")
    assert (files(project)["a.txt"], files(project)["b.txt"]) == ("by one\n", "b\n")


def test_modes_and_links_come_back_too(project, both):
    one, two = both
    os.symlink("a.txt", project / "link")
    (project / "a.txt").chmod(0o600)
    one.prompt("one")
    call = one.before("Bash", command="chmod")
    (project / "a.txt").chmod(0o644)
    (project / "link").unlink()
    (project / "link").write_text("no link\n")
    (project / "b.txt").unlink()
    one.after(call)
    two.prompt("two")
    two.does("2", {"src/two.txt": "2\n"})
    one.stop()
    undo(project, session="aaaa")
    assert (project / "a.txt").stat().st_mode & 0o777 == 0o600
    assert os.readlink(project / "link") == "a.txt" and (project / "b.txt").read_text() == "b\n"
    assert (project / "src/two.txt").exists()


def test_a_killed_session_s_unsaved_work_goes_with_its_turn(project, both):
    one, two = both
    two.prompt("two")
    two.does("2", {"b.txt": "by two\n"})
    two.stop()
    one.prompt("one")
    one.does("1", {"a.txt": "by one\n"})
    one.before("Bash", command="half")
    write(project, {"half.txt": "half\n"})
    undo(project)
    assert files(project)["a.txt"] == "a\n" and "half.txt" not in files(project)
    assert files(project)["b.txt"] == "by two\n"


@pytest.mark.parametrize(
    ("base", "ours", "theirs", "both_kept"),
    [
        (b"1\n2\n3\n", b"1\n2\n3\n4\n", b"0\n1\n2\n3\n", b"0\n1\n2\n3\n4\n"),
        (b"1\n2\n3\n", b"1\nX\n3\n", b"1\nX\n3\n", b"1\nX\n3\n"),
        (b"1\n2\n3\n", b"1\nX\n3\n", b"1\nY\n3\n", None),
        (b"1\n2\n3\n4\n5\n", b"1\n5\n", b"1\n2\n3\nX\n5\n", None),
        (b"", b"a\n", b"b\n", None),
        (b"1\n2\n3", b"1\n2\n3\n", b"0\n1\n2\n3", b"0\n1\n2\n3\n"),
        (b"\0a\n\nb", b"\0b\n\nb", b"\0a\n\nc", None),
        (b"\0a", b"\0a", b"\0c", b"\0c"),
    ],
)
def test_a_merge_keeps_both_sides_or_gives_up(base, ours, theirs, both_kept):
    assert merge(base, ours, theirs) == both_kept
    assert merge(base, theirs, ours) == both_kept
