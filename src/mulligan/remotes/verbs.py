"""
The verbs of remotes: add, list, remove, push, pull, clone.

Each opens the store through its workspace, so that locks, recovery and events are the same as for every other verb.
"""

from __future__ import annotations

import builtins
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from mulligan.errors import GitMissing, MulliganError, NothingSaved, RemoteDamaged, RemoteFailed, UserError
from mulligan.remotes.protocol import is_machine_name
from mulligan.remotes.push import Pushed, Pusher, difference
from mulligan.remotes.records import LastPush, RemoteNote, RemoteRecords
from mulligan.remotes.spool import Spool
from mulligan.remotes.urls import GIT, absolute, kind_of, shown
from mulligan.remotes.words import SAFE
from mulligan.timeline.store import Store

if TYPE_CHECKING:
    from mulligan.engine.workspace import Workspace
    from mulligan.remotes.bucket import Bucket
    from mulligan.remotes.pull import PulledReport
    from mulligan.remotes.sealed import Sealed
    from mulligan.remotes.storage import Storage
    from mulligan.remotes.survey import RemoteCheck
    from mulligan.remotes.sweep import Swept
    from mulligan.timeline.story import Chapter

#: A push or a pull waits so long for another one of the same remote.
_WAIT = 10.0


@contextmanager
def _writing(workspace: Workspace, purpose: str, *, create: bool = False) -> Iterator[Store]:
    """Holds the store, as every writing verb does."""
    with workspace.bench.writing(purpose, create=create, needed=not create):
        yield workspace.bench.store


