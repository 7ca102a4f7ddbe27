"""The autonomous loop: which checkpoints it makes, what it takes back, and when it ends."""

from __future__ import annotations

import asyncio
import json

import pytest

from mulligan.errors import UserError
from mulligan.loop.autonomous import AutonomousLoop, LoopConfig, Session


def write(project, **passes: bool) -> None:
    (project / "feature_list.json").write_text(json.dumps([{"id": k, "passes": v} for k, v in passes.items()]))


def made(loop):
    return [(each.checkpoint_type.value, each.name) for each in loop.checkpoints.all()][::-1]


@pytest.fixture
def features(project):
    write(project, a=False, b=False)
    return project


def test_defaults():
    assert LoopConfig() == LoopConfig(max_sessions=10, token_budget=500000, auto_checkpoint=True)


def test_session_and_feature_checkpoints_until_everything_passes(features):
    def agent(session: Session) -> int:
        (features / f"work-{session.number}").write_text("x")
        write(features, a=True, b=session.number > 1)
        return 1000

    loop = AutonomousLoop(features, agent)
    result = asyncio.run(loop.run(LoopConfig()))
    assert (result.reason, result.success, result.sessions) == ("complete", True, 2)
    assert (result.token_usage, result.completed, result.errors) == (2000, ["a", "b"], [])
    assert made(loop) == [("session", "session 1"), ("feature", "feature a"), ("session", "session 2"),
                          ("feature", "feature b")]  # fmt: skip
    newest = loop.checkpoints.latest()
    assert newest.context == {"session_number": 2, "token_usage": 2000}
    assert newest.feature_state.completed == ["a", "b"]
    assert asyncio.run(AutonomousLoop(features, agent).run()).sessions == 0


def test_a_session_that_fails_is_rolled_back_and_the_next_one_goes_on(features):
    seen = []

    async def agent(session: Session) -> None:
        seen.append(sorted(path.name for path in features.iterdir()))
        (features / "litter").write_text("x")
        if session.number == 1:
            raise ValueError("boom")
        write(features, a=True, b=True)

    loop = AutonomousLoop(features, agent)
    result = asyncio.run(loop.run())
    assert (result.reason, result.sessions) == ("complete", 2)
    assert "boom" in result.errors[0]
    assert "rolled back" in result.errors[0]
    assert seen[0] == seen[1]


def test_a_risky_operation_is_taken_back_alone(features):
    async def agent(session: Session) -> bool:
        (features / "good").write_text("x")
        with pytest.raises(ValueError):
            async with session.risky("rewrite everything"):
                (features / "good").write_text("bad")
                raise ValueError
        assert (features / "good").read_text() == "x"
        assert await session.before_tool("bash", {"command": "ls"}) is None
        assert (await session.before_tool("bash", {"command": "rm -rf src"})).checkpoint_type.value == "automatic"
        return False

    loop = AutonomousLoop(features, agent)
    result = asyncio.run(loop.run())
    assert (result.reason, result.sessions, result.errors) == ("stopped", 1, [])
    assert [kind for kind, _ in made(loop)] == ["session", "automatic", "automatic"]


def test_limits(features):
    assert asyncio.run(AutonomousLoop(features, lambda _: None).run(LoopConfig(max_sessions=2))).reason == "sessions"
    tokens = asyncio.run(AutonomousLoop(features, lambda _: 60).run(LoopConfig(token_budget=100)))
    assert (tokens.reason, tokens.sessions, tokens.token_usage) == ("tokens", 2, 120)

    def failing(_: Session) -> None:
        raise ValueError

    failed = asyncio.run(AutonomousLoop(features, failing).run(LoopConfig(max_failures=2)))
    assert (failed.reason, failed.sessions, len(failed.errors)) == ("failures", 2, 2)
    for wrong in (LoopConfig(max_sessions=-1), LoopConfig(token_budget=True), LoopConfig(max_failures=0)):
        with pytest.raises(UserError):
            asyncio.run(AutonomousLoop(features, failing).run(wrong))


def test_without_auto_checkpoint_nothing_is_saved_and_nothing_taken_back(features):
    async def agent(session: Session) -> None:
        async with session.risky("x"):
            (features / "kept").write_text("x")
        assert await session.before_tool("bash", {"command": "rm -rf /"}) is None
        raise ValueError

    loop = AutonomousLoop(features, agent)
    result = asyncio.run(loop.run(LoopConfig(auto_checkpoint=False, max_sessions=1)))
    assert made(loop) == []
    assert len(result.errors) == 1
    assert (features / "kept").exists()


def test_a_loop_needs_an_agent_or_a_subclass(features):
    with pytest.raises(UserError, match="no agent"):
        asyncio.run(AutonomousLoop(features).run())

    class Own(AutonomousLoop):
        async def run_session(self, session: Session) -> bool:
            return session.tokens_left != 500_000

    assert asyncio.run(Own(features).run()).reason == "stopped"
    assert asyncio.run(AutonomousLoop(features).run(LoopConfig(max_sessions=1), lambda _: None)).sessions == 1
