"""
Editing the files of an agent: planned first, then written; and removed again.

Every text is worked out before the first file is written, so that one that cannot be edited leaves all of them alone.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from mulligan.errors import UserError
from mulligan.install.agents import Agent, Edit, Here
from mulligan.install.folder import CREATE, REMOVE, UNCHANGED, UPDATE, InstallStep
from mulligan.install.targets import PROJECT, Destination, Home, only_plain_files, place_for
from mulligan.safefs.directory import Directory
from mulligan.safefs.workfile import read_work_file, write_work_file

_LARGEST = 4 << 20


class PlannedFile(NamedTuple):
    """One file: where it is, what happens to it, and the text that it will have (None: it goes)."""

    to: Destination
    step: InstallStep
    text: str | None
    executable: bool = False


class Wiring:
    """An agent's files at one scope."""

    def __init__(self, agent: Agent, scope: str, *, project: str, home: Home) -> None:
        self._edits = agent.edits(scope)
        self._in_project = scope == PROJECT
        if not self._edits:
            raise UserError(f"{agent.name} has no hooks for all projects at once. Nothing was written.")
        self._where = [(place_for(edit.path, scope, project=project, home=home), edit) for edit in self._edits]
        if agent.name == "git" and not os.path.isdir(os.path.join(project, ".git", "hooks")):
            raise UserError(
                f"There is no .git/hooks in {project}. Nothing was written.",
                hint="Hooks go into a plain repository; in a worktree, install them in the main one.",
            )

    def plan(self, program: tuple[str, ...]) -> list[PlannedFile]:
        """Returns what installing would do. Changes nothing."""
        return [self._put(to, edit, program) for to, edit in self._where]

    def plan_removal(self) -> list[PlannedFile]:
        """Returns what uninstalling would do. Changes nothing."""
        return [each for to, edit in self._where for each in self._taken(to, edit)]

    def installed(self) -> list[str]:
        """Returns the files that hold our part now."""
        return [to.directory for to, edit in self._where if edit.holds(_quietly(to))]

    def _put(self, to: Destination, edit: Edit, program: tuple[str, ...]) -> PlannedFile:
        with only_plain_files(to.directory):
            text = _read(to)
            wanted = edit.put(text, Here(program, os.path.dirname(to.directory), project=self._in_project))
            idle = edit.executable and text is not None and not os.access(to.directory, os.X_OK)
            if idle and text is not None and edit.take(text) is not None:
                raise UserError(
                    f"{to.directory} may not be executed, so git does not run it, and would not run our part of it."
                    " It was left alone, and nothing was written.",
                    hint=f"If it shall run again: chmod +x {to.directory}; if not, move it away",
                )
        action = CREATE if text is None else UNCHANGED if text == wanted and not idle else UPDATE
        return PlannedFile(to, InstallStep(to.directory, action), wanted, edit.executable and (text is None or idle))

    def _taken(self, to: Destination, edit: Edit) -> Iterator[PlannedFile]:
        with only_plain_files(to.directory):
            text = _read(to)
            if text is not None:
                rest = edit.take(text)
                if rest != text:
                    yield PlannedFile(to, InstallStep(to.directory, REMOVE if rest is None else UPDATE), rest)


def carry_out(planned: list[PlannedFile]) -> None:
    """Writes what was planned."""
    for each in planned:
        with only_plain_files(each.to.directory):
            path = os.fsencode(each.to.path)
            if each.text is None:
                _remove(each.to)
            elif each.step.action != UNCHANGED:
                write_work_file(each.to.root, path, each.text.encode("utf-8", "surrogateescape"))
                if each.executable:
                    folder, _, name = path.rpartition(b"/")
                    with Directory.open(each.to.root) as root, root.descend(folder) as directory:
                        directory.chmod(name, 0o755, inode=directory.stat(name).st_ino)


def _remove(to: Destination) -> None:
    folder, name = os.path.split(to.path)
    with Directory.open(to.root) as root, root.descend(os.fsencode(folder)) as directory:
        directory.unlink(os.fsencode(name), missing_ok=True)
    # Directories that held nothing else were made for it; git's own are not.
    while folder and not folder.startswith(".git/"):
        folder, last = os.path.split(folder)
        with suppress(OSError), Directory.open(to.root) as root, root.descend(os.fsencode(folder)) as directory:
            directory.rmdir(os.fsencode(last))


def _read(to: Destination) -> str | None:
    try:
        data = read_work_file(to.root, os.fsencode(to.path))
    except FileNotFoundError:
        return None
    if len(data) > _LARGEST:
        raise UserError(f"{to.directory} is larger than any settings file should be. It was left alone.")
    return data.decode("utf-8", "surrogateescape")


def _quietly(to: Destination) -> str | None:
    try:
        return _read(to)
    except (OSError, UserError):
        return None  # a query does not report problems of a file that is not ours
