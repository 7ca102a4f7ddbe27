"""A diff reduced to some paths."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from mulligan.model.diff import Diff, Rendered

_HEAD = "diff --git "


def narrowed(diff: Diff, paths: Sequence[str]) -> Diff:
    """Returns the part of a diff at or below the given paths; a rename belongs to it by either of its names."""

    def asked(path: str | None) -> bool:
        return path is not None and any(path == each or path.startswith(each + "/") for each in paths)

    def render() -> Rendered:
        stat = diff.stat
        files = _files(diff.patch)
        kept = [at for at, entry in enumerate(stat) if asked(entry.path) or asked(entry.old_path)]
        # Where nothing was rendered there is nothing to cut; otherwise the patch has one part per entry, in order.
        patch = "".join(files[at] for at in kept) if len(files) == len(stat) else diff.patch
        return Rendered(patch, tuple(stat[at] for at in kept))

    return Diff(
        diff.from_,
        diff.to,
        [path for path in diff.added if asked(path)],
        [path for path in diff.modified if asked(path)],
        [path for path in diff.deleted if asked(path)],
        [pair for pair in diff.renamed if asked(pair[0]) or asked(pair[1])],
        render,
    )


def _files(patch: str) -> list[str]:
    """Returns a patch in parts, one per file; a file that became a link has two sections and is one part."""
    if not patch:
        return []
    # Only a head starts a line with this: lines of content start with a blank, a sign or a backslash.
    sections = [_HEAD + part for part in ("\n" + patch).split("\n" + _HEAD)[1:]]
    whole = [section if section.endswith("\n") else section + "\n" for section in sections]
    return ["".join(group) for _, group in groupby(whole, key=lambda section: section.partition("\n")[0])]
