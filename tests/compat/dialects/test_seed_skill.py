"""Seed 000, line by line: what its document says, played with mulligan's skill."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import venv
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

import mulligan
import tools
from mulligan.dialects.skill import CheckpointManager, CheckpointType, ContextTracker
from mulligan.loop import project as project_module


def run(awaitable: Any) -> Any:
    async def wait() -> Any:
        return await awaitable

    return asyncio.run(wait())


class _Clock(datetime):
    """A clock that stands still, so that every checkpoint falls into one second."""

    moment = datetime(2025, 1, 15, 10, 30, 0).astimezone()

    @classmethod
    def now(cls, tz: Any = None) -> datetime:
        return cls.moment


@pytest.fixture
def still(monkeypatch: pytest.MonkeyPatch) -> type[_Clock]:
    monkeypatch.setattr(project_module, "datetime", _Clock)
    return _Clock


# -- "id": "checkpoint-20250115-103000" -------------------------------------------------------------


def test_an_id_that_was_deleted_is_not_given_again(project: Path, still: type[_Clock]) -> None:
    manager = CheckpointManager(project)
    (project / "a.txt").write_text("first\n")
    first = run(manager.create_checkpoint("first"))
    assert first.id == "checkpoint-20250115-103000"
    assert run(manager.delete_checkpoint(first.id))
    (project / "a.txt").write_text("second\n")
    second = run(manager.create_checkpoint("second"))
    assert second.id == "checkpoint-20250115-103000-2"
    assert not run(manager.rollback(first.id))
    assert (project / "a.txt").read_text() == "second\n"


def test_an_id_that_retention_freed_is_not_given_again(project: Path, still: type[_Clock]) -> None:
    manager = CheckpointManager(project)
    made = []
    for number in range(12):
        (project / "a.txt").write_text(f"{number}\n")
        made.append(run(manager.create_checkpoint(f"{number}", checkpoint_type=CheckpointType.AUTOMATIC)).id)
    assert len(set(made)) == 12
    assert [each.id for each in run(manager.list_checkpoints())] == made[:-6:-1]
    assert not run(manager.rollback(made[0]))


def test_an_id_is_not_given_again_by_another_process(project: Path) -> None:
    """Each process creates and deletes a checkpoint within the same second."""
    code = (
        "import asyncio, sys\n"
        "from datetime import datetime\n"
        "from mulligan.loop import project\n"
        "class Clock(datetime):\n"
        "    @classmethod\n"
        "    def now(cls, tz=None): return datetime(2025, 1, 15, 10, 30, 0).astimezone()\n"
        "project.datetime = Clock\n"
        "from mulligan.dialects.skill import CheckpointManager\n"
        "async def main():\n"
        "    manager = CheckpointManager('.')\n"
        "    for _ in range(3):\n"
        "        made = await manager.create_checkpoint('x')\n"
        "        print(made.id)\n"
        "        await manager.delete_checkpoint(made.id)\n"
        "asyncio.run(main())\n"
    )
    started = [
        subprocess.Popen(
            [sys.executable, "-c", code], cwd=project, env=tools.plain_environment(), stdout=subprocess.PIPE, text=True
        )
        for _ in range(3)
    ]
    said = [process.communicate(timeout=120)[0].split() for process in started]
    ids = [each for some in said for each in some]
    assert [process.returncode for process in started] == [0, 0, 0]
    assert len(ids) == len(set(ids)) == 9


def test_an_id_is_not_given_again_when_the_clock_goes_back(
    project: Path, still: type[_Clock], monkeypatch: pytest.MonkeyPatch
) -> None:
    manager = CheckpointManager(project)
    first = run(manager.create_checkpoint("first"))
    monkeypatch.setattr(still, "moment", datetime(2025, 1, 15, 9, 30, 0).astimezone())
    second = run(manager.create_checkpoint("second"))
    run(manager.delete_checkpoint(first.id))
    run(manager.delete_checkpoint(second.id))
    monkeypatch.undo()
    monkeypatch.setattr(project_module, "datetime", _Clock)
    assert run(manager.create_checkpoint("third")).id not in (first.id, second.id)


# -- "Automatic | Before risky operations | Last 5" -------------------------------------------------


def test_a_checkpoint_that_the_retention_of_another_process_removes_at_once_was_created(project: Path) -> None:
    """Five automatic checkpoints of another process within the same moment are five newer ones."""
    (project / "feature_list.json").write_text('[{"id": "auth-001", "passes": true}]')
    manager = CheckpointManager(project)

    def remove(saved: object) -> None:
        with mulligan.open(project) as other:
            other.delete(saved)  # type: ignore[arg-type]

    manager.project.workspace.on("saved", remove)
    made = run(manager.create_checkpoint("short", checkpoint_type=CheckpointType.AUTOMATIC))
    manager.project.workspace.off("saved", remove)
    assert made.name == "short"
    assert made.id not in [each.id for each in run(manager.list_checkpoints())]
    assert not run(manager.rollback(made.id))
    assert run(manager.create_checkpoint("next")).id != made.id


# -- "context": {"session_number": 5, "token_usage": 45000} -----------------------------------------


def test_a_plain_create_checkpoint_records_session_and_tokens_of_the_context_tracker(project: Path) -> None:
    (project / "claude-progress.txt").write_text("# Session Progress\n\n## Session 4 - 2025-01-14 09:00\n")
    tracker = ContextTracker(project)
    tracker.start_session()
    tracker.add_tokens(45_000)
    made = run(CheckpointManager(project).create_checkpoint(name="before-refactor", description="State before"))
    assert made.context == {"session_number": 5, "token_usage": 45000}
    record = json.loads((project / ".claude/checkpoints" / made.id / "metadata.json").read_text())
    assert record["context"] == {"session_number": 5, "token_usage": 45000}


def test_a_plain_create_checkpoint_without_a_tracker_knows_the_session_of_the_progress_file(project: Path) -> None:
    (project / "claude-progress.txt").write_text("## Session 7 - 2025-01-14 09:00\n")
    made = run(CheckpointManager(project).create_checkpoint("x"))
    assert made.context == {"session_number": 7, "token_usage": 0}


def test_a_context_that_is_given_wins(project: Path) -> None:
    made = run(CheckpointManager(project).create_checkpoint("x", context={"token_usage": 3, "why": "test"}))
    assert made.context == {"session_number": 1, "token_usage": 3, "why": "test"}


def _event(project: Path, session: str, transcript: Path) -> None:
    said = {
        "session_id": session,
        "transcript_path": str(transcript),
        "cwd": str(project),
        "hook_event_name": "UserPromptSubmit",
        "prompt": "go on",
    }
    env = tools.plain_environment(CLAUDE_PROJECT_DIR=str(project))
    done = tools.run_mulligan(["hook", "claude-code"], cwd=project, env=env, given=json.dumps(said))
    assert done.returncode == 0, done.stderr


def test_the_hooks_of_an_agent_tell_session_and_tokens(project: Path, tmp_path: Path) -> None:
    transcript = tmp_path / "transcript.jsonl"
    usage = {"input_tokens": 5, "cache_read_input_tokens": 40000, "cache_creation_input_tokens": 4000}
    answer = {"type": "assistant", "message": {"id": "m1", "usage": {**usage, "output_tokens": 995}}}
    transcript.write_text(json.dumps({"type": "user"}) + "\n" + json.dumps(answer) + "\n")
    _event(project, "11111111-aaaa-4bbb-8ccc-000000000001", transcript)
    manager = CheckpointManager(project)
    assert run(manager.create_checkpoint("one")).context == {"session_number": 1, "token_usage": 45000}
    assert run(manager.create_checkpoint("two")).context["session_number"] == 1
    _event(project, "22222222-aaaa-4bbb-8ccc-000000000002", transcript)
    assert run(manager.create_checkpoint("three")).context["session_number"] == 2


# -- "scripts/checkpoint_manager.py - Core manager" --------------------------------------------------

SKILL = Path(".claude/skills/checkpoint-manager")
SCRIPTS = ("checkpoint_manager.py", "git_snapshot.py", "state_snapshot.py", "rollback_handler.py")


@pytest.fixture(params=["short shebang", "exec line", "no first line"])
def program(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A mulligan as pipx installs it: an environment of its own, and a program on the path that starts its Python."""
    venv.create(tmp_path / "own venv" if request.param == "exec line" else tmp_path / "venv", with_pip=False)
    python = next(tmp_path.glob("*venv/bin/python"))
    site = next(python.parent.parent.glob("lib/python3*/site-packages"))
    (site / "mulligan.pth").write_text(str(tools.PACKAGE))
    made = tmp_path / "bin" / "mulligan"
    made.parent.mkdir()
    if request.param == "no first line":
        # A compiled program, linked from a directory on the path.
        (python.parent / "mulligan").write_bytes(b"\x7fELF")
        (python.parent / "mulligan").chmod(0o755)
        made.symlink_to(python.parent / "mulligan")
        return made
    first = f"#!/bin/sh\n'''exec' \"{python}\" \"$0\" \"$@\"\n' '''\n" if " " in str(python) else f"#!{python}\n"
    made.write_text(first + "from mulligan.cli.dispatch import main\nmain()\n")
    made.chmod(0o755)
    return made


