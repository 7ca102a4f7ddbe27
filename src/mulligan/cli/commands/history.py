"""`mulligan architect history`: the checkpoints that are commits on your branch."""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING

from mulligan.cli.command import Result
from mulligan.cli.context import Context
from mulligan.loop.commits import CommitCheckpoints, ListedCommit
from mulligan.loop.makers import maker, words_for
from mulligan.present.text import columns
from mulligan.present.visible import visible

if TYPE_CHECKING:
    from mulligan.model.checkpoint import Checkpoint

USAGE = "architect history"
DESCRIPTION = """\
List the checkpoints that are commits on your branch, newest first: those of an agent's steps and of pipelines.

These are the commits `architect:checkpoint:…` that `git log --grep` shows, and those that a rollback left behind, which it
does not. Checkpoints that are no commits are listed below them; `mulligan restore` goes back to those. In a directory without
a repository mulligan keeps the same list by itself.
"""
EXAMPLES = (
    ("mulligan architect history", "all of them"),
    ("mulligan --json architect history", "for a program"),
)
EXIT_CODES = (0, 1, 90)
_OTHERS = 10


def run(context: Context, _args: argparse.Namespace) -> Result:
    """Lists the commits, and what else is in the timeline."""
    commits = CommitCheckpoints(context.workspace)
    found, others = commits.listed(), commits.others()

    def document() -> dict[str, object]:
        return {"checkpoints": [_plain(each) for each in found], "others": [each.to_dict() for each in others]}

    return Result([*_commit_lines(found, others), *(_other_lines(others) if others else [])], document)


def _commit_lines(found: list[ListedCommit], others: list[Checkpoint]) -> list[str]:
    """Returns the commits as a table, and how to go back to one."""
    if not found:
        return ["No checkpoints recorded as commits." if others else "No checkpoints recorded."]
    rows = [(_step(each), each.commit[:7], _date(each.when), visible(each.label.message) or "-") for each in found]
    table = columns([("Step", "Hash", "Date", "Message"), *rows])
    then = f"Use 'mulligan architect rollback {_option(found)}' to restore."
    return [f"Checkpoints ({len(found)}):", "", *table, "", then]


def _other_lines(others: list[Checkpoint]) -> list[str]:
    rows = [
        (each.short_id, _date(each.created_at.timestamp()), maker(each), visible(words_for(each)))
        for each in others[:_OTHERS]
    ]
    table, then = (
        columns([("ID", "Date", "From", "What"), *rows]),
        "Use 'mulligan restore ID' to restore one; all of them: mulligan log",
    )
    return ["", f"Other checkpoints, which are no commits ({len(others)}):", "", *table, "", then]


def _option(found: list[ListedCommit]) -> str:
    """Returns the option that reaches what is listed: steps have a number, steps of a pipeline a name."""
    numbers = any(each.label.step is not None for each in found)
    names = any(each.label.step is None for each in found)
    return " | ".join([*(["--to-step N"] if numbers else []), *(["--to-name NAME"] if names else [])])


def _plain(each: ListedCommit) -> dict[str, object]:
    return {
        "step": each.label.step or 0,
        "name": each.label.name,
        "commit_hash": each.commit,
        "message": each.label.message,
        "timestamp": each.when,
    }


def _step(each: ListedCommit) -> str:
    return str(each.label.step) if each.label.step is not None else visible(each.label.name) or "0"


def _date(when: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(when)) if when else "-"
