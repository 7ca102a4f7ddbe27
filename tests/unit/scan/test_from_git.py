"""A first checkpoint that begins with what git knows: what is taken over, what is read all the same, and when git is not believed."""

from __future__ import annotations

import hashlib
import os
import random
import time
from pathlib import Path

import pytest

import adopted
import mulligan
from adopted import KEY, TOKEN, commit, new_repository, save, settle
from mulligan.scan import from_git
from plain_git import fsck, objects_of, run_git
from tools import cli_json, git
from tree import contents

COUNT = 12


@pytest.fixture(autouse=True)
def believe_in_small_repositories(monkeypatch):
    monkeypatch.setattr(from_git, "LEAST", 1)


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A clean repository, packed, of files that nothing is special about."""
    at = new_repository(tmp_path / "project")
    for number in range(COUNT):
        put(at, f"src/part{number % 3}/file{number}.py", number)
    commit(at, "-f")
    settle(tmp_path)
    return at


def put(at: Path, path: str, number: int, data: bytes | None = None) -> Path:
    """Writes a file that is long enough not to be looked at."""
    file = at / path
    file.parent.mkdir(parents=True, exist_ok=True)
    rng = random.Random(number)
    file.write_bytes(b"# %d\n" % number + rng.randbytes(300).hex().encode() + b"\n" if data is None else data)
    return file


def blob(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def brought_back(at: Path, store: Path) -> dict[str, object]:
    """What a restore of the first checkpoint makes of a workspace that was emptied."""
    before = contents(at)
    with mulligan.open(str(at), store=str(store)) as ws:
        for path in before:
            if (at / path).is_file():
                (at / path).unlink()
        ws.restore("first")
    return contents(at)


# -- what is taken over ----------------------------------------------------------------------------


def test_no_file_of_a_clean_repository_is_read(repo, tmp_path):
    """The checkpoint is whole, the store is git's to read, and a restore brings every byte back."""
    before = contents(repo)
    saved = save(repo, tmp_path / "taken", take=True)
    assert (saved.read, len(saved.checkpoint.files_changed)) == (0, COUNT)
    assert fsck(saved.store) == []
    assert brought_back(repo, saved.store) == before


def test_what_was_taken_over_belongs_to_the_store(repo, tmp_path):
    """No name is shared with the user's packs, and their end changes nothing."""
    saved = save(repo, tmp_path / "taken", take=True)
    for pack in (saved.store / "objects/pack").iterdir():
        assert pack.stat().st_nlink == 1
    for pack in (repo / ".git/objects/pack").iterdir():
        pack.unlink()
    with mulligan.open(str(repo), store=str(saved.store)) as ws:
        assert not ws.check().problems


def test_a_watched_workspace_begins_with_what_git_knows_too(repo, tmp_path):
    """And goes on from there: the next look is at what was told of."""
    with mulligan.open(str(repo), store=str(tmp_path / "store")) as ws, ws.watch():
        looks = adopted.looks_of(ws)
        ws.save("first")
        assert looks[0].scan.read == 0
        put(repo, "src/part1/file1.py", 77)
        second = ws.save("second")
        assert second.files_changed == ("src/part1/file1.py",)
        assert (looks[1].scan.read, looks[1].scan.files) == (1, COUNT)
        assert not ws.check().problems
        ws.restore("first")
    assert not git("status", "--porcelain", cwd=repo)


def test_objects_of_files_that_the_user_leaves_out_are_not_taken_over(repo, tmp_path):
    """Nothing is copied that the checkpoint does not hold."""
    data = put(repo, "src/left.py", 505).read_bytes()
    notes = put(repo, ".claude/checkpoints/notes.md", 606).read_bytes()
    commit(repo, "-f")
    settle(tmp_path)
    for number, (exclude, out) in enumerate(((("left.py",), {blob(data), blob(notes)}), ((), {blob(notes)}))):
        taken, read = adopted.both_ways(repo, tmp_path / str(number), exclude=exclude)
        assert adopted.said(taken) == adopted.said(read)
        assert objects_of(taken.store).keys().isdisjoint(out)
        assert taken.read == 0


def test_history_is_not_taken_over(repo, tmp_path):
    """Nothing is copied but what the checkpoint holds."""
    old = put(repo, "src/part0/file0.py", 0, b"a secret of last year " * 40).read_bytes()
    commit(repo, "-f")
    put(repo, "src/part0/file0.py", 99)
    commit(repo, "-f")
    settle(tmp_path)
    saved = save(repo, tmp_path / "taken", take=True)
    assert saved.read == 0
    assert blob(old) not in objects_of(saved.store)


