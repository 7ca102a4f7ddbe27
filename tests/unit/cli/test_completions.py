"""Completion scripts know every command and option, and ask for names."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

from mulligan.cli.commands import COMMANDS
from mulligan.cli.commands.completion import options_of, script
from tools import plain_environment


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_command_and_option_is_in_the_script(shell):
    text = script(shell)
    assert "@COMMANDS@" not in text and "@CASES@" not in text and "@REFS@" not in text
    for name in COMMANDS:
        assert name in text
        for option in options_of(name):
            assert (option in text) or (f"-l {option[2:]}" in text) or (f"-s {option[1:]}" in text)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_shell_itself_accepts_the_script(shell, tmp_path):
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not installed")
    file = tmp_path / "script"
    file.write_text(script(shell))
    assert subprocess.run([shell, "-n", file], capture_output=True, check=False).returncode == 0


def completed(tmp_path, *words: str, names: str = "") -> list[str]:
    """What bash offers after these words, the last of them half typed; `mulligan` is a stand-in that knows `names`."""
    file = tmp_path / "script"
    file.write_text(script("bash"))
    program = (
        f'source {file}; mulligan() {{ [[ $* == *__complete ]] && printf "%s" "$NAMES"; }}\n'
        'COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _mulligan; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    env = plain_environment(NAMES=names)
    done = subprocess.run(
        ["bash", "-c", program, "bash", "mulligan", *words],
        env=env,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout.split("\n")[:-1]


def test_bash_completes_commands_and_options(tmp_path):
    assert completed(tmp_path, "st") == ["status", "stores"]
    assert completed(tmp_path, "--json", "-C", "/tmp", "und") == ["undo"]
    assert completed(tmp_path, "restore", "--d") == ["--dry-run"]
    assert completed(tmp_path, "--ver") == ["--version"]
    assert completed(tmp_path, "log", "--kind", "a") == ["automatic"]
    assert completed(tmp_path, "completion", "f") == ["fish"]


def test_bash_completes_names_and_quotes_them(tmp_path):
    names = "@\nlatest\nlogin works\nlogout $(touch x)\n1f2e3d4c\n"
    assert completed(tmp_path, "restore", "lo", names=names) == ["login\\ works", "logout\\ \\$\\(touch\\ x\\)"]
    assert completed(tmp_path, "show", "login\\ w", names=names) == ["login\\ works"]
    assert completed(tmp_path, "rm", "1", names=names) == ["1f2e3d4c"]
    assert not (tmp_path / "x").exists()


def test_bash_completes_files_after_two_dashes(tmp_path):
    (tmp_path / "a file.txt").write_text("")
    assert completed(tmp_path, "restore", "@", "--", "a") == ["a file.txt"]


def test_the_module_for_the_shell_is_never_an_error(tmp_path):
    env = plain_environment(MULLIGAN_STORE=str(tmp_path / "script"))
    (tmp_path / "script").write_text("not a store")
    done = subprocess.run(
        [sys.executable, "-m", "mulligan", "__complete"], env=env, cwd=tmp_path, capture_output=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, b"")
