"""
What every test may rely on: an empty home, a scrubbed environment, a fixed umask, and an honest report header.

Nothing here imports the package before a test asks for it, so that a broken engine fails tests, not collection.
"""

from __future__ import annotations

import compileall
import itertools
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# Helpers in `support` are imported by plain name from every folder, whatever import mode pytest runs in.
sys.path.insert(0, str(Path(__file__).parent / "support"))

import tools
from by_design import BY_DESIGN

# A run in the background of a script inherits ignored signals and would hand them on to every program that it starts;
# a signal that is caught here is an ordinary one there.
for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, signal.default_int_handler)

# How long an example takes says how busy the machine is, and nothing about what a test promises.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")

SCRUBBED = ("CLAUDE_", "CODEX_", "GIT_", "MULLIGAN_", "XDG_")
#: The settings of the test run itself: how long the sweeps may be, and whether this is a machine without Linux's own calls.
OF_THE_RUN = ("MULLIGAN_SWEEP", "MULLIGAN_PLATFORM")

#: Tests sync thousands of times. In memory that costs nothing; tests that need a real disk mount one (tests/proofs/power).
IN_MEMORY, ROOM = Path("/dev/shm"), 2 << 30
_HOMES = itertools.count()


def pytest_configure(config: pytest.Config) -> None:
    """Compiles the package once, so that no command compiles it again, and puts temporary directories into memory."""
    if hasattr(config, "workerinput"):
        return
    compileall.compile_dir(tools.PACKAGE, quiet=2)
    if os.access(IN_MEMORY, os.W_OK) and os.path.ismount(IN_MEMORY) and shutil.disk_usage(IN_MEMORY).free > ROOM:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(IN_MEMORY))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """In portable mode, skips what differs by design."""
    if os.environ.get("MULLIGAN_PLATFORM") != "portable":
        return
    for item in items:
        for part, reason in BY_DESIGN.items():
            if part in item.nodeid:
                item.add_marker(pytest.mark.skip(reason=reason))


def pytest_report_header() -> list[str]:
    """Says which of the fault tests this machine can run at all."""
    return ["mulligan faults: " + ", ".join(f"{name} {value}" for name, value in tools.capabilities().items())]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Says loudly what did not run and why, whatever options the run was started with."""
    skipped = [report.longrepr for report in terminalreporter.stats.get("skipped", ())]
    reasons = Counter(str(where[2]).removeprefix("Skipped: ") for where in skipped if isinstance(where, tuple))
    for reason, count in sorted(reasons.items()):
        terminalreporter.write_line(f"!!! NOT RUN ({count}): {reason}")


@pytest.fixture(autouse=True)
def private_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Gives each test its own HOME and XDG directories, a fixed umask and locale, and no inherited settings."""
    for name in [name for name in os.environ if name.startswith(SCRUBBED) and name not in OF_THE_RUN]:
        monkeypatch.delenv(name)
    # Numbered here: `mktemp` resolves paths each time, and this runs for every test.
    home = f"{tmp_path_factory.getbasetemp()}/home{next(_HOMES)}"
    os.mkdir(home, 0o700)
    monkeypatch.setenv("HOME", home)
    for kind in ("STATE", "CONFIG", "CACHE", "DATA", "RUNTIME"):
        folder = f"{home}/xdg-{kind.lower()}"
        os.mkdir(folder, 0o700)
        monkeypatch.setenv(f"XDG_{kind}_DIR" if kind == "RUNTIME" else f"XDG_{kind}_HOME", folder)
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    monkeypatch.setenv("MULLIGAN_WATCH", "found")  # no test leaves a watcher behind that it did not start
    before = os.umask(0o022)
    yield Path(home)
    os.umask(before)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """An empty directory to be the workspace."""
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Where the store of `ws` lives; nothing is there before the first save."""
    return tmp_path / "store"


@pytest.fixture(scope="session")
def look_library(tmp_path_factory) -> str:
    """The native look, built from the source as it is."""
    if shutil.which("cc") is None:
        pytest.skip("there is no C compiler")
    made, source = tmp_path_factory.mktemp("native") / "look.so", Path(__file__).parent.parent / "native" / "look.c"
    subprocess.run(["cc", "-O2", "-std=c99", "-shared", "-fPIC", "-pthread", "-o", made, source], check=True)
    return os.fspath(made)


@pytest.fixture
def python_look(monkeypatch) -> None:
    """No native look, also where the package was built with one."""
    from mulligan.safefs import native

    monkeypatch.setattr(native, "_library", None)


@pytest.fixture
def native_look(look_library, monkeypatch) -> None:
    """The native look, in use, however few directories there are."""
    from mulligan.safefs import native
    from mulligan.scan import walk

    monkeypatch.setattr(native, "_library", native.load(look_library))
    monkeypatch.setattr(walk, "_HELP_DIRECTORIES", 0)


@pytest.fixture
def ws(project: Path, store: Path) -> Any:
    """The workspace over `project`, with its store at `store`."""
    import mulligan

    return mulligan.open(project, store=store)
