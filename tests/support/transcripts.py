"""
Transcripts in pages: the commands are run, and what they print is compared with the page, or written into it.

A block of ```console holds commands, each after `$ `, and what they print. `TEST_TRANSCRIPTS=write` writes the pages anew.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable
from pathlib import Path

from tools import cli

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"```console\n(.*?)```", re.DOTALL)
#: What differs from run to run: ages, ids, durations, hashes of sessions, and how files are copied.
VARYING = (
    (re.compile(r"just now|\d+ (?:s|min) ago"), "AGE"),
    (re.compile(r"\b[0-9a-f]{8}\b"), "ID"),
    (re.compile(r" +\d+\.\d s\b"), " SECONDS"),
    (re.compile(r"\bby (?:reflink|copy)\b"), "by COPY"),
    (re.compile(r"\b\d+(?:\.\d)? [KM]iB\b"), "SIZE"),
    (re.compile(r"run-[0-9a-f]{4}\b"), "SESSION"),
    (re.compile(r" {2,}"), "  "),
)


def plain(text: str) -> str:
    """A text without what differs from run to run."""
    for pattern, word in VARYING:
        text = pattern.sub(word, text)
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


def play(page: str, cwd: Path, before: dict[str, Callable[[], object]] | None = None) -> None:
    """Runs the commands of a page; what they print must be what it says. `before` acts right before a command."""
    path = ROOT / "docs" / "howto" / page
    text = path.read_text()
    for block in BLOCK.findall(text):
        shown = ""
        for part in filter(None, re.split(r"^\$ ", block, flags=re.MULTILINE)):
            command, printed = part.split("\n", 1)
            if before and command in before:
                before[command]()
            done = cli(*shlex.split(command)[1:], cwd=cwd)
            said = (done.stderr + done.stdout).replace(str(cwd.parent), "/home/you")  # as a terminal shows it
            shown += f"$ {command}\n{said}" + ("" if said.endswith("\n") else "\n")
            if os.environ.get("TEST_TRANSCRIPTS") != "write":
                assert plain(said) == plain(printed), command
        if os.environ.get("TEST_TRANSCRIPTS") == "write":
            text = text.replace(block, shown)
            path.write_text(text)
