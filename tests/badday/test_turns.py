"""Undo of a turn: it takes back what one prompt did, all of it, and nothing else."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import tools
from play import Agent, tree, typed


@pytest.fixture
def agent(project: Path) -> Agent:
    """A project with some files and an agent in it."""
    (project / "src").mkdir()
    for name in ("app.py", "src/shop.py", "src/login.py"):
        (project / name).write_text(f"# {name}\nfirst\nlast\n")
    told = Agent(project)
    told.event("SessionStart", source="startup")
    return told


def report_of(project: Path, *args: str, expect: int = 0) -> dict:
    return json.loads(typed(project, "--json", *args, expect=expect))["report"]


def test_a_chain_of_undos_leaves_data_alone_that_no_agent_touched(project, agent):
    agent.turn("one", "echo 1 > one.txt")
    (project / ".gitignore").write_text("results/\n")
    (project / "results").mkdir()
    (project / "results/big.jsonl").write_text("precious\n")
    agent.turn("two", "echo 2 > two.txt")
    for code in (0, 0, 0, 1, 1):
        typed(project, "undo", expect=code)
        assert (project / "results/big.jsonl").read_text() == "precious\n"
    assert not (project / "one.txt").exists() and not (project / "two.txt").exists()
    for _ in range(3):
        typed(project, "redo")
        assert (project / "results/big.jsonl").read_text() == "precious\n"


def test_a_redo_leaves_data_alone_that_the_undo_of_a_rule_made_visible(project, agent):
    agent.turn("one", "echo results/ > .gitignore")
    (project / "results").mkdir()
    (project / "results/big.jsonl").write_text("precious\n")
    for verb in ("undo", "redo", "undo", "redo"):
        typed(project, verb)
        assert (project / "results/big.jsonl").read_text() == "precious\n"
        assert (project / ".gitignore").exists() == (verb == "redo")


def test_a_restore_leaves_data_alone_that_was_ignored_when_it_appeared(project, agent):
    typed(project, "save", "base")
    (project / ".gitignore").write_text("results/\n")
    (project / "results").mkdir()
    (project / "results/big.jsonl").write_text("precious\n")
    typed(project, "save", "ignored")
    (project / ".gitignore").unlink()
    (project / "new.txt").write_text("new\n")
    said = typed(project, "restore", "base", "-y")
    assert (project / "results/big.jsonl").read_text() == "precious\n" and not (project / "new.txt").exists()
    assert "results" in said and "not saved then" in said


def test_a_save_after_a_turn_does_not_hide_it_and_saves_are_undone_one_by_one(project, agent):
    states = [tree(project)]
    agent.turn("one", "echo agent >> app.py")
    for name in ("src/shop.py", "src/login.py"):
        (project / name).write_text("mine\n")
        typed(project, "save", f"my {name}")
    (project / "notes.txt").write_text("not saved\n")
    states.append(tree(project))
    named = []
    for _ in range(4):
        named.append(typed(project, "undo").partition(" (")[0].partition(":")[0])
        states.append(tree(project))
    assert named[:3] == [
        'Undid prompt 1 "one"',
        'Undid checkpoint "my src/login.py"',
        'Undid checkpoint "my src/shop.py"',
    ]
    without_turn = {**states[1], "app.py": states[0]["app.py"]}
    without_login = {**without_turn, "src/login.py": states[0]["src/login.py"]}
    assert states[2:] == [without_turn, without_login, {**states[0], "notes.txt": "not saved\n"}, states[0]]
    typed(project, "undo", expect=1)
    said = [typed(project, "redo") for _ in range(4)]
    assert tree(project) == states[1]
    assert [line.partition(" (")[0] for line in said[1:]] == [line.replace("Undid", "Redid") for line in named[2::-1]]


def test_undo_asks_on_a_terminal_if_something_was_saved_after_the_prompt(project, agent):
    agent.turn("one", "echo agent >> app.py")
    (project / "src/shop.py").write_text("mine\n")
    typed(project, "save", "mine")
    before = tree(project)
    code, shown = tools.at_a_terminal("undo", cwd=project, typed="n\n")
    assert code == 1 and 'You saved "mine" (' in shown and 'Undo prompt 1 "one" (just now)? [y/N]' in shown
    assert tree(project) == before
    assert tools.at_a_terminal("undo", cwd=project, typed="y\n")[0] == 0
    assert tree(project) == {**before, "app.py": "# app.py\nfirst\nlast\n"}


def test_an_undo_of_a_redo_says_what_it_undid_and_not_a_restore(project):
    (project / "a").write_text("1\n")
    typed(project, "save", "one")
    (project / "a").write_text("2\n")
    said = [typed(project, verb) for verb in ("undo", "redo", "undo")]
    assert said[0] == said[2] == 'Undid what changed since "one": restored a. Redo: mulligan redo\n'


def test_what_changed_since_a_save_is_undone_first_where_no_turn_waits(project, agent):
    agent.turn("one", "echo agent >> app.py")
    typed(project, "undo")
    typed(project, "save", "mine")
    (project / "app.py").write_text("edited\n")
    assert 'Undid what changed since "mine": restored app.py' in typed(project, "undo")
    assert (project / "app.py").read_text() == "# app.py\nfirst\nlast\n"


def test_a_background_writer_does_not_hide_the_turn(project, agent):
    agent.turn("start a server", "echo start > server.out; rm src/shop.py; echo x > junk.txt")
    stop, ticked = threading.Event(), threading.Event()

    def serve() -> None:
        while not stop.wait(0.02):
            with open(project / "server.out", "a", encoding="utf-8") as file:
                file.write("tick\n")
            ticked.set()

    writer = threading.Thread(target=serve)
    writer.start()
    try:
        assert ticked.wait(30)
        said = typed(project, "undo", expect=3)
    finally:
        stop.set()
        writer.join()
    assert "server.out" in said
    assert (project / "src/shop.py").exists() and not (project / "junk.txt").exists()
    assert (project / "server.out").exists()


def test_what_a_person_did_after_the_turn_is_kept_and_the_next_undo_goes_to_the_turn_before(project, agent):
    agent.turn("one", "echo 1 > one.txt")
    agent.turn("two", "echo 2 > two.txt")
    (project / "mine.txt").write_text("mine\n")
    assert 'prompt 2 "two"' in typed(project, "undo")
    assert not (project / "two.txt").exists() and (project / "mine.txt").exists()
    (project / "mine.txt").write_text("mine, again\n")
    assert 'prompt 1 "one"' in typed(project, "undo")
    assert not (project / "one.txt").exists() and (project / "mine.txt").read_text() == "mine, again\n"
    typed(project, "redo")
    typed(project, "redo")
    found = tree(project)
    assert (found["one.txt"], found["two.txt"], found["mine.txt"]) == ("1\n", "2\n", "mine, again\n")
    typed(project, "undo")
    assert not (project / "two.txt").exists() and (project / "one.txt").exists()


def test_a_restore_after_a_turn_is_what_the_next_undo_takes_back(project, agent):
    agent.turn("one", "echo 1 > one.txt; echo changed > app.py")
    typed(project, "restore", "@prompt-1", "-y")
    assert not (project / "one.txt").exists()
    assert report_of(project, "undo")["undone"]["kind"] == "restore"
    assert (project / "one.txt").exists()
    typed(project, "restore", "@prompt-1", "-y", "--", "app.py")
    assert report_of(project, "undo")["undone"]["kind"] == "restore"
    assert (project / "app.py").read_text() == "changed\n"
    assert report_of(project, "undo")["undone"]["kind"] == "turn"
    assert not (project / "one.txt").exists()


def test_files_that_became_directories_and_back_are_undone_exactly(project, agent):
    (project / "either").mkdir()
    (project / "either/inside.txt").write_text("inside\n")
    (project / "empty").mkdir()
    (project / "link").symlink_to("app.py")
    agent.turn("before", "true")
    before = shape(project)
    agent.turn(
        "swap",
        "rm app.py && mkdir app.py && echo in > app.py/in.txt",
        "rm -r either && echo file > either",
        "rmdir empty && ln -s src empty",
        "rm link && mkdir link && mkdir made",
    )
    plan = json.loads(typed(project, "--json", "undo", "--dry-run"))["plan"]
    report = report_of(project, "undo")
    assert shape(project) == before and not report["kept"]
    for planned, did in (("creates", "created"), ("modifies", "modified"), ("deletes", "deleted")):
        assert sorted(plan[planned]) == sorted(report[did]), "the report names what the plan named"
    after = report_of(project, "redo")
    assert (project / "app.py/in.txt").exists() and (project / "either").is_file() and not after["kept"]
    typed(project, "undo")
    assert shape(project) == before


def test_a_turn_that_changed_only_permission_bits_of_directories_is_undone_by_itself(project, agent):
    agent.turn("one", "echo 1 > one.txt")
    agent.turn("two", "chmod 700 src; chmod 755 app.py")
    report = report_of(project, "undo")
    assert report["undone"]["prompt"] == 2 and (project / "one.txt").exists()
    assert (project / "src").stat().st_mode & 0o777 != 0o700 and (project / "app.py").stat().st_mode & 0o100 == 0


def test_a_turn_that_put_everything_back_is_passed_over_and_the_undo_names_the_one_before(project, agent):
    states = [tree(project)]
    agent.turn("one", "echo 1 > one.txt")
    states.append(tree(project))
    agent.turn("two", "echo 2 > one.txt", "echo 1 > one.txt")
    assert tree(project) == states[1]
    assert 'Undid prompt 1 "one"' in typed(project, "undo")
    assert tree(project) == states[0]
    typed(project, "redo")
    assert tree(project) == states[1]


def test_a_step_whose_predecessor_was_removed_undoes_only_its_own_changes(project, agent):
    agent.turn("one", "echo 1 > one.txt")
    (project / "mine.txt").write_text("mine\n")
    agent.turn("two", "echo 2 > two.txt")
    rows = json.loads(typed(project, "--json", "log"))["checkpoints"]
    found = [row["id"] for row in rows if row["files_changed"] in (["mine.txt"], ["one.txt"])]
    assert len(found) == 2
    typed(project, "rm", "-y", *found)
    typed(project, "gc")
    report = report_of(project, "undo")
    assert report["deleted"] == ["two.txt"] and not report["created"] and not report["modified"]
    assert (project / "mine.txt").exists() and (project / "one.txt").exists()
    assert json.loads(typed(project, "--json", "check"))["ok"]


def test_overlapping_commands_are_told_apart_by_the_files_they_name(project, agent):
    other = Agent(project, "2222bbbb-0000-4000-8000-000000000002")
    other.begin("two")
    agent.begin("one")

    def overlapping() -> None:
        other.bash(
            "rm src/shop.py; echo two2 > two2.txt",
            work=lambda: [(project / "src/login.py").unlink(), (project / "src/shop.py").unlink(), write_both(project)],
        )

    agent.bash("rm src/login.py; echo one2 > one2.txt", work=overlapping)
    agent.stop()
    other.stop()
    typed(project, "undo", "--session", agent.session)
    assert tree(project).keys() == {"app.py", "src/login.py", "two2.txt"}
    typed(project, "undo", "--session", other.session)
    assert tree(project).keys() == {"app.py", "src/login.py", "src/shop.py"}


def test_what_overlapping_commands_do_not_name_is_left_alone_and_listed(project, agent):
    other = Agent(project, "2222bbbb-0000-4000-8000-000000000002")
    other.begin("two")
    agent.begin("one")
    agent.bash("make all", work=lambda: other.bash("make it", work=lambda: write_both(project)))
    agent.stop()
    other.stop()
    report = report_of(project, "undo", "--session", other.session, expect=3)
    assert {keep["path"] for keep in report["kept"]} == {"one2.txt", "two2.txt"}
    assert {"one2.txt", "two2.txt"} <= tree(project).keys()


def test_changes_outside_of_the_overlap_belong_to_the_command_that_ran_alone(project, agent):
    other = Agent(project, "2222bbbb-0000-4000-8000-000000000002")
    other.begin("two")
    agent.begin("one")

    def late() -> None:
        (project / "early.txt").write_text("by one, before two began\n")
        other.bash("make it", work=lambda: (project / "both.txt").write_text("?\n"))
        (project / "late.txt").write_text("by one, after two ended\n")

    agent.bash("make all", work=late)
    agent.stop()
    other.stop()
    report = report_of(project, "undo", "--session", agent.session, expect=3)
    assert sorted(report["deleted"]) == ["early.txt", "late.txt"]
    assert [keep["path"] for keep in report["kept"]] == ["both.txt"]


def test_after_an_undo_of_a_session_redo_brings_it_forward_and_a_second_one_says_why_not(project, agent):
    agent.turn("one", "echo 1 > one.txt")
    typed(project, "undo", "--session", agent.session)
    assert not (project / "one.txt").exists()
    said = typed(project, "undo", "--session", agent.session, expect=1)
    assert "undone already" in said
    typed(project, "redo")
    assert (project / "one.txt").exists()
    typed(project, "undo")
    assert not (project / "one.txt").exists()


def test_a_dry_run_shows_the_plan_and_changes_nothing(project, agent):
    agent.turn("one", "echo 1 > one.txt; rm app.py")
    before = shape(project)
    plan = json.loads(typed(project, "--json", "undo", "--dry-run"))["plan"]
    assert (plan["creates"], plan["deletes"]) == (["app.py"], ["one.txt"]) and plan["undone"]["text"] == "one"
    assert shape(project) == before
    assert "app.py" in typed(project, "undo", "--dry-run")


def test_an_undo_of_some_paths_leaves_the_rest_of_the_turn_for_the_next(project, agent):
    agent.turn("one", "echo 1 > one.txt; rm app.py; echo 2 > src/two.txt")
    typed(project, "undo", "--", "app.py", "src")
    assert tree(project).keys() == {"app.py", "one.txt", "src/shop.py", "src/login.py"}
    typed(project, "redo")
    assert tree(project).keys() == {"one.txt", "src/two.txt", "src/shop.py", "src/login.py"}
    typed(project, "undo", "--", "app.py")
    typed(project, "undo")
    assert tree(project).keys() == {"app.py", "src/shop.py", "src/login.py"}


def test_an_undo_of_a_turn_that_has_not_ended_says_so(project, agent):
    agent.begin("work")
    agent.bash("echo 1 > one.txt")
    report = report_of(project, "undo")
    assert report["undone"]["running"] and not (project / "one.txt").exists()


def test_an_undo_on_another_branch_names_the_branch_of_the_checkpoint(project, agent):
    def git(*args: str) -> None:
        subprocess.run(
            ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", *args],
            cwd=project,
            check=True,
            capture_output=True,
        )

    git("init", "-q", "-b", "feature")
    git("add", "-A")
    git("commit", "-qm", "start")
    agent.turn("one", "echo 1 > one.txt")
    git("checkout", "-q", "-b", "other")
    assert report_of(project, "undo")["branch"] == "feature"


def write_both(project: Path) -> None:
    (project / "one2.txt").write_text("1\n")
    (project / "two2.txt").write_text("2\n")


def shape(project: Path) -> dict[str, tuple[str, int, str]]:
    """Every path with its kind, permission bits and content."""
    found = {}
    for path in sorted(project.rglob("*")):
        kind = "link" if path.is_symlink() else "dir" if path.is_dir() else "file"
        content = os.readlink(path) if kind == "link" else path.read_text() if kind == "file" else ""
        found[str(path.relative_to(project))] = (kind, 0 if kind == "link" else path.stat().st_mode & 0o777, content)
    return found


#: Runs each line that it reads with a shell, as clients run their hooks.
_CLIENT = """
import subprocess, sys
for line in sys.stdin:
    print(subprocess.run(["sh", "-c", line.strip() + "; true"]).returncode, flush=True)
