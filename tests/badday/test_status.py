"""What `status`, the first save and `install` tell a person, and what a second terminal hears of a restore."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
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


#: A command that gets a signal in the middle of a restore: the first file is in its place, the others are not.
_SIGNALLED = """
import os, signal, sys
number, sys.argv[1:] = [int(sys.argv[1])], sys.argv[2:]
def met(event, args):
    if event == "os.rename" and os.fsencode(args[0]).startswith(b".mulligan-") and number:
        os.kill(os.getpid(), number.pop())
sys.addaudithook(met)
from mulligan.cli import process
sys.exit(process())
"""


def restore_that_gets(number: int, project: Path) -> subprocess.Popen[bytes]:
    for text in ("1\n", "2\n"):
        for each in range(30):
            (project / f"f{each}").write_text(text)
        if text == "1\n":
            typed(project, "save", "base")
    return subprocess.Popen(
        [sys.executable, "-c", _SIGNALLED, str(number), "restore", "base", "-y"],
        cwd=project, env=tools.plain_environment(), stdout=subprocess.DEVNULL,
    )  # fmt: skip


def test_a_restore_that_runs_is_not_called_interrupted(project: Path) -> None:
    with restore_that_gets(signal.SIGSTOP, project) as restore:
        try:
            met = os.waitid(os.P_PID, restore.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
            assert met is not None and met.si_code == os.CLD_STOPPED
            said = typed(project, "status")
        finally:
            restore.send_signal(signal.SIGCONT)
    assert f"A restore is running (process {restore.pid}, 30 files)." in said
    assert "interrupted" not in said and ".mulligan-" not in said
    assert restore.returncode == 0 and (project / "f29").read_text() == "1\n"


def test_a_restore_that_was_killed_is_called_interrupted(project: Path) -> None:
    with restore_that_gets(signal.SIGKILL, project) as restore:
        assert restore.wait() == -signal.SIGKILL
    assert "A restore was interrupted (30 files). Finish it: mulligan doctor" in typed(project, "status")
    typed(project, "doctor")
    assert "interrupted" not in typed(project, "status")


def test_a_long_name_does_not_break_the_line_of_a_status(project: Path) -> None:
    (project / "a").write_text("1\n")
    typed(project, "save", "a rather long name of a checkpoint that does not fit into eighty columns")
    (line,) = [line for line in typed(project, "status").splitlines() if line.startswith("last saved")]
    assert len(line) <= 80 and "a rather long name" in line
