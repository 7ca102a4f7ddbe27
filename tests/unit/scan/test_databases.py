"""A database and its journals are captured together or not at all."""

from __future__ import annotations

import os

import pytest

from mulligan.model.policy import CapturePolicy
from scans import Looking, names, reasons
from tools import git
from tree import put

FAMILY = {"app.db", "app.db-wal", "app.db-shm"}


def test_an_ignored_journal_comes_in_with_its_database(project):
    put(project, ".gitignore", "*-wal\n*-shm\n")
    for name in FAMILY:
        put(project, name, name)
    scan = Looking(project).look()
    assert names(scan) >= FAMILY and not reasons(scan)


def test_an_ignored_database_takes_its_journals_out(project):
    put(project, ".gitignore", "*.db\n")
    for name in FAMILY:
        put(project, name, name)
    assert set(reasons(Looking(project).look())) == FAMILY


@pytest.mark.parametrize("large", sorted(FAMILY))
def test_one_that_is_too_large_takes_all_of_them_out(project, large):
    """Also where the large one is a journal that a rule ignores."""
    put(project, ".gitignore", "*-wal\n*-shm\n")
    for name in FAMILY:
        put(project, name, name)
    put(project, large, "x" * 500)
    scan = Looking(project, CapturePolicy(max_file_size=100)).look()
    assert set(reasons(scan)) == FAMILY and reasons(scan)[large] == "too large" and scan.complete
    put(project, large, "x")
    assert names(Looking(project, CapturePolicy(max_file_size=100)).look()) >= FAMILY


def test_a_journal_of_a_tracked_database_comes_in_where_all_else_is_ignored(project):
    git("init", "-q", project)
    put(project, ".gitignore", "var/\n")
    for name in FAMILY:
        put(project, "var/" + name, name)
    git("add", "-f", "var/app.db", cwd=project)
    assert names(Looking(project).look()) >= {"var/" + name for name in FAMILY}


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo, lambda path: os.symlink("app.db", path)])
def test_what_only_has_the_name_of_a_journal_is_none(project, make):
    put(project, ".gitignore", "*-wal\n")
    put(project, "app.db", "x")
    make(project / "app.db-wal")
    scan = Looking(project).look()
    assert names(scan) == {".gitignore", "app.db"}
    assert reasons(scan) == {"app.db-wal": "ignored"}
