"""What a store takes on the disk: one number everywhere, bounded by the budget, and freed as foretold."""

from __future__ import annotations

import json
import random
import subprocess
from pathlib import Path

import tools
from play import typed


def du(path: Path) -> int:
    """What `du` says."""
    done = subprocess.run(["du", "-s", "--block-size=1", path], capture_output=True, text=True, check=True)
    return int(done.stdout.split()[0])


def store_of(project: Path) -> Path:
    """Where the store of a project is."""
    return Path(tools.cli_json("status", cwd=project)["store"])


def freed(project: Path, *options: str) -> int:
    """What `mulligan gc` says that it freed, or would."""
    number: int = tools.cli_json("gc", *options, cwd=project)["freed_bytes"]
    return number


def edited(project: Path, times: int) -> None:
    """A file that is edited and saved again and again."""
    lines = [f"line {number}\n" for number in range(400)]
    for number in range(times):
        lines[number * 7 % 400] = f"edited in round {number}\n"
        (project / "notes.md").write_text("".join(lines))
        typed(project, "save", f"round {number}")


def test_status_stores_and_du_say_the_same(project: Path) -> None:
    edited(project, 3)
    store = store_of(project)
    status = tools.cli_json("status", cwd=project)["bytes"]
    (row,) = [row for row in tools.cli_json("stores", cwd=project)["stores"] if row["path"] == str(store)]
    assert status == row["bytes"] == du(store)


def test_gc_frees_what_its_dry_run_foretold_and_a_dry_run_frees_nothing(project: Path) -> None:
    edited(project, 12)
    typed(project, "rm", "round 5", "-y")
    for number in range(3):
        (project / "notes.md").write_bytes(random.Random(number).randbytes(100_000))
        typed(project, "restore", "latest", "-y")
    store = store_of(project)
    before = du(store)
    told = freed(project, "--dry-run")
    assert told > 0
    assert du(store) == before
    assert freed(project) == told
    assert before - du(store) == told
    assert tools.cli_json("status", cwd=project)["bytes"] == before - told
    assert freed(project, "--dry-run") == freed(project) == 0


def test_names_of_ignored_files_are_stored_once(project: Path) -> None:
    """However many checkpoints say that they were not saved."""
    (project / ".gitignore").write_text("*.o\n")
    for number in range(3000):
        (project / f"{random.Random(number).randbytes(20).hex()}.o").touch()
    edited(project, 2)
    before = du(store_of(project))
    edited(project, 10)
    assert du(store_of(project)) - before < 10 * 50_000
    shown = tools.cli_json("show", "latest", cwd=project)
    assert len(shown["checkpoint"]["not_captured"]) == 3000, json.dumps(shown)[:300]
    typed(project, "check")


def test_the_budget_counts_everything_in_the_store(project: Path, private_home: Path) -> None:
    """A store of many small checkpoints, whose records are larger than their files, stays within its budget."""
    budget = 600 << 10
    config = private_home / "xdg-config" / "mulligan"
    config.mkdir()
    (config / "config.toml").write_text(f"[retention]\nbudget = {budget}\n")
    (project / ".gitignore").write_text("*.log\n")
    for number in range(60):
        # Another list of ignored names for each checkpoint.
        (project / f"{random.Random(number).randbytes(60).hex()}.log").touch()
        (project / "small").write_text(str(number))
        typed(project, "save", "--kind", "step")
    assert du(store_of(project)) <= budget
    assert len(tools.cli_json("log", cwd=project)["checkpoints"]) >= 2
