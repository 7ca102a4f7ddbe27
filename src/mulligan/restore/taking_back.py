"""
Takes back some steps and keeps all others: computes the workspace without them.

Each step is a pair of states. For every path that a step changed, the change is undone on what stands there now, three-way: base
is the state after the step, ours is now, theirs is the state before it. A path that nothing touched since gets back what stood
there before. Texts that were edited since are merged by lines. What cannot be merged stays as it is and is listed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from mulligan.diff.compare import compare_trees
from mulligan.diff.merge import merge
from mulligan.model.objects import (
    BLOB,
    EMPTY_TREE,
    MODE_DIR,
    MODE_LINK,
    MODE_SEALED,
    TREE,
    TreeEntry,
    encode_tree,
    object_id,
)
from mulligan.model.paths import ancestors, join, parent_of, to_text
from mulligan.model.plan import Action, Keep, Node
from mulligan.model.sealed import SealedFile
from mulligan.restore.planner import Drawn, Hidden, Target, allowed_bits, draw, nothing_hidden
from mulligan.scan.trees import Cover, Scan
from mulligan.timeline.changes import with_secrets
from mulligan.timeline.trees import Permissions, State, Trees, bits_that_differ, state_of

CONFLICT, CONFLICT_DETAIL = "changed since by others", "it stays as it is"
UNCLEAR, UNCLEAR_DETAIL = "not clear who changed it", "commands of two agents ran at the same time; it stays as it is"

#: Whether a path of a step is meant; None where that is not clear.
Mine = Callable[[str], bool | None]


def all_of_it(_: str) -> bool | None:
    """Means every path of a step."""
    return True


_NONE_CLOSED: Mapping[bytes, str] = MappingProxyType({})
# What is not merged line by line.
_WHOLE = {MODE_DIR, MODE_LINK, MODE_SEALED}


class Step(NamedTuple):
    """
    A step to take back: the states around it, and which of its paths are meant.

    `unseen` covers the paths that the state before did not capture, and `hidden` those that the state after did not: a path that
    only came into view, or went out of it, was neither made nor removed by the step.
    """

    before: State
    after: State
    mine: Mine = all_of_it
    unseen: Cover | None = None
    hidden: Cover | None = None


class Wanted(NamedTuple):
    """What shall stand at each path that changes, the contents that are new, and the paths that stay with the reason."""

    nodes: dict[bytes, Node | None]
    contents: dict[bytes, bytes]
    kept: dict[bytes, Keep]


#: Returns the bytes of a file that the scan saw at a path and the store may not hold yet; None where they changed since.
Read = Callable[[bytes, bytes], bytes | None]


def without(
    source: Trees, now: State, steps: Sequence[Step], read: Read, chosen: Callable[[bytes], bool] = lambda _: True
) -> Wanted:
    """Returns what the workspace would be without some steps, newest first, at the chosen paths."""
    merging = _Merging(source, now, read)
    for step in steps:
        for path, old, new in _changes(source, step):
            if chosen(path):
                merging.undo(path, old, new, mine=step.mine(to_text(path)))
    merging.settle([step.before for step in steps])
    return merging.wanted()


class _Merging:
    """The workspace as it shall be, path by path, while steps are taken back one after the other."""

    def __init__(self, source: Trees, now: State, read: Read) -> None:
        self._source = source
        self._read = read
        self._now = _Looking(source, now)
        self._usual = now.defaults.directory
        self._nodes: dict[bytes, Node | None] = {}
        self._contents: dict[bytes, bytes] = {}
        self._kept: dict[bytes, Keep] = {}

    def undo(self, path: bytes, old: Node | None, new: Node | None, *, mine: bool | None) -> None:
        """Takes back one change, from `old` to `new`, unless the path is kept already."""
        if mine is False or path in self._kept:
            return
        here = self._at(path)
        back = self._merged(path, here, old, new)
        if mine is None:
            if back is None or back[0] != here:
                self._keep(path, UNCLEAR, UNCLEAR_DETAIL)
        elif back is None:
            self._keep(path, CONFLICT, CONFLICT_DETAIL)
        else:
            self._nodes[path] = back[0]

    def _at(self, path: bytes) -> Node | None:
        return self._nodes[path] if path in self._nodes else self._now.at(path)

    def _keep(self, path: bytes, reason: str, detail: str) -> None:
        self._kept[path] = Keep(to_text(path), reason, detail, failed=True)
        self._nodes.pop(path, None)

    def _merged(self, path: bytes, here: Node | None, old: Node | None, new: Node | None) -> tuple[Node | None] | None:
        """Returns what stands at a path once the change from `old` to `new` is undone on `here`; None for a conflict."""
        if here == new:
            return (old,)
        if here == old:
            return (here,)
        if here is None or old is None or new is None or {here.mode, old.mode, new.mode} & _WHOLE:
            return None
        bits = _merged_bits(here, old, new)
        ours = self._contents.get(here.oid)
        ours = ours if ours is not None else self._read(path, here.oid)
        if bits is None or ours is None:
            return None
        merged = merge(self._source.read(new.oid, BLOB), ours, self._source.read(old.oid, BLOB))
        if merged is None:
            return None
        oid = object_id(BLOB, merged)
        self._contents[oid] = merged
        return (Node(bits.mode, oid, bits.perm),)

    # -- one tree of it ---------------------------------------------------------------------------

    def settle(self, earlier: Sequence[State]) -> None:
        """Makes the wanted paths one tree: directories above what comes back, and those stay that something stays in."""
        then = [_Looking(self._source, state) for state in earlier]
        for path in sorted(path for path, node in self._nodes.items() if node is not None):
            for above in ancestors(path):
                node = self._at(above)
                if node is None:
                    self._nodes[above] = self._directory(above, then)
                elif not node.is_dir:
                    self._keep(path, CONFLICT, f"{to_text(above)} is in its place")
                    break
        for path in sorted(self._nodes, key=lambda path: path.count(b"/"), reverse=True):
            node, here = self._nodes[path], self._now.at(path)
            if here is None or not here.is_dir or (node is not None and node.is_dir) or not self._holds(path):
                continue
            if node is None:
                del self._nodes[path]  # what others put into it keeps it
            else:
                self._keep(path, CONFLICT, "a directory that others use is in its place")

    def _directory(self, path: bytes, then: list[_Looking]) -> Node:
        """Returns a directory as the newest state knew it that had one there."""
        known = (node for looking in then if (node := looking.at(path)) is not None and node.is_dir)
        return next(known, Node(MODE_DIR, b"", self._usual))

    def _holds(self, directory: bytes) -> bool:
        """Whether anything stays in a directory."""
        return any(self._at(join(directory, name)) is not None for name in self._now.names(directory))

    def wanted(self) -> Wanted:
        """Returns what differs from now."""
        changed = {path: node for path, node in self._nodes.items() if node != self._now.at(path)}
        return Wanted(changed, self._contents, self._kept)


def _merged_bits(here: Node, old: Node, new: Node) -> Node | None:
    """Returns the node whose permission bits a merged file has; None where both sides changed them."""
    bits = [(node.mode, node.perm) for node in (here, old, new)]
    if bits[0] == bits[2]:
        return old
    return here if bits[1] in (bits[0], bits[2]) else None


def draw_wanted(
    source: Trees,
    scan: Scan,
    wanted: Wanted,
    since: Hidden = nothing_hidden,
    already: Callable[[bytes, Node], bool] | None = None,
    closed: Mapping[bytes, str] = _NONE_CLOSED,
) -> Drawn:
    """
    Returns the plan that makes the workspace what is wanted; what `since` covers is not deleted.

    `closed` are the secrets that are without their key, by keyed hash, with the name of the key.
    """
    plain = {p: None if n is not None and n.mode == MODE_SEALED else n for p, n in wanted.nodes.items()}
    tree = _edited(source, scan.tree, plain)
    locked = {path: closed[node.oid] for path, node in wanted.nodes.items() if node is not None and node.oid in closed}
    target = Target(tree, scan.modes, scan.defaults, since=since, sealed=_secrets(scan, wanted), locked=locked)
    drawn = draw(source, scan, target, None) if already is None else draw(source, scan, target, None, already=already)
    done = {action.path for action in drawn.actions}
    actions = [_with_bits(action, wanted.nodes) for action in drawn.actions]
    looking = _Looking(source, state_of(scan))
    for path, node in wanted.nodes.items():
        here = looking.at(path)
        # Permission bits alone: no tree says those.
        if path not in done and node is not None and here is not None and here._replace(perm=node.perm) == node != here:
            action = _with_bits(Action(path, here, node), wanted.nodes)
            actions += [action] if action.before != action.after else []
    ordered = sorted(actions, key=lambda action: (action.path, action.after is not None))
    kept = {keep.path: keep for keep in (*drawn.keeps, *wanted.kept.values())}
    return Drawn(tuple(ordered), tuple(kept[path] for path in sorted(kept)), drawn.absent)


def _secrets(scan: Scan, wanted: Wanted) -> dict[bytes, SealedFile]:
    """Returns the secrets as they are wanted; of one that comes back, no more is said than a plan needs."""
    found = {path: file for path, file in scan.sealed.items() if path not in wanted.nodes}
    for path, node in wanted.nodes.items():
        if node is not None and node.mode == MODE_SEALED:
            found[path] = SealedFile(b"", "", node.oid.hex(), node.perm, 0)
    return found


def _with_bits(action: Action, nodes: dict[bytes, Node | None]) -> Action:
    node = nodes.get(action.path)
    if node is None or action.after is None or node.is_link:
        return action
    return action._replace(after=action.after._replace(perm=allowed_bits(node, action.before)))


class _Looking:
    """What stands at the paths of a state."""

    def __init__(self, source: Trees, state: State) -> None:
        self._source = source
        self._state = state
        self._bits = Permissions(source, state.modes, state.defaults)
        self._trees: dict[bytes, dict[bytes, TreeEntry]] = {}

    def at(self, path: bytes) -> Node | None:
        """Returns what stands at a path."""
        secret = self._state.sealed.get(path)
        return secret.node if secret is not None else _node(path, self._entry(path), self._bits)

    def names(self, directory: bytes) -> list[bytes]:
        """Returns the names in a directory."""
        entry = self._entry(directory)
        names = [*self._entries(entry.oid)] if entry is not None and entry.mode == MODE_DIR else []
        return names + [path.rpartition(b"/")[2] for path in self._state.sealed if parent_of(path) == directory]

    def _entry(self, path: bytes) -> TreeEntry | None:
        entry: TreeEntry | None = TreeEntry(b"", MODE_DIR, self._state.files)
        for name in path.split(b"/") if path else ():
            if entry is None or entry.mode != MODE_DIR:
                return None
            entry = self._entries(entry.oid).get(name)
        return entry

    def _entries(self, tree: bytes) -> dict[bytes, TreeEntry]:
        known = self._trees.get(tree)
        if known is None:
            found = self._source.read_tree(tree) if tree != EMPTY_TREE else []
            known = self._trees[tree] = {entry.name: entry for entry in found}
        return known


def _node(path: bytes, entry: TreeEntry | None, bits: Permissions) -> Node | None:
    if entry is None:
        return None
    if entry.mode == MODE_LINK:
        return Node(entry.mode, entry.oid)
    return Node(entry.mode, b"" if entry.mode == MODE_DIR else entry.oid, bits.of(path, entry.mode))


def _changes(source: Trees, step: Step) -> Iterator[tuple[bytes, Node | None, Node | None]]:
    """Yields what a step changed: contents, kinds, and permission bits alone, of files and directories."""
    then, there = (Permissions(source, state.modes, state.defaults) for state in (step.before, step.after))
    seen, before, after = set(), step.before.sealed, step.after.sealed
    plain = compare_trees(source.read_tree, step.before.files, step.after.files, directories=True)
    for change in with_secrets(plain, before, after):
        seen.add(change.path)
        if change.old is None and step.unseen is not None and step.unseen.over(change.path) is not None:
            continue
        if change.new is None and step.hidden is not None and step.hidden.over(change.path) is not None:
            continue
        path = change.path
        yield (
            path,
            before[path].node if path in before else _node(path, change.old, then),
            after[path].node if path in after else _node(path, change.new, there),
        )
    for path, entry in bits_that_differ(source, step.before, step.after):
        if path not in seen:
            yield path, _node(path, entry, then), _node(path, entry, there)


# -- a tree with some paths changed -----------------------------------------------------------------


def _edited(source: Trees, tree: bytes, nodes: dict[bytes, Node | None]) -> bytes:
    """Returns a tree like another, with other things at some paths; its new parts are laid before the source."""
    below: dict[bytes, dict[bytes, Node | None]] = {}
    here: dict[bytes, Node | None] = {}
    for path, node in nodes.items():
        name, _, rest = path.partition(b"/")
        if rest:
            below.setdefault(name, {})[rest] = node
        else:
            here[name] = node
    entries = {entry.name: entry for entry in (source.read_tree(tree) if tree != EMPTY_TREE else ())}
    for name in {**here, **below}:
        present = entries.pop(name, None)
        wanted = here[name] if name in here else _as_node(present)
        if wanted is None:
            continue
        if wanted.mode != MODE_DIR:
            entries[name] = TreeEntry(name, wanted.mode, wanted.oid)
            continue
        was = present.oid if present is not None and present.mode == MODE_DIR else EMPTY_TREE
        entries[name] = TreeEntry(name, MODE_DIR, _edited(source, was, below[name]) if name in below else was)
    return source.lay(TREE, encode_tree(entries.values()))


def _as_node(entry: TreeEntry | None) -> Node | None:
    return Node(entry.mode, entry.oid) if entry is not None else None
