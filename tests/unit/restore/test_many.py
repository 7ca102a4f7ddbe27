"""Restores with the compiled part end as those without it do, whatever comes in their way."""

from __future__ import annotations

import errno
import os
import random
import shutil
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import mulligan
import random_trees
from faults import Counting
from mulligan.engine import Workspace
from mulligan.errors import PlanStale
from mulligan.model.objects import object_id
from mulligan.restore import place as places
from mulligan.restore import procedure, staging
from mulligan.restore.executor import Executor
from mulligan.restore.layout import Layout
from mulligan.restore.many import Many
from mulligan.restore.place import Handles
from mulligan.safefs import flushing, placing, seam
from mulligan.safefs.compiled import load
from mulligan.safefs.directory import Directory
from mulligan.settings import resolve
from mulligan.workbench import Workbench
from scenes import left_lying, state_of
from tree import snapshot

FILES = 90
# What is younger than this is compared by its bytes; files that are older, by their stat fields.
GROWN_UP_NS = 60_000_000_000


def text(number: int, version: str) -> bytes:
    return b"%d %b\n" % (number, version.encode()) * (number % 50 + 1)


def write(project: Path, version: str) -> None:
    """Half of the files in place, the others anew."""
    for number in range(FILES):
        place = project / f"d{number % 7}" / f"f{number}"
        place.parent.mkdir(exist_ok=True)
        if number % 2:
            place.unlink(missing_ok=True)
        place.write_bytes(text(number, version))


def new_file(directory: int, name: bytes, replaced: bytes | None, perm: int, content: bytes) -> placing.NewFile:
    return placing.NewFile(directory, name, replaced, perm, content, placing.given(content))


def grow_up(project: Path) -> None:
    then = time.time_ns() - GROWN_UP_NS
    for place in project.rglob("*"):
        if place.is_file() and not place.is_symlink():
            os.utime(place, ns=(then, then), follow_symlinks=False)


class Twins:
    """The same project twice: one is restored without the compiled part, the other with it."""

    def __init__(self, home: Path, library: str) -> None:
        self.projects = [home / "without" / "project", home / "with" / "project"]
        for project in self.projects:
            project.mkdir(parents=True)
        self.spaces = [
            Workspace(resolve(project, store=project.parent / "store")._replace(compiled=compiled))
            for project, compiled in zip(self.projects, ("", library), strict=True)
        ]

    def each(self, act: Callable[[Path], object]) -> None:
        for project in self.projects:
            act(project)

    def save(self, name: str) -> None:
        for space in self.spaces:
            space.save(name)

    def both(self, act: Callable[[Any], Any]) -> list[Any]:
        """Does something to both; returns what each said, and the state it left."""
        return [
            (_told(act, space), state_of(project)) for space, project in zip(self.spaces, self.projects, strict=True)
        ]


def _told(act: Callable[[Any], Any], space: Any) -> Any:
    try:
        report = act(space)
    except PlanStale as error:
        return error.message
    # Names that were set aside hold a token that is made up anew each time.
    kept = [(keep.path, keep.reason, keep.detail.partition(".kept-")[0], keep.failed) for keep in report.kept]
    return sorted(report.created), sorted(report.modified), sorted(report.deleted), sorted(kept)


@pytest.fixture
def twins(tmp_path, library):
    return Twins(tmp_path, library)


@pytest.fixture
def taken(monkeypatch) -> list[int]:
    """How far each file came in the compiled part."""
    found: list[int] = []
    go_on = placing.Run.go_on

    def watched(run: placing.Run, start: int) -> tuple[int, int]:
        at, reached = go_on(run, start)
        found.extend([placing.PLACED] * (at - start) + [reached] * (at < run._count))
        return at, reached

    monkeypatch.setattr(placing.Run, "go_on", watched)
    return found


