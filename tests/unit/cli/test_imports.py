"""The import budget: a command loads what it uses, and nothing that only another one needs."""

from __future__ import annotations

import subprocess
import sys

import pytest

import mulligan
from tools import git, plain_environment
from watchers import watched

# Not one of these may be loaded by an everyday command.
HEAVY = {"asyncio", "tomllib", "importlib.metadata", "http", "email", "subprocess", "difflib", "platform"}


def loaded(cwd, *words: str) -> set[str]:
    return loaded_by("from mulligan.cli import main; main(sys.argv[1:])", *words, cwd=cwd)


def loaded_by(program: str, *words: str, cwd=None) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; {program}; print('\\n'.join(sys.modules), file=sys.stderr)", *words],
        cwd=cwd,
        env=plain_environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stderr.split("\n"))


@pytest.mark.parametrize("words", [["save", "x"], ["save", "--if-changed"], ["log"], ["undo"]])
def test_everyday_commands_load_little(project, words):
    (project / "a").write_text("1")
    modules = loaded(project, *words)
    assert modules & HEAVY == set()
    assert {name for name in modules if name.startswith("mulligan.cli.commands.")} == {
        f"mulligan.cli.commands.{words[0]}"
    }


@pytest.mark.parametrize("words", [["save", "x"], ["save", "--if-changed"], ["log"]])
def test_a_save_loads_no_restore_no_diff_and_none_of_the_slow_modules(project, words):
    """Where there is no repository, no reader of repositories either; the second time as the first."""
    (project / "a").write_text("1")
    loaded(project, "save", "first")
    (project / "a").write_text("2")
    modules = loaded(project, *words)
    assert modules & {"logging", "tempfile", "random", "secrets", "traceback", "urllib"} == set()
    unneeded = (
        "mulligan.restore.",
        "mulligan.diff",
        "mulligan.usergit",
        "mulligan.store.gc",
        "mulligan.store.layout",
        "mulligan.store.repack",
        "mulligan.timeline.events",
        "mulligan.timeline.stores",
        "mulligan.engine.undo",
        "mulligan.model.event",
        "mulligan.model.gitconfig",
        "mulligan.model.sizes",
        "mulligan.scan.wildmatch",
        "mulligan.safefs.errors",
        "isal",
    )
    assert [name for name in modules if name.startswith(unneeded)] == []


def test_a_save_in_a_repository_loads_no_reader_of_its_objects(project):
    """HEAD and the index say which files are dirty, as long as nothing goes back to what is staged."""
    (project / "a").write_text("1")
    git("init", "-q", cwd=project)
    git("add", "-A", cwd=project)
    git("commit", "-q", "-m", "one", cwd=project)
    loaded(project, "save")
    (project / "a").write_text("2")
    modules = loaded(project, "save")
    assert "mulligan.usergit.status" in modules
    assert not modules & {"mulligan.usergit.objects", "mulligan.usergit.staged"}


@pytest.mark.parametrize("words", [["restore", "@", "-y"], ["undo"], ["restore", "x", "-y", "--", "a"]])
def test_going_back_by_one_file_loads_none_of_the_slow_modules(project, words):
    (project / "a").write_text("1")
    loaded(project, "save", "x")
    (project / "a").write_text("2")
    modules = loaded(project, *words)
    assert (project / "a").read_text() == "1"
    assert modules & {"uuid", "platform"} == set()
    assert not [name for name in modules if name.startswith(("mulligan.hooks", "mulligan.usergit", "isal"))]


def test_help_loads_no_command_and_no_engine(project):
    modules = loaded(project, "-h")
    assert not [
        name
        for name in modules
        if name.startswith(("mulligan.cli.commands.", "mulligan.engine.workspace", "mulligan.store", "sqlite3"))
    ]


EVENT = '{"session_id": "s", "cwd": ".", "hook_event_name": "PreToolUse", "tool_name": "%s", "tool_input": {}}'


def loaded_by_hook(cwd, tool: str) -> set[str]:
    program = "import sys; from mulligan.cli import main; main(['hook', 'claude-code']); print('\\n'.join(sys.modules), file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=cwd,
        env=plain_environment(),
        input=EVENT % tool,
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stderr.split("\n"))


def test_a_hook_loads_no_more_than_a_save(project):
    (project / "a").write_text("1")
    loaded(project, "save", "first")  # which makes the store, and reads a directory that nobody knew
    (project / "a").write_text("2")
    hook = loaded_by_hook(project, "Bash")
    (project / "a").write_text("3")
    save = loaded(project, "save", "x")
    assert hook & HEAVY == set()
    extra = {name for name in hook - save if not name.startswith(("mulligan.hooks", "mulligan.cli.commands"))}
    events = {"mulligan.model.event", "mulligan.timeline.events", "mulligan.engine.agents"}
    assert {name for name in extra if name.startswith("mulligan")} - events <= {"mulligan.cli.commands.hook"}


def test_a_hook_that_has_nothing_to_do_loads_neither_engine_nor_database(project):
    modules = loaded_by_hook(project, "Read")
    assert not [
        name
        for name in modules
        if name.startswith(("mulligan.engine.workspace", "mulligan.store", "mulligan.safefs", "sqlite3"))
    ]


def test_a_command_that_a_watcher_runs_loads_neither_engine_nor_parser(project):
    with mulligan.open(project) as ws:
        ws.save("first")
    with watched(project):
        modules = loaded_by("from mulligan.cli import main; main()", "save", "x", cwd=project)
    ours = {name for name in modules if name.startswith("mulligan.")}
    assert ours == {"mulligan.cli", "mulligan.cli.main", "mulligan.cli.client", "mulligan.cli.commands"}
    assert modules & {"argparse", "sqlite3", "json"} == set()
    assert mulligan.open(project).log()[0].name == "x"
