"""
Destructive commands: what a person may want to hear of, or to be asked about, before it runs.

Narrower than what the agent loop calls risky: not every command that may replace a file, but those that are known for taking
work with them. The reading of command lines is the loop's own.
"""

from __future__ import annotations

from mulligan.model.small import Iterator, Mapping
from mulligan.model.typed import Any

#: What the reasons of the loop begin with, for the commands meant here.
_MEANT = (
    "rm ",
    "shred ",
    "srm ",
    "rimraf ",
    "find -delete",
    "dd ",
    "git reset ",
    "git clean ",
    "git push ",
    "git checkout ",
    "git restore ",
    "git stash ",
    "git rebase ",
    "git branch ",
    "git filter",
    "git reflog ",
    "DROP ",
    "TRUNCATE ",
    "DELETE ",
)


def destructive(arguments: Any) -> str:
    """Returns why a tool's input is destructive, empty where it is not."""
    from mulligan.loop.risk import risks_of_command

    for text in _commands(arguments):
        for reason in risks_of_command(text):
            if reason.startswith(_MEANT):
                return reason
    return ""


def _commands(arguments: Any) -> Iterator[str]:
    command = arguments.get("command") if isinstance(arguments, Mapping) else None
    if isinstance(command, str) and "*** Begin Patch" not in command:
        yield command
    elif isinstance(command, list):
        yield " ".join(word for word in command if isinstance(word, str))
