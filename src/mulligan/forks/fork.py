"""
Makes a fork: a second working directory at a checkpoint, with a store and a timeline of its own that start there.

The order: a row in the parent's timeline says that a fork is being made; its store gets the packs that it needs and its first
checkpoint; the files are written into a temporary directory beside the place; one rename puts that in place; the row says
that it is made. An interrupted fork is removed, or finished after the rename, by the next command that writes.

The parent's store is held only for the first and the last of these. Packs are shared by hard links: a pack is never changed,
and each store removes only its own names. No store reads the objects of another.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from mulligan.errors import MulliganError, UserError
from mulligan.forks.copying import Copier, remove_all
from mulligan.forks.filling import Filling, ForkSource, copy_unsaved
from mulligan.forks.record import MADE, MAKING, PLACING, REMOVING, SCRATCH, Fork, read_forks
from mulligan.model.bounded import read_json
from mulligan.model.cause import CAUSE
from mulligan.model.objects import TreeEntry
from mulligan.model.policy import Settings
from mulligan.safefs.directory import Directory, random_name
from mulligan.safefs.durable import make_directories, make_private, sync, sync_filesystem
from mulligan.safefs.errors import typed
from mulligan.safefs.pins import Pin, is_pinned
from mulligan.store.gc import reachable
from mulligan.store.objects import ObjectStore
from mulligan.timeline.commits import STATE_BEFORE, Entry, finish_objects, record_checkpoint, write_commit
from mulligan.timeline.database import NAME
from mulligan.timeline.root import is_within
from mulligan.timeline.store import Store
from mulligan.timeline.trees import Trees, pack_changes

if TYPE_CHECKING:
    from mulligan.engine.workbench import Workbench

_FORKS, _ORIGIN = "forks", "origin"
#: In the metadata of a fork's first checkpoint: where it came from.
FORKED_FROM = "forked_from"
_WHAT = "the files of a fork"
_MOST_LEFT_OUT = 100


# -- what the timeline remembers --------------------------------------------------------------------


def forks_of(store: Store) -> list[Fork]:
    """Returns the forks that were made from a workspace, oldest first, those in the making too."""
    text = store.database.meta(_FORKS)
    return read_forks(read_json(text)) if text else []


def remember(store: Store, fork: Fork) -> None:
    """Puts a fork into the timeline, in place of what it said of the same directory."""
    others = [each for each in forks_of(store) if each.directory != fork.directory]
    _write_rows(store, [*others, fork])


def drop(store: Store, directory: str) -> None:
    """Takes a fork out of the timeline."""
    _write_rows(store, [each for each in forks_of(store) if each.directory != directory])


def _write_rows(store: Store, forks: Iterable[Fork]) -> None:
    with store.database.transaction():
        store.database.set_meta(_FORKS, json.dumps([fork._asdict() for fork in forks]))


def stands(settings: Settings, fork: Fork) -> bool:
    """Returns whether a fork's directory is there, and no other one in its place."""
    if not os.path.isdir(fork.directory) or os.path.islink(fork.directory):
        return False
    store = Store(settings._replace(workspace=fork.directory, store=fork.store))
    try:
        # Until a fork is in place, its timeline knows of no directory: what stands there is not the fork.
        known = store.exists() and store.database.meta("workspace_inode") not in ("", "0")
        return known and not store.is_replaced()
    except MulliganError:
        return False  # its timeline cannot be read: what stands there may be anything
    finally:
        store.close()


def scratch_place(settings: Settings) -> str:
    """Returns a new place for a scratch fork, with the name of the project: beside the stores, in a directory of its own."""
    above = os.path.join(os.path.dirname(settings.stores), "scratch", random_name(6))
    return os.path.join(above, os.path.basename(settings.workspace))


def forks_inside(store: Store) -> frozenset[bytes]:
    """Returns the forks that stand inside the workspace, by their paths in it: they are workspaces of their own."""
    root = store.settings.workspace
    inside = [fork for fork in forks_of(store) if is_within(fork.directory, root) and stands(store.settings, fork)]
    return frozenset(os.fsencode(os.path.relpath(fork.directory, root)) for fork in inside)


