"""
Lets every call of every operation fail in turn, with every errno, and looks at what came of it.

    python tests/proofs/crash/fault_sweep.py [--size N] [--operation NAME ...] [--errno NAME ...] [--build NAME] [--first]

The n-th call through the seam fails with an errno, for n = 1 until the operation comes through untouched. After each:
the error is one of ours and says something; a disk that did not confirm is believed at once (exit 91, no second fsync);
no descriptor and no temporary is left; each workspace file is old or new, and all of it old where the operation failed
and nothing waits to be ended; what was acknowledged is there, and what was there before is; the next command and the
same one again work without help; the judge finds nothing. Without `--size` all (call, errno) pairs are tried. Where two
errnos at one call came to the same thing, which is the same kind of error, the same calls after it, and the same files
and records, the store is judged, and the next command run, for the first of them.
The exit code is 1 if anything was wrong.
"""

from __future__ import annotations

import argparse
import collections
import errno
import os
import random
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[2] / "support"))

from fault_builds import BUILDS
from operations import HIDDEN, OPERATIONS, Operation, Stage, held

import mulligan
from check_timeline import Timeline, read_timeline, view_of
from checker import judge, neither_old_nor_new
from faults import NAMES, FailsAt
from mulligan.safefs import syscalls
from scenes import State, left_lying, state_of
from stores import open_descriptors
from tally import hand_in
from tools import git
from users_repository import ASKED

ERRNOS = ("EIO", "ENOSPC", "EACCES", "EMFILE", "EINTR", "EROFS", "EDQUOT")
SYNCS = frozenset({"fsync", "syncfs"})
_NEW_EACH_TIME = re.compile(r"[0-9a-f]{6,}|\d+")


class Fails(FailsAt):
    """As `FailsAt`, on a file system that lacks some calls."""

    def __init__(self, number: int, code: int, lacking: tuple[str, ...] = ()) -> None:
        super().__init__(number, code)
        self.lacking = lacking
        self.after: list[str] = []

    def meet(self, name: str) -> None:
        if self.failed:
            self.after.append(name)
        super().meet(name)
        if name in self.lacking:
            raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))


