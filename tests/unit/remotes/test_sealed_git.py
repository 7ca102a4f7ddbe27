"""Through a git server that cannot read what it keeps."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

import mulligan
from fleet import bare_repository, check_store, git_daemon, joined, machine
from mulligan.errors import KeyMissing, RemoteFailed, UnknownCheckpoint
from mulligan.remotes import sealedgit
from mulligan.remotes.clone import clone_into, make_empty
from tools import cli_json
from tree import put


@pytest.fixture
def url(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return bare_repository(tmp_path / "server.git")


@pytest.fixture
def laptop(tmp_path, url):
    with machine(tmp_path, "laptop", url, encrypt=True) as ws:
        yield ws


def git(url, *words, **more):
    return subprocess.run(["git", "-C", url, *words], capture_output=True, check=True, **more).stdout


def everything(url):
    """All objects of the server, also those that no ref leads to: their kind and bytes by their ids."""
    rows = git(url, "cat-file", "--batch-all-objects", "--batch-check").decode().splitlines()
    return {oid: (kind, git(url, "cat-file", kind, oid)) for oid, kind, _ in map(str.split, rows)}


def test_push_clone_and_pull_through_an_encrypted_git_server(tmp_path, laptop, url):
    put(Path(laptop.root), "src/app.py", "print(1)\n")
    laptop.save("second")
    assert laptop.push().checkpoints == 2
    with joined(tmp_path, "desk", url) as desk:
        assert (tmp_path / "desk" / "src" / "app.py").read_text() == "print(1)\n"
        for number in range(3):
            put(Path(desk.root), "src/app.py", f"print({number})\n" * 500)
            desk.save(f"desk {number}")
            assert desk.push().bytes > 0
            laptop.pull()
            assert laptop.cat(f"desk:desk {number}", "src/app.py") == f"print({number})\n".encode() * 500
        check_store(desk)
    laptop.restore("desk:desk 2")
    assert laptop.push().segments == 1
    assert laptop.push().segments == 0
    assert laptop.remotes.check("team", read_data="100%").ok
    check_store(laptop)
    git(url, "fsck", "--strict")


def test_a_pack_that_is_larger_than_one_file_travels_in_parts(tmp_path, laptop, url, monkeypatch):
    monkeypatch.setattr(sealedgit, "_LARGEST_FILE", 1 << 20)
    data = os.urandom(5 << 20)
    (tmp_path / "laptop" / "large").write_bytes(data)
    laptop.save("large")
    laptop.push()
    parts = [row for row in git(url, "log", "--all", "--name-only", "--format=").decode().split() if ".age." in row]
    assert len(parts) > 5
    with joined(tmp_path, "desk", url):
        assert (tmp_path / "desk" / "large").read_bytes() == data


def test_nothing_readable_is_on_the_server(tmp_path, laptop, url):
    put(Path(laptop.root), "very-telling-name.txt", "the-launch-code " * 50)
    put(Path(laptop.root), ".env", "TOKEN=the-secret-token")
    laptop.save("a-telling-checkpoint-name", description="the-prompt-of-an-agent")
    laptop.push()
    with joined(tmp_path, "desk", url) as desk:
        desk.push()
    told = git(url, "for-each-ref").decode()
    found = everything(url)
    assert len(found) > 6
    for kind, data in found.values():
        for word in (b"launch-code", b"telling", b"secret-token", b"the-prompt", b"checkpoint", b"laptop", b"desk"):
            assert word not in data
            assert word.decode() not in told
        assert kind != "blob" or data.startswith(b"age-encryption.org/v1\n") or data == b"{}\n"
    for path in Path(url).rglob("*"):
        assert not path.is_file() or b"telling" not in path.read_bytes()


def test_encryption_of_a_git_server_fails_closed(laptop, url, monkeypatch):
    """Where encrypting fails, nothing is sent."""
    laptop.push()
    before = everything(url)
    put(Path(laptop.root), "a", "1")
    laptop.save("second")
    monkeypatch.setitem(__import__("sys").modules, "pyrage", None)
    with pytest.raises(KeyMissing, match="Nothing was sent"):
        laptop.push()
    assert everything(url) == before


def test_a_segment_in_the_plain_is_not_believed(tmp_path, laptop, url):
    laptop.push()
    ref = next(row for row in git(url, "for-each-ref", "--format=%(refname)").decode().split() if "keys" not in row)
    blob = git(url, "hash-object", "-w", "--stdin", input=b"{}\n").decode().strip()
    tree = git(url, "mktree", input=f"100644 blob {blob}\tsegment.age\n".encode()).decode().strip()
    commit = git(url, "-c", "user.name=x", "-c", "user.email=x", "commit-tree", "-m", "x", tree).decode().strip()
    git(url, "update-ref", ref, commit)
    with pytest.raises(RemoteFailed, match="not encrypted, and must be"):
        joined(tmp_path, "desk", url)


def test_a_server_that_offers_another_key_is_refused(tmp_path, laptop, url):
    """A server that knows a member's public key could wrap a key of its own for that member."""
    laptop.push()
    laptop.remotes.add("other", bare_repository(tmp_path / "other.git"), encrypt=True)
    ref = next(row for row in git(url, "for-each-ref", "--format=%(refname)").decode().split() if "keys" in row)
    git(url, "fetch", "-q", str(tmp_path / "other.git"), f"+{ref}:{ref}")
    before = everything(url)
    put(Path(laptop.root), "a", "1")
    laptop.save("second")
    with pytest.raises(RemoteFailed, match="another key than before"):
        laptop.push("team")
    assert everything(url) == before


