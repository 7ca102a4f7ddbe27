"""
Git's wildcard language, as git's own matcher reads it.

`parse` turns one pattern into a `Glob`, or None if nothing can ever match it (an unclosed bracket, an unknown
`[:class:]`, a trailing backslash, an empty part). The time to match is bounded by pattern length times path length
times depth for every pattern, hostile ones too: the expressions handed to `re` keep no way back into a `*` that has
found its place. Bytes in, no locale, no case folding.

A `RuleFile` is the lines of one file, with comments, negation and order. Names, paths and endings without wildcards are looked
up; the other patterns are tried one by one, last line first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

# One place of a component is the bytes it admits, of which one is taken; STAR stands for any run of bytes.
Component = tuple[bytes, ...]
STAR = b""

_PART = b"[^/]*"


def _members(low: int, high: int) -> frozenset[int]:
    return frozenset(range(low, high + 1))


_DIGIT, _LOWER, _UPPER = _members(0x30, 0x39), _members(0x61, 0x7A), _members(0x41, 0x5A)
# Git's own tables, not the locale's: ASCII alone, and vertical tab and form feed are not space.
_SPACE, _PRINT = frozenset(b" \t\n\r"), _members(0x20, 0x7E)
_ANY = _members(0x01, 0xFF) - {0x2F}
_CLASSES = {
    b"alnum": _DIGIT | _LOWER | _UPPER,
    b"alpha": _LOWER | _UPPER,
    b"blank": frozenset(b" \t"),
    b"cntrl": _members(0x01, 0x1F) | {0x7F},
    b"digit": _DIGIT,
    b"graph": _PRINT - _SPACE,
    b"lower": _LOWER,
    b"print": _PRINT,
    b"punct": _PRINT - _SPACE - _DIGIT - _LOWER - _UPPER,
    b"space": _SPACE,
    b"upper": _UPPER,
    b"xdigit": _DIGIT | frozenset(b"abcdefABCDEF"),
}
_ANY_BYTE = bytes(sorted(_ANY))
_BYTES = tuple(bytes((value,)) for value in range(256))


class Glob(NamedTuple):
    """
    A parsed pattern: groups of components, between them gaps of any depth (`**`).

    `gaps[i]` is the least number of components between `groups[i]` and `groups[i + 1]`; `open_end` says that the
    pattern ends in `**` and takes everything below.
    """

    groups: tuple[tuple[Component, ...], ...]
    gaps: tuple[int, ...] = ()
    open_end: bool = False

    def head(self) -> bytes:
        """Returns the literal bytes with which everything that matches begins."""
        out = b""
        group = self.groups[0]
        for component in group:
            literal = leading(component)
            out += literal
            if len(literal) < len(component):
                return out
            out += b"/"
        more = self.open_end or bool(self.gaps)
        return out if more or not group else out[:-1]

    def tail(self) -> bytes:
        """Returns the literal bytes with which everything that matches ends."""
        return b"" if self.open_end else leading(self.groups[-1][-1][::-1])[::-1]

    def regex(self) -> re.Pattern[bytes]:
        """Returns the expression that `fullmatch`es exactly the paths this pattern matches."""
        last = len(self.groups) - 1
        out = []
        for at, group in enumerate(self.groups):
            body = b"/".join(map(_component_regex, group))
            closed = at == last and not self.open_end
            if group and not closed:
                body += b"/"
            if at:
                least = self.gaps[at - 1]
                if closed:
                    body = b"(?:[^/]*/){%d,}%s" % (least, body)
                elif group:
                    # The leftmost place leaves most to what follows, so no other one needs to be tried.
                    body = b"(?>(?:[^/]*/){%d,}?%s)" % (least, body)
                else:
                    body = b"(?:[^/]*/){%d}" % least
            out.append(body)
        if self.open_end:
            out.append(b".+")
        return re.compile(b"".join(out), re.DOTALL)


def leading(component: Component) -> bytes:
    """Returns the literal bytes at the start of a component."""
    count = 0
    for place in component:
        if len(place) != 1:
            break
        count += 1
    return b"".join(component[:count])


def segments(component: Component) -> list[Component]:
    """Returns a component cut at its stars."""
    out: list[Component] = []
    start = 0
    for at, place in enumerate(component):
        if place == STAR:
            out.append(component[start:at])
            start = at + 1
    return [*out, component[start:]]


def _component_regex(component: Component) -> bytes:
    first, *rest = segments(component)
    out = [_segment_regex(first)]
    for at, segment in enumerate(rest):
        if at < len(rest) - 1:
            out.append(b"(?>[^/]*?" + _segment_regex(segment) + b")")
        elif segment:
            out.append(b"(?>[^/]*" + _segment_regex(segment) + b")")
        else:
            out.append(_PART)
    return b"".join(out)


def _segment_regex(segment: Component) -> bytes:
    return b"".join(re.escape(place) if len(place) == 1 else _set_regex(place) for place in segment)


def _set_regex(members: bytes) -> bytes:
    if members == _ANY_BYTE:
        return b"[^/]"
    out, start, at = [], 0, 1
    while at <= len(members):
        if at == len(members) or members[at] != members[at - 1] + 1:
            out.append(b"\\x%02x-\\x%02x" % (members[start], members[at - 1]))
            start = at
        at += 1
    return b"[" + b"".join(out) + b"]"


class _Hopeless(Exception):
    """Nothing can match the pattern."""


def parse(pattern: bytes, *, whole: bool) -> Glob | None:
    """Returns the pattern's meaning for whole paths, or for names if not `whole`; None if it matches nothing."""
    try:
        return _Parser(pattern, whole=whole).run()
    except _Hopeless:
        return None


