"""
When an agent's loop saves, for every kind of agent: the policy, and the two drivers that carry it out.

`LoopCheckpoints` decides and counts, and does nothing else. `AgentLoop` (and `AsyncAgentLoop`, for coroutines) carries its
decisions out through anything that has `save(description, kind)`: a workspace, an environment's manager, a service.
Promised: trouble of the loop's own never stops the agent and never hides an exception of the agent; it is logged, handed
to `on_trouble` and kept in the outcome. Not promised: that a checkpoint exists; who must know looks at the outcome.

    before a risky tool     saves, kind `automatic`           (rules.before: "risky", "changes" or "never")
    after a successful step saves, kind `step`                (every `every_n_steps` steps, or after each tool)
    after a failed step     nothing, and the next successful step saves if the interval has passed
"""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from mulligan.engine.workspace import Workspace
from mulligan.errors import UserError
from mulligan.loop.risk import RiskVerdict, judge
from mulligan.model.checkpoint import Checkpoint
from mulligan.model.policy import LoopPolicy

BEFORE = ("risky", "changes", "never")
Judge = Callable[[str, object], RiskVerdict]
Trouble = Callable[[Exception], object]
Answer = TypeVar("Answer")


class Checkpointer(Protocol):
    """Whatever saves: returns the checkpoint, None where nothing had changed."""

    def save(self, description: str, kind: str) -> Any:
        """Saves now."""


class AsyncCheckpointer(Protocol):
    """The same for coroutines."""

    def save(self, description: str, kind: str) -> Awaitable[Any]:
        """Saves now."""


class WorkspaceCheckpoints:
    """A workspace as a checkpointer: saves only what changed, marked with the caller's metadata."""

    def __init__(self, workspace: Workspace, metadata: Mapping[str, Any] | None = None) -> None:
        self.workspace = workspace
        self.metadata = dict(metadata or {})

    def save(self, description: str, kind: str) -> Checkpoint | None:
        """Saves if something changed since the position."""
        return self.workspace.save(description=description, kind=kind, metadata=self.metadata, if_changed=True)


class LoopRules(NamedTuple):
    """When the loop saves. With `each_tool`, after every successful tool call, whatever the interval."""

    enabled: bool = True
    every_n_steps: int = 5
    before: str = "risky"
    each_tool: bool = False

    @classmethod
    def of(cls, policy: LoopPolicy) -> LoopRules:
        """Returns the rules of the user's settings: `checkpoints.enabled` and `checkpoints.every_n_steps`."""
        return cls(policy.enabled, policy.every_n_steps)

    def checked(self) -> LoopRules:
        """Returns itself; raises UserError for a value that makes no sense."""
        if isinstance(self.every_n_steps, bool) or not isinstance(self.every_n_steps, int):
            raise UserError(f"every_n_steps is a whole number, not {self.every_n_steps!r}.")
        if not 1 <= self.every_n_steps <= 50:
            raise UserError(f"every_n_steps is from 1 to 50, not {self.every_n_steps}.")
        if self.before not in BEFORE:
            raise UserError(f"before is one of {', '.join(BEFORE)}, not {self.before!r}.")
        return self


class Wish(NamedTuple):
    """A checkpoint that the policy wants."""

    description: str
    kind: str


class SaveOutcome(NamedTuple):
    """The result of a request: the checkpoint or None, the reason, and the error if there was one."""

    checkpoint: Any = None
    reason: str = ""
    trouble: Exception | None = None

    @property
    def saved(self) -> bool:
        """Whether a checkpoint was made."""
        return self.checkpoint is not None


