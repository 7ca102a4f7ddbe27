"""Which paths are captured, and in which order the rules speak."""

from __future__ import annotations

import pytest

from mulligan.model.policy import CapturePolicy
from mulligan.scan.ignore import IgnoreRules
from mulligan.scan.scope import CAPTURE, TRACKED, Scope, Tracked, database_family, database_groups

RULES = IgnoreRules.base(b"*.log\nout/\n")


def scope(tracked: tuple[bytes, ...] = (), **policy: tuple[str, ...]) -> Scope:
    return Scope(CapturePolicy(**policy), RULES, Tracked(lambda: set(tracked), b"key"), b".mulligan")


def reason(which: Scope, path: bytes, *, is_dir: bool = False) -> str:
    return which.decide(path, path.rpartition(b"/")[2], RULES, is_dir=is_dir)[0]


@pytest.mark.parametrize(
    ("path", "is_dir", "expected"),
    [
        (b"a.py", False, ""),
        (b"a.log", False, "ignored"),
        (b"out", True, "ignored"),
        (b".gitignore", False, ""),
        (b".git", True, "excluded"),
        (b"sub/.GIT", True, "excluded"),
        (b"sub/git~1", True, "excluded"),
        (b".mulligan", True, "excluded"),
        (b".mulligan-0123456789ab-1", False, "excluded"),
        (b".mulligan-notes", False, ""),
        (b".claude", True, ""),
        (b".claude/checkpoints", True, "excluded"),
        (b".claude/checkpoints", False, ""),
        (b"sub/.claude/checkpoints", True, ""),
        (b"node_modules", True, "excluded"),
        (b"node_modules", False, ""),
        (b".env", False, "secret"),
        (b"x.skip", False, "excluded"),
    ],
)
def test_each_rule_has_its_reason(path, is_dir, expected):
    assert reason(scope(exclude=("*.skip",)), path, is_dir=is_dir) == expected


def test_what_git_tracks_is_captured_although_ignored_or_named_like_a_secret():
    which = scope((b"a.log", b"node_modules/x", b".env", b"out/kept"))
    assert which.decide(b"a.log", b"a.log", RULES, is_dir=False) is TRACKED
    assert which.decide(b"node_modules", b"node_modules", RULES, is_dir=True) is TRACKED
    assert which.decide(b"b.py", b"b.py", RULES, is_dir=False) is CAPTURE
    assert which.decide(b".env", b".env", RULES, is_dir=False) is TRACKED
    assert reason(which, b"sub/.env") == "secret"
    assert reason(which, b"out", is_dir=True) == "ignored" and which.enters(b"out")
    assert which.wanted_inside(b"out/kept", is_dir=False) and not which.wanted_inside(b"out/new", is_dir=False)


def test_the_users_word_wins_over_everything_but_git_and_secrets():
    which = scope(include=(".env", "node_modules/", "*.log", ".git"), exclude=("*.log",))
    assert [reason(which, path) for path in (b".env", b"a.log")] == ["secret", ""]
    assert reason(which, b"node_modules", is_dir=True) == ""
    assert reason(which, b".git", is_dir=True) == "excluded"
    assert which.included(b".env") and not which.included(b"a.py")


def test_the_key_changes_with_whatever_decides():
    plain = scope().key(RULES, only_tracked=False)
    others = [
        scope(exclude=("x",)).key(RULES, only_tracked=False),
        scope(include=("x",)).key(RULES, only_tracked=False),
        scope().key(IgnoreRules.base(b"other"), only_tracked=False),
        scope().key(RULES, only_tracked=True),
    ]
    assert len({plain, *others}) == 5 and plain == scope().key(RULES, only_tracked=False)


def test_a_database_is_found_by_the_journals_beside_it():
    names = [b"a.db", b"a.db-wal", b"a.db-shm", b"b-journal", b"c", b"c-journal"]
    assert database_groups(names) == {b"a.db": [b"a.db-wal", b"a.db-shm"], b"c": [b"c-journal"]}
    assert set(database_family(b"d/a.db-wal")) >= {b"d/a.db", b"d/a.db-wal", b"d/a.db-shm"}


def test_records_of_checkpoints_stay_out_even_where_the_git_index_tracks_them():
    which = scope(tracked=(b".claude/checkpoints/checkpoint-1/metadata.json",), include=("*.json",))
    assert reason(which, b".claude/checkpoints", is_dir=True) == "excluded"
    assert not which.enters(b".claude/checkpoints")
    assert not which.wanted_inside(b".claude/checkpoints/checkpoint-1/metadata.json", is_dir=False)
