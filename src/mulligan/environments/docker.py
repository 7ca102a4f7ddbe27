"""
A container as an environment: Docker's or podman's, with its whole file system and what is mounted into it.

Before `setup` (or `with`) there is no container, and files live in memory, which is enough for tests of code that takes an
environment; `setup` moves them, and the checkpoints made of them, into the container. After it, a checkpoint is an image plus
a checkpoint of every mounted directory, and survives the process: another one that opens the same name finds container and
checkpoints again.

Not saved: the memory of processes, volumes, networks. See docs/explanation/limits.md.
"""

from __future__ import annotations

import os
import shlex
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from mulligan.environments.base import (
    DEFAULT_COMMAND_TIMEOUT,
    DEFAULT_TEST_COMMAND,
    CommandResult,
    Environment,
    matches,
    path_below,
    unknown_checkpoint,
)
from mulligan.environments.container import files
from mulligan.environments.container.checkpoints import MANUAL, REQUEST, SAFETY, ContainerCheckpoint, decode
from mulligan.environments.container.engine import Engine, connect, engine_of
from mulligan.environments.container.execute import run_command
from mulligan.environments.container.history import ContainerHistory
from mulligan.environments.container.record import EnvironmentRecord, valid_name
from mulligan.environments.container.request import make_request, refuse_other_request, writable
from mulligan.environments.container.trouble import EngineRefused, EngineUnreachable, Missing, NotRunning, load_docker
from mulligan.errors import NothingToRedo, NothingToUndo
from mulligan.safefs.directory import random_name
from mulligan.settings import places
from mulligan.settings.variables import container_engines

__all__ = ["ContainerCheckpoint", "DockerEnvironment", "EngineRefused", "EngineUnreachable"]

Answer = TypeVar("Answer")


