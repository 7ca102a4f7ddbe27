"""
Every call to the operating system fails, or is the last one.

Rows 11 and 12 of the reliability table in the size of a build: the n-th call of a verb fails or kills, for n = 1 until the
verb comes through untouched. The counts vary a little from run to run, as a file's age decides whether it is read again.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import mulligan
from checker import neither_old_nor_new
from faults import FailsAt, FsyncFailsAt, Killed, KilledAt
from mulligan.safefs import syscalls
from scenes import MID, NEW, OLD, Scene, State, left_lying, state_of
from stores import open_descriptors
from tools import sweep

VERBS: dict[str, Callable[[Any], Any]] = {
    "save": lambda ws: ws.save("another"),
    "restore": lambda ws: ws.restore("new"),
    "undo": lambda ws: ws.undo(),
    "delete": lambda ws: ws.delete("new"),
    "prune": lambda ws: ws.prune(),
}
AFTER: dict[str, State] = {"restore": NEW, "undo": MID}
EVERY = max(1, 7 // sweep(1))  # errors other than EIO take the same ways: each meets every seventh call


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def ready(scene: Scene, verb: str) -> Any:
    """The scene, set up for one verb."""
    ws = scene.reset()
    if verb == "prune":
        ws.delete("new")
    return ws


def expect_usable(scene: Scene, verb: str, at: str) -> None:
    """After one writing command the workspace is wholly old or wholly new, and undo works from there."""
    ws, new = scene.open(), AFTER.get(verb, OLD)
    ws.save("after")
    now = state_of(scene.project)
    assert left_lying(scene.project) == [], at
    assert now in (OLD, new), (at, ws.last_recovery)
    assert "Kept" not in ws.last_recovery, (at, ws.last_recovery)
    assert ws.cat("after", "same" if "same" in now else "mid") in (b"same", b"mid"), at
    ws.undo()
    if now == OLD:
        assert state_of(scene.project) == MID, at
    elif verb == "restore":
        assert state_of(scene.project) == OLD, at
    ws.close()


@pytest.mark.parametrize("verb", VERBS)
def test_a_kill_before_any_call_leaves_old_or_new(scene: Scene, verb: str) -> None:
    """Each file is old or new at that instant; the next writing command makes it so for the whole workspace."""
    number = 0
    while True:
        number += 1
        ws, lie = ready(scene, verb), KilledAt(number)
        try:
            with syscalls.using(lie):
                VERBS[verb](ws)
            ws.close()
            break
        except Killed as death:
            at = str(death)
        ws.close()
        assert neither_old_nor_new(state_of(scene.project), OLD, AFTER.get(verb, OLD)) == [], at
        expect_usable(scene, verb, at)
    assert number > 10


def test_a_kill_during_recovery_changes_nothing_about_that(scene: Scene) -> None:
    """The restore is killed, and then the command that ends it, and the next one ends it all the same."""
    for number in range(60, 10_000, max(1, 23 // sweep(1))):
        ws = scene.reset()
        try:
            with syscalls.using(KilledAt(number)):
                ws.restore("new")
            ws.close()
            break
        except Killed:
            ws.close()
        crashed, store = state_of(scene.project), scene.keep_store("crashed")
        for second in range(1 + number % 17, 10_000, 17):
            scene.put(crashed, store)
            ws = scene.open()
            try:
                with syscalls.using(KilledAt(second)):
                    ws.save("not yet")
                ws.close()
                break
            except Killed:
                ws.close()
            assert neither_old_nor_new(state_of(scene.project), OLD, NEW) == [], (number, second)
            expect_usable(scene, "restore", f"{number}, then {second}")


def fails(scene: Scene, verb: str, number: int, code: int) -> bool:
    """Runs a verb whose n-th call fails, checks what came of it, and returns whether there was such a call."""
    ws, lie, report = ready(scene, verb), FailsAt(number, code), None
    at, error = f"{verb}, call {number}", None
    with syscalls.using(lie):
        try:
            report = VERBS[verb](ws)
        except mulligan.MulliganError as refusal:
            error = refusal
    ws.close()
    at += f" ({lie.failed}: {os.strerror(code)}): {error}"
    now = state_of(scene.project)
    assert neither_old_nor_new(now, OLD, AFTER.get(verb, OLD)) == [], at
    with scene.open() as ws:
        pending = ws.pending()
    if not pending:
        assert left_lying(scene.project) == [], at
        assert error is None or now == OLD, at
    if lie.failed in {"fsync", "syncfs"}:
        assert isinstance(error, mulligan.DurabilityLost), at
    if report is not None and verb in AFTER and now != AFTER[verb]:
        assert not report.complete, at
    elif report is None or verb != "save":  # a save that could not read something is a state of its own to undo to
        expect_usable(scene, verb, at)
    return bool(lie.failed)


@pytest.mark.parametrize("verb", VERBS)
def test_a_failing_call_is_a_typed_error_or_a_listed_path(scene: Scene, verb: str) -> None:
    """Nothing is half done, nothing is left lying about, and the same command works afterwards."""
    number = 1
    while fails(scene, verb, number, errno.EIO):
        number += 1
    assert number > 10


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EACCES, errno.EMFILE, errno.EROFS, errno.EDQUOT])
def test_every_errno_is_met_the_same_way(scene: Scene, code: int) -> None:
    number = 1 + code % EVERY
    while fails(scene, "restore", number, code):
        number += EVERY


@pytest.mark.parametrize("verb", ["save", "restore", "undo", "delete"])
def test_a_disk_that_does_not_confirm_is_believed_at_once(scene: Scene, verb: str) -> None:
    """A failed fsync ends the command with exit code 91; it is not repeated, and what was saved before can be read."""
    number = 1
    while not_confirmed(scene, verb, number):
        expect_usable(scene, verb, f"fsync {number}")
        if verb != "delete":
            with scene.open() as ws:
                assert ws.cat("new", "modified") == b"new"
        number += 1
    assert number > 1


def not_confirmed(scene: Scene, verb: str, number: int) -> bool:
    """Runs a verb whose n-th fsync fails; returns whether there were so many."""
    ws, lie, code = ready(scene, verb), FsyncFailsAt(number), 0
    with syscalls.using(lie):
        try:
            VERBS[verb](ws)
        except mulligan.DurabilityLost as lost:
            code = lost.exit_code
    ws.close()
    assert code == (91 if lie.syncs >= number else 0)
    assert lie.syncs <= number, "an fsync after the one that failed"
    return bool(code)


@pytest.mark.parametrize("code", [errno.EACCES, errno.EMFILE], ids=errno.errorcode.get)
def test_a_store_that_cannot_be_looked_at_for_a_moment_is_not_called_damaged(scene: Scene, code: int) -> None:
    """Nobody is told that a part of it was deleted, and nothing of it stays open."""
    for number in range(1, 60):
        ws, lie = ready(scene, "restore"), FailsAt(number, code)
        ws.close()
        before, error = open_descriptors(), None
        with syscalls.using(lie):
            try:
                ws.restore("new")
            except mulligan.MulliganError as raised:
                error = raised
        ws.close()
        at = f"call {number} ({lie.failed}): {error}"
        assert not isinstance(error, mulligan.StoreDamaged), at
        assert open_descriptors() == before, at
