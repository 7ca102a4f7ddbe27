"""
A look at the workspace with everything that decides what is seen: policy, ignore rules, the git repository around it.

Owns the stat cache of one open workspace. The git repository is read as data; nothing is started.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

from mulligan.errors import UserError
from mulligan.model.checkpoint import GitState
from mulligan.model.objects import MODE_DIR
from mulligan.model.paths import ancestors, to_text
from mulligan.model.policy import CapturePolicy, Settings
from mulligan.safefs.clock import boot_id
from mulligan.safefs.directory import Directory, empty_directory
from mulligan.scan.cache import Cache
from mulligan.scan.ignore import IgnoreRules
from mulligan.scan.read import IGNORES_LIMIT, Progress, UnreadableFile
from mulligan.scan.scope import IGNORE_FILE, Scope, Tracked, nothing_tracked
from mulligan.scan.trees import Defaults, HashOnly, Scan, Sink
from mulligan.scan.walk import Options, walk

if TYPE_CHECKING:
    from mulligan.scan.from_git import Adopted
    from mulligan.usergit.index import IndexEntry
    from mulligan.usergit.records import Taker
    from mulligan.usergit.repository import Repository
    from mulligan.watch.watcher import Watched, Watcher


# Linux writes edits to the disk after half a minute, later when it is busy. What was younger than this at the last
# checkpoint is read again after the machine was started: a power cut leaves new times on old bytes (tests/proofs/power).
_UNWRITTEN = 3_600_000_000_000
_NONE: Mapping[bytes, bytes] = MappingProxyType({})


class Scanner:
    """Scans one workspace, again and again."""

    def __init__(self, settings: Settings, now_ns: Callable[[], int], boot: Callable[[], str] = boot_id) -> None:
        self._settings = settings
        self._now_ns = now_ns
        self._boot = boot
        self._cache: Cache | None = None
        self._epoch = -1
        self._watched: Watched | None = None
        self._noted: tuple[bytes, dict[str, Any]] = (b"", {})
        self._repositories = _repositories(settings.workspace)
        #: Forks inside the workspace: workspaces of their own, which no scan enters.
        self.forks: frozenset[bytes] = frozenset()

    # -- the watcher ------------------------------------------------------------------------------

    def watch(self, store: Directory) -> Watcher:
        """Watches the workspace from the next scan on; returns the watcher, which says whether it can."""
        if self._watched is not None and not self._watched.watcher.belongs_to(store):
            self.unwatch()
        if self._watched is None:
            from mulligan.watch.watcher import Watched, Watcher

            with _open_root(self._settings.workspace) as root:
                watcher = Watcher(root, self._settings.workspace, store, ruling=frozenset({IGNORE_FILE}))
            self._watched = Watched(watcher)
        return self._watched.watcher

    @property
    def watcher(self) -> Watcher | None:
        """The watcher, None where the workspace is not watched."""
        return self._watched.watcher if self._watched is not None else None

    def catch_up(self) -> None:
        """Takes note of what happened in a watched workspace so far, so that the next look has less to read."""
        if self._watched is not None:
            self._watched.watcher.drain()

    def unwatch(self) -> None:
        """Ends the watching."""
        if self._watched is not None:
            self._watched.watcher.close()
            self._watched = None

    # -- the cache --------------------------------------------------------------------------------

    def load(self, store: Directory | None, epoch: int, is_held: Callable[[bytes], bool]) -> Cache:
        """Returns the stat cache, read again when objects may have gone since; `is_held` says if a checkpoint has a tree."""
        if self._cache is None or epoch != self._epoch:
            self._cache, self._epoch = Cache(), epoch
            if store is not None:
                self._cache.load(store)
                self._doubt_unwritten(self._cache)
                if not self._cache.root_tree or not is_held(self._cache.root_tree):
                    # The usual permission bits stay those of earlier checkpoints: otherwise nothing would equal them.
                    note, self._cache = self._cache.note, Cache()
                    self._cache.note = note
        return self._cache

    def outlive(self, before: int, after: int, is_held: Callable[[bytes], bool]) -> None:
        """Objects went, and a new epoch began: what is remembered is as true as it was if a checkpoint holds its tree."""
        if self._cache is not None and self._epoch == before and is_held(self._cache.root_tree):
            self._epoch = after

    def _doubt_unwritten(self, cache: Cache) -> None:
        """Where the machine was started since: edits that were young then may have lost their bytes and kept their times."""
        note = self._note(cache)
        if note.get("boot") != self._boot():
            cache.doubt(note.get("at", 0) - _UNWRITTEN)

    def remember(self, store: Directory, scan: Scan, git: dict[str, Any]) -> None:
        """Keeps what a saved checkpoint saw."""
        note = {"defaults": list(scan.defaults), "boot": self._boot(), "at": self._now_ns(), **git}
        cache, held = scan.cache, scan.cache if scan.is_adopted else self._cache
        self._cache = None  # an interrupt leaves half of it: the next scan reads more
        self._noted = json.dumps(note).encode("ascii"), note
        frames = cache.update(scan.packed(), scan.gone, scan.tree, self._noted[0])
        if self._watched is not None:
            self._watched.remember(scan.noticed, scan.observed)
        try:
            cache.save(store, frames)
        except OSError:
            return  # disposable
        self._cache = held

    def confirm(self, store: Directory, scan: Scan, git: dict[str, Any]) -> None:
        """Keeps what was seen of a workspace that a checkpoint holds already; where that is nothing new, nothing is written."""
        if scan.records or scan.gone:
            self.remember(store, scan, git)
        elif self._watched is not None:
            self._watched.remember(scan.noticed, scan.observed)

    def forget(self) -> None:
        """Drops the cache from memory."""
        self._cache = None

    def _note(self, cache: Cache) -> dict[str, Any]:
        if cache.note != self._noted[0]:
            try:
                self._noted = cache.note, json.loads(cache.note) if cache.note else {}
            except ValueError:
                self._noted = cache.note, {}
        return self._noted[1]

    # -- looking ------------------------------------------------------------------------------------

    def scan(
        self,
        cache: Cache,
        sink: Sink | None = None,
        progress: Progress | None = None,
        by_name: Iterable[str] = (),
        *,
        with_git: bool = True,
        base: Callable[[], Any] | None = None,
        gone: bool = False,
    ) -> tuple[Scan, GitState | None, dict[str, Any]]:
        """
        Returns the workspace as it is (`by_name` too), where its git repository stands, and what to remember about that.

        `base` tells the entry whose usual permission bits count where nothing is remembered: by others, nothing would equal it.
        A workspace that is `gone` is seen as an empty one.
        """
        note = self._note(cache)
        with empty_directory(self._settings.temporary) if gone else _open_root(self._settings.workspace) as root:
            repo = self._repository()
            try:
                policy = self._settings.capture.naming(by_name)
                scope, guests = self._scope(repo, policy), policy != self._settings.capture
                index_changed = scope.tracked.key.hex() != note.get("index", "")
                held = base() if base is not None and "defaults" not in note else None
                usual = note.get("defaults") or (held.defaults if held is not None else None)
                defaults = Defaults(*usual) if usual else _usual(root)
                options = Options(
                    scope, sink or HashOnly(), self._now_ns, defaults,
                    settle=sink is not None, index_changed=index_changed, progress=progress,
                )  # fmt: skip
                adopted = None
                if repo is not None and sink is not None and not (len(cache) or guests) and base and base() is None:
                    adopted = self._adopted(root, repo, scope, defaults, sink)
                scan = self._walk(root, adopted.cache if adopted is not None else cache, options, guests=guests)
                if adopted is not None:
                    scan = replace(scan, objects=scan.objects | adopted.objects, is_adopted=True)
                judged = repo if with_git else None
                git, remembered = self._git(judged, scan, note, _hidden_from_git(root, scope))
                return scan, git, {"index": scope.tracked.key.hex(), **remembered}
            finally:
                if repo is not None:
                    repo.close()

    def _walk(self, root: Directory, cache: Cache, options: Options, *, guests: bool) -> Scan:
        # What is looked at by name on top is another scope, for one look: what is watched knows nothing of it.
        watched = self._watched if self._watched is not None and self._watched.watcher.usable and not guests else None
        try:
            return walk(root, cache, options, watched)
        except UnreadableFile as finding:  # of all its directories, the one that has none above to list it
            raise UserError(
                f"The workspace {self._settings.workspace} cannot be read ({finding.detail}). Nothing was changed.",
                hint="mulligan -C DIR …",
            ) from None

    def _adopted(
        self, root: Directory, repo: Repository, scope: Scope, defaults: Defaults, sink: Sink
    ) -> Adopted | None:
        """Returns what git knows of the workspace, its objects given to the sink; None where it is not to be believed."""
        settings = self._settings
        if sink.hash_only or not settings.capture.take_from_git:
            return None
        from mulligan.scan.from_git import Ground, adopt

        homes = (settings.home, settings.git_home)
        # What keeps bytes is a writer of packs, which takes records of git's own too.
        return adopt(Ground(root, repo, scope, defaults, self._now_ns(), homes), cast("Taker", sink))

    def hidden(self, paths: Iterable[tuple[bytes, bool]], coming: Mapping[bytes, bytes] = _NONE) -> list[bytes]:
        """
        Returns those of some paths, each with whether it is a directory, that would not be captured if they were there.

        `coming`, by directory, are ignore files that are thought to stand there too, instead of those that do.
        """
        with _open_root(self._settings.workspace) as root:
            repo = self._repository()
            try:
                scope, seen, inside = (
                    self._scope(repo, self._settings.capture),
                    dict[bytes, IgnoreRules](),
                    set[bytes](),
                )
                return [
                    path
                    for path, is_dir in paths
                    if _is_out(_levels(root, scope, path, seen, coming), scope, path, inside, is_dir=is_dir)
                ]
            finally:
                if repo is not None:
                    repo.close()

    def _repository(self) -> Repository | None:
        """Returns the git repository around the workspace; its reader is only loaded where something looks like one."""
        if not any(map(os.path.lexists, self._repositories)):
            return None
        from mulligan.usergit.repository import Repository

        return Repository.find(self._settings.workspace, home=self._settings.home)

    def _scope(self, repo: Repository | None, policy: CapturePolicy) -> Scope:
        store = os.path.relpath(self._settings.store, self._settings.workspace)
        own = None if store.startswith("..") else os.fsencode(store)
        if repo is None:
            return Scope(policy, IgnoreRules.base(policy.global_excludes), nothing_tracked(), own, self.forks)
        rules = IgnoreRules.base()
        for content in (policy.global_excludes, repo.info_exclude()):
            rules = rules.above(repo.prefix, content) if repo.prefix else rules.enter(b"", content)
        for prefix, content in repo.outer_ignores():
            rules = rules.above(prefix, content)
        key = repr(repo.index_key()).encode()

        def load() -> set[bytes]:
            index = repo.index()
            return index.tracked(repo.prefix) if index is not None else set()

        from mulligan.usergit.repository import worktrees_inside

        worktrees = worktrees_inside(repo, self._settings.workspace)
        return Scope(policy, rules, Tracked(load, key), own, worktrees | self.forks)

    # -- git ----------------------------------------------------------------------------------------

    def _git(
        self, repo: Repository | None, scan: Scan, note: dict[str, Any], is_ignored: Callable[[bytes], bool]
    ) -> tuple[GitState | None, dict[str, Any]]:
        if repo is None:
            return None, {}
        from mulligan.usergit.status import dirty_files, staged_paths, update_dirty

        head, key, cover = repo.head(), repo.state_key().hex(), scan.cover()
        index_key = repo.index_key() or (0, 0, 0, 0)

        def clean(path: bytes, entry: IndexEntry) -> bool:
            """Whether git itself would not read the file again: the bytes differ from the blob only through a filter."""
            found = scan.entry(path)
            return (
                found is not None
                and (entry.size, entry.mtime_ns) == (found[0].size, found[0].mtime_ns)
                and entry.mtime_ns < index_key[2]
            )

        if note.get("git_key") == key and scan.cache.root_tree:
            known, changed = note.get("dirty", ()), {path: after for path, _, after in scan.changes()}
            dirty = update_dirty(repo, known, changed, clean_by_stat=clean, is_ignored=is_ignored)
        elif scan.is_adopted:
            # What is remembered is the index: whatever is different is all that git would call so.
            changed = {path: after for path, _, after in scan.changes() if after or cover.over(path) is None}
            known = [to_text(path) for path in staged_paths(repo)]
            dirty = update_dirty(repo, known, changed, clean_by_stat=clean, is_ignored=is_ignored)
        else:
            hidden = lambda path: cover.over(path) is not None  # noqa: E731 - one use
            dirty = dirty_files(repo, scan.captured(), not_captured=hidden, clean_by_stat=clean, is_ignored=is_ignored)
        return GitState(head.commit, head.branch, dirty), {"git_key": key, "dirty": list(dirty)}


def _repositories(workspace: str) -> list[str]:
    """Returns where a git repository around a workspace may be, the innermost first."""
    found, at = [os.path.join(workspace, ".git")], workspace
    while (above := os.path.dirname(at)) != at:
        found.append(os.path.join(above, ".git"))
        at = above
    return found


def _hidden_from_git(root: Directory, scope: Scope) -> Callable[[bytes], bool]:
    """Returns who tells whether git ignores a path that is captured all the same, because it was asked for."""
    seen: dict[bytes, IgnoreRules] = {}

    def is_ignored(path: bytes) -> bool:
        if not scope.included(path):
            return False
        return any(rules.verdict(below, below != path) for below, rules in _levels(root, scope, path, seen))

    return is_ignored


def _levels(
    root: Directory, scope: Scope, path: bytes, seen: dict[bytes, IgnoreRules], coming: Mapping[bytes, bytes] = _NONE
) -> Iterator[tuple[bytes, IgnoreRules]]:
    """Yields each directory above a path, and the path, with the rules that decide over it; `seen` remembers them."""
    rules, levels = scope.rules, [*ancestors(path), path]
    for directory, below in zip((b"", *levels), levels, strict=False):
        if directory not in seen:
            said = coming.get(directory)
            try:
                if said is None:
                    with root.descend(directory) as opened:
                        said = opened.read(IGNORE_FILE, limit=IGNORES_LIMIT)
                rules = rules.enter(directory, said)
            except OSError:
                pass  # none there, or one that git does not read either
            seen[directory] = rules
        rules = seen[directory]
        yield below, rules


def _is_out(
    levels: Iterable[tuple[bytes, IgnoreRules]], scope: Scope, path: bytes, inside: set[bytes], *, is_dir: bool
) -> bool:
    """Returns whether a path is not captured; `inside` remembers the directories that are."""
    for below, rules in levels:
        if below in inside:
            continue
        folder = is_dir or below != path
        if scope.decide(below, os.path.basename(below), rules, is_dir=folder)[0]:
            return not scope.wanted_inside(path, is_dir=is_dir)
        if below != path:
            inside.add(below)
    return False


def _open_root(path: str) -> Directory:
    try:
        return Directory.open(path)
    except OSError as error:
        raise UserError(
            f"The workspace {path} cannot be opened ({error.strerror}). Nothing was changed.", hint="mulligan -C DIR …"
        ) from error


def _usual(root: Directory) -> Defaults:
    """Returns the permission bits that are common near the top of the workspace."""
    from collections import Counter

    seen: dict[str, Counter[int]] = {"file": Counter(), "executable": Counter(), "directory": Counter()}
    for name in root.names()[:500]:
        try:
            mode = root.stat(name).st_mode
        except OSError:
            continue  # gone; a sample needs no exactness
        kind = "directory" if mode & 0o170000 == MODE_DIR else "executable" if mode & 0o100 else "file"
        seen[kind][mode & 0o777] += 1
    return Defaults(
        **{
            kind: (count.most_common(1) or [(usual, 0)])[0][0]
            for (kind, count), usual in zip(seen.items(), Defaults(), strict=True)
        }
    )
