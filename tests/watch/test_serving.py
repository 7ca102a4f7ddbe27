"""The watcher as a process: same answers as without it, for the same user only, and never in anybody's way."""

from __future__ import annotations

import fcntl
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest

import mulligan
from checker import judge
from tools import cli, cli_json, mulligan_argv, plain_environment
from watchers import ALONE, files_of, pack, receive, wait_until, watched


def sockets() -> list[Path]:
    return list(Path(os.environ["XDG_RUNTIME_DIR"], "mulligan").glob("*.sock"))


def connect() -> tuple[socket.socket, bytes]:
    """A connection to the one watcher, and the request id that it greets with."""
    link = socket.socket(socket.AF_UNIX)
    link.settimeout(30)
    link.connect(str(sockets()[0]))
    protocol, version, number = receive(link)
    assert (protocol, version) == (b"mulligan 2", mulligan.__version__.encode())
    return link, number


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
        wait_until(lambda: bool(sockets()))
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


def test_the_socket_is_private(saved):
    with watched(saved):
        path = str(sockets()[0])
        assert os.stat(path).st_mode & 0o777 == 0o600
        assert os.stat(os.path.dirname(path)).st_mode & 0o777 == 0o700
        os.chmod(os.path.dirname(path), 0o755)
        assert cli_json("status", cwd=saved)["watcher"] is None, "a place that others may enter is not believed"
        os.chmod(os.path.dirname(path), 0o700)
    os.chmod(os.path.dirname(path), 0o777)
    assert "others may enter" in cli("watch", "--background", cwd=saved).stderr


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


# -- a conversation -------------------------------------------------------------------------------


