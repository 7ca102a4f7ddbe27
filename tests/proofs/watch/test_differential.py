"""A watched workspace looks the same as one that is walked from end to end, whatever was done to it; `differential.py` is the long run."""

from __future__ import annotations

import pytest
from differential import Missed, run

from bad_watchers import BUILDS
from tools import sweep


@pytest.mark.parametrize("seed", range(sweep(4)))
def test_a_watched_look_sees_what_a_fresh_walk_sees(tmp_path, seed):
    done = run(tmp_path, seed, rounds=40)
    assert done.compared == 40
    assert done.watching is not None


@pytest.mark.parametrize("build", BUILDS)
def test_a_faulty_watcher_is_found_out(tmp_path, build):
    """If it were not, the silence of the test above would mean nothing."""
    with pytest.raises(Missed):
        for seed in range(30):
            folder = tmp_path / str(seed)
            folder.mkdir()
            run(folder, seed, 60, build)
