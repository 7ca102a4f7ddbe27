"""Slash commands: no line ends the conversation but the one that asks for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from mulligan.dialects.chimera import CheckpointManager, GhostCommitManager, LocalEnvironment
from mulligan.dialects.slash import HELP, SlashCommands


@pytest.mark.parametrize("line", ["/quit", " /exit ", "/q"])
def test_leaving(line: str) -> None:
    assert SlashCommands().run(line) is None


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("", ""),
        ("   \n", ""),
        ("/help", HELP),
        ("/frob x", "Unknown command: /frob. /help lists them."),
        ("hello", "Unknown command: hello. /help lists them."),
        ("/undo", "No undo stack active."),
        ("/checkpoint", "No checkpoint manager active."),
    ],
)
def test_what_needs_nothing(line: str, answer: str) -> None:
    assert SlashCommands().run(line) == answer


def test_a_name_may_hold_spaces(project: Path) -> None:
    repl = SlashCommands(CheckpointManager(project))
    assert repl.run("/checkpoint save before the big refactor") == "Checkpoint saved: before the big refactor (0)"
    assert repl.run("/checkpoint restore before the big refactor") == "Restored to checkpoint: before the big refactor"


@pytest.mark.parametrize(
    ("error", "answer"),
    [
        (KeyError("No checkpoint named 'x'"), "No checkpoint named 'x'"),
        (ValueError("Checkpoint 9 not found"), "Checkpoint 9 not found"),
        (PermissionError("refused"), "refused"),
    ],
)
def test_trouble_is_an_answer(project: Path, error: Exception, answer: str) -> None:
    class Troubled(LocalEnvironment):
        def checkpoint(self) -> str:
            raise error

    assert SlashCommands(CheckpointManager(Troubled(project))).run("/checkpoint save") == answer


def test_trouble_of_the_engine_says_what_to_type_next(project: Path) -> None:
    manager = CheckpointManager(project)
    manager.create("a")
    store = Path(manager.env.workspace.store_path)
    manager.env.cleanup()
    (store / "timeline.db").unlink()
    answer = SlashCommands(manager).run("/checkpoint")
    assert answer is not None and "mulligan doctor" in answer


@pytest.mark.parametrize("line", ["/undo x", "/undo 0", "/undo -1", "/undo 1 2", "/undo ²"])
def test_undo_wants_a_number(project: Path, line: str) -> None:
    assert SlashCommands(None, GhostCommitManager(project)).run(line) == "Usage: /undo [n]"


def test_undo_of_an_entry_without_paths(project: Path) -> None:
    ghost = GhostCommitManager(project)
    ghost.snapshot("nothing")
    assert SlashCommands(None, ghost).run("/undo 3") == "Nothing to change."
