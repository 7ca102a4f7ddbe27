"""
Which paths are captured.

One place decides, in this order: git's own files and its worktrees never; what the user's config includes always; then special files, secrets
that the git index does not track, built-in and configured exclusions, and the ignore rules, which give way to what the git
index tracks. An ignore file itself is always captured: it decides over others, so it must come back.

A `Listing` decides over all names of one directory, and keeps a database and its journals together: a journal that a rule keeps
out comes in with its database, and where one of them cannot be captured, none is. A directory, link or special file with
such a name is no journal.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Collection
from functools import cached_property
from hashlib import blake2b

from mulligan.model.checkpoint import EXCLUDED, IGNORED, SECRET, SPECIAL, TOO_LARGE, WORKTREE
from mulligan.model.paths import ancestors, is_dot_git, join
from mulligan.model.policy import DEFAULT_EXCLUDED_DIRECTORIES, CapturePolicy
from mulligan.safefs.directory import IN_CLOUD, is_in_cloud
from mulligan.scan.cache import Missed
from mulligan.scan.ignore import IgnoreRules, Patterns
from mulligan.scan.secrets import secret_name

IGNORE_FILE = b".gitignore"
_DATABASE_SIBLINGS = (b"-wal", b"-shm", b"-journal")

# Where the checkpoint-manager skill keeps its notes about checkpoints: going back must not take them along.
RECORDS = b".claude/checkpoints"
_TEMPORARY = rb"\.mulligan-[0-9a-f]{12}b?-\d+"

CAPTURE = ("", "")
TRACKED = ("", "only because the git index tracks it")
Decision = tuple[str, str]


class Tracked:
    """The paths that the git index tracks, and the directories above them; read when first asked for."""

    def __init__(self, load: Callable[[], Collection[bytes]], key: bytes) -> None:
        self.key = key
        self._load = load

    @cached_property
    def _paths(self) -> Collection[bytes]:
        return self._load()

    @cached_property
    def _directories(self) -> set[bytes]:
        return {above for path in self._paths for above in ancestors(path)}

    def __contains__(self, path: bytes) -> bool:
        return path in self._paths

    def below(self, directory: bytes) -> bool:
        """Returns whether anything below a directory is tracked."""
        return directory in self._directories


def nothing_tracked() -> Tracked:
    """Returns what a workspace without a git repository tracks."""
    return Tracked(frozenset, b"")


class Scope:
    """The decision for each path, from policy, ignore rules and the git index."""

    def __init__(
        self,
        policy: CapturePolicy,
        rules: IgnoreRules,
        tracked: Tracked,
        own: bytes | None = None,
        worktrees: frozenset[bytes] = frozenset(),
    ) -> None:
        self._own = own
        self._worktrees = worktrees
        self.rules = rules
        self.tracked = tracked
        self.max_file_size = policy.max_file_size
        self._include = Patterns(policy.always)
        self.has_includes = bool(self._include)
        self.checks_secrets = policy.secrets != "plain"
        self._exclude = Patterns(policy.exclude)
        self._built_in = frozenset(name.encode() for name in DEFAULT_EXCLUDED_DIRECTORIES)
        policy_key = b"\0".join(
            (
                *(self._include.key, self._exclude.key, b"%d" % policy.max_file_size, policy.secrets.encode()),
                *sorted(worktrees),
            )
        )
        self._policy_key = blake2b(policy_key, digest_size=16).digest()

    def key(self, rules: IgnoreRules, *, only_tracked: bool) -> bytes:
        """Returns what a directory's decisions depend on, so that they can be remembered."""
        # The number grows when the built-in rules change, so that decisions of an older release do not stand.
        parts = b"3" + self._policy_key + rules.key + (b"tracked" + self.tracked.key if only_tracked else b"")
        return blake2b(parts, digest_size=16).digest()

    def decide(self, path: bytes, name: bytes, rules: IgnoreRules, *, is_dir: bool) -> Decision:
        """Returns CAPTURE, or TRACKED, or the reason and detail why a path is out of scope."""
        if is_dot_git(name):
            return EXCLUDED, "git's own files are never saved or touched"
        if path == self._own:
            return EXCLUDED, "mulligan's own store"
        if is_dir and path in self._worktrees:
            return WORKTREE, "a fork or git worktree, with a history of its own"
        if path == RECORDS and is_dir:
            return EXCLUDED, "records of checkpoints, which outlive every restore"
        if name.startswith(b".mulligan-") and re.fullmatch(_TEMPORARY, name):
            return EXCLUDED, "a temporary of a restore"
        included = bool(self._include) and self._include.match(path, is_dir=is_dir)
        found = CAPTURE
        if not is_dir and self.checks_secrets and (secret := secret_name(path)):
            if path not in self.tracked:
                excluded = self._exclude and not included and self._exclude.match(path, is_dir=False)
                return (EXCLUDED, "capture.exclude") if excluded else (SECRET, secret)
            found = TRACKED
        if included:
            return found
        if is_dir and name in self._built_in:
            if not self.tracked.below(path):
                return EXCLUDED, "rebuilt by a tool"
            found = TRACKED
        if self._exclude and self._exclude.match(path, is_dir=is_dir):
            return EXCLUDED, "capture.exclude"
        if (is_dir or name != IGNORE_FILE) and rules.verdict(path, is_dir):
            found = TRACKED if not is_dir and path in self.tracked else (IGNORED, "")
        return found

    @property
    def has_excludes(self) -> bool:
        """Whether something that git tracks may not be captured: the config names patterns, or there are worktrees inside."""
        return bool(self._exclude) or bool(self._worktrees)

    def leaves_out(self, path: bytes) -> bool:
        """Returns whether a file is not captured although git tracks it, for a reason other than that it is a secret."""
        if path.startswith(RECORDS + b"/") or self._in_worktree(path):
            return True
        return bool(self._exclude) and self._exclude.match(path, is_dir=False) and not self.included(path)

    def included(self, path: bytes) -> bool:
        """Returns whether the user's own config asks for a file."""
        return self.has_includes and self._include.match(path, is_dir=False)

    def enters(self, path: bytes) -> bool:
        """Returns whether a directory that is out of scope holds paths that are in scope all the same."""
        if path == RECORDS or path in self._worktrees:
            return False
        return self.tracked.below(path) or (bool(self._include) and self._include.may_match_below(path))

    def secret(self, path: bytes) -> str:
        """Returns why a file is a secret by its name, which git does not track; an empty string if it is none."""
        found = secret_name(path) if self.checks_secrets else ""
        return found if found and path not in self.tracked else ""

    def wanted_inside(self, path: bytes, *, is_dir: bool) -> bool:
        """Returns whether a path below such a directory is in scope."""
        if self._in_worktree(path):
            return False
        if is_dir:
            return self.enters(path) or self._include.match(path, is_dir=is_dir)
        if path.startswith(RECORDS + b"/"):
            return False
        return self.included(path) or path in self.tracked

    def _in_worktree(self, path: bytes) -> bool:
        return bool(self._worktrees) and not self._worktrees.isdisjoint((*ancestors(path), path))


