"""`run -- COMMAND` saves what any command changes, as one turn that one undo takes back."""

from __future__ import annotations

import os
import signal
import subprocess

import mulligan
from tools import cli, cli_json, mulligan_argv, plain_environment
from tree import contents, put

QUIET = "sleep 2.5"  # longer than a burst may rest


def test_a_command_is_one_turn_and_one_undo_takes_it_back(project):
    put(project, "a", "1\n")
    before = contents(project)
    done = cli("run", "--", "sh", "-c", f"echo 2 > a; {QUIET}; echo new > b; echo said", cwd=project)
    assert (done.returncode, done.stdout) == (0, "said\n")
    assert "2 files changed" in done.stderr and "2 checkpoints saved" in done.stderr and "mulligan undo" in done.stderr
    (chapter,) = mulligan.open(project).story()
    assert chapter.agent == "sh" and chapter.text.startswith("sh -c") and chapter.ended
    assert cli("undo", cwd=project).returncode == 0
    assert contents(project) == before


def test_the_exit_code_is_the_commands_own_and_the_receipt_is_json(project):
    put(project, "a", "1\n")
    receipt = cli_json("run", "--", "sh", "-c", "echo noise; echo 2 > a; exit 7", cwd=project, expect=7)["receipt"]
    assert (receipt["exit_code"], receipt["modified"], receipt["checkpoints"]) == (7, ["a"], 1)
    nothing = cli_json("run", "--", "true", cwd=project)["receipt"]
    assert (nothing["undo"], nothing["modified"], nothing["checkpoints"]) == (None, [], 0)
    assert cli("run", "--", "sh", "-c", "kill -9 $$", cwd=project).returncode == 137


def test_options_after_the_dashes_belong_to_the_command(project):
    assert cli("run", "--", "echo", "--help", "--json", "-C", "x", cwd=project).stdout == "--help --json -C x\n"


def test_what_cannot_be_run_is_said(project):
    done = cli("run", "--", "no-such-program", cwd=project)
    assert done.returncode == 1 and "cannot be started" in done.stderr
    assert cli("run", "--", cwd=project).returncode == 2
    assert cli("run", cwd=project).returncode == 2


def test_what_was_there_before_is_not_the_commands_work(project):
    put(project, "a", "1\n")
    cli("save", "start", cwd=project)
    put(project, "mine", "my edit\n")
    receipt = cli_json("run", "--", "sh", "-c", "echo theirs > theirs", cwd=project)["receipt"]
    assert receipt["added"] == ["theirs"]
    cli("undo", cwd=project)
    assert (project / "mine").read_text() == "my edit\n" and not (project / "theirs").exists()


def test_an_interrupt_is_the_commands_business(project):
    put(project, "a", "1\n")
    words = "trap 'echo caught > caught; exit 3' INT; touch ready; while :; do sleep 0.05; done"
    process = subprocess.Popen(
        mulligan_argv("run", "--", "sh", "-c", words), cwd=project, env=plain_environment(), start_new_session=True,
        stderr=subprocess.PIPE,
    )  # fmt: skip
    while not (project / "ready").exists():
        assert process.poll() is None
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    assert b"exit code 3" in process.communicate(timeout=30)[1] and process.returncode == 3
    assert mulligan.open(project).holds("@", "caught")


def test_after_a_kill_of_mulligan_the_next_command_saves_the_rest(project):
    put(project, "a", "1\n")
    process = subprocess.Popen(
        mulligan_argv("run", "--", "sh", "-c", "echo 2 > a; touch ready; sleep 0.5; echo 3 > a"), cwd=project,
        env=plain_environment(),
    )  # fmt: skip
    while not (project / "ready").exists():
        assert process.poll() is None
    process.kill()
    process.wait()
    while (project / "a").read_text() != "3\n":
        pass
    cli("save", "after", cwd=project)
    assert mulligan.open(project).cat("after", "a") == b"3\n"
