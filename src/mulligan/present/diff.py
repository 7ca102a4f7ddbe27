"""
A diff as a person reads it.

For a file or a pipe, `render` returns the patch as it is, fit for `git apply`. For a terminal, everything that could
act on it is made visible and each file has a head that says what happened; with colour, the part of a line that changed
is marked. `render_stat` is the short form.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from mulligan.model.diff import Diff, FileStat
from mulligan.present.visible import columns, shortened, visible

_BOLD, _DIM, _RED, _GREEN, _CYAN, _OFF = "\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[32m", "\x1b[36m", "\x1b[0m"
_PAINT = re.compile("\x1b\\[[0-9]+m")
_MARK, _UNMARK = "\x1b[7m", "\x1b[27m"

_HUNK = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")
_WORD = re.compile(r"\w+|\s+|.", re.DOTALL)
_MAX_MARKED = 1000  # characters; marks in longer lines do not help
_NARROWEST = 40
_MODES = {"100755": "executable", "120000": "link", "100644": "plain file"}


def render(diff: Diff, *, colour: bool, width: int, terminal: bool | None = None) -> str:
    """
    Returns a diff as text; every line ends in a newline.

    `terminal` says that the text goes to one and must be harmless there; by default it follows `colour`.
    """
    if not (colour if terminal is None else terminal):
        return diff.patch
    painted: list[str] = []
    for section in _sections(diff.patch):
        painted += ["", *_painted_head(section.head, max(width, _NARROWEST)), *_painted_body(section.body)]
    text = "".join([f"{line}\n" for line in painted[1:]])
    # Whatever the files hold was made visible above: the only escapes left are ours.
    return text if colour else _PAINT.sub("", text)


class _DiffSection(NamedTuple):
    """One file of a patch: the lines before its hunks, and its hunks."""

    head: list[str]
    body: list[str]


def _sections(patch: str) -> Iterator[_DiffSection]:
    """Yields the files of a patch; hunk counts, not looks, tell contents from headers."""
    section = _DiffSection([], [])
    left = [0, 0]
    for line in patch.split("\n")[:-1]:
        hunk = _HUNK.match(line) if left == [0, 0] else None
        if hunk:
            left = [int(hunk[1] or 1), int(hunk[2] or 1)]
            section.body.append(line)
        elif left != [0, 0] or line.startswith("\\"):
            left[0] -= line[:1] in {" ", "-"}
            left[1] -= line[:1] in {" ", "+"}
            section.body.append(line)
        else:
            if line.startswith("diff --git ") and section.head:
                yield section
                section = _DiffSection([], [])
            section.head.append(line)
    if section.head:
        yield section


def _painted_head(head: Sequence[str], width: int) -> Iterator[str]:
    """Yields what happened to a file, and the notes that its hunks do not show."""
    title = visible(_title(head))
    rule = "─" * max(0, width - columns(title) - 1)
    yield f"{_BOLD}{title}{_OFF} {_DIM}{rule}{_OFF}" if rule else f"{_BOLD}{title}{_OFF}"
    mode = [line.rpartition(" ")[2] for line in head if line.startswith(("old mode ", "new mode "))]
    if mode:
        yield _DIM + " → ".join(_MODES.get(bits, bits) for bits in mode) + _OFF
    yield from (f"{_DIM}{visible(line)}{_OFF}" for line in head if line.startswith(("Binary files ", "Files ")))


def _title(head: Sequence[str]) -> str:
    said = {key: line[len(key) :] for line in head for key in _SAYS if line.startswith(key)}
    if "rename to " in said:
        return f"renamed {said['rename from ']} → {said['rename to ']} ({said['similarity index ']})"
    names = head[0].removeprefix("diff --git ")
    name = names[: len(names) // 2].replace("a/", "", 1)  # both halves are equal but for this letter
    for key, verb in (("new file mode ", "added"), ("deleted file mode ", "deleted")):
        if key in said:
            kind = "" if said[key] == "100644" else f" ({_MODES.get(said[key], said[key])})"
            return f"{verb} {name}{kind}"
    return f"modified {name}"


_SAYS = ("new file mode ", "deleted file mode ", "similarity index ", "rename from ", "rename to ")


def _painted_body(body: Sequence[str]) -> Iterator[str]:
    """Yields the hunks in colour."""
    at = 0
    while at < len(body):
        end = at
        while end < len(body) and body[end][:1] in {"-", "+", "\\"}:
            end += 1
        if end > at:
            yield from _painted_block(body[at:end])
            at = end
            continue
        line = visible(body[at], keep="\t")
        yield f"{_CYAN}{line}{_OFF}" if line.startswith("@@") else line
        at += 1


def _painted_block(block: Sequence[str]) -> Iterator[str]:
    """Yields deleted and added lines; as many of one as of the other are pairs, and their difference is marked."""
    shown = [visible(line, keep="\t") for line in block]
    gone = [at for at, line in enumerate(shown) if line.startswith("-")]
    made = [at for at, line in enumerate(shown) if line.startswith("+")]
    if len(gone) == len(made):
        for old, new in zip(gone, made, strict=True):
            shown[old], shown[new] = _marked(shown[old], shown[new])
    for line in shown:
        paint = {"-": _RED, "+": _GREEN}.get(line[:1], _DIM)
        yield f"{paint}{line}{_OFF}"


def _marked(old: str, new: str) -> tuple[str, str]:
    """Returns two lines with the words between their common beginning and end marked, if they have much in common."""
    if max(len(old), len(new)) > _MAX_MARKED:
        return old, new
    one, other = _WORD.findall(old[1:]), _WORD.findall(new[1:])
    shorter = min(len(one), len(other))
    head = next((at for at in range(shorter) if one[at] != other[at]), shorter)
    rest = shorter - head
    tail = next((at for at in range(rest) if one[-1 - at] != other[-1 - at]), rest)
    common = "".join(one[:head] + one[len(one) - tail :])
    if len(common.strip()) * 3 < min(len(old), len(new)) - 1:
        return old, new
    return old[0] + _with_mark(one, head, tail), new[0] + _with_mark(other, head, tail)


def _with_mark(words: list[str], head: int, tail: int) -> str:
    end = len(words) - tail
    changed = "".join(words[head:end])
    mark = f"{_MARK}{changed}{_UNMARK}" if changed else ""
    return "".join(words[:head]) + mark + "".join(words[end:])


def render_stat(diff: Diff, *, colour: bool, width: int) -> str:
    """Returns the counts per file with bars that fit into the width, and a line of totals."""
    if not diff.stat:
        return ""
    names = [visible(_stat_name(stat)) for stat in diff.stat]
    most = max(stat.additions + stat.deletions for stat in diff.stat)
    digits = max(len(str(most)), 3 if any(stat.binary for stat in diff.stat) else 1)
    room = max(width, _NARROWEST) - digits - len(" ") - len(" | ") - len(" ")
    longest = max(columns(name) for name in names)
    name_width = min(longest, max(room - min(most, room * 3 // 8), room // 2))
    bar = max(room - name_width, 1)
    lines = []
    for stat, name in zip(diff.stat, names, strict=True):
        short = shortened(name, name_width)
        pad = " " * (name_width - columns(short))
        lines.append(f" {short}{pad} | {_counts(stat, digits, bar, most, colour=colour)}".rstrip())
    return "\n".join([*lines, _totals(diff.stat), ""])


def _stat_name(stat: FileStat) -> str:
    return f"{stat.old_path} => {stat.path}" if stat.old_path is not None else stat.path


def _counts(stat: FileStat, digits: int, bar: int, most: int, *, colour: bool) -> str:
    if stat.binary:
        return "Bin".rjust(digits)
    if stat.mode and not stat.additions and not stat.deletions:
        return f"{0:{digits}} mode {stat.mode}"
    plus, minus = _scaled(stat.additions, stat.deletions, bar, most)
    drawn = (_GREEN + "+" * plus + _OFF if plus else "") + (_RED + "-" * minus + _OFF if minus else "")
    return f"{stat.additions + stat.deletions:{digits}} {drawn if colour else '+' * plus + '-' * minus}"


def _scaled(additions: int, deletions: int, bar: int, most: int) -> tuple[int, int]:
    """Returns the lengths of a bar: in scale, and at least one for what is not nothing."""
    if most <= bar:
        return additions, deletions
    total = max((additions + deletions) * bar // most, (additions > 0) + (deletions > 0))
    if not additions or not deletions:
        return (total, 0) if additions else (0, total)
    plus = min(max(total * additions // (additions + deletions), 1), total - 1)
    return plus, total - plus


def _totals(stats: Sequence[FileStat]) -> str:
    added, deleted = sum(stat.additions for stat in stats), sum(stat.deletions for stat in stats)
    parts = [f" {len(stats)} file{'' if len(stats) == 1 else 's'} changed"]
    if added or not deleted:
        parts.append(f"{added} insertion{'' if added == 1 else 's'}(+)")
    if deleted or not added:
        parts.append(f"{deleted} deletion{'' if deleted == 1 else 's'}(-)")
    return ", ".join(parts)
