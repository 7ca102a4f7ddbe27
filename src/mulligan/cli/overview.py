"""The words for somebody who has not chosen a command yet."""

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
usage: mulligan [-C DIR] [--store DIR] [--json] [--wait S] COMMAND …

Checkpoints and rollback for coding agents: the whole workspace, at every step.

{groups}
options of every command, before or after its name:
  -C DIR       the workspace (default: the nearest directory upward that has a
               store, else the top of the git repository)
  --store DIR  the store (default: $MULLIGAN_STORE, else one per workspace
               under the XDG state directory)
  --json       print exactly one JSON document on stdout
  --wait S     seconds to wait while another process writes (default: 2)
  --version    print the version
  -h, --help   show this help, or that of a command

a checkpoint is named by:
  @            the position: the checkpoint last saved or restored to
  latest       the newest one; latest~2 is two before it
  NAME         the newest of that name
  ID           its id, or the beginning of it
"""


def short() -> str:
    """Returns the five commands people need."""
    return _SHORT.format(five="\n".join(f"  mulligan {name:<9} {COMMANDS[name]}" for name in FIRST_FIVE))


def full() -> str:
    """Returns every command and every global option."""
    groups = [
        f"{title}:\n" + "".join(f"  {name:<12} {COMMANDS[name]}\n" for name in names) for title, names in GROUPS.items()
    ]
    return _FULL.format(groups="\n".join(groups))


def version() -> str:
    """Returns the installed version."""
    from importlib import metadata

    try:
        return metadata.version("mulligan")
    except metadata.PackageNotFoundError:
        return "unknown (not installed)"
