"""One timeline for all dialects: each command shows what is there, and says whose it is."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from mulligan.dialects.architect import CheckpointManager
from mulligan.dialects.praisonai import CheckpointService
from tools import cli, cli_json, git


@pytest.fixture
def full(project: Path) -> Path:
    """A project in which a person, PraisonAI and nobody else saved."""
    git("init", "-q", "-b", "main", cwd=project)
    (project / "a.txt").write_text("1\n")
    git("add", "-A", cwd=project)
    git("commit", "-q", "-m", "first", cwd=project)
    assert cli("save", "by hand", cwd=project).returncode == 0
    (project / "a.txt").write_text("2\n")

    async def save() -> None:
        service = CheckpointService(workspace_dir=str(project))
        await service.initialize()
        await service.save("by the service")
        await service.cleanup()

    asyncio.run(save())
    return project


def test_history_shows_what_is_there_and_which_of_them_are_commits(full: Path) -> None:
    said = cli("architect", "history", cwd=full).stdout
    assert said.startswith("No checkpoints recorded as commits.\n\nOther checkpoints, which are no commits (3):\n")
    assert "mulligan   by hand" in said
    assert "praisonai  by the service" in said
    (full / "a.txt").write_text("3\n")
    CheckpointManager(str(full)).create(1, "a commit")
    said = cli("architect", "history", cwd=full).stdout
    assert said.startswith("Checkpoints (1):")
    assert "a commit" in said.partition("Other checkpoints")[0]
    assert "by hand" in said.partition("Other checkpoints")[2]
    found = cli_json("architect", "history", cwd=full)
    assert [each["message"] for each in found["checkpoints"]] == ["a commit"]
    assert {each["name"] for each in found["others"]} >= {"by hand", "by the service"}


def test_praisonai_list_shows_what_is_there_and_whose_it_is(full: Path) -> None:
    lines = cli("praisonai", "list", cwd=full).stdout.splitlines()
    assert lines[0].split() == ["ID", "Message", "Timestamp", "From"]
    assert [line.split()[-1] for line in lines[1:]] == ["praisonai", "praisonai", "mulligan"]
    by_hand = next(
        each for each in cli_json("praisonai", "list", cwd=full)["checkpoints"] if each["from"] == "mulligan"
    )
    assert by_hand["message"] == "by hand"
    assert cli("praisonai", "restore", by_hand["short_id"], cwd=full).returncode == 0
    assert (full / "a.txt").read_text() == "1\n"


def test_the_dialects_commands_are_below_their_names_and_the_old_names_still_work(full: Path) -> None:
    shown = cli("-h", cwd=full).stdout
    assert "architect, praisonai" in shown
    assert not {"history", "rollback"} & set(shown.replace(",", " ").split())
    for old, new in (
        (["history"], ["architect", "history"]),
        (["rollback", "-h"], ["architect", "rollback", "-h"]),
        (["checkpoint", "list"], ["praisonai", "list"]),
        (["checkpoint", "list"], ["praisonai", "checkpoint", "list"]),
        (["--json", "run", "-h"], ["--json", "architect", "pipeline", "-h"]),
    ):
        assert cli(*old, cwd=full).stdout == cli(*new, cwd=full).stdout != ""
    for words in (["architect"], ["architect", "nonsense"]):
        assert cli(*words, cwd=full).returncode == 2
    assert "rollback" in cli("architect", "-h", cwd=full).stdout
