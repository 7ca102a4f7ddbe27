"""A first checkpoint that begins with what git knows is the checkpoint that reading everything makes."""

from __future__ import annotations

import random

import pytest
from honesty import BAD, Bad, caught

import adopted
from mulligan.scan import from_git
from plain_git import fsck
from tools import sweep


@pytest.mark.parametrize("seed", range(sweep(12)))
def test_a_checkpoint_from_git_is_the_one_that_reading_makes(tmp_path, monkeypatch, seed):
    """Same trees, same lists, same memory for the next look, whatever the repository holds and however dirty it is."""
    monkeypatch.setattr(from_git, "LEAST", 1)
    rng = random.Random(seed)
    repo = adopted.grow(rng, tmp_path / "project")
    if rng.random() < 0.6:
        adopted.dirty(rng, repo)
    adopted.settle(tmp_path)
    taken, read = adopted.both_ways(repo, tmp_path)
    assert adopted.said(taken) == adopted.said(read), f"seed {seed}"
    assert fsck(taken.store) == []


@pytest.mark.parametrize("bad", [bad for bad in BAD if bad.sweep == "adoption"], ids=lambda bad: bad.name)
def test_an_adoption_that_believes_too_much_is_caught(bad: Bad) -> None:
    assert caught(bad, 1) == ""
