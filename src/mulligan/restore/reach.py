"""
The part of a plan that can be carried out: what cannot be written or keeps changing is left alone and listed.

A directory stays when something stays in it, and nothing is made in the place of what stays. The files of a database belong
together: none of them is restored without the others. A directory that only its own bits close is opened for the length of a
restore and closed after it. The journal lists those, so that a crash leaves none of them open for longer than to the next
writing command.

Some files no scan sees. Those that a restore writes where a rule hides them must be known by name to its undo, which would take
back the step before otherwise. Those that were never saved (ignored, too large, dependencies) and are gone are named as lost.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from mulligan.errors import PlanStale, UserError
from mulligan.model.bounded import read_json
from mulligan.model.checkpoint import EXCLUDED, IGNORED, MOVING, SECRET, TOO_LARGE, UNREADABLE
from mulligan.model.objects import MODE_DIR
from mulligan.model.paths import ancestors, covers, parent_of, to_text
from mulligan.model.plan import Action, Keep, RestorePlan, is_sealed
from mulligan.restore.place import Handles, find_shared, is_absence
from mulligan.restore.stage import BlobSource, Layout
from mulligan.safefs import syscalls
from mulligan.safefs.directory import Directory
from mulligan.scan.read import IGNORES_LIMIT
from mulligan.scan.scanner import Scanner
from mulligan.scan.scope import IGNORE_FILE, database_family
from mulligan.scan.secrets import secret_name
from mulligan.scan.trees import Defaults
from mulligan.store.objects import ObjectStore
from mulligan.timeline.commits import Entry
from mulligan.timeline.database import Database
from mulligan.timeline.store import Store
from mulligan.timeline.trees import Permissions, Trees

if TYPE_CHECKING:
    from mulligan.model.checkpoint import Sealed

BUSY = "busy"


def busy(paths: Iterable[bytes], detail: str = "") -> dict[bytes, Keep]:
    """Returns what is listed for paths that keep changing."""
    return {path: Keep(to_text(path), BUSY, detail, failed=True) for path in paths}


def left_out(actions: Sequence[Action], why: Mapping[bytes, Keep]) -> tuple[set[int], list[Keep]]:
    """Returns the numbers of the actions that are not taken without those at some paths, and what is listed instead."""
    listed = dict(why)
    planned = {action.path for action in actions}
    for path, keep in why.items():
        for sibling in planned.intersection(database_family(path)):
            listed.setdefault(sibling, replace(keep, path=to_text(sibling), detail=f"it belongs to {keep.path}"))
    numbers = set()
    for number, action in enumerate(actions):
        above = next((each for each in (action.path, *ancestors(action.path)) if each in listed), None)
        if above is not None:
            numbers.add(number)
            if action.path not in listed:
                listed[action.path] = replace(listed[above], path=to_text(action.path))
    staying = {above for number in numbers if actions[number].before for above in ancestors(actions[number].path)}
    for number, action in enumerate(actions):
        if action.path not in staying or number in numbers:
            continue
        if action.after is None:
            numbers.add(number)
        elif action.before is None and not action.after.is_dir:
            numbers.add(number)
            detail = "a directory that must stay is in its place"
            listed[action.path] = Keep(to_text(action.path), "not empty", detail, failed=True)
    return numbers, [listed[path] for path in sorted(listed)]


def remaining(plan: RestorePlan, why: Mapping[bytes, Keep]) -> RestorePlan:
    """Returns a plan without some paths, which it lists instead."""
    numbers, kept = left_out(plan.actions, why)
    actions = tuple(action for number, action in enumerate(plan.actions) if number not in numbers)
    return replace(plan, actions=actions, keeps=(*plan.keeps, *kept))


def agreed(promised: RestorePlan, plan: RestorePlan) -> RestorePlan:
    """Returns what an earlier plan and one that was made now have in common; the paths where they differ are listed."""
    moved = {action.path for action in {*promised.actions} ^ {*plan.actions}}
    common = [action for action in plan.actions if action in {*promised.actions}]
    return remaining(replace(plan, actions=tuple(common)), busy(sorted(moved), "it changed after the plan was made"))


# How often a restore is planned again because paths moved under it.
_MOST_REPLANS = 2


class Attempts:
    """
    Counts the attempts at one restore.

    A path that moved in two attempts keeps changing: the restore goes on without it. So does the last attempt without all
    that moved in it.
    """

    def __init__(self, again: int = _MOST_REPLANS) -> None:
        self._again = again
        self._moved: set[bytes] = set()
        self._restless: set[bytes] = set()

    def leaves(self, moved: Collection[bytes]) -> bool:
        """Returns whether the restore goes on without these paths."""
        return not self._again or self._moved.issuperset(moved)

    def plans_again(self, moved: Collection[bytes]) -> bool:
        """Notes that an attempt ended because these paths moved; returns whether another follows."""
        if not moved or not self._again:
            return False
        self._again -= 1
        self._restless |= self._moved.intersection(moved)
        self._moved.update(moved)
        return True

    def gave_up(self, actions: Sequence[Action]) -> tuple[bytes, ...]:
        """Returns the paths of some actions if all of them kept changing: such a restore would change nothing."""
        paths = {action.path for action in actions}
        return tuple(sorted(paths)) if paths and paths <= self._restless else ()


class RestoreOutcome:
    """What became of a plan."""

    def __init__(self, kept: Sequence[Keep] = ()) -> None:
        self.created: list[str] = []
        self.modified: list[str] = []
        self.deleted: list[str] = []
        self.kept = list(kept)


def reason_of(error: OSError) -> tuple[str, str]:
    """Returns the reason and the detail that are listed for a path whose change failed."""
    if error.errno == errno.EBUSY:
        return "a mount point", ""
    if is_absence(error):
        return BUSY, "a directory above it is not what it was"
    return "not writable", error.strerror or ""


_WRITABLE = 0o200

Locked = tuple[tuple[bytes, int], ...]


def touched_directories(layout: Layout) -> set[bytes]:
    """Returns the directories that exist before a restore and in which it changes names."""
    touched = {parent_of(a.path) for _, a in (*layout.removes, *layout.rmdirs)}
    touched |= {layout.stage_of(a.path) for _, a in (*layout.removes, *layout.staged, *layout.mkdirs)}
    return touched


def is_writable(fd: int) -> bool:
    """Returns whether names in an open directory may be changed."""
    return os.access(".", os.W_OK | os.X_OK, dir_fd=fd, effective_ids=True)


def is_locked(fd: int, status: os.stat_result) -> bool:
    """Returns whether a directory that may not be changed is ours, so that it can be opened."""
    return status.st_uid == os.geteuid() and not os.access(".", os.W_OK, dir_fd=fd, effective_ids=True)


def unlock(handles: Handles, locked: Locked) -> None:
    """Lets the owner write to each of some directories."""
    for path, perm in locked:
        syscalls.calls.fchmod(handles.get(path).fd, perm | _WRITABLE)


def lock_again(handles: Handles, locked: Locked) -> list[bytes]:
    """Gives directories the bits they had, unless they are gone or were changed; returns those that refused."""
    refused = []
    for path, perm in locked:
        try:
            fd = handles.get(path).fd
            if os.fstat(fd).st_mode & 0o7777 == perm | _WRITABLE:
                syscalls.calls.fchmod(fd, perm)
        except OSError as error:
            if not is_absence(error):
                refused.append(path)
    return refused


NOT_WRITABLE = "not writable"


class WritablePart:
    """The part of a plan that can be carried out, with its directories open; `locked` are those to be opened for it."""

    def __init__(
        self,
        store: Store,
        root: Directory,
        token: str,
        plan: RestorePlan,
        verb: str,
        attempts: Attempts | None,
        sealed: Sealed,
    ) -> None:
        self.root = root
        self.token = token
        self.attempts = attempts
        self.handles = Handles(root)
        self.plan = plan
        self.locked: Locked = ()
        self._store = store
        self._sealed = sealed  # secrets whose contents the scan knows
        self.objects: BlobSource = store.objects
        try:
            self.layout = self._lay(plan)
            self._settle(verb)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Closes the directories."""
        self.handles.close()

    def _lay(self, plan: RestorePlan) -> Layout:
        actions: Sequence[Action] = plan.actions
        self.objects = self._store.objects
        if any(map(is_sealed, actions)):
            from mulligan.restore.secrets import unsealed

            actions, self.objects = unsealed(self._store, actions, self._sealed)
        layout = Layout(actions)
        self.handles.spell(layout.respelled)
        layout.shared = find_shared(self.handles, layout.chmods)
        return layout

    def _settle(self, verb: str) -> None:
        """Finds out which directories may be written to, and leaves alone what lies in the others."""
        locked, refused, gone = list[tuple[bytes, int]](), dict[bytes, Keep](), list[bytes]()
        writable = self.layout.writable
        for path in sorted(touched_directories(self.layout)):
            try:
                fd = self.handles.get(path).fd
            except OSError as error:
                if is_absence(error):
                    gone.append(path)
                else:
                    refused[path] = _refusal(path, self._status_of(path))
                continue
            if is_writable(fd):
                writable.add(path)
                continue
            status = os.fstat(fd)
            if is_locked(fd, status) and self._may_open(path, status.st_mode & 0o7777, verb):
                locked.append((path, status.st_mode & 0o7777))
            else:
                refused[path] = _refusal(path, status)
        self.locked = tuple(locked)
        refused.update(self._foreign())
        if gone and (self.attempts is None or not self.attempts.leaves(gone)):
            shown = to_text(gone[0])
            raise PlanStale(
                f"The directory {shown!r} is not what it was. Nothing was changed.",
                hint="Plan again.",
                moved=tuple(gone),
            )
        if gone or refused:
            self._leave(refused, gone)

    def _leave(self, refused: dict[bytes, Keep], gone: list[bytes]) -> None:
        why = {}
        for _, action in self.layout.steps:
            for needed in {action.path} if action.path in refused else self._needs(action):
                if needed in refused:
                    kept = refused[needed]
                    why[action.path] = Keep(to_text(action.path), kept.reason, kept.detail, failed=True, hint=kept.hint)
                elif needed in gone:
                    why.update(busy([action.path], f"the directory {to_text(needed)} keeps changing"))
        self.plan = remaining(self.plan, why)
        if not self.plan.actions and self.plan.git is None and self.plan.what == "files":
            raise _nothing_left(refused, gone)
        writable = self.layout.writable
        self.layout = self._lay(self.plan)
        self.layout.writable = writable
        touched = touched_directories(self.layout)
        self.locked = tuple(row for row in self.locked if row[0] in touched)

    def _needs(self, action: Action) -> set[bytes]:
        """Returns the directories whose names an action changes, of those that exist before it."""
        stage = self.layout.stage_of(action.path)
        if action.after is None:
            return {stage, parent_of(action.path)}
        in_place = action.before is not None and all(action is not other for _, other in self.layout.staged)
        return set() if in_place else {stage}

    def _foreign(self) -> dict[bytes, Keep]:
        """Returns the paths whose permission bits belong to another user."""
        user, found = os.geteuid(), dict[bytes, Keep]()
        for _, action in self.layout.chmods if user else ():
            status = self._status_of(action.path)
            if status is not None and status.st_uid != user:
                found[action.path] = _refusal(action.path, status)
        return found

    def _status_of(self, path: bytes) -> os.stat_result | None:
        try:
            return self.handles.get(parent_of(path)).stat(os.path.basename(path))
        except OSError:
            return None  # not even that may be looked at

    def _may_open(self, path: bytes, perm: int, verb: str) -> bool:
        """
        Returns whether a read-only directory is opened for the length of the restore.

        An undo must always be possible. A restore opens only those that were read-only at the position already: one that
        was closed since then is meant to stay as it is.
        """
        here = self._store.checkpoints.current()
        if verb != "restore" or here is None:
            return True
        source = Trees(self._store.objects)
        then = Permissions(source, here.modes_tree, Defaults(*here.defaults))
        return source.lookup(here.files_tree, path) is not None and then.of(path, MODE_DIR) == perm


