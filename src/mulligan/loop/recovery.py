"""
Trying again from where it began: on a failure the work is rolled back to a checkpoint and, if wanted, repeated.

`Recovery` knows two calls, how to save and how to go back, so that anything with checkpoints can use it; `Recovery.of`
makes one for a workspace. Promised: the exception of the last try is the one that is raised, with its traceback; trouble
while rolling back becomes a note on it and ends the repeating, since a try must not start from a half-known state.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import threading
from collections.abc import Awaitable, Callable, Iterator
from types import TracebackType
from typing import Any, TypeVar, cast

from mulligan.engine.workspace import Workspace
from mulligan.errors import UserError

Function = TypeVar("Function", bound=Callable[..., Any])
Exceptions = type[BaseException] | tuple[type[BaseException], ...]


class Attempt:
    """One attempt, for `with` or `async with`: rolls back when its body raises, and swallows it if retries are left."""

    def __init__(self, recovery: Recovery, point: Any, number: int) -> None:
        self.number = number
        self.checkpoint = point
        self.error: BaseException | None = None
        self._recovery = recovery

    @property
    def succeeded(self) -> bool:
        """Whether the body ended without an exception that is recovered from."""
        return self.error is None

    def __enter__(self) -> Attempt:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: TracebackType | None) -> bool:
        if error is None or not isinstance(error, self._recovery.on):
            return False
        self.error = error
        return self._recovery.rolled_back(self.checkpoint, error) and self.number <= self._recovery.retries

    async def __aenter__(self) -> Attempt:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        # Shielded: a cancelled task must not cut its own rollback short.
        return await asyncio.shield(asyncio.to_thread(self.__exit__, kind, error, trace))


class Recovery:
    """
    Rolls back after failures: as a decorator (`@recovery`), `with recovery.once():`, or `for attempt in recovery.attempts():`.

    `retries` is how often a failed try is repeated (0: roll back and raise). `on` are the exceptions that count as failure.
    """

    def __init__(
        self,
        save: Callable[[], Any],
        restore: Callable[[Any], object],
        *,
        retries: int = 2,
        on: Exceptions = Exception,
        wait: float = 0.0,
        on_failure: Callable[[BaseException], object] | None = None,
    ) -> None:
        if isinstance(retries, bool) or not isinstance(retries, int) or retries < 0 or wait < 0:
            raise UserError("retries is a whole number from 0 on, and wait a number of seconds from 0 on.")
        self.retries = retries
        self.on = on
        self.wait = wait
        self._save = save
        self._restore = restore
        self._on_failure = on_failure

    @classmethod
    def of(cls, workspace: Workspace, name: str = "", **options: Any) -> Recovery:
        """Returns the recovery of a workspace: an `automatic` checkpoint before, a restore of it after a failure."""

        def save() -> Any:
            return workspace.save(name, description="before a try that may be rolled back", kind="automatic")

        return cls(save, workspace.restore, **options)

    # -- the three forms ------------------------------------------------------------------------

    def attempts(self) -> Iterator[Attempt]:
        """Yields tries until one succeeds; the last failure is raised by its `with` block."""
        point = self._save()
        for number in range(1, self.retries + 2):
            attempt = Attempt(self, point, number)
            yield attempt
            if attempt.succeeded:
                return
            if self.wait and number <= self.retries:
                threading.Event().wait(self.wait)

    def once(self) -> Attempt:
        """Returns one attempt for `with recovery.once():`; rolls back on an exception and raises it."""
        return Attempt(self, self._save(), self.retries + 1)

    def __call__(self, function: Function) -> Function:
        """Returns the function, repeated from its checkpoint when it fails; a coroutine function stays one."""
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def tried_async(*args: Any, **kwargs: Any) -> Any:
                return await self._run_async(lambda: function(*args, **kwargs))

            return cast("Function", tried_async)

        @functools.wraps(function)
        def tried(*args: Any, **kwargs: Any) -> Any:
            for attempt in self.attempts():
                with attempt:
                    return function(*args, **kwargs)
            raise AssertionError  # the last attempt returns or raises

        return cast("Function", tried)

    async def _run_async(self, call: Callable[[], Awaitable[Any]]) -> Any:
        point = await asyncio.to_thread(self._save)
        for number in range(1, self.retries + 2):
            try:
                return await call()
            except self.on as error:
                # Not for a cancelled task: the caller that cancelled it decides whether to roll back.
                again = await asyncio.to_thread(self.rolled_back, point, error)
                if not again or number > self.retries:
                    raise
            await asyncio.sleep(self.wait)
        raise AssertionError  # the last try returns or raises

    # -- going back -----------------------------------------------------------------------------

    def rolled_back(self, point: Any, error: BaseException) -> bool:
        """Goes back to the checkpoint; returns whether that worked, with a note on the exception where it did not."""
        try:
            if self._on_failure is not None:
                self._on_failure(error)
            self._restore(point)
        except Exception as trouble:  # noqa: BLE001 - the caller's own exception must not be hidden
            error.add_note(f"mulligan could not roll back: {trouble}")
            return False
        return True
