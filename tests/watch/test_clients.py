"""The two clients of a watcher, native and Python: same answers as without one, nothing done twice, nothing lost."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tools import PACKAGE, cli, cli_json, mulligan_argv, plain_environment, run_mulligan, start_mulligan
from watchers import ALONE, false_watcher, files_of, greeting, pack, place_of, receive, wait_until, watched

pytestmark = pytest.mark.usefixtures("client")

READING = [
    ["status"], ["log"], ["log", "-n", "1"], ["show", "first"], ["diff"], ["diff", "--stat"], ["diff", "first", "second"],
    ["cat", "first:src/app.py"], ["restore", "first", "--dry-run"], ["restore", "nobody"], ["cat", "first:nothing"],
    ["log", "--kind", "nonsense"], ["save", "--kind", "nonsense"], ["diff", "--", "../outside"], ["show"], ["log", "-h"],
    ["-C", "src", "diff"], ["--nonsense"],
]  # fmt: skip


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_answers_are_the_same_with_and_without_a_watcher(saved, form):
    """Every byte on both streams, and the exit code."""
    with watched(saved):
        for words in READING:
            warm, cold = cli(*form, *words, cwd=saved), cli(*form, *words, cwd=saved, **ALONE)
            for done in (warm, cold):
                done.stdout = re.sub(r"(\d+ \w+ ago|just now) *", "", done.stdout)
                if words == ["status"]:
                    done.stdout = done.stdout.partition("watcher")[0]
            assert (warm.returncode, warm.stdout, warm.stderr) == (cold.returncode, cold.stdout, cold.stderr), words
        assert cli_json("status", cwd=saved)["watcher"]["active"] is True
        assert cli_json("status", cwd=saved, **ALONE)["watcher"] is None


def on_a_terminal(project: Path, *words: str, **more: str) -> bytes:
    """What a command prints on a terminal of 60 columns."""
    ours, theirs = pty.openpty()
    subprocess.run(["stty", "cols", "60"], stdin=theirs, check=True)
    environment = plain_environment(TERM="xterm", PAGER="cat", **more)
    process = start_mulligan(words, cwd=project, env=environment, streams=(0, theirs, theirs))
    os.close(theirs)
    shown = b""
    try:
        while part := os.read(ours, 1 << 16):
            shown += part
    except OSError:
        pass  # the other end was closed
    finally:
        os.close(ours)
    process.wait(timeout=60)
    return re.sub(rb"(\d+ \w+ ago|just now) *", b"", shown)


@pytest.mark.parametrize("words", [["log"], ["save", "--if-changed", "--kind", "nonsense"], ["undo", "--dry-run"]])
def test_a_terminal_shows_the_same_with_and_without_a_watcher(saved, words):
    with watched(saved):
        assert on_a_terminal(saved, *words) == on_a_terminal(saved, *words, **ALONE)


@pytest.mark.parametrize("odd", [{"TZ": "Asia/Tokyo"}, {"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "en_US.ISO-8859-1"}])
def test_another_time_zone_or_encoding_gets_its_own_answer(saved, odd):
    (saved / "ä").write_text("a\n")
    with watched(saved):
        for words in (["log", "--time"], ["diff"]):
            assert cli(*words, cwd=saved, **odd).stdout == cli(*words, cwd=saved, **odd, **ALONE).stdout


def test_writing_commands_do_the_same_through_a_watcher(saved):
    with watched(saved):
        cp = cli_json("save", "third", cwd=saved / "src")["checkpoint"]
        assert cp["files_changed"] == ["src/new.py"]
        assert cli("save", "--if-changed", cwd=saved).stdout.startswith("No changes")
        assert cli_json("restore", "first", cwd=saved)["report"]["deleted"] == ["src/new.py"]
        assert (saved / "src" / "app.py").read_text() == "print(1)\n"
        cli_json("undo", cwd=saved)
        assert (saved / "src" / "app.py").read_text() == "print(2)\n"
        cli_json("redo", cwd=saved)
        assert not (saved / "src" / "new.py").exists()
        assert cli("undo", "--nonsense", cwd=saved).returncode == 2


def test_another_store_is_not_the_watchers_affair(saved, tmp_path):
    with watched(saved):
        cli_json("--store", str(tmp_path / "other"), "save", "elsewhere", cwd=saved)
        cli_json("save", "elsewhere too", "--store", str(tmp_path / "other"), cwd=saved)
        assert [cp["name"] for cp in cli_json("log", cwd=saved)["checkpoints"]] == ["second", "first"]
        mine = cli_json("status", cwd=saved, **ALONE)["store"]
        assert cli_json("-C", ".", "--store", mine, "status", cwd=saved)["watcher"]["active"]


def test_after_a_killed_watcher_commands_work_and_another_can_start(saved):
    with watched(saved) as process:
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert cli_json("save", cwd=saved)["checkpoint"]["files_changed"] == ["src/new.py"]
    with watched(saved):
        assert cli_json("status", cwd=saved)["watcher"]["active"]


def test_many_clients_at_once_each_get_their_own_answer(saved):
    with watched(saved), ThreadPoolExecutor(6) as pool:
        names = [f"by client {number}" for number in range(12)]
        done = list(pool.map(lambda name: cli_json("save", name, cwd=saved)["checkpoint"]["name"], names))
        assert done == names
        assert {cp["name"] for cp in cli_json("log", cwd=saved)["checkpoints"]} == {"first", "second", *names}


def test_a_killed_client_leaves_a_whole_checkpoint_or_none(saved):
    with watched(saved):
        for number in range(8):
            (saved / "src" / "new.py").write_text(f"{number}\n")
            client = subprocess.Popen(
                mulligan_argv("save", f"k{number}"), cwd=saved, env=plain_environment(), stdout=subprocess.PIPE
            )
            client.send_signal(signal.SIGKILL)
            client.communicate()
        assert cli_json("check", cwd=saved)["ok"]
        last = cli_json("save", "last", cwd=saved)["checkpoint"]
        assert cli("cat", f"{last['id']}:src/new.py", cwd=saved).stdout == "7\n"


@pytest.mark.parametrize("stream", ["stdin", "stdout", "stderr"])
def test_a_closed_stream_is_no_place_for_the_connection(saved, stream):
    number = ("stdin", "stdout", "stderr").index(stream)
    with watched(saved):
        done = subprocess.run(
            ["/bin/sh", "-c", f'exec "$@" {number}>&-', "sh", *mulligan_argv("save", "closed")],
            cwd=saved, env=plain_environment(), capture_output=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0
        assert cli_json("log", "-n", "1", cwd=saved)["checkpoints"][0]["name"] == "closed"


def test_what_cannot_be_printed_is_no_success(saved):
    with watched(saved), open("/dev/full", "wb") as full:
        for words, code in ((["cat", "first:src/app.py"], 1), (["save", "unprinted"], 3)):
            done = subprocess.run(
                mulligan_argv(*words), cwd=saved, env=plain_environment(), stdout=full, stderr=subprocess.PIPE,
                text=True, check=False,
            )  # fmt: skip
            assert done.returncode == code
            assert "No space left" in done.stderr


# -- which watcher is believed -------------------------------------------------------------------


def refuses(link: socket.socket) -> None:
    """Says nothing, and hears nothing."""
    assert receive(link) == [], "a request was sent to a stranger"


@pytest.mark.parametrize(
    "said",
    [
        greeting(version=b"9.9"), greeting(protocol=b"mulligan 1"), greeting(protocol=b"mulligan 22"), b"\xff" * 8, b"R",
        pack(), pack(b"mulligan 2"), b"\0\0\0\4\xff\xff\xff\xff", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"",
        greeting(number=b"x" * 100), greeting(number=b""),
    ],
)  # fmt: skip
def test_a_watcher_of_another_version_is_sent_nothing(saved, said):
    def converse(link: socket.socket) -> None:
        link.sendall(said)
        link.shutdown(socket.SHUT_WR)
        refuses(link)

    with false_watcher(saved, converse) as took:
        assert cli_json("save", "alone", cwd=saved)["checkpoint"]["files_changed"] == ["src/new.py"]
    assert took == [0]


@pytest.mark.parametrize("mode", [0o622, 0o660, 0o606])
def test_a_socket_that_others_may_write_to_is_not_believed(saved, mode):
    with false_watcher(saved, refuses) as took:
        place_of(saved).chmod(mode)
        cli_json("save", "alone", cwd=saved)
        assert took == []
        with socket.socket(socket.AF_UNIX) as end:
            end.connect(str(place_of(saved)))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a socket away")
def test_a_socket_of_another_user_is_not_believed(saved):
    with false_watcher(saved, refuses) as took:
        os.chown(place_of(saved), 1234, 1234)
        cli_json("save", "alone", cwd=saved)
        assert took == []
        with socket.socket(socket.AF_UNIX) as end:
            end.connect(str(place_of(saved)))


AS_ANOTHER = """
import os, socket, sys
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
os.chown(sys.argv[1], 0, 0)
os.chmod(sys.argv[1], 0o600)
os.setresuid(1234, 1234, 1234)
listener.listen()  # whose process this is is noted now
print("ready", flush=True)
link, _ = listener.accept()
link.sendall(bytes.fromhex(sys.argv[2]))
print(len(link.recv(1 << 16)), flush=True)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_process_of_another_user_is_sent_nothing(saved):
    words = [sys.executable, "-c", AS_ANOTHER, place_of(saved), greeting().hex()]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as stranger:
        assert stranger.stdout is not None and stranger.stdout.readline() == "ready\n"
        assert cli_json("save", "alone", cwd=saved)["checkpoint"]["files_changed"] == ["src/new.py"]
        assert stranger.stdout.readline() in {"0\n", ""}


