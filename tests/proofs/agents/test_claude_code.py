"""The real Claude Code, told by a scripted model to break things; one undo brings every byte back."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest
from clients import PATIENCE, claude_argv, claude_variables, trust_claude
from scripted_model import Say, Use, scripted

from tools import cli


@pytest.fixture
def wired(agents_project):
    trust_claude(agents_project)
    agents_project.mulligan("install", "claude-code")
    return agents_project


def turn(project, claude, scripts, prompt, *more):
    with scripted(scripts) as model:
        done = project.run(claude_argv(claude, prompt, *more), **claude_variables(model.url))
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def write(project, name, text):
    return Use("Write", {"file_path": str(project.root / name), "content": text})


def bash(command):
    return Use("Bash", {"command": command, "description": "-"})


def test_one_undo_after_edits_by_tool_by_bash_by_a_failing_tool_and_by_a_subagent(wired, claude):
    before = wired.everything()
    breaking = [
        write(wired, "new.txt", "n\n"),
        Use("Read", {"file_path": str(wired.root / "a.txt")}),
        Use("Edit", {"file_path": str(wired.root / "a.txt"), "old_string": "hello", "new_string": "bye"}),
        bash("rm -rf src data.bin; ln -sf /etc/passwd link; chmod 600 run.sh; echo x > run.sh; exit 3"),
        Use("Agent", {"description": "sub", "prompt": "SUBTASK now", "subagent_type": "general-purpose"}),
        Say("All done."),
    ]
    below = [bash("mkdir deep && echo sub > deep/sub.txt"), Say("sub done")]
    done = turn(wired, claude, {"SUBTASK": below, "break it": breaking}, "break it")
    broken = wired.everything()
    assert broken != before and "deep/sub.txt" in broken and "src/app.py" not in broken
    wired.mulligan("undo")
    assert wired.everything() == before
    wired.mulligan("redo")
    assert wired.everything() == broken
    steps = wired.mulligan("log", "--kind", "step")["checkpoints"]
    causes = [each["metadata"]["agent"] for each in reversed(steps)][1:]
    assert [(each["name"], each["when"]) for each in causes] == [
        ("Write", "after"),
        ("Edit", "after"),
        ("Bash", "failed"),
        ("Bash", "after"),
    ]
    assert {each["session"] for each in causes} == {done["session_id"]}
    assert causes[-1]["subagent"] and not causes[0].get("subagent")
    # At the first calls of a session the transcript is missing or empty (seen with 2.1.197).
    places = [each["transcript"]["at"] for each in causes]
    assert places == sorted(places) and places[-1] > 0


def test_turns_of_a_resumed_and_of_a_forked_session_are_taken_back_one_by_one(wired, claude):
    start = wired.everything()
    script = [
        *(bash("echo 1 > a.txt"), Say("one.")),
        *(bash("echo 2 > a.txt; echo 2 > two.txt"), Say("two.")),
        *(bash("echo 3 > a.txt"), bash("rm two.txt"), Say("three.")),
    ]
    scripts = {"the task": script}
    session = turn(wired, claude, scripts, "the task")["session_id"]
    one = wired.everything()
    turn(wired, claude, scripts, "go on", "--resume", session)
    two = wired.everything()
    forked = turn(wired, claude, scripts, "and on", "--resume", session, "--fork-session")["session_id"]
    assert forked != session and wired.everything() not in (one, two)
    for state in (two, one, start):
        wired.mulligan("undo")
        assert wired.everything() == state


def test_an_agent_killed_in_the_middle_of_a_command(wired, claude):
    before = wired.everything()
    breaking = [
        bash("echo 1 > a.txt"),
        bash("rm -rf src; echo 2 > a.txt; echo $$ > begun; exec sleep 600"),
        Say("never"),
    ]
    with scripted({"break it": breaking}) as model:
        wired.kill_in_the_middle(claude_argv(claude, "break it"), **claude_variables(model.url))
    wired.mulligan("undo")
    assert wired.everything() == before


def test_files_and_conversation_go_back_together_to_a_prompt(wired, claude):
    script = [bash("echo 1 > a.txt"), Say("one."), bash("echo 2 > a.txt"), Say("two."), Say("other.")]
    scripts = {"the task": script}
    session = turn(wired, claude, scripts, "the task")["session_id"]
    turn(wired, claude, scripts, "go on", "--resume", session)
    done = wired.mulligan("restore", "@prompt-2", "--all")
    assert (wired.root / "a.txt").read_text() == "1\n"
    again = done["conversation"]["type"].split()[-1]
    assert done["conversation"]["type"] == f"claude --resume {again}" and again != session
    with scripted(scripts) as model:
        argv = claude_argv(claude, "something else", "--resume", again)
        assert wired.run(argv, **claude_variables(model.url)).returncode == 0
    # The model saw the two replies of the first prompt, and none of the second.
    assert next(each.replies for each in model.asked if each.tools) == 2


def test_two_agents_at_once_and_one_of_them_taken_back(wired, claude):
    """Claude Code twice, each with its own file and both in one: the undo of one keeps the other's lines."""
    poem = [f"line {n}" for n in range(1, 31)]
    (wired.root / "poem.txt").write_text("\n".join(poem) + "\n")
    before = wired.everything()
    scripts = {
        "be first": [bash("sed -i 's/^line 2$/FIRST/' poem.txt; echo 1 > first.txt"), Say("done")],
        "be second": [bash("sed -i 's/^line 28$/SECOND/' poem.txt; echo 2 > second.txt"), Say("done")],
    }
    # Both run at once, their commands do not: two that overlap cannot be told apart by what they leave (see limits).
    scripts["be second"][0] = scripts["be second"][0]._replace(after="be first")
    with scripted(scripts) as model:
        running = [wired.start(claude_argv(claude, prompt), **claude_variables(model.url)) for prompt in scripts]
        first, second = (json.loads(agent.communicate(timeout=PATIENCE)[0])["session_id"] for agent in running)
    after = (wired.root / "poem.txt").read_text()
    assert "FIRST" in after and "SECOND" in after
    wired.mulligan("undo", "--session", first)
    wired.mulligan("undo", "--session", second)
    assert wired.everything() == before


