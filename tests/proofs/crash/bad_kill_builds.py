"""
Builds of mulligan that lose something when they are killed: each has one fault, and the sweep must find it.

A build is a context in which the operation runs; the judge and the next command are always the real ones.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from loose_builds import replaced
from mulligan.doctor import check, repair
from mulligan.engine import save as engine_save
from mulligan.errors import Busy
from mulligan.restore import apply, procedure
from mulligan.restore.stage import Stager, temporary_name
from mulligan.safefs import syscalls
from mulligan.safefs.directory import Directory, read_all, write_all
from mulligan.store import gc, refs
from mulligan.store.pack_writer import PackWriter
from mulligan.timeline import commits, journal
from mulligan.timeline import store as timeline_store
from mulligan.timeline.checkpoints import Checkpoints
from mulligan.timeline.store import Store

# -- restores ---------------------------------------------------------------------------------------


def in_place() -> Any:
    """New bytes are written into the old file."""
    real = apply.Executor._swap

    def swap(self: Any, number: int, action: Any, parent: Directory, stage: Directory) -> None:
        name, temporary = os.path.basename(action.path), temporary_name(self._token, number)
        if action.before.is_link or action.after.is_link:
            real(self, number, action, parent, stage)
            return
        with stage.reading(temporary) as staged:
            content = read_all(staged)
        fd = syscalls.calls.open(name, os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW, dir_fd=parent.fd)
        write_all(fd, content[: len(content) // 2])
        write_all(fd, content[len(content) // 2 :])
        syscalls.calls.close(fd)
        stage.unlink(temporary)
        self._done(action)

    return replaced(apply.Executor, _swap=swap)


def unlink_first() -> Any:
    """The old file goes before the new one comes."""

    def swap(self: Any, number: int, action: Any, parent: Directory, stage: Directory) -> None:
        parent.unlink(os.path.basename(action.path))
        stage.rename(temporary_name(self._token, number), os.path.basename(action.path), to=parent)
        self._done(action)

    return replaced(apply.Executor, _swap=swap)


@contextmanager
def journal_late() -> Iterator[None]:
    """The journal is written when the files have changed."""
    real, held = apply.Executor.run, []

    def run(self: Any, stage: Any) -> Any:
        outcome = real(self, stage)
        journal.open_journal(*held.pop())
        return outcome

    def wait(*what: Any) -> None:
        held.append(what)

    with replaced(procedure, open_journal=wait, set_phase=lambda *_: None), replaced(apply.Executor, run=run):
        yield


@contextmanager
def clean_before_validate() -> Iterator[None]:
    """Everything that is to change is removed, and only then is it seen whether the store can give the new files."""
    stage_files = Stager.stage

    def stage(self: Any, places: Any, **options: Any) -> Any:
        for _, action in (*self._layout.removes, *self._layout.places):
            if action.before is not None and not action.before.is_dir:
                above, _, name = action.path.rpartition(b"/")
                self._handles.get(above).unlink(name, missing_ok=True)
        return stage_files(self, places, **options)

    def place(self: Any, number: int, action: Any) -> None:
        parent, name, stage, temporary = self._places_of(number, action)
        stage.rename(temporary, name, to=parent)
        self._done(action)

    def remove(self: Any, _: int, action: Any) -> None:
        self._done(action)

    with (
        replaced(Stager, stage=stage),
        replaced(procedure, _look_again=lambda *_: None),
        replaced(apply.Executor, _place=place, _remove=remove),
    ):
        yield


# -- saves ------------------------------------------------------------------------------------------


@contextmanager
def timeline_first() -> Iterator[None]:
    """The timeline names a checkpoint whose objects are not yet there."""
    finish, settle, waiting = PackWriter.finish, Store.place_ref, []

    def wait(self: Any, **beside: Any) -> None:
        waiting.append((self, beside))

    def later(self: Any, *refs: Any) -> None:
        while waiting:
            writer, beside = waiting.pop()
            finish(writer, **beside)
        settle(self, *refs)

    with replaced(PackWriter, finish=wait), replaced(Store, place_ref=later):
        yield


@contextmanager
def ref_not_owed() -> Iterator[None]:
    """Nothing says that a ref is still to be written."""
    settle = Store.place_ref

    def write_all_refs(self: Any, *refs_of: Any) -> None:
        settle(self, *refs_of)
        have = refs.read_refs(self.directory)
        for name, commit in self.checkpoints.roots().items():
            if have.get(name) != commit:
                refs.write_ref(self.directory, name, commit)

    with replaced(Checkpoints, owe_ref=lambda *_: None), replaced(Store, place_ref=write_all_refs):
        yield


@contextmanager
def acknowledges_early() -> Iterator[None]:
    """A save is acknowledged, and committed together with the next one."""
    real, waiting = commits.record_checkpoint, []

    def later(*args: Any, **options: Any) -> list[Any]:
        while waiting:
            before, how = waiting.pop()
            real(*before, **how)
        waiting.append((args, options))
        return []

    with replaced(engine_save, record_checkpoint=later):
        yield


def gc_removes_first() -> Any:
    """Old packs go before the new one is in place."""

    def swap(store: Any, placed: Any, gone: Any) -> None:
        for name in gone:
            gc.remove_pack(store.packs_directory(), name)
        placed.place()
        store.refresh()

    return replaced(gc, _swap=swap)


# -- what only the next command shows ---------------------------------------------------------------


def never_swept() -> Any:
    """Nobody removes what a dead process left in tmp/."""
    return replaced(timeline_store, sweep_temporaries=lambda *_, **__: None)


@contextmanager
def lock_by_existence() -> Iterator[None]:
    """The lock is a file that is there, and stays when its process dies."""

    @contextmanager
    def exclusive(directory: Directory, *, wait: float = 0.0, purpose: str = "", mark: str = "") -> Iterator[str]:
        try:
            syscalls.calls.close(directory.create(b"held"))
        except FileExistsError:
            raise Busy("The store is in use.") from None
        try:
            yield ""
        finally:
            directory.unlink(b"held")

    with (
        replaced(timeline_store, exclusive=exclusive),
        replaced(check, exclusive=exclusive),
        replaced(repair, exclusive=exclusive),
    ):
        yield


Build = Callable[[], AbstractContextManager[Any]]
#: By name; `honesty.py` says which sweep catches which.
BUILDS: dict[str, Build] = {
    "good": nullcontext,
    "in-place": in_place,
    "unlink-first": unlink_first,
    "journal-late": journal_late,
    "clean-before-validate": clean_before_validate,
    "timeline-first": timeline_first,
    "ref-not-owed": ref_not_owed,
    "acknowledges-early": acknowledges_early,
    "gc-removes-first": gc_removes_first,
    "never-swept": never_swept,
    "lock-by-existence": lock_by_existence,
}
#: Faults of the next command, and not of the one that was killed.
LASTING = frozenset({"never-swept", "lock-by-existence"})
