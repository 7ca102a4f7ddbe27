"""The front door: every error becomes output, and exactly one JSON document where that was asked for."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys

import pytest

from mulligan import errors
from mulligan.cli import main
from mulligan.cli.commands import COMMANDS, EXIT_CODES, FIRST_FIVE
from tools import cli, mulligan_argv, plain_environment


def breaking(monkeypatch, error):
    """Makes `mulligan completion` fail in an unforeseen way."""
    from mulligan.cli.commands import completion

    def run(_context, _args):
        raise error

    monkeypatch.setattr(completion, "run", run)


def test_without_a_word_the_five_commands_are_shown(capsys):
    assert main([]) == 0
    out = capsys.readouterr().out
    assert all(f"mulligan {name}" in out for name in FIRST_FIVE) and "mulligan demo" in out


@pytest.mark.parametrize("words", [["-h"], ["--help"], ["help"]])
def test_the_help_lists_every_command(capsys, words):
    assert main(words) == 0
    out = capsys.readouterr().out
    listed = set(out.replace(",", " ").split())
    assert set(COMMANDS) <= listed and "__complete" not in out


@pytest.mark.parametrize("words", [["save", "-h"], ["-h", "save"], ["help", "save"], ["save", "x", "--help"]])
def test_the_help_of_a_command_is_found_from_every_side(capsys, words):
    assert main(words) == 0
    assert capsys.readouterr().out.startswith("usage: mulligan save")


def test_the_version_is_told(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("mulligan ")


@pytest.mark.parametrize(
    "words", [["bogus"], ["--bogus"], ["cat"], ["save", "--context", "nonsense", "name"], ["cat", "no-colon"]]
)
def test_a_usage_mistake_ends_with_two(capsys, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = main(words)
    captured = capsys.readouterr()
    assert code == 2 and captured.out == "" and captured.err.startswith("mulligan: ")


@pytest.mark.parametrize("words", [["--json"], ["--json", "bogus"], ["cat", "--json"], ["--json", "log", "-n", "x"]])
def test_with_json_a_mistake_is_one_document(capsys, words):
    assert main(words) == 2
    captured = capsys.readouterr()
    document = json.loads(captured.out)
    assert (
        captured.err == ""
        and set(document["error"]) == {"type", "message", "hint", "exit_code"}
        and document["error"]["exit_code"] == 2
    )


@pytest.mark.parametrize(
    "words", [["--json", "-h"], ["--json", "--version"], ["--json", "save", "-h"], ["--json", "completion", "bash"]]
)
def test_with_json_even_help_is_one_document(capsys, words):
    assert main(words) == 0
    assert isinstance(json.loads(capsys.readouterr().out), dict)


def classes(cls=errors.MulliganError):
    yield cls
    for below in cls.__subclasses__():
        if below.__module__ == "mulligan.errors":
            yield from classes(below)


@pytest.mark.parametrize("cls", list(classes()))
def test_every_error_ends_with_its_own_code_and_shows_its_hint(capsys, monkeypatch, cls):
    breaking(monkeypatch, cls("What \x1b[31mhappened.", hint="mulligan check"))
    assert main(["completion", "bash"]) == cls.exit_code
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "mulligan: What \\x1b[31mhappened.\nhint: mulligan check\n")
    assert cls.exit_code in EXIT_CODES
    assert main(["--json", "completion", "bash"]) == cls.exit_code
    assert json.loads(capsys.readouterr().out)["error"] == {
        "type": cls.__name__, "message": "What \x1b[31mhappened.", "hint": "mulligan check", "exit_code": cls.exit_code,
    }  # fmt: skip


def test_an_interruption_ends_with_130(capsys, monkeypatch):
    breaking(monkeypatch, KeyboardInterrupt())
    assert main(["completion", "bash"]) == 130
    assert "Nothing is half done" in capsys.readouterr().err


def test_a_refusal_of_the_system_is_no_mistake_of_ours(capsys, monkeypatch):
    breaking(monkeypatch, PermissionError(13, "Permission denied", "/some/where"))
    assert main(["completion", "bash"]) == 1
    assert "Permission denied: /some/where" in capsys.readouterr().err


def test_what_nobody_foresaw_becomes_a_private_report(capsys, monkeypatch, private_home):
    breaking(monkeypatch, ZeroDivisionError("surprise"))
    assert main(["--store=/secret/place", "completion", "bash"]) == 70
    told = capsys.readouterr().err
    (report,) = (private_home / "xdg-state/mulligan/reports").iterdir()
    text = report.read_text()
    assert str(report) in told and stat.S_IMODE(report.stat().st_mode) == 0o600
    assert (
        "ZeroDivisionError: surprise" in text
        and "command    mulligan --store completion …" in text
        and "secret" not in text
    )


def test_where_no_report_can_be_written_that_is_said(capsys, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", "/proc/nowhere")
    breaking(monkeypatch, ZeroDivisionError())
    assert main(["completion", "bash"]) == 70
    assert "No report could be written" in capsys.readouterr().err


# -- streams, in a process of their own ---------------------------------------------------------


def test_a_reader_that_has_read_enough_is_no_error(tmp_path):
    process = subprocess.Popen(
        mulligan_argv("completion", "bash"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
        env=plain_environment(),
    )
    process.stdout.close()
    assert (process.stderr.read(), process.wait()) == (b"", 0)
    process.stderr.close()


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_do_no_harm(tmp_path, closed):
    line = f'"$0" -m mulligan completion bash {closed}'
    done = subprocess.run(
        ["bash", "-c", line, sys.executable], cwd=tmp_path, env=plain_environment(), capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_full_disk_behind_stdout_is_an_error(tmp_path):
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full here")
    line = '"$0" -m mulligan completion bash > /dev/full'
    done = subprocess.run(
        ["bash", "-c", line, sys.executable], cwd=tmp_path, env=plain_environment(), capture_output=True, check=False
    )
    assert done.returncode == 1 and b"No space left" in done.stderr and b"Traceback" not in done.stderr


def test_an_encoding_that_cannot_say_it_escapes_it(tmp_path):
    done = cli("-h", cwd=tmp_path, PYTHONIOENCODING="ascii:strict", PYTHONUTF8="0")
    assert done.returncode == 0 and "\\u2026" in done.stdout