def test_a_turn_that_deleted_a_file_and_a_secret_is_undone_and_the_next_prompt_is_told(wired, claude):
    (wired.root / ".env").write_text("TOKEN=1\n")
    script = [bash("rm -rf src .env; echo oops > junk.txt"), Say("one."), Say("two.")]
    scripts = {"clean up": script}
    before = wired.everything()
    session = turn(wired, claude, scripts, "clean up")["session_id"]
    assert not (wired.root / "src/app.py").exists() and not (wired.root / ".env").exists()
    wired.mulligan("undo")
    assert wired.everything() == before
    with scripted(scripts) as model:
        argv = claude_argv(claude, "go on", "--resume", session)
        assert wired.run(argv, **claude_variables(model.url)).returncode == 0
    heard = next(each.people for each in model.asked if each.tools and "go on" in each.people)
    assert "undid" in heard and "src/app.py" in heard and "junk.txt" in heard and "read them again" in heard


def test_a_background_writer_and_a_start_in_a_subdirectory_do_not_hide_the_turn(agents_project, claude):
    project = agents_project
    below = project.protect_from_below()
    trust_claude(project)
    project.mulligan("install", "claude-code", "--scope", "user")
    before = project.everything()
    writer = (
        "(for n in $(seq 400); do echo tick >> ../server.out; sleep 0.05; done) > /dev/null 2>&1 & echo $! > ../pid"
    )
    script = [bash("rm -r ../tests ../.env; echo x > junk.txt"), bash(writer), Say("ok")]
    turn(below, claude, {"the task": script}, "the task")
    writing = int((project.root / "pid").read_text())
    try:
        done = cli("undo", cwd=below.root)
    finally:
        os.kill(writing, signal.SIGTERM)
    assert done.returncode == 3 and "server.out" in done.stdout and 'Undid prompt 1 "the task"' in done.stdout
    found = project.everything()
    assert found.pop("server.out") and found == before


def test_a_worktree_of_an_agent_has_an_undo_of_its_own(agents_project, claude):
    project = agents_project
    project.protect_from_below()
    trust_claude(project)
    project.mulligan("install", "claude-code", "--scope", "user")
    before = project.everything()
    inner = project._replace(root=project.root / ".claude/worktrees/feat")
    making = "echo 1 > main.txt; git worktree add -q .claude/worktrees/feat -b feat; cd .claude/worktrees/feat; echo 1 > w.txt"
    turn(project, claude, {"the task": [bash(making), Say("ok")]}, "the task")
    project.mulligan("undo")
    assert project.everything() == before and (inner.root / "w.txt").exists() and (inner.root / "a.txt").exists()
    there = inner.everything()
    turn(inner, claude, {"task two": [bash("rm -r src; echo y > y.txt"), Say("ok")]}, "task two")
    broken = inner.everything()
    assert cli("undo", cwd=project.root).returncode == 1 and inner.everything() == broken != there
    inner.mulligan("undo")
    assert inner.everything() == there


def test_a_command_that_cannot_be_undone_is_named_so_before_it_runs(wired, claude):
    folder = Path(wired.environment()["XDG_CONFIG_HOME"]) / "mulligan"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.toml").write_text('[hooks]\ndestructive = "ask"\n')
    before = wired.everything()
    with scripted({"the task": [bash("git push --force"), bash("rm -rf src"), Say("ok")]}) as model:
        argv = claude_argv(claude, "the task", "--verbose")
        argv[argv.index("json")] = "stream-json"
        said = wired.run(argv, **claude_variables(model.url)).stdout
    assert "git push overwrites a remote. mulligan cannot undo this." in said
    assert "Saved and undoable: src/ (1 file)" in said and wired.everything() == before
