"""`blame` says of each line what `git blame` says, where every checkpoint is a commit too."""

from __future__ import annotations

import random

import pytest

import mulligan
from tools import git, sweep


def versions(rng: random.Random) -> list[tuple[str, list[str]]]:
    """A file's name and lines, version by version; no line occurs twice, so which lines are new is clear."""
    name, lines, made = "file.txt", [], []
    for version in range(rng.randrange(4, 9)):
        for number in range(rng.randrange(1, 4)):
            at, count = rng.randrange(len(lines) + 1), rng.randrange(1, 6)
            lines[at : at + rng.randrange(3)] = [f"version {version} edit {number} line {n}" for n in range(count)]
        if version and rng.random() < 0.2:
            name = f"renamed-{version}.txt"
        made.append((name, list(lines)))
    return made


@pytest.mark.parametrize("seed", range(sweep(6)))
def test_blame_agrees_with_git_line_by_line(project, seed):
    rng, ws, saved = random.Random(seed), mulligan.open(project), {}
    git("init", "-q", cwd=project)
    before = ""
    for number, (name, lines) in enumerate(versions(rng)):
        if before and before != name:
            (project / before).unlink()
        (project / name).write_text("".join(f"{line}\n" for line in lines))
        git("add", "-A", cwd=project)
        git("commit", "-qm", str(number), cwd=project)
        saved[git("rev-parse", "HEAD", cwd=project).decode().strip()] = ws.save(str(number)).id
        before = name
    told = git("blame", "--porcelain", "--root", before, cwd=project).decode()
    heads = [line.split() for line in told.splitlines() if not line.startswith("\t")]
    commits = [words[0] for words in heads if len(words) in {3, 4} and len(words[0]) == 40]
    assert [each.origin.checkpoint for each in ws.blame(before).lines] == [saved[commit] for commit in commits]
