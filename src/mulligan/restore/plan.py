"""
Makes a plan from a target and a scan. Pure: nothing is touched, and the same input gives the same plan.

Only what the scan captured or sealed may be changed or deleted, so ignored and unreadable files are out of reach, also those
that an ignore file protects which the restore itself removes. What the target did not capture is kept too: it may have been
there. A directory goes only when nothing uncaptured is left in it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from mulligan.errors import StoreDamaged, UnknownPath
from mulligan.model.checkpoint import INCOMPLETE, WORKTREE, NotCaptured
from mulligan.model.objects import MODE_DIR, MODE_LINK, MODE_SEALED, TreeEntry
from mulligan.model.paths import ancestors, covers, parent_of, to_text
from mulligan.model.plan import Action, Keep, Node
from mulligan.model.policy import CapturePolicy
from mulligan.scan.scope import database_family
from mulligan.scan.trees import Cover, Defaults, Scan, cover_of
from mulligan.timeline.trees import Permissions, Trees, with_secrets

if TYPE_CHECKING:
    from mulligan.model.checkpoint import Sealed
    from mulligan.timeline.checkpoints import Unsaved


#: Why a path stays that a restore would delete otherwise.
NOT_SAVED_THEN = "not saved then"
_SET_ID = 0o6000
_NO_RULES = CapturePolicy()


# The second is a Node, or None for nothing.
Stands = Callable[[bytes, Any], bool]


def _unknown(_: bytes, __: Any) -> bool:
    return False


def nothing_hidden() -> Unsaved:
    """Returns no paths."""
    return []


#: Returns the paths that checkpoints since the target did not save.
Hidden = Callable[[], "Unsaved"]


class RestoreTarget(NamedTuple):
    """The state to go to; `since` is asked only where something would be deleted."""

    files_tree: bytes
    modes_tree: bytes
    defaults: Defaults
    not_captured: tuple[NotCaptured, ...] = ()
    since: Hidden = nothing_hidden
    sealed: Sealed = MappingProxyType({})
    knows_secrets: bool = True  # whether a secret that is not among them was not there
    locked: Mapping[bytes, str] = MappingProxyType({})  # those of them whose key is not on this machine, with its name


def allowed_bits(wanted: Node, now: Node | None) -> int:
    """Returns the permission bits that a restore gives: setuid and setgid are never added, only left."""
    have = now.perm if now is not None and now.is_dir == wanted.is_dir else 0
    extra = have & _SET_ID if wanted.is_dir else wanted.perm & have & _SET_ID
    return wanted.perm & ~_SET_ID | extra


class DrawnPlan(NamedTuple):
    """What the planner decided."""

    actions: tuple[Action, ...]
    keeps: tuple[Keep, ...]
    absent: tuple[str, ...] = ()


class _Draft:
    """A plan being made."""

    def __init__(self, source: Trees, scan: Scan, target: RestoreTarget, stands: Stands, rules: CapturePolicy) -> None:
        self._spared = {os.fsencode(name) for name in rules.keep_new_in}
        self._certain = Cover(os.fsencode(path) for path in rules.certain)
        self.source = source
        self._stands = stands
        self._made: set[bytes] = set()
        self.scan = scan
        self.target = target
        self.actions: list[Action] = []
        self.keeps: dict[bytes, Keep] = {}
        self._stays: set[bytes] = set()
        self.absent: list[str] = []
        self._now = Permissions(source, scan.modes, scan.defaults)
        self._then = Permissions(source, target.modes_tree, target.defaults)
        self._out_now = scan.cover()
        self._then_rows = {_parsed(row.path): row for row in target.not_captured}
        self._out_then = cover_of(target.not_captured)

    def node_now(self, path: bytes, entry: TreeEntry | None) -> Node | None:
        """Returns what stands there now."""
        found = self.scan.sealed.get(path)
        return found.node if found is not None else _node(path, entry, self._now)

    def node_then(self, path: bytes, entry: TreeEntry | None, now: Node | None) -> Node | None:
        """Returns what shall stand there; setuid and setgid are never added, only left."""
        found = self.target.sealed.get(path)
        node = found.node if found is not None else _node(path, entry, self._then)
        if node is None or node.mode == MODE_LINK or (node.mode != MODE_DIR and not node.perm & _SET_ID):
            return node
        perm = allowed_bits(node, now)
        return node if perm == node.perm else node._replace(perm=perm)

    def contents(self, wanted: Callable[[bytes], bool]) -> None:
        """Plans what differs in the trees."""
        plain = self.source.changes(self.scan.tree, self.target.files_tree, directories=True)
        for path, old, new in with_secrets(plain, self.scan.sealed, self.target.sealed):
            if not wanted(path):
                continue
            before = self.node_now(path, old)
            after = self.node_then(path, new, before)
            if self._keeps_secret(path, before, after):
                continue
            if before is not None and after is not None:
                if (before.mode == MODE_DIR) == (after.mode == MODE_DIR):
                    self.actions.append(Action(path, before, after))
                    continue
                # What stood here then is known, so what stands here now is in its way, whatever was not captured around it.
                self.actions.append(Action(path, before, None))
                self._create(Action(path, None, after), clear=True)
            else:
                self._one(Action(path, before, after))

    def _keeps_secret(self, path: bytes, before: Node | None, after: Node | None) -> bool:
        """Keeps a secret that cannot be opened, and one that the target does not know."""
        key = self.target.locked.get(path)
        if key is not None:
            detail = f"it is sealed with the key {key}, which is not on this machine: mulligan key import FILE"
            self.keeps[path] = Keep(to_text(path), "without its key", detail, failed=True)
        elif before is not None and before.mode == MODE_SEALED and after is None and not self.target.knows_secrets:
            detail = "the checkpoint knows nothing of this secret"
            self.keeps[path] = Keep(to_text(path), "not saved then", detail)
        return path in self.keeps

    def _one(self, action: Action) -> None:
        if action.after is None:
            if self._certain.over(action.path) is None and self._was_hidden(action.path):
                return
            if self._spared and not self._spared.isdisjoint(parent_of(action.path).split(b"/")):
                detail = "it is new in a directory of which nothing is removed"
                self.keeps[action.path] = Keep(to_text(action.path), "spared", detail)
                return
            self.actions.append(action)
        elif action.before is None:
            self._create(action, clear=False)
        else:
            self.actions.append(action)

    def _was_hidden(self, path: bytes) -> bool:
        """Lists a path that the target, or a checkpoint since, did not save: it may be older than it looks."""
        hidden = self._out_then.over(path)
        if hidden is not None:
            row = self._then_rows[hidden]
            self.keeps[path] = Keep(to_text(path), row.reason, "it was not saved then, so it is not deleted now")
            return True
        for cover, rows, trees in self._later:
            later = cover.over(path)
            # In a directory that a rule hides, what git tracks and what is named is saved all the same.
            if later is not None and not all(self._is_saved(tree, path) for tree in trees):
                detail = f"it was {rows[later].reason} when a checkpoint was made, so it is not deleted"
                self.keeps[later] = Keep(to_text(later), NOT_SAVED_THEN, detail)
                self._stays.add(path)  # the path itself: `later` may be the very directory that it keeps from going
                return True
        return False

    def _is_saved(self, tree: bytes, path: bytes) -> bool:
        try:
            return self.source.lookup(tree, path) is not None
        except StoreDamaged:
            return False  # nothing is known of that checkpoint, so the path stays

    @cached_property
    def _later(self) -> list[tuple[Cover, dict[bytes, NotCaptured], set[bytes]]]:
        lists = [({_parsed(row.path): row for row in rows}, trees) for rows, trees in self.target.since()]
        return [(Cover(rows), rows, trees) for rows, trees in lists]

    def _create(self, action: Action, *, clear: bool) -> None:
        """Plans something new, unless something that is not captured stands there."""
        hidden = self._hidden_now(action.path)
        if hidden is not None and not clear and not self._is_free(action.path, hidden):
            missed = self.scan.missed[hidden]
            if missed.reason == WORKTREE:
                self.keeps[hidden] = Keep(to_text(hidden), WORKTREE, missed.detail)
                return
            # Of a directory that cannot be read nothing can be said, not even when what was in it seems right.
            unread = (
                hidden == action.path
                and missed.reason in INCOMPLETE
                and action.after is not None
                and action.after.is_dir
            )
            if unread or not self._stands(action.path, action.after):
                detail = "it is not saved now, so it is not overwritten"
                self.keeps[action.path] = Keep(to_text(action.path), missed.reason, detail, failed=True)
            return
        if action.after is not None and action.after.is_dir:
            self._made.add(action.path)
        if not clear and self._out_now.above(action.path) is not None:
            self.absent.append(to_text(action.path))
        self.actions.append(action)

    def _hidden_now(self, path: bytes) -> bytes | None:
        """
        Returns what stands for a path that is not captured; None where nothing can stand.

        A file that was looked for in a directory that is not captured is not there; but something else may be in its place.
        """
        hidden = self._out_now.over(path)
        above = self._out_now.above(path) if hidden is None else None
        if above is None or parent_of(path) in self._made or self._stands(path, None):
            return hidden
        return above

    def _is_free(self, path: bytes, hidden: bytes) -> bool:
        """Whether nothing stands at a path inside a directory of which only some paths are captured."""
        return path != hidden and (parent_of(path) in self._made or self._stands(path, None))

    def unseen(self, wanted: Callable[[bytes], bool]) -> None:
        """Lists what should not be there, and stays because it could not be read."""
        for path, missed in self.scan.missed.items():
            if (
                missed.reason not in INCOMPLETE
                or not wanted(path)
                or path in self.keeps
                or self._out_then.over(path) is not None
            ):
                continue
            if self.source.lookup(self.target.files_tree, path) is None:
                self.keeps[path] = Keep(
                    to_text(path), missed.reason, "it could not be saved, so it is not deleted", failed=True
                )

    def permissions(self, wanted: Callable[[bytes], bool]) -> None:
        """Plans what differs in permission bits alone."""
        planned = {action.path for action in self.actions}
        for path in self._odd_paths():
            if path in planned or not wanted(path):
                continue
            now, then = self.source.lookup(self.scan.tree, path), self.source.lookup(self.target.files_tree, path)
            before = self.node_now(path, now)
            after = self.node_then(path, then, before)
            if (
                before is not None
                and after is not None
                and before.is_dir == after.is_dir
                and before != after
                and not after.is_link
            ):
                self.actions.append(Action(path, before, after))

    def _odd_paths(self) -> Iterable[bytes]:
        differing = self._now.differing(self._then)
        if differing is not None:
            return sorted(differing)
        return [path for path, _ in self.source.walk(self.target.files_tree)]

    def settle_directories(self) -> None:
        """Keeps each directory that something stays in, and what should have stood in its place."""
        staying = {above for path in (*self.scan.missed, *self.keeps, *self._stays) for above in ancestors(path)}
        kept = {
            a.path
            for a in self.actions
            if a.after is None and a.before is not None and a.before.is_dir and a.path in staying
        }
        if not kept:
            return
        remaining = []
        for action in self.actions:
            over = Cover(kept).over(action.path) if action.after is not None and action.before is None else None
            if action.path in kept and action.after is None:
                self.keeps[action.path] = Keep(to_text(action.path), "not empty")
            elif over is not None and not action.after.is_dir and over == action.path:  # type: ignore[union-attr]
                self.keeps[action.path] = Keep(
                    to_text(action.path), "not empty", "a directory that must stay is in its place", failed=True
                )
            else:
                remaining.append(action)
        self.actions = remaining


def draw(
    source: Trees,
    scan: Scan,
    target: RestoreTarget,
    paths: tuple[bytes, ...] | None = None,
    *,
    already: Stands = _unknown,
    rules: CapturePolicy = _NO_RULES,
) -> DrawnPlan:
    """
    Returns the actions that turn the scanned workspace into the target, and what is kept.

    `already` says of a path that the scan did not capture whether it is what the target wants, so that nothing is missing,
    or whether nothing stands there at all (None). `rules` may spare what is new.
    """
    draft = _Draft(source, scan, target, already, rules)
    wanted = _selection(source, scan, target, paths)
    draft.contents(wanted)
    draft.permissions(wanted)
    draft.unseen(wanted)
    draft.settle_directories()
    draft.actions.sort(key=lambda action: (action.path, action.after is not None))
    return DrawnPlan(
        tuple(draft.actions), tuple(draft.keeps[path] for path in sorted(draft.keeps)), tuple(sorted(draft.absent))
    )


def _selection(
    source: Trees, scan: Scan, target: RestoreTarget, paths: tuple[bytes, ...] | None
) -> Callable[[bytes], bool]:
    if paths is None:
        return lambda _: True
    chosen: set[bytes] = set()
    above: set[bytes] = set()
    for path in paths:
        then: object = source.lookup(target.files_tree, path) or target.sealed.get(path)
        if then is None and source.lookup(scan.tree, path) is None and path not in scan.sealed:
            raise UnknownPath(
                f"{to_text(path)!r} is neither here nor in the checkpoint. Nothing was changed.",
                hint="mulligan show REF",
            )
        chosen.update(database_family(path))
        if then is not None:
            above.update(ancestors(path))
    # What stands in the way of a chosen path belongs to it: a missing directory, or a file where one must be.
    blocked = {path for path in above if not _is_directory(source.lookup(scan.tree, path))}
    return lambda path: path in blocked or any(covers(choice, path) for choice in chosen)


def _is_directory(entry: TreeEntry | None) -> bool:
    return entry is not None and entry.mode == MODE_DIR


def _node(path: bytes, entry: TreeEntry | None, permissions: Permissions) -> Node | None:
    if entry is None:
        return None
    if entry.mode == MODE_LINK:
        return Node(entry.mode, entry.oid)
    return Node(entry.mode, b"" if entry.mode == MODE_DIR else entry.oid, permissions.of(path, entry.mode))


def _parsed(path: str) -> bytes:
    return b"" if path == "." else path.encode("utf-8", "surrogateescape")
