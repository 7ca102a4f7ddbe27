"""
Known-bad builds for the sweep of first checkpoints that begin with what git knows: each believes one thing too much.

Each turns the engine of this process into one that must not be shipped.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

from mulligan.model.paths import join
from mulligan.scan import from_git
from mulligan.scan.cache import STAT
from mulligan.usergit import records, trust


def _ignores_change_times() -> None:
    """A file whose change time is another one is taken for the same."""
    real = from_git.Expected.__init__

    def initialise(self: Any, root: Any, *words: Any) -> None:
        real(self, root, *words)
        for path, folder in self.folders.items():
            for at, name in enumerate(folder.names):
                ino, mode, size, mtime, ctime = STAT.unpack(folder.stats[at])
                with suppress(OSError):
                    ctime = os.stat(join(path, name), dir_fd=root.fd, follow_symlinks=False).st_ctime_ns
                if size >= 0:
                    folder.stats[at] = STAT.pack(ino, mode, size, mtime, ctime)

    from_git.Expected.__init__ = initialise  # type: ignore[method-assign]


class _Anything(int):
    """A checksum that is always right."""

    def __eq__(self, _: object) -> bool:
        return True

    def __ne__(self, _: object) -> bool:
        return False

    __hash__ = int.__hash__


def _believes_records() -> None:
    """A record is copied whatever its checksum is."""
    records.zlib = SimpleNamespace(  # type: ignore[assignment]
        crc32=lambda _: _Anything(), decompressobj=zlib.decompressobj, error=zlib.error
    )


def _ignores_doubts() -> None:
    """What was not copied proves as much as what was."""
    from_git._Making.doubt = lambda *_: {}  # type: ignore[method-assign]


def _believes_filters() -> None:
    """That something stands between file and object is not asked."""
    trust.may_rewrite = from_git.may_rewrite = lambda *_: False  # type: ignore[assignment]


def _forgets_filters() -> None:
    """A filter that no attribute names any more is taken for one that never was in force."""
    trust._is_filter = lambda *_: False  # type: ignore[assignment]


BUILDS: dict[str, Callable[[], None]] = {
    "good": lambda: None,
    "ignores-change-times": _ignores_change_times,
    "believes-records": _believes_records,
    "ignores-doubts": _ignores_doubts,
    "believes-filters": _believes_filters,
    "forgets-filters": _forgets_filters,
}
