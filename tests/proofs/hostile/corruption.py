"""
Flips every bit of a small store in turn; cuts its files at every length, zeroes, removes and swaps them; judges the rest.

    python tests/proofs/hostile/corruption.py [--size N] [--seed N] [--workers N] [--seconds S] [--only KIND ...] [--below PATH] [--build NAME]

After each damage: `check` finds it, or it is provably without effect, by category and counted; no wrong byte is shown, no
wrong record, no error but one of ours; what cannot be read belongs to checkpoints that `check` names, and all others are
read exactly. Every so often, and for every damage beyond a bit, `doctor` runs too: nothing that could be read before is
lost, and what the workspace, another pack or the commits still hold comes back. `--size 0` is every damage there is.
"""

from __future__ import annotations

import gc
import json
import os
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[2] / "support"))

from specimen import Bench, Specimen, files_of, logical

import mulligan
from mulligan.doctor import check as checking
from mulligan.doctor.check import check
from mulligan.store.verify import verify_packs
from tally import Tally, parser, workplace

DATABASE = "timeline.db"
KINDS = ("flip", "cut", "zeroed", "gone", "swapped")
#: Files whose loss costs time and nothing else.
DISPOSABLE = ("cache", "lock")
_DENSE = 4096
_STRETCH = 64


def _no_seals() -> None:
    """A timeline that believes whatever stands in it."""
    from mulligan.timeline import checkpoints, database

    checkpoints.is_intact = database.is_intact = lambda _row: True


def _no_hashes() -> None:
    """A store that hands out what inflates, and a check that counts objects."""
    from mulligan.store import objects, verify

    objects._verified = lambda pack, offset, _oid: pack.load_at(offset)
    verify._verify_objects = lambda _pack, _index: ([], [])


#: Engines that must not be shipped: each is noticed, or the zeros mean nothing.
BUILDS = {"no-seals": _no_seals, "no-hashes": _no_hashes}


class Damage(NamedTuple):
    """One way to spoil the store: what, where, and the bytes of each file that changes (None: it is gone)."""

    kind: str
    path: str
    detail: str
    changed: dict[str, bytes | None]

    def __str__(self) -> str:
        return f"{self.kind} {self.path} {self.detail}"


def flips(files: dict[str, bytes]) -> Iterator[tuple[str, int]]:
    """Every bit of every file."""
    for path, data in files.items():
        for bit in range(8 * len(data)):
            yield path, bit


def flipped(files: dict[str, bytes], path: str, bit: int) -> Damage:
    """The store with one bit changed."""
    raw = bytearray(files[path])
    raw[bit >> 3] ^= 1 << (bit & 7)
    return Damage("flip", path, f"byte {bit >> 3} bit {bit & 7}", {path: bytes(raw)})


def coarse(files: dict[str, bytes], only: set[str]) -> Iterator[Damage]:
    """Every file cut at every length (large ones at many), zeroed, gone, and swapped with each other of its kind."""
    for path, data in files.items():
        lengths = (
            range(len(data)) if len(data) <= _DENSE else sorted({*range(0, len(data), 101), *range(64), len(data) - 1})
        )
        if "cut" in only:
            yield from (Damage("cut", path, f"to {length} of {len(data)}", {path: data[:length]}) for length in lengths)
        if "zeroed" in only and data:
            yield Damage("zeroed", path, "", {path: bytes(len(data))})
            yield from (
                Damage(
                    "zeroed",
                    path,
                    f"512 bytes from {at}",
                    {path: data[:at] + bytes(len(data[at : at + 512])) + data[at + 512 :]},
                )
                for at in range(0, len(data), 512)
                if any(data[at : at + 512])
            )
        if "gone" in only:
            yield Damage("gone", path, "", {path: None})
        for other, theirs in files.items() if "swapped" in only else ():
            if path < other and os.path.splitext(path)[1] == os.path.splitext(other)[1] and data != theirs:
                yield Damage("swapped", path, f"with {other}", {path: theirs, other: data})


