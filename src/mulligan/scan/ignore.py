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

import re
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

from mulligan.model.paths import ancestors

if TYPE_CHECKING:
    from mulligan.scan.wildmatch import Glob  # loaded when there is a pattern with wildcards

MAX_FILE = 4 << 20
MAX_LINE = 64 << 10
# Wildcards that no table can find are tried one by one for each path, and turning them into expressions costs some
# microseconds per byte; a hostile file must make neither long.
MAX_TRIED = 4096
MAX_TRIED_BYTES = 256 << 10

# Part of every key: a change of meaning here must not leave decisions of an older release standing.
_EDITION = b"mulligan ignore rules 1"
_BOM = b"\xef\xbb\xbf"
_WILD = rb"[*?\[\\]"


class _Pattern(NamedTuple):
    """
    One line that can match something. A greater order is a later line; an odd order takes back.

    A text without wildcards has no glob: it stands for itself.
    """

    order: int
    only_dirs: bool
    whole: bool
    text: bytes
    glob: Glob | None


class _Tried:
    """A pattern no table can hold: cheap literal checks first, the expression built when they first pass."""

    __slots__ = ("_expression", "_glob", "head", "least", "order", "tail", "whole")

    def __init__(self, order: int, glob: Glob, *, whole: bool) -> None:
        from mulligan.scan.wildmatch import STAR

        self.order, self.whole = order, whole
        self.head, self.tail = glob.head(), glob.tail()
        self.least = glob.least()
        only = glob.groups[0][0] if not self.whole else ()
        affixes = STAR in only and len(only) == len(self.head) + len(self.tail) + 1
        self._glob = None if affixes else glob
        self._expression: re.Pattern[bytes] | None = None

    def matches(self, subject: bytes) -> bool:
        """Returns whether a subject that has passed the literal checks matches."""
        if len(subject) < self.least:
            return False
        if self._glob is None:
            return True
        if self._expression is None:
            self._expression = self._glob.regex()
        return self._expression.fullmatch(subject) is not None


class _Table:
    """The patterns of one file that apply to one kind of entry, found by look-up where their shape allows."""

    __slots__ = ("every", "heads", "names", "paths", "tails", "tried", "weight")

    def __init__(self) -> None:
        self.every = -1
        self.names: dict[bytes, int] = {}
        self.paths: dict[bytes, int] = {}
        self.heads: dict[int, dict[bytes, int]] = {}
        self.tails: dict[int, dict[bytes, int]] = {}
        self.tried: list[_Tried] = []
        self.weight = 0

    def last(self, name: bytes, path: bytes) -> int:
        """Returns the order of the last pattern that matches, -1 for none."""
        best = self.every
        if (found := self.names.get(name, -1)) > best:
            best = found
        for length, tails in self.tails.items():
            if (found := tails.get(name[-length:], -1)) > best:
                best = found
        for length, heads in self.heads.items():
            if (found := heads.get(name[:length], -1)) > best:
                best = found
        if self.paths and (found := self.paths.get(path, -1)) > best:
            best = found
        for tried in self.tried:
            if tried.order < best:
                break
            subject = path if tried.whole else name
            if subject.startswith(tried.head) and subject.endswith(tried.tail) and tried.matches(subject):
                return tried.order
        return best

    def add(self, pattern: _Pattern) -> None:
        """Files a pattern; later lines come first, so an entry that stands is not replaced."""
        order, glob, whole = pattern.order, pattern.glob, pattern.whole
        if glob is None:
            (self.paths if whole else self.names).setdefault(pattern.text, order)
        elif not self._look_up(order, glob, whole=whole):
            self.tried.append(_Tried(order, glob, whole=whole))
            self.weight += len(pattern.text)

    def _look_up(self, order: int, glob: Glob, *, whole: bool) -> bool:
        from mulligan.scan.wildmatch import segments, spellings

        if whole:
            return self._fill(self.paths, _whole_spellings(glob), order)
        component = glob.groups[0][0]
        parts = segments(component)
        if len(parts) == 1:
            return self._fill(self.names, spellings(component), order)
        if len(parts) > 2 or (parts[0] and parts[1]):
            return False
        if not parts[0] and not parts[1]:
            self.every = max(self.every, order)
            return True
        side, literal = (self.heads, parts[0]) if parts[0] else (self.tails, parts[1])
        found = spellings(literal)
        return found is not None and self._fill(side.setdefault(len(literal), {}), found, order)

    @staticmethod
    def _fill(table: dict[bytes, int], keys: list[bytes] | None, order: int) -> bool:
        for key in keys or ():
            table.setdefault(key, order)
        return keys is not None


def _whole_spellings(glob: Glob) -> list[bytes] | None:
    from mulligan.scan.wildmatch import spellings

    if glob.gaps or glob.open_end:
        return None
    out = [b""]
    for at, component in enumerate(glob.groups[0]):
        found = spellings(component)
        if found is None or len(out) * len(found) > 16:
            return None
        out = [left + (b"/" if at else b"") + right for left in out for right in found]
    return out


class _Compiled:
    """One rule file, ready for verdicts."""

    __slots__ = ("dirs", "files")

    def __init__(self, content: bytes) -> None:
        self.dirs, self.files = _Table(), _Table()
        for pattern in _patterns(content):
            self.dirs.add(pattern)
            if not pattern.only_dirs:
                self.files.add(pattern)
            if len(self.dirs.tried) > MAX_TRIED or self.dirs.weight > MAX_TRIED_BYTES:
                break


