"""`blame` and `why`: which prompt, command, agent or person wrote a line."""

from __future__ import annotations

import asyncio
import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mulligan
import mulligan.aio
from mulligan.diff.lines import changed_blocks
from mulligan.history.attribution import attribute, split_lines
from told import Session, write
from tools import cli, cli_json

ONE, TWO = "aaaa1111-0000-4000-8000-000000000001", "bbbb2222-0000-4000-8000-000000000002"


def makers(project, path="a.py"):
    """The maker of each line: who, the number of the prompt, the command."""
    return [
        (each.text, each.origin.by, each.origin.prompt, each.origin.command if each.origin.by == "agent" else "")
        for each in mulligan.open(project).blame(path).lines
    ]


@pytest.fixture
def day(project):
    """Lines of the first checkpoint, of an agent's shell command, of a person between turns, of another prompt."""
    write(project, {"a.py": "first\nsecond\nspace\n"})
    mulligan.open(project).save("start")
    agent = Session(project, ONE)
    agent.prompt("change the second line")
    agent.does("sed -i s/second/changed/ a.py", {"a.py": "first\nchanged\nspace\n"})
    agent.stop()
    write(project, {"a.py": "first\nchanged\nspace\nby hand\n"})
    agent.prompt("add a line")
    agent.does("echo more >> a.py", {"a.py": "first\nchanged\nspace\nby hand\nmore\n"})
    agent.stop()
    return project


DAY = [
    ("first", "first", 0, ""),
    ("changed", "agent", 1, "sed -i s/second/changed/ a.py"),
    ("space", "first", 0, ""),
    ("by hand", "you", 0, ""),
    ("more", "agent", 2, "echo more >> a.py"),
]


def test_blame_names_prompts_shell_commands_and_people(day):
    assert makers(day) == DAY
    line = cli_json("blame", "a.py", cwd=day)["lines"][4]
    assert {"line", "text", "checkpoint", "prompt", "tool", "agent", "at"} <= set(line)
    assert (line["line"], line["text"], line["prompt"], line["tool"]) == (5, "more", 2, 2)
    assert (line["agent"], line["session"], line["asked"]) == ("claude-code", ONE, "add a line")
    assert cli_json("blame", "a.py", cwd=day)["lines"][3]["agent"] is None


def test_a_line_that_is_in_no_checkpoint_is_marked(day):
    write(day, {"a.py": "first\nchanged\nspace\nby hand\nmore\nnew\n"})
    assert makers(day) == [*DAY, ("new", "unsaved", 0, "")]


def test_a_line_that_an_undo_brought_back_belongs_to_the_step_that_wrote_it(day):
    ws = mulligan.open(day)
    ws.undo()
    assert makers(day) == DAY[:4]
    ws.undo()  # prompt 1; the line by hand stays
    assert makers(day) == [DAY[0], ("second", "first", 0, ""), *DAY[2:4]]
    ws.save("later")
    assert makers(day) == [DAY[0], ("second", "first", 0, ""), *DAY[2:4]]


def test_lines_of_a_restored_state_keep_their_makers(day):
    ws = mulligan.open(day)
    ws.save("all of it")
    ws.restore("start")
    ws.restore("all of it")
    assert makers(day) == DAY


def test_renames_are_followed(day):
    os.rename(day / "a.py", day / "b.py")
    mulligan.open(day).save("moved")
    write(day, {"b.py": "first\nchanged\nspace\nby hand\nmore\nlast\n"})
    mulligan.open(day).save("extended")
    assert makers(day, "b.py") == [*DAY, ("last", "you", 0, "")]


def test_the_agent_that_names_a_file_wrote_it_while_another_was_at_work(project):
    write(project, {"a.py": "first\n", "b.py": "first\n"})
    mulligan.open(project).save("start")
    one, two = Session(project, ONE), Session(project, TWO)
    one.prompt("work on a")
    two.prompt("work on b")
    mine, yours = one.before("Bash", command="echo x >> a.py"), two.before("Bash", command="echo y >> b.py")
    write(project, {"a.py": "first\nx\n", "b.py": "first\ny\n"})
    one.after(mine)
    two.after(yours)
    assert makers(project)[1] == ("x", "agent", 1, "echo x >> a.py")
    assert makers(project, "b.py")[1] == ("y", "agent", 1, "echo y >> b.py")
    assert {each.origin.session for each in mulligan.open(project).blame("b.py").lines} == {"", TWO}


def test_lines_of_steps_that_are_no_longer_kept_have_no_maker(project, private_home):
    (private_home / "xdg-config/mulligan").mkdir()
    (private_home / "xdg-config/mulligan/config.toml").write_text("[retention]\nstep = 2\n")
    write(project, {"a.py": "first\n"})
    mulligan.open(project).save("start")
    agent, text = Session(project, ONE), "first\n"
    for number in range(6):
        agent.prompt(f"add line {number}")
        text += f"line {number}\n"
        agent.does(f"echo {number}", {"a.py": text})
        agent.stop()
    found = makers(project)
    assert found[0][1] == "first" and found[-1] == ("line 5", "agent", 6, "echo 5")
    assert found[1][1] == "unknown"