class _Parser:
    """One pass over one pattern."""

    def __init__(self, pattern: bytes, *, whole: bool) -> None:
        self.pattern = pattern
        self.whole = whole
        self.at = 0
        self.component: list[bytes] = []
        self.groups: list[list[Component]] = [[]]
        self.gaps: list[int] = []
        self.open_end = False

    def run(self) -> Glob:
        pattern, size = self.pattern, len(self.pattern)
        while self.at < size:
            byte = pattern[self.at]
            if byte == 0x2A:  # *
                self._stars()
            elif byte == 0x5B:  # [
                self._bracket()
            else:
                self._plain(byte)
        if not self.open_end:
            self._close()
        return Glob(tuple(map(tuple, self.groups)), tuple(self.gaps), self.open_end)

    def _plain(self, byte: int) -> None:
        if byte == 0x3F:  # ?
            self.component.append(_ANY_BYTE)
        else:
            if byte == 0x5C:  # backslash
                self.at += 1
                byte = self._peek()
            if byte == 0x2F and self.whole:
                self._close()
            else:
                self.component.append(_BYTES[byte])
        self.at += 1

    def _peek(self) -> int:
        if self.at >= len(self.pattern):
            raise _Hopeless
        return self.pattern[self.at]

    def _close(self) -> None:
        if not self.component:
            raise _Hopeless
        self.groups[-1].append(tuple(self.component))
        self.component = []

    def _stars(self) -> None:
        pattern, start = self.pattern, self.at
        while self.at < len(pattern) and pattern[self.at] == 0x2A:
            self.at += 1
        after = pattern[self.at : self.at + 2]
        alone = (start == 0 or pattern[start - 1] == 0x2F) and (after[:1] in (b"", b"/") or after == b"\\/")
        if self.at - start < 2 or not alone or not self.whole:
            if not self.component or self.component[-1] != STAR:
                self.component.append(STAR)
        elif not after:
            self.open_end = True
        else:
            # `**/` may stand for nothing; with the slash escaped, git looks for that slash.
            self._gap(0 if after[:1] == b"/" else 1)
            self.at += 1 if after[:1] == b"/" else 2

    def _gap(self, least: int) -> None:
        if self.gaps and not self.groups[-1]:
            self.gaps[-1] += least
        else:
            self.gaps.append(least)
            self.groups.append([])

    def _bracket(self) -> None:
        self.at += 1
        negated = self._peek() in b"!^"
        if negated:
            self.at += 1
        members: set[int] = set()
        previous, first = 0, True
        while first or self._peek() != 0x5D:
            first = False
            previous = self._member(members, previous)
            self.at += 1
        self.at += 1
        admitted = (_ANY - members) if negated else (members & _ANY)
        if not admitted:
            raise _Hopeless
        self.component.append(bytes(sorted(admitted)))

    def _member(self, members: set[int], previous: int) -> int:
        """Adds what stands at the current place; returns the byte a range may start from, 0 for none."""
        pattern, byte = self.pattern, self._peek()
        following = pattern[self.at + 1 : self.at + 2]
        if byte == 0x5C:
            self.at += 1
            byte = self._peek()
        elif byte == 0x2D and previous and following not in (b"", b"]"):
            self.at += 1 if following != b"\\" else 2
            members.update(range(previous, self._peek() + 1))
            return 0
        elif byte == 0x5B and following == b":":
            end = pattern.find(b"]", self.at + 2)
            if end < 0:
                raise _Hopeless
            if end > self.at + 2 and pattern[end - 1] == 0x3A:
                name = pattern[self.at + 2 : end - 1]
                if name not in _CLASSES:
                    raise _Hopeless
                members |= _CLASSES[name]
                self.at = end
                return 0
        members.add(byte)
        return byte


# -- the lines of a file ----------------------------------------------------------------------------------

MAX_FILE = 4 << 20
MAX_LINE = 64 << 10
# What no table can hold is tried, pattern by pattern, for each path, and turning them into expressions costs some
# microseconds per byte; a hostile file must make neither long.
MAX_TRIED = 4096
MAX_TRIED_BYTES = 256 << 10

_BOM = b"\xef\xbb\xbf"
_WILD = rb"[*?\[\\]"


