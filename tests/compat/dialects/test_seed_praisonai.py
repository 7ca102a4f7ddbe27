"""Seed 002, line by line: what its document says, played with mulligan's dialect."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import mulligan
import tools
from mulligan.dialects.praisonai import CheckpointConfig, CheckpointEvent, CheckpointService


def heard(service: CheckpointService) -> list[tuple[str, Any]]:
    """Writes down every event of a service."""
    said: list[tuple[str, Any]] = []
    for event in CheckpointEvent:
        service.on(event, lambda data, name=event.name: said.append((name, data)))
    return said


# -- "Automatic checkpointing before file modifications"; "CheckpointEvent: Events emitted by the service" --


def test_automatic_checkpoints_of_synchronous_tools_emit_events(project: Path) -> None:
    (project / "a.txt").write_text("one\n")
    service = CheckpointService(workspace_dir=str(project))
    said = heard(service)

    @service.tool
    def write_file(text: str) -> None:
        (project / "a.txt").write_text(text)

    write_file("two\n")
    write_file("three\n")
    assert [name for name, _ in said] == ["INITIALIZED", "CHECKPOINT_CREATED", "CHECKPOINT_CREATED"]
    assert said[-1][1].message == "Before write_file"


def test_automatic_checkpoints_of_before_tool_emit_events_to_coroutines_too(project: Path) -> None:
    (project / "a.txt").write_text("one\n")
    service = CheckpointService(workspace_dir=str(project))
    said: list[str] = []

    async def told(data: Any) -> None:
        await asyncio.sleep(0)
        said.append(data.message)

    service.on(CheckpointEvent.CREATED, told)
    service.before_tool("write_file", {"path": "a.txt"})
    assert said == ["Before write_file"]

    async def inside() -> None:
        (project / "a.txt").write_text("two\n")
        service.before_tool("edit_file", {"path": "a.txt"})
        (project / "a.txt").write_text("three\n")
        await asyncio.to_thread(service.before_tool, "delete_file", {"path": "a.txt"})
        while len(said) < 3:  # noqa: ASYNC110 - the handlers are what is waited for
            await asyncio.sleep(0.001)

    asyncio.run(inside())
    # Two threads tell: the order is theirs.
    assert sorted(said[1:]) == ["Before delete_file", "Before edit_file"]


def test_a_failed_automatic_checkpoint_emits_an_error(project: Path) -> None:
    service = CheckpointService(workspace_dir=str(project / "not there"))
    said = heard(service)
    service.before_tool("write_file", {"path": "a.txt"})
    assert [name for name, _ in said] == ["ERROR"]


# -- "max_checkpoints | int | 100 | Maximum checkpoints to keep"; "list() | List all checkpoints" --------


def test_max_checkpoints_500_keeps_500_and_list_returns_all(project: Path) -> None:
    async def play() -> None:
        config = CheckpointConfig(auto_checkpoint=True, max_checkpoints=260)
        service = CheckpointService(workspace_dir=str(project), config=config)
        said = heard(service)
        assert await service.initialize()
        for number in range(265):
            (project / "a.txt").write_text(f"{number}\n")
            service.before_tool("write_file", {"path": "a.txt"})
        listed = await service.list()
        assert len(listed) == 260
        assert sum(data["removed_count"] for name, data in said if name == "CHECKPOINTS_PRUNED") == 5
        assert len(await service.list_checkpoints()) == 50
        assert await service.restore(listed[-1])
        assert (project / "a.txt").read_text() == "5\n"
        await service.cleanup()

    asyncio.run(play())
    # Another tool that saves steps in the same store does not push them out, nor they its own.
    ws = mulligan.open(project)
    for number in range(3):
        (project / "a.txt").write_text(f"other {number}\n")
        ws.save(kind="step")
    assert len(ws.log(match={"dialect": "praisonai", "automatic": True})) >= 260
    assert len([each for each in ws.log(kind="step") if "dialect" not in each.metadata]) == 3
    ws.close()


# -- "exclude_patterns | list[str] | [] | Patterns to exclude" ---------------------------------------


def test_exclude_patterns_is_empty_so_that_log_files_are_protected(project: Path) -> None:
    assert CheckpointConfig().exclude_patterns == []
    (project / "server.log").write_text("first\n")

    async def play() -> None:
        service = CheckpointService(workspace_dir=str(project))
        await service.initialize()
        saved = await service.save("Before refactoring")
        (project / "server.log").write_text("second\n")
        assert await service.restore(saved)
        assert (project / "server.log").read_text() == "first\n"
        other = CheckpointService(workspace_dir=str(project), config=CheckpointConfig(exclude_patterns=["*.log"]))
        await other.initialize()
        (project / "b.txt").write_text("b\n")
        saved = await other.save("without logs")
        (project / "server.log").write_text("third\n")
        assert await other.restore(saved)
        assert (project / "server.log").read_text() == "third\n"

    asyncio.run(play())


def test_the_checkpoints_are_in_the_timeline_that_everybody_sees(project: Path) -> None:
    (project / "a.txt").write_text("one\n")
    service = CheckpointService(workspace_dir=str(project))
    service.before_tool("write_file", {"path": "a.txt"})
    assert "Before write_file" in tools.cli("log", cwd=project).stdout
