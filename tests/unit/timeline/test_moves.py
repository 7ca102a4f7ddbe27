"""How undo walks: a stack of states, and another of what was left."""

from __future__ import annotations

import pytest

from mulligan.safefs.directory import Directory
from mulligan.timeline.database import Database
from mulligan.timeline.moves import Move, Moves

A, B, C = Move("a"), Move("b"), Move("c", "all")


@pytest.fixture
def moves(tmp_path):
    with Directory.open(tmp_path) as directory:
        database = Database(str(tmp_path), create=True, directory=directory)
    yield Moves(database)
    database.close()


def test_states_come_back_newest_first(moves):
    assert moves.top() is None and moves.down() == []
    moves.push(A, B)
    moves.push(C)
    assert (moves.top(), moves.down(), moves.down(2)) == (C, [C, B, A], [C, B])


def test_the_state_on_top_is_not_pushed_again(moves):
    moves.push(A, A)
    moves.push(A)
    moves.push(Move("a", "state"))
    assert moves.down() == [Move("a", "state"), A]


def test_what_was_undone_can_be_redone_until_the_next_step(moves):
    moves.push(A, B, C)
    moves.undone(1, C)
    assert (moves.top(), moves.redoable()) == (B, [C])
    moves.undone(1, B)
    assert moves.redoable() == [B, C]
    moves.redone()
    moves.push(B, keep_redo=True)
    assert (moves.top(), moves.redoable()) == (B, [C])
    moves.push(A)
    assert moves.redoable() == []


def test_what_the_next_undo_and_redo_need_is_named(moves):
    moves.push(A, B, C)
    moves.undone(1, Move("d"))
    assert moves.needed(1) == {"b", "d"}


def test_the_top_can_be_put_right(moves):
    moves.push(A, B)
    moves.replace_top(C)
    assert moves.down() == [C, A]


def test_a_step_that_moved_git_is_remembered_until_it_is_taken_back(moves):
    left = Move("a", git=True)
    moves.push(left, B)
    assert moves.down() == [B, left]
    moves.undone(1, Move("c", git=True))
    assert (moves.top(), moves.redoable()) == (A, [Move("c", git=True)])
    moves.undone(0, B)
    assert moves.down() == [A]


def test_a_store_of_an_earlier_release_has_no_such_steps(moves):
    moves._db.insert("move", None, "a", "all")
    assert moves.top() == Move("a", "all")
