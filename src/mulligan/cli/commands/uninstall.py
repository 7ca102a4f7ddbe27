"""`mulligan uninstall`: take away hooks, watchers and, if asked, stores."""

from __future__ import annotations

import argparse
import os
from contextlib import suppress
from typing import Any, NamedTuple

from mulligan import engine, settings
from mulligan.cli import watchers
from mulligan.cli.command import Result
from mulligan.cli.context import Context
from mulligan.cli.hook_files import home_of
from mulligan.engine.workspace import Workspace
from mulligan.errors import MulliganError, UserError
from mulligan.install.agents import AGENTS
from mulligan.install.editing import PlannedFile, Wiring, carry_out
from mulligan.install.folder import KEEP, InstalledFolder
from mulligan.install.targets import PROJECT, SCOPES, TARGETS, Home, destination
from mulligan.model.sizes import format_size
from mulligan.present.text import count
from mulligan.present.visible import visible
from mulligan.timeline import stores

USAGE = "uninstall [--stores] [--dry-run] [-y]"
DESCRIPTION = """\
Remove the hooks of all agents, for you and in every project that has a history, and end all watchers.

Your files and your checkpoints stay. With --stores every checkpoint of every project on this machine is deleted too, which
cannot be undone; without a terminal that needs -y. The keys that seal secrets stay. The program itself is removed by the
tool that installed it: pip, pipx or uv.
"""
EXAMPLES = (
    ("mulligan uninstall --dry-run", "see what would be removed"),
    ("mulligan uninstall", "no agent calls mulligan any more; checkpoints stay"),
    ("mulligan uninstall --stores", "delete every checkpoint as well"),
)
EXIT_CODES = (0, 1, 3)


class Removal(NamedTuple):
    """What is to be removed: edits of files by agent and project, folders, watchers and stores."""

    edits: list[tuple[str, str, list[PlannedFile]]]
    folders: list[InstalledFolder]
    watchers: list[watchers.Running]
    stores: list[dict[str, Any]]
    unreadable: list[str]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's own arguments."""
    parser.add_argument("--stores", action="store_true", help="delete every checkpoint of every project too")
    parser.add_argument("--dry-run", action="store_true", help="only show what would be removed")
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask")


def run(context: Context, args: argparse.Namespace) -> Result:
    """Plans, asks, removes."""
    known = stores.stores(context.settings)
    removal = _planned(context, [row["workspace"] for row in known if row["exists"]], known if args.stores else [])
    document = {**_document(removal), "kept_stores": [] if args.stores else known, "dry_run": args.dry_run}
    if not args.dry_run:
        _confirm(context, args, document)
        _carry_out(context, removal)
    return Result(document, lambda: document, 3 if removal.unreadable else 0)


def _planned(context: Context, projects: list[str], known: list[dict[str, Any]]) -> Removal:
    home, here = home_of(context), context.settings.workspace
    removal = Removal([], [], watchers.all_running(dict(context.environ)), known, [])
    for scope in SCOPES:
        for project in dict.fromkeys([here, *projects]) if scope == PROJECT else [here]:
            _plan_agents(removal, scope, project, home)
            for target in TARGETS.values():
                folder = InstalledFolder(destination(target, scope, project=project, home=home))
                with suppress(MulliganError):  # something else stands there, which is not ours
                    if folder.plan_removal():
                        removal.folders.append(folder)
    return removal


def _plan_agents(removal: Removal, scope: str, project: str, home: Home) -> None:
    for agent in AGENTS.values():
        if not agent.edits(scope) or (agent.name == "git" and not os.path.isdir(f"{project}/.git/hooks")):
            continue
        try:
            planned = Wiring(agent, scope, project=project, home=home).plan_removal()
        except UserError as error:
            removal.unreadable.append(error.message)
            continue
        if planned:
            removal.edits.append((agent.name, project if scope == PROJECT else "", planned))


def _document(removal: Removal) -> dict[str, Any]:
    steps = [step for _, _, planned in removal.edits for step in (each.step for each in planned)]
    steps += [
        step._replace(path=os.path.join(folder.directory, step.path))
        for folder in removal.folders
        for step in folder.plan_removal()
    ]
    return {
        "steps": [step.to_dict() for step in steps],
        "watchers": [{"process": each.process, "workspace": each.workspace} for each in removal.watchers],
        "stores": removal.stores,
        "unreadable": removal.unreadable,
    }


def _confirm(context: Context, args: argparse.Namespace, document: dict[str, Any]) -> None:
    asks = context.interactive and not args.yes
    context.err.lines(_lines(document) if asks else [])
    if args.stores and document["stores"]:
        question = f"Delete every checkpoint of {count(len(document['stores']), 'project')}?"
        context.confirm(question, yes=args.yes, again="mulligan uninstall --stores -y")
    elif asks and (document["steps"] or document["watchers"]) and not context.ask("Remove these?"):
        raise UserError("Cancelled; nothing changed.")


def _carry_out(context: Context, removal: Removal) -> None:
    for running in removal.watchers:
        watchers.stop(running.place)
    for agent, project, planned in removal.edits:
        carry_out(planned)
        # Else the next command there would report that the hooks are gone.
        with suppress(MulliganError, OSError):
            if project:
                with Workspace(settings.resolve(project, environ=context.environ)) as workspace:
                    engine.remarks.expect_hooks(workspace.bench, agent, [])
    for folder in removal.folders:
        folder.uninstall()
    for row in removal.stores:
        stores.discard(context.settings._replace(workspace=row["workspace"], store=row["path"]))


def _lines(document: dict[str, Any]) -> list[str]:
    lines = [f"  {step['action']:<9} {visible(step['path'])}" for step in document["steps"]]
    lines += [f"  end       the watcher of {visible(each['workspace'])}" for each in document["watchers"]]
    return lines + [
        f"  delete    {count(row['checkpoints'], 'checkpoint')} of {visible(row['workspace'])} ({format_size(row['bytes'])})"
        for row in document["stores"]
    ]


def render(context: Context, result: Result) -> None:
    """Prints what was, or would be, removed, and what is left to do."""
    found, out = result.value, context.out
    lines = _lines(found)
    out.lines(lines)
    out.lines([f"left alone: {visible(message)}" for message in found["unreadable"]])
    if not lines:
        out.line("No hooks and no watchers were found.")
    elif found["dry_run"]:
        out.line("Nothing was removed yet.")
    else:
        out.line("Removed." if not found["stores"] else "Removed, with every checkpoint.")
    if any(step["action"] == KEEP for step in found["steps"]):
        out.line("Files that you changed after install are kept.")
    if kept := found["kept_stores"]:
        size = format_size(sum(row["bytes"] for row in kept))
        out.line(
            f"The checkpoints of {count(len(kept), 'project')} stay ({size}); to delete them: mulligan uninstall --stores"
        )
    if not found["dry_run"]:
        out.line(
            "Now remove the program: pip uninstall mulligan (or: pipx uninstall mulligan, uv tool uninstall mulligan)"
        )
