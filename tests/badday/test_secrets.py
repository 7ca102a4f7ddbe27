"""Secrets on a bad day: what an agent deletes comes back, and what is secret is shown to no reader."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from play import Agent, tree, typed
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


def test_an_undo_goes_on_after_git_itself_was_deleted(project, private_home):
    """Files that were saved because git tracked them are secrets now; their bytes did not change."""
    repository(project)
    typed(project, "save", "one")
    (project / "src/two.py").write_text("2\n")
    typed(project, "save", "two")
    shutil.rmtree(project / ".git")
    said = typed(project, "undo", "--dry-run")
    assert ".npmrc" not in said and "src/two.py" in said
    assert "removed src/two.py" in (said := typed(project, "undo", expect=3)) and ".npmrc" not in said
    assert ".git" in said and tree(project) == COMMITTED
    assert "Nothing to undo" in typed(project, "undo", expect=1)
    assert "src/two.py" in (said := typed(project, "redo")) and ".npmrc" not in said


def test_an_undo_goes_on_after_a_secret_was_committed(project, private_home):
    repository(project)
    typed(project, "save", "one")
    (project / ".env").write_text("KEY=1\n")
    typed(project, "save", "two")
    git("add", "-f", ".env", cwd=project)
    said = typed(project, "undo")
    assert "removed .env" in said and tree(project) == COMMITTED
    typed(project, "redo")
    assert (project / ".env").read_text() == "KEY=1\n"
    (project / ".env").write_text("KEY=2\n")
    assert "restored .env" in typed(project, "undo")
    assert (project / ".env").read_text() == "KEY=1\n"


def test_the_undo_of_a_turn_that_deleted_git_names_no_file_that_did_not_change(project, private_home):
    repository(project)
    agent = Agent(project)
    agent.turn("start anew", "rm -rf .git; echo 2 > src/two.py")
    said = typed(project, "undo", expect=3)
    assert "removed src/two.py" in said and ".npmrc" not in said
    assert tree(project) == COMMITTED


def test_status_counts_sealed_files_as_the_save_does(project, private_home):
    write(project, {".env": "KEY=1\n", "a.py": "1\n"})
    assert "2 files saved" in typed(project, "save")
    assert "2 files: all files are protected" in typed(project, "status")


def test_a_file_that_git_no_longer_tracks_is_sealed(project, private_home):
    repository(project)
    typed(project, "save", "tracked")
    git("rm", "-q", "--cached", "tests/key_fixture.txt", ".npmrc", cwd=project)
    typed(project, "save", "untracked")
    assert sealed(project, "tracked") == []
    assert sealed(project, "untracked") == [".npmrc", "tests/key_fixture.txt"]
    assert "PRIVATE" in typed(project, "cat", "tracked:tests/key_fixture.txt")
    said = typed(project, "cat", "untracked:tests/key_fixture.txt", expect=1)
    assert "sealed" in said and "PRIVATE" not in said
    assert json.loads(typed(project, "--json", "diff", "tracked", "untracked"))["modified"] == sealed(
        project, "untracked"
    )
    rm(project, ".npmrc", "tests/key_fixture.txt")
    typed(project, "restore", "untracked", "-y")
    assert tree(project) == COMMITTED
    typed(project, "restore", "tracked", "-y")
    assert tree(project) == COMMITTED


# -- secrets that git does not track ----------------------------------------------------------------

SECRETS = {
    ".env": "TOKEN=hunter2-of-this-test\n",
    "config/secrets.yml": "password: hunter2-of-this-test\n",
    "notes.txt": KEY,
}


@pytest.fixture
def secretive(project: Path, private_home: Path) -> Path:
    """A project with secrets, one of them ignored, in a directory that is read by others and not."""
    write(
        project, {".gitignore": ".env\nbuild/\n", "src/app.py": "print(1)\n", "build/.env": "IN_BUILD=1\n", **SECRETS}
    )
    (project / ".env").chmod(0o600)
    (project / "config/secrets.yml").chmod(0o640)
    git("init", "-q", cwd=project)
    git("add", ".gitignore", "src", cwd=project)
    git("commit", "-q", "-m", "code", cwd=project)
    return project


def test_a_new_key_is_told_once_with_its_place_and_the_line_for_a_copy(secretive, private_home, tmp_path):
    said = typed(secretive, "save", "one")
    (line,) = [line for line in said.splitlines() if "new key" in line]
    (file,) = [path for path in private_home.rglob("mulligan/keys/*") if path.name != "default"]
    assert line == f"A new key for your secrets was made: {file}. Keep a copy: mulligan key export FILE"
    typed(secretive, "key", "export", str(tmp_path / "copy.key"))
    assert "new key" not in typed(secretive, "save", "two") + typed(secretive, "status")


def test_a_key_that_a_hook_makes_is_told_to_the_person(secretive, private_home):
    agent = Agent(secretive)
    assert "A new key for your secrets was made: " in agent.begin("hello")["systemMessage"]
    assert "systemMessage" not in agent.begin("once more")


def sealed(project: Path, ref: str) -> list[str]:
    """The secrets that a checkpoint holds sealed."""
    found: list[str] = json.loads(typed(project, "--json", "show", ref))["checkpoint"]["sealed"]
    return found


def rm(project: Path, *paths: str) -> None:
    """Deletes files, as a careless agent does."""
    for path in paths:
        (project / path).unlink()


def keys(home: Path) -> list[Path]:
    """The files of the keys of this machine."""
    return sorted(path for path in home.rglob("mulligan/keys/*") if path.name != "default")


def everywhere(*tops: Path) -> bytes:
    """Every byte below some directories."""
    return b"\0".join(path.read_bytes() for top in tops for path in top.rglob("*") if path.is_file())


def test_secrets_that_an_agent_deletes_come_back_with_their_modes(secretive, private_home):
    agent = Agent(secretive)
    agent.turn("start", "true")
    agent.turn("clean up", "rm -rf .env config notes.txt src; echo junk > junk.txt")
    assert not (secretive / ".env").exists()
    said = typed(secretive, "undo")
    assert ".env" in said and "hunter2" not in said
    assert {path: (secretive / path).read_text() for path in SECRETS} == SECRETS
    assert [(secretive / path).stat().st_mode & 0o777 for path in (".env", "config/secrets.yml")] == [0o600, 0o640]
    assert not (secretive / "junk.txt").exists()
    typed(secretive, "redo")
    assert not (secretive / ".env").exists() and not (secretive / "config").exists()


def test_the_store_holds_ciphertext_and_git_shows_it(secretive, private_home):
    typed(secretive, "save", "one")
    assert sealed(secretive, "one") == [".env", "config/secrets.yml", "notes.txt"]
    checkpoint = json.loads(typed(secretive, "--json", "show", "one"))["checkpoint"]
    assert [row["path"] for row in checkpoint["not_captured"]] == ["build"]
    store = Path(json.loads(typed(secretive, "--json", "status"))["store"])
    shown = git("-C", store, "show", f"{checkpoint['commit']}:sealed/.env")
    assert shown.startswith(b"age-encryption.org/v1\n")
    assert b".env" not in git("-C", store, "ls-tree", "-r", "--name-only", f"{checkpoint['commit']}:files")
    git("-C", store, "fsck", "--strict")
    typed(secretive, "check")
    key = keys(private_home)
    assert [path.stat().st_mode & 0o777 for path in key] == [0o600]
    assert b"hunter2" not in everywhere(private_home)
    assert b"AGE-SECRET-KEY" not in everywhere(private_home / "xdg-state", private_home / "xdg-config", secretive)


def test_an_unchanged_secret_keeps_its_ciphertext_and_a_changed_one_is_a_modification_without_a_patch(secretive):
    typed(secretive, "save", "one")
    write(secretive, {"src/app.py": "print(2)\n"})
    typed(secretive, "save", "two")
    commits = [json.loads(typed(secretive, "--json", "show", name))["checkpoint"]["commit"] for name in ("one", "two")]
    store = Path(json.loads(typed(secretive, "--json", "status"))["store"])
    assert len({git("-C", store, "rev-parse", f"{commit}:sealed") for commit in commits}) == 1
    write(secretive, {".env": "TOKEN=hunter3\n"})
    (secretive / "notes.txt").rename(secretive / "moved.txt")
    found = json.loads(typed(secretive, "--json", "diff"))
    assert (found["added"], found["modified"], found["deleted"], found["renamed"]) == (
        ["moved.txt"],
        [".env"],
        ["notes.txt"],
        [],
    )
    assert "hunter" not in found["patch"] and "PRIVATE" not in found["patch"]
    typed(secretive, "undo")
    assert (secretive / ".env").read_text() == SECRETS[".env"] and (secretive / "notes.txt").exists()


def test_without_its_key_everything_else_comes_back_and_the_secrets_are_listed(secretive, private_home, tmp_path):
    typed(secretive, "save", "one")
    key = keys(private_home)[0]
    key.rename(tmp_path / "elsewhere")
    rm(secretive, ".env", "src/app.py")
    said = typed(secretive, "restore", "one", "-y", expect=3)
    assert ".env" in said and "key" in said
    assert (secretive / "src/app.py").exists() and not (secretive / ".env").exists()
    # A key that is missing is not replaced: what cannot be sealed is listed, and nothing is saved in the plain.
    write(secretive, {".env": "TOKEN=hunter4\n"})
    said = typed(secretive, "save", "two", expect=3)
    assert ".env" in said and key.name in said
    assert keys(private_home) == [] and b"hunter4" not in everywhere(private_home)
    (tmp_path / "elsewhere").rename(key)
    typed(secretive, "restore", "one", "-y")
    assert (secretive / ".env").read_text() == SECRETS[".env"]


def test_a_secret_that_the_checkpoint_knows_nothing_of_is_not_deleted(secretive, private_home):
    config = private_home / "xdg-config/mulligan/config.toml"
    config.parent.mkdir()
    config.write_text('[capture]\nsecrets = "skip"\n')
    rm(secretive, ".env")
    typed(secretive, "save", "skipped")
    rows = json.loads(typed(secretive, "--json", "show", "skipped"))["checkpoint"]["not_captured"]
    assert {row["path"] for row in rows if row["reason"] == "secret"} == {"config/secrets.yml", "notes.txt"}
    config.unlink()
    write(secretive, {".env": SECRETS[".env"]})
    typed(secretive, "save", "sealed")
    typed(secretive, "restore", "skipped", "-y")
    assert (secretive / ".env").read_text() == SECRETS[".env"]


def test_a_secret_that_an_agent_made_goes_with_its_turn(secretive):
    agent = Agent(secretive)
    agent.turn("start", "true")
    agent.turn("add a key", "echo API_KEY=hunter5 > .env.local")
    typed(secretive, "undo")
    assert not (secretive / ".env.local").exists() and (secretive / ".env").exists()


def test_one_deleted_secret_is_restored_by_its_path(secretive):
    typed(secretive, "save", "one")
    rm(secretive, ".env", "config/secrets.yml")
    typed(secretive, "save", "two")
    typed(secretive, "restore", "one", "-y", "--", ".env")
    assert (secretive / ".env").read_text() == SECRETS[".env"] and not (secretive / "config/secrets.yml").exists()


def test_a_forgotten_secret_is_gone_from_every_checkpoint(secretive, private_home):
    typed(secretive, "save", "one")
    write(secretive, {".env": "TOKEN=other\n"})
    typed(secretive, "save", "two")
    typed(secretive, "forget", ".env", "-y")
    assert sealed(secretive, "one") == sealed(secretive, "two") == ["config/secrets.yml", "notes.txt"]
    typed(secretive, "cat", "one:.env", expect=1)
    typed(secretive, "check")
    rm(secretive, "config/secrets.yml")
    typed(secretive, "restore", "one", "-y")
    assert (secretive / ".env").read_text() == "TOKEN=other\n"
    assert (secretive / "config/secrets.yml").read_text() == SECRETS["config/secrets.yml"]


def test_a_lost_timeline_is_rebuilt_with_its_secrets(secretive):
    typed(secretive, "save", "one")
    store = Path(json.loads(typed(secretive, "--json", "status"))["store"])
    (store / "timeline.db").unlink()
    typed(secretive, "doctor")
    assert sealed(secretive, "one") == [".env", "config/secrets.yml", "notes.txt"]
    rm(secretive, ".env")
    typed(secretive, "restore", "one", "-y")
    assert (secretive / ".env").read_text() == SECRETS[".env"]


def test_a_link_that_is_named_like_a_secret_comes_back(project, private_home):
    write(project, {".gitignore": ".env\n", "shared/values": "A=1\n"})
    (project / ".env").symlink_to("shared/values")
    typed(project, "save", "one")
    rm(project, ".env")
    typed(project, "undo")
    assert (project / ".env").is_symlink()
    rm(project, ".env")
    write(project, {".env": "TOKEN=hunter6\n"})
    typed(project, "save", "two")
    assert sealed(project, "two") == [".env"]
    assert b"hunter6" not in everywhere(private_home)


def test_a_key_is_exported_and_brought_back(secretive, private_home, tmp_path):
    typed(secretive, "save", "one")
    copy = tmp_path / "copy.key"
    typed(secretive, "key", "export", str(copy))
    assert copy.stat().st_mode & 0o777 == 0o600
    typed(secretive, "key", "export", str(copy), expect=1)
    key = keys(private_home)[0]
    key.unlink()
    rm(secretive, ".env")
    typed(secretive, "restore", "one", "-y", expect=3)
    typed(secretive, "key", "import", str(secretive / "src/app.py"), expect=1)
    assert json.loads(typed(secretive, "--json", "key", "import", str(copy)))["keys"] == [
        {"key": key.name, "seals": True}
    ]
    typed(secretive, "restore", "one", "-y")
    assert (secretive / ".env").read_text() == SECRETS[".env"]
    assert key.stat().st_mode & 0o777 == 0o600


def test_an_ignored_file_that_is_included_comes_back_and_include_never_unseals(secretive, private_home):
    write(secretive, {".gitignore": ".env\nbuild/\n*.db\n", "local.db": "rows\n"})
    assert json.loads(typed(secretive, "--json", "include", "local.db", "build/.env")) == {
        "include": ["local.db", "build/.env"],
        "exclude": [],
    }
    typed(secretive, "exclude", "notes.txt")
    typed(secretive, "save", "one")
    assert sealed(secretive, "one") == [".env", "build/.env", "config/secrets.yml"]
    write(secretive, {"notes.txt": "mine\n"})
    rm(secretive, "local.db", "build/.env")
    typed(secretive, "restore", "one", "-y")
    assert (secretive / "local.db").read_text() == "rows\n"
    assert (secretive / "build/.env").read_text() == "IN_BUILD=1\n"
    assert (secretive / "notes.txt").read_text() == "mine\n" and b"IN_BUILD" not in everywhere(private_home)
    typed(secretive, "include", "--remove", "local.db")
    typed(secretive, "include", "--remove", "local.db", expect=1)
    assert "build/.env" in typed(secretive, "include")
