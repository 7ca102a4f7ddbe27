"""The text that a bare `mulligan` prints."""

from __future__ import annotations

from mulligan.cli.registry import COMMANDS, FIRST_FIVE, GROUPS

_SHORT = """\
mulligan: checkpoints and rollback for coding agents

{five}

Every checkpoint holds the whole workspace; every restore can be undone.
See it work in a throw-away project:  mulligan demo
All commands: mulligan -h             One command: mulligan save -h
"""

_FULL = """\
usage: mulligan [OPTIONS] COMMAND …      one command: mulligan COMMAND -h

{groups}
options of every command, before or after its name:
  -C DIR  --store DIR    the project; its store
  --json                 print one JSON document
  --color auto|always|never  --no-pager  --wait SECONDS  --version

a checkpoint: @ (the last one), latest, latest~2, NAME, ID, @prompt-2, @tool-17
"""


def short() -> str:
    """Returns the five commands people need."""
    return _SHORT.format(five="\n".join(f"  mulligan {name:<9} {COMMANDS[name]}" for name in FIRST_FIVE))


def full() -> str:
    """Returns every command and every global option, on one screen."""
    daily = "".join(f"  {name:<9} {COMMANDS[name]}\n" for name in GROUPS["Every day"])
    rest = [f"{title}: {', '.join(names)}\n" for title, names in GROUPS.items() if title != "Every day"]
    return _FULL.format(groups=daily + "\n" + "".join(rest))


def version() -> str:
    """Returns the installed version."""
    from importlib import metadata

    try:
        return metadata.version("mulligan")
    except metadata.PackageNotFoundError:
        return "unknown (not installed)"