def test_a_directory_that_others_may_enter_is_not_believed(saved):
    with watched(saved):
        folder = Path(os.environ["XDG_RUNTIME_DIR"], "mulligan")
        folder.chmod(0o755)
        assert cli_json("status", cwd=saved)["watcher"] is None
        folder.chmod(0o700)
        assert cli_json("status", cwd=saved)["watcher"]["active"]


# -- a request is sent once ----------------------------------------------------------------------

Conversation = Callable[[socket.socket], None]


def takes_and_ends(heard: list[list[bytes]]) -> Conversation:
    """A watcher that ends over a request."""

    def converse(link: socket.socket) -> None:
        link.sendall(greeting())
        heard.append(receive(link))

    return converse


def answers(heard: list[list[bytes]], *answer: bytes) -> Conversation:
    """A watcher that answers a request."""

    def converse(link: socket.socket) -> None:
        link.sendall(greeting(number=b"false-2"))
        heard.append(receive(link))
        link.sendall(pack(*answer))

    return converse


def test_a_lost_answer_is_asked_for_by_its_request_and_nothing_is_repeated(saved):
    heard: list[list[bytes]] = []
    last = answers(heard, b"done", b"7", b"what the watcher said\n", b"and this\n")
    with false_watcher(saved, takes_and_ends(heard), last):
        done = cli("undo", cwd=saved)
    assert (done.returncode, done.stdout, done.stderr) == (7, "what the watcher said\n", "and this\n")
    assert heard[0][:2] == [b"run", b"false-1"] and b"undo" in heard[0]
    assert heard[1] == [b"ask", b"false-1"]
    assert (saved / "src" / "new.py").exists(), "nothing was undone here"


