"""
Every sweep there is, in one list: what was tried, how often, and what broke.

    python tests/proof.py [NAME ...] [--size small|large] [--times F] [--seed N] [--json FILE] [--markdown FILE] [-- OPTION ...]

Without names all of them run, one after the other, with what they say as progress; the summary comes last. `small` takes
seconds each; `large` is what a release is measured by, and takes hours. `--times 0.1` makes either shorter, `--times 10`
longer. What follows `--` is given to the sweeps: `proof.py kills -- --operation restore --build in-place` must break.
Exit codes: 0 nothing broke, 1 something did, 77 nothing broke, and a sweep could not run here.

To add a sweep: a script on the frame of `tally.py`, and one line in `PROOFS`.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent / "support"))

from tally import CANNOT, HANDED_IN
from tools import plain_environment

TESTS = Path(__file__).parent
FOLDER = TESTS / "proofs"


class Proof(NamedTuple):
    """
    One sweep: a script that takes `--size N` and `--seed N`, ends with 0, 1 or 77, and hands in its tallies.

    `tally.py` is the frame that does all of that. A size of 0 means everything there is; None, that there is no such size.
    `tested` is the file of tests that runs the small size; without one, `tests/proofs/test_proof.py` does.
    """

    name: str
    promise: str
    script: str
    small: int | None
    large: int
    options: tuple[str, ...] = ()
    tested: str = ""

    def rounds(self, size: str, times: float) -> int | None:
        """What to give as `--size`; None where there is no such size."""
        chosen = self.small if size == "small" else self.large
        return chosen and max(1, round(chosen * times))


_KILLS, _RANDOM = "crash/kill_sweep.py", "crash/random_kills.py"
_KILL_TESTS, _SYMLINK_TESTS = "crash/test_kill_sweep.py", "race/test_symlink_race.py"
_SYMLINKS, _BYSTANDERS, _POWER = "race/symlink_race.py", "bystanders/bystander_walk.py", "power/power_cut.py"
_POWER_TESTS, _CROWD_TESTS = "power/test_power_cut.py", "race/test_crowd.py"
_WRITERS, _CROWD, _GC = "race/writers.py", "race/crowd.py", "race/gc_race.py"
# fmt: off
#: One line each: name, promise, script, small, large, options, tests.
PROOFS = (
    Proof("kills", "SIGKILL at every changing call of every operation: the next command works, nothing is lost",
          _KILLS, 2, 0, (), _KILL_TESTS),
    Proof("kills-deep", "and the command after a kill is killed too, and the one after that",
          _KILLS, 1, 150, ("--depth", "3"), _KILL_TESTS),
    Proof("kills-1000", "SIGKILL in a restore of 1,000 files: each is old or new, and it is ended or taken back",
          _KILLS, 2, 600, ("--operation", "restore-1000"), _KILL_TESTS),
    Proof("kills-strace", "SIGKILL of the real command line, placed by strace",
          _KILLS, 1, 100, ("--how", "strace"), _KILL_TESTS),
    Proof("kills-random", "SIGKILL at random instants, several processes at work in one workspace",
          _RANDOM, 60, 10_000, (), "crash/test_random_kills.py"),
    Proof("kills-history", "the same with a history of 10,000 checkpoints: how long until all is usable again",
          _RANDOM, None, 1000, ("--history", "10000")),
    Proof("fork-kills", "SIGKILL at every changing call of making and removing a fork: a whole fork or none, and nothing is left",
          "forks/fork_kills.py", 20, 0),
    Proof("bisect", "a planted step is found in random histories, with at most ⌈log₂ n⌉ runs besides the ends",
          "forks/bisect_histories.py", 10, 200),
    Proof("faults", "every call of every operation fails with every errno",
          "crash/fault_sweep.py", 4, 0, (), "crash/test_fault_sweep.py"),
    Proof("hostile-stores", "bombs, circles and lies, and stores with bytes changed at random: an error of ours, 256 MB, bounded work",
          "hostile/hostile_stores.py", 25, 20_000, (), "hostile/test_hostile_stores.py"),
    Proof("live-copies", "a store is copied file by file while it is used: each copy is whole, or recognised and mended",
          "hostile/live_copy.py", 5, 500, (), "hostile/test_hostile_stores.py"),
    Proof("power-acknowledged", "the power is cut right after an acknowledgement (ext4): nothing is lost, nothing is corrupt",
          _POWER, 8, 2500, ("--mode", "acknowledged"), _POWER_TESTS),
    Proof("power-inside", "at a random instant inside an operation (ext4)",
          _POWER, 12, 1800, ("--mode", "inside"), _POWER_TESTS),
    Proof("power-nested", "and inside the command that ends what was cut short (ext4)",
          _POWER, 8, 500, ("--mode", "nested"), _POWER_TESTS),
    Proof("power-later", "1 to 40 seconds after the acknowledgement (ext4)",
          _POWER, None, 500, ("--mode", "later"), _POWER_TESTS),
    Proof("power-acknowledged-xfs", "right after an acknowledgement (xfs)",
          _POWER, 4, 500, ("--mode", "acknowledged", "--disk", "xfs"), _POWER_TESTS),
    Proof("power-inside-xfs", "at a random instant inside an operation (xfs)",
          _POWER, 6, 400, ("--mode", "inside", "--disk", "xfs"), _POWER_TESTS),
    Proof("power-nested-xfs", "and inside the command that ends what was cut short (xfs)",
          _POWER, 4, 100, ("--mode", "nested", "--disk", "xfs"), _POWER_TESTS),
    Proof("power-later-xfs", "1 to 40 seconds after the acknowledgement (xfs)",
          _POWER, None, 100, ("--mode", "later", "--disk", "xfs"), _POWER_TESTS),
    Proof("corruption", "every bit of a small store is flipped, its files cut, zeroed, removed, swapped: found, or without effect",
          "hostile/corruption.py", 400, 0, (), "hostile/test_corruption.py"),
    Proof("full-disks", "a real disk runs full, or the process out of files, file size or memory, in every operation",
          "power/full_disk.py", 48, 1500, (), "power/test_full_disk.py"),
    Proof("symlinks", "names are swapped with links to the outside while single paths are restored",
          _SYMLINKS, 5000, 1_000_000, ("--mode", "executor"), _SYMLINK_TESTS),
    Proof("symlinks-capture", "and while a workspace is captured",
          _SYMLINKS, 8000, 300_000, ("--mode", "capture"), _SYMLINK_TESTS),
    Proof("symlinks-engine", "and while whole checkpoints are saved and restored",
          _SYMLINKS, 400, 20_000, ("--mode", "engine"), _SYMLINK_TESTS),
    Proof("writers", "thousands of files a second are written during saves: every stored file is a state that existed",
          _WRITERS, 4000, 600_000, ("--mode", "storm"), "race/test_writers.py"),
    Proof("writers-hot", "long files are captured while they are written: none is torn",
          _WRITERS, 60, 5000, ("--mode", "hot"), "race/test_writers.py"),
    Proof("crowd-2", "2 processes save one workspace: nothing acknowledged is lost, and history is one line",
          _CROWD, 60, 3000, ("--workers", "2"), _CROWD_TESTS),
    Proof("crowd-8", "8 processes do", _CROWD, 80, 4000, ("--workers", "8"), _CROWD_TESTS),
    Proof("crowd-32", "32 processes do", _CROWD, 64, 3000, ("--workers", "32"), _CROWD_TESTS),
    Proof("gc", "disk is freed while others save, restore, read and check: nothing that is needed goes",
          _GC, 10, 5000, (), _CROWD_TESTS),
    Proof("gc-kills", "and while they are killed", _GC, 10, 500, ("--kills",), _CROWD_TESTS),
    Proof("sharers", "forked children, containers and ignored names: no lock outlives its save, what a guard holds stays, the budget holds",
          "race/sharers.py", 6, 2000, (), "race/test_sharers.py"),
    Proof("watcher", "a watched workspace looks the same as one that is walked from end to end, whatever was done to it",
          "watch/differential.py", 160, 100_000, (), "watch/test_differential.py"),
    Proof("displaced", "files are written in place, their times put back, right before a restore moves them away: no byte is lost",
          "race/displaced.py", 25, 20_000),
    Proof("filesystems", "the models of the engine on btrfs, xfs, tmpfs and overlayfs; files made during a save, packs of other processes",
          "filesystems/models.py", 24, 4000, ("--disk", "btrfs", "--disk", "xfs", "--disk", "tmpfs", "--disk", "overlay"), "filesystems/test_models.py"),
    Proof("whole-seconds", "the same, and edits within a second, where times are whole seconds (ext4 with inodes of 128 bytes)",
          "filesystems/models.py", 6, 1000, ("--disk", "seconds"), "filesystems/test_models.py"),
    Proof("adoption", "the first checkpoint of a git repository is the same with what git knows and without, damaged packs or not",
          "adoption/adoption.py", 20, 5000, (), "adoption/test_adopting.py"),
    Proof("power-adopting", "the power is cut inside a first checkpoint that begins with what git knows (ext4)",
          _POWER, 6, 1000, ("--mode", "inside", "--subject", "mulligan-adopting"), _POWER_TESTS),
    Proof("traversal", "a store whose trees lie: nothing is written outside or into .git, each entry is refused by its name",
          "hostile/traversal.py", 80, 0, (), "hostile/test_traversal_corpus.py"),
    Proof("bystanders", "random restores change nothing but what the plan names, and undo is exact",
          _BYSTANDERS, 60, 5000, (), "bystanders/test_bystanders.py"),
    Proof("days", "agents, a person and kills at random in one project: every undo is right, complete and says so",
          "days/days.py", 2, 200, (), "days/test_days.py"),
    Proof("machines", "2 and 5 machines push, pull, forget, expire, collect and are killed: nothing is lost, nothing forgotten is back",
          "remotes/machines.py", 4, 500, (), "remotes/test_servers.py"),
    Proof("bystanders-user", "the same by an ordinary user, where some files belong to others",
          _BYSTANDERS, 60, 2000, ("--as-user",)),
    Proof("mcp-messages", "malformed messages to the MCP server: it lives, says nothing but messages, and nothing outside changes",
          "hostile/mcp_fuzz.py", 1500, 1_000_000, (), "hostile/test_mcp.py"),
    Proof("mcp-poison", "a model that obeys every instruction in files takes nothing from history and stays inside",
          "hostile/poisoned.py", 3, 200, (), "hostile/test_mcp.py"),
    Proof("honesty", "known-bad builds are each caught by their sweep within a minute",
          "honesty.py", 0, 0, (), "test_honesty.py"),
)
# fmt: on


class Result(NamedTuple):
    """What came of a sweep; `trouble` says why it did not end as it should."""

    proof: Proof
    tried: int
    broken: int
    seconds: float
    counts: dict[str, float]
    trouble: str = ""
    cannot: bool = False

    @property
    def verdict(self) -> str:
        """One word, or the reason why there is none."""
        if self.cannot:
            return f"NOT RUN: {self.trouble}"
        if self.trouble:
            return f"BROKEN: {self.trouble}"
        return f"BROKEN: {self.broken}" if self.broken else "nothing broke"

    @property
    def failed(self) -> bool:
        """Whether something broke."""
        return not self.cannot and bool(self.broken or self.trouble)


def run(proof: Proof, rounds: int, seed: int, more: Iterable[str] = ()) -> Result:
    """Runs one sweep to its end, with everything it says on standard error."""
    began, last = time.monotonic(), ""
    with tempfile.TemporaryDirectory(prefix="proof-") as folder:
        tallies = Path(folder, "tallies")
        command = [sys.executable, FOLDER / proof.script, "--size", str(rounds), "--seed", str(seed)]
        with subprocess.Popen(
            [*command, *proof.options, *more],
            env=plain_environment(**{HANDED_IN: os.fspath(tallies)}),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
        ) as child:
            assert child.stdout is not None
            try:
                for line in child.stdout:
                    last = line.strip() or last
                    print(f"  {line.rstrip()}", file=sys.stderr, flush=True)
                code = child.wait()
            except KeyboardInterrupt:
                # The sweep had the same signal, and cleans up.
                last, code = "interrupted", -1
        handed = tallies.read_text(encoding="utf-8").splitlines() if tallies.exists() else []
    return _result(proof, [json.loads(line) for line in handed], code, last, time.monotonic() - began)


def _result(proof: Proof, handed: list[dict[str, object]], code: int, last: str, seconds: float) -> Result:
    """Puts the tallies of a sweep together; one that handed in nothing, or disagrees with its exit code, is broken."""
    tried, broken = (sum(int(str(tally[name])) for tally in handed) for name in ("tried", "broken"))
    counts: Counter[str] = Counter()
    for tally in handed:
        for name, value in dict(tally["counts"]).items():  # type: ignore[call-overload]
            counts[name] = max(counts[name], value) if name.endswith(("_ms", "_most")) else counts[name] + value
    trouble = ""
    if code == CANNOT or last == "interrupted":
        trouble = last.removeprefix("CANNOT RUN HERE: ")
    elif code not in {0, 1}:
        trouble = f"it ended with {code}: {last}"
    elif not tried:
        trouble = f"it tried nothing: {last}"
    elif bool(broken) != bool(code):
        trouble = f"it handed in {broken} broken, and ended with {code}"
    return Result(proof, tried, broken, seconds, dict(counts), trouble, cannot=code == CANNOT)


# -- the report -------------------------------------------------------------------------------------


def source() -> str:
    """The commit that is tried, and whether the files are its own."""

    def git(*words: str) -> str:
        done = subprocess.run(["git", *words], cwd=TESTS, capture_output=True, text=True, check=False)
        return done.stdout.strip() if done.returncode == 0 else ""

    commit = git("rev-parse", "--short=12", "HEAD") or "unknown"
    return f"{commit} with changes" if git("status", "--porcelain", "--untracked-files=no") else commit


def machine() -> str:
    """Where it was tried."""
    return f"{platform.system()} {platform.release()}, {os.cpu_count()} cores, Python {platform.python_version()}"


def told(counts: dict[str, float]) -> str:
    """The counters of a sweep in words."""
    return ", ".join(f"{name.replace('_', ' ')} {value:,.10g}" for name, value in sorted(counts.items()))


def table(results: list[Result], about: dict[str, str]) -> str:
    """The summary as a Markdown table, which a person can read as it is."""
    head = ("proof", "tried", "result", "seconds", "counted")
    rows = [(each.proof.name, f"{each.tried:,}", each.verdict, f"{each.seconds:,.0f}", told(each.counts))
            for each in results]  # fmt: skip
    widths = [max(len(row[at]) for row in (head, *rows)) for at in range(4)]
    lines = [
        "| " + " | ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[4]]) + " |"
        for row in (head, tuple("-" * width for width in (*widths, 7)), *rows)
    ]
    return "\n".join([*lines, "", *(f"{name}: {value}" for name, value in about.items())])


def document(results: list[Result], about: dict[str, str]) -> dict[str, object]:
    """The summary for programs."""
    return {
        **about,
        "proofs": [
            {
                "name": each.proof.name,
                "promise": each.proof.promise,
                "tried": each.tried,
                "broken": each.broken,
                "verdict": each.verdict,
                "seconds": round(each.seconds, 1),
                "counts": each.counts,
            }
            for each in results
        ],
    }


def listed(proofs: Iterable[Proof]) -> str:
    """What there is to choose from."""

    def size(number: int | None) -> str:
        return "-" if number is None else f"{number:,}" if number else "all"

    rows = [(each.name, size(each.small), size(each.large), each.promise) for each in proofs]
    width = max(len(row[0]) for row in rows)
    return "\n".join(f"{name:{width}} {small:>9} {large:>11}  {promise}"
                     for name, small, large, promise in (("", "small", "large", ""), *rows))  # fmt: skip


# -- the command ------------------------------------------------------------------------------------


def arguments() -> argparse.ArgumentParser:
    """The options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="which sweeps (default: all); --list names them")
    parser.add_argument("--list", action="store_true", help="print the list and end")
    parser.add_argument("--size", choices=("small", "large"), default="small")
    parser.add_argument("--times", type=float, default=1.0, metavar="F", help="multiply the size by this")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the summary there, for programs")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the summary there, for people")
    return parser


