"""Kinds of files, names, modes, ignore rules, limits and secrets: one short story each, by scenario number."""

from __future__ import annotations

import os
import socket
import stat

import pytest

from checker import batch_objects, judge
from tools import cli, cli_json
from tree import contents, put, snapshot


def reasons(cp) -> dict[str, str]:
    """What a checkpoint says it did not capture."""
    return {entry.path.rstrip("/"): entry.reason for entry in cp.not_captured}


# B. File kinds and names


def test_binary_content_comes_back_byte_for_byte(ws, project):
    """31, 144."""
    put(project, "image.png", b"\x89PNG\r\n\x1a\n\0\0" + bytes(range(256)) * 20)
    put(project, "latin", "é\n".encode("latin-1"))
    put(project, "empty", b"")
    ws.save("one")
    before = contents(project)
    put(project, "b", "2")
    ws.save("two")
    for name in ("image.png", "latin", "empty"):
        put(project, name, b"x")
    ws.restore("two")
    assert {path: node for path, node in contents(project).items() if path != "b"} == before


def test_links_of_every_sort_go_round_and_are_never_followed(ws, project, tmp_path):
    """34, 36, 37."""
    put(tmp_path / "outside", "secret", "s")
    targets = ["a", "..", "/etc/passwd", "trailing/", "loop1", "dangling", "../outside", "x" * 200, "new\nline"]
    put(project, "a", "1")
    for number, target in enumerate(targets):
        os.symlink(target, project / f"link{number}")
    os.symlink("loop2", project / "loop1")
    os.symlink("loop1", project / "loop2")
    cp = ws.save("one")
    assert cp.complete
    before = contents(project)
    for path in list(project.iterdir()):
        path.unlink()
    ws.restore("one")
    assert contents(project) == before
    assert list(snapshot(tmp_path / "outside")) == ["secret"]


def test_a_parent_replaced_by_a_link_leads_no_byte_outside(ws, project, tmp_path):
    """39."""
    put(project, "d/x", "1")
    put(project, "d/e/y", "1")
    ws.save("one")
    saved = contents(project)
    outside = tmp_path / "outside"
    put(outside, "x", "theirs")
    put(outside, "e/other", "theirs")
    before = snapshot(outside)
    (project / "d").rename(tmp_path / "aside")
    (project / "d").symlink_to(outside)
    ws.restore("one")
    assert snapshot(outside) == before
    assert contents(project) == saved
    ws.undo()
    assert os.readlink(project / "d") == str(outside)
    assert snapshot(outside) == before


def test_a_hard_link_is_cut_not_written_through(ws, project, tmp_path):
    """Reliability 3.1."""
    put(project, "a", "1")
    ws.save("one")
    put(project, "a", "2")
    os.link(project / "a", tmp_path / "partner")
    ws.restore("one")
    assert (project / "a").read_text() == "1"
    assert (tmp_path / "partner").read_text() == "2"


def test_permission_bits_are_captured_and_restored(ws, project):
    """44."""
    put(project, "script", "#!/bin/sh\n", perm=0o755)
    put(project, "private", "p", perm=0o600)
    put(project, "read only", "r", perm=0o444)
    put(project, "group", "g", perm=0o664)
    ws.save("one")
    before = contents(project)
    for name in ("script", "private", "read only", "group"):
        (project / name).chmod(0o777)
    assert sorted(ws.diff().modified) == ["group", "private", "read only", "script"]
    ws.restore("one")
    assert contents(project) == before
    (project / "script").chmod(0o600)
    (project / "script").chmod(0o755)
    assert ws.save(if_changed=True) is None
    for name in ("script", "private", "read only", "group"):
        (project / name).unlink()
    ws.restore("one")
    assert contents(project) == before


def test_a_private_directory_comes_back_private(ws, project):
    """44: a directory's permission bits are part of the workspace too."""
    put(project, "private/key", "k")
    (project / "private").chmod(0o700)
    ws.save("one")
    (project / "private/key").unlink()
    (project / "private").rmdir()
    ws.restore("one")
    assert stat.S_IMODE((project / "private").stat().st_mode) == 0o700


NAMES = [
    "中文.txt", "😀", "café", "cafe\u0301", "Привет/мир", "x" * 200, "/".join(["deep"] * 60), "new\nline", "tab\t",
    'quo"te', "apo'strophe", "back\\slash", "-dash", "--help", " lead", "trail ", "trail.", "*", "?[a]", "#hash", "!bang",
    ":colon", "\udcff\udcfe", "con", "NUL", "\x01", "\x7f", "~", "$HOME", "%s", ".hidden", ".config/x", "...", "a:b",
]  # fmt: skip


