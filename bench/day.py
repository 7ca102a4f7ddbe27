"""
A day of an agent, played: `python bench/day.py`, see bench/README.md.

A project of some thousand files, some hundred turns, a few tool calls in each: edits small and large, new files, deleted
and renamed ones, lock files, builds that write a directory and remove it. mulligan watches, saves a step before and after
each call with everything at its defaults, and tidies up between turns, as its watcher does; shadow git commits after each
call on a copy. Reports how the stores grow, the slowest save and when packs were joined. The same seed plays the same day.
Has no thresholds; the exit code is 1 only where a checkpoint is not what the workspace was.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath
from statistics import median
from typing import Any

CHECKOUT = Path(__file__).resolve().parent.parent
# Not this script's own directory: a module here is called `profile`, and the standard library has one too.
sys.path[0] = str(CHECKOUT)

from bench import machine, trees  # noqa: E402
from bench.contestants import git_listing  # noqa: E402
from bench.contestants.shadow_git import ShadowGit  # noqa: E402

LOCK_FILES = ("package-lock.json", "uv.lock")
GENERATED = "generated"
Writes = dict[str, bytes | None]  # None: the file is deleted


class Agent:
    """Knows the project and makes up what each tool call does to it."""

    def __init__(self, tree: trees.Tree, seed: int) -> None:
        self._tree, self._chance = tree, random.Random(seed)
        self._contents: dict[str, bytes] = {}
        self._paths = [file.path for file in tree.texts()]
        self._original = {file.path: file for file in tree.texts()}
        self._built: list[str] = []
        self._number = 0

    def call(self) -> tuple[str, Writes]:
        """Returns what one call is and what it writes."""
        self._number += 1
        if self._built and self._chance.random() < 0.5:
            gone, self._built = self._built, []
            return "clean", dict.fromkeys(gone)
        kinds = {"look": 15, "edit": 45, "edit many": 12, "new": 12, "delete": 4, "rename": 4, "lock": 3, "build": 5}
        kind = self._chance.choices([*kinds], [*kinds.values()])[0]
        return kind, self._made(kind)

    def _made(self, kind: str) -> Writes:
        chance = self._chance
        if kind == "edit":
            return self._edited(1)
        if kind == "edit many":
            return self._edited(chance.randint(3, 40))
        if kind == "new":
            return dict(self._new(self._text()) for _ in range(chance.randint(1, 4)))
        if kind == "delete":
            return {self._paths.pop(chance.randrange(len(self._paths))): None}
        if kind == "rename":
            old = self._paths.pop(chance.randrange(len(self._paths)))
            return dict([(old, None), self._new(self._content(old))])
        if kind == "lock":
            rows = [b'  "package-%d": "%d.%d.%d",' % (n, n % 7, n % 11, chance.randrange(40)) for n in range(12_000)]
            return {chance.choice(LOCK_FILES): b"{\n" + b"\n".join(rows) + b"\n}\n"}
        if kind == "build":
            self._built = [f"{GENERATED}/part{n // 20}/chunk{n}.js" for n in range(chance.randint(50, 200))]
            return {path: chance.randbytes(chance.randint(200, 20_000)) for path in self._built}
        return {}

    def _edited(self, count: int) -> Writes:
        found = {}
        for path in self._chance.sample(self._paths, count):
            lines = self._content(path).split(b"\n")
            at, size = self._chance.randrange(len(lines)), self._chance.choice((1, 1, 1, 2, 5, 30))
            lines[at : at + self._chance.randint(0, size)] = self._text().split(b"\n")[:size]
            found[path] = self._contents[path] = b"\n".join(lines)
        return dict(found)

    def _content(self, path: str) -> bytes:
        return self._contents.get(path) or self._tree.content(self._original[path])

    def _new(self, content: bytes) -> tuple[str, bytes]:
        name = f"added_{self._number}_{self._chance.randrange(1 << 30)}.py"
        path = str(PurePosixPath(self._chance.choice(self._tree.directories), name))
        self._paths.append(path)
        self._contents[path] = content
        return path, content

    def _text(self) -> bytes:
        words = self._chance.choices(trees.WORDS, k=self._chance.randint(40, 900))
        return b"".join(word.encode() + (b"\n" if at % 8 == 7 else b" ") for at, word in enumerate(words))


def apply(writes: Writes, root: Path) -> None:
    """Does to a copy of the project what a call does."""
    for path, content in writes.items():
        target = root / path
        if content is not None:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
        else:
            target.unlink(missing_ok=True)
    if (root / GENERATED).is_dir() and writes and None in writes.values() and next(iter(writes)).startswith(GENERATED):
        shutil.rmtree(root / GENERATED)


class Joins:
    """Counts when packs were joined, and for whom it was waited."""

    def __init__(self, joining: Any) -> None:
        self.between = self.inside = 0
        self.saving = False
        self._join: Callable[..., bool] = joining.merge_small
        joining.merge_small = self._counted

    def _counted(self, *args: Any, **options: Any) -> bool:
        done = self._join(*args, **options)
        if done and self.saving:
            self.inside += 1
        elif done:
            self.between += 1
        return done


class Day:
    """One day, played on two copies of the project."""

    def __init__(self, options: argparse.Namespace, work: Path) -> None:
        import mulligan
        from mulligan.store import gc

        self.options, self.wrong = options, ""
        tree = trees.plan(options.files, seed=options.seed)
        self.mine, self.theirs = work / "mulligan", work / "shadow-git"
        for place in (self.mine, self.theirs) if not options.alone else (self.mine,):
            (place / "workspace").mkdir(parents=True)
            trees.write(tree, place / "workspace")
        (self.theirs / "store").mkdir(parents=True, exist_ok=True)
        os.sync()
        self.agent, self.joins, self.calls = Agent(tree, options.seed), Joins(gc), Counter[str]()
        self.ws: Any = mulligan.open(self.mine / "workspace", store=self.mine / "store")
        self.git = None if options.alone else ShadowGit(self.theirs / "workspace", self.theirs / "store")
        self.saves: list[float] = []
        self.busy: list[float] = []
        self.commits: list[float] = []
        self.portions: list[float] = []
        self.rows: list[dict[str, Any]] = []

    def play(self) -> None:
        """Plays all turns."""
        self._save("the project as it was")
        if self.git is not None:
            self._commit(self.git.first)
        with self.ws.watch():
            for turn in range(1, self.options.turns + 1):
                self._save(f"turn {turn}")
                for _ in range(self.agent._chance.randint(2, 6)):  # noqa: SLF001 - one source of chance, one day
                    self._call()
                self._tidy()
                if not turn % max(1, self.options.turns // 10):
                    self._note(turn)
            self._check()
            self._note("after gc")

    def _call(self) -> None:
        kind, writes = self.agent.call()
        self.calls[kind] += 1
        self._save(f"before {kind}")
        apply(writes, self.mine / "workspace")
        self._save(f"after {kind}")
        if self.git is not None and writes:
            apply(writes, self.theirs / "workspace")
            self._commit(self.git.save_unchanged)

    def _tidy(self) -> None:
        """What the watcher does between two turns: one portion after the other, until there is nothing more to do."""
        more = True
        while more:
            start = time.perf_counter()
            more = self.ws.tidy()
            self.portions.append((time.perf_counter() - start) * 1000)

    def _save(self, name: str) -> None:
        self.joins.saving = True
        start, busy = time.perf_counter(), time.process_time()
        self.ws.save(name, kind="step", if_changed=True)
        self.saves.append((time.perf_counter() - start) * 1000)
        self.busy.append((time.process_time() - busy) * 1000)
        self.joins.saving = False

    def _commit(self, commit: Callable[[], object]) -> None:
        start = time.perf_counter()
        commit()
        self.commits.append((time.perf_counter() - start) * 1000)

    def _note(self, turn: int | str) -> None:
        if turn == "after gc":
            self.ws.prune()
            if self.git is not None:
                self.git.gc()
        packs = len(list((self.mine / "store" / "objects" / "pack").glob("*.pack")))
        row = {
            "turn": turn, "saves": len(self.saves), "checkpoints": self.ws.stats()["checkpoints"], "packs": packs,
            "mulligan_mb": _megabytes(self.mine / "store"), "git_mb": _megabytes(self.theirs / "store"),
            "slowest_ms": max(self.saves[1:]), "joined": self.joins.between, "joined_in_a_save": self.joins.inside,
        }  # fmt: skip
        self.rows.append(row)
        cells = (f"{value:>10,.1f}" if isinstance(value, float) else f"{value:>9}" for value in row.values())
        print("  " + " ".join(cells), flush=True)

    def _check(self) -> None:
        """Compares the newest checkpoint, and the oldest that is still there, with what a restore makes of them."""
        there = trees.found(self.mine / "workspace")
        if self.git is not None and trees.found(self.theirs / "workspace") != there:
            self.wrong = "the two copies are not the same"
        newest, oldest = self.ws.log(limit=1)[0], self.ws.log()[-1]
        if self._listed(newest) != there:
            self.wrong = "the newest checkpoint is not the workspace"
        self.ws.restore(oldest)
        if trees.found(self.mine / "workspace") != self._listed(oldest):
            self.wrong = "the oldest checkpoint was not put back as it was"
        self.ws.undo()
        if trees.found(self.mine / "workspace") != there:
            self.wrong = "the undo of a restore did not bring the evening back"

    def _listed(self, checkpoint: Any) -> dict[str, str]:
        return git_listing(self.mine / "store", f"{checkpoint.commit}:files")


def _megabytes(directory: Path) -> float:
    size = sum(path.lstat().st_blocks * 512 for path in directory.rglob("*"))
    return size / 1e6


HEAD = ("turn", "saves", "kept", "packs", "MB", "MB of git", "slowest ms", "joined", "by saves")


def main(arguments: list[str] | None = None) -> int:
    """Plays the day and returns the exit code."""
    options = _parser().parse_args(arguments)
    work = Path(tempfile.mkdtemp(prefix="mulligan-day-", dir=options.work or machine.default_work_place()))
    here = Path.cwd()
    try:
        source = machine.freeze_source(work, checkout=CHECKOUT)
        sys.path.insert(0, str(source))
        machine.isolate(work, source=source)
        os.chdir(work)
        tempfile.tempdir = None
        facts: Mapping[str, str] = machine.facts(work, checkout=CHECKOUT)
        print("\n".join(f"{name + ':':<16} {value}" for name, value in facts.items()) + "\n")
        print("  " + " ".join(f"{word:>{10 if word.startswith(('MB', 'slow')) else 9}}" for word in HEAD), flush=True)
        day = Day(options, work)
        day.play()
        day.ws.close()
        told = {
            "save": day.saves[1:],
            "save, processor time": day.busy[1:],
            "commit": day.commits[1:],
            "portion of tidying up": day.portions,
        }
        for what, times in told.items():
            if times:
                times.sort()
                late = times[int(len(times) * 0.99)]
                print(
                    f"\n{what}: {len(times):,}, {median(times):.1f} ms (median), {late:.1f} (of 100 the slowest), {times[-1]:.1f} (the slowest of all)"
                )
        print("\ncalls: " + ", ".join(f"{count} {kind}" for kind, count in day.calls.most_common()))
        print(f"WRONG: {day.wrong}" if day.wrong else "\nevery checkpoint that was looked at is what the workspace was")
        if options.json:
            out = {"machine": dict(facts), "rows": day.rows, "milliseconds": told, "calls": day.calls}
            Path(here, options.json).write_text(json.dumps(out, indent=1))
    finally:
        os.chdir(here)
        if not options.keep:
            shutil.rmtree(work, ignore_errors=True)
    return 1 if day.wrong else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench/day.py", description="a day of an agent, played")
    add: Any = parser.add_argument
    add("--files", type=int, default=10_000, metavar="N", help="files of the project (default: 10000)")
    add("--turns", type=int, default=300, metavar="N", help="turns of the day (default: 300)")
    add("--seed", type=int, default=1, metavar="N", help="which day it is (default: 1)")
    add("--alone", action="store_true", help="without shadow git, which takes most of the time")
    add("--json", metavar="OUT", help="also write everything as JSON")
    add("--work", type=Path, metavar="DIR", help="where the throw-away trees go; must be a real disk")
    add("--keep", action="store_true", help="leave the work directory")
    return parser


if __name__ == "__main__":
    sys.exit(main())
