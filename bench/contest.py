"""
The work that is timed, and the proof that it was done.

Every contestant has its own copy of the same tree, all on the same disk and in the page cache. In every round all of them do
the same work, one after the other, beginning with another one each time; what they did is then compared with what should be
there. Files that the benchmark writes are left to age (`settle`) before a tool is asked to trust its cache of them.

Promises: only the contestant's own call is inside the clock; dirty pages of others are flushed before it starts.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar

from bench import trees
from bench.contestants import Contestant, DoesNotApply, NotOffered
from bench.report import DOES_NOT_APPLY, Cell, Section

T = TypeVar("T")

HISTORY_FILES = 200
HISTORY_FILE = "notes/history/page.py"


@dataclass(frozen=True, slots=True)
class Rules:
    """How often each kind of work is done, and how long files age."""

    runs: int
    first_runs: int
    settle: float
    history: int
    rows: frozenset[str]
    keep: bool
    say: Callable[[str], None]


@dataclass(slots=True)
class Entrant:
    """One contestant in one arena: its places, its last checkpoint, and whether it is still in the race."""

    contestant: Contestant
    workspace: Path
    store: Path
    latest: str = ""
    out: str = ""
    versions: dict[int, str] = field(default_factory=dict)


class Mismatch(Exception):
    """The contestant's result is not what it should be."""


