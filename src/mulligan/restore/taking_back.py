"""
Taking back some steps and keeping the others: the state of the workspace without them.

Each step is a pair of states. For every path that a step changed, its change is undone on what stands there now: where nobody
touched the path since, what stood there before comes back; where somebody did, the two changes are merged line by line; where
that cannot be done, the path is left as it is and listed. Nothing is lost by it: the result is a plan like any other.
"""

from __future__ import annotations

from mulligan.diff.compare import compare_trees
from mulligan.diff.merge import merge
from mulligan.model.objects import BLOB, EMPTY_TREE, MODE_DIR, MODE_LINK, TREE, TreeEntry, encode_tree, object_id
from mulligan.model.paths import to_text
from mulligan.model.plan import Action, Keep, Node
from mulligan.model.small import Callable, Iterator, Sequence
from mulligan.model.typed import NamedTuple
from mulligan.restore.planner import Drawn, Target, draw
from mulligan.scan.result import Scan
from mulligan.timeline.sources import Permissions, Source, State, permission_changes

CONFLICT = "changed since by others"


class Step(NamedTuple):
    """A step to take back: the states around it, and which of its paths are meant."""

    before: State
    after: State
    mine: Callable[[str], bool]


class Wanted(NamedTuple):
    """What shall stand at each path that changes, the contents that are new, and the paths that stay as they are."""

    nodes: dict[bytes, Node | None]
    contents: dict[bytes, bytes]
    conflicts: list[bytes]


def without(source: Source, now: State, steps: Sequence[Step]) -> Wanted:
    """Returns what the workspace would be without some steps, newest first."""
    nodes: dict[bytes, Node | None] = {}
    contents: dict[bytes, bytes] = {}
    conflicts: dict[bytes, None] = {}
    looking = _Looking(source, now)
    for step in steps:
        for path, old, new in _changes(source, step):
            if path in conflicts:
                continue
            here = nodes[path] if path in nodes else looking.at(path)
            back = _undone(source, contents, here, old, new)
            if back is None:
                conflicts[path] = None
                nodes.pop(path, None)
            else:
                nodes[path] = back[0]
    changed = {path: node for path, node in nodes.items() if node != looking.at(path)}
    return Wanted(changed, contents, list(conflicts))


def draw_wanted(source: Source, scan: Scan, wanted: Wanted) -> Drawn:
    """Returns the plan that makes the workspace what is wanted."""
    tree = _edited(source, scan.tree, wanted.nodes)
    drawn = draw(source, scan, Target(tree, scan.modes, scan.defaults), None)
    done = {action.path for action in drawn.actions}
    actions = [_with_bits(action, wanted.nodes) for action in drawn.actions]
    looking = _Looking(source, State(scan.tree, scan.modes, scan.defaults))
    for path, node in wanted.nodes.items():
        here = looking.at(path)
        # Permission bits alone: no tree says those.
        if path not in done and node is not None and here is not None and here._replace(perm=node.perm) == node != here:
            actions.append(Action(path, here, node))
    kept = [Keep(to_text(path), CONFLICT, "it stays as it is", failed=True) for path in wanted.conflicts]
    ordered = sorted(actions, key=lambda action: action.path)
    return Drawn(tuple(ordered), (*drawn.keeps, *kept), drawn.absent)


def _with_bits(action: Action, nodes: dict[bytes, Node | None]) -> Action:
    node = nodes.get(action.path)
    return action._replace(after=action.after._replace(perm=node.perm)) if node and action.after else action


class _Looking:
    """What stands at a path of a state."""

    def __init__(self, source: Source, state: State) -> None:
        self._source = source
        self._state = state
        self._bits = Permissions(source, state.modes, state.defaults)

    def at(self, path: bytes) -> Node | None:
        entry = self._source.lookup(self._state.files, path)
        return _node(path, entry, self._bits)


def _node(path: bytes, entry: TreeEntry | None, bits: Permissions) -> Node | None:
    if entry is None:
        return None
    perm = 0 if entry.mode == MODE_LINK else bits.of(path, entry.mode)
    return Node(entry.mode, b"" if entry.mode == MODE_DIR else entry.oid, perm)


def _changes(source: Source, step: Step) -> Iterator[tuple[bytes, Node | None, Node | None]]:
    """Yields what a step changed, among the paths that are meant: contents, and permission bits alone."""
    then, there = (Permissions(source, state.modes, state.defaults) for state in (step.before, step.after))
    seen = set()
    for change in compare_trees(source.read_tree, step.before.files, step.after.files, directories=True):
        seen.add(change.path)
        if step.mine(to_text(change.path)):
            yield change.path, _node(change.path, change.old, then), _node(change.path, change.new, there)
    for path in (change.path for change in permission_changes(source, step.before, step.after)):
        entry = source.lookup(step.before.files, path)
        if path not in seen and step.mine(to_text(path)):
            yield path, _node(path, entry, then), _node(path, entry, there)


def _undone(
    source: Source, contents: dict[bytes, bytes], here: Node | None, old: Node | None, new: Node | None
) -> tuple[Node | None] | None:
    """Returns what stands at a path once the change from `old` to `new` is taken back from `here`; None: it cannot be."""
    if here == new or (here is not None and new is not None and here.is_dir and new.is_dir):
        return (old,)
    if here == old:
        return (here,)
    if here is None or old is None or new is None or {here.mode, old.mode, new.mode} & {MODE_DIR, MODE_LINK}:
        return None
    texts = (contents.get(node.oid) or source.read(node.oid, BLOB) for node in (new, here, old))
    merged = merge(*texts)
    if merged is None:
        return None
    oid = object_id(BLOB, merged)
    contents[oid] = merged
    bits = old if (here.mode, here.perm) == (new.mode, new.perm) else here
    return (Node(bits.mode, oid, bits.perm),)


# -- a tree with some paths changed -----------------------------------------------------------------


def _edited(source: Source, tree: bytes, nodes: dict[bytes, Node | None]) -> bytes:
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
    for name, node in here.items():
        if node is None:
            gone = entries.pop(name, None)
            if gone is not None and gone.mode == MODE_DIR:
                entries[name] = gone  # what is left in it decides, below
        elif node.mode == MODE_DIR:
            entries.setdefault(name, TreeEntry(name, MODE_DIR, EMPTY_TREE))
        else:
            entries[name] = TreeEntry(name, node.mode, node.oid)
    for name, inner in below.items():
        present = entries.get(name)
        was = present.oid if present is not None and present.mode == MODE_DIR else EMPTY_TREE
        entries[name] = TreeEntry(name, MODE_DIR, _edited(source, was, inner))
    for name, node in here.items():
        if node is None and (left := entries.get(name)) is not None and left.oid == EMPTY_TREE:
            del entries[name]
    return source.lay(TREE, encode_tree(entries.values()))
