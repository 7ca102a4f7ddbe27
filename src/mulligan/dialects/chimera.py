"""
Chimera's checkpoints: change `from chimera.checkpoints import …` to `from mulligan.dialects.chimera import …`.

    env = LocalEnvironment(working_dir="project")
    manager = CheckpointManager(env)
    manager.create(name="before-refactor")
    ...
    manager.undo()

Names, fields, defaults, errors and messages are those of the original, in both spellings where its document and its code
differ. Thin: states are kept by the environments, files by the engine, so what the manager saves is in `mulligan log`, and a
restore is one `mulligan undo` away. Records survive the process wherever the environment has a place for them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from mulligan.engine.workspace import Workspace
from mulligan.environments.base import CommandResult, Environment, TestResult
from mulligan.environments.docker import DockerEnvironment
from mulligan.environments.ghost import GhostCommitManager, GhostSnapshot
from mulligan.environments.git import GitEnvironment
from mulligan.environments.local import (
    EvictedCheckpointWarning,
    IncompleteRestoreWarning,
    LargeCheckpointWarning,
    LocalEnvironment,
)
from mulligan.loop.agent import AgentLoop, LoopRules
from mulligan.loop.risk import RiskVerdict, judge

__all__ = [
    "CheckpointInfo",
    "CheckpointManager",
    "CommandResult",
    "DockerEnvironment",
    "Environment",
    "EvictedCheckpointWarning",
    "GhostCommitManager",
    "GhostSnapshot",
    "GitEnvironment",
    "IncompleteRestoreWarning",
    "LargeCheckpointWarning",
    "LocalEnvironment",
    "LoopConfig",
    "TestResult",
    "ToolExecutor",
]

#: Arguments of tools that name the files they change.
PATH_ARGUMENTS = ("path", "file_path", "filename", "paths", "source", "destination", "old_path", "new_path")
#: Fields of Chimera's own LoopConfig whose default is not None.
_LOOP_DEFAULTS = {"auto_compact_threshold": 0.8, "yolo_mode": False, "_default_permissions_applied": False}


@dataclass
class CheckpointInfo:
    """The description of a checkpoint."""

    id: str
    name: str
    timestamp: float
    description: str = ""

    @property
    def time_str(self) -> str:
        """The time for people, in the local zone."""
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(self.timestamp))


class CheckpointManager:
    """Named checkpoints of an environment; a directory or a workspace stands for the local environment over it."""

    def __init__(self, env: Environment | Workspace | str | os.PathLike[str]) -> None:
        if isinstance(env, Workspace):
            env = LocalEnvironment(workspace=env)
        elif isinstance(env, str | os.PathLike):
            env = LocalEnvironment(env)
        self.env: Any = env
        # Chimera's own local environment copies the whole tree; the engine keeps the same directory underneath.
        foreign = type(env).__module__ == "chimera.env.local" and not isinstance(env, Environment)
        self._keeper: Any = LocalEnvironment(getattr(env, "workdir", None)) if foreign else env
        self._auto: bool | None = None
        self._own: list[dict[str, Any]] = []

    # -- saving ---------------------------------------------------------------------------------

    def create(self, name: str = "", description: str = "", *, kind: str = "manual") -> CheckpointInfo:
        """Saves the environment's state; without a name it is called checkpoint-1, checkpoint-2 and so on."""
        known = self._known()
        chosen = name or _next_name(known)
        saves = getattr(self._keeper, "checkpoint_as", None)
        saved = saves(chosen, description, kind) if saves is not None else self._keeper.checkpoint()
        info = CheckpointInfo(saved, chosen, time.time(), description)
        self._add(asdict(info))
        return info

    # -- going back -----------------------------------------------------------------------------

    def restore_by_name(self, name: str) -> CheckpointInfo:
        """Restores the newest checkpoint of this name; KeyError when there is none."""
        return self._restore(self.get(name), f"No checkpoint named '{name}'")

    def restore_by_id(self, checkpoint_id: str) -> CheckpointInfo:
        """Restores the checkpoint with this id; KeyError when there is none."""
        found = next((info for info in self.list_checkpoints() if info.id == checkpoint_id), None)
        return self._restore(found, f"No checkpoint with ID '{checkpoint_id}'")

    def undo(self) -> CheckpointInfo | None:
        """Restores the latest checkpoint and returns it, None if there is none; again does the same again."""
        known = self.list_checkpoints()
        return self._restore(known[-1], "") if known else None

    def _restore(self, found: CheckpointInfo | None, missing: str) -> CheckpointInfo:
        if found is None:
            raise KeyError(missing)
        self._keeper.restore(found.id)
        return found

    # -- looking --------------------------------------------------------------------------------

    def list_checkpoints(self) -> list[CheckpointInfo]:
        """Returns every checkpoint that can be restored, in the order of creation."""
        ids = getattr(self._keeper, "checkpoint_ids", lambda: None)()
        known = self._known()
        there = known if ids is None else [info for info in known if info.id in set(ids)]
        return list(there)

    def get(self, name: str) -> CheckpointInfo | None:
        """Returns the newest checkpoint of this name, None when there is none."""
        return next((info for info in reversed(self.list_checkpoints()) if info.name == name), None)

    def clear(self) -> None:
        """Forgets the records; the environment's checkpoints stay."""
        self._own.clear()
        if self._has_records:
            self._keeper.clear_records()

    @property
    def auto_checkpoint(self) -> bool:
        """Whether a loop saves by itself: False until it is set, or until the manager is given to a loop, which sets it."""
        return bool(self._auto)

    @auto_checkpoint.setter
    def auto_checkpoint(self, value: bool) -> None:
        self._auto = bool(value)

    def join_loop(self, *, wanted: bool | None = None) -> None:
        """Sets `auto_checkpoint` from a loop's configuration; turns it on if neither was set."""
        if wanted is not None:
            self._auto = wanted
        elif self._auto is None:
            self._auto = True

    # -- records --------------------------------------------------------------------------------

    @property
    def _has_records(self) -> bool:
        return hasattr(self._keeper, "records") and hasattr(self._keeper, "add_record")

    def _known(self) -> list[CheckpointInfo]:
        rows = self._keeper.records() if self._has_records else self._own
        fields = ("id", "name", "timestamp", "description")
        return [CheckpointInfo(**{key: row[key] for key in fields}) for row in rows]

    def _add(self, record: dict[str, Any]) -> None:
        if self._has_records:
            self._keeper.add_record(record)
        else:
            self._own.append(record)


