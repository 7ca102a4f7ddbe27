"""How a command's process ends: without ceremony, and with nothing left to do for what it acknowledged."""

from __future__ import annotations

import subprocess

import pytest

import mulligan
from tools import cli, mulligan_argv, plain_environment, strace_works

LOG = "timeline.db-wal"


def saved(project, store, name: str) -> None:
    (project / "a").write_text(name)
    assert cli("--store", store, "save", name, cwd=project).returncode == 0


def test_the_next_process_reads_what_a_command_left_in_sqlites_log(project, store):
    saved(project, store, "one")
    assert (store / LOG).stat().st_size
    saved(project, store, "two")
    ws = mulligan.open(project, store=store)
    assert [checkpoint.name for checkpoint in ws.log()] == ["two", "one"]
    assert ws.check().ok
    ws.close()
    assert not (store / LOG).exists()  # a program that closes it writes it back


def test_a_log_that_became_long_is_written_back_by_a_command(project, store):
    for number in range(24):
        saved(project, store, f"save {number}")
        if not (store / LOG).exists():
            break
    else:
        pytest.fail("SQLite's log grows with every command")
    assert number > 2


def test_a_command_waits_for_the_disk_no_more_often_than_its_promise_needs(project, store, tmp_path):
    """The pack, its index and their directory; the transaction and the log's; the reference and its directory, twice."""
    if not strace_works():
        pytest.skip("strace does not work here")
    saved(project, store, "one")
    (project / "a").write_text("two")
    command = mulligan_argv("--store", store, "save", "two")
    calls = ["strace", "-f", "-o", tmp_path / "calls", "-e", "trace=fsync,fdatasync,sync_file_range,syncfs,sync"]
    subprocess.run([*calls, *command], cwd=project, env=plain_environment(), check=True, capture_output=True)
    waits = [line for line in (tmp_path / "calls").read_text().splitlines() if "sync" in line]
    assert len(waits) <= 8, waits  # the directory of references once more for those of the save before
