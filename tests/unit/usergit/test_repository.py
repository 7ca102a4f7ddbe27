"""Finding a repository and reading HEAD, excludes and index from it, whoever wrote its files."""

from __future__ import annotations

import ast
import os
from pathlib import Path

import pytest

import mulligan.usergit
from mulligan.usergit.repository import IGNORES_LIMIT, Repository
from mulligan.usergit.status import dirty_files, update_dirty
from tools import git

COMMIT = "1234567890abcdef1234567890abcdef12345678"


def bare_bones(folder: Path, head: bytes = b"ref: refs/heads/main\n") -> Path:
    """The least that is a git directory."""
    for name in ("objects", "refs/heads"):
        (folder / name).mkdir(parents=True)
    (folder / "HEAD").write_bytes(head)
    return folder


def everything(workspace: Path) -> Repository | None:
    """Asks every question there is; nothing may raise."""
    repo = Repository.find(str(workspace))
    if repo is not None:
        with repo:
            repo.head()
            repo.info_exclude()
            repo.outer_ignores()
            repo.index_key()
            repo.index()
            repo.raw_index()
            first = dirty_files(repo, [(b"a", 0o100644, bytes(20))], not_captured=lambda _: False)
            with Repository.find(str(workspace)) as again:
                update_dirty(again, first, {b"a": None, b"b/c": (0o100644, bytes(20))})
                assert again.state_key() == repo.state_key()
    return repo


def test_nothing_that_reads_or_moves_a_repository_can_start_a_process() -> None:
    """What runs git is a package of its own."""
    for path in Path(mulligan.usergit.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            starts = {"subprocess", "multiprocessing", "ctypes", "pty", "asyncio"} & {n.split(".")[0] for n in names}
            assert not starts and not any(name.startswith("mulligan.committing") for name in names)


def test_no_repository(tmp_path: Path) -> None:
    """Without a `.git` there is none."""
    assert Repository.find(str(tmp_path)) is None
    assert Repository.find(str(tmp_path / "missing")) is None


def test_the_repository_is_found_from_below(tmp_path: Path) -> None:
    """The prefix is the workspace's path in the work tree."""
    bare_bones(tmp_path / ".git")
    (tmp_path / "a" / "b").mkdir(parents=True)
    with Repository.find(str(tmp_path)) as repo:
        assert repo.prefix == b""
    with Repository.find(str(tmp_path / "a" / "b")) as repo:
        assert repo.prefix == b"a/b"


def test_the_search_stops_at_home(tmp_path: Path) -> None:
    """A repository of dotfiles does not own every project, but it is one if asked for itself."""
    bare_bones(tmp_path / ".git")
    (tmp_path / "project").mkdir()
    assert Repository.find(str(tmp_path / "project"), home=str(tmp_path)) is None
    with Repository.find(str(tmp_path), home=str(tmp_path)) as repo:
        assert repo.prefix == b""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give files away")
def test_a_repository_of_another_user_above_does_not_count(tmp_path: Path) -> None:
    """Else anybody's `.gitignore` in a shared directory could switch protection off."""
    bare_bones(tmp_path / ".git")
    (tmp_path / "project").mkdir()
    os.chown(tmp_path / ".git", 12345, 12345)
    assert Repository.find(str(tmp_path / "project")) is None
    with Repository.find(str(tmp_path)) as repo:
        assert repo.head().branch == "main"


def test_environment_variables_of_git_are_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An exported GIT_DIR belongs to somebody else's command."""
    bare_bones(tmp_path / "here" / ".git")
    bare_bones(tmp_path / "there", b"ref: refs/heads/wrong\n")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "there"))
    monkeypatch.setenv("GIT_INDEX_FILE", "/dev/zero")
    with Repository.find(str(tmp_path / "here")) as repo:
        assert repo.head().branch == "main"
        assert repo.index_key() is None


def test_a_broken_git_directory_is_passed_over(tmp_path: Path) -> None:
    """As git does: an empty `.git` directory is no repository, the one above is."""
    bare_bones(tmp_path / ".git")
    (tmp_path / "project" / ".git").mkdir(parents=True)
    with Repository.find(str(tmp_path / "project")) as repo:
        assert repo.prefix == b"project"


@pytest.mark.parametrize(
    "pointer",
    [
        *(b"", b"gitdir: ", b"gitdir: /etc\n", b"gitdir: .git\n", b"gitdir: .\n", b"gitdir: /dev/null\n", b"nonsense"),
        *(b"gitdir: missing\n", b"gitdir: a\0b\n", b"gitdir: /proc/self/fd\n", b"gitdir: " + b"x" * 9000, b"\xff" * 99),
    ],
)
def test_a_git_file_that_points_nowhere(tmp_path: Path, pointer: bytes) -> None:
    """It is no repository, and nothing fails."""
    (tmp_path / ".git").write_bytes(pointer)
    assert everything(tmp_path) is None


def test_a_git_file_of_a_gigabyte_is_not_read(tmp_path: Path) -> None:
    """Pointers are short."""
    with (tmp_path / ".git").open("wb") as file:
        file.write(b"gitdir: x")
        file.truncate(1 << 30)
    assert everything(tmp_path) is None


