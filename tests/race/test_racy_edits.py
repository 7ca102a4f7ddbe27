"""Edits that try to hide: same size, same tick, old mtime, new inode, a clock from the future. None may be missed."""

from __future__ import annotations

import os
import random

import pytest

import mulligan
from tools import sweep
from tree import put


def same_size(place: str, content: bytes) -> None:
    """Writes in place, at once."""
    with open(place, "r+b") as file:
        file.write(content)


def mtime_put_back(place: str, content: bytes) -> None:
    """Writes in place and restores the time stamps."""
    before = os.stat(place)
    same_size(place, content)
    os.utime(place, ns=(before.st_atime_ns, before.st_mtime_ns))


def replaced_by_rename(place: str, content: bytes) -> None:
    """Writes beside and renames over, with the old time stamps."""
    before = os.stat(place)
    with open(place + ".new", "wb") as file:
        file.write(content)
    os.utime(place + ".new", ns=(before.st_atime_ns, before.st_mtime_ns))
    os.replace(place + ".new", place)


def from_the_future(place: str, content: bytes) -> None:
    """Writes in place with a time stamp a year ahead, always the same one."""
    same_size(place, content)
    os.utime(place, ns=(4_000_000_000 * 10**9, 4_000_000_000 * 10**9))


def from_the_past(place: str, content: bytes) -> None:
    """Writes in place with a time stamp of 1970."""
    same_size(place, content)
    os.utime(place, ns=(0, 0))


def unlinked_and_made_again(place: str, content: bytes) -> None:
    """A new file that very likely has the old inode number."""
    before = os.stat(place)
    os.unlink(place)
    with open(place, "wb") as file:
        file.write(content)
    os.utime(place, ns=(before.st_atime_ns, before.st_mtime_ns))


EDITS = [same_size, mtime_put_back, replaced_by_rename, from_the_future, from_the_past, unlinked_and_made_again]


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit.__name__)
def test_no_edit_is_missed(project, store, private_home, edit):
    """Reliability row 20."""
    put(private_home, "xdg-config/mulligan/config.toml", "[retention]\nstep = 3\n")
    ws = mulligan.open(project, store=store)
    put(project, "d/a", b"%08d" % 0)
    put(project, "d/still", "s")
    ws.save("start")
    place = os.fspath(project / "d/a")
    for number in range(1, sweep(70) + 1):
        content = b"%08d" % number
        edit(place, content)
        cp = ws.save(if_changed=True, kind="step")
        assert cp is not None, f"round {number}: missed"
        assert ws.cat(cp, "d/a") == content
        assert cp.files_changed == ("d/a",)
        assert ws.save(if_changed=True, kind="step") is None


def test_an_edit_between_two_workspace_objects_is_not_missed(project, store):
    put(project, "a", b"0000")
    mulligan.open(project, store=store).save("start")
    for number in range(1, sweep(20) + 1):
        mtime_put_back(os.fspath(project / "a"), b"%04d" % number)
        assert mulligan.open(project, store=store).save(if_changed=True, kind="step") is not None


def test_an_edit_right_after_a_restore_is_not_missed(ws, project):
    put(project, "a", b"0000")
    ws.save("start")
    for number in range(1, sweep(20) + 1):
        mtime_put_back(os.fspath(project / "a"), b"%04d" % number)
        ws.restore("start")
        assert (project / "a").read_bytes() == b"0000", f"round {number}: the edit was not seen by the restore"
        mtime_put_back(os.fspath(project / "a"), b"x%03d" % number)
        assert ws.diff().modified == ["a"], f"round {number}: missed after a restore"


def test_two_files_that_swap_names_are_both_seen(ws, project):
    put(project, "a", b"aaaa")
    put(project, "b", b"bbbb")
    for name in "ab":
        os.utime(project / name, ns=(10**18, 10**18))
    ws.save("start")
    for _round in range(sweep(20)):
        os.rename(project / "a", project / "t")
        os.rename(project / "b", project / "a")
        os.rename(project / "t", project / "b")
        cp = ws.save(if_changed=True, kind="step")
        assert cp is not None
        assert ws.cat(cp, "a") == (project / "a").read_bytes()
        assert ws.cat(cp, "b") == (project / "b").read_bytes()


def test_random_hidden_edits_over_many_files(ws, project):
    rng = random.Random(5)
    files = [f"d{number % 7}/f{number}" for number in range(60)]
    for path in files:
        put(project, path, b"%08d" % 0)
    ws.save("start")
    for number in range(1, sweep(25) + 1):
        changed = sorted(rng.sample(files, rng.randrange(1, 6)))
        for path in changed:
            rng.choice(EDITS)(os.fspath(project / path), b"%08d" % number)
        cp = ws.save(if_changed=True, kind="step")
        assert cp is not None
        assert sorted(cp.files_changed) == changed
