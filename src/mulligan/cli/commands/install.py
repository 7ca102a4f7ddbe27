"""`mulligan install`: put mulligan's own files where an agent looks for them."""

from __future__ import annotations

import argparse
from contextlib import suppress

from mulligan.cli.command import Result
from mulligan.cli.context import Context
from mulligan.cli.hook_files import expect_hooks, home_of, hook_program
from mulligan.errors import MulliganError
from mulligan.install.agents import AGENTS
from mulligan.install.editing import Wiring, carry_out
from mulligan.install.folder import KEEP, NOTE, REPLACE, UNCHANGED, Installed, InstalledFolder, InstallStep
from mulligan.install.targets import PROJECT, SCOPES, TARGETS, destination
from mulligan.present.text import count
from mulligan.present.timeline import unsaved_lines
from mulligan.present.visible import visible

USAGE = "install [AGENT] [--scope project|user] [--dry-run] [--uninstall] [--force] [-y]"
DESCRIPTION = """\
Install the hooks of an agent: each of its prompts and tool calls becomes a checkpoint. Without AGENT, list the agents.

The plan is shown first; on a terminal you are asked. Your own settings in these files stay, and a file that cannot be read is
left alone. Run it again to update. --uninstall removes what was installed.
"""
EXAMPLES = (
    ("mulligan install claude-code --dry-run", "see what would be written, and where"),
    ("mulligan install claude-code", "from now on every tool call of Claude Code in this project is a checkpoint"),
    ("mulligan install codex --scope user", "the same for Codex, in all your projects"),
    ("mulligan install claude-code --uninstall", "take it away again"),
)
EXIT_CODES = (0, 1, 2)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's own arguments."""
    parser.add_argument("agent", nargs="?", choices=list(_known()), metavar="AGENT", help=", ".join(_known()))
    parser.add_argument(
        "--scope",
        choices=SCOPES,
        default=PROJECT,
        help="for this project, or for you in all of them (default: project)",
    )
    parser.add_argument("--dry-run", action="store_true", help="only show what would be done")
    parser.add_argument("--uninstall", action="store_true", help="remove what was installed")
    parser.add_argument("--force", action="store_true", help="replace files that you changed, keeping a copy of each")
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask")


def _known() -> dict[str, str]:
    wired = {each.name: each.summary for each in AGENTS.values()}
    return wired | {each.name: each.summary for each in TARGETS.values()}


def run(context: Context, args: argparse.Namespace) -> Result:
    """Installs, uninstalls or lists."""
    if args.agent is None:
        known = {"agents": [{"name": name, "summary": summary} for name, summary in _known().items()]}
        return Result(known, lambda: known)
    directory, done = _wire(context, args) if args.agent in AGENTS else _copy(context, args)
    names_unsaved = args.agent in AGENTS and args.scope == PROJECT and not args.uninstall and not args.dry_run
    document = {
        "agent": args.agent,
        "scope": args.scope,
        "directory": directory,
        "uninstall": args.uninstall,
        "dry_run": args.dry_run,
        "steps": [step.to_dict() for step in done.steps],
        "copies": done.copies,
        "then": AGENTS[args.agent].then if args.agent in AGENTS and not args.uninstall else "",
        "not_saved": _will_not_be_saved(context) if names_unsaved else [],
    }
    return Result(document, lambda: document)


def _will_not_be_saved(context: Context) -> list[str]:
    """Returns these lines for the next checkpoint of the workspace; none where it cannot be scanned."""
    try:
        return unsaved_lines(context.workspace.not_captured())
    except MulliganError:
        return []  # the first checkpoint tells what is wrong


def _wire(context: Context, args: argparse.Namespace) -> tuple[str, Installed]:
    """Edits the settings of an agent."""
    project, home = context.settings.workspace, home_of(context)
    wiring = Wiring(AGENTS[args.agent], args.scope, project=project, home=home)
    planned = wiring.plan_removal() if args.uninstall else wiring.plan(hook_program(context.environ))
    steps = [each.step for each in planned]
    directory = project if args.scope == PROJECT else home.path
    if not args.dry_run:
        _confirm(context, args, steps, directory)
        carry_out(planned)
        if args.scope == PROJECT:
            with suppress(MulliganError):  # a store that cannot be written does not matter here: the hooks are in place
                expect_hooks(context, args.agent)
    return directory, Installed(steps, [])


def _copy(context: Context, args: argparse.Namespace) -> tuple[str, Installed]:
    """Puts a folder of ours where an agent looks."""
    target = TARGETS[args.agent]
    to = destination(target, args.scope, project=context.settings.workspace, home=home_of(context))
    folder = InstalledFolder(to)
    steps = folder.plan_removal() if args.uninstall else folder.plan(target.files())
    done = Installed(steps, [])
    if not args.dry_run:
        _confirm(context, args, steps, to.directory)
        done = folder.uninstall() if args.uninstall else folder.install(target.files(), force=args.force)
    return to.directory, done


def _confirm(context: Context, args: argparse.Namespace, steps: list[InstallStep], directory: str) -> None:
    if args.yes or not context.interactive or not _changing(steps):
        return
    context.err.lines(_lines(directory, steps))
    context.insist("Remove these?" if args.uninstall else "Write these?")


def _changing(steps: list[InstallStep]) -> list[InstallStep]:
    return [step for step in steps if step.action not in {UNCHANGED, KEEP}]


def _lines(directory: str, steps: list[InstallStep]) -> list[str]:
    return [f"in {visible(directory)}", *(f"  {step.action:<9} {visible(step.path)}" for step in steps)]


def render(context: Context, result: Result) -> None:
    """Prints what was, or would be, done to each file."""
    found, out = result.value, context.out
    if "agents" in found:
        out.lines([f"{each['name']}  {each['summary']}" for each in found["agents"]])
        return
    steps = [InstallStep(**step) for step in found["steps"]]
    out.lines(_lines(found["directory"], steps))
    out.lines([f"  your version of it is kept as {visible(copy)}" for copy in found["copies"]])
    changed = _changing(steps)
    if not changed:
        out.line("nothing to do" if steps else "nothing is installed there")
    elif found["dry_run"]:
        out.line(f"{count(len(changed), 'file')} would be {'removed' if found['uninstall'] else 'written'}")
        if any(step.action == REPLACE for step in steps):
            out.line("`replace` is about files that were changed after install: only with --force, and a copy is kept")
    else:
        out.line(f"{'uninstalled' if found['uninstall'] else 'installed'}: {count(len(changed), 'file')}")
    if found["then"] and not found["dry_run"]:
        out.line(found["then"])
    out.lines(found["not_saved"])
    if any(step.action == KEEP for step in steps):
        out.line(f"kept, because it was changed after install; remove it yourself if you do not need it (and {NOTE})")