def test_deltas_are_taken_over_with_their_bases(repo, tmp_path):
    """Git's deltas stay deltas, and plain git reads them."""
    text = b"".join(b"line %d of a long file\n" % number for number in range(300))
    for number in range(20):
        put(repo, f"src/alike{number}.py", 0, text + b"end %d\n" % number)
    commit(repo, "-f", "--depth=20", "--window=30")
    settle(tmp_path)
    saved = save(repo, tmp_path / "taken", take=True)
    assert saved.read == 0
    listed = run_git(saved.store, "verify-pack", "-v", *map(str, (saved.store / "objects/pack").glob("*.idx"))).stdout
    assert b"chain length = 2" in listed
    assert fsck(saved.store) == []
    with mulligan.open(str(repo), store=str(saved.store)) as ws:
        ws.prune()
        assert not ws.check().problems
    assert brought_back(repo, saved.store) == contents(repo)


def test_a_delta_against_history_is_read(repo, tmp_path):
    """Its base is nothing that the checkpoint holds."""
    text = b"".join(b"line %d of a long file\n" % number for number in range(300))
    put(repo, "src/long.py", 0, text + b"more of it, once\n" * 20)
    commit(repo)
    put(repo, "src/long.py", 0, text)
    commit(repo, "-f", "--depth=20", "--window=30")
    settle(tmp_path)
    assert save(repo, tmp_path / "taken", take=True).read == 1


def test_a_command_and_the_library_take_over_the_same(repo, tmp_path):
    for number in range(600):
        put(repo, f"src/part{number % 7}/more{number}.py", number)
    commit(repo, "-f")
    settle(tmp_path)
    here = save(repo, tmp_path / "here", take=True)
    there = cli_json("--store", tmp_path / "there", "save", "first", cwd=repo)["checkpoint"]
    assert here.read == 0
    trees = [
        git("rev-parse", f"{commit}:files", cwd=store)
        for commit, store in ((here.checkpoint.commit, here.store), (there["commit"], tmp_path / "there"))
    ]
    assert trees[0] == trees[1]
    assert fsck(tmp_path / "there") == []
    packed = sum(pack.stat().st_size for pack in (repo / ".git/objects/pack").glob("*.pack"))
    kept = sum(pack.stat().st_size for pack in (tmp_path / "there/objects/pack").glob("*.pack"))
    assert abs(kept - packed) < packed // 10  # as git deflated it, not as we do


# -- what is read all the same ---------------------------------------------------------------------


def test_what_changed_is_read_and_nothing_else(repo, tmp_path):
    put(repo, "src/part1/file1.py", 77)
    put(repo, "src/part1/new.py", 78)
    (repo / "src/part2/file2.py").touch()
    (repo / "src/part0/file0.py").unlink()
    settle(tmp_path)
    saved = save(repo, tmp_path / "taken", take=True)
    assert saved.read == 3
    assert saved.checkpoint.git.dirty_files == ("src/part0/file0.py", "src/part1/file1.py", "src/part1/new.py")
    assert brought_back(repo, saved.store) == contents(repo)


def test_an_edit_of_the_same_size_with_its_time_put_back_is_read(repo, tmp_path):
    file = repo / "src/part1/file1.py"
    before, data = file.stat(), file.read_bytes()[::-1]
    file.write_bytes(data)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    settle(tmp_path)
    saved = save(repo, tmp_path / "taken", take=True)
    assert saved.read == 1
    assert blob(data) in objects_of(saved.store)


def test_what_was_written_as_the_index_was_is_read(repo, tmp_path):
    """It may have changed again in the same tick: git would read it too."""
    put(repo, "src/part1/file1.py", 77)
    git("add", "-A", cwd=repo)
    git("repack", "-a", "-d", "-q", cwd=repo)
    written = (repo / "src/part1/file1.py").stat().st_mtime_ns
    os.utime(repo / ".git/index", ns=(written, written))  # however long git took
    settle(tmp_path)
    assert save(repo, tmp_path / "taken", take=True).read == 1


def test_what_changed_shortly_before_the_machine_was_started_is_read(repo, tmp_path, monkeypatch):
    """After a power cut it may have its times and not its bytes; nobody knows whether there was one."""
    monkeypatch.setattr(from_git, "booted_at", lambda _: time.time_ns())
    assert save(repo, tmp_path / "young", take=True).read == COUNT
    monkeypatch.setattr(from_git, "booted_at", lambda _: time.time_ns() + 2 * 3_600_000_000_000)
    assert save(repo, tmp_path / "old", take=True).read == 0