def test_what_a_watcher_never_began_is_done_without_it(saved):
    heard: list[list[bytes]] = []
    with false_watcher(saved, takes_and_ends(heard), answers(heard, b"declined")):
        assert cli("undo", cwd=saved).returncode == 0
    assert not (saved / "src" / "new.py").exists()


@pytest.mark.parametrize("second", ["none", "unknown", "garbage"])
@pytest.mark.parametrize("words", [["undo"], ["restore", "first", "-y"], ["save", "x"], ["--json", "redo"]])
def test_of_what_may_have_been_done_already_nothing_is_repeated(saved, words, second):
    heard: list[list[bytes]] = []
    answer = {"none": [], "unknown": [answers(heard, b"unknown")], "garbage": [answers(heard, b"\xff" * 9)]}[second]
    before = sorted(saved.rglob("*"))
    with false_watcher(saved, takes_and_ends(heard), *answer):
        done = cli(*words, cwd=saved)
    said = json.loads(done.stdout)["error"]["message"] if "--json" in words else done.stderr
    assert done.returncode == 1 and "The watcher ended while it worked on this." in said
    assert sorted(saved.rglob("*")) == before
    assert len(cli_json("log", cwd=saved, **ALONE)["checkpoints"]) == 2


def test_what_changes_nothing_and_an_event_are_done_again(saved):
    for words in (["status"], ["hook", "claude-code"]):
        with false_watcher(saved, takes_and_ends([])):
            done = run_mulligan(words, cwd=saved, env=plain_environment(), given=hook_event(saved))
            assert (done.returncode, done.stderr) == (0, "")
    newest = cli_json("log", "-n", "1", cwd=saved)["checkpoints"][0]
    assert (newest["kind"], newest["files_changed"]) == ("step", ["src/new.py"])


