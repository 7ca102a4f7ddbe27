"""`log --since --until --grep --agent --session --path`, of checkpoints and of the story."""

from __future__ import annotations

from datetime import timedelta

import pytest

import mulligan
from told import Session, write
from tools import cli, cli_json

ONE, TWO = "aaaa1111-0000-4000-8000-000000000001", "bbbb2222-0000-4000-8000-000000000002"


@pytest.fixture
def day(project):
    """A save, two sessions with a turn each, and an edit by hand that was saved under a name."""
    write(project, {"app.py": "one\n", "notes.md": "n\n"})
    mulligan.open(project).save("start")
    for session, asked, command, changes in (
        (ONE, "add the login page", "make login", {"src/login.py": "a\n"}),
        (TWO, "clean up the tests", "rm -r build", {"tests/test_login.py": "b\n"}),
    ):
        agent = Session(project, session)
        agent.prompt(asked)
        agent.does(command, changes)
        agent.stop()
    write(project, {"notes.md": "more\n"})
    mulligan.open(project).save("notes by hand")
    return project


def listed(project, *words):
    return [each["description"] or each["name"] for each in cli_json("log", *words, cwd=project)["checkpoints"]]


def told(project, *words):
    return [each["text"] for each in cli_json("log", "--story", *words, cwd=project)["story"]]


def test_log_is_bounded_by_time_on_both_sides(day):
    made = mulligan.open(day).log()
    second = made[2].created_at
    assert listed(day, "--since", second.isoformat()) == listed(day)[:3]
    assert listed(day, "--until", second.isoformat()) == listed(day)[2:]
    assert listed(day, "--since", "1 hour ago") == listed(day)
    assert listed(day, "--until", "1 hour ago") == []
    ws = mulligan.open(day)
    assert [each.id for each in ws.log(since=second + timedelta(microseconds=1))] == [each.id for each in made[:2]]


def test_log_finds_words_of_names_commands_and_prompts(day):
    assert listed(day, "--grep", "BY HAND") == ["notes by hand"]
    assert listed(day, "--grep", "make login") == ["Bash: make login"]
    assert listed(day, "--grep", "the login page") == ["Bash: make login"]
    assert listed(day, "--grep", "no such words") == []


def test_log_of_one_agent_or_session_leaves_other_work_out(day):
    assert listed(day, "--session", "aaaa") == ["Bash: make login"]
    assert listed(day, "--agent", "claude") == ["Bash: rm -r build", "Bash: make login"]
    assert listed(day, "--agent", "codex") == []


def test_log_takes_a_pattern_of_paths_as_an_option(day):
    assert listed(day, "--path", "*login.py") == ["Bash: rm -r build", "Bash: make login", *listed(day)[:0]]
    assert listed(day, "--path", "src", "--since", "yesterday") == ["Bash: make login"]


def test_the_story_takes_the_same_filters(day):
    assert told(day) == ["clean up the tests", "add the login page"]
    assert told(day, "--session", "bbbb2222") == ["clean up the tests"]
    assert told(day, "--grep", "rm -r") == ["clean up the tests"]
    assert told(day, "--path", "src/*") == told(day, "src") == ["add the login page"]
    assert told(day, "--until", "yesterday") == []
    assert "No prompt to show." in cli("log", "--story", "--grep", "nothing", cwd=day).stderr


def test_a_time_that_is_none_is_refused_in_words(day):
    done = cli("log", "--since", "soon", cwd=day)
    assert done.returncode == 1
    assert "since is a time, and 'soon' is none" in done.stderr and "yesterday" in done.stderr