def test_stock_age_and_git_read_an_encrypted_git_server(tmp_path, laptop, url):
    """The recipe of docs/howto/share-through-git.md, without mulligan."""
    if not os.path.exists("/usr/bin/age"):
        pytest.skip("age is not installed")
    put(Path(laptop.root), "a.txt", "the words")
    cp = laptop.save("one")
    laptop.push()
    key = next(Path(os.environ["XDG_DATA_HOME"], "mulligan", "keys").glob("[0-9a-f]" * 16))
    page = Path(__file__).parents[3] / "docs/howto/share-through-git.md"
    recipe = page.read_text().partition("<!-- recipe -->")[2].partition("```sh\n")[2].partition("```")[0]
    recipe = recipe.replace("URL", url).replace("~/.local/share/mulligan/keys/NAME", str(key)).replace("COMMIT:files/src/app.py", f"{cp.commit}:files/a.txt")  # fmt: skip
    done = subprocess.run(["sh", "-ec", recipe], cwd=tmp_path, capture_output=True, check=True)
    assert b"the words" in done.stdout


def test_members_of_a_git_server_come_and_go(tmp_path, laptop, url, monkeypatch):
    laptop.push()
    pyrage = pytest.importorskip("pyrage")
    other = pyrage.x25519.Identity.generate()
    (tmp_path / "other.key").write_text(f"{other}\n")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "elsewhere"))
    with pytest.raises(KeyMissing, match="not among those"):
        join(tmp_path, "early", url, tmp_path / "other.key")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    laptop.remotes.add_member("team", str(other.to_public()))
    assert len(laptop.remotes.members("team")["members"]) == 2
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "elsewhere"))
    with join(tmp_path, "colleague", url, tmp_path / "other.key") as colleague:
        assert colleague.log()[-1].name == "first of laptop"
        monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
        laptop.remotes.remove_member("team", str(other.to_public()))
        put(Path(laptop.root), "a", "after")
        laptop.save("after")
        laptop.push()
        monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "elsewhere"))
        with pytest.raises(KeyMissing):
            colleague.pull()
        with pytest.raises(KeyMissing):
            colleague.push()


def join(place, name, url, identity):
    make_empty(str(place / name))
    ws = mulligan.open(place / name, store=place / f"{name}.store")
    clone_into(ws, url, machine=name, identity=str(identity))
    return ws


def test_deleting_and_pruning_travel_through_an_encrypted_git_server(tmp_path, laptop, url):
    put(Path(laptop.root), "doomed", "x" * 5000)
    laptop.save("doomed")
    laptop.push()
    with joined(tmp_path, "desk", url) as desk:
        laptop.forget("doomed")
        laptop.delete("doomed")
        laptop.push()
        assert desk.pull().gone == 1
        with pytest.raises(UnknownCheckpoint):
            desk.get("laptop:doomed")
        before = set(git(url, "rev-list", "--objects", "--all").split())
        laptop.remotes.push("team", full=True)
        after = set(git(url, "rev-list", "--objects", "--all").split())
        assert len(after) < len(before)
        assert not desk.pull().refused
        check_store(desk)
    with joined(tmp_path, "third", url) as third:
        assert {each.name for each in third.log() if each.machine == "laptop"} == {"first of laptop"}


def test_a_timeline_is_encrypted_on_a_server_or_it_is_not(tmp_path, laptop, url):
    laptop.push()
    with pytest.raises(RemoteFailed, match="is encrypted at"):
        laptop.remotes.add("again", url)
    plain = bare_repository(tmp_path / "plain.git")
    laptop.remotes.add("plain", plain)
    laptop.push("plain")
    with pytest.raises(RemoteFailed, match="is not encrypted at"):
        laptop.remotes.add("sealed", plain, encrypt=True)
    with pytest.raises(RemoteFailed, match="you named a key"):
        join(tmp_path, "desk", plain, tmp_path / "some.key")


def test_an_encrypted_git_daemon_on_the_command_line(project, tmp_path):
    env = {"XDG_STATE_HOME": str(tmp_path / "state"), "HOME": str(tmp_path), "MULLIGAN_WATCH": "0"}
    bare_repository(tmp_path / "srv" / "t.git")
    put(project, "a", "1")
    with git_daemon(tmp_path / "srv") as server:
        cli_json("save", "one", cwd=project, **env)
        added = cli_json("remote", "add", "hub", f"{server}/t.git", "--encrypt", cwd=project, **env)
        assert added["remote"]["encrypted"] is True
        assert cli_json("push", cwd=project, **env)["bytes"] > 0
        assert len(cli_json("remote", "member", "list", "hub", cwd=project, **env)["members"]) == 1
        assert cli_json("clone", f"{server}/t.git", "copy", cwd=tmp_path, **env)["files"] == 1
        assert cli_json("check", "--remote", "hub", "--read-data", "100%", cwd=project, **env)["read"] == 1


def test_a_push_after_a_killed_one_sends_whole_packs(tmp_path, laptop, url, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(sealedgit.SealedGitServer, "_swap", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            laptop.push()
    laptop.push()
    with joined(tmp_path, "desk", url) as desk:
        assert desk.cat("laptop:first of laptop", "who") == b"laptop"
