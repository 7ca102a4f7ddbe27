"""Through an object store: encrypted by default, verified, resumed, and shared with members."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import obstore
import pytest
from obstore.store import S3Store

import mulligan
from fleet import check_store, joined, machine, object_store
from mulligan.errors import KeyMissing, RemoteFailed, UnknownCheckpoint
from mulligan.remotes.bucket import Bucket
from mulligan.remotes.clone import clone_into, make_empty
from mulligan.remotes.survey import as_html
from timelines import Agent
from tools import cli_json
from tree import put


@pytest.fixture(scope="module")
def server():
    with object_store() as variables:
        yield variables


@pytest.fixture
def url(server, monkeypatch, tmp_path):
    for name, value in server.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return f"s3://bucket/{tmp_path.name}"


@pytest.fixture
def laptop(tmp_path, url):
    with machine(tmp_path, "laptop", url) as ws:
        yield ws


def everything(url):
    """All objects below a remote's prefix, by key."""
    store = S3Store("bucket", prefix=url.removeprefix("s3://bucket/"), client_options={"allow_http": True})
    keys = [row["path"] for page in obstore.list(store) for row in page]
    return {key: bytes(obstore.get(store, key).bytes()) for key in keys}


def test_push_clone_and_pull_through_a_bucket(tmp_path, laptop, url):
    put(Path(laptop.root), "src/app.py", "print(1)\n")
    laptop.save("second")
    assert laptop.push().checkpoints == 2
    with joined(tmp_path, "desk", url) as desk:
        assert (tmp_path / "desk" / "src" / "app.py").read_text() == "print(1)\n"
        put(Path(desk.root), "src/app.py", "print(2)\n")
        desk.save("third")
        desk.push()
        check_store(desk)
    laptop.pull()
    laptop.restore("desk:third")
    assert (tmp_path / "laptop" / "src" / "app.py").read_text() == "print(2)\n"
    check_store(laptop)
    assert laptop.push().segments == 1
    assert laptop.push().segments == 0


def test_nothing_readable_is_in_the_bucket(laptop, url):
    put(Path(laptop.root), "very-telling-name.txt", "the-launch-code " * 50)
    put(Path(laptop.root), ".env", "TOKEN=the-secret-token")
    laptop.save("a-telling-checkpoint-name")
    laptop.push()
    found = everything(url)
    assert any(key.startswith("packs/") for key in found)
    for key, data in found.items():
        for word in (b"launch-code", b"telling", b"secret-token", b"checkpoint.json"):
            assert word not in data
            assert word.decode() not in key
        assert key == "mulligan.json" or data.startswith(b"age-encryption.org/v1\n"), key


def test_encryption_fails_closed(laptop, url, monkeypatch):
    """Where encrypting fails, nothing is sent."""
    laptop.push()
    before = everything(url)
    put(Path(laptop.root), "a", "1")
    laptop.save("second")
    monkeypatch.setitem(__import__("sys").modules, "pyrage", None)
    with pytest.raises(KeyMissing, match="Nothing was sent"):
        laptop.push()
    assert everything(url) == before


def test_stock_age_and_git_give_the_files_back(tmp_path, laptop, url):
    """The recipe of docs/howto/share-through-s3.md, without mulligan."""
    if not os.path.exists("/usr/bin/age"):
        pytest.skip("age is not installed")
    put(Path(laptop.root), "a.txt", "the words")
    cp = laptop.save("one")
    laptop.push()
    place = tmp_path / "recipe"
    place.mkdir()
    found = everything(url)
    key = next(Path(os.environ["XDG_DATA_HOME"], "mulligan", "keys").glob("[0-9a-f]" * 16))
    (mine,) = (data for name, data in found.items() if name.startswith("keys/") and name.endswith(".age"))
    (place / "wrapped.age").write_bytes(mine)
    identity = subprocess.run(["age", "-d", "-i", key, place / "wrapped.age"], capture_output=True, check=True).stdout
    (place / "remote.key").write_bytes(identity)
    subprocess.run(["git", "init", "-q", place / "repo"], check=True)
    for name, data in found.items():
        if name.startswith("packs/"):
            pack = subprocess.run(["age", "-d", "-i", place / "remote.key"], input=data, capture_output=True, check=True).stdout  # fmt: skip
            subprocess.run(["git", "-C", place / "repo", "unpack-objects", "-q"], input=pack, check=True)
    shown = subprocess.run(["git", "-C", place / "repo", "show", f"{cp.commit}:files/a.txt"], capture_output=True, check=True)  # fmt: skip
    assert shown.stdout == b"the words"


def test_members_come_and_go(tmp_path, laptop, url, monkeypatch):
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


def join(place, name, url, identity):
    make_empty(str(place / name))
    ws = mulligan.open(place / name, store=place / f"{name}.store")
    clone_into(ws, url, machine=name, identity=str(identity))
    return ws


@pytest.mark.parametrize("damage", ["missing", "truncated", "swapped", "plain"])
def test_a_damaged_pack_lets_nothing_unverified_in(tmp_path, laptop, url, damage):
    for name in ("one", "two"):
        put(Path(laptop.root), name, name * 100)
        laptop.save(name)
        laptop.push()
    found = everything(url)
    packs = sorted(key for key in found if key.startswith("packs/"))
    store = S3Store("bucket", prefix=url.removeprefix("s3://bucket/"), client_options={"allow_http": True})
    victim = packs[0]
    match damage:
        case "missing":
            obstore.delete(store, victim)
        case "truncated":
            obstore.put(store, victim, found[victim][:-40])
        case "swapped":
            obstore.put(store, victim, found[packs[1]])
        case "plain":
            obstore.put(store, victim, b"PACK" + bytes(100))
    with mulligan.open(_made(tmp_path / "desk"), store=tmp_path / "desk.store") as desk:
        desk.remotes.begin_clone("origin", url, machine="desk")
        report = desk.remotes.pull("origin")
        assert report.refused
        check_store(desk)
    laptop.remotes.push("team", full=True)
    with joined(tmp_path, "third", url) as third:
        assert third.cat("laptop:two", "one") == b"one" * 100


