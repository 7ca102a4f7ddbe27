"""
What a hook adds to each tool call of an agent: as a process on its own, and in the real Claude Code.

    python -m bench.hooks --files 1000 --calls 20
    python -m bench.hooks --claude PATH/TO/claude

The first part runs the hook as a client does and says how long it took (median) and how much processor time it used, which is what
remains comparable on a busy machine. The second runs one session of many shell commands twice, without hooks and with them.
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
from collections.abc import Callable
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def main() -> None:
    """Measures, and prints a table."""
    parser = argparse.ArgumentParser(description="What a hook adds to each tool call.")
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--calls", type=int, default=20)
    parser.add_argument("--claude", help="the path of Claude Code, for the second part")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        project, home = Path(folder, "project"), Path(folder, "home")
        home.mkdir()
        for number in range(args.files):
            place = project / f"dir{number % 20}" / f"file{number}.txt"
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(f"line {number}\n" * 40)
        env = {"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONPATH": str(ROOT / "src")}
        print(f"{args.files} files, {args.calls} calls, load {os.getloadavg()[0]:.1f}")
        for name, tool, change in (
            ("an interpreter that does nothing", "", None),
            ("a tool that only reads", "Read", None),
            ("before a command, nothing changed", "Bash", None),
            ("after a command that changed one file", "Bash", project / "dir0" / "file0.txt"),
        ):
            seconds, cpu = measured(args.calls, partial(called, project, env, tool), change)
            print(f"{name:<40} {1000 * seconds:7.0f} ms   {1000 * cpu:7.0f} ms of processor time")
        if args.claude:
            per_call(args.claude, project, home, env, args.calls)


def called(project: Path, env: dict[str, str], tool: str) -> None:
    """Runs the hook once; without a tool, Python alone."""
    event = {"session_id": "bench", "cwd": str(project), "hook_event_name": "PreToolUse", "tool_name": tool}
    words = ["-P", "-m", "mulligan", "hook", "claude-code"] if tool else ["-c", "pass"]
    subprocess.run([sys.executable, *words], input=json.dumps(event), cwd=project, env=env, text=True, check=True)


def measured(calls: int, call: Callable[[], None], change: Path | None) -> tuple[float, float]:
    """Returns the median of the time and of the processor time that a call takes."""
    call()
    times, used = [], []
    for number in range(calls):
        if change is not None:
            change.write_text(f"changed {number}\n")
        before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        call()
        times.append(time.perf_counter() - begun)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return statistics.median(times), statistics.median(used)


def per_call(claude: str, project: Path, home: Path, env: dict[str, str], calls: int) -> None:
    """Runs the same session without hooks and with them, and prints the difference for one call."""
    sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "agents")]
    from clients import Project, claude_argv, claude_variables, trust_claude
    from scripted_model import Say, Use, scripted

    trust_claude(Project(project, home))
    script = [Use("Bash", {"command": f"echo {n} > made.txt", "description": "-"}) for n in range(calls)]
    taken = {}
    for hooks in (False, True):
        if hooks:
            words = [sys.executable, "-m", "mulligan", "install", "claude-code", "-y"]
            subprocess.run(words, cwd=project, env=env, check=True, capture_output=True)
        with scripted({"measure": [*script, Say("done")]}) as model:
            begun = time.perf_counter()
            done = subprocess.run(
                claude_argv(claude, "measure"),
                cwd=project,
                env=env | claude_variables(model.url),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=True,
            )
            taken[hooks] = time.perf_counter() - begun
            assert b'"is_error":false' in done.stdout
    each = 1000 * (taken[True] - taken[False]) / calls
    print(
        f"Claude Code, {calls} commands: {taken[False]:.1f} s without, {taken[True]:.1f} s with hooks: {each:.0f} ms a call"
    )


if __name__ == "__main__":
    main()
