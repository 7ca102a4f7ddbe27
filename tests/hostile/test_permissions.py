"""Files and directories that may not be read or written: named, never fatal to the rest, never half done."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from tools import cli, cli_json
from tree import put, snapshot

#: Root passes every permission check; without these two capabilities it is an owner like any other.
POWERLESS = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-dac_override,-dac_read_search"]


def prefix() -> list[str]:
    """What to put before a command so that permission bits mean something."""
    return POWERLESS if os.geteuid() == 0 else []


def permissions_count() -> bool:
    """Whether a process can be made that permission bits apply to."""
    if os.geteuid() != 0:
        return True
    return bool(shutil.which("setpriv")) and subprocess.run([*POWERLESS, "true"], check=False).returncode == 0


pytestmark = pytest.mark.skipif(not permissions_count(), reason="root without setpriv: no file can be made unreadable")


def powerless(*args: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Runs `mulligan` as a process that permission bits apply to."""
    return cli(*args, cwd=cwd, prefix=prefix())


def test_an_unreadable_file_makes_the_checkpoint_partial_and_is_named(project, store):
    """Reliability row 16."""
    put(project, "a", "1")
    put(project, "closed", "1", perm=0)
    put(project, "shut/inner", "1")
    (project / "shut").chmod(0)
    done = powerless("--store", store, "--json", "save", "one", cwd=project)
    assert done.returncode == 3, done.stderr
    cp = json.loads(done.stdout)["checkpoint"]
    assert not cp["complete"]
    assert {entry["path"].rstrip("/"): entry["reason"] for entry in cp["not_captured"]} == {
        "closed": "unreadable",
        "shut": "unreadable",
    }
    (project / "shut").chmod(0o755)
    put(project, "a", "2")
    before = snapshot(project)
    assert cli("--store", store, "restore", "one", "-y", cwd=project).returncode in {0, 3}
    after = snapshot(project)
    assert (project / "a").read_text() == "1"
    for path in ("closed", "shut/inner"):
        assert after[path] == before[path], "a restore touched what it had not captured"


def test_an_unreadable_file_is_not_taken_for_a_deleted_one(project, store):
    """It was captured before, it cannot be read now: the history must not say that it went."""
    put(project, "a", "1")
    put(project, "closed", "precious")
    cli_json("--store", store, "save", "one", cwd=project)
    (project / "closed").chmod(0)
    done = powerless("--store", store, "--json", "save", "two", cwd=project)
    assert done.returncode == 3
    cp = json.loads(done.stdout)["checkpoint"]
    assert [entry["path"] for entry in cp["not_captured"]] == ["closed"]
    cli("--store", store, "restore", "two", "-y", cwd=project)
    assert (project / "closed").exists()


def test_a_read_only_directory_is_listed_the_rest_is_restored_and_nothing_is_half_written(project, store):
    """Scenario 57."""
    put(project, "d/a", "1")
    put(project, "e/b", "1")
    cli_json("--store", store, "save", "one", cwd=project)
    put(project, "d/a", "2")
    put(project, "e/b", "2")
    (project / "d").chmod(0o555)
    done = powerless("--store", store, "restore", "one", "-y", cwd=project)
    assert "Traceback" not in done.stderr
    assert done.returncode == 3
    assert (project / "d").stat().st_mode & 0o777 == 0o555
    (project / "d").chmod(0o755)
    assert (project / "d/a").read_text() == "2" and (project / "e/b").read_text() == "1"
    assert sorted(os.listdir(project / "d")) == ["a"]
    assert sorted(os.listdir(project / "e")) == ["b"]
    assert "d/a" in done.stdout + done.stderr, "partial, and it does not say what"
    assert "chmod u+wx d" in done.stdout + done.stderr
    cli_json("--store", store, "save", "next", cwd=project)
    cli_json("--store", store, "restore", "one", "-y", cwd=project)
    assert (project / "d/a").read_text() == (project / "e/b").read_text() == "1"


def test_a_read_only_store_refuses_the_save_and_still_reads(project, store):
    """Reliability row 16."""
    put(project, "a", "1")
    cli_json("--store", store, "save", "one", cwd=project)
    put(project, "a", "2")
    folders = [store, *(path for path in store.rglob("*") if path.is_dir())]
    for folder in folders:
        folder.chmod(0o500)
    try:
        done = powerless("--store", store, "save", "two", cwd=project)
        assert done.returncode not in {0, 3}
        assert "Traceback" not in done.stderr
        assert done.stderr
    finally:
        for folder in folders:
            folder.chmod(0o700)
    assert [cp["name"] for cp in cli_json("--store", store, "log", cwd=project)["checkpoints"]] == ["one"]
    assert cli("--store", store, "cat", "one:a", cwd=project).stdout == "1"


def test_a_read_only_file_is_restored_and_stays_read_only(project, store):
    put(project, "a", "1", perm=0o444)
    cli_json("--store", store, "save", "one", cwd=project)
    (project / "a").chmod(0o644)
    put(project, "a", "2", perm=0o444)
    done = powerless("--store", store, "restore", "one", "-y", cwd=project)
    assert done.returncode == 0, done.stderr
    assert (project / "a").read_text() == "1"
    assert stat.S_IMODE((project / "a").stat().st_mode) == 0o444
