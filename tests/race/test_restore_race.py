"""
Restores while somebody writes: bytes that nobody planned for are never destroyed.

A writer puts whole files in place by rename, as careful editors do, while restores run. After each round the last bytes
it wrote to each path must be found again: at the path, beside it, or in a checkpoint.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import mulligan
from checker import batch_objects, judge
from tools import plain_environment, sweep
from tree import put, snapshot

WRITER = """
    import os, random, sys
    project, staging, seed = sys.argv[1:]
    rng = random.Random(int(seed))
    temporary = os.path.join(staging, "next")
    number = 0
    for line in sys.stdin:
        last = {}
        print("go", flush=True)
        for _ in range(int(line)):
            number += 1
            path = rng.choice(PATHS)
            content = f"{path} {number} " + "x" * rng.randrange(3000)
            with open(temporary, "w") as file:
                file.write(content)
            try:
                os.rename(temporary, os.path.join(project, path))
                last[path] = content
            except OSError:
                pass  # the directory is gone at this moment
        for path, content in last.items():
            print(path + " = " + content)
        print("done", flush=True)
"""
PATHS = [f"d{number % 2}/f{number}" for number in range(8)] + ["top", "d1/new1", "d1/new2"]


@pytest.fixture(params=["few", "many"])
def ws(request, project: Path, store: Path, monkeypatch) -> Any:
    """A workspace whose restores sync each file, and one that syncs all of them at once, as for many."""
    if request.param == "many":
        monkeypatch.setattr("mulligan.restore.stage._SYNC_EACH", 0)
    return mulligan.open(project, store=store)


@pytest.fixture
def writer(project: Path, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that rewrites files in bursts, one burst per line on its stdin."""
    (tmp_path / "staging").mkdir()
    script = f"PATHS = {PATHS!r}\n" + textwrap.dedent(WRITER)
    child = subprocess.Popen(
        [sys.executable, "-c", script, os.fspath(project), os.fspath(tmp_path / "staging"), "1"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=plain_environment(),
    )
    yield child
    child.kill()
    child.communicate()


def burst(child: subprocess.Popen[str], count: int) -> None:
    """Starts one burst of writes."""
    assert child.stdin is not None and child.stdout is not None
    child.stdin.write(f"{count}\n")
    child.stdin.flush()
    assert child.stdout.readline() == "go\n"


def written(child: subprocess.Popen[str]) -> dict[str, bytes]:
    """Waits for the end of the burst: the last content of each path."""
    assert child.stdout is not None
    found = {}
    while (line := child.stdout.readline()) != "done\n":
        assert line, "the writer died"
        path, content = line.rstrip("\n").split(" = ", 1)
        found[path] = content.encode()
    return found


def restore(ws: Any, ref: str) -> Any:
    """Restores, again and again while the tree moves under the plan."""
    for _attempt in range(50):
        try:
            return ws.restore(ref)
        except mulligan.PlanStale:
            continue
    return None


def test_bytes_nobody_planned_for_are_never_destroyed(ws, project, store, writer):
    for path in PATHS:
        if "new" not in path:
            put(project, path, "saved")
    ws.save("base")
    for number in range(sweep(25)):
        burst(writer, 150)
        report = restore(ws, "base")
        last = written(writer)
        on_disk = {entry.content for entry in snapshot(project).values()}
        missing = {path: content for path, content in last.items() if content not in on_disk}
        if missing:
            stored = {content for _name, kind, content in batch_objects(store) if kind == "blob"}
            lost = [path for path, content in missing.items() if content not in stored]
            assert not lost, f"round {number}: {lost}, report {report}"
    ws.save("after")
    assert judge(store, project) == []


def test_what_a_restore_kept_is_listed(ws, project, writer):
    """A restore that reports success either put the target there, or lists the path, or the writer came later."""
    for path in PATHS:
        if "new" not in path:
            put(project, path, "saved")
    ws.save("base")
    for _round in range(sweep(10)):
        burst(writer, 100)
        report = restore(ws, "base")
        last = written(writer)
        if report is None:
            continue
        kept = {entry.path for entry in report.kept}
        for path, entry in snapshot(project).items():
            if entry.kind == "file":
                assert path in kept or entry.content in {b"saved", last.get(path)}, path


def test_a_quiet_restore_after_the_storm_is_exact(ws, project, writer):
    for path in PATHS:
        if "new" not in path:
            put(project, path, "saved")
    ws.save("base")
    for _round in range(sweep(5)):
        burst(writer, 100)
        restore(ws, "base")
        written(writer)
        ws.restore("base")
        files = {path: entry.content for path, entry in snapshot(project).items() if entry.kind == "file"}
        assert files == {path: b"saved" for path in PATHS if "new" not in path}
