"""
What a hook and a command cost with a watcher up, beside `true`; and what hooks add to a tool call in the real clients.

    python -m bench.hooks --files 1000 --calls 20
    python -m bench.hooks --claude PATH/TO/claude --codex PATH/TO/codex

The first part runs hooks and commands as an installation has them: by the native client, by the script that pip wrote and by
the Python client alone; without a watcher, and with one (`mulligan watch`). The kinds take turns, call by call. It prints the
fastest and the median call, the processor time of the process (the watcher's is not in it), and the median in interpreter
starts (`python -I -S -c pass`, in the same turn). The second part runs sessions of many shell
commands in turn: without hooks, with `true` as both hooks, and with ours, without and with a watcher. A call lasts from the model's answer to the client's next
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
from collections.abc import Iterator
from contextlib import contextmanager
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
    def programs(self) -> dict[str, list[str]]:
        """How `mulligan` is started: by what is beside this interpreter, and by the interpreter itself."""
        beside = Path(sys.executable).parent
        found = {"native client": beside / "mulligan-client", "script of pip": beside / "mulligan"}
        known = {name: [str(path)] for name, path in found.items() if path.exists()}
        return known | {"python -m": [sys.executable, "-P", "-m", "mulligan"]}

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
    """Measures, and prints the tables."""
    parser = argparse.ArgumentParser(description="What a hook adds to each tool call.")
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--calls", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3, help="sessions of each kind, in the second part")
    parser.add_argument("--claude", help="the path of Claude Code, for the second part")
    parser.add_argument("--codex", help="the path of Codex, for the second part")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench.made(Path(folder), args.files)
        print(f"{args.files} files, {args.calls} calls, {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}")
        bench.mulligan("save", "the first look is not what is measured")
        for watched in (False, True):
            with bench.watched(really=watched):
                processes(bench, args.calls, "with a watcher" if watched else "without a watcher")
        for agent, program in (("claude-code", args.claude), ("codex", args.codex)):
            if program:
                sessions(bench, agent, program, args.calls, args.rounds)


# -- a process alone --------------------------------------------------------------------------------


class Kind(NamedTuple):
    """One kind of call: its command line, its stdin, and whether a file changes before it."""

    name: str
    argv: list[str]
    event: str = ""
    edits: bool = False
    then: str = ""


def kinds(bench: Bench) -> list[Kind]:
    """Returns everything that is measured, the two yardsticks first."""

    def event(name: str, tool: str = "Bash") -> str:
        told = {"session_id": "bench", "cwd": str(bench.project), "hook_event_name": name, "tool_name": tool}
        return json.dumps(told | {"tool_input": {"command": "true"}})

    before, after = event("PreToolUse"), event("PostToolUse")
    found = [Kind("true", ["true"]), Kind(START, [sys.executable, "-I", "-S", "-c", "pass"])]
    for name, program in bench.programs.items():
        hook = [*program, "hook", "claude-code"]
        found += [
            # A command that begins also ends, or the next ones would count as run beside it.
            Kind(f"hook, nothing changed: {name}", hook, before, then=after),
            Kind(f"hook, one edit: {name}", hook, after, edits=True, then=before),
            Kind(f"save, nothing changed: {name}", [*program, "save", "--if-changed"]),
            Kind(f"save, one edit: {name}", [*program, "save"], edits=True),
        ]
    return found


START = "an interpreter that does nothing"


def processes(bench: Bench, calls: int, how: str) -> None:
    """Prints what each kind costs."""
    measured = kinds(bench)
    taken: dict[str, list[float]] = {kind.name: [] for kind in measured}
    used: dict[str, list[float]] = {kind.name: [] for kind in measured}
    for number in range(calls + 1):
        for kind in measured:
            if kind.edits:
                (bench.project / "dir0" / "file0.txt").write_text(f"changed {number} {time.monotonic_ns()}\n")
            seconds, cpu = called(bench, kind.argv, kind.event)
            if number:  # the first is for the caches
                taken[kind.name].append(seconds)
                used[kind.name].append(cpu)
            if kind.then:
                called(bench, kind.argv, kind.then)
    start = statistics.median(taken[START])
    print(f"\n{how}{'':<{46 - len(how)}} fastest   median      cpu   interpreter starts")
    for name, times in taken.items():
        middle, cpu = statistics.median(times), statistics.median(used[name])
        print(f"  {name:<44} {1000 * min(times):7.1f}  {1000 * middle:7.1f}  {1000 * cpu:7.1f}  {middle / start:7.2f}")


def called(bench: Bench, argv: list[str], event: str) -> tuple[float, float]:
    """Runs one call; returns the seconds and the processor time that it took."""
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    words: dict[str, Any] = {"cwd": bench.project, "env": bench.environment, "input": event, "text": True}
    subprocess.run(argv, stdout=subprocess.DEVNULL, check=True, **words)
    seconds, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


# -- in the real clients ----------------------------------------------------------------------------

#: What is installed, and whether a watcher runs.
KINDS = {"without hooks": ("", False), "`true` as both hooks": ("true", False), "our hooks": ("ours", False),
         "our hooks and a watcher": ("ours", True)}  # fmt: skip
FILES = {"claude-code": ".claude/settings.local.json", "codex": ".codex/hooks.json"}
TRUE = [{"hooks": [{"type": "command", "command": "true"}]}]


def sessions(bench: Bench, agent: str, program: str, calls: int, rounds: int) -> None:
    """Runs sessions of each kind in turn, and prints how long a call took in each."""
    sys.path[:0] = [str(ROOT / "tests" / "support"), str(ROOT / "tests" / "proofs" / "agents")]
    from clients import Project, trust_claude

    os.environ["HOME"] = str(bench.home)  # what `clients` starts looks there
    trust_claude(Project(bench.project, bench.home))
    taken: dict[str, list[float]] = {name: [] for name in KINDS}
    for _ in range(rounds):
        for name, (hooks, watched) in KINDS.items():
            install(bench, agent, hooks)
            with bench.watched(really=watched):
                taken[name] += one_session(bench, agent, program, calls)
    install(bench, agent, "")
    print(f"\na shell command in {agent}, {rounds} sessions of {calls} each (median; nine of ten are below)")
    medians = {name: statistics.median(times) for name, times in taken.items()}
    base, true = (medians[name] for name in list(KINDS)[:2])
    for name, times in taken.items():
        most, added = statistics.quantiles(times, n=10)[-1], medians[name] - base
        beside = f"{added / (true - base):5.1f} times what `true` adds" if true > base else "`true` adds nothing here"
        told = f"   {1000 * added:+6.0f} ms a call  {beside}" if added and name != "without hooks" else ""
        print(f"  {name:<40} {1000 * medians[name]:7.0f} ms   {1000 * most:7.0f} ms{told}")


def install(bench: Bench, agent: str, hooks: str) -> None:
    """Installs our hooks, `true` in their place, or none."""
    file = bench.project / FILES[agent]
    file.unlink(missing_ok=True)
    bench.mulligan("install", agent, "-y", *(() if hooks == "ours" else ("--uninstall",)))
    if hooks == "true":
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps({"hooks": {"PreToolUse": TRUE, "PostToolUse": TRUE}}))


def one_session(bench: Bench, agent: str, program: str, calls: int) -> list[float]:
    """Returns how long each call of a session took, the first left out."""
    from clients import (
        Project,
        approve_codex_hooks,
        claude_argv,
        claude_variables,
        codex_argv,
        configure_codex,
    )
    from scripted_model import Say, Use, scripted

    words = [f"echo {n} > made.txt" for n in range(calls + 1)]
    script = (
        [Use("Bash", {"command": word, "description": "-"}) for word in words]
        if agent == "claude-code"
        else [Use("exec_command", {"cmd": word}) for word in words]
    )
    asked: list[float] = []
    with scripted({"measure": [*script, Say("done")]}) as model:
        answer = model.reply

        def reply(request: Any) -> Any:
            if request.tools:
                asked.append(time.perf_counter())
            return answer(request)

        model.reply = reply
        if agent == "codex":
            project = Project(bench.project, bench.home)
            configure_codex(project, model.url)
            if (bench.project / FILES[agent]).exists():
                approve_codex_hooks(project, program)
            argv, more = codex_argv(program, "measure"), {"SCRIPTED_KEY": "x"}
        else:
            argv, more = claude_argv(program, "measure"), claude_variables(model.url)
        subprocess.run(
            argv,
            cwd=bench.project,
            env=bench.environment | more,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=True,
        )
    assert len(asked) > calls, "the client did not run the commands"
    return [after - before for before, after in pairwise(asked)][1:]


if __name__ == "__main__":
    main()
