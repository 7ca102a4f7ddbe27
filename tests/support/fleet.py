"""Several machines of one timeline, for tests: each has its own workspace, store and keys, and all share one remote."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import mulligan


def bare_repository(path: Path, *config: str) -> str:
    """An empty repository for pushes; `config` are settings of it, `name=value`."""
    subprocess.run(["git", "init", "-q", "--bare", path], check=True)
    for setting in config:
        name, _, value = setting.partition("=")
        subprocess.run(["git", "-C", path, "config", name, value], check=True)
    return str(path)


def machine(place: Path, name: str, url: str, **options) -> mulligan.Workspace:
    """A workspace with one checkpoint and the remote `team`."""
    root = place / name
    root.mkdir(parents=True)
    (root / "who").write_text(name)
    ws = mulligan.open(root, store=place / f"{name}.store")
    ws.save(f"first of {name}")
    ws.remotes.add("team", url, machine=name, **options)
    return ws


def joined(place: Path, name: str, url: str, **options) -> mulligan.Workspace:
    """A clone of the timeline at a remote, as a machine of this name."""
    from mulligan.remotes.clone import clone_into, make_empty

    make_empty(str(place / name))
    ws = mulligan.open(place / name, store=place / f"{name}.store")
    clone_into(ws, url, machine=name, **options)
    return ws


def free_port() -> int:
    """A port of this machine that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def git_daemon(base: Path, port: int = 0) -> Iterator[str]:
    """A git server on this machine; yields its address."""
    port = port or free_port()
    process = subprocess.Popen(
        ["git", "daemon", "--reuseaddr", "--export-all", "--enable=receive-pack", "--listen=127.0.0.1", f"--port={port}", f"--base-path={base}", str(base)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip
    try:
        wait_for(port)
        yield f"git://127.0.0.1:{port}"
    finally:
        import os
        import signal

        os.killpg(process.pid, signal.SIGTERM)
        process.wait()


def wait_for(port: int, seconds: float = 20) -> None:
    """Waits until something listens on a port of this machine."""
    end = time.monotonic() + seconds
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.02)
        else:
            return


def check_store(ws: mulligan.Workspace) -> None:
    """A store is whole, for us and for git."""
    report = ws.check()
    assert report.ok, report.problems
    done = subprocess.run(["git", "-C", ws.store_path, "fsck", "--strict", "--no-dangling"], capture_output=True, text=True, check=False)  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


@contextmanager
def object_store() -> Iterator[dict[str, str]]:
    """An object store in this process (moto); yields the variables that lead there. The bucket is called `bucket`."""
    import logging

    import boto3
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.CRITICAL)  # a request that was cut is an error there
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    found = {
        "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
    }  # fmt: skip
    client = boto3.client("s3", endpoint_url=found["AWS_ENDPOINT_URL"], aws_access_key_id="key", aws_secret_access_key="secret", region_name="us-east-1")  # fmt: skip
    client.create_bucket(Bucket="bucket")
    try:
        yield found
    finally:
        server.stop()
