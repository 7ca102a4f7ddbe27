"""
The benchmark's one command: `python bench/run.py`, see bench/README.md.

Prints what checkpoints cost with mulligan, with shadow git and with the peers, measured in one run on copies of one
generated tree. Has no thresholds and asserts no timing; the exit code is 0 unless mulligan or shadow git did wrong work.
"""

from __future__ import annotations

import argparse
import gc
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
# Not this script's own directory: a module here is called `profile`, and the standard library has one too.
sys.path[0] = str(CHECKOUT)

from bench import machine, trees  # noqa: E402
from bench.contest import HISTORY_FILE, HISTORY_FILES, Arena, Rules  # noqa: E402
from bench.contestants import Contestant, NotAvailable  # noqa: E402
from bench.contestants.borg import Borg  # noqa: E402
from bench.contestants.jujutsu import Jujutsu  # noqa: E402
from bench.contestants.mulligan import (  # noqa: E402
    MulliganClient,
    MulliganCommand,
    MulliganLibrary,
    MulliganWatched,
    MulliganWatching,
)
from bench.contestants.praisonai import Praisonai  # noqa: E402
from bench.contestants.restic import Restic  # noqa: E402
from bench.contestants.shadow_git import (  # noqa: E402
    FastImport,
    ShadowGit,
    ShadowGitPlumbing,
    ShadowGitSafe,
    ShadowGitSeeded,
)
from bench.contestants.stepback import Stepback  # noqa: E402
from bench.plots import draw  # noqa: E402
from bench.report import DOES_NOT_APPLY, Report, Section, as_json, markdown, text  # noqa: E402

KINDS: tuple[type[Contestant], ...] = (
    MulliganLibrary,
    MulliganWatching,
    MulliganCommand,
    MulliganWatched,
    MulliganClient,
    ShadowGit,
    ShadowGitPlumbing,
    ShadowGitSafe,
    ShadowGitSeeded,
    FastImport,
    Stepback,
    Praisonai,
    Jujutsu,
    Restic,
    Borg,
)
TREE_ROWS = {
    "first": ("first capture", "ms"),
    "disk-first": ("store after the first capture", "KB"),
    "unchanged": ("nothing changed", "ms"),
    "one": ("one file changed", "ms"),
    "changed-10": ("10 files changed", "ms"),
    "changed-100": ("100 files changed", "ms"),
    "changed-1000": ("1,000 files changed", "ms"),
    "restore-1": ("restore of one file", "ms"),
    "restore-1000": ("restore of 1,000 files", "ms"),
    "first-git": ("first capture, workspace a clean git repository", "ms"),
}
HISTORY_ROWS = {
    "edit": ("save after a one-line edit", "ms"),
    "log": ("log", "ms"),
    "disk-edits": ("store after all edits", "KB"),
    "gc": ("gc", "ms"),
    "disk-gc": ("store after gc", "KB"),
}


def main(arguments: list[str] | None = None) -> int:
    """Runs the benchmark and returns its exit code."""
    options = _parser().parse_args(arguments)
    names = frozenset(options.only.split(",")) if options.only else frozenset()
    unknown = names - {kind.key for kind in KINDS} - TREE_ROWS.keys() - HISTORY_ROWS.keys()
    if unknown:
        print(f"unknown name after --only: {', '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    work = Path(tempfile.mkdtemp(prefix="mulligan-bench-", dir=options.work or machine.default_work_place()))
    here = Path.cwd()
    try:
        report = _measure(options, names, work)
    finally:
        os.chdir(here)
        if not options.keep:
            shutil.rmtree(work, ignore_errors=True)
    print(text(report), end="")
    for path, render in ((options.json, as_json), (options.markdown, markdown)):
        if path:
            Path(path).write_text(render(report), encoding="utf-8")
    if options.plots:
        draw(report, options.plots)
    return 1 if _wrong(report) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="bench/run.py", description="what checkpoints cost, compared in one run on one tree"
    )
    parser.add_argument("--files", default="10000", metavar="N,N", help="tree sizes (default: 10000)")
    parser.add_argument("--runs", type=int, default=5, metavar="N", help="rounds of each kind of work (default: 5)")
    parser.add_argument(
        "--first-runs", type=int, metavar="N", help="rounds of the first capture (default: runs, at most 3)"
    )
    parser.add_argument("--history", type=int, default=1000, metavar="N", help="checkpoints of the log (default: 1000)")
    parser.add_argument("--only", metavar="NAME,…", help="only these contestants and rows; names as in bench/README.md")
    parser.add_argument("--json", metavar="OUT", help="also write every sample as JSON")
    parser.add_argument("--plots", type=Path, metavar="DIR", help="also draw pictures there, as SVG")
    parser.add_argument("--markdown", metavar="OUT", help="also write the tables as Markdown")
    parser.add_argument(
        "--peers", type=Path, metavar="DIR", help="where the peers are or get installed (default: thrown away)"
    )
    parser.add_argument("--work", type=Path, metavar="DIR", help="where the throw-away trees go; must be a real disk")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="seed of the generated tree (default: 1)")
    parser.add_argument(
        "--settle", type=float, default=2.2, metavar="S", help="seconds that written files age (default: 2.2)"
    )
    parser.add_argument("--keep", action="store_true", help="leave the work directory")
    return parser


