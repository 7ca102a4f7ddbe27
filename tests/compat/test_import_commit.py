"""Checkpoints made from commits of the user's repository, against what plain git says of those commits."""

from __future__ import annotations

import asyncio
import hashlib
import os
import subprocess
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import mulligan
import mulligan.aio
from checker import judge
from tools import git, git_environment
from tree import contents, put, snapshot
from users_repository import expect_whole, new_repository, seen


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    made = new_repository(tmp_path / "project")
    put(made, "run.sh", "#!/bin/sh\n", perm=0o755)
    (made / "link").symlink_to("file")
    put(made, "empty", "")
    put(made, "big", bytes(range(256)) * 4000)
    with open(os.fsencode(made) + b"/n\xff", "wb") as file:
        file.write(b"not text\r\n")
    git("add", "-A", cwd=made)
    git("commit", "-q", "-m", "every kind", cwd=made)
    return made


@pytest.fixture
def ws(repo: Path, store: Path) -> Any:
    return mulligan.open(repo, store=store)


def head(repo: Path, name: str = "HEAD") -> str:
    return git("rev-parse", name, cwd=repo).decode().strip()


def archived(repo: Path, commit: str, into: Path, prefix: str = "") -> dict[str, Any]:
    """The files of a commit, written by git itself."""
    into.mkdir()
    tar = git("-c", "tar.umask=0022", "archive", "--format=tar", f"{commit}:{prefix}" if prefix else commit, cwd=repo)
    subprocess.run(["tar", "-x", "-C", into], input=tar, check=True, env=git_environment())
    return contents(into)


@pytest.mark.parametrize("pack", [False, True], ids=["loose", "packed"])
def test_restored_it_is_what_git_would_check_out(repo: Path, ws: Any, store: Path, tmp_path: Path, pack: bool) -> None:
    if pack:
        git("gc", "-q", cwd=repo)
    for number, name in enumerate(("HEAD", "HEAD~1", "HEAD~3")):
        before = snapshot(repo)
        made = ws.import_commit(head(repo, name), name=f"commit {number}", metadata={"n": number})
        assert (made.kind, made.metadata, made.complete, made.not_captured) == ("automatic", {"n": number}, True, ())
        assert made.git.commit_hash == head(repo, name) and made.git.branch == "main"
        assert snapshot(repo) == before, "nothing is touched"
        ws.restore(made)
        assert contents(repo) == archived(repo, name, tmp_path / f"archive{number}")
    assert judge(store, repo) == [] and ws.check().ok


def test_files_and_git_together_are_a_reset_that_can_be_taken_back(repo: Path, ws: Any) -> None:
    put(repo, "file", "not committed\n")
    put(repo, "untracked", "u\n")
    before, wanted = seen(repo), head(repo, "HEAD~2")
    made = ws.import_commit(wanted)
    ws.restore(made, git=True)
    assert head(repo) == wanted == head(repo, "main")
    assert git("status", "--porcelain", cwd=repo) == b""
    expect_whole(repo)
    ws.undo()
    assert seen(repo) == before


def test_the_position_stays(repo: Path, ws: Any) -> None:
    saved = ws.save("here")
    made = ws.import_commit(head(repo, "HEAD~1"))
    assert ws.position() == saved.id and made.parent == saved.id
    assert ws.log()[0].id == made.id


def test_permission_bits_that_a_commit_cannot_say_stay(repo: Path, ws: Any) -> None:
    (repo / "file").chmod(0o600)
    (repo / "run.sh").chmod(0o700)
    ws.save("here")
    made = ws.import_commit(head(repo))
    put(repo, "file", "changed\n")
    ws.restore(made)
    assert (repo / "file").stat().st_mode & 0o777 == 0o600 and (repo / "run.sh").stat().st_mode & 0o777 == 0o700


