"""`mulligan fork`, `forks` and `keep`, as a person types them."""

from __future__ import annotations

import os
import shutil

import pytest

import mulligan
from mulligan.forks.verbs import holds_bytes
from tools import at_a_terminal, cli, cli_json, git
from tree import put


@pytest.fixture
def saved(project):
    """A project with a checkpoint named `start`, and an edit after it."""
    put(project, "a.py", "one\n")
    put(project, "keys/token.txt", "hush\n")
    mulligan.open(project).save("start")
    put(project, "a.py", "two\n")
    return project


def test_fork_says_where_it_is_and_how_it_was_copied(saved, tmp_path):
    done = cli("fork", "start", "../try", cwd=saved)
    assert done.returncode == 0, done.stderr
    assert 'Forked "start"' in done.stdout and "into ../try: 2 files, by " in done.stdout
    assert (tmp_path / "try" / "a.py").read_text() == "one\n"
    fork = cli_json("fork", "start", "../other", cwd=saved)["fork"]
    assert fork["directory"] == str(tmp_path / "other") and fork["backend"] in {"reflink", "copy"}


def test_fork_names_what_it_could_not_copy(saved, tmp_path):
    put(saved, ".gitignore", "run/\n")
    put(saved, "run/data", "kept\n")
    os.mkfifo(saved / "run" / "pipe")
    done = cli("fork", "start", "../try", "--with-ignored", cwd=saved)
    assert done.returncode == 3 and "Not copied: run/pipe (not a file)." in done.stderr
    assert (tmp_path / "try" / "run" / "data").read_text() == "kept\n"
    fork = cli_json("fork", "start", "../other", "--with-ignored", cwd=saved, expect=3)["fork"]
    assert fork["left_out"] == [{"path": "run/pipe", "reason": "not a file"}]


def test_fork_runs_a_command_in_it_and_exits_with_its_code(saved, tmp_path):
    done = cli("fork", "@", "../try", "--run", "cat a.py; exit 7", cwd=saved)
    assert done.returncode == 7 and done.stdout.endswith("one\n")
    document = cli_json("fork", "@", "../more", "--run", "echo noise; exit 3", cwd=saved, expect=3)
    assert document["fork"]["exit_code"] == 3


def test_fork_without_a_checkpoint_says_so(project):
    done = cli("fork", "@", "../try", cwd=project)
    assert done.returncode == 10 and not (project.parent / "try").exists()


def test_fork_as_a_worktree_needs_a_repository(saved, tmp_path):
    done = cli("fork", "@", "../try", "--git", cwd=saved)
    assert done.returncode == 1 and "is not the top of a git repository" in done.stderr
    assert not (tmp_path / "try").exists()


def test_forks_lists_work_and_what_is_gone(saved, tmp_path):
    assert "No forks." in cli("forks", cwd=saved).stdout
    for name in ("idle", "busy", "lost"):
        cli("fork", "start", f"../{name}", cwd=saved)
    put(tmp_path, "busy/a.py", "three\n")
    shutil.rmtree(tmp_path / "lost")
    rows = {row["name"]: row for row in cli_json("forks", cwd=saved)["forks"]}
    assert [rows[name]["unsaved"] for name in ("idle", "busy")] == [0, 1]
    assert [rows[name]["gone"] for name in ("idle", "busy", "lost")] == [False, False, True]
    shown = cli("forks", cwd=saved).stdout
    assert "../busy" in shown and "1 unsaved file" in shown and "gone" in shown
    assert "This is a fork of" in cli("forks", cwd=tmp_path / "idle").stdout


def test_a_fork_with_work_is_removed_only_on_a_yes(saved, tmp_path):
    cli("fork", "start", "../try", cwd=saved)
    put(tmp_path, "try/a.py", "three\n")
    refused = cli("forks", "rm", "../try", cwd=saved)
    assert refused.returncode == 1 and "mulligan keep ../try" in refused.stderr and (tmp_path / "try").exists()
    code, shown = at_a_terminal("forks", "rm", "../try", cwd=saved, typed="n\n")
    assert code == 1 and "1 unsaved file" in shown
    assert cli("forks", "rm", "../try", "-y", cwd=saved).returncode == 0
    assert not (tmp_path / "try").exists()
    cli("fork", "start", "../try", cwd=saved)
    assert cli("forks", "rm", "try", cwd=saved).returncode == 0


def test_removing_a_worktree_tells_git(tmp_path, project):
    git("init", "-q", cwd=project)
    put(project, "a", "1\n")
    git("add", "-A", cwd=project)
    git("commit", "-qm", "one", cwd=project)
    cli("save", "start", cwd=project)
    assert "git worktree on branch try" in cli("fork", "@", "../try", "--git", cwd=project).stdout
    assert git("worktree", "list", cwd=project).count(b"\n") == 2
    assert cli("forks", "rm", "../try", cwd=project).returncode == 0
    assert git("worktree", "list", cwd=project).count(b"\n") == 1


def test_keep_shows_a_plan_and_is_undone_by_one_command(saved, tmp_path):
    cli("fork", "start", "../try", cwd=saved)
    put(tmp_path, "try/a.py", "winner\n")
    put(tmp_path, "try/new.py", "new\n")
    plan = cli_json("keep", "../try", "--dry-run", cwd=saved)["plan"]
    assert (plan["creates"], plan["modifies"]) == (["new.py"], ["a.py"])
    assert (saved / "a.py").read_text() == "two\n"
    code, shown = at_a_terminal("keep", "../try", cwd=saved, typed="y\n")
    assert code == 0 and "Keep the fork try?" in shown
    assert (saved / "a.py").read_text() == "winner\n" and (saved / "new.py").exists()
    cli("undo", cwd=saved)
    assert (saved / "a.py").read_text() == "two\n" and not (saved / "new.py").exists()
    assert cli_json("keep", "try", "-y", cwd=saved)["report"]["created"] == ["new.py"]


def test_keep_of_no_fork_changes_nothing(saved, tmp_path):
    done = cli("keep", "../nowhere", cwd=saved)
    assert done.returncode == 1 and "is no fork of this workspace" in done.stderr


def test_forget_names_the_forks_that_hold_the_path_and_takes_it_from_them(saved, tmp_path):
    cli("fork", "start", "../try", cwd=saved)
    refused = cli("forget", "keys/token.txt", cwd=saved)
    assert refused.returncode == 1 and str(tmp_path / "try") in refused.stderr
    done = cli_json("forget", "keys/token.txt", "-y", cwd=saved)
    assert done["forks"] == [str(tmp_path / "try")]
    assert cli("cat", "start:keys/token.txt", cwd=tmp_path / "try").returncode == 1
    assert (tmp_path / "try" / "keys" / "token.txt").exists()


def test_forget_takes_bytes_from_a_fork_that_only_shares_a_pack(saved, tmp_path):
    with mulligan.open(saved) as ws:
        put(saved, "secret.txt", "do not keep\n")
        ws.save("with a secret")
        (saved / "secret.txt").unlink()
        ws.save("without")
        ws.prune()  # one pack now holds all of it
        fork = ws.fork("without", tmp_path / "try")
        assert holds_bytes(fork, "secret.txt", like=ws)
    assert cli_json("forget", "secret.txt", "-y", cwd=saved)["forks"] == [str(tmp_path / "try")]
    with mulligan.open(saved) as ws, mulligan.open(tmp_path / "try") as fork:
        assert not holds_bytes(fork, "secret.txt", like=ws) and fork.check().ok
