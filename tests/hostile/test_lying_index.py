"""A git index that lies about files, planted by somebody who may write in the workspace: a checkpoint holds the files' bytes all the same."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

import pytest

import mulligan


def git(at: Path, *arguments: str) -> str:
    """Runs git with an identity and returns what it prints."""
    command = ["git", "-C", str(at), "-c", "user.name=t", "-c", "user.email=t@localhost", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def lie(repo: Path, path: str, blob: bytes) -> None:
    """Gives an entry of the index another hash and leaves its stat fields as they are; the checksum is right again."""
    data = bytearray((repo / ".git/index").read_bytes())
    at = data.index(path.encode() + b"\0") - 62
    data[at + 40 : at + 60] = blob
    data[-20:] = hashlib.sha1(data[:-20], usedforsecurity=False).digest()
    (repo / ".git/index").write_bytes(data)


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A clean repository with two files of one size."""
    at = tmp_path / "project"
    at.mkdir()
    (at / "honest.txt").write_bytes(b"what the file holds\n")
    (at / "other.txt").write_bytes(b"what the index says\n")
    git(at, "init", "-q")
    git(at, "add", "-A")
    git(at, "commit", "-qm", "one")
    return at


def test_first_checkpoint_holds_the_file_and_not_what_the_index_claims(repo: Path, tmp_path: Path) -> None:
    claimed = bytes.fromhex(git(repo, "rev-parse", ":other.txt").strip())
    lie(repo, "honest.txt", claimed)
    assert git(repo, "ls-files", "-s", "honest.txt").split()[1] == claimed.hex()
    with mulligan.open(str(repo), store=str(tmp_path / "store")) as ws:
        saved = ws.save("first")
        (repo / "honest.txt").unlink()
        ws.restore(saved.id)
    assert (repo / "honest.txt").read_bytes() == b"what the file holds\n"


def test_damaged_objects_of_the_users_repository_do_not_matter(repo: Path, tmp_path: Path) -> None:
    for loose in (repo / ".git/objects").glob("??/*"):
        loose.chmod(0o644)
        loose.write_bytes(b"no object at all")
    with mulligan.open(str(repo), store=str(tmp_path / "store")) as ws:
        saved = ws.save("first")
        assert saved.complete
        assert not ws.check().problems
        (repo / "honest.txt").write_bytes(b"")
        ws.restore(saved.id)
    assert (repo / "honest.txt").read_bytes() == b"what the file holds\n"


def test_bytes_come_from_files_where_a_filter_stands_between_them_and_git(repo: Path, tmp_path: Path) -> None:
    (repo / ".gitattributes").write_text("*.crlf text eol=crlf\n*.upper filter=upper\n")
    git(repo, "config", "filter.upper.clean", "tr a-z A-Z")
    (repo / "lines.crlf").write_bytes(b"one\r\ntwo\r\n")
    (repo / "same-size.upper").write_bytes(b"as long as its blob\n")
    git(repo, "add", "-A")
    git(repo, "commit", "-qm", "two")
    assert not git(repo, "status", "--porcelain")
    with mulligan.open(str(repo), store=str(tmp_path / "store")) as ws:
        saved = ws.save("first")
        for name in ("lines.crlf", "same-size.upper"):
            (repo / name).unlink()
        ws.restore(saved.id)
    assert (repo / "lines.crlf").read_bytes() == b"one\r\ntwo\r\n"
    assert (repo / "same-size.upper").read_bytes() == b"as long as its blob\n"
