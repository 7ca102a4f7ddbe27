"""
Shadow git: a git directory outside the workspace with an index that persists between checkpoints.

This is what most agents do today, and the yardstick: every ratio in the report is against `ShadowGit`. `ShadowGitPlumbing`
is the same repository driven the quicker way (`write-tree` and `commit-tree` instead of `commit`), `FastImport` a quicker
way to fill an empty one, and `ShadowGitSeeded` the quickest where the workspace is a git repository already. All run with gc.auto=0, so that no run pays for a housekeeping that another caused; none
saves the present state before a `reset --hard`, and git's default syncs no loose object to disk.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import ClassVar

from bench import trees
from bench.contestants import DoesNotApply, NotAvailable, git_listing, git_output

NOTHING_TO_COMMIT = 1


class ShadowGit:
    """`git add -A` and `git commit`; `git reset --hard`; `git log --oneline`; `git repack -adf`."""

    key: ClassVar[str] = "shadow-git"
    title: ClassVar[str] = "shadow git"
    about: ClassVar[str] = (
        "persistent index, `add -A` + `commit`; restore is `reset --hard` (keeps no copy of what it replaces)"
    )
    own_names: ClassVar[frozenset[str]] = frozenset()
    first_only: ClassVar[bool] = False

    def __init__(self, workspace: Path, store: Path, /) -> None:
        self.workspace = workspace
        self.git_dir = store / "shadow.git"
        self._environment = os.environ | {"GIT_DIR": str(self.git_dir), "GIT_WORK_TREE": str(workspace)}

    @classmethod
    def prepare(cls, _peers: Path, /) -> str:
        if shutil.which("git") is None:
            raise NotAvailable("no git command on this machine")
        return subprocess.run(["git", "--version"], check=True, capture_output=True, text=True).stdout.split()[2]

    def first(self) -> str:
        self._init()
        return self.save()

    def save(self) -> str:
        self._git("add", "-A")
        self._git("commit", "-q", "-m", "checkpoint")
        return (self.git_dir / self._head()).read_text().strip()

    def save_unchanged(self) -> bool:
        self._git("add", "-A")
        return self._git("commit", "-q", "-m", "checkpoint", accept=NOTHING_TO_COMMIT).returncode == NOTHING_TO_COMMIT

    def restore(self, ref: str) -> None:
        self._git("reset", "-q", "--hard", ref)

    def log(self) -> int:
        return self._git("log", "--oneline").stdout.count(b"\n")

    def gc(self) -> None:
        self._git("repack", "-a", "-d", "-f", "-q")

    def listing(self, ref: str) -> dict[str, str]:
        return git_listing(self.git_dir, ref)

    def read(self, ref: str, path: str) -> bytes:
        return git_output(self.git_dir, "cat-file", "blob", f"{ref}:{path}")

    def store_paths(self) -> list[Path]:
        return [self.git_dir]

    def close(self) -> None:
        """Nothing stays open between commands."""

    def _init(self) -> None:
        subprocess.run(["git", "init", "-q", "--bare", str(self.git_dir)], check=True, capture_output=True)
        with open(self.git_dir / "config", "a", encoding="utf-8") as config:
            config.write("[core]\n\tbare = false\n[gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n")
            config.write("[user]\n\tname = bench\n\temail = bench@localhost\n")

    def _head(self) -> str:
        return (self.git_dir / "HEAD").read_text().removeprefix("ref: ").strip()

    def _git(self, *args: str, accept: int = 0) -> subprocess.CompletedProcess[bytes]:
        done = subprocess.run(
            ["git", *args], check=False, cwd=self.workspace, env=self._environment, capture_output=True
        )
        if done.returncode not in {0, accept}:
            raise RuntimeError(
                f"git {args[0]} exited with {done.returncode}: {done.stderr.decode(errors='replace').strip()}"
            )
        return done


class ShadowGitSafe(ShadowGit):
    """The same, with what mulligan does at every restore: the present state is committed first, so that nothing is lost."""

    key: ClassVar[str] = "shadow-git-safe"
    title: ClassVar[str] = "shadow git, saving first"
    about: ClassVar[str] = "restore is `add -A` + `commit`, then `reset --hard`: it keeps a copy of what it replaces"

    def restore(self, ref: str) -> None:
        self.save_unchanged()
        super().restore(ref)


class ShadowGitPlumbing(ShadowGit):
    """`git add -A`, `write-tree`, `commit-tree`, `update-ref`: no commit machinery; nothing at all when the tree is the same."""

    key: ClassVar[str] = "shadow-git-plumbing"
    title: ClassVar[str] = "shadow git, plumbing"
    about: ClassVar[str] = (
        "persistent index, `add -A` + `write-tree` + `commit-tree` + `update-ref`; restore is `reset --hard`"
    )

    def __init__(self, workspace: Path, store: Path, /) -> None:
        super().__init__(workspace, store)
        self._latest: tuple[str, str] | None = None

    def first(self) -> str:
        self._latest = None
        return super().first()

    def save(self) -> str:
        self._git("add", "-A")
        return self._commit(self._tree())

    def save_unchanged(self) -> bool:
        self._git("add", "-A")
        tree = self._tree()
        if self._latest is not None and self._latest[1] == tree:
            return True
        self._commit(tree)
        return False

    def restore(self, ref: str) -> None:
        super().restore(ref)
        self._latest = None

    def _tree(self) -> str:
        return self._git("write-tree").stdout.decode().strip()

    def _commit(self, tree: str) -> str:
        parents = ["-p", self._latest[0]] if self._latest is not None else []
        commit = self._git("commit-tree", *parents, "-m", "checkpoint", tree).stdout.decode().strip()
        self._git("update-ref", "HEAD", commit)
        self._latest = (commit, tree)
        return commit


class FastImport(ShadowGit):
    """`git fast-import`, fed with every file: only a first capture, one pack instead of one file per object."""

    key: ClassVar[str] = "fast-import"
    title: ClassVar[str] = "git fast-import"
    about: ClassVar[str] = "every file fed to `git fast-import` by this script; a first capture only"
    first_only: ClassVar[bool] = True

    def first(self) -> str:
        self._init()
        command = ["git", "fast-import", "--quiet", "--done"]
        with subprocess.Popen(command, cwd=self.workspace, env=self._environment, stdin=subprocess.PIPE) as process:
            assert process.stdin is not None
            write = process.stdin.write
            write(b"commit %s\ncommitter bench <bench@localhost> 0 +0000\ndata 0\n" % self._head().encode())
            for path in trees.paths(self.workspace, leave_out={".git"}):
                with open(self.workspace / path, "rb") as file:
                    content = file.read()
                    mode = b"100755" if os.fstat(file.fileno()).st_mode & 0o100 else b"100644"
                write(b"M %s inline %s\ndata %d\n%s\n" % (mode, os.fsencode(path), len(content), content))
            write(b"done\n")
        if process.returncode != 0:
            raise RuntimeError(f"git fast-import exited with {process.returncode}")
        return git_output(self.git_dir, "rev-parse", "HEAD").decode().strip()


class ShadowGitSeeded(ShadowGit):
    """Borrows the objects and copies the index of the workspace's own repository before its first `add -A`."""

    key: ClassVar[str] = "shadow-git-seeded"
    title: ClassVar[str] = "shadow git, seeded"
    about: ClassVar[str] = (
        "index copied from, objects borrowed from (not owned) the workspace's own repository; a first capture only"
    )
    first_only: ClassVar[bool] = True

    def first(self) -> str:
        own = self.workspace / ".git"
        if not own.is_dir():
            raise DoesNotApply("only where the workspace is a git repository")
        self._init()
        (self.git_dir / "objects/info/alternates").write_text(f"{own}/objects\n")
        shutil.copyfile(own / "index", self.git_dir / "index")
        return self.save()
