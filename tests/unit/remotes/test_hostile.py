"""What comes from a remote is hostile until it is verified."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet import bare_repository, check_store, machine
from mulligan.errors import RemoteDamaged
from mulligan.model.event import AgentEvent, RecordedEvent
from mulligan.model.objects import (
    BLOB,
    COMMIT,
    MODE_DIR,
    MODE_FILE,
    TREE,
    Commit,
    TreeEntry,
    encode_commit,
    encode_tree,
)
from mulligan.remotes.gitserver import GitServer
from mulligan.remotes.protocol import Forgotten, PackNote, Segment, Told, decode
from mulligan.remotes.records import ChainMark, RemoteNote
from mulligan.remotes.spool import Spool

TIMELINE, MACHINE = "ab" * 16, "cd" * 8
GOOD = Segment(
    TIMELINE, MACHINE, "laptop", 3, "e" * 64, 5, checkpoints=(Told("0011223344556677", "f" * 40, "name", "manual", 7),), gone=("8877665544332211",),
    forgets=(Forgotten("aa" * 8, "dir/secret.txt"),), applied=("aa" * 8,), packs=(PackNote("b" * 40, "c" * 64, 10),),
    events=(RecordedEvent(0, 7, AgentEvent("agent", "s", "prompt", text="please", person=False), 3, 0, "0011223344556677", saved=True),),
)  # fmt: skip
EVENT = json.loads(GOOD.encode())["events"][0]


def test_a_segment_comes_back_as_it_was_sent():
    assert decode(GOOD.encode(), timeline=TIMELINE, machine=MACHINE) == GOOD


@pytest.mark.parametrize(
    "lie",
    [
        {"timeline": "00" * 16}, {"machine": "00" * 8}, {"number": 0}, {"number": -1}, {"number": 10**30}, {"number": True}, {"number": "1"},
        {"previous": "../x"}, {"name": "a/b"}, {"name": ""}, {"name": "x" * 100}, {"checkpoints": [{"id": "../../etc", "commit": "f" * 40}]},
        {"checkpoints": [{"id": "0011223344556677", "commit": "f"}]}, {"checkpoints": [{"id": "0011223344556677", "commit": "f" * 40, "name": 5}]},
        {"checkpoints": [GOOD.checkpoints[0]._asdict()] * 1001}, {"gone": ["a/../b"]}, {"gone": 5}, {"forgets": [{"id": "aa" * 8, "path": "../up"}]},
        {"forgets": [{"id": "aa" * 8, "path": "/abs"}]}, {"forgets": [{"id": "aa" * 8, "path": ""}]}, {"forgets": [{"id": "aa" * 8, "path": ".git/config"}]},
        {"packs": [{"name": "b" * 40, "digest": "c" * 64, "size": -1}]}, {"packs": [{"name": "b" * 40, "digest": "c" * 64, "size": 1 << 60}]},
        {"packs": [{"name": "../../x", "digest": "c" * 64, "size": 1}]}, {"events": 5}, {"events": [[]]}, {"events": [{}]},
        {"events": [{**EVENT, "session": "s\n"}]}, {"events": [{**EVENT, "kind": "rm -rf"}]}, {"events": [{**EVENT, "checkpoint": "../x"}]}, {"events": [{**EVENT, "text": "x" * 5000}]},
        {"events": [{**EVENT, "at": 1 << 63}]}, {"events": [{**EVENT, "prompt": True}]}, {"events": [{**EVENT, "tool": 5}]}, {"events": [EVENT] * 10_001},
        {"format": 2}, {"format": None}, {"applied": [7]}, {"at": "soon"},
    ],
    ids=str,
)  # fmt: skip
def test_a_segment_that_lies_is_refused(lie):
    plain = {**json.loads(GOOD.encode()), **lie}
    with pytest.raises(RemoteDamaged):
        decode(json.dumps(plain).encode(), timeline=TIMELINE, machine=MACHINE)


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_no_bytes_raise_anything_but_our_error(data):
    with pytest.raises(RemoteDamaged):
        decode(data, timeline=TIMELINE, machine=MACHINE)


JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=5), lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3), max_leaves=6)  # fmt: skip


@given(st.sampled_from([*Segment._fields, "format"]), JSON)
def test_no_value_in_a_segment_raises_anything_but_our_error(key, value):
    plain = {**json.loads(GOOD.encode()), key: value}
    with suppress(RemoteDamaged):
        decode(json.dumps(plain).encode(), timeline=TIMELINE, machine=MACHINE)


def test_brackets_and_bombs_are_refused_unread():
    for data in (b"[" * 5_000_000, b'{"a":' * 200_000, b"0" * 10_000_000, b'"' + b"x" * (70 << 20) + b'"'):
        with pytest.raises(RemoteDamaged):
            decode(data, timeline=TIMELINE, machine=MACHINE)


class Evil:
    """A machine that pushes whatever it likes into the timeline of another."""

    def __init__(self, place: Path, url: str, timeline: str) -> None:
        os.makedirs(place / "evil" / "objects")
        self.spool = Spool(str(place / "evil"), "x")
        self.server = GitServer(RemoteNote("x", url, "git", place="refs/mulligan"), self.spool, timeline, None)
        self.timeline = timeline

    def checkpoint(self, files: bytes, name: str = "0011223344556677", **more) -> bytes:
        about = {"format": 1, "id": name, "name": "evil", "description": "", "kind": "manual", "created_ns": 1, "parent": None, "complete": True, "context": {}, "metadata": {}, "git": None, "defaults": [420, 493, 493], **more}  # fmt: skip
        record = self.spool.add(BLOB, json.dumps(about).encode())
        tree = self.spool.add(TREE, encode_tree([TreeEntry(b"checkpoint.json", MODE_FILE, record), TreeEntry(b"files", MODE_DIR, files)]))  # fmt: skip
        return self.spool.add(COMMIT, encode_commit(Commit(tree, "evil", 1)))

    def push(self, *told: Told) -> None:
        segment = Segment(self.timeline, MACHINE, "evil", 1, "", 1, checkpoints=told)
        self.server.send(segment, None, ChainMark())


@pytest.fixture
def laptop(tmp_path):
    with machine(tmp_path, "laptop", bare_repository(tmp_path / "server.git")) as ws:
        ws.push()
        yield ws


@pytest.fixture
def evil(tmp_path, laptop):
    (remote,) = laptop.remotes.list()
    ref = next(Path(remote.url, "refs", "mulligan").iterdir())
    return Evil(tmp_path, remote.url, ref.name)


@pytest.mark.parametrize("name", [b"..", b".git", b".", b"GIT~1", b"a/b"])
def test_a_name_that_leaves_the_workspace_refuses_the_checkpoint_and_nothing_else(laptop, evil, name):
    blob = evil.spool.add(BLOB, b"evil")
    bad = evil.spool.add(TREE, b"100644 " + name + b"\0" + blob)
    fine = evil.spool.add(TREE, encode_tree([TreeEntry(b"fine", MODE_FILE, blob)]))
    evil.push(
        Told("0011223344556677", evil.checkpoint(bad).hex()),
        Told("1111223344556677", evil.checkpoint(fine, "1111223344556677").hex()),
    )
    report = laptop.pull()
    assert (report.checkpoints, len(report.refused)) == (1, 1)
    assert laptop.cat("evil:1111223344556677", "fine") == b"evil"
    check_store(laptop)


def test_a_checkpoint_under_another_ones_id_is_refused(laptop, evil):
    fine = evil.spool.add(TREE, encode_tree([TreeEntry(b"fine", MODE_FILE, evil.spool.add(BLOB, b"x"))]))
    evil.push(Told("2211223344556677", evil.checkpoint(fine).hex()))
    assert laptop.pull().refused
    assert len(laptop.log()) == 1


@pytest.mark.parametrize(
    "more",
    [{"defaults": [1]}, {"created_ns": "x"}, {"created_ns": 1 << 80}, {"context": 5}, {"name": 7}, {"kind": None}],
)
def test_a_record_that_is_none_is_refused(laptop, evil, more):
    fine = evil.spool.add(TREE, encode_tree([TreeEntry(b"fine", MODE_FILE, evil.spool.add(BLOB, b"x"))]))
    evil.push(Told("0011223344556677", evil.checkpoint(fine, **more).hex()))
    report = laptop.pull()
    if not report.refused:
        laptop.log()[0].to_dict()  # it was believed, so it can be shown
    check_store(laptop)
