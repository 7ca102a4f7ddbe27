"""
The command line: one door among several, without a rule of the domain inside.

Each command is one file under `commands/` with three parts: `add_arguments`, `run` (returns a value), `render` (prints it),
so that `--json` is the same value in another form. Only the module of the command that was asked for is imported.
stdout carries the result, stderr everything else.
"""

from mulligan.cli.main import main, process

__all__ = ["main", "process"]
