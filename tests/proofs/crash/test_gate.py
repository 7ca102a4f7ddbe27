"""
The gate: nothing that changes a disk passes by it, whoever calls.

What strace sees of the very same process is compared call by call; and what does not belong to SQLite is compared with what
the package's own seam saw, so that a fake behind the seam meets every call there is.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import textwrap
from collections import Counter
from pathlib import Path

import pytest
from kill_operations import KILLED

from check_trace import changed_outside
from gate import NO_GATE, gate_works, passed
from mulligan import Workspace
from tools import plain_environment, strace_works

#: Calls of strace's classes `file` and `desc` that change nothing on any disk. What is not in this list must pass the gate.
LOOKING = frozenset(
    {
        *(
            "access",
            "faccessat",
            "faccessat2",
            "stat",
            "lstat",
            "fstat",
            "newfstatat",
            "statx",
            "statfs",
            "fstatfs",
            "readlink",
        ),
        *(
            "readlinkat",
            "getdents64",
            "getcwd",
            "chdir",
            "fchdir",
            "lseek",
            "read",
            "pread64",
            "readv",
            "preadv",
            "close",
        ),
        *("dup", "dup2", "dup3", "pipe", "pipe2", "poll", "ppoll", "select", "pselect6", "epoll_create1", "epoll_ctl"),
        *(
            "epoll_wait",
            "mmap",
            "getxattr",
            "lgetxattr",
            "fgetxattr",
            "listxattr",
            "llistxattr",
            "flistxattr",
            "fadvise64",
        ),
        *("execve", "memfd_create", "ioctl", "inotify_init1", "eventfd2", "close_range", "utimensat_time64"),
    }
)
OPENS = frozenset({"open", "openat"})
#: What the package's seam calls by another name than the kernel does.
NAMES = {
    "open": "openat", "rename": "renameat", "rename_new": "renameat2", "exchange": "renameat2", "mkdir": "mkdirat",
    "rmdir": "unlinkat", "unlink": "unlinkat", "symlink": "symlinkat", "link": "linkat", "utime": "utimensat",
    "setxattr": "setxattr",
}  # fmt: skip
#: Verbs that change nothing on a disk.
READING = frozenset(
    [
        "blame",
        "search",
        "report",
        "forks",
        "changed_paths",
        "log",
        "get",
        "diff",
        "cat",
        "stats",
        "status",
        "not_captured",
        "pending",
        "plan",
        "hunks",
        "agent_events",
        "agent_event_at",
        "story",
        "protection",
        "watch",
        "position",
        "contents",
        "holds",
        "evicted",
        "check",
        "note",
        "git_position",
        "close",
        "on",
        "off",
        "provide",
    ]
)
#: By verb: the operations of the sweep that are it.
#: Verbs that are killed by a proof of their own; a bisection works in a fork, and leaves the workspace alone.
SWEPT_ELSEWHERE = {
    "fork": "forks/fork_kills.py",
    "bisect": "forks/fork_kills.py",
    "push": "remotes/machines.py",
    "pull": "remotes/machines.py",
}
#: Functions of the engine that only doors call.
SWEPT_FUNCTIONS = {"recognise": ["recognise"], "expect_hooks": ["note"]}
SWEPT = {
    "save": [name for name in KILLED if name.startswith("save-")],
    "restore": [name for name in KILLED if name.startswith("restore") and name != "restore-planned"],
    "apply": ["restore-planned"],
    "undo": [
        "undo",
        "undo-git",
        "undo-locked",
        "session-undo",
        *(f"undo-turn{how}" for how in ("", "-conflict", "-kinds", "-sealed")),
    ],
    "revert": ["revert", "revert-markers", "revert-hunks", "revert-kinds", "undo-revert"],
    "redo": ["redo", "redo-git", "redo-turn"],
    "delete": ["delete", "delete-oldest", "delete-packed"],
    "trim": ["trim"],
    "prune": ["gc", "gc-refs"],
    "tidy": ["tidy", "tidy-freeing"],
    "forget": ["forget", "forget-folder"],
    "doctor": [name for name in KILLED if name.startswith("doctor-")],
    "adopt": ["adopt", "adopt-joining"],
    "guard": ["guard", "guard-failing"],
    "update_note": ["note"],
    "record": ["record"],
    "import_commit": ["import-commit"],
    "import_directory": ["import-directory"],
    "state_owed": ["restore-all"],
    "settle_state": ["restore-all", "restore-state"],
}
needs_both = pytest.mark.skipif(
    not (gate_works() and strace_works()), reason=f"no strace, or {NO_GATE}: the two cannot be compared"
)
#: One process that stages an operation, tells where, and runs it behind the gate and with its seam listened to.
DRIVER = """
    import json, os, sys
    from pathlib import Path
    from aftermath import Ground
    from kill_operations import KILLED
    from faults import Counting
    from gate import passed
    from mulligan.safefs import syscalls

    base, name = Path(sys.argv[1]), sys.argv[2]
    os.environ["HOME"] = str(base)
    ground = Ground(base, name, KILLED[name])
    ground.reset().close()

    def act():
        os.path.lexists("/the/operation/begins")
        with syscalls.using(Counting()) as listening:
            ground.act()
        os.path.lexists("/the/operation/ends")
        Path(base, "seam").write_text(json.dumps(listening.seen))

    seen = passed(act)
    assert seen.code == 0
    Path(base, "gate").write_text(json.dumps(seen.calls))
