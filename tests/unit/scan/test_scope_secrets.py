"""Secrets and what git tracks, decided together."""

from __future__ import annotations

from mulligan.model.checkpoint import EXCLUDED, SECRET
from mulligan.model.policy import CapturePolicy
from mulligan.scan.ignore import IgnoreRules
from mulligan.scan.scope import CAPTURE, Scope, Tracked


def scope(*tracked: bytes, include: tuple[str, ...] = ()) -> Scope:
    """A scope in which git tracks these paths."""
    return Scope(CapturePolicy(include=include), IgnoreRules.base(), Tracked(lambda: set(tracked), b"key"))


def decide(scope: Scope, path: bytes) -> str:
    """The reason for which a file is left out."""
    return scope.decide(path, path.rpartition(b"/")[2], scope.rules, is_dir=False)[0]


def test_an_example_of_an_environment_file_is_captured_only_where_git_tracks_it() -> None:
    """Untracked, it may be filled in already."""
    assert decide(scope(), b"app/.env.example") == SECRET
    assert decide(scope(b"app/.env.example"), b"app/.env.example") == CAPTURE[0]


def test_a_tracked_environment_file_is_saved_like_any_other() -> None:
    """Git holds it already, and an undo without it leaves the project broken."""
    assert decide(scope(b".env"), b".env") == CAPTURE[0]
    assert decide(scope(b"other/.env"), b".env") == SECRET


def test_include_never_unseals_and_exclude_leaves_a_secret_out() -> None:
    """A secret that is asked for is saved sealed all the same."""
    assert decide(scope(include=(".env",)), b".env") == SECRET
    without = Scope(CapturePolicy(exclude=(".env",)), IgnoreRules.base(), Tracked(set, b""))
    assert decide(without, b".env") == EXCLUDED
    assert decide(without, b"id_rsa") == SECRET


def test_with_plain_a_secret_is_a_file_like_any_other() -> None:
    """Only the user's own configuration says so."""
    plain = Scope(CapturePolicy(secrets="plain"), IgnoreRules.base(), Tracked(set, b""))
    assert decide(plain, b".env") == CAPTURE[0]
