"""
The front door: from words to an exit code.

One boundary turns every error into output: what happened, what is safe, what to type next. With `--json` an error is a JSON
document too. An internal error becomes a report in the state directory, ready to be sent, and exit code 70.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from mulligan.cli.arguments import UsageError, load, parse, split_command, wants
from mulligan.cli.command import Command, Result
from mulligan.cli.commands import HANDED_ON, NO_START
from mulligan.cli.context import Context, Lender
from mulligan.cli.screen import abandon, as_json, is_paged, steady_streams
from mulligan.errors import MulliganError

# What a stream says that takes no more.
UNWRITABLE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG, errno.EBADF})


class Circumstances(NamedTuple):
    """
    The surroundings of a command: environment, a lent workspace, and whether the process ends.

    `caller` is the process that asked for it, where that is another one.
    """

    environ: Mapping[str, str]
    lend: Lender | None
    last: bool = False
    caller: int = 0


def main(argv: Sequence[str] | None = None, *, last: bool = False) -> int:
    """Runs one command and returns its exit code; `last`: the process ends with it."""
    steady_streams()
    return _run_in(list(sys.argv[1:] if argv is None else argv), Circumstances(os.environ, None, last))


def run(words: list[str], environ: Mapping[str, str], lend: Lender | None = None, caller: int = 0) -> int:
    """Runs one command for another process, `caller`, with that user's environment, in the workspace of `lend` if given."""
    return _run_in(words, Circumstances(environ, lend, caller=caller))


def _run_in(words: list[str], around: Circumstances) -> int:
    json = wants(words, "--json")
    try:
        return _dispatch(words, around, json=json)
    except BrokenPipeError:
        abandon(sys.stdout)  # the reader has read enough
        return 0
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - the one boundary of this door
        from mulligan.cli.failure import explain_error

        code = explain_error(error, words, around.environ, json=json)
        # Agents take exit code 2 of a hook for the order to stop the tool.
        return 1 if code == 2 and command_of(words) == "hook" else code


def command_of(words: list[str]) -> str | None:
    """Returns the command among the words, None where there is none."""
    try:
        return split_command(words).command
    except UsageError:
        return None


def _dispatch(words: list[str], around: Circumstances, *, json: bool) -> int:
    request = split_command(words)
    name, rest = request.command, request.words
    if name == "help":
        name, rest = (rest[0], ["-h"]) if rest and not rest[0].startswith("-") else (None, ["-h"])
    if name is None:
        from mulligan.cli.help import without_command

        return without_command(rest, json=json)
    command = load(name)
    if wants(rest, "-h", "--help"):
        from mulligan.cli.help import say_help

        return say_help(name, command, json=json)
    return _run(name, command, rest, around)


def _run(name: str, command: Command, words: list[str], around: Circumstances) -> int:
    args = parse(name, command, words)
    context = Context(
        directory=args.directory,
        store=args.store,
        wait=args.wait,
        json=args.json,
        environ=around.environ,
        lend=around.lend,
        last=around.last,
        caller=around.caller,
        color=args.color or "auto",
    )
    try:
        result = command.run(context, args)
        context.quiet()
        # A watcher only writes for its client, which pages what comes back.
        paged = around.lend is None and is_paged(name, words)
        code = _show(context, command, result, name, paged=paged)
    finally:
        if name != "hook":  # an agent reads what its hook says; `status` tells a person
            _remark(context)
        context.close()
    if around.lend is None and name in HANDED_ON:
        _keep_warm(context, name)
    return code


def _keep_warm(context: Context, name: str) -> None:
    """Starts a watcher for later commands if the configuration says so; does not wait for it."""
    try:
        if context.environ.get("MULLIGAN_WATCH") not in NO_START and context.wants_watcher(name):
            from mulligan.cli.watchers import IDLE, keep_warm, start

            if keep_warm(context.settings, dict(context.environ)):
                start(context, idle=IDLE / 60)
    except (OSError, MulliganError):
        return  # the command itself is done; it is only not faster next time


def _show(context: Context, command: Command, result: Result, name: str, *, paged: bool = False) -> int:
    """Prints the result and returns the exit code: a result that cannot be printed is no success."""
    try:
        if context.json:
            sys.stdout.write(as_json(result.json()))
        elif paged:
            from mulligan.cli.pager import page

            page(context.out.take(lambda: command.render(context, result)), context.environ)
        else:
            command.render(context, result)
        sys.stdout.flush()
    except BrokenPipeError:
        abandon(sys.stdout)  # the work is done all the same, and the exit code says how well
    except OSError as error:
        if error.errno not in UNWRITABLE:
            raise
        from mulligan.cli.failure import unprinted

        return unprinted(error, result.exit_code, name)
    return result.exit_code


def _remark(context: Context) -> None:
    try:
        remarks = context.remarks()
    except (MulliganError, OSError):
        return  # the store cannot be asked; the command itself has said why
    for remark in remarks:
        from mulligan.present.visible import visible

        context.note(visible(remark))
