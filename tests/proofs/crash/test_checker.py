"""The judge itself: each kind of breach, planted in a store or workspace that is well, is named; shared code is none."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

import checker
import mulligan
from check_trace import changed_outside
from checker import disturbed, holds, judge, neither_old_nor_new, objects_of, refs
from scenes import NEW, OLD, file, folder, link, state_of, write_state
from seals import reseal
from tools import git
from tree import put, snapshot
from users_repository import make_dirty, new_repository

HERE = Path(checker.__file__).parent
NOBODY = 1 << 22  # no process has this number: the kernel's own limit


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store and a workspace in which nothing is wrong, and everything is there that can be."""
    home = tmp_path_factory.mktemp("good")
    project = new_repository(home / "project")
    make_dirty(project)
    put(project, ".env", "TOKEN=1")
    put(project, "node_modules/m.js", "1")
    put(project, "odd/bits", "x", perm=0o640)
    (project / "odd").chmod(0o750)
    with mulligan.open(project, store=home / "store") as ws:
        ws.save("one", description="the first", state={"step": 1}, context={"a": 1}, metadata={"b": 2}, git=True)
        put(project, "more", "more")
        ws.save("two", state={"step": 2})
        ws.restore("one")
        ws.undo()
    return home


@pytest.fixture
def home(good: Path, tmp_path: Path) -> Path:
    """A copy of it, to be spoiled."""
    return Path(shutil.copytree(good, tmp_path / "spoiled", symlinks=True))


def store_of(home: Path) -> Path:
    return home / "store"


def commit_of(home: Path, name: str = "one") -> tuple[str, str]:
    """The id and the commit of a checkpoint, by its name."""
    with sqlite3.connect(home / "store" / "timeline.db") as db:
        row = db.execute("SELECT id, commit_id FROM checkpoint WHERE name=?", [name]).fetchone()
    db.close()
    return row[0], row[1]


def sql(statement: str, *values: object) -> Callable[[Path], None]:
    """Spoils the timeline."""

    def spoil(home: Path) -> None:
        with sqlite3.connect(home / "store" / "timeline.db") as db:
            db.execute(statement, values)
        db.close()
        reseal(home / "store")

    return spoil


def write(path: str, content: bytes = b"x") -> Callable[[Path], None]:
    """Leaves a file somewhere."""

    def spoil(home: Path) -> None:
        place = put(home, path, content)
        place.chmod(0o600)
        for parent in place.parents:
            if (home / "store") in parent.parents:
                parent.chmod(0o700)

    return spoil


def a_pack(home: Path, ending: str = ".pack") -> Path:
    """The largest pack, or its index."""
    packs = (home / "store/objects/pack").glob("*.pack")
    return max(packs, key=lambda path: path.stat().st_size).with_suffix(ending)


