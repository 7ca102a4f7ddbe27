"""The script by which the plugin finds the program."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import mulligan
from tools import plain_environment

SCRIPT = Path(mulligan.__file__).parent / "plugin" / "bin" / "mulligan.sh"


def test_the_plugin_runs_no_module_of_the_project(project, tmp_path):
    """Where the program is not on the path, the Python that is there is asked; not for what lies in the project."""
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "python3").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    (tools / "python3").chmod(0o755)
    (project / "mulligan.py").write_text("open('TAKEN', 'w').close()\n")
    done = subprocess.run(
        ["/bin/sh", SCRIPT, "--version"], cwd=project, env=plain_environment(PATH=str(tools)), capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout.split()[:1]) == (0, ["mulligan"])
    assert os.listdir(project) == ["mulligan.py"]
