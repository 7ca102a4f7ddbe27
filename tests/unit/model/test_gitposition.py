"""Positions and moves as values."""

from __future__ import annotations

import json

import pytest

from mulligan.model.gitposition import GitMove, GitPosition

ONE = GitPosition("1" * 40, "main", "refs/heads/main", "x", (("refs/heads/main", "1" * 40),))
TWO = ONE._replace(commit="2" * 40, refs=(("refs/heads/main", "2" * 40), ("refs/heads/y", "")))


def test_the_same_is_about_what_both_speak_of() -> None:
    assert ONE.same(ONE._replace(refs=(*ONE.refs, ("refs/heads/other", "3" * 40))))
    assert not ONE.same(ONE._replace(refs=(("refs/heads/main", "3" * 40),)))
    assert not any(ONE.same(other) for other in (TWO, ONE._replace(ref=None), ONE._replace(staged="y")))
    assert not ONE.same(ONE._replace(merging=(("MERGE_HEAD", "x"),)))


def test_a_move_through_json() -> None:
    move = GitMove(ONE, TWO, "oid", 7, "about", "keep", ("a note",))
    assert GitMove.from_dict(json.loads(json.dumps(move.to_dict()))) == move
    assert not move.is_noop and move.promises(move) and not move.promises(None)
    assert not move.promises(GitMove(TWO, ONE)) and GitMove(ONE, ONE).is_noop


@pytest.mark.parametrize("spoilt", [{}, {"before": 1}, {**GitMove(ONE, TWO).to_dict(), "when": "x"}])
def test_anything_else_is_no_move(spoilt: dict[str, object]) -> None:
    with pytest.raises((KeyError, TypeError, ValueError)):
        GitMove.from_dict(spoilt)


def test_words() -> None:
    assert GitMove(ONE, TWO).words() == "main at 222222222222 (it was main at 111111111111)"
    assert "staged" in GitMove(ONE, ONE._replace(staged="y")).words()


def test_a_merge_under_way_is_the_same_whatever_order_its_files_were_noted_in():
    here = GitPosition("a" * 40, "main", "refs/heads/main", merging=(("AUTO_MERGE", "x"), ("MERGE_HEAD", "y")))
    noted = {**here.to_dict(), "merging": {"MERGE_HEAD": "y", "AUTO_MERGE": "x"}}
    assert GitPosition.from_dict(noted) == here