GARBAGE = [b"", b"\0", b"\xff" * 8, pack(), pack(b"done"), pack(b"done", b"0"), pack(b"done", b"x", b"", b""),
           b"\0\0\0\x20\0\0\0\4done\xff\xff\xff\xff" + bytes(20), pack(b"") * 3, b"\0\0\0\4" * 3]  # fmt: skip


@pytest.mark.parametrize("answer", GARBAGE)
def test_a_senseless_answer_ends_in_an_exit_code(saved, answer):
    """Whatever the client makes of it: it neither crashes nor hangs, and repeats nothing."""

    def converse(link: socket.socket) -> None:
        link.sendall(greeting())
        receive(link)
        link.sendall(answer)

    with false_watcher(saved, converse, converse):
        done = cli("save", "x", cwd=saved)
    assert done.returncode in {0, 1}, done.stderr
    assert "Sanitizer" not in done.stderr and "Traceback" not in done.stderr
    assert len(cli_json("log", cwd=saved, **ALONE)["checkpoints"]) == 2


# -- waiting --------------------------------------------------------------------------------------


def test_an_interrupted_command_says_so(saved):
    """A watcher that has no time yet."""
    client: list[subprocess.Popen[bytes]] = []

    def converse(link: socket.socket) -> None:
        wait_until(lambda: bool(client))
        client[0].send_signal(signal.SIGINT)
        receive(link)

    with false_watcher(saved, converse):
        client.append(
            subprocess.Popen(mulligan_argv("undo"), cwd=saved, env=plain_environment(), stderr=subprocess.PIPE)
        )
        said = client[0].communicate(timeout=60)[1]
    assert (client[0].returncode, said[:24]) == (130, b"mulligan: Interrupted. W")


@pytest.mark.parametrize("words", [["save", "by itself"], ["hook", "claude-code"]])
def test_what_a_stopped_watcher_does_not_begin_is_done_without_it(saved, words):
    with watched(saved) as process:
        process.send_signal(signal.SIGSTOP)
        try:
            done = run_mulligan(words, cwd=saved, env=plain_environment(), given=hook_event(saved))
        finally:
            process.send_signal(signal.SIGCONT)
        assert (done.returncode, done.stderr) == (0, "")
    newest = cli_json("log", "-n", "1", cwd=saved)["checkpoints"][0]
    assert newest["files_changed"] == ["src/new.py"]


STOPS = """
import os, signal, socket, sys
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
os.chmod(sys.argv[1], 0o600)
listener.listen()
print("ready", flush=True)
link, _ = listener.accept()
link.sendall(bytes.fromhex(sys.argv[2]))
link.recv(1 << 16)
os.kill(os.getpid(), signal.SIGSTOP)
"""


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_a_watcher_that_is_stopped_over_a_command_is_said_to_be_busy(saved, form):
    words = [sys.executable, "-c", STOPS, place_of(saved), greeting().hex()]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as watcher:
        try:
            assert watcher.stdout is not None and watcher.stdout.readline() == "ready\n"
            done = cli(*form, "undo", cwd=saved)
        finally:
            watcher.kill()
    said = json.loads(done.stdout)["error"]["message"] if form else done.stderr
    assert done.returncode == 11 and "The watcher is stopped (Ctrl-Z, SIGSTOP)" in said
    assert (saved / "src" / "new.py").exists()


