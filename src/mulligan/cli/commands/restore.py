"""`mulligan restore`: bring the workspace back to a checkpoint."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from mulligan.cli.arguments import UsageError
from mulligan.cli.command import Result
from mulligan.cli.context import Context
from mulligan.cli.restoring import Done, circumstances, finished, in_same_project, render_restore
from mulligan.model.plan import RestorePlan, RestoreReport
from mulligan.present.outcome import named, plan_lines
from mulligan.present.visible import visible

if TYPE_CHECKING:
    from mulligan.engine.workspace import Workspace

USAGE = "restore [REF | --before WORDS] [-y] [--dry-run] [-p] [--git] [--state | --all] [PATH…]"
DESCRIPTION = """\
Restore the project, or some paths of it, to a checkpoint.

The plan is shown first, and on a terminal you are asked. The present state is saved first, so `mulligan undo` undoes the
restore. Files that were never saved are not touched. With --all, the agent's conversation goes back too, and the command
that resumes it is printed. Git stays where it is unless you say --git: then HEAD, its branch and the index go back as well.
"""
EXAMPLES = (
    ('mulligan restore "login works"', "show the plan, ask, restore"),
    ("mulligan restore @ src '*.md'", "only these, as they were at the last checkpoint"),
    ("mulligan restore @prompt-2 --dry-run", "the plan for going back to an agent's second prompt, and nothing else"),
)
EXIT_CODES = (0, 1, 3, 10, 11, 83, 90, 91)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's own arguments."""
    parser.add_argument(
        "ref",
        metavar="REF",
        nargs="?",
        help="@, latest~2, @prompt-2, @tool-17, '20 minutes ago', @14:05, a name or an id",
    )
    parser.add_argument("words", nargs="*", metavar="PATH", help="only these files, directories or patterns")
    parser.add_argument(
        "--before", metavar="WORDS", help="the state before the newest prompt or tool call that mentions this"
    )
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask")
    parser.add_argument("--dry-run", action="store_true", help="print the plan and change nothing")
    parser.add_argument("-p", "--patch", action="store_true", help="choose hunks on the terminal")
    parser.add_argument("--git", action="store_true", help="move HEAD, its branch and the index back too")
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--state",
        dest="what",
        action="store_const",
        const="state",
        default="files",
        help="the agent's state, not the files",
    )
    what.add_argument("--all", dest="what", action="store_const", const="all", help="files and state")


def run(context: Context, args: argparse.Namespace) -> Result:
    """Plans, asks, applies."""
    if args.before is not None and args.ref is not None:
        args.words.insert(0, args.ref)  # with --before, every other word is a path
        args.ref = None
    args.ref = args.ref or (f"@before:{args.before}" if args.before is not None else _picked(context))
    if args.patch:
        if args.git or args.what != "files":
            raise UsageError("-p chooses hunks of files: it goes with neither --git nor --state nor --all.")
        from mulligan.cli import hunk_chooser

        hunk_chooser.refuse_without_terminal(context, "restore REF")
    workspace = context.saved
    return _restored(context, args) if args.what == "files" else _with_conversation(context, args, workspace)


def _picked(context: Context) -> str:
    """Returns the checkpoint that a person picks from a list."""
    if not context.interactive:
        raise UsageError("Either REF or --before WORDS is needed.", hint='mulligan restore --before "the migration"')
    from mulligan.cli.picker import pick

    return pick(context, question="Restore which state? Nothing changes before you are asked again.", steps=False)


def _with_conversation(context: Context, args: argparse.Namespace, workspace: Workspace) -> Result:
    """Restores, and makes a session of the agent that ends where the checkpoint was made."""
    from uuid import uuid4

    from mulligan.hooks.conversation import NAME, place_of, resume

    place = place_of(workspace.agent_event_at(args.ref), workspace.get(args.ref))
    if place is None or args.dry_run:
        return _restored(context, args)
    there, make_current = resume(place, str(uuid4()))
    result = _restored(context, args)
    code, document = result.exit_code, {"file": there.file or None, "type": there.type}
    try:
        make_current()
        workspace.state_owed(forgive=True)
    except OSError as error:
        context.note(f"partial: the files are back, the conversation is not ({error.strerror})")
        code, document = 3, {"file": None, "type": ""}
    return Result((*result.value, document["type"]), lambda: {**result.json(), NAME: document}, code)


def _restored(context: Context, args: argparse.Namespace) -> Result:
    workspace = context.workspace
    paths = _paths(context, args)
    asks = args.patch or (context.interactive and not args.yes)
    if not asks and not args.dry_run:
        # Without a question the plan is made and applied in one scan.
        def restore() -> RestoreReport:
            return workspace.restore(args.ref, paths=paths, what=args.what, git=args.git)

        return finished(workspace, in_same_project(context, restore), paths)
    plan = workspace.plan(args.ref, paths=paths, what=args.what, git=args.git)
    if args.patch:
        from mulligan.cli import hunk_chooser

        plan = workspace.plan(args.ref, paths=paths, hunks=hunk_chooser.choose_hunks(context, plan, "Restore"))
    if args.dry_run:
        return Result(plan, lambda: {"plan": plan.to_dict()})
    if not plan.is_noop and not args.patch:
        context.err.lines([*plan_lines(plan, context.err.style), *circumstances(plan)])
        context.insist(f"Restore {named(workspace.get(plan.target), context.now())}?")
    return finished(workspace, in_same_project(context, lambda: workspace.apply(plan, strict=False)), paths)


def _paths(context: Context, args: argparse.Namespace) -> list[str] | None:
    """Returns the paths that were typed, patterns replaced by what they match; None for all of the workspace."""
    typed = [*args.words, *args.paths]
    if not typed:
        return None
    from mulligan.cli.pathspec import chosen

    def planned() -> list[str]:
        plan = context.workspace.plan(args.ref, what=args.what)
        return [*plan.creates, *plan.modifies, *plan.deletes]

    return chosen(context, typed, [args.ref], planned)


def render(context: Context, result: Result) -> None:
    """Prints the plan, or what was done."""
    if isinstance(result.value, RestorePlan):
        context.out.lines([*plan_lines(result.value, context.out.style), *circumstances(result.value)])
        return
    render_restore(context, Done(*result.value[:3]))
    context.out.lines([f"Resume the conversation from there: {visible(each)}" for each in result.value[3:] if each])
