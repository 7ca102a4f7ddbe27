"""
An open store: its directory, its objects and its timeline together.

Knows when a store is new, whole, half deleted, copied or another's, and says so. `writing` is the only way to change one:
it takes the lock, removes what a dead process left, and makes refs and timeline agree. Readers take no lock.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any

from mulligan.errors import ContentsElsewhere, StoreDamaged, Unprotectable, UserError
from mulligan.model.checkpoint import Checkpoint
from mulligan.model.paths import to_text
from mulligan.model.policy import Settings
from mulligan.safefs.directory import Directory, random_name
from mulligan.safefs.durable import make_private
from mulligan.safefs.lock import exclusive
from mulligan.safefs.room import disk_usage, free_bytes, no_room
from mulligan.scan import cache
from mulligan.store import refs, repository
from mulligan.store.objects import ObjectStore
from mulligan.store.trash import Trash, sweep_temporaries
from mulligan.timeline.checkpoints import Checkpoints
from mulligan.timeline.commits import Entry
from mulligan.timeline.database import NAME, Database, broken_row
from mulligan.timeline.root import Identity, identity_of, mark_directory
from mulligan.timeline.undo import Moves

if TYPE_CHECKING:
    from mulligan.timeline.events import AgentEvents
    from mulligan.timeline.secrets import Keyring

_TIMELINE = NAME.encode()
_STORE_ID, _WORKSPACE, _EPOCH, _SINCE = "store_id", "workspace", "epoch", "workspace_since"
# What a store whose making was cut short may hold before it has a name; the configuration, which names it, comes last.
_BEGINNINGS = frozenset({b"objects", b"refs", b"tmp", b"HEAD", b"lock"})
# Who waits for these must not wait for what an earlier restore left to be removed; all others free the disk for real.
_QUICK = frozenset({"save", "restore", "undo", "redo", "hook"})
# Below this nothing is begun, except what may free some.
_LEAST_ROOM = 256 << 10
_FREEING = frozenset({"delete", "trim", "gc", "forget", "doctor", "settle"})
# What one file may take more than its bytes, and the short files and the directories of a store in all.
_BLOCK = 8 << 10
_BESIDES = 4 << 20
#: What a save writes beside its packs: the index, a ref, the timeline and its log, the scan's memory.
BESIDES_PACKS = 96 << 10
_LONG_FILES = (*(_TIMELINE + end for end in (b"", b"-wal", b"-shm")), cache.NAME, b"packed-refs")
# What a forked process inherited, kept from being closed by it.
_PARENTS: list[tuple[Database | None, ObjectStore | None, Directory | None]] = []


class Store:
    """One store, opened when first needed."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.path = settings.store
        self._directory: Directory | None = None
        self._objects: ObjectStore | None = None
        self._database: Database | None = None
        self.is_held = False
        self._settled: tuple[dict[str, bytes], set[str]] | None = None  # the refs that this process made durable
        self._process = os.getpid()
        self._trash = Trash()
        self._here: Identity | None = None  # the workspace's directory, as the holder of the store found it

    # -- parts ----------------------------------------------------------------------------------

    @property
    def directory(self) -> Directory:
        """The store's directory."""
        if self._directory is None:
            raise UserError("No checkpoint was saved here yet.", hint="mulligan save")
        return self._directory

    @cached_property
    def keys(self) -> Keyring:
        """The keys that secrets are sealed with."""
        from mulligan.timeline.secrets import Keyring

        return Keyring(self.settings.keys, self.settings.workspace)

    def new_key(self) -> str:
        """Returns the file of the key that was made since this was last asked, empty where none was."""
        keys: Keyring | None = self.__dict__.get("keys")  # loaded only where there is a secret
        return keys.new_file() if keys is not None else ""

    @property
    def objects(self) -> ObjectStore:
        """The store's objects."""
        if self._objects is None:
            self._objects = ObjectStore(self.directory)
        return self._objects

    @property
    def database(self) -> Database:
        """The timeline's database."""
        if self._database is None:
            database = self._database = Database(self.path, create=False, directory=self.directory)
            try:
                self._check_identity()
            except BaseException:
                # Closed here: the error's own traceback would hold it open.
                self._database = None
                database.close()
                raise
        return self._database

    @property
    def checkpoints(self) -> Checkpoints:
        """The timeline's checkpoints."""
        return Checkpoints(self.database, lambda: self.objects)

    def resolve(self, ref: str | Checkpoint) -> Entry:
        """Returns the checkpoint that a reference means, to read its contents; raises ContentsElsewhere where a remote has them."""
        entry = self.checkpoints.resolve(ref)
        if entry.checkpoint.held_by:
            name, remote = entry.checkpoint.short_id, entry.checkpoint.held_by
            elsewhere = ContentsElsewhere(
                f"The contents of checkpoint {name} are on the remote {remote}. Nothing was changed.",
                hint=f"mulligan pull {remote} --all",
            )
            elsewhere.row = entry.seq
            raise elsewhere
        return entry

    @property
    def moves(self) -> Moves:
        """The undo and redo stacks."""
        return Moves(self.database)

    @property
    def events(self) -> AgentEvents:
        """What agents did."""
        from mulligan.timeline.events import AgentEvents

        return AgentEvents(self.database)

    def has_events(self) -> bool:
        """Returns whether an agent was ever at work here; asked first, so that most commands need not load what reads them."""
        return not self.database.is_empty("deed")

    def needed(self) -> set[str]:
        """Returns the checkpoints that the next undos and redos need: the newest steps, and where agents' last turns began."""
        begun = self.events.starts() if self.has_events() else set()
        return self.moves.needed() | begun | {self.checkpoints.position()}

    def close(self) -> None:
        """Closes everything; the next use opens it again."""
        self._trash.empty()
        self._release()

    def _release(self) -> None:
        for part in (self._database, self._objects, self._directory):
            if part is not None:
                part.close()
        self._database = self._objects = self._directory = self._settled = None

    def __del__(self) -> None:
        # A workspace that was dropped without `close` gives its descriptors back all the same. It changes nothing on the
        # disk, at whatever moment this is: what waits there to be removed is for the next writer.
        with suppress(Exception):
            self._leave_to_parent()
            self._trash.leave()
            self._release()

    def _leave_to_parent(self) -> None:
        """In a forked process: SQLite's connection belongs to the parent; it is neither used nor closed here."""
        if self._process == os.getpid():
            return
        _PARENTS.append((self._database, self._objects, self._directory))
        self._database = self._objects = self._directory = None
        self.is_held, self._process = False, os.getpid()

    # -- opening --------------------------------------------------------------------------------

    def exists(self) -> bool:
        """Returns whether there is a store with a timeline; raises StoreDamaged when only one of the two is there."""
        self._let_go_of_replaced()
        if self.is_held and self._database is not None:
            return True
        if self._directory is None:
            try:
                self._directory = open_store(self.path)
            except FileNotFoundError:
                return False
        if not self._has_timeline() and refs.read_refs(self._directory) and not self._has_timeline():
            raise StoreDamaged(  # asked again after the refs: another process may have ended its first save in between
                f"The store {self.path} has checkpoints but no timeline. The checkpoints are untouched.",
                hint="Rebuild the timeline from the repository: mulligan doctor",
            )
        return self._has_timeline()

    def _has_timeline(self) -> bool:
        """Returns whether the timeline is there; one without a byte is the start of an interrupted first save."""
        return bool((here := self._directory) and here.exists(NAME.encode()) and here.stat(NAME.encode()).st_size)

    def _let_go_of_replaced(self) -> None:
        """Closes a store that was removed, moved or put in another's place since it was opened."""
        self._leave_to_parent()
        if self._directory is None or self.is_held:
            return
        mine = os.fstat(self._directory.fd)
        try:
            there = os.stat(self.path, follow_symlinks=False)
            same = (there.st_dev, there.st_ino) == (mine.st_dev, mine.st_ino)
            if same and self._database is not None:
                timeline = self._directory.stat(_TIMELINE)
                same = timeline.st_ino == self._database.inode and timeline.st_size > 0
        except OSError:
            same = False
        if not same:
            self.close()

    def create(self) -> None:
        """Makes the store if there is none; completes one whose making was cut short."""
        if self._database is not None and self._database.meta(_STORE_ID):
            return
        fresh = not self.exists()
        if fresh or repository.missing_parts(self.directory) or not self.directory.exists(b"tmp"):
            from mulligan.store.layout import create

            create(self.directory, name=repository.store_id(self.directory) or random_name(16))
        if fresh:
            from mulligan.safefs.removal import sweep_beside

            sweep_beside(self.path)
            self._database = Database(self.path, create=True, directory=self.directory)
        if not self.database.meta(_STORE_ID):
            with self.database.transaction():
                self.introduce()

    def _refuse_foreign(self) -> None:
        """Raises Unprotectable for a directory that holds something else: a store is pruned, and that would go too."""
        # Listed before it is asked whose it is: another process may be making the store just now, and its name comes first.
        strange = sorted(set(self.directory.names()) - _BEGINNINGS)
        if strange and not self.directory.exists(NAME.encode()) and not repository.store_id(self.directory):
            raise Unprotectable(
                f"{self.path} is not empty and is no store of mulligan (it holds {to_text(strange[0])!r}); it is not used. Nothing was changed.",
                hint="Name a directory that is empty or does not exist yet: --store DIR",
            )

    def introduce(self) -> None:
        """Writes into a new timeline which store and which directory it belongs to (inside a transaction)."""
        self.database.set_meta(_STORE_ID, repository.store_id(self.directory) or "")
        # Not from nought: what a process remembers of a store that was deleted must not pass for this one's.
        self.database.set_meta(_EPOCH, str(int(random_name(6), 16)))
        self.record_workspace()

    def record_workspace(self, checkpoint: Checkpoint | None = None) -> None:
        """
        Notes which directory this history belongs to, and marks that directory (inside a transaction).

        A `checkpoint` that a program made in another directory than the one before begins a part of its own: no undo leads
        out of it until a person saves, or says that it is the same project.
        """
        recorded = self._recorded()
        if checkpoint is not None and checkpoint.kind == "manual":
            self.belong()
        elif checkpoint is not None and self.is_replaced(but=checkpoint.id):
            self.database.set_meta(_SINCE, checkpoint.id)
        here = self._here = mark_directory(self.settings.workspace, self._identity(), recorded.mark)
        for key, value in ((_WORKSPACE, self.settings.workspace), *here.to_meta().items()):
            if self.database.meta(key) != value:
                self.database.set_meta(key, value)

    def _recorded(self) -> Identity:
        return Identity.from_meta(self.database.meta)

    def _identity(self) -> Identity:
        if self._here is None or not self.is_held:
            # Once for each holder of the store: whatever takes the workspace's place while he works was never his.
            self._here = identity_of(self.settings.workspace, self._recorded())
        return self._here

    def _check_identity(self) -> None:
        missing = repository.missing_parts(self.directory)
        if missing:
            raise StoreDamaged(
                f"The store {self.path} lacks {', '.join(missing)}; it was deleted in part or copied in part.",
                hint="See what can be saved: mulligan doctor",
            )
        recorded, here = self.database.meta(_STORE_ID), repository.store_id(self.directory)
        if recorded and here and recorded != here:
            raise StoreDamaged(
                f"The timeline in {self.path} belongs to another store; it was copied there. Nothing was changed.",
                hint="Mend it if it is this one's after all: mulligan doctor. If not, move timeline.db away first.",
            )
        if not recorded and refs.read_refs(self.directory):
            raise StoreDamaged(
                f"The timeline in {self.path} is empty, and there are checkpoints. They are untouched.",
                hint="Rebuild the timeline from the repository: mulligan doctor",
            )
        owner = self.database.meta(_WORKSPACE)
        if owner and owner != self.settings.workspace:
            raise UserError(
                f"The store {self.path} holds the history of {owner}, not of {self.settings.workspace}. Nothing was changed.",
                hint=f"If the project moved: mulligan adopt {owner}",
            )

    def belong(self) -> None:
        """Says that the directory that stands here is the project of all of this history (inside a transaction)."""
        if self.database.meta(_SINCE):
            self.database.set_meta(_SINCE, "")

    def is_replaced(self, *, but: str = "") -> bool:
        """Returns whether another directory stands where the history was made, all of it `but` one checkpoint."""
        here = self._identity()
        if here == (recorded := self._recorded()):
            return False
        newest = self.database.number("SELECT max(created_ns) FROM checkpoint WHERE id<>?", but)
        return recorded.is_another(here, last_ns=newest)

    def is_elsewhere(self, entry: Entry) -> bool:
        """Returns whether a checkpoint was made in another directory that stood here before."""
        since = self.database.meta(_SINCE)
        first = self.checkpoints.by_id(since) if since else None
        return first is not None and 0 < entry.seq < first.seq

    def made_again(self) -> Identity:
        """Forgets what was seen of the workspace's directory, which was just made; returns what was recorded of it."""
        self._here = None
        return self._recorded()

    def take_over(self, directory: Directory, database: Database) -> None:
        """Takes over a timeline that was just rebuilt in an open directory."""
        self._directory, self._database = Directory(os.dup(directory.fd)), database

    # -- writing --------------------------------------------------------------------------------

    def throw_away(self, directory: Directory, name: bytes, size: int) -> None:
        """Removes from a directory of the workspace what a checkpoint holds; the disk may be freed later."""
        self._trash.take(self.directory, directory, name, size)

    @contextmanager
    def writing(self, purpose: str, *, create: bool = False) -> Iterator[None]:
        """Holds the store for one writing operation."""
        self._let_go_of_replaced()
        if self._database is not None and self._database.read_only:
            self.close()
        opened = self._database is not None  # then it is there, whole, and this very directory
        if create and not opened:
            make_private(self.path)
        if self._directory is None:
            try:
                self._directory = open_store(self.path)
            except FileNotFoundError:
                raise UserError("No checkpoint was saved here yet.", hint="mulligan save") from None
        if create and not opened:
            self._refuse_foreign()
        self._refuse_without_room(purpose)
        with exclusive(self._directory, wait=self.settings.wait, purpose=purpose):
            self.is_held, self._here = True, None
            try:
                self._begin(purpose, create=create)
                yield
            finally:
                self._end()

    def _begin(self, purpose: str, *, create: bool) -> None:
        """Makes the store ready to be written to: removes and completes what a killed process left."""
        if create:
            self.create()
        if purpose not in _QUICK:
            self._trash.empty()
        sweep_temporaries(self.directory, sparing=self._trash.names)
        self.objects.refresh()
        self.settle_refs()

    def _end(self) -> None:
        self.is_held = False
        if self._database is not None:
            self._database.roll_back()  # a transaction that an interruption left open

    def _refuse_without_room(self, purpose: str) -> None:
        """
        Raises NoRoom while nothing has begun, where the disk has next to nothing left.

        Not only for the message: on a file system with blocks smaller than a page, or one that copies on write, a full
        disk kills a process that writes to memory mapped to a file, and SQLite does.
        """
        free = free_bytes(self.directory)
        if purpose not in _FREEING and free is not None and free < _LEAST_ROOM:
            raise no_room("To begin at all, mulligan", _LEAST_ROOM, self.directory)

    def settle_refs(self) -> None:
        """Writes and removes refs as the last transactions decided, durably, unless this process did so already."""
        decided = owed, dead = self._decided_refs()
        if decided == self._settled:
            return
        there = refs.read_loose(self.directory, owed)
        lacking = [name for name in owed if there.get(name) != owed[name]]
        packed = refs.read_refs(self.directory) if lacking else {}
        for name in lacking:
            if packed.get(name) != owed[name]:
                refs.write_ref(self.directory, name, owed[name])
        refs.remove_refs(self.directory, dead)
        self._settled = decided

    def _decided_refs(self) -> tuple[dict[str, bytes], set[str]]:
        """Returns the refs that must be there, with their commits, and those that must not, since the last save."""
        owed = {row["id"]: bytes.fromhex(row["commit_id"]) for row in self.database.select("fresh_ref")}
        return owed, {row["id"] for row in self.database.select("dead_ref")}

    def place_ref(self, fresh: str, gone: list[str]) -> None:
        """Puts the staged ref of a new checkpoint in place, durably, and removes those of checkpoints that went for it."""
        try:
            refs.place_ref(self.directory, fresh, gone)
            self._settled = self._decided_refs()
        except FileNotFoundError:
            self.settle_refs()

    # -- how much disk it takes, and how much it may take; `pruning.make_room` evicts what is over that

    def used_bytes(self) -> int:
        """Returns the bytes that count against the budget: all that the directory takes on the disk, as `du` counts it."""
        return disk_usage(self.directory)

    def limit_bytes(self) -> int:
        """Returns what the store may take: its own budget, or less where other stores leave less of the total budget."""
        own, total = self.settings.retention.budget, self.settings.retention.total_budget
        if not total:
            return own
        from mulligan.timeline.stores import used_by_stores

        return min(own, max(0, total - used_by_stores(self.settings, others=True)))

    def has_room(self, need: int) -> bool:
        """Returns whether a checkpoint with so many new bytes is within the budget; cheap where it is by far."""
        left = self.limit_bytes() - need - BESIDES_PACKS
        return self._most_bytes() <= left or self.used_bytes() <= left

    def _most_bytes(self) -> int:
        """Returns no less than what the store takes on the disk, without looking at each of its files."""
        objects, refs_ever = self.objects, self.checkpoints.ever()
        total = objects.disk_bytes() + (2 * objects.pack_count() + refs_ever) * _BLOCK + _BESIDES
        for name in _LONG_FILES:
            with suppress(FileNotFoundError):
                total += self.directory.stat(name).st_size + _BLOCK
        return total

    # -- the epoch: when objects may have gone ----------------------------------------------------

    def epoch(self) -> int:
        """Returns a number that grows whenever objects were removed."""
        said = self.database.meta(_EPOCH, "0")
        if not said.isdecimal():
            raise broken_row("meta")
        return int(said)

    def next_epoch(self) -> None:
        """Says that objects were removed."""
        with self.database.transaction():
            self.database.set_meta(_EPOCH, str(self.epoch() + 1))

    def about(self) -> dict[str, Any]:
        """Returns what the store says about itself."""
        return {"store_id": self.database.meta(_STORE_ID), "workspace": self.database.meta(_WORKSPACE)}


def open_store(path: str) -> Directory:
    """Returns the directory of a store; raises FileNotFoundError, and Unprotectable for one that another user could have made."""
    try:
        directory = Directory.open(path)
    except FileNotFoundError:
        raise
    except OSError as error:
        if os.path.islink(path):
            raise Unprotectable(
                f"The store {path} is a link, which another user may have put there; it is not used. Nothing was changed.",
                hint=f"Name the directory itself: --store {os.path.realpath(path)}",
            ) from error
        if error.errno not in (errno.ELOOP, errno.ENOTDIR):
            from mulligan.safefs.errors import typed

            raise typed(error) from error
        raise StoreDamaged(f"The store {path} cannot be opened ({error.strerror}).", hint="mulligan status") from error
    st = os.fstat(directory.fd)
    if st.st_uid != os.geteuid() or stat.S_IMODE(st.st_mode) & 0o022:
        directory.close()
        raise Unprotectable(
            f"The store {path} belongs to another user or may be written by others; it is not used.",
            hint=f"chmod go-w {path}, or name another: --store DIR",
        )
    return directory
