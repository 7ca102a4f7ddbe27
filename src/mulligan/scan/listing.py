"""
The names of one directory, each decided: to be read, to be entered, or not captured and why.

Also keeps a database and its journals together: a journal that a rule keeps out comes in with its database, and where one
of them cannot be captured, none is. A directory, link or special file with such a name is no journal.
"""

from __future__ import annotations

import os
import stat

from mulligan.model.checkpoint import IGNORED, SECRET, SPECIAL, TOO_LARGE
from mulligan.model.paths import is_dot_git, join
from mulligan.scan.ignore import Rules
from mulligan.scan.record import Missed, too_large
from mulligan.scan.scope import TRACKED, Scope, database_groups
from mulligan.scan.secrets import is_plain_name, is_plain_place


class Listing:
    """What a directory holds; `only` where nothing is wanted but what is tracked or asked for by name."""

    def __init__(self, path: bytes, scope: Scope, rules: Rules, *, only: bool) -> None:
        self._path = path
        self._scope = scope
        self._rules = rules
        self._only = only
        # A file that is named like source code, and that no rule could mean, is simply captured.
        self._is_simple = not only and scope.is_simple and is_plain_place(path)
        self._is_meant = None if not self._is_simple or rules.are_empty else rules.hints()[0].question(path)
        self._is_simple = self._is_simple and (self._is_meant is not None or rules.are_empty)
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
        if (
            self._is_simple
            and is_plain_name(name)
            and stat.S_ISREG(st.st_mode)
            and st.st_size <= self._largest
            and (self._is_meant is None or not self._is_meant(name))
        ):
            self.files[name] = st
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