def origin_of(store: Store) -> dict[str, str] | None:
    """Returns what a fork knows of its origin: workspace, store and checkpoint; None for a workspace that is no fork."""
    text = store.database.meta(_ORIGIN)
    found = read_json(text) if text else None
    return found if isinstance(found, dict) else None


# -- making one ---------------------------------------------------------------------------------------


class Forking:
    """One fork on its way; the caller holds the parent's store where it says so."""

    def __init__(self, bench: Workbench, settings: Settings, *, with_ignored: bool, scratch: bool = False) -> None:
        self._bench = bench
        self._store = Store(settings)
        self._settings = settings
        self._with_ignored = with_ignored
        self._scratch = scratch
        self._pin: Pin | None = None
        self._live: ForkSource | None = None
        self._entry: Entry | None = None
        self.fork = Fork(settings.workspace, settings.store, "", bench.now_ns(), MAKING, token=random_name(6))
        told = bench.counted("forking")
        self._total: int | None = None
        self.copier = Copier(told=(lambda n: told(n, self._total)) if told is not None else None)

    def refuse(self) -> None:
        """Raises UserError where nothing can be made: the place is taken, or has a history already."""
        place, root = self.fork.directory, self._bench.settings.workspace
        if place == root or is_within(root, place):
            raise UserError(f"{place} holds the workspace itself. Nothing was forked.", hint="mulligan fork REF ../try")
        if any(is_within(place, each) for each in (self._bench.settings.store, self._bench.settings.stores)):
            raise UserError(f"{place} is inside a store of mulligan. Nothing was forked.")
        if os.path.lexists(place) and (os.path.islink(place) or not os.path.isdir(place) or os.listdir(place)):
            raise UserError(
                f"{place} exists and is not an empty directory. Nothing was forked.", hint="Name a new directory."
            )
        if os.path.lexists(os.path.join(self.fork.store, NAME)):
            raise UserError(
                f"{place} has a history of its own from an earlier time. Nothing was forked.",
                hint=f"Remove that first: mulligan forks rm {place}",
            )

    def begin(self, entry: Entry) -> None:
        """Notes the fork, makes its store and looks at the workspace (the parent's store is held)."""
        parent = self._bench.store
        self._pin = Pin(parent.directory)
        self.fork = self.fork._replace(checkpoint=entry.id, pin=self._pin.number)
        remember(parent, self.fork)
        make_directories(os.path.dirname(self.fork.directory), 0o755)
        make_private(os.path.dirname(self.fork.store))
        with self._store.writing("fork", create=True):
            self._take_objects(entry)
            self._entry = self._first(entry)
        if not self._bench.root.is_gone():
            look = self._bench.look(with_git=False)
            self._live = ForkSource(Directory.open(self._bench.settings.workspace), look.scan)
            self._total = look.scan.files

    def _take_objects(self, entry: Entry) -> None:
        """Gives the new store every object of a checkpoint, durably: the packs that hold them, else copies."""
        mine, theirs = self._store.objects, self._bench.store.objects
        needed = reachable(theirs, [entry.commit_id])
        names = {theirs.locations(oid)[0].name for oid in needed}
        try:
            _link_packs(theirs.packs_directory(), mine.packs_directory(), names)
        except OSError:
            _copy_objects(theirs, mine, needed)  # another disk, or one without links
        mine.refresh()

    def _first(self, entry: Entry) -> Entry:
        """Writes the first checkpoint of the fork: the same state under the same id, kept until it is deleted."""
        store = self._store
        origin = {
            "workspace": self._bench.settings.workspace,
            "store": self._bench.settings.store,
            "checkpoint": entry.id,
        }
        made = _written_here(store, entry, None, metadata={**_about(entry), FORKED_FROM: origin})
        text = json.dumps(origin)
        record_checkpoint(
            store, made, now_ns=self._bench.now_ns(), pinned=set, as_position=True,
            also=lambda: store.database.set_meta(_ORIGIN, text),
        )  # fmt: skip
        return made

    def fill(self) -> None:
        """Writes the files into the temporary directory, durably; nothing of the parent's store is used."""
        if self._entry is None:
            raise ValueError(self.fork)
        home, name = os.path.split(self.fork.temporary)
        try:
            with Directory.open(home) as parent:
                parent.mkdir(os.fsencode(name))
                with parent.child(os.fsencode(name)) as root:
                    self._fill(root, self._entry)
        except OSError as error:
            raise typed(error) from error

    def _fill(self, root: Directory, entry: Entry) -> None:
        Filling(self._store, entry, root, self.copier, self._live).run()
        if self._with_ignored and self._live is not None:
            copy_unsaved(self._live, root, self.copier)
        if not self._scratch:
            sync_filesystem(root, _WHAT)

    def place(self) -> Fork:
        """Puts the directory in its place, and says so in both timelines (the parent's store is held)."""
        home, temporary = os.path.split(self.fork.temporary)
        name = os.fsencode(os.path.basename(self.fork.directory))
        with Directory.open(home) as parent:
            inode = parent.stat(os.fsencode(temporary)).st_ino
            left_out = tuple(self.copier.left_out[:_MOST_LEFT_OUT])
            self.fork = self.fork._replace(phase=PLACING, inode=inode, backend=self.copier.backend, left_out=left_out)
            remember(self._bench.store, self.fork)
            parent.rename(os.fsencode(temporary), name)  # onto an empty directory at most: the system refuses any other
            sync(parent.fd, _WHAT)
        self._settle()
        return self.fork

    def _settle(self) -> None:
        _record_place(self._store)
        if self._scratch:
            self.fork = self.fork._replace(phase=SCRATCH)  # the pin stays with this process
        else:
            self.fork = self.fork._replace(phase=MADE, token="", pin=0)
        remember(self._bench.store, self.fork)

    def abandon(self) -> None:
        """Removes what was made so far (the parent's store is held)."""
        self.close()
        remove(self._bench.store, self.fork)

    def close(self) -> None:
        """Closes what was opened; the fork stays."""
        self._store.close()
        if self._live is not None:
            self._live.root.close()
            self._live = None
        if self._pin is not None and not self._scratch:
            self._pin.close()

    def release(self) -> None:
        """Removes a scratch fork, and the directory that was made for it (the parent's store is held)."""
        remove(self._bench.store, self.fork)
        home, name = os.path.split(os.path.dirname(self.fork.directory))
        with suppress(OSError), Directory.open(home) as parent:
            parent.rmdir(os.fsencode(name))
        if self._pin is not None:
            self._pin.close()


