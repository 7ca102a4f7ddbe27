"""Through a git server: push, pull, clone, and what must not happen on the way."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

import mulligan
from fleet import bare_repository, check_store, git_daemon, joined, machine
from mulligan.errors import RemoteFailed, UnknownCheckpoint, UserError
from mulligan.remotes.records import ChainMark, RemoteRecords
from mulligan.safefs.directory import Directory
from mulligan.timeline.database import Database
from tools import cli, cli_json
from tree import put


@pytest.fixture
def url(tmp_path):
    return bare_repository(tmp_path / "server.git")


@pytest.fixture
def laptop(tmp_path, url):
    with machine(tmp_path, "laptop", url) as ws:
        yield ws


def refs(url):
    out = subprocess.run(["git", "-C", url, "for-each-ref", "--format=%(refname)"], capture_output=True, text=True, check=True)  # fmt: skip
    return out.stdout.split()


def test_what_one_machine_pushed_another_clones_changes_and_pushes_back(tmp_path, laptop, url):
    put(Path(laptop.root), "src/app.py", "print(1)\n")
    laptop.save("second")
    assert laptop.push().checkpoints == 2
    with joined(tmp_path, "desk", url) as desk:
        assert (tmp_path / "desk" / "src" / "app.py").read_text() == "print(1)\n"
        put(Path(desk.root), "src/app.py", "print(2)\n")
        desk.save("third")
        desk.push()
        assert laptop.pull().machines == ("desk",)
        assert laptop.cat("desk:third", "src/app.py") == b"print(2)\n"
        check_store(desk)
    report = laptop.restore("desk:third")
    assert report.modified == ["src/app.py"]
    laptop.undo()
    assert (tmp_path / "laptop" / "src" / "app.py").read_text() == "print(1)\n"
    check_store(laptop)
    assert subprocess.run(["git", "-C", url, "fsck", "--strict"], check=False).returncode == 0


def test_pulled_checkpoints_are_listed_and_never_become_this_machines_own(tmp_path, laptop, url):
    laptop.push()
    with joined(tmp_path, "desk", url) as desk:
        put(Path(desk.root), "a", "1")
        desk.save("of the desk")
        desk.push()
    before = laptop.position(), laptop.get("latest").id
    laptop.pull()
    assert (laptop.position(), laptop.get("latest").id) == before
    assert "desk" in {each.machine for each in laptop.log()}
    assert laptop.get("of the desk").machine == "desk"
    assert laptop.get("desk:latest").name == "of the desk"
    with pytest.raises(mulligan.NothingToUndo):
        laptop.undo()
    with pytest.raises(UnknownCheckpoint):
        laptop.get("desk:nothing")


def test_a_second_push_sends_only_what_is_new(tmp_path, laptop, url):
    for number in range(300):
        put(Path(laptop.root), f"d{number % 10}/f{number}", os.urandom(500).hex())
    laptop.save("many")
    laptop.push()
    before = packed_bytes(url)
    put(Path(laptop.root), "d1/f1", "changed")
    laptop.save("one more")
    assert laptop.push().checkpoints == 1
    assert packed_bytes(url) - before < 10_000
    assert laptop.push().segments == 0


def packed_bytes(url):
    return sum(os.path.getsize(os.path.join(place, name)) for place, _, names in os.walk(url) for name in names)


def test_deleting_travels(tmp_path, laptop, url):
    laptop.save("doomed")
    laptop.push()
    with joined(tmp_path, "desk", url) as desk:
        assert desk.get("laptop:doomed")
        laptop.delete("doomed")
        laptop.push()
        assert desk.pull().gone == 1
        with pytest.raises(UnknownCheckpoint):
            desk.get("laptop:doomed")
        assert desk.get("doomed (laptop)").machine == ""  # the clone was made of it, and is this machine's own


def test_a_push_that_was_killed_after_the_server_had_it_is_not_sent_twice(laptop, url, tmp_path):
    """The store's own note is taken back, as a kill at that moment leaves it."""
    laptop.push()
    put(Path(laptop.root), "a", "1")
    laptop.save("second")
    laptop.push()
    tip = subprocess.run(["git", "-C", url, "rev-parse", refs(url)[0]], capture_output=True, check=True).stdout
    with laptop.bench.writing("test"), laptop.bench.store.database.transaction():
        records = RemoteRecords(laptop.bench.store)
        held = records.pushed("team")
        held.pop(laptop.get("second").id)
        records.set_pushed("team", held)
        records.set_mark("team", records.machine(), ChainMark())
    assert laptop.push().segments == 0
    assert subprocess.run(["git", "-C", url, "rev-parse", refs(url)[0]], capture_output=True, check=True).stdout == tip


