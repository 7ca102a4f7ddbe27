"""What roots reach, and what only one of them holds."""

from __future__ import annotations

import pytest

from mulligan.errors import StoreDamaged
from mulligan.model.objects import BLOB, MODE_DIR, TREE, TreeEntry, encode_tree, object_id
from mulligan.store.objects import ObjectStore
from mulligan.store.reach import exclusive_bytes, reachable
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
        assert {blob: store.packed_size(blob)}[blob] == exclusive_bytes(store, {"b": blob})["b"]


def test_exclusive_bytes_are_those_no_other_root_reaches(tmp_path):
    """Checked against sets; each object is read twice at most."""
    with opened(tmp_path / "store") as store:
        roots = {
            "one": add_commit(store, {"only/one": b"1" * 500, "both/x": b"shared", "all": b"all"}, "one"),
            "two": add_commit(store, {"only/two": b"2" * 900, "both/x": b"shared", "all": b"all"}, "two"),
            "three": add_commit(store, {"elsewhere": b"shared", "all": b"all"}, "three"),
        }
        roots["three again"] = roots["three"]
        reached = {name: reachable(store, [root]) for name, root in roots.items()}
        expected = {
            name: sum(
                store.packed_size(oid)
                for oid in reached[name]
                if not any(oid in other for their, other in reached.items() if their != name)
            )
            for name in roots
        }
        counting = Counting(store.directory)
        assert expected == exclusive_bytes(counting, roots)
        assert max(counting.reads.values()) <= 2
        counting.close()
        assert 0 == expected["three"] < expected["one"]


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
            with pytest.raises(StoreDamaged, match=name.hex()):
                exclusive_bytes(store, {"x": bad})


def test_a_missing_blob_takes_no_room(tmp_path):
    with opened(tmp_path / "store") as store:
        with store.writer() as writer:
            tree = writer.add(TREE, encode_tree([TreeEntry(b"f", 0o100644, object_id(BLOB, b"lost"))]))
            writer.finish()
        assert store.packed_size(tree) == exclusive_bytes(store, {"x": tree})["x"]


def test_a_very_deep_tree_is_walked(tmp_path):
    with opened(tmp_path / "store") as store:
        with store.writer() as writer:
            oid = writer.add(TREE, b"")
            for _ in range(3000):
                oid = writer.add(TREE, encode_tree([TreeEntry(b"d", MODE_DIR, oid)]))
            writer.finish()
        assert len(reachable(store, [oid])) == 3001
