"""A glance at everything that is remembered finds what a walk finds, whatever happened in between."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from mulligan.safefs import native
from mulligan.safefs.directory import Directory
from mulligan.scan import glance as glancing
from mulligan.scan.cache import Cache
from mulligan.scan.reading import HashOnly
from mulligan.scan.result import Defaults, Scan
from mulligan.scan.walk import Options, Scanner
from random_trees import directories, edit, plant, story
from scans import Looking, later
from tools import sweep

ALONE, SHARED, NATIVE = "one process", "two processes", "native"


@pytest.fixture(params=[ALONE, SHARED, NATIVE])
def way(request, monkeypatch) -> str:
    """One of the ways to glance."""
    request.getfixturevalue("native_look" if request.param == NATIVE else "python_look")
    monkeypatch.setattr(glancing, "_SHARE_DIRECTORIES", 0 if request.param == SHARED else 1 << 30)
    monkeypatch.setattr(glancing, "_TASK", 2)
    return request.param


def scanned(project: Path, cache: Cache, *, at_once: bool) -> Scan:
    """One look with what is remembered, by a glance first or by the walk alone."""
    looking = Looking(project)
    with Directory.open(project) as root:
        scope = looking.observer._scope(looking.observer._repository(), looking.observer._settings.capture)
        begin = (lambda fd: glancing.begin(fd, cache)) if at_once else None
        return Scanner(root, scope, cache, Defaults(), later, Options(HashOnly(), glance=begin)).run()


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
def test_a_glance_and_the_walk_say_the_same_whatever_happened(project, seed, way):
    for cache in edited(project, seed):
        glanced, walked = (scanned(project, cache, at_once=once) for once in (True, False))
        assert story(glanced) == story(walked)
        assert glanced.tree == scanned(project, Cache(), at_once=False).tree


def test_what_did_not_change_is_not_entered_by_the_walk(project, monkeypatch):
    for at in range(9):
        (project / "some" / str(at)).mkdir(parents=True)
        (project / "some" / str(at) / "file").write_text("1")
    looking = Looking(project)
    looking.look()
    entered = []
    monkeypatch.setattr(Scanner, "_enter", lambda *args: entered.append(args))
    looking.look()
    assert entered == []


def test_a_directory_deeper_than_any_glance_is_walked(project):
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
    return glancing.begin(root.fd, cache).answer()


def test_each_stat_field_counts_of_files_and_directories(project, way):
    (project / "file").write_text("1")
    looking = Looking(project)
    looking.look()
    packed = looking.cache.packed(b"")
    with Directory.open(project) as root:
        assert same(root, [packed], [b""], way) == b"\1"
        first = len(packed) - 20 - glancing.STAT.size
        for at in (*range(first, first + glancing.STAT.size), *range(24), 80, 81):
            other = bytearray(packed)
            other[at] ^= 1
            assert same(root, [bytes(other)], [b""], way) == b"\0", at


def test_a_record_that_lies_about_its_lengths_is_not_as_remembered_and_harms_nobody(project, native_look):
    for at in range(5):
        (project / f"file{at}").write_text("1")
    looking = Looking(project)
    looking.look()
    packed, rng = looking.cache.packed(b""), random.Random(5)
    bad = [packed[:size] for size in range(len(packed))]
    for _ in range(3000):
        other = bytearray(packed)
        for _ in range(rng.randrange(1, 4)):
            other[rng.choice([*range(83, 99), *range(glancing.HEAD_SIZE, glancing.HEAD_SIZE + 29)])] = rng.choice(
                [0, 1, 47, 255, rng.randrange(256)]
            )
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


def test_the_second_look_notices_what_moved_meanwhile(project, way):
    for at in range(9):
        (project / "some" / str(at)).mkdir(parents=True)
    looking = Looking(project)
    looking.look()
    with Directory.open(project) as root:
        found = glancing.Glance(glancing.begin(root.fd, looking.cache), index_changed=False)
        found._pass((0, len(found._found)))
        assert found.restless(root.fd, {}) == []
        (project / "some/3/new").write_text("1")
        (project / "some/5").rmdir()
        (project / "some/7").rename(project / "some/8/7")
        assert sorted(found.restless(root.fd, {})) == [b"some", b"some/3", b"some/8"]
