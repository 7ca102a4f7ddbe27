"""
The size of the code, in numbers that may only fall.

Each row of `MOST` is a count, the most that it may be today, and the target of the redesign. A change that lowers a count
lowers the number here with it. A feature raises the row of all lines in `src` by what it needs, in a commit that says so; any other
higher number needs another idea.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import pytest

import mulligan
from tools import PACKAGE, plain_environment

ROOT = PACKAGE.parent
SOURCE = PACKAGE / "mulligan"

#: What is counted: the most today, the target.
MOST = {
    "lines of Python in the core": (29_061, 21_000),
    "lines of Python in src": (67_284, 42_000),
    "our lines loaded by a cold save": (12_740, 8_000),
    "our lines loaded by a cold restore": (16_560, 10_000),
    "our files touched by a watched save": (39, 22),
    "our files touched by a watched restore": (51, 30),
    "private modules of CPython imported": (0, 0),
    "banned words": (0, 0),
}

#: What a save or a restore needs. The other packages are doors, other systems' interfaces, and verbs on top.
CORE = (
    *("model", "safefs", "gitformat", "usergit", "scan", "watch", "store"),
    *("diff", "timeline", "doctor", "restore", "state", "engine"),
)

BANNED = re.compile(
    r"\b(whoever|nobody|somebody|anybody|meanwhile|acknowledged|as ever|is told|is said|goes the way)\b", re.IGNORECASE
)

#: Runs one command in a process that loaded nothing of ours before, and prints the files that it loaded.
COLD = """
import sys
from mulligan.cli import main
code = main(sys.argv[1:])
files = {module.__file__ for name, module in sys.modules.items() if name.partition(".")[0] == "mulligan"}
print(*sorted(filter(None, files)), sep="\\n", file=sys.stderr)
sys.exit(code)
"""


def _lines(paths: list[Path]) -> int:
    return sum(path.read_bytes().count(b"\n") for path in paths)


def _loaded(project: Path, *words: str) -> list[Path]:
    command = [sys.executable, "-c", COLD, *words]
    done = subprocess.run(
        command, cwd=project, env=plain_environment(MULLIGAN_WATCH="0"), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return [Path(line) for line in done.stderr.splitlines() if line.startswith(str(SOURCE)) and line.endswith(".py")]


def _touched(work: Callable[[], object]) -> set[str]:
    """The files of ours in which a function ran; imports at first use are done by the caller."""
    files: set[str] = set()

    def seen(frame: FrameType, event: str, argument: object) -> None:
        files.add(frame.f_code.co_filename)

    before = sys.getprofile()
    sys.setprofile(seen)
    try:
        work()
    finally:
        sys.setprofile(before)
    return {name for name in files if name.startswith(str(SOURCE))}


def _private_modules() -> set[str]:
    found = set()
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                found.add(str(node.module))
    names = {name.partition(".")[0] for name in found}
    return {name for name in names if name.startswith("_") and name != "__future__" and name in sys.stdlib_module_names}


def _banned() -> int:
    pages = [*SOURCE.rglob("*.py"), *(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "CHANGELOG.md"]
    return sum(len(BANNED.findall(" ".join(path.read_text(encoding="utf-8").split()))) for path in pages)


@pytest.fixture
def edited(project: Path) -> Path:
    """A workspace with one checkpoint and an edit after it."""
    (project / "a").write_text("one\n")
    (project / "b").write_text("one\n")
    mulligan.open(project).save("first")
    (project / "a").write_text("two\n")
    return project


def hold(what: str, count: int) -> None:
    """Fails where a count is higher than its row."""
    most, target = MOST[what]
    assert count <= most, f"{what}: {count}, and it may only fall: at most {most}, on the way to {target}"


def test_the_source_only_gets_shorter() -> None:
    hold("lines of Python in src", _lines(list(SOURCE.rglob("*.py"))))
    hold("lines of Python in the core", sum(_lines(list((SOURCE / package).rglob("*.py"))) for package in CORE))


def test_a_cold_save_only_loads_less(edited: Path) -> None:
    hold("our lines loaded by a cold save", _lines(_loaded(edited, "save", "second")))


def test_a_cold_restore_only_loads_less(edited: Path) -> None:
    hold("our lines loaded by a cold restore", _lines(_loaded(edited, "restore", "first", "-y")))


def test_a_watched_save_and_restore_only_touch_fewer_files(edited: Path) -> None:
    with mulligan.open(edited) as workspace, workspace.watch():
        for number in range(2):  # the first round is for what is loaded and read once
            (edited / "a").write_text(f"round {number}\n")
            saved = _touched(lambda: workspace.save("edit"))
            (edited / "a").write_text(f"other {number}\n")
            restored = _touched(lambda: workspace.restore("edit"))
    assert (edited / "a").read_text() == "round 1\n"
    hold("our files touched by a watched save", len(saved))
    hold("our files touched by a watched restore", len(restored))


def test_private_modules_of_cpython_only_go() -> None:
    hold("private modules of CPython imported", len(_private_modules()))


def test_banned_words_only_go() -> None:
    hold("banned words", _banned())
