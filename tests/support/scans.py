"""Scans for tests: settings of a workspace, one look at it, with or without a memory."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

from mulligan.diff.compare import compare_trees
from mulligan.model.objects import TreeEntry, parse_tree
from mulligan.model.policy import CapturePolicy, Settings
from mulligan.scan.cache import Cache
from mulligan.scan.scanner import Scanner
from mulligan.scan.trees import HashOnly, Scan


def later() -> int:
    """A clock by which nothing is too young to be remembered."""
    return time.time_ns() + 5_000_000_000


def settings_for(project: Path, policy: CapturePolicy | None = None, **more: object) -> Settings:
    """Settings of a workspace whose store lies beside it."""
    beside = project.parent
    places = (str(project), str(beside / "store"), str(beside / "stores"), str(beside / "home"))
    more.setdefault("keys", str(beside / "keys"))
    return Settings(*places, capture=policy or CapturePolicy(), **more)  # type: ignore[arg-type]


class Looking:
    """One scanner and what it remembers."""

    def __init__(self, project: Path, policy: CapturePolicy | None = None, now_ns: Callable[[], int] = later) -> None:
        self.scanner = Scanner(settings_for(project, policy), now_ns)
        self.cache = Cache()

    def look(self, *, settle: bool = True, remember: bool = True) -> Scan:
        """Scans as a save does, and remembers what it saw as one does."""
        scan, _, note = self.scanner.scan(self.cache, HashOnly() if settle else None)
        if remember:
            text = json.dumps({"defaults": list(scan.defaults), **note}).encode()
            self.cache.update(scan.packed(), scan.gone, scan.tree, text)
        return scan


def misjudged(scan: Scan, read_tree: Callable[[bytes], list[TreeEntry]]) -> set[object]:
    """What a scan says of its changes and the trees themselves do not, or the other way round."""

    def read(oid: bytes) -> list[TreeEntry]:
        return parse_tree(scan.objects[oid][1]) if oid in scan.objects else read_tree(oid)

    def told(entry: TreeEntry | None) -> tuple[int, bytes] | None:
        return None if entry is None else (entry.mode, entry.oid)

    truth = compare_trees(read, scan.cache.root_tree or None, scan.tree)
    return set(scan.changes()) ^ {(change.path, told(change.old), told(change.new)) for change in truth}


def reasons(scan: Scan) -> dict[str, str]:
    """What is not captured, and why."""
    return {row.path: row.reason for row in scan.not_captured()}


def names(scan: Scan) -> set[str]:
    """The files and links that are captured."""
    return {path.decode("utf-8", "surrogateescape") for path, _, _ in scan.captured()}
