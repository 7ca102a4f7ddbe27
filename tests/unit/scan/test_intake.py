"""Files that the compiled part reads: the same ids, findings, records and objects as without it."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest

import mulligan
from mulligan.safefs import bulk
from mulligan.safefs.directory import Directory
from mulligan.safefs.stillness import pass_time, stamping_clock
from mulligan.scan import intake
from mulligan.scan.reading import HashOnly
from mulligan.scan.result import Defaults, Scan
from mulligan.scan.walk import Options, Scanner
from random_trees import directories, edit, plant, story
from scans import Looking, later, settings_for
from secret_corpus import key_files, token_files
from stores import opened
from tools import git


@pytest.fixture(autouse=True)
def _at_once(monkeypatch):
    """Also where few files are to be read."""
    monkeypatch.setattr(intake, "_HELP_FILES", 1)
    monkeypatch.setattr(intake, "_FEW", 1)


class Counting:
    """How many files the compiled part read."""

    def __init__(self, monkeypatch) -> None:
        self.files = 0
        for kind, way in ((bulk.Reader, "read"), (bulk.Ahead, "take")):
            monkeypatch.setattr(kind, way, self._counted(getattr(kind, way)))

    def _counted(self, real):
        def call(*given):
            found = real(*given)
            self.files += sum(
                1 for taken in (found.values() if isinstance(found, dict) else found) if taken is not None
            )
            return found

        return call


@pytest.fixture
def counting(monkeypatch) -> Counting:
    return Counting(monkeypatch)


def scanned(project: Path, cache, sink, compiled: str) -> Scan:
    """One walk, with or without the compiled part."""
    looking = Looking(project)
    with Directory.open(project) as root:
        scope = looking.observer._scope(looking.observer._repository(), looking.observer._settings.capture)
        return Scanner(root, scope, cache, Defaults(), later, Options(sink, compiled=compiled)).run()


def let_the_tick_end() -> None:
    """What was written so far was not written in the present tick of the clock, which Python alone waits for."""
    now = time.time_ns()  # some kernels stamp finer than that clock goes
    while stamping_clock() <= now:
        pass_time()


def furnish(project: Path, rng: random.Random) -> None:
    """Adds files of the kinds that are read, and of those that are left alone."""
    words = [b"def", b"return", b"self.x", b"\n", b"    ", bytes(40), rng.randbytes(30)]
    for place in directories(project):
        for at in range(rng.randrange(6)):
            data = b" ".join(rng.choices(words, k=rng.choice([0, 1, 30, 400, 5000])))
            (place / f"text{at}").write_bytes(data)
    (project / "large").write_bytes(rng.randbytes(300_000))
    (project / "key").write_bytes(rng.choice(key_files(rng)))
    (project / "token").write_bytes(rng.choice(token_files(rng)))
    (project / "early").write_bytes(b"x\n" * 100)
    os.utime(project / "early", (0, -(10**10)))
    (project / "unreadable").write_bytes(b"x\n" * 100)
    (project / "unreadable").chmod(0)
    (project / "data.db").write_bytes(b"x\n" * 100)
    (project / "data.db-wal").write_bytes(b"y\n" * 100)
    os.mkfifo(project / "pipe")
    let_the_tick_end()


@pytest.mark.parametrize("seed", range(25))
def test_a_walk_finds_the_same_with_and_without_the_compiled_part(project, seed, library, counting):
    rng = random.Random(seed)
    plant(rng, project)
    furnish(project, rng)
    looking = Looking(project)
    for _ in range(3):
        told = [story(scanned(project, looking.cache, HashOnly(), way)) for way in ("", library)]
        assert told[0] == told[1]
        looking.look()
        for _ in range(rng.choice([1, 2, 9])):
            edit(rng, rng.choice(directories(project)))
    assert counting.files > 3


def test_what_is_stored_is_the_same_and_plain_git_agrees(project, tmp_path, library, counting):
    rng = random.Random(7)
    plant(rng, project)
    furnish(project, rng)
    stored = []
    for way in ("", library):
        place = tmp_path / f"store{bool(way)}"
        with opened(place) as store, store.writer() as writer:
            scan = scanned(project, Looking(project).cache, writer, way)
            for oid, (kind, data) in scan.objects.items():
                writer.add_hashed(oid, kind, data)
            writer.finish()
        git("fsck", "--strict", "--full", cwd=place)
        stored.append(
            (scan.tree, sorted(git("cat-file", "--batch-all-objects", "--batch-check", cwd=place).splitlines()))
        )
        assert (counting.files > 10) == bool(way)
    assert stored[0] == stored[1]


def test_an_object_that_is_there_is_not_written_again(project, tmp_path, library):
    for at in range(30):
        (project / f"f{at}").write_bytes(b"line %d\n" % (at % 3) * 100)
    with opened(tmp_path / "store") as store:
        counts = []
        for _ in range(3):
            counts.append(git("count-objects", "-v", cwd=tmp_path / "store").split(b"in-pack: ")[1].split()[0])
            with store.writer() as writer:
                scanned(project, Looking(project).cache, writer, library)
                writer.finish()
        assert int(counts[1]) - int(counts[0]) == 3 and counts[2] == counts[1]


def test_a_watched_save_reads_ahead_and_saves_what_stands_there(project, library, counting):
    for at in range(80):
        (project / f"d{at % 9}/e{at % 4}").mkdir(parents=True, exist_ok=True)
        (project / f"d{at % 9}/e{at % 4}/f{at}").write_text("before\n" * 50)
    with mulligan.Workspace(settings_for(project, compiled=library)) as ws:
        ws.watch()
        ws.save("before")
        for at in range(0, 80, 2):
            (project / f"d{at % 9}/e{at % 4}/f{at}").write_text(f"after {at}\n" * 50)
        (project / "d1/e1/new").write_text("new\n" * 20)
        let_the_tick_end()
        read = counting.files
        saved = ws.save("after")
        assert counting.files - read >= 30
        for at in range(80):
            want = b"before\n" * 50 if at % 2 else b"after %d\n" % at * 50
            assert ws.cat(saved.id, f"d{at % 9}/e{at % 4}/f{at}") == want
        assert ws.save("again", if_changed=True) is None