def _about(entry: Entry) -> dict[str, Any]:
    """Returns the metadata of a checkpoint that are true in another timeline too."""
    return {key: value for key, value in entry.checkpoint.metadata.items() if key not in (CAUSE, STATE_BEFORE)}


def _written_here(store: Store, entry: Entry, parent: Entry | None, **fields: Any) -> Entry:
    """Writes a checkpoint of another timeline as a commit of this one, with some fields changed; its objects are here."""
    state = entry.checkpoint.state
    made = entry.checkpoint.replace(
        parent=parent.id if parent is not None else None, kind="manual", state_source=lambda: state, **fields
    )
    written = entry._replace(checkpoint=made, seq=0)
    changes = pack_changes(Trees(store.objects), parent, written)
    with store.objects.writer() as writer:
        written = write_commit(written._replace(checkpoint=made.replace(packed_changes=changes)), writer)
        finish_objects(written, writer)
    return written


def _record_place(store: Store) -> None:
    """Notes in a fork's timeline which directory it belongs to."""
    with store.writing("fork"), store.database.transaction():
        store.record_workspace()


def _link_packs(source: Directory, target: Directory, names: Iterable[bytes]) -> None:
    """Gives packs a second name in another store, each before its index: a pack without one is not looked at."""
    for name in sorted(names):
        for suffix in (b".pack", b".idx"):
            with suppress(FileExistsError):
                source.link(name + suffix, name + suffix, to=target)
    sync(target.fd, "the packs of a fork")


