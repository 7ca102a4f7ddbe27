"""
What a commit of the user's repository holds, as if it had been scanned.

Objects are read as data and their bytes taken as they are: no filter runs, no line ending changes. The scope is that of any
scan, except that nothing in a commit is ignored: it is tracked. What is out of scope, or cannot be read, is listed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple, Protocol

from mulligan.errors import UnsafePath, UserError
from mulligan.model.checkpoint import SPECIAL, TOO_LARGE, UNREADABLE
from mulligan.model.objects import BLOB, MODE_DIR, MODE_EXEC, MODE_LINK, TreeEntry
from mulligan.model.paths import ancestors, check_name, join, parent_of, to_text
from mulligan.model.policy import CapturePolicy
from mulligan.scan.cache import Cache, DirectoryRecord, Missed
from mulligan.scan.ignore import IgnoreRules
from mulligan.scan.scope import CAPTURE, TRACKED, Scope, Tracked, too_large
from mulligan.scan.trees import Defaults, Scan, seal
from mulligan.scan.trees import Objects as MadeObjects
from mulligan.usergit.index import GITLINK
from mulligan.usergit.objects import UserObjects, read_committed
from mulligan.usergit.repository import Repository

_WORK = 1 << 36


class Keeper(Protocol):
    """Where blobs go, and which are there already."""

    def add(self, kind: bytes, data: bytes) -> bytes:
        """Takes an object and returns its id."""


class ImportRules(NamedTuple):
    """What decides over the files of a commit: policy, usual permission bits, and those of single paths (None: as usual)."""

    policy: CapturePolicy
    defaults: Defaults
    bits: Callable[[bytes, int], int | None]
    known: Callable[[bytes], bool]


def find_commit(repo: Repository, text: str) -> str:
    """Returns the full id of a commit from its id or a beginning of it; raises UserError."""
    if not isinstance(text, str) or not re.fullmatch("[0-9a-fA-F]{4,40}", text):
        raise UserError(
            f"{text!r} is not the id of a commit: 4 to 40 hexadecimal digits. Nothing was saved.",
            hint="git log --oneline",
        )
    with repo.objects() as objects:
        found = sorted(oid for oid in objects.beginning_with(text.lower()) if objects.read_commit_tree(oid) is not None)
    if len(found) == 1:
        return found[0].hex()
    if found:
        some = ", ".join(oid.hex()[: len(text) + 4] for oid in found[:3])
        raise UserError(
            f"{text!r} could be {some} …; nothing was saved.", hint="Type more of the id: git log --oneline"
        )
    raise UserError(f"There is no commit {text!r} in the repository. Nothing was saved.", hint="git log --oneline")


def scan_commit(repo: Repository, commit: str, rules: ImportRules, keeper: Keeper) -> Scan:
    """Returns what a commit holds below the workspace, its blobs handed to the keeper; raises UserError."""
    below = repo.prefix + b"/" if repo.prefix else b""
    with repo.objects(work=_WORK) as objects:
        tree = objects.read_commit_tree(bytes.fromhex(commit))
        found = read_committed(objects, tree, None, below=below) if tree is not None else None
        if found is None or found.unread or (below and not found.files):
            raise UserError(
                f"The commit {commit[:12]} cannot be read as a whole, or has no directory {to_text(repo.prefix)!r}. Nothing was saved.",
                hint="git fsck",
            )
        files = {path[len(below) :]: entry for path, entry in found.files.items()}
        return _Reading(objects, rules, keeper).run(files)


class _Reading:
    """One walk over the files of a commit."""

    def __init__(self, objects: UserObjects, rules: ImportRules, keeper: Keeper) -> None:
        self._objects, self._rules, self._keeper = objects, rules, keeper
        self._missed: dict[bytes, Missed] = {}
        self._objects_made: MadeObjects = {}
        self._files = 0
        self._entries: dict[bytes, list[TreeEntry]] = {b"": []}  # by directory
        self._below: dict[bytes, list[bytes]] = {b"": []}  # the names of the directories in each

    def run(self, files: dict[bytes, TreeEntry]) -> Scan:
        """Returns the scan."""
        for path, entry in sorted(files.items()):
            for above in ancestors(path):
                if above not in self._entries:
                    self._entries[above], self._below[above] = [], []
                    self._below[parent_of(above)].append(above.rpartition(b"/")[2])
            self._entries[parent_of(path)].append(entry)
        scope = Scope(self._rules.policy, IgnoreRules.base(), Tracked(files.keys, b""))
        sealed: dict[bytes, DirectoryRecord] = {}
        for path in reversed(
            self._directories_in_scope(scope)
        ):  # from below upwards: every directory after those in it
            self._seal(path, scope, sealed)
        root = sealed[b""]
        return Scan(
            defaults=self._rules.defaults, cache=Cache(), tree=root.tree, modes=root.modes,
            objects=self._objects_made, records={}, missed=self._missed, files=self._files,
        )  # fmt: skip

    def _directories_in_scope(self, scope: Scope) -> list[bytes]:
        found: list[bytes] = []
        pending = [b""]
        while pending:
            path = pending.pop()
            found.append(path)
            inner = self._below[path]
            pending += [
                join(path, name) for name in inner if self._in_scope(scope, join(path, name), name, is_dir=True)
            ]
        return found

    def _in_scope(self, scope: Scope, path: bytes, name: bytes, *, is_dir: bool) -> bool:
        try:
            check_name(name)
        except UnsafePath as error:
            self._miss(path, SPECIAL, error.message)
            return False
        decision = scope.decide(path, name, scope.rules, is_dir=is_dir)
        if decision not in (CAPTURE, TRACKED):
            self._miss(path, *decision)
        return decision in (CAPTURE, TRACKED)

    def _miss(self, path: bytes, reason: str, detail: str) -> None:
        self._missed[path] = Missed(path.rpartition(b"/")[2], reason, detail)

    def _seal(self, path: bytes, scope: Scope, sealed: dict[bytes, DirectoryRecord]) -> None:
        record, modes = DirectoryRecord(), []
        children = [
            (name, sealed.pop(join(path, name))) for name in sorted(self._below[path]) if join(path, name) in sealed
        ]
        for entry in sorted(self._entries[path], key=lambda entry: entry.name):
            below = join(path, entry.name)
            if self._in_scope(scope, below, entry.name, is_dir=False) and self._take(below, entry, scope):
                record.names.append(entry.name)
                record.oids += entry.oid
                modes.append(self._bits(below, entry.mode))
        self._files += len(record.names)
        record.perm = self._rules.bits(path, MODE_DIR) or self._rules.defaults.directory
        seal(record, modes, children, self._rules.defaults, self._objects_made)
        sealed[path] = record

    def _bits(self, path: bytes, mode: int) -> int:
        """Returns a file's own mode: a commit knows whether it is a program, the rest is as it was or as usual."""
        if mode == MODE_LINK:
            return MODE_LINK | 0o777
        usual = self._rules.defaults.executable if mode == MODE_EXEC else self._rules.defaults.file
        known = self._rules.bits(path, mode)
        return 0o100000 | (known if known is not None and bool(known & 0o100) == (mode == MODE_EXEC) else usual)

    def _take(self, path: bytes, entry: TreeEntry, scope: Scope) -> bool:
        """Hands a file's bytes to the keeper; returns whether they could be had and are in scope."""
        if entry.mode == GITLINK:
            self._miss(path, SPECIAL, "a submodule: its files are in a repository of its own")
            return False
        if self._rules.known(entry.oid):
            return True
        found = self._objects.read(entry.oid)
        if found is None or found[0] != BLOB:
            self._miss(path, UNREADABLE, "its bytes cannot be read from the repository")
            return False
        if len(found[1]) > scope.max_file_size:
            self._miss(path, TOO_LARGE, too_large(len(found[1]), scope.max_file_size))
            return False
        if self._keeper.add(BLOB, found[1]) != entry.oid:
            self._miss(path, UNREADABLE, "its bytes are damaged in the repository")
            return False
        return True
