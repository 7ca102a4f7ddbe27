"""
Opens stores that somebody made who means harm, and then a small store with bytes changed at random, again and again.

    python tests/proofs/hostile/hostile_stores.py [--size N] [--seed N] [--only NAME ...] [--no-corpus]

The corpus first: bombs, deltas in circles and without end, sizes and offsets that lie, trees without end, indexes that
contradict themselves, links and pipes in the place of files, timelines of other people. Then `--size` mutations of packs,
indexes, refs, cache and timeline, many bytes each. Every command on each of them, in a process of its own that is watched:
it ends by itself within the CPU time it gets, with an answer or with an error of ours, and within 256 MB of memory.
"""

from __future__ import annotations

import json
import os
import random
import resource
import shutil
import signal
import sqlite3
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "support"))

from specimen import Specimen

import mulligan
from evil_packs import BLOB, COMMIT, TREE, copying, ofs_delta, oid, plant, ref_delta, size_of, tree, whole
from seals import reseal
from tally import Tally, parser, workplace

MOST_MEMORY_KB = 256 << 10
MOST_SECONDS = 30
_MB = 1 << 20


def _named(store: Path) -> tuple[str, str]:
    """Some checkpoint: its id and its commit."""
    with sqlite3.connect(store / "timeline.db") as database:
        row = database.execute("SELECT id, commit_id FROM checkpoint WHERE name='cp1'").fetchone()
    database.close()
    return row[0], row[1]


def _point(store: Path, commit: bytes, **columns: object) -> None:
    """Makes ref and row of a checkpoint name another commit, sealed."""
    name, _ = _named(store)
    (store / "refs/checkpoints" / name).write_text(commit.hex() + "\n")
    changes = {"commit_id": commit.hex(), **columns}
    with sqlite3.connect(store / "timeline.db") as database:
        for column, value in changes.items():
            database.execute(f"UPDATE checkpoint SET {column}=? WHERE id=?", (value, name))
    database.close()
    reseal(store)


def _with_root(store: Path, files: bytes, records: list[bytes], names: list[bytes]) -> None:
    """Plants objects, and makes a checkpoint whose files are one of them."""
    about = json.dumps({
        "format": 1, "id": _named(store)[0], "name": "cp1", "description": "d", "kind": "step", "created_ns": 1, "parent": None,
        "complete": True, "context": {}, "metadata": {}, "git": None, "defaults": [420, 493, 493],
    }).encode()  # fmt: skip
    root = tree((b"100644", b"checkpoint.json", oid(BLOB, about)), (b"40000", b"files", files))
    commit = b"tree %s\nauthor a <a> 1 +0000\ncommitter a <a> 1 +0000\n\nm\n" % oid(TREE, root).hex().encode()
    more = [whole(BLOB, about), whole(TREE, root), whole(COMMIT, commit)]
    plant(store, [*records, *more], [*names, oid(BLOB, about), oid(TREE, root), oid(COMMIT, commit)])
    _point(store, oid(COMMIT, commit), files_tree=files)


def _file(store: Path, blob: bytes, records: list[bytes], names: list[bytes]) -> None:
    """Makes a checkpoint with one file, whose blob is as given."""
    files = tree((b"100644", b"file", blob))
    _with_root(store, oid(TREE, files), [*records, whole(TREE, files)], [*names, oid(TREE, files)])


def bomb(store: Path) -> None:
    """A blob that claims ten bytes and inflates to a gigabyte."""
    blob = oid(BLOB, b"innocent")
    _file(store, blob, [whole(BLOB, bytes(_MB), 10) + zlib.compress(bytes(64 * _MB), 9)], [blob])


def honest_bomb(store: Path) -> None:
    """A blob of 200 MB of zeros, as its header says, under a wrong name."""
    blob = oid(BLOB, b"innocent")
    _file(store, blob, [whole(BLOB, bytes(200 * _MB))], [blob])


def lying_size(store: Path) -> None:
    """A blob whose header claims an exabyte."""
    blob = oid(BLOB, b"innocent")
    _file(store, blob, [whole(BLOB, b"innocent", 1 << 60)], [blob])


def endless_header(store: Path) -> None:
    """A record header that goes on and on."""
    blob = oid(BLOB, b"innocent")
    _file(store, blob, [b"\xbf" + b"\xff" * 4096], [blob])


def delta_circle(store: Path) -> None:
    """Two deltas, each the base of the other."""
    one, two = oid(BLOB, b"one"), oid(BLOB, b"two")
    delta = size_of(5) + size_of(5) + b"\x05hello"
    _file(store, one, [ref_delta(two, delta), ref_delta(one, delta)], [one, two])