class Remotes:
    """The remotes of a workspace; `Workspace.remotes`."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def __iter__(self) -> Iterator[RemoteNote]:
        return iter(self.list())

    def __repr__(self) -> str:
        return f"<mulligan.Remotes {[remote.name for remote in self.list()]}>"

    # -- which ----------------------------------------------------------------------------------

    def list(self) -> list[RemoteNote]:
        """Returns the remotes, by name."""
        with self._workspace.bench.reading() as store:
            return RemoteRecords(store).remotes() if store is not None and store.database.knows_remotes() else []

    def overview(self) -> builtins.list[dict[str, Any]]:
        """Returns the remotes with the machines whose chains were read there."""
        with self._workspace.bench.reading() as store:
            if store is None or not store.database.knows_remotes():
                return []
            records = RemoteRecords(store)
            own = records.machine()
            return [
                {**each.to_dict(), "url": shown(each.url), "this": records.machine_name(),
                 "machines": sorted(mark.name for key, mark in records.marks(each.name).items() if key != own)}
                for each in records.remotes()
            ]  # fmt: skip

    def add(
        self, name: str, url: str, *, encrypt: bool | None = None, machine: str = "", identity: str = ""
    ) -> RemoteNote:
        """Adds a remote after trying what its server can do; raises RemoteFailed where it cannot be used."""
        if not is_machine_name(name):
            raise UserError(
                f"{name!r} cannot name a remote. Nothing was changed.", hint="Use letters, digits, . _ and -"
            )
        kind, url = kind_of(url), absolute(url)
        with _writing(self._workspace, "remote", create=True) as store:
            records = RemoteRecords(store)
            if store.database.knows_remotes() and any(each.name == name for each in records.remotes()):
                raise UserError(
                    f"There is a remote {name!r} already. Nothing was changed.", hint=f"mulligan remote rm {name}"
                )
            with store.database.transaction():
                records.introduce(name=machine)
        remote = RemoteNote(name, url, kind, encrypted=kind != GIT if encrypt is None else encrypt, identity=identity)
        with self._opened(remote, "remote") as (_, _, storage):
            found: RemoteNote = storage.begin()
        with _writing(self._workspace, "remote") as store, store.database.transaction():
            RemoteRecords(store).keep(found)
        return found

    def begin_clone(
        self, name: str, url: str, *, timeline: str = "", machine: str = "", identity: str = "", lazy: bool = False
    ) -> RemoteNote:
        """Makes a store that continues the timeline of a remote; raises RemoteFailed where there is none, or several."""
        remote = RemoteNote(name, absolute(url), kind_of(url), identity=identity, lazy=lazy)
        with _writing(self._workspace, "clone", create=True) as store, store.database.transaction():
            RemoteRecords(store).introduce(name=machine)
        with self._opened(remote, "clone") as (_, _, storage):
            joined: tuple[RemoteNote, str] = storage.join(timeline)
        if joined[0].encrypted and not joined[0].pins:  # a git server: only now it is known that there is a key
            with self._opened(joined[0], "clone", joined[1]) as (_, _, storage):
                joined = storage.join(joined[1])
        with _writing(self._workspace, "clone") as store, store.database.transaction():
            records = RemoteRecords(store)
            records.introduce(timeline=joined[1])
            records.keep(joined[0])
        return joined[0]

    def remove(self, name: str, *, forced: bool = False) -> RemoteNote:
        """Removes a remote; pulled checkpoints stay. Where it alone has contents, it is refused, or `forced` and those rows go."""
        with _writing(self._workspace, "remote") as store:
            records = RemoteRecords(store)
            remote, copies = records.remote(name), records.pulled()
            only = [row for row in copies.only_remote() if row[1].checkpoint.held_by == name]
            if only and not forced:
                raise UserError(
                    f"The contents of {len(only)} checkpoint{'s' * (len(only) > 1)} are only on {name}. Nothing was removed.",
                    hint=f"Bring them here first: mulligan pull {name} --all; or drop them from the log: mulligan remote rm {name} -y",
                )
            with store.database.transaction():
                for machine, entry, _ in only:
                    copies.drop(machine, [entry.id])
                records.drop(name)
            with store.directory.child(b"remotes") as place:
                if place.exists(name.encode()):
                    place.remove_tree(name.encode())
        return remote

    # -- moving -----------------------------------------------------------------------------------

    def push(self, name: str | None = None, *, full: bool = False) -> Pushed:
        """Sends what is new to a remote; costs what is new."""
        remote = self.find(name)
        try:
            with self._opened(remote, "push") as (workspace, store, storage):
                done = Pusher(store, storage, remote.name, partial(_writing, workspace), time.time_ns).run(full=full)
                self._keep_if_changed(remote, storage.remote)
                failed = RemoteRecords(store).last_push(remote.name).error
        except UserError as error:
            with suppress(MulliganError):  # the push itself has an error to report
                self._note_push(remote.name, error.message)
            raise
        if failed and not done.segments:  # a push that sent something has noted it
            self._note_push(remote.name)
        return done

    def _note_push(self, name: str, error: str = "") -> None:
        """Notes how a push ended, for `status`."""
        now = time.time_ns()
        with _writing(self._workspace, "push") as store, store.database.transaction():
            records = RemoteRecords(store)
            records.set_last_push(name, LastPush(records.last_push(name).at, now, error) if error else LastPush(now))

    def behind(self) -> builtins.list[str]:
        """Returns the remotes that lack something of this history; asks no server."""
        with self._workspace.bench.reading() as store:
            if store is None or not store.database.knows_remotes():
                return []
            return [each.name for each in RemoteRecords(store).remotes() if not difference(store, each.name).is_nothing]

    def pull(self, name: str | None = None, *, everything: bool = False) -> PulledReport:
        """
        Brings other machines' checkpoints here, verified; the workspace is not touched.

        A lazy clone gets their rows; with `everything`, it gets all contents too and is lazy no more.
        """
        from mulligan.remotes.pull import Puller

        remote = self.find(name)
        with self._opened(remote, "pull") as (workspace, store, storage):
            puller = Puller(store, storage, storage.spool.objects, remote.name, partial(_writing, workspace))
            lazy = remote.lazy and not everything
            report = puller.run(self._workspace.progress, lazy=lazy, everything=everything)
            self._keep_if_changed(remote, storage.remote._replace(lazy=lazy or (remote.lazy and bool(report.refused))))
            return report

    def fetch(self, rows: Iterable[int]) -> None:
        """Brings the contents of checkpoints that are only listed here, verified; raises RemoteFailed in plain words."""
        from mulligan.remotes.pull import Puller

        groups: dict[tuple[str, str], set[str]] = {}
        with self._workspace.bench.needing() as found:
            copies, wanted = RemoteRecords(found).pulled(), set(rows)
            for machine, entry, _ in copies.only_remote():
                if entry.seq in wanted:
                    groups.setdefault((entry.checkpoint.held_by, machine), set()).add(entry.id)
        for (name, machine), ids in groups.items():
            what = f"The contents of checkpoint {min(ids)[:8]} are on the remote {name}"
            try:
                with self._opened(self.find(name), "fetch") as (workspace, store, storage):
                    writing = partial(_writing, workspace)
                    refused = Puller(store, storage, storage.spool.objects, name, writing).bring(machine, ids)
            except (RemoteFailed, GitMissing) as error:
                why = error.message.removesuffix(SAFE).strip()
                raise type(error)(
                    f"{what} and could not be fetched: {why} Nothing was changed.", hint=error.hint
                ) from None
            if refused:
                raise RemoteDamaged(
                    f"{what}, and what it sent cannot be believed: {refused[0][1]} Nothing was changed.",
                    hint=f"It may be deleted there since: mulligan pull {name}; or: mulligan check --remote {name}",
                )

    # -- looking ----------------------------------------------------------------------------------

    def fleet(self, name: str | None = None) -> builtins.list[dict[str, Any]]:
        """Returns the machines of a remote, the last seen first, without taking anything in."""
        from mulligan.remotes.survey import fleet

        with self._opened(self.find(name), "fleet") as (_, store, storage):
            return fleet(storage, RemoteRecords(store))

    def log(self, name: str | None = None) -> builtins.list[dict[str, Any]]:
        """Returns the checkpoints that a remote holds, newest first, without taking anything in."""
        from mulligan.remotes.survey import chains, listed

        with self._opened(self.find(name), "log") as (_, _, storage):
            return listed(chains(storage, rows_only=True)[0])

    def story(self, name: str | None = None, *, limit: int | None = None, **bounds: Any) -> builtins.list[Chapter]:
        """Returns what agents did on the machines of a remote, prompt by prompt, newest first, without taking anything in."""
        from mulligan.engine.agents import bounded_story
        from mulligan.remotes.stories import remote_story
        from mulligan.remotes.survey import chains, names_in

        with self._opened(self.find(name), "log") as (_, store, storage):
            found, notes = chains(storage, rows_only=True)[0], RemoteRecords(store).forgotten()
        return bounded_story(remote_story(found, names_in(found), notes), bounds)[:limit]

    def check(self, name: str | None = None, *, read_data: str = "0%") -> RemoteCheck:
        """Verifies the chains of a remote, looks for every pack, and reads a part of the packs."""
        from mulligan.remotes.survey import check, part_of

        part = part_of(read_data)
        with self._opened(self.find(name), "check") as (workspace, store, storage):
            return check(storage, RemoteRecords(store), read_part=part, progress=workspace.progress)

    def collect(self, name: str | None = None, *, grace_hours: float = 24.0, dry_run: bool = False) -> Swept:
        """Frees what no segment of an object store names any more; marks first, deletes a day later."""
        remote = self.find(name)
        if remote.kind == GIT:
            raise UserError(
                "A git server collects its garbage itself. Nothing was deleted.",
                hint=f"mulligan push {remote.name} --prune",
            )
        from mulligan.remotes.sweep import sweep

        with self._opened(remote, "gc") as (_, _, storage):
            return sweep(cast("Bucket", storage), grace_hours=grace_hours, dry_run=dry_run)

    # -- members ----------------------------------------------------------------------------------

    def members(self, name: str | None = None) -> dict[str, Any]:
        """Returns who can open an encrypted remote, and the public key of this user."""
        with self._encrypted(name) as storage:
            return {"you": storage.member().recipient, "members": storage.members()}

    def add_member(self, name: str | None, recipient: str) -> str:
        """Lets one more age or ssh key open an encrypted remote; returns the member's name."""
        with self._encrypted(name) as storage:
            return str(storage.add_member(recipient))

    def remove_member(self, name: str | None, which: str) -> str:
        """Shuts a member out of all that is pushed from now on; returns the member's name."""
        with self._encrypted(name) as storage:
            return str(storage.remove_member(which))

    @contextmanager
    def _encrypted(self, name: str | None) -> Iterator[Sealed]:
        remote = self.find(name)
        if not remote.encrypted:
            raise UserError(f"{remote.name} is not encrypted, so it has no members. Nothing was changed.")
        with self._opened(remote, "remote") as (_, _, storage):
            yield cast("Sealed", storage)  # both kinds of encrypted storage are
            self._keep_if_changed(remote, storage.remote)

    def _keep_if_changed(self, before: RemoteNote, now: RemoteNote) -> None:
        if now != before:
            with _writing(self._workspace, "remote") as store, store.database.transaction():
                RemoteRecords(store).keep(now)

    def find(self, name: str | None) -> RemoteNote:
        """Returns a remote by its name, or the only one; raises UserError."""
        with self._workspace.bench.reading() as store:
            if store is None:
                raise NothingSaved(f"Nothing was saved in {self._workspace.root} yet.", hint="mulligan save")
            if not store.database.knows_remotes():
                raise UserError("There is no remote yet. Nothing was sent.", hint="mulligan remote add NAME URL")
            return RemoteRecords(store).remote(name)

    def _twin(self) -> Workspace:
        """Returns the same workspace, opened once more: long work there keeps no other thread waiting here."""
        other = type(self._workspace)(self._workspace.settings)
        other.progress = self._workspace.progress
        return other

    # -- parts ------------------------------------------------------------------------------------

    @contextmanager
    def _opened(
        self, remote: RemoteNote, purpose: str, timeline: str = ""
    ) -> Iterator[tuple[Workspace, Store, Storage]]:
        """Opens the storage of a remote, alone among the processes of this machine."""
        with self._twin() as workspace, workspace.bench.reading() as store:
            if store is None:
                raise NothingSaved(f"Nothing was saved in {workspace.root} yet.", hint="mulligan save")
            spool = Spool(store.path, remote.name)
            try:
                with spool.alone(_WAIT, purpose):
                    whose = timeline or RemoteRecords(store).timeline()
                    yield workspace, store, storage_of(remote, spool, whose, workspace, store)
            finally:
                spool.close()