"""


class Client(Agent):
    """An agent that is a process of its own, which starts its hooks through a shell."""

    def __init__(self, project: Path, session: str, home: Path) -> None:
        super().__init__(project, session)
        self._event, self._said = home / "event", home / "said"
        self.process = subprocess.Popen(
            [sys.executable, "-c", _CLIENT], cwd=project, env=tools.plain_environment(CLAUDE_PROJECT_DIR=str(project)),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def call(self, text: str) -> subprocess.CompletedProcess[str]:
        self._event.write_text(text)
        assert self.process.stdin is not None and self.process.stdout is not None
        words = shlex.join(tools.mulligan_argv("hook", "claude-code"))
        print(f"{words} <{self._event} >{self._said}", file=self.process.stdin, flush=True)
        code = int(self.process.stdout.readline())
        return subprocess.CompletedProcess(words, code, self._said.read_text(), "")

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture(params=["alone", "watched"])
def perhaps_watched(request, project: Path, private_home: Path) -> Iterator[None]:
    """With a watcher, which runs the hooks, and without."""
    if request.param == "watched":
        typed(project, "save", "base")
        typed(project, "watch", "--background")
    yield
    if request.param == "watched":
        typed(project, "watch", "--stop")


@pytest.mark.usefixtures("perhaps_watched")
def test_what_changes_after_an_agent_was_killed_is_not_its_work(project, private_home):
    killed = Client(project, "1111aaaa-0000-4000-8000-000000000001", private_home)
    (project / "mine.txt").write_text("first\n")
    killed.begin("make a mess")
    killed.before_bash("make mess")
    (project / "mess.txt").write_text("mess\n")
    killed.kill()
    other = Agent(project, "2222bbbb-0000-4000-8000-000000000002")
    other.event("SessionStart", source="startup")
    (project / "mine.txt").write_text("edited by hand\n")
    other.begin("work")
    other.bash("make work", work=lambda: (project / "work.txt").write_text("work\n"))
    other.stop()
    (project / "later.txt").write_text("by hand\n")
    assert report_of(project, "undo")["undone"]["text"] == "work"
    assert tree(project) == {"mess.txt": "mess\n", "mine.txt": "edited by hand\n", "later.txt": "by hand\n"}
    report = report_of(project, "undo")
    assert report["undone"]["text"] == "make a mess" and report["deleted"] == ["mess.txt"] and not report["kept"]
    assert tree(project) == {"mine.txt": "edited by hand\n", "later.txt": "by hand\n"}


def test_a_command_that_never_ended_claims_no_changes_after_ten_minutes(project, agent, tmp_path, monkeypatch):
    agent.begin("hang")
    agent.before_bash("make hang")
    (tmp_path / "sitecustomize.py").write_text(
        "import time\nnow = time.time_ns\ntime.time_ns = lambda: now() + 660_000_000_000\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (project / "app.py").write_text("edited by hand\n")
    other = Agent(project, "2222bbbb-0000-4000-8000-000000000002")
    other.turn("work", "echo work > work.txt")
    (project / "mine.txt").write_text("by hand\n")
    typed(project, "undo", "--session", agent.session, expect=1)
    assert (project / "app.py").read_text() == "edited by hand\n" and (project / "mine.txt").exists()


def test_an_undo_during_the_first_command_of_a_turn_names_the_turn(project):
    (project / "a.txt").write_text("a\n")
    typed(project, "save", "base")
    agent = Agent(project)
    agent.begin("try something")
    call = agent.before_bash("make")
    (project / "made.txt").write_text("so far\n")
    said = typed(project, "undo")
    assert 'Undid prompt 1 "try something"' in said and "has not ended this turn" in said
    assert tree(project) == {"a.txt": "a\n"}
    typed(project, "redo")
    assert tree(project) == {"a.txt": "a\n", "made.txt": "so far\n"}
    agent.after_bash(call)
    agent.stop()
    typed(project, "undo")
    assert tree(project) == {"a.txt": "a\n"}


def test_a_file_in_the_place_of_a_directory_is_named_once(project):
    (project / "f").write_text("a file\n")
    typed(project, "save", "base")
    agent = Agent(project)
    agent.turn("swap", "rm f; mkdir f; echo x > f/inner")
    assert "restored f; removed f/inner." in typed(project, "undo")
