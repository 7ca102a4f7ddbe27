"""
Plain git reads what the store writes.

Random histories, before and after collections and merges: `git fsck --strict --full` has nothing to say, every object
that `git cat-file` prints hashes to its name, and `git show` prints each file as it was.
"""

from __future__ import annotations

import hashlib
import random
import subprocess

import pytest

from mulligan.model.objects import (
    BLOB,
    COMMIT,
    MODE_EXEC,
    MODE_LINK,
    TREE,
    Commit,
    TreeEntry,
    encode_commit,
    encode_tree,
)
from mulligan.store.gc import collect, merge_small, pack_refs, reachable
from mulligan.store.refs import remove_refs, write_ref
from mulligan.store.verify import verify_packs
from stores import add_commit, edited, opened, pack_files, text
from tools import git, git_environment, sweep


def assert_git_is_silent(path) -> None:
    done = subprocess.run(
        ["git", "fsck", "--strict", "--full", "--no-dangling"],
        cwd=path,
        env=git_environment(),
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def assert_every_object_is_right(path) -> int:
    data, at, count = git("cat-file", "--batch", "--batch-all-objects", cwd=path), 0, 0
    while at < len(data):
        end = data.index(b"\n", at)
        name, kind, size = data[at:end].split()
        content = data[end + 1 : end + 1 + int(size)]
        assert name.decode() == hashlib.sha1(b"%s %s\0" % (kind, size) + content).hexdigest()
        at, count = end + 2 + int(size), count + 1
    return count


class History:
    """A random history, kept beside the store as plain values."""

    def __init__(self, store, path, seed: int) -> None:
        self.store, self.path, self.chance = store, path, random.Random(seed)
        self.files = {f"src/d{n % 3}/f{n}.py": text(self.chance.randrange(3, 60), self.chance) for n in range(12)}
        self.files["empty"] = b""
        self.kept: dict[str, tuple[bytes, dict[str, bytes]]] = {}
        self.chains: dict[str, list[bytes]] = {}

    def step(self, number: int) -> None:
        for name in self.chance.sample(sorted(self.files), 3):
            if self.files[name] and self.chance.random() < 0.8:
                self.files[name] = edited(self.files[name], self.chance)
            else:
                self.files[name] = self.chance.randbytes(self.chance.randrange(2000))
            if self.chance.random() < 0.1:
                self.files[f"new/{number}"] = self.chance.randbytes(30)
        commit = add_commit(self.store, self.files, f"step {number}")
        write_ref(self.store.directory, f"c{number}", commit)
        self.kept[f"c{number}"] = (commit, dict(self.files))
        for name, data in self.files.items():
            oid = hashlib.sha1(b"blob %d\0" % len(data) + data).digest()
            self.chains.setdefault(name, []).append(oid)

    def forget(self, share: float) -> None:
        gone = [name for name in self.kept if self.chance.random() < share]
        remove_refs(self.store.directory, gone)
        for name in gone:
            del self.kept[name]

    def collect(self) -> None:
        live = reachable(self.store, [commit for commit, _ in self.kept.values()])
        collect(self.store, live, chains=self.chains.values())

    def check(self) -> None:
        assert_git_is_silent(self.path)
        assert_every_object_is_right(self.path)
        assert verify_packs(self.store) == []
        git("verify-pack", "-v", *[str(p) for p in pack_files(self.path, ".idx")], cwd=self.path)
        for ref, (_, files) in self.chance.sample(sorted(self.kept.items()), min(3, len(self.kept))):
            for name in self.chance.sample(sorted(files), 3):
                assert files[name] == git("show", f"refs/checkpoints/{ref}:files/{name}", cwd=self.path)


@pytest.mark.parametrize("seed", range(sweep(3)))
def test_git_reads_random_histories_through_collections_and_merges(tmp_path, seed):
    with opened(tmp_path / "store") as store:
        history = History(store, tmp_path / "store", seed)
        for number in range(12):
            history.step(number)
        history.check()
        assert merge_small(store, at_least=5)
        history.check()
        history.forget(0.3)
        history.collect()
        history.check()
        pack_refs(store.directory)
        for number in range(20, 28):
            history.step(number)
        history.forget(0.5)
        history.collect()
        merge_small(store, at_least=2)
        history.check()


def test_git_has_nothing_to_say_about_an_empty_store(tmp_path):
    with opened(tmp_path / "store"):
        pass
    assert_git_is_silent(tmp_path / "store")


def test_a_workspace_may_hold_what_git_frowns_upon(tmp_path):
    """Odd `.gitmodules`, `.gitattributes` that are links, huge or nonsense, and names that look like `.git` elsewhere."""
    with opened(tmp_path / "store") as store:
        with store.writer() as writer:
            junk = writer.add(BLOB, b'[submodule "../x"]\n\turl = -evil\n\tpath = -p\n\tupdate = !rm\n' + b"\0[broken")
            long = writer.add(BLOB, b"*.c " + b"x" * 5000 + b"\n")
            target = writer.add(BLOB, b"/etc/passwd")
            entries = [
                TreeEntry(b".gitmodules", 0o100644, junk),
                TreeEntry(b".gitattributes", 0o100644, long),
                TreeEntry(b"a\\.git", MODE_EXEC, junk),
                TreeEntry(b"empty", 0o040000, writer.add(TREE, b"")),
                TreeEntry(b"\xff\xfe", 0o100644, junk),
            ]
            plain = writer.add(TREE, encode_tree(entries))
            links = [
                TreeEntry(n, MODE_LINK, target) for n in (b".gitmodules", b".gitattributes", b".gitignore", b".mailmap")
            ]
            linked = writer.add(TREE, encode_tree(links))
            commits = [writer.add(COMMIT, encode_commit(Commit(tree, "odd", 1))) for tree in (plain, linked)]
            writer.finish()
        for number, commit in enumerate(commits):
            write_ref(store.directory, f"odd{number}", commit)
    assert_git_is_silent(tmp_path / "store")
