"""The real Codex, told by a scripted model to break things; one undo brings every byte back."""

from __future__ import annotations

import re
from contextlib import contextmanager

import pytest
from clients import (
    PATIENCE,
    approve_codex_hooks,
    claude_argv,
    claude_variables,
    codex_argv,
    codex_home,
    configure_codex,
    trust_claude,
)
from scripted_model import Say, Use, scripted

PATCH = """\
*** Begin Patch
*** Add File: patched.txt
+hi
*** Update File: a.txt
@@
-hello
+bye
*** Delete File: run.sh
*** End Patch
"""
BREAKING = [
    Use("exec_command", {"cmd": "echo x > sh.txt; rm -r src; rm data.bin; exit 3"}),
    Use("apply_patch", PATCH, raw=True),
    Say("All done."),
]


def turn(project, codex, model, prompt, *resume):
    done = project.run(codex_argv(codex, prompt, *resume), SCRIPTED_KEY="x")
    assert done.returncode == 0, done.stdout + done.stderr
    assert model.asked and "warning" not in done.stderr, done.stderr


def test_one_undo_after_a_shell_command_that_fails_and_a_patch_and_doctor_about_trust(agents_project, codex):
    project = agents_project
    project.mulligan("install", "codex", "--scope", "user")
    harmless = [Use("exec_command", {"cmd": "echo 1 > first.txt"}), Say("Hello.")]
    with scripted({"say hello": harmless, "break it": BREAKING}) as model:
        configure_codex(project, model.url)
        # Nobody approved the hooks yet: Codex passes over them without a word, and doctor says so.
        turn(project, codex, model, "say hello")
        assert project.mulligan("log")["checkpoints"] == [] and "first.txt" in project.everything()
        (agent,) = project.mulligan("doctor")["agents"]
        assert "does not trust 6" in agent["problem"]
        assert set(approve_codex_hooks(project, codex)) == {"untrusted"}
        assert "does not trust" not in project.mulligan("doctor")["agents"][0]["problem"]
        before = project.everything()
        turn(project, codex, model, "break it")
    broken = project.everything()
    assert {"sh.txt", "patched.txt"} <= set(broken) and not {"src/app.py", "data.bin", "run.sh"} & set(broken)
    project.mulligan("undo")
    assert project.everything() == before
    steps = project.mulligan("log", "--kind", "step")["checkpoints"]
    causes = [each["metadata"]["agent"] for each in reversed(steps)][1:]
    assert [(each["agent"], each["name"], each["input"]) for each in causes] == [
        ("codex", "Bash", "echo x > sh.txt; rm -r src; rm data.bin; exit 3"),
        ("codex", "apply_patch", "patched.txt, a.txt, run.sh"),
    ]
    assert project.mulligan("doctor")["agents"] == [
        {"agent": "codex", "files": [str(project.home / ".codex/hooks.json")], "problem": ""}
    ]


def shell(command):
    return Use("exec_command", {"cmd": command})


@pytest.fixture
def wired(agents_project, codex):
    """A project with hooks that a person has approved; where the model is, is said later."""
    agents_project.mulligan("install", "codex")
    configure_codex(agents_project, "http://127.0.0.1:9")
    approve_codex_hooks(agents_project, codex)
    return agents_project


@contextmanager
def leading(project, scripts):
    """A scripted model, and Codex led to it, with all that its configuration says besides."""
    with scripted(scripts) as model:
        file = codex_home(project) / "config.toml"
        file.write_text(re.sub("http://[0-9.:]+", model.url, file.read_text()))
        yield model


def newest_session(project):
    return project.mulligan("status")["agents"][0]["session"]


def test_turns_of_a_resumed_and_of_a_forked_session_are_taken_back_one_by_one(wired, codex):
    start = wired.everything()
    script = [
        *(shell("echo 1 > a.txt"), Say("one.")),
        *(shell("echo 2 > a.txt; echo 2 > two.txt"), Say("two.")),
        *(shell("echo 3 > a.txt"), shell("rm two.txt"), Say("three.")),
    ]
    with leading(wired, {"the task": script}) as model:
        turn(wired, codex, model, "the task")
        one, session = wired.everything(), newest_session(wired)
        turn(wired, codex, model, "go on", "resume", session)
        two = wired.everything()
        turn(wired, codex, model, "and on", "fork", session)
    assert newest_session(wired) != session and wired.everything() not in (one, two)
    for state in (two, one, start):
        wired.mulligan("undo")
        assert wired.everything() == state


def test_two_turns_from_a_subdirectory_are_undone_exactly_and_the_model_is_told(agents_project, codex):
    """The hooks are the user's: Codex reads those of a project only at its top."""
    project = agents_project
    below = project.protect_from_below()
    project.mulligan("install", "codex", "--scope", "user")
    start = project.everything()
    patch = "*** Begin Patch\n*** Update File: app.py\n@@\n-    return 42\n+    return 43\n*** End Patch\n"
    script = [
        *(Use("apply_patch", patch, raw=True), shell("echo 1 > ../one.txt"), Say("one.")),
        *(shell("rm -r ../tests ../.env; echo oops > junk.txt"), Say("two.")),
        Say("three."),
    ]
    with scripted({"the task": script}) as model:
        configure_codex(project, model.url)
        approve_codex_hooks(project, codex)
        turn(below, codex, model, "the task")
        one, session = project.everything(), newest_session(project)
        assert "one.txt" in one and b"43" in one["src/app.py"][1]
        turn(below, codex, model, "clean up", "resume", session)
        assert not {"tests/test_app.py", ".env"} & set(project.everything())
        assert 'Undid prompt 2 "clean up"' in project.said("undo")
        assert project.everything() == one
        asked = len(model.asked)
        turn(below, codex, model, "go on", "resume", session)
        heard = next(each.people for each in model.asked[asked:] if each.tools and "go on" in each.people)
        assert all(word in heard for word in ("undid", "tests/test_app.py", ".env", "junk.txt", "read them again"))
    project.mulligan("undo")
    assert project.everything() == start


