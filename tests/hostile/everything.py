"""
Every command and every verb, one after the other, in one process: to be run under a watch.

    python tests/hostile/everything.py PROJECT STORE MOVED

MOVED is another project, whose history is adopted at the end. Prints each command with its exit code; ends with 1 if one failed
in a way that is not its own.
"""

from __future__ import annotations

import contextlib
import io
import sys
from pathlib import Path

import mulligan
from mulligan.cli.dispatch import main

COMMANDS = """
save one; save two --kind automatic; save three --git; log; log --json; show one; diff; diff one --stat; diff one two;
restore one --dry-run; restore one -y; undo; redo; restore three --git -y; undo; cat one:a; status; status --json; check;
rm two; forget deep/secret.txt; gc --dry-run; gc; doctor; stores; stores --json
"""
#: Findings, a refusal to go on, something that is not there: answers, not accidents.
ANSWERS = frozenset({0, 1, 3})


def by_command_line(project: Path, store: Path) -> list[str]:
    """Runs each command; returns those that ended in no way of their own."""
    strange = []
    for number, words in enumerate(COMMANDS.replace("\n", " ").split(";")):
        (project / "a").write_text(f"{number}")
        said = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="surrogateescape")
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            code = main(["-C", str(project), "--store", str(store), *words.split()])
        print(code, words.strip())
        said.seek(0)
        text = said.read()
        if code not in ANSWERS or "Traceback" in text:
            strange.append(f"{words.strip()}: {code}: {text[-300:]}")
    return strange


def by_verbs(project: Path, store: Path) -> None:
    """Calls each verb of the library."""
    with mulligan.open(project, store=store) as ws:
        first = ws.save("v1", git=True, metadata={"x": 1})
        (project / "a").write_text("other")
        ws.apply(ws.plan(first))
        ws.restore(first, paths=["a", "deep"])
        ws.undo()
        ws.redo()
        ws.restore(first, git=True)
        ws.log(limit=5), ws.get(first), ws.diff(first), ws.cat(first, "a"), ws.stats(), ws.status()
        ws.not_captured(), ws.pending(), ws.check(), ws.git_position()
        ws.update_note("k", lambda _old: 1), ws.note("k")
        with ws.guard("g"):
            (project / "a").write_text("guarded")
        ws.save("v2", metadata={"x": 1})
        ws.trim(1, match={"x": 1})
        ws.forget("deep/secret.txt")
        ws.prune()
        ws.doctor()


if __name__ == "__main__":
    where, kept, moved = (Path(word) for word in sys.argv[1:])
    wrong = by_command_line(where, kept)
    by_verbs(where, kept)
    with mulligan.open(moved) as old:
        old.save("before the move")
    here = moved.rename(moved.with_name("moved-away"))
    adopted = main(["-C", str(here), "adopt", str(moved)])
    print("\n".join(wrong), file=sys.stderr)
    sys.exit(1 if wrong or adopted else 0)
