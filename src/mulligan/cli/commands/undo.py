"""`mulligan undo`: one operation back."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, NamedTuple

from mulligan.cli.arguments import UsageError
from mulligan.cli.command import Result
from mulligan.cli.context import Context
from mulligan.cli.pathspec import expanded, is_pattern
from mulligan.cli.restoring import Done, circumstances, finished, in_same_project, render_undo
from mulligan.errors import UserError
from mulligan.model.plan import Undone
from mulligan.present.outcome import about, name_of, named, plan_lines
from mulligan.present.text import count

if TYPE_CHECKING:
    from mulligan.engine.workspace import Workspace

USAGE = "undo [N | --pick] [--dry-run] [--session ID] [-p] [--git] [[--] PATH…]"
DESCRIPTION = """\
Undo the last prompt, restore or unsaved change. Run it again to undo one more.

All that an agent did for one prompt is undone together. What you or another agent changed since then is kept, merged line by
line; a file that cannot be merged is left alone and listed (exit code 3). The present state is saved first, so `mulligan redo`
brings it back.
"""
EXAMPLES = (
    ("mulligan undo", "undo what just happened"),
    ("mulligan undo 3", "undo the last three operations"),
    ("mulligan undo --session 1bd24cd5", "undo the last turn of that agent only"),
    ("mulligan undo src/login.py", "undo it in this file only"),
)
EXIT_CODES = (0, 1, 3, 10, 11, 90, 91)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's own arguments."""
    parser.add_argument(
        "words", nargs="*", metavar="N|PATH", help="how many operations; or only these paths, patterns too"
    )
    parser.add_argument("--dry-run", action="store_true", help="print the plan and change nothing")
    parser.add_argument("-p", "--patch", action="store_true", help="choose hunks on the terminal")
    parser.add_argument("--pick", action="store_true", help="choose a prompt or step from a list; later ones are kept")
    parser.add_argument("--git", action="store_true", help="move HEAD, its branch and the index back too")
    parser.add_argument(
        "--session",
        metavar="ID",
        help="only the newest turn of this agent's session; the beginning of its id is enough",
    )


def run(context: Context, args: argparse.Namespace) -> Result:
    """Goes back."""
    if args.patch:
        if args.git:
            raise UsageError("-p chooses hunks of files: it does not go with --git.")
        from mulligan.cli import hunk_chooser

        hunk_chooser.refuse_without_terminal(context, "undo")
    if args.pick:
        return _picked(context, args)
    workspace = context.saved
    number, paths = _number_and_paths(context, workspace, args)
    options: dict[str, Any] = {"session": args.session, "paths": paths, "git": args.git}
    if args.patch:
        from mulligan.cli import hunk_chooser

        options["hunks"] = hunk_chooser.choose_hunks(context, workspace.undo(dry_run=True, **options), "Undo")
    if args.dry_run:
        plan = workspace.undo(dry_run=True, **options)
        return Result(plan, lambda: {"plan": plan.to_dict()})
    done: list[Result] = []
    for _ in range(number):
        try:
            if context.interactive:
                _ask_first(context, workspace, options)
            report = in_same_project(context, lambda: workspace.undo(**options))
        except UserError as error:
            if not done:
                raise
            return _together(done, error.message)
        done.append(finished(workspace, report, paths))
    return _together(done)


class Picked(NamedTuple):
    """The undo of a step that a person picked: a revert."""

    result: Result


def _picked(context: Context, args: argparse.Namespace) -> Result:
    """Lets a person pick a step, shows the plan, and undoes that step alone."""
    if args.git or args.session:
        raise UsageError("--pick chooses a step itself: it goes with neither --git nor --session.")
    if not context.interactive:
        raise UsageError("--pick needs a terminal.", hint="mulligan log --story, then: mulligan revert REF")
    from mulligan.cli.commands import revert
    from mulligan.cli.picker import pick

    args.ref = pick(context, question="Undo which step? Later ones are kept, and you are asked again.", steps=True)
    args.conflicts = "keep"
    if not args.dry_run and not args.patch:
        plan = context.workspace.revert(args.ref, dry_run=True)
        context.err.lines([*plan_lines(plan, context.err.style), *circumstances(plan)])
        context.insist("Undo this step?")
    result = revert.run(context, args)
    return Result(Picked(result), result.json, result.exit_code)


def _number_and_paths(context: Context, workspace: Workspace, args: argparse.Namespace) -> tuple[int, list[str] | None]:
    """Returns how many operations to undo and in which paths; a number that is a file's name too is the number."""
    words, number = list(args.words), 1
    if words and words[0].isascii() and words[0].isdigit():
        number = int(words.pop(0))
        if not number or ((args.dry_run or args.patch) and number > 1):
            what = (
                f"{'-p' if args.patch else '--dry-run'} shows one operation."
                if number
                else "The number of operations is at least 1."
            )
            raise UsageError(what, hint="mulligan undo --dry-run")
    paths = context.paths([*words, *args.paths])
    if paths is None or not any(map(is_pattern, paths)):
        return number, paths
    plan = workspace.undo(dry_run=True, session=args.session)
    return number, expanded(paths, [*plan.creates, *plan.modifies, *plan.deletes])


def _together(done: list[Result], ended: str = "") -> Result:
    """Returns several undos as one result; `ended` says why there are fewer than asked for."""
    if len(done) == 1 and not ended:
        return done[0]
    document = {**done[-1].json(), "reports": [each.json()["report"] for each in done]}
    return Result((done, ended), lambda: document, 3 if ended else max(each.exit_code for each in done))


def _ask_first(context: Context, workspace: Workspace, options: dict[str, Any]) -> None:
    """Asks where the undo may surprise: its agent is at work, another branch is checked out, or you saved since."""
    plan = workspace.undo(dry_run=True, **options)
    if warnings := [*circumstances(plan), *_saved_since(context, workspace, plan.undone)]:
        context.err.lines(warnings)
        undone = plan.undone
        name = name_of(undone.checkpoint, workspace.get) if undone is not None and undone.kind != "turn" else ""
        what = about(undone, context.now(), name) if undone is not None else "it"
        context.insist(f"Undo {what}?")


def _saved_since(context: Context, workspace: Workspace, undone: Undone | None) -> list[str]:
    """Returns a line about the newest checkpoint that a person saved after the prompt that is to be undone."""
    if undone is None or undone.kind != "turn" or undone.at is None:
        return []
    newest = workspace.log(limit=1, kind="manual")
    if not newest or newest[0].created_at <= undone.at:
        return []
    return [f"You saved {named(newest[0], context.now())} after this prompt. What you changed is kept."]


def render(context: Context, result: Result) -> None:
    """Prints the plan, or what was undone."""
    if isinstance(result.value, Picked):
        from mulligan.cli.commands import revert

        revert.render(context, result.value.result)
        return
    if isinstance(result.value, Done):
        render_undo(context, result, again="redo")
        return
    if isinstance(result.value, tuple):
        done, ended = result.value
        for each in done:
            render_undo(context, each, again="redo")
        if ended:
            context.note(f"Stopped after {count(len(done), 'operation')}. {ended}")
        return
    plan, out = result.value, context.out
    if plan.undone is not None:
        out.line(f"Would undo {about(plan.undone, context.now())}:")
    out.lines([*plan_lines(plan, out.style), *circumstances(plan)])