def too_large(size: int, limit: int) -> str:
    """Returns the detail of a file over the limit: `60 MiB; limit 50 MiB`."""
    from mulligan.model.sizes import format_size

    return f"{format_size(size)}; limit {format_size(limit)}"


class Listing:
    """What a directory holds; `only` where nothing is wanted but what is tracked or asked for by name."""

    def __init__(self, path: bytes, scope: Scope, rules: IgnoreRules, *, only: bool) -> None:
        self._path = path
        self._scope = scope
        self._rules = rules
        self._only = only
        self._largest = scope.max_file_size
        self._spare: dict[bytes, os.stat_result] = {}
        self._no_files: set[bytes] = set()
        self.files: dict[bytes, os.stat_result] = {}
        self.dirs: list[bytes] = []
        self.missed: list[Missed] = []
        self.leans = False
        self.grouped = False

    def add(self, name: bytes, st: os.stat_result) -> None:
        """Decides over one name."""
        if is_in_cloud(st):
            self.missed.append(Missed(name, SPECIAL, IN_CLOUD))
            return
        path, is_dir, scope = join(self._path, name), stat.S_ISDIR(st.st_mode), self._scope
        if not stat.S_ISREG(st.st_mode):
            self._no_files.add(name)
        if self._only:
            if is_dot_git(name) or not scope.wanted_inside(path, is_dir=is_dir):
                self._spare[name] = st
                return
            if not is_dir and not stat.S_ISLNK(st.st_mode) and (secret := scope.secret(path)):
                self.missed.append(Missed(name, SECRET, secret))
                return
        else:
            reason, detail = decision = scope.decide(path, name, self._rules, is_dir=is_dir)
            # Where a link points is no secret, and without it the program that needs the secret does not start.
            if reason and not (reason == SECRET and stat.S_ISLNK(st.st_mode)):
                self._leave_out(path, Missed(name, reason, detail), st)
                return
            self.leans |= decision is TRACKED
        if is_dir:
            self.dirs.append(name)
        else:
            self._take(name, st)

    def _leave_out(self, path: bytes, missed: Missed, st: os.stat_result) -> None:
        if path != b".git":
            self.missed.append(missed)
        if missed.reason == IGNORED:
            self._spare[missed.name] = st
        if stat.S_ISDIR(st.st_mode) and not is_dot_git(missed.name) and self._scope.enters(path):
            self.dirs.append(missed.name)

    def _take(self, name: bytes, st: os.stat_result) -> None:
        if not (stat.S_ISREG(st.st_mode) or stat.S_ISLNK(st.st_mode)):
            self.missed.append(Missed(name, SPECIAL, _kind(st.st_mode)))
        elif st.st_size > self._largest:
            self.missed.append(Missed(name, TOO_LARGE, too_large(st.st_size, self._largest)))
        else:
            self.files[name] = st

    def group_databases(self) -> None:
        """Makes it all or none for each database and its journals; call it when every name was added."""
        names = {*self.files, *self._spare, *(m.name for m in self.missed)} - self._no_files
        if not database_groups(names):
            return  # as nearly everywhere
        groups = database_groups(sorted(names))
        asked = {
            name for main, others in groups.items() if main in self.files for name in others if name in self._spare
        }
        if asked:
            self.missed = [m for m in self.missed if m.name not in asked]
            for name in sorted(asked):
                self._take(name, self._spare[name])
        reasons = {m.name: m.reason for m in self.missed}
        for main, others in groups.items():
            family = [main, *others]
            out = [name for name in family if name not in self.files]
            self.grouped |= not out
            for name in family if out else ():
                if self.files.pop(name, None) is not None:
                    self.missed.append(
                        Missed(name, reasons.get(out[0], IGNORED), "belongs with " + os.fsdecode(out[0]))
                    )


def _kind(mode: int) -> str:
    for test, kind in (
        (stat.S_ISFIFO, "a FIFO"),
        (stat.S_ISSOCK, "a socket"),
        (stat.S_ISCHR, "a device"),
        (stat.S_ISBLK, "a device"),
    ):
        if test(mode):
            return kind
    return "not a file"


def database_groups(names: Collection[bytes]) -> dict[bytes, list[bytes]]:
    """Returns each database file that has a journal beside it, with those siblings: they belong together."""
    journals = [name for name in names if name.endswith(_DATABASE_SIBLINGS)]
    present: set[bytes] = set(names) if journals else set()
    groups: dict[bytes, list[bytes]] = {}
    for name in journals:
        for suffix in _DATABASE_SIBLINGS:
            if name.endswith(suffix) and name[: -len(suffix)] in present:
                groups.setdefault(name[: -len(suffix)], []).append(name)
    return groups


def database_family(path: bytes) -> list[bytes]:
    """Returns the paths that must be restored together with this one, if they exist."""
    main = next((path[: -len(s)] for s in _DATABASE_SIBLINGS if path.endswith(s)), path)
    return [main, *(main + suffix for suffix in _DATABASE_SIBLINGS)]
