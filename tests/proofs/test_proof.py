"""The list of all sweeps: it runs what it names, and says what it could not; sweeps without tests of their own run here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import proof
from gate import NO_GATE, gate_works
from tools import sweep

UNTESTED = [each for each in proof.PROOFS if not each.tested and each.small is not None]


def scripted(folder: Path, body: str, **more: object) -> proof.Proof:
    """A sweep that does what the body says."""
    script = folder / "sweep.py"
    script.write_text(f"import sys\nsys.path.insert(0, {str(proof.TESTS / 'support')!r})\n{body}\n")
    return proof.Proof("made-up", "it does as it is told", str(script), 3, 5)._replace(**more)


def on_frame(broken: str = "") -> str:
    """A sweep on the frame of all others."""
    return f"""
import tally
given = tally.parser("", 1).parse_args()
made = tally.Tally("made up", given.size)
made.did(given.size, twos=2)
{broken}
sys.exit(made.end())
"""


@pytest.mark.parametrize("each", UNTESTED, ids=lambda each: each.name)
def test_a_sweep_without_tests_of_its_own_finds_nothing(each: proof.Proof) -> None:
    result = proof.run(each, sweep(each.small or 1), 1)
    if result.cannot:
        pytest.skip(result.verdict)
    assert not result.failed, result.verdict


@pytest.mark.parametrize("each", proof.PROOFS, ids=lambda each: each.name)
def test_every_sweep_is_there_and_is_tested_where_the_list_says_so(each: proof.Proof) -> None:
    assert (proof.FOLDER / each.script).is_file()
    if each.tested:
        assert Path(each.script).stem in (proof.FOLDER / each.tested).read_text()


def test_no_two_sweeps_have_one_name() -> None:
    assert len({each.name for each in proof.PROOFS}) == len(proof.PROOFS)


def test_every_script_on_the_frame_of_sweeps_is_in_the_list() -> None:
    """A sweep that nobody runs proves nothing."""
    listed = {proof.FOLDER / each.script for each in proof.PROOFS}
    framed = {
        path
        for path in proof.TESTS.rglob("*.py")
        if "hand_in(" in (text := path.read_text()) or ("from tally import" in text and "Tally(" in text)
    }
    helpers = {proof.TESTS / "support/tally.py", proof.FOLDER / "test_proof.py"}
    assert {path for path in framed - helpers if "__main__" in path.read_text()} <= listed


def test_the_summary_says_what_was_tried_how_often_and_on_which_commit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made, told = scripted(tmp_path, on_frame()), tmp_path / "told.json"
    assert proof.main(["--times", "2", "--json", str(told), "--markdown", str(tmp_path / "told.md")], (made,)) == 0
    document = json.loads(told.read_text())
    (row,) = document["proofs"]
    assert (row["name"], row["tried"], row["broken"], row["counts"]) == ("made-up", 6, 0, {"twos": 2})
    assert document["commit"].split()[0] in (tmp_path / "told.md").read_text()
    assert "nothing broke" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("body", "code", "said"),
    [
        (on_frame("made.broke('a thing')"), 1, "BROKEN: 1"),
        ("import tally; sys.exit(tally.cannot('no such kernel'))", 77, "NOT RUN: no such kernel"),
        ("sys.exit(0)", 1, "it tried nothing"),
        ("raise ValueError('out of order')", 1, "BROKEN: it tried nothing: ValueError: out of order"),
        ("sys.exit(3)", 1, "it ended with 3"),
        (on_frame("made.end(); sys.exit(1)"), 1, "it handed in 0 broken, and ended with 1"),
    ],
    ids=["breaks", "cannot", "nothing", "crashes", "odd code", "disagrees"],
)
def test_whatever_is_not_clean_is_told_and_is_no_success(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], body: str, code: int, said: str
) -> None:
    assert proof.main([], (scripted(tmp_path, body),)) == code
    out = capsys.readouterr()
    assert said in out.out
    assert "!!! made-up" in out.err


def test_a_sweep_that_has_no_small_size_is_told_and_does_not_fail_the_small_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert proof.main([], (scripted(tmp_path, "sys.exit(1)", small=None),)) == 0
    assert "NOT RUN: there is no size small of it" in capsys.readouterr().out


def test_a_name_that_is_not_in_the_list_runs_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert proof.main(["kilss"]) == 2
    assert "There is no proof called kilss" in capsys.readouterr().err


@pytest.mark.skipif(not gate_works(), reason=NO_GATE)
def test_options_after_two_dashes_reach_the_sweep(capsys: pytest.CaptureFixture[str]) -> None:
    bad = ["--operation", "save-second", "--build", "lock-by-existence", "--first"]
    assert proof.main(["kills", "--times", "20", "--", *bad]) == 1
    assert "BROKEN: 1" in capsys.readouterr().out