def _measure(options: argparse.Namespace, names: frozenset[str], work: Path) -> Report:
    source = machine.freeze_source(work, checkout=CHECKOUT)
    sys.path.insert(0, str(source))
    machine.isolate(work, source=source)
    os.chdir(work)
    tempfile.tempdir = None
    header = machine.facts(work, checkout=CHECKOUT)
    kinds, absent = _field(options, names, work, header)
    header["runs"] = f"{options.runs} rounds in turning order, seed {options.seed}, gc.auto=0 in shadow git, hot caches"
    report = Report(
        header, {kind.key: (kind.title, kind.about) for kind in KINDS if kind in kinds or kind.key in absent}
    )
    rows = (TREE_ROWS.keys() | HISTORY_ROWS.keys()) & names or TREE_ROWS.keys() | HISTORY_ROWS.keys()
    first_runs = options.first_runs or min(3, options.runs)
    rules = Rules(options.runs, first_runs, options.settle, options.history, frozenset(rows), options.keep, _say)
    for count in map(int, options.files.split(",")):
        report.sections.append(_on_a_tree(count, options.seed, kinds, rules, work))
    if rows & HISTORY_ROWS.keys():
        report.sections.append(_on_a_history(options.seed, kinds, rules, work))
    for section in report.sections:
        for row in section.rows:
            for key, reason in absent.items():
                section.cell(row, key).trouble = f"not available: {reason}"
    return report


def _field(
    options: argparse.Namespace, names: frozenset[str], work: Path, header: dict[str, str]
) -> tuple[list[type[Contestant]], dict[str, str]]:
    """Returns who can take part, and why the others cannot; adds the versions to the header."""
    wanted = [kind for kind in KINDS if kind.key in names] or list(KINDS)
    peers = (options.peers or work / "peers").resolve()
    kinds, absent = [], {}
    for kind in wanted:
        try:
            header[kind.title] = kind.prepare(peers)
            kinds.append(kind)
        except NotAvailable as reason:
            header[kind.title] = f"not available: {reason}"
            absent[kind.key] = str(reason)
    return kinds, absent


def _on_a_tree(count: int, seed: int, kinds: list[type[Contestant]], rules: Rules, work: Path) -> Section:
    tree = trees.plan(count, seed=seed)
    # What was changed is out of the restores: enough must be left for those.
    few = len(tree.texts()) // 8
    many = min(1000, len(tree.texts()) * 3 // 4 - few)
    section = Section(f"{count:,} files", f"{len(tree.directories):,} directories, one copy per contestant")
    section.rows = {row: shown for row, shown in TREE_ROWS.items() if row in rules.rows or row == "first"}
    if "restore-1000" in section.rows and many != 1000:
        section.rows["restore-1000"] = (f"restore of {many:,} files", "ms")
    arena = Arena(tree, section, rules, work / f"tree-{count}")
    _enter(arena, kinds)
    steps: dict[str, Callable[[str], None]] = {
        "first": arena.first,
        "disk-first": arena.disk,
        "unchanged": arena.unchanged,
        "one": arena.one_changed,
        "changed-10": lambda row: arena.many_changed(row, min(10, few)),
        "changed-100": lambda row: arena.many_changed(row, min(100, few)),
        "changed-1000": lambda row: arena.many_changed(row, min(1000, few)),
        "restore-1": lambda row: arena.restore(row, 1),
        "restore-1000": lambda row: arena.restore(row, many),
        "first-git": lambda row: _in_repositories(arena, row),
    }
    _go(arena, steps)
    return section


def _on_a_history(seed: int, kinds: list[type[Contestant]], rules: Rules, work: Path) -> Section:
    tree = trees.with_page(trees.plan(HISTORY_FILES, seed=seed), HISTORY_FILE)
    title = f"{rules.history:,} checkpoints: one-line edits of one 50 KB file"
    section = Section(
        title, f"in a tree of {HISTORY_FILES} files; none of these costs depends on the size of the tree but the save"
    )
    section.rows = {row: shown for row, shown in HISTORY_ROWS.items() if row in rules.rows}
    section.rows = {"first": TREE_ROWS["first"], "edit": HISTORY_ROWS["edit"]} | section.rows
    arena = Arena(tree, section, rules, work / "history")
    _enter(arena, [kind for kind in kinds if not kind.first_only])
    for kind in kinds:
        for row in section.rows if kind.first_only else ():
            section.cell(row, kind.key).trouble = DOES_NOT_APPLY
    steps: dict[str, Callable[[str], None]] = {
        "first": arena.first,
        "edit": arena.history,
        "log": arena.log,
        "disk-edits": arena.disk,
        "gc": arena.gc,
        "disk-gc": arena.disk,
    }
    _go(arena, steps)
    return section


def _enter(arena: Arena, kinds: list[type[Contestant]]) -> None:
    for kind in kinds:
        _say(f"{arena.section.title}: writing the copy of {kind.title}")
        arena.enter(kind)
    arena.settle()


def _go(arena: Arena, steps: dict[str, Callable[[str], None]]) -> None:
    try:
        for row, step in steps.items():
            if row in arena.section.rows:
                _say(f"{arena.section.title}: {row}")
                gc.collect()
                step(row)
    finally:
        arena.close()


def _in_repositories(arena: Arena, row: str) -> None:
    arena.make_repositories()
    arena.settle()
    arena.first(row)


def _say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


def _wrong(report: Report) -> bool:
    ours = {
        MulliganLibrary.key,
        MulliganWatching.key,
        MulliganCommand.key,
        MulliganWatched.key,
        MulliganClient.key,
        ShadowGit.key,
    }
    cells = [cell for section in report.sections for cell in section.cells if cell.contestant in ours]
    return any(
        cell.trouble and not cell.trouble.startswith(("not available", "not offered", DOES_NOT_APPLY)) for cell in cells
    )


if __name__ == "__main__":
    sys.exit(main())