def test_an_index_from_the_future_proves_nothing(repo, tmp_path):
    """Its change time is what counts: nobody can set that."""
    put(repo, "src/part1/file1.py", 77)
    git("add", "-A", cwd=repo)
    git("repack", "-a", "-d", "-q", cwd=repo)
    os.utime(repo / ".git/index", (2e9, 2e9))
    settle(tmp_path)
    assert save(repo, tmp_path / "taken", take=True).read <= 1


def test_a_loose_object_is_no_help(repo, tmp_path):
    put(repo, "src/part1/file1.py", 77)
    commit(repo)
    settle(tmp_path)
    assert save(repo, tmp_path / "taken", take=True).read == 1


def test_a_file_with_other_line_endings_than_its_object_is_read(repo, tmp_path):
    """The object is shorter than the file, and so it is not the file."""
    git("config", "core.autocrlf", "input", cwd=repo)
    put(repo, ".gitattributes", 0, b"* text=auto\n")
    data = put(repo, "src/lines.py", 0, b"one\r\ntwo\r\n" * 60).read_bytes()
    commit(repo, "-f")
    settle(tmp_path)
    saved = save(repo, tmp_path / "taken", take=True)
    assert saved.read == 1
    assert blob(data) in objects_of(saved.store)


def test_links_and_odd_permissions_are_as_ever(repo, tmp_path):
    (repo / "src/link").symlink_to("part0")
    (repo / "src/part0/file0.py").chmod(0o600)
    (repo / "src/part1/file1.py").chmod(0o755)
    commit(repo, "-f")
    settle(tmp_path)
    taken, read = adopted.both_ways(repo, tmp_path)
    assert adopted.said(taken) == adopted.said(read)
    assert taken.read < COUNT


# -- secrets ---------------------------------------------------------------------------------------


def test_a_tracked_secret_is_saved_like_any_other_file(repo, tmp_path):
    """By its name or by how it begins: git holds it already; one that git does not track is sealed."""
    secrets = {
        ".env": b"PASSWORD=hunter2 # " + b"x" * 300, "id_rsa": KEY, "notes.txt": KEY, "settings.json": TOKEN,
        "src/tiny.py": b'KEY = "' + TOKEN.strip() + b'"\n',
    }  # fmt: skip
    for path, data in secrets.items():
        put(repo, path, 0, data)
    commit(repo, "-f")
    untracked = {"deploy.pem": b"never added " * 30, "other.txt": KEY + b"\n"}
    for path, data in untracked.items():
        put(repo, path, 0, data)
    settle(tmp_path)
    taken, read = adopted.both_ways(repo, tmp_path)
    assert adopted.said(taken) == adopted.said(read)
    assert set(taken.checkpoint.sealed) == set(untracked)
    assert set(map(blob, secrets.values())) <= objects_of(taken.store).keys()
    assert objects_of(taken.store).keys().isdisjoint(map(blob, untracked.values()))


@pytest.mark.parametrize("name", ["git~1", "\u200c.git", "GIT~2"])
def test_what_is_gits_own_elsewhere_is_not_captured_because_git_tracks_it(repo, tmp_path, name):
    """A directory of that name would be `.git` on another file system."""
    git("config", "core.protectNTFS", "false", cwd=repo)
    git("config", "core.protectHFS", "false", cwd=repo)
    put(repo, f"src/{name}/config.py", 5)
    put(repo, f"{name}::$INDEX_ALLOCATION.py", 6)
    commit(repo, "-f")
    settle(tmp_path)
    taken, read = adopted.both_ways(repo, tmp_path)
    assert adopted.said(taken) == adopted.said(read)
    assert f"src/{name}/config.py" not in taken.checkpoint.files_changed


def test_what_is_secret_for_its_place_is_saved_because_git_tracks_it(repo, tmp_path):
    """And it is read, not taken over by its name, which is that of source code."""
    secrets = {".ssh/deploy.py": b"a secret of this place " * 20, "conf/.aws/credentials.md": b"and another one " * 30}
    for path, data in secrets.items():
        put(repo, path, 0, data)
    commit(repo, "-f")
    settle(tmp_path)
    taken, read = adopted.both_ways(repo, tmp_path)
    assert adopted.said(taken) == adopted.said(read)
    assert set(map(blob, secrets.values())) <= objects_of(taken.store).keys()


