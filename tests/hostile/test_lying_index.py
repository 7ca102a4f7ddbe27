"""
A git directory that lies about files, planted by somebody who may write in the workspace.

Where nothing can be taken over, a checkpoint holds the files' bytes whatever git says. Where it can, lies that are many are found
out; one lie among many files, well made, is believed once (docs/explanation/limits.md says so), and no more is lost by it than that.
"""

from __future__ import annotations

import hashlib
import random
import subprocess
from pathlib import Path

import pytest

import mulligan
from adopted import settle
from mulligan.errors import StoreDamaged
from mulligan.scan import from_git


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


# -- where much can be taken over ------------------------------------------------------------------


@pytest.fixture
def packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A clean repository of files of one size that git could be believed in."""
    monkeypatch.setattr(from_git, "LEAST", 1)
    at = tmp_path / "packed"
    at.mkdir()
    for number in range(40):
        (at / f"file{number:02}.py").write_bytes(random.Random(number).randbytes(200).hex().encode())
    git(at, "init", "-q")
    settle(tmp_path)
    git(at, "add", "-A")
    git(at, "commit", "-qm", "one")
    git(at, "repack", "-qadf")
    settle(tmp_path)
    return at


def blob(data: bytes) -> bytes:
    """The id of some bytes."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).digest()


def test_an_index_that_lies_about_much_is_found_out(packed: Path, tmp_path: Path) -> None:
    """Some files are read to see whether it is right, and nobody knows which."""
    before = {path.name: path.read_bytes() for path in packed.glob("*.py")}
    for number in range(0, 40, 2):
        lie(packed, f"file{number:02}.py", blob(before[f"file{number + 1:02}.py"]))
    settle(tmp_path)
    with mulligan.open(str(packed), store=str(tmp_path / "store")) as ws:
        saved = ws.save("first")
        for name in before:
            (packed / name).unlink()
        ws.restore(saved.id)
    assert {path.name: path.read_bytes() for path in packed.glob("*.py")} == before


def test_an_object_under_a_false_name_is_never_restored(packed: Path, tmp_path: Path) -> None:
    """`check` finds it, and a restore refuses, by the hash; every other file comes back."""
    first, second = (blob((packed / name).read_bytes()) for name in ("file00.py", "file01.py"))
    index = next((packed / ".git/objects/pack").glob("*.idx"))
    data, count = bytearray(index.read_bytes()), 0
    count = int.from_bytes(data[1028:1032], "big")
    places = [(data.index(oid, 1032) - 1032) // 20 for oid in (first, second)]
    for table in (1032 + 20 * count, 1032 + 24 * count):
        here, there = (slice(table + 4 * place, table + 4 * place + 4) for place in places)
        data[here], data[there] = data[there], data[here]
    data[-20:] = hashlib.sha1(data[:-20], usedforsecurity=False).digest()
    index.chmod(0o644)
    index.write_bytes(data)
    with mulligan.open(str(packed), store=str(tmp_path / "store")) as ws:
        saved = ws.save("first")
        assert ws.check().problems
        (packed / "file00.py").write_bytes(b"changed")
        with pytest.raises(StoreDamaged):
            ws.restore(saved.id)
        assert (packed / "file00.py").read_bytes() == b"changed"
        (packed / "file02.py").unlink()
        ws.restore(saved.id, paths=["file02.py"])
    assert (packed / "file02.py").exists()
