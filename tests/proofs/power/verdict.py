"""
What a power cut left, judged by a process of its own: with plain git, hashlib and `os`, before and after the next command.

Every acknowledged checkpoint is there and holds what it must; one that was not acknowledged is absent or whole; a deleted
one is gone; every file of the workspace is its old or its new self; git stands where it stood or where it was moved
to; and the next command works without help and ends what was cut short. A finding begins with what kind it is:
`lost`, `corrupt`, or `wrong`.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from workload import SECRET, Marked, Places, marked, staged

import mulligan
from checker import judge, view_of
from scenes import state_of
from tools import git

_GOES = frozenset({"restore", "restore_git", "undo", "redo"})


class Story:
    """What was said before the cut, in order."""

    def __init__(self, said: list[dict[str, Any]]) -> None:
        self.saved: dict[str, Marked] = {}
        self.second: dict[str, Marked] = {}
        self.deleted: set[str] = set()
        self.maybe_deleted: set[str] = set()
        self.forgotten = self.forgetting = False
        self.before_forget: set[str] = set()
        self.seen: list[Marked] = []
        self.pending: list[dict[str, Any]] = []
        self.last: dict[str, Any] = {}
        self.acknowledged = 0
        self.failed = [line for line in said if "failed" in line]
        for line in said:
            self._hear(line)

    def _hear(self, line: dict[str, Any]) -> None:
        self.seen += [state for state in (line.get("old"), line.get("state")) if state is not None]
        self.maybe_deleted |= {line["deleting"]} if "deleting" in line else set()
        self.forgetting |= line.get("doing") == "forget"
        if "doing" in line:
            self.pending.append(line)
        if "done" not in line:
            return
        self.acknowledged += line["done"] != "prepared"
        self.saved |= line.get("saved", {}) | line.get("safety", {})
        self.second |= line.get("second", {})
        self.deleted |= {line["deleted"]} if "deleted" in line else set()
        if "forgot" in line:
            self.forgotten, self.before_forget = True, set(self.saved)
        self.pending, self.last = [], line

    @property
    def loose(self) -> set[str]:
        """The paths that were edited and never made durable, by anybody."""
        line = self.pending[-1] if self.pending and not self.pending[-1]["after"] else self.last
        line = self.pending[0] if self.pending else line
        return set(line.get("loose", ()))


def cleared(state: Marked, without: set[str]) -> Marked:
    """A state without some paths."""
    return {path: node for path, node in state.items() if path not in without}


class Verdict:
    """One look at a disk after the cut, and the next command on it."""

    def __init__(self, places: Places, rng: random.Random) -> None:
        self.places, self.rng = places, rng
        said = places.said()
        self.story = Story(said)
        self.indexes = {line["head"]: line["staged"] for line in said if "staged" in line}
        self.moved = any(line.get("doing") == "restore_git" for line in said)
        self.counts = {"acknowledged": self.story.acknowledged, "cut inside": int(bool(self.story.pending))}
        # What the next command saves is what the disk still had of edits that nobody synced.
        self.own: set[str] = set()
        self.free = self.story.loose | ({SECRET} if self.story.forgetting else set())

    def run(self) -> list[str]:
        """Everything that is not as it must be."""
        try:
            found = list(self._at_once())
            how = self.rng.choice(("save", "save", "gc", "doctor"))
            found += [f"{line} [next: {how}]" for line in self._next(how)]
        except mulligan.MulliganError as error:
            return [f"corrupt: {type(error).__name__}: {error}"]
        except Exception as error:  # noqa: BLE001 - whatever it is, nothing may end so after a cut
            return [f"corrupt: {type(error).__name__}: {error}"]
        return found

    # -- at that instant ------------------------------------------------------------------------

    def _at_once(self) -> Iterator[str]:
        places, story = self.places, self.story
        yield from self._store(places.store, story.saved, at_rest=False)
        yield from self._store(places.second, story.second, at_rest=False)
        yield from self._between(marked(state_of(places.project)))

    def _store(self, store: Path, wanted: dict[str, Marked], *, at_rest: bool, fsck: bool = False) -> Iterator[str]:
        if store.exists():
            view = view_of(store)
            found = judge(
                store, self.places.project, with_fsck=fsck, at_rest=at_rest, returned=not self.story.pending, view=view
            )
            yield from (f"corrupt: {store.name}: {line}" for line in found)
            held = {name: marked(files) for name, files in view.checkpoints().items()}
        else:
            held = {}
        yield from self._checkpoints(held, wanted)

    def _checkpoints(self, held: dict[str, Marked], wanted: dict[str, Marked]) -> Iterator[str]:
        """Acknowledged ones are there and hold what they must; others are whole; deleted ones are gone."""
        story = self.story
        free = {SECRET} if story.forgetting else set()
        for name, state in wanted.items():
            if name in story.deleted:
                if name in held:
                    yield f"wrong: {name} was deleted and is there"
            elif name not in held:
                if name not in story.maybe_deleted:
                    yield f"lost: {name} was acknowledged and is gone"
            elif cleared(held[name], free) != cleared(state, free):
                yield f"corrupt: {name} holds something else: {differing(held[name], state)}"
            elif story.forgotten and name in story.before_forget and SECRET in held[name]:
                yield f"wrong: {name} holds what was forgotten"
        known = [cleared(state, free) for state in story.seen]
        for name in held.keys() - wanted.keys() - self.own:
            # A restore may save what it left; a cut one is only known by its two ends.
            if cleared(held[name], free) not in known and not self._is_between(held[name]):
                yield f"corrupt: {name} was not acknowledged and is not whole"

    def _is_between(self, state: Marked) -> bool:
        return not self.story.pending or any(line["doing"] in _GOES for line in self.story.pending)

    def _between(self, now: Marked) -> Iterator[str]:
        """Each path is in its old or its new state."""
        story = self.story
        if not story.pending:
            if lost := differing(cleared(now, self.free), cleared(story.last["state"], self.free)):
                yield f"lost: after {story.last['done']}, acknowledged: {self._told(now, lost)}"
            return
        sides = self._sides()
        for path in sorted({path for side in sides for path in side} | now.keys()):
            if path in self.free or now.get(path, [""])[0] == "dir" or any(now.get(path) == s.get(path) for s in sides):
                continue
            if path not in now and any(s.get(path, ["dir"])[0] == "dir" for s in sides):
                continue
            yield f"corrupt: in {story.pending[0]['doing']}: {self._told(now, [path])}"

    def _sides(self) -> list[Marked]:
        """The states between which the workspace may be."""
        story = self.story
        sides = [story.pending[0]["old"], *(line["new"] for line in story.pending if line["new"] is not None)]
        if any(line["doing"] in {"undo", "redo"} for line in story.pending):
            sides += [*story.saved.values(), *story.seen]
        return sides

    def _told(self, now: Marked, paths: list[str]) -> str:
        empty = [path for path in paths if (self.places.project / path).is_file()
                 and not (self.places.project / path).stat().st_size]  # fmt: skip
        return f"{[(path, now.get(path)) for path in paths]}" + (f", of zero bytes: {empty}" if empty else "")

    # -- the next command -----------------------------------------------------------------------

    def _next(self, how: str) -> Iterator[str]:
        places = self.places
        with places.open() as ws:
            ws.log()
            ws.status()
            if how == "save":
                self.own.add(ws.save("after").id)
            elif how == "gc":
                ws.prune()
            elif not (report := ws.doctor()).ok:
                yield f"corrupt: doctor: {report.problems}"
            self.counts["recovered"] = int(bool(ws.last_recovery))
            now = marked(state_of(places.project))
            yield from self._whole(now)
            yield from self._git(now)
        yield from self._store(places.store, self.story.saved, at_rest=True, fsck=not self.rng.randrange(4))
        yield from self._second()
        yield from self._goes_on()

    def _whole(self, now: Marked) -> Iterator[str]:
        """The workspace is in one of its states, altogether."""
        if not self.story.pending:
            yield from self._between(now)
            return
        if not any(cleared(now, self.free) == cleared(side, self.free) for side in self._sides()):
            sides = self._sides()
            nearest = min(sides, key=lambda side: len(differing(cleared(now, self.free), cleared(side, self.free))))
            lines = differing(cleared(now, self.free), cleared(nearest, self.free))
            yield f"corrupt: neither old nor new after {self.story.pending[0]['doing']}: {self._told(now, lines)}"

    def _git(self, now: Marked) -> Iterator[str]:
        """Git stands where it stood, or where it was moved to, with its index, as the files do."""
        story, project = self.story, self.places.project
        head = self.places.head()
        if not story.pending and head != story.last["head"]:
            yield f"lost: git was acknowledged on {story.last['head']} and is on {head}"
        moves = [line for line in story.pending if line["doing"] == "restore_git"]
        if moves and not self.free and moves[0]["old"] != moves[0]["new"]:
            files_new = now == moves[0]["new"]
            if (head == "ref: refs/heads/main") < files_new:
                yield f"wrong: files are new and git is on {head}"
        if staged(project) != self.indexes.get(head):
            yield f"corrupt: git is on {head} and something else is staged"
        if self.moved and (
            wrong := git("fsck", "--strict", "--no-dangling", "--no-progress", cwd=project, check=False)
        ):
            yield f"corrupt: the user's repository: {wrong!r}"
        left = [
            path.name for path in (project / ".git").rglob("*") if path.suffix == ".lock" or "mulligan-" in path.name
        ]
        if left:
            yield f"wrong: left in .git: {left}"

    def _second(self) -> Iterator[str]:
        """The store that was made in the trial is one, or comes to be one with the next save."""
        places = self.places
        if places.second.exists():
            with places.open(places.second) as ws:
                self.own.add(ws.save("after").id)
            yield from self._store(places.second, self.story.second, at_rest=True)

    def _goes_on(self) -> Iterator[str]:
        """Any checkpoint can be restored exactly, and that undone; the store finds nothing wrong with itself."""
        places = self.places
        here = [name for name in self.story.saved if name not in self.story.deleted | self.story.maybe_deleted]
        with places.open() as ws:
            before = marked(state_of(places.project))
            name = self.rng.choice(here)
            ws.restore(name)
            now = marked(state_of(places.project))
            if odd := set(differing(now, self.story.saved[name])) - {SECRET, "d"}:
                yield f"wrong: a restore of {name} is not exact: {sorted(odd)}"
            elif now != before:
                with suppress(mulligan.NothingToUndo):
                    ws.undo()
                if odd := differing(marked(state_of(places.project)), before):
                    yield f"wrong: an undo is not exact: {odd}"
            if not (report := ws.check()).ok:
                yield f"corrupt: check: {report.problems}"


def differing(one: Marked, other: Marked) -> list[str]:
    """The paths in which two states differ."""
    return sorted(path for path in one.keys() | other.keys() if one.get(path) != other.get(path))