def _refusal(path: bytes, status: os.stat_result | None) -> Keep:
    """Returns why names in a directory cannot be changed, and what to type about it."""
    shown = to_text(path) or "."
    if status is not None and status.st_uid == os.geteuid():
        return Keep(shown, NOT_WRITABLE, f"{shown} is read-only", failed=True, hint=f"chmod u+wx {shown}")
    owner = f"{shown} is owned by {_user(status.st_uid)}" if status is not None else f"{shown} cannot be opened"
    return Keep(shown, NOT_WRITABLE, owner, failed=True, hint=f"sudo chown -R {_user(os.geteuid())} {shown}")


def _user(uid: int) -> str:
    from pwd import getpwuid

    try:
        return getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _nothing_left(refused: dict[bytes, Keep], gone: list[bytes]) -> UserError:
    for kept in refused.values():
        return UserError(f"Can't write to {kept.path} ({kept.detail}). Nothing was changed.", hint=kept.hint)
    return PlanStale(
        f"The directory {to_text(gone[0])!r} keeps changing. Nothing was changed.", hint="Run the command again."
    )


# -- files that no checkpoint or scan sees ---------------------------------------------------------


def written_in_hiding(plan: RestorePlan, scanner: Scanner, store: ObjectStore) -> list[bytes]:
    """Returns the files that a plan writes although a rule of today hides them, or a rule that it brings back will."""
    coming = _coming_rules(plan, store)
    # A secret is seen by its name, whatever hides it.
    after = [
        action
        for action in plan.actions
        if action.after is not None and not action.after.is_dir and not (is_sealed(action) and secret_name(action.path))
    ]
    made = [(action.path, False) for action in after if action.before is None]
    found = scanner.hidden(made) if made else []
    if coming:
        found += scanner.hidden([(action.path, False) for action in after], coming)
    return list(dict.fromkeys(found))