def delta_on_itself(store: Path) -> None:
    """A delta whose base is itself, by its id."""
    one = oid(BLOB, b"one")
    _file(store, one, [ref_delta(one, size_of(5) + size_of(5) + b"\x05hello")], [one])


def delta_chain(store: Path) -> None:
    """Six thousand deltas, each upon the one before."""
    records, content = [whole(BLOB, b"hello")], size_of(5) + size_of(5) + b"\x05hello"
    length = len(ofs_delta(40, content))
    distance = len(records[0])
    for _ in range(6_000):
        records.append(ofs_delta(distance, content))
        distance = length
    names = [oid(BLOB, b"%d" % number) for number in range(len(records))]
    _file(store, names[-1], records, names)


def delta_bomb(store: Path) -> None:
    """A few hundred bytes of deltas that multiply to many gigabytes."""
    records, size = [whole(BLOB, bytes(0xFFFF))], 0xFFFF
    names = [oid(BLOB, bytes(0xFFFF))]
    for number in range(2):
        records.append(ref_delta(names[-1], copying(size, size * 200)))
        names.append(oid(BLOB, b"%d" % number))
        size *= 200
    _file(store, names[-1], records, names)


def delta_outside(store: Path) -> None:
    """A delta that copies from beyond its base, and one whose base lies before the pack."""
    one, two = oid(BLOB, b"one"), oid(BLOB, b"two")
    base = whole(BLOB, b"short")
    outside = copying(5, 0xFFFF, offset=1 << 30)
    _file(
        store,
        one,
        [base, ref_delta(oid(BLOB, b"short"), outside), ofs_delta(1 << 40, outside)],
        [oid(BLOB, b"short"), one, two],
    )


def cyclic_tree(store: Path) -> None:
    """A tree that says it holds itself: its id cannot be right, and nobody must walk it first."""
    name = bytes(range(20))
    _with_root(store, name, [whole(TREE, tree((b"40000", b"again", name)))], [name])


def deep_tree(store: Path) -> None:
    """Twenty thousand directories, each in the other."""
    records, names, below = [], [], oid(TREE, b"")
    records.append(whole(TREE, b""))
    names.append(below)
    for _ in range(20_000):
        data = tree((b"40000", b"d", below))
        below = oid(TREE, data)
        records.append(whole(TREE, data))
        names.append(below)
    _with_root(store, below, records, names)


def wide_tree(store: Path) -> None:
    """Forty directories, each holding the next one twice: a million millions of paths."""
    blob = oid(BLOB, b"x")
    below = tree((b"100644", b"f", blob))
    records, names = [whole(BLOB, b"x"), whole(TREE, below)], [blob, oid(TREE, below)]
    for _ in range(40):
        data = tree((b"40000", b"a", names[-1]), (b"40000", b"b", names[-1]))
        records.append(whole(TREE, data))
        names.append(oid(TREE, data))
    _with_root(store, names[-1], records, names)


def odd_trees(store: Path) -> None:
    """A name twice, names out of order, an empty name, a mode nobody has, an id cut off."""
    blob = oid(BLOB, b"x")
    bad = [
        tree((b"100644", b"a", blob), (b"100644", b"a", blob)),
        tree((b"100644", b"b", blob), (b"100644", b"a", blob)),
        tree((b"100644", b"", blob)),
        tree((b"777777", b"a", blob)),
        tree((b"100644", b"a", blob[:5])),
    ]
    outer = tree(*((b"40000", b"%d" % number, oid(TREE, data)) for number, data in enumerate(bad)))
    objects = [*((TREE, data) for data in [*bad, outer]), (BLOB, b"x")]
    _with_root(store, oid(TREE, outer), [whole(*each) for each in objects], [oid(*each) for each in objects])


def large_tree(store: Path) -> None:
    """A directory of 40,000 names: no bomb, and what a restore of it takes grows with it (docs/explanation/limits.md)."""
    blob = oid(BLOB, b"x")
    data = tree(*((b"100644", b"%07d" % number, blob) for number in range(40_000)))
    _with_root(store, oid(TREE, data), [whole(BLOB, b"x"), whole(TREE, data)], [blob, oid(TREE, data)])


def long_commit(store: Path) -> None:
    """A commit with a million header lines."""
    commit = b"tree %s\n" % (b"0" * 40) + b"committer x\n" * 1_000_000
    plant(store, [whole(COMMIT, commit)], [oid(COMMIT, commit)])
    _point(store, oid(COMMIT, commit))


