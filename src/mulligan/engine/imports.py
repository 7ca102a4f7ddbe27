"""Makes checkpoints from elsewhere: a commit of the user's repository, or a copy of the workspace. The position stays."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from mulligan.engine.git import scan_commit
from mulligan.engine.save import make_draft, refuse_unknown_kind, tell_saved, write
from mulligan.engine.workbench import Workbench
from mulligan.model.checkpoint import Checkpoint, as_json_object
from mulligan.safefs.directory import Directory
from mulligan.scan.cache import Cache
from mulligan.scan.ignore import IgnoreRules
from mulligan.scan.scope import Scope, nothing_tracked
from mulligan.scan.walk import Options, walk
from mulligan.timeline.trees import WorkspaceView


def import_commit(
    bench: Workbench, commit: str, name: str, description: str, kind: str, metadata: Mapping[str, Any] | None
) -> Checkpoint:
    """Makes a checkpoint from a commit of the user's repository; nothing is remembered of it."""
    refuse_unknown_kind(kind)
    said = as_json_object(metadata, "metadata")
    with bench.writing("import", create=True) as store, store.objects.writer() as writer:
        draft = make_draft(bench, name, description, kind, metadata=said)
        scan, git = scan_commit(store, commit, writer)
        entry, gone = write(bench, draft, WorkspaceView(scan, git, {}, store.objects), writer)
    tell_saved(bench, entry, gone)
    return entry.checkpoint


def import_directory(
    bench: Workbench, directory: str | os.PathLike[str], name: str, kind: str, metadata: Mapping[str, Any] | None
) -> Checkpoint:
    """Makes a checkpoint of what another directory holds, by the same rules; nothing is remembered of that directory."""
    said, place = as_json_object(metadata, "metadata"), os.path.realpath(directory)
    policy = bench.settings.capture
    scope = Scope(policy, IgnoreRules.base(policy.global_excludes), nothing_tracked())
    with bench.writing("import", create=True) as store:
        draft = make_draft(bench, name, "", kind, metadata=said)
        with store.objects.writer() as writer, Directory.open(place) as root:
            scan = walk(root, Cache(), Options(scope, writer, bench.now_ns))
            scan = bench.seal_secrets(scan, writer, place)
            entry, gone = write(bench, draft, WorkspaceView(scan, None, {}, store.objects, policy.by_name), writer)
    tell_saved(bench, entry, gone)
    return entry.checkpoint
