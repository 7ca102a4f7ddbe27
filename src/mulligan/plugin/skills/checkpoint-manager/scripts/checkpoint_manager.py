"""
Create, list and delete checkpoints of a project, and roll back to them.

    python3 checkpoint_manager.py create before-refactor -m "State before major refactoring"
    python3 checkpoint_manager.py rollback

Everything is done by mulligan; this file only gives it the skill's names and a command line.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import runpy
import sys
from pathlib import Path
from typing import Any

try:
    import mulligan.errors  # noqa: F401 - only whether it can be
except ModuleNotFoundError:
    helper = runpy.run_path(str(Path(__file__).with_name("find_mulligan.py")))
    helper["use_installed"](__file__, running=__name__ == "__main__")

from mulligan.dialects.skill import (
    Checkpoint,
    CheckpointConfig,
    CheckpointManager,
    CheckpointType,
    FeatureState,
    GitState,
    RollbackHandler,
    RollbackResult,
)
from mulligan.errors import MulliganError

__all__ = [
    "Checkpoint",
    "CheckpointConfig",
    "CheckpointManager",
    "CheckpointType",
    "FeatureState",
    "GitState",
    "RollbackResult",
    "main",
]


def parser() -> argparse.ArgumentParser:
    """Returns the parser of the command line."""
    top = argparse.ArgumentParser(
        description="Checkpoints of a project: all files, git, features and progress together."
    )
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--project", default=".", metavar="DIR", help="the project (default: the current directory)")
    shared.add_argument("--json", action="store_true", help="print JSON")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    types = [each.value for each in CheckpointType]

    create = commands.add_parser("create", parents=[shared], help="save a checkpoint")
    create.add_argument("name", nargs="?", default="", help="a short name to find it by")
    create.add_argument("-m", "--description", default="", help="what is true at this point")
    create.add_argument("--type", choices=types, default="manual", help="decides how long it stays (default: manual)")
    create.add_argument("--session", type=int, metavar="N", help="the number of this session")
    create.add_argument("--tokens", type=int, metavar="N", help="tokens used so far")

    listing = commands.add_parser("list", parents=[shared], help="list checkpoints, newest first")
    listing.add_argument("--type", choices=types, help="only of this type")
    for name, about in (
        ("show", "show one checkpoint"),
        ("delete", "delete one checkpoint"),
        ("repair", "write a damaged record anew"),
    ):
        commands.add_parser(name, parents=[shared], help=about).add_argument("id", help="the checkpoint")
    rollback = commands.add_parser("rollback", parents=[shared], help="go back to a checkpoint")
    rollback.add_argument("id", nargs="?", help="the checkpoint (default: the newest)")
    rollback.add_argument("--dry-run", action="store_true", help="only show what would happen")
    commands.add_parser("undo", parents=[shared], help="take the last rollback back")
    commands.add_parser("cleanup", parents=[shared], help="remove what is over the limits and free disk space")
    return top


async def run(args: argparse.Namespace) -> tuple[Any, bool]:
    """Does what was asked for; returns the result, and whether it is a success."""
    manager = CheckpointManager(args.project)
    if args.command == "create":
        figures = {"session_number": args.session, "token_usage": args.tokens}
        context = {name: value for name, value in figures.items() if value is not None}
        return (await manager.create_checkpoint(args.name, args.description, args.type, context)).to_dict(), True
    if args.command == "list":
        return [each.to_dict() for each in await manager.list_checkpoints(args.type)], True
    if args.command == "rollback":
        return await _rollback(manager, args)
    if args.command == "undo":
        report = await manager.undo()
        return {"restored": [*report.created, *report.modified], "removed": report.deleted}, True
    if args.command == "cleanup":
        return {"removed": await manager.cleanup()}, True
    return await _one(manager, args)


async def _one(manager: CheckpointManager, args: argparse.Namespace) -> tuple[Any, bool]:
    if args.command == "delete":
        deleted = await manager.delete_checkpoint(args.id)
        return {"deleted": args.id} if deleted else {"error": f"There is no checkpoint {args.id!r}."}, deleted
    ask = manager.repair_checkpoint if args.command == "repair" else manager.get_checkpoint
    found = await ask(args.id)
    return found.to_dict() if found else {"error": f"There is no checkpoint {args.id!r}."}, found is not None


async def _rollback(manager: CheckpointManager, args: argparse.Namespace) -> tuple[Any, bool]:
    if args.dry_run:
        newest = None if args.id else await manager.get_latest()
        wanted = args.id or (newest.id if newest else "")
        return await RollbackHandler(args.project).preview(wanted), True
    result = await (manager.rollback(args.id) if args.id else manager.rollback_to_latest())
    return result.to_dict(), result.success


def show(value: Any, *, as_json: bool) -> str:
    """Returns a result as text."""
    if as_json:
        return json.dumps(value, indent=2)
    if isinstance(value, list):
        rows = [f"{each['id']}  {each['checkpoint_type']:<9}  {each['name']}  {each['description']}" for each in value]
        return "\n".join(row.rstrip() for row in rows) or "No checkpoints yet."
    lines = [f"{key}: {each if isinstance(each, str) else json.dumps(each)}" for key, each in value.items() if each]
    return "\n".join(lines) or "Done."


def main(words: list[str] | None = None) -> int:
    """Runs the command line and returns its exit code."""
    args = parser().parse_args(words)
    try:
        value, good = asyncio.run(run(args))
    except MulliganError as error:
        print(f"{error.message}\n{error.hint}".strip(), file=sys.stderr)
        return error.exit_code
    print(show(value, as_json=args.json), file=sys.stdout if good or args.json else sys.stderr)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
