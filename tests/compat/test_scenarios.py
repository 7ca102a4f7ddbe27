"""
What users of checkpoint tools ran into, one short story each; the number in a docstring is the scenario's.

The stories that concern the user's own repository stand in `test_user_git.py`, undo and redo in `test_undo.py`.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import mulligan
from checker import judge
from tools import cli, cli_json, git, plain_environment
from tree import contents, put, snapshot


def reasons(cp) -> dict[str, str]:
    """What a checkpoint says it did not capture."""
    return {entry.path.rstrip("/"): entry.reason for entry in cp.not_captured}


# A. Basic capture and restore


def test_a_deleted_file_is_in_the_list_of_changes(ws, project):
    """1."""
    put(project, "a.txt", "1")
    put(project, "b.txt", "1")
    ws.save("one")
    (project / "a.txt").unlink()
    assert ws.diff().deleted == ["a.txt"]
    assert ws.save("two").files_changed == ("a.txt",)


def test_a_file_made_since_is_gone_after_restore(ws, project):
    """2."""
    put(project, "a", "1")
    ws.save("one")
    put(project, "new.txt", "n")
    ws.restore("one")
    assert list(contents(project)) == ["a"]


def test_deletes_creates_and_edits_together_are_taken_back(ws, project):
    """4, 9."""
    put(project, "a", "1")
    put(project, "b", "1")
    ws.save("one")
    before = contents(project)
    (project / "a").unlink()
    put(project, "c", "1")
    put(project, "dir/d", "1")
    put(project, "b", "2")
    ws.restore("one")
    assert contents(project) == before
    (project / "a").unlink()
    put(project, "a", "other")
    put(project, "new", "n")
    ws.restore("one")
    assert contents(project) == before


def test_restores_go_both_directions_exactly(ws, project):
    """6, 7."""
    states = {}
    for name in ("base", "v1", "v2"):
        put(project, "a", name)
        put(project, f"only-{name}", name)
        states[name] = (ws.save(name), contents(project))[1]
    for name in ("v1", "v2", "base", "v2", "v1", "base"):
        ws.restore(name)
        assert contents(project) == states[name]


def test_a_moved_and_edited_file_is_back_at_its_source(ws, project):
    """11."""
    put(project, "src/a", "line\n" * 20)
    ws.save("one")
    before = contents(project)
    (project / "dst").mkdir()
    (project / "src/a").rename(project / "dst/a")
    put(project, "dst/a", "line\n" * 20 + "edit\n")
    ws.restore("one")
    assert contents(project) == before


@pytest.mark.parametrize(
    "kinds", [("file", "dir"), ("dir", "file"), ("file", "link"), ("link", "dir"), ("dir", "link")]
)
def test_a_path_that_changed_its_kind_changes_back(ws, project, kinds):
    """12."""

    def make(kind: str) -> None:
        if kind == "file":
            put(project, "x", "file")
        elif kind == "dir":
            put(project, "x/inner/deep", "in a directory")
        else:
            (project / "x").symlink_to("somewhere")

    make(kinds[0])
    ws.save("one")
    before = contents(project)
    (project / "x").rename(project.parent / "aside")
    make(kinds[1])
    after = contents(project)
    ws.restore("one")
    assert contents(project) == before
    ws.undo()
    assert contents(project) == after


def test_hundreds_of_files_are_taken_back_past_any_batch(ws, project):
    """14."""
    for number in range(301):
        put(project, f"f{number}", str(number))
    ws.save("one")
    before = contents(project)
    for number in range(301):
        put(project, f"f{number}", "changed")
    put(project, "created", "c")
    report = ws.restore("one")
    assert len(report.modified) == 301
    assert contents(project) == before


def test_a_restore_of_garbage_changes_nothing_and_exits_1(project, store):
    """22, 137."""
    put(project, "a", "1")
    cli_json("--store", store, "save", "one", cwd=project)
    put(project, "untracked", "u")
    before = snapshot(project)
    for ref in ("nope", "deadbeef" * 5, "-", "one;rm", "refs/heads/x"):
        assert cli("--store", store, "restore", "-y", "--", ref, cwd=project).returncode in {1, 2}
        assert cli("--store", store, "restore", ref, "-y", cwd=project).returncode in {1, 2}
    assert snapshot(project) == before


def test_a_restore_of_what_is_there_touches_nothing(ws, project):
    """24."""
    put(project, "a", "1")
    put(project, "d/b", "1")
    (project / "link").symlink_to("a")
    ws.save("one")
    put(project, "changed", "c")
    before = snapshot(project)
    ws.restore("one")
    after = snapshot(project)
    assert {path: after[path] for path in ("a", "d/b", "link")} == {path: before[path] for path in ("a", "d/b", "link")}
    assert after["d"] == before["d"]
    assert ws.plan("one").is_noop


def test_a_workspace_that_is_a_subdirectory_stays_in_it(project, store):
    """26, 27."""
    git("init", "-q", cwd=project)
    put(project, "root.txt", "1")
    put(project, ".vscode/settings.json", "1")
    put(project, ".gitignore", ".vscode\n")
    put(project, "sub/a", "1")
    ws = mulligan.open(project / "sub", store=store)
    assert ws.save("one").files_changed == ("a",)
    for path in ("root.txt", ".vscode/settings.json", "sub/a", "sibling/x"):
        put(project, path, "2")
    ws.restore("one")
    assert (project / "sub/a").read_text() == "1"
    for path in ("root.txt", ".vscode/settings.json", "sibling/x"):
        assert (project / path).read_text() == "2"


def test_a_parents_ignore_rules_reach_into_a_subdirectory_workspace(project, store):
    """27."""
    git("init", "-q", cwd=project)
    put(project, ".gitignore", "*.skip\n")
    put(project, "sub/a", "1")
    put(project, "sub/b.skip", "1")
    ws = mulligan.open(project / "sub", store=store)
    assert ws.save("one").files_changed == ("a",)
    put(project, "sub/b.skip", "2")
    ws.restore("one")
    assert (project / "sub/b.skip").read_text() == "2"


def test_a_large_file_goes_round_in_bounded_memory(project, store):
    """29."""
    script = """
