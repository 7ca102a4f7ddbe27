from __future__ import annotations

import copy
import json
import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import FrozenInstanceError, asdict, replace
from threading import Barrier

import pytest

from mulligan.model.diff import Diff, FileStat, Rendered

STAT = FileStat("a", "modified", 1, 2)


def test_the_patch_is_made_once_and_when_asked_for() -> None:
    calls = []

    def render() -> Rendered:
        calls.append(1)
        return Rendered("patch", (STAT,))

    diff = Diff("x", "y", modified=["a"], render=render)
    assert (diff.is_empty, diff.files, calls) == (False, ["a"], [])
    assert (diff.patch, diff.stat, diff.patch) == ("patch", (STAT,), "patch")
    assert calls == [1]


def test_threads_that_ask_together_share_one_computation() -> None:
    calls = []
    start = Barrier(4)

    def render() -> Rendered:
        calls.append(1)
        return Rendered("patch", ())

    diff = Diff("x", "y", render=render)

    def ask() -> str:
        start.wait()
        return diff.patch

    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(ask) for _ in range(4)]
    assert {one.result() for one in asked} == {"patch"}
    assert calls == [1]


def test_a_computation_that_failed_is_tried_again() -> None:
    answers = iter([OSError("gone"), Rendered("patch", ())])

    def render() -> Rendered:
        answer = next(answers)
        if isinstance(answer, OSError):
            raise answer
        return answer

    diff = Diff("x", "y", render=render)
    with pytest.raises(OSError, match="gone"):
        diff.patch
    assert diff.patch == "patch"


def test_the_json_form_has_the_names_of_the_contract() -> None:
    diff = Diff("x", "y", ["n\udcff"], ["m"], ["d"], [("o", "p")], lambda: Rendered("caf\udce9", ()))
    assert json.loads(json.dumps(diff.to_dict())) == {
        "from": "x",
        "to": "y",
        "added": ["n\udcff"],
        "modified": ["m"],
        "deleted": ["d"],
        "renamed": [["o", "p"]],
        "patch": "caf\udce9",
    }
    assert STAT.to_dict() == {
        "path": "a",
        "status": "modified",
        "additions": 1,
        "deletions": 2,
        "binary": False,
        "old_path": None,
        "mode": "",
    }


def test_files_are_all_changed_paths_sorted() -> None:
    assert Diff("x", "y", ["c"], ["b"], ["d"], [("z", "a")]).files == ["a", "b", "c", "d", "z"]
    assert Diff("x", "y").is_empty and Diff("x", "y").files == []
    assert not Diff("x", "y", renamed=[("z", "a")]).is_empty


def test_a_diff_is_a_value() -> None:
    """Frozen, comparable, and a copy is a diff that was looked at."""
    diff = Diff("x", "y", ["a"], render=lambda: Rendered("patch", (STAT,)))
    assert diff == Diff("x", "y", ["a"])
    with pytest.raises(FrozenInstanceError):
        diff.to = "z"  # type: ignore[misc]
    for other in (copy.deepcopy(diff), copy.copy(diff), pickle.loads(pickle.dumps(diff))):
        assert (other, other.patch, other.stat) == (diff, "patch", (STAT,))
    assert replace(diff, to="z").patch == "patch"
    assert asdict(diff)["added"] == ["a"]
