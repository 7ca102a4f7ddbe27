"""
An error recoverer for a project: its first answer to a failure is to roll back to a checkpoint.

Four forms, all of them over `mulligan.loop.recovery`: `await handle_error(error)` after the fact, the decorator `with_recovery`,
and two for blocks of code, `async with protecting():` (rolls back, raises) and `async for attempt in attempts():` (tries again).
Promised: the exception of the last try is the one that is raised; what a failed try left is one `undo` away.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, TypeVar

from mulligan.errors import MulliganError, UserError
from mulligan.loop.project import ProjectCheckpoints
from mulligan.loop.project_values import CheckpointType, RollbackResult
from mulligan.loop.recovery import Attempt, Exceptions, Recovery

Function = TypeVar("Function", bound=Callable[..., Any])
ROLLBACK, NONE = "rollback", "none"


@dataclass
class RecoveryResult:
    """The result of handling an error: whether the project was rolled back, how, and why (not)."""

    recovered: bool
    strategy: str
    reason: str
    checkpoint_id: str = ""
    rollback: RollbackResult | None = None

    def __bool__(self) -> bool:
        return self.recovered


class RecoveryAttempts:
    """Tries, one after the other until one succeeds: for `for … with`, or for `async for … async with`."""

    def __init__(self, recovery: Recovery) -> None:
        self._recovery = recovery

    def __iter__(self) -> Iterator[Attempt]:
        return self._recovery.attempts()

    async def __aiter__(self) -> AsyncIterator[Attempt]:
        attempts = self._recovery.attempts()
        while (attempt := await asyncio.to_thread(next, attempts, None)) is not None:
            yield attempt


class Protection:
    """One try for `with` or `async with`: rolled back when its body raises, and the exception goes on."""

    def __init__(self, recovery: Recovery) -> None:
        self._recovery = recovery

    def __enter__(self) -> Attempt:
        self._attempt = self._recovery.once()
        return self._attempt

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._attempt.__exit__(kind, error, trace)

    async def __aenter__(self) -> Attempt:
        self._attempt = await asyncio.to_thread(self._recovery.once)
        return self._attempt

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._attempt.__aexit__(kind, error, trace)


class ErrorRecoverer:
    """Rolls a project back after failures, and repeats what failed if that is wanted."""

    def __init__(
        self,
        project_dir: str | os.PathLike[str],
        *,
        retries: int = 2,
        on: Exceptions = Exception,
        checkpoints: ProjectCheckpoints | None = None,
        figures: Callable[[], Mapping[str, Any]] = dict,
    ) -> None:
        self.project_dir = project_dir
        self.checkpoints = checkpoints or ProjectCheckpoints(project_dir)
        self._retries = retries
        self._on = on
        self._figures = figures

    async def handle_error(self, error: BaseException, context: Mapping[str, Any] | None = None) -> RecoveryResult:
        """Rolls back to the checkpoint that the context names (`checkpoint_id`), else to the newest. Never raises for a refusal."""
        wanted = (context or {}).get("checkpoint_id")
        call = self.checkpoints.rollback_to_latest if wanted is None else lambda: self.checkpoints.rollback(wanted)
        try:
            result = await asyncio.shield(asyncio.to_thread(call))
        except MulliganError as trouble:
            return RecoveryResult(False, ROLLBACK, f"{error!r} could not be recovered from: {trouble}")
        if not result:
            strategy = ROLLBACK if result.checkpoint_id else NONE
            return RecoveryResult(False, strategy, result.error, result.checkpoint_id, result)
        reason = f"rolled back to {result.checkpoint_id} after {type(error).__name__}: {error}"
        return RecoveryResult(True, ROLLBACK, reason, result.checkpoint_id, result)

    def with_recovery(
        self,
        function: Any = None,
        /,
        *,
        name: str = "",
        retries: int | None = None,
        on: Exceptions | None = None,
        wait: float = 0.0,
    ) -> Any:
        """Decorates a function or coroutine: retries it from a checkpoint, and rolls back at the end."""

        def decorate(decorated: Function) -> Function:
            own = name or getattr(decorated, "__name__", "")
            return self._recovery(own, retries=retries, on=on, wait=wait)(decorated)

        return decorate if function is None else decorate(function)

    def protecting(self, name: str = "", *, on: Exceptions | None = None) -> Protection:
        """Returns `async with` (or `with`): an automatic checkpoint before, and a rollback when the body raises."""
        return Protection(self._recovery(name, on=on))

    def attempts(
        self, name: str = "", *, retries: int | None = None, on: Exceptions | None = None, wait: float = 0.0
    ) -> RecoveryAttempts:
        """Returns tries for `async for attempt in …: async with attempt:` (or both without async)."""
        return RecoveryAttempts(self._recovery(name, retries=retries, on=on, wait=wait))

    def _recovery(
        self, name: str, *, retries: int | None = None, on: Exceptions | None = None, wait: float = 0.0
    ) -> Recovery:
        def save() -> str:
            about = f"before {name or 'a risky operation'}"
            return self.checkpoints.create(name, about, CheckpointType.AUTOMATIC, self._figures()).id

        return Recovery(
            save,
            self._go_back,
            retries=self._retries if retries is None else retries,
            on=self._on if on is None else on,
            wait=wait,
        )

    def _go_back(self, checkpoint_id: str) -> None:
        result = self.checkpoints.rollback(checkpoint_id)
        if not result:
            raise UserError(result.error, hint=result.hint)
