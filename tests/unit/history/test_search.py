"""`search`: prompts, commands, names, paths, contents, and when a text came or went."""

from __future__ import annotations

import asyncio
import os

import pytest

import mulligan
import mulligan.aio
from mulligan.history import search as searching
from told import Session, write
from tools import cli, cli_json

ONE, TWO = "aaaa1111-0000-4000-8000-000000000001", "bbbb2222-0000-4000-8000-000000000002"
SECRET = "ghp_" + "a1B2" * 9


@pytest.fixture
def day(project):
    """Two agents, a person, a file that is deleted and one that is renamed, a secret."""
    write(
        project,
        {"app.py": "def old_name(): pass\n", "README.md": "the Login guide\n", ".env": "TOKEN=hidden-needle-123456\n"},
    )
    mulligan.open(project).save("start")
    one, two = Session(project, ONE), Session(project, TWO)
    one.prompt("add the login page")
    one.does("make login", {"login.py": "def login(): pass\n"})
    one.stop()
    write(project, {"app.py": "def new_name(): pass\n"})
    two.prompt("clean up")
    two.does("rm login.py", {"login.py": None, "app.py": "def new_name(): return 1\n"})
    two.stop()
    mulligan.open(project).save("after the login work", description="looks good")
    return project


def kinds(found):
    return [(each.kind, each.text) for each in found.matches]


def test_search_finds_prompts_commands_names_paths_and_lines(day):
    found = kinds(mulligan.open(day).search("LOGIN"))
    assert ("prompt", "add the login page") in found
    assert ("command", "Bash: make login") in found and ("command", "Bash: rm login.py") in found
    assert ("checkpoint", "after the login work") in found
    assert [each for each in found if each[0] == "path"] == [("path", "login.py")]
    assert ("content", "the Login guide") in found
    assert len(found) == 6


def test_search_is_bounded_by_agent_session_and_time(day):
    ws = mulligan.open(day)
    assert [each.origin.session for each in ws.search("login", session="aaaa").matches if each.kind == "command"] == [
        ONE
    ]
    assert ws.search("login", agent="codex").matches == ()
    assert ws.search("login", until="1 hour ago").matches == ()
    assert ws.search("login", since="1 hour ago").left_out


def test_search_says_when_a_text_appeared_and_which_prompt_removed_it(day):
    found = mulligan.open(day).search("def login", changes=True)
    gone, came = found.matches
    assert (gone.kind, gone.path, gone.origin.asked, gone.before, gone.after) == (
        "disappeared",
        "login.py",
        "clean up",
        1,
        0,
    )
    assert (came.kind, came.origin.asked, came.origin.command) == ("appeared", "add the login page", "make login")
    by = {each.kind: each.origin.by for each in mulligan.open(day).search("old_name", changes=True).matches}
    assert by == {"disappeared": "you", "appeared": "first"}
    assert mulligan.open(day).search("DEF LOGIN", changes=True).matches == ()


def test_a_renamed_file_neither_loses_nor_gains_text(day):
    os.rename(day / "README.md", day / "GUIDE.md")
    mulligan.open(day).save("renamed")
    assert [each.kind for each in mulligan.open(day).search("Login guide", changes=True).matches] == ["appeared"]


def test_sealed_secrets_are_not_searched_and_tokens_are_not_shown(day):
    assert mulligan.open(day).search("hidden-needle").matches == ()
    assert mulligan.open(day).search("hidden-needle", changes=True).matches == ()
    write(day, {"conf.txt": f"here is {SECRET} ok\n"})
    mulligan.open(day).save("with a token")
    for words in (["search", "here is"], ["search", "-S", SECRET], ["--json", "search", "-S", "here is"]):
        done = cli(*words, cwd=day)
        assert "conf.txt" in done.stdout and SECRET not in done.stdout


def test_no_match_is_no_failure_and_the_other_search_is_offered(day):
    done = cli("search", "nowhere at all", cwd=day)
    assert done.returncode == 0 and done.stdout == "" and "mulligan search -S" in done.stderr
    assert cli_json("search", "nowhere at all", cwd=day) == {"matches": [], "left_out": []}
    assert cli("search", "x", "--since", "soon", cwd=day).returncode == 1
    assert cli("search", "", cwd=day).returncode == 2


def test_the_screen_groups_matches_and_names_a_reference_that_works(day):
    text = cli("search", "login", cwd=day).stdout
    assert [line for line in text.splitlines() if line and line[0] != " "] == [
        "prompts",
        "commands",
        "checkpoints",
        "paths",
        "contents",
    ]
    ref = f"@{ONE[:8]}/tool-1"
    assert ref in text and cli("show", ref, cwd=day).returncode == 0


def test_nothing_was_saved_yet_is_said(project):
    assert cli("search", "x", cwd=project).returncode == 10


def test_what_is_read_is_bounded_and_counted(day, monkeypatch):
    monkeypatch.setattr(searching, "LARGEST_FILE", 4)
    found = mulligan.open(day).search("guide")
    assert found.left_out == ("2 files that are too large or too many",)
    monkeypatch.setattr(searching, "MOST_MATCHES", 1)
    found = mulligan.open(day).search("login")
    assert len(found.matches) == 1 and "more than 1 matches" in found.left_out


def test_a_long_search_reports_progress(day):
    told, ws = [], mulligan.open(day)
    ws.progress = lambda label, done, total: told.append((label, done, total))
    ws.search("login", changes=True)
    assert told[0][0] == "searching" and len(told) == len(ws.log())


def test_coroutines_search_too(day):
    async def found():
        async with await mulligan.aio.open(day) as ws:
            return await ws.search("login")

    assert len(asyncio.run(found()).matches) == 6
