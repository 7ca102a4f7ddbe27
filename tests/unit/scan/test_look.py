"""A walk that begins with a look at what is remembered finds what a walk finds that looks at everything."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from mulligan.safefs import native
from mulligan.safefs.directory import Directory
from mulligan.scan import walk
from mulligan.scan.cache import HEAD_SIZE, STAT, Cache
from mulligan.scan.trees import HashOnly, Scan
from mulligan.scan.walk import Unwatched
from mulligan.watch.dirty import EVERYTHING, Dirty
from random_trees import directories, edit, plant, story
from scans import Looking, later
from tools import sweep

PYTHON, NATIVE = "python", "native"


@pytest.fixture(params=[PYTHON, NATIVE])
def way(request) -> str:
    """One of the ways to look."""
    request.getfixturevalue(f"{request.param}_look")
    return request.param


class Everywhere(Unwatched):
    """Has the walk look at everything."""

    def begin(self, *_: object) -> Dirty:
        return EVERYTHING


def scanned(project: Path, cache: Cache, *, everywhere: bool = False) -> Scan:
    """One walk with what is remembered."""
    looking = Looking(project)
    with Directory.open(project) as root:
        scope = looking.scanner._scope(looking.scanner._repository(), looking.scanner._settings.capture)
        options = walk.Options(scope, HashOnly(), later)
        return walk.walk(root, cache, options, Everywhere() if everywhere else None)


def edited(project: Path, seed: int) -> Iterator[Cache]:
    """Yields, after some random edits, what was remembered before them, four times."""
    rng = random.Random(seed)
    plant(rng, project)
    looking = Looking(project)
    looking.look()
    for _ in range(4):
        for _ in range(rng.choice([0, 1, 1, 2, 5])):
            edit(rng, rng.choice(directories(project)))
        yield looking.cache
        looking.look()


@pytest.mark.parametrize("seed", range(sweep(10)))
def test_a_look_and_a_walk_over_everything_say_the_same_whatever_happened(project, seed, way):
    for cache in edited(project, seed):
        looked, walked = scanned(project, cache), scanned(project, cache, everywhere=True)
        assert story(looked) == story(walked)
        assert looked.tree == scanned(project, Cache()).tree


def test_what_did_not_change_is_not_entered_by_the_walk(project, way):
    for at in range(9):
        (project / "some" / str(at)).mkdir(parents=True)
        (project / "some" / str(at) / "file").write_text("1")
    looking = Looking(project)
    looking.look()
    assert set(looking.look().entered) == {b""}
    (project / "some/3/file").write_text("2")
    assert set(looking.look().entered) == {b"", b"some/3"}


def test_a_directory_deeper_than_any_look_is_walked(project, way):
    deep = project.joinpath(*["d"] * 60)
    deep.mkdir(parents=True)
    (deep / "file").write_text("1")
    looking = Looking(project)
    before = looking.look()
    (deep / "file").write_text("2")
    assert looking.look().tree != before.tree


def same(root: Directory, packed: list[bytes], paths: list[bytes], way: str) -> bytes:
    """What a way of looking says of some records."""
    if way == NATIVE:
        looking = native.look(root.fd, paths, packed)
        assert looking is not None
        return looking.answer()
    cache = Cache()
    cache._packed = dict(zip(paths, packed, strict=True))
    return bytes(walk._each(root, cache, paths))


def test_each_stat_field_counts_of_files_and_directories(project, way):
    (project / "file").write_text("1")
    looking = Looking(project)
    looking.look()
    packed = looking.cache.packed(b"")
    with Directory.open(project) as root:
        assert same(root, [packed], [b""], way) == b"\1"
        first = len(packed) - 20 - STAT.size
        for at in (*range(first, first + STAT.size), *range(24), 80, 81):
            other = bytearray(packed)
            other[at] ^= 1
            assert same(root, [bytes(other)], [b""], way) == b"\0", at


def test_a_record_that_lies_about_its_lengths_is_not_as_remembered_and_harms_nothing(project, native_look):
    for at in range(5):
        (project / f"file{at}").write_text("1")
    looking = Looking(project)
    looking.look()
    packed, rng = looking.cache.packed(b""), random.Random(5)
    bad = [packed[:size] for size in range(len(packed))]
    for _ in range(3000):
        other = bytearray(packed)
        for _ in range(rng.randrange(1, 4)):
            place = rng.choice([*range(83, 99), *range(HEAD_SIZE, HEAD_SIZE + 29)])
            other[place] = rng.choice([0, 1, 47, 255, rng.randrange(256)])
        if other[:24] == packed[:24] and bytes(other) != packed:
            bad.append(bytes(other))
    with Directory.open(project) as root:
        assert not any(same(root, bad, [b""] * len(bad), NATIVE))


def test_a_directory_behind_a_link_is_not_as_remembered(project, tmp_path, way):
    """Also where everything in it is: it is not there any more."""
    (project / "above/below").mkdir(parents=True)
    (project / "above/below/file").write_text("1")
    looking = Looking(project)
    looking.look()
    paths = [b"above/below"]
    packed = [looking.cache.packed(path) for path in paths]
    with Directory.open(project) as root:
        assert same(root, packed, paths, way) == b"\1"
        (project / "above").rename(tmp_path / "elsewhere")
        (project / "above").symlink_to(tmp_path / "elsewhere")
        assert same(root, packed, paths, way) == b"\0"


def test_what_moves_where_nothing_was_dirty_is_noticed_when_the_walk_is_over(project, way):
    for at in range(9):
        (project / "some" / str(at)).mkdir(parents=True)
    looking = Looking(project)
    looking.look()
    with Directory.open(project) as root:
        where = Unwatched()
        assert set(where.begin(root, looking.cache, ()).places) == set()
        assert where.again(root, {}, 0, settle=True) is None
        (project / "some/3/new").write_text("1")
        (project / "some/5").rmdir()
        (project / "some/7").rename(project / "some/8/7")
        assert sorted(where.again(root, {}, 0, settle=True).moving) == [b"some", b"some/3", b"some/8"]
