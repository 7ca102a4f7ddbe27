"""The watcher as a process: same answers as without it, for the same user only, and never in anybody's way."""

from __future__ import annotations

import fcntl
import json
import os
import random
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

import mulligan
from checker import judge
from mulligan.cli import thin
from tools import cli, cli_json, mulligan_argv, plain_environment

ALONE = {"MULLIGAN_WATCH": "0"}


@contextmanager
def watched(project: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    """A watcher in front, ready to serve."""
    process = subprocess.Popen(
        mulligan_argv("watch", *words), cwd=project, env=plain_environment(), stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stderr is not None
        assert process.stderr.readline().startswith("Watching")
        yield process
    finally:
        process.terminate()
        process.wait(timeout=60)
        process.stderr.close()


@pytest.fixture
def saved(project: Path) -> Path:
    """A project with a checkpoint, so that it can be watched."""
    (project / "src").mkdir()
    (project / "src" / "app.py").write_text("print(1)\n")
    (project / ".gitignore").write_text("*.log\n")
    (project / "x.log").write_text("not captured")
    cli_json("save", "first", cwd=project)
    (project / "src" / "app.py").write_text("print(2)\n")
    cli_json("save", "second", cwd=project)
    (project / "src" / "new.py").write_text("new\n")
    return project


def socket_of(project: Path) -> str:
    place = thin.run_directory(dict(os.environ))
    return next(
        f"{place}/{name}"
        for name in os.listdir(place)
        if name.startswith(thin.name_of(str(project))) and ".sock" in name
    )


def connect(project: Path) -> socket.socket:
    link = socket.socket(socket.AF_UNIX)
    link.settimeout(30)
    link.connect(socket_of(project))
    return link


READING = [
    ["status"], ["log"], ["log", "-n", "1"], ["show", "first"], ["diff"], ["diff", "--stat"], ["diff", "first", "second"],
    ["cat", "first:src/app.py"], ["restore", "first", "--dry-run"], ["restore", "nobody"], ["cat", "first:nothing"],
    ["log", "--kind", "nonsense"], ["save", "--kind", "nonsense"], ["diff", "--", "../outside"], ["show"],
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


def test_a_command_that_a_watcher_answers_imports_next_to_nothing(saved):
    """Counted, not timed: what the interpreter loads for itself does not count."""
    program = "import sys; before = set(sys.modules); sys.argv[0] = 'mulligan'\nfrom mulligan.cli import main\n"
    program += "code = main()\nimport os; os.write(2, '\\n'.join(sorted(set(sys.modules) - before)).encode())"
    with watched(saved):
        done = subprocess.run(
            [sys.executable, "-c", program, "save", "x"],
            cwd=saved,
            env=plain_environment(),
            capture_output=True,
            check=True,
        )
    assert done.stdout.startswith(b"saved")
    loaded = set(done.stderr.decode().split("\n"))
    assert loaded == {"__future__", "_socket", "mulligan", "mulligan.cli", "mulligan.cli.thin"}


def test_settings_that_change_count_from_the_next_command_on(saved, private_home):
    with watched(saved):
        cli_json("status", cwd=saved)
        config = private_home / "xdg-config" / "mulligan" / "config.toml"
        config.parent.mkdir(parents=True)
        config.write_text('[capture]\nexclude = ["src/new.py"]\n')
        saved_now = cli_json("save", cwd=saved)["checkpoint"]
        assert {row["path"] for row in saved_now["not_captured"]} >= {"src/new.py"}


def test_a_watcher_hears_of_changes_after_its_settings_changed(saved, private_home):
    """The workspace was opened anew for that, and has a new queue."""
    with watched(saved) as process:
        wait_until(lambda: hears_notices(process.pid))
        config = private_home / "xdg-config" / "mulligan" / "config.toml"
        config.parent.mkdir(parents=True)
        config.write_text('[capture]\nexclude = ["src/new.py"]\n')
        cli_json("status", cwd=saved)
        wait_until(lambda: hears_notices(process.pid))


def hears_notices(process: int) -> bool:
    """Whether a process waits for its queue of notices."""
    kinds = {each.name: os.readlink(each) for each in Path(f"/proc/{process}/fd").iterdir()}
    queues = {name for name, kind in kinds.items() if "inotify" in kind}
    polls = [Path(f"/proc/{process}/fdinfo/{name}").read_text() for name, kind in kinds.items() if "eventpoll" in kind]
    waited = {line.split()[1] for poll in polls for line in poll.splitlines() if line.startswith("tfd:")}
    return bool(queues) and queues <= waited


def test_a_watcher_that_the_configuration_asks_for_starts_by_itself(saved, private_home):
    config = private_home / "xdg-config" / "mulligan" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text('[watch]\nauto = "always"\n')
    cli_json("status", cwd=saved, MULLIGAN_WATCH="")
    try:
        wait_until(lambda: any(name.endswith(".sock") for name in os.listdir(thin.run_directory(dict(os.environ)))))
        assert cli_json("status", cwd=saved)["watcher"]["active"] is True
        assert cli_json("watch", "--status", cwd=saved)["watcher"]["running"]
    finally:
        assert cli("watch", "--stop", cwd=saved).stdout == "The watcher ended.\n"


@pytest.mark.parametrize(("said", "starts"), [("", True), ("found", False), ("0", False)])
def test_the_hooks_of_an_agent_start_a_watcher_and_other_commands_none(saved, said, starts):
    event = json.dumps({"hook_event_name": "SessionStart", "session_id": "s", "cwd": str(saved), "source": "startup"})
    cli_json("status", cwd=saved, MULLIGAN_WATCH=said)
    assert not cli_json("watch", "--status", cwd=saved)["watcher"]["running"]
    alike = {"cwd": saved, "env": plain_environment(MULLIGAN_WATCH=said), "text": True}
    subprocess.run(mulligan_argv("hook", "claude-code"), input=event, check=True, **alike)
    try:
        if starts:
            wait_until(lambda: cli_json("watch", "--status", cwd=saved)["watcher"]["running"])
        else:
            assert not cli_json("watch", "--status", cwd=saved)["watcher"]["running"]
    finally:
        cli("watch", "--stop", cwd=saved)


def test_an_event_larger_than_a_watcher_takes_is_not_run_without_its_words(saved):
    with watched(saved), connect(saved) as link:
        link.sendall(request(saved, ["hook", "claude-code"]))
        assert link.recv(1) == thin.READY
        link.sendall(thin.GO + b"\xff" * 4)
        assert link.recv(1) == b""


def test_another_store_is_not_the_watchers_affair(saved, tmp_path):
    with watched(saved):
        cli_json("--store", str(tmp_path / "other"), "save", "elsewhere", cwd=saved)
        assert [cp["name"] for cp in cli_json("log", cwd=saved)["checkpoints"]] == ["second", "first"]


def test_there_is_one_watcher_and_it_ends_when_told(saved):
    assert cli("watch", "--status", cwd=saved).stdout == "No watcher runs here.\n"
    started = cli_json("watch", "--background", cwd=saved)["watcher"]
    try:
        assert started["running"]
        assert cli_json("watch", "--background", cwd=saved)["watcher"] == started
        assert cli_json("watch", "--status", cwd=saved)["watcher"] == started
        assert cli_json("status", cwd=saved)["watcher"]["active"]
    finally:
        assert cli("watch", "--stop", cwd=saved).stdout == "The watcher ended.\n"
    assert cli("watch", "--stop", cwd=saved).stdout == "No watcher runs here.\n"
    assert cli_json("watch", "--status", cwd=saved)["watcher"]["running"] is False


def test_a_watcher_that_cannot_notice_changes_says_so_when_it_starts(saved, tmp_path):
    (tmp_path / "sitecustomize.py").write_text("from mulligan.safefs import inotify\ninotify._WATCHABLE = {}\n")
    odd = {"PYTHONPATH": f"{tmp_path}:{plain_environment()['PYTHONPATH']}"}
    started = cli("watch", "--background", cwd=saved, **odd)
    try:
        assert "watches this workspace from now on" in started.stdout
        assert started.stderr.startswith("The watcher cannot notice changes here, so each command scans all files: ")
        assert "file system" in started.stderr
    finally:
        cli("watch", "--stop", cwd=saved)
    try:
        assert "file system" in cli_json("watch", "--background", cwd=saved, **odd)["watcher"]["reason"]
    finally:
        cli("watch", "--stop", cwd=saved)


def test_a_workspace_without_a_checkpoint_has_nothing_to_watch(project):
    assert cli("watch", "--background", cwd=project).returncode == 10


@pytest.mark.parametrize("gone", ["project", "store", "exchanged"])
def test_a_watcher_ends_with_what_it_watches(saved, gone):
    store = Path(cli_json("status", cwd=saved)["store"])
    with watched(saved) as process:
        if gone == "store":
            shutil.rmtree(store)
        else:
            saved.rename(saved.with_name("aside"))
        if gone == "exchanged":
            saved.mkdir()
        assert process.wait(timeout=60) == 0


def test_a_watcher_that_is_told_to_end_in_the_middle_of_a_command_ends(saved):
    store = Path(cli_json("status", cwd=saved)["store"])
    with watched(saved) as process, open(store / "lock", "rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        client = subprocess.Popen(mulligan_argv("save"), cwd=saved, env=plain_environment(), stderr=subprocess.PIPE)
        wait_until(lambda: str(store / "lock") in files_of(process.pid))
        process.terminate()
        assert process.wait(timeout=60) == 0
        assert client.communicate(timeout=60)[1].startswith(b"mulligan: Interrupted.")
        assert client.returncode == 130


def test_a_watcher_that_nobody_asks_ends_by_itself(saved):
    with watched(saved, "--idle", "0.001") as process:
        assert process.wait(timeout=60) == 0


def test_after_a_killed_watcher_commands_work_and_another_can_start(saved):
    with watched(saved) as process:
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert cli_json("save", cwd=saved)["checkpoint"]["files_changed"] == ["src/new.py"]
    with watched(saved):
        assert cli_json("status", cwd=saved)["watcher"]["active"]


def test_a_client_that_gave_up_has_nothing_run(saved):
    """The watcher was ready; the client was not there any more to say go."""
    with watched(saved):
        with connect(saved) as link:
            link.sendall(request(saved, ["undo"]))
            assert link.recv(1) == thin.READY
        assert (saved / "src" / "new.py").exists()
        assert cli_json("status", cwd=saved)["unsaved"]["added"] == 1


def request(project: Path, words: list[str], **facts: bytes) -> bytes:
    """What a client sends; by name, a fact that is not as it should be."""
    here = project.stat()
    items = {
        "protocol": thin.PROTOCOL, "build": thin.build(), "directory": os.fsencode(project),
        "identity": b"%d %d" % (here.st_dev, here.st_ino), "screens": b"00 0", "zone": b"", "out": b"utf-8", "err": b"utf-8",
        "count": b"%d" % len(words),
    }  # fmt: skip
    told = [f"{key}={os.environ[key]}".encode() for key in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME")]
    return thin.pack([*{**items, **facts}.values(), *map(os.fsencode, words), *told])


@pytest.mark.parametrize(
    "facts",
    [
        {"build": b"another version"}, {"protocol": b"9"}, {"identity": b"1 1"}, {"out": b"no-such-encoding"},
        {"zone": b"Mars/Olympus"}, {"count": b"99"}, {"count": b"-1"}, {"screens": b"x"}, {"directory": b"/nowhere\0"},
    ],
)  # fmt: skip
def test_a_request_that_is_not_for_this_watcher_runs_nothing(saved, facts):
    with watched(saved), connect(saved) as link:
        link.sendall(request(saved, ["save", "strange"], **facts))
        answer = link.recv(1)
        if answer == thin.READY:
            link.sendall(thin.GO + bytes(4))
            answer = link.recv(1 << 16)
            assert thin.DECLINED in answer or not answer
        assert [cp["name"] for cp in cli_json("log", cwd=saved)["checkpoints"]] == ["second", "first"]


def test_hostile_clients_are_in_nobodys_way(saved):
    """Garbage, lengths that never come, requests without end, and many who say nothing at all."""
    with watched(saved) as process:
        silent = [connect(saved) for _ in range(20)]
        for data in (
            b"\xff" * 4,
            b"\xff" * 70_000,
            b"GET / HTTP/1.1\r\n\r\n",
            b"\0\0\0\5abcde",
            b"\0\0\0\1\0",
            os.urandom(5000),
        ):
            with connect(saved) as link:
                try:
                    link.sendall(data)
                    link.shutdown(socket.SHUT_WR)
                    assert link.recv(1) == b""
                except (BrokenPipeError, ConnectionResetError):
                    pass  # it was shown the door while it still talked
        with connect(saved) as slow:
            slow.sendall(b"\0")
            assert cli_json("save", cwd=saved)["checkpoint"]["files_changed"] == ["src/new.py"]
            with suppress(BrokenPipeError):  # it may have been shown the door already
                slow.sendall(b"\0")
            assert slow.recv(1) == b"", "a request that does not become whole is not waited for"
        assert process.poll() is None
        for link in silent:
            link.close()


def test_the_socket_is_private(saved):
    with watched(saved):
        path = socket_of(saved)
        assert os.stat(path).st_mode & 0o777 == 0o600
        assert os.stat(os.path.dirname(path)).st_mode & 0o777 == 0o700
        os.chmod(os.path.dirname(path), 0o755)
        assert cli_json("status", cwd=saved)["watcher"] is None, "a place that others may enter is not believed"
        os.chmod(os.path.dirname(path), 0o700)
    os.chmod(os.path.dirname(path), 0o777)
    assert "others may enter" in cli("watch", "--background", cwd=saved).stderr


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


def holds_a_socket(process: int) -> bool:
    """Whether a process talks to somebody."""
    return any("socket" in each for each in files_of(process))


def files_of(process: int) -> list[str]:
    """What a process has open; nothing while that changes."""
    with suppress(FileNotFoundError):
        return [os.readlink(each) for each in Path(f"/proc/{process}/fd").iterdir()]
    return []


def wait_until(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not happened():
        assert time.monotonic() < deadline
        os.sched_yield()


def test_who_interrupts_a_command_is_told_so(saved):
    with watched(saved):
        path = socket_of(saved)
    with socket.socket(socket.AF_UNIX) as busy:  # a watcher that has no time yet
        busy.bind(path)
        busy.listen()
        client = subprocess.Popen(mulligan_argv("undo"), cwd=saved, env=plain_environment(), stderr=subprocess.PIPE)
        link, _ = busy.accept()
        client.send_signal(signal.SIGINT)
        said = client.communicate(timeout=60)[1]
        link.close()
    os.unlink(path)
    assert (client.returncode, said[:24]) == (130, b"mulligan: Interrupted. W")


@pytest.mark.parametrize("words", [["save", "by itself"], ["hook", "claude-code"]])
def test_what_a_stopped_watcher_does_not_begin_is_done_without_it(saved, words):
    with watched(saved) as process:
        process.send_signal(signal.SIGSTOP)
        try:
            done = subprocess.run(
                mulligan_argv(*words), cwd=saved, env=plain_environment(), input=hook_event(saved), text=True,
                capture_output=True, check=True,
            )  # fmt: skip
        finally:
            process.send_signal(signal.SIGCONT)
        assert done.stderr == ""
    newest = cli_json("log", "-n", "1", cwd=saved)["checkpoints"][0]
    assert newest["files_changed"] == ["src/new.py"]


class Silent:
    """A connection to a process that does not answer."""

    def __init__(self, process: int) -> None:
        self.asked, self.process = 0, process

    def settimeout(self, _: float) -> None:
        pass

    def recv(self, _: int) -> bytes:
        self.asked += 1
        raise TimeoutError

    def getsockopt(self, *_: int) -> bytes:
        return struct.pack("3i", self.process, os.geteuid(), 0)


def test_a_stopped_watcher_is_found_out_at_the_first_look_and_a_busy_one_is_waited_for():
    program = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        stopped, busy = Silent(program.pid), Silent(os.getpid())
        program.send_signal(signal.SIGSTOP)
        wait_until(lambda: thin.is_stopped(stopped))
        assert not thin._is_ready(stopped) and stopped.asked == 1
        assert not thin._is_ready(busy) and busy.asked == 20
        with pytest.raises(thin.Stopped):  # one that had begun
            thin._receive(stopped, 4)
    finally:
        program.kill()
        program.communicate()


def hook_event(project: Path, tool: str = "Edit") -> str:
    """What an agent tells after a tool."""
    facts = {"session_id": "s", "cwd": str(project), "tool_name": tool, "tool_input": {}}
    return json.dumps({"hook_event_name": "PostToolUse", **facts})


@pytest.mark.parametrize("before", [[], ["--json"], ["-C", "."]])
def test_a_hook_goes_through_the_watcher_or_past_it_but_is_never_lost(saved, before):
    with watched(saved):
        done = subprocess.run(
            mulligan_argv(*before, "hook", "claude-code"), cwd=saved, env=plain_environment(), input=hook_event(saved),
            text=True, capture_output=True, check=True,
        )  # fmt: skip
        assert done.stderr == ""
        newest = cli_json("log", "-n", "1", cwd=saved)["checkpoints"][0]
        assert newest["files_changed"] == ["src/new.py"]
        assert newest["kind"] == "step"


def test_a_hook_whose_event_comes_late_is_not_lost(saved):
    """Half of it is there; the rest comes after the watcher has given up on it."""
    event = hook_event(saved)
    with watched(saved):
        hook = subprocess.Popen(
            mulligan_argv("hook", "claude-code"), cwd=saved, env=plain_environment(),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert hook.stdin is not None
        hook.stdin.write(event[:40])
        hook.stdin.flush()
        wait_until(lambda: holds_a_socket(hook.pid))
        wait_until(lambda: not holds_a_socket(hook.pid))
        out, err = hook.communicate(event[40:], timeout=60)
        assert (hook.returncode, out, err) == (0, "", "")
        assert cli_json("log", "-n", "1", cwd=saved)["checkpoints"][0]["files_changed"] == ["src/new.py"]


def test_what_cannot_be_printed_is_no_success(saved):
    with watched(saved), open("/dev/full", "wb") as full:
        done = subprocess.run(
            mulligan_argv("cat", "first:src/app.py"), cwd=saved, env=plain_environment(), stdout=full,
            stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 1
    assert "No space left" in done.stderr


def test_a_watcher_with_nothing_to_do_frees_what_retention_let_go_and_serves_meanwhile(saved):
    with mulligan.open(saved) as ws:
        packs = Path(ws.store_path) / "objects" / "pack"
        for number in range(9):
            (saved / "large").write_bytes(random.Random(number).randbytes(1_500_000))
            ws.save(f"n{number}", kind="automatic")

    def size() -> int:
        return sum(path.stat().st_size for path in packs.glob("*.pack"))

    before = size()
    with watched(saved):
        for _ in range(40):  # a minute and more: one that frees nothing by then never will
            cli_json("save", cwd=saved)
            time.sleep(2.5)  # longer than a watcher waits before it has nothing to do
            if size() < before - 4_000_000:
                break
        else:
            pytest.fail("nothing was freed")
    with mulligan.open(saved) as ws:
        assert ws.cat("n4", "large") == random.Random(4).randbytes(1_500_000)
    cli_json("save", cwd=saved, **ALONE)
    assert judge(packs.parent.parent) == []


def test_a_watcher_with_nothing_to_do_joins_the_packs_of_many_saves(saved):
    with mulligan.open(saved) as ws, ws.watch():
        packs = Path(ws.store_path) / "objects" / "pack"
        for number in range(60):
            (saved / "many").write_text(f"{number}")
            ws.save()
    assert len(list(packs.glob("*.idx"))) >= 60
    with watched(saved):
        while len(list(packs.glob("*.idx"))) > 30:
            time.sleep(0.05)
    cli_json("save", cwd=saved, **ALONE)  # the watcher may have been ended in the middle of it
    assert judge(packs.parent.parent) == []
