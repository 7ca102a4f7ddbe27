"""What a verb does whose checkpoint has its contents on a remote: they are fetched, and the verb runs again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mulligan.engine.workspace import Workspace
from mulligan.errors import ContentsElsewhere


def fetch_and_repeat(verb: Callable[..., Any], missing: ContentsElsewhere, *args: Any, **more: Any) -> Any:
    """
    Fetches what a verb lacks, whose first argument is a workspace or a workbench, and runs it again.

    The verb has changed nothing when it finds out, and has let go of the store, so no other process waits for the network.
    Inside another verb that holds the store nothing is fetched: the outer one does.
    """
    bench, fetched = getattr(args[0], "bench", args[0]), set[int]()
    while True:
        if bench.store.is_held or missing.row in fetched:
            raise missing
        fetched.add(missing.row)
        if bench.before_fetching is not None:
            bench.before_fetching()
        with Workspace(bench.settings) as other:
            other.progress = bench.progress
            other.remotes.fetch([missing.row])
        try:
            return verb(*args, **more)
        except ContentsElsewhere as another:
            missing = another
