"""Running commands: everything they start ends with them, their output is bounded, their trouble is a sentence."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from mulligan.loop import commands
from mulligan.loop.commands import CommandError, Tail, run, run_shell


def alive(pid: int) -> bool:
    """Whether a process runs; one that is dead and only not yet waited for does not."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            return stat.read().rpartition(b")")[2].split()[0] not in {b"Z", b"X"}
    except FileNotFoundError:
        return False


def gone(pid: int) -> bool:
    for _ in range(500):
        if not alive(pid):
            return True
        time.sleep(0.01)
    return False


def test_output_exit_code_and_directory(tmp_path):
    done = run(["sh", "-c", "pwd; echo oops >&2; exit 3"], cwd=str(tmp_path))
    assert done == (3, os.fsencode(str(tmp_path)) + b"\n", b"oops\n", False)


def test_words_are_arguments_and_never_shell(tmp_path):
    nasty = "$(touch a) `touch b`; touch c\n'\" *"
    done = run(["printf", "%s", nasty], cwd=str(tmp_path))
    assert done.text == nasty
    assert list(tmp_path.iterdir()) == []


def test_a_command_reads_nothing(tmp_path):
    assert run(["cat"], cwd=str(tmp_path), timeout=60) == (0, b"", b"", False)


def test_bytes_that_are_no_text_are_kept_and_shown_replaced(tmp_path):
    done = run([sys.executable, "-c", r"import os; os.write(1, b'\xff\x00a')"], cwd=str(tmp_path))
    assert (done.out, done.text) == (b"\xff\x00a", "\ufffd\x00a")


def test_only_the_end_of_much_output_is_kept(tmp_path):
    program = "import os\nfor i in range(64): os.write(1, bytes([65 + i % 26]) * 65536)\nos.write(1, b'the end')"
    seen = []
    done = run(
        [sys.executable, "-c", program], cwd=str(tmp_path), limit=1000, on_output=lambda data: seen.append(len(data))
    )
    assert len(done.out) == 1000
    assert done.out.endswith(b"the end")
    assert sum(seen) == 64 * 65536 + 7


def test_a_tail_never_holds_more_than_twice_its_limit():
    tail = Tail(10)
    for number in range(1000):
        tail.add(str(number).encode())
        assert len(tail._kept) <= 20
    assert tail.bytes() == b"6997998999"


class Clock:
    """A clock by which a command is beyond its time as soon as it has said something."""

    sleep = staticmethod(time.sleep)

    def __init__(self) -> None:
        self._ahead = 0

    def heard(self, _data: bytes) -> None:
        self._ahead = 3600

    def monotonic(self) -> float:
        return time.monotonic() + self._ahead


@pytest.fixture
def clock(monkeypatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(commands, "time", made)
    return made


def test_a_command_beyond_its_time_is_ended_with_its_children(tmp_path, clock):
    script = "sleep 600 & echo $! > child; echo begun; sleep 600"
    done = run(["sh", "-c", script], cwd=str(tmp_path), timeout=60, on_output=clock.heard)
    assert (done.timed_out, done.out) == (True, b"begun\n")
    assert done.code == -signal.SIGTERM
    assert gone(int((tmp_path / "child").read_text()))


def test_one_that_ignores_the_polite_signal_is_killed(tmp_path, monkeypatch, clock):
    monkeypatch.setattr(commands, "GRACE", 0.2)
    script = "trap '' TERM; echo deaf; while :; do sleep 0.1; done"
    done = run(["sh", "-c", script], cwd=str(tmp_path), timeout=60, on_output=clock.heard)
    assert (done.timed_out, done.code) == (True, -signal.SIGKILL)


def test_what_it_leaves_in_the_background_is_ended_and_not_waited_for(tmp_path):
    done = run(["sh", "-c", "sleep 600 & echo $! > child; echo done"], cwd=str(tmp_path))
    assert done[:2] == (0, b"done\n")
    assert gone(int((tmp_path / "child").read_text()))


def test_output_closed_early_is_no_end(tmp_path):
    """A command that closes its outputs is still waited for, and its time still counts."""
    done = run(["sh", "-c", "exec >&- 2>&-; sleep 0.2; exit 4"], cwd=str(tmp_path))
    assert done.code == 4
    assert run(["sh", "-c", "exec >&- 2>&-; sleep 600"], cwd=str(tmp_path), timeout=0.2).timed_out


def test_an_interrupt_ends_the_group_and_goes_on(tmp_path):
    def interrupt(_data: bytes) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(["sh", "-c", "sleep 600 & echo $! > child; echo begun; wait"], cwd=str(tmp_path), on_output=interrupt)
    assert gone(int((tmp_path / "child").read_text()))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_while_the_command_starts_is_not_lost_and_leaves_nobody(tmp_path, monkeypatch, number):
    """It is held until the process is known, and the process is ended."""
    started: list[subprocess.Popen[bytes]] = []
    real = subprocess.Popen

    def interrupted(*args, **kwargs):
        process = real(*args, **kwargs)
        started.append(process)
        signal.raise_signal(number)
        return process

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(commands.subprocess, "Popen", interrupted)
    before = signal.signal(number, stop)
    try:
        with pytest.raises(KeyboardInterrupt):
            run(["sleep", "600"], cwd=str(tmp_path))
        assert signal.getsignal(number) is stop
    finally:
        signal.signal(number, before)
    assert started[0].returncode is not None
    assert gone(started[0].pid)


def test_threads_may_run_commands(tmp_path):
    found = []
    threads = [
        threading.Thread(target=lambda n=n: found.append(run(["echo", str(n)], cwd=str(tmp_path)).text))
        for n in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == ["0\n", "1\n", "2\n", "3\n"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["no-such-program-at-all"], "was not found"),
        (["/etc/passwd"], "cannot be started (Permission denied)"),
        (["echo", "a\0b"], "zero byte"),
        (["echo", "x" * 300_000], "too long for the system (300,000"),
    ],
)
def test_what_cannot_be_started_is_a_sentence(tmp_path, words, said):
    with pytest.raises(CommandError) as caught:
        run(words, cwd=str(tmp_path))
    assert said in str(caught.value)
    assert "Nothing was run." in str(caught.value)


def test_a_missing_directory_is_named(tmp_path):
    with pytest.raises(CommandError, match=r"directory .* is not there"):
        run(["echo"], cwd=str(tmp_path / "gone"))


# -- shell --------------------------------------------------------------------------------------


def test_values_of_a_shell_text_are_variables(tmp_path):
    done = run_shell('printf "%s|" "${mulligan_2}" "${mulligan_1}" "$#"', ["a b", "$(touch x)"], cwd=str(tmp_path))
    assert done.text == "$(touch x)|a b|0|"
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_left_open(tmp_path):
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        run(["true"], cwd=str(tmp_path))
    assert len(os.listdir("/proc/self/fd")) == before


def test_the_command_has_a_session_of_its_own(tmp_path):
    """So that Ctrl-C on the terminal reaches mulligan, which then ends the command in order."""
    program = "import os; print(os.getsid(0) == os.getpid())"
    assert run([sys.executable, "-c", program], cwd=str(tmp_path)).text == "True\n"
