"""`mulligan log`: the timeline."""

from __future__ import annotations

from mulligan.cli.command import Result
from mulligan.cli.context import Context
from mulligan.cli.usage import UsageError
from mulligan.model.checkpoint import KINDS
from mulligan.model.typed import TYPE_CHECKING, Any, NamedTuple
from mulligan.present.timeline import log_lines

if TYPE_CHECKING:
    import argparse

USAGE = "log [-n N] [--kind K] [-- PATH] | log [-n N] --story"
DESCRIPTION = """\
Show the timeline, newest first.

The position, marked `@`, is the checkpoint last saved or restored to. A restore hides nothing: what came after it is
still here, and can be restored too.

With --story, what agents did: what you asked, which tools ran for it, what each of them changed. `@prompt-2` and `@tool-17` are
references, as the numbers there say, in the newest session; of another session, `@ID/prompt-2`.
"""
EXAMPLES = (
    ("mulligan log", "all of it"),
    ("mulligan log -n 10 --kind manual", "the last ten that you saved yourself"),
    ("mulligan log --story -n 3", "the last three prompts, and what was done for them"),
    ("mulligan log -- src/app.py", "those that changed one file, or one directory"),
)
EXIT_CODES = (0, 1, 90)
PATHS = "one"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's own arguments."""
    parser.add_argument("-n", dest="limit", type=_positive, metavar="N", help="only the newest N")
    parser.add_argument("--kind", choices=KINDS, help="only this kind")
    parser.add_argument("--story", action="store_true", help="prompts and tools of agents, and what they changed")


class Story(NamedTuple):
    """What agents did, prompt by prompt."""

    chapters: list[Any]


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


_positive.__name__ = "number above 0"


def run(context: Context, args: argparse.Namespace) -> Result:
    """Reads the timeline."""
    if args.story and (args.kind or args.paths):
        raise UsageError(
            "--story tells all that agents did; it takes no --kind and no path.", hint="mulligan log --story"
        )
    if args.story:
        chapters = context.workspace.story(limit=args.limit)
        return Result(Story(chapters), lambda: {"story": [chapter.to_dict() for chapter in chapters]})
    paths = context.paths(args.paths)
    found = context.workspace.log(limit=args.limit, kind=args.kind, path=paths[0] if paths else None)
    return Result(found, lambda: {"checkpoints": [checkpoint.to_dict() for checkpoint in found]})


def render(context: Context, result: Result) -> None:
    """Prints one line per checkpoint, or the story."""
    if isinstance(result.value, Story):
        _tell(context, result.value)
        return
    if not result.value:
        context.note("No checkpoint to show.")
        return
    context.out.lines(
        log_lines(
            result.value,
            position=context.workspace.position(),
            now=context.now(),
            style=context.out.style,
            width=context.out.width,
        )
    )


def _tell(context: Context, story: Story) -> None:
    from mulligan.present.story import story_lines

    if not story.chapters:
        context.note("No events of an agent yet. Install its hooks: mulligan install")
    out = context.out
    out.lines(story_lines(story.chapters, now=context.now(), style=out.style, width=out.width))
