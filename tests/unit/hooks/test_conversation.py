"""The conversation in a checkpoint: its place, a copy without secrets, and a session to go on from there."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

import mulligan
from mulligan.cli import main
from mulligan.hooks.conversation import MOST_COPIED, resume
from mulligan.safefs import syscalls
from told import Session, write
from tools import cli, cli_json

TOKEN = "ghp_" + "a1B2" * 9


class Talk(Session):
    """A session that writes a transcript, as Claude Code does."""

    def __init__(self, project, name, folder):
        super().__init__(project, name)
        folder.mkdir(exist_ok=True)
        self.file = folder / f"{name}.jsonl"

    def tell(self, event, **more):
        return super().tell(event, transcript_path=str(self.file), **more)

    def says(self, **message):
        with open(self.file, "a") as file:
            file.write(json.dumps({"sessionId": self.name, **message}) + "\n")


@pytest.fixture
def talk(project, tmp_path):
    write(project, {"a.txt": "a\n"})
    told = Talk(project, "11111111-aaaa", tmp_path / "transcripts")
    told.tell("SessionStart", source="startup")
    return told


def said(project, ref="@"):
    return mulligan.open(project).get(ref).state["conversation"]


def use(call, **given):
    return {
        "type": "assistant",
        "message": {"content": [{"type": "tool_use", "id": call, "name": "Bash", "input": given}]},
    }


def result(call, text):
    content = [{"type": "tool_result", "tool_use_id": call, "content": text}]
    return {"type": "user", "message": {"content": content}, "toolUseResult": {"stdout": text}}


def test_each_checkpoint_holds_what_was_said_since_the_last(project, talk):
    talk.says(type="user", text="first")
    talk.prompt("first")
    talk.does("one", {"a.txt": "1\n"})
    talk.says(type="assistant", text="second")
    talk.does("ls", {})
    talk.does("two", {"a.txt": "2\n"})
    assert [json.loads(line)["text"] for line in said(project, "latest~1")["said"]] == ["first"]
    newest = said(project)
    assert [json.loads(line)["text"] for line in newest["said"]] == ["second"]
    assert newest["at"] == talk.file.stat().st_size and newest["path"] == str(talk.file)


def test_a_subagent_with_a_transcript_of_its_own_takes_nothing_from_its_agent_s(project, talk, tmp_path):
    """Codex gives each subagent a file of its own, longer than what its agent has said meanwhile."""
    talk.says(type="user", text="first")
    talk.prompt("first")
    talk.does("one", {"a.txt": "1\n"})
    below = Talk(project, talk.name, tmp_path / "below")
    below.says(type="user", text="the part " * 100)
    write(project, {"b.txt": "2\n"})
    below.tell("PostToolUse", tool_name="Bash", tool_use_id="below", tool_input={}, agent_id="b")
    talk.says(type="assistant", text="second")
    talk.says(type="assistant", text="third" * 300)
    talk.does("three", {"a.txt": "3\n"})
    assert [json.loads(line)["text"] for line in said(project)["said"]] == ["second", "third" * 300]


def test_secrets_that_an_agent_printed_are_left_out(project, talk):
    talk.says(**use("c1", command="cat config/.env.local"))
    talk.says(**result("c1", "WEATHER=sunny-and-private"))
    talk.says(**use("c2", command="env"))
    talk.says(**result("c2", f"GITHUB={TOKEN}\nDB_PASSWORD=hunter2hunter2"))
    talk.says(type="assistant", login={"user": "me", "password": "open-sesame"})
    talk.says(type="user", toolUseResult={"file": {"filePath": "/home/me/.ssh/id_rsa", "content": "AAAAB3"}})
    talk.prompt("look")
    talk.does("x", {"a.txt": "1\n"})
    text = json.dumps(mulligan.open(project).get("@").to_dict())
    assert "left-out" in text and "cat config/.env.local" in text
    for secret in ("sunny-and-private", TOKEN, "hunter2hunter2", "AAAAB3", "open-sesame"):
        assert secret not in text


def test_a_secret_whose_reading_was_told_in_an_earlier_checkpoint_is_left_out(project, talk):
    """The call is in one copy, what it printed in the next; what belongs to no known call is not copied either."""
    talk.prompt("look")
    talk.says(**use("c1", command="cat config/.env.local"))
    talk.says(**use("c2", command="cat README"))
    talk.does("x", {"a.txt": "1\n"})
    talk.says(**result("c1", "WEATHER=sunny-and-private"))
    talk.says(**result("c2", "open to everybody"))
    talk.says(**result("c0", "somewhere before"))
    talk.does("y", {"a.txt": "2\n"})
    text = json.dumps(said(project))
    assert "open to everybody" in text
    assert "sunny-and-private" not in text and "somewhere before" not in text


@pytest.mark.parametrize(
    ("call", "answer"),
    [
        (
            {"type": "function_call", "id": "fc_1", "call_id": "call_1", "arguments": '{"command":["cat",".env"]}'},
            {"type": "function_call_output", "call_id": "call_1", "output": "PRIVATE"},
        ),
        (
            {"type": "local_shell_call", "call_id": "call_1", "action": {"command": ["cat", ".env"]}},
            {"type": "exec_command_end", "call_id": "call_1", "stdout": "PRIVATE"},
        ),
        ({"id": "c", "name": "read_file", "args": {"path": ".env"}, "result": [{"text": "PRIVATE"}]}, {}),
    ],
)
def test_secrets_are_left_out_of_the_transcripts_of_other_agents(project, talk, call, answer):
    talk.says(type="response_item", payload=call)
    talk.says(type="response_item", payload=answer)
    talk.prompt("look")
    talk.does("x", {"a.txt": "1\n"})
    assert ".env" in str(said(project)["said"]) and "PRIVATE" not in str(said(project)["said"])


@pytest.mark.parametrize(
    "line", ["[" * 100_000, '{"type": ["tool_use"], "call_id": "c"}', '{"type": 1, "id": {}}', "null", "\0"]
)
def test_a_transcript_that_nobody_can_read_keeps_no_step_from_being_saved(project, talk, line):
    with open(talk.file, "a") as file:
        file.write(line + "\n")
    talk.prompt("look")
    talk.does("x", {"a.txt": "1\n"})
    assert mulligan.open(project).get("@").files_changed == ("a.txt",)


def test_the_copy_is_bounded_and_says_that_it_is_cut(project, talk):
    for number in range(300):
        talk.says(type="assistant", text=f"{number} " + "x" * 2000)
    talk.prompt("long")
    talk.does("x", {"a.txt": "1\n"})
    kept = said(project)
    assert kept["cut"] and sum(map(len, kept["said"])) <= MOST_COPIED
    assert json.loads(kept["said"][-1])["text"].startswith("299 ")


def test_restore_all_makes_a_session_that_ends_there_and_leaves_the_old_one(project, talk):
    talk.says(type="user", text="first")
    talk.prompt("first")
    talk.does("one", {"a.txt": "1\n"})
    talk.says(type="assistant", text="done one")
    talk.stop()
    talk.prompt("second")
    talk.says(type="user", text="second")
    talk.does("two", {"a.txt": "2\n"})
    talk.stop()
    whole = talk.file.read_bytes()
    done = cli_json("restore", "@prompt-2", "--all", cwd=project)
    made = done["conversation"]["file"]
    assert done["conversation"]["type"].startswith("claude --resume ") and made != str(talk.file)
    lines = [json.loads(line) for line in Path(made).read_text().splitlines()]
    assert [line["text"] for line in lines] == ["first", "done one"]
    assert {line["sessionId"] for line in lines} == {done["conversation"]["type"].split()[-1]}
    assert talk.file.read_bytes() == whole and (project / "a.txt").read_text() == "1\n"
    assert "claude --resume" in cli("restore", "@after-prompt-2", "--all", cwd=project).stdout


def test_a_transcript_that_is_gone_is_refused_before_anything_changed(project, talk):
    talk.says(type="user", text="first")
    talk.prompt("first")
    talk.does("one", {"a.txt": "1\n"})
    talk.file.unlink()
    write(project, {"a.txt": "later\n"})
    done = cli("restore", "@", "--all", cwd=project)
    assert done.returncode == 1 and "does not hold" in done.stderr and (project / "a.txt").read_text() == "later\n"
    assert cli("restore", "@", cwd=project).returncode == 0


def test_state_of_other_programs_waits_for_them_as_before(project):
    ws = mulligan.open(project)
    write(project, {"a.txt": "1\n"})
    saved = ws.save(state={"conversation": {"count": 0, "messages": []}})
    write(project, {"a.txt": "2\n"})
    assert "conversation" not in cli_json("restore", saved.id, "--all", cwd=project)
    assert mulligan.open(project).state_owed() == saved.id


@pytest.mark.parametrize("session", ["", "another"])
def test_a_transcript_that_is_not_named_after_its_session_is_not_copied(tmp_path, session):
    file = tmp_path / "talk.jsonl"
    file.write_text("{}\n")
    place = {"agent": "claude-code", "session": session, "path": str(file), "at": 3}
    with pytest.raises(mulligan.MulliganError, match="Nothing was changed"):
        resume(place, "fresh")
    assert [each.name for each in tmp_path.iterdir()] == ["talk.jsonl"]


class NoRoomForTalk(syscalls.Calls):
    """Has no room for a conversation."""

    def open(self, path, flags, *args, **kwargs):
        if flags & os.O_CREAT and os.fsencode(path).endswith(b".jsonl"):
            raise OSError(errno.ENOSPC, "No space left on device")
        return os.open(path, flags, *args, **kwargs)


def test_a_conversation_that_cannot_be_written_is_told_beside_the_files_that_are_back(project, talk, capsys):
    talk.says(type="user", text="first")
    talk.prompt("first")
    talk.does("one", {"a.txt": "1\n"})
    with syscalls.using(NoRoomForTalk()):
        code = main(["-C", str(project), "restore", "@prompt-1", "--all"])
    assert (code, (project / "a.txt").read_text()) == (3, "a\n")
    assert "the files are back, the conversation is not" in capsys.readouterr().err
