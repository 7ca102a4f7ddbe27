"""Dirty files: what the caller's answers change, and what hostile repositories cannot do. tests/compat compares with git."""

from __future__ import annotations

import hashlib
import zlib
from pathlib import Path

import pytest

from mulligan.model.objects import BLOB, object_id
from mulligan.usergit import objects, status
from mulligan.usergit.repository import Repository
from mulligan.usergit.status import dirty_files, update_dirty
from tools import git

FILE = 0o100644


def blob(text: str) -> bytes:
    return object_id(BLOB, text.encode())


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Three committed files."""
    git("init", "-q", "-b", "main", ".", cwd=tmp_path)
    for name in ("a", "d/b", "d/c"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    git("add", "-A", cwd=tmp_path)
    git("commit", "-qm", "x", cwd=tmp_path)
    return tmp_path


def captured(**changes: str) -> list[tuple[bytes, int, bytes]]:
    names = {"a": "a", "d/b": "d/b", "d/c": "d/c"} | {name.replace("_", "/"): text for name, text in changes.items()}
    return [(name.encode(), FILE, blob(text)) for name, text in names.items() if text != "gone"]


def test_a_file_that_was_not_captured_is_not_deleted(root: Path) -> None:
    """It is there, only not in the scan; one that is in neither is gone."""
    rows = captured(a="gone", d_b="gone")
    with Repository.find(str(root)) as repo:
        assert dirty_files(repo, rows, not_captured=lambda path: path == b"a") == ("d/b",)


def test_captured_although_ignored_is_not_untracked(root: Path) -> None:
    """What the user's own settings bring into scope does not make the repository dirty."""
    with Repository.find(str(root)) as repo:
        rows = captured(secret="x", new="y")
        assert dirty_files(repo, rows, not_captured=bool, is_ignored=lambda path: path == b"secret") == ("new",)
        changed = {b"secret": (FILE, blob("x")), b"new": (FILE, blob("y"))}
        assert update_dirty(repo, (), changed, is_ignored=lambda path: path == b"secret") == ("new",)


def test_the_caller_may_know_that_a_file_is_clean(root: Path) -> None:
    """Only asked where bytes or mode differ, and given the index's entry."""
    asked = []

    def clean(path: bytes, entry) -> bool:
        asked.append((path, entry.name, entry.size))
        return path == b"a"

    with Repository.find(str(root)) as repo:
        rows = captured(a="A", d_b="B")
        assert dirty_files(repo, rows, not_captured=bool, clean_by_stat=clean) == ("d/b",)
        assert asked == [(b"a", b"a", 1), (b"d/b", b"d/b", 3)]
        changed = {b"a": (FILE, blob("A")), b"d/b": (FILE, blob("B"))}
        assert update_dirty(repo, (), changed, clean_by_stat=clean) == ("d/b",)


def test_directories_are_not_files(root: Path) -> None:
    """An empty directory in the scan is nothing to git."""
    with Repository.find(str(root)) as repo:
        assert dirty_files(repo, [*captured(), (b"empty", 0o040000, bytes(20))], not_captured=bool) == ()
        assert update_dirty(repo, (), {b"empty": (0o040000, bytes(20))}) == ()


@pytest.mark.parametrize("many", [0, 1000])
def test_updating_by_search_and_by_reading_all(root: Path, monkeypatch: pytest.MonkeyPatch, many: int) -> None:
    """Changed, back again, new, gone, gone again, staged: the same by either way."""
    monkeypatch.setattr(status, "_MANY", many)
    (root / "d/c").write_text("staged")
    git("add", "d/c", cwd=root)
    steps = [
        ({b"a": (FILE, blob("changed"))}, ("a", "d/c")),
        ({b"a": (FILE, blob("a"))}, ("d/c",)),
        ({b"n/e/w": (FILE, blob("new"))}, ("d/c", "n/e/w")),
        ({b"n/e/w": None, b"d/b": None}, ("d/b", "d/c")),
        ({b"d/b": (0o100755, blob("d/b"))}, ("d/b", "d/c")),
        ({b"d/b": (FILE, blob("d/b")), b"d/c": (FILE, blob("staged"))}, ("d/c",)),
        ({b"d/c": None}, ("d/c",)),
    ]
    dirty = ("d/c",)
    for changed, expected in steps:
        with Repository.find(str(root)) as repo:
            dirty = update_dirty(repo, dirty, changed)
            assert expected == dirty


def test_paths_in_submodules_stay_out_of_updates(root: Path) -> None:
    """By search and by reading all."""
    git("init", "-q", "d/sub", cwd=root)
    git("commit", "-q", "--allow-empty", "-m", "x", cwd=root / "d/sub")
    git("add", "d/sub", cwd=root, check=False)
    with Repository.find(str(root)) as repo:
        assert repo.raw_index() is not None
        assert update_dirty(repo, (), {b"d/sub/x": (FILE, blob("x"))}) == ()
        assert repo.index().links == {b"d/sub"}
        assert update_dirty(repo, (), {b"d/sub/x": (FILE, blob("x"))}) == ()