def _next_name(known: list[CheckpointInfo]) -> str:
    """Returns the next free number's name; skips names that were given by hand."""
    taken, number = {info.name for info in known}, len(known) + 1
    while f"checkpoint-{number}" in taken:
        number += 1
    return f"checkpoint-{number}"


# -- the loop -----------------------------------------------------------------------------------


class LoopConfig:
    """
    The configuration of an agent's loop.

    `checkpoint_interval=1` saves after every successful tool call, n after every n-th; `risky_tools` are saved before as
    well, beside those that look dangerous by themselves. Chimera's other fields are kept as given; one that was not given
    has Chimera's own default (its safe permissions too, where Chimera is loaded), so that its loops take this configuration.
    """

    def __init__(
        self,
        *,
        checkpoint_manager: CheckpointManager | None = None,
        ghost_commits: GhostCommitManager | None = None,
        checkpoint_interval: int = 1,
        auto_checkpoint: bool | None = None,
        risky_tools: Iterable[str] = (),
        **others: Any,
    ) -> None:
        self.checkpoint_manager = checkpoint_manager
        self.ghost_commits = ghost_commits
        self.checkpoint_interval = checkpoint_interval
        self.auto_checkpoint = auto_checkpoint
        self.risky_tools = tuple(risky_tools)
        self.__dict__.update(_completed(others))
        if checkpoint_manager is not None:
            checkpoint_manager.join_loop(wanted=auto_checkpoint)

    def __getattr__(self, name: str) -> Any:
        if name in _LOOP_DEFAULTS:
            return _LOOP_DEFAULTS[name]
        if name.startswith("_"):
            raise AttributeError(name)
        return None  # a field of Chimera's that was not given

    def __repr__(self) -> str:
        return f"LoopConfig({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"

    @property
    def saves(self) -> bool:
        """Whether the loop saves by itself."""
        manager = self.checkpoint_manager
        return manager is not None and bool(getattr(manager, "auto_checkpoint", True))


def _completed(others: dict[str, Any]) -> dict[str, Any]:
    """Returns the fields that were given, completed by Chimera itself where its loop is loaded."""
    import sys

    original = getattr(sys.modules.get("chimera.core.loop_config"), "LoopConfig", None)
    if original is None or original is LoopConfig:
        return others
    known = getattr(original, "__dataclass_fields__", {})
    made = vars(original(**{name: value for name, value in others.items() if name in known}))
    return {**others, **{name: made[name] for name in made if name not in ("checkpoint_manager", "ghost_commits")}}


