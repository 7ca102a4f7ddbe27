"""How often a restore is planned again while paths move under it, and which paths it then leaves alone."""

from __future__ import annotations

from mulligan.model.plan import Action, Node
from mulligan.restore.reach import Attempts

BUSY, OTHER = b"busy.log", b"other.txt"


def tried(moves):
    """Plays attempts that find these paths moved, until one goes on; returns its number and what it left alone."""
    attempts = Attempts()
    for number, moved in enumerate(moves, 1):
        if not moved or attempts.leaves(moved):
            return number, sorted(moved)
        assert attempts.plans_again(moved)
    raise AssertionError("no attempt went on")


def test_a_restore_that_nothing_disturbs_needs_one_attempt():
    assert tried([[]]) == (1, [])


def test_a_path_that_moved_once_is_planned_again_and_restored():
    assert tried([[BUSY], []]) == (2, [])


def test_a_path_that_moves_in_two_attempts_is_left_alone_in_the_second():
    assert tried([[BUSY], [BUSY]]) == (2, [BUSY])


def test_the_third_attempt_goes_on_without_whatever_moved_in_it():
    assert tried([[BUSY], [OTHER], [b"third"]]) == (3, [b"third"])


def test_a_restore_that_would_change_only_restless_paths_gives_up():
    attempts = Attempts()
    node = Node(0o100644, b"x" * 20)
    assert attempts.plans_again([BUSY])
    assert attempts.gave_up([Action(BUSY, None, node)]) == ()
    assert attempts.plans_again([BUSY])
    assert attempts.gave_up([Action(BUSY, None, node)]) == (BUSY,)
    assert attempts.gave_up([Action(BUSY, None, node), Action(OTHER, None, node)]) == ()
