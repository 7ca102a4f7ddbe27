"""A file that keeps changing, or that may not be written, costs the undo that file and nothing else."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import tools
from play import Agent, typed

_ORDINARY = 65534
_WRITES = "import sys\nwhile True:\n    with open(sys.argv[1], 'a') as log: log.write('x')\n"


@contextmanager
def writing_to(path: Path) -> Iterator[None]:
    """A program appends to a file without a pause."""
    program = subprocess.Popen([sys.executable, "-c", _WRITES, str(path)])
    try:
        while not path.exists() or path.stat().st_size < 10:
            assert program.poll() is None
        yield
    finally:
        program.kill()
        program.wait()


def many_files(project: Path, text: str) -> None:
    for number in range(300):
        (project / f"f{number}.txt").write_text(f"{text} {number}\n")


def meeting_the_writer(project: Path, *words: str) -> str:
    """Changes many files and takes that back, until the writer wrote during it; returns what was said then."""
    for _ in range(50):  # a writer that gets no processor all the while is not met
        many_files(project, "agent's")
        done = tools.cli(*words, cwd=project)
        if done.returncode:
            assert done.returncode == 3, done
            return done.stdout + done.stderr
    raise AssertionError("the writer was never met")


def kinds(project: Path) -> list[str]:
    return [row["kind"] for row in tools.cli_json("log", cwd=project)["checkpoints"]]


@pytest.mark.parametrize("verb", [["undo"], ["restore", "base", "-y"]], ids=lambda verb: verb[0])
def test_a_log_that_keeps_growing_is_left_alone_and_everything_else_comes_back(project, verb):
    many_files(project, "mine")
    (project / "server.out").write_text("start\n")
    typed(project, "save", "base")
    with writing_to(project / "server.out"):
        said = meeting_the_writer(project, *verb)
        size = (project / "server.out").stat().st_size
    assert "server.out" in said and "300 files" in said
    assert all(path.read_text().startswith("mine") for path in project.glob("f*.txt"))
    assert (project / "server.out").stat().st_size >= size > 10  # its program still has its file
    assert not list(project.glob(".mulligan-*"))


def test_with_a_busy_file_the_next_undo_reaches_the_step_before(project):
    (project / "server.out").write_text("start\n")
    (project / "a.txt").write_text("one\n")
    typed(project, "save", "one")
    (project / "a.txt").write_text("two\n")
    typed(project, "save", "two")
    with writing_to(project / "server.out"):
        meeting_the_writer(project, "undo")
        assert (project / "a.txt").read_text() == "two\n" and not list(project.glob("f*.txt"))
        for _ in range(20):  # the writer may pause for long enough that the file alone is restored
            tools.cli("undo", cwd=project)
            if (project / "a.txt").read_text() == "one\n":
                break
        assert (project / "a.txt").read_text() == "one\n"


def test_after_a_save_a_file_that_keeps_changing_does_not_hide_the_turn(project):
    (project / "server.out").write_text("start\n")
    agent = Agent(project)
    agent.turn("one", "echo 1 > one.txt")
    typed(project, "save", "mine")
    with writing_to(project / "server.out"):
        for _ in range(3):  # the writer may pause for long enough that the file alone is restored
            tools.cli("undo", cwd=project)
            if not (project / "one.txt").exists():
                break
    assert not (project / "one.txt").exists()


def test_a_turn_of_which_only_a_busy_file_is_left_is_listed_and_the_next_undo_goes_further(project):
    agent = Agent(project)
    agent.turn("one", "echo 1 > one.txt")
    agent.turn("two", "echo start > server.out")
    with writing_to(project / "server.out"):
        for _ in range(4):
            tools.cli("undo", cwd=project)
            if not (project / "one.txt").exists():
                break
    assert not (project / "one.txt").exists()


def test_an_undo_that_could_change_nothing_leaves_no_safety_checkpoint(project):
    (project / "only.out").write_text("start\n")
    typed(project, "save", "base")
    with writing_to(project / "only.out"):
        for _ in range(5):
            before = kinds(project)
            done = tools.cli("undo", cwd=project)
            assert done.returncode in (0, 1, 3), done
            if done.returncode == 1:
                assert kinds(project) == before


def test_an_undo_that_leaves_all_alone_says_what_keeps_changing(project):
    """A file so long that no scan reads it twice the same."""
    (project / "only.out").write_bytes(os.urandom(30_000_000))
    typed(project, "save", "base")
    writes = "import os, sys\nfd = os.open(sys.argv[1], os.O_WRONLY)\nwhile True: os.pwrite(fd, os.urandom(20), 0)"
    program = subprocess.Popen([sys.executable, "-c", writes, str(project / "only.out")])
    try:
        for _ in range(50):  # a writer that gets no processor all the while is not met, and then the file does match
            done = tools.cli("undo", cwd=project)
            said = done.stdout + done.stderr
            if done.returncode == 1 and "only.out" in said:
                break
        assert done.returncode == 1 and program.poll() is None, done
    finally:
        program.kill()
        program.wait()
    assert "match" not in said and "mulligan undo" in said
    assert "restored only.out" in typed(project, "undo")


def test_where_the_budget_removes_the_copy_of_what_a_restore_replaced_the_command_says_so(project, private_home):
    config = private_home / "xdg-config/mulligan/config.toml"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text('[retention]\nbudget = "400 KiB"\n')
    (project / "data").write_bytes(b"base")
    typed(project, "save", "base")
    for _ in range(12):
        (project / "data").write_bytes(os.urandom(50_000))
        done = tools.cli("restore", "base", "-y", cwd=project)
        assert done.returncode == 0, done.stderr
        if "before they were a week old" in done.stderr:
            break
    else:
        pytest.fail("a safety checkpoint went without a word, or none went")


@pytest.fixture
def shared_project() -> Iterator[Path]:
    """A project of an ordinary user, which root works in too."""
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        pytest.skip("needs root, to make directories of root's and to be an ordinary user")
    started = subprocess.run(
        [*_USER, sys.executable, "-c", "import sqlite3"], cwd="/", capture_output=True, check=False
    )
    if started.returncode:
        pytest.skip("THE TESTS OF AN ORDINARY USER'S UNDO DO NOT RUN: this Python cannot be read by other users")
    top = Path("/tmp") / f"mulligan-shared-{os.getpid()}"
    (top / "project").mkdir(parents=True)
    for path in (top, top / "project"):
        os.chown(path, _ORDINARY, _ORDINARY)
        path.chmod(0o755)
    yield top / "project"
    shutil.rmtree(top)


_USER = ["setpriv", f"--reuid={_ORDINARY}", f"--regid={_ORDINARY}", "--clear-groups"]


def as_user(project: Path, *args: str) -> subprocess.CompletedProcess[str]:
    home = str(project.parent)
    places = dict.fromkeys(("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"), home)
    # A checkout in a private directory cannot be read by another user, so a copy of the package is run.
    source = project.parent / "src"
    if not source.exists():
        shutil.copytree(tools.PACKAGE, source, ignore=shutil.ignore_patterns("__pycache__"))
    return subprocess.run(
        [*_USER, *tools.mulligan_argv(*args)], cwd=project, env={**tools.plain_environment(**places), "PYTHONPATH": str(source)},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def test_a_directory_of_root_is_named_with_its_owner_and_the_rest_is_undone(shared_project):
    project = shared_project
    for number in range(5):
        (project / f"f{number}").write_text("mine\n")
    (project / "d").mkdir()
    (project / "d/data").write_text("mine\n")
    for path in (project / "d", *project.rglob("*")):
        os.chown(path, _ORDINARY, _ORDINARY)
    assert as_user(project, "save", "base").returncode == 0
    for number in range(5):
        (project / f"f{number}").write_text("agent's\n")
    (project / "d/data").write_text("agent's\n")
    (project / "d/from docker").write_text("new\n")
    os.chown(project / "d", 0, 0)
    done = as_user(project, "undo")
    said = done.stdout + done.stderr
    assert done.returncode == 3, said
    assert "owned by root" in said and "sudo chown" in said
    assert {(project / f"f{number}").read_text() for number in range(5)} == {"mine\n"}
    assert (project / "d/data").read_text() == "agent's\n" and (project / "d/from docker").exists()
    again = as_user(project, "undo")
    assert again.returncode == 1 and "owned by root" in again.stderr and "keeps changing" not in again.stderr, again
    os.chown(project / "d", _ORDINARY, _ORDINARY)  # what the hint says
    assert as_user(project, "restore", "base", "-y", "--", "d").returncode == 0
    assert (project / "d/data").read_text() == "mine\n" and not (project / "d/from docker").exists()


def test_where_root_owns_all_that_changed_nothing_changes_and_nothing_is_saved(shared_project):
    project = shared_project
    (project / "d").mkdir()
    (project / "d/data").write_text("mine\n")
    assert as_user(project, "save", "base").returncode == 0
    (project / "d/data").write_text("agent's\n")
    done = as_user(project, "undo")
    assert done.returncode == 1 and "owned by root" in done.stderr and "sudo chown" in done.stderr, done
    rows = json.loads(as_user(project, "--json", "log").stdout)["checkpoints"]
    assert [row["kind"] for row in rows] == ["manual"]
