"""What others build on: notes beside the checkpoints, checkpoints from copies, rules about what is new."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import mulligan
from mulligan.engine.workspace import Workspace
from mulligan.settings import resolve
from tools import plain_environment


def test_a_note_is_kept_beside_the_checkpoints(ws: Workspace, project: Path, store: Path) -> None:
    assert ws.note("a") is None
    assert ws.note("a", {"default": 1}) == {"default": 1}
    assert not store.exists()
    assert ws.update_note("a", lambda old: [old, "x"]) == [None, "x"]
    assert mulligan.open(project, store=store).note("a") == [None, "x"]


def test_a_change_that_fails_changes_nothing(ws: Workspace) -> None:
    ws.update_note("a", lambda _: 1)
    with pytest.raises(ZeroDivisionError):
        ws.update_note("a", lambda old: old / 0)
    with pytest.raises((TypeError, ValueError)):
        ws.update_note("a", lambda _: float("nan"))
    assert ws.note("a") == 1


def test_processes_that_count_together_miss_none(ws: Workspace, project: Path, store: Path) -> None:
    ws.save()
    program = (
        "import sys, mulligan\n"
        "ws = mulligan.open(sys.argv[1], store=sys.argv[2])\n"
        "for _ in range(25): ws.update_note('n', lambda old: (old or 0) + 1)"
    )
    words = [sys.executable, "-c", program, project, store]
    running = [subprocess.Popen(words, env=plain_environment()) for _ in range(2)]
    assert [process.wait() for process in running] == [0, 0]
    assert ws.note("n") == 50


def test_a_copy_becomes_a_checkpoint_and_nothing_moves(ws: Workspace, project: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    (copy / "sub").mkdir(parents=True)
    (copy / "sub" / "f").write_text("then")
    (copy / "sub" / "f").chmod(0o750)
    (copy / ".env").write_text("TOKEN=1")
    (copy / "link").symlink_to("/etc/passwd")
    (project / "f").write_text("now")
    here = ws.save("here")
    made = ws.import_directory(copy, name="then", metadata={"from": "a copy"})
    assert here is not None and ws.position() == here.id
    assert (made.name, made.metadata) == ("then", {"from": "a copy"})
    assert (made.not_captured, made.sealed) == ((), (".env",))
    assert (project / "f").read_text() == "now"
    ws.restore(made)
    assert sorted(path.name for path in project.iterdir()) == [".env", "link", "sub"]
    assert (project / "sub" / "f").stat().st_mode & 0o777 == 0o750
    ws.undo()
    assert [path.name for path in project.iterdir()] == ["f"]
    assert ws.check().ok


def test_after_an_import_the_next_save_sees_what_is_there(ws: Workspace, project: Path, tmp_path: Path) -> None:
    """What was read of the copy is not taken for what is known of the workspace."""
    (project / "f").write_text("same size")
    ws.save()
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "f").write_text("SAME SIZE")
    ws.import_directory(tmp_path / "copy")
    assert ws.save(if_changed=True) is None
    assert ws.cat("@", "f") == b"same size"


def opened(project: Path, store: Path, **rules: Any) -> Workspace:
    settings = resolve(project, store=store)
    return Workspace(settings._replace(capture=settings.capture._replace(**rules)))


def test_in_some_directories_nothing_new_is_removed(project: Path, store: Path) -> None:
    ws = opened(project, store, keep_new_in=("out",))
    (project / "src" / "out").mkdir(parents=True)
    (project / "src" / "out" / "f").write_text("1")
    saved = ws.save()
    assert saved is not None
    (project / "src" / "out" / "f").write_text("2")
    (project / "src" / "out" / "new").write_text("2")
    (project / "new").write_text("2")
    (project / "out").write_text("a file of that name is a file")
    report = ws.restore(saved)
    assert (project / "src" / "out" / "f").read_text() == "1"
    assert (project / "src" / "out" / "new").read_text() == "2"
    assert sorted(path.name for path in project.iterdir()) == ["src"]
    assert report.complete and [(keep.path, keep.reason) for keep in report.kept] == [("src/out/new", "spared")]
    ws.undo()
    assert (project / "src" / "out" / "f").read_text() == "2"


def test_what_was_certainly_not_there_may_go(project: Path, store: Path) -> None:
    (project / ".gitignore").write_text("out/\n")
    (project / "out").mkdir()
    (project / "out" / "other").write_text("1")
    saved = opened(project, store).save()
    assert saved is not None
    (project / "out" / "new").write_text("1")
    ws = opened(project, store, include=("/out/new",), certain=("out/new",))
    ws.restore(saved, paths=["out/new"])
    assert [path.name for path in (project / "out").iterdir()] == ["other"]
