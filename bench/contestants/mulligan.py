"""
mulligan itself: as a library with the workspace kept open, as an agent would, and as a cold command line.

Every checkpoint is durable when the call returns, and every restore saves the present state first; no switch turns either
off for the measurement.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, ClassVar

from bench import machine
from bench.contestants import NotAvailable, git_listing


class MulliganLibrary:
    """`mulligan.open` once, then `save`, `restore`, `log`, `prune` on that workspace."""

    key: ClassVar[str] = "mulligan"
    title: ClassVar[str] = "mulligan"
    about: ClassVar[str] = "library in process, workspace kept open; durable; a restore saves the present state first"
    own_names: ClassVar[frozenset[str]] = frozenset()
    first_only: ClassVar[bool] = False

    def __init__(self, workspace: Path, store: Path, /) -> None:
        self.workspace = workspace
        self.store = store / "mulligan"
        self._open: Any = None

    @classmethod
    def prepare(cls, _peers: Path, /) -> str:
        try:
            _ = _module().open
        except (ImportError, AttributeError) as error:
            raise NotAvailable(f"mulligan cannot be used: {error}") from error
        return str(getattr(_module(), "__version__", "of this checkout"))

    def first(self) -> str:
        self.close()
        self._open = self._opened()
        return self.save()

    def _opened(self) -> Any:
        return _module().open(self.workspace, store=self.store)

    def save(self) -> str:
        return str(self._open.save("checkpoint").id)

    def save_unchanged(self) -> bool:
        return self._open.save("checkpoint", if_changed=True) is None

    def restore(self, ref: str) -> None:
        self._open.restore(ref)

    def log(self) -> int:
        return len(self._open.log())

    def gc(self) -> None:
        self._open.prune()

    def listing(self, ref: str) -> dict[str, str]:
        return git_listing(repository(self.store), f"{self._open.get(ref).commit}:files")

    def read(self, ref: str, path: str) -> bytes:
        return bytes(self._open.cat(ref, path))

    def store_paths(self) -> list[Path]:
        return [self.store]

    def close(self) -> None:
        if self._open is not None and hasattr(self._open, "close"):
            self._open.close()
        self._open = None


class MulliganCommand:
    """The command `mulligan`, one fresh process per operation: interpreter start and imports included."""

    key: ClassVar[str] = "mulligan-cli"
    title: ClassVar[str] = "mulligan, command line"
    about: ClassVar[str] = (
        "the command as pip installs it, a fresh process every time; durable; a restore saves the present state first"
    )
    own_names: ClassVar[frozenset[str]] = frozenset()
    first_only: ClassVar[bool] = False

    def __init__(self, workspace: Path, store: Path, /) -> None:
        self.workspace = workspace
        self.store = store / "mulligan"
        self._environment = dict(os.environ)

    @classmethod
    def prepare(cls, peers: Path, /) -> str:
        version = MulliganLibrary.prepare(peers)
        done = subprocess.run([*cls._command(), "--help"], check=False, capture_output=True, text=True)
        if done.returncode != 0:
            raise NotAvailable(f"mulligan --help exited with {done.returncode}: {done.stderr.strip()[-200:]}")
        return version

    def first(self) -> str:
        return self.save()

    def save(self) -> str:
        return str(json.loads(self._call("save", "checkpoint"))["checkpoint"]["id"])

    def save_unchanged(self) -> bool:
        return json.loads(self._call("save", "checkpoint", "--if-changed"))["checkpoint"] is None

    def restore(self, ref: str) -> None:
        self._call("restore", ref, "-y")

    def log(self) -> int:
        return len(json.loads(self._call("log"))["checkpoints"])

    def gc(self) -> None:
        self._call("gc")

    def listing(self, ref: str) -> dict[str, str]:
        commit = json.loads(self._call("show", ref))["checkpoint"]["commit"]
        return git_listing(repository(self.store), f"{commit}:files")

    def read(self, ref: str, path: str) -> bytes:
        return self._call("cat", f"{ref}:{path}", as_json=False)

    def store_paths(self) -> list[Path]:
        return [self.store]

    def close(self) -> None:
        """Nothing stays open between commands."""

    @staticmethod
    def _command() -> list[str]:
        return [sys.executable, str(machine.launcher(Path(_module().__file__).parents[1]))]

    def _call(self, *args: str, as_json: bool = True) -> bytes:
        command = [*self._command(), "-C", str(self.workspace), "--store", str(self.store)]
        command += ["--json", *args] if as_json else args
        done = subprocess.run(
            command, check=False, capture_output=True, stdin=subprocess.DEVNULL, env=self._environment
        )
        if done.returncode != 0:
            text = (done.stderr or done.stdout).decode(errors="replace").strip()
            raise RuntimeError(f"mulligan {args[0]} exited with {done.returncode}: {text[:300]}")
        return done.stdout


class MulliganWatching(MulliganLibrary):
    """The same with `ws.watch()`: the kernel tells what changed."""

    key: ClassVar[str] = "mulligan-watching"
    title: ClassVar[str] = "mulligan, watching"
    about: ClassVar[str] = "library in process, workspace kept open and watched (`ws.watch()`); durable"

    def first(self) -> str:
        self.close()
        self._open = self._opened()
        self._open.watch()
        return self.save()


class MulliganWatched(MulliganCommand):
    """The command line with a watcher up; starting it counts for nobody, since it is started once."""

    key: ClassVar[str] = "mulligan-watched"
    title: ClassVar[str] = "mulligan, command line, watcher up"
    about: ClassVar[str] = "the command as pip installs it, a fresh process every time that asks a watcher; durable"
    _started = False

    def _call(self, *args: str, as_json: bool = True) -> bytes:
        if not self._started and self.store.is_dir():
            self._started = True
            super()._call("watch", "--background")
        return super()._call(*args, as_json=as_json)

    def close(self) -> None:
        if self._started:
            super()._call("watch", "--stop")
        self._started = False


class MulliganClient(MulliganWatched):
    """The native client beside this interpreter, with a watcher up."""

    key: ClassVar[str] = "mulligan-client"
    title: ClassVar[str] = "mulligan-client, watcher up"
    about: ClassVar[str] = "the native client, a fresh process every time that asks a watcher; durable"

    @staticmethod
    def _command() -> list[str]:
        client = Path(sys.executable).with_name("mulligan-client")
        if not client.exists():
            raise NotAvailable("no mulligan-client beside this interpreter")
        return [str(client)]


def _module() -> Any:
    # Imported when it is needed: a checkout that cannot be imported is a line in the report, not a traceback.
    return importlib.import_module("mulligan")


def repository(store: Path) -> Path:
    """Returns the git directory of a store: the shallowest directory that holds HEAD and objects."""
    for where, directories, files in os.walk(store):
        if "HEAD" in files and "objects" in directories:
            return Path(where)
    raise FileNotFoundError(f"no git repository below {store}")
