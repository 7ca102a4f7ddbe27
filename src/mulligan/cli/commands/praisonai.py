"""`mulligan praisonai`: PraisonAI's command line, word for word, over the same checkpoints."""

from __future__ import annotations

import argparse

from mulligan.cli.arguments import UsageError
from mulligan.cli.command import Result
from mulligan.cli.context import Context
from mulligan.dialects.praisonai.history import OURS, History, NotSaved
from mulligan.dialects.praisonai.types import Checkpoint, CheckpointConfig, CheckpointDiff
from mulligan.errors import MulliganError, NothingSaved, UserError
from mulligan.model.checkpoint import Checkpoint as Saved
from mulligan.present.text import columns
from mulligan.present.visible import visible

USAGE = "praisonai (save MESSAGE | list | restore ID | rewind [N] | diff [FROM] [TO] | delete [ID]) [OPTIONS]"
DESCRIPTION = """\
Checkpoints in PraisonAI's words, for scripts and habits that come from there.

They are ordinary checkpoints: `mulligan log` shows them and `mulligan undo` takes a restore or a rewind back. ID is an id,
the beginning of one, or `last`. A rewind counts from where the workspace is now and never goes to an empty beginning.

    save MESSAGE      save; exit 1 if nothing changed, unless --allow-empty
    list              newest first, 20 of them or as many as -n says, other tools' too
    restore ID        bring the workspace back, or to a step with --step N
    rewind [N]        N checkpoints back (default: 1)
    diff [FROM] [TO]  what differs; from the last checkpoint to the workspace by default
    delete [ID]       one checkpoint, or all of these with --all; asks first, and needs -y without a terminal
"""
EXAMPLES = (
    ('mulligan praisonai save "before refactor"', "a checkpoint"),
    ("mulligan praisonai restore last", "back to the newest"),
    ("mulligan praisonai rewind 2 -w project", "two back, in another directory"),
    ("mulligan praisonai delete --all -y", "all of them, without a question"),
)
EXIT_CODES = (0, 1, 3, 10, 11, 90, 91)
MOST_WORDS = {"save": 1, "list": 0, "restore": 1, "rewind": 1, "diff": 2, "delete": 1}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's own arguments."""
    parser.add_argument("action", choices=MOST_WORDS, metavar="ACTION", help=", ".join(MOST_WORDS))
    parser.add_argument("words", nargs="*", metavar="WORD", help="the message, ids or number of the action")
    parser.add_argument("-w", "--workspace", metavar="DIR", help="the workspace, like -C")
    parser.add_argument("--allow-empty", action="store_true", help="save: also if nothing changed")
    parser.add_argument("--step", type=int, metavar="N", help="save: number it; restore: go back to that step")
    parser.add_argument("-n", "--limit", type=int, default=20, metavar="N", help="list: how many (default: 20)")
    parser.add_argument("--all", action="store_true", help="delete: all of them")
    parser.add_argument("-y", "--yes", action="store_true", help="delete: do not ask")


def run(context: Context, args: argparse.Namespace) -> Result:
    """Checks the number of words, then does what the action says."""
    if len(args.words) > MOST_WORDS[args.action]:
        raise UsageError(
            f"`praisonai {args.action}` takes fewer words than that.",
            hint='A message of several words needs quotes: mulligan praisonai save "before refactor"',
        )
    if args.workspace:
        context.use(args.workspace)
    history = History(CheckpointConfig(context.settings.workspace), context.settings)
    context.adopt(history.open())
    return _DOING[args.action](context, history, args)


_WIDTH = 50
_LOOK = "See them: mulligan praisonai list"


def _save(context: Context, history: History, args: argparse.Namespace) -> Result:
    if not args.words:
        raise UsageError("A message is missing.", hint='mulligan praisonai save "before refactor"')
    try:
        saved = history.save(args.words[0], allow_empty=args.allow_empty, step=args.step).checkpoint
    except NotSaved as error:
        raise UserError(
            f"Failed to save checkpoint: {error.message}",
            hint="To make one all the same: mulligan praisonai save MESSAGE --allow-empty",
        ) from None
    history.prune(free=False)
    lines = [f"✓ Checkpoint saved: {saved.short_id}", f"Message: {visible(saved.message)}"]
    partial = not context.workspace.get(saved.id).complete
    return Result(lines, lambda: {"checkpoint": saved.to_dict()}, 3 if partial else 0)


def _list(_: Context, history: History, args: argparse.Namespace) -> Result:
    if args.limit < 1:
        raise UsageError("The limit is a number above 0.", hint="mulligan praisonai list -n 20")
    found = history.with_others()[: args.limit]
    mixed = any(maker != OURS["dialect"] for maker, _ in found)
    lines = _table(found, mixed=mixed) if found else ["No checkpoints found"]
    return Result(lines, lambda: {"checkpoints": [{**each.to_dict(), "from": maker} for maker, each in found]})


