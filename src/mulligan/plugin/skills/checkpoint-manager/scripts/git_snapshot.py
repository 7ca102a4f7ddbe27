"""
Where a project's git repository stands: commit, branch and the files that `git status` would name.

    python3 git_snapshot.py --project .

Read from the repository's own files; git is not started, so no hook and no configuration of the project can run.
"""

from __future__ import annotations

import argparse
import json
import runpy
import sys
from dataclasses import asdict
from pathlib import Path

try:
    import mulligan.errors  # noqa: F401 - only whether it can be
except ModuleNotFoundError:
    helper = runpy.run_path(str(Path(__file__).with_name("find_mulligan.py")))
    helper["use_installed"](__file__, running=__name__ == "__main__")

from mulligan.dialects.skill import GitSnapshot, GitState
from mulligan.errors import MulliganError

__all__ = ["GitSnapshot", "GitState", "main"]


def main(words: list[str] | None = None) -> int:
    """Prints the state of git as JSON; everything is empty where there is no repository."""
    parser = argparse.ArgumentParser(description="Print commit, branch and dirty files of a project as JSON.")
    parser.add_argument("--project", default=".", metavar="DIR", help="the project (default: the current directory)")
    parser.add_argument("--json", action="store_true", help="print JSON, as always")
    args = parser.parse_args(words)
    try:
        state = GitSnapshot(args.project).capture()
    except MulliganError as error:
        print(f"{error.message}\n{error.hint}".strip(), file=sys.stderr)
        return error.exit_code
    print(json.dumps(asdict(state), indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
