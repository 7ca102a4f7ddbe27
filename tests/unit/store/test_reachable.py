"""What roots reach, and what is new at each of them."""

from __future__ import annotations

import pytest

from mulligan.errors import StoreDamaged
from mulligan.model.objects import MODE_DIR, TREE, TreeEntry, encode_tree, object_id
from mulligan.store.gc import reach, reachable
from mulligan.store.objects import ObjectStore
from stores import add_all, add_commit, opened
from tools import git


class Counting(ObjectStore):
    """A store that counts how often each object is read."""

    def __init__(self, directory):
        super().__init__(directory)
        self.reads: dict[bytes, int] = {}

    def read(self, oid, kind):
        self.reads[oid] = self.reads.get(oid, 0) + 1
        return super().read(oid, kind)


def test_everything_that_git_reaches_is_reached_once(tmp_path):
    with opened(tmp_path / "store") as store:
        roots = [add_commit(store, {"a/b/c": b"%d" % n, "a/d": b"same", "e": b"same"}) for n in range(4)]
        counting = Counting(store.directory)
        found = reachable(counting, [*roots, roots[0]])
        counting.close()
        theirs = git("rev-list", "--objects", "--no-object-names", *[r.hex() for r in roots], cwd=tmp_path / "store")
        assert {bytes.fromhex(line) for line in theirs.decode().split()} == found
        assert {1} == set(counting.reads.values())


def test_a_tree_may_be_a_root_and_a_blob_reaches_itself(tmp_path):
    with opened(tmp_path / "store") as store:
        (blob,) = add_all(store, [b"x"])
        commit = add_commit(store, {"f": b"y"})
        tree = next(oid for oid in reachable(store, [commit]) if store.kind_and_size(oid)[0] == TREE)
        assert tree in reachable(store, [tree])
        assert {blob} == reachable(store, [blob])


def test_what_is_new_at_each_root_is_told_once(tmp_path):
    """Checked against sets; each tree is read once over all roots."""
    with opened(tmp_path / "store") as store:
        roots = [
            add_commit(store, {"only/one": b"1" * 500, "both/x": b"shared", "all": b"all"}, "one"),
            add_commit(store, {"only/two": b"2" * 900, "both/x": b"shared", "all": b"all", "twice": b"all"}, "two"),
            add_commit(store, {"elsewhere": b"shared", "all": b"all"}, "three"),
        ]
        counting, seen, before = Counting(store.directory), set(), set()
        for root in [*roots, roots[0]]:
            new = reach(counting, root, seen)
            assert len(new) == len(set(new)) and set(new) == reachable(store, [root]) - before
            before |= set(new)
        assert seen == before == reachable(store, roots)
        assert {1} == set(counting.reads.values())
        counting.close()


def test_an_unreadable_tree_is_never_taken_for_an_empty_one(tmp_path):
    with opened(tmp_path / "store") as store:
        with store.writer() as writer:
            lost = object_id(TREE, b"never written")
            root = writer.add(TREE, encode_tree([TreeEntry(b"d", MODE_DIR, lost)]))
            odd = writer.add(TREE, b"160000 sub\0" + bytes(20))
            writer.finish()
        for bad, name in ((root, lost), (odd, odd)):
            with pytest.raises(StoreDamaged, match=name.hex()):
                reachable(store, [bad])


def test_a_very_deep_tree_is_walked(tmp_path):
    with opened(tmp_path / "store") as store:
        with store.writer() as writer:
            oid = writer.add(TREE, b"")
            for _ in range(3000):
                oid = writer.add(TREE, encode_tree([TreeEntry(b"d", MODE_DIR, oid)]))
            writer.finish()
        assert len(reachable(store, [oid])) == 3001