@pytest.mark.parametrize("many", [0, 1000])
def test_flags_in_the_index_hold_for_updates_too(root: Path, monkeypatch: pytest.MonkeyPatch, many: int) -> None:
    """Assumed and skipped files stay quiet; announced and unmerged ones stay dirty."""
    monkeypatch.setattr(status, "_MANY", many)
    git("update-index", "--assume-unchanged", "a", cwd=root)
    git("update-index", "--skip-worktree", "d/b", cwd=root)
    (root / "new").write_text("")
    git("add", "-N", "new", cwd=root)
    row = f"100644 {blob('x').hex()} 2\tconflict\n".encode()
    git("update-index", "--index-info", stdin=row, cwd=root)
    changed = {path: (FILE, blob("other")) for path in (b"a", b"d/b", b"new", b"conflict")}
    with Repository.find(str(root)) as repo:
        assert update_dirty(repo, (), changed) == ("conflict", "new")
    with Repository.find(str(root)) as repo:
        assert update_dirty(repo, ("conflict", "new"), dict.fromkeys(changed)) == ("conflict", "new")


def test_updates_look_into_the_directories_of_a_sparse_index(root: Path) -> None:
    """A file that is there although its directory is not checked out is compared with the tree."""
    git("sparse-checkout", "set", "--cone", "--sparse-index", "other", cwd=root)
    with Repository.find(str(root)) as repo:
        assert repo.index().sparse == {b"d/"}
        changed = {b"d/b": (FILE, blob("d/b")), b"d/c": (FILE, blob("changed")), b"d/new": (FILE, blob("new"))}
        assert update_dirty(repo, (), changed) == ("d/c", "d/new")


def test_an_unreadable_index_says_nothing(root: Path) -> None:
    """Better no dirty files than all of them."""
    (root / ".git/index").write_bytes(b"DIRC damaged")
    with Repository.find(str(root)) as repo:
        assert dirty_files(repo, captured(a="x"), not_captured=bool) == ()
        assert update_dirty(repo, ("kept",), {b"a": None}) == ("kept",)


def test_an_unreadable_head_stages_nothing(root: Path) -> None:
    """Where HEAD's commit or tree cannot be had, only the work tree is compared."""
    with Repository.find(str(root)) as repo:
        commit = repo.head().commit
    (root / ".git/objects" / commit[:2] / commit[2:]).unlink()
    with Repository.find(str(root)) as repo:
        assert dirty_files(repo, captured(a="x"), not_captured=bool) == ("a",)
    (root / ".git/refs/heads/main").write_text("")
    with Repository.find(str(root)) as repo:
        assert dirty_files(repo, captured(a="x"), not_captured=bool) == ("a",)


def test_a_missing_subtree_hides_only_itself(root: Path) -> None:
    """As in a partial clone."""
    git("read-tree", "--empty", cwd=root)
    git("add", "a", cwd=root)
    tree = git("rev-parse", "HEAD:d", cwd=root).decode().strip()
    (root / ".git/objects" / tree[:2] / tree[2:]).unlink()
    with Repository.find(str(root)) as repo:
        rows = [(b"a", FILE, blob("a"))]
        assert dirty_files(repo, rows, not_captured=bool) == ()


def _put(root: Path, kind: bytes, data: bytes) -> bytes:
    whole = b"%s %d\0" % (kind, len(data)) + data
    oid = hashlib.sha1(whole).digest()
    path = root / ".git/objects" / oid.hex()[:2] / oid.hex()[2:]
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(zlib.compress(whole))
    return oid


def test_a_tree_bomb_ends(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few small trees that unfold to ten thousand million files: the walk gives up and stages nothing."""
    monkeypatch.setattr(objects, "BUDGET", 10_000)
    oid, mode = _put(root, b"blob", b"boom"), b"100644"
    for _ in range(10):
        oid, mode = _put(root, b"tree", b"".join(b"%s f%d\0" % (mode, n) + oid for n in range(10))), b"40000"
    commit = _put(root, b"commit", b"tree " + oid.hex().encode() + b"\n\n")
    (root / ".git/refs/heads/main").write_text(commit.hex())
    with Repository.find(str(root)) as repo:
        assert dirty_files(repo, captured(), not_captured=bool) == ()


def test_a_tree_that_holds_itself_ends(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names of objects are not checked here, so a ring is possible, and bounded."""
    oid = b"r" * 20
    whole = b"tree %d\0" % 25 + b"40000 x\0" + oid
    path = root / ".git/objects" / oid.hex()[:2] / oid.hex()[2:]
    path.parent.mkdir()
    path.write_bytes(zlib.compress(whole.replace(b"25", b"%d" % len(b"40000 x\0" + oid))))
    commit = _put(root, b"commit", b"tree " + oid.hex().encode() + b"\n\n")
    (root / ".git/refs/heads/main").write_text(commit.hex())
    with Repository.find(str(root)) as repo:
        assert dirty_files(repo, captured(), not_captured=bool) == ("a", "d/b", "d/c")
