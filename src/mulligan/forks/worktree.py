"""
Makes a fork a git worktree of the project's repository, by git itself.

Git gets an empty worktree under a temporary name; its `.git` file is moved into the fork, and the repository learns where it is.
The fork's files are not touched.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from mulligan.committing.commands import Git
from mulligan.errors import GitFailed, UserError
from mulligan.safefs.directory import Directory, random_name

if TYPE_CHECKING:
    from mulligan.model.checkpoint import Checkpoint


def check_repository(root: str) -> None:
    """Raises UserError where the workspace is not the top of a git repository with a commit."""
    git = Git(root)
    if not git.is_repository or git.prefix:
        raise UserError(
            f"{root} is not the top of a git repository, so --git cannot make a worktree. Nothing was forked.",
            hint="Leave out --git.",
        )
    if git.run(["rev-parse", "--verify", "-q", "HEAD"]).code:
        raise UserError("The repository has no commit yet. Nothing was forked.", hint="git commit, or leave out --git.")


def make_worktree(root: str, directory: str, checkpoint: Checkpoint) -> str:
    """Makes a fork a worktree on a new branch with its name, at the commit of the checkpoint; returns what it stands on."""
    git, branch = Git(root), os.path.basename(directory)
    commit = checkpoint.git.commit_hash if checkpoint.git is not None else ""
    if not commit or git.run(["cat-file", "-e", f"{commit}^{{commit}}"]).code:
        commit = "HEAD"
    known = not git.run(["rev-parse", "--verify", "-q", f"refs/heads/{branch}"]).code
    valid = not git.run(["check-ref-format", "--branch", branch]).code
    on = ["--detach"] if known or not valid else ["-b", branch]
    temporary = os.path.join(os.path.dirname(directory), f".mulligan-{random_name(6)}-0")
    git.run(["worktree", "add", "--no-checkout", *on, temporary, commit], check=True)
    with Directory.open(temporary) as made, Directory.open(directory) as fork:
        made.rename_new(b".git", b".git", to=fork)
    with Directory.open(os.path.dirname(temporary)) as above:
        above.rmdir(os.fsencode(os.path.basename(temporary)))
    git.run(["worktree", "repair", directory], check=True)
    Git(directory).run(["reset", "-q"], check=True)
    return "a detached commit" if on == ["--detach"] else f"branch {branch}"


def prune_worktrees(root: str) -> None:
    """Has the repository forget worktrees whose directory is gone."""
    git = Git(root)
    if git.is_repository and git.run(["worktree", "prune"]).code:
        raise GitFailed("git worktree prune failed. The fork is removed.", hint="git worktree prune")