@pytest.mark.parametrize("old", [False, True], ids=["young", "old"])
def test_plain_files_take_the_short_way_and_come_back(twins, taken, old):
    """Changed, removed and new ones; and an undo brings all of it back."""
    twins.each(lambda project: write(project, "one"))
    twins.save("one")
    twins.each(lambda project: write(project, "two"))
    for number in range(0, 20, 2):
        twins.each(lambda project, n=number: (project / f"d{n % 7}" / f"f{n}").unlink())
        twins.each(lambda project, n=number: (project / f"d{n % 7}" / f"new{n}").write_bytes(b"new"))
    if old:
        twins.each(grow_up)
        twins.save("two")
    before = state_of(twins.projects[0])
    one, other = twins.both(lambda space: space.restore(space.log()[-1].id))
    assert one == other
    assert one[0][3] == [] and len(one[0][1]) == FILES - 10
    assert taken == [placing.PLACED] * (FILES + 10)
    assert one[1]["d1/f1"][2] == text(1, "one")
    undone, too = twins.both(lambda space: space.undo())
    assert undone == too and undone[1] == before
    twins.each(lambda project: pytest.fail("left") if left_lying(project) else None)


@pytest.mark.parametrize("seed", range(12))
def test_random_restores_end_alike(twins, library, seed, monkeypatch):
    """Of trees with links, odd names, ignored files, permission bits and kinds that change."""
    monkeypatch.setattr("mulligan.restore.many._WORTH", 1)
    monkeypatch.setattr("mulligan.restore.staging._SYNC_EACH", 0)
    for act in range(3):
        for project in twins.projects:
            rng = random.Random(f"{seed} {act}")
            random_trees.plant(rng, project)
        if seed % 2:
            twins.each(grow_up)
        twins.save(str(act))
    for step in ("restore", "restore", "undo", "redo", "undo"):
        act = (
            (lambda space, n=seed % 3: space.restore(space.log()[n].id))
            if step == "restore"
            else lambda s, v=step: getattr(s, v)()
        )
        one, other = twins.both(act)
        assert one == other
        for project in twins.projects:
            random_trees.edit(random.Random(f"{seed} {step}"), project)
        seed += 1


# -- surprises --------------------------------------------------------------------------------------


def changed(place: Path) -> None:
    place.write_text("mine")


def removed(place: Path) -> None:
    place.unlink()


def made_a_directory(place: Path) -> None:
    place.unlink(missing_ok=True)
    place.mkdir()
    (place / "inner").write_text("mine")


def made_a_link(place: Path) -> None:
    place.unlink(missing_ok=True)
    place.symlink_to("/etc/passwd")


def made_a_fifo(place: Path) -> None:
    place.unlink(missing_ok=True)
    os.mkfifo(place)


def made_a_socket(place: Path) -> None:
    place.unlink(missing_ok=True)
    here = os.getcwd()
    os.chdir(place.parent)
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(place.name)
    os.chdir(here)


def swapped_its_directory(place: Path) -> None:
    place.parent.rename(place.parent.parent / "moved")
    place.parent.symlink_to("moved")


def lost_its_directory(place: Path) -> None:
    shutil.rmtree(place.parent)


def linked_twice(place: Path) -> None:
    os.link(place, place.parent / "other name")


def other_bits(place: Path) -> None:
    place.chmod(0o640)


SURPRISES = [
    changed, removed, made_a_directory, made_a_link, made_a_fifo, made_a_socket, swapped_its_directory, lost_its_directory,
    linked_twice, other_bits,
]  # fmt: skip


def staged_twins(twins) -> None:
    twins.each(lambda project: write(project, "one"))
    twins.save("one")
    twins.each(lambda project: write(project, "two"))
    twins.each(lambda project: (project / "d3" / "extra").write_bytes(b"extra"))


@pytest.mark.parametrize("path", ["d3/f3", "d3/f45", "d3/extra"])
@pytest.mark.parametrize("surprise", SURPRISES)
@pytest.mark.parametrize("moment", ["surprises", "run"])
def test_what_comes_in_between_is_dealt_with_alike(twins, monkeypatch, moment, surprise, path):
    """Before the last look it is planned for once more; after it the file stays, the others come, and it is listed."""
    staged_twins(twins)
    real = getattr(Executor, moment)

    surprised = set()

    def planted(executor: Executor, *args: Any) -> Any:
        where = Path(os.readlink(f"/proc/self/fd/{executor._root.fd}")) / path
        if where not in surprised:
            surprise(where)
        surprised.add(where)
        return real(executor, *args)

    monkeypatch.setattr(Executor, moment, planted)
    one, other = twins.both(lambda space: space.restore(space.log()[-1].id))
    assert one == other
    assert not isinstance(one[0], str)
    twins.each(lambda project: pytest.fail("left") if left_lying(project) else None)
    assert Path("/etc/passwd").read_bytes().startswith(b"root")