def _agents_python(project: Path, program: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Runs the Python of an agent, which has no mulligan of its own."""
    env = {**tools.plain_environment(), "PATH": f"{program.parent}:/usr/bin:/bin"}
    del env["PYTHONPATH"]
    return subprocess.run(
        [sys.executable, "-S", *words],
        cwd=project,
        env=env,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_the_scripts_find_an_installed_mulligan_program(project: Path, program: Path) -> None:
    assert tools.cli("install", "claude-skill", cwd=project).returncode == 0
    (project / "a.txt").write_text("good\n")
    made = _agents_python(project, program, str(SKILL / "scripts/checkpoint_manager.py"), "create", "before", "--json")
    assert made.returncode == 0, made.stderr
    (project / "a.txt").write_text("bad\n")
    back = _agents_python(project, program, str(SKILL / "scripts/rollback_handler.py"), json.loads(made.stdout)["id"])
    assert back.returncode == 0, back.stderr
    assert (project / "a.txt").read_text() == "good\n"
    for name in SCRIPTS:
        assert _agents_python(project, program, str(SKILL / "scripts" / name), "--help").returncode == 0


def test_the_quick_start_import_finds_an_installed_mulligan_program(project: Path, program: Path) -> None:
    assert tools.cli("install", "claude-skill", cwd=project).returncode == 0
    code = (
        f"import asyncio, sys; sys.path.insert(0, {str(SKILL)!r})\n"
        "from scripts.checkpoint_manager import CheckpointManager\n"
        "print(asyncio.run(CheckpointManager('.').create_checkpoint(name='before-refactor')).name)\n"
    )
    done = _agents_python(project, program, "-c", code)
    assert (done.returncode, done.stdout) == (0, "before-refactor\n"), done.stderr


def test_the_skill_names_its_directory_as_claude_code_does(project: Path) -> None:
    text = (tools.PACKAGE / "mulligan/plugin/skills/checkpoint-manager/SKILL.md").read_text()
    assert 'python3 "${CLAUDE_SKILL_DIR}/scripts/checkpoint_manager.py" create' in text
    assert "$SKILL/" not in text