# -- when git is not believed ----------------------------------------------------------------------


def is_believed(repo: Path, tmp_path: Path) -> bool:
    """Whether any file was taken over; the checkpoint must be right in either case."""
    taken, read = adopted.both_ways(repo, tmp_path)
    assert adopted.said(taken) == adopted.said(read)
    return taken.read < read.read


def flag(option: str):
    return lambda repo: git("update-index", option, "src/part1/file1.py", cwd=repo)


def attributes(where: str):
    def plant(repo: Path) -> None:
        place = repo / where
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("*.nothing filter=lfs\n")

    return plant


def setting(key: str, value: str):
    return lambda repo: git("config", key, value, cwd=repo)


def with_checksum(change):
    def plant(repo: Path) -> None:
        index = repo / ".git/index"
        index.write_bytes(change(index.read_bytes()))

    return plant


def unmerged(repo: Path) -> None:
    oid = git("rev-parse", ":src/part1/file1.py", cwd=repo).decode().strip()
    lines = f"0 {'0' * 40}\tsrc/part1/file1.py\n" + "".join(f"100644 {oid} {n}\tsrc/part1/file1.py\n" for n in (1, 2))
    git("update-index", "--index-info", cwd=repo, stdin=lines.encode())


def replaced(*packing: str):
    def plant(repo: Path) -> None:
        git("replace", ":src/part1/file1.py", ":src/part2/file2.py", cwd=repo)
        if packing:
            git(*packing, cwd=repo)

    return plant


DOUBTS = {
    "nothing": (lambda _: None, True),
    "comments": (lambda repo: (repo / ".gitattributes").write_text("# filter=lfs? no\n*.py diff=python\n"), True),
    "assumed": (flag("--assume-unchanged"), False),
    "skipped": (flag("--skip-worktree"), False),
    "split": (lambda repo: git("update-index", "--split-index", cwd=repo), False),
    "unmerged": (unmerged, False),
    "intended": (lambda repo: (put(repo, "n.py", 1), git("add", "-N", "n.py", cwd=repo)), False),
    "attributes": (attributes(".gitattributes"), False),
    "attributes below": (attributes("src/part1/.gitattributes"), False),
    "attributes of the repository": (attributes(".git/info/attributes"), False),
    "attributes of the user": (attributes("../home/git/attributes"), False),
    "attributes of a tree": (setting("attr.tree", "HEAD"), False),
    "what is put into files": (lambda repo: (repo / ".gitattributes").write_text("*.nothing ident\n"), False),
    "an object replaced": (replaced(), False),
    "an object replaced, and that packed": (replaced("pack-refs", "--all", "--prune"), False),
    "an include": (setting("include.path", "more"), False),
    "attributes elsewhere": (setting("core.attributesFile", "/nowhere"), False),
    "a filter": (setting("filter.upper.clean", "tr a-z A-Z"), False),
    "a filter that runs on": (setting("filter.nbstripout.process", "nbstripout"), False),
    "a filter that must be there": (setting("filter.x.required", "true"), True),
    "large files elsewhere": (setting("filter.lfs.clean", "git-lfs clean -- %f"), True),
    "another filter by that name": (setting("filter.lfs.clean", "tr a-z A-Z"), False),
    "fewer fields": (setting("core.checkStat", "minimal"), False),
    "no ctime": (setting("core.trustctime", "false"), False),
    "another work tree": (setting("core.worktree", "/nowhere"), False),
    "settings of a worktree": (lambda repo: (repo / ".git/config.worktree").write_text(""), False),
    "no checksum": (with_checksum(lambda data: data[:-20] + bytes(20)), False),
    "a wrong checksum": (with_checksum(lambda data: data[:-1] + bytes([data[-1] ^ 1])), False),
    "cut short": (with_checksum(lambda data: data[:-40]), False),
}


@pytest.mark.parametrize("doubt", DOUBTS)
def test_git_is_believed_only_where_nothing_speaks_against_it(repo, tmp_path, doubt):
    plant, believed = DOUBTS[doubt]
    plant(repo)
    settle(tmp_path)
    assert is_believed(repo, tmp_path) is believed


def test_attributes_that_are_tracked_and_gone_are_in_force(repo, tmp_path):
    put(repo, ".gitattributes", 0, b"*.py -diff\n")
    commit(repo, "-f")
    (repo / ".gitattributes").unlink()
    settle(tmp_path)
    assert not is_believed(repo, tmp_path)