def _coming_rules(plan: RestorePlan, store: ObjectStore) -> dict[bytes, bytes]:
    """Returns the ignore files that a plan writes or removes: by directory, what they will say."""
    found = {}
    for action in plan.actions:
        if os.path.basename(action.path) == IGNORE_FILE:
            node, said = action.after, b""
            is_file = node is not None and not (node.is_dir or node.is_link) and not is_sealed(action)
            for chunk in store.stream(node.oid) if node is not None and is_file else ():
                said += chunk
                if len(said) > IGNORES_LIMIT:
                    break
            found[parent_of(action.path)] = said[:IGNORES_LIMIT]
    return found


_NEVER_SAVED = frozenset({IGNORED, EXCLUDED, SECRET, TOO_LARGE, UNREADABLE, MOVING})
# A project may have very many ignored files: so many are looked for.
_MOST = 10_000
#: In the store's own values: what was named as lost already and is still not there, and when the checkpoint was made that had seen it.
_NAMED = "lost"
_DEPENDENCIES = {
    "node_modules": {
        "package-lock.json": "npm install",
        "yarn.lock": "yarn install",
        "pnpm-lock.yaml": "pnpm install",
        "package.json": "npm install",
    },
    ".venv": {
        "uv.lock": "uv sync",
        "poetry.lock": "poetry install",
        "Pipfile.lock": "pipenv install",
        "requirements.txt": "pip install -r requirements.txt",
        "pyproject.toml": "pip install -e .",
    },
    "vendor": {"composer.lock": "composer install", "Gemfile.lock": "bundle install"},
}


