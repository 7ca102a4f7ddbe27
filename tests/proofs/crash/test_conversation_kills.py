"""
Killed at any call of a restore of everything: at the next use, files and conversation are where they belong, together.

The child dies by its own SIGKILL at the n-th call that opens, writes, cuts, renames or syncs anything, for every n until
it lives to the end. What is left is then opened as a program with a conversation opens it.
"""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path
from typing import Any

import mulligan
from mulligan.dialects.praisonai.history import History
from mulligan.dialects.praisonai.types import CheckpointConfig
from mulligan.safefs import syscalls
from mulligan.settings import resolve
from mulligan.state.conversation import Transcript

OLD, NEW = '{"n": 1}\n', '{"n": 1}\n{"n": 2}\n{"n": 3}\n'
COUNTED = (
    "open",
    "write",
    "fsync",
    "ftruncate",
    "rename",
    "exchange",
    "rename_new",
    "unlink",
    "mkdir",
    "rmdir",
    "link",
)


class Dying(syscalls.Calls):
    """The operating system until the n-th call."""

    def __init__(self, lives: int) -> None:
        self.lives = lives
        for name in COUNTED:
            setattr(self, name, self._counted(getattr(self, name)))

    def _counted(self, call: Any) -> Any:
        def counted(*args: Any, **options: Any) -> Any:
            if self.lives == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            self.lives -= 1
            return call(*args, **options)

        return counted


def prepare(place: Path) -> None:
    project, chat = place / "project", place / "chat.jsonl"
    project.mkdir(parents=True)
    chat.write_text(OLD)
    with mulligan.open(project, store=place / "store") as ws:
        ws.provide("conversation", Transcript(chat))
        (project / "a").write_text("old")
        ws.save("first")
        (project / "a").write_text("new")
        (project / "b").write_text("new")
        chat.write_text(NEW)


def die_at(place: Path, lives: int) -> bool:
    """Restores in a child that dies at a call; returns whether it lived to the end."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            ws = mulligan.open(place / "project", store=place / "store")
            ws.provide("conversation", Transcript(place / "chat.jsonl"))
            syscalls.calls = Dying(lives)
            ws.restore("first", what="all")
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert not os.WIFEXITED(status) or os.WEXITSTATUS(status) == 0
    return os.WIFEXITED(status)


def state_of(place: Path) -> tuple[dict[str, str], str]:
    files = {path.name: path.read_text() for path in (place / "project").iterdir()}
    return files, (place / "chat.jsonl").read_text()


def test_files_and_conversation_are_together_whenever_it_dies(tmp_path):
    before, after = ({"a": "new", "b": "new"}, NEW), ({"a": "old"}, OLD)
    seen, lives, lived = set(), 0, False
    while not lived:
        place = tmp_path / "trial"
        prepare(place)
        lived = die_at(place, lives)
        history = History(CheckpointConfig(str(place / "project")), resolve(place / "project", store=place / "store"))
        history.conversation = Transcript(place / "chat.jsonl")
        history.open()
        found = state_of(place)
        assert found in (before, after), f"call {lives}: {found} {history.recovered}"
        seen.add((found == after, bool(history.recovered)))
        if found == after:
            # One undo leads back to both, however it came to be here.
            history.workspace.undo()
            assert state_of(place) == before
        history.close()
        shutil.rmtree(place)
        lives += 1
    assert lives > 20 and seen == {(False, False), (True, True), (True, False)}
