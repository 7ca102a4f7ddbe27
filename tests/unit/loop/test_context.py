"""Figures for checkpoints: a session's number is never used twice."""

from __future__ import annotations

import pytest

from mulligan.errors import UserError
from mulligan.loop.context import ContextTracker
from mulligan.loop.project import ProjectCheckpoints


def test_sessions_count_on_from_the_progress_file(project):
    tracker = ContextTracker(project)
    assert tracker.start_session() == 1
    (project / "claude-progress.txt").write_text("## Session 6 - 2025-01-15 10:30\n")
    assert tracker.start_session() == 7
    assert tracker.start_session() == 8


def test_a_rollback_does_not_make_a_number_free_again(project):
    checkpoints = ProjectCheckpoints(project)
    first = checkpoints.create("x")
    (project / "claude-progress.txt").write_text("## Session 1\n## Session 2\n")
    checkpoints.create("y", context={"session_number": 2})
    assert checkpoints.rollback(first.id)
    assert ContextTracker(project).start_session() == 3


def test_tokens_add_up(project):
    tracker = ContextTracker(project)
    tracker.add_tokens(5)
    assert tracker.add_tokens(7) == 12
    assert tracker.figures() == {"session_number": 0, "token_usage": 12}
    for wrong in (-1, True, 1.5, "7"):
        with pytest.raises(UserError):
            tracker.add_tokens(wrong)  # type: ignore[arg-type]


def test_odd_contexts_and_odd_files_are_no_trouble(project):
    (project / "claude-progress.txt").mkdir()
    ProjectCheckpoints(project).create("x", context={"session_number": "seven"})
    assert ContextTracker(project).start_session() == 1
