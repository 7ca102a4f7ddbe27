"""Damage to a store: flipped bits, cut, zeroed, missing and swapped files. Found, named, and never passed on as content."""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path

import pytest

import mulligan
from tools import cli, sweep
from tree import contents, put

CONTENT = {
    "one": {"a": b"first\n" * 50, "d/b": bytes(range(256)), "d/c": b"constant"},
    "two": {"a": b"first\n" * 49 + b"second\n", "d/b": b"other", "d/c": b"constant"},
}
#: Files whose bytes say nothing about history: damage there may cost time, never truth.
DISPOSABLE = ("cache", "lock", "description", "info/", "-shm")


@pytest.fixture
def healthy(project: Path, store: Path) -> Path:
    """A store with two checkpoints and a restore behind it."""
    ws = mulligan.open(project, store=store)
    for name, files in CONTENT.items():
        for path, content in files.items():
            put(project, path, content)
        ws.save(name)
    ws.restore("one")
    ws.restore("two")
    del ws
    return store


def reads(project: Path, store: Path) -> tuple[bool, bool]:
    """Whether `check` is content and whether every byte could be read; never a wrong byte, never a bare error."""
    whole = True
    try:
        ws = mulligan.open(project, store=store)
        for name, files in CONTENT.items():
            for path, content in files.items():
                try:
                    assert ws.cat(name, path) == content, f"wrong bytes for {name}:{path}"
                except mulligan.MulliganError:
                    whole = False
        fine = ws.check().ok
    except mulligan.MulliganError:
        return False, False
    return fine, whole


def files_of(store: Path) -> list[Path]:
    """The files of a store, in a fixed order."""
    return sorted(path for path in store.rglob("*") if path.is_file())


def test_a_flipped_bit_is_found_and_never_read_as_content(project, healthy, tmp_path):
    """Reliability row 24, sampled."""
    rng = random.Random(7)
    spare = tmp_path / "spare"
    shutil.copytree(healthy, spare)
    targets = [path.relative_to(spare) for path in files_of(spare) if path.stat().st_size]
    for _round in range(sweep(120)):
        shutil.rmtree(healthy)
        shutil.copytree(spare, healthy)
        victim = rng.choice(targets)
        raw = bytearray((healthy / victim).read_bytes())
        at = rng.randrange(len(raw))
        raw[at] ^= 1 << rng.randrange(8)
        (healthy / victim).write_bytes(raw)
        fine, whole = reads(project, healthy)
        assert whole or not fine, f"{victim} byte {at}: content unreadable, and check is content"
        if victim.suffix in {".pack", ".idx"}:
            assert not fine, f"{victim} byte {at}: not detected"


@pytest.mark.parametrize("how", ["cut", "zeroed", "gone", "swapped"])
def test_a_spoiled_file_is_found_and_named(project, healthy, tmp_path, how):
    """Reliability row 25."""
    spare = tmp_path / "spare"
    shutil.copytree(healthy, spare)
    for victim in [path.relative_to(spare) for path in files_of(spare) if path.stat().st_size]:
        shutil.rmtree(healthy)
        shutil.copytree(spare, healthy)
        raw = (healthy / victim).read_bytes()
        if how == "gone":
            (healthy / victim).unlink()
        elif how == "swapped":
            others = [path for path in files_of(healthy) if path.suffix == victim.suffix and path != healthy / victim]
            if not others:
                continue
            (healthy / victim).write_bytes(others[0].read_bytes())
            others[0].write_bytes(raw)
        else:
            (healthy / victim).write_bytes(raw[: len(raw) // 2] if how == "cut" else bytes(len(raw)))
        fine, whole = reads(project, healthy)
        assert whole or not fine, f"{how} {victim}: content unreadable, and check is content"
        if victim.suffix in {".pack", ".idx"}:
            assert not fine, f"{how} {victim}: not detected"


@pytest.mark.parametrize("command", ["check", "log", "status", "doctor", "save", "diff", "gc", "undo"])
def test_no_command_shows_a_traceback_over_a_damaged_store(project, healthy, command):
    """A typed error, exit 90 or the like, one sentence each."""
    for path in files_of(healthy):
        if path.suffix == ".pack":
            path.write_bytes(path.read_bytes()[:-30] + bytes(30))
    done = cli("--store", healthy, command, cwd=project)
    assert "Traceback" not in done.stderr + done.stdout
    assert done.returncode in {0, 1, 3, 90}, (done.returncode, done.stderr)
    if command == "check":
        assert done.returncode == 90


def test_a_garbage_database_is_told_apart_from_an_empty_history(project, healthy):
    """A broken timeline is damage, not "nothing saved yet"."""
    (healthy / "timeline.db").write_bytes(b"this is not a database" * 400)
    for path in healthy.glob("timeline.db-*"):
        path.unlink()
    assert cli("--store", healthy, "log", cwd=project).returncode == 90
    assert cli("--store", healthy, "restore", "one", "-y", cwd=project).returncode == 90
    before = contents(project)
    done = cli("--store", healthy, "doctor", cwd=project)
    assert "Traceback" not in done.stderr
    assert contents(project) == before
    ws = mulligan.open(project, store=healthy)
    assert {"one", "two"} <= {cp.name for cp in ws.log()}
    assert ws.cat("one", "a") == CONTENT["one"]["a"]


def test_a_copied_store_opens_whole(project, healthy, tmp_path):
    """Reliability row 22: a store copied while nobody writes is a store."""
    subprocess.run(["cp", "-a", healthy, tmp_path / "copy"], check=True)
    fine, whole = reads(project, tmp_path / "copy")
    assert fine and whole
