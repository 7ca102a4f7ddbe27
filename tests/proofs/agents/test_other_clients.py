"""
Gemini CLI, opencode and aider, the real ones: each breaks things, and one undo brings every byte back.

They are slow to start, so they run only in longer sweeps: MULLIGAN_SWEEP=10.
"""

from __future__ import annotations

import json

import pytest
from clients import aider_argv, aider_variables, configure_opencode
from scripted_model import Say, Use, scripted

from tools import git, sweep

pytestmark = pytest.mark.skipif(sweep(1) < 10, reason="the slow agents run with MULLIGAN_SWEEP=10")


def trust_gemini(project):
    folder = project.home / ".gemini"
    folder.mkdir()
    (folder / "settings.json").write_text(json.dumps({"security": {"auth": {"selectedType": "gemini-api-key"}}}))


def test_gemini(agents_project, gemini):
    project = agents_project
    trust_gemini(project)
    project.mulligan("install", "gemini", "--scope", "user")
    before = project.everything()
    breaking = [
        Use("write_file", {"file_path": str(project.root / "new.txt"), "content": "n\n"}),
        Use("run_shell_command", {"command": "rm -r src; rm data.bin; exit 2", "description": "-"}),
        Use(
            "replace",
            {"file_path": str(project.root / "a.txt"), "old_string": "hello", "new_string": "bye", "instruction": "-"},
        ),
        Use("invoke_agent", {"agent_name": "generalist", "prompt": "SUBTASK now"}),
        Say("All done."),
    ]
    below = [
        Use("run_shell_command", {"command": "mkdir deep; echo sub > deep/sub.txt", "description": "-"}),
        Use("complete_task", {"result": {"response": "The part is done."}}),
    ]
    with scripted({"SUBTASK": below, "break it": breaking}) as model:
        done = project.run(
            [gemini, "--yolo", "--skip-trust", "-p", "break it"],
            GOOGLE_GEMINI_BASE_URL=model.url,
            GEMINI_API_KEY="none",
        )
    assert done.returncode == 0, done.stdout + done.stderr
    assert {"new.txt", "deep/sub.txt"} <= set(project.everything()) and "src/app.py" not in project.everything()
    project.mulligan("undo")
    assert project.everything() == before
    (chapter,) = project.mulligan("log", "--story")["story"]
    happened = [each["name"] for each in chapter["happened"] if each["changed"]]
    assert happened == ["write_file", "run_shell_command", "replace", "run_shell_command"]
    assert chapter["text"] == "break it"


def test_gemini_from_a_subdirectory_is_undone_turn_by_turn_and_the_model_is_told(agents_project, gemini):
    project = agents_project
    below = project.protect_from_below()
    trust_gemini(project)
    project.mulligan("install", "gemini", "--scope", "user")
    start = project.everything()
    edit = {"file_path": str(below.root / "app.py"), "old_string": "42", "new_string": "43", "instruction": "-"}
    script = [
        *(Use("replace", edit), Use("run_shell_command", {"command": "echo 1 > ../one.txt"}), Say("one.")),
        *(Use("run_shell_command", {"command": "rm -r ../tests ../.env; echo oops > junk.txt"}), Say("two.")),
        Say("three."),
    ]

    def turn(prompt, *resume):
        argv = [gemini, "--yolo", "--skip-trust", *resume, "-p", prompt]
        done = below.run(argv, GOOGLE_GEMINI_BASE_URL=model.url, GEMINI_API_KEY="none")
        assert done.returncode == 0, done.stdout + done.stderr

    with scripted({"the task": script}) as model:
        turn("the task")
        one = project.everything()
        assert "one.txt" in one and b"43" in one["src/app.py"][1]
        turn("clean up", "--resume", "latest")
        assert not {"tests/test_app.py", ".env"} & set(project.everything())
        assert '"clean up"' in project.said("undo")
        assert project.everything() == one
        asked = len(model.asked)
        turn("go on", "--resume", "latest")
        heard = next(each.people for each in model.asked[asked:] if each.tools and "go on" in each.people)
        assert all(word in heard for word in ("undid", "tests/test_app.py", ".env", "junk.txt", "read them again"))
    project.mulligan("undo")
    assert project.everything() == start


@pytest.mark.parametrize("scope", ["project", "user"])
def test_opencode(agents_project, opencode, scope):
    """A subagent has a session of its own there; what it does goes back with the prompt it works for."""
    project = agents_project
    project.mulligan("install", "opencode", "--scope", scope)
    before = project.everything()
    breaking = [
        Use("write", {"filePath": str(project.root / "new.txt"), "content": "n\n"}),
        Use("bash", {"command": "rm -r src; rm data.bin; exit 2", "description": "-"}),
        Use("task", {"description": "sub", "prompt": "SUBTASK now", "subagent_type": "general"}),
        Say("All done."),
    ]
    below = [
        Use("bash", {"command": "mkdir deep; echo sub > deep/sub.txt", "description": "-"}),
        Say("The part is done."),
    ]
    with scripted({"SUBTASK": below, "break it": breaking}) as model:
        done = project.run([opencode, "run", "break it"], **configure_opencode(project, model.url))
    assert done.returncode == 0, done.stdout + done.stderr
    assert {"new.txt", "deep/sub.txt"} <= set(project.everything()) and "src/app.py" not in project.everything()
    project.mulligan("undo")
    assert project.everything() == before
    (chapter,) = project.mulligan("log", "--story")["story"]
    assert [each["name"] for each in chapter["happened"]] == ["write", "bash", "task", "bash"]
    assert "break it" in chapter["text"]


#: An edit, a new file, and a command that names no file: aider would want to add it to the chat first.
AIDER = """\
a.txt
```
<<<<<<< SEARCH
hello
=======
bye
>>>>>>> REPLACE
```

new.txt
```
<<<<<<< SEARCH
=======
new
>>>>>>> REPLACE
```

```bash
rm -r s?c d*.bin
```
"""


@pytest.fixture
def for_aider(agents_project):
    """A repository that aider has been in before: its own files are ignored."""
    (agents_project.root / ".gitignore").write_text(".aider*\n")
    for words in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "start")):
        git(*words, cwd=agents_project.root)
    agents_project.mulligan("install", "aider")
    return agents_project


def test_aider(for_aider, aider):
    """It asks whether to make the file and whether to run the command; the person says yes to both."""
    project = for_aider
    before = project.everything()
    with scripted({"break it": [Say(AIDER)]}) as model:
        argv, said = aider_argv(aider, "a.txt"), "break it\ny\ny\nsomething else\n/exit\n"
        done = project.run(argv, said=said, **aider_variables(model.url))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "new.txt" in project.everything() and "src/app.py" not in project.everything(), done.stdout
    project.mulligan("undo")
    assert project.everything() == before
    assert project.mulligan("doctor")["agents"][0]["problem"] == ""


def test_aider_with_one_message_never_waits_and_its_start_is_a_checkpoint(for_aider, aider):
    project = for_aider
    before = project.everything()
    with scripted({"break it": [Say(AIDER)]}) as model:
        argv = aider_argv(aider, "--yes-always", "--message", "break it", "a.txt")
        done = project.run(argv, **aider_variables(model.url))
    assert done.returncode == 0, done.stdout + done.stderr
    assert (project.root / "a.txt").read_text() == "bye\n" and "new.txt" in project.everything(), done.stdout
    project.mulligan("undo")
    assert project.everything() == before
