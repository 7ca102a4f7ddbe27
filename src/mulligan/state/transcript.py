"""
A transcript: one message per line of a file that an agent appends to.

Promise: going back cuts the file in place and going forward appends to it, so that a program that holds it open goes on
writing at its end; only where the two have nothing to do with each other is the file replaced, whole or not at all.
Nothing is lost by it: what is cut is in the checkpoint that is made before every restore, and what was appended
after that is put aside beside the file. A last line that was being written is not captured.
LIMIT: each checkpoint holds the transcript whole; unchanged, it is stored once.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from typing import Any

from mulligan.errors import UserError
from mulligan.safefs.directory import Directory, append_at, random_name
from mulligan.safefs.durable import sync, write_durably

MIB = 1 << 20
LARGEST = 64 * MIB


class Transcript:
    """A JSONL file as a conversation. A link is followed; the file may be missing."""

    def __init__(self, path: str | os.PathLike[str], *, largest: int = LARGEST) -> None:
        self.path = os.path.realpath(path)
        self._largest = largest
        self._seen: bytes | None = None

    def count(self) -> int | None:
        """Returns how many lines there are now."""
        return _lines(_whole_lines(self._read() or b""))

    def capture(self) -> Any:
        """Returns the lines."""
        data = self._read()
        self._seen = lines = _whole_lines(data or b"")
        return {"count": _lines(lines), "text": lines.decode("utf-8", "surrogateescape")}

    def stage(self, value: Any) -> Callable[[], None]:
        """Returns the call that gives the file these lines; raises when it could not be written."""
        text = value.get("text") if isinstance(value, Mapping) else None
        if not isinstance(text, str):
            raise UserError(
                f"This checkpoint holds no transcript for {self.path}. Nothing was changed.",
                hint="Restore the files alone: mulligan restore REF",
            )
        wanted = text.encode("utf-8", "surrogateescape")
        present = self._read()
        if present is not None and not os.access(self.path, os.W_OK, effective_ids=True):
            raise UserError(f"Can't write to the transcript {self.path}. Nothing was changed.")
        return lambda: self._become(wanted)

    def _read(self) -> bytes | None:
        try:
            with self._directory() as directory:
                data = directory.read(self._name, limit=self._largest + 1)
        except (FileNotFoundError, NotADirectoryError):
            return None
        if len(data) > self._largest:
            raise UserError(
                f"The transcript {self.path} is larger than {self._largest // MIB} MiB. Nothing was changed.",
                hint="Give Transcript(path, largest=...) a larger limit, or begin a new transcript.",
            )
        return data

    def _become(self, wanted: bytes) -> None:
        with self._directory() as directory:
            try:
                present = directory.read(self._name)
            except FileNotFoundError:
                present = b""
                if not wanted:
                    return
            self._put_aside(directory, present)
            if present == wanted:
                return
            same = min(len(present), len(wanted))
            if present and present[:same] == wanted[:same]:
                append_at(directory, self._name, same, wanted[same:])
                with directory.reading(self._name) as fd:
                    sync(fd, "the transcript")
            else:
                way = b".mulligan-%s" % random_name(6).encode()
                write_durably(directory, self._name, [wanted], temporary=way, what="the transcript")

    def _put_aside(self, directory: Directory, present: bytes) -> None:
        """Keeps, beside the file, what was appended after the checkpoint before this restore was made."""
        seen = self._seen
        if seen is None or seen.startswith(present):
            return
        rest = present.removeprefix(seen)
        name = b"%s.kept-%s" % (self._name, random_name(4).encode())
        way = b".mulligan-%s" % random_name(6).encode()
        write_durably(directory, name, [rest], temporary=way, what="the end of the transcript")

    @property
    def _name(self) -> bytes:
        return os.fsencode(os.path.basename(self.path))

    def _directory(self) -> Directory:
        return Directory.open(os.path.dirname(self.path))


def _whole_lines(data: bytes) -> bytes:
    """Returns a transcript without its unfinished last line."""
    end = data.rfind(b"\n") + 1
    if end < len(data):
        try:
            json.loads(data[end:])
        except ValueError:
            return data[:end]
    return data


def _lines(data: bytes) -> int:
    return sum(1 for line in data.split(b"\n") if line.strip())