@pytest.mark.parametrize("kind", [placing.SWAP, placing.REMOVE])
def test_bytes_that_came_in_the_very_moment_are_put_back_and_listed(twins, monkeypatch, kind):
    """The compiled part finds something else in the temporary's place and stops there: the plan's own check decides."""
    staged_twins(twins)
    project, space = twins.projects[1], twins.spaces[1]
    path = "d3/f45" if kind == placing.SWAP else "d3/extra"
    _mislead(monkeypatch, path, old=b"x" * 20)
    go_on = placing.Run.go_on

    def disturbed(run: placing.Run, start: int) -> tuple[int, int]:
        at, reached = go_on(run, start)
        if reached == placing.MOVED and at < run._count:
            (displaced,) = (place for place in project.glob("d3/.mulligan-*") if b"one" not in place.read_bytes())
            displaced.write_bytes(b"somebody's bytes")
        return at, reached

    monkeypatch.setattr(placing.Run, "go_on", disturbed)
    report = space.restore(space.log()[-1].id)
    assert [keep.path for keep in report.kept] == [path]
    assert (project / path).read_bytes() == b"somebody's bytes"
    assert len(report.modified) == FILES - (kind == placing.SWAP)
    assert left_lying(project) == []


@pytest.mark.parametrize("part", ["old", "new"])
@pytest.mark.parametrize("path", ["d3/f45", "d3/extra"])
def test_what_the_compiled_part_doubts_is_ended_by_python(twins, monkeypatch, taken, path, part):
    staged_twins(twins)
    _mislead(monkeypatch, path, **{part: b"x" * 20})
    one, other = twins.both(lambda space: space.restore(space.log()[-1].id))
    assert one == other and one[0][3] == []
    doubt = placing.MOVED if part == "old" else placing.THROWN
    assert taken.count(doubt) == (0 if path == "d3/extra" and part == "new" else 1)


def _mislead(monkeypatch, path: str, **wrong: bytes) -> None:
    """Lets the compiled part expect other bytes at one path than the plan does."""
    row_of = Many._row

    def row(many: Many, number: int, action: Any, memory_of: Any) -> Any:
        found = row_of(many, number, action, memory_of)
        if found is None or action.path != os.fsencode(path):
            return found
        stat, old, new, mode, kind = placing.ROW.unpack(found.packed)
        return found._replace(packed=placing.pack(stat, wrong.get("old", old), wrong.get("new", new), mode, kind))

    monkeypatch.setattr(Many, "_row", row)


# -- what it leaves alone ---------------------------------------------------------------------------


def test_a_file_with_attributes_keeps_them(twins, taken):
    """It is staged in the usual way, and put in place with the others."""
    staged_twins(twins)
    try:
        twins.each(lambda project: os.setxattr(project / "d3" / "f45", "user.mine", b"kept"))
    except OSError:
        pytest.skip("no extended attributes here")
    one, other = twins.both(lambda space: space.restore(space.log()[-1].id))
    assert one == other
    twins.each(lambda project: pytest.fail("lost") if os.listxattr(project / "d3" / "f45") != ["user.mine"] else None)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_a_file_of_somebody_else_stays_theirs(twins):
    staged_twins(twins)
    twins.each(lambda project: os.chown(project / "d3" / "f45", 12345, 12345))
    one, other = twins.both(lambda space: space.restore(space.log()[-1].id))
    assert one == other
    assert {(project / "d3" / "f45").stat().st_uid for project in twins.projects} == {12345}


def test_permission_bits_are_the_checkpoint_s_whatever_the_umask(twins):
    twins.each(lambda project: write(project, "one"))
    twins.each(lambda project: (project / "d3" / "f45").chmod(0o666))
    twins.each(lambda project: (project / "d3" / "f3").chmod(0o4755))
    twins.save("one")
    twins.each(lambda project: write(project, "two"))
    before = os.umask(0o077)
    try:
        one, other = twins.both(lambda space: space.restore(space.log()[-1].id))
    finally:
        os.umask(before)
    assert one == other
    assert one[1]["d3/f45"][1] == 0o666


