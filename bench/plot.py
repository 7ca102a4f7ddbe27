"""
Pictures of a run: time against the number of files, one line per contestant, both scales logarithmic.

Written as SVG by hand: a picture of a few lines needs no library. Colours are told apart by people who see few of them, and
every line is named at its end, so that nobody has to look up a legend.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 800, 420
LEFT, RIGHT, TOP, BOTTOM = 70, 270, 44, 48
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#666666", "#8a5a00", "#000000")
_LABEL_GAP = 14

Points = Sequence[tuple[float, float]]


class Axes(NamedTuple):
    """What stands beside a picture."""

    title: str
    across: str
    up: str


def picture(axes: Axes, lines: Mapping[str, Points]) -> str:
    """Returns a picture of some lines, each through points of two positive numbers."""
    lines = {name: sorted(points) for name, points in lines.items() if points}
    every = [point for points in lines.values() for point in points]
    if not every:
        raise ValueError("nothing to draw")
    scale = _Scale(every)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        f'<text x="{LEFT}" y="24" font-size="15">{escape(axes.title)}</text>',
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 10}" text-anchor="middle">{escape(axes.across)}</text>',
        f'<text transform="translate(16 {(TOP + HEIGHT - BOTTOM) / 2}) rotate(-90)" text-anchor="middle">{escape(axes.up)}</text>',
        *_grid(scale),
    ]
    for (name, points), colour in zip(lines.items(), COLOURS * len(lines), strict=False):
        spots = [(scale.x(a), scale.y(b)) for a, b in points]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in spots)
        out.append(
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"><title>{escape(name)}</title></polyline>'
        )
        out += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in spots]
    out += _names({name: scale.y(points[-1][1]) for name, points in lines.items()}, scale)
    return "\n".join([*out, "</svg>"]) + "\n"


class _Scale:
    """Where a number stands in the picture; whole powers of ten at the edges of the upward axis."""

    def __init__(self, points: Points) -> None:
        across, up = zip(*points, strict=True)
        self.left, self.right = math.log10(min(across)), math.log10(max(across))
        if self.left == self.right:
            self.left, self.right = self.left - 0.5, self.right + 0.5
        self.low, self.high = math.floor(math.log10(min(up))), math.ceil(math.log10(max(up)))
        self.high += self.low == self.high

    def x(self, value: float) -> float:
        return LEFT + (math.log10(value) - self.left) / (self.right - self.left) * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        return HEIGHT - BOTTOM - (math.log10(value) - self.low) / (self.high - self.low) * (HEIGHT - TOP - BOTTOM)


def _grid(scale: _Scale) -> list[str]:
    out = []
    for power in range(scale.low, scale.high + 1):
        y = scale.y(10.0**power)
        out.append(f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}" stroke="#dddddd"/>')
        out.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{_plain(10.0**power)}</text>')
    for power in range(math.ceil(scale.left), math.floor(scale.right) + 1):
        x = scale.x(10.0**power)
        out.append(f'<line x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{HEIGHT - BOTTOM}" stroke="#dddddd"/>')
        out.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{_plain(10.0**power)}</text>')
    return out


def _names(ends: Mapping[str, float], scale: _Scale) -> list[str]:
    """Names at the ends of lines, moved apart where they would overlap."""
    colours = dict(zip(ends, COLOURS * len(ends), strict=False))
    out, last = [], -math.inf
    for name, y in sorted(ends.items(), key=lambda item: item[1]):
        last = max(y, last + _LABEL_GAP)
        x = scale.x(10**scale.right) + 8
        out.append(f'<text x="{x:.1f}" y="{last + 4:.1f}" fill="{colours[name]}">{escape(name)}</text>')
    return out


def _plain(value: float) -> str:
    return f"{value:,.0f}" if value >= 1 else f"{value:g}"
