"""Whatever a server or a network does: nothing is lost, the next try goes on, and the error says what to type."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import obstore
import pytest
from obstore.store import S3Store

import mulligan
from cutting import Cutter, cutter
from fleet import bare_repository, check_store, git_daemon, joined, machine, object_store
from mulligan.errors import RemoteFailed
from mulligan.remotes.bucket import BucketObjects
from mulligan.remotes.push import Pusher
from refusing import Refuser, refusing
from servers import needs
from tools import cli, sweep
from tree import put

HOME = {"MULLIGAN_WATCH": "0"}


@pytest.fixture(autouse=True)
def keys(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


@contextmanager
def behind_a_relay(kind: str, place: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Cutter, str]]:
    """A server behind a relay that can cut; yields the relay and the address of a remote."""
    if kind == "bucket":
        with object_store() as variables, cutter(int(variables["AWS_ENDPOINT_URL"].rpartition(":")[2])) as relay:
            for name, value in (variables | {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{relay.port}"}).items():
                monkeypatch.setenv(name, value)
            yield relay, "s3://bucket/shop"
        return
    bare_repository(place / "srv" / "t.git")
    with git_daemon(place / "srv") as server, cutter(int(server.rpartition(":")[2])) as relay:
        yield relay, f"git://127.0.0.1:{relay.port}/t.git"


@pytest.mark.parametrize("kind", ["git", "encrypted git", "bucket"])
def test_a_cut_connection_loses_nothing_and_the_same_command_goes_on(kind, tmp_path, monkeypatch):
    chance = random.Random(kind)
    with behind_a_relay(kind, tmp_path, monkeypatch) as (relay, url):
        laptop = machine(tmp_path, "laptop", url, encrypt=kind != "git")
        laptop.push()
        desk = joined(tmp_path, "desk", url)
        for number in range(sweep(10)):
            put(Path(laptop.root), "a", f"{number}" + chance.randbytes(3000).hex())
            laptop.save(f"s{number}")
            for work in (laptop.push, desk.pull):
                relay.arm(chance.choice((chance.randrange(500), chance.randrange(9000))), stays=chance.random() < 0.3, resets=chance.random() < 0.5)  # fmt: skip
                error = trouble_of(work)
                assert error is None or re.search("(broke off|does not answer).* Your checkpoints here are untouched", error.message)  # fmt: skip
                assert error is None or "again" in error.hint
                relay.disarm()
                work()
            assert desk.cat(f"laptop:s{number}", "a") == (Path(laptop.root) / "a").read_bytes()
        assert relay.cuts
        assert laptop.remotes.check("team", read_data="100%").ok
        for ws in (laptop, desk):
            check_store(ws)
            ws.close()


def trouble_of(work: Callable[[], object]) -> RemoteFailed | None:
    """The error with which something ended, None for none."""
    try:
        work()
    except RemoteFailed as error:
        return error
    return None


def test_a_cut_connection_on_the_command_line_ends_with_exit_code_1(tmp_path, project, monkeypatch):
    with behind_a_relay("git", tmp_path, monkeypatch) as (relay, url):
        put(project, "a", "1")
        for words in (("save", "one"), ("remote", "add", "hub", url)):
            assert cli(*words, cwd=project, **HOME).returncode == 0
        relay.arm(400, stays=True)
        done = cli("push", cwd=project, **HOME)
        assert done.returncode == 1
        assert "broke off. Your checkpoints here are untouched." in done.stderr
        assert "Run the same command again" in done.stderr
        relay.disarm()
        assert cli("push", cwd=project, **HOME).stdout == "pushed 1 checkpoint to hub\n"


# -- an object store that refuses -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def store():
    with object_store() as variables, refusing(variables["AWS_ENDPOINT_URL"]) as (refuser, address):
        yield refuser, variables | {"AWS_ENDPOINT_URL": address}


@pytest.fixture
def refuser(store, monkeypatch) -> Iterator[Refuser]:
    for name, value in store[1].items():
        monkeypatch.setenv(name, value)
    yield store[0]
    store[0].refuse("", 0, "")


@pytest.mark.parametrize(
    ("status", "code", "words", "hint"),
    [
        (403, "QuotaExceeded", "has no room left", "push --prune"),
        (507, "InsufficientStorage", "has no room left", "push --prune"),
        (403, "RequestTimeTooSkewed", "refuses this machine's clock", "Set the clock"),
        (403, "InvalidAccessKeyId", "does not accept your access key", "AWS_ACCESS_KEY_ID"),
        (403, "SignatureDoesNotMatch", "does not accept your access key", "AWS_SECRET_ACCESS_KEY"),
        (400, "ExpiredToken", "or it has expired", "AWS_SESSION_TOKEN"),
        (403, "AccessDenied", "Your access key may not do that", "read, list and write"),
        (404, "NoSuchBucket", "There is no bucket", "Make it first"),
        (503, "SlowDown", "overloaded", "again later"),
        (400, "EntityTooLarge", "does not take an object of this size", "another one"),
    ],
)
def test_each_refusal_of_an_object_store_has_plain_words(tmp_path, refuser, status, code, words, hint):
    """A bucket that is called after another error changes nothing about it."""
    with machine(tmp_path, "laptop", f"s3://bucket/quota-clock-{code}") as laptop:
        laptop.push()
        put(Path(laptop.root), "a", "new")
        laptop.save("second")
        for request, work in (("^PUT ", laptop.push), ("^GET ", laptop.pull)):
            refuser.refuse(request, status, code)
            with pytest.raises(RemoteFailed, match=words) as caught:
                work()
            assert "Your checkpoints here are untouched." in caught.value.message
            assert hint in caught.value.hint
            refuser.refuse("", 0, "")
        assert laptop.push().checkpoints == 1
        assert laptop.remotes.check("team", read_data="100%").ok


def test_a_key_that_may_not_delete_can_push(tmp_path, refuser):
    refuser.refuse(r"^(DELETE |POST .*\?delete)", 403, "AccessDenied")
    with machine(tmp_path, "laptop", "s3://bucket/no-delete") as laptop:
        assert "may not delete" in laptop.remotes.list()[0].remarks()[0]
        assert laptop.push().checkpoints == 1
        with pytest.raises(RemoteFailed, match="cannot be collected safely"):
            laptop.remotes.collect("team")


@pytest.mark.parametrize("clock", ["+365d", "-365d"])
def test_a_wrong_clock_makes_no_pack_look_old_or_young(tmp_path, project, refuser, clock):
    """All ages are by the server's clock: nothing is collected early, and an interrupted push goes on."""
    needs("faketime")
    env, wrong, name = HOME, ("faketime", "-f", clock), "fast" if clock[0] == "+" else "slow"
    put(project, "a", "1")
    for words in (
        ("save", "one"),
        ("remote", "add", "hub", f"s3://bucket/{name}"),
        ("push",),
        ("push", "--prune"),
    ):
        assert cli(*words, cwd=project, **env).returncode == 0
    done = cli("--json", "gc", "--remote", "hub", cwd=project, prefix=wrong, **env)
    assert done.returncode == 0, done.stderr
    assert {json.loads(done.stdout)[key] for key in ("marked", "packs", "segments", "freed_bytes")} == {0}
    put(project, "a", "2")
    cli("save", "two", cwd=project, **env)
    refuser.refuse("^PUT .*/log/", 403, "AccessDenied")
    assert cli("push", cwd=project, prefix=wrong, **env).returncode == 1
    before = packs(name)
    refuser.refuse("", 0, "")
    assert cli("push", cwd=project, **env).returncode == 0
    assert packs(name) == before


