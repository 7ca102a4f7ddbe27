"""Refs: written whole, removed for good, packed without a gap."""

from __future__ import annotations

import pytest

from mulligan.store.gc import pack_refs
from mulligan.store.refs import bad_refs, read_refs, remove_refs, write_ref
from stores import add_commit, opened
from tools import git


def listed(path) -> dict[str, str]:
    lines = git("for-each-ref", "--format=%(refname:lstrip=2) %(objectname)", "refs/checkpoints", cwd=path).decode()
    return dict(line.split() for line in lines.splitlines())


def test_git_and_we_see_the_same_refs_loose_and_packed(tmp_path):
    with opened(tmp_path / "store") as store:
        commits = [add_commit(store, {"a": b"%d" % number}) for number in range(4)]
        names = ["a", "b-1", "c_2", "d.3"]
        for name, commit in zip(names, commits, strict=True):
            write_ref(store.directory, name, commit)
        expected = {name: commit.hex() for name, commit in zip(names, commits, strict=True)}
        assert expected == listed(tmp_path / "store")
        pack_refs(store.directory)
        assert list((tmp_path / "store/refs/checkpoints").iterdir()) == []
        assert expected == listed(tmp_path / "store")
        assert expected == {name: oid.hex() for name, oid in read_refs(store.directory).items()}
        pack_refs(store.directory)
        write_ref(store.directory, "a", commits[3])
        expected["a"] = commits[3].hex()
        assert expected == listed(tmp_path / "store") == {n: o.hex() for n, o in read_refs(store.directory).items()}


def test_a_removed_ref_does_not_come_back(tmp_path):
    """Loose above packed: both go, and others in packed-refs stay, those of other namespaces too."""
    with opened(tmp_path / "store") as store:
        commit = add_commit(store, {"a": b"1"})
        for name in ("a", "b"):
            write_ref(store.directory, name, commit)
        git("pack-refs", "--all", cwd=tmp_path / "store")
        write_ref(store.directory, "a", commit)
        remove_refs(store.directory, ["a", "never-was"])
        remove_refs(store.directory, [])
        assert {"b": commit} == read_refs(store.directory)
        assert list(listed(tmp_path / "store")) == ["b"]
        assert git("rev-parse", "refs/heads/main", cwd=tmp_path / "store")


def test_a_ref_of_zero_bytes_is_left_out_and_named(tmp_path):
    with opened(tmp_path / "store") as store:
        write_ref(store.directory, "good", b"\1" * 20)
        (tmp_path / "store/refs/checkpoints/zero").write_bytes(b"")
        (tmp_path / "store/refs/checkpoints/deep").mkdir()
        assert read_refs(store.directory) == {"good": b"\1" * 20}
        assert bad_refs(store.directory) == ["deep", "zero"]


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/b", "a..b", "a.", ".a", "a.lock", "-a", "a b", "a\n", "ü", "a" * 300]
)
def test_a_name_that_git_or_the_disk_would_misread_is_refused(tmp_path, name):
    with opened(tmp_path / "store") as store, pytest.raises(ValueError):
        write_ref(store.directory, name, bytes(20))


def test_no_refs_at_all_is_no_error(tmp_path):
    with opened(tmp_path / "store") as store:
        assert read_refs(store.directory) == {}
        pack_refs(store.directory)
        (tmp_path / "store/refs/checkpoints").rmdir()
        assert read_refs(store.directory) == {}
        assert not (tmp_path / "store/packed-refs").exists()
