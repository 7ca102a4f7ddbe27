"""
Ignore rules, with git's meaning.

`Rules` is what holds in one directory: git's global excludes, `info/exclude` and each `.gitignore` from the top down.
Its verdicts are those of `git check-ignore` for a path whose parents are not ignored (the caller does not descend into
an ignored directory, so nothing below one can be taken back). `Patterns` is one list of our own in the same syntax.
Both are values: no file is read here, text is parsed only once a verdict is asked for, and the key of a context costs
one digest, so that an unchanged directory needs neither.

Differences from git, on purpose: `core.ignoreCase` is not followed, and a rule file over the limits below loses the
rules beyond them, those that hide as well as those that take back.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from hashlib import blake2b
from typing import TYPE_CHECKING

from mulligan.model.paths import ancestors

if TYPE_CHECKING:
    from mulligan.scan.wildmatch import RuleFile  # loaded when a verdict is asked for

# Part of every key: a change of meaning here must not leave decisions of an older release standing.
_EDITION = b"mulligan ignore rules 1"


def _digest(*parts: bytes) -> bytes:
    state = blake2b(digest_size=16)
    for part in parts:
        state.update(b"%d:" % len(part))
        state.update(part)
    return state.digest()


class _Layer:
    """One rule file and how a workspace path is spelled from its directory; parsed when first asked."""

    def __init__(self, content: bytes, *, drop: int = 0, prefix: bytes = b"") -> None:
        self._content, self._drop, self._prefix = content, drop, prefix

    def last(self, name: bytes, path: bytes, *, is_dir: bool) -> int:
        """Returns the order of the last pattern that matches, -1 for none."""
        return self._rules.last(name, self._prefix + path[self._drop :], is_dir=is_dir)

    @cached_property
    def _rules(self) -> RuleFile:
        return _parsed(self._content)


def _parsed(content: bytes) -> RuleFile:
    from mulligan.scan.wildmatch import RuleFile

    return RuleFile(content)


class IgnoreRules:
    """The ignore rules of one directory; immutable, shares those of the directories above."""

    __slots__ = ("_layers", "key")

    def __init__(self, layers: tuple[_Layer, ...] = (), key: bytes = _EDITION) -> None:
        self._layers = layers
        self.key = key

    @classmethod
    def base(cls, *layers: bytes) -> IgnoreRules:
        """Returns rules for the workspace root from file contents, the weakest first: global excludes, `info/exclude`."""
        rules = cls(key=_digest(_EDITION))
        for content in layers:
            rules = rules.enter(b"", content)
        return rules

    def above(self, prefix: bytes, gitignore: bytes) -> IgnoreRules:
        """
        Returns these rules with those of a directory above the workspace as the strongest.

        `prefix` is the workspace's path relative to that directory. Global excludes and `info/exclude` of a repository
        whose root is above the workspace are added this way too, before its `.gitignore` files, outermost first.
        """
        if not prefix or not gitignore:
            return self.enter(b"", gitignore)
        layer = _Layer(gitignore, prefix=prefix + b"/")
        return IgnoreRules((layer, *self._layers), _digest(self.key, b"above", prefix, gitignore))

    def enter(self, directory: bytes, gitignore: bytes) -> IgnoreRules:
        """Returns the rules for a workspace directory (`b""` the root) and all below, its `.gitignore` the strongest."""
        if not gitignore:
            return self
        layer = _Layer(gitignore, drop=len(directory) + 1 if directory else 0)
        return IgnoreRules((layer, *self._layers), _digest(self.key, b"enter", directory, gitignore))

    def verdict(self, path: bytes, is_dir: bool) -> bool | None:  # noqa: FBT001 - asked for every entry of a scan
        """
        Returns what the last matching pattern says: True ignored, False explicitly not, None if none matches.

        The path lies below the directory of these rules, and none of its parents is ignored. A symbolic link is no
        directory, wherever it points.
        """
        name = path[path.rfind(b"/") + 1 :]
        for layer in self._layers:
            order = layer.last(name, path, is_dir=is_dir)
            if order >= 0:
                return not order & 1
        return None


class Patterns:
    """A list of patterns in gitignore syntax, relative to the workspace root: our own include and exclude lists."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._content = "\n".join(lines).encode("utf-8", "surrogateescape")
        self.key = _digest(_EDITION, self._content)

    @cached_property
    def _rules(self) -> RuleFile:
        return _parsed(self._content)

    def __bool__(self) -> bool:
        return bool(self._content) and bool(self._rules.patterns)

    def match(self, path: bytes, is_dir: bool) -> bool:  # noqa: FBT001 - as IgnoreRules.verdict
        """Returns whether the list names a path or a directory above it; the last matching pattern wins."""
        return any(self._decides(above, is_dir=True) for above in ancestors(path)) or self._decides(path, is_dir=is_dir)

    def may_match_below(self, directory: bytes) -> bool:
        """
        Returns whether the scanner must enter an ignored directory to find what the list names.

        A pattern opens only the directories on its own way down: `build/keep/*.txt` opens `build` and `build/keep`,
        `build/**/keep.txt` all of `build`. A pattern that may match at any depth (`.env.example`, `**/keep.txt`) opens
        none, or every ignored tree would have to be walked for it; to reach into one, the pattern names it.
        """
        if directory and self.match(directory, is_dir=True):
            return True
        parts = directory.split(b"/") if directory else []
        return any(pattern.opens(parts) for pattern in self._rules.patterns)

    def _decides(self, path: bytes, *, is_dir: bool) -> bool:
        order = self._rules.last(path[path.rfind(b"/") + 1 :], path, is_dir=is_dir)
        return order >= 0 and not order & 1
