"""
Writes the file that a command takes our modules from (`together.py`).

The code is what Python itself would make of each source, without the texts that only people read. It is durable before it has
its name: half a file of code is worse than none.
"""

from __future__ import annotations

import marshal
import os
from typing import Any

from mulligan.safefs import compiled, together
from mulligan.safefs.directory import Directory
from mulligan.safefs.durable import write_durably

# Not what everyday commands load.
_LEFT_OUT = frozenset({"adapters", "dialects", "environments", "install", "loop", "mcp", "plugin", "__pycache__"})


def gather(place: str, library: bytes) -> int:
    """Writes our modules into one file in a directory that has the compiled part; returns how many there are."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    table: dict[str, Any] = {}
    codes: list[bytes] = []
    at = 0
    for relative in sorted(_sources(package, os.path.basename(package))):
        known = together.identity(relative)
        code = _code(package, relative)
        name = relative.removesuffix(".py").replace("/", ".")
        table[name.removesuffix(".__init__")] = (relative, name.endswith(".__init__"), known, at, len(code))
        codes.append(code)
        at += len(code)
    safefs = f"{os.path.basename(package)}/safefs"
    sources = {path: together.identity(path) for path in (f"{safefs}/{name.decode()}" for name in compiled.SOURCES)}
    head = marshal.dumps((at, table, (library, sources)))
    with Directory.open(place) as directory:
        parts = (len(head).to_bytes(together.LENGTH, "big"), head, *codes)
        temporary = b"%b%d.tmp" % (together.PREFIX, os.getpid())
        write_durably(directory, together.file_name(), parts, temporary=temporary, what="the modules of commands")
    return len(table)


def _sources(package: str, relative: str) -> list[str]:
    found = []
    with Directory.open(package) as directory:
        for name in directory.texts():
            if name.endswith(".py"):
                found.append(f"{relative}/{name}")
            elif name not in _LEFT_OUT and os.path.isdir(f"{package}/{name}"):
                found += _sources(f"{package}/{name}", f"{relative}/{name}")
    return found


def _code(package: str, relative: str) -> bytes:
    path = f"{os.path.dirname(package)}/{relative}"
    with Directory.open(os.path.dirname(path)) as directory:
        source = directory.read(os.fsencode(os.path.basename(path)))
    return marshal.dumps(compile(source, path, "exec", dont_inherit=True, optimize=2))
