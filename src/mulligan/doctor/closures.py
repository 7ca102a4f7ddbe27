"""
Whether checkpoints are whole: every object that a commit reaches is there and can be read.

Checkpoints share nearly everything, so a tree that was found whole once is not walked again: a hundred thousand checkpoints
cost what they do not have in common.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from mulligan.errors import MulliganError
from mulligan.model.objects import COMMIT, EMPTY_TREE, MODE_DIR, parse_commit
from mulligan.store.objects import ObjectStore


class Closures:
    """What commits reach, remembered from one to the next; `lost` are objects that are there and cannot be read."""

    def __init__(self, store: ObjectStore, lost: Collection[bytes] = ()) -> None:
        self._store = store
        self._lost = lost
        self._whole: set[bytes] = {EMPTY_TREE}

    def lacks(self, commit: bytes) -> str:
        """Returns what is wrong with the objects of a checkpoint, in words; nothing where it is whole."""
        gone, trouble = self._walk(commit)
        if trouble:
            return trouble
        return f"{len(gone)} of its objects are missing or damaged" if gone else ""

    def missing(self, commits: Iterable[bytes]) -> set[bytes]:
        """Returns the objects that some commits need and the store does not have."""
        gone: set[bytes] = set()
        for commit in commits:
            gone |= self._walk(commit)[0]
        return gone

    def _walk(self, commit: bytes) -> tuple[set[bytes], str]:
        """Returns the objects that are not there, and the error that ended the walk, if one did."""
        if self._is_gone(commit):
            return {commit}, ""
        try:
            root = parse_commit(self._store.read(commit, COMMIT)).tree
        except MulliganError as error:
            return {commit}, error.message
        gone, trouble, pending, seen = set(), "", [root], set[bytes]()
        while pending:
            tree = pending.pop()
            if tree in self._whole or tree in seen:
                continue
            seen.add(tree)
            if self._is_gone(tree):
                gone.add(tree)
                continue
            try:
                entries = self._store.read_tree(tree)
            except MulliganError as error:
                gone.add(tree)
                trouble = error.message
                continue
            for entry in entries:
                if entry.mode == MODE_DIR:
                    pending.append(entry.oid)
                elif entry.oid not in self._whole:
                    if self._is_gone(entry.oid):
                        gone.add(entry.oid)
                    else:
                        seen.add(entry.oid)
        if not gone and not trouble:
            self._whole |= seen
        return gone, trouble

    def _is_gone(self, oid: bytes) -> bool:
        return oid in self._lost or not self._store.has(oid)
