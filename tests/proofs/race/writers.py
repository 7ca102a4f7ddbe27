"""
Writers at thousands of files a second while a workspace is captured: every stored file is a state that existed.

    python tests/proofs/race/writers.py [--size N] [--mode storm|hot] [--build NAME]

Two processes write in bursts, in every way that programs have: by rename, over an emptied file, in place, at the end,
after a removal, in several calls. Every call writes whole records, and a record proves itself: its file, its number, its
checksum. So a stored file is a state that existed if it is made of whole records in their order (or empty, where writers
empty files), and torn if it is not. It must also be no older than what was written when the save began, and a file that is
never absent must be there, or be named by the checkpoint as not captured.
In a storm, whole checkpoints are saved and read by plain git, and each file written meanwhile is counted as tried. `hot` is
a few long files that are written all the time while they are captured one by one; each capture is counted.
"""

from __future__ import annotations

import hashlib
import itertools
import mmap
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "support"))

from swapper import forked

import mulligan
from loose_builds import replaced
from mulligan.safefs.clock import stamping_clock
from mulligan.safefs.directory import Directory
from mulligan.scan import read
from mulligan.scan.trees import HashOnly
from tally import Tally, parser, workplace
from tools import git_environment

_STYLES = ("renamed", "emptied", "in_place", "appended", "removed", "pieces")
_FILES = 180
_WRITERS = 2
_SAVES_PER_STORE = 25
_HEAD = struct.Struct(">4sIIQ")
_MAGIC = b"rec\n"
_CHECK = 20
_STREAMED = 9 << 20
_RESET_AT = 64 << 10
_CELL = struct.Struct("=Q")


def style_of(number: int) -> str:
    """How a file is written."""
    return _STYLES[number % len(_STYLES)]


def path_of(number: int) -> str:
    """Where it lies."""
    return f"d{number % 9}/{style_of(number)}{number}"


