"""
Where a measurement ran: the facts of the header, and the isolation that keeps the machine's own settings out of it.

Promises: after `isolate`, neither git nor a contestant reads this user's configuration or writes outside the work directory.
"""

from __future__ import annotations

import compileall
import os
import platform
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

# What `pip install` writes as `bin/mulligan`, by the name that `pyproject.toml` gives it.
LAUNCHER = """\
import sys
from mulligan.cli import process
if __name__ == '__main__':
    sys.argv[0] = sys.argv[0].removesuffix('.exe')
    sys.exit(process())
"""
MEMORY_FILE_SYSTEMS = frozenset({"tmpfs", "ramfs"})


def isolate(work: Path, *, source: Path) -> None:
    """Points home, temporary files and configuration at the work directory, and Python's path at this checkout."""
    for name in list(os.environ):
        if name.startswith(("GIT_", "MULLIGAN_", "XDG_")):
            del os.environ[name]
    home, temporary = work / "home", work / "tmp"
    home.mkdir()
    temporary.mkdir()
    before = os.environ.get("PYTHONPATH")
    os.environ |= {
        "HOME": str(home),
        "TMPDIR": str(temporary),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        # Without a ceiling, a work directory inside somebody's repository would be taken for a part of it.
        "GIT_CEILING_DIRECTORIES": str(work.resolve()),
        "PYTHONPATH": os.pathsep.join([str(source), *([before] if before else [])]),
        "DO_NOT_TRACK": "1",
        "PRAISONAI_TELEMETRY_DISABLED": "true",
        "LC_ALL": "C.UTF-8",
    }


def freeze_source(work: Path, *, checkout: Path) -> Path:
    """Copies the package as it is now, compiled, so that a run measures one state of it however long it takes."""
    copy = work / "source"
    shutil.copytree(checkout / "src", copy, ignore=shutil.ignore_patterns("__pycache__"))
    compileall.compile_dir(copy, quiet=2)
    launcher(copy).parent.mkdir()
    launcher(copy).write_text(LAUNCHER)
    return copy


def launcher(source: Path) -> Path:
    """Returns where the copied package has its command."""
    return source / "bin" / "mulligan"


def facts(work: Path, *, checkout: Path) -> dict[str, str]:
    """Returns what the header of a report says about machine and checkout."""
    kind = file_system(work)
    warning = "  (MEMORY, NOT A DISK: durability costs nothing here)" if kind in MEMORY_FILE_SYSTEMS else ""
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "processor": f"{_processor()}, {len(os.sched_getaffinity(0))} cores, load {os.getloadavg()[0]:.1f} at the start",
        "memory": _memory(),
        "kernel": f"{platform.system()} {platform.release()}",
        "file system": kind + warning,
        # With its build: one that was compiled without profiles (pyenv's, as it comes) takes up to a third longer.
        "python": " ".join(sys.version.split()),
        "mulligan commit": _commit(checkout),
    }


def file_system(path: Path) -> str:
    """Returns the type of the file system that holds a path."""
    best = ("", "unknown")
    real = str(path.resolve())
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, mount, kind, *_ = line.split()
        if (real == mount or real.startswith(mount.rstrip("/") + "/")) and len(mount) >= len(best[0]):
            best = (mount, kind)
    return best[1]


def default_work_place() -> Path:
    """Returns a directory for throw-away trees that is on a disk, where there is one."""
    for candidate in (os.environ.get("TMPDIR", "/tmp"), "/var/tmp"):
        if file_system(Path(candidate)) not in MEMORY_FILE_SYSTEMS:
            return Path(candidate)
    return Path("/tmp")


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def _memory() -> str:
    total = int(Path("/proc/meminfo").read_text().split(maxsplit=2)[1])
    return f"{total / 2**20:.1f} GiB"


def _commit(checkout: Path) -> str:
    command = ["git", "-C", str(checkout), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    # The ceiling that `isolate` set would hide a checkout below the work place.
    environment = os.environ | {"GIT_CEILING_DIRECTORIES": str(checkout.parent)}
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment)
    return done.stdout.strip() if done.returncode == 0 else "not a git checkout"
