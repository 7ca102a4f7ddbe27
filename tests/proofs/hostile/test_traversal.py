"""
A store that lies: trees whose names would lead a restore out of the workspace or into a repository's own files.

The trees are made with plain git plumbing, packed, and put in the place of an honest checkpoint's. Every restore must be
refused by name (exit 83 or 90) before it writes a byte.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import subprocess
from pathlib import Path

import pytest

import mulligan
from seals import reseal
from tools import cli, git, git_environment
from tree import put, snapshot

FILE, LINK, TREE = b"100644", b"120000", b"40000"
EVIL = [
    b"..", b".", b"../x", b"/abs", b"a/b", b"a/../../x", b".git", b".GIT", b".Git", b".gIt", b"git~1", b"GIT~1", b"git~2",
    b".git.", b".git ", b".git. .", b".git::$INDEX_ALLOCATION", b".git:stream", b".g\xe2\x80\x8cit", b"\xe2\x80\xae.git",
    b".gi\xef\xbb\xbft", b"",
]  # fmt: skip


def add_object(store: Path, kind: str, content: bytes) -> str:
    """Adds one object to the store, in a pack of its own, whatever it contains."""
    name = hashlib.sha1(b"%s %d\0" % (kind.encode(), len(content)) + content).hexdigest()
    scratch = store.parent / "scratch.git"
    if not scratch.exists():
        git("init", "-q", "--bare", scratch)
    there = f"--git-dir={scratch}"
    said = git(there, "hash-object", "-t", kind, "-w", "--stdin", "--literally", stdin=content).decode().strip()
    assert said == name
    base = store / "objects/pack/pack"
    subprocess.run(
        ["git", there, "pack-objects", "-q", base],
        input=name.encode(),
        env=git_environment(),
        capture_output=True,
        check=True,
    )
    for path in base.parent.iterdir():
        path.chmod(0o600)
    return name


def tree(*entries: tuple[bytes, bytes, str]) -> bytes:
    """A raw tree object."""
    return b"".join(mode + b" " + name + b"\0" + bytes.fromhex(target) for mode, name, target in entries)


def read_tree(store: Path, name: str) -> list[tuple[bytes, bytes, str]]:
    """The entries of a tree, parsed here."""
    raw, found = git(f"--git-dir={store}", "cat-file", "tree", name), []
    while raw:
        mode, rest = raw.split(b" ", 1)
        entry, rest = rest.split(b"\0", 1)
        found.append((mode, entry, rest[:20].hex()))
        raw = rest[20:]
    return found


def tamper(store: Path, cp, files: str) -> None:
    """Puts another `files/` tree in the place of a checkpoint's, in object, ref and timeline alike."""
    there = f"--git-dir={store}"
    root = git(there, "rev-parse", f"{cp.commit}^{{tree}}").decode().strip()
    old = git(there, "rev-parse", f"{cp.commit}:files").decode().strip()
    entries = [(mode, name, files if name == b"files" else target) for mode, name, target in read_tree(store, root)]
    new_root = add_object(store, "tree", tree(*entries))
    commit = git(there, "cat-file", "commit", cp.commit).replace(root.encode(), new_root.encode())
    new_commit = add_object(store, "commit", commit)
    for ref in store.glob("refs/checkpoints/**/*"):
        if ref.is_file() and ref.read_text().strip() == cp.commit:
            ref.write_text(new_commit + "\n")
    packed = store / "packed-refs"
    if packed.exists():
        packed.write_text(packed.read_text().replace(cp.commit, new_commit))
    rewrite_rows(store, {cp.commit: new_commit, root: new_root, old: files})


def rewrite_rows(store: Path, names: dict[str, str]) -> None:
    """Replaces object ids in the timeline's checkpoint rows, as text or bytes."""
    connection = sqlite3.connect(store / "timeline.db")
    columns = [row[1] for row in connection.execute("PRAGMA table_info(checkpoint)")]
    for column in columns:
        for before, after in names.items():
            connection.execute(f'UPDATE checkpoint SET "{column}" = ? WHERE "{column}" = ?', (after, before))
            raw = (bytes.fromhex(after), bytes.fromhex(before))
            connection.execute(f'UPDATE checkpoint SET "{column}" = ? WHERE "{column}" = ?', raw)
    connection.commit()
    connection.close()
    reseal(store)
    for path in store.glob("timeline.db*"):
        path.chmod(0o600)