def test_a_leftover_of_the_same_name_is_replaced(tmp_path, library):
    """Of an earlier attempt of the very same restore; the compiled part leaves it to Python, which removes it first."""
    (tmp_path / "there").write_bytes(b"old")
    found = load(library)
    assert found is not None
    with Directory.open(tmp_path) as root:
        files = [
            new_file(root.fd, b"there", None, 0o600, b"new"),
            new_file(root.fd, b"b", None, 0o640, b""),
        ]
        files += [
            new_file(-1, b"c", None, 0o600, b"new"),
            new_file(root.fd, b"d", b"gone", 0o600, b"new"),
        ]
        lane = placing.Placer(found).lane()
        lane.add(files)
        inodes = lane.end()
    assert inodes[0] == inodes[2] == inodes[3] == 0
    assert inodes[1] == (tmp_path / "b").stat().st_ino
    assert (tmp_path / "there").read_bytes() == b"old" and (tmp_path / "b").stat().st_mode & 0o7777 == 0o640


def test_directories_may_be_closed_as_soon_as_files_are_given(tmp_path, library):
    """The lane has copies of its own, and gives them back; with batches behind batches, and one without a directory."""
    found = load(library)
    assert found is not None
    before = len(os.listdir("/proc/self/fd"))
    lane, expected = placing.Placer(found).lane(), []
    for batch in range(20):
        (tmp_path / f"d{batch}").mkdir()
        with Directory.open(tmp_path / f"d{batch}") as one, Directory.open(tmp_path) as other:
            names = [b"f%d-%d" % (batch, number) for number in range(12)]
            places = [one.fd, one.fd, -1, other.fd, one.fd, *[other.fd] * 7]
            lane.add([new_file(fd, name, None, 0o644, name * 9) for fd, name in zip(places, names, strict=True)])
            expected += [
                (tmp_path / (f"d{batch}" if fd == one.fd else "") / os.fsdecode(name), fd >= 0)
                for fd, name in zip(places, names, strict=True)
            ]
    inodes = lane.end()
    for (place, is_there), inode in zip(expected, inodes, strict=True):
        assert inode == (place.stat().st_ino if is_there else 0)
        assert not is_there or place.read_bytes() == os.fsencode(place.name) * 9
    assert len(os.listdir("/proc/self/fd")) <= before
    assert lane.end() == []


def test_a_lane_that_is_dropped_is_waited_for(tmp_path, library):
    found = load(library)
    assert found is not None
    with Directory.open(tmp_path) as root:
        lane = placing.Placer(found).lane()
        lane.add([new_file(root.fd, b"%d" % number, None, 0o644, b"x" * 9999) for number in range(100)])
        del lane
    assert [path.stat().st_size for path in tmp_path.iterdir()] == [9999] * 100


@pytest.fixture
def steps(monkeypatch) -> list[str]:
    """What a restore does, in its order."""
    found: list[str] = []

    def noting(owner: Any, name: str, word: str) -> None:
        real = getattr(owner, name)

        def noted(*args: Any, **kwargs: Any) -> Any:
            found.append(word)
            return real(*args, **kwargs)

        monkeypatch.setattr(owner, name, noted)

    noting(procedure, "open_journal", "journal")
    noting(placing.Lane, "add", "staged")
    noting(Workbench, "keep", "saved")
    noting(placing.Lane, "end", "waited")
    noting(staging, "sync_filesystem", "durable")
    noting(Executor, "surprises", "looked")
    noting(procedure, "set_phase", "phase")
    noting(placing.Run, "go_on", "changed")
    return found


def test_the_checkpoint_is_saved_while_files_are_staged_and_all_is_durable_before_one_changes(twins, steps):
    staged_twins(twins)
    space = twins.spaces[1]
    steps.clear()
    space.restore(space.log()[-1].id)
    first = steps.index("changed")
    assert steps[:first] == ["journal", "staged", "saved", "waited", "durable", "looked", "phase"]
    assert space.log()[0].kind == "safety"