class Pattern:
    """
    One line that can match something. A greater order is a later line; an odd order takes back.

    A `whole` pattern is about paths, any other about names. `head` and `tail` are what each match begins and ends with. A text
    without wildcards is not parsed: it stands for itself.
    """

    def __init__(self, order: int, text: bytes, glob: Glob | None, *, whole: bool, only_dirs: bool) -> None:
        self.order, self.text, self.whole, self.only_dirs = order, text, whole, only_dirs
        self.is_literal, self._glob = glob is None, glob
        self.head, self.tail = (glob.head(), glob.tail()) if glob is not None else (text, text)

    @cached_property
    def _meaning(self) -> Glob:
        return self._glob or parse(self.text, whole=self.whole) or Glob(((),))

    @cached_property
    def expression(self) -> re.Pattern[bytes]:
        """What a subject must match that has the right head and tail."""
        return self._meaning.regex()

    @cached_property
    def _way(self) -> list[re.Pattern[bytes]]:
        return [re.compile(_component_regex(component), re.DOTALL) for component in self._meaning.groups[0]]

    def opens(self, parts: list[bytes]) -> bool:
        """Returns whether a path below the directory with these parts could match, by the way down before the first `**`."""
        if not self.whole or self.order & 1:
            return False
        if not all(step.fullmatch(part) for step, part in zip(self._way, parts, strict=False)):
            return False
        return len(parts) < len(self._way) or (bool(self._meaning.gaps or self._meaning.open_end) and bool(self._way))


class RuleFile:
    """One rule file, ready for verdicts."""

    def __init__(self, content: bytes) -> None:
        self.patterns: list[Pattern] = []  # last line first
        self._dirs, self._files = _Table(), _Table()
        for pattern in _patterns(content):
            self.patterns.append(pattern)
            self._dirs.add(pattern)
            if not pattern.only_dirs:
                self._files.add(pattern)
            if len(self._dirs.tried) > MAX_TRIED or self._dirs.weight > MAX_TRIED_BYTES:
                break

    def last(self, name: bytes, path: bytes, *, is_dir: bool) -> int:
        """Returns the order of the last pattern that matches, -1 for none."""
        return (self._dirs if is_dir else self._files).last(name, path)


class _Table:
    """The patterns of one file that apply to one kind of entry."""

    def __init__(self) -> None:
        self.names: dict[bytes, int] = {}
        self.paths: dict[bytes, int] = {}
        self.tails: dict[int, dict[bytes, int]] = {}  # `*.pyc`, by their length
        self.tried: list[Pattern] = []
        self.weight = 0

    def last(self, name: bytes, path: bytes) -> int:
        """Returns the order of the last pattern that matches, -1 for none."""
        best = max(self.names.get(name, -1), self.paths.get(path, -1))
        for length, tails in self.tails.items():
            if (found := tails.get(name[-length:], -1)) > best:
                best = found
        for pattern in self.tried:
            if pattern.order < best:
                break
            subject = path if pattern.whole else name
            if (
                subject.startswith(pattern.head)
                and subject.endswith(pattern.tail)
                and pattern.expression.fullmatch(subject)
            ):
                return pattern.order
        return best

    def add(self, pattern: Pattern) -> None:
        """Files a pattern; later lines come first, so an entry that stands is not replaced."""
        text, order = pattern.text, pattern.order
        if pattern.is_literal:
            (self.paths if pattern.whole else self.names).setdefault(text, order)
        elif not pattern.whole and text[:1] == b"*" and pattern.tail == text[1:] != b"":
            self.tails.setdefault(len(pattern.tail), {}).setdefault(pattern.tail, order)
        else:
            self.tried.append(pattern)
            self.weight += len(text)


def _patterns(content: bytes) -> Iterator[Pattern]:
    """Yields the patterns of a file, last line first."""
    if len(content) > MAX_FILE:
        return
    lines = content.removeprefix(_BOM).split(b"\n")
    # A line that stands again further down can never decide, so only the last of equal lines is parsed.
    for back, line in enumerate(dict.fromkeys(reversed(lines))):
        pattern = _read_line(line, 2 * (len(lines) - back))
        if pattern is not None:
            yield pattern


def _read_line(line: bytes, order: int) -> Pattern | None:
    if not line or line[0] == 0x23 or len(line) > MAX_LINE:  # '#'
        return None
    line = _trim(line.removesuffix(b"\r").partition(b"\0")[0])
    if line[:1] == b"!":
        line, order = line[1:], order + 1
    only_dirs = line.endswith(b"/")
    line = line[:-1] if only_dirs else line
    text, whole = line.removeprefix(b"/"), b"/" in line
    is_wild = re.search(_WILD, text)
    glob = parse(text, whole=whole) if is_wild else None
    if not text or (is_wild and glob is None):
        return None
    return Pattern(order, text, glob, whole=whole, only_dirs=only_dirs)


def _trim(line: bytes) -> bytes:
    if not line.endswith(b" "):
        return line
    bare = line.rstrip(b" ")
    escapes = len(bare) - len(bare.rstrip(b"\\"))
    return bare + b" " if escapes % 2 else bare
