"""`mulligan doctor`: repair the store."""

from __future__ import annotations

import argparse
from datetime import datetime

from mulligan.cli.command import Result
from mulligan.cli.context import Context
from mulligan.cli.hook_files import home_of
from mulligan.install.checkup import Wired, check
from mulligan.present.standing import problem_lines
from mulligan.present.text import count
from mulligan.present.visible import visible
from mulligan.safefs.platform import HERE
from mulligan.timeline.notices import forget_failures

USAGE = "doctor"
DESCRIPTION = """\
Repair the store and finish what was interrupted.

An interrupted restore is finished or rolled back, leftovers are removed, a lost database is rebuilt from the checkpoints.
Nothing that can still be read is thrown away.

Also shows what mulligan can use of this system, which agents' hooks are installed, whether they work, and which of their steps
failed since the last `doctor`.
"""
EXAMPLES = (
    ("mulligan doctor", "after a crash, a full disk, or exit code 90"),
    ("mulligan --json doctor", "for a program: what was repaired, what remains"),
)
EXIT_CODES = (0, 1, 11, 90, 91)


def run(context: Context, _args: argparse.Namespace) -> Result:
    """Repairs what can be repaired."""
    workspace = context.workspace
    report = workspace.doctor()
    known = workspace.protection()
    agents, failures = _agents(context), known["failures"]
    forget_failures(workspace.settings)
    document = {
        "platform": {"name": HERE.name, "can": HERE.can._asdict()},
        "agents": [each.to_dict() for each in agents],
        "failures": failures,
        "missing_hooks": known["missing_hooks"],
    }
    return Result((report, agents, failures), lambda: {**report.to_dict(), **document}, 0 if report.ok else 90)


def _agents(context: Context) -> list[Wired]:
    heard = {
        each["agent"]: datetime.fromisoformat(each["at"]).timestamp()
        for each in context.workspace.protection()["agents"]
    }
    return check(project=context.settings.workspace, home=home_of(context), heard=heard)


def render(context: Context, result: Result) -> None:
    """Prints what was repaired and what remains."""
    (report, agents, failures), style = result.value, context.out.style
    context.out.lines([f"{style('yellow', 'repaired')}  {visible(done)}" for done in report.repaired])
    if report.ok:
        context.out.line(f"{style('green', 'ok')}  the store is sound")
    else:
        context.out.lines(problem_lines(report.problems, style))
    has, lacks = (", ".join(name for name, can in HERE.can._asdict().items() if can is so) for so in (True, False))
    context.out.line(f"platform  {HERE.name}: {has or 'POSIX only'}{f'; without {lacks}' if lacks else ''}")
    for each in agents:
        said = visible(each.problem) or f"hooks installed and working ({visible(each.files[0])})"
        context.out.line(f"{style('yellow' if each.problem else 'green', each.agent)}  {said}")
    if failures["last"]:
        why = visible(str(failures["last"].get("why")))
        context.out.line(f"hooks failed {count(failures['count'], 'time')}, last because: {why}")