class Seen(NamedTuple):
    """What the engine said of a damaged store."""

    found: bool
    named: set[str]
    unread: set[str]
    read: set[int]
    wrong: list[str]


def look(bench: Bench, turn: int, *, about: str = "") -> Seen:
    """
    Asks everything that only reads; whatever is raised and is none of our errors is a violation.

    Some work is shared, but for every 16th time. Where only the packs are damaged, the log is not asked. Where only the
    timeline is, the packs, which are the same bytes, are not verified again, and one file of each checkpoint is read.
    A restore is planned every fourth time, and the second look that `check` takes, in case others were at work, is left out.
    """
    specimen, wrong, unread, read = bench.specimen, list[str](), set[str](), set[int]()
    found, named = False, set[str]()
    ws = bench.open()
    try:
        few = about == "timeline" and turn % 16
        checking.verify_packs = (lambda *_, **__: []) if few else verify_packs
        checking.check = checking.look if turn % 16 else check
        try:
            report = ws.check()
            found = not report.ok
            named = {name for problem in report.problems for name in problem.checkpoints}
            wrong += [f"check speaks of nothing: {problem}" for problem in report.problems if not problem.detail]
        except mulligan.MulliganError as error:
            found, named = True, set(specimen.log)
            wrong += sentence(error)
        skip_log = about == "packs" and turn % 16
        told = None if skip_log else asked(lambda: {cp.id: cp.to_dict() for cp in ws.log()}, wrong)
        for name, said in (told or {}).items():
            if said != specimen.log.get(name):
                wrong.append(f"log says of {name}: {differing(said, specimen.log.get(name))}")
        if told is not None and told.keys() != specimen.log.keys() and not found:
            wrong.append("log is not complete, and check is content")
        for number in specimen.first_readings() if few else range(len(specimen.readings)):
            reading = specimen.readings[number]
            content = asked(lambda one=reading: ws.cat(one.checkpoint, one.path), wrong)
            if content is None:
                unread.add(reading.checkpoint)
            elif content != reading.content:
                wrong.append(f"wrong bytes for {reading.checkpoint}:{reading.path}")
            else:
                read.add(number)
        names = list(specimen.plans)
        for name in names[turn // 4 % len(names) :][: int(turn % 4 == 0)]:
            plan = asked(lambda name=name: ws.plan(name), wrong)
            if plan is not None and plan.actions != specimen.plans[name]:
                wrong.append(f"another plan for {name}")
    except Exception as error:  # noqa: BLE001 - a bare error is what is looked for
        wrong.append(f"a bare error: {type(error).__name__}: {error}")
    finally:
        ws.close()
    if unread and not found:
        wrong.append("something cannot be read, and check is content")
    if found and not unread <= named:
        wrong.append(f"check does not name {sorted(unread - named)}")
    return Seen(found, named, unread, read, wrong)


def asked(question, wrong: list[str]):
    """The answer, None where the engine refuses in its own words."""
    try:
        return question()
    except mulligan.MulliganError as error:
        wrong += sentence(error)
        return None


def sentence(error: mulligan.MulliganError) -> list[str]:
    """What is wrong with the words of an error."""
    whole = error.message.rstrip().endswith((".", "…")) and " " in error.message
    return [] if whole else [f"not a sentence: {error.message!r}"]


def differing(said: dict, wanted: dict | None) -> str:
    """Which fields are not as they must be."""
    return str([(key, said[key]) for key in said if wanted is None or said[key] != wanted.get(key)])


def gaps(database: bytes) -> Iterator[tuple[int, int]]:
    """The stretch of each page of a tree that lies between the pointers to its cells and the cells."""
    size = int.from_bytes(database[16:18], "big")
    for start in range(0, len(database), size):
        head = start + (100 if start == 0 else 0)
        if (kind := database[head]) in (2, 5, 10, 13):
            cells, content = (int.from_bytes(database[head + at : head + at + 2], "big") for at in (3, 5))
            yield head + (12 if kind in (2, 5) else 8) + 2 * cells, start + (content or 65536)


def refs_of(files: dict[str, bytes]) -> dict[str, str]:
    """The refs as git reads them: a loose one hides the packed one of its name."""
    lines = files.get("packed-refs", b"").decode("latin-1").splitlines()[1:]
    packed = dict(reversed(line.split(" ", 1)) for line in lines if " " in line)
    small = ("refs/", "HEAD", "config")
    return packed | {path: data.decode("latin-1").strip() for path, data in files.items() if path.startswith(small)}


def _about(damage: Damage) -> str:
    """Which part of the store alone is damaged, if it is one of the two large ones."""
    if all(path.startswith("objects/pack/") for path in damage.changed):
        return "packs"
    return "timeline" if all(path.startswith(DATABASE) for path in damage.changed) else ""


class Sweep:
    """One worker: its own copy of the store, and what came of its trials."""

    def __init__(self, specimen: Specimen, store: Path, tally: Tally) -> None:
        self.specimen, self.tally = specimen, tally
        self.bench = Bench(specimen, store)
        self._logical = logical(specimen.files[DATABASE])
        self._gaps = list(gaps(specimen.files[DATABASE]))
        self._idle: dict[int, bool] = {}

    def trial(self, damage: Damage, turn: int, *, deep: bool) -> None:
        """Damages, looks, judges, and puts right again."""
        if damage.kind == "flip" and DATABASE in damage.changed and turn % 512 and self._is_idle(damage):
            # SQLite itself sees exactly the same: every 512th of these is tried all the same.
            self.tally.did(1, timeline_bytes_that_SQLite_does_not_read=1)
            return
        self.bench.damage(damage.changed)
        changed_more = deep
        if turn % 64 and not deep and all(path in DISPOSABLE for path in damage.changed):
            # Neither check nor any record reads these: what they could spoil is what the workspace is taken for.
            self.tally.did(1, disposable=1)
            self._note(damage, self._same_status())
            self.bench.put_right(damage.changed)
            return
        try:
            seen = look(self.bench, turn, about="" if deep else _about(damage))
            wrong = seen.wrong + self._unfound(damage, seen)
            if deep:
                wrong += self._heal(damage, seen)
        finally:
            self.bench.put_right(damage.changed, thoroughly=changed_more)
        self.tally.did(1)
        self._note(damage, wrong)

    def _note(self, damage: Damage, wrong: list[str]) -> None:
        if wrong:
            self.tally.broke([f"{damage}: {line}" for line in wrong[:3]])

    def _effect(self, damage: Damage) -> str:
        """What a damage that `check` did not find comes to for SQLite itself."""
        data = damage.changed.get(DATABASE)
        if data is None:
            return ""
        now = logical(data)
        if now == self._logical:
            return "timeline_bytes_that_SQLite_does_not_read"
        if _only_the_count_moved(now, self._logical):
            return "only_the_next_number_is_another"
        # The number of the format, where it says that there is nothing yet: whoever opens the timeline writes it.
        return "mended_when_opened" if logical((self.bench.store / DATABASE).read_bytes()) == self._logical else ""

    def _is_idle(self, damage: Damage) -> bool:
        """Whether SQLite sees the same when all bits near this one are changed, where there is nothing: each is idle then."""
        at = int(damage.detail.split()[1])
        if at in self._idle:
            return self._idle[at]
        # Between the pointers to a page's cells and the cells there is nothing.
        low, high = next(((low, high) for low, high in self._gaps if low <= at < high), (at, at))
        low, high = max(low, at & -_STRETCH), min(high, (at & -_STRETCH) + _STRETCH)
        raw = bytearray(self.specimen.files[DATABASE])
        raw[low:high] = bytes(byte ^ 0xFF for byte in raw[low:high])
        idle = low < high and logical(bytes(raw)) == self._logical
        self._idle |= dict.fromkeys(range(low, max(high, at + 1)), idle)
        return idle

    def _unfound(self, damage: Damage, seen: Seen) -> list[str]:
        """Judges a damage that `check` did not find: there must be a reason, and it is counted."""
        if seen.found:
            self.tally.counts["found"] += 1
            return []
        if effect := self._effect(damage):
            self.tally.counts[effect] += 1
        elif all(path in DISPOSABLE for path in damage.changed):
            self.tally.counts["disposable"] += 1
            return self._same_status()
        elif self._same_refs(damage):
            self.tally.counts["refs_that_stand_twice"] += 1
        elif self._owed_refs(damage):
            self.tally.counts["refs_that_the_next_save_writes"] += 1
        else:
            return ["check is content"]
        return []

    def _same_refs(self, damage: Damage) -> bool:
        files, changed = dict(self.specimen.files), damage.changed
        for path, data in changed.items():
            files.pop(path)
            files |= {} if data is None else {path: data}
        return not any(path.startswith(("objects", DATABASE)) for path in changed) and refs_of(files) == refs_of(
            self.specimen.files
        )

    def _owed_refs(self, damage: Damage) -> bool:
        """Whether all that is lost are refs that the timeline owes, and whoever writes next writes them."""
        if not all(path == "packed-refs" or path.startswith("refs/") for path in damage.changed):
            return False
        wanted = refs_of(self.specimen.files)
        with self.bench.open() as ws:
            ws.save("next")
        now = refs_of(files_of(self.bench.store))
        self.bench.put_right({}, thoroughly=True)
        return all(now.get(name) == value for name, value in wanted.items())

    def _same_status(self) -> list[str]:
        """A damaged cache must not change what the workspace is taken for."""
        try:
            with self.bench.open() as ws:
                now = ws.status()
        except Exception as error:  # noqa: BLE001 - no error at all is allowed
            return [f"status: {type(error).__name__}: {error}"]
        return [f"status: {key} is {now[key]}" for key, value in self.specimen.status.items() if now[key] != value]

    def _heal(self, damage: Damage, before: Seen) -> list[str]:
        """Runs the doctor: nothing that was readable is lost, and what somebody still holds is back."""
        specimen, wrong = self.specimen, list[str]()
        self.tally.counts["doctored"] += 1
        try:
            with self.bench.open() as ws:
                report = ws.doctor()
        except mulligan.MulliganError as error:
            return [f"the doctor refuses: {error.message}"]
        except Exception as error:  # noqa: BLE001 - a bare error is what is looked for
            return [f"the doctor: {type(error).__name__}: {error}"]
        after = look(self.bench, 0)
        wrong += [f"after the doctor: {line}" for line in after.wrong]
        if lost := before.read - after.read:
            wrong.append(f"the doctor lost {[specimen.readings[number][:2] for number in lost]}")
        here = {entry[2] for entry in specimen.holds[specimen.position or ""].values()}
        packs = any(path.endswith(".pack") for path in damage.changed)
        everything = set(range(len(specimen.readings)))
        if not packs and after.read != everything:
            wrong.append(f"the doctor did not bring back {len(everything - after.read)} of {len(everything)}")
        if not packs and not report.ok:
            wrong.append(f"the doctor left {[problem.detail for problem in report.problems][:3]}")
        unhealed = [
            reading[:2] for number, reading in enumerate(specimen.readings)
            if number not in after.read and reading.checkpoint == specimen.position and reading.content in here
        ]  # fmt: skip
        if unhealed:
            wrong.append(f"the workspace holds what is still lost: {unhealed}")
        self.tally.counts["healed"] += int(report.ok and before.found)
        self.tally.counts["not_to_be_healed"] += int(not report.ok)
        specimen.put_back_workspace()
        return wrong


def _only_the_count_moved(now, then) -> bool:
    """Whether all that changed is SQLite's count of rows, and the next one still comes last and finds a number."""
    if isinstance(now, str) or (now[0], now[1], now[3]) != (then[0], then[1], then[3]):
        return False
    if any(now[2][table] != then[2][table] for table in then[2] if table != "sqlite_sequence"):
        return False
    counts, old = dict(now[2]["sqlite_sequence"]), dict(then[2]["sqlite_sequence"])
    newest = {key: max((row[0] for row in then[2][key.decode()]), default=0) for key in old}
    return counts.keys() == old.keys() and all(
        isinstance(counts[key], int) and newest[key] <= counts[key] < 1 << 62 for key in old
    )


def plan_of(specimen: Specimen, options) -> list[tuple[Damage | tuple[str, int], bool]]:
    """What to try, and with which the doctor runs: all of it, or a sample in fair shares."""
    chance, only = random.Random(options.seed), set(options.only or KINDS)
    bits = [flip for flip in flips(specimen.files) if "flip" in only and flip[0].startswith(options.below)]
    rest = [damage for damage in coarse(specimen.files, only) if damage.path.startswith(options.below)]
    if options.size:
        bits = chance.sample(bits, min(len(bits), options.size))
        rest = chance.sample(rest, min(len(rest), options.size // 4))
        return [(bit, n % 40 == 0) for n, bit in enumerate(bits)] + [
            (damage, n % 4 == 0) for n, damage in enumerate(rest)
        ]
    chance.shuffle(bits)
    # What says how all the rest is to be read is small, and each bit of it counts.
    often = {path: 997 if path.startswith(("objects/", DATABASE, *DISPOSABLE)) else 8 for path in specimen.files}
    return [(bit, n % often[bit[0]] == 0) for n, bit in enumerate(bits)] + [
        (damage, n % 3 == 0) for n, damage in enumerate(rest)
    ]


def work(specimen: Specimen, store: Path, plan, tally: Tally, *, alone: bool, until: float) -> None:
    """Tries some damages. The doctor runs only where nobody else works: he reads the workspace, which all share."""
    sweep = Sweep(specimen, store, tally)
    for turn, (what, deep) in enumerate(plan):
        damage = what if isinstance(what, Damage) else flipped(specimen.files, *what)
        sweep.trial(damage, turn, deep=deep and alone)
        if len(tally.broken) >= 1000 or time.monotonic() > until:
            return


def main() -> int:
    """Runs the sweep."""
    options = parser(__doc__, 2000)
    options.add_argument("--seconds", type=float, default=0, help="end after so long, with what was done by then")
    options.add_argument("--workers", type=int, default=1)
    options.add_argument("--only", choices=KINDS, action="append")
    options.add_argument("--below", default="", help="only files whose path in the store begins so")
    options.add_argument("--build", choices=BUILDS, default="", help="spoil the engine, to see that it is noticed")
    given = options.parse_args()
    if given.build:
        BUILDS[given.build]()
    with workplace(given.base) as place:
        specimen = Specimen(place)
        total = sum(map(len, specimen.files.values()))
        print(f"  a store of {len(specimen.files)} files, {total} bytes, {len(specimen.log)} checkpoints", flush=True)
        plan = plan_of(specimen, given)
        # Millions of tuples that stay: nobody need look through them again and again.
        gc.freeze()
        tally = Tally("corruption", len(plan), enough=given.enough)
        until = time.monotonic() + given.seconds if given.seconds else float("inf")
        children = [fork(specimen, place, plan, number, given, until) for number in range(1, given.workers)]
        work(specimen, place / "damaged", plan[:: given.workers], tally, alone=not children, until=until)
        for pid, pipe in children:
            with os.fdopen(pipe) as answer:
                said = json.load(answer)
            os.waitpid(pid, 0)
            tally.did(said["tried"], **said["counts"])
            tally.broke(said["broken"])
        if children:
            work(specimen, place / "doctored", [one for one in plan if one[1]], tally, alone=True, until=until)
        return tally.end()


def fork(specimen: Specimen, place: Path, plan, number: int, given, until: float) -> tuple[int, int]:
    """Starts a worker of its own; its tally comes through a pipe."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writing)
        return pid, reading
    tally = Tally(f"corruption, worker {number}", len(plan) // given.workers + 1, enough=given.enough)
    code = 1
    try:
        work(specimen, place / f"damaged-{number}", plan[number :: given.workers], tally, alone=False, until=until)
        with os.fdopen(writing, "w") as answer:
            json.dump({"tried": tally.tried, "counts": tally.counts, "broken": tally.broken}, answer)
        code = 0
    finally:
        os._exit(code)


if __name__ == "__main__":
    sys.exit(main())