def request(project: Path, number: bytes, /, *words: str, **facts: bytes) -> bytes:
    """What a client sends; by name, a fact that is not as it should be."""
    here = project.stat()
    items = {
        "kind": b"run", "number": number, "directory": os.fsencode(project), "screens": b"00 0 %d" % len(words),
        "identity": b"%d %d" % (here.st_dev, here.st_ino), "event": b"",
    } | facts  # fmt: skip
    told = [f"{key}={os.environ[key]}".encode() for key in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME")]
    head = [items[name] for name in ("kind", "number", "directory", "identity", "screens", "event")]
    return pack(*head, *map(os.fsencode, words), *told, *([facts["more"]] if "more" in facts else []))


def names(project: Path) -> list[str]:
    return [cp["name"] for cp in cli_json("log", cwd=project, **ALONE)["checkpoints"]]


def test_a_request_is_run_and_its_answer_can_be_asked_for_again(saved):
    with watched(saved):
        link, number = connect()
        with link:
            link.sendall(request(saved, number, "save", "by hand"))
            answer = receive(link)
        assert answer[:2] == [b"done", b"0"] and answer[2].startswith(b"saved")
        for asked, expected in ((number, answer), (b"another-1", [b"unknown"]), (b"", [b"unknown"])):
            link, fresh = connect()
            with link:
                link.sendall(pack(b"ask", asked))
                assert receive(link) == expected
        link, _ = connect()
        with link:
            link.sendall(pack(b"ask", fresh))
            assert receive(link) == [b"declined"], "its client was greeted, and never sent a request"
    assert names(saved) == ["by hand", "second", "first"]


def test_a_client_that_gave_up_has_nothing_run(saved):
    """Greeted, and gone; and gone after its request, while the watcher was busy with another."""
    store = Path(cli_json("status", cwd=saved)["store"])
    with watched(saved) as process:
        connect()[0].close()
        with open(store / "lock", "rb") as held:
            (busy, first), (gone, second) = connect(), connect()
            fcntl.flock(held, fcntl.LOCK_EX)
            busy.sendall(request(saved, first, "save", "waits"))
            wait_until(lambda: str(store / "lock") in files_of(process.pid))
            gone.sendall(request(saved, second, "undo"))
            gone.close()
            fcntl.flock(held, fcntl.LOCK_UN)
        with busy:
            assert receive(busy)[:2] == [b"done", b"0"]
        assert cli_json("status", cwd=saved)["unsaved"]["added"] == 0
    assert (saved / "src" / "new.py").exists()


@pytest.mark.parametrize(
    "facts",
    [
        {"number": b"another"}, {"kind": b"nonsense"}, {"identity": b"1 1"}, {"more": b"TZ=Mars/Olympus"},
        {"more": b"LC_ALL=de_DE.ISO-8859-15"}, {"more": b"PYTHONIOENCODING=ascii"}, {"more": b"COLUMNS=many"},
        {"screens": b"00 0 99"}, {"screens": b"00 0 -1"}, {"screens": b"00 0 0"}, {"screens": b"x"}, {"screens": b"\xff 0 1"},
        {"directory": b"/nowhere"}, {"directory": b"/nowhere\0"},
    ],
)  # fmt: skip
def test_a_request_that_is_not_for_this_watcher_runs_nothing(saved, facts):
    with watched(saved):
        link, number = connect()
        with link:
            link.sendall(request(saved, number, "save", "strange", **facts))
            assert receive(link) in ([], [b"declined"])
        cli_json("status", cwd=saved)
    assert names(saved) == ["second", "first"]


def test_hostile_clients_are_in_no_other_clients_way(saved):
    """Garbage, lengths that never come, requests without end, and many clients that say nothing at all."""
    with watched(saved) as process:
        silent = [connect()[0] for _ in range(20)]
        for data in (
            b"\xff" * 4,
            b"\xff" * 70_000,
            b"GET / HTTP/1.1\r\n\r\n",
            b"\0\0\0\5abcde",
            b"\0\0\0\1\0",
            b"\0\0\0\0",
            os.urandom(5000),
        ):
            link, _ = connect()
            with link, suppress(BrokenPipeError, ConnectionResetError):  # it was shown the door while it still talked
                link.sendall(data)
                link.shutdown(socket.SHUT_WR)
                assert link.recv(1) == b""
        slow, _ = connect()
        with slow:
            slow.sendall(b"\0")
            assert cli_json("save", cwd=saved)["checkpoint"]["files_changed"] == ["src/new.py"]
            with suppress(BrokenPipeError):  # it may have been shown the door already
                slow.sendall(b"\0")
            assert slow.recv(1) == b"", "a request that does not become whole is not waited for"
        assert process.poll() is None
        for link in silent:
            link.close()


def test_a_watcher_of_a_program_that_was_replaced_greets_no_client_and_ends(saved, tmp_path):
    """An upgrade, here of a copy of the package that the watcher was started from."""
    package = tmp_path / "package"
    shutil.copytree(Path(mulligan.__file__).parent, package / "mulligan", ignore=shutil.ignore_patterns("__pycache__"))
    environment = plain_environment() | {"PYTHONPATH": str(package)}
    words = mulligan_argv("watch")
    with subprocess.Popen(words, cwd=saved, env=environment, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None and process.stderr.readline().startswith("Watching")
        program = package / "mulligan" / "__init__.py"
        program.write_bytes(program.read_bytes())
        assert process.wait(timeout=60) == 0


# -- how many there are ---------------------------------------------------------------------------


def allow_watchers(private_home: Path, most: int) -> None:
    config = private_home / "xdg-config" / "mulligan" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(f"[watch]\nmost = {most}\n")


def saved_projects(folder: Path, *names: str) -> list[Path]:
    found = [folder / name for name in names]
    for each in found:
        each.mkdir()
        (each / "file").write_text(each.name)
        with mulligan.open(each) as ws:
            ws.save("first")
    return found


def lock_of(process: int) -> Path:
    """The file whose lock says that this process watches."""
    folder = Path(os.environ["XDG_RUNTIME_DIR"], "mulligan")
    return next(path for path in folder.glob("*.lock") if path.read_text().startswith(f"{process}\n"))


def test_one_watcher_too_many_ends_the_least_recently_used(tmp_path, private_home):
    allow_watchers(private_home, 2)
    one, two, three = saved_projects(tmp_path, "one", "two", "three")
    with watched(one) as first, watched(two) as second:
        os.utime(lock_of(first.pid), (1, 1))
        os.utime(lock_of(second.pid), (2, 2))
        cli_json("log", cwd=one)  # from now on the second is the one that was not used for longest
        assert lock_of(first.pid).stat().st_mtime > 2
        with watched(three) as third:
            assert second.wait(timeout=60) == 0
            listed = cli_json("watch", "--list", cwd=three)
            assert {row["process"] for row in listed["watchers"]} == {first.pid, third.pid}
            assert listed["most"] == 2
            assert "2 watchers of at most 2" in cli("watch", "--list", cwd=three).stdout


def test_a_watcher_with_a_command_in_progress_is_never_ended_for_another(saved, tmp_path, private_home):
    allow_watchers(private_home, 2)
    idle, late = saved_projects(tmp_path, "idle", "late")
    store = Path(cli_json("status", cwd=saved)["store"])
    with watched(saved) as busy, open(store / "lock", "rb") as held:
        link, number = connect()
        with link, watched(idle) as other:
            fcntl.flock(held, fcntl.LOCK_EX)
            link.sendall(request(saved, number, "save", "waits"))
            wait_until(lambda: str(store / "lock") in files_of(busy.pid))
            busy.send_signal(signal.SIGSTOP)  # so that the command lasts as long as this test wants
            try:
                os.utime(lock_of(busy.pid), (1, 1))
                with watched(late):
                    assert other.wait(timeout=60) == 0, "the one without a command ended instead"
                    fcntl.flock(held, fcntl.LOCK_UN)
                    busy.send_signal(signal.SIGCONT)
                    assert receive(link)[0] == b"done"
                    assert busy.poll() is None
            finally:
                busy.send_signal(signal.SIGCONT)
