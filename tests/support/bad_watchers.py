"""Watchers with one fault each. A proof that does not find them out proves nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from mulligan.safefs import inotify
from mulligan.scan import read, walk
from mulligan.watch import watcher


def _forgets_new_directories() -> tuple[object, str, Any]:
    """Takes a directory that was made since for one that is watched."""
    return watcher.Watcher, "cover", lambda self, path, fd: self._watches.setdefault(path, -2)


def _does_not_wait() -> tuple[object, str, Any]:
    """Believes the queue empty as soon as it is asked."""
    return watcher.Watcher, "_collect", lambda self, queue, waiting: True


def _overlooks_overflow() -> tuple[object, str, Any]:
    """Reads what there is as if nothing was lost, the cookie neither."""

    def collect(self: Any, queue: inotify.Inotify, _waiting: int) -> bool:
        while data := queue.read(0):
            for notice in inotify.notices(data):
                if not notice.what & inotify.OVERFLOW:
                    self._take(notice, self._touched)
        return True

    return watcher.Watcher, "_collect", collect


def _knows_one_name() -> tuple[object, str, Any]:
    """Does not think of second names."""
    return watcher.Watched, "links", lambda self, directory, name: None


def _forgives_too_early() -> tuple[object, str, Any]:
    """Takes marks away although no checkpoint holds what was found."""
    real = watcher.Marks.add

    def add(self: watcher.Marks, touched: Any) -> None:
        self._places = {}
        real(self, touched)

    return watcher.Marks, "add", add


def _keeps_moved() -> tuple[object, str, Any]:
    """Goes on under the old name with a directory that was moved."""
    return watcher.Watcher, "_drop", lambda self, path: None


def _overlooks_the_index() -> tuple[object, str, Any]:
    """Does not look again when git tracks something else."""
    real = watcher.Marks.dirty
    return watcher.Marks, "dirty", lambda self, always: real(self, ())


def _overlooks_names_that_came() -> tuple[object, str, Any]:
    """Takes a directory in which names came for one that holds the same names as before."""
    return read, "_holds_same_names", lambda directory, old, names: True


def _looks_too_shallow() -> tuple[object, str, Any]:
    """Goes to new directories only, and not to those whose rules changed, or that another one took the place of."""
    real = walk._Walk._below

    def below(self: Any, *given: Any, **how: Any) -> list[Any]:
        return [visit for visit in real(self, *given, **how) if visit.path not in self.draft]

    return walk._Walk, "_below", below


BUILDS: dict[str, Callable[[], tuple[object, str, Any]]] = {
    "forgets-new-directories": _forgets_new_directories,
    "does-not-wait": _does_not_wait,
    "knows-one-name": _knows_one_name,
    "forgives-too-early": _forgives_too_early,
    "keeps-moved": _keeps_moved,
    "overlooks-the-index": _overlooks_the_index,
    "overlooks-names-that-came": _overlooks_names_that_came,
    "looks-too-shallow": _looks_too_shallow,
}
OVERFLOW_BUILDS = {"overlooks-overflow": _overlooks_overflow}


@contextmanager
def using(build: str) -> Iterator[None]:
    """Puts a faulty watcher in place, none for the empty name."""
    if not build:
        yield
        return
    owner, name, fault = {**BUILDS, **OVERFLOW_BUILDS}[build]()
    real = owner.__dict__[name]
    setattr(owner, name, fault)
    try:
        yield
    finally:
        setattr(owner, name, real)
