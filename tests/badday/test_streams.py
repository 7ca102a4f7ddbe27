"""What a command says when the output cannot be written: the work counts, and exit code 120 never happens."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

import tools
from play import typed

COMMANDS = (["save"], ["log"], ["status"], ["diff"], ["undo"], ["-h"], ["save", "-h"], ["stores"], ["doctor"], ["nope"])
STREAMS = ("1", "2", "12")


def buffered() -> dict[str, str]:
    """The environment of an ordinary user: Python buffers what it prints."""
    return {name: value for name, value in tools.plain_environment().items() if name != "PYTHONUNBUFFERED"}


def code(project: Path, words: list[str], which: str, target: int) -> int:
    out = target if "1" in which else subprocess.DEVNULL
    err = target if "2" in which else subprocess.DEVNULL
    argv = tools.mulligan_argv(*words)
    return subprocess.run(argv, cwd=project, env=buffered(), stdout=out, stderr=err, check=False).returncode


@pytest.mark.parametrize("which", STREAMS)
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_reader_who_left_changes_no_exit_code(project: Path, words: list[str], which: str) -> None:
    typed(project, "save")
    (project / "a").write_text("changed\n")
    read, write = os.pipe()
    os.close(read)
    try:
        assert code(project, words, which, write) == (2 if words == ["nope"] else 0)
    finally:
        os.close(write)


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_full_stderr_changes_no_exit_code(project: Path, words: list[str]) -> None:
    typed(project, "save")
    (project / "a").write_text("changed\n")
    with open("/dev/full", "wb", buffering=0) as full:
        assert code(project, words, "2", full.fileno()) == (2 if words == ["nope"] else 0)


@pytest.mark.parametrize("words", [each for each in COMMANDS if each != ["nope"]], ids=" ".join)
@pytest.mark.parametrize("which", ["1", "12"])
def test_output_that_cannot_be_written_is_no_success(project: Path, words: list[str], which: str) -> None:
    typed(project, "save")
    (project / "a").write_text("changed\n")
    with open("/dev/full", "wb", buffering=0) as full:
        changing = words[0] in {"save", "undo", "doctor", "stores"} and "-h" not in words
        assert code(project, words, which, full.fileno()) == (3 if changing else 1)


def test_a_save_whose_output_is_lost_says_that_it_is_done(project: Path) -> None:
    with open("/dev/full", "wb", buffering=0) as full:
        done = subprocess.run(
            tools.mulligan_argv("save"), cwd=project, env=buffered(), stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert done.returncode == 3
    assert b"The output could not be written (No space left on device). The command itself is done." in done.stderr
    assert typed(project, "log").strip()
