"""Memory: what a file costs while it is captured and while disk is freed does not grow with the number of files."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

import mulligan
from mulligan.store import gc as collecting
from mulligan.store import pack_writer

FEW, MANY = 1500, 4500


def _tree(root: Path, count: int) -> Path:
    for number in range(count):
        directory = root / f"package{number // 280:02}" / f"module{number // 14:04}"
        if not number % 14:
            directory.mkdir(parents=True)
        (directory / f"source_file_{number}.py").write_bytes(b"value = %d\n" % number)
    return root


def _peak(work: Callable[[], object]) -> int:
    gc.collect()
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.fixture(autouse=True)
def bounded_packs(monkeypatch):
    """Packs that are full early, so that a small tree shows what a large one costs."""
    monkeypatch.setattr(pack_writer, "MOST_ROWS", 256)
    monkeypatch.setattr(collecting, "MOST_ROWS", 256)
    monkeypatch.setattr(collecting, "_SETTLED_COUNT", 128)


def test_a_first_checkpoint_takes_less_than_600_bytes_a_file(tmp_path):
    """Names, stat fields and ids of what was seen, its trees, and the list of paths: no value for each file."""

    def taken(count: int) -> int:
        with mulligan.open(_tree(tmp_path / f"w{count}", count), store=tmp_path / f"s{count}") as ws:
            return _peak(ws.save)

    mulligan.open(_tree(tmp_path / "warm", 14), store=tmp_path / "s").save()
    assert (taken(MANY) - taken(FEW)) / (MANY - FEW) < 600


def test_freeing_disk_takes_less_than_400_bytes_an_object(tmp_path):
    def taken(count: int) -> int:
        with mulligan.open(_tree(tmp_path / f"w{count}", count), store=tmp_path / f"s{count}") as ws:
            ws.save()
            (tmp_path / f"w{count}" / "package00" / "module0000" / "source_file_0.py").write_bytes(b"edited\n")
            ws.save()
            return _peak(ws.prune)

    taken(14)
    assert (taken(MANY) - taken(FEW)) / (MANY - FEW) < 400
