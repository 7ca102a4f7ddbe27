"""Records: whole or not at all, one id each, and nobody else's files touched."""

from __future__ import annotations

import json
import os
from datetime import datetime

import pytest

from faults import FailsAt, Killed, KilledAt
from mulligan.errors import MulliganError, UnsafePath, UserError
from mulligan.loop.records import ProjectRecords, next_id
from mulligan.safefs import syscalls

NOON = datetime(2025, 1, 15, 12, 0, 0)


def ids():
    """The ids that one second can have, in order."""
    newest = None
    while True:
        newest = next_id(NOON, newest)
        yield newest


def free(_: str) -> bool:
    return False


@pytest.fixture
def records(project):
    return ProjectRecords(str(project))


def names(project):
    return sorted({*os.listdir(project / ".claude" / "checkpoints")} - {".gitignore"})


def test_ids_of_one_second(records):
    assert [records.claim(ids()) for _ in range(3)] == [
        "checkpoint-20250115-120000",
        "checkpoint-20250115-120000-2",
        "checkpoint-20250115-120000-3",
    ]


def test_ids_only_grow_also_when_the_clock_goes_back():
    assert next_id(NOON, "checkpoint-20250115-115959-7") == "checkpoint-20250115-120000"
    assert next_id(NOON, "checkpoint-20250115-120000-9") == "checkpoint-20250115-120000-10"
    assert next_id(NOON, "checkpoint-20250115-130000") == "checkpoint-20250115-130000-2"
    assert next_id(NOON, "something else") == "checkpoint-20250115-120000"


def test_a_claim_that_is_given_back_is_free_again(records):
    records.release(records.claim(ids()))
    assert records.claim(ids()) == "checkpoint-20250115-120000"


def test_a_record_is_written_at_once_and_the_claim_goes(records, project):
    made = records.claim(ids())
    records.write(made, {"metadata.json": json.dumps({"id": made}).encode(), "feature_list.json": b"[]"})
    assert names(project) == [made]
    assert records.ids() == [made]
    assert records.read(made) == {"id": made}
    assert records.read_file(made, "feature_list.json") == b"[]"
    assert records.claim(ids()) == f"{made}-2"


def test_a_record_that_is_there_already_stays(records, project):
    records.write("one", {"metadata.json": b'{"id": "one"}'})
    records.write("one", {"metadata.json": b"other"})
    assert records.read("one") == {"id": "one"}
    assert names(project) == ["one"]


def test_git_is_kept_out_of_a_new_directory_of_records_and_never_of_one_that_is_in_use(records, project):
    ignoring = project / ".claude" / "checkpoints" / ".gitignore"
    made = records.claim(ids())
    assert ignoring.read_bytes() == b"*\n"
    records.write(made, {"metadata.json": b"{}"})
    ignoring.unlink()
    records.release(records.claim(ids()))
    assert not ignoring.exists()


def test_a_killed_attempt_to_keep_git_out_is_swept(records, project):
    records.claim(ids())
    rest = project / ".claude" / "checkpoints" / ".writing-0123456789abcdef"
    rest.write_bytes(b"")
    os.utime(rest, (0, 0))
    records.sweep(free)
    assert not rest.exists()


RECORD = {"metadata.json": b'{"id": "x"}', "feature_list.json": b"[]"}


@pytest.mark.parametrize("lie", [FailsAt, KilledAt])
def test_whatever_happens_a_record_is_whole_or_not_there(project, lie):
    """Each call in turn fails, or is the last that the process makes."""
    for number in range(1, 200):
        root = project / str(number)
        root.mkdir()
        records = ProjectRecords(str(root))
        made = records.claim(ids())
        try:
            with syscalls.using(lie(number)):
                records.write(made, RECORD)
        except (Killed, OSError, MulliganError):
            if (root / ".claude" / "checkpoints" / made).exists():
                assert {name: records.read_file(made, name) for name in RECORD} == RECORD
            else:
                assert records.claimed() == [made]
                records.write(made, RECORD)
            continue
        break
    assert number > 10
    assert records.ids() == [made]


def test_only_the_files_of_a_record_are_removed(records, project):
    records.write("one", {"metadata.json": b"{}", "feature_list.json": b"", "claude-progress.txt": b""})
    (project / ".claude" / "checkpoints" / "one" / "mine").write_text("mine")
    records.remove("one")
    records.remove("one")
    assert os.listdir(project / ".claude" / "checkpoints" / "one") == ["mine"]


@pytest.mark.parametrize("wrong", ["../x", "a/b", "", ".hidden", "x" * 300, "a\0b", "ä"])
def test_a_name_that_is_no_id_reaches_nothing(records, project, wrong):
    (project / "x").mkdir()
    (project / "x" / "metadata.json").write_text("{}")
    records.remove(wrong)
    assert records.read_file(wrong, "metadata.json") is None
    assert (project / "x" / "metadata.json").exists()


def test_a_link_in_a_record_is_not_followed(records, project, tmp_path):
    (tmp_path / "secret").write_text("secret")
    records.write("one", {"metadata.json": b"{}"})
    (project / ".claude" / "checkpoints" / "one" / "feature_list.json").symlink_to(tmp_path / "secret")
    (project / ".claude" / "checkpoints" / "two").symlink_to(tmp_path)
    assert records.read_file("one", "feature_list.json") is None
    records.remove("one")
    records.remove("two")
    assert (tmp_path / "secret").exists()


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"id": "two"}', b"[" * 50_000])
def test_metadata_that_cannot_be_used_says_so(records, content):
    records.write("one", {"metadata.json": content})
    with pytest.raises(ValueError, match=r"metadata\.json"):
        records.read("one")
    with pytest.raises(ValueError, match="missing"):
        records.read("two")


def test_what_a_killed_process_left_goes_after_a_day(records, project):
    old, known, young = (records.claim(ids()) for _ in range(3))
    for name in (old, known):
        os.utime(project / ".claude" / "checkpoints" / f".claim-{name}", (1, 1))
    records.sweep(lambda each: each == known)
    assert sorted(records.claimed()) == sorted([known, young])


def test_nothing_there_is_an_empty_list_and_makes_nothing(records, project):
    assert (records.ids(), records.claimed()) == ([], [])
    records.sweep(free)
    records.remove("one")
    assert os.listdir(project) == []


@pytest.mark.parametrize("what", ["file", "link"])
def test_something_else_in_the_place_of_the_directory(records, project, tmp_path, what):
    if what == "file":
        (project / ".claude").write_text("mine")
    else:
        (project / ".claude").symlink_to(tmp_path)
    with pytest.raises(UserError, match="cannot be used"):
        records.claim(ids())


@pytest.mark.parametrize("place", ["../outside", "/etc", ".git/checkpoints"])
def test_a_place_outside_is_refused(project, place):
    with pytest.raises(UnsafePath):
        ProjectRecords(str(project), place if place != "/etc" else "x/../../etc")


def test_records_are_as_open_as_their_project(records, project):
    project.chmod(0o750)
    records.write("one", {"metadata.json": b"{}"})
    folder = project / ".claude" / "checkpoints" / "one"
    assert [oct(path.stat().st_mode & 0o777) for path in (folder, folder / "metadata.json")] == ["0o750", "0o640"]
