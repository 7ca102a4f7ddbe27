"""The conversation in a checkpoint: its place, a copy without secrets, and a session to go on from there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import mulligan
from mulligan.hooks.conversation import MOST_COPIED
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


def test_secrets_that_an_agent_printed_are_left_out(project, talk):
    talk.says(**use("c1", command="cat config/.env.local"))
    talk.says(**result("c1", "WEATHER=sunny-and-private"))
    talk.says(**use("c2", command="env"))
    talk.says(**result("c2", f"GITHUB={TOKEN}\nDB_PASSWORD=hunter2hunter2"))
    talk.says(type="user", toolUseResult={"file": {"filePath": "/home/me/.ssh/id_rsa", "content": "AAAAB3"}})
    talk.prompt("look")
    talk.does("x", {"a.txt": "1\n"})
    text = json.dumps(mulligan.open(project).get("@").to_dict())
    assert "left-out" in text and "cat config/.env.local" in text
    for secret in ("sunny-and-private", TOKEN, "hunter2hunter2", "AAAAB3"):
        assert secret not in text


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
