"""A glance at everything that is remembered finds what a walk finds, whatever happened in between."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mulligan.safefs import compiled
from mulligan.safefs.directory import Directory
from mulligan.scan import glance as glancing
from mulligan.scan import recalling
from mulligan.scan.cache import Cache
from mulligan.scan.reading import HashOnly
from mulligan.scan.result import Defaults, Scan
from mulligan.scan.walk import Options, Scanner
from random_trees import directories, edit, plant, story
from scans import Looking, later

ALONE, SHARED, COMPILED = "one process", "two processes", "compiled"


@pytest.fixture(params=[ALONE, SHARED, COMPILED])
def way(request, monkeypatch) -> str:
    """One of the ways to glance; the answer is where the compiled part lies, empty for none."""
    monkeypatch.setattr(glancing, "_HELP_DIRECTORIES", 0)
    monkeypatch.setattr(glancing, "_SHARE_DIRECTORIES", 0 if request.param == SHARED else 1 << 30)
    monkeypatch.setattr(glancing, "_TASK", 2)
    return request.getfixturevalue("library") if request.param == COMPILED else ""


def scanned(
    project: Path, cache: Cache, *, at_once: bool, way: str = "", begun: recalling.Recalling | None = None
) -> Scan:
    """One look with what is remembered, by a glance first or by the walk alone."""
    looking = Looking(project)
    with Directory.open(project) as root:
        scope = looking.observer._scope(looking.observer._repository(), looking.observer._settings.capture)
        begin = (lambda fd: begun or glancing.begin(fd, cache, way)) if at_once else None
        return Scanner(root, scope, cache, Defaults(), later, Options(HashOnly(), glance=begin)).run()


def recall(library: str, log: int, root: Directory) -> recalling.Recalling:
    """A glance by the compiled part, from a log."""
    return recalling.Recalling(compiled.recall(library, log, root.fd), os.fstat(log).st_ino, root.fd)


@contextmanager
def recalled(project: Path, cache: Cache, library: str) -> Iterator[recalling.Recalling]:
    """A glance by the compiled part, from a log of what is remembered."""
    place = project.with_name("log")
    (place / "tmp").mkdir(parents=True, exist_ok=True)
    with Directory.open(place) as store, Directory.open(project) as root:
        cache.rewrite(store)
        with store.reading(b"cache") as log:
            begun = recall(library, log, root)
        assert begun.cache.is_current(store)
        yield begun
        begun.close()


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


@pytest.mark.parametrize("index_changed", [False, True])
@pytest.mark.parametrize("seed", range(40))
def test_a_glance_from_the_log_finds_what_python_finds(project, seed, library, index_changed):
    """Directory by directory, and all that is said of one."""
    for cache in edited(project, seed):
        with Directory.open(project) as root, recalled(project, cache, library) as begun:
            mine, other = (each.found(index_changed=index_changed) for each in (begun, glancing.begin(root.fd, cache)))
            everything = [(0, len(other))]
            assert told(mine) == told(other)
            assert (begun.cache.root_tree, begun.cache.note) == (cache.root_tree, cache.note)
            assert [begun.cache.packed(path) for path in cache.paths()] == [*cache._packed.values()]
            assert sorted(mine.moved(everything)) == sorted(other.moved(everything))
            assert sorted(begun.cache.paths()) == sorted(cache.paths())


def test_a_glance_from_the_log_knows_other_rules_and_directories_that_went(project, library):
    for at in range(6):
        (project / "some" / str(at) / "below").mkdir(parents=True)
        (project / "some" / str(at) / "below/file").write_text("1")
    looking = Looking(project)
    scan = looking.look()
    place = project.with_name("log")
    (place / "tmp").mkdir(parents=True)
    other = bytearray(looking.cache.packed(b"some/3/below"))
    other[24] ^= 1  # as if other rules had been over it
    records = [(b"some/3/below", bytes(other)), (b"gone", other), (b"gone/too", other)]
    with Directory.open(place) as store, Directory.open(project) as root:
        looking.cache.save(store, [])
        looking.cache.save(store, looking.cache.update(records, (), scan.tree, b"{}"))
        looking.cache.save(store, looking.cache.update([], [b"gone", b"gone/too"], scan.tree, b"{}"))
        with store.reading(b"cache") as log:
            begun = recall(library, log, root)
        mine = begun.found(index_changed=False)
        assert told(mine) == told(glancing.begin(root.fd, looking.cache).found(index_changed=False))
        ends = {mine.path(at): mine.end(at) for at in range(len(mine))}
        assert (ends[b"some/2"] > 0, ends[b"some/3"], ends[b"some"], b"gone" in ends) == (True, 0, 0, False)


def told(found: glancing.Found | recalling.Recalled) -> list[object]:
    """What a glance found, of each directory and of each subtree that is as it was."""
    rows = []
    for at in range(len(found)):
        span = (at, found.end(at))
        inside = (found.files(span), list(found.missing(span))) if span[1] else ()
        rows.append((found.path(at), found.find(found.path(at)), span, found.own(at), inside))
    return [*rows, found.find(b"nowhere"), found.find(b"")]


@pytest.mark.parametrize("seed", range(20))
def test_a_walk_that_begins_with_a_glance_from_the_log_says_the_same(project, seed, library):
    for cache in edited(project, seed):
        with recalled(project, cache, library) as begun:
            glanced = scanned(project, begun.cache, at_once=True, begun=begun)
            assert story(glanced) == story(scanned(project, cache, at_once=False))
            begun.cache.update(glanced.packed(), glanced.gone, glanced.tree, b"{}")
            again = scanned(project, begun.cache, at_once=False)
            assert (again.tree, again.gone) == (glanced.tree, [])


@pytest.mark.parametrize("seed", range(40))
def test_a_log_that_was_damaged_is_read_as_python_reads_it(project, seed, library):
    rng = random.Random(seed)
    plant(rng, project)
    looking = Looking(project)
    place = project.with_name("log")
    (place / "tmp").mkdir(parents=True)
    with Directory.open(place) as store, Directory.open(project) as root:
        looking.look()
        looking.cache.save(store, [])
        for _ in range(3):  # a log with a history: records that do not count any more, and directories that went
            edit(rng, rng.choice(directories(project)))
            scan = looking.look(remember=False)
            looking.cache.save(store, looking.cache.update(scan.packed(), scan.gone, scan.tree, b"{}"))
        whole = (place / "cache").read_bytes()
        for damage in range(12):
            data = bytearray(whole)
            if damage % 2:
                data = data[: rng.randrange(len(data))]
            elif damage:
                data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
            (place / "cache").write_bytes(data)
            mine = Cache()
            mine.load(store)
            with store.reading(b"cache") as log:
                begun = recall(library, log, root)
            assert begun.cache.is_current(store) == mine.is_current(store)
            assert (begun.cache.root_tree, begun.cache.note) == (mine.root_tree, mine.note)
            assert (begun.cache._live, begun.cache._log_bytes) == (mine._live, mine._log_bytes)
            assert begun.cache._all() == mine._packed
            begun.close()


def test_a_look_that_nobody_asked_for_ends_soon_and_what_was_read_stays(project, library):
    (project / "file").write_text("1")
    looking = Looking(project)
    looking.look()
    with recalled(project, looking.cache, library) as begun:
        cache = begun.cache
        begun.close()
        begun.close()
        del begun
        assert cache.packed(b"") == looking.cache.packed(b"")


@pytest.mark.parametrize("seed", range(40))
def test_a_glance_and_the_walk_say_the_same_whatever_happened(project, seed, way):
    for cache in edited(project, seed):
        glanced, walked = (scanned(project, cache, at_once=once, way=way) for once in (True, False))
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
    if way:
        return compiled.load(way).look(root.fd, paths, packed).answer()
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


def test_a_record_that_lies_about_its_lengths_is_not_as_remembered_and_harms_nobody(project, library):
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
        assert not any(same(root, bad, [b""] * len(bad), library))


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
        found = glancing.Glance(glancing.begin(root.fd, looking.cache, way), index_changed=False)
        found._pass((0, len(found._found)))
        assert found.restless(root.fd, {}) == []
        (project / "some/3/new").write_text("1")
        (project / "some/5").rmdir()
        (project / "some/7").rename(project / "some/8/7")
        assert sorted(found.restless(root.fd, {})) == [b"some", b"some/3", b"some/8"]


@pytest.mark.parametrize(
    "loose", ["directory for all", "directory for the group", "file for all", "link", "other name"]
)
def test_a_library_that_others_could_have_put_there_is_not_loaded(library, tmp_path, loose):
    place = tmp_path / "place"
    shutil.copytree(library, place)
    place.chmod(0o700)
    name = compiled.library_name().decode()
    assert compiled.load(str(place)) is not None
    if loose.startswith("directory"):
        place.chmod(0o707 if loose == "directory for all" else 0o770)
    elif loose == "file for all":
        (place / name).chmod(0o722)
    elif loose == "link":
        (place / name).rename(tmp_path / "real")
        (place / name).symlink_to(tmp_path / "real")
    else:
        (place / name).rename(place / "glance-0.so")
    assert compiled.load(str(place)) is None


def test_what_cannot_be_loaded_is_done_without(library, tmp_path, project):
    place = tmp_path / "place"
    place.mkdir(mode=0o700)
    (place / compiled.library_name().decode()).write_bytes(b"no library")
    assert compiled.load(str(place)) is None
    assert compiled.load("") is None and compiled.load(str(tmp_path / "nowhere")) is None
