"""Looking after mulligan, and leaving it: uninstall, stores rm, watch --list, pause, config, status --line."""

from __future__ import annotations

import json
import os
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import mulligan
from mulligan.errors import ConfigError
from mulligan.settings.editing import with_setting
from tools import cli, cli_json, git, plain_environment, run_mulligan
from watchers import watched


def hook(project, event, **more):
    payload = {"hook_event_name": event, "session_id": "s", "cwd": str(project), **more}
    done = run_mulligan(["hook", "claude-code"], cwd=project, env=plain_environment(), given=json.dumps(payload))
    assert done.returncode == 0, done.stderr
    return done.stdout


# -- uninstall ------------------------------------------------------------------------------------


def test_uninstall_removes_the_hooks_of_all_agents_and_projects_and_keeps_checkpoints(project, tmp_path, private_home):
    other = tmp_path / "other"
    other.mkdir()
    git("init", "-q", cwd=other)
    for each in (project, other):
        (each / "a").write_text("1")
        cli_json("save", "first", cwd=each)
    cli_json("install", "claude-code", cwd=project)
    cli_json("install", "qwen", "--scope", "user", cwd=project)
    for agent in ("cline", "git", "claude-skill"):
        cli_json("install", agent, cwd=other)
    planned = cli_json("uninstall", "--dry-run", cwd=project)["steps"]
    assert all(os.path.exists(step["path"]) for step in planned)
    assert len(planned) > 10 and (project / ".claude/settings.local.json").exists()
    assert cli_json("uninstall", cwd=project)["steps"] == planned
    assert not (project / ".claude").exists() and not (private_home / ".qwen/settings.json").exists()
    assert not (other / ".clinerules").exists() and not (other / ".git/hooks/post-commit").exists()
    assert not (other / ".claude/skills/checkpoint-manager").exists()
    assert cli_json("uninstall", cwd=project)["steps"] == []
    said = cli("uninstall", cwd=project).stdout
    assert "checkpoints of 2 projects stay" in said and "mulligan uninstall --stores" in said
    for each in (project, other):
        assert [found["name"] for found in cli_json("log", cwd=each)["checkpoints"]] == ["first"]
        assert cli("status", cwd=each).stderr == ""  # no word on hooks that are gone


def test_uninstall_leaves_a_file_alone_that_it_cannot_read_and_says_so(project):
    (project / ".claude").mkdir()
    (project / ".claude/settings.local.json").write_text("{ no JSON, mulligan hook")
    found = cli_json("uninstall", cwd=project, expect=3)
    assert ".claude/settings.local.json" in found["unreadable"][0]
    assert (project / ".claude/settings.local.json").read_text() == "{ no JSON, mulligan hook"


def test_stores_are_removed_only_when_asked_and_confirmed(project):
    (project / "a").write_text("1")
    cli_json("save", "first", cwd=project)
    refused = cli("uninstall", "--stores", cwd=project)
    assert refused.returncode == 1 and "mulligan uninstall --stores -y" in refused.stderr
    assert cli_json("log", cwd=project)["checkpoints"]
    assert len(cli_json("uninstall", "--stores", "-y", cwd=project)["stores"]) == 1
    assert cli_json("stores", cwd=project)["stores"] == [] and (project / "a").read_text() == "1"


def test_uninstall_ends_watchers(project):
    mulligan.open(project).save("first")
    with watched(project):
        (running,) = cli_json("watch", "--list", cwd=project)["watchers"]
        assert running["workspace"] == str(project)
        assert cli_json("uninstall", cwd=project)["watchers"] == [
            {"process": running["process"], "workspace": str(project)}
        ]
        assert cli_json("watch", "--list", cwd=project)["watchers"] == []


# -- stores rm ------------------------------------------------------------------------------------


@pytest.mark.parametrize("by", ["workspace", "path"])
def test_stores_rm_removes_one_history_and_no_other(project, tmp_path, by):
    other = tmp_path / "other"
    other.mkdir()
    for each in (project, other):
        (each / "a").write_text("1")
        cli_json("save", "first", cwd=each)
    row = next(each for each in cli_json("stores", cwd=project)["stores"] if each["workspace"] == str(other))
    assert cli("stores", "rm", row[by], cwd=project).returncode == 1
    left = cli_json("stores", "rm", row[by], "-y", cwd=project)["stores"]
    assert [each["workspace"] for each in left] == [str(project)]
    assert cli("stores", "rm", row[by], "-y", cwd=project).returncode == 1
    assert (other / "a").read_text() == "1"