class Short(syscalls.Calls):
    """A system that takes and gives fewer bytes than were asked for, as it may at any time."""

    def write(self, fd: int, data: Any) -> int:
        """Writes a third of it."""
        return os.write(fd, data[: max(1, len(data) // 3)])

    def read(self, fd: int, size: int) -> bytes:
        """Reads a third of it."""
        return os.read(fd, max(1, size // 3))

    def pread(self, fd: int, size: int, offset: int) -> bytes:
        """Reads a third of it."""
        return os.pread(fd, max(1, size // 3), offset)


class Trial(NamedTuple):
    """One run: the call that failed (nothing: there was none), what was raised, and what is wrong."""

    failed: str
    error: BaseException | None
    wrong: list[str]


class Outcome(NamedTuple):
    """What an operation raised or returned, and what it said of an earlier restore that it ended."""

    error: BaseException | None
    result: Any
    recovery: str

    @property
    def listed(self) -> set[str]:
        """The paths that a restore says it kept."""
        kept = {keep.path for keep in getattr(self.result, "kept", ()) if keep.failed}
        return kept | set(re.findall(r"Kept: (.*?) \(", self.recovery))


class Footprint(NamedTuple):
    """What a trial came to, but for names and times that are new in each: with the same one, the same follows."""

    error: type[BaseException] | None
    listed: frozenset[str]
    after: tuple[str, ...]
    workspace: State
    store: list[tuple[str, int]]
    records: dict[str, int]
    phases: list[object]


class Expected(NamedTuple):
    """What the operation comes to when nothing fails, and in how many calls."""

    calls: int
    new: State
    git_old: Any
    git_new: Any


def standing(repo: Path) -> dict[tuple[str, ...], bytes]:
    """Where the user's repository stands, asked of git in as few words as tell it."""
    return {
        words: git(*words, cwd=repo, check=False)
        for words in ASKED
        if words[0] in {"status", "ls-files", "for-each-ref"}
    }


def cleanly(stage: Stage) -> Expected:
    """Runs the operation on an honest system."""
    ws, project = stage.reset(), stage.place.project
    before, lie = standing(project) if stage.operation.git else None, Fails(0, 0, stage.operation.lacking)
    with syscalls.using(lie):
        stage.operation.act(ws, stage.place)
    ws.close()
    after = standing(project) if stage.operation.git else None
    wrong = judge(stage.place.store, project)
    assert not wrong, wrong
    if stage.operation.heals:
        stage.known.update(held(stage.place.store))
    return Expected(lie.count, state_of(project), before, after)


def trial(stage: Stage, expected: Expected, lie: syscalls.Calls, known: list[Footprint] | None = None) -> Trial:
    """Runs the operation on a system that lies once, and looks at everything; what came to something `known`, at less."""
    ws, place = stage.reset(), stage.place
    ws.close()
    before, error, result = open_descriptors(), None, None
    with syscalls.using(lie):
        try:
            result = stage.operation.act(ws, place)
        except Exception as raised:  # noqa: BLE001 - whatever it is, it is looked at
            error = raised
    ws.close()
    failed, wrong, outcome = getattr(lie, "failed", ""), [], Outcome(error, result, ws.last_recovery)
    if open_descriptors() != before:
        wrong.append(f"{open_descriptors() - before} descriptors were left open")
    if isinstance(lie, Fails):
        wrong += [*typed(error), *durability(lie, error)]
    try:
        now, timeline = state_of(place.project), read_timeline(place.store)
        left = footprint(outcome, tuple(getattr(lie, "after", ())), now, place.store, timeline)
        is_new = known is None or left not in known
        wrong += right_after(stage, expected, outcome, now, pending=bool(timeline.tables["journal"]))
        if is_new:
            if not stage.operation.heals:
                wrong += judge(place.store, place.project, with_fsck=False, at_rest=False)
            wrong += later(stage, expected, outcome)
            if known is not None:
                known.append(left)
    except Exception as trouble:  # noqa: BLE001 - the next command must not raise anything at all
        wrong.append(f"the next command: {type(trouble).__name__}: {trouble}")
    return Trial(failed, error, wrong)


def footprint(outcome: Outcome, after: tuple[str, ...], now: State, store: Path, timeline: Timeline) -> Footprint:
    """What is left of a trial, to be compared with others."""
    files = sorted(
        (_NEW_EACH_TIME.sub("x", os.path.relpath(path, store)), path.lstat().st_mode) for path in store.rglob("*")
    )
    records = {table: len(rows) for table, rows in timeline.tables.items()}
    phases = [row.get("phase") for row in timeline.tables["journal"]]
    error = type(outcome.error) if outcome.error is not None else None
    return Footprint(error, frozenset(outcome.listed), after, now, files, records, phases)


def typed(error: BaseException | None) -> Iterator[str]:
    """Whatever is not as it must be with what was raised."""
    if error is None:
        return
    if not isinstance(error, mulligan.MulliganError):
        yield f"not an error of ours: {type(error).__name__}: {error}"
    elif not (error.message.endswith(".") and " " in error.message):
        yield f"not a sentence: {error.message!r}"


def durability(lie: Fails, error: BaseException | None) -> Iterator[str]:
    """A failed fsync is final: the error says so, and nobody asks again."""
    if lie.failed not in SYNCS:
        return
    if getattr(error, "exit_code", 0) != 91:
        yield f"the disk did not confirm, and the exit code is {getattr(error, 'exit_code', 0)}"
    if again := [name for name in lie.after if name in SYNCS]:
        yield f"{again[0]} after the one that failed"


def right_after(stage: Stage, expected: Expected, outcome: Outcome, now: State, *, pending: bool) -> Iterator[str]:
    """Whatever is not as it must be with the workspace, and with what was said of it, before anybody does anything else."""
    place, old, new = stage.place, stage.old, expected.new
    # What could not be read, and so not be told from somebody's bytes, is put in sight and said.
    names = {path.rpartition("/")[2] for path in outcome.listed}
    aside = {path for path in now if ".kept-" in path and path.rpartition("/")[2].partition(".kept-")[0] in names}
    yield from neither_old_nor_new({path: entry for path, entry in now.items() if path not in aside}, old, new)
    if not pending and not outcome.listed:
        yield from (f"left lying: {path}" for path in left_lying(place.project))
        if outcome.error is not None and now not in (old, new):
            yield f"failed, and the workspace is neither old nor new: {differing(now, old)}"
    if outcome.error is None:
        yield from acknowledged(stage, expected, now, outcome)


def differing(now: State, then: State) -> list[str]:
    """The paths that are not as they were."""
    return sorted(path for path in now.keys() | then.keys() if now.get(path) != then.get(path))


def acknowledged(stage: Stage, expected: Expected, now: State, outcome: Outcome) -> Iterator[str]:
    """Where what was returned does not agree with what is there."""
    result, excused = outcome.result, outcome.listed
    if hasattr(result, "kept"):
        for path in sorted(now.keys() | expected.new.keys()):
            if now.get(path) != expected.new.get(path) and not covered(path, excused) and not above(path, excused):
                yield f"restored, but {path} is not new and not listed"
        if now != expected.new and result.complete:
            yield "restored completely, it says, and the workspace is not new"
    elif hasattr(result, "not_captured"):
        if result.name != "now":
            return
        holds = held(stage.place.store).get(result.id)
        if holds is None:
            yield "acknowledged, and not there"
            return
        wanted = {path: entry for path, entry in now.items() if path not in HIDDEN}
        listed = {row.path.rstrip("/") or "." for row in result.not_captured}
        if result.complete and {path for path in listed if ".mulligan-" not in path} - HIDDEN.keys():
            yield f"complete, it says, without {sorted(listed)}"
        ruled = not any(path.endswith(".gitignore") for path in listed)  # else more is captured, and that is said
        for path in sorted(wanted.keys() | {path for path in holds if ruled or path not in HIDDEN}):
            if holds.get(path) != wanted.get(path) and not covered(path, listed) and not stage.operation.git:
                yield f"acknowledged, but {path} is not as it was and not listed ({sorted(listed)})"


def covered(path: str, listed: set[str]) -> bool:
    """Whether a path, or a directory above it, is listed."""
    parts = path.split("/")
    return "." in listed or any("/".join(parts[: length + 1]) in listed for length in range(len(parts)))


def above(path: str, listed: set[str]) -> bool:
    """Whether something below a path is listed."""
    return any(each.startswith(path + "/") for each in listed)


def later(stage: Stage, expected: Expected, outcome: Outcome) -> Iterator[str]:
    """The next command works without help, and then all is well; and so does the same command again."""
    place, operation, listed = stage.place, stage.operation, outcome.listed
    with place.open() as ws:
        if operation.heals and outcome.error is not None:
            with suppress(mulligan.UserError):  # an adoption that was done, and not acknowledged
                operation.act(ws, place)
        ws.save("after")
    now = state_of(place.project)
    if now not in (stage.old, expected.new) and not listed:
        yield f"the workspace is neither old nor new after the next command; not old: {differing(now, stage.old)}"
    if operation.git and not listed:
        yield from git_stands(stage, expected, new=now == expected.new)
    view = view_of(place.store)
    yield from judge(place.store, None if listed else place.project, with_fsck=False, view=view)
    yield from lost(stage, view.checkpoints())
    if operation.again and outcome.error is not None and now == stage.old:
        # Where it was done the first time, and not acknowledged, there is nothing left to do it to.
        with place.open() as ws, suppress(KeyError):
            operation.act(ws, place)
        if state_of(place.project) != expected.new:
            yield "the same command again does not do what it should"


def git_stands(stage: Stage, expected: Expected, *, new: bool) -> Iterator[str]:
    """Whether the user's repository is where its files are."""
    now, wanted = standing(stage.place.project), expected.git_new if new else expected.git_old
    if moved := [words for words in wanted if now[words] != wanted[words]]:
        yield f"files are {'new' if new else 'old'}, git is not: {moved}"
    yield from (f"a lock is left: {path}" for path in (stage.place.project / ".git").rglob("*.lock"))


def lost(stage: Stage, now: dict[str, State]) -> Iterator[str]:
    """Checkpoints of the beginning that are not there any more as they were, unless it is for this operation to change them."""
    name = next(name for name, operation in OPERATIONS.items() if operation is stage.operation)
    for checkpoint, files in stage.known.items():
        there = now.get(checkpoint)
        if name in {"delete", "trim"} and there is None:
            continue
        # A restore that changed nothing leaves no safety checkpoint: the workspace still holds what that one held.
        if name == "recovery-early" and there is None and _stands(stage):
            continue
        forgotten = {"d/secret"} if name == "forget" else set()
        if there is None or {**files, **dict.fromkeys(forgotten)} != {**there, **dict.fromkeys(forgotten)}:
            yield f"checkpoint {checkpoint} is not what it was"


def _stands(stage: Stage) -> bool:
    """Whether the workspace holds what it held, whatever temporaries could not be removed."""
    now = {path: node for path, node in state_of(stage.place.project).items() if not path.startswith(".mulligan-")}
    return now == stage.old


# -- the sweep --------------------------------------------------------------------------------------


class Tally:
    """What came of all trials."""

    def __init__(self) -> None:
        self.began = self.told = time.monotonic()
        self.tried = self.bad = self.outcomes = 0
        self.met: collections.Counter[str] = collections.Counter()

    def take(self, what: str, made: Trial) -> None:
        """Counts one, and tells what was wrong with it."""
        self.tried += 1
        self.met[made.failed] += 1
        self.bad += bool(made.wrong)
        for line in made.wrong:
            print(f"BROKEN {what} ({made.failed}): {line} [{type(made.error).__name__}: {made.error}]", flush=True)
        if time.monotonic() - self.told > 15:
            self.told = time.monotonic()
            print(f"... {self.tried} tried, {self.bad} bad, at {what}, {self.told - self.began:.0f} s", file=sys.stderr)


def pairs(calls: int, options: argparse.Namespace) -> Iterator[tuple[int, str]]:
    """The (call, errno) pairs to try: all of them, a few beyond the last call included, or a sample."""
    codes = options.errno or ERRNOS
    every = [(number, code) for number in range(1, calls + 1) for code in codes]
    if options.trials:
        yield from random.Random(options.seed).sample(every, min(options.trials, len(every)))
        return
    yield from every
    # The count varies a little, as a file's age decides whether it is read again.
    yield from ((number, code) for number in range(calls + 1, calls + 4) for code in codes)


def sweep(name: str, operation: Operation, base: Path, options: argparse.Namespace, tally: Tally) -> int:
    """Tries one operation; returns how many calls it has."""
    stage = Stage(base, operation)
    expected, known = cleanly(stage), collections.defaultdict[int, list[Footprint]](list)
    for number, code in pairs(expected.calls, options):
        if options.first and tally.bad:
            return expected.calls
        made = trial(stage, expected, Fails(number, getattr(errno, code), operation.lacking), known[number])
        if made.failed:
            tally.take(f"{name}, call {number}, {code}", made)
    made = trial(stage, expected, Short())
    if made.error is not None:
        made.wrong.append("short reads and writes are no error")
    tally.take(f"{name}, short reads and writes", made._replace(failed="short"))
    tally.outcomes += sum(map(len, known.values()))
    return expected.calls


def main() -> int:
    """Runs the sweep and prints one line per operation, and one per violation."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--size", "--trials", dest="trials", type=int, default=0, help="pairs per operation, at random; 0: every one"
    )
    parser.add_argument("--seed", type=int, default=0, help="which of those")
    parser.add_argument("--operation", choices=OPERATIONS, action="append")
    parser.add_argument("--errno", choices=ERRNOS, action="append")
    parser.add_argument("--build", choices=BUILDS, default="", help="spoil the engine, to see that it is noticed")
    parser.add_argument("--first", action="store_true", help="end with the first trial that was wrong")
    options = parser.parse_args()
    if options.build:
        BUILDS[options.build]()
    tally = Tally()
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    base = Path(tempfile.mkdtemp(prefix="fault-sweep-", dir=memory))
    try:
        os.environ["HOME"] = os.environ["XDG_STATE_HOME"] = os.environ["XDG_CONFIG_HOME"] = os.fspath(base)
        for name in options.operation or OPERATIONS:
            began, tried = time.monotonic(), tally.tried
            calls = sweep(name, OPERATIONS[name], base, options, tally)
            print(f"{name}: {calls} calls, {tally.tried - tried} tried, {time.monotonic() - began:.0f} s", flush=True)
    finally:
        shutil.rmtree(base, ignore_errors=True)
    never = sorted(set(NAMES) - tally.met.keys() - {"close"})
    took = time.monotonic() - tally.began
    print(f"calls that no operation makes: {', '.join(never) or 'none'}")
    print(f"failing calls: {tally.tried} (call, errno) pairs, {tally.outcomes} outcomes, {tally.bad} bad, {took:.0f} s")
    counts = {"calls_that_no_operation_makes": len(never), "outcomes": tally.outcomes}
    hand_in("failing calls", tried=tally.tried, broken=tally.bad, **counts)
    return 1 if tally.bad or not tally.tried else 0


if __name__ == "__main__":
    sys.exit(main())