def test_attributes_that_were_edited_said_something_else_when_git_read_the_files(repo, tmp_path):
    put(repo, ".gitattributes", 0, b"*.py -diff\n")
    commit(repo, "-f")
    (repo / ".gitattributes").write_text("*.py diff\n")
    settle(tmp_path)
    assert not is_believed(repo, tmp_path)


def test_a_filter_that_was_in_force_when_git_read_the_files_is_remembered_by_its_configuration(
    repo, tmp_path, monkeypatch
):
    monkeypatch.setattr(from_git, "_TRIED_LEAST", 0)  # or it would be found out by chance
    put(repo, ".gitattributes", 0, b"*.py filter=upper\n")
    git("config", "filter.upper.clean", "tr a-z A-Z", cwd=repo)
    put(repo, "lower.py", 0, b"small letters\n" * 60)
    commit(repo, "-f")
    (repo / ".gitattributes").unlink()
    commit(repo, "-f")
    assert git("status", "--porcelain", cwd=repo) == b""
    settle(tmp_path)
    assert not is_believed(repo, tmp_path)


def test_attributes_above_a_workspace_reach_into_it(repo, tmp_path):
    settle(tmp_path)
    assert is_believed(repo / "src", tmp_path / "one")
    put(repo, ".gitattributes", 0, b"*.nothing filter=lfs\n")
    assert not is_believed(repo / "src", tmp_path / "two")
    commit(repo, "-f")
    (repo / ".gitattributes").unlink()
    settle(tmp_path)
    assert not is_believed(repo / "src", tmp_path / "three")


@pytest.mark.parametrize(("depth", "count"), [(1_500, 1), (30_000, 3)])
def test_directories_that_only_an_index_knows_do_not_end_a_checkpoint(repo, tmp_path, depth, count):
    """However deep: one name in an index can be thousands of directories, and a gigabyte of paths."""
    index = repo / ".git/index"
    data, at = index.read_bytes(), 12
    for _ in range(COUNT):
        at += (data.index(b"\0", at + 62) - at + 8) & -8
    names = [b"z%d/" % number + b"a/" * depth + b"b" for number in range(count)]
    rows = [data[12:72] + min(len(name), 0xFFF).to_bytes(2, "big") + name for name in names]
    rows = [row.ljust((len(row) + 8) & -8, b"\0") for row in rows]
    body = data[:8] + (COUNT + count).to_bytes(4, "big") + data[12:at] + b"".join(rows)
    index.write_bytes(body + hashlib.sha1(body, usedforsecurity=False).digest())
    settle(tmp_path)
    taken, read = adopted.both_ways(repo, tmp_path)
    assert adopted.said(taken)["trees"] == adopted.said(read)["trees"]
    assert taken.read == (0 if depth < 10_000 else COUNT)


def test_an_index_of_other_files_is_not_believed(repo, tmp_path):
    """A copied project has the index of the original: no inode and no change time is right."""
    os.system(f"cp -a {repo} {tmp_path / 'copy'}")
    assert not is_believed(tmp_path / "copy", tmp_path / "stores")


def test_the_user_can_switch_it_off(repo, tmp_path):
    assert save(repo, tmp_path / "read", take=False).read == COUNT


def test_a_later_checkpoint_asks_git_for_nothing(repo, tmp_path):
    """After the first, what is remembered is our own."""
    saved = save(repo, tmp_path / "taken", take=True)
    (saved.store / "cache").unlink()
    with mulligan.open(str(repo), store=str(saved.store)) as ws:
        looks = adopted.looks_of(ws)
        ws.save("second")
    assert looks[0].scan.read == COUNT


def test_a_checkpoint_that_failed_leaves_no_memory_behind(repo, tmp_path, monkeypatch):
    """What git said counts for the checkpoint that its objects were copied for, and for no other."""
    from mulligan.engine import save

    finish = save.finish_objects
    with mulligan.open(str(repo), store=str(tmp_path / "store")) as ws:
        monkeypatch.setattr(save, "finish_objects", lambda *_: (_ for _ in ()).throw(OSError(28, "full")))
        with pytest.raises(Exception, match="needs"):
            ws.save("fails")
        monkeypatch.setattr(save, "finish_objects", finish)
        for pack in (repo / ".git/objects/pack").iterdir():
            pack.unlink()
        ws.save("first")
        assert not ws.check().problems
    assert brought_back(repo, tmp_path / "store") == contents(repo)
