"""
Deltas between two versions of the same thing: made, and applied.

What is applied is hostile: every copy must lie inside the base, and the result must have exactly the announced size. The encoder knows what git must guess: which version came next. It takes the common beginning and end, and between them
runs that start at a common line (for a tree: at a common entry) and reach as far as they can.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from itertools import accumulate

from mulligan.gitformat.record import DELTA_LIMIT, DamagedRecord, parse_size

_INSERT_MOST = 127
# A copy takes at most so many bytes.
_COPY_MOST = 0x10000
# A copy takes up to eight bytes: a shorter run is cheaper as it stands.
_SHORTEST_RUN = 16
# Near the beginning of its base, where most small objects end too, it takes two to four.
_SHORTEST_END = 6
_WINDOW = 1 << 16
_TREE_ENTRY = rb"(?s)[0-7]{5,6} [^\0]+\0.{20}"


def encode_delta(base: bytes, target: bytes, *, tree: bool = False) -> bytes:
    """Returns instructions that make the target from the base; whether they are worth it is for the caller to see."""
    out = bytearray(_encode_size(len(base)))
    out += _encode_size(len(target))
    prefix = _common_prefix(base, target)
    if prefix < _SHORTEST_END:
        prefix = 0
    suffix = _common_suffix(base[prefix:], target[prefix:])
    if suffix < _SHORTEST_END:
        suffix = 0
    if prefix:
        _copy(out, 0, prefix)
    _middle(out, (base, prefix, len(base) - suffix), (target, prefix, len(target) - suffix), tree=tree)
    if suffix:
        _copy(out, len(base) - suffix, suffix)
    return bytes(out)


_Span = tuple[bytes, int, int]


def _middle(out: bytearray, base: _Span, target: _Span, *, tree: bool) -> None:
    """Writes what lies between the common ends: runs that the base has too, and the gaps between those."""
    data, literal, stop = target
    expected = base[1]
    if stop - literal >= _SHORTEST_RUN and base[2] - base[1] >= _SHORTEST_RUN:
        starts, units = _split(target, tree=tree)
        places = _places(base, tree=tree)
        at = 0
        while at < len(units):
            there = places.get(units[at], -1)
            if there >= 0:
                here = starts[at]
                if there < expected:  # an earlier twin: prefer one that follows what was copied last
                    later = base[0].find(units[at], expected, min(base[2], expected + _WINDOW))
                    there = later if later >= 0 else there
                length = _run(base[0], there, data, here, stop)
                back = _common_suffix(
                    base[0][max(base[1], there - 4096) : there], data[max(literal, here - 4096) : here]
                )
                if length + back >= _SHORTEST_RUN:
                    _insert(out, data[literal : here - back])
                    _copy(out, there - back, length + back)
                    literal, expected = here + length, there + length
                    at = bisect_left(starts, literal, at + 1)
                    continue
            at += 1
    _insert(out, data[literal:stop])


def _split(span: _Span, *, tree: bool) -> tuple[list[int], list[bytes]]:
    """Returns where the units of a span start, and the units."""
    data, begin, end = span
    if tree:
        found = [
            (m.start(), m.group()) for m in re.finditer(_TREE_ENTRY, data) if begin <= m.start() and m.end() <= end
        ]
        return [start for start, _ in found], [unit for _, unit in found]
    units = data[begin:end].splitlines(keepends=True)
    return list(accumulate(map(len, units[:-1]), initial=begin)), units


def _places(span: _Span, *, tree: bool) -> dict[bytes, int]:
    """Returns where each unit of a span stands first."""
    starts, units = _split(span, tree=tree)
    return dict(zip(reversed(units), reversed(starts), strict=True))


def _run(base: bytes, there: int, target: bytes, here: int, stop: int) -> int:
    """Returns how far two places agree, looking in steps that double."""
    length, step, most = 0, 64, min(len(base) - there, stop - here)
    while length < most:
        step = min(step, most - length)
        one = base[there + length : there + length + step]
        other = target[here + length : here + length + step]
        if one != other:
            return length + _common_prefix(one, other)
        length += step
        step *= 2
    return length


def _common_prefix(one: bytes, other: bytes) -> int:
    low, high = 0, min(len(one), len(other))
    if one[:high] == other[:high]:
        return high
    # Invariant: they agree below `low` and differ somewhere below `high`.
    while high - low > 1:
        middle = (low + high) >> 1
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle
    return low


def _common_suffix(one: bytes, other: bytes) -> int:
    size, theirs = len(one), len(other)
    low, high = 0, min(size, theirs)
    if one[size - high :] == other[theirs - high :]:
        return high
    while high - low > 1:
        middle = (low + high) >> 1
        if one[size - middle : size - low] == other[theirs - middle : theirs - low]:
            low = middle
        else:
            high = middle
    return low


def _encode_size(size: int) -> bytes:
    out = bytearray()
    while size > 0x7F:
        out.append(0x80 | (size & 0x7F))
        size >>= 7
    out.append(size)
    return bytes(out)


def _copy(out: bytearray, offset: int, length: int) -> None:
    while length:
        size = min(length, _COPY_MOST)
        at, flags = len(out), 0x80
        out.append(0)
        for bit, shift in enumerate((0, 8, 16, 24)):
            if byte := (offset >> shift) & 0xFF:
                out.append(byte)
                flags |= 1 << bit
        if size != _COPY_MOST:  # the format writes this size as no size bytes
            for bit, shift in enumerate((0, 8)):
                if byte := (size >> shift) & 0xFF:
                    out.append(byte)
                    flags |= 0x10 << bit
        out[at] = flags
        offset, length = offset + size, length - size


def _insert(out: bytearray, data: bytes) -> None:
    for at in range(0, len(data), _INSERT_MOST):
        part = data[at : at + _INSERT_MOST]
        out.append(len(part))
        out += part


# -- applied ------------------------------------------------------------------------------------


def apply_delta(base: bytes, delta: bytes, *, limit: int = DELTA_LIMIT) -> bytes:
    """Returns what a delta makes of its base; raises DamagedRecord when it reaches outside or makes another size."""
    base_size, at = parse_size(delta, 0)
    size, at = parse_size(delta, at)
    if base_size != len(base):
        raise DamagedRecord("its delta is for another base")
    if size > limit:
        raise DamagedRecord(f"its delta announces {size} bytes, which are too many")
    parts, made, end = [], 0, len(delta)
    while at < end:
        code = delta[at]
        at += 1
        if code & 0x80:
            offset, length, at = _parse_copy(delta, at, code)
            if offset + length > base_size:
                raise DamagedRecord("its delta copies from outside its base")
            part = base[offset : offset + length]
        else:
            part, at = delta[at : at + code], at + code
            if not code or at > end:
                raise DamagedRecord("its delta is malformed")
        made += len(part)
        if made > size:
            raise DamagedRecord("its delta makes more than it announces")
        parts.append(part)
    if made != size:
        raise DamagedRecord("its delta makes less than it announces")
    return b"".join(parts)


def _parse_copy(delta: bytes, at: int, code: int) -> tuple[int, int, int]:
    offset = length = 0
    try:
        for bit in range(4):
            if code & (1 << bit):
                offset |= delta[at] << (8 * bit)
                at += 1
        for bit in range(3):
            if code & (0x10 << bit):
                length |= delta[at] << (8 * bit)
                at += 1
    except IndexError:
        raise DamagedRecord("its delta is cut short") from None
    return offset, length or _COPY_MOST, at
