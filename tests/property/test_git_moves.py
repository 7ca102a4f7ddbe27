"""Random work with git, random rollbacks: each is exact, each undo takes it back exactly, and no commit is ever lost."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

import mulligan
from checker import judge
from tools import git, sweep
from tree import put
from users_repository import commits, expect_whole, new_repository, seen

BRANCHES = ("main", "side", "topic/a", "topic/b")
REFS = ("for-each-ref", "refs/heads", "refs/tags", "refs/stash")


def step(repo: Path, rng: random.Random) -> None:
    """One thing that people and agents do; what git refuses is not done."""
    names = ["file", "only1", "only2", "dir/deep/other", "new/one", "dir/two"]
    roll, name = rng.randrange(12), rng.choice(names)
    place = repo / name
    if roll < 3:
        put(repo, name, f"{rng.random()}\n")
    elif roll == 3:
        place.unlink(missing_ok=True)
    elif roll == 4:
        git("add", "-A", cwd=repo)
    elif roll == 5:
        git("add", name, cwd=repo, check=False)
    elif roll == 6:
        git("commit", "-q", "--allow-empty", *(["-a"] * rng.randrange(2)), "-m", "c", cwd=repo, check=False)
    elif roll == 7:
        git("checkout", "-q", rng.choice(["-B", "-f"]), rng.choice(BRANCHES), cwd=repo, check=False)
    elif roll == 8:
        git("checkout", "-q", "--detach", cwd=repo, check=False)
    elif roll == 9:
        git("merge", "-q", "--no-edit", rng.choice(BRANCHES), cwd=repo, check=False)
    elif roll == 10:
        git("branch", "-q", "-D", rng.choice(BRANCHES), cwd=repo, check=False)
    else:
        git(rng.choice(["pack-refs", "gc"]), *rng.choice([["--all"], ["-q"]]), cwd=repo, check=False)


def without_other_branches(state: dict[Any, bytes]) -> dict[Any, bytes]:
    """What a rollback brings back: all but the branches that are not checked out."""
    head = state["symbolic-ref", "-q", "HEAD"].strip()
    mine = [line for line in state[REFS].splitlines() if head and line.endswith(b"\t" + head)]
    return {**state, REFS: b"\n".join(mine)}


def within_reach(repo: Path) -> set[bytes]:
    """Every commit that a ref or HEAD reaches."""
    return commits(repo) | set(git("rev-list", "HEAD", cwd=repo, check=False).split())


@pytest.mark.parametrize("seed", range(sweep(3)))
def test_every_rollback_is_exact_and_can_be_taken_back(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    repo = new_repository(tmp_path / "project")
    ws = mulligan.open(repo, store=tmp_path / "store")
    saved: dict[str, dict[Any, bytes]] = {}
    for number in range(12):
        for _ in range(rng.randrange(1, 6)):
            step(repo, rng)
        if number < 2 or rng.random() < 0.4:
            ws.save(f"s{number}", git=True)
            saved[f"s{number}"] = seen(repo)
            continue
        name = rng.choice(sorted(saved))
        before, reachable = seen(repo), within_reach(repo)
        try:
            report = ws.restore(name, git=True)
        except mulligan.GitNotMoved:
            assert seen(repo) == before
            continue
        assert report.complete
        after = seen(repo)
        if not (report.git and report.git.notes):
            assert without_other_branches(after) == without_other_branches(saved[name])
        assert reachable <= within_reach(repo)
        expect_whole(repo)
        if after != before:
            ws.undo()
            assert seen(repo) == before
            if rng.random() < 0.5:
                ws.redo()
                assert seen(repo) == after
            expect_whole(repo)
    assert judge(tmp_path / "store", repo) == []
