"""The skill as an agent gets it: installed into a project by the command, its scripts run as processes of their own."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tools import PACKAGE, cli, cli_json, git, plain_environment

SKILL = Path(".claude/skills/checkpoint-manager")
FILES = {
    "SKILL.md",
    "scripts/checkpoint_manager.py",
    "scripts/find_mulligan.py",
    "scripts/git_snapshot.py",
    "scripts/state_snapshot.py",
    "scripts/rollback_handler.py",
    "references/CHECKPOINT-STRATEGY.md",
    "references/ROLLBACK-PROCEDURES.md",
}


@pytest.fixture
def installed(project: Path) -> Path:
    """A repository with the skill in it."""
    git("init", "-q", "-b", "main", cwd=project)
    (project / "app.py").write_text("good\n")
    (project / "feature_list.json").write_text('[{"id": "a", "passes": true}, {"id": "b", "passes": false}]')
    git("add", "-A", cwd=project)
    git("commit", "-q", "-m", "first", cwd=project)
    done = cli("install", "claude-skill", cwd=project)
    assert done.returncode == 0, done.stderr
    return project


def script(name: str, *words: str, cwd: Path, expect: int = 0) -> str:
    command = [sys.executable, str(SKILL / "scripts" / name), *words]
    done = subprocess.run(command, cwd=cwd, env=plain_environment(), capture_output=True, text=True, check=False)
    assert done.returncode == expect, done.stdout + done.stderr
    return done.stdout if expect == 0 else done.stdout + done.stderr


def test_the_folder_is_complete(installed):
    top = installed / SKILL
    names = {path.relative_to(top).as_posix() for path in top.rglob("*") if path.is_file()}
    assert names == FILES | {".mulligan-install.json"}


def test_the_skill_says_what_agents_look_for_and_links_to_what_is_there(installed):
    text = (installed / SKILL / "SKILL.md").read_text()
    head = re.match(r"---\n(.*?)\n---\n", text, re.DOTALL)
    assert head
    assert re.search(r"^name: checkpoint-manager$", head[1], re.MULTILINE)
    assert re.search(r"^description: .{80,1024}$", head[1], re.MULTILINE)
    for page in (installed / SKILL).rglob("*.md"):
        for target in re.findall(r"\]\(([^)]+)\)", page.read_text()):
            assert (page.parent / target).exists(), (page, target)
    named = set(re.findall(r"`(scripts/\w+\.py|references/[\w-]+\.md)`", text))
    assert {name for name in named if not (installed / SKILL / name).exists()} == set()


def test_commands_that_the_skill_tells_agents_to_type_exist(installed):
    """Every subcommand and option of the script in the skill's pages is known to the script."""
    text = "".join(page.read_text() for page in (installed / SKILL).rglob("*.md"))
    for command, rest in set(re.findall(r"checkpoint_manager\.py\"? (\w+)([^\n`]*)", text)):
        known = script("checkpoint_manager.py", command, "--help", cwd=installed)
        assert [o for o in re.findall(r" (-{1,2}[a-z][\w-]*)", rest) if not re.search(rf"{o}\b", known)] == []


@pytest.mark.parametrize(
    "name", ["checkpoint_manager.py", "git_snapshot.py", "state_snapshot.py", "rollback_handler.py"]
)
def test_every_script_explains_itself(installed, name):
    assert "--project" in script(name, "--help", cwd=installed) or name == "checkpoint_manager.py"


def test_a_rollback_by_the_scripts(installed):
    made = json.loads(
        script(
            "checkpoint_manager.py",
            "create",
            "before-refactor",
            "-m",
            "good",
            "--session",
            "5",
            "--json",
            cwd=installed,
        )
    )
    assert made["context"] == {"session_number": 5, "token_usage": 0}
    assert made["feature_state"]["current"] == "b"
    (installed / "app.py").write_text("bad\n")
    git("commit", "-q", "-a", "-m", "bad", cwd=installed)
    listed = script("checkpoint_manager.py", "list", cwd=installed)
    assert listed.startswith(f"{made['id']}  manual     before-refactor  good")
    assert json.loads(script("git_snapshot.py", cwd=installed))["branch"] == "main"
    state = json.loads(script("state_snapshot.py", cwd=installed))
    assert (state["current"], state["passing"], state["total"]) == ("b", 1, 2)

    plan = json.loads(script("rollback_handler.py", "latest", "--dry-run", cwd=installed))
    assert plan["modifies"] == ["app.py"]
    assert (installed / "app.py").read_text() == "bad\n"
    script("checkpoint_manager.py", "rollback", made["id"], cwd=installed)
    assert (installed / "app.py").read_text() == "good\n"
    assert git("rev-parse", "HEAD", cwd=installed).decode().strip() == made["git_state"]["commit_hash"]
    script("checkpoint_manager.py", "undo", cwd=installed)
    assert (installed / "app.py").read_text() == "bad\n"
    assert git("log", "-1", "--format=%s", cwd=installed) == b"bad\n"
    assert json.loads(script("rollback_handler.py", made["id"], cwd=installed))["success"] is True
    script("checkpoint_manager.py", "delete", made["id"], cwd=installed)
    assert script("checkpoint_manager.py", "list", cwd=installed) == "No checkpoints yet.\n"


