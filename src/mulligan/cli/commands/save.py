"""`mulligan save`: a checkpoint of the whole workspace."""

from __future__ import annotations

import argparse

from mulligan.cli.arguments import UsageError
from mulligan.cli.command import Result
from mulligan.cli.context import Context
from mulligan.model.checkpoint import SAVED_KINDS, Checkpoint
from mulligan.present.visible import visible

USAGE = "save [NAME] [-m TEXT] [--kind K] [--if-changed] [--git] [--context K=V …]"
DESCRIPTION = """\
Save a checkpoint of the whole project.

Every file is saved, whether git knows it or not, except ignored files and what the configuration excludes;
`mulligan status` lists those. Secrets that git does not track are saved encrypted. When the command returns, the
checkpoint survives a power cut.
"""
EXAMPLES = (
    ('mulligan save "login works"', "a checkpoint with a name"),
    ("mulligan save", "a checkpoint without one"),
    ("mulligan save --if-changed --kind step", "for a hook: nothing happens if nothing changed"),
    ("mulligan save v1 -m 'before the migration' --context ticket=42", "with a description and context"),
)
EXIT_CODES = (0, 1, 3, 11, 90, 91)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's own arguments."""
    parser.add_argument("name", nargs="?", metavar="NAME", help="a name to find it by; the newest of a name wins")
    parser.add_argument("-m", "--description", metavar="TEXT", default="", help="a longer note")
    parser.add_argument(
        "--kind", choices=SAVED_KINDS, metavar="K", default="manual", help=f"{', '.join(SAVED_KINDS)} (default: manual)"
    )
    parser.add_argument("--if-changed", action="store_true", help="only if something changed")
    parser.add_argument("--git", action="store_true", help="record HEAD, branch and index too")
    parser.add_argument(
        "--context",
        nargs="+",
        action="extend",
        default=[],
        metavar="K=V",
        help="facts to keep with it; may be repeated",
    )


def run(context: Context, args: argparse.Namespace) -> Result:
    """Saves the checkpoint."""
    name, facts = _name_and_context(args.name, args.context)
    saved = context.workspace.save(
        name, description=args.description, kind=args.kind, context=facts, if_changed=args.if_changed, git=args.git
    )
    partial = saved is not None and not saved.complete
    return Result(saved, lambda: {"checkpoint": saved.to_dict() if saved else None}, 3 if partial else 0)


def _name_and_context(name: str | None, pairs: list[str]) -> tuple[str | None, dict[str, str]]:
    # `--context a=1 NAME`: the last word belongs to NAME, although the option takes many.
    if name is None and pairs and "=" not in pairs[-1]:
        name = pairs.pop()
    for pair in pairs:
        if not pair.partition("=")[0] or "=" not in pair:
            raise UsageError(f"{pair!r} is not KEY=VALUE.", hint="mulligan save --context ticket=42")
    return name, {key: value for key, _, value in (pair.partition("=") for pair in pairs)}


def render(context: Context, result: Result) -> None:
    """Prints one line, and what is missing if something is."""
    saved: Checkpoint | None = result.value
    if saved is None:
        context.out.line("No changes; nothing saved.")
        return
    from mulligan.present.timeline import saved_lines, unsaved_lines
    from mulligan.timeline.trees import TURNED_WORKTREE

    context.out.lines(saved_lines(saved, context.out.style))
    for entry in saved.not_captured:
        if entry.detail == TURNED_WORKTREE:
            context.note(
                f"{visible(entry.path)} is a git worktree now: it has a history of its own, and is not saved here."
            )
    if context.settings.retention.total_budget:
        from mulligan.timeline.stores import total_warning

        if said := total_warning(context.settings):
            context.note(f"warning: {said}")
    if saved.parent is None:
        from mulligan.timeline.stores import size_warning

        context.note(f"First checkpoint of {context.settings.workspace}")
        context.note_if_moved()
        if large := size_warning(saved.first_changed(0)[1]):
            context.note(f"warning: {large}")
        for line in unsaved_lines(saved.not_captured):
            context.note(line)
