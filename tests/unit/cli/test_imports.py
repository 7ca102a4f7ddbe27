"""The import budget: a command loads what it uses, and nothing that only another one needs."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tools import plain_environment

# Not one of these may be loaded by an everyday command.
HEAVY = {"asyncio", "tomllib", "importlib.metadata", "http", "email", "subprocess", "difflib", "platform"}


def loaded(cwd, *words: str) -> set[str]:
    program = (
        "import sys; from mulligan.cli import main; main(sys.argv[1:]); print('\\n'.join(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *words],
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
    """Where there is no repository, no reader of repositories either."""
    (project / "a").write_text("1")
    modules = loaded(project, *words)
    assert (
        modules & {"dataclasses", "inspect", "logging", "tempfile", "random", "secrets", "traceback", "urllib"} == set()
    )
    unneeded = (
        "mulligan.restore",
        "mulligan.diff.patch",
        "mulligan.diff.renames",
        "mulligan.scan.git",
        "mulligan.store.collect",
    )
    assert [name for name in modules if name.startswith(unneeded)] == []


def test_help_loads_no_command_and_no_engine(project):
    modules = loaded(project, "-h")
    assert not [
        name
        for name in modules
        if name.startswith(("mulligan.cli.commands", "mulligan.engine", "mulligan.store", "sqlite3"))
    ]
