"""
Carry out a rollback: load the checkpoint, move git, restore files, features and progress, remove what came since.

    python3 rollback_handler.py checkpoint-20250115-103000 --dry-run
    python3 rollback_handler.py checkpoint-20250115-103000

Everything as it is now is saved first: `python3 checkpoint_manager.py undo` takes a rollback back.
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

from mulligan.dialects.skill import CheckpointManager, RollbackHandler, RollbackResult
from mulligan.errors import MulliganError

__all__ = ["RollbackHandler", "RollbackResult", "main"]


async def run(args: argparse.Namespace) -> tuple[dict[str, Any], bool]:
    """Does what was asked for; returns the result, and whether it is a success."""
    wanted = args.checkpoint
    if wanted == "latest":
        newest = await CheckpointManager(args.project).get_latest()
        wanted = newest.id if newest else ""
    handler = RollbackHandler(args.project)
    if args.dry_run:
        return await handler.preview(wanted), True
    result = await handler.rollback(wanted)
    return result.to_dict(), result.success


def main(words: list[str] | None = None) -> int:
    """Prints what a rollback did, or would do, as JSON."""
    parser = argparse.ArgumentParser(description="Roll a project back to a checkpoint, or show what that would do.")
    parser.add_argument("checkpoint", help="the id of the checkpoint, or `latest`")
    parser.add_argument("--project", default=".", metavar="DIR", help="the project (default: the current directory)")
    parser.add_argument("--dry-run", action="store_true", help="only show what would happen")
    parser.add_argument("--json", action="store_true", help="print JSON, as always")
    args = parser.parse_args(words)
    try:
        value, good = asyncio.run(run(args))
    except MulliganError as error:
        print(f"{error.message}\n{error.hint}".strip(), file=sys.stderr)
        return error.exit_code
    print(json.dumps(value, indent=2))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