# -- pause ----------------------------------------------------------------------------------------


def test_a_paused_project_records_nothing_of_agents_and_everything_of_people(project):
    (project / "a").write_text("1")
    cli_json("exclude", "*.log", cwd=project)
    assert cli_json("pause", cwd=project)["paused"]
    assert "paused" in hook(project, "SessionStart")
    assert hook(project, "PostToolUse", tool_name="Bash", tool_input={}) == ""
    assert cli_json("log", cwd=project)["checkpoints"] == []
    assert cli_json("save", "mine", cwd=project)["checkpoint"]
    assert "resume" in cli("status", cwd=project).stdout
    assert not cli_json("resume", cwd=project)["paused"]
    (project / "a").write_text("2")
    hook(project, "PostToolUse", tool_name="Bash", tool_input={})
    assert [each["kind"] for each in cli_json("log", cwd=project)["checkpoints"]] == ["step", "manual"]
    assert cli_json("exclude", cwd=project)["exclude"] == ["*.log"]


# -- status --line --------------------------------------------------------------------------------


def test_one_line_says_when_it_was_saved_and_counts_changes_where_a_watcher_knows_them(project):
    def line(**environment):
        done = cli("status", "--line", cwd=project, **environment)
        assert done.returncode == 0 and done.stderr == ""
        return re.sub(r"saved \d+ \w+ ago", "saved just now", done.stdout)

    assert line() == ""
    (project / "a").write_text("1")
    mulligan.open(project).save("first")
    (project / "b").write_text("2")
    assert line() == "saved just now\n"
    with watched(project):
        assert line(MULLIGAN_WATCH="found") == "saved just now, 1 changed\n"
    cli_json("pause", cwd=project)
    assert line() == "saved just now, paused\n"


# -- config ---------------------------------------------------------------------------------------


def test_config_changes_one_setting_and_keeps_comments(project, private_home):
    path = cli_json("config", "path", cwd=project)["path"]
    cli_json("config", "set", "retention.budget", "5 GiB", cwd=project)
    with open(path, "a") as file:
        file.write("# mine\n[capture]  # also mine\nexclude = ['a']\n")
    found = cli_json("config", "set", "retention.step", "7", cwd=project)["settings"]
    assert found == {"retention.step": 7}
    cli_json("config", "unset", "capture.exclude", cwd=project)
    with open(path) as file:
        assert file.read() == '[retention]\nstep = 7\nbudget = "5 GiB"\n# mine\n[capture]  # also mine\n'
    assert cli_json("config", "get", cwd=project)["settings"]["retention.budget"] == 5 << 30
    assert 'retention.budget = "5 GiB"\n' in cli("config", "get", cwd=project).stdout
    cli_json("config", "set", "retention.budget", "5000000001", cwd=project)
    assert cli("config", "get", "retention.budget", cwd=project).stdout == "5000000001\n"


@pytest.mark.parametrize(
    ("words", "code"),
    [(["set", "retention.step", "many"], 1), (["set", "nope", "1"], 1), (["set", "x"], 2), (["drop"], 2)],
)
def test_config_refuses_what_makes_no_sense_and_changes_nothing(project, words, code):
    assert cli("config", *words, cwd=project).returncode == code
    assert cli_json("config", "get", "retention.step", cwd=project)["settings"] == {"retention.step": 200}


@given(
    st.sampled_from(
        ["", "[a]\nx = 1\n", "[a]\nx = [\n 1,\n]\ny = 2", "# c\n[ a ]\n", "a.x = 1\n", "[b]\ny='''\n[a]\n'''\n"]
    ),
    st.sampled_from(["a.x", "a.y", "b.x"]),
    st.one_of(st.none(), st.booleans(), st.integers(0, 9), st.text(), st.lists(st.text(), max_size=2)),
)
@example("", "a.x", ["\x7f"])
def test_a_setting_is_changed_exactly_or_refused(text, key, value):
    """Whatever the file looks like: afterwards it says what it said, with one difference."""
    import tomllib

    section, _, name = key.partition(".")
    wanted = tomllib.loads(text)
    if value is None:
        wanted.get(section, {}).pop(name, None)
    else:
        wanted.setdefault(section, {})[name] = value
    try:
        assert tomllib.loads(with_setting(text, key, value)) == wanted
    except ConfigError:
        assert "=" in text
