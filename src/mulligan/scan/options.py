"""How a scan is made."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from mulligan.scan.glance import Glancing, Looked
from mulligan.scan.intake import Progress
from mulligan.scan.reading import Sink

if TYPE_CHECKING:
    from mulligan.scan.recalling import Recalling


class Options(NamedTuple):
    """How a scan is made."""

    sink: Sink
    settle: bool = True
    index_changed: bool = False
    later: bool = False  # whether the trees may be made when somebody asks for them
    progress: Progress | None = None
    compiled: str = ""  # the directory of the compiled part, empty for none
    # Begins one glance at everything; not where each directory must be opened, as for a watcher.
    glance: Callable[[int], Glancing | Looked | Recalling | None] | None = None
