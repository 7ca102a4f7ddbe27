"""
Takes back some steps and keeps all others: computes the workspace without them.

Each step is a pair of states. For every path that a step changed, the change is undone on what stands there now, three-way: base
is the state after the step, ours is now, theirs is the state before it. A path that nothing touched since gets back what stood
there before. Texts that were edited since are merged by lines. What cannot be merged stays as it is and is listed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

from mulligan.diff.compare import compare_trees
from mulligan.diff.merge import MARKERS, OURS, THEIRS, merge_pieces, written
from mulligan.model.checkpoint import SealedFile
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
from mulligan.model.plan import Action, Clash, Conflict, Keep, Node
from mulligan.restore.plan import DrawnPlan, Hidden, RestoreTarget, allowed_bits, draw, nothing_hidden
from mulligan.scan.trees import Cover, Scan
from mulligan.steps.moved import Read, renamed_by, renamed_since
from mulligan.timeline.trees import Permissions, State, Trees, bits_that_differ, state_of, with_secrets

CONFLICT, CONFLICT_DETAIL = "changed since by others", "it stays as it is"
#: The files that cannot be merged are left alone; the other choices are those of `diff.merge`.
KEEP = "keep"
UNCLEAR, UNCLEAR_DETAIL = "not clear who changed it", "commands of two agents ran at the same time; it stays as it is"

#: Whether a path of a step is meant; None where that is not clear.
Mine = Callable[[str], bool | None]


def all_of_it(_: str) -> bool | None:
    """Means every path of a step."""
    return True


_NONE_CLOSED: Mapping[bytes, str] = MappingProxyType({})
# What is not merged line by line.
_WHOLE = {MODE_DIR, MODE_LINK, MODE_SEALED}


class RevertedStep(NamedTuple):
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


class WantedState(NamedTuple):
    """What shall stand at each path that changes, the contents that are new, the paths that stay, and the conflicts."""

    nodes: dict[bytes, Node | None]
    contents: dict[bytes, bytes]
    kept: dict[bytes, Keep]
    conflicts: dict[bytes, Conflict]


class StepRules(NamedTuple):
    """Which paths of the steps are meant, what becomes of conflicts, and what their markers call the state before the steps."""

    chosen: Callable[[bytes], bool] = lambda _: True
    conflicts: str = KEEP
    label: str = "before"


def without(
    source: Trees, now: State, steps: Sequence[RevertedStep], read: Read, rules: StepRules | None = None
) -> WantedState:
    """Returns what the workspace would be without some steps, newest first."""
    rules = rules or StepRules()
    merging = _Merging(source, now, read, rules)
    found = _by_path(source, steps, rules)
    merging.undo_renames(found)
    if any(merging.is_gone(path, changes[0]) for path, changes in found.items()):
        merging.places = renamed_since(source, steps[0].after.files, now.files, read)
    for path, changes in found.items():
        for change in changes:
            merging.undo(merging.places.get(path, path), change)
    merging.settle([step.before for step in steps])
    return merging.wanted()


class _Change(NamedTuple):
    """What a step did to a path, and whether that is meant; None where it is not clear."""

    old: Node | None
    new: Node | None
    mine: bool | None


def _by_path(source: Trees, steps: Sequence[RevertedStep], rules: StepRules) -> dict[bytes, list[_Change]]:
    """Returns what is to be undone at each path, newest first; changes that follow on each other are one."""
    found: dict[bytes, list[_Change]] = {}
    for step in steps:
        for path, old, new in _changes(source, step):
            mine = step.mine(to_text(path)) if rules.chosen(path) else False
            if mine is False:
                continue
            known = found.setdefault(path, [])
            if known and known[-1].old == new and known[-1].mine == mine:
                known[-1] = known[-1]._replace(old=old)
            else:
                known.append(_Change(old, new, mine))
    return found


class _Merging:
    """The workspace as it shall be, path by path, while steps are taken back one after the other."""

    def __init__(self, source: Trees, now: State, read: Read, rules: StepRules) -> None:
        self._source = source
        self._read = read
        self._rules = rules
        self._now = _Looking(source, now)
        self._usual = now.defaults.directory
        self._nodes: dict[bytes, Node | None] = {}
        self._contents: dict[bytes, bytes] = {}
        self._kept: dict[bytes, Keep] = {}
        self._conflicts: dict[bytes, Conflict] = {}
        #: Where files stand now that were renamed since.
        self.places: dict[bytes, bytes] = {}

    def is_gone(self, path: bytes, change: _Change) -> bool:
        """Whether a file that was changed by a step is not there any more."""
        return change.old is not None and change.new is not None and not change.new.is_dir and self._at(path) is None

    def undo_renames(self, found: dict[bytes, list[_Change]]) -> None:
        """Takes back renames of files that were changed since under their new name; those are done with then."""
        alone = {path: changes[0] for path, changes in found.items() if len(changes) == 1 and changes[0].mine}
        gone = {p: c.old for p, c in alone.items() if c.old is not None and c.new is None and self._at(p) is None}
        made = {p: c.new for p, c in alone.items() if c.old is None and c.new is not None}
        if not any(self._at(path) not in (None, node) for path, node in made.items()):
            return
        for old_path, path in renamed_by(self._source, gone, made):
            here, change = self._at(path), _Change(gone[old_path], made[path], mine=True)
            if here is None or here == change.new:
                continue
            del found[old_path], found[path]
            self._move_back(old_path, path, change, self._merged(path, here, change))

    def _move_back(self, old_path: bytes, path: bytes, change: _Change, back: _Clean | _Clashing) -> None:
        if isinstance(back, _Clean):
            self._nodes |= {old_path: back.node, path: None}
            return
        self._settle_conflict(path, change, back)
        if path in self._nodes:
            self._nodes |= {old_path: self._nodes[path], path: None}
        if path in self._conflicts and back.marked:
            self._conflicts[old_path] = replace(self._conflicts.pop(path), path=to_text(old_path))

    def undo(self, path: bytes, change: _Change) -> None:
        """Takes back one change, unless the path is kept already."""
        if path in self._kept or path in self._conflicts:
            return
        here = self._at(path)
        back = self._merged(path, here, change)
        if change.mine is None:
            if not isinstance(back, _Clean) or back.node != here:
                self._keep(path, UNCLEAR, UNCLEAR_DETAIL)
        elif isinstance(back, _Clean):
            self._nodes[path] = back.node
        else:
            self._settle_conflict(path, change, back)

    def _at(self, path: bytes) -> Node | None:
        return self._nodes[path] if path in self._nodes else self._now.at(path)

    def _keep(self, path: bytes, reason: str, detail: str) -> None:
        self._kept[path] = Keep(to_text(path), reason, detail, failed=True)
        self._nodes.pop(path, None)

    def _merged(self, path: bytes, here: Node | None, change: _Change) -> _Clean | _Clashing:
        """Returns what stands at a path once a change is undone on `here`."""
        old, new = change.old, change.new
        if here == new:
            return _Clean(old)
        if old in (here, new):
            return _Clean(here)
        if here is None or old is None or new is None:
            return _Clashing("deleted since" if here is None else "made by this step and changed since")
        if here.mode in _WHOLE or old.mode in _WHOLE or new.mode in _WHOLE:
            return _Clashing(_kind_of(here, old, new))
        ours = self._contents.get(here.oid)
        ours = ours if ours is not None else self._read(path, here.oid)
        if ours is None:
            return _Clashing("it keeps changing")
        pieces = merge_pieces(self._content(new), ours, self._content(old))
        if pieces is None:
            return _Clashing("not a text file, or larger than 8 MiB")
        bits = _merged_bits(here, old, new)
        if bits is not None and not any(piece.clashes for piece in pieces):
            return _Clean(self._made(written(pieces, OURS), bits))
        clashes = tuple(
            Clash(
                piece.line,
                *(text.decode("utf-8", "surrogateescape") for text in (piece.ours, piece.base, piece.theirs)),
            )
            for piece in pieces
            if piece.clashes
        )
        reason = "the same lines were changed again since" if clashes else "its permissions were changed again since"
        how, labels = self._rules.conflicts, ("now", self._rules.label)
        sides = {OURS: here, THEIRS: old, MARKERS: here}
        marked = how == MARKERS and bool(clashes)
        node = self._made(written(pieces, how, labels), bits or sides[how]) if how != KEEP else None
        return _Clashing(reason, clashes, node if marked or how in {OURS, THEIRS} else None, marked=marked)

    def _content(self, node: Node) -> bytes:
        known = self._contents.get(node.oid)
        return known if known is not None else self._source.read(node.oid, BLOB)

    def _made(self, text: bytes, bits: Node) -> Node:
        oid = object_id(BLOB, text)
        self._contents[oid] = text
        return Node(bits.mode, oid, bits.perm)

    def _settle_conflict(self, path: bytes, change: _Change, found: _Clashing) -> None:
        """Does with a conflict what was asked for: leaves the path alone, writes markers, or chooses a side."""
        how = self._rules.conflicts
        if found.node is not None:
            self._nodes[path] = found.node
        elif how == THEIRS:
            self._nodes[path] = change.old
        elif how == OURS:
            self._kept[path] = Keep(to_text(path), CONFLICT, CONFLICT_DETAIL)
            self._nodes.pop(path, None)
        else:
            self._keep(path, CONFLICT, CONFLICT_DETAIL)
        if how in {KEEP, MARKERS}:
            self._conflicts[path] = Conflict(to_text(path), found.reason, found.clashes, found.marked)

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
                    self._in_the_way(path, f"{to_text(above)} is in its place")
                    break
        for path in sorted(self._nodes, key=lambda path: path.count(b"/"), reverse=True):
            node, here = self._nodes[path], self._now.at(path)
            if here is None or not here.is_dir or (node is not None and node.is_dir) or not self._holds(path):
                continue
            if node is None:
                del self._nodes[path]  # what others put into it keeps it
            else:
                self._in_the_way(path, "a directory that others use is in its place")

    def _in_the_way(self, path: bytes, why: str) -> None:
        self._keep(path, CONFLICT, why)
        self._conflicts[path] = Conflict(to_text(path), why)

    def _directory(self, path: bytes, then: list[_Looking]) -> Node:
        """Returns a directory as the newest state knew it that had one there."""
        known = (node for looking in then if (node := looking.at(path)) is not None and node.is_dir)
        return next(known, Node(MODE_DIR, b"", self._usual))

    def _holds(self, directory: bytes) -> bool:
        """Whether anything stays in a directory."""
        return any(self._at(join(directory, name)) is not None for name in self._now.names(directory))

    def wanted(self) -> WantedState:
        """Returns what differs from now."""
        changed = {path: node for path, node in self._nodes.items() if node != self._now.at(path)}
        return WantedState(changed, self._contents, self._kept, self._conflicts)


class _Clean(NamedTuple):
    """What stands at a path once a change is undone; None for nothing."""

    node: Node | None


class _Clashing(NamedTuple):
    """Why a change cannot be undone, the lines in question, and what is written all the same, as far as that was asked for."""

    reason: str
    clashes: tuple[Clash, ...] = ()
    node: Node | None = None
    marked: bool = False


def _kind_of(*nodes: Node) -> str:
    modes = {node.mode for node in nodes}
    if MODE_SEALED in modes:
        return "a secret, which is not merged"
    return "a link, which is not merged" if MODE_LINK in modes else "a directory is in its place"


def _merged_bits(here: Node, old: Node, new: Node) -> Node | None:
    """Returns the node whose permission bits a merged file has; None where both sides changed them."""
    bits = [(node.mode, node.perm) for node in (here, old, new)]
    if bits[0] == bits[2]:
        return old
    return here if bits[1] in (bits[0], bits[2]) else None


def draw_wanted(
    source: Trees,
    scan: Scan,
    wanted: WantedState,
    since: Hidden = nothing_hidden,
    already: Callable[[bytes, Node], bool] | None = None,
    closed: Mapping[bytes, str] = _NONE_CLOSED,
) -> DrawnPlan:
    """
    Returns the plan that makes the workspace what is wanted; what `since` covers is not deleted.

    `closed` are the secrets that are without their key, by keyed hash, with the name of the key.
    """
    plain = {p: None if n is not None and n.mode == MODE_SEALED else n for p, n in wanted.nodes.items()}
    tree = _edited(source, scan.tree, plain)
    locked = {path: closed[node.oid] for path, node in wanted.nodes.items() if node is not None and node.oid in closed}
    target = RestoreTarget(tree, scan.modes, scan.defaults, since=since, sealed=_secrets(scan, wanted), locked=locked)
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
    return DrawnPlan(tuple(ordered), tuple(kept[path] for path in sorted(kept)), drawn.absent)


def _secrets(scan: Scan, wanted: WantedState) -> dict[bytes, SealedFile]:
    """Returns the secrets as they are wanted; one that comes back has no more fields than a plan needs."""
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


def _changes(source: Trees, step: RevertedStep) -> Iterator[tuple[bytes, Node | None, Node | None]]:
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
