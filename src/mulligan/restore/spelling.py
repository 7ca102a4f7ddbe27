"""
Plans on a file system that takes names for one that differ only in case (macOS, Windows, vfat).

There a plan must not make two entries that are one name, and none in the place of one that stays. A file that would be such an
entry is left alone and listed. A directory is not made: its files go into the one that stands there, whatever its spelling. A
rename that changes only the spelling stays a removal and a creation; `Layout.respelled` names its paths, so that no step takes
one spelling for the other. `NamesHere` knows the names as a scan saw them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping

from mulligan.model.objects import EMPTY_TREE, MODE_DIR, TreeEntry
from mulligan.model.paths import fold, join, parent_of, to_text
from mulligan.model.plan import Action, Keep
from mulligan.restore.plan import DrawnPlan
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


SAME_NAME = "same name"

#: Returns the names that the scan saw in a directory, each with whether it is a directory that is saved.
NamesIn = Callable[[bytes], Mapping[bytes, bool]]
#: Returns whether the file system takes names in a directory, which is there, for one that differ in case.
Folds = Callable[[bytes], bool]


def settle_spelling(drawn: DrawnPlan, names_in: NamesIn, folds: Folds) -> DrawnPlan:
    """Returns a plan that makes no two entries which are one name on this file system."""
    if all(action.before is not None for action in drawn.actions):
        return drawn
    return _Spelling(drawn, names_in, folds).run()


class _Spelling:
    """One plan; its new entries are looked at in their order, a directory before what is in it."""

    def __init__(self, drawn: DrawnPlan, names_in: NamesIn, folds: Folds) -> None:
        self._drawn = drawn
        self._names_in = names_in
        self._folds = folds
        self._gone = {action.path for action in drawn.actions if action.after is None}
        self._made: dict[bytes, bool] = {}  # the new entries, each in its place, and whether it is a directory
        self._staying: dict[bytes, dict[bytes, bytes] | None] = {}
        self._places: dict[bytes, bytes] = {}  # for a new directory, the one that stands there
        self._kept: dict[bytes, Keep] = {}

    def run(self) -> DrawnPlan:
        drawn, made = self._drawn, list[Action]()
        for action in drawn.actions:
            if action.before is None and action.after is not None and not self._is_left(action.path):
                made += self._settle(action, is_dir=action.after.is_dir)
        if not self._kept:
            return drawn
        there = [action for action in drawn.actions if action.before is not None]
        actions = sorted(_joined(there, made), key=lambda each: (each.path, each.after is not None))
        kept = {keep.path: keep for keep in (*drawn.keeps, *self._kept.values())}
        absent = tuple(path for path in drawn.absent if path not in kept)
        return DrawnPlan(tuple(actions), tuple(kept[path] for path in sorted(kept)), absent)

    def _is_left(self, path: bytes) -> bool:
        """Whether a directory that holds a path is left alone; one line stands for all that is in it."""
        above = parent_of(path)
        if above not in self._kept or above in self._places:
            return False
        self._kept[path] = self._kept[above]
        return True

    def _settle(self, action: Action, *, is_dir: bool) -> Iterator[Action]:
        """Yields what is done for a new entry: the same, the same in another place, or nothing."""
        above, _, name = action.path.rpartition(b"/")
        place = self._places.get(above, above)
        path, staying = join(place, name), self._staying_in(place)
        if path != action.path and is_dir:
            self._places[action.path] = path
        found = staying.setdefault(fold(name), name) if staying is not None else name
        if found == name and path not in self._made and (path == action.path or self._is_free(path)):
            self._made[path] = is_dir
            yield action._replace(path=path)
            return
        taken = join(place, found)
        detail = f"this file system takes it for {to_text(taken)}, which stays"
        self._kept[action.path] = Keep(to_text(action.path), SAME_NAME, detail, failed=True)
        if is_dir and self._made.get(taken, self._names_in(place).get(found, False)):
            self._places[action.path] = taken
        else:
            self._places.pop(action.path, None)

    def _is_free(self, path: bytes) -> bool:
        above, _, name = path.rpartition(b"/")
        return path in self._gone or name not in self._names_in(above)

    def _staying_in(self, directory: bytes) -> dict[bytes, bytes] | None:
        """Returns the names that a directory has after the plan, by what they fold to; None where every name is its own."""
        if directory not in self._staying:
            names = self._names_in(directory) if self._folds_at(directory) else None
            self._staying[directory] = (
                names
                if names is None
                else {fold(name): name for name in names if join(directory, name) not in self._gone}
            )
        return self._staying[directory]

    def _folds_at(self, directory: bytes) -> bool:
        """Asks the nearest directory that is there already."""
        while directory in self._made and directory:
            directory = parent_of(directory)
        return self._folds(directory)


def _joined(there: Iterable[Action], made: Iterable[Action]) -> Iterator[Action]:
    """Yields all actions; where one removes a path and another makes the same kind of entry there, one for both."""
    new = {action.path: action for action in made}
    for action in there:
        other = new.get(action.path) if action.after is None else None
        if other is None or action.before is None or other.after is None or action.before.is_dir != other.after.is_dir:
            yield action
            continue
        del new[action.path]
        if action.before != other.after:
            yield action._replace(after=other.after)
    yield from new.values()