def json_bomb(store: Path) -> None:
    """Metadata of brackets, nested and side by side."""
    for text in (b"[" * 200_000, b"[" + b"[]," * (20 * _MB) + b"0]"):
        root = tree((b"100644", b"checkpoint.json", oid(BLOB, text)), (b"40000", b"files", oid(TREE, b"")))
        commit = b"tree %s\n\nm\n" % oid(TREE, root).hex().encode()
        records = [whole(BLOB, text), whole(TREE, root), whole(TREE, b""), whole(COMMIT, commit)]
        plant(store, records, [oid(BLOB, text), oid(TREE, root), oid(TREE, b""), oid(COMMIT, commit)])
        _point(store, oid(COMMIT, commit))


def index_of_lies(store: Path) -> None:
    """Indexes with offsets outside, a first table without sense, and far too large a count."""
    blob = whole(BLOB, b"x")
    name = oid(BLOB, b"x")
    plant(store, [blob], [name], offsets=[1 << 30])
    plant(store, [blob, blob], [name, oid(BLOB, b"y")], fanout=[0xFFFFFFFF] * 256)
    plant(store, [blob, blob, blob], [name], fanout=[5, *[1] * 255])
    plant(store, [blob] * 4, [name], count=0xFFFFFFFF)
    plant(store, [blob] * 5, [name, oid(BLOB, b"y")], offsets=[0x80000001, 0x80000002])


def swallowed_pack(store: Path) -> None:
    """An index without an end, and a pack of zeros without one: sparse files of a terabyte."""
    stem = store / "objects/pack" / f"pack-{'ab' * 20}"
    for ending, size in ((".pack", 1 << 40), (".idx", 1 << 40)):
        with open(stem.with_suffix(ending), "wb") as file:
            file.truncate(size)


def no_files(store: Path) -> None:
    """Links, pipes and directories in the place of files."""
    packs = sorted((store / "objects/pack").glob("*.pack"))
    packs[0].unlink()
    packs[0].symlink_to("/dev/zero")
    packs[1].unlink()
    os.mkfifo(packs[1])
    index = packs[0].with_suffix(".idx")
    index.unlink()
    index.symlink_to("/dev/zero")
    for name in ("HEAD", "packed-refs", "cache"):
        (store / name).unlink()
    (store / "HEAD").symlink_to("/dev/zero")
    os.mkfifo(store / "packed-refs")
    (store / "cache").mkdir()


def ref_of_zeros(store: Path) -> None:
    """Refs that never end, refs that are pipes, and twenty thousand of them in one file."""
    name, _ = _named(store)
    place = store / "refs/checkpoints"
    (place / name).unlink(missing_ok=True)
    (place / name).symlink_to("/dev/zero")
    os.mkfifo(place / "pipe")
    with open(place / "huge", "wb") as file:
        file.truncate(1 << 40)
    lines = b"".join(b"%040x refs/checkpoints/%x\n" % (number, number) for number in range(20_000))
    (store / "packed-refs").write_bytes(b"# pack-refs with: peeled fully-peeled sorted \n" + lines)


def config_of_lies(store: Path) -> None:
    """A configuration of other people's, far too long, with no line of ours."""
    (store / "config").write_bytes(
        b"[core]\n\tfsmonitor = touch /tmp/owned\n[include]\n\tpath = /etc/passwd\n" * 30_000
    )


def _sql(*statements: str) -> Callable[[Path], None]:
    def make(store: Path) -> None:
        with sqlite3.connect(store / "timeline.db") as database:
            for statement in statements:
                database.execute(statement)
        database.close()

    return make


def long_values(store: Path) -> None:
    """A timeline with values of ten megabytes, sealed."""
    _sql("UPDATE checkpoint SET description=CAST(zeroblob(10000000) AS TEXT) WHERE name='cp1'")(store)
    reseal(store)


def packed_bombs(store: Path) -> None:
    """Lists in the timeline that inflate to a gigabyte, sealed."""
    bomb = zlib.compress(bytes(1 << 30), 9)
    with sqlite3.connect(store / "timeline.db") as database:
        database.execute("UPDATE checkpoint SET changes=?, not_captured=?", (bomb, bomb))
        database.execute("INSERT INTO journal VALUES (1, 'applying', ?, x'')", (bomb,))
    database.close()
    reseal(store)


