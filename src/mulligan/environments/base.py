"""
What every environment promises.

An environment is a place where an agent reads and writes files and runs commands, and that can be restored: `checkpoint`
returns an id, `restore` brings exactly that state back. To write your own, derive from `Environment` and fill in the
abstract methods; whatever takes an environment (`CheckpointManager`, the agent loop, the REPL) then works with it.

Promises an implementation keeps: a bad id is a ValueError and changes nothing; a path that would leave the working
directory is a PermissionError and touches nothing; a command that runs out of time is ended with all it started.
"""

from __future__ import annotations

import os
import posixpath
import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fnmatch import fnmatchcase
from types import TracebackType
from typing import Any, ClassVar, Self

DEFAULT_TEST_COMMAND = "python -m pytest"
DEFAULT_COMMAND_TIMEOUT = 120
DEFAULT_TEST_TIMEOUT = 300
#: The exit code of a command that ran out of time, as `timeout(1)` gives it.
TIMED_OUT = 124

_COUNTED = re.compile(r"\b(\d+) (passed|failed|errors?)\b")
#: pytest's summary where it found no test, which it answers with exit code 5.
_EMPTY = re.compile(r"^=* ?no tests ran\b", re.MULTILINE)


@dataclass
class CommandResult:
    """The output and exit code of a command."""

    stdout: str
    stderr: str
    exit_code: int

    @property
    def success(self) -> bool:
        """Whether the command ended with 0."""
        return self.exit_code == 0


@dataclass
class TestResult:
    """How a test run ended."""

    __test__: ClassVar[bool] = False  # not a test class, whatever pytest makes of the name

    passed: int = 0
    failed: int = 0
    errors: int = 0
    output: str = ""

    @property
    def total(self) -> int:
        """How many tests ran."""
        return self.passed + self.failed + self.errors


class Environment(ABC):
    """A working directory somewhere, with files, commands and checkpoints."""

    test_cmd: str = DEFAULT_TEST_COMMAND
    test_timeout: int = DEFAULT_TEST_TIMEOUT

    def setup(self) -> None:  # noqa: B027 - nothing to do is a fair answer
        """Makes the environment ready; again is harmless."""

    def cleanup(self) -> None:  # noqa: B027 - nothing to do is a fair answer
        """Ends what the environment started; again is harmless. Checkpoints stay."""

    @abstractmethod
    def read_file(self, path: str) -> str:
        """Returns the text of a file; FileNotFoundError when there is none, PermissionError for a path outside."""

    @abstractmethod
    def write_file(self, path: str, content: str) -> None:
        """Writes a file, making the directories above it; PermissionError for a path outside."""

    @abstractmethod
    def list_files(self, pattern: str = "**/*") -> list[str]:
        """Returns the files whose path matches a pattern, relative and sorted."""

    @abstractmethod
    def run_command(
        self, cmd: str, timeout: float | None = DEFAULT_COMMAND_TIMEOUT, shell_name: str = "main"
    ) -> CommandResult:
        """Runs a shell command; out of time it ends with exit code 124. Sessions of different names do not meet."""

    @abstractmethod
    def checkpoint(self) -> str:
        """Saves the state and returns its id."""

    @abstractmethod
    def restore(self, checkpoint_id: str) -> None:
        """Brings a state back exactly; an id that names none is a ValueError, and nothing is changed."""

    def checkpoint_as(self, name: str, description: str = "", kind: str = "manual") -> str:
        """Saves the state under a name, where the environment can show one; otherwise as `checkpoint` does."""
        del name, description, kind
        return self.checkpoint()

    def checkpoint_ids(self) -> list[str] | None:
        """Returns the ids that can be restored, oldest first; None where the environment cannot tell."""
        return None

    def records(self) -> list[dict[str, Any]]:
        """Returns what `add_record` kept, oldest first."""
        return list(self.__dict__.get("_records", ()))

    def add_record(self, record: dict[str, Any]) -> None:
        """Keeps a record about a checkpoint; in memory only, unless the environment has a better place."""
        self.__dict__.setdefault("_records", []).append(dict(record))

    def clear_records(self) -> None:
        """Forgets every record; checkpoints stay."""
        self.__dict__.pop("_records", None)

    def run_tests(self) -> TestResult:
        """Runs the test command and counts what it reports."""
        return count_tests(self.run_command(self.test_cmd, timeout=self.test_timeout, shell_name="tests"))

    def clone(self) -> Environment:
        """Returns an independent copy of the environment, where it can make one."""
        raise NotImplementedError(f"{type(self).__name__} cannot be cloned")

    def __enter__(self) -> Self:
        self.setup()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cleanup()


def count_tests(result: CommandResult) -> TestResult:
    """Returns the figures of a pytest-style summary; without one, the exit code decides."""
    output = result.stdout + (("\n" if result.stdout else "") + result.stderr if result.stderr else "")
    counts = {"passed": 0, "failed": 0, "error": 0}
    summaries = [found for line in output.splitlines() if (found := _COUNTED.findall(line))]
    for number, word in summaries[-1] if summaries else ():
        counts[word.rstrip("s") if word.startswith("error") else word] = int(number)
    if not summaries and not result.success and not _EMPTY.search(output):
        counts["error"] = 1
    return TestResult(counts["passed"], counts["failed"], counts["error"], output)


def unknown_checkpoint(checkpoint_id: object) -> ValueError:
    """Returns the error for an id that names no checkpoint."""
    return ValueError(f"Checkpoint {checkpoint_id} not found")


def escaping(path: str | os.PathLike[str]) -> PermissionError:
    """Returns the error for a path that leaves the working directory."""
    return PermissionError(f"Path escapes workdir: {os.fspath(path)}")


def path_below(workdir: str, path: str | os.PathLike[str]) -> str:
    """
    Returns a path relative to the working directory, without resolving links.

    Absolute paths below the working directory are fine; what leaves it is a PermissionError.
    """
    root = posixpath.normpath(workdir)
    return _below(root, posixpath.normpath(posixpath.join(root, _plain(path))), path)


def real_path_below(workdir: str, path: str | os.PathLike[str]) -> bytes:
    """
    Returns where a path leads below a working directory on this machine, links resolved; PermissionError if it leaves.

    Open the result by `safefs`, which follows no link: one that is swapped in after this look makes the step fail.
    """
    root = os.path.realpath(workdir)
    return os.fsencode(_below(root, os.path.realpath(os.path.join(root, _plain(path))), path))


def _plain(path: str | os.PathLike[str]) -> str:
    text = os.fspath(path)
    if "\0" in text:
        raise escaping(path)
    return text


def _below(root: str, whole: str, path: str | os.PathLike[str]) -> str:
    prefix = root.rstrip("/") + "/"
    if whole != root and not whole.startswith(prefix):
        raise escaping(path)
    return whole[len(prefix) :]


def matches(path: list[str], pattern: list[str]) -> bool:
    """Returns whether a path matches, part by part; `**` stands for any number of directories, at the end for all below."""
    if not pattern:
        return not path
    if pattern[0] == "**":
        return (len(pattern) == 1 and bool(path)) or any(matches(path[at:], pattern[1:]) for at in range(len(path)))
    return bool(path) and fnmatchcase(path[0], pattern[0]) and matches(path[1:], pattern[1:])