@pytest.fixture
def victim(project, store):
    """A workspace with a repository, a neighbour to protect, and a checkpoint to tamper with."""
    git("init", "-q", cwd=project)
    put(project, "a", "1")
    put(project.parent, "neighbour", "n")
    cp = mulligan.open(project, store=store).save("one")
    put(project, "a", "2")
    return cp


def refused(project: Path, store: Path) -> None:
    """Both doors refuse, and nothing anywhere changed."""
    before = {
        path: entry for path, entry in snapshot(project.parent).items() if not path.startswith(("store", "scratch"))
    }
    with pytest.raises((mulligan.UnsafePath, mulligan.StoreDamaged)):
        mulligan.open(project, store=store).restore("one")
    done = cli("--store", store, "restore", "one", "-y", cwd=project)
    assert done.returncode in {83, 90}, (done.returncode, done.stderr)
    assert "Traceback" not in done.stderr
    after = {
        path: entry for path, entry in snapshot(project.parent).items() if not path.startswith(("store", "scratch"))
    }
    assert after == before


@pytest.mark.parametrize("name", EVIL, ids=repr)
@pytest.mark.parametrize("shape", ["file", "directory", "below"])
def test_evil_names_are_refused_before_the_first_byte(project, store, victim, name, shape):
    """Scenarios 41, 42; reliability row 30."""
    blob = add_object(store, "blob", b"#!/bin/sh\necho owned\n")
    inner = add_object(store, "tree", tree((FILE, b"x", blob)))
    if shape == "file":
        files = tree((FILE, name, blob))
    elif shape == "directory":
        files = tree((TREE, name, inner))
    else:
        files = tree((TREE, b"sub", add_object(store, "tree", tree((TREE, name, inner)))))
    tamper(store, victim, add_object(store, "tree", files))
    refused(project, store)


def test_a_link_and_a_directory_of_the_same_name_lead_nowhere(project, store, victim):
    """A link to the outside, then a file below it."""
    blob = add_object(store, "blob", b"owned")
    target = add_object(store, "blob", os.fsencode(project.parent))
    inner = add_object(store, "tree", tree((FILE, b"neighbour", blob)))
    tamper(store, victim, add_object(store, "tree", tree((LINK, b"d", target), (TREE, b"d", inner))))
    refused(project, store)


def test_hooks_are_never_written(project, store, victim):
    """The way from a checkpoint to code execution."""
    blob = add_object(store, "blob", b"#!/bin/sh\necho owned\n")
    hooks = add_object(store, "tree", tree((b"100755", b"post-checkout", blob)))
    dot_git = add_object(store, "tree", tree((TREE, b"hooks", hooks)))
    tamper(store, victim, add_object(store, "tree", tree((TREE, b".git", dot_git))))
    refused(project, store)
    assert not (project / ".git/hooks/post-checkout").exists()


@pytest.mark.parametrize("mode", [b"160000", b"100666", b"104755", b"60000", b"10000", b"0", b"xyz"])
def test_modes_that_no_checkpoint_has_are_refused_or_made_harmless(project, store, victim, mode):
    """Devices, set-uid files, submodules: none comes out of a store."""
    blob = add_object(store, "blob", b"x")
    tamper(store, victim, add_object(store, "tree", tree((mode, b"odd", blob))))
    done = cli("--store", store, "restore", "one", "-y", cwd=project)
    assert "Traceback" not in done.stderr
    if done.returncode == 0:
        assert snapshot(project)["odd"].mode in {0o644, 0o755}
    else:
        assert done.returncode in {3, 83, 90}
        assert not os.path.lexists(project / "odd")


def test_a_missing_object_is_damage_and_nothing_is_written(project, store, victim):
    """The tree names a blob that is not there."""
    blob = add_object(store, "blob", b"present")
    tamper(store, victim, add_object(store, "tree", tree((FILE, b"a", "12" * 20), (FILE, b"b", blob))))
    refused(project, store)


def test_a_tree_that_contains_itself_by_name_only_ends(project, store, victim):
    """A blob where a tree is promised, and a tree where a blob is."""
    blob = add_object(store, "blob", b"x")
    inner = add_object(store, "tree", tree((FILE, b"x", blob)))
    tamper(store, victim, add_object(store, "tree", tree((FILE, b"a", inner), (TREE, b"b", blob))))
    refused(project, store)
