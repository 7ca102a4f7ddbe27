"""Commands and shells: what they print, how they end, what they remember, and that nothing outlives its time."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mulligan.environments import output, shell
from mulligan.environments.shell import ShellSession, run_once


@pytest.fixture
def session(tmp_path: Path) -> Iterator[ShellSession]:
    made = ShellSession(str(tmp_path))
    yield made
    made.close()


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def ends(pid: int) -> bool:
    """Returns whether a process that was killed is gone; the system takes a moment for it."""
    deadline = time.monotonic() + 60
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not alive(pid)


class Clock:
    """A clock by which a command is beyond its time as soon as a file has something in it, but not before it began."""

    def __init__(self, file: Path) -> None:
        self._file, self._asked = file, False

    def monotonic(self) -> float:
        ahead = self._asked and self._file.exists() and self._file.stat().st_size
        self._asked = True
        return time.monotonic() + (3600 if ahead else 0)


def test_a_command_is_told_apart_by_stream_and_code(tmp_path: Path) -> None:
    ran = run_once("pwd; echo oops >&2; exit 3", cwd=str(tmp_path), timeout=60)
    assert (ran.stdout, ran.stderr, ran.exit_code, ran.success) == (f"{tmp_path}\n", "oops\n", 3, False)


def test_a_command_has_no_input_to_wait_for(tmp_path: Path) -> None:
    assert run_once("cat", cwd=str(tmp_path), timeout=60).success


def test_bytes_that_are_no_text_do_not_matter(tmp_path: Path) -> None:
    assert run_once(r"printf 'a\377b'", cwd=str(tmp_path), timeout=60).stdout == "a\ufffdb"


def test_a_killed_command_has_the_code_of_a_shell(tmp_path: Path) -> None:
    assert run_once("kill -9 $$", cwd=str(tmp_path), timeout=60).exit_code == 137


def test_out_of_time_everything_it_started_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shell, "time", Clock(tmp_path / "pid"))
    ran = run_once("sh -c 'echo begun; echo $$ > pid; exec sleep 60' & wait", cwd=str(tmp_path), timeout=60)
    assert ran.exit_code == 124
    assert "begun" in ran.stdout and "timed out after 60 s" in ran.stderr
    assert ends(int((tmp_path / "pid").read_text()))


def test_a_program_left_in_the_background_holds_nothing_up(tmp_path: Path) -> None:
    ran = run_once("sleep 600 & echo $! > pid; echo done", cwd=str(tmp_path), timeout=60)
    pid = int((tmp_path / "pid").read_text())
    try:
        assert (ran.stdout, ran.exit_code) == ("done\n", 0)
        assert alive(pid)
    finally:
        os.kill(pid, 9)


def test_a_program_left_in_the_background_that_prints_holds_nothing_up(tmp_path: Path) -> None:
    prints = "n=0; while [ $n -lt 1200 ] && [ ! -e stop ]; do n=$((n+1)); echo x; sleep 0.1; done; touch ended"
    ran = run_once(f"({prints}) & echo $! > pid; echo done", cwd=str(tmp_path), timeout=None)
    there = (tmp_path / "ended").exists()
    (tmp_path / "stop").touch()
    assert (there, ran.exit_code) == (False, 0) and "done" in ran.stdout
    assert ends(int((tmp_path / "pid").read_text()))


def test_closed_streams_do_not_end_the_wait(tmp_path: Path) -> None:
    ran = run_once("exec >&- 2>&-; echo x > begun; exit 4", cwd=str(tmp_path), timeout=60)
    assert ran.exit_code == 4


def test_endless_output_is_cut_in_the_middle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "OUTPUT_LIMIT", 1000)
    monkeypatch.setattr(output, "_HALF", 500)
    ran = run_once("echo first; yes | head -c 300000; echo last", cwd=str(tmp_path), timeout=60)
    assert ran.stdout.startswith("first") and ran.stdout.endswith("last\n")
    assert "bytes left out" in ran.stdout and len(ran.stdout) < 1100


def test_a_session_remembers(session: ShellSession, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    session.run("cd sub; X=1; export Y=2; f() { echo f$X$Y; }", timeout=60)
    ran = session.run("pwd; f; printf end; printf err >&2; (exit 5)", timeout=60)
    assert (ran.stdout, ran.stderr, ran.exit_code) == (f"{tmp_path}/sub\nf12\nend", "err", 5)


def test_a_session_outlives_bad_commands(session: ShellSession) -> None:
    session.run("X=kept", timeout=60)
    assert session.run("echo 'unfinished", timeout=60).exit_code != 0
    session.run("exec >/dev/null 2>&1; cat", timeout=60)
    assert session.run("echo $X", timeout=60).stdout == "kept\n"


def test_a_session_that_exits_starts_afresh(session: ShellSession, tmp_path: Path) -> None:
    session.run("cd /; X=1", timeout=60)
    assert session.run("echo bye; exit 7", timeout=60).exit_code == 7
    assert session.run("pwd; echo [$X]", timeout=60).stdout == f"{tmp_path}\n[]\n"


def test_a_session_out_of_time_is_ended_and_starts_afresh(
    session: ShellSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shell, "time", Clock(tmp_path / "pid"))
    ran = session.run("echo $$ > pid; sleep 60", timeout=60)
    assert ran.exit_code == 124 and "starts a new one" in ran.stderr
    assert ends(int((tmp_path / "pid").read_text()))
    assert session.run("echo again", timeout=60).stdout == "again\n"


def test_output_that_looks_like_the_mark_of_another_command_is_output(session: ShellSession) -> None:
    ran = session.run("echo mulligan-000000000000000000000000 0", timeout=60)
    assert ran.stdout == "mulligan-000000000000000000000000 0\n"


def test_endless_output_of_a_session_still_ends(session: ShellSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "OUTPUT_LIMIT", 1000)
    monkeypatch.setattr(output, "_HALF", 500)
    ran = session.run("yes | head -c 300000; echo last", timeout=60)
    assert ran.exit_code == 0 and ran.stdout.endswith("last\n")


def test_closing_twice_is_harmless(tmp_path: Path) -> None:
    session = ShellSession(str(tmp_path))
    session.run("sleep 60 & echo $! > pid", timeout=60)
    session.close()
    session.close()
    assert ends(int((tmp_path / "pid").read_text()))
