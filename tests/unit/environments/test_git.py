"""The git environment beyond Chimera's own list: what is staged, merges, worktrees, unborn branches, retention."""

from __future__ import annotations

from pathlib import Path

import pytest

import mulligan
from mulligan.environments.git import GitEnvironment
from mulligan.errors import GitFailed
from tools import git as plain_git


def git(root: Path, *words: str) -> str:
    return plain_git("-c", "user.name=a", "-c", "user.email=a@b", *words, cwd=root).decode().strip()


@pytest.fixture
def env(project: Path) -> GitEnvironment:
    made = GitEnvironment(project)
    made.write_file("f", "1")
    return made


def test_files_that_were_there_are_in_the_first_commit(project: Path) -> None:
    (project / "f").write_text("1")
    (project / ".env").write_text("TOKEN=1")
    GitEnvironment(project).setup()
    assert git(project, "ls-tree", "-r", "--name-only", "HEAD").split() == ["f"]


def test_nothing_changed_is_a_commit_all_the_same(env: GitEnvironment, project: Path) -> None:
    first, second = env.checkpoint(), env.checkpoint()
    assert first != second
    assert git(project, "rev-parse", f"{second}^{{tree}}") == git(project, "rev-parse", f"{first}^{{tree}}")
    assert env.checkpoint_ids() == [first, second]


def test_an_unborn_branch_gets_its_first_commit(project: Path) -> None:
    git(project, "init", "-q")
    env = GitEnvironment(project)
    made = env.checkpoint()
    assert git(project, "rev-list", "--all").split() == [made]


def test_what_is_staged_can_be_had_again(env: GitEnvironment, project: Path) -> None:
    made = env.checkpoint()
    env.write_file("f", "staged, and in no file")
    git(project, "add", "f")
    env.write_file("f", "3")
    env.restore(made)
    assert git(project, "status", "--porcelain") == ""
    before = next(cp for cp in env.workspace.log() if cp.description.startswith("before restore to"))
    env.write_file("f", "4")
    env.checkpoint()
    env.workspace.restore(before, git=True)
    assert git(project, "show", ":f") == "staged, and in no file"
    assert env.read_file("f") == "3"


def test_in_the_middle_of_a_merge_nothing_is_committed(env: GitEnvironment, project: Path) -> None:
    env.checkpoint()
    git(project, "checkout", "-qb", "other")
    env.write_file("f", "theirs")
    env.checkpoint()
    git(project, "checkout", "-q", "-")
    env.write_file("f", "ours")
    env.checkpoint()
    plain_git("merge", "other", cwd=project, check=False)
    head, files = git(project, "rev-parse", "HEAD"), (project / "f").read_bytes()
    with pytest.raises(mulligan.MulliganError, match="middle of something"):
        env.checkpoint()
    assert (git(project, "rev-parse", "HEAD"), (project / "f").read_bytes()) == (head, files)


def test_a_worktree_commits_on_its_own_branch(env: GitEnvironment, project: Path, tmp_path: Path) -> None:
    env.checkpoint()
    head = git(project, "rev-parse", "HEAD")
    git(project, "worktree", "add", "-qb", "side", str(tmp_path / "side"))
    side = GitEnvironment(tmp_path / "side")
    side.write_file("f", "side")
    made = side.checkpoint()
    assert git(project, "rev-parse", "side") == made
    assert git(project, "rev-parse", "HEAD") == head
    side.write_file("f", "x")
    side.restore(made)
    assert side.read_file("f") == "side"


def test_a_detached_head_moves_and_no_branch(env: GitEnvironment, project: Path) -> None:
    env.checkpoint()
    branch = git(project, "symbolic-ref", "HEAD")
    git(project, "checkout", "-q", "--detach")
    at = git(project, "rev-parse", branch)
    env.write_file("f", "2")
    made = env.checkpoint()
    assert (git(project, "rev-parse", "HEAD"), git(project, "rev-parse", branch)) == (made, at)


def test_a_checkpoint_that_retention_let_go_comes_from_its_commit(env: GitEnvironment) -> None:
    made = env.checkpoint()
    for checkpoint in env.workspace.log():
        env.workspace.delete(checkpoint)
    env.write_file("f", "2")
    env.write_file("new", "2")
    env.restore(made)
    assert env.read_file("f") == "1"
    assert not (env.workdir / "new").exists()


def test_ignored_files_stay(env: GitEnvironment) -> None:
    env.write_file(".gitignore", "out/\n")
    env.write_file("out/x", "1")
    made = env.checkpoint()
    env.write_file("out/x", "2")
    env.restore(made)
    assert env.read_file("out/x") == "2"


def test_a_clone_has_a_directory_of_its_own(env: GitEnvironment) -> None:
    import shutil

    env.checkpoint()
    copy = env.clone()
    try:
        assert copy.workdir != env.workdir
        assert copy.read_file("f") == "1"
    finally:
        shutil.rmtree(copy.workdir)


