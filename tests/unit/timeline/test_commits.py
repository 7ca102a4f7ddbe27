"""A checkpoint as a commit: all that the timeline knows of it is in there, and plain git can read it."""

from __future__ import annotations

import json

import pytest

from mulligan.errors import StoreDamaged
from mulligan.model.checkpoint import Checkpoint, GitState, moment, pack_list
from mulligan.model.objects import COMMIT, EMPTY_TREE, TREE, Commit, encode_commit
from mulligan.timeline.commits import Entry, write_commit
from mulligan.timeline.read_commits import read_commit
from stores import opened
from tools import git


def entry(**more: object) -> Entry:
    state = more.pop("state", {})
    checkpoint = Checkpoint(
        id="0" * 16, name="", description="", kind="step", created_at=moment(5), parent=None, complete=True, commit="",
        git=GitState("a" * 40, "main", ("x",)), not_captured_source=lambda: pack_list([["p", "secret", "why"]]), state_source=lambda: state,
    )  # fmt: skip
    return Entry(checkpoint.replace(**more), 5, EMPTY_TREE, EMPTY_TREE, (0o600, 0o700, 0o750))


def written(store, what: Entry) -> Entry:
    with store.writer() as writer:
        writer.add(TREE, b"")
        done = write_commit(what, writer)
        writer.finish()
    return done


@pytest.mark.parametrize("text", ["", "plain", "\ud800", "a\0b", "new\nline", "\n\n", "é" * 5000, "tree x"])
def test_what_was_written_is_read_back_and_git_finds_nothing_wrong(tmp_path, text):
    odd = {"plain-key": text, text: {"odd": text}, "+": 1, "git~1": 2, ".git": 3, "a/b": [text], "CON": None}
    with opened(tmp_path / "store") as store:
        made = written(
            store,
            entry(name=text, description=text, context={text: text}, metadata={"m": text}, state=odd, parent="1" * 16),
        )
        found = read_commit(store, made.commit_id)
        assert found.checkpoint.state == odd
    assert found.checkpoint == made.checkpoint
    assert found.checkpoint.not_captured == made.checkpoint.not_captured
    assert (found.created_ns, found.files_tree, found.modes_tree, found.defaults) == (
        5,
        EMPTY_TREE,
        EMPTY_TREE,
        made.defaults,
    )
    git("update-ref", "refs/checkpoints/x", made.checkpoint.commit, cwd=tmp_path / "store")
    assert b"error" not in git("fsck", "--strict", "--full", "--no-dangling", cwd=tmp_path / "store")


def test_state_is_one_file_per_key(tmp_path):
    with opened(tmp_path / "store") as store:
        made = written(store, entry(state={"conversation": ["hello"], "progress": 3}))
    said = git("show", f"{made.checkpoint.commit}:state/conversation.json", cwd=tmp_path / "store")
    assert json.loads(said) == ["hello"]


def test_another_commit_is_no_checkpoint(tmp_path):
    with opened(tmp_path / "store") as store:
        with store.writer() as writer:
            tree = writer.add(TREE, b"")
            commit = writer.add(COMMIT, encode_commit(Commit(tree, "other", 1)))
            writer.finish()
        with pytest.raises(StoreDamaged, match="not a checkpoint"):
            read_commit(store, commit)
