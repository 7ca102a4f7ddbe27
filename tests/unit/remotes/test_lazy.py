"""A lazy clone lists the whole history, and fetches contents when a verb needs them: verified, whole, or not at all."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

import mulligan.aio
from fleet import bare_repository, check_store, git_daemon, joined, machine, object_store
from mulligan.errors import ContentsElsewhere, RemoteDamaged, RemoteFailed, UnknownPath, UserError
from mulligan.remotes import gitserver
from mulligan.remotes.bucket import Bucket, BucketObjects
from mulligan.remotes.pull import Puller
from mulligan.remotes.sealedgit import SealedGitServer
from tools import cli, cli_json
from tree import put
from watchers import watched


@pytest.fixture(scope="module")
def server():
    with object_store() as variables:
        yield variables


@pytest.fixture(params=["git", "encrypted git", "object store"])
def url(request, server, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    if request.param == "object store":
        for name, value in server.items():
            monkeypatch.setenv(name, value)
        return f"s3://bucket/{tmp_path.name}"
    return bare_repository(tmp_path / f"{request.param.replace(' ', '-')}.git")


@pytest.fixture
def laptop(tmp_path, url):
    with machine(tmp_path, "laptop", url, encrypt=not url.endswith("/git.git")) as ws:
        for number in range(4):
            put(Path(ws.root), "same", "the same " * 100)
            put(Path(ws.root), "src/app.py", f"print({number})\n" * 100)
            put(Path(ws.root), f"only{number}", f"{number}" * 1000)
            ws.save(f"s{number}", description=f"the step {number}", state={"n": number})
            if number != 2:  # a push of one checkpoint, and one of two
                ws.push()
        yield ws


def only_listed(ws):
    return {each.name for each in ws.log() if each.held_by}


def test_a_lazy_clone_lists_everything_and_holds_the_newest(tmp_path, laptop, url):
    with joined(tmp_path, "desk", url, lazy=True) as desk:
        assert (tmp_path / "desk" / "src" / "app.py").read_text() == "print(3)\n" * 100
        assert only_listed(desk) == {"first of laptop", "s0", "s1", "s2"}
        theirs = {each.id: each for each in laptop.log()}
        for each in desk.log():
            if each.machine:
                mine = theirs[each.id]
                assert (each.name, each.description, each.files_changed, each.created_at, each.parent) == (
                    mine.name, mine.description, mine.files_changed, mine.created_at, mine.parent
                )  # fmt: skip
        assert [row["only_remote"] for row in desk.status()["remotes"]] == [4]
        check_store(desk)


def test_contents_come_when_a_verb_needs_them(tmp_path, laptop, url, monkeypatch):
    for storage in (gitserver.GitServer, SealedGitServer, Bucket):  # and nothing else comes along
        monkeypatch.setattr(storage, "fetch_again", lambda *_: pytest.fail("a whole chain was fetched"))
    with joined(tmp_path, "desk", url, lazy=True) as desk:
        assert desk.cat("laptop:s1", "src/app.py") == b"print(1)\n" * 100
        assert only_listed(desk) == {"first of laptop", "s0", "s2"}
        assert desk.diff("laptop:s0", "laptop:s1").added == ["only1"]
        assert desk.get("laptop:s0").state == {"n": 0}
        assert "only0" in desk.contents("laptop:s0").added
        report = desk.restore("laptop:first of laptop")
        assert sorted(report.deleted)[:2] == ["only0", "only1"]
        assert not (tmp_path / "desk" / "src" / "app.py").exists()
        desk.undo()
        assert (tmp_path / "desk" / "src" / "app.py").read_text() == "print(3)\n" * 100
        assert only_listed(desk) == {"s2"}
        assert desk.restore("laptop:s2", what="state").state == {"n": 2}
        assert not only_listed(desk)
        check_store(desk)


def test_a_pull_stays_lazy_until_all_is_asked_for(tmp_path, laptop, url):
    with joined(tmp_path, "desk", url, lazy=True) as desk:
        put(Path(laptop.root), "later", "1")
        laptop.save("later")
        laptop.push()
        assert desk.pull().checkpoints == 1
        assert "later" in only_listed(desk)
        assert desk.pull().checkpoints == 0
        assert desk.pull(everything=True).checkpoints == 5
        assert not only_listed(desk)
        put(Path(laptop.root), "later", "2")
        laptop.save("latest of all")
        laptop.push()
        desk.pull()
        assert not only_listed(desk)
        assert desk.cat("laptop:latest of all", "later") == b"2"
        check_store(desk)


def test_a_lazy_clone_saves_pushes_and_is_pulled_from(tmp_path, laptop, url):
    with joined(tmp_path, "desk", url, lazy=True) as desk:
        put(Path(desk.root), "of the desk", "1")
        desk.save("of the desk")
        desk.restore("laptop:s0")
        desk.push()
        assert laptop.pull().machines == ("desk",)
        assert laptop.cat("desk:of the desk", "of the desk") == b"1"
        desk.prune()
        check_store(desk)
        assert only_listed(desk) >= {"s1", "s2"}
        assert desk.doctor().ok
        assert only_listed(desk) >= {"s1", "s2"}
    check_store(laptop)


def test_what_is_deleted_or_forgotten_elsewhere_does_not_come_to_a_lazy_clone(tmp_path, laptop, url):
    with joined(tmp_path, "desk", url, lazy=True) as desk:
        laptop.delete("s1")
        laptop.forget("only0")
        laptop.push()
        assert desk.pull().gone == 1
        assert only_listed(desk) == {"first of laptop", "s0", "s2"}
        assert all("only0" not in each.files_changed for each in desk.log() if each.machine)
        assert "only0" not in desk.contents("laptop:s2").added
        check_store(desk)


def test_a_path_that_a_lazy_clone_forgets_is_cut_out_of_what_comes_later(tmp_path, laptop, url):
    with joined(tmp_path, "desk", url, lazy=True) as desk:
        with pytest.raises(UnknownPath):
            desk.forget("no such path")
        (tmp_path / "desk" / "only1").unlink()
        desk.forget("only1")
        assert all("only1" not in each.files_changed for each in desk.log())
        assert "only1" not in desk.contents("laptop:s1").added
        assert "only0" in desk.contents("laptop:s1").added
        check_store(desk)


def break_network(monkeypatch, desk):
    """From now on nothing answers."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    (remote,) = desk.remotes.list()
    if remote.kind == "git":
        os.rename(remote.url, remote.url + ".away")