class Arena:
    """One tree, one copy per contestant, and the rows measured on them."""

    def __init__(self, tree: trees.Tree, section: Section, rules: Rules, place: Path) -> None:
        self.tree = tree
        self.section = section
        self.rules = rules
        self.place = place
        self.entrants: list[Entrant] = []
        self.expected = trees.expected(tree)
        self.edited: set[str] = set()
        self.versions: dict[int, bytes] = {}

    def enter(self, kind: type[Contestant]) -> None:
        """Makes a copy of the tree for one more contestant."""
        workspace, store = self.place / kind.key / "workspace", self.place / kind.key / "store"
        workspace.mkdir(parents=True)
        trees.write(self.tree, workspace)
        self.entrants.append(Entrant(kind(workspace, store), workspace, store))

    def settle(self) -> None:
        """Lets everything written so far become old enough for a stat cache to trust it."""
        os.sync()
        time.sleep(self.rules.settle)

    def make_repositories(self) -> None:
        """Turns every copy into a clean git repository, with the same objects and an index of its own."""
        made = self.entrants[0].workspace / ".git"
        for entrant in self.entrants:
            work = str(entrant.workspace)
            if entrant is self.entrants[0]:
                _run("git", "init", "-q", work)
                _run("git", "-C", work, "add", "-A")
                identity = ("-c", "user.name=bench", "-c", "user.email=bench@localhost", "-c", "gc.auto=0")
                _run("git", "-C", work, *identity, "commit", "-q", "-m", "the project")
                _run("git", "-C", work, "repack", "-a", "-d", "-q")
            else:
                shutil.copytree(made, entrant.workspace / ".git")
            _run("git", "-C", work, "update-index", "-q", "--refresh")

    def close(self) -> None:
        """Lets every contestant go and removes its copy, unless it is to be looked at."""
        for entrant in self.entrants:
            entrant.contestant.close()
            if not self.rules.keep:
                shutil.rmtree(self.place / entrant.contestant.key, ignore_errors=True)

    def first(self, row: str) -> None:
        """Measures the first capture, each time into a store that does not exist yet."""
        for entrant in self.entrants:
            entrant.out = ""
        for number in range(self.rules.first_runs):
            for entrant in self._turns(row, number):
                self._clear_store(entrant)
                with _Attempt(self, row, entrant) as attempt:
                    entrant.latest = attempt.time(entrant.contestant.first)
                    self._check_listing(entrant)
        self._drop_out(row)

    def disk(self, row: str) -> None:
        """Notes what the store occupies now."""
        for entrant in self.entrants:
            if entrant.out and not (entrant.latest and type(entrant.contestant).first_only):
                self._cell(row, entrant).trouble = entrant.out
                continue
            self._cell(row, entrant).samples = [_occupied(entrant.contestant.store_paths())]

    def unchanged(self, row: str) -> None:
        """Measures a checkpoint that finds nothing to do."""
        for entrant in self._racing(row):
            with _Attempt(self, row, entrant):
                entrant.contestant.save_unchanged()
        for number in range(self.rules.runs):
            for entrant in self._turns(row, number):
                with _Attempt(self, row, entrant) as attempt:
                    if not attempt.time(entrant.contestant.save_unchanged):
                        raise Mismatch("made a checkpoint although nothing had changed")

    def one_changed(self, row: str) -> None:
        """Measures a checkpoint after one edit, another file each time."""
        texts = self.tree.texts()
        for number in range(self.rules.runs):
            file = texts[(number * 7919) % len(texts)]
            content = trees.edited(self.tree.content(file), number=number)
            self.expected[file.path] = trees.blob_id(content)
            self.edited.add(file.path)
            for entrant in self.entrants:
                trees.overwrite(entrant.workspace, {file.path: content})
            for entrant in self._turns(row, number):
                with _Attempt(self, row, entrant) as attempt:
                    entrant.latest = attempt.time(entrant.contestant.save)
                    if entrant.contestant.read(entrant.latest, file.path) != content:
                        raise Mismatch(f"{file.path} is not in the checkpoint as it was")
        self._drop_out(row)

    def many_changed(self, row: str, count: int) -> None:
        """Measures a checkpoint after that many edits, spread over the tree."""
        texts = self.tree.texts()
        chosen = texts[:: max(1, len(texts) // count)][:count]
        # No two rows make the same edit: in a small tree they may mean the same files.
        first = 100_000 * len(row)
        for number in range(first, first + self.rules.runs):
            fresh = {file.path: trees.edited(self.tree.content(file), number=number) for file in chosen}
            self.expected.update({path: trees.blob_id(content) for path, content in fresh.items()})
            self.edited.update(fresh)
            for entrant in self.entrants:
                trees.overwrite(entrant.workspace, fresh)
            for entrant in self._turns(row, number):
                with _Attempt(self, row, entrant) as attempt:
                    entrant.latest = attempt.time(entrant.contestant.save)
                    for path in list(fresh)[:: max(1, count // 3)]:
                        if entrant.contestant.read(entrant.latest, path) != fresh[path]:
                            raise Mismatch(f"{path} is not in the checkpoint as it was")
        self._drop_out(row)

    def restore(self, row: str, count: int) -> None:
        """Measures putting back that many edited files, spread over the tree."""
        texts = [file for file in self.tree.texts() if file.path not in self.edited]
        step = max(1, len(texts) // count)
        chosen = {file.path: self.tree.content(file) for file in texts[::step][:count]}
        for number in range(self.rules.runs):
            damaged = {path: trees.edited(content, number=1_000_000 + number) for path, content in chosen.items()}
            self.settle()
            for entrant in self._turns(row, number):
                trees.overwrite(entrant.workspace, damaged)
                with _Attempt(self, row, entrant) as attempt:
                    attempt.time(partial(entrant.contestant.restore, entrant.latest))
                    self._check_workspace(entrant, chosen, whole=number == self.rules.runs - 1)
                if self._cell(row, entrant).trouble:
                    trees.overwrite(entrant.workspace, chosen)

    def history(self, row: str) -> None:
        """Makes many one-line edits of one large file, a checkpoint after each; all of them must be readable afterwards."""
        content = trees.page(seed=self.tree.seed)
        for number in range(1, self.rules.history):
            content = trees.line_edit(content, number=number, seed=self.tree.seed)
            if number in _sampled(self.rules.history):
                self.versions[number] = content
            for entrant in self._turns(row, number):
                trees.overwrite(entrant.workspace, {HISTORY_FILE: content})
                with _Attempt(self, row, entrant, flush=False) as attempt:
                    entrant.versions[number] = attempt.time(entrant.contestant.save)
        self.check_history(row)
        self._drop_out(row)

    def check_history(self, row: str) -> None:
        """Reads early, middle and late versions back."""
        for entrant in self._turns(row, 0):
            with _Attempt(self, row, entrant, flush=False):
                for number, content in self.versions.items():
                    if entrant.contestant.read(entrant.versions[number], HISTORY_FILE) != content:
                        raise Mismatch(f"checkpoint {number} does not hold what was saved")

    def log(self, row: str) -> None:
        """Measures listing every checkpoint of the history."""
        for number in range(self.rules.runs):
            for entrant in self._turns(row, number):
                with _Attempt(self, row, entrant) as attempt:
                    count = attempt.time(entrant.contestant.log)
                    if count < self.rules.history:
                        raise Mismatch(f"lists {count} of {self.rules.history} checkpoints")

    def gc(self, row: str) -> None:
        """Measures packing the store, once, and reads the history back afterwards."""
        for entrant in self._turns(row, 0):
            with _Attempt(self, row, entrant) as attempt:
                attempt.time(entrant.contestant.gc)
        self.check_history(row)

    def _turns(self, row: str, number: int) -> Iterator[Entrant]:
        # Who failed a row once is not asked again: another 30 s timeout per round would tell nothing new.
        racing = [entrant for entrant in self._racing(row) if not self._cell(row, entrant).trouble]
        if racing:
            start = number % len(racing)
            yield from racing[start:] + racing[:start]

    def _racing(self, row: str) -> Sequence[Entrant]:
        for entrant in self.entrants:
            if entrant.out:
                self._cell(row, entrant).trouble = entrant.out
        return [entrant for entrant in self.entrants if not entrant.out]

    def _drop_out(self, row: str) -> None:
        for entrant in self.entrants:
            if self._cell(row, entrant).trouble:
                entrant.out = entrant.out or f"did not get past: {self.section.rows[row][0]}"
            if type(entrant.contestant).first_only:
                entrant.out = DOES_NOT_APPLY

    def _cell(self, row: str, entrant: Entrant) -> Cell:
        return self.section.cell(row, entrant.contestant.key)

    def _clear_store(self, entrant: Entrant) -> None:
        entrant.contestant.close()
        for path in entrant.contestant.store_paths():
            shutil.rmtree(path, ignore_errors=True)
        entrant.store.mkdir(exist_ok=True)
        entrant.contestant = type(entrant.contestant)(entrant.workspace, entrant.store)

    def _check_listing(self, entrant: Entrant) -> None:
        listed = entrant.contestant.listing(entrant.latest)
        if listed != self.expected:
            raise Mismatch(f"the checkpoint is not the workspace: {_differences(listed, self.expected)}")

    def _check_workspace(self, entrant: Entrant, touched: dict[str, bytes], *, whole: bool) -> None:
        own = entrant.contestant.own_names | {".git"}
        if whole:
            there = trees.found(entrant.workspace, leave_out=own)
            if there != self.expected:
                raise Mismatch(f"the workspace is not the checkpoint: {_differences(there, self.expected)}")
        elif set(trees.paths(entrant.workspace, leave_out=own)) != set(self.expected):
            raise Mismatch("files appeared or vanished")
        for path, content in touched.items():
            if (entrant.workspace / path).read_bytes() != content:
                raise Mismatch(f"{path} was not put back")


class _Attempt:
    """One contestant's turn: times its call, and turns what goes wrong into a note in its cell."""

    def __init__(self, arena: Arena, row: str, entrant: Entrant, *, flush: bool = True) -> None:
        self.cell = arena.section.cell(row, entrant.contestant.key)
        self.flush = flush
        self.say = arena.rules.say
        self.name = f"{arena.section.title}: {row}: {entrant.contestant.title}"

    def __enter__(self) -> _Attempt:
        return self

    def time(self, work: Callable[[], T]) -> T:
        """Runs the work inside the clock and keeps the milliseconds."""
        if self.flush:
            os.sync()
        start, busy = time.perf_counter(), _processor()
        result = work()
        self.cell.samples.append((time.perf_counter() - start) * 1000)
        self.cell.cpu.append((_processor() - busy) * 1000)
        return result

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> bool:
        if error is None:
            return False
        if not isinstance(error, Exception):
            return False
        if isinstance(error, DoesNotApply):
            self.cell.trouble = DOES_NOT_APPLY
            return True
        if isinstance(error, NotOffered):
            self.cell.trouble = f"not offered: {error}"
        elif isinstance(error, Mismatch):
            self.cell.trouble = f"DOES NOT DO THE JOB: {error}"
        else:
            self.cell.trouble = f"failed: {str(error).splitlines()[0] if str(error) else type(error).__name__}"[:300]
        self.say(f"{self.name}: {self.cell.trouble}")
        return True


def _processor() -> float:
    """Processor seconds of this process and of those it started and saw end; on a shared machine the steadier measure."""
    parts = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(part.ru_utime + part.ru_stime for part in parts)


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)


def _sampled(history: int) -> frozenset[int]:
    return frozenset({1, history // 2, history - 1})


def _differences(one: dict[str, str], other: dict[str, str]) -> str:
    missing, extra = other.keys() - one.keys(), one.keys() - other.keys()
    changed = [path for path in one.keys() & other.keys() if one[path] != other[path]]
    return f"{len(missing)} missing, {len(extra)} too many, {len(changed)} different"


def _occupied(directories: Sequence[Path]) -> float:
    total = 0
    for directory in directories:
        for where, _, files in os.walk(directory):
            total += sum(os.lstat(os.path.join(where, name)).st_blocks * 512 for name in files)
            total += os.lstat(where).st_blocks * 512
    return float(total)
