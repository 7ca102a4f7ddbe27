"""
An autonomous loop over a project: session after session, with the life of its checkpoints taken care of.

    session   at the start of each session
    automatic before a risky operation (`session.risky`, or `session.before_tool` for one that is judged risky)
    feature   when a feature of the feature list passes that did not before

What an agent does in a session is its own business: the loop is given a callable. Promised: a session that fails is rolled
back to its newest checkpoint, and the loop ends after the sessions, tokens or failures that it was allowed.
"""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from mulligan.errors import UserError
from mulligan.loop.context import ContextTracker
from mulligan.loop.project import ProjectCheckpoints
from mulligan.loop.project_values import Checkpoint, CheckpointType
from mulligan.loop.recoverer import ErrorRecoverer
from mulligan.loop.risk import judge
from mulligan.safefs.userfile import read_user_file
from mulligan.state.project import FEATURE_LIST_FILE, Features, read_features

COMPLETE, SESSIONS, TOKENS, FAILURES, STOPPED = "complete", "sessions", "tokens", "failures", "stopped"
_LIMIT = 64 << 20


@dataclass
class LoopConfig:
    """How far a loop may go; without `auto_checkpoint` it neither makes checkpoints nor rolls back."""

    max_sessions: int = 10
    token_budget: int = 500_000
    auto_checkpoint: bool = True
    max_failures: int = 3

    def checked(self) -> LoopConfig:
        """Returns itself; raises UserError for a value that makes no sense."""
        for name, least in (("max_sessions", 0), ("token_budget", 0), ("max_failures", 1)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise UserError(f"{name} is a whole number from {least} on, not {value!r}. Nothing was started.")
        return self


@dataclass
class LoopResult:
    """How a loop ended: why, after how many sessions and tokens, and which features passed on the way."""

    reason: str
    sessions: int = 0
    token_usage: int = 0
    completed: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    @property
    def success(self) -> bool:
        """Whether every feature passes."""
        return self.reason == COMPLETE


class Session:
    """One session, as the agent sees it."""

    def __init__(self, loop: AutonomousLoop, config: LoopConfig, number: int) -> None:
        self.number = number
        self.checkpoint: Checkpoint | None = None
        self._loop = loop
        self._config = config

    @property
    def project_dir(self) -> str | os.PathLike[str]:
        """The project."""
        return self._loop.project_dir

    @property
    def tokens_left(self) -> int:
        """How many tokens the loop may still use."""
        return max(0, self._config.token_budget - self._loop.tracker.token_usage)

    def add_tokens(self, tokens: int) -> None:
        """Counts tokens that the agent used."""
        self._loop.tracker.add_tokens(tokens)

    def features(self) -> Features:
        """Returns where the feature list stands."""
        return self._loop.features()

    @asynccontextmanager
    async def risky(self, name: str = "") -> AsyncIterator[None]:
        """Saves an automatic checkpoint; when the body raises, rolls back to it and raises again."""
        if not self._config.auto_checkpoint:
            yield
            return
        async with self._loop.recoverer.protecting(name):
            yield

    async def before_tool(self, tool: str, arguments: object = None) -> Checkpoint | None:
        """Saves an automatic checkpoint if this call is risky; returns it."""
        verdict = judge(tool, arguments)
        if not self._config.auto_checkpoint or not verdict.risky:
            return None
        return await self._loop.save(f"before {tool}", CheckpointType.AUTOMATIC)

    async def check_features(self) -> list[str]:
        """Saves a feature checkpoint if features pass that did not before; returns those."""
        return await self._loop.check_features(self._config)


Agent = Callable[[Session], Any]


class AutonomousLoop:
    """
    Runs an agent over a project, session after session.

    The agent is a function or coroutine function of a `Session`; what it returns counts as tokens if it is a number, and ends
    the loop if it is False. A subclass may override `run_session` instead.
    """

    def __init__(self, project_dir: str | os.PathLike[str], agent: Agent | None = None) -> None:
        self.project_dir = project_dir
        self.agent = agent
        self.checkpoints = ProjectCheckpoints(project_dir)
        self.tracker = ContextTracker(project_dir, checkpoints=self.checkpoints)
        self.recoverer = ErrorRecoverer(project_dir, checkpoints=self.checkpoints, figures=self.tracker.figures)
        self._root = os.path.realpath(project_dir)
        self._passing: set[str] = set()

    async def run(self, config: LoopConfig | None = None, agent: Agent | None = None) -> LoopResult:
        """Runs sessions until every feature passes, or until one of the limits is reached."""
        config = (config or LoopConfig()).checked()
        self.agent = agent or self.agent
        if self.agent is None and type(self).run_session is AutonomousLoop.run_session:
            raise UserError(
                "This loop has no agent. Nothing was started.",
                hint="AutonomousLoop(project_dir, agent): a function of one session, which may be a coroutine function.",
            )
        result = LoopResult(SESSIONS)
        self._passing = set(self.features().completed)
        failures = 0
        while result.sessions < config.max_sessions:
            if reason := self._is_over(config, failures):
                result.reason = reason
                break
            result.sessions += 1
            going_on, error = await self._one(config)
            failures = failures + 1 if error else 0
            result.errors += [error] if error else []
            if not going_on:
                result.reason = STOPPED
                break
        else:
            result.reason = self._is_over(config, failures) or SESSIONS
        result.token_usage, result.completed = self.tracker.token_usage, list(self.features().completed)
        return result

    def _is_over(self, config: LoopConfig, failures: int) -> str:
        features = self.features()
        if features.total and features.current is None:
            return COMPLETE
        if self.tracker.token_usage >= config.token_budget:
            return TOKENS
        return FAILURES if failures >= config.max_failures else ""

    async def _one(self, config: LoopConfig) -> tuple[bool, str]:
        """Runs one session; returns whether the agent wants to go on, and what went wrong."""
        number = await asyncio.to_thread(self.tracker.start_session)
        session = Session(self, config, number)
        if config.auto_checkpoint:
            session.checkpoint = await self.save(f"session {number}", CheckpointType.SESSION)
        try:
            said = await self.run_session(session)
        except Exception as error:  # noqa: BLE001 - an agent may fail in any way, and the next session goes on
            told = f"session {number}: {type(error).__name__}: {error}"
            if config.auto_checkpoint:
                told += f" ({(await self.recoverer.handle_error(error)).reason})"
            return True, told
        if isinstance(said, int) and not isinstance(said, bool):
            session.add_tokens(said)
        await self.check_features(config)
        return said is not False, ""

    async def run_session(self, session: Session) -> Any:
        """Lets the agent work for one session."""
        if self.agent is None:
            raise UserError("This loop has no agent.")
        if inspect.iscoroutinefunction(self.agent):
            return await self.agent(session)
        said = await asyncio.to_thread(self.agent, session)
        return await said if inspect.isawaitable(said) else said

    # -- what sessions ask for --------------------------------------------------------------------

    def features(self) -> Features:
        """Returns where the feature list stands."""
        try:
            return read_features(read_user_file(os.path.join(self._root, FEATURE_LIST_FILE), limit=_LIMIT))
        except OSError:
            return Features()  # a directory, a device, not to be read: no list

    async def save(self, name: str, checkpoint_type: CheckpointType) -> Checkpoint:
        """Saves a checkpoint with the figures of this session."""
        return await asyncio.to_thread(self.checkpoints.create, name, "", checkpoint_type, self.tracker.figures())

    async def check_features(self, config: LoopConfig) -> list[str]:
        """Saves a feature checkpoint if features pass that did not before; returns those."""
        completed = self.features().completed
        fresh = [name for name in completed if name not in self._passing]
        self._passing = set(completed)
        if fresh and config.auto_checkpoint:
            await self.save(f"feature {', '.join(fresh)}", CheckpointType.FEATURE)
        return fresh