def test_what_is_out_of_scope_is_left_out_and_listed(repo: Path, ws: Any, tmp_path: Path) -> None:
    put(repo, ".env", "TOKEN=1\n")
    put(repo, "key", "-----BEGIN OPENSSH PRIVATE KEY-----\nx\n")
    put(repo, ".env.example", "TOKEN=\n")
    put(repo, ".gitignore", "build/\n")
    put(repo, "build/kept", "tracked although ignored\n")
    inner = new_repository(tmp_path / "inner")
    git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", inner, "sub", cwd=repo)
    git("add", "-A", "-f", cwd=repo)
    git("commit", "-q", "-m", "secrets", cwd=repo)
    made = ws.import_commit(head(repo))
    listed = {row.path: row.reason for row in made.not_captured}
    assert listed == {"sub": "special"} and made.complete
    assert ws.cat(made, "build/kept") and ws.cat(made, ".env.example")
    put(repo, ".env", "TOKEN=2\n")
    ws.restore(made)
    assert (repo / ".env").read_text() == "TOKEN=1\n" and (repo / "sub/file").exists()


def test_a_workspace_in_a_subdirectory_takes_its_part(repo: Path, store: Path, tmp_path: Path) -> None:
    ws = mulligan.open(repo / "dir", store=store)
    made = ws.import_commit(head(repo, "HEAD~3"))
    ws.restore(made)
    assert contents(repo / "dir") == archived(repo, "HEAD~3", tmp_path / "archive", "dir")
    git("rm", "-r", "-f", "-q", "dir", cwd=repo)
    git("commit", "-q", "-m", "no dir", cwd=repo)
    (repo / "dir").mkdir(exist_ok=True)
    with pytest.raises(mulligan.UserError, match="has no directory 'dir'"):
        mulligan.open(repo / "dir", store=store).import_commit(head(repo))


def test_abbreviations(repo: Path, ws: Any) -> None:
    full = head(repo)
    for text in (full[:7], full.upper(), full[:20]):
        assert ws.import_commit(text).git.commit_hash == full


@pytest.mark.parametrize(
    "text", ["", "main", "HEAD", "abc", "--soft", "0" * 40, "g" * 40, "../../x", "ffff", "1" * 41, "a\n" * 4]
)
def test_what_is_no_commit_is_refused_and_nothing_is_saved(repo: Path, ws: Any, text: str) -> None:
    with pytest.raises(mulligan.UserError, match=r"(?i)nothing was saved"):
        ws.import_commit(text)
    assert ws.log() == []


def test_a_tree_or_a_file_is_no_commit(repo: Path, ws: Any) -> None:
    for name in ("HEAD^{tree}", "HEAD:file"):
        with pytest.raises(mulligan.UserError, match="There is no commit"):
            ws.import_commit(head(repo, name))


def test_an_ambiguous_beginning_names_the_candidates(repo: Path, ws: Any) -> None:
    tree, known, name = head(repo, "HEAD^{tree}"), dict[str, bytes](), ""
    for number in count(1):
        who = f"a <a> {number} +0000"
        data = f"tree {tree}\nauthor {who}\ncommitter {who}\n\nx\n".encode()
        name = hashlib.sha1(b"commit %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
        if name[:4] in known:
            break
        known[name[:4]] = data
    for content in (known[name[:4]], data):
        git("hash-object", "-t", "commit", "-w", "--stdin", cwd=repo, stdin=content)
    with pytest.raises(mulligan.UserError, match="could be"):
        ws.import_commit(name[:4])


def test_bytes_that_cannot_be_read_make_it_partial(repo: Path, ws: Any) -> None:
    """A damaged or missing blob is listed; nothing of the workspace is touched for it."""
    name = head(repo, "HEAD:big")
    blob = repo / ".git/objects" / name[:2] / name[2:]
    blob.chmod(0o644)
    blob.write_bytes(b"junk")
    made = ws.import_commit(head(repo))
    assert [(row.path, row.reason) for row in made.not_captured] == [("big", "unreadable")] and not made.complete
    (repo / "big").write_bytes(b"mine")
    ws.restore(made)
    assert (repo / "big").read_bytes() == b"mine"


def test_no_repository(project: Path, store: Path) -> None:
    ws = mulligan.open(project, store=store)
    with pytest.raises(mulligan.UserError, match="no git repository"):
        ws.import_commit("abcd")
    assert ws.log() == []


async def _import_by_coroutine(repo: Path, store: Path) -> Any:
    async with await mulligan.aio.open(repo, store=store) as ws:
        position = await ws.git_position()
        return position, await ws.import_commit(position.commit)


def test_the_same_as_coroutines(repo: Path, store: Path) -> None:
    position, made = asyncio.run(_import_by_coroutine(repo, store))
    assert position.branch == "main" and made.git.commit_hash == position.commit