class LoopCheckpoints:
    """The policy of one loop: counts steps, knows what is due. Threads may share one."""

    def __init__(self, rules: LoopRules = LoopRules(), judge: Judge = judge) -> None:  # noqa: B008 - a value
        self.rules = rules.checked()
        self.steps = 0
        self._judge = judge
        self._since = 0
        self._open = 0
        self._mutex = threading.Lock()

    def before_tool(self, tool: str, arguments: object = None) -> Wish | None:
        """Returns the checkpoint that belongs before a tool call."""
        if self.rules.before == "never":
            return None
        verdict = self._judge(tool, arguments)
        if verdict.risky:
            return Wish(f"before {tool}: {verdict.reason}", "automatic")
        if verdict.changes and self.rules.before == "changes":
            return Wish(f"before {tool}", "automatic")
        return None

    def after_tool(self, tool: str, *, ok: bool = True) -> Wish | None:
        """Returns the checkpoint that belongs after a tool call; outside a step, each call is one."""
        if self.rules.each_tool:
            with self._mutex:
                self.steps += not self._open
            return Wish(f"After {tool}", "step") if ok else None
        return None if self._open else self.after_step(tool, ok=ok)

    def begin_step(self) -> None:
        """Says that a step begins: until it ends, tool calls are parts of it and not counted themselves."""
        with self._mutex:
            self._open += 1

    def end_step(self, name: str = "", *, ok: bool = True) -> Wish | None:
        """Says that the step ended; returns the checkpoint that is due."""
        with self._mutex:
            self._open = max(self._open - 1, 0)
        return self.after_step(name, ok=ok)

    def after_step(self, name: str = "", *, ok: bool = True) -> Wish | None:
        """Counts one step; returns the checkpoint that is due after it."""
        with self._mutex:
            self.steps += 1
            self._since += 1
            # After each tool is more often than after some steps: the last tool of the step has saved already.
            if not ok or self.rules.each_tool or self._since < self.rules.every_n_steps:
                return None
            self._since = 0
            return Wish(f"after step {self.steps}" + (f": {name}" if name else ""), "step")


class _Loop(ABC, Generic[Answer]):
    """The common part of both drivers: what an agent calls, the switch, the policy and the error handling."""

    def __init__(
        self,
        rules: LoopRules = LoopRules(),  # noqa: B008 - a value
        *,
        auto_checkpoint: bool | Callable[[], bool] | None = None,
        judge: Judge = judge,
        on_trouble: Trouble | None = None,
    ) -> None:
        self.policy = LoopCheckpoints(rules, judge)
        self._auto = rules.enabled if auto_checkpoint is None else auto_checkpoint
        self._on_trouble = on_trouble

    @property
    def rules(self) -> LoopRules:
        """When it saves."""
        return self.policy.rules

    @property
    def steps(self) -> int:
        """How many steps it has seen."""
        return self.policy.steps

    @property
    def auto_checkpoint(self) -> bool:
        """Whether it saves by itself; may be set."""
        return self._auto() if callable(self._auto) else bool(self._auto)

    @auto_checkpoint.setter
    def auto_checkpoint(self, value: bool) -> None:
        self._auto = value

    def before_tool(self, tool: str, arguments: object = None) -> Answer:
        """Saves before a tool call that calls for it."""
        return self._carry_out(lambda: self.policy.before_tool(tool, arguments))

    def after_tool(self, tool: str, arguments: object = None, *, ok: bool = True) -> Answer:  # noqa: ARG002 - a callback's shape
        """Counts a tool call and saves if a checkpoint is due; after a failed one nothing is saved."""
        return self._carry_out(lambda: self.policy.after_tool(tool, ok=ok))

    def after_step(self, name: str = "", *, ok: bool = True) -> Answer:
        """Counts a step and saves if a checkpoint is due; for loops that do not use `step()`."""
        return self._carry_out(lambda: self.policy.after_step(name, ok=ok))

    def save(self, description: str, kind: str = "step") -> Answer:
        """Saves on demand (a session begins, a feature passes), if automatic checkpoints are on."""
        return self._carry_out(lambda: Wish(description, kind))

    @abstractmethod
    def _carry_out(self, ask: Callable[[], Wish | None]) -> Answer:
        """Asks the policy, and saves what it wants."""

    def _decide(self, ask: Callable[[], Wish | None]) -> tuple[Wish | None, SaveOutcome]:
        """Asks the policy, even when switched off, because it counts; an exception in it is handled."""
        try:
            wish = ask()
            return (wish if self.auto_checkpoint else None), SaveOutcome()
        except Exception as error:  # noqa: BLE001 - nothing of ours may stop the agent
            return None, self._troubled(error, "")

    def _troubled(self, error: Exception, reason: str) -> SaveOutcome:
        logging.getLogger("mulligan.loop").warning("no checkpoint could be made: %s", error)
        if self._on_trouble is not None:
            try:
                self._on_trouble(error)
            except Exception:
                logging.getLogger("mulligan.loop").debug("a handler of trouble failed", exc_info=True)
        return SaveOutcome(None, reason, error)


