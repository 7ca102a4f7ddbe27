"""Checkpoints, plans and reports as lines; whatever came from a workspace is harmless in them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from mulligan.model.checkpoint import Checkpoint, GitState, pack_list
from mulligan.model.objects import MODE_FILE
from mulligan.model.plan import Action, Keep, Node, RestorePlan, RestoreReport
from mulligan.present.log import checkpoint_lines, log_lines
from mulligan.present.outcome import MOST_PATHS, named, not_captured_lines, outcome_lines, plan_lines
from mulligan.present.text import Style
from mulligan.present.timeline import saved_lines

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
HOSTILE = "\x1b]0;owned\x07\nrm\u202e\udcff"


def checkpoint(ident="1" * 40, name="works", changed=("a.txt",), missing=(), *, complete=True, parent="0" * 40, **more):
    return Checkpoint(
        id=ident,
        name=name,
        description=more.pop("description", ""),
        kind="manual",
        created_at=NOW - timedelta(minutes=3),
        parent=parent,
        complete=complete,
        commit="c" * 40,
        packed_changes=pack_list(changed),
        not_captured_source=lambda: pack_list(missing),
        **more,
    )


def test_the_log_marks_the_position_and_counts_what_changed():
    lines = log_lines(
        [checkpoint("2" * 40, "two", ("a", "b", "c", "d", "e")), checkpoint("1" * 40, "", ())],
        position="1" * 40,
        now=NOW,
    )
    assert lines == [
        "   22222222  3 min ago  manual  two  5 files",
        "@  11111111  3 min ago  manual  -    no files",
    ]


def test_the_log_fits_the_terminal():
    lines = log_lines([checkpoint(name="n" * 200, changed=("p" * 300,))], position=None, now=NOW, width=80)
    assert len(lines[0]) == 80 and "n…  1 file" in lines[0]


def test_colour_changes_nothing_but_colour():
    plain = log_lines([checkpoint()], position=None, now=NOW)
    painted = log_lines([checkpoint()], position=None, now=NOW, style=Style(enabled=True))
    assert plain != painted and "\x1b[" in painted[0]


def test_a_partial_checkpoint_is_marked():
    assert "1 file, partial" in log_lines([checkpoint(complete=False)], position=None, now=NOW)[0]


def test_after_a_save_one_line_tells_it():
    assert saved_lines(checkpoint(changed=("a", "b"))) == ["saved 11111111  works  2 files changed"]
    assert saved_lines(checkpoint(parent=None)) == ["saved 11111111  works  1 file saved"]


def test_after_a_partial_save_what_is_missing_is_grouped_by_reason():
    missing = [
        ("x", "unreadable", "permission denied"),
        ("y", "unreadable", "permission denied"),
        ("z", "moving", ""),
        ("k", "secret", ""),
    ]
    assert saved_lines(checkpoint(complete=False, missing=missing))[1:] == [
        "partial: these could not be saved",
        "  unreadable: x, y (permission denied)",
        "  moving: z",
    ]


def test_a_checkpoint_is_described_in_full():
    text = "\n".join(
        checkpoint_lines(
            checkpoint(
                description="why\nand how",
                git=GitState("f" * 40, "main", ("a",)),
                context={"ticket": 42},
                complete=False,
            ),
            now=NOW,
        )
    )
    for part in (
        "1" * 40,
        "manual, partial",
        "3 min ago",
        "main at ffffffffffff, 1 file not committed",
        "ticket=42",
        "    why\n    and how",
    ):
        assert part in text


def test_nothing_hostile_reaches_the_screen():
    """Control characters, direction marks and raw bytes are written out, wherever they stand."""
    hostile = checkpoint(
        name=HOSTILE, changed=(HOSTILE,), missing=[(HOSTILE, "unreadable", HOSTILE)], complete=False, description=HOSTILE,
        git=GitState("f" * 40, HOSTILE, ()), context={HOSTILE: HOSTILE},
    )  # fmt: skip
    keep = Keep(HOSTILE, "changed since", HOSTILE, failed=True)
    plan = RestorePlan(
        "1" * 40, actions=(Action(HOSTILE.encode("utf-8", "surrogateescape"), None, Node(MODE_FILE)),), keeps=(keep,)
    )
    lines = [
        *log_lines([hostile], position=None, now=NOW),
        *saved_lines(hostile),
        *checkpoint_lines(hostile, now=NOW),
        *not_captured_lines(hostile.not_captured),
        *plan_lines(plan),
        *outcome_lines(RestoreReport("1" * 40, [HOSTILE], [HOSTILE] * 9, kept=[keep]), "Undone"),
        named(hostile, NOW),
    ]
    assert not any(char in "".join(lines) for char in "\x1b\x07\n\u202e\udcff")


def test_a_plan_shows_every_sort_of_change_and_what_it_keeps():
    file = Node(MODE_FILE, b"x" * 20, 0o644)
    actions = (Action(b"new", None, file), Action(b"other", file, file), Action(b"gone", file, None))
    lines = plan_lines(RestorePlan("1" * 40, actions=actions, keeps=(Keep(".env", "secret"),)))
    assert lines == [
        "  + new",
        "  ~ other",
        "  - gone",
        "1 to create, 1 to change, 1 to delete, 1 left alone",
        "  secret: .env",
    ]
    assert plan_lines(RestorePlan("1" * 40)) == ["nothing to change"]


def test_a_long_plan_is_cut_and_counted():
    actions = tuple(Action(b"%d" % n, None, Node(MODE_FILE)) for n in range(MOST_PATHS + 5))
    lines = plan_lines(RestorePlan("1" * 40, actions=actions))
    assert lines[MOST_PATHS] == "  + … and 5 more" and lines[-1] == f"{MOST_PATHS + 5} to create"