def wrong_types(store: Path) -> None:
    """Every column holds what it never should, sealed."""
    values = ["x'00'", "1.5", "'text'", "-9223372036854775808"]
    with sqlite3.connect(store / "timeline.db") as database:
        ids = [row[0] for row in database.execute("SELECT seq FROM checkpoint")]
        columns = [row[1] for row in database.execute("PRAGMA table_info(checkpoint)")][2:-1]
        for number, column in enumerate(columns):
            where = ids[number % len(ids)]
            database.execute(f"UPDATE checkpoint SET {column}={values[number % 4]} WHERE seq={where}")
        database.execute("UPDATE checkpoint SET state='{' WHERE name='cp2'")
        database.execute("UPDATE meta SET value=x'ff' WHERE key='epoch'")
        database.execute("UPDATE move SET what=5")
    database.close()
    reseal(store)


def many_twice(store: Path) -> None:
    """A table whose inner pages all lead to the same leaves: more rows than there are atoms."""
    path = store / "timeline.db"
    with sqlite3.connect(path) as database:
        for number in range(60_000):
            database.execute("INSERT INTO pin VALUES (?, ?, x'')", ("x" * 40, number))
        root = database.execute("SELECT rootpage FROM sqlite_master WHERE name='pin'").fetchone()[0]
    database.close()
    data, size = bytearray(path.read_bytes()), 4096
    pages = [number for number in range(1, len(data) // size) if data[number * size] == 5]  # inner pages of tables
    for number in pages:
        cells = int.from_bytes(data[number * size + 3 : number * size + 5], "big")
        for cell in range(cells):
            at = number * size + int.from_bytes(data[number * size + 12 + 2 * cell :][:2], "big")
            if number != root - 1:
                data[at : at + 4] = (pages[(pages.index(number) + 1) % len(pages)] + 1).to_bytes(4, "big")
            else:
                data[at : at + 4] = (pages[-1] + 1).to_bytes(4, "big")
    path.write_bytes(data)


CORPUS: dict[str, Callable[[Path], object]] = {
    make.__name__: make
    for make in (
        *(bomb, honest_bomb, lying_size, endless_header, delta_circle, delta_on_itself, delta_chain, delta_bomb),
        *(delta_outside, cyclic_tree, deep_tree, wide_tree, odd_trees, large_tree, long_commit, json_bomb),
        *(
            index_of_lies,
            swallowed_pack,
            no_files,
            ref_of_zeros,
            config_of_lies,
            long_values,
            packed_bombs,
            wrong_types,
        ),
        many_twice,
    )
} | {
    "a trigger": _sql("CREATE TRIGGER t AFTER INSERT ON checkpoint BEGIN DELETE FROM checkpoint; END"),
    "a view without end": _sql(
        "ALTER TABLE move RENAME TO moved",
        "CREATE VIEW move AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM n) SELECT x AS seq, 'a' AS id,"
        " 'files' AS what, x'' AS seal FROM n",
    ),
    "another schema": _sql("DROP TABLE checkpoint", "CREATE TABLE checkpoint (id)"),
}


# -- what is asked of them --------------------------------------------------------------------------


def ask(project: Path, store: Path) -> list[str]:
    """Every command on a hostile store; what is not an answer or an error of ours."""
    wrong = []
    with mulligan.open(project, store=store) as ws:

        def cats() -> None:
            for cp in ws.log():
                for path in ("file", "src/changes.txt", "d/d/d"):
                    try:
                        ws.cat(cp, path)
                    except mulligan.MulliganError:
                        continue

        verbs: dict[str, Callable[[], object]] = {
            "log": lambda: [cp.to_dict() for cp in ws.log()], "status": ws.status, "cat": cats, "check": ws.check,
            "plan": lambda: ws.plan("cp1"), "diff": lambda: ws.diff("cp1", "cp2"), "save": lambda: ws.save("more"),
            "restore": lambda: ws.restore("cp1"), "undo": ws.undo, "delete": lambda: ws.delete("cp2"), "prune": ws.prune,
            "forget": lambda: ws.forget("tracked"), "doctor": ws.doctor, "check again": ws.check,
        }  # fmt: skip
        for name, verb in verbs.items():
            try:
                verb()
            except mulligan.MulliganError as error:
                if not error.message.rstrip().endswith((".", "…")):
                    wrong.append(f"{name}: not a sentence: {error.message!r}")
            except Exception as error:  # noqa: BLE001 - a bare error is what is looked for
                at = error.__traceback__
                while at is not None and at.tb_next is not None:
                    at = at.tb_next
                where = f"{os.path.basename(at.tb_frame.f_code.co_filename)}:{at.tb_lineno}" if at else "?"
                wrong.append(f"{name}: {type(error).__name__}: {str(error)[:200]} ({where})")
    return wrong


class Watched:
    """What a process on a hostile store came to."""

    def __init__(self, project: Path, store: Path) -> None:
        reading, writing = os.pipe()
        pid = os.fork()
        if not pid:
            _in_child(project, store, writing)
        os.close(writing)
        with os.fdopen(reading) as answer:
            said = answer.read()
        _, status, used = os.wait4(pid, 0)
        self.wrong: list[str] = json.loads(said) if said else []
        self.memory_kb, self.seconds = used.ru_maxrss, used.ru_utime + used.ru_stime
        if os.WIFSIGNALED(status):
            self.wrong.append(f"ended by {signal.Signals(os.WTERMSIG(status)).name} after {self.seconds:.0f} s of CPU")
        elif status:
            self.wrong.append(f"exit code {os.waitstatus_to_exitcode(status)}")
        if self.memory_kb > MOST_MEMORY_KB:
            self.wrong.append(f"{self.memory_kb >> 10} MB of memory")


def _in_child(project: Path, store: Path, writing: int) -> None:
    code = 3
    try:
        resource.setrlimit(resource.RLIMIT_CPU, (MOST_SECONDS, MOST_SECONDS + 1))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        wrong = ask(project, store)
        with os.fdopen(writing, "w") as answer:
            json.dump(wrong, answer)
        code = 0
    finally:
        os._exit(code)


# -- random mutations -------------------------------------------------------------------------------


def mutated(data: bytes, chance: random.Random) -> bytes:
    """A file with up to a hundred bytes changed, put in, taken out, or copied from elsewhere in it."""
    raw = bytearray(data)
    for _ in range(chance.choice([1, 2, 5, 20, 100])):
        at, length = chance.randrange(len(raw) + 1), chance.choice([1, 1, 2, 4, 8, 64])
        how = chance.randrange(6)
        if how == 0:
            raw[at : at + length] = chance.randbytes(length)
        elif how == 1:
            raw[at:at] = chance.randbytes(length)
        elif how == 2:
            del raw[at : at + length]
        elif how == 3:
            there = chance.randrange(len(raw) + 1)
            raw[at : at + length] = raw[there : there + length]
        elif how == 4:
            raw[at : at + length] = chance.choice([b"\xff", b"\0", b"\x80", b"\x7f"]) * length
        else:
            raw[at : at + 4] = chance.choice([0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF]).to_bytes(4, "big")
    return bytes(raw)


def fuzz(specimen: Specimen, store: Path, chance: random.Random) -> str:
    """Changes one or two files of a store at random; seals and checksums may be made to fit. Says what was done."""
    paths = chance.sample(sorted(specimen.files), chance.choice([1, 1, 1, 2]))
    for path in paths:
        (store / path).write_bytes(mutated(specimen.files[path], chance))
        if path.endswith(".pack") and chance.random() < 0.5:
            _true_checksum(store / path)
    return " and ".join(paths)


def _true_checksum(path: Path) -> None:
    import hashlib

    data = path.read_bytes()[:-20]
    path.write_bytes(data + hashlib.sha1(data).digest())


def main() -> int:
    """Runs the corpus and then the mutations."""
    options = parser(__doc__, 50)
    options.add_argument("--only", choices=CORPUS, action="append")
    options.add_argument("--no-corpus", action="store_true", help="mutations alone")
    given = options.parse_args()
    with workplace(given.base) as place:
        specimen = Specimen(place)
        chance = random.Random(given.seed)
        chosen = given.only or ([] if given.no_corpus else [*CORPUS])
        tally = Tally("hostile stores", len(chosen) + (0 if given.only else given.size), enough=given.enough)
        store, most, longest = place / "hostile", 0, 0.0
        trials = [(name, CORPUS[name]) for name in chosen]
        trials += [] if given.only else [(f"mutation {number}", None) for number in range(given.size)]
        for name, make in trials:
            shutil.rmtree(store, ignore_errors=True)
            shutil.copytree(specimen.store, store)
            what = name if make is not None and make(store) is None else f"{name}: {fuzz(specimen, store, chance)}"
            watched = Watched(specimen.project, store)
            specimen.put_back_workspace()
            most, longest = max(most, watched.memory_kb), max(longest, watched.seconds)
            tally.did(1, corpus=int(make is not None), mutations=int(make is None))
            tally.broke([f"{what}: {line}" for line in watched.wrong[:4]])
            if given.only or make is not None:
                print(f"  {name}: {watched.memory_kb >> 10} MB, {watched.seconds:.1f} s", flush=True)
            if tally.over and len(tally.broken) >= given.enough:
                break
        tally.counts["most_memory_MB"] = most >> 10
        tally.counts["longest_ms"] = int(longest * 1000)
        return tally.end()


if __name__ == "__main__":
    sys.exit(main())
