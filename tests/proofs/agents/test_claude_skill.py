"""Seed 000 in the real Claude Code: the skill is found, its directory is filled in, and its scripts find the program."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from clients import claude_argv, claude_variables, trust_claude
from scripted_model import Say, Use, scripted

import tools

CREATE = re.compile(r'^python3 "(/[^"$]*)/scripts/checkpoint_manager\.py" create before-refactor .*$', re.MULTILINE)


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A path with `mulligan` on it as pipx puts it there, and a python3 that has no mulligan."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "mulligan"
    code = f"import sys\nsys.path.insert(0, {str(tools.PACKAGE)!r})\nfrom mulligan.cli.dispatch import main\nmain()\n"
    inner = tmp_path / "inner" / "python3"
    inner.parent.mkdir()
    inner.write_text(f'#!/bin/sh\nPYTHONPATH={tools.PACKAGE} exec {sys.executable} "$@"\n')
    program.write_text(f"#!{inner}\n{code}")
    (folder / "python3").write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    for each in (inner, program, folder / "python3"):
        each.chmod(0o755)
    return f"{folder}:/usr/local/bin:/usr/bin:/bin"


def test_use_when_creating_checkpoints_or_rolling_back_changes(agents_project, claude, path):
    trust_claude(agents_project)
    agents_project.mulligan("install", "claude-skill")
    before = agents_project.everything()

    def turn(script: list[Say | Use]) -> str:
        with scripted({"the task": script}) as model:
            argv = claude_argv(claude, "the task", "--allowedTools", "Bash,Skill")
            env = {**claude_variables(model.url), "PATH": f"{Path(claude).parent}:{path}", "PYTHONPATH": ""}
            done = agents_project.run(argv, **env)
        assert done.returncode == 0, done.stdout + done.stderr
        return "\n".join(each.people for each in model.asked)

    told = turn([Use("Skill", {"skill": "checkpoint-manager"}), Say("read.")])
    create = CREATE.search(told)
    assert create, told[-2000:]
    script = Path(create[1]) / "scripts"
    assert script.is_dir() and agents_project.root in script.parents

    def bash(command: str) -> Use:
        return Use("Bash", {"command": command, "description": "-"})

    back = f'python3 "{script}/rollback_handler.py" latest > back.txt 2>&1'
    turn([bash(f"{create[0]} > made.txt 2>&1"), bash(f"rm -rf src; {back}"), Say("done.")])
    listed = agents_project.mulligan("log")["checkpoints"]
    made = next(each for each in listed if each["name"] == "before-refactor")
    assert re.fullmatch(r"checkpoint-\d{8}-\d{6}", made["metadata"]["id"]), json.dumps(made)
    after = agents_project.everything()
    assert {name: after[name] for name in before} == before
