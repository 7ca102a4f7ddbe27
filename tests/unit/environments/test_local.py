"""The local environment beyond Chimera's own list: bytes, races, second runs, odd names, and trouble."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import mulligan
from faults import FailsAlways
from mulligan.environments import local
from mulligan.environments.local import IncompleteRestoreWarning, LocalEnvironment
from mulligan.safefs import syscalls
from tools import plain_environment


@pytest.fixture
def env(project: Path) -> LocalEnvironment:
    return LocalEnvironment(project)


def test_the_directory_has_two_names_and_one_value(project: Path) -> None:
    assert LocalEnvironment(working_dir=project).workdir == LocalEnvironment(project).workdir == project
    with pytest.raises(TypeError, match="needs a directory"):
        LocalEnvironment()
    with pytest.raises(TypeError, match="two values"):
        LocalEnvironment(project, working_dir=project / "x")


def test_a_directory_that_is_missing_is_made_when_it_is_needed(tmp_path: Path) -> None:
    env = LocalEnvironment(tmp_path / "new" / "er")
    with pytest.raises(FileNotFoundError):
        env.read_file("f")
    assert not (tmp_path / "new").exists()
    assert env.run_command("pwd").stdout == f"{tmp_path}/new/er\n"


def test_text_survives_reading_and_writing_byte_for_byte(env: LocalEnvironment) -> None:
    data = b"crlf\r\n\xff\xfe latin\n\xe2\x82\xac"
    (env.workdir / "f").write_bytes(data)
    env.write_file("g", env.read_file("f"))
    assert (env.workdir / "g").read_bytes() == data


def test_a_file_keeps_its_mode_and_a_new_one_has_the_umask(env: LocalEnvironment) -> None:
    (env.workdir / "prog").write_text("1")
    (env.workdir / "prog").chmod(0o750)
    env.write_file("prog", "2")
    env.write_file("sub/new", "1")
    assert stat.S_IMODE((env.workdir / "prog").stat().st_mode) == 0o750
    assert stat.S_IMODE((env.workdir / "sub" / "new").stat().st_mode) == 0o644
    assert stat.S_IMODE((env.workdir / "sub").stat().st_mode) == 0o755


def test_a_link_inside_is_written_through_and_stays_a_link(env: LocalEnvironment) -> None:
    env.write_file("real/f", "1")
    (env.workdir / "link").symlink_to("real/f")
    env.write_file("link", "2")
    assert (env.workdir / "link").is_symlink()
    assert env.read_file("real/f") == "2"


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(env: LocalEnvironment) -> None:
    env.write_file("f", "precious")
    with syscalls.using(FailsAlways(errno.ENOSPC, "write")), pytest.raises(OSError):
        env.write_file("f", "new")
    assert env.read_file("f") == "precious"
    assert env.list_files() == ["f"]


def test_a_directory_is_no_file(env: LocalEnvironment) -> None:
    env.write_file("d/f", "1")
    for action in (lambda: env.read_file("d"), lambda: env.write_file("d", "x")):
        with pytest.raises(IsADirectoryError):
            action()


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("**/*", [".hidden", "a.py", "d/b.py", "d/e/c.txt"]),
        ("*.py", ["a.py"]),
        ("**/*.py", ["a.py", "d/b.py"]),
        ("d/**", ["d/b.py", "d/e/c.txt"]),
        ("d/*/c.???", ["d/e/c.txt"]),
        ("nothing", []),
    ],
)
def test_patterns(env: LocalEnvironment, pattern: str, found: list[str]) -> None:
    for name in (".hidden", "a.py", "d/b.py", "d/e/c.txt", ".git/config", ".chimera/checkpoints/0/x"):
        env.write_file(name, "1")
    (env.workdir / "dangling").symlink_to("nowhere")
    assert env.list_files(pattern) == found


def test_commands_are_forgetful_unless_there_is_a_session(env: LocalEnvironment, project: Path) -> None:
    env.run_command("X=1; cd /")
    assert env.run_command("echo [$X]; pwd").stdout == f"[]\n{project}\n"
    with LocalEnvironment(project, session=True) as remembering:
        remembering.run_command("X=1; cd /")
        assert remembering.run_command("echo [$X]; pwd").stdout == "[1]\n/\n"
        assert remembering.run_command("echo [$X]; pwd", shell_name="other").stdout == f"[]\n{project}\n"


def test_a_command_that_takes_too_long_is_ended(env: LocalEnvironment) -> None:
    ran = env.run_command("sleep 60", timeout=0.3)
    assert (ran.exit_code, ran.success) == (124, False)


def test_tests_are_run_and_counted(project: Path) -> None:
    env = LocalEnvironment(project, test_cmd="echo '2 passed, 1 failed in 0.01s'; exit 1")
    result = env.run_tests()
    assert (result.passed, result.failed, result.errors) == (2, 1, 0)
    assert "2 passed" in result.output


def test_numbers_go_on_in_the_next_process_and_two_at_once_never_share_one(project: Path) -> None:
    program = (
        "import sys; from mulligan.environments import LocalEnvironment\n"
        "env = LocalEnvironment(sys.argv[1]); env.workspace.settings\n"
        "print(*[env.checkpoint() for _ in range(4)])"
    )
    environment = plain_environment()
    both = [
        subprocess.Popen([sys.executable, "-c", program, project], env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    numbers = [number for process in both for number in process.communicate()[0].split()]
    assert [process.returncode for process in both] == [0, 0]
    assert sorted(numbers, key=int) == [str(number) for number in range(8)]
    assert LocalEnvironment(project).checkpoint() == "8"


def test_numbers_go_on_when_the_timeline_was_rebuilt(env: LocalEnvironment) -> None:
    env.write_file("f", "1")
    assert [env.checkpoint(), env.checkpoint()] == ["0", "1"]
    env.workspace.close()
    for name in ("timeline.db", "timeline.db-wal", "timeline.db-shm"):
        (Path(env.workspace.store_path) / name).unlink(missing_ok=True)
    env.workspace.doctor()
    assert env.checkpoint_ids() == ["0", "1"]
    assert env.checkpoint() == "2"


def test_checkpoints_are_seen_by_everybody(env: LocalEnvironment) -> None:
    env.write_file("f", "1")
    env.checkpoint_as("a name", "a description")
    newest = mulligan.open(env.workdir).log(limit=1)[0]
    assert (newest.name, newest.description, newest.kind) == ("a name", "a description", "manual")
    marks = {"dialect": "chimera", "environment": "local", "id": "0", "legacy": False}
    assert newest.metadata == {**marks, "counted": True}


def test_a_checkpoint_that_failed_leaves_everything_as_it_was(env: LocalEnvironment) -> None:
    env.write_file("f", "1")
    env.checkpoint()
    env.write_file("f", "2")
    with syscalls.using(FailsAlways(errno.EIO, "fsync", "syncfs")), pytest.raises(mulligan.MulliganError):
        env.checkpoint()
    assert env.checkpoint_ids() == ["0"]
    assert env.read_file("f") == "2"
    env.checkpoint()
    assert len(env.checkpoint_ids()) == 2


def test_what_could_not_come_back_is_said(env: LocalEnvironment) -> None:
    env.write_file("debug.log", "1")
    made = env.checkpoint()
    env.write_file("debug.log", "2")
    env.write_file(".gitignore", "*.log\n")
    env.checkpoint()
    with pytest.warns(IncompleteRestoreWarning, match=r"debug\.log"):
        env.restore(made)
    assert env.read_file("debug.log") == "2"
    assert env.last_report is not None and not env.last_report.complete


def test_the_label_of_one_checkpoint_is_not_that_of_the_next(env: LocalEnvironment) -> None:
    env.checkpoint_as("named")
    env.checkpoint()
    assert [checkpoint.name for checkpoint in env.workspace.log()] == ["", "named"]


def test_a_class_of_ones_own_may_add_to_checkpoint(project: Path) -> None:
    from mulligan.dialects.chimera import CheckpointManager

    class Counting(LocalEnvironment):
        calls = 0

        def checkpoint(self) -> str:
            self.calls += 1
            return super().checkpoint()

    env = Counting(project)
    CheckpointManager(env).create("x")
    assert env.calls == 1
    assert env.workspace.log()[0].name == "x"


def test_names_that_are_no_text_and_names_that_are_odd(env: LocalEnvironment) -> None:
    names = [b"caf\xff", b"new\nline", b"-rf", "déjà vu".encode()]
    for name in names:
        Path(os.fsdecode(os.path.join(os.fsencode(env.workdir), name))).write_text("1")
    made = env.checkpoint()
    for name in names:
        Path(os.fsdecode(os.path.join(os.fsencode(env.workdir), name))).unlink()
    env.restore(made)
    assert sorted(os.listdir(os.fsencode(env.workdir))) == sorted(names)
    assert env.read_file("-rf") == "1"


def test_an_empty_directory_is_a_state_too(env: LocalEnvironment) -> None:
    made = env.checkpoint()
    env.write_file("f", "1")
    env.restore(made)
    assert list(env.workdir.iterdir()) == []


def test_records_do_not_pile_up(env: LocalEnvironment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "_MANY_RECORDS", 3)
    for number in range(5):
        env.add_record({"id": env.checkpoint() if number in (1, 4) else f"gone-{number}"})
    assert [row["id"] for row in env.records()] == ["0", "gone-3", "1"]


def test_a_missing_file_is_named_as_it_was_asked_for(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="'nöpe/x'"):
        LocalEnvironment(tmp_path).read_file("nöpe/x")
