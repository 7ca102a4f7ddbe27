"""
The hunks of a plan: what can be chosen by itself, and the plan that does only what was chosen.

Every path of a plan is cut into hunks: a text into its changed lines, with the permission bits as a hunk of their own; anything
else (a binary file, a link, a secret, a directory) is one hunk as a whole.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

from mulligan.errors import PlanStale
from mulligan.model.objects import BLOB, MODE_DIR, MODE_EXEC, MODE_FILE, MODE_LINK, MODE_SEALED, object_id
from mulligan.model.paths import ancestors, covers, parent_of, to_text
from mulligan.model.plan import Action, Node, RestorePlan, for_themselves
from mulligan.safefs.directory import Directory
from mulligan.scan.scope import database_family
from mulligan.steps.hunk import LINES, MODE, WHOLE, FileHunks, Hunk

if TYPE_CHECKING:
    from mulligan.diff.lines import Group
    from mulligan.store.objects import ObjectStore

LARGEST = 8 << 20
_PLAIN = {MODE_FILE, MODE_EXEC}
_WORDS = {MODE_DIR: "directory", MODE_LINK: "link", MODE_SEALED: "secret"}


class Contents(NamedTuple):
    """Where the bytes of both sides of a plan are read: the workspace's directory and the store's objects."""

    workspace: str
    objects: ObjectStore

    def now(self, path: bytes, oid: bytes) -> bytes | None:
        """Returns the bytes of a file as the scan saw it; None where it changed since."""
        if self.objects.has(oid):
            return self.objects.read(oid, BLOB)
        try:
            with Directory.open(self.workspace) as root, root.descend(parent_of(path)) as directory:
                data = directory.read(path.rpartition(b"/")[2])
        except OSError:
            return None
        return data if object_id(BLOB, data) == oid else None


class _Piece(NamedTuple):
    """One path of a plan: its actions (two where its kind changes), its hunks, and the texts of both sides by lines."""

    path: bytes
    actions: tuple[Action, ...]
    hunks: tuple[Hunk, ...]
    old: Sequence[bytes] = ()
    new: Sequence[bytes] = ()
    groups: Sequence[Group] = ()


def list_hunks(contents: Contents, plan: RestorePlan) -> list[FileHunks]:
    """Returns what can be chosen of a plan, path by path."""
    return [FileHunks(to_text(piece.path), _change(piece), piece.hunks) for piece in _pieces(contents, plan)]


def _change(piece: _Piece) -> str:
    before, after = piece.actions[0].before, piece.actions[-1].after
    return "create" if before is None else "delete" if after is None else "modify"


def choose(contents: Contents, plan: RestorePlan, ids: Collection[str] | None) -> RestorePlan:
    """Returns a plan that does only the chosen hunks, all of it for None; raises PlanStale where one is not among them."""
    if ids is None:
        return plan
    pieces = list(_pieces(contents, plan))
    unknown = {*ids} - {hunk.id for piece in pieces for hunk in piece.hunks}
    if unknown:
        raise PlanStale(
            f"There is no hunk {min(unknown)} (any more): files changed since the hunks were listed. Nothing was changed.",
            hint="List the hunks again.",
        )
    texts = dict(plan.contents)
    chosen: dict[bytes, Action | None] = {}
    for piece in pieces:
        picked = [hunk.id in ids for hunk in piece.hunks]
        if all(picked):
            chosen[piece.path] = None  # as it is
        elif any(picked):
            chosen[piece.path] = _in_part(piece, picked, texts)
    actions = tuple(_selected(plan.actions, chosen))
    paths = tuple(to_text(path) for path in sorted(chosen))
    absent = tuple(path for path in plan.absent if path in {to_text(action.path) for action in actions})
    return replace(plan, paths=paths, actions=actions, keeps=(), conflicts=(), absent=absent, contents=texts)


def _in_part(piece: _Piece, picked: Sequence[bool], texts: dict[bytes, bytes]) -> Action:
    """Returns an action that does some hunks of a file; a hunk of permission bits is the last."""
    from mulligan.steps.lines import apply_groups

    action = piece.actions[0]
    before, after = action.before or Node(0), action.after or Node(0)
    text = apply_groups(piece.old, piece.new, [g for g, is_in in zip(piece.groups, picked, strict=False) if is_in])
    bits = after if len(piece.hunks) > len(piece.groups) and picked[-1] else before
    oid = object_id(BLOB, text)
    texts[oid] = text
    return action._replace(after=Node(bits.mode, oid, bits.perm))


def _selected(actions: Sequence[Action], chosen: dict[bytes, Action | None]) -> Iterator[Action]:
    """Yields the chosen actions with those that they need: directories above them, and what stands in their place."""
    themselves = set(for_themselves(actions))
    above = {path for each in chosen for path in ancestors(each)}
    # A directory that becomes a file goes with all that is in it.
    replaced = {a.path for a in actions if a.path in chosen and a.after is None and a.before and a.before.is_dir}
    family = {sibling for each in chosen for sibling in database_family(each)}

    def is_meant(action: Action) -> bool:
        is_own = action.path in chosen or action.path in family
        return is_own or any(covers(path, action.path) for path in replaced)

    # A directory that goes with what is in it stays while any of that does.
    full = {path for a in themselves if a.after is None and not is_meant(a) for path in ancestors(a.path)}
    for action in actions:
        if action in themselves:
            if is_meant(action) or (action.path in above and _is_blocked(actions, action.path)):
                yield chosen.get(action.path) or action
        elif (action.path in above or is_meant(action)) and (action.after is not None or action.path not in full):
            yield action


def _is_blocked(actions: Sequence[Action], path: bytes) -> bool:
    """Whether a directory is made in the place of what stands at a path now."""
    return any(action.path == path and action.after is not None and action.after.is_dir for action in actions)


def _pieces(contents: Contents, plan: RestorePlan) -> Iterator[_Piece]:
    by_path: dict[bytes, list[Action]] = {}
    for action in for_themselves(plan.actions):
        by_path.setdefault(action.path, []).append(action)
    for path, actions in by_path.items():
        yield _piece(contents, plan, path, tuple(actions))


def _piece(contents: Contents, plan: RestorePlan, path: bytes, actions: tuple[Action, ...]) -> _Piece:
    before, after = actions[0].before, actions[-1].after
    texts = _texts(contents, plan, path, before, after) if len(actions) == 1 else None
    if texts is None:
        return _Piece(path, actions, (_whole(path, before, after),))
    from mulligan.diff.lines import changed_blocks, group_blocks
    from mulligan.steps.lines import split_lines

    old, new = map(split_lines, texts)
    groups = group_blocks(changed_blocks(old, new))
    hunks = [_line_hunk(path, actions[0], group, old, new) for group in groups]
    if before is None or after is None:
        hunks = hunks or [_whole(path, before, after)]
    elif (before.mode, before.perm) != (after.mode, after.perm):
        hunks.append(_bits(path, before, after))
    return _Piece(path, actions, tuple(hunks), old, new, groups)


def _texts(
    contents: Contents, plan: RestorePlan, path: bytes, before: Node | None, after: Node | None
) -> tuple[bytes, bytes] | None:
    """Returns both sides of a text file; None where one of them is no text, or cannot be read."""
    if any(node is not None and node.mode not in _PLAIN for node in (before, after)):
        return None
    old = contents.now(path, before.oid) if before is not None else b""
    new: bytes | int | None = b""
    if after is not None:
        new = plan.contents.get(after.oid)
        new = contents.objects.read_up_to(after.oid, LARGEST) if new is None else new
    if old is None or not isinstance(new, bytes) or len(old) > LARGEST or b"\0" in old or b"\0" in new:
        return None
    return old, new


def _line_hunk(path: bytes, action: Action, group: Group, old: Sequence[bytes], new: Sequence[bytes]) -> Hunk:
    from mulligan.diff.lines import extent_of
    from mulligan.steps.lines import hunk_lines

    shown = extent_of(group, old)
    counts = shown.old_end - shown.old_start, shown.new_end - shown.new_start
    return Hunk(
        _id(path, action.before, action.after, LINES, *group), to_text(path), LINES,
        shown.old_start + bool(counts[0]), counts[0], shown.new_start + bool(counts[1]), counts[1],
        tuple(hunk_lines(group, old, new)),
    )  # fmt: skip


def _bits(path: bytes, before: Node, after: Node) -> Hunk:
    note = f"permissions {before.perm:o} -> {after.perm:o}"
    return Hunk(_id(path, before, after, MODE), to_text(path), MODE, note=note)


def _whole(path: bytes, before: Node | None, after: Node | None) -> Hunk:
    node = after or before or Node(0)
    verb = "create" if before is None else "delete" if after is None else "change"
    note = f"{verb} this {_WORDS.get(node.mode, 'file')}"
    if before is not None and after is not None and before.oid == after.oid and before.mode == after.mode:
        return _bits(path, before, after)
    return Hunk(_id(path, before, after, WHOLE), to_text(path), WHOLE, note=note)


def _id(path: bytes, before: Node | None, after: Node | None, *place: object) -> str:
    return blake2b(repr((path, before, after, place)).encode(), digest_size=6).hexdigest()
