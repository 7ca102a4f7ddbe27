"""
A directory on this machine as an environment, checkpointed by the engine.

Ids are decimal counters that are never used twice. Nothing is put into the directory: checkpoints live in the workspace's
own store, so `mulligan log` shows them and `mulligan undo` takes a restore back. Copies that Chimera itself left in
`.chimera/checkpoints/<n>` or `.chimera_checkpoints/<n>` can be restored too; they are read, never changed.

What Chimera leaves out by name is neither captured nor removed, at any depth, with one difference: source may live in
directories called build, dist or target, so what is in them is captured and comes back, and what is new in them stays.
"""

from __future__ import annotations

import os
import stat
import warnings
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from mulligan.engine.workspace import Workspace
from mulligan.environments.base import (
    DEFAULT_COMMAND_TIMEOUT,
    DEFAULT_TEST_COMMAND,
    DEFAULT_TEST_TIMEOUT,
    CommandResult,
    Environment,
    matches,
    real_path_below,
    unknown_checkpoint,
)
from mulligan.environments.shell import ShellSession, run_once
from mulligan.errors import Unprotectable, UserError
from mulligan.model.checkpoint import Checkpoint
from mulligan.model.plan import RestoreReport
from mulligan.model.policy import Settings
from mulligan.model.sizes import format_size
from mulligan.safefs.directory import Directory
from mulligan.safefs.workfile import make_work_directory, read_work_file, write_work_file
from mulligan.settings import resolve
from mulligan.timeline.commits import COUNTED

#: Where older versions of Chimera kept their copies.
LEGACY_CHECKPOINT_DIRNAME = ".chimera_checkpoints"
#: Directories of these names are neither captured nor removed, at any depth.
EXCLUDED_DIRECTORIES = (
    *(".git", ".hg", ".svn", ".venv", "venv", ".virtualenv", "site-packages", ".eggs", "node_modules", "__pycache__"),
    *(".mypy_cache", ".pytest_cache", ".ruff_cache", ".tox", ".nox", ".cache", ".idea", ".vscode", ".chimera"),
    *(LEGACY_CHECKPOINT_DIRNAME, ".antigravitycli", ".next", ".nuxt", ".svelte-kit", ".gradle", ".astro"),
)
#: Output by habit, source now and then: captured, and nothing new in them is removed.
OUTPUT_DIRECTORIES = ("dist", "build", "target")
#: A checkpoint that adds more than this warns.
CHECKPOINT_SIZE_WARN_BYTES = 256 << 20

_COPIES = (b".chimera/checkpoints", os.fsencode(LEGACY_CHECKPOINT_DIRNAME))
_CONFIG = b".chimera/config.toml"
_CONFIG_LIMIT = 64 << 10
_MANY_RECORDS = 1000


class LargeCheckpointWarning(UserWarning):
    """A checkpoint added a lot to the store."""


class EvictedCheckpointWarning(UserWarning):
    """The budget of the store removed a checkpoint."""


class IncompleteRestoreWarning(UserWarning):
    """A restore left something as it was that should have come back."""