class AgentLoop(_Loop[SaveOutcome]):
    """
    The checkpoints of an agent's loop.

    Call `before_tool` and `after_tool` around each call, or put it into `with loop.tool(name, arguments):`; where one step
    of the agent has several calls, put those into `with loop.step():`. `loop.save` is a checkpoint on demand.
    """

    def __init__(self, checkpointer: Checkpointer, rules: LoopRules = LoopRules(), **options: Any) -> None:  # noqa: B008 - a value
        super().__init__(rules, **options)
        self.checkpointer = checkpointer

    @classmethod
    def of(cls, workspace: Workspace, metadata: Mapping[str, Any] | None = None, **options: Any) -> AgentLoop:
        """Returns the loop that the user's settings describe for a workspace; `rules=` overrides them."""
        rules = options.pop("rules", None) or LoopRules.of(workspace.settings.loop)
        return cls(WorkspaceCheckpoints(workspace, metadata), rules, **options)

    @contextmanager
    def tool(self, tool: str, arguments: object = None) -> Iterator[SaveOutcome]:
        """Surrounds one tool call; an exception of the call counts as failure and goes on its way."""
        outcome = self.before_tool(tool, arguments)
        try:
            yield outcome
        except BaseException:
            self.after_tool(tool, arguments, ok=False)
            raise
        self.after_tool(tool, arguments)

    @contextmanager
    def step(self, name: str = "") -> Iterator[None]:
        """Surrounds one step of the agent, however many tool calls it has."""
        self.policy.begin_step()
        try:
            yield
        except BaseException:
            self.policy.end_step(name, ok=False)
            raise
        self._carry_out(lambda: self.policy.end_step(name))

    def _carry_out(self, ask: Callable[[], Wish | None]) -> SaveOutcome:
        wish, outcome = self._decide(ask)
        if wish is None:
            return outcome
        try:
            return SaveOutcome(self.checkpointer.save(wish.description, wish.kind), wish.description)
        except Exception as error:  # noqa: BLE001 - nothing of ours may stop the agent
            return self._troubled(error, wish.description)


class AsyncAgentLoop(_Loop[Coroutine[Any, Any, SaveOutcome]]):
    """The same for coroutines: `await` each method, `async with` the two that surround."""

    def __init__(self, checkpointer: AsyncCheckpointer, rules: LoopRules = LoopRules(), **options: Any) -> None:  # noqa: B008 - a value
        super().__init__(rules, **options)
        self.checkpointer = checkpointer

    @asynccontextmanager
    async def tool(self, tool: str, arguments: object = None) -> AsyncIterator[SaveOutcome]:
        """Surrounds one tool call; an exception of the call counts as failure and goes on its way."""
        outcome = await self.before_tool(tool, arguments)
        try:
            yield outcome
        except BaseException:
            # Counted without awaiting: a cancelled task must not be held up here.
            self._decide(lambda: self.policy.after_tool(tool, ok=False))
            raise
        await self.after_tool(tool, arguments)

    @asynccontextmanager
    async def step(self, name: str = "") -> AsyncIterator[None]:
        """Surrounds one step of the agent, however many tool calls it has."""
        self.policy.begin_step()
        try:
            yield
        except BaseException:
            self.policy.end_step(name, ok=False)
            raise
        await self._carry_out(lambda: self.policy.end_step(name))

    async def _carry_out(self, ask: Callable[[], Wish | None]) -> SaveOutcome:
        wish, outcome = self._decide(ask)
        if wish is None:
            return outcome
        try:
            return SaveOutcome(await self.checkpointer.save(wish.description, wish.kind), wish.description)
        except Exception as error:  # noqa: BLE001 - nothing of ours may stop the agent
            return self._troubled(error, wish.description)