def test_without_a_network_the_log_works_and_a_restore_changes_nothing(tmp_path, laptop, url, monkeypatch):
    with joined(tmp_path, "desk", url, lazy=True) as desk:
        break_network(monkeypatch, desk)
        errors = []
        desk.on("error", errors.append)
        assert {each.name for each in desk.log()} >= {"first of laptop", "s0", "s1", "s2", "s3"}
        before = {path: path.read_bytes() for path in Path(desk.root).rglob("*") if path.is_file()}
        with pytest.raises(
            RemoteFailed, match=r"contents of checkpoint .* are on the remote origin .*Nothing was changed"
        ):
            desk.restore("laptop:s1")
        assert not any(isinstance(each, ContentsElsewhere) for each in errors)
        assert {path: path.read_bytes() for path in Path(desk.root).rglob("*") if path.is_file()} == before
        put(Path(desk.root), "new", "1")
        desk.save("goes on")
        desk.undo()
        assert only_listed(desk) == {"first of laptop", "s0", "s1", "s2"}
        check_store(desk)


def test_an_interrupted_fetch_leaves_nothing_half(tmp_path, laptop, url, monkeypatch):
    """Killed before and after every step of taking in, and at requests."""
    with joined(tmp_path, "desk", url, lazy=True) as desk:
        for owner, name in (
            (Puller, "_take"),
            (gitserver.GitServer, "run"),
            (BucketObjects, "download"),
            (BucketObjects, "get"),
        ):
            for after in (False, True):
                with monkeypatch.context() as patch:
                    patch.setattr(owner, name, killed(getattr(owner, name), after=after))
                    with suppress(KeyboardInterrupt):
                        desk.cat("laptop:s1", "only1")
                desk.close()
                check_store(desk)
        assert desk.cat("laptop:s1", "only1") == b"1" * 1000
        assert desk.cat("laptop:s2", "only2") == b"2" * 1000
        check_store(desk)


def killed(real, *, after):
    def call(*args, **more):
        if after:
            real(*args, **more)
        raise KeyboardInterrupt

    return call


