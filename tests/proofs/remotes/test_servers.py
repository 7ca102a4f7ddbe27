"""One story through every kind of server that can be run here."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fleet import bare_repository, check_store, joined, machine, object_store
from mulligan.errors import RemoteFailed
from servers import ceph, git_over_http, git_over_ssh, rclone
from tools import cli, plain_environment
from tree import put

SCRIPT = Path(__file__).parent / "machines.py"
BUILDS = ("segment-first", "keeps-the-forgotten", "tells-no-deletions", "names-a-collected-pack")


def story(place: Path, url: str) -> None:
    """Push, clone, change, push back, pull, restore, prune; every store is whole."""
    with machine(place, "laptop", url) as laptop:
        put(Path(laptop.root), "src/app.py", "print(1)\n")
        laptop.save("second")
        assert laptop.push().checkpoints == 2
        with joined(place, "desk", url) as desk:
            put(Path(desk.root), "src/app.py", "print(2)\n" * 1000)
            desk.save("third")
            desk.push()
            laptop.pull()
            assert laptop.cat("desk:third", "src/app.py") == b"print(2)\n" * 1000
            laptop.restore("desk:third")
            laptop.delete("second")
            laptop.remotes.push("team", full=True)
            assert desk.pull().gone == 1
            assert laptop.remotes.check("team", read_data="100%").ok
            check_store(laptop)
            check_store(desk)


def lazy_story(place: Path, url: str, another: str, *, encrypt: bool | None = None) -> None:
    """A lazy clone lists everything, fetches what a verb needs, forks from what it did not have; the fork has a remote of its own."""
    with machine(place, "first", url, encrypt=encrypt) as first:
        for number in range(4):
            put(Path(first.root), "src/app.py", f"print({number})\n" * 500)
            first.save(f"s{number}")
            first.push()
        with joined(place, "lazy", url, lazy=True) as lazy:
            assert {each.name for each in lazy.log() if each.held_by} == {"first of first", "s0", "s1", "s2"}
            assert lazy.cat("first:s0", "src/app.py") == b"print(0)\n" * 500
            lazy.restore("first:s1")
            assert (place / "lazy" / "src" / "app.py").read_text() == "print(1)\n" * 500
            with lazy.fork("first:s2", place / "fork") as fork:
                assert (place / "fork" / "src" / "app.py").read_text() == "print(2)\n" * 500
                put(place / "fork", "src/app.py", "print('forked')\n")
                fork.save("forked")
                fork.remotes.add("own", another, encrypt=encrypt)
                fork.push()
                check_store(fork)
            with joined(place, "forked", another, lazy=True):
                assert (place / "forked" / "src" / "app.py").read_text() == "print('forked')\n"
            lazy.push()
            assert first.pull().machines == ("lazy",)
            lazy.pull(everything=True)
            assert not [each for each in lazy.log() if each.held_by]
            check_store(lazy)
            check_store(first)


def test_git_over_http_with_a_password(tmp_path, monkeypatch):
    with git_over_http(tmp_path) as url:
        (tmp_path / "gitconfig").write_text(f"[credential]\n\thelper = store --file {tmp_path}/credentials\n")
        monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
        with pytest.raises(RemoteFailed, match="user name and password"):
            machine(tmp_path / "early", "stranger", url)
        (tmp_path / "credentials").write_text(url.replace("http://", "http://anna:pw@").removesuffix("/t.git") + "\n")
        story(tmp_path, url)
        monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
        for name, encrypt in (("plain", False), ("sealed", True)):
            bare_repository(tmp_path / "srv" / f"{name}.git", "http.receivepack=true")
            bare_repository(tmp_path / "srv" / f"{name}-fork.git", "http.receivepack=true")
            base = url.removesuffix("t.git")
            lazy_story(tmp_path / name, f"{base}{name}.git", f"{base}{name}-fork.git", encrypt=encrypt)


def test_git_over_ssh(tmp_path, monkeypatch):
    with git_over_ssh(tmp_path) as (url, ssh):
        monkeypatch.setenv("GIT_SSH_COMMAND", "ssh -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -i /nonexistent")  # fmt: skip
        with pytest.raises(RemoteFailed, match="did not accept your key"):
            machine(tmp_path / "early", "stranger", url)
        monkeypatch.setenv("GIT_SSH_COMMAND", ssh)
        story(tmp_path, url)
        for name in ("lazy", "fork"):
            bare_repository(tmp_path / "srv" / f"{name}.git")
        base = url.removesuffix("t.git")
        lazy_story(tmp_path / "lazily", f"{base}lazy.git", f"{base}fork.git")


def test_lazy_clones_and_forks_through_an_object_store(tmp_path, monkeypatch):
    with object_store() as variables:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
        lazy_story(tmp_path, "s3://bucket/lazy", "s3://bucket/fork")


def test_a_ceph_object_gateway(tmp_path, monkeypatch):
    with ceph(tmp_path) as variables:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
        story(tmp_path, "s3://bucket/shop")
        lazy_story(tmp_path / "lazily", "s3://bucket/lazy", "s3://bucket/fork")
        quota_and_clock(tmp_path, "s3://bucket/full")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
        with pytest.raises(RemoteFailed, match="access key"):
            machine(tmp_path / "late", "stranger", "s3://bucket/other")


def quota_and_clock(place: Path, url: str) -> None:
    """A gateway that refuses for want of room, or because of a wrong clock, is understood."""
    project = place / "full"
    put(project, "a", "1")
    env = {"MULLIGAN_WATCH": "0"}
    for words in (("save", "one"), ("remote", "add", "hub", url)):
        assert cli(*words, cwd=project, **env).returncode == 0
    if shutil.which("faketime"):
        done = cli("push", cwd=project, prefix=("faketime", "-f", "+365d"), **env)
        assert done.returncode == 1
        assert "refuses this machine's clock" in done.stderr
    for words in (("set", "--max-objects=1"), ("enable",)):
        limit = [
            "radosgw-admin",
            "--name",
            "client.rgw",
            "quota",
            words[0],
            "--quota-scope=user",
            "--uid=t",
            *words[1:],
        ]
        subprocess.run(limit, env={**os.environ, "CEPH_CONF": f"{place}/ceph.conf"}, capture_output=True, check=True)
    done = cli("push", cwd=project, **env)
    assert done.returncode == 1
    assert "has no room left" in done.stderr


def test_a_server_that_ignores_preconditions_is_for_one_machine(tmp_path, monkeypatch):
    with rclone(tmp_path) as variables:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
        with machine(tmp_path, "laptop", "s3://bucket/shop") as laptop:
            assert "only one machine" in laptop.remotes.list()[0].remarks()[0]
            laptop.push()
            with pytest.raises(RemoteFailed, match="cannot be collected safely"):
                laptop.remotes.collect("team")
            with joined(tmp_path, "desk", "s3://bucket/shop") as desk:
                desk.save("of the desk")
                with pytest.raises(RemoteFailed, match="only one machine"):
                    desk.push()


def machines(*options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, SCRIPT, *options], env=plain_environment(), capture_output=True, text=True, check=False)  # fmt: skip


def test_random_histories_of_several_machines_lose_nothing():
    done = machines("--size", "4")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("build", BUILDS)
def test_a_build_that_loses_or_keeps_too_much_is_caught(build):
    done = machines("--size", "24", "--build", build, "--enough", "1")
    assert done.returncode == 1, done.stdout + done.stderr
