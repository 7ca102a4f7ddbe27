"""A detached program that appends numbered lines to a file of the project, while things are undone."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

#: It opens the file for each line, as a logger does, and notes the line elsewhere once it is written. It ends with its parent.
_APPENDS = """
import os, sys, time
path, note, tag, pause, parent = sys.argv[1:]
number = 0
with open(note, "w") as noted:
    while os.getppid() == int(parent):
        try:
            file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        except OSError:
            time.sleep(0.01)
            continue
        os.write(file, f"{tag} {number + 1}\\n".encode())
        os.close(file)
        number += 1
        noted.seek(0)
        noted.write(str(number))
        noted.flush()
        time.sleep(float(pause))
"""


class Writer:
    """One such program; `path` is the file in the project."""

    def __init__(self, project: Path, path: str, note: Path, tag: str, pause: float) -> None:
        self.path, self._note, self._tag = path, note, tag
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _APPENDS, project / path, note, tag, str(pause), str(os.getpid())],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        while not note.exists() or not note.read_text():
            if self._process.poll() is not None:
                raise AssertionError("the background program ended")
            os.sched_yield()

    def stop(self) -> None:
        """Ends it."""
        self._process.kill()
        self._process.wait()

    def missing(self, states: Iterable[bytes]) -> list[int]:
        """Returns the lines that it wrote and that none of some states of the file holds."""
        lines = {line for state in states for line in state.split(b"\n")}
        last = int(self._note.read_text())
        return [number for number in range(1, last + 1) if f"{self._tag} {number}".encode() not in lines]
