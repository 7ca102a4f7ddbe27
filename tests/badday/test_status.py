"""What `status`, the first save and `install` tell a person, and what a second terminal hears of a restore."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from pathlib import Path

import tools
from play import typed


def begin(project: Path) -> None:
    (project / "src").mkdir()
    (project / "src/app.py").write_text("app\n")
    (project / ".env").write_text("KEY=value\n")
    (project / "node_modules").mkdir()
    (project / "node_modules/x.js").write_text("x\n")
    os.truncate(os.open(project / "big.bin", os.O_CREAT | os.O_WRONLY), 60 << 20)


def test_status_says_when_the_project_was_last_saved_and_fits_ten_lines(project: Path) -> None:
    (project / "a").write_text("1\n")
    typed(project, "save", "base")
    said = typed(project, "status")
    assert re.search(r"last saved  (just now|\d+ \w+ ago): 'base' \(", said)
    assert "no changes since the last checkpoint" in said
    assert "all files are protected" in said
    assert len(said.splitlines()) <= 10


def test_the_first_save_names_what_is_not_saved(project: Path) -> None:
    begin(project)
    said = typed(project, "save")
    (line,) = [line for line in said.splitlines() if line.startswith("Not saved: ")]
    assert "big.bin (60 MiB; limit 50 MiB)" in line and "node_modules" in line
    assert line.endswith("Details: mulligan status")


def test_install_names_what_is_not_saved(project: Path) -> None:
    begin(project)
    said = typed(project, "install", "claude-code", "-y")
    assert "Not saved: " in said and "node_modules" in said


def test_a_local_database_that_git_ignores_is_suggested_with_the_line_to_type(project: Path) -> None:
    (project / ".gitignore").write_text("*.sqlite3\n*.log\n*.db\n")
    for name in ("db.sqlite3", "server.log", "Thumbs.db", "app.py"):
        (project / name).write_text("1\n")
    for said in (typed(project, "install", "claude-code", "-y"), typed(project, "save", "first")):
        assert "Not saved: db.sqlite3, " in said
        (line,) = [line for line in said.splitlines() if "mulligan include" in line]
        assert line == "To save db.sqlite3 although git ignores it: mulligan include /db.sqlite3"
    typed(project, *line.partition(": mulligan ")[2].split())
    typed(project, "save", "with it")
    (project / "db.sqlite3").unlink()
    typed(project, "restore", "with it", "-y")
    assert (project / "db.sqlite3").read_text() == "1\n"


def test_nothing_is_suggested_where_nothing_likely_is_ignored(project: Path) -> None:
    (project / ".gitignore").write_text("*.log\n")
    (project / "server.log").write_text("1\n")
    (project / "db.sqlite3").write_text("saved\n")
    assert "mulligan include" not in typed(project, "install", "claude-code", "-y") + typed(project, "save", "first")


def test_a_restore_that_runs_is_not_called_interrupted(project: Path) -> None:
    for number in range(3000):
        (project / f"f{number}").write_text("1\n")
    typed(project, "save", "base")
    for number in range(3000):
        (project / f"f{number}").write_text("2\n")
    restore = subprocess.Popen(
        tools.mulligan_argv("restore", "base", "-y"), cwd=project, env=tools.plain_environment(),
        stdout=subprocess.DEVNULL,
    )  # fmt: skip
    while restore.poll() is None and not any(name.startswith(".mulligan-") for name in os.listdir(project)):
        time.sleep(0.001)
    os.kill(restore.pid, signal.SIGSTOP)
    try:
        assert restore.poll() is None
        said = typed(project, "status")
    finally:
        os.kill(restore.pid, signal.SIGCONT)
    assert f"A restore is running (process {restore.pid}, 3,000 files)." in said
    assert "interrupted" not in said and ".mulligan-" not in said
    assert restore.wait(timeout=120) == 0


def test_a_restore_that_was_killed_is_called_interrupted(project: Path) -> None:
    for number in range(3000):
        (project / f"f{number}").write_text("1\n")
    typed(project, "save", "base")
    for number in range(3000):
        (project / f"f{number}").write_text("2\n")
    restore = subprocess.Popen(
        tools.mulligan_argv("restore", "base", "-y"), cwd=project, env=tools.plain_environment(),
        stdout=subprocess.DEVNULL,
    )  # fmt: skip
    while restore.poll() is None and not any(name.startswith(".mulligan-") for name in os.listdir(project)):
        time.sleep(0.001)
    restore.kill()
    restore.wait()
    assert "A restore was interrupted (3,000 files). Finish it: mulligan doctor" in typed(project, "status")
    typed(project, "doctor")
    assert "interrupted" not in typed(project, "status")


def test_a_long_name_does_not_break_the_line_of_a_status(project: Path) -> None:
    (project / "a").write_text("1\n")
    typed(project, "save", "a rather long name of a checkpoint that does not fit into eighty columns")
    (line,) = [line for line in typed(project, "status").splitlines() if line.startswith("last saved")]
    assert len(line) <= 80 and "a rather long name" in line