@pytest.mark.parametrize("trouble", [partial(OSError, errno.ENOSPC, "full"), KeyboardInterrupt, MemoryError])
@pytest.mark.parametrize("late", [False, True])
def test_a_checkpoint_that_cannot_be_saved_leaves_nothing_of_what_was_staged(twins, monkeypatch, trouble, late):
    """Before anything of it is durable, and after; the next restore does what this one did not."""
    staged_twins(twins)
    space, project = twins.spaces[1], twins.projects[1]
    before, target = state_of(project), space.log()[-1].id
    real = Workbench.keep

    def refusing(*args: Any, **kwargs: Any) -> Any:
        if late:
            real(*args, **kwargs)
        raise trouble()

    with monkeypatch.context() as patched:
        patched.setattr(Workbench, "keep", refusing)
        with pytest.raises((mulligan.MulliganError, KeyboardInterrupt, MemoryError)):
            space.restore(target)
    assert state_of(project) == before and left_lying(project) == []
    assert space.pending() is None
    assert len(space.restore(target).modified) == FILES
    space.undo()
    assert state_of(project) == before


def test_a_sync_beside_that_fails_ends_it_and_is_not_asked_for_again(twins, monkeypatch):
    """While the checkpoint is saved: what is lying there is removed, and the disk is asked for nothing more."""
    monkeypatch.setattr(staging, "_SHOWN", 16)
    monkeypatch.setattr(staging, "_BATCH", 16)
    staged_twins(twins)
    space, project, asked = twins.spaces[1], twins.projects[1], []
    before, target = state_of(project), space.log()[-1].id

    def failing(_: Directory, what: str) -> None:
        asked.append(what)
        raise mulligan.DurabilityLost("lost")

    for module in (flushing, staging, places):
        monkeypatch.setattr(module, "sync_filesystem", failing)
    with pytest.raises(mulligan.DurabilityLost):
        space.restore(target)
    assert len(asked) == 1
    assert state_of(project) == before and left_lying(project) == []


def test_what_a_killed_restore_staged_before_its_checkpoint_was_saved_is_removed(twins, monkeypatch):
    staged_twins(twins)
    space, project = twins.spaces[1], twins.projects[1]
    before, target = state_of(project), space.log()[-1].id
    child = os.fork()
    if not child:

        def killed(*_, **__):
            for _ in range(3000):  # staged beside this, in a thread
                if left_lying(project):
                    os._exit(7)
                time.sleep(0.01)
            os._exit(1)

        monkeypatch.setattr(Workbench, "keep", killed)
        with suppress(BaseException):
            Workspace(space.settings).restore(target)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert left_lying(project)
    assert space.pending()["phase"] == "staging" and space.check().ok
    assert space.save("next") is not None
    assert left_lying(project) == [] and state_of(project) == before


def test_a_seam_that_lies_is_asked_about_everything(twins, taken):
    staged_twins(twins)
    space = twins.spaces[1]
    with seam.using(Counting()) as calls:
        space.restore(space.log()[-1].id)
    assert calls.seen.count("exchange") == FILES
    assert taken == []


def test_few_open_files_make_small_portions(twins, monkeypatch):
    """A process may be allowed as few as 64: no directory is closed under the hands of the compiled part."""
    monkeypatch.setattr("mulligan.restore.place.fair_share_of_files", lambda: 8)
    for project in twins.projects:
        for number in range(FILES):
            (project / f"e{number}").mkdir()
            (project / f"e{number}" / "f").write_bytes(text(number, "one"))
    twins.save("one")
    for project in twins.projects:
        for number in range(FILES):
            (project / f"e{number}" / "f").write_bytes(text(number, "two"))
    one, other = twins.both(lambda space: space.restore(space.log()[-1].id))
    assert one == other and len(one[0][1]) == FILES


def test_displaced_files_go_when_the_store_is_closed(twins):
    staged_twins(twins)
    space, store = twins.spaces[1], twins.projects[1].parent / "store"
    space.restore(space.log()[-1].id)
    waiting = [path for path in snapshot(store) if "gone-" in path]
    assert len(waiting) == FILES + 1
    space.close()
    assert not [path for path in snapshot(store) if "gone-" in path]