def packs(prefix: str) -> set[str]:
    store = S3Store("bucket", prefix=prefix, client_options={"allow_http": True})
    return {row["path"] for page in obstore.list(store, "packs") for row in page}


def test_a_half_written_pack_is_refused_in_plain_words(tmp_path, project, refuser):
    """As an older client might have left one: nothing of it is taken, and the output says who can send it again."""
    with machine(tmp_path, "laptop", "s3://bucket/half", encrypt=False) as laptop:
        laptop.push()
        bucket = S3Store("bucket", prefix="half", client_options={"allow_http": True})
        (pack,) = packs("half")
        data = bytes(obstore.get(bucket, pack).bytes())
        obstore.put(bucket, pack, data[: len(data) // 2])
        desk = tmp_path / "desk"
        desk.mkdir()
        with mulligan.open(desk) as ws:
            ws.remotes.begin_clone("origin", "s3://bucket/half")
        done = cli("pull", cwd=desk, **HOME)
        assert done.returncode == 3
        assert "is damaged or half-written (its bytes are not what its segment says)." in done.stderr
        assert "Nothing of it was taken." in done.stderr
        assert "mulligan push --prune" in done.stderr
        laptop.remotes.push("team", full=True)
        assert cli("pull", cwd=desk, **HOME).returncode == 0


@pytest.mark.parametrize("encrypt", [True, False])
def test_half_a_segment_keeps_neither_its_machine_nor_the_others_from_going_on(tmp_path, refuser, monkeypatch, encrypt):
    """A server keeps the first half of a segment, and the push is killed: it cannot be told apart from any other bytes."""
    url = f"s3://bucket/half-segment-{encrypt}"
    with machine(tmp_path, "laptop", url, encrypt=encrypt) as laptop:
        laptop.push()
        with joined(tmp_path, "desk", url) as desk, joined(tmp_path, "lazy", url, lazy=True) as lazy:
            put(Path(laptop.root), "a", "new")
            laptop.save("second")
            with monkeypatch.context() as patch:
                patch.setattr(BucketObjects, "create", half_and_killed(BucketObjects.put))
                with pytest.raises(KeyboardInterrupt):
                    laptop.push()
            put(Path(desk.root), "b", "of the desk")
            desk.save("of the desk")
            desk.push()
            ((who, why),) = lazy.pull().refused
            assert re.search(f"egment.* of .*{who}.*(cannot be opened|cannot be believed)", why)
            assert lazy.cat("desk:of the desk", "b") == b"of the desk"
            assert not laptop.remotes.check("team").ok
            if encrypt:  # killed once more, when it has seen that the segment cannot be read
                with monkeypatch.context() as patch:
                    patch.setattr(Pusher, "_send", killed_at_second(Pusher._send))
                    with pytest.raises(KeyboardInterrupt):
                        laptop.push()
            assert laptop.push().checkpoints == 2
            assert laptop.remotes.check("team", read_data="100%").ok
            for ws in (desk, lazy):
                assert not ws.pull().refused
                assert ws.cat("laptop:second", "a") == b"new"
                check_store(ws)
            with joined(tmp_path, "late", url) as late:
                assert late.cat("laptop:second", "a") == b"new"


def half_and_killed(put):
    def create(self, key, data):
        put(self, key, data[: len(data) // 2])
        raise KeyboardInterrupt

    return create


def killed_at_second(send):
    calls = []

    def call(self, *, full):
        calls.append(full)
        if len(calls) > 1:
            raise KeyboardInterrupt
        return send(self, full=full)

    return call


# -- a git server that refuses ----------------------------------------------------------------------------


def test_a_git_server_that_refuses_a_push_is_quoted(tmp_path):
    url = bare_repository(tmp_path / "t.git")
    with machine(tmp_path, "laptop", url) as laptop:
        hook = Path(url, "hooks", "pre-receive")
        for says, words in (("Quota exceeded: 2 GB", "has no room left"), ("no pushes on Fridays", "refused the push")):
            hook.write_text(f"#!/bin/sh\necho '{says}' >&2\nexit 1\n")
            hook.chmod(0o755)
            with pytest.raises(RemoteFailed, match=words) as caught:
                laptop.push()
            assert says in caught.value.message
            assert "untouched" in caught.value.message
            assert caught.value.hint
        hook.unlink()
        assert laptop.push().checkpoints == 1


def test_a_git_server_without_disk_is_explained(tmp_path):
    place = tmp_path / "small"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", place], capture_output=True, check=False)  # fmt: skip
    if mounted.returncode:
        pytest.skip("SKIPPED LOUDLY: no file system can be mounted here")
    try:
        url = bare_repository(place / "t.git")
        with machine(tmp_path, "laptop", url) as laptop:
            put(Path(laptop.root), "big", random.Random(1).randbytes(600_000).hex())
            laptop.save("big")
            with pytest.raises(RemoteFailed, match="has no room left") as caught:
                laptop.push()
            assert "untouched" in caught.value.message
            laptop.delete("big")
            os.unlink(Path(laptop.root) / "big")
            assert laptop.push().checkpoints == 1
            check_store(laptop)
    finally:
        subprocess.run(["umount", place], check=True)


def test_a_git_server_that_may_not_be_written_is_explained(tmp_path):
    """Over git's own protocol without a service for pushes."""
    bare_repository(tmp_path / "srv" / "t.git", "daemon.receivepack=false")
    with git_daemon(tmp_path / "srv") as server, pytest.raises(RemoteFailed, match="does not let you write") as caught:
        machine(tmp_path, "laptop", f"{server}/t.git")
    assert "Ask for permission" in caught.value.hint
