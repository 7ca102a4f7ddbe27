"""
Git's wildcard language, as git's own matcher reads it.

`parse` turns one pattern into a `Glob`, or None if nothing can ever match it (an unclosed bracket, an unknown
`[:class:]`, a trailing backslash, an empty part). The time to match is bounded by pattern length times path length
times depth for every pattern, hostile ones too: the expressions handed to `re` keep no way back into a `*` that has
found its place. Bytes in, no locale, no case folding. Not here: lines, comments, negation, order (`scan.ignore`).
"""

from __future__ import annotations

import re
from itertools import product
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

    def at_any_depth(self) -> Component | None:
        """Returns the name in `**/name`, None for every other pattern."""
        if self.open_end or self.gaps != (0,) or self.groups[0] or len(self.groups[1]) != 1:
            return None
        return self.groups[1][0]

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

    def least(self) -> int:
        """Returns how many bytes everything that matches has at least."""
        components = [component for group in self.groups for component in group]
        return sum(len(component) - component.count(STAR) for component in components) + max(0, len(components) - 1)

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


def spellings(component: Component, limit: int = 16) -> list[bytes] | None:
    """Returns every name a component without stars stands for, None if there are more than the limit."""
    from math import prod

    if STAR in component or prod(map(len, component)) > limit:
        return None
    return [bytes(choice) for choice in product(*component)]


def segments(component: Component) -> list[Component]:
    """Returns a component cut at its stars."""
    out: list[Component] = []
    start = 0
    for at, place in enumerate(component):
        if place == STAR:
            out.append(component[start:at])
            start = at + 1
    return [*out, component[start:]]


def component_regex(component: Component) -> re.Pattern[bytes]:
    """Returns the expression that `fullmatch`es the names a component stands for."""
    return re.compile(_component_regex(component), re.DOTALL)


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
