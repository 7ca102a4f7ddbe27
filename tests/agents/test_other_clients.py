"""
Gemini CLI, opencode and aider, the real ones: each breaks things, and one undo brings every byte back.

They are slow to start, so they run only in longer sweeps: MULLIGAN_SWEEP=10.
"""

from __future__ import annotations

import json
import os
import shutil

import pytest
from scripted_model import Say, Use, scripted

from tools import git, sweep

pytestmark = pytest.mark.skipif(sweep(1) < 10, reason="the slow agents run with MULLIGAN_SWEEP=10")


def test_gemini(agents_project, gemini):
    project = agents_project
    folder = project.home / ".gemini"
    folder.mkdir()
    (folder / "settings.json").write_text(json.dumps({"security": {"auth": {"selectedType": "gemini-api-key"}}}))
    project.mulligan("install", "gemini", "--scope", "user")
    before = project.everything()
    breaking = [
        Use("write_file", {"file_path": str(project.root / "new.txt"), "content": "n\n"}),
        Use("run_shell_command", {"command": "rm -r src; rm data.bin; exit 2", "description": "-"}),
        Use(
            "replace",
            {"file_path": str(project.root / "a.txt"), "old_string": "hello", "new_string": "bye", "instruction": "-"},
        ),
        Say("All done."),
    ]
    with scripted({"break it": breaking}) as model:
        done = project.run(
            [gemini, "--yolo", "--skip-trust", "-p", "break it"],
            GOOGLE_GEMINI_BASE_URL=model.url,
            GEMINI_API_KEY="none",
        )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "new.txt" in project.everything() and "src/app.py" not in project.everything()
    project.mulligan("undo")
    assert project.everything() == before
    (chapter,) = project.mulligan("log", "--story")["story"]
    assert [each["name"] for each in chapter["happened"]] == ["write_file", "run_shell_command", "replace"]
    assert all(each["changed"] for each in chapter["happened"]) and chapter["text"] == "break it"


def test_opencode(agents_project, opencode):
    project = agents_project
    project.mulligan("install", "opencode")
    before = project.everything()
    breaking = [
        Use("write", {"filePath": str(project.root / "new.txt"), "content": "n\n"}),
        Use("bash", {"command": "rm -r src; rm data.bin; exit 2", "description": "-"}),
        Say("All done."),
    ]
    with scripted({"break it": breaking}) as model:
        options = {"baseURL": f"{model.url}/v1", "apiKey": "none"}
        provider = {
            "npm": "@ai-sdk/openai-compatible",
            "name": "scripted",
            "options": options,
            "models": {"scripted": {}},
        }
        config = {
            "provider": {"scripted": provider},
            "model": "scripted/scripted",
            "permission": {"bash": "allow", "edit": "allow"},
        }
        (project.home / "opencode.json").write_text(json.dumps(config))
        done = project.run([opencode, "run", "break it"], OPENCODE_CONFIG=str(project.home / "opencode.json"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "new.txt" in project.everything() and "src/app.py" not in project.everything()
    project.mulligan("undo")
    assert project.everything() == before


@pytest.mark.skipif(shutil.which("aider") is None, reason="AIDER IS NOT THERE: pip install aider-chat")
def test_aider(agents_project):
    project = agents_project
    git("init", "-q", cwd=project.root)
    project.mulligan("install", "git")
    edit = "a.txt\n```\n<<<<<<< SEARCH\nhello\n=======\nbye\n>>>>>>> REPLACE\n```\n"
    git("add", "-A", cwd=project.root)
    git("commit", "-qm", "start", cwd=project.root)
    before = project.everything()
    with scripted({"break it": [Say(edit)]}) as model:
        words = ["--model", "openai/scripted", "--message", "break it", "--yes-always", "--no-check-update", "a.txt"]
        done = project.run(
            [str(shutil.which("aider")), *words, "--no-show-model-warnings", "--no-gitignore", "--no-analytics"],
            OPENAI_API_BASE=f"{model.url}/v1",
            OPENAI_API_KEY="none",
            GIT_AUTHOR_NAME="a",
            GIT_AUTHOR_EMAIL="a@example.org",
            GIT_COMMITTER_NAME="a",
            GIT_COMMITTER_EMAIL="a@example.org",
        )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (project.root / "a.txt").read_text() == "bye\n", done.stdout
    for leftover in (".aider.chat.history.md", ".aider.input.history"):
        (project.root / leftover).unlink(missing_ok=True)
    assert os.path.isdir(project.root)
    project.mulligan("undo")
    assert project.everything() == before
