"""The real Claude Agent SDK and the client inside it, told by a scripted model to break things; one undo per turn."""

from __future__ import annotations

import asyncio

import pytest
from clients import Project, claude_variables, trust_claude
from scripted_model import Say, Use, scripted

import mulligan
from tools import plain_environment


@pytest.fixture
def sdk(needs):
    return needs("claude_agent_sdk", "claude-agent-sdk")


def test_one_undo_takes_back_a_turn_whatever_made_the_changes(sdk, tmp_path, private_home):
    from mulligan.adapters.claude_agent import claude_hooks
    from mulligan.adapters.recorder import Recorder

    project = Project.made(tmp_path / "work", private_home)
    trust_claude(project)
    before = project.everything()
    ws = mulligan.open(project.root)
    recorder = Recorder(ws, "claude-code")
    script = [
        Use("Write", {"file_path": str(project.root / "new.txt"), "content": "n\n"}),
        Use("Bash", {"command": "rm -rf src data.bin; echo x > a.txt; exit 3", "description": "-"}),
        Say("done"),
    ]

    async def go(url):
        options = sdk.ClaudeAgentOptions(
            cwd=str(project.root),
            hooks=claude_hooks(ws, recorder=recorder),
            permission_mode="acceptEdits",
            allowed_tools=["Bash", "Write"],
            model="claude-sonnet-4-5",
            env={**plain_environment(), **claude_variables(url)},
        )
        return [message async for message in sdk.query(prompt="break it", options=options)]

    with scripted({"": script}) as model:
        messages = asyncio.run(go(model.url))
    assert isinstance(messages[-1], sdk.ResultMessage)
    assert recorder.troubles == []
    broken = project.everything()
    assert "new.txt" in broken
    assert "src/app.py" not in broken
    ws.undo()
    assert project.everything() == before
    ws.redo()
    assert project.everything() == broken