def test_names_of_every_sort_go_round(ws, project, store):
    """46, 47, 49, 51; reliability 33."""
    for number, name in enumerate(NAMES):
        put(project, name, str(number))
    put(project, ".gitignore", "# nothing\n")
    cp = ws.save("one")
    assert cp.complete
    before = contents(project)
    assert sorted(cp.files_changed) == sorted(path for path, node in before.items() if node.kind == "file")
    for number, name in enumerate(NAMES):
        assert ws.cat("one", name) == str(number).encode()
        put(project, name, "changed")
    ws.restore("one")
    assert contents(project) == before
    for name in NAMES:
        (project / name).unlink()
    ws.restore("one")
    assert contents(project) == before
    assert judge(store, project) == []


def test_a_names_every_door_agrees_on(project, store):
    """49: what JSON says of a strange name leads back to it."""
    put(project, "new\nline \udcff", "1")
    cp = cli_json("--store", store, "save", "one", cwd=project)["checkpoint"]
    assert cp["files_changed"] == ["new\nline \udcff"]
    put(project, "new\nline \udcff", "2")
    cli_json("--store", store, "restore", "one", "-y", "--", "new\nline \udcff", cwd=project)
    assert (project / "new\nline \udcff").read_text() == "1"


def test_empty_directories_are_captured_and_emptied_ones_go(ws, project):
    """52."""
    (project / "empty/inner").mkdir(parents=True)
    put(project, "full/a", "1")
    ws.save("one")
    before = contents(project)
    (project / "empty/inner").rmdir()
    (project / "empty").rmdir()
    put(project, "made/since/b", "1")
    ws.restore("one")
    assert contents(project) == before
    assert not (project / "made").exists()


def test_an_empty_ignored_directory_is_never_pruned(ws, project):
    """52."""
    put(project, ".gitignore", "cache/\n")
    put(project, "a", "1")
    ws.save("one")
    (project / "work/cache").mkdir(parents=True)
    put(project, "work/file", "1")
    ws.restore("one")
    assert (project / "work/cache").is_dir()
    assert not (project / "work/file").exists()


def test_special_files_are_listed_left_alone_and_never_block(ws, project):
    """Reliability 33: a fifo must not hang a save."""
    os.mkfifo(project / "fifo")
    with socket.socket(socket.AF_UNIX) as server:
        here = os.getcwd()
        os.chdir(project)
        try:
            server.bind("socket")
        finally:
            os.chdir(here)
        put(project, "a", "1")
        cp = ws.save("one")
        assert cp.complete
        assert reasons(cp) == {"fifo": "special", "socket": "special"}
        before = snapshot(project)
        put(project, "a", "2")
        ws.restore("one")
        after = snapshot(project)
        assert {path: after[path] for path in ("fifo", "socket")} == {path: before[path] for path in ("fifo", "socket")}


# C. Ignore rules and limits


def test_an_ignore_file_made_together_with_what_it_ignores(ws, project):
    """59."""
    ws.save("zero")
    put(project, ".gitignore", "out/\n")
    put(project, "out/x", "1")
    cp = ws.save("one")
    assert cp.files_changed == (".gitignore",)
    assert reasons(cp) == {"out": "ignored"}
    assert cp.complete


def test_ignored_files_are_neither_captured_nor_deleted_nor_overwritten(ws, project, store):
    """62."""
    put(project, ".gitignore", "*.skip\nbuild/\n/only-here\n!kept.skip\n")
    put(project, "old.skip", "ignored-content-1")
    put(project, "build/old", "ignored-content-1")
    put(project, "kept.skip", "1")
    put(project, "a", "1")
    ws.save("one")
    for path in ("old.skip", "build/old", "build/new", "new.skip", "sub/new.skip", "only-here"):
        put(project, path, "ignored-content-2")
    put(project, "sub/only-here", "captured")
    put(project, "a", "2")
    put(project, "kept.skip", "2")
    before = snapshot(project)
    ws.restore("one")
    after = snapshot(project)
    for path in ("old.skip", "build/old", "build/new", "new.skip", "sub/new.skip", "only-here"):
        assert after[path] == before[path]
    assert not (project / "sub/only-here").exists()
    assert (project / "kept.skip").read_text() == "1"
    assert not any(b"ignored-content" in content for _name, _kind, content in batch_objects(store))


