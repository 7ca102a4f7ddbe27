"""
What a command works with: the workspace it is about, the two screens, and the person, if one is there.

The workspace is opened when a command first asks for it. Paths that a person types are relative to where they stand, and
are translated to the workspace's own here.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

from mulligan import engine
from mulligan.cli.screen import Screen, tell
from mulligan.errors import MulliganError, NothingSaved, UnsafePath, UserError

if TYPE_CHECKING:
    from mulligan.engine.workspace import Workspace
    from mulligan.model.policy import Settings
    from mulligan.present.progress import ProgressLine


class Declined(BaseException):
    """
    The workspace that could be lent is another one than the command is about.

    Not an error, and not for commands to catch: the client then runs the command itself.
    """


Lender = Callable[["Settings"], "Workspace"]


class Context:
    """The circumstances of one command."""

    def __init__(
        self,
        *,
        directory: str | None,
        store: str | None,
        wait: float | None,
        json: bool,
        environ: Mapping[str, str],
        lend: Lender | None = None,
        last: bool = False,
        color: str = "auto",
        caller: int = 0,
    ) -> None:
        self.json = json
        self.caller = caller or os.getpid()
        self._lend = lend
        self._last = last
        self.environ = environ
        self.out = Screen(sys.stdout, environ, color)
        self.err = Screen(sys.stderr, environ, color)
        self._directory = directory
        self._store = store
        self._wait = wait
        self._opened: Workspace | None = None
        self._progress: ProgressLine | None = None
        self._is_named = False

    # -- the workspace --------------------------------------------------------------------------

    @cached_property
    def base(self) -> str:
        """The directory that typed paths are relative to: `-C`, else the current one."""
        from mulligan.settings.locations import standing

        try:
            here = standing(self.environ)
        except FileNotFoundError:
            if not os.path.isabs(self._directory or ""):
                raise UserError(
                    "The current directory was deleted, and its path is not known any more. Nothing was changed.",
                    hint="Find it with `mulligan stores`, then: mulligan -C DIR undo",
                ) from None
            here = "/"
        base = os.path.realpath(os.path.join(here, self._directory)) if self._directory else here
        if not os.path.isdir(base) and os.path.lexists(base):
            raise UserError(f"{base} is not a directory. Nothing was changed.", hint="mulligan -C DIR …")
        return base

    @cached_property
    def settings(self) -> Settings:
        """The user's choices for this workspace."""
        from mulligan import settings

        store = self._store or self.environ.get("MULLIGAN_STORE")
        if self._directory:
            root = self.base  # `-C` names it
        elif store:
            self._end_with_process()
            owner = _owner(store)
            root = owner if owner and _within(self.base, owner) else self.base
        else:
            root = settings.find_workspace(self.base, self.environ)
        return settings.resolve(root, store=self._store, wait=self._wait, environ=self.environ)

    @property
    def is_told_where(self) -> bool:
        """Whether `-C` or `--store` says which workspace it is about."""
        return bool(self._directory or self._store)

    @property
    def workspace(self) -> Workspace:
        """The workspace, opened."""
        if self._opened is None:
            return self.open(self.settings)
        return self._opened

    def open(self, settings: Settings) -> Workspace:
        """Opens the workspace of this command, or takes the one that is lent for it."""
        if self._lend is not None:
            return self.adopt(self._lend(settings))
        from mulligan.engine.workspace import Workspace

        return self.adopt(Workspace(settings))

    def decline(self) -> None:
        """Has the client run this command itself: it needs the user's own environment, and may take long."""
        if self._lend is not None:
            raise Declined

    def wants_watcher(self, command: str) -> bool:
        """Returns whether the workspace that a command opened is to be watched from now on."""
        return self._opened is not None and self._opened.settings.watch.is_started_by(command)

    @property
    def is_lent(self) -> bool:
        """Whether the workspace is one that a watcher keeps open, so that a scan of it is cheap."""
        return self._lend is not None

    def use(self, directory: str) -> None:
        """Makes a directory the workspace, as `-C` does; for a command with an option of its own for it."""
        self._directory = directory

    @property
    def standpoint(self) -> str:
        """The current directory relative to the workspace; empty at its top."""
        root = self.settings.workspace
        return os.path.relpath(self.base, root) if self.base != root else ""

    def name_workspace(self) -> None:
        """Has the result say which workspace it is about, unless that is where the person stands."""
        self._is_named = True

    def adopt(self, workspace: Workspace) -> Workspace:
        """Makes an open workspace the one of this command: watched, closed and asked for remarks like any other."""
        self._opened = workspace
        if self._lend is not None:
            workspace.bench.before_fetching = self.decline
        if self.err.is_terminal and not self.json:
            from mulligan.present.progress import ProgressLine

            self._progress = ProgressLine(self.err.stream)
            workspace.progress = self._progress
        return workspace

    @property
    def saved(self) -> Workspace:
        """The workspace, if anything was ever saved in it; raises NothingSaved otherwise."""
        workspace = self.workspace
        if workspace.position() is None and not workspace.log(limit=1):
            from mulligan.timeline.stores import moved_from

            old = moved_from(self.settings)
            hint = f"The project was at {old} before; take over its history: mulligan adopt {old}" if old else ""
            raise NothingSaved(
                f"Nothing was saved in {self.settings.workspace} yet.", hint=hint or 'mulligan save "first"'
            )
        return workspace

    def path(self, typed: str) -> str:
        """Returns a typed path relative to the workspace; raises UnsafePath when it lies outside."""
        root = self.settings.workspace
        full = os.path.normpath(os.path.join(self.base, typed))
        if not _within(full, root) and os.path.isabs(typed):
            # The same place by another name, through a link above the workspace; the last part may itself be a link.
            full = os.path.join(os.path.realpath(os.path.dirname(full)), os.path.basename(full))
        if not _within(full, root):
            raise UnsafePath(
                f"{typed!r} is outside the workspace {root}. Nothing was touched.",
                hint="Paths are relative to where you stand.",
            )
        return os.path.relpath(full, root) if full != root else ""

    def paths(self, typed: Sequence[str]) -> list[str] | None:
        """Returns typed paths relative to the workspace, None if there are none or one of them is all of it."""
        found = [self.path(each) for each in typed]
        return found if found and "" not in found else None

    # -- the person -----------------------------------------------------------------------------

    @property
    def interactive(self) -> bool:
        """Whether questions can be asked on the terminal."""
        return sys.stdin.isatty() and self.err.is_terminal and not self.json

    def ask(self, question: str) -> bool:
        """Asks a yes-or-no question; anything but a clear yes is a no."""
        self.quiet()
        self.err.stream.write(f"{question} [y/N] ")
        self.err.stream.flush()
        return sys.stdin.readline().strip().lower() in {"y", "yes"}

    def confirm(self, question: str, *, yes: bool, again: str) -> None:
        """
        Asks before something that cannot be undone; raises UserError unless the answer is yes.

        Where there is no terminal to ask on, only `-y` is a yes: what an agent's shell runs must not delete history by accident.
        """
        if yes:
            return
        if not self.interactive:
            raise UserError(
                "This cannot be undone, and there is no terminal to ask on. Nothing was changed.",
                hint=f"To go ahead: {again}",
            )
        self.insist(question)

    def insist(self, question: str) -> None:
        """Asks a yes-or-no question; raises UserError unless the answer is yes."""
        if not self.ask(question):
            raise UserError("Cancelled; nothing changed.")

    def note(self, text: str) -> None:
        """Says something beside the result; a stderr that takes no more is no failure of the command."""
        self.quiet()
        tell(text + "\n", self.err.stream)

    def note_if_moved(self) -> None:
        """Says where the history is of a project that was moved and has none here."""
        from mulligan.present.text import moved_words
        from mulligan.timeline.stores import moved_from

        if old := moved_from(self.settings):
            self.note(moved_words(old))

    def quiet(self) -> None:
        """Wipes the progress line."""
        if self._progress is not None:
            self._progress.clear()

    def now(self) -> datetime:
        """The present moment."""
        return datetime.now(UTC)

    # -- before leaving -------------------------------------------------------------------------

    def remarks(self) -> list[str]:
        """Returns remarks beside the result: recoveries, warnings, a restore in progress."""
        if self._opened is None:
            return []
        said: list[str] = [self._opened.last_recovery] if self._opened.last_recovery else []
        if self._is_named and self.standpoint:
            said.append(f"Workspace: {self.settings.workspace} (you are in {self.standpoint})")
        if not self._directory and stands_in_deleted() and os.path.isdir(self.base):
            said.append('Your shell still stands in the deleted directory. Type: cd "$PWD"')
        if key := self._opened.bench.store.new_key():
            from mulligan.present.text import new_key_words

            said.append(new_key_words(key))
        said += [f"warning: {warning}" for warning in self.settings.warnings]
        evicted = [checkpoint.short_id for checkpoint in self._opened.evicted()]
        if evicted:
            said.append(
                f"warning: The store reached its budget, so safety checkpoints were removed before they were a week old: "
                f"{', '.join(evicted)}. What restores replaced then is in no other place. Raise retention.budget to keep more."
            )
        pending: dict[str, Any] | None = self._opened.pending()
        if pending:
            said.append(_pending_words(pending))
        said += [
            f"warning: The hooks of {agent} are gone from {file}, so its next session has no undo. "
            f"Put them back: mulligan install {agent} (or, if you meant it, add --uninstall)"
            for agent, file in engine.remarks.missing_hooks(self._opened.bench)
        ]
        return said

    def close(self) -> None:
        """Closes the workspace, if it was opened."""
        self.quiet()
        if self._opened is not None and self._lend is None:
            self._end_with_process()
            self._opened.close()
        elif self._opened is not None:
            self._opened.progress = None

    def _end_with_process(self) -> None:
        if self._last:
            from mulligan.timeline.database import end_with_process

            end_with_process()


def stands_in_deleted() -> bool:
    """Returns whether the directory that this process stands in was deleted."""
    try:
        return not os.stat(".").st_nlink
    except OSError:
        return True


def _pending_words(pending: Mapping[str, Any]) -> str:
    files = f"{pending['total']:,} {'file' if pending['total'] == 1 else 'files'}"
    if pending["process"]:
        return f"A restore is running (process {pending['process']}, {files})."
    return f"A restore was interrupted ({files}). Finish it: mulligan doctor"


def _owner(store: str) -> str | None:
    """Returns the workspace whose history a store holds, None where it cannot say."""
    from mulligan.timeline.database import Database
    from mulligan.timeline.store import open_store

    try:
        with open_store(os.path.abspath(store)) as directory:
            database = Database(os.path.realpath(store), create=False, directory=directory)
        owner: str | None = database.meta("workspace")
        database.close()
    except (OSError, MulliganError):
        return None  # no store yet, a damaged one, or one that is not used: the engine says which
    return owner


def _within(path: str, root: str) -> bool:
    return path == root or path.startswith(root.rstrip("/") + "/")
