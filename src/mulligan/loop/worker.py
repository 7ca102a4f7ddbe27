"""
One run of a Python agent, in this thread or, where it has a time limit, in one of its own.

A thread cannot be ended from outside. An agent that runs too long is asked to stop (`cancel()` or `stop()`, if it has
one) and gets a moment to end. If it goes on, it stays behind as a daemon thread whose answer is discarded,
and `is_alive` says so. Only a command can be ended for sure.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Awaitable
from contextlib import suppress
from typing import Any

GRACE = 2.0


class AgentTimeout(Exception):
    """An agent did not answer in time."""


class AgentCall:
    """One call of `agent.run(prompt)`; an awaitable answer is awaited."""

    def __init__(self, agent: Any, prompt: str) -> None:
        self._agent = agent
        self._prompt = prompt
        self._thread: threading.Thread | None = None
        self._answer: Any = None
        self._error: BaseException | None = None

    @property
    def is_alive(self) -> bool:
        """Whether the agent still runs after its caller stopped waiting."""
        return self._thread is not None and self._thread.is_alive()

    def run(self) -> Any:
        """Runs the agent here."""
        answer = self._agent.run(self._prompt)
        return asyncio.run(_awaited(answer)) if inspect.isawaitable(answer) else answer

    def run_within(self, timeout: float) -> Any:
        """Runs the agent in a thread; raises AgentTimeout if it takes longer."""
        context = contextvars.copy_context()
        self._thread = threading.Thread(target=context.run, args=(self._work,), daemon=True, name="mulligan agent")
        self._thread.start()
        self._thread.join(timeout)
        if self._thread.is_alive():
            self._ask_to_stop()
            left = ", and it still runs" if self._thread.is_alive() else ""
            raise AgentTimeout(f"timeout: it did not end within {timeout:g} s{left}")
        if self._error is not None:
            raise self._error
        return self._answer

    def _work(self) -> None:
        try:
            self._answer = self.run()
        except BaseException as error:  # noqa: BLE001 - raised again in the waiting thread
            self._error = error

    def _ask_to_stop(self) -> None:
        for name in ("cancel", "stop"):
            method = getattr(self._agent, name, None)
            if callable(method) and not inspect.iscoroutinefunction(method):
                # It is given up anyway.
                with suppress(Exception):
                    method()
                break
        if self._thread is not None:
            self._thread.join(GRACE)


async def _awaited(answer: Awaitable[Any]) -> Any:
    return await answer