"""
CALL = re.compile(r"^(?P<pid>\d+) +(?P<call>\w+)\((?P<rest>.*)$")


class Run:
    """One operation, seen three ways."""

    def __init__(self, base: Path, operation: str) -> None:
        log = base / "trace"
        here = Path(__file__).parent
        env = plain_environment()
        env["PYTHONPATH"] = os.pathsep.join([str(here), str(here.parents[1] / "support"), env["PYTHONPATH"]])
        command = [
            "strace",
            "-f",
            "-y",
            "-s",
            "300",
            "-e",
            "trace=%file,%desc,syncfs,sync",
            "-e",
            "signal=none",
            "-o",
            log,
        ]
        done = subprocess.run(
            [*command, sys.executable, "-c", textwrap.dedent(DRIVER), base, operation],
            env=env, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        self.base = base
        self.gate: list[str] = json.loads((base / "gate").read_text())
        self.seam: list[str] = json.loads((base / "seam").read_text())
        lines = whole_lines(log.read_text(errors="replace").splitlines())
        first = next(at for at, line in enumerate(lines) if "/the/operation/begins" in line)
        last = next(at for at, line in enumerate(lines) if "/the/operation/ends" in line)
        pid = lines[first].split()[0]
        self.lines = [line for line in lines[first + 1 : last] if line.split()[0] == pid]

    def changing(self) -> list[tuple[str, str]]:
        """What strace saw that may change something: the call and the rest of its line."""
        found = []
        for line in self.lines:
            match = CALL.match(line)
            if match is None or match["call"] in LOOKING:
                continue
            call, rest = match["call"], match["rest"]
            if call in OPENS and not re.search("O_WRONLY|O_RDWR|O_CREAT|O_TRUNC", rest):
                continue
            if call == "fcntl" and not re.search("F_(OFD_)?SETLKW?,", rest):
                continue
            found.append((call, rest))
        return found


def whole_lines(lines: list[str]) -> list[str]:
    """The log with calls that strace wrote in two halves put together again, where they began."""
    halves: dict[str, int] = {}
    whole: list[str] = []
    for line in lines:
        pid = line.split(None, 1)[0]
        if line.endswith("<unfinished ...>"):
            halves[pid] = len(whole)
            whole.append(line.removesuffix("<unfinished ...>"))
        elif " resumed>" in line and pid in halves:
            whole[halves.pop(pid)] += line.partition(" resumed>")[2]
        else:
            whole.append(line)
    return whole


@needs_both
@pytest.mark.parametrize(
    "operation", ["save-first", "save-second", "restore", "undo", "gc", "forget", "doctor-timeline"]
)
def test_strace_the_gate_and_the_seam_see_the_same_calls(tmp_path: Path, operation: str) -> None:
    """And nothing is opened for writing, or changed, outside of the workspace and the store (I7)."""
    run = Run(tmp_path, operation)
    seen = run.changing()
    behind = Counter(run.gate) - Counter(call for call, _ in seen)
    assert sum(behind.values()) <= 3, f"the gate saw what strace did not, beyond the driver's own writing: {behind}"
    assert Counter(call for call, _ in seen) - Counter(run.gate) == Counter(), "a call passed by the gate"
    # SQLite's own calls name its files; fdatasync is SQLite's alone, of the directory too.
    ours = Counter(call for call, rest in seen if "timeline.db" not in rest and call != "fdatasync")
    ours -= Counter({"flock": ours["flock"], "pwrite64": ours["pwrite64"]})  # the lock, and the note in it
    through = Counter(NAMES.get(name, name) for name in run.seam)
    missed = ours - through
    assert missed == Counter(), f"calls that pass by the seam: {missed}"
    assert changed_outside(run.lines, [tmp_path / "stage/project", tmp_path / "stage/store"]) == []


@pytest.mark.skipif(not gate_works(), reason=NO_GATE)
def test_a_kill_comes_before_the_call_and_hits_its_caller_alone(tmp_path: Path) -> None:
    def act() -> None:
        for name in ("a", "b"):
            os.mkdir(tmp_path / name)
        child = os.fork()
        if not child:
            os.mkdir(tmp_path / "child")
            os._exit(0)
        os.waitpid(child, 0)
        os.mkdir(tmp_path / "after")

    cases = ((1, [], True), (2, ["a"], True), (3, ["a", "after", "b"], False), (9, ["a", "after", "b", "child"], False))
    for number, there, died in cases:
        seen = passed(act, die_at=number)
        assert (sorted(os.listdir(tmp_path)), seen.died, seen.killed) == (there, died, number < 9)
        for name in there:
            (tmp_path / name).rmdir()


@pytest.mark.skipif(not gate_works(), reason=NO_GATE)
def test_what_only_looks_does_not_come_to_the_gate(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("x")

    def look() -> None:
        (tmp_path / "f").read_text()
        os.listdir(tmp_path)

    assert passed(look).calls == []


@pytest.mark.skipif(not gate_works(), reason=NO_GATE)
def test_a_process_that_fails_by_itself_is_not_taken_for_killed(capfd: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        raise ValueError("its own fault")

    assert (passed(fail).code, passed(fail).killed) == (1, False)
    assert "its own fault" in capfd.readouterr().err


def test_every_operation_can_be_killed() -> None:
    """Whatever a workspace can do either changes nothing, or is in the list that the sweep runs by itself."""
    public = {name for name in dir(Workspace) if not name.startswith("_") and callable(getattr(Workspace, name))}
    known = READING | SWEPT.keys() | SWEPT_ELSEWHERE.keys()
    assert public - known == set(), "neither swept nor known to change nothing"
    assert known - public == set(), "no such verb any more"
    assert {each for each in SWEPT_ELSEWHERE.values() if not (Path(__file__).parents[1] / each).exists()} == set()
    swept = {name for names in (*SWEPT.values(), *SWEPT_FUNCTIONS.values()) for name in names}
    assert set(KILLED) == swept