def test_an_agent_killed_in_the_middle_of_a_command(wired, codex):
    before = wired.everything()
    breaking = [
        shell("echo 1 > a.txt"),
        shell("rm -r src; echo 2 > a.txt; echo $$ > begun; exec sleep 600"),
        Say("never"),
    ]
    with leading(wired, {"break it": breaking}):
        wired.kill_in_the_middle(codex_argv(codex, "break it"), SCRIPTED_KEY="x")
    wired.mulligan("undo")
    assert wired.everything() == before


def test_one_undo_takes_back_what_a_subagent_did_too(wired, codex):
    before = wired.everything()
    breaking = [
        shell("echo 1 > a.txt"),
        Use("collaboration.spawn_agent", {"message": "SUBTASK now", "task_name": "sub", "fork_turns": "none"}),
        Use("collaboration.wait_agent", {"timeout_ms": 60000}),
        shell("rm -r src"),
        Say("All done."),
    ]
    below = [shell("mkdir deep && echo sub > deep/sub.txt"), Say("The part is done.")]
    with leading(wired, {"SUBTASK": below, "break it": breaking}) as model:
        turn(wired, codex, model, "break it", "--enable", "multi_agent_v2")
    assert "deep/sub.txt" in wired.everything() and "src/app.py" not in wired.everything()
    wired.mulligan("undo")
    assert wired.everything() == before


def test_codex_and_claude_code_at_once_and_each_taken_back(wired, codex, claude):
    """Both run at once, their commands do not: two that overlap cannot be told apart by what they leave (see limits)."""
    trust_claude(wired)
    wired.mulligan("install", "claude-code")
    poem = [f"line {n}" for n in range(1, 31)]
    (wired.root / "poem.txt").write_text("\n".join(poem) + "\n")
    before = wired.everything()
    second = "sed -i 's/^line 28$/SECOND/' poem.txt; echo 2 > second.txt"
    scripts = {
        "be first": [shell("sed -i 's/^line 2$/FIRST/' poem.txt; echo 1 > first.txt"), Say("done")],
        "be second": [Use("Bash", {"command": second, "description": "-"}, after="be first"), Say("done")],
    }
    with leading(wired, scripts) as model:
        running = [
            wired.start(codex_argv(codex, "be first"), SCRIPTED_KEY="x"),
            wired.start(claude_argv(claude, "be second"), **claude_variables(model.url)),
        ]
        for agent in running:
            agent.communicate(timeout=PATIENCE)
    both = wired.everything()
    sessions = {each["agent"]: each["session"] for each in wired.mulligan("status")["agents"]}
    wired.mulligan("undo", "--session", sessions["codex"])
    after = (wired.root / "poem.txt").read_text()
    assert "FIRST" not in after and "SECOND" in after and "first.txt" not in wired.everything()
    wired.mulligan("undo", "--session", sessions["claude-code"])
    assert wired.everything() == before != both


def test_files_and_conversation_go_back_together_to_a_prompt(agents_project, codex, monkeypatch):
    """With all that Codex has in another directory, behind a link: the hooks go there, and there doctor looks."""
    project = agents_project
    (project.home / "elsewhere").mkdir()
    (project.home / "linked").symlink_to("elsewhere")
    monkeypatch.setenv("CODEX_HOME", str(project.home / "linked"))
    script = [
        *(Use("exec_command", {"cmd": "echo 1 > a.txt"}), Say("one.")),
        *(Use("exec_command", {"cmd": "echo 2 > a.txt"}), Say("two.")),
        Say("other."),
    ]
    project.mulligan("install", "codex", "--scope", "user")
    with scripted({"the task": script}) as model:
        configure_codex(project, model.url)
        assert "does not trust 6" in project.mulligan("doctor")["agents"][0]["problem"]
        approve_codex_hooks(project, codex)
        turn(project, codex, model, "the task")
        (session,) = {each["session"] for each in project.mulligan("status")["agents"]}
        turn(project, codex, model, "go on", "resume", session)
        done = project.mulligan("restore", "@prompt-2", "--all")
        assert (project.root / "a.txt").read_text() == "1\n"
        again = done["conversation"]["type"].split()[-1]
        assert done["conversation"]["type"] == f"codex resume {again}" and again != session
        before = len(model.asked)
        turn(project, codex, model, "something else", "resume", again)
    # The model saw the two replies of the first prompt, and none of the second.
    assert next(each.replies for each in model.asked[before:] if each.tools) == 2
    assert not (project.home / ".codex").exists()
    assert project.mulligan("doctor")["agents"][0]["problem"] == ""
