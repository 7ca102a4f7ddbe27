"""Git's index and packs, taken apart by the compiled part: whatever stands in them, nothing is touched that is not its own, and nothing is copied that is not right."""

from __future__ import annotations

import ctypes
import hashlib
import os
import random
import struct
import subprocess
import zlib
from pathlib import Path

import pytest

import adopted
from mulligan.model.paths import join
from mulligan.safefs import adoption, compiled
from mulligan.scan import adopting, adopting_compiled
from mulligan.scan.git.index import parse_index
from mulligan.scan.hints import Hints
from mulligan.scan.record import Packed
from mulligan.scan.scope import ODD_HEADS, ODD_PARTS
from mulligan.scan.secrets import PLACES, SOURCE, is_plain_name, is_plain_place
from mulligan.store import pack_writer
from plain_git import fsck
from sanitizing import sanitized
from tools import git

# Does all there is to do with each index it is given and a pack: root, index of the pack, pack, then the indexes.
ASKING = rb"""
#include <stdio.h>
int main(int count, char **given) {
    static unsigned char data[1 << 20];
    int root = open(given[1], O_RDONLY | O_DIRECTORY), index = open(given[2], O_RDONLY), pack = open(given[3], O_RDONLY);
    for (int at = 4; at < count; at++) {
        int file = open(given[at], O_RDONLY);
        ssize_t size = read(file, data, sizeof data);
        close(file);
        unsigned char *exact = malloc((size_t)size + 1); /* so that every byte beyond is found */
        memcpy(exact, data, (size_t)size);
        uint32_t told[3], taken = 0;
        uint64_t row[10];
        void *self = mulligan_adopt(exact, (uint64_t)size, at & 8, told), *copying = mulligan_copy((uint64_t)at);
        mulligan_copy_add(copying, index, pack);
        mulligan_copy_open(copying, 1 << 20, at & 4);
        if (self) {
            struct terms terms = {.latest = INT64_MAX, .largest = INT64_MAX, .file = 0100644, .executable = 0100755,
                .usual_file = 0644, .usual_executable = 0755, .usual_directory = 0755,
                .plain = "py\0md\0", .places = ".ssh\0", .built_in = "node_modules\0", .odd_parts = "key\0.pem\0env\0",
                .odd_heads = ".\0"};
            struct hints some = {.names = "a.py\0build\0", .heads = "b\0x1\0", .tails = ".md\0o\0o.py\0", .prefixes = "d\0dir/su\0"};
            struct hints none = {.names = "", .heads = "", .tails = "", .prefixes = "", .every = at % 3 == 0};
            for (uint32_t each = 0; each <= told[0]; each++)
                mulligan_adopt_entry(self, each, row);
            unsigned char *flags = calloc(told[1], 1), *same = malloc(told[1]), keys[16] = {1};
            uint64_t *rows = malloc(told[1] * 56);
            if (!mulligan_adopt_expect(self, &terms, at & 1) || !mulligan_adopt_look(self, copying, root, at & 1))
                return 2;
            if (at % 7) {
                mulligan_adopt_wait(self);
                uint32_t *hits = malloc(8 * ((size_t)told[0] + told[1]));
                if (mulligan_adopt_hits(self, &some, &none, (uint64_t)at, hits) > told[0] + told[1])
                    return 3;
                free(hits);
                mulligan_adopt_told(self, row);
                for (uint32_t each = 0; each < told[0]; each++)
                    ((unsigned char *)(uintptr_t)row[4])[each] = PLAIN; /* whatever the disk says */
                if (!mulligan_copy_want(copying, self) || mulligan_copy_uses(copying, 1))
                    return 4;
                uint32_t packs = mulligan_copy_plan(copying, 64 << 20, 3 + (uint32_t)at % 50, 2);
                int *files = malloc((packs + 1) * sizeof *files);
                for (uint32_t each = 0; each < packs; each++)
                    files[each] = fileno(tmpfile());
                mulligan_copy_begin(copying, files, at & 2);
                if (at % 5 == 0)
                    mulligan_copy_end(copying, 1);
                else
                    mulligan_copy_end(copying, 0);
                for (uint32_t each = 0; each < packs; each++) {
                    mulligan_copy_made(copying, each, row);
                    taken += row[3] != 0;
                    close(files[each]);
                }
                free(files);
                unsigned char *left = malloc(29 * (size_t)mulligan_copy_deltas(copying, NULL) + 1);
                mulligan_copy_deltas(copying, left);
                uint32_t *trees = malloc(told[1] * sizeof *trees);
                mulligan_copy_trees(copying, self, trees);
                mulligan_copy_took(copying, exact);
                mulligan_copy_settle(copying, self);
                free(left), free(trees);
            }
            mulligan_adopt_wait(self);
            mulligan_adopt_folders(self, rows);
            mulligan_adopt_finish(self, flags, keys, 1, INT64_MAX, INT64_MAX, same);
            mulligan_adopt_free(self);
            free(flags), free(same), free(rows);
        }
        mulligan_copy_free(copying);
        printf("%d %u\n", self != NULL, taken);
        free(exact);
    }
    return 0;
}
"""


