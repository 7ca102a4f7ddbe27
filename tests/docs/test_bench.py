"""The benchmark runs and reports every row it promises; what the numbers are is no business of a test."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.plot import Axes, picture

CHECKOUT = Path(__file__).resolve().parents[2]
CONTESTANTS = ("mulligan", "shadow-git")
TREE_ROWS = (
    *("first", "disk-first", "unchanged", "one", "changed-10", "changed-100", "changed-1000"),
    *("restore-1", "restore-1000", "first-git"),
)
HISTORY_ROWS = ("first", "edit", "log", "disk-edits", "gc", "disk-gc")

needs_git = pytest.mark.skipif(
    shutil.which("git") is None, reason="SKIPPED LOUDLY: the benchmark compares with git, and there is none"
)


@needs_git
def test_a_small_run_measures_every_row_for_mulligan_and_shadow_git(tmp_path: Path) -> None:
    """200 files, one round: every cell exists, was checked by the benchmark itself, and has a number."""
    out, table = tmp_path / "out.json", tmp_path / "out.md"
    done = bench("--only", ",".join(CONTESTANTS), "--json", str(out), "--markdown", str(table), "--work", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    tree, history = json.loads(out.read_text())["sections"]
    assert cells(tree) == {(row, name) for row in TREE_ROWS for name in CONTESTANTS}
    assert cells(history) == {(row, name) for row in HISTORY_ROWS for name in CONTESTANTS}
    for cell in tree["rows"] + history["rows"]:
        assert cell["trouble"] == "", cell
        assert cell["median"] > 0, cell
        assert cell["ratio"] > 0, cell
        assert cell["title"] in done.stdout
        assert cell["title"] in table.read_text()


@needs_git
def test_the_run_leaves_nothing_behind(tmp_path: Path) -> None:
    """Trees, stores and homes are gone when the command ends."""
    bench("--only", "shadow-git,first", "--work", str(tmp_path))
    assert list(tmp_path.iterdir()) == []


@needs_git
def test_a_peer_that_cannot_be_had_is_shown_and_not_dropped(tmp_path: Path) -> None:
    """An empty directory where a peer should be installed makes its cells say so."""
    (tmp_path / "peers" / "stepback").mkdir(parents=True)
    out = tmp_path / "out.json"
    bench(
        "--only",
        "shadow-git,stepback,first",
        "--peers",
        str(tmp_path / "peers"),
        "--json",
        str(out),
        "--work",
        str(tmp_path),
    )
    (section,) = json.loads(out.read_text())["sections"]
    assert [c["trouble"][:13] for c in section["rows"] if c["contestant"] == "stepback"] == ["not available"]


def test_an_unknown_name_is_a_usage_error() -> None:
    """A misspelt contestant ends with exit code 2, not with a shorter report."""
    done = bench("--only", "shadow-gti")
    assert (done.returncode, done.stdout) == (2, "")


def test_the_readme_names_every_option_contestant_and_row() -> None:
    """bench/README.md and `--help` agree."""
    text = (CHECKOUT / "bench/README.md").read_text()
    for option in re.findall(r"^  (--[a-z-]+)", bench("--help").stdout, re.MULTILINE):
        assert f"`{option}" in text, option
    for name in {*CONTESTANTS, *TREE_ROWS, *HISTORY_ROWS}:
        assert f"`{name}`" in text, name


def cells(section: dict) -> set[tuple[str, str]]:
    return {(cell["row"], cell["contestant"]) for cell in section["rows"]}


def bench(*options: str) -> subprocess.CompletedProcess[str]:
    small = ["--files", "200", "--runs", "1", "--history", "5", "--settle", "0"]
    command = [sys.executable, str(CHECKOUT / "bench/run.py"), *small, *options]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_picture_has_a_line_and_a_name_for_everybody_and_is_well_formed() -> None:
    import xml.etree.ElementTree as ET

    lines = {"one & only": [(1000.0, 2.5), (10.0, 0.3)], "other": [(10.0, 7.0), (1000.0, 7.0)]}
    drawn = ET.fromstring(picture(Axes("Time < space", "files", "ms"), lines))
    texts = [text.text for text in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert {"one & only", "other", "Time < space", "files", "ms", "1,000"} <= set(texts)
    points = [line.get("points", "").split() for line in drawn.iter("{http://www.w3.org/2000/svg}polyline")]
    assert [len(line) for line in points] == [2, 2]
    (left, low), (right, high) = (tuple(map(float, spot.split(","))) for spot in points[0])
    assert left < right and low > high
    with pytest.raises(ValueError, match="nothing"):
        picture(Axes("", "", ""), {"nobody": []})
