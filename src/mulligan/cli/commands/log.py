"""`mulligan log`: the timeline."""

from __future__ import annotations

import argparse
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

from mulligan.cli.arguments import UsageError, bounded
from mulligan.cli.bounds import add_bounds, given_bounds
from mulligan.cli.command import Result
from mulligan.cli.context import Context
from mulligan.model.checkpoint import KINDS, Checkpoint
from mulligan.present.log import log_lines
from mulligan.present.text import count

if TYPE_CHECKING:
    from mulligan.timeline.story import Chapter

USAGE = "log [-n N] [--kind K] [--story] [--since T] [PATH…]"
DESCRIPTION = """\
Show the timeline, newest first. `@` marks where you are.

Safety checkpoints, made before each undo and restore, are counted but not listed; `--kind safety` and `--json` list them.
With --story: what you asked, which tools ran for it, what each changed. Use the numbers as refs: `@prompt-2`, `@tool-17`
(newest session), `@SESSION/prompt-2`, or `MACHINE:@prompt-2`.
"""
EXAMPLES = (
    ("mulligan log -n 10 --kind manual", "the last ten that you saved yourself"),
    ("mulligan log --story -n 3", "the last three prompts, and what was done for them"),
    ("mulligan log --since yesterday src/app.py", "what changed one file, directory or pattern since then"),
)
EXIT_CODES = (0, 1, 90)
SAFETY = "safety"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's own arguments."""
    parser.add_argument("words", nargs="*", metavar="PATH", help="only checkpoints that changed these paths")
    parser.add_argument("-n", dest="limit", type=bounded("number", 0, inf, int), metavar="N", help="only the newest N")
    parser.add_argument("--kind", choices=KINDS, metavar="K", help="only manual, step, session, safety ones …")
    parser.add_argument("--story", action="store_true", help="prompts and tools of agents, and what they changed")
    parser.add_argument("--time", action="store_true", help="dates and times instead of ages")
    parser.add_argument("--graph", action="store_true", help="draw the tree of checkpoints")
    parser.add_argument("--path", dest="globs", metavar="GLOB", action="append", help="the same as PATH")
    parser.add_argument(
        "--remote", metavar="NAME", nargs="?", const="", help="ask a remote (default: the only one), without pulling"
    )
    parser.add_argument("--grep", metavar="WORDS", help="only with these words in it or its prompt")
    add_bounds(parser)


class Story(NamedTuple):
    """The work of agents, prompt by prompt; `elsewhere` says that a remote was asked."""

    chapters: list[Chapter]
    elsewhere: bool = False


class LogPage(NamedTuple):
    """The checkpoints to show, how many safety checkpoints are not shown, and how they are shown."""

    checkpoints: list[Checkpoint]
    folded: int
    absolute: bool
    graph: bool


def run(context: Context, args: argparse.Namespace) -> Result:
    """Reads the timeline."""
    typed = [*args.words, *args.paths, *(args.globs or ())]
    bounds = {**given_bounds(args), **({"grep": args.grep} if args.grep else {})}
    if args.story and args.kind:
        raise UsageError("--story tells what agents did; it takes no --kind.", hint="mulligan log --story")
    if args.remote is not None:
        context.decline()
        if not args.story and (typed or bounds or args.kind or args.graph):
            raise UsageError(
                "--remote lists all checkpoints; it takes -n, and with --story paths and bounds.",
                hint="mulligan pull, then mulligan log",
            )
    if args.remote is not None and not args.story:
        rows = context.workspace.remotes.log(args.remote or None)[: args.limit]
        return Result(rows, lambda: {"checkpoints": rows})
    if args.story:
        chapters = _told(context, args, typed, bounds)
        return Result(
            Story(chapters, args.remote is not None), lambda: {"story": [chapter.to_dict() for chapter in chapters]}
        )
    found = _found(context, args, typed, bounds)
    listed = found if context.json or args.kind or args.graph else _without_safety(context, found)
    folded = len(found) - len(listed)
    shown = LogPage(listed[: args.limit], folded, args.time, args.graph)
    return Result(shown, lambda: {"checkpoints": [checkpoint.to_dict() for checkpoint in shown.checkpoints]})


def _told(context: Context, args: argparse.Namespace, typed: list[str], bounds: dict[str, Any]) -> list[Chapter]:
    """Returns the prompts within the bounds that changed one of the paths."""
    paths, tell = context.paths(typed), context.workspace.story
    if args.remote is not None:
        tell = partial(context.workspace.remotes.story, args.remote or None)
    if paths is None:
        return tell(limit=args.limit, **bounds)
    from mulligan.cli.pathspec import matcher

    wanted = [matcher(path) for path in paths]

    def changed(chapter: Chapter) -> bool:
        return any(matches(path) for each in chapter.happened for path in each.changed for matches in wanted)

    return [each for each in tell(**bounds) if changed(each)][: args.limit]


def _found(context: Context, args: argparse.Namespace, typed: list[str], bounds: dict[str, Any]) -> list[Checkpoint]:
    """Returns the checkpoints of that kind that changed one of the paths; more than the limit where some may be folded."""
    workspace = context.workspace
    paths = context.paths(typed)
    if paths is None:
        more = workspace.stats()["by_kind"].get(SAFETY, 0) if args.limit is not None and not args.kind else 0
        return workspace.log(limit=None if args.limit is None else args.limit + more, kind=args.kind, **bounds)
    from mulligan.cli.pathspec import is_pattern, matcher

    wanted = [matcher(path) for path in paths]
    if len(paths) == 1 and not is_pattern(paths[0]):
        return workspace.log(kind=args.kind, path=paths[0], **bounds)
    found = workspace.log(kind=args.kind, **bounds)
    return [each for each in found if any(matches(path) for path in each.files_changed for matches in wanted)]


def _without_safety(context: Context, found: list[Checkpoint]) -> list[Checkpoint]:
    position = context.workspace.position()
    return [each for each in found if each.kind != SAFETY or each.id == position]


def render(context: Context, result: Result) -> None:
    """Prints one line per checkpoint, or the story."""
    if isinstance(result.value, list):
        from mulligan.present.log import remote_lines

        context.out.lines(remote_lines(result.value, now=context.now()))
        return
    if isinstance(result.value, Story):
        _tell(context, result.value)
        return
    shown, out = result.value, context.out
    if not shown.checkpoints:
        context.note("No checkpoint to show.")
        context.note_if_moved()
    out.lines(
        log_lines(
            shown.checkpoints,
            position=context.workspace.position(),
            now=context.now(),
            style=out.style,
            width=out.width,
            absolute=shown.absolute,
            graph=shown.graph,
        )
    )
    if shown.folded and shown.checkpoints:
        out.line(out.style("dim", f"{count(shown.folded, 'safety checkpoint')} not shown: mulligan log --kind safety"))


def _tell(context: Context, story: Story) -> None:
    from mulligan.present.story import story_lines

    if not story.chapters:
        known = story.elsewhere or context.workspace.agent_events(limit=1)
        context.note(
            "No prompt to show." if known else "No events of an agent yet. Install its hooks: mulligan install"
        )
    out = context.out
    out.lines(story_lines(story.chapters, now=context.now(), style=out.style, width=out.width))
