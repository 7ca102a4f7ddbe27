"""The bytes of an index: taken apart, made harmless, put together, in every version git writes."""

from __future__ import annotations

import hashlib
import os
import random
from pathlib import Path

import pytest

from mulligan.usergit import index, next_index
from tools import git
from tree import put
from users_repository import make_dirty, new_repository

LATER = ((1 << 32) - 1) * 1_000_000_000


def index_of(repo: Path) -> bytes:
    return (repo / ".git/index").read_bytes()


def shared(repo: Path) -> index.Shared:
    return lambda name: (repo / ".git" / os.fsdecode(name)).read_bytes()


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    made = new_repository(tmp_path / "repo")
    make_dirty(made)
    return made


def staged(repo: Path) -> bytes:
    return git("ls-files", "--stage", "-v", "-t", cwd=repo)


def rewrite(repo: Path, mtime_ns: int = LATER) -> None:
    """Puts the index through our hands."""
    parsed = next_index.parse(index_of(repo), shared(repo))
    assert parsed is not None
    (repo / ".git/index").write_bytes(
        next_index.encode(list(next_index.settled(parsed.rows, mtime_ns)), parsed.extensions)
    )


@pytest.mark.parametrize("mtime_ns", [0, LATER], ids=["nothing remembered", "everything remembered"])
@pytest.mark.parametrize("version", ["2", "3", "4", "split", "sparse"])
def test_git_reads_what_we_write(repo: Path, version: str, mtime_ns: int) -> None:
    if version == "split":
        git("update-index", "--split-index", cwd=repo)
        put(repo, "more", "m\n")
        git("add", "more", cwd=repo)
    elif version == "sparse":
        git("reset", "-q", "--hard", cwd=repo)
        git("sparse-checkout", "set", "--cone", "--sparse-index", "nothing", cwd=repo)
    else:
        git("update-index", "--index-version", version, cwd=repo)
    before, status = staged(repo), git("status", "--porcelain=v2", cwd=repo)
    rewrite(repo, mtime_ns)
    assert staged(repo) == before and git("status", "--porcelain=v2", cwd=repo) == status
    assert git("fsck", "--strict", "--no-dangling", cwd=repo) == b""


def test_conflicts_and_how_they_were_resolved_stay(repo: Path) -> None:
    git("reset", "-q", "--hard", cwd=repo)
    git("checkout", "-q", "side", cwd=repo)
    put(repo, "file", "side\n")
    git("commit", "-q", "-a", "-m", "side", cwd=repo)
    git("merge", "main", cwd=repo, check=False)
    before = staged(repo)
    assert b" 2\tfile" in before
    rewrite(repo)
    assert staged(repo) == before
    put(repo, "file", "resolved\n")
    git("add", "file", cwd=repo)
    rewrite(repo)
    git("checkout", "-q", "-m", "--", "file", cwd=repo)
    assert b"<<<<<<<" in (repo / "file").read_bytes()


def test_a_fingerprint_is_about_content_and_not_about_times(repo: Path) -> None:
    before = next_index.fingerprint(index_of(repo))
    raw = index_of(repo)
    os.utime(repo / "only3", (1_000_000_000, 1_000_000_000))
    git("add", "only3", cwd=repo)
    assert index_of(repo) != raw and next_index.fingerprint(index_of(repo)) == before
    rewrite(repo, 0)
    assert next_index.fingerprint(index_of(repo)) == before
    git("update-index", "--chmod=+x", "only3", cwd=repo)
    changed = next_index.fingerprint(index_of(repo))
    assert changed != before
    git("update-index", "--assume-unchanged", "only3", cwd=repo)
    assert next_index.fingerprint(index_of(repo)) != changed


def test_an_empty_index_and_none_are_the_same(tmp_path: Path) -> None:
    repo = new_repository(tmp_path / "repo")
    git("rm", "-r", "-q", "--cached", ".", cwd=repo)
    assert next_index.fingerprint(index_of(repo)) == next_index.fingerprint(b"") == ""
    (repo / ".git/index").write_bytes(next_index.encode([], {}))
    assert git("ls-files", cwd=repo) == b""


def test_only_what_is_older_than_the_index_is_remembered(repo: Path) -> None:
    parsed = next_index.parse(index_of(repo))
    assert parsed is not None
    row = next(row for row in parsed.rows if row.name == b"only3")
    seconds, rest = (int.from_bytes(row.head[at : at + 4], "big") for at in (8, 12))
    written = seconds * 1_000_000_000 + rest
    kept = {mtime: next(next_index.settled([row], mtime)) == row for mtime in (written - 1, written, written + 1)}
    assert kept == {written - 1: False, written: False, written + 1: True}
    assert not any(next(next_index.settled([row], odd)) == row for odd in (-1, 0, 1 << 62))


def test_whole_joins_a_split_index_and_leaves_others_alone(repo: Path) -> None:
    data = index_of(repo)
    assert next_index.whole(data, shared(repo)) == data
    assert next_index.whole(b"junk", shared(repo)) == b"junk"
    git("update-index", "--split-index", cwd=repo)
    joined = next_index.whole(index_of(repo), shared(repo))
    assert joined is not None and next_index.fingerprint(joined) == next_index.fingerprint(data)
    assert next_index.whole(index_of(repo), lambda _: None) is None


def test_damaged_bytes_are_none_and_never_an_error(repo: Path) -> None:
    rng, data = random.Random(7), index_of(repo)
    for _ in range(300):
        broken = bytearray(data[: rng.randrange(len(data))] if rng.random() < 0.3 else data)
        for _ in range(rng.randrange(1, 8)):
            if broken:
                broken[rng.randrange(len(broken))] = rng.randrange(256)
        parsed = next_index.parse(bytes(broken))
        assert next_index.fingerprint(bytes(broken)) is not None
        if parsed is not None:
            again = next_index.parse(next_index.encode(parsed.rows, parsed.extensions))
            assert again is not None and len(again.rows) == len(parsed.rows)


def test_an_index_ends_in_its_checksum(repo: Path) -> None:
    rewrite(repo)
    data = index_of(repo)
    assert hashlib.sha1(data[:-20], usedforsecurity=False).digest() == data[-20:]
