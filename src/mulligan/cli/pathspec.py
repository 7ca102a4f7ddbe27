"""
Paths that a person types, after `--` or without it: plain ones and patterns (`'*.py'`, `'src/**/test_?.py'`).

As in a pathspec of git, `*` matches slashes too, and a pattern or path means everything below what it names.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence

from mulligan.cli.arguments import UsageError
from mulligan.cli.context import Context
from mulligan.errors import UnknownCheckpoint, UnknownPath

_SPECIAL = "*?["


def is_pattern(path: str) -> bool:
    """Returns whether a path holds characters of a pattern."""
    return any(character in path for character in _SPECIAL)


def matcher(path: str) -> Callable[[str], bool]:
    """Returns what tells whether a path of the workspace is meant by a typed path or pattern."""
    if not is_pattern(path):
        return lambda each: each == path or each.startswith(path + "/")
    from fnmatch import translate
    from re import compile as compiled

    whole, below = compiled(translate(path)), compiled(translate(path + "/*"))
    return lambda each: bool(whole.match(each) or below.match(each))


def chosen(
    context: Context, typed: Sequence[str], refs: Sequence[str], candidates: Callable[[], Iterable[str]]
) -> list[str] | None:
    """
    Returns typed paths relative to the workspace, patterns replaced by the candidates they match; None for all of it.

    Raises UnknownPath for a path that is neither here nor in one of the checkpoints, and for a pattern without a match.
    """
    paths = context.paths(typed)
    if paths is None:
        return None
    found: list[str] = []
    for path in paths:
        if stands(context, path, refs):
            found.append(path)
        elif is_pattern(path):
            found += _matching(path, candidates())
        else:
            raise _refused(path, "is neither here nor in the checkpoint")
    return list(dict.fromkeys(found))


def expanded(paths: Sequence[str], candidates: Sequence[str]) -> list[str]:
    """Returns paths with the patterns among them replaced by the candidates they match; UnknownPath where none does."""
    found = (_matching(path, candidates) if is_pattern(path) else [path] for path in paths)
    return list(dict.fromkeys(each for some in found for each in some))


def _matching(pattern: str, candidates: Iterable[str]) -> list[str]:
    matches = matcher(pattern)
    found = [each for each in candidates if matches(each)]
    if not found:
        raise _refused(pattern, "matches no changed path")
    return found


def _refused(path: str, why: str) -> UnknownPath:
    return UnknownPath(f"{path!r} {why}. Nothing was changed.", hint="mulligan diff --stat")


def stands(context: Context, path: str, refs: Sequence[str]) -> bool:
    """Returns whether a path of the workspace is there now, or in one of the checkpoints."""
    if os.path.lexists(os.path.join(context.settings.workspace, path)):
        return True
    return any(context.workspace.holds(ref, path) for ref in refs)


def split_refs(context: Context, words: Sequence[str], most: int) -> tuple[list[str], list[str]]:
    """Returns the checkpoints and the paths among words without `--`; UsageError where a word could be either."""
    refs: list[str] = []
    for at, word in enumerate(words):
        is_ref, is_path = _is_ref(context, word), _is_path(context, word)
        if is_ref and is_path:
            raise UsageError(
                f"{word!r} is a checkpoint and a path.",
                hint=f"mulligan … {word} --  (a checkpoint), mulligan … -- {word}",
            )
        if not is_ref and not is_path and not word.startswith(("@", "latest")):
            _refuse_unknown(context, word)
        if not is_path:
            refs.append(word)
            continue
        return refs, list(words[at:])
    if len(refs) > most:
        raise UsageError(f"{refs[most]!r} is neither a checkpoint nor a path.", hint="mulligan log")
    return refs, []


def _refuse_unknown(context: Context, word: str) -> None:
    try:
        context.workspace.get(word)
    except UnknownCheckpoint as error:
        raise UnknownCheckpoint(
            f"{word!r} is neither a checkpoint nor a path here. Nothing was changed.",
            hint="List checkpoints: mulligan log. A path that is gone follows `--`: mulligan diff A -- PATH",
        ) from error


def _is_ref(context: Context, word: str) -> bool:
    try:
        context.workspace.get(word)
    except (UnknownCheckpoint, KeyError):
        return False
    return True


def _is_path(context: Context, word: str) -> bool:
    if is_pattern(word) or os.path.lexists(os.path.join(context.base, word)):
        return True
    full = os.path.normpath(os.path.join(context.base, word))
    inside = full.startswith(context.settings.workspace.rstrip("/") + "/")
    return inside and context.workspace.holds("@", context.path(word))