def sealed(data: bytes) -> bytes:
    """The same bytes with a checksum behind them that is right."""
    return data + hashlib.sha1(data, usedforsecurity=False).digest()


def entry(path: bytes, oid: bytes, size: int = 0, mode: int = 0o100644, flags: int = -1) -> bytes:
    """One entry of an index."""
    flags = min(len(path), 0xFFF) if flags < 0 else flags
    head = struct.pack(">10I20sH", 1, 1, 1, 1, 0, 5, mode, 0, 0, size, oid, flags)
    return (head + path).ljust(62 + len(path) + 8 - (62 + len(path)) % 8, b"\0")


def index_of(rows: list[bytes], version: int = 2, more: bytes = b"") -> bytes:
    """An index of some entries."""
    return sealed(b"DIRC" + struct.pack(">II", version, len(rows)) + b"".join(rows) + more)


def hostile(rng: random.Random, good: list[bytes]) -> bytes:
    """An index that is like a good one, and is not."""
    data = bytearray(rng.choice(good)[:-20])
    for _ in range(rng.choice((0, 1, 1, 2, 30))):
        what, at = rng.randrange(5), rng.randrange(len(data))
        if what == 0:
            data[at] = rng.choice((0, 1, 47, 127, 128, 255, rng.randrange(256)))
        elif what == 1:
            del data[at : at + rng.choice((1, 8, 64, 1000))]
        elif what == 2:
            data[at:at] = rng.randbytes(rng.choice((1, 8, 64)))
        elif what == 3 and len(data) > 12:
            data[8:12] = rng.choice((0, 1, 2, 5000, 1 << 31, 0xFFFFFFFF)).to_bytes(4, "big")
        else:
            start = rng.randrange(len(data))
            data[at : at + 80] = data[start : start + 80]
    return sealed(bytes(data))


