# ruff: noqa: A005  (run as a script only; the head of it keeps the standard library's module reachable)
"""
Where mulligan's time goes: `python bench/profile.py [--files 2000] [--only first,one,restore]`.

For each kind of work: the time without a profiler, then under cProfile the functions by own time, mulligan's own functions
by cumulative time, and a breakdown of everything that leaves Python (system calls by name, hashing, deflating, SQLite).
Threads that the work starts are profiled too and added up, so sums may exceed the wall clock. With `--strace`, the system
calls of the cold command line as the kernel counted them.

LIMIT: a profiler makes small Python calls look dearer than they are; the time without it is the one to believe.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parent.parent
# Not this script's own directory: cProfile imports the standard library's `profile` by the name of this file.
sys.path[0] = str(CHECKOUT)

import cProfile  # noqa: E402
import pstats  # noqa: E402

from bench import machine, trees  # noqa: E402
from bench.contestants import NotAvailable  # noqa: E402
from bench.contestants.mulligan import MulliganLibrary  # noqa: E402

WORK = ("first", "unchanged", "one", "restore-1", "restore-1000")
#: Groups of what is not Python, first match wins; the name is what cProfile shows for a built-in.
GROUPS = (
    ("sync to disk", r"fsync|fdatasync|syncfs|\bsync\b"),
    ("SQLite", r"sqlite3"),
    ("hashing", r"_hashlib|_sha1|sha1|sha256"),
    ("deflate, inflate", r"isal|zlib|igzip"),
    ("stat", r"posix\.(stat|lstat|fstat)|is_dir|is_file|is_symlink"),
    ("list directories", r"posix\.(scandir|listdir)|ScandirIterator"),
    ("open, close", r"posix\.(open|close)|io\.open"),
    ("read", r"posix\.(read|pread|readv|readlink)|mmap|'read' of|'readinto' of"),
    ("write", r"posix\.(write|pwrite|writev|sendfile|copy_file_range)|'write' of"),
    (
        "rename, unlink, mkdir, chmod",
        r"posix\.(rename|replace|unlink|mkdir|rmdir|link|symlink|chmod|fchmod|utime|ftruncate)",
    ),
    ("locks, waiting", r"fcntl|flock|lock|select|poll|sleep|wait"),
    ("struct, join, sort and other C", r"."),
)


def main(arguments: list[str] | None = None) -> int:
    """Profiles what was asked for and prints it."""
    parser = argparse.ArgumentParser(prog="bench/profile.py", description="where mulligan's time goes")
    parser.add_argument(
        "--files", type=int, default=2000, metavar="N", help="size of the generated tree (default: 2000)"
    )
    parser.add_argument("--runs", type=int, default=5, metavar="N", help="runs without the profiler (default: 5)")
    parser.add_argument("--top", type=int, default=20, metavar="N", help="how many functions to show (default: 20)")
    parser.add_argument("--only", default=",".join(WORK), metavar="NAME,...", help=f"of {', '.join(WORK)}")
    parser.add_argument("--work", type=Path, metavar="DIR", help="where the throw-away tree goes; must be a real disk")
    parser.add_argument(
        "--settle", type=float, default=2.2, metavar="S", help="seconds that written files age (default: 2.2)"
    )
    parser.add_argument(
        "--strace", action="store_true", help="also count the system calls of `python -m mulligan save`"
    )
    options = parser.parse_args(arguments)
    work = Path(tempfile.mkdtemp(prefix="mulligan-profile-", dir=options.work or machine.default_work_place()))
    try:
        source = machine.freeze_source(work, checkout=CHECKOUT)
        sys.path.insert(0, str(source))
        machine.isolate(work, source=source)
        MulliganLibrary.prepare(work)
        _profile_all(options, work)
    except NotAvailable as reason:
        print(reason, file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return 0


def _profile_all(options: argparse.Namespace, work: Path) -> None:
    for name, value in machine.facts(work, checkout=CHECKOUT).items():
        print(f"{name}: {value}")
    subject = Subject(options.files, work)
    time.sleep(options.settle)
    subject.contestant.first()
    for name in WORK:
        if name not in options.only.split(","):
            continue
        prepare, act = subject.work(name)
        plain = []
        for _ in range(1 if name == "first" else options.runs):
            prepare()
            plain.append(_clock(act))
        prepare()
        with _profiler() as collected:
            act()
        print(f"\n===== {name}, {options.files:,} files: {_spread(plain)} ms without a profiler")
        _show(collected(), options.top)
        time.sleep(options.settle)
    if options.strace:
        _strace(subject)


class Subject:
    """One generated workspace with mulligan open on it, and the kinds of work that can be done to it."""

    def __init__(self, files: int, work: Path) -> None:
        self.tree = trees.plan(files)
        self.workspace = work / "workspace"
        self.workspace.mkdir()
        trees.write(self.tree, self.workspace)
        self.store = work / "store"
        self.contestant = MulliganLibrary(self.workspace, self.store)
        self.base = ""
        self.edits = 0

    def work(self, name: str) -> tuple[Callable[[], None], Callable[[], object]]:
        """Returns the untimed preparation and the timed call of one kind of work."""
        if name == "first":
            return self._forget_store, self.contestant.first
        if name == "unchanged":
            return _nothing, self.contestant.save_unchanged
        if name == "one":
            return lambda: self.edit(1), self.contestant.save
        count = 1 if name == "restore-1" else min(1000, len(self.tree.texts()))
        self.edit(1)
        self.base = self.contestant.save()
        return lambda: self.edit(count), lambda: self.contestant.restore(self.base)

    def edit(self, count: int) -> None:
        """Edits that many files, spread over the tree."""
        self.edits += 1
        texts = self.tree.texts()
        chosen = texts[:: max(1, len(texts) // count)][:count]
        trees.overwrite(self.workspace, {f.path: trees.edited(self.tree.content(f), number=self.edits) for f in chosen})

    def _forget_store(self) -> None:
        self.contestant.close()
        shutil.rmtree(self.store, ignore_errors=True)
        os.sync()


@contextmanager
def _profiler() -> Iterator[Callable[[], pstats.Stats]]:
    profiles: list[cProfile.Profile] = []
    original = threading.Thread.run

    def run(thread: threading.Thread) -> None:
        own = cProfile.Profile()
        profiles.append(own)
        own.runcall(original, thread)

    threading.Thread.run = run  # type: ignore[method-assign, assignment]
    main_profile = cProfile.Profile()
    profiles.append(main_profile)
    main_profile.enable()
    try:
        yield lambda: pstats.Stats(*profiles)
    finally:
        main_profile.disable()
        threading.Thread.run = original  # type: ignore[method-assign]


def _show(stats: pstats.Stats, top: int) -> None:
    rows = _rows(stats)
    total = sum(own for _, _, _, own, _ in rows)
    print(f"  under the profiler {total * 1000:.1f} ms")
    print("  outside Python:           ms       calls")
    groups: dict[str, list[float]] = defaultdict(lambda: [0.0, 0])
    names: dict[str, list[tuple[float, int, str]]] = defaultdict(list)
    for place, name, calls, own, _ in rows:
        if place == "~":
            group = next(title for title, pattern in GROUPS if re.search(pattern, name))
            groups[group][0] += own
            groups[group][1] += calls
            names[group].append((own, calls, name))
    for group, (seconds, count) in sorted(groups.items(), key=lambda item: -item[1][0]):
        dearest = ", ".join(f"{_bare(name)} {calls:,}x" for _, calls, name in sorted(names[group], reverse=True)[:3])
        print(f"    {seconds * 1000:24.1f}  {int(count):10,}  {group}: {dearest}")
    print("  functions by own time:    ms       calls")
    for place, name, calls, own, _ in sorted(rows, key=lambda row: -row[3])[:top]:
        print(f"    {own * 1000:24.1f}  {calls:10,}  {name if place == '~' else f'{place} {name}'}")
    print("  mulligan, cumulative:     ms       calls")
    ours = [row for row in rows if row[0].startswith("mulligan/")]
    for place, name, calls, _, cumulative in sorted(ours, key=lambda row: -row[4])[:top]:
        print(f"    {cumulative * 1000:24.1f}  {calls:10,}  {place} {name}")


def _rows(stats: pstats.Stats) -> list[tuple[str, str, int, float, float]]:
    """Returns place, name, calls, own seconds and cumulative seconds of every function seen."""
    table: dict[tuple[str, int, str], tuple[int, int, float, float, Any]] = stats.stats  # type: ignore[attr-defined]
    rows = []
    for (file, line, name), (_, calls, own, cumulative, _) in table.items():
        parts = Path(file).parts
        where = "/".join(parts[parts.index("mulligan") :]) if "mulligan" in parts else "/".join(parts[-2:])
        rows.append((file if file == "~" else f"{where}:{line}", name, calls, own, cumulative))
    return rows


def _strace(subject: Subject) -> None:
    if shutil.which("strace") is None:
        print("\n===== strace: not available on this machine")
        return
    subject.edit(1)
    command = [sys.executable, "-m", "mulligan", "-C", str(subject.workspace), "--store", str(subject.contestant.store)]
    done = subprocess.run(
        ["strace", "-f", "-c", "-S", "calls", *command, "save"], check=False, capture_output=True, text=True
    )
    print("\n===== `python -m mulligan save` after one edit, as the kernel saw it")
    print("\n".join(done.stderr.splitlines()[:25]))


def _clock(act: Callable[[], object]) -> float:
    os.sync()
    start = time.perf_counter()
    act()
    return (time.perf_counter() - start) * 1000


def _spread(samples: list[float]) -> str:
    middle = sorted(samples)[len(samples) // 2]
    return f"{middle:.1f} [{min(samples):.1f} - {max(samples):.1f}]"


def _bare(name: str) -> str:
    return re.sub(
        r"^<built-in method (.*)>$|^<method '(.*)' of '(.*)' objects>$", lambda m: m[1] or f"{m[3]}.{m[2]}", name
    )


def _nothing() -> None:
    """The workspace is left as it is."""


if __name__ == "__main__":
    sys.exit(main())
