"""The ghost stack beyond Chimera's own list: links, several processes, what is gone, what is refused."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

import mulligan
from faults import FailsAlways
from mulligan.environments.ghost import GhostCommitManager
from mulligan.safefs import syscalls


@pytest.fixture
def ghost(project: Path) -> GhostCommitManager:
    return GhostCommitManager(project)


def test_writing_through_a_link_changes_its_target_and_undo_brings_both_back(
    ghost: GhostCommitManager, project: Path
) -> None:
    (project / "real").write_text("1")
    (project / "link").symlink_to("real")
    ghost.snapshot("write_file: link", ["link"])
    (project / "link").write_text("2")
    assert ghost.undo() == ["restored: link"]
    assert (project / "link").is_symlink() and (project / "real").read_text() == "1"


def test_a_path_below_a_link_to_a_directory_inside(ghost: GhostCommitManager, project: Path) -> None:
    (project / "real").mkdir()
    (project / "link").symlink_to("real")
    ghost.snapshot("write", ["link/new"])
    (project / "link" / "new").write_text("x")
    assert ghost.undo() == ["deleted: link/new"]
    assert list((project / "real").iterdir()) == []


def test_absolute_paths_inside_are_fine(ghost: GhostCommitManager, project: Path) -> None:
    (project / "f").write_text("1")
    ghost.snapshot("write", [project / "f"])
    (project / "f").write_text("2")
    assert ghost.undo() == ["restored: f"]


def test_what_came_and_went_by_itself_is_nothing_to_tell(ghost: GhostCommitManager) -> None:
    ghost.snapshot("write", ["never-written"])
    assert ghost.undo() == []
    assert ghost.depth == 0


def test_a_file_that_became_a_directory(ghost: GhostCommitManager, project: Path) -> None:
    (project / "f").write_text("1")
    ghost.snapshot("write", ["f"])
    (project / "f").unlink()
    (project / "f").mkdir()
    (project / "f" / "x").write_text("x")
    ghost.undo()
    assert (project / "f").read_text() == "1"


def test_only_the_named_paths_move(ghost: GhostCommitManager, project: Path) -> None:
    for name in ("a", "b"):
        (project / name).write_text("1")
    ghost.snapshot("write", ["a"])
    for name in ("a", "b"):
        (project / name).write_text("2")
    ghost.undo()
    assert ((project / "a").read_text(), (project / "b").read_text()) == ("1", "2")


def test_two_managers_are_one_stack(project: Path) -> None:
    (project / "f").write_text("1")
    one, other = GhostCommitManager(project), GhostCommitManager(str(project))
    one.snapshot("a", ["f"])
    assert other.snapshot("b", ["f"]) == "ghost-2"
    assert one.history == other.history and one.depth == 2


def test_an_entry_whose_checkpoint_was_deleted_is_no_longer_there(ghost: GhostCommitManager, project: Path) -> None:
    (project / "f").write_text("1")
    ghost.snapshot("a", ["f"])
    ghost.snapshot("b", ["f"])
    mulligan.open(project).delete("ghost-2")
    assert [entry.id for entry in ghost.history] == ["ghost-1"]
    (project / "f").write_text("2")
    assert ghost.undo() == ["restored: f"]


def test_an_undo_that_failed_can_be_tried_again(ghost: GhostCommitManager, project: Path) -> None:
    (project / "f").write_text("1")
    ghost.snapshot("a", ["f"])
    (project / "f").write_text("2")
    with syscalls.using(FailsAlways(errno.EIO, "fsync", "syncfs")), pytest.raises(mulligan.MulliganError):
        ghost.undo()
    assert ghost.depth == 1
    assert ghost.undo() == ["restored: f"]
    assert (project / "f").read_text() == "1"


def test_bytes_are_shown_as_text_without_losing_one(ghost: GhostCommitManager, project: Path) -> None:
    data = bytes(range(256))
    (project / "bin").write_bytes(data)
    (project / "link").symlink_to("bin")
    ghost.snapshot("a", ["bin", "link"])
    entry = ghost.peek()
    assert entry is not None
    assert entry.files["bin"].encode("utf-8", "surrogateescape") == data
    assert entry.files["link"] == "bin"
    assert mulligan.open(project).cat(entry.checkpoint, "bin") == data


def test_what_makes_no_sense_is_refused(project: Path, ghost: GhostCommitManager) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        GhostCommitManager(project, max_snapshots=0)
    with pytest.raises(TypeError, match="a list"):
        ghost.snapshot("x", "main.py")
    with pytest.raises(ValueError, match="below the directory"):
        ghost.snapshot("x", ["."])
    with pytest.raises(PermissionError):
        GhostCommitManager("/").snapshot("x", ["etc"])
    assert ghost.depth == 0


def test_asking_makes_no_store(ghost: GhostCommitManager) -> None:
    assert (ghost.depth, ghost.history, ghost.peek(), ghost.undo()) == (0, [], None, [])
    ghost.clear()
    assert not Path(ghost.workspace.store_path).exists()


@pytest.mark.parametrize("existed", [True, False])
def test_an_ignored_file_with_a_line_break_in_its_name(ghost: GhostCommitManager, project: Path, existed: bool) -> None:
    (project / ".gitignore").write_text("*.log\n")
    odd = project / "a\nb.log"
    if existed:
        odd.write_text("1")
    ghost.snapshot("write", ["a\nb.log"])
    odd.write_text("2")
    ghost.undo()
    assert (odd.read_text() if existed else odd.exists()) == ("1" if existed else False)


def test_what_cannot_be_kept_is_refused_before_it_is_lost(ghost: GhostCommitManager, project: Path) -> None:
    os.mkfifo(project / "fifo")
    with pytest.raises(ValueError, match="fifo cannot be kept: it is special"):
        ghost.snapshot("write", ["fifo"])
    assert ghost.depth == 0


def test_what_cannot_go_does_not_block_the_stack(ghost: GhostCommitManager, project: Path) -> None:
    (project / "f").write_text("1")
    ghost.snapshot("first", ["f"])
    ghost.snapshot("second", ["new"])
    (project / "f").write_text("2")
    os.mkfifo(project / "new")
    assert ghost.undo(2) == ["kept: new (not captured)", "restored: f"]
    assert (project / "f").read_text() == "1"


def test_a_file_over_the_limit_is_refused(project: Path, private_home: Path) -> None:
    (private_home / "xdg-config" / "mulligan").mkdir()
    (private_home / "xdg-config" / "mulligan" / "config.toml").write_text('[capture]\nmax_file_size = "1 KiB"\n')
    (project / "big").write_bytes(b"x" * 5000)
    with pytest.raises(ValueError, match="big cannot be kept: it is too large"):
        GhostCommitManager(project).snapshot("write", ["big"])


@pytest.mark.parametrize("hidden", [".env", "ignored.txt", "node_modules/x.js"])
def test_one_plain_undo_takes_back_the_undo_of_a_hidden_path(
    ghost: GhostCommitManager, project: Path, hidden: str
) -> None:
    (project / ".gitignore").write_text("ignored.txt\n")
    (project / "node_modules").mkdir()
    (project / hidden).write_text("1")
    ghost.snapshot("write", [hidden])
    (project / hidden).write_text("2")
    assert ghost.undo() == [f"restored: {hidden}"]
    assert (project / hidden).read_text() == "1"
    mulligan.open(project).undo()
    assert (project / hidden).read_text() == "2"
