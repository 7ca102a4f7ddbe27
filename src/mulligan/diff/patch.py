"""
The patch between two states, in git's format, and the counts per file, in one pass over the contents.

Promise: for text, links, modes, renames and empty files, `git apply` turns the old state into the new one, byte for
byte. What is not compared (binary, too large, unreadable, past the limit of the whole patch) is one line that starts
with `Binary files` or `Files` and ends with `differ`: git takes it for binary and refuses, so that no reader mistakes
a missing hunk for an empty file. A name with a control character, a quote, a backslash, or bytes that are not UTF-8 is put in
quotes with C escapes; any other stands as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from mulligan.diff.compare import UNREADABLE
from mulligan.diff.lines import changed_blocks, extent_of, group_blocks, is_binary, lines_of
from mulligan.diff.renames import fingerprint, score
from mulligan.model.diff import ADDED, DELETED, MODIFIED, RENAMED, Diff, FileStat, Rendered
from mulligan.model.objects import BLOB, MODE_DIR, MODE_LINK, MODE_SEALED, Change, TreeEntry, object_id
from mulligan.model.paths import to_text

_LETTERS = {7: b"a", 8: b"b", 9: b"t", 10: b"n", 11: b"v", 12: b"f", 13: b"r", 34: b'"', 92: b"\\"}
_MUST = bytes(range(32)) + b'"\\\x7f'
_BLANKS = b" \t\n\v\f\r"


def quoted(name: bytes) -> bytes:
    """Returns a name, in quotes if git would need them."""
    foreign = not _is_utf8(name)
    if not foreign and not any(byte in _MUST for byte in name):
        return name
    return b'"' + b"".join([_escaped(byte, foreign=foreign) for byte in name]) + b'"'


def file_line(mark: bytes, name: bytes) -> bytes:
    """Returns a `---` or `+++` line; a tab ends a name with blanks, or a reader takes what follows for a date."""
    shown = quoted(name)
    end = b"\t\n" if not shown.startswith(b'"') and any(byte in _BLANKS for byte in shown) else b"\n"
    return mark + b" " + shown + end


def _escaped(byte: int, *, foreign: bool) -> bytes:
    if byte in _LETTERS:
        return b"\\" + _LETTERS[byte]
    if byte < 32 or byte == 127 or (foreign and byte >= 128):
        return b"\\%03o" % byte
    return bytes((byte,))


def _is_utf8(name: bytes) -> bool:
    try:
        name.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


Read = Callable[[bytes, TreeEntry], bytes]

MAX_FILE = 2 << 20
MAX_PATCH = 64 << 20

_ABSENT = b"0000000"
_NO_NEWLINE = b"\n\\ No newline at end of file"


class TooLarge(Exception):
    """Raised by a reader that knows a file to be over `MAX_FILE`, so that it is never read."""


class FileSide(NamedTuple):
    """One side of one file; without an entry, the file is not there."""

    path: bytes
    entry: TreeEntry | None
    read: Read

    @property
    def oid(self) -> bytes:
        """The id of the contents; empty where it is not known or there are none."""
        return self.entry.oid if self.entry else b""

    @property
    def label(self) -> bytes:
        """The seven digits of the `index` line; none of a secret."""
        if self.entry is not None and self.entry.mode == MODE_SEALED:
            return _ABSENT
        return self.oid.hex()[:7].encode("ascii") or _ABSENT


class _Pair(NamedTuple):
    """Both sides of one file, and what is known of them."""

    old: FileSide
    new: FileSide

    @property
    def is_rename(self) -> bool:
        return self.old.path != self.new.path

    @property
    def status(self) -> str:
        if self.is_rename:
            return RENAMED
        if self.old.entry is None:
            return ADDED
        return DELETED if self.new.entry is None else MODIFIED

    @property
    def changes_type(self) -> bool:
        old, new = self.old.entry, self.new.entry
        return old is not None and new is not None and (old.mode == MODE_LINK) != (new.mode == MODE_LINK)


class _PatchSection(NamedTuple):
    """The text of one file in the patch, and its counts."""

    text: bytes
    additions: int = 0
    deletions: int = 0
    binary: bool = False


def render_patch(
    changes: Iterable[Change],
    renames: Sequence[tuple[Change, Change]],
    read_old: Read,
    read_new: Read,
    *,
    limit: int = MAX_PATCH,
) -> Rendered:
    """
    Returns the patch and the counts per file, sorted by path (the new one, for a rename).

    A reader that raises an OSError, a MulliganError or a LookupError has its file listed as not compared. Past `limit`
    bytes the files are still counted, and their hunks left out.
    """
    texts: list[bytes] = []
    stats: list[FileStat] = []
    room = limit
    for pair in _pairs(changes, renames, read_old, read_new):
        section = _section(pair)
        if len(section.text) > room:
            section = section._replace(text=_uncompared(pair, b"are left out because the patch is too long, and").text)
        room -= len(section.text)
        texts.append(section.text)
        stats.append(_stat(pair, section))
    return Rendered(b"".join(texts).decode("utf-8", "surrogateescape"), tuple(stats))


def make_diff(
    from_: str,
    to: str,
    changes: Sequence[Change],
    renames: Sequence[tuple[Change, Change]],
    read_old: Read,
    read_new: Read,
) -> Diff:
    """Returns the diff of two compared trees; reads contents when its patch or counts are needed."""
    pairs = list(_pairs(changes, renames, read_old, read_new))

    def named(status: str) -> list[str]:
        return [to_text(pair.new.path) for pair in pairs if pair.status == status]

    return Diff(
        from_,
        to,
        added=named(ADDED),
        modified=named(MODIFIED),
        deleted=named(DELETED),
        renamed=[(to_text(pair.old.path), to_text(pair.new.path)) for pair in pairs if pair.is_rename],
        render=lambda: render_patch(changes, renames, read_old, read_new),
    )


def _pairs(
    changes: Iterable[Change], renames: Sequence[tuple[Change, Change]], read_old: Read, read_new: Read
) -> Iterator[_Pair]:
    sources = {old.path for old, _ in renames}
    targets = {new.path: old for old, new in renames}
    for change in sorted(changes, key=lambda change: change.path):
        moved = targets.get(change.path)
        before, after = (moved or change).old, change.new
        before = None if before is not None and before.mode == MODE_DIR else before
        after = None if after is not None and after.mode == MODE_DIR else after
        if (before is None and after is None) or (change.path in sources and moved is None):
            continue
        old_path = moved.path if moved else change.path
        yield _Pair(FileSide(old_path, before, read_old), FileSide(change.path, after, read_new))


def _stat(pair: _Pair, section: _PatchSection) -> FileStat:
    old_path = to_text(pair.old.path) if pair.is_rename else None
    before, after = pair.old.entry, pair.new.entry
    differ = before is not None and after is not None and before.mode != after.mode
    mode = f"{before.mode:06o} => {after.mode:06o}" if differ and before is not None and after is not None else ""
    counts = (section.additions, section.deletions, section.binary)
    return FileStat(to_text(pair.new.path), pair.status, *counts, old_path, mode)


def _section(pair: _Pair) -> _PatchSection:
    if any(side.entry is not None and side.entry.mode == MODE_SEALED for side in pair):
        return _uncompared(pair, b"are secrets, and are only known to")
    if pair.changes_type:
        # Git's form for a file that became a link: one leaves, the other comes.
        gone = _section(_Pair(pair.old, pair.new._replace(entry=None)))
        made = _section(_Pair(pair.old._replace(entry=None), pair.new))
        return _PatchSection(gone.text + made.text, made.additions, gone.deletions, gone.binary or made.binary)
    old, new = pair.old.entry, pair.new.entry
    if old is not None and new is not None and old.oid and old.oid == new.oid:
        return _PatchSection(_header(pair, 100))
    try:
        before, after = _contents(pair.old), _contents(pair.new)
    except TooLarge:
        return _uncompared(pair, b"are too large to compare here, and")
    except UNREADABLE:
        return _uncompared(pair, b"could not both be read, and are only known to")
    return _compared(pair, before, after)


def _contents(side: FileSide) -> bytes:
    if side.entry is None:
        return b""
    data = side.read(side.path, side.entry)
    if len(data) > MAX_FILE:
        raise TooLarge
    return data


def _compared(pair: _Pair, before: bytes, after: bytes) -> _PatchSection:
    pair = _Pair(_with_id(pair.old, before), _with_id(pair.new, after))
    if is_binary(before) or is_binary(after):
        return _uncompared(pair, b"", binary=True)
    if before == after:
        # The file was put back while we looked: an index line without hunks would be garbage to git.
        return _PatchSection(_header(pair, 100, index=pair.status in (ADDED, DELETED)))
    percent = min(99, score(fingerprint(before), fingerprint(after))) if pair.is_rename else 0
    hunks, additions, deletions = _hunks(_lines(before), _lines(after))
    return _PatchSection(_header(pair, percent) + _file_lines(pair) + hunks, additions, deletions)


def _with_id(side: FileSide, data: bytes) -> FileSide:
    if side.entry is None or side.entry.oid:
        return side
    return side._replace(entry=side.entry._replace(oid=object_id(BLOB, data)))


def _uncompared(pair: _Pair, why: bytes, *, binary: bool = False) -> _PatchSection:
    sides = b" and ".join((_old_name(pair), _new_name(pair)))
    note = b"Binary files %s differ\n" % sides if binary else b"Files %s %s differ\n" % (sides, why)
    return _PatchSection(_header(pair, 0) + note, binary=binary)


def _old_name(pair: _Pair) -> bytes:
    return quoted(b"a/" + pair.old.path) if pair.old.entry else b"/dev/null"


def _new_name(pair: _Pair) -> bytes:
    return quoted(b"b/" + pair.new.path) if pair.new.entry else b"/dev/null"


def _file_lines(pair: _Pair) -> bytes:
    old = file_line(b"---", b"a/" + pair.old.path) if pair.old.entry else b"--- /dev/null\n"
    return old + (file_line(b"+++", b"b/" + pair.new.path) if pair.new.entry else b"+++ /dev/null\n")


def _header(pair: _Pair, percent: int, *, index: bool = True) -> bytes:
    """Returns the lines from `diff --git` to `index`; nothing at all where there is nothing to say."""
    old, new = pair.old.entry, pair.new.entry
    lines = []
    same_mode = old is not None and new is not None and old.mode == new.mode
    if old is None and new is not None:
        lines.append(b"new file mode %06o" % new.mode)
    elif new is None and old is not None:
        lines.append(b"deleted file mode %06o" % old.mode)
    elif old is not None and new is not None and not same_mode:
        lines += [b"old mode %06o" % old.mode, b"new mode %06o" % new.mode]
    if pair.is_rename:
        names = quoted(pair.old.path), quoted(pair.new.path)
        lines += [b"similarity index %d%%" % percent, b"rename from " + names[0], b"rename to " + names[1]]
    if index and pair.old.oid != pair.new.oid:
        mode = b" %06o" % new.mode if new is not None and same_mode else b""
        lines.append(b"index %s..%s%s" % (pair.old.label, pair.new.label, mode))
    if not lines:
        return b""
    first = b"diff --git %s %s" % (quoted(b"a/" + pair.old.path), quoted(b"b/" + pair.new.path))
    return b"\n".join([first, *lines, b""])


def _lines(data: bytes) -> list[bytes]:
    """Returns the lines without their newline; a last line that has none carries git's remark, and so differs."""
    lines = data.split(b"\n")
    last = lines.pop()
    return [*lines, last + _NO_NEWLINE] if last else lines


def _hunks(old: list[bytes], new: list[bytes]) -> tuple[bytes, int, int]:
    """Returns the hunks between two texts, and the lines added and deleted."""
    blocks = changed_blocks(old, new)
    out: list[bytes] = []
    for group in group_blocks(blocks):
        shown = extent_of(group, old)
        out.append(b"@@ -%s +%s @@" % (_span(shown.old_start, shown.old_end), _span(shown.new_start, shown.new_end)))
        out += [tag + line for tag, line in lines_of(group, old, new)]
    additions = sum(block.new_end - block.new_start for block in blocks)
    deletions = sum(block.old_end - block.old_start for block in blocks)
    return b"\n".join([*out, b""]), additions, deletions


def _span(start: int, end: int) -> bytes:
    """Returns a range as a hunk header has it: one-based, the line before it when it is empty."""
    count = end - start
    if count == 1:
        return b"%d" % (start + 1)
    return b"%d,%d" % (start + 1 if count else start, count)