def turned(rng: random.Random, index: bytes) -> bytes:
    """The index of a pack that lies about something, with a checksum that is right."""
    data, count = bytearray(index[:-20]), int.from_bytes(index[1028:1032], "big")
    for _ in range(rng.randrange(1, 20)):
        at = rng.randrange(1032 + 20 * count, len(data) - 20) if rng.random() < 0.7 else rng.randrange(8, len(data))
        data[at : at + 4] = rng.choice((b"\0\0\0\0", b"\xff" * 4, b"\x80\0\0\0", b"\0\0\0\x0d", rng.randbytes(4)))
    return sealed(bytes(data))


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A repository of every kind of thing, packed."""
    at = adopted.new_repository(tmp_path / "project")
    rng = random.Random(3)
    for number in range(60):
        folder = at / rng.choice(("", "a", "a-b", "a/b", "a.b", "node_modules", ".ssh", "x/y/z"))
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"file{number}.{rng.choice(('py', 'json', 'md'))}").write_bytes(rng.randbytes(rng.randrange(2000)))
    adopted.commit(at, "-f")
    git("repack", "-a", "-d", "-q", cwd=at)
    return at


def indexes_of(repo: Path) -> list[bytes]:
    """The index of a repository in each version."""
    found = []
    for version in ("2", "4"):
        git("update-index", "--index-version", version, cwd=repo)
        found.append((repo / ".git/index").read_bytes())
    return found


@pytest.mark.parametrize("kind", ["address,undefined", "thread"])
def test_sanitizers_find_nothing_whatever_index_and_packs_say(repo, tmp_path, kind):
    program, rng = sanitized(ASKING, tmp_path / "asking", kind), random.Random(5)
    good = indexes_of(repo)
    (pack,) = (repo / ".git/objects/pack").glob("*.pack")
    index, lies = pack.with_suffix(".idx"), tmp_path / "lies.idx"
    said = []
    for number in range(6):
        lies.write_bytes(turned(rng, index.read_bytes()))
        cases = []
        for at in range(60):
            cases.append(str(tmp_path / f"index{at}"))
            Path(cases[-1]).write_bytes(rng.choice(good) if at % 6 == 0 else hostile(rng, good))
        given = [program, str(repo), str(lies if number % 2 else index), str(pack), *cases]
        done = subprocess.run(given, capture_output=True, check=False, text=True)
        assert done.returncode == 0, done.stderr[-3000:]
        said += done.stdout.split("\n")[:-1]
    assert {line[0] for line in said} == {"0", "1"}
    assert any(line > "1 0" for line in said)


def test_the_compiled_part_takes_an_index_apart_as_python_does(repo, library):
    """And leaves to Python what is not plain: whatever it accepts, Python finds the same names in."""
    calls, rng, accepted = compiled.load(library).calls, random.Random(9), 0
    good = indexes_of(repo)
    for at in range(1500):
        data = good[at % 2] if at < 2 else hostile(rng, good)
        found = adoption.taken_apart(calls, data)
        if found is not None:
            accepted += 1
            index = parse_index(data)
            assert index is not None
            assert found.names().split(b"\0") == index.paths
            assert {found.entry(place) for place in range(found.files)} == set(index.heads.items())
    assert accepted > 20


OID = bytes(range(20))
ODD = {
    "nothing": [],
    "out of order": [entry(b"b", OID), entry(b"a", OID)],
    "twice": [entry(b"a", OID), entry(b"a", OID)],
    "a file and a directory": [entry(b"a", OID), entry(b"a/b", OID)],
    "a file and a directory, with another between": [entry(b"a", OID), entry(b"a-b", OID), entry(b"a/b", OID)],
    "an empty part": [entry(b"a//b", OID)],
    "a part that is a dot": [entry(b"a/./b", OID)],
    "a way out": [entry(b"../b", OID)],
    "from the top": [entry(b"/b", OID)],
    "a slash at the end": [entry(b"b/", OID)],
    "a submodule": [entry(b"b", OID, mode=0o160000)],
    "a directory of a sparse index": [entry(b"b/", OID, mode=0o040000)],
    "assumed": [entry(b"b", OID, flags=0x8001)],
    "unmerged": [entry(b"b", OID, flags=0x1001)],
    "another length": [entry(b"b", OID, flags=2)],
    "a name too long for a file system": [entry(b"b" * 256, OID)],
    "a NUL in a name": [entry(b"a\0b", OID, flags=3)],
}


@pytest.mark.parametrize("rows", ODD.values(), ids=ODD)
def test_what_git_does_not_write_is_left_to_python(library, rows):
    assert adoption.taken_apart(compiled.load(library).calls, index_of(rows)) is None


def test_an_extension_that_must_be_understood_is_left_to_python(library):
    calls, rows = compiled.load(library).calls, [entry(b"a", OID)]
    assert adoption.taken_apart(calls, index_of(rows, more=b"TREE\0\0\0\1x")) is not None
    assert adoption.taken_apart(calls, index_of(rows, more=b"link\0\0\0\1x")) is None
    assert adoption.taken_apart(calls, index_of(rows, more=b"TREE\0\0\0\2x")) is None


def terms_for(file: os.stat_result) -> adoption.Terms:
    """What is expected where every file is like one of them."""
    upper, mode = file.st_ino & ~0xFFFFFFFF, file.st_mode
    most = (1 << 63) - 1
    return adoption.Terms(upper, most, 0, 0, most, (mode, mode), (0o644, 0o755, 0o755), [b"py"], [], [], [], [])


def test_what_begins_like_a_secret_is_held_for_judging_only_as_far_as_there_is_room(tmp_path, library):
    """The rest proves nothing, and is read: a million such files would be gigabytes."""
    first, count, room = tmp_path / "00000.dat", 17_000, 64 << 20
    first.write_bytes(b"\xff" * 4096)
    for number in range(1, count):
        os.link(first, tmp_path / f"{number:05}.dat")
    st, rows = first.stat(), []
    times = [part for ns in (st.st_ctime_ns, st.st_mtime_ns) for part in divmod(ns, 1_000_000_000)]
    for number in range(count):
        head = struct.pack(">4I", *times) + entry(b"", OID, 4096)[16:60]
        head = head[:20] + struct.pack(">I", st.st_ino & 0xFFFFFFFF) + head[24:]
        rows.append((head + struct.pack(">H", 9) + b"%05d.dat" % number).ljust(72, b"\0"))
    found = adoption.taken_apart(compiled.load(library).calls, index_of(rows))
    assert found is not None
    assert found.expect(terms_for(st), 1)
    root = os.open(tmp_path, os.O_RDONLY)
    try:
        copying = adoption.new_copying(compiled.load(library).calls)
        assert copying is not None
        assert found.look(root, copying, 1)
        found.wait()
    finally:
        os.close(root)
    judged = dict(found.to_judge())
    assert len(judged) == room // (8 + 4096)
    assert [at for at, state in enumerate(found.states()) if state] == sorted(judged)


def test_the_whole_index_of_a_pack_counts_against_the_room_for_indexes(repo, library):
    """Whatever it is made of: a table of large offsets that nobody needs is held in memory, too."""
    (pack,) = (repo / ".git/objects/pack").glob("*.pack")
    index = pack.with_suffix(".idx").read_bytes()
    lies = repo / "lies.idx"
    lies.write_bytes(sealed(index[:-40] + bytes(8 * 5000) + index[-40:-20]))
    copying = adoption.new_copying(compiled.load(library).calls)
    assert copying is not None
    with lies.open("rb") as index_file, pack.open("rb") as pack_file:
        for _ in range(2):
            assert copying.add(index_file.fileno(), pack_file.fileno())
        copying.open(2 * lies.stat().st_size - 1, 0)
    assert [bool(copying.uses(at)) for at in range(2)] == [True, False]


def test_the_compiled_part_finds_every_name_that_a_rule_or_a_secret_could_mean(library):
    """And hardly another."""
    calls, rng = compiled.load(library).calls, random.Random(12)
    parts = (b"a", b"b", b"x.py", b"key", b"Key.json", b".env", b"node_modules", b"git~1", b"log", b"\xe2\x80\x8c.git")
    for _ in range(300):
        paths = {b"/".join(rng.choices(parts, k=rng.randrange(1, 4))) for _ in range(12)}
        above = {path[:at] for path in paths for at, byte in enumerate(path) if byte == 0x2F}
        index = sorted(paths - above)
        found = adoption.taken_apart(calls, index_of([entry(path, OID) for path in index]))
        assert found is not None
        terms = adoption.Terms(
            0,
            0,
            0,
            0,
            0,
            (0o100644, 0o100755),
            (0o644, 0o755, 0o755),
            SOURCE,
            PLACES,
            [b"node_modules"],
            ODD_PARTS,
            ODD_HEADS,
        )
        assert found.expect(terms, 1)
        hints = Hints(), Hints()
        for each in hints:
            each.names.update(rng.sample(parts, 1))
            each.heads.update(part[:2] for part in rng.sample(parts, rng.randrange(2)))
            each.tails.update(part[-2:] for part in rng.sample(parts, rng.randrange(2)))
            each.prefixes.update(rng.sample((b"a/", b"b/a", b"x.py/k"), rng.randrange(2)))
        folders, names, hits = found.folders(), found.paths(), set()
        rows = found.hits(*hints)
        assert rows is not None
        for at, place in rows:
            record = Packed(found.record(folders[at]))
            hits.add(join(names[at], (record.names + record.dirs)[place]))
        files = {path for path in index if is_hinted(hints[0], path) or is_odd(path)}
        assert hits - above == files
        assert hits & above == {path for path in above if is_hinted(hints[1], path) or is_odd(path, is_dir=True)}


def is_hinted(hints: Hints, path: bytes) -> bool:
    """Whether there is something to decide over a path, by rules or for its place."""
    above, _, name = path.rpartition(b"/")
    return bool(hints.meant(above, [name])) or not is_plain_place(above)


def is_odd(path: bytes, *, is_dir: bool = False) -> bool:
    """Whether there is something to decide over a name, whatever the rules say."""
    name = path.rpartition(b"/")[2]
    if is_dir:
        return name.startswith(ODD_HEADS) or name in (b"node_modules", b"git~1")
    return not is_plain_name(name) and (name.startswith(ODD_HEADS) or any(part in name.lower() for part in ODD_PARTS))


def test_both_ways_to_a_checksum_are_the_same(library):
    crc32, rng = compiled.load(library).calls.mulligan_crc32, random.Random(1)
    crc32.restype, crc32.argtypes = ctypes.c_uint32, (ctypes.c_char_p, ctypes.c_uint64, ctypes.c_int)
    for size in (*range(200), 1000, 4096, 100_001):
        data = rng.randbytes(size)
        assert crc32(data, size, 0) == crc32(data, size, 1) == zlib.crc32(data)


@pytest.fixture
def small(monkeypatch, library) -> None:
    monkeypatch.setattr(adopting, "LEAST", 1)
    monkeypatch.setattr(adopted, "COMPILED", library)


@pytest.mark.parametrize("version", ["2", "3", "4"])
def test_every_version_of_the_index_gives_the_same_checkpoint(repo, tmp_path, small, version):
    git("update-index", "--index-version", version, cwd=repo)
    adopted.settle(tmp_path)
    taken, read = adopted.both_ways(repo, tmp_path)
    assert adopted.said(taken) == adopted.said(read)
    assert taken.read < read.read // 2
    assert fsck(taken.store) == []


@pytest.mark.parametrize("damaged", [False, True])
def test_many_packs_that_are_filled_two_at_a_time_are_right(tmp_path, small, monkeypatch, damaged):
    """Each with its own bytes and the checksum of these, also where some of them have to begin anew."""
    at, rng = adopted.new_repository(tmp_path / "project"), random.Random(8)
    for number in range(300):
        (at / f"d{number % 7}").mkdir(exist_ok=True)
        (at / f"d{number % 7}" / f"file{number}.py").write_bytes(rng.randbytes(rng.choice((300, 999, 40_000))))
    adopted.commit(at)
    git("repack", "-a", "-d", "-q", "--depth=0", cwd=at)
    adopted.settle(tmp_path)
    if damaged:
        (pack,) = (at / ".git/objects/pack").glob("*.pack")
        data = bytearray(pack.read_bytes())
        for _ in range(4):
            data[rng.randrange(12, len(data) - 20)] ^= 1
        pack.chmod(0o600)
        pack.write_bytes(data)
    monkeypatch.setattr(pack_writer, "MOST_ROWS", 11)
    taken, read = adopted.both_ways(at, tmp_path)
    assert len(list((taken.store / "objects/pack").glob("*.pack"))) > 20
    assert (adopted.said(taken)["trees"], fsck(taken.store)) == (adopted.said(read)["trees"], [])
    assert 0 < taken.read < 10 if damaged else not taken.read


def test_deltas_are_taken_over_with_what_they_stand_on(tmp_path, small):
    """Python takes them, behind the compiled part's back: one file in many is like another, and no base is history."""
    repo, rng = adopted.new_repository(tmp_path / "project"), random.Random(4)
    text = rng.randbytes(6000).hex().encode()
    for number in range(30):
        (repo / f"file{number}.py").write_bytes(text + b"%d\n" % number if number % 2 else rng.randbytes(3000))
    adopted.commit(repo)
    git("repack", "-a", "-d", "-f", "-q", cwd=repo)
    adopted.settle(tmp_path)
    taken, read = adopted.both_ways(repo, tmp_path)
    assert adopted.said(taken) == adopted.said(read)
    assert taken.read == 0
    assert fsck(taken.store) == []
    packs = (taken.store / "objects/pack").glob("*.pack")
    assert sum(pack.stat().st_size for pack in packs) < 30 * 3000 + 3 * len(text)