def _table(found: list[tuple[str, Checkpoint]], *, mixed: bool) -> list[str]:
    """Returns the lines of a list; who made each where other tools saved here too."""
    rows = [("ID", "Message", "Timestamp", "From")]
    for maker, each in found:
        message = visible(each.message)
        short = message[:_WIDTH] + "..." if len(message) > _WIDTH else message
        rows.append((each.short_id, short, each.timestamp.astimezone().strftime("%Y-%m-%d %H:%M:%S"), maker))
    rows = rows if mixed else [(*row[:3], "") for row in rows]
    return columns(rows)


def _restore(_: Context, history: History, args: argparse.Namespace) -> Result:
    if args.words and args.step is not None:
        raise UserError("Provide either a checkpoint id/'last' or --step N, not both. Nothing was changed.")
    if args.step is not None:
        target = history.find_step(args.step)
        if target is None:
            raise UserError(f"No checkpoint found for step: {args.step}. Nothing was changed.", hint=_LOOK)
    elif args.words:
        target = _resolve(history, args.words[0])
    else:
        raise UserError("Provide a checkpoint id/'last' or --step N. Nothing was changed.", hint=_LOOK)
    return _went_back(history, target, "Restored to checkpoint: {}")


def _rewind(_: Context, history: History, args: argparse.Namespace) -> Result:
    text = args.words[0] if args.words else "1"
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise UsageError(f"{text!r} is not a number above 0.", hint="mulligan praisonai rewind 2")
    try:
        target = history.rewind_target(int(text))
    except UserError as error:
        raise UserError(f"Failed to rewind: {error.message}", hint=_LOOK) from None
    return _went_back(history, target, f"Rewound {int(text)} checkpoint(s) to: {{}}")


def _went_back(history: History, target: Saved, said: str) -> Result:
    report = history.restore(target)
    lines = [f"✓ {said.format(target.short_id)}"]
    lines += [f"kept: {visible(keep.path)} ({keep.reason})" for keep in report.kept if keep.failed]
    document = {"checkpoint": target.to_dict(), "report": report.to_dict()}
    return Result(lines, lambda: document, 0 if report.complete else 3)


def _diff(context: Context, history: History, args: argparse.Namespace) -> Result:
    try:
        old, new = [*(_resolve(history, word).id for word in args.words), None, None][:2]
        found = history.diff(old, new)
    except UserError as error:
        # As in the original, a diff that cannot be had is no failure.
        said = error.message
        context.note(visible(said))
        return Result(["No changes"], lambda: {"error": said, "files": []})
    return Result(_diff_lines(found), found.to_dict)


def _diff_lines(found: CheckpointDiff) -> list[str]:
    if not found.files:
        return ["No changes"]
    width = max(len(visible(file.path)) for file in found.files)
    lines = [f"Changes from {found.from_checkpoint} to {found.to_checkpoint or 'working directory'}"]
    lines += [
        f"  {file.status:<8}  {visible(file.path):<{width}}  +{file.additions} -{file.deletions}"
        for file in found.files
    ]
    return [*lines, f"+{found.total_additions} -{found.total_deletions}"]


def _delete(context: Context, history: History, args: argparse.Namespace) -> Result:
    if args.words and args.all:
        raise UsageError("Either an id or --all, not both.", hint="mulligan praisonai delete ID")
    chosen = [_resolve(history, args.words[0])] if args.words else history.all()
    what = f"checkpoint {chosen[0].short_id}" if args.words else "all checkpoints"
    if not args.yes:
        if not context.interactive:
            raise UserError(
                f"Cannot ask whether {what} should be deleted, because there is no terminal. Nothing was deleted.",
                hint=f"mulligan praisonai delete {args.words[0] if args.words else '--all'} -y",
            )
        if not context.ask(f"Delete {what}?"):
            return Result(["Cancelled"], lambda: {"deleted": []})
    if args.words:
        history.delete(chosen[0])
    else:
        history.delete_all()
    said = f"✓ Checkpoint deleted: {chosen[0].short_id}" if args.words else "✓ All checkpoints deleted"
    return Result([said], lambda: {"deleted": [saved.id for saved in chosen]})


def _resolve(history: History, ref: str) -> Saved:
    """Returns what `last`, `latest`, an id or the beginning of one means; raises UserError otherwise."""
    if ref in ("last", "latest"):
        newest = history.latest()
        if newest is not None:
            return newest
    else:
        try:
            return history.find(ref)
        except NothingSaved:
            pass
        except MulliganError as error:
            error.hint = _LOOK
            raise
    raise UserError(f"No checkpoint found for: {ref}. Nothing was changed.", hint=_LOOK)


_DOING = {
    "save": _save,
    "list": _list,
    "restore": _restore,
    "rewind": _rewind,
    "diff": _diff,
    "delete": _delete,
}