def test_a_pipe_in_place_of_anything_does_not_hang(tmp_path: Path) -> None:
    """Whatever should be a file and is a pipe counts as unreadable."""
    os.mkfifo(tmp_path / ".git")
    assert everything(tmp_path) is None
    (tmp_path / ".git").unlink()
    bones = bare_bones(tmp_path / ".git")
    (bones / "info").mkdir()
    for name in ("index", "packed-refs", "refs/heads/main", "info/exclude", "commondir"):
        os.mkfifo(bones / name)
    assert everything(tmp_path) is not None
    with Repository.find(str(tmp_path)) as repo:
        assert (repo.head().commit, repo.head().branch, repo.head().known) == ("", "main", False)
        assert repo.index() is None
        assert repo.info_exclude() == b""
    (bones / "HEAD").unlink()
    os.mkfifo(bones / "HEAD")
    assert everything(tmp_path) is None


def test_a_common_directory_that_points_to_itself_or_away(tmp_path: Path) -> None:
    """`commondir` is one step, never a chain."""
    bones = bare_bones(tmp_path / ".git")
    (bones / "commondir").write_bytes(b".\n")
    assert everything(tmp_path) is not None
    (bones / "commondir").write_bytes(b"/etc\n")
    assert everything(tmp_path) is None


def test_an_index_of_a_gigabyte_is_not_read(tmp_path: Path) -> None:
    """A sparse file costs its maker nothing; it must not cost memory here."""
    bones = bare_bones(tmp_path / ".git")
    with (bones / "index").open("wb") as file:
        file.write(b"DIRC\0\0\0\x02\0\x80\0\0")
        file.truncate(1 << 30)
    assert everything(tmp_path) is not None
    with Repository.find(str(tmp_path)) as repo:
        assert repo.index() is None


def test_links_inside_are_not_followed(tmp_path: Path) -> None:
    """A link in place of a file is not a way to read another one."""
    bones = bare_bones(tmp_path / ".git")
    (tmp_path / "secret").write_text("*\n")
    (bones / "info").mkdir()
    (bones / "info/exclude").symlink_to(tmp_path / "secret")
    (bones / "index").symlink_to(tmp_path / "secret")
    (bones / "refs/heads/main").symlink_to(tmp_path / "secret")
    with Repository.find(str(tmp_path)) as repo:
        assert repo.info_exclude() == b""
        assert repo.index() is None
        assert repo.head().known is False


def test_excludes_are_read_up_to_a_limit(tmp_path: Path) -> None:
    """A rule file that is too large counts as none, which captures more, not less."""
    bones = bare_bones(tmp_path / ".git")
    (bones / "info").mkdir()
    (bones / "info/exclude").write_bytes(b"*.o\n")
    with Repository.find(str(tmp_path)) as repo:
        assert repo.info_exclude() == b"*.o\n"
        (bones / "info/exclude").write_bytes(b"#" * (IGNORES_LIMIT + 1))
        assert repo.info_exclude() == b""


def test_ignore_files_above_a_subdirectory(tmp_path: Path) -> None:
    """Outermost first, each with the way from there to the workspace; links and missing ones are left out."""
    bare_bones(tmp_path / ".git")
    deep = tmp_path / "a" / "b" / "c"
    deep.mkdir(parents=True)
    (tmp_path / ".gitignore").write_bytes(b"top\n")
    (tmp_path / "a" / ".gitignore").symlink_to("../.gitignore")
    (tmp_path / "a" / "b" / ".gitignore").write_bytes(b"inner\n")
    (deep / ".gitignore").write_bytes(b"the workspace's own\n")
    with Repository.find(str(deep)) as repo:
        assert repo.outer_ignores() == [(b"a/b/c", b"top\n"), (b"c", b"inner\n")]
    with Repository.find(str(tmp_path)) as repo:
        assert repo.outer_ignores() == []


def test_the_state_key_follows_head_and_index(tmp_path: Path) -> None:
    """A commit, a branch, `git add`: each makes another key; looking does not."""
    git("init", "-q", "-b", "main", ".", cwd=tmp_path)
    keys = set()

    def key() -> bytes:
        with Repository.find(str(tmp_path)) as repo:
            assert repo.state_key() == repo.state_key()
            return repo.state_key()

    keys.add(key())
    (tmp_path / "a").write_text("1")
    assert key() in keys
    for command in (
        ["add", "a"],
        ["commit", "-qm", "x"],
        ["branch", "other"],
        ["symbolic-ref", "HEAD", "refs/heads/other"],
    ):
        git(*command, cwd=tmp_path)
        keys.add(key())
    assert len(keys) == 4


def test_the_index_is_read_again_when_it_changed(tmp_path: Path) -> None:
    """The cache goes by the file's fingerprint."""
    git("init", "-q", ".", cwd=tmp_path)
    with Repository.find(str(tmp_path)) as repo:
        assert len(repo.index()) == 0
        for number in range(3):
            (tmp_path / f"f{number}").write_text("x")
            git("add", "-A", cwd=tmp_path)
            assert repo.raw_index().find(b"f%d" % number) is not None
            assert len(repo.index()) == number + 1
            assert repo.index() is repo.index()
            assert repo.raw_index() is None


def test_a_git_directory_behind_a_link(tmp_path: Path) -> None:
    """`.git` itself may be a link, as some tools make it."""
    bones = bare_bones(tmp_path / "elsewhere")
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / ".git").symlink_to(bones)
    with Repository.find(str(tmp_path / "project")) as repo:
        assert repo.head() == ("", "main", "refs/heads/main", True)


def test_a_bare_repository_in_the_workspace_is_only_files(tmp_path: Path) -> None:
    """Nothing but `.git` makes a repository."""
    git("init", "-q", "--bare", ".", cwd=tmp_path)
    assert Repository.find(str(tmp_path)) is None