def test_without_a_place_for_them_displaced_files_are_removed_at_once(tmp_path, library):
    found = load(library)
    assert found is not None
    (tmp_path / "name").write_bytes(b"old")
    (tmp_path / "temporary").write_bytes(b"new")
    st = (tmp_path / "name").stat()
    stat = placing.struct.pack("<Q4q", st.st_ino, st.st_mode, st.st_size, st.st_mtime_ns, st.st_ctime_ns)
    inode, mode = (tmp_path / "temporary").stat().st_ino, (tmp_path / "temporary").stat().st_mode
    ids = object_id(b"blob", b"old"), object_id(b"blob", b"new")
    packed = placing.pack(stat, *ids, mode, placing.SWAP)
    with Directory.open(tmp_path) as root:
        file = (root.fd, b"name", root.fd, b"temporary", packed)
        assert placing.Placer(found).run([file], [inode], -1, []).go_on(0) == (1, placing.PLACED)
    assert [path.name for path in tmp_path.iterdir()] == ["name"]
    assert (tmp_path / "name").read_bytes() == b"new"


class Pairs:
    """Names with temporaries beside them, to be exchanged."""

    def __init__(self, home: Path, count: int) -> None:
        self.home, self.files, self.inodes = home, [], []
        self.wrong: dict[int, str] = {}
        for number in range(count):
            (home / f"n{number}").write_bytes(b"old %d" % number)
            (home / f"t{number}").write_bytes(b"new %d" % number)

    def placings(self, fd: int) -> list[placing.Placing]:
        found = []
        for number in range(len(list(self.home.glob("n*")))):
            st, made = (self.home / f"n{number}").stat(), (self.home / f"t{number}").stat()
            fields = [st.st_ino, st.st_mode, st.st_size, st.st_mtime_ns, st.st_ctime_ns]
            how = self.wrong.get(number)
            after = b"other" if how == "not right" else b"new %d" % number
            before = b"other" if how == "not expected" else b"old %d" % number
            if how == "not as seen":
                fields[3] += 1
            ids = object_id(b"blob", before), object_id(b"blob", after)
            packed = placing.pack(placing.struct.pack("<Q4q", *fields), *ids, made.st_mode, placing.SWAP)
            found.append((fd, b"n%d" % number, fd, b"t%d" % number, packed))
            self.inodes.append(made.st_ino)
        return found


@pytest.mark.parametrize("count", [5, 100], ids=["alone", "with a thread"])
def test_each_that_is_not_in_place_is_told_in_its_order_and_none_is_moved_twice(tmp_path, library, count):
    """Those behind one that does not read back right may be in place when that is found out."""
    found = load(library)
    assert found is not None
    pairs = Pairs(tmp_path, count)
    troubles = {"not right": placing.THROWN, "not expected": placing.MOVED, "not as seen": placing.UNTOUCHED}
    numbers = [1, 2, 4] if count == 5 else [0, 3, 4, 40, 41, 77, 99]
    pairs.wrong = {number: [*troubles][at % 3] for at, number in enumerate(numbers)}
    told, start = {}, 0
    with Directory.open(tmp_path) as root:
        run = placing.Placer(found).run(pairs.placings(root.fd), pairs.inodes, -1, [])
        while start < count:
            at, reached = run.go_on(start)
            if at < count:
                told[at] = reached
            start = at + 1
    assert told == {number: troubles[how] for number, how in pairs.wrong.items()}
    for number in range(count):
        moved = told.get(number) != placing.UNTOUCHED
        assert (tmp_path / f"n{number}").read_bytes() == (b"new %d" if moved else b"old %d") % number
        beside = {placing.MOVED: b"old %d" % number, placing.UNTOUCHED: b"new %d" % number}.get(told.get(number, -1))
        assert (tmp_path / f"t{number}").exists() == (beside is not None)
        assert beside is None or (tmp_path / f"t{number}").read_bytes() == beside


def test_portions_are_as_large_as_the_open_directories_allow(tmp_path):
    with Directory.open(tmp_path) as root:
        handles = Handles(root)
        handles.most = 16
        assert Layout([]).staged == []
        from mulligan.restore.many import most_at_once

        assert most_at_once(handles) == 4
