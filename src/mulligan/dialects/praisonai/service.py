"""
`CheckpointService`: PraisonAI's asynchronous door to the checkpoints of a workspace.

Every operation runs in a worker thread; the event loop is never blocked. An operation that fails returns a result that
says why, and changes nothing; none raises. Handlers of events are called in the order they were registered, coroutines
awaited, after the fact; one that raises is logged and changes no result.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from functools import partial, wraps
from typing import Any, TypeVar

from mulligan.dialects.praisonai.history import History, MadeCheckpoint, NotSaved, view, words
from mulligan.dialects.praisonai.types import (
    Checkpoint,
    CheckpointConfig,
    CheckpointDiff,
    CheckpointEvent,
    CheckpointResult,
)
from mulligan.errors import MulliganError, UserError
from mulligan.loop.agent import AsyncAgentLoop, LoopRules
from mulligan.loop.risk import judge
from mulligan.model.checkpoint import Checkpoint as Saved
from mulligan.state.conversation import conversation_of

logger = logging.getLogger("mulligan.praisonai")
NOT_INITIALIZED = "Service not initialized"
Handler = Callable[[Any], Any]
# Said here, since the service has a method of that name.
Checkpoints = list[Checkpoint]
Tools = list[Callable[..., Any]]
_T = TypeVar("_T")


class CheckpointService:
    """
    Checkpoints of a directory, in PraisonAI's words.

    Beside the original's arguments: `config`, whose choices hold where an argument is not given, and `conversation`
    (a list of messages, a JSONL transcript, a pair of functions, a session store with `session_id`), which is then
    saved and restored together with the files.
    """

    def __init__(
        self,
        workspace_dir: str | os.PathLike[str] | None = None,
        storage_dir: str | os.PathLike[str] | None = None,
        enabled: bool | None = None,
        auto_checkpoint: bool | None = None,
        max_checkpoints: int | None = None,
        user_name: str | None = None,
        user_email: str | None = None,
        max_file_size: int | None = None,
        *,
        config: CheckpointConfig | None = None,
        exclude_patterns: Sequence[str] | None = None,
        conversation: Any = None,
        session_id: str | None = None,
    ) -> None:
        given: dict[str, Any] = {
            "storage_dir": storage_dir,
            "enabled": enabled,
            "auto_checkpoint": auto_checkpoint,
            "max_checkpoints": max_checkpoints,
            "user_name": user_name,
            "user_email": user_email,
            "max_file_size": max_file_size,
            "exclude_patterns": exclude_patterns,
        }
        workspace = os.fspath(workspace_dir) if workspace_dir is not None else ""
        base = config or CheckpointConfig()
        self.config = base.for_workspace(workspace, **{key: value for key, value in given.items() if value is not None})
        if not self.config.workspace_dir:
            raise TypeError("CheckpointService needs a workspace_dir, its own or one of its config")
        self.last_error = ""
        self._history = History(self.config)
        self._initialized = False
        self._handlers: dict[CheckpointEvent, list[Handler]] = {event: [] for event in CheckpointEvent}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        if conversation is not None:
            self._history.conversation = conversation_of(conversation, session_id)

    # -- what it is about -----------------------------------------------------------------------

    @property
    def workspace_dir(self) -> str:
        """The directory that is protected."""
        return self.config.workspace_dir

    @property
    def checkpoint_dir(self) -> str:
        """The directory of this workspace's checkpoints."""
        return self.config.get_checkpoint_dir() if self.config.own_storage else self._history.store_path

    @property
    def git_dir(self) -> str:
        """The store itself, which is a git repository: `git --git-dir=… log --all` reads it."""
        return self._history.store_path

    @property
    def is_initialized(self) -> bool:
        """Whether `initialize` succeeded and `cleanup` was not called since."""
        return self._initialized

    @property
    def recovered(self) -> str:
        """A sentence about an interrupted restore that was finished; empty when there was none."""
        return self._history.recovered

    def attach(self, conversation: Any, session_id: str | None = None) -> None:
        """Makes a conversation part of every checkpoint from now on."""
        self._history.attach(conversation_of(conversation, session_id))

    # -- events ---------------------------------------------------------------------------------

    def on(self, event: CheckpointEvent | str, handler: Handler) -> Handler:
        """Calls a handler, a function or a coroutine function, after each such event."""
        self._handlers[CheckpointEvent(event)].append(handler)
        return handler

    def off(self, event: CheckpointEvent | str, handler: Handler) -> None:
        """Stops calling a handler; one that was never registered is harmless."""
        handlers = self._handlers[CheckpointEvent(event)]
        if handler in handlers:
            handlers.remove(handler)

    async def _emit(self, event: CheckpointEvent, data: Any) -> None:
        for answer in self._answers(event, data):
            await _quietly(answer)

    def _emit_now(self, event: CheckpointEvent, data: Any) -> None:
        """Calls the handlers from code that cannot await; what a coroutine handler returns is run as soon as possible."""
        for answer in self._answers(event, data):
            self._run_soon(answer)

    def _answers(self, event: CheckpointEvent, data: Any) -> Iterator[Awaitable[Any]]:
        """Calls the handlers one after the other, and yields what those that are coroutine functions return."""
        for handler in tuple(self._handlers[event]):
            try:
                answer = handler(data)
            except Exception as error:  # noqa: BLE001 - a handler's own business
                logger.warning("Event handler error: %s", error)
                continue
            if inspect.isawaitable(answer):
                yield answer

    def _run_soon(self, answer: Awaitable[Any]) -> None:
        """Runs an awaitable in the loop of this thread, else in that of `initialize`, else in one of its own."""
        work = _quietly(answer)
        try:
            task = asyncio.get_running_loop().create_task(work)
        except RuntimeError:
            if self._loop is not None and self._loop.is_running():
                asyncio.run_coroutine_threadsafe(work, self._loop)
            else:
                asyncio.run(work)
            return
        self._tasks.add(task)  # a loop holds its tasks only weakly
        task.add_done_callback(self._tasks.discard)

    async def _failed(self, error: Exception) -> CheckpointResult:
        self.last_error = words(error)
        await self._emit(CheckpointEvent.ERROR, {"error": self.last_error})
        return CheckpointResult.fail(self.last_error)

    # -- beginning and end ----------------------------------------------------------------------

    async def initialize(self) -> bool:
        """Opens the workspace and keeps it as it is; False, with the reason in `last_error`, where it cannot be protected."""
        self._loop = asyncio.get_running_loop()
        if not self.config.enabled:
            self.last_error = "Checkpoints are disabled"
            return False
        try:
            await asyncio.to_thread(self._history.begin)
        except (MulliganError, OSError) as error:
            self.last_error = words(error)
            logger.warning("Cannot checkpoint %s: %s", self.workspace_dir, self.last_error)
            return False
        self._initialized = True
        await self._emit(CheckpointEvent.INITIALIZED, {"workspace": self.workspace_dir})
        return True

    async def cleanup(self) -> None:
        """Ends the session: prunes what is over the limit, frees its disk, and closes the store."""
        if self._initialized:
            self._initialized = False
            await asyncio.to_thread(self._end)

    def _end(self) -> None:
        try:
            self._history.prune()
        except (MulliganError, OSError) as error:
            logger.warning("Not pruned: %s", error)  # the next `initialize` tries again
        finally:
            self._history.close()

    # -- saving ---------------------------------------------------------------------------------

    async def save(self, message: str, allow_empty: bool = False, step: int | None = None) -> CheckpointResult:
        """Saves a checkpoint; the result can be used as its id."""
        return await self._save(message, allow_empty=allow_empty, step=step)

    async def _save(self, message: str, **options: Any) -> CheckpointResult:
        if not self._initialized:
            return CheckpointResult.fail(NOT_INITIALIZED)
        try:
            made: MadeCheckpoint = await asyncio.to_thread(partial(self._history.save, message, **options))
        except NotSaved as unchanged:
            return CheckpointResult.fail(str(unchanged), held_by=unchanged.held_by)
        except (MulliganError, OSError, TypeError, ValueError) as error:
            return await self._failed(error)
        if made.pruned:
            await self._emit(CheckpointEvent.PRUNED, {"action": "pruned", "removed_count": made.pruned})
        await self._emit(CheckpointEvent.CREATED, made.checkpoint)
        return CheckpointResult.ok(made.checkpoint)

    # -- going back -----------------------------------------------------------------------------

    async def restore(self, checkpoint_id: Any = None, step: int | None = None) -> CheckpointResult:
        """Takes the workspace back to a checkpoint, by id or by step; a bad one changes nothing."""
        if not self._initialized:
            return CheckpointResult.fail(NOT_INITIALIZED)
        if checkpoint_id is not None and step is not None:
            return CheckpointResult.fail("Provide either checkpoint_id or step, not both")
        if step is None:
            return await self._restore(lambda: self._history.find("" if checkpoint_id is None else checkpoint_id))
        saved = await asyncio.to_thread(self._history.find_step, step)
        if saved is None:
            return CheckpointResult.fail(f"No checkpoint found for step {step}")
        return await self._restore(lambda: saved)

    async def rewind(self, steps: int = 1) -> CheckpointResult:
        """Takes the workspace so many checkpoints back, never to an empty beginning."""
        if not self._initialized:
            return CheckpointResult.fail(NOT_INITIALIZED)
        try:
            target = await asyncio.to_thread(self._history.rewind_target, steps)
        except UserError as error:
            return CheckpointResult.fail(words(error))
        return await self._restore(lambda: target)

    async def _restore(self, find: Callable[[], Saved]) -> CheckpointResult:
        def work() -> tuple[Saved, Any]:
            saved = find()
            return saved, self._history.restore(saved)

        try:
            saved, report = await asyncio.to_thread(work)
        except (MulliganError, OSError) as error:
            return await self._failed(error)
        result = CheckpointResult.ok(view(saved), report)
        if not report.complete:
            kept = ", ".join(keep.path for keep in report.kept if keep.failed)
            result = CheckpointResult(False, view(saved), f"Restored, except for: {kept}", report=report)
        await self._emit(CheckpointEvent.RESTORED, result.checkpoint)
        return result

    # -- seeing ---------------------------------------------------------------------------------

    async def diff(self, from_id: Any = None, to_id: Any = None) -> CheckpointDiff:
        """Returns what differs; by default from the last checkpoint to the workspace. Changes nothing."""
        if not self._initialized:
            return CheckpointDiff(from_checkpoint="", to_checkpoint="", error=NOT_INITIALIZED)
        try:
            return await asyncio.to_thread(self._history.diff, from_id, to_id)
        except (MulliganError, OSError) as error:
            logger.warning("Failed to get diff: %s", error)
            return CheckpointDiff(from_checkpoint="", to_checkpoint="", error=words(error))

    async def list_checkpoints(self, limit: int = 50) -> Checkpoints:
        """Returns the checkpoints within the limit, newest first; a restore hides none of them."""
        return await self._ask(lambda: [view(saved) for saved in self._history.listed()[: max(limit, 0)]], [])

    async def get_checkpoint(self, checkpoint_id: Any) -> Checkpoint | None:
        """Returns one of the listed checkpoints with its details, None if there is none of that id."""

        def look() -> Checkpoint | None:
            found = self._history.find(checkpoint_id)
            listed = {saved.id for saved in self._history.listed()}
            return self._history.details(found) if found.id in listed else None

        return await self._ask(look, None)

    async def get_checkpoint_by_step(self, step: int) -> Checkpoint | None:
        """Returns the newest checkpoint of a step, None if there is none."""
        found = await self._ask(partial(self._history.find_step, step), None)
        return view(found) if found is not None else None

    async def list(self, limit: int | None = None) -> Checkpoints:
        """Returns all checkpoints, newest first; so many of them if a limit is given."""
        return await self.list_checkpoints(sys.maxsize if limit is None else limit)

    async def get(self, checkpoint_id: Any) -> Checkpoint | None:
        """Returns one checkpoint, None if there is none of that id."""
        return await self.get_checkpoint(checkpoint_id)

    async def _ask(self, question: Callable[[], _T], otherwise: _T) -> _T:
        if not self._initialized:
            return otherwise
        try:
            return await asyncio.to_thread(question)
        except (MulliganError, OSError) as error:
            self.last_error = words(error)
            return otherwise

    # -- forgetting -----------------------------------------------------------------------------

    async def delete(self, checkpoint_id: Any) -> CheckpointResult:
        """Deletes one checkpoint; the workspace is not touched."""
        if not self._initialized:
            return CheckpointResult.fail(NOT_INITIALIZED)
        try:
            gone = await asyncio.to_thread(lambda: self._history.delete(self._history.find(checkpoint_id)))
        except (MulliganError, OSError) as error:
            return await self._failed(error)
        await self._emit(CheckpointEvent.DELETED, gone)
        return CheckpointResult.ok(gone)

    async def delete_all(self) -> bool:
        """Deletes every checkpoint of this service and frees their disk; the workspace is not touched."""
        self._initialized = False
        try:
            await asyncio.to_thread(self._history.delete_all)
        except (MulliganError, OSError) as error:
            await self._failed(error)
            return False
        return True

    # -- before changes -------------------------------------------------------------------------

    async def before_change(self, what: str = "a change", *, step: int | None = None) -> CheckpointResult:
        """
        Saves what is there now, if automatic checkpoints are on and something changed since the last one.

        Initializes by itself. The result is an id also when nothing had changed: that of the checkpoint that holds it.
        """
        return await self.save_automatic(f"Before {what}", step=step)

    async def save_automatic(self, message: str, kind: str = "step", step: int | None = None) -> CheckpointResult:
        """Saves without a request, only while `auto_checkpoint` is on; initializes if needed."""
        if not self.config.auto_checkpoint or not self.config.enabled:
            return CheckpointResult.fail("Automatic checkpoints are off")
        if not self._initialized and not await self.initialize():
            return CheckpointResult.fail(self.last_error)
        # Kinds have limits of their own, and the limit of this service is `max_checkpoints`.
        about = {"automatic": True, "wanted": kind}
        return await self._save(message, step=step, kind="step", extra=about)

    @asynccontextmanager
    async def changing(self, what: str = "a change", *, on_error: str = "keep") -> AsyncIterator[CheckpointResult]:
        """Saves on entry; with `on_error="restore"`, restores the workspace on an exception."""
        before = await self.before_change(what)
        try:
            yield before
        except BaseException:
            if on_error == "restore" and before:
                # Shielded: a cancelled task must not cut its own restore short.
                await asyncio.shield(self.restore(before))
            raise

    def tool(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Returns a tool for `Agent(tools=[…])` that saves before each call; a failing save never stops the call."""
        name = getattr(function, "__name__", "a tool")

        @wraps(function)
        async def awaited(*args: Any, **options: Any) -> Any:
            await self.before_change(name)
            return await function(*args, **options)

        @wraps(function)
        def called(*args: Any, **options: Any) -> Any:
            self._before_call(name)
            return function(*args, **options)

        return awaited if inspect.iscoroutinefunction(function) else called

    def tools(self, functions: Sequence[Callable[..., Any]]) -> Tools:
        """Returns the same tools, those that can change files with a checkpoint before each call."""
        return [self.tool(f) if judge(getattr(f, "__name__", ""), None).changes else f for f in functions]

    def before_tool(self, tool: Any, arguments: Any = None) -> None:
        """Saves before a tool that can change files: a hook for an agent's own loop, called with its name or its event."""
        name = str(getattr(tool, "tool_name", tool))
        given = arguments if arguments is not None else getattr(tool, "tool_input", None)
        if judge(name, given).changes:
            self._before_call(name)

    def agent_loop(self, rules: LoopRules = LoopRules(before="changes")) -> AsyncAgentLoop:  # noqa: B008 - a value
        """Returns the checkpoints of an agent's loop, saved by this service while `auto_checkpoint` is on."""
        return AsyncAgentLoop(_ForLoop(self), rules, auto_checkpoint=lambda: self.config.auto_checkpoint)

    def _before_call(self, name: str) -> None:
        """Saves from code that cannot await, in a loop or outside one; trouble is logged and does not stop the tool."""
        if not self.config.auto_checkpoint or not self.config.enabled:
            return
        try:
            if not self._initialized:
                self._history.begin()
                self._initialized = True
                self._emit_now(CheckpointEvent.INITIALIZED, {"workspace": self.workspace_dir})
            made = self._history.save(f"Before {name}", kind="step", extra={"automatic": True})
        except NotSaved:
            return  # the last checkpoint holds this state already
        except (MulliganError, OSError) as error:
            self.last_error = words(error)
            logger.warning("No checkpoint before %s: %s", name, self.last_error)
            self._emit_now(CheckpointEvent.ERROR, {"error": self.last_error})
            return
        if made.pruned:
            self._emit_now(CheckpointEvent.PRUNED, {"action": "pruned", "removed_count": made.pruned})
        self._emit_now(CheckpointEvent.CREATED, made.checkpoint)


async def _quietly(answer: Awaitable[Any]) -> None:
    try:
        await answer
    except Exception as error:  # noqa: BLE001 - a handler's own business
        logger.warning("Event handler error: %s", error)


class _ForLoop:
    """The service as an agent's loop wants it: `save(description, kind)`, None where nothing had changed."""

    def __init__(self, service: CheckpointService) -> None:
        self._service = service

    async def save(self, description: str, kind: str) -> Checkpoint | None:
        result = await self._service.save_automatic(description, kind)
        if not result and not len(result):
            raise UserError(result.error or "")
        return result.checkpoint