class LocalEnvironment(Environment):
    """A directory on this machine."""

    kind = "local"

    def __init__(
        self,
        workdir: str | os.PathLike[str] | None = None,
        test_cmd: str = DEFAULT_TEST_COMMAND,
        timeout: int = DEFAULT_TEST_TIMEOUT,
        session: bool = False,  # noqa: FBT001, FBT002 - the original's signature
        *,
        working_dir: str | os.PathLike[str] | None = None,
        store: str | os.PathLike[str] | None = None,
        workspace: Workspace | None = None,
    ) -> None:
        place = workdir if workdir is not None else working_dir
        if place is None and workspace is not None:
            place = workspace.root
        if place is None:
            raise TypeError("LocalEnvironment needs a directory: LocalEnvironment(workdir=…)")
        if workdir is not None and working_dir is not None and os.fspath(workdir) != os.fspath(working_dir):
            raise TypeError("workdir and working_dir are two names for one thing, and were given two values")
        self.workdir = Path(os.path.abspath(place))
        self.test_cmd = test_cmd
        self.timeout = self.test_timeout = timeout
        self.session = session
        self.last_report: RestoreReport | None = None
        self._store = store
        self._workspace = workspace
        self._sessions: dict[str, ShellSession] = {}
        self._label: tuple[str, str, str] = ("", "", "manual")
        self._trimming = False

    @property
    def workspace(self) -> Workspace:
        """The directory as a workspace of the engine; PermissionError for one that must not be captured (`/`, home)."""
        if self._workspace is None:
            try:
                self._workspace = Workspace(_with_rules(resolve(self.workdir, store=self._store)))
            except Unprotectable as error:
                raise PermissionError(str(error)) from error
            self._workspace.on("pruned", self._warn_if_evicted)
        return self._workspace

    # -- life -----------------------------------------------------------------------------------

    def setup(self) -> None:
        """Makes the directory if it is missing. Everything else happens when it is needed."""
        if not self.workdir.is_dir():
            make_work_directory("/", os.fsencode(os.path.realpath(self.workdir)).strip(b"/"))

    def cleanup(self) -> None:
        """Ends the session's shells and gives files back; checkpoints stay."""
        for session in self._sessions.values():
            session.close()
        self._sessions.clear()
        if self._workspace is not None:
            self._workspace.close()

    # -- files ----------------------------------------------------------------------------------

    def read_file(self, path: str) -> str:
        """Returns the text of a file, line ends as they are; bytes that are not UTF-8 survive a write of the same text."""
        try:
            data = read_work_file(self._root(), self._inside(path))
        except FileNotFoundError as error:
            raise FileNotFoundError(error.errno, error.strerror, path) from None
        return data.decode("utf-8", "surrogateescape")

    def write_file(self, path: str, content: str) -> None:
        """Writes a file, making the directories above it; it is replaced whole and keeps its permission bits."""
        self.setup()
        write_work_file(self._root(), self._inside(path), content.encode("utf-8", "surrogateescape"))

    def list_files(self, pattern: str = "**/*") -> list[str]:
        """Returns the files whose path matches a pattern, sorted; git's own files and Chimera's copies are left out."""
        wanted = [part for part in pattern.split("/") if part not in ("", ".")]
        return sorted(path for path in self._files() if matches(path.split("/"), wanted))

    def _files(self) -> Iterator[str]:
        root = self._root()
        hidden = {os.path.join(root, os.fsdecode(name)) for name in _COPIES}
        for here, directories, names in os.walk(root):
            directories[:] = [n for n in directories if n != ".git" and os.path.join(here, n) not in hidden]
            for name in names:
                whole = os.path.join(here, name)
                if name != ".git" and os.path.isfile(whole):
                    yield os.path.relpath(whole, root)

    def _root(self) -> str:
        return os.path.realpath(self.workdir)

    def _inside(self, path: str) -> bytes:
        return real_path_below(self._root(), path)

    # -- commands -------------------------------------------------------------------------------

    def run_command(
        self, cmd: str, timeout: float | None = DEFAULT_COMMAND_TIMEOUT, shell_name: str = "main"
    ) -> CommandResult:
        """Runs a shell command in the directory; with `session`, where the last one of the same shell left off."""
        self.setup()
        if not self.session:
            return run_once(cmd, cwd=self._root(), timeout=timeout)
        if shell_name not in self._sessions:
            self._sessions[shell_name] = ShellSession(self._root())
        return self._sessions[shell_name].run(cmd, timeout=timeout)

    # -- checkpoints ----------------------------------------------------------------------------

    def checkpoint(self) -> str:
        """Saves the directory and returns the checkpoint's number."""
        self.setup()
        number = self._next_number()
        saved = self._save(id=number, legacy=False)
        retain = self._retain()
        if retain is not None:
            self._trimming = True
            try:
                self.workspace.trim(retain, match={**self._mark, "legacy": False})
            finally:
                self._trimming = False
        self._warn_if_large(saved)
        return number

    def checkpoint_as(self, name: str, description: str = "", kind: str = "manual") -> str:
        """Saves the directory under a name that `mulligan log` shows."""
        self._label = (name, description, kind)
        try:
            return self.checkpoint()
        finally:
            self._label = ("", "", "manual")

    def restore(self, checkpoint_id: str) -> None:
        """Takes the directory back to a checkpoint; one `mulligan undo` takes that back."""
        found = self._find(str(checkpoint_id))
        if found is None:
            raise unknown_checkpoint(checkpoint_id)
        self._bring_back(found)

    def checkpoint_ids(self) -> list[str]:
        """Returns the numbers that can be restored, oldest first."""
        if not self._is_there():
            return []
        own = sorted(int(cp.metadata["id"]) for cp in self._saved(legacy=False))
        retain = self._retain()
        kept = own if retain is None else own[-retain:]
        return [str(number) for number in sorted({*kept, *self._copies()})]

    @property
    def _mark(self) -> dict[str, Any]:
        return {"dialect": "chimera", "environment": self.kind}

    def _save(self, **metadata: Any) -> Checkpoint:
        name, description, kind = self._label
        saved = self.workspace.save(
            name or None, description=description, kind=kind, metadata={**self._mark, COUNTED: True, **metadata}
        )
        if saved is None:
            raise RuntimeError("nothing was saved")  # only with if_changed, which is off
        return saved

    def _saved(self, **pairs: Any) -> list[Checkpoint]:
        return self.workspace.log(match={**self._mark, **pairs})

    def _find(self, checkpoint_id: str) -> Checkpoint | None:
        saved = self._saved(id=checkpoint_id)
        if saved:
            return saved[0]
        copies = {str(number): place for number, place in self._copies().items()}
        if checkpoint_id not in copies:
            return None
        return self.workspace.import_directory(
            os.path.join(self._root(), os.fsdecode(copies[checkpoint_id])),
            name=f"chimera-{checkpoint_id}",
            metadata={**self._mark, "id": checkpoint_id, "legacy": True},
        )

    def _bring_back(self, checkpoint: Checkpoint, *, stage: str = "") -> None:
        self.last_report = report = self.workspace.restore(checkpoint, stage=stage)
        if not report.complete:
            failed = ", ".join(f"{keep.path} ({keep.reason})" for keep in report.kept if keep.failed)
            warnings.warn(f"Restored, except: {failed}.", IncompleteRestoreWarning, stacklevel=3)

    def _next_number(self) -> str:
        key, copies = f"chimera.{self.kind}.next", self._copies()
        floor = max(copies, default=-1) + 1
        if self.workspace.note(key) is None:
            # A timeline that was rebuilt from the repository has lost its notes, not its checkpoints.
            floor = max([floor, *(int(cp.metadata["id"]) + 1 for cp in self._saved(legacy=False))])
        following: int = self.workspace.update_note(key, lambda old: max(old or 0, floor) + 1)
        return str(following - 1)

    def _copies(self) -> dict[int, bytes]:
        """Returns the copies that Chimera itself left here, by number; a link is none."""
        found: dict[int, bytes] = {}
        for place in reversed(_COPIES):
            with suppress(OSError), Directory.open(self._root()) as root, root.descend(place) as directory:
                for name in directory.names():
                    if name.isdigit() and name.isascii() and stat.S_ISDIR(directory.stat(name).st_mode):
                        found[int(name)] = place + b"/" + name
        return found

    def _retain(self) -> int | None:
        """Returns `storage.checkpoints.retain` of the project's `.chimera/config.toml`; what makes no sense is ignored."""
        import tomllib

        try:
            with Directory.open(self._root()) as root, root.descend(b".chimera") as directory:
                text = directory.read(b"config.toml", limit=_CONFIG_LIMIT).decode()
            retain = tomllib.loads(text)["storage"]["checkpoints"]["retain"]
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return retain if isinstance(retain, int) and not isinstance(retain, bool) and retain > 0 else None

    def _is_there(self) -> bool:
        """Returns whether there is a directory, or at least a store of one; a fresh one is made by the first checkpoint."""
        if self._workspace is None and not self.workdir.is_dir():
            try:
                return bool(self.workspace)
            except (PermissionError, UserError):
                return False
        return True

    def _warn_if_evicted(self, gone: object) -> None:
        """Says that the store's budget let a checkpoint go; what `retain` lets go was asked for."""
        if isinstance(gone, Checkpoint) and gone.has(self._mark) and not self._trimming:
            warnings.warn(
                f"Checkpoint {gone.metadata.get('id')} ({gone.name or 'without a name'}) was removed: the store reached its"
                " budget. Raise retention.budget, or keep fewer: [storage.checkpoints] retain = N in .chimera/config.toml.",
                EvictedCheckpointWarning,
                stacklevel=2,
            )

    def _warn_if_large(self, saved: Checkpoint) -> None:
        total = 0
        for path in saved.files_changed:
            with suppress(OSError):  # deleted, or gone since: nothing was added for it
                total += os.lstat(os.path.join(self._root(), path)).st_size
        if total > CHECKPOINT_SIZE_WARN_BYTES:
            warnings.warn(
                f"This checkpoint added {format_size(total)} of files. Exclude what can be rebuilt (capture.exclude), or "
                "keep fewer checkpoints: [storage.checkpoints] retain = N in .chimera/config.toml.",
                LargeCheckpointWarning,
                stacklevel=3,
            )

    # -- records --------------------------------------------------------------------------------

    def records(self) -> list[dict[str, Any]]:
        """Returns what was said about checkpoints, by this process or an earlier one."""
        if not self._is_there():
            return []
        kept: list[dict[str, Any]] = self.workspace.note(f"chimera.{self.kind}.records", [])
        return kept

    def add_record(self, record: dict[str, Any]) -> None:
        """Keeps a record about a checkpoint in the store; when there are many, those of checkpoints that went go too."""
        gone: set[str] = set()
        if len(known := self.records()) >= _MANY_RECORDS:
            gone = {row["id"] for row in known}.difference(self.checkpoint_ids(), [record["id"]])
        self.workspace.update_note(
            f"chimera.{self.kind}.records", lambda old: [row for row in [*(old or []), record] if row["id"] not in gone]
        )

    def clear_records(self) -> None:
        """Forgets every record; checkpoints stay."""
        if self.records():
            self.workspace.update_note(f"chimera.{self.kind}.records", lambda _: [])


def _with_rules(settings: Settings) -> Settings:
    """Returns settings with Chimera's own rules about directories added."""
    excluded = tuple(f"{name}/" for name in EXCLUDED_DIRECTORIES if name != ".git")
    capture = settings.capture._replace(exclude=(*settings.capture.exclude, *excluded), keep_new_in=OUTPUT_DIRECTORIES)
    return settings._replace(capture=capture)
