"""`mulligan repl` from a pipe and on a terminal."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import time
from pathlib import Path

import pytest

from tools import mulligan_argv, plain_environment, run_mulligan


def piped(project: Path, text: str, *options: str) -> subprocess.CompletedProcess[str]:
    return run_mulligan([*options, "repl"], cwd=project, env=plain_environment(), given=text)


def test_lines_from_a_pipe_are_answered_one_by_one(project: Path) -> None:
    (project / "f").write_text("1")
    done = piped(
        project, "/checkpoint save one\n/checkpoint restore nope\n/frob\n\n/checkpoint restore one\n/quit\n/help\n"
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "Checkpoint saved: one (0)",
        "No checkpoint named 'nope'",
        "Unknown command: /frob. /help lists them.",
        "Restored to checkpoint: one",
    ]


def test_what_one_session_saved_the_next_one_knows(project: Path) -> None:
    piped(project, "/checkpoint create one")
    assert "  0  one  " in piped(project, "/checkpoint").stdout


def test_an_empty_pipe_is_an_end(project: Path) -> None:
    assert piped(project, "").returncode == 0


def test_a_name_cannot_act_on_the_terminal(project: Path) -> None:
    done = piped(project, "/checkpoint save \x1b[2Jx\n")
    assert done.stdout == "Checkpoint saved: \\x1b[2Jx (0)\n"


def test_the_home_is_refused_at_once(private_home: Path) -> None:
    done = piped(private_home, "/checkpoint save\n")
    assert done.returncode == 1
    assert "does not protect" in done.stderr and done.stdout == ""


def test_there_is_no_json_form(project: Path) -> None:
    assert piped(project, "", "--json").returncode == 1


def test_on_a_terminal_a_dropped_line_does_not_end_it(project: Path) -> None:
    """Control-C drops the line, Control-D leaves."""
    master, slave = pty.openpty()
    # Opened by the leader of a new session, the terminal becomes its own, and Control-C reaches it.
    words = ["sh", "-c", 'exec "$@" <"$0" >"$0" 2>&1', os.ttyname(slave), *mulligan_argv("repl")]
    process = subprocess.Popen(words, cwd=project, env=plain_environment(TERM="dumb"), start_new_session=True)
    try:
        seen = read_until(master, b"> ")
        os.write(master, b"/checkpoint sa")
        seen += read_until(master, b"sa")
        # Python's own reader of lines can miss one that comes in the instant before it waits for a key.
        assert any(comes(master, b"\x03") for _ in range(20))
        seen += read_until(master, b"> ")
        os.write(master, b"/checkpoint save typed\n")
        seen += read_until(master, b"Checkpoint saved: typed (0)\r\n> ")
        os.write(master, b"\x04")
        assert process.wait(60) == 0
        assert b"/quit to leave" in seen
    finally:
        process.kill()
        process.wait()
        os.close(slave)
        os.close(master)


def comes(fd: int, typed: bytes) -> bool:
    """Types something; returns whether an answer comes within a second."""
    os.write(fd, typed)
    return bool(select.select([fd], [], [], 1)[0])


def read_until(fd: int, wanted: bytes) -> bytes:
    seen, deadline = b"", time.monotonic() + 60
    while wanted not in seen:
        if not select.select([fd], [], [], max(deadline - time.monotonic(), 0))[0]:
            pytest.fail(f"{wanted!r} did not come; seen: {seen!r}")
        seen += os.read(fd, 4096)
    return seen