# -- hooks ----------------------------------------------------------------------------------------


def hook_event(project: Path, tool: str = "Edit") -> str:
    """What an agent tells after a tool."""
    facts = {"session_id": "s", "cwd": str(project), "tool_name": tool, "tool_input": {}}
    return json.dumps({"hook_event_name": "PostToolUse", **facts})


@pytest.mark.parametrize("before", [[], ["--json"], ["-C", "."]])
def test_a_hook_goes_through_the_watcher_or_past_it_but_is_never_lost(saved, before):
    with watched(saved):
        words = [*before, "hook", "claude-code"]
        done = run_mulligan(words, cwd=saved, env=plain_environment(), given=hook_event(saved))
        assert (done.returncode, done.stderr) == (0, "")
        newest = cli_json("log", "-n", "1", cwd=saved)["checkpoints"][0]
        assert newest["files_changed"] == ["src/new.py"]
        assert newest["kind"] == "step"


def test_a_hook_whose_event_comes_in_pieces_is_not_lost(saved):
    event = hook_event(saved)
    with watched(saved):
        hook = subprocess.Popen(
            mulligan_argv("hook", "claude-code"), cwd=saved, env=plain_environment(),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert hook.stdin is not None
        hook.stdin.write(event[:40])
        hook.stdin.flush()
        wait_until(lambda: any("pipe" in each for each in files_of(hook.pid)))
        out, err = hook.communicate(event[40:], timeout=60)
        assert (hook.returncode, out, err) == (0, "", "")
        assert cli_json("log", "-n", "1", cwd=saved)["checkpoints"][0]["files_changed"] == ["src/new.py"]


def test_an_event_is_handed_on_where_the_watcher_declines(saved):
    """A watcher of another time zone; the event is large, so that no pipe holds it."""
    event = json.loads(hook_event(saved)) | {"tool_response": "x" * 3_000_000}
    with watched(saved):
        done = subprocess.run(
            mulligan_argv("hook", "claude-code"), cwd=saved, env=plain_environment(TZ="Asia/Tokyo"),
            input=json.dumps(event), text=True, capture_output=True, check=True,
        )  # fmt: skip
    assert done.stderr == ""
    assert cli_json("log", "-n", "1", cwd=saved)["checkpoints"][0]["files_changed"] == ["src/new.py"]


# -- the native client alone ----------------------------------------------------------------------


def test_the_native_client_becomes_the_script_beside_its_own_file(saved, native, tmp_path):
    """Not one in the search path, and not one beside the link that it was started by."""
    for folder in ("path", "link"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "mulligan").write_text("#!/bin/sh\necho TAKEN\n")
        (tmp_path / folder / "mulligan").chmod(0o755)
    (tmp_path / "link" / "mulligan-client").symlink_to(native)
    environment = plain_environment(PATH=f"{tmp_path / 'path'}:{os.environ['PATH']}")
    for program in (str(native), str(tmp_path / "link" / "mulligan-client")):
        words = [program, "save", "x"]
        done = subprocess.run(words, cwd=saved, env=environment, capture_output=True, text=True, check=True)
        assert done.stdout.startswith("saved")


def test_the_native_client_without_its_script_says_so(saved, native, tmp_path):
    alone = tmp_path / "mulligan-client"
    alone.write_bytes(native.read_bytes())
    alone.chmod(0o755)
    done = subprocess.run([alone, "save"], cwd=saved, env=plain_environment(), capture_output=True, check=False)
    assert done.returncode == 127
    assert done.stderr.startswith(b"mulligan: The script beside mulligan-client cannot be run (No such file")


def test_the_native_client_is_small():
    assert len((PACKAGE.parent / "native" / "client.c").read_text().splitlines()) <= 250
