"""The record of an environment: one holder at a time, whole after any crash."""

from __future__ import annotations

import os
import threading

import pytest

from mulligan.environments.container.record import EnvironmentRecord
from mulligan.errors import Busy, StoreDamaged, UserError


@pytest.fixture
def root(tmp_path):
    return str(tmp_path / "environments")


def test_what_is_noted_is_there_for_the_next_process(root):
    first = EnvironmentRecord(root, "box")
    with first.holding("test"):
        first.begin({"what": "save", "id": "1"})
        first.set_notes([{"name": "ünï"}])
    other = EnvironmentRecord(root, "box")
    with other.holding("test"):
        assert other.journal == {"what": "save", "id": "1"}
        assert other.notes == [{"name": "ünï"}]
        other.end(abandoned="1")
        assert other.journal is None
    with first.holding("test"):
        assert (first.journal, first.abandoned) == (None, ["1"])
    assert os.stat(os.path.join(root, "box")).st_mode & 0o777 == 0o700


def test_a_write_that_was_cut_short_does_not_stand_in_the_way(root):
    record = EnvironmentRecord(root, "box")
    with record.holding("test"):
        record.begin({"what": "save"})
    with open(os.path.join(root, "box", "record.new"), "w") as half:
        half.write('{"jour')
    with record.holding("test"):
        assert record.journal == {"what": "save"}
        record.end()
    with record.holding("test"):
        assert record.journal is None


def test_a_second_holder_waits_and_then_is_told_whose_it_is(root):
    first, second = EnvironmentRecord(root, "box"), EnvironmentRecord(root, "box", wait=0.01)
    with first.holding("checkpoint"), pytest.raises(Busy, match=r"The environment box is in use .*checkpoint"):
        second.holding("test").__enter__()
    with second.holding("test"):
        pass


def test_only_the_holder_writes(root):
    record = EnvironmentRecord(root, "box")
    with pytest.raises(UserError):
        record.end()


def test_a_record_that_makes_no_sense_is_named(root):
    record = EnvironmentRecord(root, "box")
    with record.holding("test"):
        record.end()
    for junk in ("[]", "{", "\x00"):
        with open(os.path.join(root, "box", "record.json"), "w") as file:
            file.write(junk)
        with pytest.raises(StoreDamaged, match=r"record\.json"), record.holding("test"):
            pass


def test_a_record_that_was_removed_meanwhile_is_made_anew(root):
    """Whoever waited for the lock of a directory that is gone must not write into nowhere."""
    first, second = EnvironmentRecord(root, "box"), EnvironmentRecord(root, "box")
    seen = []

    def wait() -> None:
        with second.holding("second"):
            second.begin({"what": "save"})
            seen.append(os.listdir(os.path.join(root, "box")))

    with first.holding("first"):
        waiting = threading.Thread(target=wait)
        waiting.start()
        first.remove()
    waiting.join()
    assert [sorted(names) for names in seen] == [["lock", "record.json"]]