class ToolExecutor:
    """
    Runs an agent's tools with the checkpoints that a config asks for.

    Before a tool that can change files, those it names go onto the ghost stack, or the whole workspace where it names none
    (a shell command); before a risky tool and after successful ones, the manager saves. Trouble of these never stops the tool. A tool fails by raising, or by answering with `success` false.
    """

    def __init__(self, config: LoopConfig, tools: Mapping[str, Callable[..., Any]] | None = None) -> None:
        self.config = config
        self.tools = dict(tools or {})
        interval = config.checkpoint_interval
        if config.checkpoint_manager is not None:
            config.checkpoint_manager.join_loop(wanted=config.auto_checkpoint)
        rules = LoopRules(every_n_steps=interval, each_tool=interval == 1)
        self.loop = AgentLoop(_Saves(config), rules, auto_checkpoint=lambda: config.saves, judge=self._judge)

    def execute(self, tool: str, arguments: Mapping[str, Any] | None = None, **more: Any) -> Any:
        """Runs a tool and returns what it answers; KeyError for one that is not known."""
        from inspect import iscoroutinefunction

        given = {**(arguments or {}), **more}
        run = self.tools[tool]
        if iscoroutinefunction(run):
            raise TypeError(f"{tool} is a coroutine: await execute_async(…)")
        self.before(tool, given)
        try:
            answer = run(**given)
        except BaseException:
            self.loop.after_tool(tool, given, ok=False)
            raise
        self.after(tool, given, ok=_succeeded(answer))
        return answer

    async def execute_async(self, tool: str, arguments: Mapping[str, Any] | None = None, **more: Any) -> Any:
        """Runs a tool that is a coroutine; saving happens in a worker thread, so that the event loop goes on."""
        import asyncio

        given = {**(arguments or {}), **more}
        run = self.tools[tool]
        await asyncio.to_thread(self.before, tool, given)
        try:
            answer = await run(**given)
        except BaseException:
            self.loop.after_tool(tool, given, ok=False)
            raise
        await asyncio.to_thread(self.after, tool, given, ok=_succeeded(answer))
        return answer

    def before(self, tool: str, arguments: Mapping[str, Any]) -> None:
        """Does what belongs before a tool call, for loops that run their tools themselves."""
        ghost = self.config.ghost_commits
        if ghost is not None and self._judge(tool, arguments).changes:
            paths = named_paths(arguments)
            try:
                ghost.snapshot(f"{tool}: {', '.join(paths)}" if paths else tool, paths or None)
            except Exception as error:  # noqa: BLE001 - a tool that would fail by itself must be the one to say so
                self._troubled(error)
        self.loop.before_tool(tool, arguments)

    def after(self, tool: str, arguments: Mapping[str, Any], *, ok: bool = True) -> None:
        """Does what belongs after a tool call."""
        self.loop.after_tool(tool, arguments, ok=ok)

    def _judge(self, tool: str, arguments: object) -> RiskVerdict:
        if tool in self.config.risky_tools:
            return RiskVerdict("listed as risky", changes=True)
        return judge(tool, arguments)

    @staticmethod
    def _troubled(error: Exception) -> None:
        import logging

        logging.getLogger("mulligan.loop").warning("no snapshot could be made: %s", error)


def named_paths(arguments: Mapping[str, Any]) -> list[str]:
    """Returns the files that a tool's arguments name."""
    values = [arguments.get(name) for name in PATH_ARGUMENTS]
    flat = [path for value in values for path in (value if isinstance(value, list | tuple) else [value])]
    found = [os.fspath(path) for path in flat if isinstance(path, str | os.PathLike) and os.fspath(path)]
    return list(dict.fromkeys(found))


class _Saves:
    """A manager as the loop's checkpointer."""

    def __init__(self, config: LoopConfig) -> None:
        self._config = config

    def save(self, description: str, kind: str) -> CheckpointInfo | None:
        """Saves through the manager."""
        manager = self._config.checkpoint_manager
        return manager.create(description=description, kind=kind) if manager is not None else None


def _succeeded(answer: Any) -> bool:
    if isinstance(answer, Mapping):
        return bool(answer.get("success", not answer.get("error")))
    return bool(getattr(answer, "success", True))