def test_records_that_are_damaged_are_read_and_the_others_taken_over(repo, tmp_path, small):
    (pack,) = (repo / ".git/objects/pack").glob("*.pack")
    data = bytearray(pack.read_bytes())
    data[len(data) // 2] ^= 4
    pack.chmod(0o600)
    pack.write_bytes(data)
    adopted.settle(tmp_path)
    taken, read = adopted.both_ways(repo, tmp_path)
    assert adopted.said(taken)["trees"] == adopted.said(read)["trees"]
    assert 0 < taken.read < read.read
    assert fsck(taken.store) == []


def test_nothing_remains_of_packs_that_could_not_be_filled(repo, tmp_path, small, monkeypatch):
    """A disk that is full while objects are copied: everything is read, and what was begun is gone."""
    made = adoption.Copying.made
    monkeypatch.setattr(adoption.Copying, "made", lambda self, at: (28, *made(self, at)[1:]))
    adopted.settle(tmp_path)
    taken, read = adopted.both_ways(repo, tmp_path)
    assert (adopted.said(taken), taken.read) == (adopted.said(read), read.read)
    assert os.listdir(taken.store / "tmp") == []


def test_a_plain_repository_does_not_go_the_way_of_python(repo, tmp_path, small, monkeypatch):
    """Otherwise everything here would be tested twice in Python."""
    monkeypatch.setattr(adopting, "_adopt", None)
    adopted.settle(tmp_path)
    assert adopted.save(repo, tmp_path / "taken", take=True).read < 60


def test_where_there_is_no_memory_python_does_it(repo, tmp_path, small, monkeypatch):
    monkeypatch.setattr(adopting_compiled, "taken_apart", lambda *_: None)
    adopted.settle(tmp_path)
    taken, read = adopted.both_ways(repo, tmp_path)
    assert adopted.said(taken) == adopted.said(read)
    assert taken.read < read.read // 2