def rewrite(ending: str, change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    """Changes the bytes of a pack or an index."""

    def spoil(home: Path) -> None:
        path = a_pack(home, ending)
        path.write_bytes(change(path.read_bytes()))

    return spoil


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def crc_flipped(index: bytes) -> bytes:
    """An index that is whole, but for one checksum of a record in it."""
    import hashlib

    count = int.from_bytes(index[8 + 1020 : 8 + 1024], "big")
    body = flipped(index, 8 + 1024 + 20 * count)[:-20]
    return body + hashlib.sha1(body).digest()


def recommitted(part: str, content: bytes | None, mode: str = "100644") -> Callable[[Path], None]:
    """Gives checkpoint `one` another commit, in which one path of its tree has other bytes (None: is gone)."""

    def spoil(home: Path) -> None:
        store = home / "store"
        name, commit = commit_of(home)
        env = {"GIT_DIR": str(store), "GIT_INDEX_FILE": str(home / "scratch")}
        git("read-tree", commit, **env)
        if content is None:
            git("rm", "-rq", "--cached", part, **env)
        else:
            blob = git("hash-object", "-w", "--stdin", stdin=content, **env).decode().strip()
            git("update-index", "--add", "--cacheinfo", f"{mode},{blob},{part}", **env)
        tree = git("write-tree", "--missing-ok", **env).decode().strip()
        new = git("commit-tree", tree, "-m", "other", **env).decode().strip()
        git("update-ref", f"refs/checkpoints/{name}", new, **env)
        sql("UPDATE checkpoint SET commit_id=? WHERE id=?", new, name)(home)

    return spoil


def about(**changes: object) -> Callable[[Path], None]:
    """Rewrites checkpoint.json."""

    def spoil(home: Path) -> None:
        said = json.loads(git("--git-dir", home / "store", "cat-file", "-p", f"{commit_of(home)[1]}:checkpoint.json"))
        recommitted("checkpoint.json", json.dumps(said | changes).encode())(home)

    return spoil


def journal(**plan: str) -> Callable[[Path], None]:
    packed = zlib.compress(json.dumps(plan).encode())
    return sql("INSERT INTO journal VALUES (1, 'applying', ?, x'')", packed)


BREACHES: dict[str, tuple[Callable[[Path], object], str]] = {
    "a bit of a pack": (rewrite(".pack", lambda data: flipped(data, len(data) // 2)), "do not have its checksum"),
    "a pack cut short": (rewrite(".pack", lambda data: data[:-30]), "checksum"),
    "a pack emptied": (rewrite(".pack", lambda _: b""), "no pack"),
    "a pack gone": (lambda home: a_pack(home).unlink(), "half a pack"),
    "what was in a pack": (lambda home: [a_pack(home, end).unlink() for end in (".pack", ".idx")], "lacks"),
    "an index gone": (lambda home: a_pack(home, ".idx").unlink(), "half a pack"),
    "a bit of an index": (rewrite(".idx", lambda data: flipped(data, 1500)), "its index"),
    "a checksum in an index": (rewrite(".idx", crc_flipped), "the record of"),
    "a ref gone": (lambda home: (home / "store/refs/checkpoints" / commit_of(home)[0]).unlink(), "has no ref"),
    "a ref too many": (
        lambda home: write("store/refs/checkpoints/00ff", commit_of(home)[1].encode() + b"\n")(home),
        "has no row",
    ),
    "a ref of another": (
        lambda home: write(f"store/refs/checkpoints/{commit_of(home)[0]}", commit_of(home, "two")[1].encode() + b"\n")(
            home
        ),
        "row says",
    ),
    "a ref without bytes": (
        lambda home: write(f"store/refs/checkpoints/{commit_of(home)[0]}", b"")(home),
        "empty: refs/checkpoints",
    ),
    "a row gone": (sql("DELETE FROM checkpoint WHERE name='one'"), "has no row"),
    "a row of nothing": (sql("UPDATE checkpoint SET commit_id=? WHERE name='one'", "1" * 40), "lacks"),
    "a row with another tree": (
        sql("UPDATE checkpoint SET files_tree=? WHERE name='one'", bytes(20)),
        "files: the row",
    ),
    "a row with another name": (sql("UPDATE checkpoint SET name='x' WHERE name='one'"), "name: the row"),
    "a row with other state": (sql("UPDATE checkpoint SET state='{}' WHERE name='one'"), "state: the row"),
    "a row with other bits": (sql("UPDATE checkpoint SET defaults='[1,2,3]' WHERE name='one'"), "defaults: the row"),
    "a position of nothing": (sql("UPDATE meta SET value='x' WHERE key='position'"), "position names x"),
    "a parent of nothing": (sql("UPDATE checkpoint SET parent='x'"), "parent names x"),
    "an undo to nothing": (sql("UPDATE move SET id='x'"), "move names x"),
    "a redo to nothing": (sql("INSERT INTO redo (id, what, seal) VALUES ('x', 'files', x'')"), "redo names x"),
    "a restore under way": (
        lambda home: journal(target=commit_of(home)[0], safety=commit_of(home)[0])(home),
        "a restore is under way",
    ),
    "a journal of nothing": (journal(target="x", safety="y"), "journal names x"),
    "a pin of the dead": (sql("INSERT INTO pin VALUES ('x', ?, x'')", NOBODY), "pinned by process"),
    "another store's timeline": (sql("UPDATE meta SET value='x' WHERE key='store_id'"), "another store"),
    "a timeline of garbage": (write("store/timeline.db", b"garbage" * 999), "timeline: "),
    "a part gone": (recommitted("files/file", None), "files: the row"),
    "a part too many": (recommitted("other", b"x"), "an unknown part"),
    "checkpoint.json": (about(kind="step"), "kind: the row"),
    "a key too many": (about(more=1), "other keys"),
    "checkpoint.json of garbage": (recommitted("checkpoint.json", b"{"), "cannot be read"),
    "state/": (recommitted("state/step.json", b"7"), "state: the row"),
    "not-captured.json": (recommitted("not-captured.json", b"[]"), "not_captured: the row"),
    "sealed/ in the plain": (recommitted("sealed/.env", b"TOKEN=1"), "does not hold '.env' as it is listed"),
    "sealed/ without one": (recommitted("sealed/.env", None), "does not hold '.env' as it is listed"),
    "sealed/ with one more": (recommitted("sealed/more", b"x"), "which is not listed"),
    "in files/ too": (recommitted("files/.env", b"TOKEN=1"), "in files/ and in sealed/"),
    "modes/ of nobody": (recommitted("modes/f", b"0600 nobody"), "modes/ speaks of"),
    "modes/ of garbage": (recommitted("modes/f", b"what"), "modes/ speaks of"),
    "modes/ against files/": (recommitted("modes/f", b"0755 file"), "modes/ contradicts"),
    "a submodule": (recommitted("files/sub", b"x", "160000"), "cannot be read"),
    "git/index": (recommitted("git/index", b"DIRC"), "no whole index"),
    "git/position.json": (recommitted("git/position.json", b"{}"), "git/position.json cannot be read"),
    "a file for others": (lambda home: (home / "store/config").chmod(0o644), "mode of config"),
    "a directory for others": (lambda home: (home / "store/refs").chmod(0o755), "mode of refs"),
    "a link": (lambda home: (home / "store/cache").unlink() or (home / "store/cache").symlink_to("x"), "mode of cache"),
    "left in tmp/": (write("store/tmp/pack-1"), "left in tmp/"),
    "left beside packs": (write("store/objects/pack/tmp_pack_1"), "left in objects/pack/"),
    "left at the top": (write("store/timeline.db.new"), "unknown: timeline.db.new"),
    "a loose object": (write("store/objects/ab/" + "0" * 38), "a loose object"),
    "git's lock": (write("store/refs/checkpoints/x.lock"), "left lock"),
    "left in the workspace": (write("project/dir/.mulligan-0123456789ab-1"), "left in the workspace"),
    "left in .git": (write("project/.git/mulligan-0123456789ab-1"), "left in .git"),
}


def test_a_store_that_is_well_is_well(home: Path) -> None:
    assert judge(home / "store", home / "project") == []
    assert judge(home / "store", home / "project", at_rest=False) == []


@pytest.mark.parametrize("breach", BREACHES)
def test_a_breach_is_named(home: Path, breach: str) -> None:
    spoil, said = BREACHES[breach]
    spoil(home)
    found = judge(home / "store", home / "project")
    assert any(said in line for line in found), found
    assert all("Traceback" not in line for line in found)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_another_user_is_named(home: Path) -> None:
    os.chown(home / "store/config", 12345, -1)
    assert "owner of config: 12345" in judge(home / "store")


def test_a_lock_that_somebody_holds_is_named(home: Path) -> None:
    with (home / "store/lock").open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert judge(home / "store") == ["the lock is held"]


#: What a crash may leave for the next writing command, and what it may not.
ALLOWED = ("left in tmp/", "a restore under way", "an index gone", "a pin of the dead")
NEVER = (
    "a pack gone",
    "what was in a pack",
    "a ref gone",
    "a ref without bytes",
    "a row gone",
    "a bit of a pack",
    "a journal of nothing",
)


@pytest.mark.parametrize("breach", ALLOWED)
def test_what_the_next_command_ends_is_no_breach_right_after_a_crash(home: Path, breach: str) -> None:
    if breach == "an index gone":  # of a pack that nothing names yet
        write("store/objects/pack/pack-" + "0" * 40 + ".pack")(home)
    else:
        BREACHES[breach][0](home)
    assert judge(home / "store", home / "project", at_rest=False) == []
    assert judge(home / "store", home / "project") != []


@pytest.mark.parametrize("breach", NEVER)
def test_what_nothing_may_leave_is_a_breach_at_any_instant(home: Path, breach: str) -> None:
    BREACHES[breach][0](home)
    assert judge(home / "store", home / "project", at_rest=False) != []


def test_a_ref_that_is_owed_is_no_breach_right_after_a_crash(home: Path) -> None:
    name, commit = commit_of(home)
    sql("INSERT OR REPLACE INTO fresh_ref VALUES (?, ?, x'')", name, commit)(home)
    BREACHES["a ref gone"][0](home)
    assert judge(home / "store") == judge(home / "store", at_rest=False, returned=True) == [f"row {name} has no ref"]
    assert judge(home / "store", at_rest=False) == []


# -- workspaces -------------------------------------------------------------------------------------


def test_old_and_new_are_each_a_state_between_them() -> None:
    assert neither_old_nor_new(OLD, OLD, NEW) == neither_old_nor_new(NEW, OLD, NEW) == []
    assert neither_old_nor_new({**OLD, **NEW}, OLD, NEW) == []


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("modified", file("ol")),
        ("modified", None),
        ("modified", file("")),
        ("bits", file("bits", 0o644)),
        ("file_to_link", link("sam")),
        ("same", link("same")),
        ("stranger", file("x")),
    ],
)
def test_a_path_in_between_is_named(path: str, value: tuple[str, int, bytes] | None) -> None:
    now = {name: node for name, node in {**OLD, path: value}.items() if node is not None}
    assert [line.split(":")[0] for line in neither_old_nor_new(now, OLD, NEW)] == [path]


def test_a_path_that_goes_on_one_side_may_be_gone() -> None:
    now = {name: node for name, node in OLD.items() if name not in {"deleted", "dir_to_file/deep/inner"}}
    assert neither_old_nor_new(now, OLD, NEW) == []


def test_a_bystander_that_was_touched_is_named(tmp_path: Path) -> None:
    put(tmp_path, "a", "a")
    put(tmp_path, "b", "b")
    before = snapshot(tmp_path)
    assert disturbed(snapshot(tmp_path), before) == []
    os.utime(tmp_path / "a", (1, 1))
    (tmp_path / "b").unlink()
    assert disturbed(snapshot(tmp_path), before) == ["a was touched", "b was touched"]


def test_a_checkpoint_is_compared_with_what_it_must_hold(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    write_state(project, OLD)
    with mulligan.open(project, store=tmp_path / "store") as ws:
        saved = ws.save("old")
    objects = objects_of(tmp_path / "store")
    assert refs(tmp_path / "store") == {saved.id: saved.commit}
    assert holds(objects, saved.commit, state_of(project)) == []
    for path, value in (("same", file("sama")), ("bits", file("bits")), ("dir_bits", folder()), ("more", link("x"))):
        assert [line.split(":")[0] for line in holds(objects, saved.commit, {**OLD, path: value})] == [path]
    assert holds(objects, saved.commit, {k: v for k, v in OLD.items() if k != "same"}) != []
    assert holds(objects, "0" * 40, OLD) != []


# -- traces -----------------------------------------------------------------------------------------

INSIDE = """
7 openat(AT_FDCWD</w/p>, "a", O_WRONLY|O_CREAT, 0600) = 3</w/p/a>
7 openat(AT_FDCWD</w/p>, "/etc/passwd", O_RDONLY) = 3</etc/passwd>
7 write(3</w/p/a>, "/etc/passwd", 11) = 11
7 write(1<pipe:[123]>, "x", 1) = 1
7 renameat2(4</w/p>, "a", 5</w/s>, "b", RENAME_NOREPLACE) = 0
7 symlinkat("/etc/passwd", 4</w/p>, "l") = 0
7 unlink("/w/s/timeline.db-wal") = 0
7 +++ exited with 0 +++
"""
OUTSIDE = """
7 openat(AT_FDCWD</w/p>, "../a", O_WRONLY|O_CREAT, 0600) = 3</w/a>
7 openat(AT_FDCWD</w/p>, "/etc/passwd", O_RDWR) = -1 EACCES
7 write(3</w/pp/a>, "x", 1) = 1
7 renameat2(4</w/p>, "a", 5</w>, "b", RENAME_NOREPLACE) = 0
7 symlinkat("a", 4</w>, "l") = 0
7 unlink("/w/other") = 0
7 fchmod(3</etc>, 0700) = 0
"""


def test_a_change_outside_is_named() -> None:
    assert changed_outside(INSIDE.splitlines(), ["/w/p", "/w/s"]) == []
    lines = OUTSIDE.strip().splitlines()
    assert [line for line in lines if not changed_outside([line], ["/w/p", "/w/s"])] == []


def test_the_judge_shares_no_code_with_the_package() -> None:
    script = "import checker, check_trace, sys; sys.exit(any(name.startswith('mulligan') for name in sys.modules))"
    env = {"PYTHONPATH": str(HERE), "PATH": os.environ["PATH"]}
    assert subprocess.run([sys.executable, "-c", script], env=env, check=False).returncode == 0