def test_a_remote_with_contents_that_are_only_there_is_not_removed_by_accident(tmp_path, laptop, url):
    with joined(tmp_path, "desk", url, lazy=True) as desk:
        with pytest.raises(UserError, match="contents of 4 checkpoints are only on origin"):
            desk.remotes.remove("origin")
        desk.remotes.remove("origin", forced=True)
        assert not only_listed(desk)
        assert desk.get("laptop:s3").name == "s3"
        check_store(desk)


def test_a_lazy_clone_whose_budget_is_full_keeps_its_list(tmp_path, laptop, url):
    with joined(tmp_path, "desk", url, lazy=True) as desk:
        from mulligan.remotes.pulled import drop_copies

        desk.cat("laptop:s1", "only1")
        with desk.bench.writing("gc"):
            assert drop_copies(desk.bench.store.database)
        assert only_listed(desk) == {"first of laptop", "s0", "s2"}
        assert desk.pull().checkpoints == 2
        assert desk.cat("laptop:s1", "only1") == b"1" * 1000


def test_python_clones_lazily(tmp_path, laptop, url):
    with mulligan.clone(url, tmp_path / "one", store=tmp_path / "one.store", lazy=True) as one:
        assert len(only_listed(one)) == 4

    async def clone():
        return await mulligan.aio.clone(url, tmp_path / "two", store=tmp_path / "two.store", lazy=True)

    two = asyncio.run(clone())
    assert len(only_listed(two.sync)) == 4
    two.sync.close()


# -- hostile remotes --------------------------------------------------------------------------------


def bucket_of(url):
    import obstore
    from obstore.store import S3Store

    store = S3Store("bucket", prefix=url.removeprefix("s3://bucket/"), client_options={"allow_http": True})
    packs = [row["path"] for page in obstore.list(store, "packs/") for row in page]
    return obstore, store, packs


@pytest.mark.parametrize("how", ["missing", "swapped", "truncated"])
@pytest.mark.parametrize("url", ["object store"], indirect=True)
def test_a_pack_that_is_not_what_it_was_gives_no_contents(tmp_path, laptop, url, how):
    with joined(tmp_path, "desk", url, lazy=True) as desk:
        api, store, packs = bucket_of(url)
        kept = {key: bytes(api.get(store, key).bytes()) for key in packs}
        for key, other in zip(packs, [*packs[1:], packs[0]], strict=True):
            if how == "missing":
                api.delete(store, [key])
            else:
                api.put(store, key, kept[other] if how == "swapped" else kept[key][:-20])
        with pytest.raises(RemoteDamaged, match="Nothing was changed"):
            desk.restore("laptop:s1")
        assert "s1" in only_listed(desk)
        check_store(desk)
        for key, data in kept.items():
            api.put(store, key, data)
        assert desk.cat("laptop:s1", "only1") == b"1" * 1000
        check_store(desk)


@pytest.mark.parametrize("url", ["git"], indirect=True)
def test_a_git_server_that_lost_a_checkpoint_gives_no_contents(tmp_path, laptop, url):
    with joined(tmp_path, "desk", url, lazy=True) as desk:
        name = desk.get("laptop:s1").commit
        run = ["git", "-C", url]
        subprocess.run([*run, "unpack-objects", "-q"], input=packed(url), check=True)
        loose = Path(url, "objects", name[:2], name[2:])
        data = loose.read_bytes()
        for damage in (None, b"", data[:-5], b"not an object"):
            loose.chmod(0o644)
            loose.unlink() if damage is None else loose.write_bytes(damage)
            with pytest.raises(RemoteFailed, match="Nothing was changed"):
                desk.cat("laptop:s1", "only1")
            assert "s1" in only_listed(desk)
            check_store(desk)
            loose.write_bytes(data)
        assert desk.cat("laptop:s1", "only1") == b"1" * 1000


def packed(url):
    """All objects of a repository, which loses its packs."""
    found = b""
    for path in Path(url, "objects", "pack").glob("*.pack"):
        found = path.read_bytes()
        for other in path.parent.glob(f"{path.stem}.*"):
            other.unlink()
        subprocess.run(["git", "-C", url, "unpack-objects", "-q"], input=found, check=True)
    return subprocess.run(["git", "-C", url, "pack-objects", "--all", "--stdout", "-q"], stdin=subprocess.DEVNULL, capture_output=True, check=True).stdout  # fmt: skip