def _copy_objects(source: ObjectStore, target: ObjectStore, needed: Iterable[bytes]) -> None:
    with target.writer() as writer:
        for oid in needed:
            kind, _ = source.kind_and_size(oid)
            writer.add(kind, source.read(oid, kind))
        writer.finish()


# -- removing, and ending what was interrupted --------------------------------------------------------


def remove(store: Store, fork: Fork) -> None:
    """
    Removes a fork's directory and its store, and forgets it (the parent's store is held).

    One rename takes the directory away first, so that nothing half removed stands in its place.
    """
    fork = fork._replace(phase=REMOVING, token=fork.token or random_name(6))
    remember(store, fork)
    home = os.path.dirname(fork.directory)
    if os.path.isdir(home):
        with Directory.open(home) as parent:
            temporary, name = (os.fsencode(os.path.basename(path)) for path in (fork.temporary, fork.directory))
            if not parent.exists(temporary) and stands(store.settings, fork):
                parent.rename(name, temporary)
                sync(parent.fd, _WHAT)
            remove_all(parent, temporary)
    remove_store(fork.store)
    drop(store, fork.directory)


def remove_store(path: str) -> None:
    """Removes the store of a fork, whole."""
    home, name = os.path.split(path)
    with suppress(FileNotFoundError), Directory.open(home) as parent:
        remove_all(parent, os.fsencode(name))


def end_interrupted(store: Store) -> None:
    """Finishes forks that are in place, removes all others whose process is gone."""
    for fork in forks_of(store):
        if fork.phase == MADE or (fork.pin and is_pinned(store.directory, fork.pin)):
            continue
        if fork.phase == PLACING and fork.is_as_made():
            own = Store(store.settings._replace(workspace=fork.directory, store=fork.store))
            _record_place(own)
            own.close()
            remember(store, fork._replace(phase=MADE, token="", pin=0))
        else:
            remove(store, fork)


# -- between a fork and its origin --------------------------------------------------------------------


class JoinedObjects:
    """The objects of two stores, to compare checkpoints of both."""

    def __init__(self, one: ObjectStore, other: ObjectStore) -> None:
        self._one, self._other = one, other

    def _of(self, oid: bytes) -> ObjectStore:
        return self._one if self._one.has(oid) else self._other

    def has(self, oid: bytes) -> bool:
        """Returns whether one of the stores has an object."""
        return self._one.has(oid) or self._other.has(oid)

    def read(self, oid: bytes, kind: bytes) -> bytes:
        """Returns an object's bytes, verified."""
        return self._of(oid).read(oid, kind)

    def read_tree(self, oid: bytes) -> list[TreeEntry]:
        """Returns a tree's entries."""
        return self._of(oid).read_tree(oid)

    def kind_and_size(self, oid: bytes) -> tuple[bytes, int]:
        """Returns what an object is and how many bytes it has."""
        return self._of(oid).kind_and_size(oid)


def bring(store: Store, theirs: Store, entry: Entry, name: str, *, now_ns: int) -> Entry:
    """Adds a checkpoint of a fork to the timeline of its origin (which is held); one that is there already stays."""
    known = store.checkpoints.by_id(entry.id)
    if known is not None:
        return known
    needed = [oid for oid in reachable(theirs.objects, [entry.commit_id]) if not store.objects.has(oid)]
    _copy_objects(theirs.objects, store.objects, needed)
    parent = store.checkpoints.current()
    brought = _written_here(store, entry, parent, name=entry.checkpoint.name or name, metadata=_about(entry))
    record_checkpoint(store, brought, now_ns=now_ns, pinned=set, as_position=False)
    return brought
