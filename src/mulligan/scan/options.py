"""How a scan is made."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from mulligan.scan.glance import Glancing, Looked
from mulligan.scan.intake import Progress
from mulligan.scan.reading import Sink


class Options(NamedTuple):
    """How a scan is made."""

    sink: Sink
    settle: bool = True
    index_changed: bool = False
    later: bool = False  # whether the trees may be made when somebody asks for them
    progress: Progress | None = None
    # Begins one glance at everything; not where each directory must be opened, as for a watcher.
    glance: Callable[[int], Glancing | Looked | None] | None = None