def test_a_restore_that_brings_back_an_older_ignore_file_deletes_nothing_it_uncovers(ws, project):
    """62: the rules of today protect what is here today, whatever the restored rules say."""
    put(project, "a", "1")
    ws.save("no rules")
    put(project, ".gitignore", "data/\n")
    put(project, "data/precious", "p")
    ws.save("rules")
    ws.restore("no rules")
    assert not (project / ".gitignore").exists()
    assert (project / "data/precious").read_text() == "p"
    ws.restore("rules")
    assert (project / "data/precious").read_text() == "p"


def test_a_file_ignored_now_is_not_overwritten_by_an_older_capture_of_it(ws, project):
    """64."""
    put(project, "local.conf", "captured")
    ws.save("one")
    put(project, ".gitignore", "local.conf\n")
    put(project, "local.conf", "mine")
    ws.save("two")
    report = ws.restore("one", paths=["local.conf"])
    kept = {entry.path: entry.reason for entry in report.kept}
    if (project / "local.conf").read_text() != "mine":
        assert ws.cat(report.undo, "local.conf") == b"mine", "overwritten, and no checkpoint holds it"
    else:
        assert "local.conf" in kept


def test_a_nested_ignore_file_in_an_ignored_directory_cannot_unignore(ws, project):
    """66."""
    put(project, ".gitignore", "out/\n")
    put(project, "out/.gitignore", "!*\n")
    put(project, "out/x", "1")
    assert ws.save("one").files_changed == (".gitignore",)


def test_switching_protection_off_by_a_rule_does_not_happen_in_silence(project, store):
    """Architecture 5: `echo '*' > .gitignore` makes the next checkpoint partial, exit 3."""
    put(project, "a", "1")
    cli_json("--store", store, "save", "one", cwd=project)
    put(project, ".gitignore", "*\n")
    put(project, "a", "2")
    done = cli("--store", store, "--json", "save", "two", cwd=project)
    assert done.returncode == 3
    assert "newly ignored" in done.stdout


def test_a_file_over_the_limit_is_listed_and_preserved(ws, project):
    """69."""
    with (project / "huge").open("wb") as file:
        file.truncate(60 << 20)
    put(project, "a", "1")
    cp = ws.save("one")
    assert reasons(cp) == {"huge": "too large"}
    assert cp.complete
    put(project, "new", "n")
    before = snapshot(project)["huge"]
    report = ws.restore("one")
    assert report.deleted == ["new"]
    assert snapshot(project)["huge"] == before


@pytest.mark.parametrize("name", ["node_modules", ".venv", "__pycache__"])
def test_well_known_heaps_are_not_captured_and_not_deleted(ws, project, name):
    """71."""
    put(project, f"{name}/pkg/index", "1")
    put(project, "a", "1")
    cp = ws.save("one")
    assert cp.files_changed == ("a",)
    assert list(reasons(cp)) == [name]
    put(project, f"{name}/pkg/index", "2")
    put(project, f"{name}/more", "2")
    put(project, "temp", "t")
    ws.restore("one")
    assert (project / name / "pkg/index").read_text() == "2"
    assert (project / name / "more").exists()
    assert not (project / "temp").exists()


SECRETS = [".env", ".env.local", "server.pem", "id_rsa", "id_ed25519", ".npmrc", ".netrc", ".aws/credentials"]


def test_secrets_are_sealed_and_come_back(ws, project, store):
    """Reliability 37."""
    for name in SECRETS:
        put(project, name, "hunter2-hunter2", perm=0o600)
    put(project, "a", "1")
    cp = ws.save("one")
    assert cp.files_changed == tuple(sorted(["a", *SECRETS])) and cp.sealed == tuple(sorted(SECRETS))
    assert cp.not_captured == () and cp.complete
    before = contents(project)
    for name in SECRETS[1:]:
        put(project, name, "changed-hunter2")
    (project / SECRETS[0]).unlink()
    put(project, "id_ecdsa", "hunter2-new")
    put(project, "a", "2")
    now = contents(project)
    report = ws.restore("one")
    assert report.complete and contents(project) == before
    ws.undo()
    assert contents(project) == now
    assert not any(b"hunter2" in content for _name, _kind, content in batch_objects(store))