def lost_since(
    database: Database, workspace: str, start: Entry, paths: tuple[bytes, ...] | None, *, has_git: bool
) -> list[Keep]:
    """Returns what was there at a checkpoint, is gone and was never saved; each path is named once, until it was there again."""
    found = [
        Keep(row.path.rstrip("/"), row.reason, row.detail, failed=True)
        for row in start.checkpoint.not_captured[:_MOST]
        if row.reason in _NEVER_SAVED and not _stands(workspace, row.path.rstrip("/"))
    ]
    if start.checkpoint.git is not None and not has_git and not _stands(workspace, ".git"):
        found.insert(0, Keep(".git", "git's own data", failed=True))
    named = read_json(database.meta(_NAMED, "{}"))
    known = named.items() if isinstance(named, dict) else ()
    before = {path: seen for path, seen in known if isinstance(seen, int) and not _stands(workspace, path)}
    if paths is not None:
        found = [keep for keep in found if any(covers(path, os.fsencode(keep.path)) for path in paths)]
    fresh = [keep for keep in found if before.get(keep.path, -1) < start.created_ns]
    _note(database, dict(sorted((before | {keep.path: start.created_ns for keep in fresh}).items())[:_MOST]))
    return fresh


def forget_named(database: Database) -> None:
    """Says that what was lost may be named again: the steps in which it disappeared are there again."""
    _note(database, {})


def _note(database: Database, named: dict[str, int]) -> None:
    said = json.dumps(named)
    if said != database.meta(_NAMED, "{}"):
        with database.transaction():
            database.set_meta(_NAMED, said)


def _stands(workspace: str, path: str) -> bool:
    return os.path.lexists(os.path.join(workspace, path))


def to_reinstall(workspace: str, start: Entry, changed: Sequence[str]) -> list[str]:
    """Returns the commands that make unsaved dependencies fit the files that a restore brought back, one for each place."""
    unsaved = {row.path.rstrip("/") for row in start.checkpoint.not_captured if row.reason in _NEVER_SAVED}
    commands = []
    for above in dict.fromkeys(path.rpartition("/")[0] for path in changed):
        for installed, files in _DEPENDENCIES.items():
            place = os.path.join(above, installed)
            beside = [name for name in files if os.path.join(above, name) in changed]
            if beside and (place in unsaved or _stands(workspace, place)):
                first = next((name for name in files if _stands(workspace, os.path.join(above, name))), beside[0])
                commands.append(f"cd {above} && {files[first]}" if above else files[first])
    return commands