def test_blame_on_a_terminal_fits_and_why_explains_a_line(day):
    text = cli("blame", "a.py", cwd=day).stdout
    assert "a.py: 5 lines (there at first 2, claude-code 2, you 1)" in text
    assert "claude-code  prompt 2" in text and max(map(len, text.splitlines())) < 80
    assert "\x1b[36m" in cli("blame", "--color", "always", "a.py", cwd=day).stdout
    why = cli("why", "a.py:2", cwd=day).stdout
    for words in (
        "claude-code wrote this line",
        "change the second line",
        "sed -i s/second/changed/ a.py",
        "mulligan show",
    ):
        assert words in why
    assert "You wrote this line" in cli("why", "a.py:4", cwd=day).stdout
    assert cli_json("why", "a.py:5", cwd=day)["lines"][0]["asked"] == "add a line"


def test_lines_cannot_act_on_a_terminal(day):
    write(day, {"a.py": "\x1b]0;title\x07\n"})
    assert "\x1b" not in cli("blame", "a.py", cwd=day).stdout
    assert "\x1b" not in cli("why", "a.py:1", cwd=day).stdout


def test_what_has_no_lines_is_refused_in_words(day):
    write(day, {"binary": "a\0b", ".env": "TOKEN=abcdefgh12345678\n"})
    os.symlink("a.py", day / "link")
    mulligan.open(day).save("odd files")
    write(day, {"new.py": "x\n"})
    for words, code, said in (
        (["blame", "nope.py"], 1, "not in the workspace"),
        (["blame", "."], 1, "not a file"),
        (["blame", "link"], 1, "not a file"),
        (["blame", "binary"], 1, "binary"),
        (["blame", "new.py"], 1, "No checkpoint holds"),
        (["blame", ".env"], 1, "saved sealed"),
        (["blame", "../x"], 83, ""),
        (["why", "a.py"], 2, "FILE:LINE"),
        (["why", "a.py:0"], 1, "5 lines"),
        (["why", "a.py:6"], 1, "5 lines"),
    ):
        done = cli(*words, cwd=day)
        assert (done.returncode, said in done.stderr) == (code, True), words


def test_an_empty_file_and_an_empty_history_are_no_mistakes(project):
    assert cli("blame", "a.py", cwd=project).returncode == 10
    write(project, {"a.py": ""})
    mulligan.open(project).save("empty")
    assert cli_json("blame", "a.py", cwd=project)["lines"] == []
    assert "is empty" in cli("blame", "a.py", cwd=project).stdout


def test_an_agent_trace_record_has_the_fields_of_the_specification(day):
    record = json.loads(cli("blame", "a.py", "--format", "agent-trace", cwd=day).stdout)
    assert record["version"] == "0.1.0" and len(record["id"]) == 36 and record["tool"]["name"] == "mulligan"
    (file,) = record["files"]
    assert file["path"] == "a.py"
    kinds = [each["contributor"]["type"] for each in file["conversations"]]
    assert kinds == ["unknown", "ai", "human", "ai"]
    assert file["conversations"][1]["url"] == f"urn:mulligan:claude-code:{ONE}:prompt-1"
    spans = [(each["start_line"], each["end_line"]) for one in file["conversations"] for each in one["ranges"]]
    assert spans == [(1, 1), (3, 3), (2, 2), (4, 4), (5, 5)]
    assert "vcs" not in record  # no commit of git holds this file


def test_coroutines_blame_too(day):
    async def lines():
        async with await mulligan.aio.open(day) as ws:
            return (await ws.blame("a.py")).lines

    assert len(asyncio.run(lines())) == 5


# -- the lines themselves -----------------------------------------------------------------------

_TEXTS = st.lists(st.sampled_from([b"a", b"b", b"c", b"d", b"", b"e\r"]), max_size=40).map(b"\n".join)


@given(_TEXTS, _TEXTS)
def test_changed_blocks_turn_one_text_into_the_other(old, new):
    before, after = split_lines(old), split_lines(new)
    made, at = [], 0
    for block in changed_blocks(before, after):
        made += before[at : block.old_start] + after[block.new_start : block.new_end]
        at = block.old_end
    assert made + before[at:] == after


@given(st.lists(_TEXTS, min_size=1, max_size=6))
def test_each_line_is_given_to_a_version_that_holds_it(texts):
    newest, *older = enumerate(texts)
    for line, place in zip(split_lines(texts[0]), attribute(newest, older), strict=True):
        assert split_lines(texts[place.key])[place.line] == line