class DockerEnvironment(Environment):
    """
    A container, by Docker or podman.

    `mounts` maps directories of this machine to paths in the container; each is saved and restored with the container,
    except one that ends in `:ro`. `name` is how a later process finds the environment again; without one, `cleanup`
    removes the images too. `retain` keeps the newest so many checkpoints. `options` are further keywords of the
    docker package's host configuration, such as `mem_limit`.
    """

    def __init__(
        self,
        image: str = "python:3.11-slim",
        workdir: str = "/workspace",
        test_cmd: str = DEFAULT_TEST_COMMAND,
        sandbox: Any = None,
        *,
        base_url: str | None = None,
        socket: str | None = None,
        mounts: Mapping[str | os.PathLike[str], str] | None = None,
        environment: Mapping[str, str] | None = None,
        command: str | Sequence[str] | None = None,
        user: str = "",
        ports: Mapping[str | int, Any] | None = None,
        labels: Mapping[str, str] | None = None,
        options: Mapping[str, Any] | None = None,
        name: str | None = None,
        retain: int | None = None,
        client: Any = None,
    ) -> None:
        load_docker()
        if base_url is not None and socket is not None:
            raise TypeError("base_url and socket are two names for one thing; give one of them")
        if retain is not None and retain < 1:
            raise ValueError(f"retain keeps at least one checkpoint, not {retain}")
        self.name = valid_name(name) if name is not None else f"mulligan-{random_name(4)}"
        self.image, self.workdir, self.test_cmd = image, workdir, test_cmd
        self.retain = retain
        self.last_recovery = ""
        self._named = name is not None
        self._url = base_url or (f"unix://{os.path.abspath(socket)}" if socket is not None else None)
        self._client = client
        self._given: dict[str, Any] = {"mounts": mounts, "environment": environment, "command": command, "ports": ports}
        self._request = make_request(
            name=self.name, workdir=workdir, user=user, labels=labels, sandbox=sandbox, options=options, **self._given
        )
        self._mutex = threading.RLock()
        self._history: ContainerHistory | None = None
        self._container = ""
        self._files: dict[str, str] = {}
        #: Checkpoints made before there is a container: name, description, files. Then their ids, by those inside.
        self._memory: dict[str, tuple[str, str, dict[str, str]]] = {}
        self._known_as: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"<DockerEnvironment {self.name!r}>"

    # -- life -----------------------------------------------------------------------------------

    def setup(self) -> None:
        """Finds the environment's container and starts it, or makes one; files written before are put into it."""
        with self._mutex:
            if self._history is None:
                history = self._open()
                try:
                    self._container = self._ready(history)
                except BaseException:
                    history.close()
                    raise
                self._history = history
                self._move_in(history)
            else:
                self._revive()

    def _move_in(self, history: ContainerHistory) -> None:
        """Puts files and checkpoints that were made before the container into it; ids of those checkpoints stay valid."""
        inside: dict[str, str] = {}
        for known, (name, description, state) in self._memory.items():
            self._become(inside, state)
            with self._held("checkpoint"):
                self._known_as[history.save(name=name, description=description).id] = known
        self._become(inside, self._files)
        now = {known: made for made, known in self._known_as.items()}
        for record in super().records():
            with self._held("note"):
                notes = [*history.record.notes, {**record, "id": now.get(record["id"], record["id"])}]
                history.record.set_notes(notes)
        super().clear_records()
        self._memory.clear()
        self._files.clear()

    def _become(self, inside: dict[str, str], state: dict[str, str]) -> None:
        """Makes the container hold these files in place of those in `inside`, which follows."""
        for path in [path for path in inside if path not in state]:
            self.run_command(f"rm -f -- {shlex.quote(path)}")
            del inside[path]
        for path, content in state.items():
            if inside.get(path) != content:
                self.write_file(path, content)
                inside[path] = content

    def _open(self) -> ContainerHistory:
        engine = engine_of(self._client) if self._client is not None else connect(self._urls())
        history = ContainerHistory(
            engine, self.name, EnvironmentRecord(places().environments, self.name), retain=self.retain
        )
        if not engine.is_local and self._request["mounts"]:
            raise EngineRefused(
                f"The engine at {engine.url} runs elsewhere: it would mount its own directories, not yours. Nothing was changed.",
                hint="Use an engine on this machine, or leave mounts out",
            )
        return history

    def _urls(self) -> tuple[str, ...]:
        return (self._url,) if self._url is not None else container_engines()

    def _ready(self, history: ContainerHistory) -> str:
        for host, _ in writable(self._request):
            history.workspace(host)
        with history.record.holding("setup"):
            self.last_recovery = history.recover()
            live = history.live()
            if live is None:
                return history.start(self._request, self.image).id
            refuse_other_request(self.name, decode(live.labels[REQUEST]), self._request, self._given)
            self._request = decode(live.labels[REQUEST])
            self.workdir = self._request["workdir"]
            history.engine.wake(live.id)
            return live.id

    def cleanup(self, *, images: bool | None = None) -> None:
        """Removes the container; `images` also the checkpoints' images (by default those of an environment without a name)."""
        with self._mutex:
            if self._history is None:
                if not images:
                    return
                self._history = self._open()
            too = not self._named if images is None else images
            with self._held("cleanup") as history:
                history.remove_all(images=too)
                if too:
                    history.record.remove()
            history.close()
            if self._client is None:
                history.engine.close()
            self._history, self._container = None, ""

    @contextmanager
    def _held(self, purpose: str) -> Iterator[ContainerHistory]:
        """Locks the environment for one step; finishes an interrupted step first."""
        with self._mutex:
            history = self._engaged()
            with history.record.holding(purpose):
                self.last_recovery = history.recover() or self.last_recovery
                yield history

    def _engaged(self) -> ContainerHistory:
        if self._history is None:
            raise EngineRefused(
                f"The environment {self.name} has no container yet. Nothing was changed.", hint="setup()"
            )
        return self._history

    def _revive(self) -> str:
        """Finds the container that is the environment's now (another process may have restored) and makes it run."""
        with self._held("start") as history:
            live = history.needed()
            history.engine.wake(live.id)
            self._container = live.id
        return self._container

    def _with_container(self, ask: Callable[[Engine, str], Answer]) -> Answer:
        """Sends a request to the running container; retries once if it was stopped, paused or replaced."""
        history = self._engaged()
        try:
            return ask(history.engine, self._container)
        except (Missing, NotRunning):
            return ask(history.engine, self._revive())

    # -- files ----------------------------------------------------------------------------------

    def read_file(self, path: str) -> str:
        """Returns the text of a file; bytes that are not UTF-8 survive a write of the same text."""
        if self._history is None:
            if (known := path_below(self.workdir, path)) not in self._files:
                raise FileNotFoundError(path)
            return self._files[known]
        data = self._with_container(lambda engine, live: files.read_file(engine, live, self.workdir, path))
        return data.decode("utf-8", "surrogateescape")

    def write_file(self, path: str, content: str) -> None:
        """Writes a file, making the directories above it; it keeps its owner and permission bits."""
        if self._history is None:
            if not (known := path_below(self.workdir, path)):
                raise IsADirectoryError(path)
            self._files[known] = content
            return
        data = content.encode("utf-8", "surrogateescape")
        self._with_container(lambda engine, live: files.write_file(engine, live, self.workdir, path, data))

    def list_files(self, pattern: str = "**/*") -> list[str]:
        """Returns the files below the working directory whose path matches a pattern, sorted; git's own are left out."""
        if self._history is None:
            wanted = [part for part in pattern.split("/") if part not in {"", "."}]
            return sorted(path for path in self._files if matches(path.split("/"), wanted))
        return self._with_container(lambda engine, live: files.list_files(engine, live, self.workdir, pattern))

    # -- commands -------------------------------------------------------------------------------

    def run_command(
        self, cmd: str, timeout: float | None = DEFAULT_COMMAND_TIMEOUT, shell_name: str = "main"
    ) -> CommandResult:
        """Runs a shell command in the working directory, each in a shell of its own whatever `shell_name` says."""
        del shell_name
        if self._history is None:
            return CommandResult("", "No container", 1)
        return self._with_container(
            lambda engine, live: run_command(engine, live, cmd, workdir=self.workdir, timeout=timeout)
        )

    # -- checkpoints ----------------------------------------------------------------------------

    def checkpoint(self) -> str:
        """Saves the container and every mounted directory in the same breath, and returns the id."""
        return self.checkpoint_as("")

    def checkpoint_as(self, name: str, description: str = "", kind: str = "manual") -> str:
        """Saves under a name that `checkpoints` and, for mounted directories, `mulligan log` show."""
        del kind
        with self._mutex:
            if self._history is None:
                fresh = random_name(4)
                self._memory[fresh] = (name, description, dict(self._files))
                return fresh
            with self._held("checkpoint") as history:
                return history.save(name=name, description=description).id

    def restore(self, checkpoint_id: str) -> None:
        """Takes the container and every mounted directory back to a checkpoint; one `undo` takes that back."""
        with self._mutex:
            if self._history is None:
                if checkpoint_id not in self._memory:
                    raise unknown_checkpoint(checkpoint_id)
                self._files = dict(self._memory[checkpoint_id][2])
                return
            inside = {known: made for made, known in self._known_as.items()}.get(str(checkpoint_id), str(checkpoint_id))
            self._move(lambda history: history.restore(inside))

    def undo(self) -> ContainerCheckpoint:
        """Takes the last restore back, container and files; raises NothingToUndo."""
        if self._history is None:
            raise NothingToUndo("There is no container, so nothing was restored. Nothing was changed.", hint="setup()")
        return self._move(lambda history: history.undo())

    def redo(self) -> ContainerCheckpoint:
        """Takes the last undo back; raises NothingToRedo."""
        if self._history is None:
            raise NothingToRedo("There is no container, so nothing was undone. Nothing was changed.", hint="setup()")
        return self._move(lambda history: history.redo())

    def _move(self, go: Callable[[ContainerHistory], ContainerCheckpoint]) -> ContainerCheckpoint:
        with self._held("restore") as history:
            reached = go(history)
            self._container = history.needed().id
            return reached

    def checkpoints(self) -> list[ContainerCheckpoint]:
        """Returns what can be restored, oldest first; those of kind `safety` were made by restores."""
        if self._history is None:
            return []
        with self._held("list") as history:
            return history.checkpoints(MANUAL, SAFETY)

    def checkpoint_ids(self) -> list[str]:
        """Returns the ids that can be restored, oldest first."""
        if self._history is None:
            return list(self._memory)
        return [self._known_as.get(each.id, each.id) for each in self.checkpoints()]

    def clone(self) -> DockerEnvironment:
        """Returns a second environment in the same state; mounted files are copied into it, and ports are its own."""
        other = DockerEnvironment(
            self.image, self.workdir, self.test_cmd, base_url=self._url, retain=self.retain, client=self._client
        )
        with self._mutex:
            if self._history is None:
                other._files = dict(self._files)
                return other
            with self._held("clone") as history:
                other._adopt(history)
        return other

    def _adopt(self, original: ContainerHistory) -> None:
        history = self._open()
        made = original.clone(history)
        self._history, self._container, self._request = history, made.id, decode(made.labels[REQUEST])

    # -- what people said -----------------------------------------------------------------------

    def records(self) -> list[dict[str, Any]]:
        """Returns what was said about checkpoints, by this process or an earlier one."""
        if self._history is None:
            return super().records()
        with self._held("list") as history:
            notes = history.record.notes
        return [{**note, "id": self._known_as.get(note["id"], note["id"])} for note in notes]

    def add_record(self, record: dict[str, Any]) -> None:
        """Keeps a record about a checkpoint beside the environment."""
        if self._history is None:
            super().add_record(record)
            return
        with self._held("note") as history:
            history.record.set_notes([*history.record.notes, dict(record)])

    def clear_records(self) -> None:
        """Forgets every record; checkpoints stay."""
        if self._history is None:
            super().clear_records()
            return
        with self._held("note") as history:
            history.record.set_notes([])
