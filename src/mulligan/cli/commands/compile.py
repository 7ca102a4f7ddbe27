"""`mulligan compile`: build the optional compiled part."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from mulligan.cli.command import Result
from mulligan.cli.context import Context
from mulligan.errors import UserError
from mulligan.safefs import compiled
from mulligan.safefs.gathering import gather
from mulligan.settings import places

if TYPE_CHECKING:
    import argparse

USAGE = "compile [--status | --remove]"
DESCRIPTION = """\
Build the optional compiled part, with the C compiler of this machine.

It looks at many files at once, in two threads, and reads, hashes and compresses those that changed, so that a save takes
less time in a large project or after many changes; and it takes over what git knows at the first checkpoint of a
repository. Beside it, our own modules are put into one file, so that
commands start sooner. What is saved and restored is the same with and without it. It lies below your state directory, for
you alone, and is built for this version and this Python: after an upgrade, build it again.
"""
EXAMPLES = (
    ("mulligan compile", "build it"),
    ("mulligan compile --status", "whether there is one"),
    ("mulligan compile --remove", "do without it again"),
)
EXIT_CODES = (0, 1)
PATHS = ""
_FLAGS = ("-O2", "-std=c99", "-shared", "-fPIC", "-pthread", "-x", "c", "-")
_PATIENCE = 120


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's own arguments."""
    one = parser.add_mutually_exclusive_group()
    one.add_argument("--status", action="store_true", help="say whether there is one")
    one.add_argument("--remove", action="store_true", help="remove it")


def run(context: Context, args: argparse.Namespace) -> Result:
    """Builds, removes, or says what there is."""
    place = os.path.join(places(context.environ).state, "mulligan", "compiled")
    if args.remove:
        text = "Removed." if compiled.remove(place) else "Not built; nothing to remove."
    elif args.status:
        there = compiled.load(place) is not None
        text = "Built and in use." if there else "Not built; build it with: mulligan compile"
    else:
        text = f"Built {build(place, context.environ.get('CC') or 'cc')}"
        gather(place, compiled.library_name())
    usable = compiled.load(place) is not None
    return Result(text, lambda: {"usable": usable, "directory": place})


def build(place: str, compiler: str) -> str:
    """Builds the compiled part in a directory; returns its path."""
    import subprocess

    from mulligan.safefs.durable import make_private

    make_private(place)
    made = f"{compiled.PREFIX.decode()}{os.getpid()}.tmp"
    command = [*compiler.split(), *_FLAGS, "-o", os.path.join(place, made)]
    try:
        done = subprocess.run(  # noqa: S603 - the user's own compiler, on the package's own source
            command, input=compiled.source(), capture_output=True, check=False, timeout=_PATIENCE
        )
    except FileNotFoundError:
        raise UserError(
            f"There is no C compiler ({compiler}). Nothing was changed; everything works without.",
            hint="Install one (gcc or clang), or name it: CC=clang mulligan compile",
        ) from None
    except subprocess.TimeoutExpired:
        raise UserError(f"The compiler ({compiler}) did not end. Nothing was changed.") from None
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()[-500:]
        raise UserError(f"The compiler ({compiler}) failed: {said}. Nothing was changed.")
    path = compiled.keep(place, made)
    if compiled.load(place) is None:
        compiled.remove(place)
        raise UserError("What the compiler made cannot be loaded here. Nothing was changed; everything works without.")
    return path


def render(context: Context, result: Result) -> None:
    """Prints one line."""
    context.out.line(result.value)
