"""
The list of commands, known without importing any of them.

A name here is a module in `commands/`; its summary is what the overview shows. A test compares both with the modules.
"""

from __future__ import annotations

COMMANDS: dict[str, str] = {
    "save": "Save a checkpoint of the whole project",
    "log": "Show the timeline, newest first",
    "show": "Show one checkpoint: what it changed, what it did not save",
    "diff": "Show what changed since the last checkpoint, or between two",
    "restore": "Restore the project, or some paths, to a checkpoint",
    "cat": "Print one file as it was at a checkpoint",
    "undo": "Undo the last prompt, restore or unsaved change",
    "redo": "Redo what the last undo undid",
    "rm": "Delete checkpoints",
    "gc": "Free disk space: remove expired checkpoints, repack the rest",
    "forget": "Remove a path from all history",
    "status": "Show what is protected, what is not, and how much disk it takes",
    "watch": "Run a file watcher, so that commands need no rescan",
    "check": "Verify every byte of the store",
    "doctor": "Repair the store and finish what was interrupted",
    "stores": "List every store on this machine and its size",
    "adopt": "Take over the history of a project that was moved",
    "include": "Save paths of this workspace although they are ignored",
    "exclude": "Leave paths of this workspace out of later checkpoints",
    "key": "Show, export or import the key that seals secrets",
    "run": "Run a pipeline of agents, each step one undo away",
    "architect": "List and go back to checkpoints that are commits, in architect's words",
    "mcp": "Serve an agent over the Model Context Protocol",
    "repl": "Manage checkpoints by the slash commands of an agent's chat",
    "praisonai": "Save, list, restore and rewind in PraisonAI's words",
    "demo": "Watch a rollback in a throw-away project",
    "install": "Install the hooks of an agent",
    "hook": "Called by agents' hooks; you never need to run it",
    "completion": "Print a completion script for your shell",
}

GROUPS: dict[str, tuple[str, ...]] = {
    "Every day": ("save", "log", "show", "diff", "restore", "cat", "undo", "redo", "status"),
    "What is saved": ("include", "exclude", "forget", "key"),
    "The store": ("watch", "rm", "gc", "check", "doctor", "stores", "adopt"),
    "With agents": ("install", "demo", "mcp", "run", "repl", "hook", "completion"),
    "Other tools' words": ("architect", "praisonai"),
}

# The overview, which a bare `mulligan` prints, shows these.
FIRST_FIVE = ("save", "log", "diff", "restore", "undo")

# Commands that change nothing.
READING = frozenset({"log", "show", "diff", "cat", "status", "check", "history", "completion", "__complete"})

# What people type who know another tool.
OTHER_WORDS: dict[str, str] = {
    "list": "log",
    "ls": "log",
    "checkpoints": "log",
    "timeline": "log",
    "grep": "log --story",
    "search": "log --story",
    "delete": "rm",
    "remove": "rm",
    "prune": "gc",
    "clean": "gc",
    "stop": "watch --stop",
    "start": "watch --background",
    "uninstall": "install AGENT --uninstall",
    "config": "status  (your settings are in ~/.config/mulligan/config.toml)",
    "revert": "restore REF -- PATH",
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


def module_of(command: str) -> str | None:
    """Returns the full name of a command's module, None for an unknown command."""
    if command in HIDDEN:
        return f"mulligan.cli.commands.{HIDDEN[command]}"
    return f"mulligan.cli.commands.{command}" if command in COMMANDS else None
