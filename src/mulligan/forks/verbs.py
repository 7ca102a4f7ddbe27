"""
The verbs about forks: making one, listing, removing, and what passes between a fork and its origin.

A workspace has `fork` and `forks` as methods; these are the same and all others, as functions.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from mulligan.engine.asked import parse_paths, with_contents
from mulligan.engine.workspace import Workspace
from mulligan.errors import MulliganError, UserError
from mulligan.forks import fork as forking
from mulligan.forks.record import MADE, Fork
from mulligan.settings import places, resolve
from mulligan.settings.locations import store_for

if TYPE_CHECKING:
    from mulligan.model.checkpoint import Checkpoint
    from mulligan.model.diff import Diff
    from mulligan.model.policy import Settings

    Ref = str | Checkpoint


def settings_beside(parent: Settings, directory: str) -> Settings:
    """Returns the settings of another directory of the same user, with a store of its own beside the parent's."""
    where, root = places(), os.path.realpath(directory)
    store = store_for(root, where)
    if parent.store != store_for(parent.workspace, where):  # a store that was named: the other one goes next to it
        store = os.path.join(os.path.dirname(parent.store), os.path.basename(store))
    return resolve(root, store=store, wait=parent.wait)


def fork(workspace: Workspace, ref: Ref, directory: str | os.PathLike[str], *, with_ignored: bool = False) -> Workspace:
    """
    Makes a second working directory at a checkpoint, with its own timeline that starts there; returns it, opened.

    The directory must be new or empty. `with_ignored` copies from the workspace what no checkpoint holds, too.
    """
    return _forked(workspace, ref, os.path.abspath(os.fspath(directory)), with_ignored=with_ignored)[0]


@with_contents
def _forked(
    workspace: Workspace, ref: Ref, directory: str, *, with_ignored: bool, scratch: bool = False
) -> tuple[Workspace, forking.Forking]:
    place = os.path.join(os.path.realpath(os.path.dirname(directory)), os.path.basename(directory))
    settings = settings_beside(workspace.settings, place)
    making = forking.Forking(workspace.bench, settings, with_ignored=with_ignored, scratch=scratch)
    making.refuse()
    try:
        with workspace.bench.writing("fork", needed=True):
            making.begin(workspace.bench.store.resolve(ref))
        making.fill()
        with workspace.bench.writing("fork"):
            making.place()
    except BaseException:
        with suppress(MulliganError), workspace.bench.writing("fork"):
            making.abandon()
        raise
    finally:
        making.close()
    return Workspace(settings_beside(workspace.settings, place)), making


def forks(workspace: Workspace) -> list[Fork]:
    """Returns the forks that were made from a workspace and not removed, oldest first."""
    with workspace.bench.reading() as store:
        return [each for each in forking.forks_of(store) if each.phase == MADE] if store is not None else []


def find_fork(workspace: Workspace, directory: str | os.PathLike[str]) -> Fork:
    """Returns the fork in a directory, or of a name; raises UserError where there is none."""
    place, known = os.path.realpath(directory), forks(workspace)
    found = [each for each in known if each.directory == place]
    found = found or [each for each in known if each.name == os.path.basename(directory)]
    if len(found) != 1:
        raise UserError(
            f"{os.fspath(directory)} is no fork of this workspace. Nothing was changed.", hint="mulligan forks"
        )
    return found[0]


def open_fork(workspace: Workspace, fork: Fork) -> Workspace:
    """Opens a fork as the workspace that it is."""
    return Workspace(settings_beside(workspace.settings, fork.directory)._replace(store=fork.store))


def remove_fork(workspace: Workspace, directory: str | os.PathLike[str]) -> Fork:
    """Removes a fork: its directory with all that is in it, and its timeline. There is no way back."""
    if workspace.settings.append_only:
        raise UserError("This workspace was opened to add to history, never to take from it. Nothing was deleted.")
    found = find_fork(workspace, directory)
    with workspace.bench.writing("fork", needed=True):
        forking.remove(workspace.bench.store, found)
    return found


@contextmanager
def scratch(workspace: Workspace, ref: Ref, *, with_ignored: bool = False) -> Iterator[Workspace]:
    """Makes a fork for one use, away from the workspace, and removes it afterwards."""
    place = forking.scratch_place(workspace.settings)
    made, making = _forked(workspace, ref, place, with_ignored=with_ignored, scratch=True)
    try:
        with made:
            yield made
    finally:
        with workspace.bench.writing("fork"):
            making.release()


def bring(workspace: Workspace, other: Workspace, ref: Ref = "@", *, name: str = "") -> Checkpoint:
    """Adds a checkpoint of a fork to the timeline of its origin, under its id; no file is touched, `@` stays."""
    with other.bench.needing() as theirs:
        entry = theirs.resolve(ref)
        with workspace.bench.writing("import", create=True):
            made = forking.bring(workspace.bench.store, theirs, entry, name, now_ns=workspace.bench.now_ns())
    return made.checkpoint


@with_contents
def diff_between(
    workspace: Workspace, a: Ref, other: Workspace, b: Ref | None = "@", *, paths: Sequence[str] | None = None
) -> Diff:
    """Returns what differs from a checkpoint of one workspace to one of another, or to its files as they are (None)."""
    from mulligan.timeline.differences import diff_entries, diff_files

    chosen = parse_paths(paths, "files")
    with workspace.bench.needing() as mine, other.bench.needing() as theirs:
        both, start = forking.JoinedObjects(mine.objects, theirs.objects), mine.resolve(a)
        if b is not None:
            return diff_entries(both, start, theirs.resolve(b), chosen)
        scan = other.bench.look(by_name=start.by_name).scan
        return diff_files(both, start, scan, other.root, chosen)


def holds_bytes(workspace: Workspace, path: str, *, like: Workspace) -> bool:
    """Returns whether a checkpoint holds a path, or the store has bytes that it had in another workspace."""
    from mulligan.doctor.forget import bytes_of
    from mulligan.model.paths import parse_path

    wanted = parse_path(path)
    with like.bench.needing() as theirs, workspace.bench.needing() as mine:
        if bytes_of(mine.objects, mine.checkpoints.oldest(), wanted):
            return True
        return any(map(mine.objects.has, bytes_of(theirs.objects, theirs.checkpoints.oldest(), wanted)))


def origin(workspace: Workspace) -> dict[str, str] | None:
    """Returns the workspace, store and checkpoint that a workspace was forked from; None if it is no fork."""
    with workspace.bench.reading() as store:
        return forking.origin_of(store) if store is not None else None
