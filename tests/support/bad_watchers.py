"""Watchers with one fault each. A proof that does not find them out proves nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from mulligan.safefs import inotify
from mulligan.scan import image, patching, trees, warm
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
    return warm.WarmScanner, "_note_names", lambda self, frame, found: None


def _forgives_too_early() -> tuple[object, str, Any]:
    """Takes marks away although no checkpoint holds what was found."""
    real = image.Image.add

    def add(self: image.Image, touched: Any) -> None:
        self._marks = {}
        real(self, touched)

    return image.Image, "add", add


def _keeps_moved() -> tuple[object, str, Any]:
    """Goes on under the old name with a directory that was moved."""
    return watcher.Watcher, "_drop", lambda self, path: None


def _overlooks_the_index() -> tuple[object, str, Any]:
    """Does not look again when git tracks something else."""
    real = image.Image.wanted
    return image.Image, "wanted", lambda self, index_changed: real(self, index_changed=False)


def _patches_anything() -> tuple[object, str, Any]:
    """Takes a directory in which names came for one that holds the same names as before."""

    def lasting(directory: Any, packed: Any, names: Any) -> list[bytes]:
        return [name for name in names if name in packed.names]

    return patching.Patching, "_lasting", staticmethod(lasting)


def _forgets_patches() -> tuple[object, str, Any]:
    """Tells a directory that is walked of what was in those below it, and not of what was patched there."""
    return warm.WarmScanner, "_head_of", lambda self, path: self._cache.head_of(path)


def _exchanges_one_id() -> tuple[object, str, Any]:
    """Makes a tree of the last one with one of the ids that are new."""
    return patching, "spliced", lambda tree, edits: trees.spliced(tree, edits[:1])


BUILDS: dict[str, Callable[[], tuple[object, str, Any]]] = {
    "forgets-new-directories": _forgets_new_directories,
    "does-not-wait": _does_not_wait,
    "knows-one-name": _knows_one_name,
    "forgives-too-early": _forgives_too_early,
    "keeps-moved": _keeps_moved,
    "overlooks-the-index": _overlooks_the_index,
    "patches-anything": _patches_anything,
    "forgets-patches": _forgets_patches,
    "exchanges-one-id": _exchanges_one_id,
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
