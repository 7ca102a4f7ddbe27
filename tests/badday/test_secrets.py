"""Secrets on a bad day: what an agent deletes comes back, and what is secret is shown to no reader."""

from __future__ import annotations

from pathlib import Path

from badday.play import Agent, tree, typed
from tools import git

KEY = "-----BEGIN RSA PRIVATE" + " KEY-----\nMIIEow\n-----END RSA PRIVATE" + " KEY-----\n"
COMMITTED = {
    ".envrc": "export STAGE=dev\n",
    ".npmrc": "registry=internal\n",
    "config/credentials.json": '{"user": "test"}\n',
    "config/secrets.yml": "stage: test\n",
    "tests/fixture.pem": KEY,
    "tests/key_fixture.txt": KEY,
    "src/app.py": "print(1)\n",
}


def write(project: Path, files: dict[str, str]) -> None:
    """Writes some files."""
    for path, text in files.items():
        (project / path).parent.mkdir(parents=True, exist_ok=True)
        (project / path).write_text(text)


def repository(project: Path) -> None:
    """Makes the project a repository in which files that are named like secrets are committed."""
    write(project, COMMITTED)
    git("init", "-q", cwd=project)
    git("add", "-A", "-f", cwd=project)
    git("commit", "-q", "-m", "all", cwd=project)


def test_committed_files_that_are_named_like_secrets_come_back(project, private_home):
    repository(project)
    agent = Agent(project)
    agent.turn("clean up", "rm -rf tests config .npmrc .envrc")
    assert tree(project) == {"src/app.py": "print(1)\n"}
    typed(project, "undo")
    assert tree(project) == COMMITTED
    assert git("status", "--short", cwd=project) == b""


def test_a_file_that_git_no_longer_tracks_is_treated_as_a_secret_again(project, private_home):
    repository(project)
    typed(project, "save", "tracked")
    git("rm", "-q", "--cached", "tests/key_fixture.txt", ".npmrc", cwd=project)
    typed(project, "save", "untracked")
    typed(project, "cat", "tracked:tests/key_fixture.txt")
    typed(project, "cat", "untracked:tests/key_fixture.txt", expect=1)
    typed(project, "cat", "untracked:.npmrc", expect=1)
    assert tree(project) == COMMITTED
