"""
The git state, read as data, is what git itself says.

Every case makes a real repository with real git, and compares HEAD, the branch and the dirty files with git's own answers.
"""

from __future__ import annotations

import os
import random
import shutil
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import tools
from mulligan.model.objects import BLOB, MODE_EXEC, MODE_FILE, MODE_LINK, object_id
from mulligan.usergit.repository import Repository
from mulligan.usergit.status import dirty_files, update_dirty
from tools import git

Captured = dict[bytes, tuple[int, bytes]]


def capture(workspace: Path) -> Captured:
    """What a scan would capture: every file that git does not ignore, tracked ones in any case."""
    ignored = set(git("ls-files", "-oi", "--exclude-standard", "-z", cwd=workspace).split(b"\0"))
    return {path: found for path, found in _files(workspace, os.fsencode(workspace)) if path not in ignored}


def _files(workspace: Path, folder: bytes) -> Iterator[tuple[bytes, tuple[int, bytes]]]:
    for entry in os.scandir(folder):
        if entry.name == b".git":
            continue
        path = os.path.relpath(entry.path, os.fsencode(workspace))
        if entry.is_symlink():
            yield path, (MODE_LINK, object_id(BLOB, os.readlink(entry.path)))
        elif entry.is_dir():
            yield from _files(workspace, entry.path)
        elif entry.is_file():
            mode = MODE_EXEC if entry.stat().st_mode & stat.S_IXUSR else MODE_FILE
            yield path, (mode, object_id(BLOB, Path(os.fsdecode(entry.path)).read_bytes()))


def porcelain(workspace: Path) -> tuple[str, ...]:
    """What git calls dirty below the workspace, relative to it; renames by their new name, submodules left out."""
    prefix = git("rev-parse", "--show-prefix", cwd=workspace).rstrip(b"\n")
    rows = git("ls-files", "-s", "-z", cwd=workspace).split(b"\0")
    links = {prefix + row.split(b"\t", 1)[1] for row in rows if row.startswith(b"160000")}
    fields = iter(git("status", "--porcelain=v1", "-z", "-uall", "--", ".", cwd=workspace).split(b"\0"))
    found = set()
    for field in fields:
        if not field:
            continue
        names = [field[3:]]
        if b"R" in field[:2] or b"C" in field[:2]:
            old = next(fields)
            # In the work tree (a file that `add -N` announced) both names are listed: the old one is gone, unstaged.
            names += [old] if field[1:2] == b"R" else []
        found |= {os.fsdecode(name[len(prefix) :]) for name in names if name not in links}
    return tuple(sorted(found))


