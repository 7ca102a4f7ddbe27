"""`mulligan completion`: a completion script for a shell."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mulligan.cli.command import Result
from mulligan.cli.completions import script
from mulligan.cli.context import Context

if TYPE_CHECKING:
    import argparse

USAGE = "completion {bash,zsh,fish}"
DESCRIPTION = """\
Print a completion script for your shell: commands, options, and the names and ids of checkpoints.
"""
EXAMPLES = (
    ('eval "$(mulligan completion bash)"', "for this bash session"),
    ('mulligan completion zsh > "${fpath[1]}/_mulligan"', "for zsh, from the next session on"),
    ("mulligan completion fish > ~/.config/fish/completions/mulligan.fish", "for fish"),
)
EXIT_CODES = (0, 2)
PATHS = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's own arguments."""
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), metavar="SHELL", help="bash, zsh or fish")


def run(_context: Context, args: argparse.Namespace) -> Result:
    """Makes the script."""
    text = script(args.shell)
    return Result(text, lambda: {"shell": args.shell, "script": text})


def render(context: Context, result: Result) -> None:
    """Prints the script."""
    context.out.stream.write(result.value)
