"""
The secrets of a plan, opened in memory: actions on sealed files become actions on plain ones.

A plan and its journal name a sealed file by its keyed hash. The procedure that applies them works with the content, which is held here
and nowhere else; what cannot be opened reads like a damaged object.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from mulligan.errors import MulliganError, StoreDamaged
from mulligan.model.objects import BLOB, MODE_EXEC, MODE_FILE, MODE_SEALED, object_id
from mulligan.model.plan import Action, Node, crosses_over, is_sealed
from mulligan.restore.stage import BlobSource
from mulligan.timeline.store import Store

if TYPE_CHECKING:
    from mulligan.model.checkpoint import Sealed, SealedFile
    from mulligan.store.objects import ObjectStore


_NOTHING: Sealed = MappingProxyType({})


class OpenedStore:
    """The objects of the store, with contents of secrets in front."""

    def __init__(self, objects: ObjectStore, contents: Mapping[bytes, bytes], closed: Mapping[bytes, str]) -> None:
        self._objects = objects
        self._contents = contents
        self._closed = closed

    def is_private(self, oid: bytes) -> bool:
        """Returns whether an object is the content of a secret: no one but its owner may ever read a copy."""
        return oid in self._contents or oid in self._closed

    def read(self, oid: bytes, kind: bytes) -> bytes:
        """Returns an object's bytes, verified."""
        found = self._content(oid) if kind == BLOB else None
        return self._objects.read(oid, kind) if found is None else found

    def read_up_to(self, oid: bytes, most: int) -> bytes | int:
        """Returns a blob's bytes, verified, or how many it has where they are more than `most`."""
        found = self._content(oid)
        if found is None:
            return self._objects.read_up_to(oid, most)
        return found if len(found) <= most else len(found)

    def stream(self, oid: bytes) -> Iterator[bytes]:
        """Yields a blob piece by piece, verified at the end."""
        found = self._content(oid)
        if found is None:
            yield from self._objects.stream(oid)
        else:
            yield found

    def _content(self, oid: bytes) -> bytes | None:
        if oid in self._closed:
            raise StoreDamaged(self._closed[oid], hint="mulligan key import FILE")
        return self._contents.get(oid)


def unsealed(store: Store, actions: Sequence[Action], seen: Sealed = _NOTHING) -> tuple[Sequence[Action], BlobSource]:
    """Returns actions on plain files, and where to read those; `seen` are secrets whose plain content a scan knows."""
    return _Unsealing(store, seen).run(actions) if any(map(is_sealed, actions)) else (actions, store.objects)


def without_same_bytes(store: Store, actions: Sequence[Action], seen: Sealed) -> tuple[Action, ...]:
    """Returns actions without the files that are saved another way now, because git tracks them or no longer does."""

    def differs(action: Action) -> bool:
        # Each alone: before the first key is made, no keyed hash tells two secrets apart.
        here = seen.get(action.path)
        ((_, before, after),), _ = unsealed(store, [action], {} if here is None else {action.path: here})
        return before != after

    return tuple(action for action in actions if not crosses_over(action) or differs(action))


class _Unsealing:
    """One plan."""

    def __init__(self, store: Store, seen: Sealed) -> None:
        self._store = store
        self._plain = {file.content_id: file.plain for file in seen.values() if file.plain}
        self._files: dict[bytes, tuple[bytes, SealedFile]] | None = None
        self._contents: dict[bytes, bytes] = {}
        self._closed: dict[bytes, str] = {}

    def run(self, actions: Sequence[Action]) -> tuple[tuple[Action, ...], OpenedStore]:
        made = tuple(
            Action(path, self._node(before, needs_content=False), self._node(after, needs_content=True))
            for path, before, after in actions
        )
        return made, OpenedStore(self._store.objects, self._contents, self._closed)

    def _node(self, node: Node | None, *, needs_content: bool) -> Node | None:
        if node is None or node.mode != MODE_SEALED:
            return node
        plain = self._plain.get(node.oid)
        if plain is None or (needs_content and plain not in self._contents):
            plain = self._plain[node.oid] = self._open(node.oid)
        return Node(MODE_EXEC if node.perm & 0o100 else MODE_FILE, plain, node.perm)

    def _open(self, content_id: bytes) -> bytes:
        """Opens a secret and returns the id of its content; one that does not exist for what cannot be opened."""
        from mulligan.timeline.secrets import open_sealed

        found = self._find(content_id)
        try:
            if found is None:
                raise StoreDamaged("A sealed file of this restore is in no checkpoint.", hint="mulligan check")
            data = open_sealed(found[1], found[0], self._store.keys, self._store.objects.read)
        except MulliganError as error:
            unknown = object_id(BLOB, b"not to be opened " + content_id)
            self._closed[unknown] = error.message
            return unknown
        oid = object_id(BLOB, data)
        self._contents[oid] = data
        return oid

    def _find(self, content_id: bytes) -> tuple[bytes, SealedFile] | None:
        if self._files is None:
            self._files = {}
            for entry in self._store.checkpoints.believable():
                for path, file in entry.sealed.items():
                    self._files[file.content_id] = (path, file)
        return self._files.get(content_id)
