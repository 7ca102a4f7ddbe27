"""`mulligan demo`: a rollback in a throw-away project."""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from mulligan.cli.command import Result
from mulligan.cli.context import Context
from mulligan.engine.workspace import Workspace
from mulligan.present.diff import render_stat
from mulligan.present.log import log_lines
from mulligan.present.outcome import outcome_lines
from mulligan.present.text import Style, count
from mulligan.present.timeline import saved_lines
from mulligan.settings import resolve

USAGE = "demo"
DESCRIPTION = """\
Watch a rollback: a small project is saved, broken as a careless agent would break it, and brought back.

It all happens in a throw-away directory with a throw-away store; nothing of yours is touched, and nothing is left behind.
"""
EXAMPLES = (("mulligan demo", "about a second"), ("mulligan --json demo", "the same as one document"))
EXIT_CODES = (0, 70)

PROJECT = {
    "README.md": b"# Greeter\n\nSays hello.\n",
    "src/greeter/__init__.py": b"",
    "src/greeter/app.py": b'def greet(name):\n    return f"Hello, {name}!"\n',
    "src/greeter/words.py": b'POLITE = ["please", "thank you"]\n',
    "tests/test_app.py": b'from greeter.app import greet\n\n\ndef test_greet():\n    assert greet("you") == "Hello, you!"\n',
    "logo.bin": bytes(range(256)) * 8,
    "notes.txt": b"three days of work that no commit holds\n",
}
YOURS = """
In your own project:

  mulligan save "before the agent"     one checkpoint of everything
  mulligan diff                        what happened since
  mulligan undo                        take it back; `mulligan redo` if that was wrong
  mulligan restore @ -- some/file      only that file
"""


def run(context: Context, _args: argparse.Namespace) -> Result:
    """Plays it through; an outcome that is not byte for byte the promised one is an error."""
    base = Path(tempfile.mkdtemp(prefix="mulligan-demo-"))
    try:
        lines = list(_play(base, context.out.style, context))
    finally:
        shutil.rmtree(base, ignore_errors=True)
    return Result(lines, lambda: {"ok": True, "output": lines})


def _play(base: Path, style: Style, context: Context) -> Iterator[str]:
    root = base / "greeter"
    for name, data in PROJECT.items():
        _write(root / name, data)
    workspace = Workspace(resolve(root, store=base / "store", environ={"HOME": str(base)}))
    try:
        yield from _story(workspace, root, style, context)
    finally:
        workspace.close()


def _story(workspace: Workspace, root: Path, style: Style, context: Context) -> Iterator[str]:
    yield f"A throw-away project in {root}"
    yield from _typed('mulligan save "it works"', style)
    saved = workspace.save("it works")
    yield from saved_lines(saved, style) if saved is not None else ()
    before = _bytes(root)

    _careless_agent(root)
    after = _bytes(root)
    yield ""
    yield style("red", "# a careless agent: rm -rf src, a rewritten test, a lost note, a truncated logo, litter")
    yield from _typed("mulligan diff --stat", style)
    yield from (
        render_stat(workspace.diff(), colour=style.enabled, width=context.out.width or 80).rstrip("\n").split("\n")
    )

    yield from _typed("mulligan undo", style)
    yield from outcome_lines(workspace.undo(), "Undone", again="redo", style=style)
    yield _proof(before, _bytes(root), "every byte is back", style)
    yield from _typed("mulligan redo", style)
    yield from outcome_lines(workspace.redo(), "Redone", changed="changed", again="undo", style=style)
    yield _proof(after, _bytes(root), "even the agent's mess can be had again", style)
    yield from _typed("mulligan undo", style)
    yield from outcome_lines(workspace.undo(), "Undone", again="redo", style=style)
    yield _proof(before, _bytes(root), "every byte is back", style)
    yield from _typed("mulligan log", style)
    yield from log_lines(
        workspace.log(), position=workspace.position(), now=context.now(), style=style, width=context.out.width
    )
    yield from YOURS.rstrip("\n").split("\n")


def _careless_agent(root: Path) -> None:
    shutil.rmtree(root / "src")
    _write(root / "tests/test_app.py", b"def test_greet():\n    pass  # it was failing\n")
    (root / "notes.txt").unlink()
    _write(root / "logo.bin", PROJECT["logo.bin"][:100])
    _write(root / "fix_attempt_7.py", b"print('done!')\n")


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def _bytes(root: Path) -> dict[str, bytes]:
    files = (Path(folder, name) for folder, _, names in os.walk(root) for name in names)
    return {str(path.relative_to(root)): path.read_bytes() for path in files}


def _proof(expected: dict[str, bytes], actual: dict[str, bytes], words: str, style: Style) -> str:
    if expected != actual:
        raise RuntimeError("the demonstration did not come out as promised")
    return style("green", f"✓ {words}: {count(len(actual), 'file')} compared, {len(actual)} identical")


def _typed(command: str, style: Style) -> Iterator[str]:
    yield ""
    yield style("bold", f"$ {command}")
