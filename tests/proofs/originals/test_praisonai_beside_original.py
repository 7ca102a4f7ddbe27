"""
The original beside ours: the same scripted scenes in two processes, results compared, every difference explained.

The original is installed from the package index into a directory of the test run, without its dependencies. Where that is
not possible the comparison is skipped, and says why; what ours must do is tested all the same.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tools import plain_environment

ROOT = Path(__file__).resolve().parents[3]
SCENARIO = Path(__file__).with_name("praisonai_scenario.py")
PAGE = ROOT / "docs" / "howto" / "migrate-from-praisonai.md"
ORIGINAL = "praisonaiagents==1.7.17"
INSTALL_SECONDS = 120

# What ours returns where the original returns something else. The page says why, in a row that begins with these words.
DIFFERENCES = {
    "rewind_past_the_first_save": ["precious"],
    "a_bad_id_is_no_checkpoint": [False, "2", "u", 2],
    "list_after_a_restore": ["m2", "m1", "m0", "Initial checkpoint"],
    "the_restored_checkpoint_has_its_whole_id": True,
    "a_pipe_in_a_message": ["three", "one | two", "plain", "Initial checkpoint"],
    "several_lines_and_none_in_a_message": ["one\ntwo\n\nthree", "", "ünïcode ✓"],
    "a_relative_directory": True,
    "a_slash_at_the_end_and_a_link": 1,
    "reopened": [["first", "Initial checkpoint"], "first"],
    "statuses_of_a_diff": {
        "added": "added", "append": "modified", "dead": "deleted", "empty": "added", "moved": "deleted",
        "shrink": "modified", "é": "added",
    },
    "diff_right_after_a_save": 0,
    "a_nested_repository": "1",
    "modes_and_empty_directories": ["0o600", True],
    "exact_bytes_under_gitattributes": "a\r\nb\r\n",
    "a_file_of_three_mebibytes": 3 << 20,
    "a_global_configuration_that_signs_commits": True,
    "a_coroutine_as_a_handler": ["first"],
    "list_after_pruning": 3,
    "the_documents_own_example": ["1", ["a"], 3, "Before refactoring"],
    "files_changed": 2,
    "ignored_and_excluded_files_stay": [".gitignore", "__pycache__/p.pyc", "a", "ignored", "node_modules/m"],
}  # fmt: skip


def play(module: str, place: Path, *paths: str) -> dict:
    (place / "home").mkdir(parents=True)
    environment = plain_environment() | {"HOME": str(place / "home")}
    before = environment.get("PYTHONPATH", "")
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, (*paths, before)))
    done = subprocess.run(
        [sys.executable, SCENARIO, module, place / "scenes"],
        env=environment, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def ours(tmp_path_factory):
    return play("mulligan.dialects.praisonai", tmp_path_factory.mktemp("ours"))


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """Returns the directory of the original's package."""
    if shutil.which("git") is None:
        pytest.skip("NOT COMPARED with the original: it needs git, and there is none")
    place = tmp_path_factory.mktemp("original")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--disable-pip-version-check"]
    try:
        done = subprocess.run(
            [*pip, "--target", place / "package", ORIGINAL],
            capture_output=True, text=True, check=False, timeout=INSTALL_SECONDS, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        pytest.skip(f"NOT COMPARED with the original: pip install {ORIGINAL} took more than {INSTALL_SECONDS} s")
    if done.returncode != 0:
        pytest.skip(f"NOT COMPARED with the original: pip install {ORIGINAL} failed: {done.stderr.strip()[-200:]}")
    return place / "package"


@pytest.fixture(scope="module")
def original(package):
    return play("praisonaiagents.checkpoints", package.parent / "played", str(package))


@pytest.mark.parametrize("scene", DIFFERENCES)
def test_ours_does_what_the_page_promises(ours, scene):
    assert ours[scene] == DIFFERENCES[scene]


def test_no_scene_of_ours_ends_in_an_exception(ours):
    assert {name: value for name, value in ours.items() if isinstance(value, str) and "Error:" in value} == {}


def test_everything_else_is_the_same(ours, original):
    assert set(ours) == set(original)
    assert {name: (original[name], ours[name]) for name in ours if ours[name] != original[name]}.keys() == (
        DIFFERENCES.keys()
    )


@pytest.mark.parametrize("scene", DIFFERENCES)
def test_every_difference_is_explained_to_users(scene):
    assert f"| {scene.replace('_', ' ')} |" in PAGE.read_text(encoding="utf-8")


SESSIONS = """
import importlib, json, pathlib, sys
from mulligan.dialects.praisonai import SessionCheckpointManager
module, name, place = sys.argv[1:]
store = getattr(importlib.import_module(f"praisonaiagents.session.{module}"), name)(session_dir=f"{place}/sessions")
file = pathlib.Path(place, "ws", "a")
file.parent.mkdir()
told = lambda: [file.read_text(), [m.content for m in store.get_session("s").messages]]
turns = SessionCheckpointManager(str(file.parent), enabled=True, session_store=store, session_id="s")
found = []
for number in range(3):
    file.write_text(f"v{number}")
    turns.checkpoint_turn("next")
    store.add_user_message("s", f"u{number}")
file.write_text("broken")
found.append(turns.dropped_message_count(2))
for n in (2, 1):
    turns.revert(n)
    found.append(told())
turns._history.workspace.undo()
found.append(told())
print(json.dumps(found))
"""


@pytest.mark.parametrize(
    ("module", "name"), [("hierarchy", "HierarchicalSessionStore"), ("store", "DefaultSessionStore")]
)
def test_the_originals_own_session_stores_go_back_and_forward_with_the_files(package, tmp_path, module, name):
    environment = plain_environment() | {"HOME": str(tmp_path)}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, (str(package), environment.get("PYTHONPATH", ""))))
    done = subprocess.run(
        [sys.executable, "-c", SESSIONS, module, name, tmp_path],
        env=environment, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == [2, ["v1", ["u0"]], ["v0", []], ["v1", ["u0"]]]
