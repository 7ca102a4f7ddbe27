"""
What a hook adds to each tool call of an agent: as a process on its own, and in the real Claude Code.

    python -m bench.hooks --files 1000 --calls 20
    python -m bench.hooks --claude PATH/TO/claude

The first part runs the hook as a client does and says how long it took (median) and how much processor time it used, which is what
remains comparable on a busy machine; without a watcher, and with one (`mulligan watch`). The second runs sessions of many shell
commands in turn: without hooks, with them, and with them and a watcher. A call lasts from the model's answer to the client's next
request, so the client's own start is not in it; it has two hooks, one before the command and one after.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]


class Bench(NamedTuple):
    """The project, and the environment in which everything runs."""

    project: Path
    home: Path

    @classmethod
    def made(cls, folder: Path, files: int) -> Bench:
        """Returns a project of small files in an empty home."""
        project, home = folder / "project", folder / "home"
        home.mkdir()
        for number in range(files):
            place = project / f"dir{number % 20}" / f"file{number}.txt"
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(f"line {number}\n" * 40)
        return cls(project, home)

    @property
    def environment(self) -> dict[str, str]:
        """Little, and able to import the package."""
        plain = {"PATH": os.environ["PATH"], "HOME": str(self.home), "PYTHONPATH": str(ROOT / "src")}
        return plain | {"MULLIGAN_WATCH": "found"}  # hooks would start one; here the bench decides when there is one

    @property
    def program(self) -> str:
        """What an installed hook gives its interpreter."""
        from mulligan.install.hook_files import PROGRAM

        return PROGRAM

    def mulligan(self, *words: str) -> None:
        """Runs a command here."""
        argv = [sys.executable, "-m", "mulligan", *words]
        subprocess.run(argv, cwd=self.project, env=self.environment, check=True, capture_output=True)

    @contextmanager
    def watched(self, *, really: bool) -> Iterator[None]:
        """A watcher, if one is wanted, for as long as the block runs."""
        if not really:
            yield
            return
        self.mulligan("watch", "--background")
        try:
            yield
        finally:
            self.mulligan("watch", "--stop")


def main() -> None:
    """Measures, and prints two tables."""
    parser = argparse.ArgumentParser(description="What a hook adds to each tool call.")
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--calls", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3, help="sessions of each kind, in the second part")
    parser.add_argument("--claude", help="the path of Claude Code, for the second part")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench.made(Path(folder), args.files)
        print(f"{args.files} files, {args.calls} calls, {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}")
        bench.mulligan("save", "the first look is not what is measured")
        for watched in (False, True):
            with bench.watched(really=watched):
                processes(bench, args.calls, "with a watcher" if watched else "without a watcher")
        if args.claude:
            sessions(bench, args.claude, args.calls, args.rounds)


# -- a hook alone -----------------------------------------------------------------------------------


def processes(bench: Bench, calls: int, how: str) -> None:
    """Prints what each kind of event costs."""
    print(f"\na hook, {how} (medians)")
    before, after = partial(called, bench, "Bash", "PreToolUse"), partial(called, bench, "Bash", "PostToolUse")
    for name, call, change, then in (
        ("an interpreter that does nothing", partial(called, bench, "", ""), None, None),
        ("a tool that only reads", partial(called, bench, "Read", "PreToolUse"), None, None),
        # A command that begins also ends, or the next ones would count as run beside it.
        ("before a command, nothing changed", before, None, after),
        ("after a command that changed one file", after, bench.project / "dir0" / "file0.txt", before),
    ):
        seconds, cpu = measured(calls, call, change, then)
        print(f"  {name:<40} {1000 * seconds:7.0f} ms   {1000 * cpu:7.0f} ms of processor time")


def called(bench: Bench, tool: str, name: str) -> None:
    """Runs the hook once; without a tool, Python alone."""
    event = {"session_id": "bench", "cwd": str(bench.project), "hook_event_name": name, "tool_name": tool}
    words = ["-P", "-c", bench.program, "hook", "claude-code"] if tool else ["-c", "pass"]
    argv = [sys.executable, *words]
    subprocess.run(argv, input=json.dumps(event), cwd=bench.project, env=bench.environment, text=True, check=True)


def measured(
    calls: int, call: Callable[[], None], change: Path | None, then: Callable[[], None] | None
) -> tuple[float, float]:
    """Returns the median of the time and of the processor time that a call takes; a watcher's own is not in it."""
    call()
    times, used = [], []
    for number in range(calls):
        if change is not None:
            change.write_text(f"changed {number} {time.monotonic_ns()}\n")
        before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        call()
        times.append(time.perf_counter() - begun)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        if then is not None:
            then()
    return statistics.median(times), statistics.median(used)


# -- in the real Claude Code ------------------------------------------------------------------------

KINDS = {"without hooks": (False, False), "with hooks": (True, False), "with hooks and a watcher": (True, True)}


def sessions(bench: Bench, claude: str, calls: int, rounds: int) -> None:
    """Runs sessions of each kind in turn, and prints how long a call took in each."""
    sys.path[:0] = [str(ROOT / "tests" / "support"), str(ROOT / "tests" / "proofs" / "agents")]
    from clients import Project, trust_claude

    trust_claude(Project(bench.project, bench.home))
    taken: dict[str, list[float]] = {name: [] for name in KINDS}
    for _ in range(rounds):
        for name, (hooks, watched) in KINDS.items():
            bench.mulligan("install", "claude-code", "-y", *(() if hooks else ("--uninstall",)))
            with bench.watched(really=watched):
                taken[name] += one_session(bench, claude, calls)
    print(f"\na shell command in Claude Code, {rounds} sessions of {calls} each (median; nine of ten are below)")
    base = statistics.median(taken["without hooks"])
    for name, times in taken.items():
        middle, most = statistics.median(times), statistics.quantiles(times, n=10)[-1]
        added = f"   {1000 * (middle - base):+6.0f} ms a call" if times is not taken["without hooks"] else ""
        print(f"  {name:<40} {1000 * middle:7.0f} ms   {1000 * most:7.0f} ms{added}")


def one_session(bench: Bench, claude: str, calls: int) -> list[float]:
    """Returns how long each call of a session took, the first left out."""
    from clients import claude_argv, claude_variables
    from scripted_model import Say, Use, scripted

    script = [Use("Bash", {"command": f"echo {n} > made.txt", "description": "-"}) for n in range(calls + 1)]
    asked: list[float] = []
    with scripted({"measure": [*script, Say("done")]}) as model:
        answer = model.reply

        def reply(request: Any) -> Any:
            if request.tools:
                asked.append(time.perf_counter())
            return answer(request)

        model.reply = reply
        done = subprocess.run(
            claude_argv(claude, "measure"),
            cwd=bench.project,
            env=bench.environment | claude_variables(model.url),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=True,
        )
        assert b'"is_error":false' in done.stdout
    return [after - before for before, after in pairwise(asked)][1:]


if __name__ == "__main__":
    main()
