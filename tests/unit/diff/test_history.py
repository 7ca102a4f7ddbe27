from __future__ import annotations

import random

import pytest

from memory import File, Memory
from mulligan.diff.history import version_chains
from mulligan.model.objects import BLOB, MODE_EXEC, object_id


@pytest.fixture
def memory() -> Memory:
    return Memory()


def blobs(memory: Memory, *states: dict[bytes, File]) -> list[list[bytes]]:
    """The chains of files, as contents."""
    trees = [memory.tree(state) for state in states]
    known = {object_id(BLOB, data): data for data in memory.objects.values()}
    memory.trees_read.clear()
    return [[known[oid] for oid in chain] for chain in version_chains(memory.read_tree, trees) if chain[0] in known]


def test_a_path_with_versions_is_a_chain_oldest_first(memory: Memory) -> None:
    states: list[dict[bytes, File]] = [{b"a": b"%d" % n, b"same": b"x"} for n in (1, 2, 3)]
    assert blobs(memory, *states) == [[b"1", b"2", b"3"]]


def test_a_version_that_comes_back_is_in_its_chain_once(memory: Memory) -> None:
    assert blobs(memory, {b"a": b"1"}, {b"a": b"2"}, {b"a": b"1"}, {b"a": b"3"}) == [[b"1", b"2", b"3"]]


def test_a_path_that_was_away_goes_on_with_its_chain(memory: Memory) -> None:
    assert blobs(memory, {b"d/a": b"1"}, {b"b": b"x"}, {b"b": b"x"}, {b"d/a": b"2"}) == [[b"1", b"2"]]


def test_a_mode_is_no_version(memory: Memory) -> None:
    assert blobs(memory, {b"a": b"1"}, {b"a": (MODE_EXEC, b"1")}) == []


def test_empty_objects_are_in_no_chain(memory: Memory) -> None:
    assert blobs(memory, {b"a": b""}, {b"a": b"1"}, {b"a": b"2"}) == [[b"1", b"2"]]


def test_directories_have_chains_of_their_own(memory: Memory) -> None:
    """The root too; a file and a directory of one name are two paths."""
    one, two = memory.tree({b"d/a": b"1", b"e/a": b"1"}), memory.tree({b"d/a": b"2", b"e/a": b"1"})
    three = memory.tree({b"d": b"3", b"e/a": b"1"})
    subtrees = [next(e.oid for e in memory.read_tree(tree) if e.name == b"d") for tree in (one, two)]
    chains = version_chains(memory.read_tree, [one, two, three])
    assert [one, two, three] in chains
    assert subtrees in chains
    assert len(chains) == 3


def test_every_object_is_in_one_chain_at_most(memory: Memory) -> None:
    """In a random history with copies, moves and returns; and each object of it was in the history."""
    rng = random.Random(7)
    trees = []
    files: dict[bytes, File] = {}
    for _ in range(40):
        for _ in range(3):
            path = b"%c/%c" % (rng.choice(b"abc"), rng.choice(b"xyz"))
            if rng.random() < 0.3:
                files.pop(path, None)
            else:
                files[path] = b"%d" % rng.randrange(12)
        trees.append(memory.tree(files))
    chains = version_chains(memory.read_tree, trees)
    placed = [oid for chain in chains for oid in chain]
    assert len(placed) == len(set(placed)) > 20
    assert set(placed) <= memory.objects.keys()
    assert all(len(chain) > 1 for chain in chains)


def test_the_cost_follows_the_changes(memory: Memory) -> None:
    """One tree per level and version is read, whatever stands beside it."""
    files: dict[bytes, File] = {b"d%d/f" % number: b"x" for number in range(50)}
    chains = blobs(memory, *[files | {b"d7/f": b"%d" % number} for number in range(10)])
    assert chains == [[b"%d" % number for number in range(10)]]
    assert len(memory.trees_read) == 20


def test_what_is_remembered_has_a_bound(memory: Memory) -> None:
    """Later versions are left out; nothing fails."""
    trees = [memory.tree({b"%d" % n: b"%d %d" % (n, version) for n in range(10)}) for version in range(10)]
    chains = version_chains(memory.read_tree, trees, limit=40)
    assert sum(map(len, chains)) <= 41


def test_no_history_has_no_chains(memory: Memory) -> None:
    assert version_chains(memory.read_tree, []) == []
    assert version_chains(memory.read_tree, [memory.tree({b"a": b"1"})] * 2) == []
