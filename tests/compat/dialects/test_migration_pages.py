"""The migration pages, followed step by step: every block of each page, in order, in one project."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import tools

PAGES = tools.PACKAGE.parent / "docs" / "howto"
BLOCK = re.compile(r"^```(python|sh)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
AGENT = {
    "chimera": "from chimera.checkpoints import CheckpointManager\n",
    "praisonai": "from praisonaiagents.checkpoints import CheckpointService\n",
    "architect": "from architect.features.checkpoints import CheckpointManager\n",
    "checkpoint-manager-skill": "from scripts.checkpoint_manager import CheckpointManager\n",
}
#: Programs of the originals: played where they are installed, in test_originals_underneath.
ORIGINALS = ("-m praisonai", "-m architect", "pip install")


def shell(project: Path, line: str) -> None:
    words = [sys.executable if word == "python" else word for word in line.split()]
    if words[0] == "mulligan":
        words = tools.mulligan_argv(*words[1:])
    done = subprocess.run(
        words, cwd=project, env=tools.plain_environment(), capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, f"{line}: {done.stdout}{done.stderr}"


@pytest.mark.parametrize("system", AGENT)
def test_a_migration_page_can_be_followed_step_by_step(project: Path, system: str) -> None:
    tools.git("init", "-q", "-b", "main", cwd=project)
    (project / "app.py").write_text("print('hello')\n")
    tools.git("add", "-A", cwd=project)
    tools.git("commit", "-q", "-m", "first", cwd=project)
    (project / "agent.py").write_text(AGENT[system])
    python: list[str] = []
    for kind, text in BLOCK.findall((PAGES / f"migrate-from-{system}.md").read_text()):
        if kind == "python":
            python.append(text)
            continue
        for line in text.splitlines():
            if line.strip() and not any(word in line for word in ORIGINALS):
                shell(project, line)
    assert python
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(python)],
        cwd=project,
        env=tools.plain_environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_the_commands_in_the_tables_of_the_pages_exist(project: Path) -> None:
    (project / "a.txt").write_text("a\n")
    assert tools.cli("save", "one", cwd=project).returncode == 0
    for words in (["architect", "history"], ["praisonai", "list"], ["architect", "rollback", "-h"], ["repl", "-h"]):
        assert tools.cli(*words, cwd=project).returncode == 0