@pytest.mark.parametrize("url", ["git"], indirect=True)
def test_a_server_that_gives_out_whole_refs_only_is_enough(tmp_path, laptop, url, monkeypatch):
    """Protocol 0, as over ssh where the server does not accept GIT_PROTOCOL."""
    config = tmp_path / "gitconfig"
    config.write_text("[protocol]\n\tversion = 0\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    with joined(tmp_path, "desk", url, lazy=True) as desk:
        assert only_listed(desk) == {"first of laptop", "s0", "s1", "s2"}
        assert desk.cat("laptop:s1", "only1") == b"1" * 1000
        check_store(desk)


@pytest.mark.parametrize("url", ["git", "encrypted git"], indirect=True)
def test_a_chain_without_a_log_is_read_from_commit_to_commit(tmp_path, laptop, url, monkeypatch):
    put(Path(laptop.root), "later", "1")
    laptop.save("later")
    with monkeypatch.context() as patch:
        patch.setattr(gitserver.GitServer, "_listed_in", lambda *_: {})
        laptop.push()
    with joined(tmp_path, "desk", url, lazy=True) as desk:
        assert only_listed(desk) == {"first of laptop", "s0", "s1", "s2", "s3"}
        assert desk.cat("laptop:s1", "only1") == b"1" * 1000
        check_store(desk)


@pytest.mark.parametrize("url", ["git", "encrypted git"], indirect=True)
def test_the_directory_of_a_remote_can_be_deleted_at_any_time(tmp_path, laptop, url):
    shutil.rmtree(Path(laptop.store_path, "remotes"))
    put(Path(laptop.root), "later", "1")
    laptop.save("later")
    laptop.push()
    with joined(tmp_path, "desk", url, lazy=True) as desk:
        shutil.rmtree(Path(desk.store_path, "remotes"))
        assert desk.cat("laptop:s1", "only1") == b"1" * 1000
        shutil.rmtree(Path(desk.store_path, "remotes"))
        assert desk.pull().checkpoints == 0
        desk.push()
        shutil.rmtree(Path(desk.store_path, "remotes"))
        put(Path(desk.root), "later", "2")
        desk.save("2")
        assert desk.push().checkpoints == 1
        check_store(desk)


def test_everything_can_be_pulled_more_than_once(tmp_path, laptop, url):
    with joined(tmp_path, "desk", url) as desk:
        put(Path(laptop.root), "later", "1")
        laptop.save("later")
        laptop.push()
        for _ in range(2):
            desk.pull()
            desk.remotes.pull(everything=True)
        assert desk.cat("laptop:later", "later") == b"1"
        check_store(desk)


@pytest.mark.parametrize("url", ["git", "encrypted git"], indirect=True)
def test_objects_that_a_killed_git_left_half_written_do_not_stop_a_push(laptop, url):
    """Git writes a loose object as tmp_obj_…; tidying removes it once there are many objects."""
    for objects in Path(laptop.store_path, "remotes").glob("**/objects"):
        for number in range(20):
            put(objects / "17", f"tmp_obj_{number}", "half")
    put(Path(laptop.root), "later", "1")
    laptop.save("later")
    assert laptop.push().checkpoints == 1
    assert not list(Path(laptop.store_path, "remotes").glob("**/tmp_obj_*"))


@pytest.mark.parametrize("url", ["git", "encrypted git"], indirect=True)
@pytest.mark.parametrize("lazy", [True, False])
def test_locks_that_a_killed_git_left_stop_no_pull_and_no_push(tmp_path, laptop, url, lazy):
    with joined(tmp_path, "desk", url, lazy=lazy) as desk:
        for number, ws in enumerate((laptop, desk)):
            (spool,) = Path(ws.store_path, "remotes").iterdir()
            for name in ("shallow", "packed-refs", "HEAD", *(f"refs/chains/{each.name}" for each in spool.glob("refs/chains/*"))):  # fmt: skip
                put(spool, f"{name}.lock", "")
            put(Path(laptop.root), "later", str(number))
            laptop.save(f"later{number}")
            laptop.push()
            desk.pull()
            assert desk.cat(f"laptop:later{number}", "later") == str(number).encode()
            desk.save(f"of the desk {number}")
            desk.push()
            assert not laptop.pull().refused
        check_store(desk)


@pytest.mark.parametrize("url", ["git", "encrypted git"], indirect=True)
@pytest.mark.parametrize("lazy", [True, False])
def test_refs_whose_objects_a_kill_left_out_stop_no_pull_and_no_push(tmp_path, laptop, url, lazy):
    """A kill may leave references in the remote's directory without their objects."""
    with joined(tmp_path, "desk", url, lazy=lazy) as desk:
        for number, ws in enumerate((laptop, desk, laptop, desk)):
            desk.push()
            laptop.pull()
            for objects in Path(ws.store_path, "remotes").glob("*/objects/[0-9a-f][0-9a-f]"):
                shutil.rmtree(objects)
            if number < 2:
                put(Path(laptop.root), "later", str(number))
                laptop.save(f"later{number}")
                laptop.push()
            assert not laptop.pull().refused
            assert not desk.pull().refused
            assert desk.cat("laptop:s1", "only1") == b"1" * 1000
            put(Path(desk.root), "mine", str(number))
            desk.save(f"of the desk {number}")
        assert desk.push().checkpoints
        check_store(desk)


# -- on the command line ----------------------------------------------------------------------------


def test_a_watcher_leaves_the_network_to_its_client(project, tmp_path):
    """It may not have the user's keys, and others wait for it."""
    url = bare_repository(tmp_path / "t.git")
    for number in range(3):
        put(project, "a", str(number))
        cli_json("save", f"s{number}", cwd=project)
    cli_json("remote", "add", "hub", url, "--as", "laptop", cwd=project)
    cli_json("push", cwd=project)
    cli_json("clone", "--lazy", url, "copy", cwd=tmp_path)
    with watched(tmp_path / "copy") as process:
        asked = tmp_path / "asked"
        wrapper = put(tmp_path, "bin/git", f'#!/bin/sh\necho $PPID >> {asked}\nexec {shutil.which("git")} "$@"\n')
        wrapper.chmod(0o755)
        env = {"PATH": f"{wrapper.parent}:{os.environ['PATH']}"}
        assert cli("cat", "laptop:s0:a", cwd=tmp_path / "copy", **env).stdout == "0"
        assert cli("restore", "laptop:s1", "-y", cwd=tmp_path / "copy", **env).returncode == 0
        assert str(process.pid) not in asked.read_text().split()
    assert (tmp_path / "copy" / "a").read_text() == "1"


def test_a_lazy_clone_on_the_command_line(project, tmp_path):
    env = {"XDG_STATE_HOME": str(tmp_path / "state"), "HOME": str(tmp_path), "MULLIGAN_WATCH": "0"}
    bare_repository(tmp_path / "srv" / "t.git")
    for number in range(3):
        put(project, "a", str(number))
        cli_json("save", f"s{number}", cwd=project, **env)
    with git_daemon(tmp_path / "srv") as server:
        cli_json("remote", "add", "hub", f"{server}/t.git", "--as", "laptop", cwd=project, **env)
        cli_json("push", cwd=project, **env)
        cloned = cli_json("clone", "--lazy", f"{server}/t.git", "copy", cwd=tmp_path, **env)
        assert (cloned["pulled"], cloned["only_remote"], cloned["files"]) == (3, 2, 1)
        copy = tmp_path / "copy"
        assert "1 file, on origin" in cli("log", cwd=copy, **env).stdout
        assert "contents of 2 checkpoints are only there" in cli("status", cwd=copy, **env).stdout
        checked = cli("check", cwd=copy, **env)
        assert "every checkpoint that is held here" in checked.stdout
        assert "Not checked: the contents of 2 checkpoints are only on a remote." in checked.stderr
        assert cli("cat", "laptop:s0:a", cwd=copy, **env).stdout == "0"
        assert cli_json("status", cwd=copy, **env)["remotes"][0]["only_remote"] == 1
    failed = cli("restore", "laptop:s1", "-y", cwd=copy, **env)
    assert failed.returncode == 1
    assert "are on the remote origin and could not be fetched" in failed.stderr
    assert "Nothing was changed." in failed.stderr
    assert (copy / "a").read_text() == "2"
    assert cli("restore", "laptop:s0", "-y", cwd=copy, **env).returncode == 0
    assert (copy / "a").read_text() == "0"