def check(workspace: Path) -> tuple[str, ...]:
    """Compares with git: HEAD, branch, tracked files, dirty files; returns the latter."""
    captured = capture(workspace)
    with Repository.find(str(workspace)) as repo:
        head = repo.head()
        commit = git("rev-parse", "-q", "--verify", "HEAD", cwd=workspace, check=False).decode().strip()
        branch = git("symbolic-ref", "-q", "--short", "HEAD", cwd=workspace, check=False).decode().strip()
        assert (commit, branch or "HEAD", True) == (head.commit, head.branch, head.known)
        rows = [row for row in git("ls-files", "-s", "-z", cwd=workspace).split(b"\0") if row]
        assert {row.split(b"\t", 1)[1] for row in rows if not row.startswith(b"160000")} == repo.index().tracked(
            repo.prefix
        )
        expected = porcelain(workspace)
        rows = [(path, *found) for path, found in captured.items()]
        assert expected == dirty_files(repo, rows, not_captured=lambda _: False)
        return expected


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A repository with one commit: some files, directories, a link, an executable, odd names."""
    root = tmp_path / "repo"
    root.mkdir()
    git("init", "-q", "-b", "main", ".", cwd=root)
    for name in ("a.txt", "b.txt", "src/app.py", "src/deep/er/x.c", "src.d/y", "src-z/y", "with space", "ünïcode/ß"):
        write(root, name, f"content of {name}\n" * 8)
    write(root, "tool.sh", "#!/bin/sh\n")
    (root / "tool.sh").chmod(0o755)
    (root / "link").symlink_to("a.txt")
    with open(os.fsencode(root) + b'/latin-\xe9\n\t"quote', "wb") as file:
        file.write(b"odd")
    write(root, ".gitignore", "*.o\nbuild/\n")
    write(root, "kept.o", "tracked although ignored")
    git("add", "-Af", cwd=root)
    git("commit", "-qm", "one", cwd=root)
    return root


def write(root: Path, name: str, content: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding="utf-8")


def make_a_mess(root: Path) -> None:
    """A bit of everything in the work tree and in the index."""
    write(root, "a.txt", "changed\n")
    write(root, "b.txt", "staged\n")
    git("add", "b.txt", cwd=root)
    write(root, "b.txt", "and changed again\n")
    write(root, "src/new.py", "untracked")
    write(root, "fresh/deep/one", "untracked")
    write(root, "build/out", "ignored")
    write(root, "src/staged.py", "new and staged")
    git("add", "src/staged.py", cwd=root)
    (root / "with space").unlink()
    git("rm", "-q", "ünïcode/ß", cwd=root)
    (root / "tool.sh").chmod(0o644)
    (root / "link").unlink()
    (root / "link").symlink_to("b.txt")


def test_a_clean_repository_has_no_dirty_files(repo: Path) -> None:
    """An empty list, and the full commit."""
    assert check(repo) == ()


def test_changes_of_every_kind_are_named_as_git_names_them(repo: Path) -> None:
    """Modified, staged, both, untracked, deleted, mode, link."""
    make_a_mess(repo)
    assert len(check(repo)) == 9


def test_a_repository_without_commits(tmp_path: Path) -> None:
    """The branch is known before it is born; everything in the index is staged."""
    git("init", "-q", "-b", "trunk", ".", cwd=tmp_path)
    assert check(tmp_path) == ()
    write(tmp_path, "untracked", "1")
    write(tmp_path, "staged", "2")
    git("add", "staged", cwd=tmp_path)
    assert check(tmp_path) == ("staged", "untracked")
    write(tmp_path, "intended", "3")
    git("add", "-N", "intended", cwd=tmp_path)
    assert check(tmp_path) == ("intended", "staged", "untracked")


def test_a_detached_head(repo: Path) -> None:
    """The branch is called HEAD."""
    git("checkout", "-q", "--detach", cwd=repo)
    make_a_mess(repo)
    check(repo)


def test_packed_refs_and_objects(repo: Path) -> None:
    """After gc, nothing is loose; trees are deltas of each other."""
    for number in range(30):
        write(repo, f"src/many/file{number}.txt", f"{number}\n")
        git("add", "-A", cwd=repo)
        git("commit", "-qm", f"{number}", cwd=repo)
    git("gc", "-q", "--aggressive", "--prune=now", cwd=repo)
    git("pack-refs", "--all", cwd=repo)
    assert not (repo / ".git/refs/heads/main").exists()
    assert check(repo) == ()
    git("reset", "-q", "--soft", "HEAD~7", cwd=repo)
    make_a_mess(repo)
    (repo / ".git/index").unlink()
    git("reset", "-q", cwd=repo)
    check(repo)
    git("rm", "-q", "-r", "--cached", "src", cwd=repo)
    check(repo)


def test_deltas_in_packs_are_read(repo: Path) -> None:
    """A wide tree, changed often, is stored as a chain of deltas, and read back right."""
    for number in range(60):
        write(repo, f"wide/name-of-some-length-{number:03}", f"{number}\n")
    git("add", "-A", cwd=repo)
    for number in range(20):
        write(repo, f"wide/name-of-some-length-{number:03}", f"new {number}\n")
        git("commit", "-qam", f"{number}", cwd=repo)
    git("repack", "-q", "-adf", "--depth=50", cwd=repo)
    index = next((repo / ".git/objects/pack").glob("*.idx"))
    rows = [row.split() for row in git("verify-pack", "-v", index, cwd=repo).splitlines()]
    assert any(len(row) == 7 and row[1] == b"tree" and int(row[5]) > 3 for row in rows)
    with Repository.find(str(repo)) as found, found.objects() as objects:
        for commit in git("rev-list", "HEAD", cwd=repo).split():
            tree = objects.read_commit_tree(bytes.fromhex(commit.decode()))
            assert tree.hex() == git("rev-parse", commit + b"^{tree}", cwd=repo).decode().strip()
            for listed in git("ls-tree", "-rtz", tree.hex(), cwd=repo).split(b"\0"):
                if b" tree " in listed:
                    oid = bytes.fromhex(listed.split()[2].decode())
                    names = git("ls-tree", "-z", "--name-only", oid.hex(), cwd=repo).split(b"\0")[:-1]
                    assert names == [entry.name for entry in objects.read_tree(oid)]


@pytest.mark.parametrize("version", ["2", "3", "4"])
def test_index_versions(repo: Path, version: str) -> None:
    """All formats of the index; version 3 appears with an extended flag."""
    git("update-index", "--index-version", version, cwd=repo)
    if version == "3":
        write(repo, "intended", "not yet")
        git("add", "-N", "intended", cwd=repo)
    check(repo)
    make_a_mess(repo)
    check(repo)
    assert (repo / ".git/index").read_bytes()[7] == int(version)


def test_a_long_name_in_every_index_version(repo: Path) -> None:
    """Names longer than the length field can say are found by their end."""
    name = "/".join(["d" * 200] * 4) + "/" + "f" * 200
    write(repo, name, "x")
    longest = "/".join(["e" * 250] * 14) + "/f"
    write(repo, longest, "y")
    for version in ("2", "4"):
        git("add", "-A", cwd=repo)
        git("update-index", "--index-version", version, cwd=repo)
        assert check(repo) == (name, longest)


def test_an_unmerged_index(repo: Path) -> None:
    """Paths in conflict are dirty, whatever the work tree holds."""
    git("checkout", "-qb", "other", cwd=repo)
    write(repo, "a.txt", "theirs\n")
    write(repo, "both", "theirs\n")
    git("rm", "-q", "b.txt", cwd=repo)
    git("add", "-A", cwd=repo)
    git("commit", "-qm", "theirs", cwd=repo)
    git("checkout", "-q", "main", cwd=repo)
    write(repo, "a.txt", "ours\n")
    write(repo, "both", "ours\n")
    write(repo, "b.txt", "ours\n")
    git("add", "-A", cwd=repo)
    git("commit", "-qm", "ours", cwd=repo)
    git("merge", "-q", "other", cwd=repo, check=False)
    assert {"a.txt", "both", "b.txt"} <= set(check(repo))
    (repo / "both").unlink()
    check(repo)


def test_a_linked_worktree(repo: Path, tmp_path: Path) -> None:
    """HEAD and index are the worktree's own, refs and objects the repository's."""
    git("branch", "side", cwd=repo)
    git("worktree", "add", "-q", tmp_path / "linked", "side", cwd=repo)
    write(repo, "a.txt", "dirty in the main one only")
    assert check(tmp_path / "linked") == ()
    make_a_mess(tmp_path / "linked")
    check(tmp_path / "linked")
    git("worktree", "add", "-q", "--detach", tmp_path / "detached", cwd=repo)
    assert check(tmp_path / "detached") == ()


def test_a_submodule_inside_and_as_the_workspace(repo: Path, tmp_path: Path) -> None:
    """Seen from above it is left out; as a workspace it is a repository of its own."""
    shutil.copytree(repo, tmp_path / "other", symlinks=True)
    add = ["-c", "protocol.file.allow=always", "submodule", "add", "-q"]
    git(*add, str(tmp_path / "other"), "vendor/sub", cwd=repo)
    assert check(repo) == (".gitmodules",)
    git("commit", "-qm", "sub", cwd=repo)
    write(repo, "vendor/sub/a.txt", "dirty inside")
    write(repo, "vendor/sub/new", "new inside")
    write(repo, "vendor/new", "new beside")
    assert check(repo) == ("vendor/new",)
    assert check(repo / "vendor/sub") == ("a.txt", "new")


def test_a_subdirectory_as_the_workspace(repo: Path) -> None:
    """Paths are relative to it, and nothing outside is named."""
    make_a_mess(repo)
    assert check(repo / "src") == ("new.py", "staged.py")
    assert check(repo / "src" / "deep") == ()
    git("mv", "src/app.py", "moved-out.py", cwd=repo)
    assert check(repo / "src") == ("app.py", "new.py", "staged.py")
    assert check(repo / "fresh" / "deep") == ("one",)


def test_renames_give_the_new_name(repo: Path) -> None:
    """Exact ones, edited ones, and two files that swap places."""
    git("mv", "a.txt", "renamed.txt", cwd=repo)
    assert check(repo) == ("renamed.txt",)
    (repo / "sub").mkdir()
    git("mv", "src/app.py", "sub/app.py", cwd=repo)
    write(repo, "sub/app.py", (repo / "sub/app.py").read_text() + "one more line\n")
    git("add", "-A", cwd=repo)
    assert check(repo) == ("renamed.txt", "sub/app.py")
    git("mv", "b.txt", "entirely.txt", cwd=repo)
    write(repo, "entirely.txt", "nothing in common\n" * 9)
    git("add", "-A", cwd=repo)
    assert check(repo) == ("b.txt", "entirely.txt", "renamed.txt", "sub/app.py")
    write(repo, "a.txt", "a new file under the old name")
    check(repo)


def test_renames_among_copies(repo: Path) -> None:
    """Of several equal files as many old names vanish as there are new ones."""
    for name in ("same1", "same2", "same3", "dir/same1"):
        write(repo, name, "the same\n")
    git("add", "-A", cwd=repo)
    git("commit", "-qm", "copies", cwd=repo)
    git("mv", "same2", "moved", cwd=repo)
    git("rm", "-q", "same1", "same3", cwd=repo)
    check(repo)


def test_a_file_replaced_by_a_directory_and_back(repo: Path) -> None:
    """The old path is deleted, the new ones are untracked or staged."""
    (repo / "a.txt").unlink()
    write(repo, "a.txt/inner", "x")
    shutil.rmtree(repo / "src")
    write(repo, "src", "a file now")
    check(repo)
    git("add", "-A", cwd=repo)
    check(repo)


def test_intent_to_add(repo: Path) -> None:
    """Dirty while there, empty or not, and when gone again."""
    for name in ("intended", "empty", "gone"):
        write(repo, name, "" if name == "empty" else "x")
    git("add", "-N", "intended", "empty", "gone", cwd=repo)
    (repo / "gone").unlink()
    assert check(repo) == ("empty", "gone", "intended")


def test_assumed_and_skipped_files_stay_quiet(repo: Path) -> None:
    """What git was told not to look at is not dirty."""
    git("update-index", "--assume-unchanged", "a.txt", cwd=repo)
    git("update-index", "--skip-worktree", "b.txt", "src/app.py", cwd=repo)
    write(repo, "a.txt", "changed")
    write(repo, "b.txt", "changed")
    (repo / "src/app.py").unlink()
    assert check(repo) == ()


@pytest.mark.parametrize("sparse_index", ["--sparse-index", "--no-sparse-index"])
def test_a_sparse_checkout(repo: Path, sparse_index: str) -> None:
    """What is not checked out is not deleted; what is there nevertheless is compared."""
    git("sparse-checkout", "set", "--cone", sparse_index, "src-z", cwd=repo)
    with Repository.find(str(repo)) as found:
        captured = [(path, *now) for path, now in capture(repo).items()]
        assert dirty_files(found, captured, not_captured=lambda _: False) == ()
        assert bool(found.index().sparse) == (sparse_index == "--sparse-index")
    write(repo, "src-z/y", "changed")
    write(repo, "src/deep/er/x.c", "there all the same\n")
    write(repo, "src/app.py", "content of src/app.py\n" * 8)
    write(repo, "src/untracked.py", "new")
    with Repository.find(str(repo)) as found:
        captured = [(path, *now) for path, now in capture(repo).items()]
        ours = dirty_files(found, captured, not_captured=lambda _: False)
    assert ours == porcelain(repo) == ("src-z/y", "src/deep/er/x.c", "src/untracked.py")


def test_a_sparse_index_with_staged_differences(repo: Path) -> None:
    """Directories that are one entry in the index are compared tree by tree."""
    git("sparse-checkout", "set", "--cone", "--sparse-index", "src-z", cwd=repo)
    write(repo, "src/deep/er/x.c", "changed\n")
    git("add", "--sparse", "src/deep/er/x.c", cwd=repo)
    git("commit", "-qm", "two", cwd=repo)
    git("rm", "-q", "--cached", "--sparse", "src/app.py", cwd=repo)
    git("commit", "-qm", "three", cwd=repo)
    git("sparse-checkout", "reapply", cwd=repo)
    git("reset", "-q", "--soft", "HEAD~2", cwd=repo)
    with Repository.find(str(repo)) as found:
        assert found.index().sparse
        captured = [(path, *now) for path, now in capture(repo).items()]
        assert dirty_files(found, captured, not_captured=lambda _: False) == porcelain(repo)


def test_a_split_index(repo: Path) -> None:
    """Both halves are read: what was deleted, replaced and added since the split."""
    git("config", "splitIndex.maxPercentChange", "100", cwd=repo)
    for number in range(200):
        write(repo, f"bulk/{number:03}", f"{number}\n")
    git("add", "-A", cwd=repo)
    git("commit", "-qm", "bulk", cwd=repo)
    git("update-index", "--split-index", cwd=repo)
    assert check(repo) == ()
    make_a_mess(repo)
    git("rm", "-q", "bulk/000", "bulk/063", "bulk/064", "bulk/127", "bulk/199", cwd=repo)
    write(repo, "bulk/100", "changed")
    git("add", "bulk/100", cwd=repo)
    assert list((repo / ".git").glob("sharedindex.*"))
    check(repo)


def test_alternates_are_followed(repo: Path, tmp_path: Path) -> None:
    """A shared clone has no objects of its own."""
    git("clone", "-q", "--shared", repo, tmp_path / "clone", cwd=tmp_path)
    assert check(tmp_path / "clone") == ()
    write(tmp_path / "clone", "b.txt", "staged")
    git("add", "b.txt", cwd=tmp_path / "clone")
    assert check(tmp_path / "clone") == ("b.txt",)


def test_a_branch_name_with_slashes_and_accents(repo: Path) -> None:
    """Names come back as text, loose and packed."""
    git("checkout", "-qb", "feature/ünï/x", cwd=repo)
    check(repo)
    git("pack-refs", "--all", "--prune", cwd=repo)
    check(repo)


def test_a_missing_index_means_everything_is_staged_as_deleted(repo: Path) -> None:
    """As git sees it: gone from the index, untracked in the work tree."""
    (repo / ".git/index").unlink()
    check(repo)


def test_odd_modes_in_an_old_tree(repo: Path) -> None:
    """Group-writable files of old repositories are plain files."""
    blob = git("hash-object", "-w", "--stdin", stdin=b"old\n", cwd=repo).strip()
    raw = b"100664 old\0" + bytes.fromhex(blob.decode())
    tree = git("hash-object", "-w", "-t", "tree", "--literally", "--stdin", stdin=raw, cwd=repo).decode().strip()
    commit = git("commit-tree", "-m", "old", tree, cwd=repo).decode().strip()
    git("reset", "-q", "--hard", commit, cwd=repo)
    assert check(repo) == ()
    git("rm", "-q", "--cached", "old", cwd=repo)
    git("add", "old", cwd=repo)
    check(repo)


def test_changes_by_filters_are_clean_when_the_caller_knows_the_times(repo: Path) -> None:
    """With autocrlf the bytes differ from the blob; git goes by size and times, and so can the caller."""
    git("config", "core.autocrlf", "true", cwd=repo)
    (repo / "a.txt").unlink()
    git("checkout", "a.txt", cwd=repo)
    assert b"\r\n" in (repo / "a.txt").read_bytes()
    captured = [(path, *now) for path, now in capture(repo).items()]

    def clean(path: bytes, entry) -> bool:
        found = os.stat(os.fsencode(repo) + b"/" + path, follow_symlinks=False)
        return (found.st_size, found.st_mtime_ns) == (entry.size, entry.mtime_ns)

    with Repository.find(str(repo)) as found:
        assert dirty_files(found, captured, not_captured=lambda _: False) == ("a.txt",)
        assert dirty_files(found, captured, not_captured=lambda _: False, clean_by_stat=clean) == porcelain(repo) == ()


def test_a_sha256_repository_has_an_unknown_commit(tmp_path: Path) -> None:
    """It is recognised and not misread."""
    git("init", "-q", "--object-format=sha256", ".", cwd=tmp_path)
    write(tmp_path, "a", "x")
    git("add", "a", cwd=tmp_path)
    git("commit", "-qm", "one", cwd=tmp_path)
    with Repository.find(str(tmp_path)) as found:
        assert (found.head().commit, found.head().known) == ("", False)
        assert dirty_files(found, [], not_captured=lambda _: False) == ()


def _actions(root: Path, dice: random.Random) -> list[Callable[[], object]]:
    names = [f"{folder}{name}" for folder in ("", "d/", "d/e/", "f.x/") for name in "abc"]
    one, other = dice.sample(names, 2)

    def put() -> None:
        if not any((root / above).is_file() for above in ("d", "d/e", "f.x")) and not (root / one).is_dir():
            write(root, one, "".join(dice.choice("uvw") * 30 + "\n" for _ in range(dice.randint(0, 5))))

    def drop() -> None:
        (root / one).unlink(missing_ok=True)

    def mode() -> None:
        if (root / one).is_file():
            (root / one).chmod(dice.choice((0o644, 0o755)))

    quiet = {"cwd": root, "check": False}
    return [
        *(put, put, put, drop, mode),
        lambda: git("add", "-A", **quiet),
        lambda: git("add", "--", one, **quiet),
        lambda: git("mv", one, other, **quiet),
        lambda: git("rm", "-qf", "--cached", one, **quiet),
        lambda: git("commit", "-qam", "x", **quiet),
        lambda: git("reset", "-q", **quiet),
        lambda: git("reset", "-q", "--soft", "HEAD~1", **quiet),
        lambda: git("add", "-N", one, **quiet),
        lambda: git("update-index", "--index-version", dice.choice("24"), **quiet),
        lambda: git("gc", "-q", **quiet),
    ]


@pytest.mark.parametrize("seed", range(tools.sweep(6)))
def test_random_histories_agree_with_git(tmp_path: Path, seed: int) -> None:
    """Whatever is done to a repository, both name the same files."""
    dice = random.Random(seed)
    git("init", "-q", "-b", "main", ".", cwd=tmp_path)
    for _ in range(8):
        for _ in range(dice.randint(1, 4)):
            dice.choice(_actions(tmp_path, dice))()
        check(tmp_path)


@pytest.mark.parametrize("seed", range(tools.sweep(4)))
@pytest.mark.parametrize("version", ["2", "4"])
def test_updating_gives_what_a_full_comparison_gives(repo: Path, seed: int, version: str) -> None:
    """Judging only the changed paths ends where judging all of them would."""
    dice = random.Random(seed)
    make_a_mess(repo)
    git("mv", "src/app.py", "moved.py", cwd=repo)
    git("update-index", "--index-version", version, cwd=repo)
    before = capture(repo)
    with Repository.find(str(repo)) as found:
        key = found.state_key()
        previous = dirty_files(found, [(path, *now) for path, now in before.items()], not_captured=lambda _: False)
    for _ in range(4):
        for _ in range(3):
            name = dice.choice(
                ("a.txt", "b.txt", "src/new.py", "src/app.py", "moved.py", "src/staged.py", "n/n", "link")
            )
            action = dice.choice(("write", "original", "delete"))
            (repo / name).unlink(missing_ok=True)
            if action != "delete":
                write(repo, name, f"content of {name}\n" * 8 if action == "original" else action)
        after = capture(repo)
        changed = {
            path: after.get(path) for path in before.keys() | after.keys() if before.get(path) != after.get(path)
        }
        with Repository.find(str(repo)) as found:
            assert found.state_key() == key
            previous = update_dirty(found, previous, changed)
        assert previous == porcelain(repo)
        before = after
