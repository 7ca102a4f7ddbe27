"""
The state files of a project: which features pass, which one is next, and how long the progress file is.

    python3 state_snapshot.py --project .

Nothing is copied here: a checkpoint keeps the copies, together with everything else.
"""

from __future__ import annotations

import argparse
import json
import runpy
import sys
from pathlib import Path

try:
    import mulligan.errors  # noqa: F401 - only whether it can be
except ModuleNotFoundError:
    helper = runpy.run_path(str(Path(__file__).with_name("find_mulligan.py")))
    helper["use_installed"](__file__, running=__name__ == "__main__")

from mulligan.dialects.skill import FeatureState, StateSnapshot, count_passing_tests

__all__ = ["FeatureState", "StateSnapshot", "count_passing_tests", "main"]


def main(words: list[str] | None = None) -> int:
    """Prints the state as JSON; a missing or unreadable feature list counts as an empty one."""
    parser = argparse.ArgumentParser(description="Print features and progress of a project as JSON.")
    parser.add_argument("--project", default=".", metavar="DIR", help="the project (default: the current directory)")
    parser.add_argument("--json", action="store_true", help="print JSON, as always")
    args = parser.parse_args(words)
    snapshot = StateSnapshot(args.project)
    features = snapshot.capture()
    passing, total = count_passing_tests(args.project)
    sizes = {name: len(data) for name, data in snapshot.files().items()}
    state = {"current": features.current, "completed": features.completed, "passing": passing, "total": total}
    print(json.dumps({**state, "files": sizes}, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
