"""
A scan that remembers sees what a scan that remembers nothing sees.

Random edits of the kinds that fool caches (same size, mtime put back, directories swapped, rules and index changed
elsewhere), and after each few of them the two are compared: same trees, same list of what is not captured.
"""

from __future__ import annotations

import json
import random
import time

import pytest

import mulligan
from checker import judge
from edits import LIMIT, Tree, tick
from mulligan.model.checkpoint import IGNORED, NEWLY_IGNORED
from mulligan.model.policy import CapturePolicy, Settings
from mulligan.scan.cache import Cache
from mulligan.scan.scanner import Scanner
from mulligan.scan.trees import Scan
from scans import later, misjudged, settings_for
from tools import sweep


def scan_anew(settings: Settings, defaults: object) -> Scan:
    """A scan without any memory but the defaults that the other scan wrote its permission bits against."""
    cache = Cache()
    cache.note = json.dumps({"defaults": defaults}).encode()
    return Scanner(settings, time.time_ns).scan(cache)[0]


def listed(scan: Scan) -> list[tuple[bytes, str]]:
    return sorted((path, IGNORED if m.reason == NEWLY_IGNORED else m.reason) for path, m in scan.missed.items())


def open_again(settings: Settings) -> mulligan.Workspace:
    return mulligan.Workspace(settings, now_ns=later)


@pytest.mark.parametrize("seed", range(sweep(4)))
def test_a_remembering_scan_sees_what_a_fresh_one_sees(tmp_path, seed):
    """Same trees, same list of what is not captured, whatever was edited, saved, deleted or pruned in between."""
    rng = random.Random(seed)
    tree = Tree(tmp_path / "project", rng)
    settings = settings_for(tree.root, CapturePolicy(max_file_size=LIMIT, secrets="skip"))
    spaces = [open_again(settings), open_again(settings)]
    history: list[str] = []
    for number in range(25):
        for _ in range(rng.randrange(1, 6)):
            tree.step()
        tick(tmp_path)
        ws = rng.choice(spaces)
        if rng.random() < 0.2:
            ws.close()
        unsaved = ws.bench.look().scan if number else None
        assert unsaved is None or not misjudged(unsaved, ws.bench.store.objects.read_tree), f"seed {seed}, {number}"
        entry = ws.save(f"{seed}.{number}")
        history.append(entry.id)
        seen = ws.bench.look().scan
        fresh = scan_anew(settings, list(seen.defaults))
        assert listed(seen) == listed(fresh), f"seed {seed}, round {number}"
        assert (seen.tree, seen.modes) == (fresh.tree, fresh.modes), f"seed {seed}, round {number}"
        assert ws.bench.store.checkpoints.current().files_tree == fresh.tree
        if rng.random() < 0.2:
            rng.choice(spaces).delete(history.pop(rng.randrange(len(history))))
        if rng.random() < 0.15:
            rng.choice(spaces).prune()
    for ws in spaces:
        ws.close()
    assert judge(settings.store) == []
