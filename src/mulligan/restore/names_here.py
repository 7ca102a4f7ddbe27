"""The names in a workspace, as a scan saw them, and whether its file system takes some of them for one."""

from __future__ import annotations

import os

from mulligan.model.objects import EMPTY_TREE, MODE_DIR, TreeEntry
from mulligan.model.paths import join, parent_of
from mulligan.model.spelling import fold
from mulligan.safefs.directory import Directory
from mulligan.timeline.trees import WorkspaceView


class NamesHere:
    """What `settle_spelling` asks."""

    def __init__(self, look: WorkspaceView, workspace: str) -> None:
        self._look = look
        self._workspace = workspace
        self._folding: dict[bytes, bool] = {}
        self._others: dict[bytes, list[bytes]] | None = None

    def names_in(self, directory: bytes) -> dict[bytes, bool]:
        """Returns the names that the scan saw in a directory, each with whether it is a directory that is saved."""
        if self._others is None:
            self._others = {}
            for path in (*self._look.scan.missed, *self._look.scan.sealed):
                self._others.setdefault(parent_of(path), []).append(path.rpartition(b"/")[2])
        found = dict.fromkeys(self._others.get(directory, ()), False)
        found.update((entry.name, entry.mode == MODE_DIR) for entry in self._entries(directory))
        return found

    def with_spellings(self, paths: tuple[bytes, ...]) -> tuple[bytes, ...]:
        """Returns paths that were asked for, with the saved ones that stand in their places under another spelling."""
        others = [self._spelling(path) for path in paths]
        scan, source = self._look.scan, self._look.source
        saved = [path for path in others if path in scan.sealed or source.lookup(scan.tree, path) is not None]
        return tuple(dict.fromkeys((*paths, *saved)))

    def _spelling(self, path: bytes) -> bytes:
        found = b""
        for name in path.split(b"/"):
            names = self.names_in(found)
            if name not in names and self.folds(found):
                found = join(found, next((each for each in names if fold(each) == fold(name)), name))
            else:
                found = join(found, name)
        return found

    def folds(self, directory: bytes) -> bool:
        """Returns whether names in a directory are one that differ in case; asks the one above if no name there can tell."""
        known = self._folding.get(directory)
        if known is None:
            name = next((entry.name for entry in self._entries(directory) if entry.name != entry.name.swapcase()), None)
            known = self.folds(parent_of(directory)) if name is None and directory else self._asked(directory, name)
            self._folding[directory] = known
        return known

    def _asked(self, directory: bytes, name: bytes | None) -> bool:
        """Asks with a name in a directory; without one, with the workspace's own."""
        above, _, own = self._workspace.rpartition("/")
        try:
            with Directory.open(self._workspace if name else above or "/") as root, root.descend(directory) as opened:
                return opened.folds(name or os.fsencode(own))
        except OSError:
            return False  # not reachable, so nothing is made there either

    def _entries(self, directory: bytes) -> list[TreeEntry]:
        source, tree = self._look.source, self._look.scan.tree
        entry = source.lookup(tree, directory) if tree != EMPTY_TREE else None
        return source.read_tree(entry.oid) if entry is not None and entry.mode == MODE_DIR else []
