"""What every environment shares: results, paths, records, and what a class of one's own must fill in."""

from __future__ import annotations

from pathlib import Path

import pytest

from mulligan.environments import CommandResult, Environment, TestResult
from mulligan.environments.base import count_tests, path_below, real_path_below


class Remembering(Environment):
    """An environment of one's own: files in a dictionary."""

    def __init__(self) -> None:
        self.files: dict[str, str] = {}
        self.saved: list[dict[str, str]] = []

    def read_file(self, path: str) -> str:
        return self.files[path]

    def write_file(self, path: str, content: str) -> None:
        self.files[path] = content

    def list_files(self, pattern: str = "**/*") -> list[str]:
        return sorted(self.files)

    def run_command(self, cmd: str, timeout: float | None = 120, shell_name: str = "main") -> CommandResult:
        return CommandResult(f"3 passed, 1 failed, 2 errors in 0.1s {cmd}", "", 1)

    def checkpoint(self) -> str:
        self.saved.append(dict(self.files))
        return str(len(self.saved) - 1)

    def restore(self, checkpoint_id: str) -> None:
        self.files = dict(self.saved[int(checkpoint_id)])


def test_an_environment_of_ones_own_works_with_the_manager() -> None:
    from mulligan.dialects.chimera import CheckpointManager

    with Remembering() as env:
        manager = CheckpointManager(env)
        env.write_file("a", "1")
        manager.create("start", "text")
        env.write_file("a", "2")
        manager.undo()
        assert env.files == {"a": "1"}
        assert [info.name for info in CheckpointManager(env).list_checkpoints()] == ["start"]
        manager.clear()
        assert env.records() == []


def test_an_environment_that_leaves_something_out_cannot_be_made() -> None:
    with pytest.raises(TypeError, match="abstract"):
        Environment()  # type: ignore[abstract]


def test_what_cannot_be_cloned_says_so() -> None:
    with pytest.raises(NotImplementedError, match="Remembering"):
        Remembering().clone()


def test_results() -> None:
    assert CommandResult("", "", 0).success and not CommandResult("", "", 1).success
    assert TestResult(1, 2, 3, "x").total == 6
    assert TestResult.__test__ is False


def test_tests_are_counted() -> None:
    result = Remembering().run_tests()
    assert (result.passed, result.failed, result.errors, result.total) == (3, 1, 2, 6)


@pytest.mark.parametrize(
    ("out", "code", "counts"),
    [
        ("1 passed in 0.1s\n", 0, (1, 0, 0)),
        ("1 failed\n===== 4 passed, 1 error in 2s =====\n", 1, (4, 0, 1)),
        ("===== no tests ran in 0.84s =====\n", 5, (0, 0, 0)),
        ("sh: no tests ran here", 5, (0, 0, 1)),
        ("fine", 0, (0, 0, 0)),
    ],
)
def test_counting(out: str, code: int, counts: tuple[int, int, int]) -> None:
    result = count_tests(CommandResult(out, "", code))
    assert (result.passed, result.failed, result.errors) == counts


@pytest.mark.parametrize(
    ("path", "found"), [("a", "a"), ("./a/../b", "b"), ("/work/a", "a"), (".", ""), ("/work", ""), ("a//b/", "a/b")]
)
def test_paths_by_their_text(path: str, found: str) -> None:
    assert path_below("/work", path) == found


@pytest.mark.parametrize("path", ["..", "/", "/workshop", "a/../../b", "/etc/passwd", "x\0y"])
def test_paths_that_leave_by_their_text(path: str) -> None:
    with pytest.raises(PermissionError, match="Path escapes workdir"):
        path_below("/work", path)


def test_the_root_itself_as_working_directory() -> None:
    assert path_below("/", "/etc/x") == "etc/x"


def test_links_that_stay_inside_are_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert real_path_below(str(tmp_path), "link/f") == b"real/f"
    assert real_path_below(str(tmp_path), tmp_path / "link") == b"real"
    assert real_path_below(str(tmp_path), ".") == b""


def test_a_directory_with_the_same_beginning_is_outside(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "workshop").mkdir()
    with pytest.raises(PermissionError):
        real_path_below(str(tmp_path / "work"), "../workshop/f")