def test_one_undo_takes_files_and_index_back_exactly(env: GitEnvironment, project: Path) -> None:
    first = env.checkpoint()
    env.write_file("f", "2")
    env.checkpoint()
    env.write_file("f", "3")
    env.write_file("new", "staged")
    git(project, "add", "new")
    env.write_file("new", "in the work tree")
    before, head = git(project, "status", "--porcelain"), git(project, "rev-parse", "HEAD")

    env.restore(first)
    assert git(project, "diff", first) == "" and not (project / "new").exists()
    assert git(project, "rev-parse", "HEAD") == head

    mulligan.open(project).undo()
    assert git(project, "status", "--porcelain") == before
    assert git(project, "show", ":new") == "staged"
    assert (env.read_file("new"), env.read_file("f")) == ("in the work tree", "3")
    mulligan.open(project).redo()
    assert git(project, "diff", first) == "" and git(project, "diff", "--cached", first) == ""


def test_a_part_of_a_repository_stages_and_unstages_its_own_paths_alone(project: Path) -> None:
    git(project, "init", "-q")
    (project / "part").mkdir()
    env = GitEnvironment(project / "part")
    env.write_file("f", "1")
    first = env.checkpoint()
    env.write_file("f", "2")
    env.write_file("new", "1")
    (project / "outside").write_text("1")
    git(project, "add", "-A")
    before = git(project, "status", "--porcelain")
    env.restore(first)
    assert git(project, "status", "--porcelain") == "A  outside"
    mulligan.open(project / "part").undo()
    assert git(project, "status", "--porcelain") == before


def test_in_the_middle_of_a_rebase_files_and_index_go_and_come_back(env: GitEnvironment, project: Path) -> None:
    first = env.checkpoint()
    env.write_file("f", "ours")
    git(project, "commit", "-qam", "ours")
    git(project, "checkout", "-q", "-b", "side", first)
    env.write_file("f", "theirs")
    git(project, "commit", "-qam", "theirs")
    plain_git("-c", "user.name=a", "-c", "user.email=a@b", "rebase", "-q", "-", cwd=project, check=False)
    before = git(project, "status", "--porcelain")
    assert before == "UU f"
    env.restore(first)
    assert env.read_file("f") == "1"
    mulligan.open(project).undo()
    assert git(project, "status", "--porcelain") == before


def test_a_repository_that_does_not_know_this_directory_gets_no_commit(tmp_path: Path, project: Path) -> None:
    """Anybody can put a `.git` file into a directory that points to another project."""
    victim = GitEnvironment(tmp_path / "victim")
    victim.write_file("f", "1")
    head = victim.checkpoint()
    (project / ".git").write_text(f"gitdir: {tmp_path}/victim/.git\n")
    (project / "x").write_text("1")
    with pytest.raises(GitFailed, match="does not point back"):
        GitEnvironment(project).checkpoint()
    assert git(tmp_path / "victim", "rev-parse", "HEAD") == head
    assert git(tmp_path / "victim", "status", "--porcelain") == ""


def test_a_repository_in_another_format_is_restored_with_its_index(project: Path) -> None:
    git(project, "init", "-q", "--object-format=sha256")
    env = GitEnvironment(project)
    env.write_file("f", "1")
    first = env.checkpoint()
    env.write_file("f", "2")
    git(project, "add", "f")
    env.restore(first)
    assert env.read_file("f") == "1" and git(project, "status", "--porcelain") == ""


def test_a_tracked_file_below_an_ignored_directory_is_committed(env: GitEnvironment, project: Path) -> None:
    env.write_file(".gitignore", "out/\n")
    env.write_file("out/kept", "1")
    env.setup()
    git(project, "add", "-f", "out/kept")
    git(project, "commit", "-qm", "tracked all the same")
    env.write_file("out/kept", "2")
    assert git(project, "show", f"{env.checkpoint()}:out/kept") == "2"


def test_20_a_repository_that_is_made_here_has_an_identity_unless_its_user_has_one(
    tmp_path: Path, private_home: Path
) -> None:
    first = GitEnvironment(tmp_path / "first")
    first.setup()
    assert plain_git("log", "--format=%an %ae", cwd=tmp_path / "first").decode().strip() == "Chimera chimera@local"
    (private_home / ".gitconfig").write_text("[user]\n\tname = Me\n\temail = me@here\n")
    second = GitEnvironment(tmp_path / "second")
    second.setup()
    assert plain_git("log", "--format=%an %ae", cwd=tmp_path / "second").decode().strip() == "Me me@here"
    assert plain_git("config", "--local", "--get", "user.name", cwd=tmp_path / "second", check=False) == b""
