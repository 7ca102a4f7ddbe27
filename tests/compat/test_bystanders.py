"""
Nothing lost: a restore never destroys bytes that no checkpoint holds.

In each story a path was captured once; since then something stands there that the safety checkpoint before the restore
cannot hold. The restore may keep it and say so; what it may not do is replace or remove it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import mulligan
from checker import batch_objects
from tools import git
from tree import put, snapshot

PRECIOUS = b"bytes that no checkpoint holds"


def ignored(project: Path, home: Path) -> None:
    """A rule hides it now."""
    put(project, ".gitignore", "x\n")
    put(project, "x", PRECIOUS)


def excluded(project: Path, home: Path) -> None:
    """The workspace's own configuration leaves it out now."""
    put(project, "mulligan.toml", '[capture]\nexclude = ["x"]\n')
    put(project, "x", PRECIOUS)


def too_large(project: Path, home: Path) -> None:
    """It has grown past the limit."""
    put(home, "xdg-config/mulligan/config.toml", '[capture]\nmax_file_size = "64 KiB"\n')
    put(project, "x", PRECIOUS * 4000)


def secret(project: Path, home: Path) -> None:
    """It holds a private key now, and secrets are skipped."""
    put(home, "xdg-config/mulligan/config.toml", '[capture]\nsecrets = "skip"\n')
    put(project, "x", b"-----BEGIN RSA PRIVATE KEY-----\n" + PRECIOUS + b"\n-----END RSA PRIVATE KEY-----\n")


def fifo(project: Path, home: Path) -> None:
    """It is a fifo now."""
    (project / "x").unlink()
    os.mkfifo(project / "x")


def directory_with_ignored(project: Path, home: Path) -> None:
    """It is a directory now, with something ignored inside."""
    (project / "x").unlink()
    put(project, ".gitignore", "*.skip\n")
    put(project, "x/kept.skip", PRECIOUS)
    put(project, "x/captured", "1")


def repository(project: Path, home: Path) -> None:
    """It is a repository now, with history of its own."""
    (project / "x").unlink()
    (project / "x").mkdir()
    git("init", "-q", cwd=project / "x")
    put(project, "x/code", PRECIOUS)
    git("add", "code", cwd=project / "x")
    git("commit", "-q", "-m", "inner", cwd=project / "x")


STORIES = [ignored, excluded, too_large, secret, fifo, directory_with_ignored, repository]


@pytest.mark.parametrize("paths", [None, ["x"]], ids=["whole", "path"])
@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_what_cannot_be_saved_first_is_not_replaced(project, store, private_home, story, paths):
    put(project, "x", "captured once")
    put(project, "other", "1")
    mulligan.open(project, store=store).save("one")
    put(project, "other", "2")
    story(project, private_home)
    before = snapshot(project)
    ws = mulligan.open(project, store=store)
    report = ws.restore("one", paths=paths)
    after = snapshot(project)
    stored = {content for _name, kind, content in batch_objects(store) if kind == "blob"}
    for path, entry in before.items():
        if path.startswith("x") and entry.kind != "dir" and (entry.kind == "other" or entry.content not in stored):
            assert after.get(path) == entry, f"{path} was destroyed"
    if after["x"] == before["x"] or after["x"].kind == "dir":
        assert any(entry.path.rstrip("/").startswith("x") for entry in report.kept), "kept, and not listed"
    if paths is None:
        assert (project / "other").read_text() == "1"
        ws.undo()
        assert (project / "other").read_text() == "2"


@pytest.mark.parametrize(
    "make", [put, lambda project, path, _text: (project / path).mkdir()], ids=["file", "directory"]
)
def test_a_directory_that_holds_a_bystander_outlives_the_restore(ws, project, make: Callable[..., object]):
    """The directory is of today, the target knows nothing of it, and something in it was never captured."""
    put(project, ".gitignore", "*.skip\n")
    ws.save("one")
    put(project, "new/deep/kept.skip", PRECIOUS)
    make(project, "new/deep/captured", "1")
    ws.restore("one")
    assert (project / "new/deep/kept.skip").read_bytes() == PRECIOUS
    assert not (project / "new/deep/captured").exists()


def test_hidden_files_survive_a_long_walk_through_history(ws, project):
    """Reliability row 31, small: many restores, and no bystander's byte, mode or time has changed."""
    put(project, ".gitignore", "build/\n*.skip\n")
    for path in ("build/out", "a.skip", "d/b.skip", ".env", "d/id_rsa"):
        put(project, path, PRECIOUS, perm=0o640)
    before = {path: entry for path, entry in snapshot(project).items() if entry.content == PRECIOUS}
    for number in range(6):
        put(project, "a", str(number))
        put(project, f"d/f{number}", "1")
        shutil.rmtree(project / "e", ignore_errors=True)
        put(project, f"e/g{number}", "1")
        ws.save(f"n{number}")
    for number in (0, 5, 2, 4, 1, 3, 0):
        ws.restore(f"n{number}")
    for _step in range(4):
        ws.undo()
    after = snapshot(project)
    assert {path: after.get(path) for path in before} == before