def _made(path):
    path.mkdir()
    return path


def test_an_interrupted_push_sends_no_pack_twice(laptop, url, monkeypatch):
    put(Path(laptop.root), "a", "1" * 5000)
    laptop.save("second")
    real = Bucket.send

    def cut(self, segment, base, before):
        real_create = self.objects.create
        self.objects.create = lambda key, data: (_ for _ in ()).throw(RemoteFailed("cut")) if key.startswith("log/") else real_create(key, data)  # fmt: skip
        return real(self, segment, base, before)

    monkeypatch.setattr(Bucket, "send", cut)
    with pytest.raises(RemoteFailed, match="cut"):
        laptop.push()
    packs = {key for key in everything(url) if key.startswith("packs/")}
    monkeypatch.setattr(Bucket, "send", real)
    assert laptop.push().checkpoints == 2
    assert {key for key in everything(url) if key.startswith("packs/")} == packs


def test_a_segment_of_another_timeline_is_refused(tmp_path, laptop, url):
    laptop.push()
    with pytest.raises(RemoteFailed, match="another timeline"):
        machine(tmp_path, "stranger", url)


def test_deleting_travels_through_a_bucket(tmp_path, laptop, url):
    laptop.save("doomed")
    laptop.push()
    with joined(tmp_path, "desk", url) as desk:
        laptop.delete("doomed")
        laptop.push()
        assert desk.pull().gone == 1
        with pytest.raises(UnknownCheckpoint):
            desk.get("laptop:doomed")


@pytest.mark.parametrize(
    ("where", "word"), [("s3://no-such-bucket/x", "no bucket"), ("s3://bucket/x", "does not answer")]
)
def test_trouble_with_a_bucket_is_explained(project, store, url, monkeypatch, where, word):
    if word == "does not answer":
        monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    ws = mulligan.open(project, store=store)
    ws.save("one")
    with pytest.raises(RemoteFailed, match=word) as caught:
        ws.remotes.add("x", where)
    assert "untouched" in caught.value.message


def test_a_bucket_on_the_command_line(project, tmp_path, url):
    env = {"XDG_STATE_HOME": str(tmp_path / "state"), "HOME": str(tmp_path), "MULLIGAN_WATCH": "0"}
    put(project, "a", "1")
    cli_json("save", "one", cwd=project, **env)
    assert cli_json("remote", "add", "hub", url, cwd=project, **env)["remote"]["encrypted"] is True
    assert cli_json("push", cwd=project, **env)["bytes"] > 0
    assert len(cli_json("remote", "member", "list", "hub", cwd=project, **env)["members"]) == 1
    assert cli_json("clone", url, "copy", cwd=tmp_path, **env)["files"] == 1


def test_what_nothing_names_any_more_is_marked_and_then_deleted(tmp_path, laptop, url):
    for number in range(3):
        put(Path(laptop.root), "a", str(number) * 3000)
        laptop.save(f"s{number}")
        laptop.push()
    laptop.delete("s0")
    laptop.remotes.push("team", full=True)
    before = {key for key in everything(url) if key.startswith("packs/")}
    assert laptop.remotes.collect("team").marked == 0  # nothing is a day old
    swept = laptop.remotes.collect("team", grace_hours=0)
    assert (swept.marked, swept.packs, swept.segments) == (4, 0, 3)
    assert {key for key in everything(url) if key.startswith("packs/")} == before
    assert laptop.remotes.collect("team", grace_hours=0).packs == 4
    assert laptop.remotes.check("team", read_data="100%").ok
    with joined(tmp_path, "desk", url) as desk:
        assert desk.cat("laptop:s2", "a") == b"2" * 3000
        with pytest.raises(UnknownCheckpoint):
            desk.get("laptop:s0")


def test_a_second_collector_waits_for_the_lease(laptop, url):
    laptop.push()
    store = S3Store("bucket", prefix=url.removeprefix("s3://bucket/"), client_options={"allow_http": True})
    obstore.put(store, f"gc/lease/{7:020d}", b"other")
    with pytest.raises(RemoteFailed, match="Another machine is collecting"):
        laptop.remotes.collect("team")


def test_check_names_what_a_remote_lost(laptop, url):
    laptop.push()
    assert laptop.remotes.check("team", read_data="5%").ok
    store = S3Store("bucket", prefix=url.removeprefix("s3://bucket/"), client_options={"allow_http": True})
    obstore.delete(store, next(key for key in everything(url) if key.startswith("packs/")))
    assert not laptop.remotes.check("team").ok
    laptop.remotes.push("team", full=True)
    assert laptop.remotes.check("team", read_data="100%").ok


def test_a_fleet_shows_every_machine_and_its_agents(tmp_path, laptop, url):
    Agent(laptop, "codex", "one").tool("Edit", "a", lambda: put(Path(laptop.root), "a", "by an agent"))
    laptop.push()
    with joined(tmp_path, "desk", url) as desk:
        desk.push()
    rows = laptop.remotes.fleet("team")
    assert {row["name"]: row["agents"] for row in rows} == {"laptop": ["codex"], "desk": []}
    assert "<td>codex</td>" in as_html("team", rows)
    assert {row["name"] for row in laptop.remotes.log("team")} >= {"first of laptop"}