def test_a_chain_begun_anew_by_a_push_that_was_killed_is_recognised_without_the_remotes_directory(
    laptop, url, tmp_path
):
    """The store still names the old end of its chain, which neither the server nor this machine has any more."""
    laptop.push()
    with laptop.bench.reading() as store:
        records = RemoteRecords(store)
        mark, held = records.marks("team")[records.machine()], records.pushed("team")
    laptop.remotes.push("team", full=True)
    with laptop.bench.writing("test"), laptop.bench.store.database.transaction():
        records = RemoteRecords(laptop.bench.store)
        records.set_mark("team", records.machine(), mark)
        records.set_pushed("team", held)
    shutil.rmtree(Path(laptop.store_path, "remotes"))
    subprocess.run(["git", "-C", url, "gc", "-q", "--prune=now"], check=True)
    put(Path(laptop.root), "a", "1")
    laptop.save("second")
    assert laptop.push().checkpoints == 1
    with joined(tmp_path, "desk", url) as desk:
        assert desk.cat("laptop:second", "a") == b"1"


def test_two_copies_of_a_store_do_not_write_one_chain(tmp_path, laptop, url):
    laptop.push()
    laptop.close()
    subprocess.run(["cp", "-a", tmp_path / "laptop.store", tmp_path / "copy.store"], check=True)
    put(Path(laptop.root), "a", "1")
    laptop.save("of the first")
    laptop.push()
    with mulligan.open(tmp_path / "laptop", store=tmp_path / "copy.store") as copy:
        copy.save("of the copy")
        assert copy.push().renamed
        assert len(refs(url)) == 2
        assert {each.name for each in copy.log()} >= {"of the copy"}


def test_a_server_that_takes_branches_only_is_used_through_branches(tmp_path):
    url = bare_repository(tmp_path / "s.git", "receive.hideRefs=refs/mulligan", "transfer.hideRefs=refs/mulligan")
    with machine(tmp_path, "laptop", url) as ws:
        assert ws.remotes.list()[0].remarks()
        ws.push()
        assert all(name.startswith("refs/heads/mulligan/") for name in refs(url))
        with joined(tmp_path, "desk", url) as desk:
            assert desk.log()[-1].name == "first of laptop"


@pytest.mark.parametrize("bad", ["ext::sh -c date", "-x", "--upload-pack=date", "s3://", "foo://x/y", "", "https://"])
def test_addresses_that_could_start_programs_are_refused(project, store, bad):
    ws = mulligan.open(project, store=store)
    with pytest.raises(UserError, match="Nothing was changed"):
        ws.remotes.add("x", bad)


@pytest.mark.parametrize(
    ("url", "word"),
    [("git://127.0.0.1:1/x", "does not answer"), ("/nowhere/x.git", "no repository"), ("https://no-such-host.invalid/x", "cannot be found")],
)  # fmt: skip
def test_a_remote_that_cannot_be_reached_is_explained_in_plain_words(project, store, url, word):
    ws = mulligan.open(project, store=store)
    ws.save("one")
    with pytest.raises(RemoteFailed, match=word) as caught:
        ws.remotes.add("x", url)
    assert "untouched" in caught.value.message
    assert caught.value.hint


def test_clone_writes_no_settings_of_agents_without_a_yes(tmp_path, laptop, url):
    put(Path(laptop.root), ".claude/settings.json", '{"hooks": {}}')
    laptop.save("with settings")
    laptop.push()
    with joined(tmp_path, "desk", url) as desk:
        assert not os.path.exists(f"{desk.root}/.claude/settings.json")
        assert desk.cat("laptop:latest", ".claude/settings.json") == b'{"hooks": {}}'


def test_a_path_that_one_machine_forgot_comes_back_from_none(tmp_path, laptop, url):
    put(Path(laptop.root), "secret.txt", "the-launch-code")
    laptop.save("with the code")
    laptop.push()
    with joined(tmp_path, "desk", url) as desk, joined(tmp_path, "ci", url) as ci:
        ci.push()
        laptop.forget("secret.txt")
        laptop.push()
        report = desk.pull()
        assert report.forgotten == ("secret.txt",)
        assert all("secret.txt" not in _files(desk, each) for each in desk.log() if each.machine)
        assert desk.push().held_back
        desk.forget("secret.txt")
        assert not desk.push().held_back
        laptop.pull()
        assert all("secret.txt" not in _files(laptop, each) for each in laptop.log())
        check_store(desk)
        check_store(laptop)
        put(Path(laptop.root), "secret.txt", "a new one")
        laptop.save("a new file of that name")
        laptop.push()
        desk.pull()
        assert desk.cat("laptop:latest", "secret.txt") == b"a new one"


