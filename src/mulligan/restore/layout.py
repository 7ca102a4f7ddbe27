"""
The order of a restore, and where its temporaries lie.

Derived from the plan alone, so that a later process finds the same places again after a crash. A temporary lies in the
nearest directory above its path that exists before and after the restore.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from mulligan.model.objects import MODE_DIR, MODE_LINK
from mulligan.model.paths import parent_of
from mulligan.model.plan import Action, for_themselves
from mulligan.model.spelling import fold

# Larger than any number of an action. Scans know these names for temporaries of a restore.
_ASIDE = 1_000_000_000


def _respelled(gone: Collection[bytes], made: Collection[bytes]) -> dict[bytes, bytes]:
    """Returns paths of which one spelling goes and another comes, each with the other; not those that only lie in such a one."""
    if not gone or not made:
        return {}
    folded = {fold(path): path for path in gone}
    pairs = [(path, folded.get(fold(path), path)) for path in made]
    found = [(new, old) for new, old in pairs if new.rpartition(b"/")[2] != old.rpartition(b"/")[2]]
    return {**dict(found), **{old: new for new, old in found}}


def temporary_name(token: str, number: int) -> bytes:
    """Returns the name of an action's temporary."""
    return b".mulligan-%s-%d" % (token.encode(), number)


def aside_name(token: str, number: int) -> bytes:
    """Returns the name of the file that an action replaces, while it is compared; needed without an exchange of names."""
    return temporary_name(token, _ASIDE + number)


def is_chmod(action: Action) -> bool:
    """Whether only permission bits change."""
    _, before, after = action
    if before is None or after is None or before.oid != after.oid or MODE_LINK in (before.mode, after.mode):
        return False
    return before.is_dir == after.is_dir


def is_content(action: Action) -> bool:
    """Whether a file or link is put in place."""
    return action.after is not None and action.after.mode != MODE_DIR and not is_chmod(action)


class Layout:
    """
    The actions of a plan in the order they happen, each with its number.

    `vanishing` are the directories that go; `successors` say what is made at a path where nothing stands, or nothing will
    once a removal of the same plan is done. `shared` are those of `chmods` whose file has other names too, as the disk
    says: whoever applies the plan fills it, and they are put in place anew, so that the other names keep their bits.
    `writable` are the directories that were found to be so, and need not be asked again. `respelled` are the paths that go or
    come while another spelling, which stands with them, comes or goes: on some file systems both are one name.
    """

    def __init__(self, actions: Sequence[Action]) -> None:
        numbered = list(enumerate(actions))
        is_dir = {n: (before or after).mode == MODE_DIR for n, (_, before, after) in numbered}  # type: ignore[union-attr]
        gone = [(n, a) for n, a in numbered if a.after is None]
        self.removes = [(n, a) for n, a in gone if not is_dir[n]]
        self.rmdirs = sorted(((n, a) for n, a in gone if is_dir[n]), key=lambda row: row[1].path, reverse=True)
        self.mkdirs = [(n, a) for n, a in numbered if a.before is None and is_dir[n]]
        self.places = [(n, a) for n, a in numbered if is_content(a)]
        self.chmods = sorted(((n, a) for n, a in numbered if is_chmod(a)), key=lambda row: row[1].path, reverse=True)
        # As actions: where a file takes the place of a directory, one path is both made and removed.
        self.lone_directories = {
            a for group in (self._made(numbered), [a for _, a in gone]) for a in for_themselves(group) if a.path
        }
        self.shared: list[tuple[int, Action]] = []
        self.writable: set[bytes] = set()
        self.vanishing = {a.path for _, a in self.rmdirs}
        self.successors = {a.path: a.after for _, a in (*self.mkdirs, *self.places) if a.before is None}
        self.respelled = _respelled({a.path for _, a in gone}, self.successors)
        self._unsteady = self.vanishing | {a.path for _, a in self.mkdirs}

    @staticmethod
    def _made(numbered: list[tuple[int, Action]]) -> list[Action]:
        return [a for _, a in numbered if a.before is None]

    @property
    def steps(self) -> list[tuple[int, Action]]:
        """All of them."""
        return [*self.removes, *self.rmdirs, *self.mkdirs, *self.places, *self.chmods]

    @property
    def staged(self) -> list[tuple[int, Action]]:
        """What is put in place by its temporary."""
        return [*self.places, *self.shared]

    def stage_of(self, path: bytes) -> bytes:
        """Returns the directory in which the temporary of a path lies."""
        at = path.rpartition(b"/")[0]
        while at and at in self._unsteady:
            at = parent_of(at)
        return at