import os, resource, sys, mulligan
project, store = sys.argv[1:]
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
path = os.path.join(project, "big")
block = os.urandom(1 << 20)
with open(path, "wb") as file:
    for number in range(120):
        file.write(number.to_bytes(4, "big") + block)
ws = mulligan.open(project, store=store)
cp = ws.save("one")
if any(entry.path == "big" for entry in cp.not_captured):
    print("too large")
    sys.exit()
os.unlink(path)
ws.restore("one")
with open(path, "rb") as file:
    for number in range(120):
        assert file.read(4) == number.to_bytes(4, "big") and file.read(1 << 20) == block
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""
    put(project.parent, "home-config/mulligan/config.toml", '[capture]\nmax_file_size = "500 MiB"\n')
    env = plain_environment(XDG_CONFIG_HOME=str(project.parent / "home-config"))
    done = subprocess.run(
        [sys.executable, "-c", script, project, store], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 100, f"{done.stdout} MiB for a file of 120"


# D to G. Diff, metadata, life


def test_binary_changes_are_named_without_a_text_hunk(ws, project):
    """97."""
    put(project, "bin", b"\0\1\2")
    ws.save("one")
    put(project, "bin", b"\0\1\3")
    diff = ws.diff()
    assert diff.modified == ["bin"]
    assert "@@" not in diff.patch


def test_whitespace_only_changes_count(ws, project):
    """97."""
    put(project, "a", "x\n")
    ws.save("one")
    put(project, "a", "x \n")
    assert "-x\n+x \n" in ws.diff().patch


def test_a_file_unchanged_since_the_previous_checkpoint_survives_the_restore_of_the_next(ws, project):
    """144."""
    put(project, "constant", "c")
    put(project, "a", "1")
    ws.save("one")
    put(project, "a", "2")
    ws.save("two")
    put(project, "a", "3")
    ws.save("three")
    ws.restore("two")
    assert (project / "constant").read_text() == "c"
    assert (project / "a").read_text() == "2"


def test_nothing_is_left_in_the_workspace(ws, project, store):
    """141."""
    put(project, "a", "1")
    ws.save("one")
    put(project, "a", "2")
    ws.restore("one")
    ws.undo()
    ws.prune()
    assert list(snapshot(project)) == ["a"]
    assert judge(store, project) == []


def test_a_stale_file_from_a_killed_process_never_blocks(ws, project, store):
    """122."""
    put(project, "a", "1")
    ws.save("one")
    for name in (
        "index.lock",
        "HEAD.lock",
        "config.lock",
        "packed-refs.lock",
        "tmp/leftover",
        "objects/pack/tmp_pack_x",
    ):
        put(store, name, "", perm=0o600)
        (store / name).parent.chmod(0o700)
    put(project, "a", "2")
    assert ws.save("two") is not None
    ws.restore("one")
    ws.prune()
    assert (project / "a").read_text() == "1"


def test_a_lost_scan_cache_costs_time_only(ws, project, store):
    """134."""
    put(project, "a", "1")
    ws.save("one")
    for path in store.rglob("*cache*"):
        if path.is_file():
            path.write_bytes(b"garbage")
    put(project, "a", "2")
    again = mulligan.open(project, store=store)
    again.save("two")
    assert again.cat("two", "a") == b"2"
    assert again.save(if_changed=True) is None


def test_the_list_works_and_names_the_damage_when_an_object_is_missing(ws, project, store):
    """134; reliability 25."""
    put(project, "a", os.urandom(5000))
    ws.save("one")
    put(project, "a", "2")
    packs = set((store / "objects/pack").glob("*.pack"))
    two = ws.save("two")
    assert ws.check().ok
    for pack in packs:
        pack.write_bytes(pack.read_bytes()[:40])
    fresh = mulligan.open(project, store=store)
    assert [cp.name for cp in fresh.log()] == ["two", "one"]
    report = fresh.check()
    assert not report.ok
    assert any("one" in str(problem) or "pack" in str(problem) for problem in report.problems)
    before = snapshot(project)
    with pytest.raises(mulligan.StoreDamaged):
        fresh.restore("one")
    assert snapshot(project) == before
    assert cli("--store", store, "check", cwd=project).returncode == 90
    assert two.id in {cp.id for cp in fresh.log()}


def test_a_lost_database_is_rebuilt_by_doctor(project, store):
    """134; architecture 2."""
    put(project, "a", "1")
    one = cli_json("--store", store, "save", "one", "-m", "why", "--context", "k=v", cwd=project)["checkpoint"]
    put(project, "a", "2")
    two = cli_json("--store", store, "save", "two", cwd=project)["checkpoint"]
    for path in store.glob("timeline.db*"):
        path.unlink()
    cli("--store", store, "doctor", cwd=project)
    found = cli_json("--store", store, "log", cwd=project)["checkpoints"]
    assert {cp["id"]: cp for cp in found} == {one["id"]: one, two["id"]: two}
    assert judge(store, project) == []


def test_nothing_saved_yet_is_exit_10(project, store):
    put(project, "a", "1")
    for command in (["restore", "latest", "-y"], ["undo"], ["show", "@"], ["cat", "@:a"]):
        assert cli("--store", store, *command, cwd=project).returncode == 10, command
    assert cli_json("--store", store, "log", cwd=project)["checkpoints"] == []
    assert cli_json("--store", store, "save", "--if-changed", cwd=project)["checkpoint"] is not None
    assert cli_json("--store", store, "save", "--if-changed", cwd=project)["checkpoint"] is None
    assert cli("--store", store, "undo", cwd=project).returncode == 1
    assert cli("--store", store, "redo", cwd=project).returncode == 1