def _files(ws, checkpoint):
    return set(ws.contents(checkpoint).added)


def test_a_push_after_pushed_checkpoints_were_deleted_works_with_every_git(tmp_path, laptop, url):
    """Git 2.53 ended it with an error, because it reads the parents of what the server has; 2.39 went on."""
    for name in ("second", "third"):
        put(Path(laptop.root), "a", name)
        laptop.save(name)
        laptop.push()
    for name in ("first of laptop", "second"):
        laptop.delete(name)
    laptop.prune()
    put(Path(laptop.root), "a", "fourth")
    laptop.save("fourth")
    assert laptop.push().checkpoints == 1
    with joined(tmp_path, "desk", url) as desk:
        assert {each.name for each in desk.log()} >= {"third", "fourth"}


def test_prune_takes_forgotten_bytes_off_the_server(tmp_path, laptop, url):
    put(Path(laptop.root), "secret.txt", "the-launch-code")
    laptop.save("with the code")
    laptop.push()
    laptop.forget("secret.txt")
    laptop.remotes.push(full=True)
    subprocess.run(["git", "-C", url, "gc", "-q", "--prune=now"], check=True)
    blob = subprocess.run(["git", "hash-object", "--stdin"], input=b"the-launch-code", capture_output=True, check=True).stdout.decode().strip()  # fmt: skip
    assert subprocess.run(["git", "-C", url, "cat-file", "-e", blob], capture_output=True, check=False).returncode != 0
    with joined(tmp_path, "desk", url) as desk:
        assert {each.name for each in desk.log()} >= {"first of laptop", "with the code"}


def test_through_a_git_daemon_on_the_command_line(tmp_path, project):
    bare_repository(tmp_path / "srv" / "t.git")
    env = {"XDG_STATE_HOME": str(tmp_path / "state"), "HOME": str(tmp_path), "MULLIGAN_WATCH": "0"}
    put(project, "a", "1")
    with git_daemon(tmp_path / "srv") as server:
        cli_json("save", "one", cwd=project, **env)
        cli_json("remote", "add", "hub", f"{server}/t.git", "--as", "laptop", cwd=project, **env)
        assert cli_json("push", cwd=project, **env)["pushed"] == 1
        assert cli_json("clone", f"{server}/t.git", "copy", cwd=tmp_path, **env)["pulled"] == 1
        assert (tmp_path / "copy" / "a").read_text() == "1"
        assert "laptop:one" in cli("log", cwd=tmp_path / "copy", **env).stdout
        assert cli_json("pull", cwd=project, **env)["pulled"] == 0
        assert cli("push", cwd=project, **env).stdout == "hub is up to date\n"
    done = cli("push", "nowhere", cwd=project, **env)
    assert done.returncode == 1
    assert "No remote is called" in done.stderr


def test_a_git_server_can_be_looked_at_without_taking_anything_in(tmp_path, laptop, url):
    laptop.push()
    with joined(tmp_path, "desk", url) as desk:
        put(Path(desk.root), "a", "1")
        desk.save("of the desk")
        desk.push()
    before = len(laptop.log())
    assert {row["name"] for row in laptop.remotes.fleet()} == {"laptop", "desk"}
    assert "of the desk" in {row["name"] for row in laptop.remotes.log()}
    assert laptop.remotes.check().ok
    assert len(laptop.log()) == before
    assert laptop.pull().checkpoints >= 2
    check_store(laptop)


def test_copies_go_before_anything_of_this_machines_own_when_the_budget_is_full(tmp_path, laptop, url):
    laptop.push()
    with joined(tmp_path, "desk", url) as desk:
        put(Path(desk.root), "large", os.urandom(600_000).hex())
        desk.save("large")
        desk.push()
    laptop.pull()
    laptop.save("own", kind="automatic")
    before = {each.id for each in laptop.log() if not each.machine}
    tight = laptop.settings._replace(retention=laptop.settings.retention._replace(budget=1_200_000))
    with type(laptop)(tight) as ws:
        put(Path(ws.root), "b", os.urandom(200_000).hex())
        ws.save("more")
        assert before <= {each.id for each in ws.log()}
        assert not any(each.machine for each in ws.log())
        check_store(ws)
    assert laptop.pull().checkpoints