class _Sent:
    """The packs that an interrupted push has sent, kept in the store."""

    def __init__(self, workspace: Workspace, store: Store, remote: str) -> None:
        self._workspace, self._store, self._remote = workspace, store, remote

    def sent(self) -> dict[str, Any]:
        """Returns them, by their hash."""
        return RemoteRecords(self._store).sent(self._remote)

    def note_sent(self, sent: dict[str, Any]) -> None:
        """Notes one more."""
        with _writing(self._workspace, "push") as store, store.database.transaction():
            RemoteRecords(store).set_sent(self._remote, sent)


def storage_of(remote: RemoteNote, spool: Spool, timeline: str, workspace: Workspace, store: Store) -> Storage:
    """Returns the storage of a remote."""
    if remote.kind == GIT and remote.encrypted:
        from mulligan.remotes.sealedgit import SealedGitServer

        return SealedGitServer(remote, spool, timeline, workspace.progress, source=store.objects, keys=store.keys)
    if remote.kind == GIT:
        from mulligan.remotes.gitserver import GitServer

        return GitServer(remote, spool, timeline, workspace.progress)
    from mulligan.remotes.bucket import Bucket

    sent = _Sent(workspace, store, remote.name)
    return Bucket(remote, spool, timeline, workspace.progress, source=store.objects, keys=store.keys, records=sent)
