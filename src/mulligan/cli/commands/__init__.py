"""
The table of commands, known without importing any of them.

A new command is a file here, named after it, and a row in `COMMANDS`. `mulligan.cli.command` has the shape of the file.
"""

from __future__ import annotations

from typing import NamedTuple


class Row(NamedTuple):
    """A command in the overview: its group, its summary, whether it changes nothing, whether paths may follow `--`."""

    group: str
    summary: str
    reads: bool = False
    paths: bool = False


COMMANDS: dict[str, Row] = {
    "save": Row("Every day", "Save a checkpoint of the whole project"),
    "log": Row("Every day", "Show the timeline, newest first", reads=True, paths=True),
    "show": Row("Every day", "Show one checkpoint: what it changed, what it did not save", reads=True),
    "diff": Row("Every day", "Show what changed since the last checkpoint, or between two", reads=True, paths=True),
    "restore": Row("Every day", "Restore the project, or some paths, to a checkpoint", paths=True),
    "cat": Row("Questions", "Print one file as it was at a checkpoint", reads=True),
    "undo": Row("Every day", "Undo the last prompt, restore or unsaved change", paths=True),
    "redo": Row("Every day", "Redo what the last undo undid"),
    "revert": Row("Every day", "Undo one prompt, tool call or checkpoint and keep everything later", paths=True),
    "ui": Row("Every day", "Show the timeline in a browser", reads=True),
    "status": Row("Every day", "Show what is protected, what is not, and how much disk it takes", reads=True),
    "blame": Row("Questions", "Show which prompt wrote each line of a file", reads=True),
    "why": Row("Questions", "Explain one line: the prompt, the command and the step behind it", reads=True),
    "search": Row("Questions", "Find a text in prompts, commands, paths and contents, or when it came", reads=True),
    "report": Row("Questions", "Report what agents really did, signed if you like", reads=True),
    "fork": Row("Several ways", "Make a second working directory at a checkpoint"),
    "forks": Row("Several ways", "List the forks of this project, or remove one"),
    "compare": Row("Several ways", "Compare two forks or checkpoints, and a command in each"),
    "keep": Row("Several ways", "Bring the state of a fork into this project"),
    "bisect": Row("Several ways", "Find the step after which a command fails"),
    "include": Row("What is saved", "Save paths of this workspace although they are ignored"),
    "exclude": Row("What is saved", "Leave paths of this workspace out of later checkpoints"),
    "forget": Row("What is saved", "Remove a path from all history"),
    "config": Row("What is saved", "Show and change your settings"),
    "key": Row("What is saved", "Show, export or import the key that seals secrets"),
    "watch": Row("The store", "Run a file watcher, so that commands need no rescan"),
    "rm": Row("The store", "Delete checkpoints"),
    "gc": Row("The store", "Free disk space: remove expired checkpoints, repack the rest"),
    "check": Row("The store", "Verify every byte of the store", reads=True),
    "doctor": Row("The store", "Repair the store and finish what was interrupted"),
    "stores": Row("The store", "List every store on this machine and its size"),
    "adopt": Row("The store", "Take over the history of a project that was moved"),
    "remote": Row("Other machines", "Add, list or remove remotes: git servers and object stores"),
    "push": Row("Other machines", "Send new checkpoints to a remote"),
    "pull": Row("Other machines", "Bring other machines' checkpoints here"),
    "clone": Row("Other machines", "Pick up a timeline from a remote in a new directory"),
    "fleet": Row("Other machines", "Show the machines of a remote", reads=True),
    "install": Row("With agents", "Install the hooks of an agent"),
    "uninstall": Row("With agents", "Remove the hooks of all agents, and end all watchers"),
    "pause": Row("With agents", "Let hooks record nothing in this project for a while"),
    "resume": Row("With agents", "Let hooks record again"),
    "demo": Row("With agents", "Watch a rollback in a throw-away project"),
    "mcp": Row("For programs", "Serve an agent over the Model Context Protocol"),
    "serve": Row("For programs", "Serve a host program over JSON lines"),
    "run": Row("With agents", "Run any command watched, or a pipeline of agents, each one undo away", paths=True),
    "repl": Row("With agents", "Manage checkpoints by the slash commands of an agent's chat"),
    "hook": Row("For programs", "Called by agents' hooks; you never need to run it"),
    "completion": Row("For programs", "Print a completion script for your shell", reads=True),
    "architect": Row("Other tools' words", "List and go back to checkpoints that are commits, in architect's words"),
    "praisonai": Row("Other tools' words", "Save, list, restore and rewind in PraisonAI's words"),
}

# The overview, which a bare `mulligan` prints, shows these.
FIRST_FIVE = ("save", "log", "diff", "restore", "undo")

# Commands that change nothing.
READING = frozenset({name for name, row in COMMANDS.items() if row.reads} | {"history", "__complete"})

# Commands that a watcher runs, where there is one (`native/client.c` has them too), and those with output longer than a screen.
HANDED_ON = frozenset({"save", "log", "show", "diff", "restore", "cat", "undo", "redo", "revert", "status", "hook"})
# Values of MULLIGAN_WATCH: ask no watcher, or only one that is there already; neither starts one.
ALONE = "0"
NO_START = frozenset({ALONE, "found"})
PAGED = frozenset({"log", "diff", "show", "blame", "search"})

# What people type who know another tool.
OTHER_WORDS: dict[str, str] = {
    "list": "log",
    "ls": "log",
    "checkpoints": "log",
    "timeline": "log",
    "grep": "search",
    "find": "search",
    "delete": "rm",
    "remove": "rm",
    "prune": "gc",
    "clean": "gc",
    "stop": "watch --stop",
    "start": "watch --background",
    "settings": "config",
    "statusline": "status --line",
    "rewind": "restore REF",
    "reset": "restore REF",
    "checkout": "restore REF",
    "back": "undo",
    "commit": "save",
    "snapshot": "save",
    "stash": "save",
    "fsck": "check",
    "repair": "doctor",
    "init": "save",
}

# Not listed: a command for machines, which is free to change, and earlier names of the dialects' commands.
HIDDEN: dict[str, str] = {
    "__complete": "complete",
    "history": "history",
    "rollback": "rollback",
    "checkpoint": "praisonai",
}

# The commands of other systems, below their own names: `architect history`. The others are arguments of the command.
WITHIN: dict[str, dict[str, str]] = {
    "architect": {"history": "history", "rollback": "rollback", "pipeline": "run", "run": "run"},
    "praisonai": {"checkpoint": "praisonai"},
}

EXIT_CODES: dict[int, str] = {
    0: "done",
    1: "error; nothing changed",
    2: "usage",
    3: "done, but partial: what is missing is listed",
    10: "nothing was saved here yet",
    11: "busy: another process held the store for longer than the wait",
    70: "a mistake in mulligan itself; a report was written and its place is printed",
    83: "refused to leave the workspace",
    90: "the store is damaged",
    91: "the disk did not confirm a write; nothing was saved",
    130: "interrupted; nothing is half done",
}


def grouped() -> dict[str, list[str]]:
    """Returns the names of commands by group, in the order of the overview."""
    groups: dict[str, list[str]] = {}
    for name, row in COMMANDS.items():
        groups.setdefault(row.group, []).append(name)
    return groups


def module_of(command: str) -> str | None:
    """Returns the full name of a command's module, None for an unknown command."""
    if command in HIDDEN:
        return f"mulligan.cli.commands.{HIDDEN[command]}"
    return f"mulligan.cli.commands.{command}" if command in COMMANDS else None