def test_a_remote_that_another_version_noted_can_be_used(laptop):
    """Its note may have fields that this version does not know."""
    place = laptop.store_path
    laptop.close()
    with Directory.open(place) as directory:
        database = Database(place, create=False, directory=directory)
        (row,) = database.select("meta", "WHERE key LIKE 'remotes:remote:%'")
        with database.transaction():
            database.set_meta(row["key"], json.dumps({**json.loads(row["value"]), "colour": "blue"}))
        database.close()
    assert laptop.push().checkpoints == 1


def test_machines_of_one_name_can_be_told_apart(tmp_path, laptop, url):
    """What a fleet and the list of a remote call them is what a restore takes."""
    laptop.push()
    with joined(tmp_path / "b", "laptop", url) as twin:
        twin.save("of the twin")
        twin.push()
        laptop.pull()
        names = {row["name"] for row in laptop.remotes.fleet("team")}
        assert len(names) == 2
        (machine_name,) = {row["machine"] for row in laptop.remotes.log("team") if row["name"] == "of the twin"}
        assert machine_name in names
        assert laptop.get(f"{machine_name}:of the twin").machine == machine_name


def loose(ws):
    return [path for path in Path(ws.store_path, "remotes", "team", "objects").glob("??/*") if path.is_file()]


@pytest.mark.parametrize("encrypt", [False, True])
def test_a_power_cut_that_empties_what_waits_for_a_remote_loses_nothing(tmp_path, url, monkeypatch, encrypt):
    """Nothing there is synced: after a cut, files can be empty, and a reference too."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    with machine(tmp_path, "laptop", url, encrypt=encrypt) as laptop:
        laptop.push()
        with joined(tmp_path, "desk", url) as desk:
            desk.remotes.push("origin")
            laptop.pull()
            for number in range(3):
                for path in loose(laptop)[number:]:
                    path.chmod(0o600)
                    path.write_bytes(b"")
                if number:
                    for ref in Path(laptop.store_path, "remotes", "team", "refs", "chains").iterdir():
                        ref.write_bytes(b"")
                put(Path(laptop.root), "a", str(number))
                laptop.save(f"s{number}")
                assert laptop.push().checkpoints == 1
                desk.save(f"d{number}")
                desk.push()
                assert laptop.pull().refused == ()
                desk.pull()
                assert desk.cat(f"laptop:s{number}", "a") == str(number).encode()
                assert laptop.get(f"desk:d{number}")
            check_store(laptop)
            assert laptop.remotes.check("team", read_data="100%").ok


def test_what_was_sent_does_not_pile_up_in_the_store(laptop, url, monkeypatch):
    from mulligan.remotes import spool

    monkeypatch.setattr(spool, "_FULL", -1)
    for number in range(20):
        put(Path(laptop.root), "a", str(number))
        laptop.save(f"s{number}")
        laptop.push()
    assert len(loose(laptop)) < 10
    laptop.remotes.push("team", full=True)
    assert laptop.remotes.check("team").ok


def test_a_relative_directory_is_meant_from_where_it_was_typed(tmp_path):
    bare_repository(tmp_path / "timeline.git")
    with machine(tmp_path, "laptop", str(tmp_path / "timeline.git")) as laptop:
        laptop.push()
    env = {"XDG_STATE_HOME": str(tmp_path / "state"), "XDG_DATA_HOME": str(tmp_path / "data")}
    done = cli("clone", "timeline.git", "look-at-it", cwd=tmp_path, **env)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "look-at-it" / "who").read_text() == "laptop"
    again = cli("remote", "add", "other", "../timeline.git", "--as", "desk", cwd=tmp_path / "look-at-it", **env)
    assert f"added other: {tmp_path}/timeline.git" in again.stdout
    pushed = cli("-C", "look-at-it", "push", "other", cwd=tmp_path, **env)
    assert pushed.returncode == 0, pushed.stderr


def test_a_password_in_an_address_is_not_shown(tmp_path):
    url, typed = bare_repository(tmp_path / "t.git"), "https://anna:pw@example.org/t.git"
    put(tmp_path, "home/.gitconfig", f'[url "{url}"]\n\tinsteadOf = {typed}\n')
    with machine(tmp_path, "laptop", url) as laptop:
        words = ("--store", laptop.settings.store, "remote", "add", "forge", typed)
        done = cli(*words, cwd=Path(laptop.root), HOME=str(tmp_path / "home"))
    assert "added forge: https://anna:…@example.org/t.git" in done.stdout, done.stderr