def test_refusals_are_sentences_with_an_exit_code(installed):
    told = script("checkpoint_manager.py", "rollback", "nope", cwd=installed, expect=1)
    assert "There is no checkpoint 'nope'" in told
    assert "Traceback" not in told
    assert "Traceback" not in script("checkpoint_manager.py", "undo", cwd=installed, expect=10)
    assert "Traceback" not in script("rollback_handler.py", "latest", cwd=installed, expect=1)
    assert "no checkpoint" in script("checkpoint_manager.py", "show", "x", cwd=installed, expect=1)


def test_the_import_of_the_quick_start_works(installed):
    program = (
        "import asyncio\n"
        "from scripts.checkpoint_manager import CheckpointManager\n"
        "from scripts.git_snapshot import GitSnapshot\n"
        "from scripts.state_snapshot import StateSnapshot\n"
        "from scripts.rollback_handler import RollbackHandler\n"
        "print(asyncio.run(CheckpointManager('../../..').create_checkpoint(name='x')).name)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=installed / SKILL, env=plain_environment(), capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "x\n"


def test_without_mulligan_there_is_one_clear_sentence(installed):
    """An interpreter that cannot see the package (isolated, without site packages), and no program on the path."""
    for name in ("checkpoint_manager.py", "git_snapshot.py", "state_snapshot.py", "rollback_handler.py"):
        command = [sys.executable, "-I", "-S", str(SKILL / "scripts" / name), "list"]
        env = {"PATH": "/nowhere", "HOME": "/nowhere"}
        done = subprocess.run(command, cwd=installed, env=env, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith(
            "mulligan is not installed. Nothing was changed.\nInstall the program: pipx install"
        )
        assert done.stderr.count("\n") == 2


def test_the_command_shows_refuses_and_removes(installed):
    again = cli_json("install", "claude-skill", cwd=installed)
    assert {step["action"] for step in again["steps"]} == {"unchanged"}
    (installed / SKILL / "SKILL.md").write_text("mine")
    refused = cli("install", "claude-skill", cwd=installed)
    assert (refused.returncode, "SKILL.md" in refused.stderr, "--force" in refused.stderr) == (1, True, True)
    shown = cli("install", "claude-skill", "--dry-run", cwd=installed)
    assert "replace   SKILL.md" in shown.stdout
    assert (installed / SKILL / "SKILL.md").read_text() == "mine"
    forced = cli_json("install", "claude-skill", "--force", cwd=installed)
    assert forced["copies"] == ["SKILL.md.yours"]
    removed = cli("install", "claude-skill", "--uninstall", cwd=installed)
    assert "uninstalled: 8 files" in removed.stdout
    assert os.listdir(installed / SKILL) == ["SKILL.md.yours"]


def test_for_the_user(project, private_home):
    done = cli_json("install", "claude-skill", "--scope", "user", cwd=project)
    assert done["directory"] == str(private_home / SKILL)
    assert (private_home / SKILL / "SKILL.md").exists()
    assert os.listdir(project) == []


def test_what_can_be_installed_is_listed_and_nothing_else_accepted(project):
    listed = [each["name"] for each in cli_json("install", cwd=project)["agents"]]
    assert {"claude-code", "codex", "copilot", "gemini", "qwen", "cline", "opencode", "aider", "git"} < set(listed)
    assert listed[-1] == "claude-skill"
    assert cli("install", "nonsense", cwd=project).returncode == 2


@pytest.mark.skipif(
    not shutil.which("pip") and not shutil.which("uv"), reason="NO BUILDER: the wheel was not looked at"
)
def test_the_wheel_holds_the_folder(tmp_path):
    """The folder is package data: hatch puts it into the wheel with everything else below src/mulligan."""
    pytest.importorskip("hatchling", reason="HATCHLING IS MISSING: the wheel was not looked at")
    from hatchling.builders.wheel import WheelBuilder

    built = next(WheelBuilder(str(PACKAGE.parent)).build(directory=str(tmp_path), versions=["standard"]))
    names = zipfile.ZipFile(built).namelist()
    assert {f"mulligan/plugin/skills/checkpoint-manager/{name}" for name in FILES} <= set(names)