def main(argv: list[str] | None = None, proofs: tuple[Proof, ...] = PROOFS) -> int:
    """Runs the sweeps and prints the summary."""
    words = sys.argv[1:] if argv is None else argv
    at = words.index("--") if "--" in words else len(words)
    options, more = arguments().parse_args(words[:at]), words[at + 1 :]
    if options.list:
        print(listed(proofs))
        return 0
    if unknown := set(options.names) - {each.name for each in proofs}:
        print(f"There is no proof called {', '.join(sorted(unknown))}. There are:\n{listed(proofs)}", file=sys.stderr)
        return 2
    chosen = [each for each in proofs if each.name in options.names or not options.names]
    about = {"commit": source(), "date": f"{dt.datetime.now(dt.UTC):%Y-%m-%d %H:%M} UTC",
             "size": f"{options.size}, times {options.times:g}", "seed": str(options.seed), "machine": machine()}  # fmt: skip
    results: list[Result] = []
    for number, proof in enumerate(chosen, 1):
        rounds = proof.rounds(options.size, options.times)
        print(f"[{number}/{len(chosen)}] {proof.name}: {proof.promise}", file=sys.stderr, flush=True)
        if rounds is None:
            results.append(Result(proof, 0, 0, 0.0, {}, f"there is no size {options.size} of it", cannot=True))
        else:
            results.append(run(proof, rounds, options.seed, more))
        print(f"  {proof.name}: {results[-1].verdict}", file=sys.stderr, flush=True)
        if results[-1].trouble == "interrupted":
            break
    print(table(results, about))
    for path, text in ((options.json, json.dumps(document(results, about), indent=1)),
                       (options.markdown, table(results, about))):  # fmt: skip
        if path is not None:
            path.write_text(text + "\n", encoding="utf-8")
    for each in results:
        if each.cannot or each.failed:
            print(f"!!! {each.proof.name} {each.verdict}", file=sys.stderr)
    failed, apart = sum(each.failed for each in results), sum(each.cannot for each in results)
    print(f"sweeps: {len(results) - failed - apart} passed, {failed} failed, {apart} not run")
    if failed:
        return 1
    return CANNOT if any(each.cannot and each.proof.rounds(options.size, 1) is not None for each in results) else 0


if __name__ == "__main__":
    sys.exit(main())
