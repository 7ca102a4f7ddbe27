"""After an undo or a restore, what was there and was never saved is named, with exit code 3."""

from __future__ import annotations

import json
import shutil

import tools
from play import Agent, typed


def test_an_ignored_file_that_the_agent_deleted_is_named_once(project):
    (project / ".gitignore").write_text("build/\n*.sqlite\n")
    (project / "build").mkdir()
    (project / "build/out").write_text("made\n")
    (project / "local.sqlite").write_text("rows\n")
    (project / "a.txt").write_text("one\n")
    agent = Agent(project)
    agent.turn("start", "echo two > a.txt")
    agent.turn("clean up", "rm -rf build local.sqlite a.txt")
    said = typed(project, "undo", expect=3)
    assert (project / "a.txt").read_text() == "two\n"
    assert "never saved" in said and "build (ignored)" in said and "local.sqlite (ignored)" in said
    said = typed(project, "undo")  # the turn before did not lose them
    assert "never saved" not in said and (project / "a.txt").read_text() == "one\n"


def test_a_restore_names_what_is_lost_in_its_report(project):
    (project / ".gitignore").write_text("*.db\n")
    (project / "x.db").write_text("rows\n")
    (project / "a.txt").write_text("one\n")
    typed(project, "save", "base")
    (project / "x.db").unlink()
    (project / "a.txt").write_text("two\n")
    report = tools.cli_json("restore", "base", "-y", cwd=project, expect=3)["report"]
    assert [(row["path"], row["reason"]) for row in report["lost"]] == [("x.db", "ignored")]


def test_an_ignored_file_that_is_still_there_is_not_named(project):
    (project / ".gitignore").write_text("*.db\n")
    (project / "x.db").write_text("rows\n")
    (project / "a.txt").write_text("one\n")
    typed(project, "save", "base")
    (project / "a.txt").write_text("two\n")
    assert "never saved" not in typed(project, "undo")


def test_a_deleted_git_directory_is_named(project):
    tools.git("init", "-q", cwd=project)
    (project / "a.txt").write_text("one\n")
    tools.git("add", ".", cwd=project)
    tools.git("commit", "-q", "-m", "one", cwd=project)
    agent = Agent(project)
    agent.turn("start", "echo two > a.txt")
    agent.turn("tidy", "rm -rf .git a.txt")
    said = typed(project, "undo", expect=3)
    assert (project / "a.txt").read_text() == "two\n" and "never saved" in said and ".git" in said


def test_after_a_lock_file_came_back_the_undo_says_what_to_run(project):
    (project / ".gitignore").write_text("node_modules/\n")
    (project / "package.json").write_text(json.dumps({"name": "one"}))
    (project / "package-lock.json").write_text("{}")
    (project / "node_modules").mkdir()
    (project / "node_modules/left").write_text("1\n")
    typed(project, "save", "base")
    (project / "package-lock.json").write_text('{"packages": {}}')
    (project / "package.json").write_text(json.dumps({"name": "two"}))
    (project / "node_modules/right").write_text("2\n")
    said = typed(project, "undo")
    assert "npm install" in said


def test_a_repository_that_is_lost_a_second_time_is_named_again(project):
    """Named once is right as long as it is gone; it was there again."""
    for name in ("one", "two"):
        (project / "a.txt").write_text("one\n")
        tools.git("init", "-q", cwd=project)
        typed(project, "save", name)
        shutil.rmtree(project)
        assert ".git" in typed(project.parent, "-C", str(project), "undo", expect=3)
