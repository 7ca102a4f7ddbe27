"""
Kills of the real command line, placed by strace: the k-th call of each kind, from the first that names the store on.

Slower than the gate, since every kill starts an interpreter; it shows that nothing depends on how the gate runs an operation.
"""

from __future__ import annotations

import collections
import os
import subprocess
from typing import TYPE_CHECKING

from gate import Passage, Point
from tools import mulligan_argv, plain_environment

if TYPE_CHECKING:
    from aftermath import Ground

CALLS = (
    *(
        "openat",
        "mkdir",
        "mkdirat",
        "rename",
        "renameat",
        "renameat2",
        "link",
        "linkat",
        "symlinkat",
        "unlink",
        "unlinkat",
    ),
    *(
        "rmdir",
        "write",
        "pwrite64",
        "writev",
        "pwritev",
        "fsync",
        "fdatasync",
        "syncfs",
        "ftruncate",
        "fchmod",
        "fchmodat",
    ),
    *("utimensat", "copy_file_range", "sendfile", "fallocate", "flock", "fcntl", "fchown", "fsetxattr"),
)
COMMANDS = {
    "save-second": ["save", "now"],
    "restore": ["restore", "new", "-y"],
    "restore-some": ["restore", "new", "-y", "--", "modified", "file_to_dir"],
    "undo": ["undo"],
    "redo": ["redo"],
    "delete": ["rm", "new", "-y"],
    "gc": ["gc"],
    "forget": ["forget", "d/secret", "-y"],
    "doctor-index": ["doctor"],
    "restore-git": ["restore", "new", "--git", "-y"],
    "undo-git": ["undo"],
}


class Strace:
    """Kills `mulligan` itself."""

    def points(self, ground: Ground) -> list[Point]:
        """Every (call, k) of a command from the moment it first names its store on."""
        ground.reset().close()
        log = ground.project.parent.parent / "trace"
        done = self._traced(ground, "-e", "trace=" + ",".join(f"?{call}" for call in CALLS), "-o", os.fspath(log))
        assert done.returncode == 0, done.stderr.decode()
        seen: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
        reached: dict[str, int] = {}
        started = False
        for line in log.read_text(errors="replace").splitlines():
            pid, rest = line.split(None, 1)
            call = rest.split("(", 1)[0]
            if call not in CALLS:
                continue
            seen[pid][call] += 1
            started = started or os.fspath(ground.store) in rest
            if started:
                reached.setdefault(call, seen[pid][call])
        most = {call: max(counts[call] for counts in seen.values()) for call in reached}
        return [Point(call, k) for call in reached for k in range(min(reached[call], most[call]), most[call] + 1)]

    def run(self, ground: Ground, point: Point) -> Passage:
        """Kills at the k-th call of a kind."""
        call = point.call or "fsync"  # a point behind the last: nothing is killed
        inject = f"inject={call}:signal=KILL:when={point.number}"
        done = self._traced(ground, "-o", os.devnull, "-e", f"trace={call}", "-e", inject)
        killed = done.returncode in {-9, 137}
        return Passage([call], killed, -9 if killed else done.returncode, 0.0)

    @staticmethod
    def _traced(ground: Ground, *options: str) -> subprocess.CompletedProcess[bytes]:
        command = mulligan_argv("--json", "--store", ground.store, *COMMANDS[ground.name])
        return subprocess.run(
            ["strace", "-f", "-qq", *options, *command],
            cwd=ground.project,
            env=plain_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=120,
        )