def size_of(number: int, rng: random.Random) -> int:
    """How long a record is; of a file that is written in place always the same, and of one of them too long for one read."""
    if style_of(number) == "in_place":
        return (3000, 20_000, 70_000, 300_000, 1 << 20)[number // len(_STYLES) % 5] if number != 2 else _STREAMED
    return rng.choice((40, 400, 3000, 9000)) if rng.random() < 0.97 else 200_000


def record(number: int, serial: int, size: int) -> bytes:
    """Bytes that prove themselves: whose they are, which of them, and that they are whole."""
    body = _HEAD.pack(_MAGIC, number, serial, size) + (b"%d %d " % (number, serial)) * (size // 8)
    body = body[: _HEAD.size + size].ljust(_HEAD.size + size, b".")
    return body + hashlib.sha1(body).digest()


def serials(number: int, content: bytes) -> list[int] | None:
    """The records that a file is made of; None if one is not whole, or another file's."""
    at, found = 0, []
    while at < len(content):
        if len(content) - at < _HEAD.size:
            return None
        magic, whose, serial, size = _HEAD.unpack_from(content, at)
        end = at + _HEAD.size + size
        check = content[end : end + _CHECK]
        if (magic, whose) != (_MAGIC, number) or check != hashlib.sha1(content[at:end]).digest():
            return None
        found.append(serial)
        at = end + _CHECK
    return found


class Board:
    """What the writers did so far, in memory that all processes share: for each file the last number begun, and ended."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, _CELL.size * (2 * _FILES + _WRITERS))

    def set(self, cell: int, value: int) -> None:
        """Notes a number."""
        _CELL.pack_into(self._memory, cell * _CELL.size, value)

    def get(self, cell: int) -> int:
        """Reads one."""
        return int(_CELL.unpack_from(self._memory, cell * _CELL.size)[0])

    def ended(self) -> list[int]:
        """The last number of each file that was written to its end."""
        return [self.get(_FILES + number) for number in range(_FILES)]

    def written(self) -> int:
        """How many files were written in all."""
        return sum(self.get(2 * _FILES + writer) for writer in range(_WRITERS))


class Writer:
    """A process that writes files, again and again."""

    def __init__(
        self, root: Path, staging: Path, board: Board, which: int, size: Callable[[int, random.Random], int]
    ) -> None:
        self._root, self._board, self._which, self._size = os.fspath(root), board, which, size
        self._temporary = os.fspath(staging / f"next{which}")
        self._rng = random.Random(which)

    def first(self, numbers: Iterable[int]) -> None:
        """Writes each file once."""
        for number in numbers:
            os.makedirs(os.path.join(self._root, f"d{number % 9}"), exist_ok=True)
            self.write(number, 1)

    def forever(self, numbers: Sequence[int], *, pauses: bool = True) -> None:
        """Writes until it is killed, in bursts as agents do; what is large comes up rarely."""
        count, serial = 0, dict.fromkeys(numbers, 1)
        small = [number for number in numbers if self._size(number, self._rng) < _STREAMED]
        while True:
            number = self._rng.choice(small if small and count % 50 else numbers)
            serial[number] += 1
            self.write(number, serial[number])
            count += 1
            self._board.set(2 * _FILES + self._which, count)
            if pauses and not self._rng.randrange(100):
                time.sleep(self._rng.choice((0.0, 0.01, 0.03)))

    def write(self, number: int, serial: int) -> None:
        """One file, in its way."""
        place = os.path.join(self._root, path_of(number))
        new = record(number, serial, self._size(number, self._rng))
        self._board.set(number, serial)
        getattr(self, style_of(number))(place, new, number, serial)
        self._board.set(_FILES + number, serial)

    def renamed(self, place: str, new: bytes, _number: int, _serial: int) -> None:
        self._put(self._temporary, os.O_TRUNC, new)
        os.rename(self._temporary, place)

    def emptied(self, place: str, new: bytes, _number: int, _serial: int) -> None:
        self._put(place, os.O_TRUNC, new)

    def in_place(self, place: str, new: bytes, _number: int, _serial: int) -> None:
        self._put(place, 0, new)

    def appended(self, place: str, new: bytes, _number: int, _serial: int) -> None:
        long = os.path.exists(place) and os.path.getsize(place) > _RESET_AT
        self._put(place, os.O_TRUNC if long else os.O_APPEND, new)

    def removed(self, place: str, new: bytes, _number: int, serial: int) -> None:
        if serial > 1:
            os.unlink(place)
        self._put(place, os.O_EXCL, new)

    def pieces(self, place: str, new: bytes, number: int, serial: int) -> None:
        self._put(place, os.O_TRUNC, new, record(number, serial, 300), record(number, serial, 5000))

    @staticmethod
    def _put(place: str, flags: int, *pieces: bytes) -> None:
        fd = os.open(place, os.O_WRONLY | os.O_CREAT | flags, 0o644)
        for piece in pieces:
            if os.write(fd, piece) != len(piece):
                raise OSError("a write was cut short")
        os.close(fd)


# -- the judge ----------------------------------------------------------------------------------------------------


class Reader:
    """Checkpoints of a store, asked of one long-lived plain git; what was seen before is not asked for again."""

    def __init__(self, store: Path) -> None:
        self._command = ["git", "--git-dir", os.fspath(store), "-c", "safe.directory=*"]
        self._git = subprocess.Popen(
            [*self._command, "cat-file", "--batch"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=git_environment(),
        )  # fmt: skip

    def files(self, commit: str) -> Iterator[tuple[str, bytes]]:
        """Each path of a checkpoint, and its bytes."""
        listing = subprocess.run(
            [*self._command, "ls-tree", "-r", "-z", f"{commit}:files"],
            stdout=subprocess.PIPE, env=git_environment(), check=True,
        ).stdout  # fmt: skip
        for line in filter(None, listing.split(b"\0")):
            about, _, path = line.partition(b"\t")
            yield os.fsdecode(path), self._content(about.split()[2])

    def _content(self, name: bytes) -> bytes:
        assert self._git.stdin is not None and self._git.stdout is not None
        self._git.stdin.write(name + b"\n")
        self._git.stdin.flush()
        size = int(self._git.stdout.readline().split()[2])
        return self._git.stdout.read(size + 1)[:-1]

    def close(self) -> None:
        """Ends git."""
        self._git.communicate()


def wrong_with(number: int, content: bytes | None, oldest: int, newest: int) -> str:
    """Why what a checkpoint holds of a file is no state that it had between two moments; empty if it is one."""
    style = style_of(number)
    if content is None:
        return "" if style == "removed" else "is absent, and it never was"
    if not content:
        return "is empty, and it never was" if style in {"renamed", "in_place"} else ""
    found = serials(number, content)
    if found is None:
        return f"is torn ({len(content)} bytes)"
    in_order = all(later - earlier == 1 for earlier, later in itertools.pairwise(found))
    if style == "pieces":
        in_order = len(found) <= 3 and len(set(found)) == 1
    if not in_order or (style not in {"appended", "pieces"} and len(found) != 1):
        return f"is made of {found}"
    if not oldest <= found[-1] <= newest:
        return f"is number {found[-1]}; {oldest} was there before the save, {newest} at its end"
    return ""


def judge(tally: Tally, reader: Reader, cp: Any, oldest: list[int], newest: list[int]) -> None:
    """Compares one checkpoint with what the writers did."""
    held = dict(reader.files(cp.commit))
    missed = {row.path for row in cp.not_captured}
    for number in range(_FILES):
        path = path_of(number)
        if path not in held and (path in missed or os.path.dirname(path) in missed):
            tally.counts["files_named_as_moving"] += 1
            continue
        wrong = wrong_with(number, held.get(path), oldest[number], newest[number])
        tally.broke([f"{path} {wrong}"] if wrong else [])
        tally.counts["states_judged"] += path in held
    tally.counts["checkpoints"] += 1
    tally.counts["partial"] += not cp.complete


# -- a few files, all the time --------------------------------------------------------------------------------------


class Kept(HashOnly):
    """A sink that keeps the bytes of the last file."""

    content = b""

    def add_hashed(self, oid: bytes, kind: bytes, data: bytes) -> None:
        self.content = data

    def add_stream(self, size: int, chunks: Iterable[bytes]) -> bytes:
        taken = list(chunks)
        self.content = b"".join(taken)
        return super().add_stream(size, taken)


#: In place and over an emptied file, short and long, and one too long for one read.
_HOT = (2, 8, 14, 20, 26, 1, 7, 3)


def hot_size(number: int, _rng: random.Random) -> int:
    """How long the records of a hot file are."""
    return _STREAMED if number == 2 else (60_000, 120_000, 250_000)[number % 3]


def hot(place: Path, given: Any, tally: Tally) -> None:
    """Captures files that are being written at this moment."""
    root, board = place / "project", Board()
    for folder in (root, place / "staging"):
        folder.mkdir()
    writer = Writer(root, place / "staging", board, 0, hot_size)
    for number in _HOT:
        writer.first([number])
    pids = [
        forked(lambda share=share: writer.forever(share, pauses=False)) for share in (_HOT[:1], _HOT[1::2], _HOT[2::2])
    ]
    sink, since = Kept(), stamping_clock()
    try:
        with Directory.open(root) as top, replaced(read, **BUILDS[given.build]):
            while not tally.over:
                number = _HOT[tally.tried % len(_HOT)] if tally.tried % 50 else 2
                with top.descend(os.fsencode(os.path.dirname(path_of(number)))) as folder:
                    name, oldest = os.fsencode(os.path.basename(path_of(number))), board.get(_FILES + number)
                    try:
                        read.capture(folder, name, folder.stat(name), sink, check_secrets=False, since=since)
                    except read.UnreadableFile as finding:
                        tally.did(1, **{finding.reason: 1})
                        continue
                    wrong = wrong_with(number, sink.content, oldest, board.get(number))
                    tally.broke([f"{path_of(number)} {wrong}"] if wrong else [])
                    tally.did(1, captured=1)
    finally:
        end(pids)


# -- a whole workspace ----------------------------------------------------------------------------------------------

#: Each with one care less: does not wait for writes, does not look twice.
BUILDS: dict[str, dict[str, Any]] = {
    "real": {},
    "impatient": {"let_writes_end": lambda _fd: None},
    "once": {"let_writes_end": lambda _fd: None, "_same": lambda _before, _after: True},
}


def end(pids: list[int]) -> None:
    """Ends the writers."""
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def storm(place: Path, given: Any, tally: Tally) -> None:
    """Writes and saves until so many files were written."""
    root, board = place / "project", Board()
    for folder in (root, place / "staging"):
        folder.mkdir()
    pids, seconds, episode = [], 0.0, 0
    for which in range(_WRITERS):
        mine = [number for number in range(_FILES) if number // len(_STYLES) % _WRITERS == which]
        writer = Writer(root, place / "staging", board, which, size_of)
        writer.first(mine)
        pids.append(forked(lambda writer=writer, mine=mine: writer.forever(mine)))
    try:
        with replaced(read, **BUILDS[given.build]):
            while not tally.over:
                episode += 1
                seconds += _episode(root, place / f"store{episode}", board, tally)
                shutil.rmtree(place / f"store{episode}")
    finally:
        end(pids)
    tally.counts["files_a_second"] = int(tally.tried / max(seconds, 0.001))
    tally.counts["seconds_under_writers"] = int(seconds)


def _episode(root: Path, store: Path, board: Board, tally: Tally) -> float:
    """Some saves into one store; returns how long they took."""
    took = 0.0
    with mulligan.open(root, store=store) as ws:
        reader = None
        for _ in range(_SAVES_PER_STORE):
            oldest, before, began = board.ended(), board.written(), time.monotonic()
            cp = ws.save(kind="step")
            took += time.monotonic() - began
            written = board.written() - before
            reader = reader or Reader(store)
            judge(tally, reader, cp, oldest, [board.get(number) for number in range(_FILES)])
            tally.did(written)
            if tally.over:
                break
        if reader is not None:
            reader.close()
    return took


MODES = {"storm": storm, "hot": hot}


def main() -> int:
    """Runs the writers against one build."""
    options = parser(__doc__, 5000)
    options.add_argument("--mode", choices=MODES, default="storm")
    options.add_argument("--build", choices=BUILDS, default="real")
    given = options.parse_args()
    tally = Tally(f"writers, {given.mode}, {given.build} build", given.size, enough=given.enough)
    with workplace(given.base) as place:
        MODES[given.mode](place, given, tally)
    return tally.end()


if __name__ == "__main__":
    sys.exit(main())