def _patterns(content: bytes) -> Iterator[_Pattern]:
    """Yields the patterns of a file, last line first."""
    if len(content) > MAX_FILE:
        return
    lines = content.removeprefix(_BOM).split(b"\n")
    # A line that stands again further down can never decide, so only the last of equal lines is parsed.
    for back, line in enumerate(dict.fromkeys(reversed(lines))):
        pattern = _read_line(line, 2 * (len(lines) - back))
        if pattern is not None:
            yield pattern


def _read_line(line: bytes, order: int) -> _Pattern | None:
    if not line or line[0] == 0x23 or len(line) > MAX_LINE:  # '#'
        return None
    line = _trim(line.removesuffix(b"\r").partition(b"\0")[0])
    if line[:1] == b"!":
        line, order = line[1:], order + 1
    only_dirs = line.endswith(b"/")
    if only_dirs:
        line = line[:-1]
    whole = b"/" in line
    text = line.removeprefix(b"/")
    if not re.search(_WILD, text):
        return _Pattern(order, only_dirs, whole, text, None) if text else None
    from mulligan.scan.wildmatch import Glob, parse

    glob = parse(text, whole=whole)
    if glob is None:
        return None
    if (name := glob.at_any_depth()) is not None:
        whole, glob = False, Glob(((name,),))
    return _Pattern(order, only_dirs, whole, text, glob)


def _trim(line: bytes) -> bytes:
    if not line.endswith(b" "):
        return line
    bare = line.rstrip(b" ")
    escapes = len(bare) - len(bare.rstrip(b"\\"))
    return bare + b" " if escapes % 2 else bare


def _digest(*parts: bytes) -> bytes:
    state = blake2b(digest_size=16)
    for part in parts:
        state.update(b"%d:" % len(part))
        state.update(part)
    return state.digest()


class _Layer:
    """One rule file and how a workspace path is spelled from its directory; parsed when first asked."""

    __slots__ = ("_compiled", "_content", "_drop", "_prefix", "source")

    def __init__(self, source: bytes, content: bytes, *, drop: int = 0, prefix: bytes = b"") -> None:
        self.source = source
        self._content, self._drop, self._prefix = content, drop, prefix
        self._compiled: _Compiled | None = None

    def last(self, name: bytes, path: bytes, *, is_dir: bool) -> int:
        """Returns the order of the last pattern that matches, -1 for none."""
        compiled = self._compiled or self.compiled()
        return (compiled.dirs if is_dir else compiled.files).last(name, self._prefix + path[self._drop :])

    def compiled(self) -> _Compiled:
        """Returns the parsed rules."""
        if self._compiled is None:
            self._compiled = _Compiled(self._content)
        return self._compiled


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
        layer = _Layer(b"", gitignore, prefix=prefix + b"/")
        return IgnoreRules((layer, *self._layers), _digest(self.key, b"above", prefix, gitignore))

    def enter(self, directory: bytes, gitignore: bytes) -> IgnoreRules:
        """Returns the rules for a workspace directory (`b""` the root) and all below, its `.gitignore` the strongest."""
        if not gitignore:
            return self
        layer = _Layer(directory, gitignore, drop=len(directory) + 1 if directory else 0)
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

    __slots__ = ("_compiled", "_content", "_openers", "_some", "key")

    def __init__(self, lines: Iterable[str]) -> None:
        self._content = "\n".join(lines).encode("utf-8", "surrogateescape")
        self._compiled = _Compiled(self._content)
        self._some = any(True for _ in _patterns(self._content))
        self._openers: list[_Opener] | None = None
        self.key = _digest(_EDITION, self._content)

    def __bool__(self) -> bool:
        return self._some

    def match(self, path: bytes, is_dir: bool) -> bool:  # noqa: FBT001 - as Rules.verdict
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
        if self._openers is None:
            from mulligan.scan.wildmatch import parse

            anchored = (p for p in _patterns(self._content) if p.whole and not p.order & 1)
            globs = (p.glob or parse(p.text, whole=True) for p in anchored)
            self._openers = [_Opener(glob) for glob in globs if glob]
        parts = directory.split(b"/") if directory else []
        return any(opener.opens(parts) for opener in self._openers)

    def _decides(self, path: bytes, *, is_dir: bool) -> bool:
        table = self._compiled.dirs if is_dir else self._compiled.files
        order = table.last(path[path.rfind(b"/") + 1 :], path)
        return order >= 0 and not order & 1


class _Opener:
    """The way down that an anchored pattern takes before its first `**`."""

    __slots__ = ("_endless", "_way")

    def __init__(self, glob: Glob) -> None:
        from mulligan.scan.wildmatch import component_regex

        self._way = [component_regex(component) for component in glob.groups[0]]
        self._endless = bool(glob.gaps) or glob.open_end

    def opens(self, parts: list[bytes]) -> bool:
        """Returns whether something below the directory with these parts could match."""
        if not all(step.fullmatch(part) for step, part in zip(self._way, parts, strict=False)):
            return False
        return len(parts) < len(self._way) or (self._endless and bool(self._way))
