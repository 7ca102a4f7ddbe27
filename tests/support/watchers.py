"""Watchers for tests: real ones in front, false ones that say what a test wants, and the native client built from its source."""

from __future__ import annotations

import os
import shlex
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from forked import Forked
from tools import PACKAGE, plain_environment, start_mulligan

NATIVE = PACKAGE.parent / "native"
#: A MULLIGAN_WATCH that makes a command do without a watcher.
ALONE = {"MULLIGAN_WATCH": "0"}


def build_client(folder: Path, *flags: str) -> Path:
    """Compiles the native client into a folder, beside a `mulligan` script as an installation has it."""
    compiler = shlex.split(os.environ.get("CC", "cc"))  # as hatch_build.py has it
    if shutil.which(compiler[0]) is None:
        pytest.skip(f"there is no C compiler {compiler[0]}")
    import mulligan

    client, script = folder / "mulligan-client", folder / "mulligan"
    words = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", f'-DVERSION="{mulligan.__version__}"', *flags]
    subprocess.run([*compiler, *words, NATIVE / "client.c", "-o", client], check=True)
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -m mulligan "$@"\n')
    script.chmod(0o755)
    return client


@contextmanager
def watched(project: Path, *words: str) -> Iterator[Forked | subprocess.Popen[bytes]]:
    """A watcher in front, ready to serve."""
    ours, theirs = os.pipe()
    with open(os.devnull, "r+b") as nothing, open(ours, encoding="utf-8") as said:
        streams = (nothing.fileno(), nothing.fileno(), theirs)
        process = start_mulligan(["watch", *words], cwd=project, env=plain_environment(), streams=streams)
        os.close(theirs)
        try:
            assert said.readline().startswith("Watching")
            yield process
        finally:
            process.terminate()
            process.wait(timeout=60)


def place_of(project: Path) -> Path:
    """Where a false watcher of a project listens: clients find any socket whose name begins so."""
    found = project.stat()
    folder = Path(os.environ["XDG_RUNTIME_DIR"], "mulligan")
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder / f"{found.st_dev:x}-{found.st_ino:x}-false.sock"


def pack(*items: bytes) -> bytes:
    """A frame, as the protocol has it; written down here once more, so that both sides are compared with it."""
    body = b"".join(len(item).to_bytes(4, "big") + item for item in items)
    return len(body).to_bytes(4, "big") + body


def receive(link: socket.socket) -> list[bytes]:
    """The items of the next frame; empty when the other end closes instead."""
    link.settimeout(30)
    with suppress(ConnectionResetError):
        if head := _exactly(link, 4):
            body, items = _exactly(link, int.from_bytes(head, "big")), []
            while body:
                size = int.from_bytes(body[:4], "big")
                items.append(body[4 : 4 + size])
                body = body[4 + size :]
            return items
    return []


def _exactly(link: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = link.recv(size - len(data))
        if not part:
            return b""
        data += part
    return data


def greeting(number: bytes = b"false-1", protocol: bytes = b"mulligan 2", version: bytes = b"") -> bytes:
    """What a watcher says first."""
    import mulligan

    return pack(protocol, version or mulligan.__version__.encode(), number)


@contextmanager
def false_watcher(project: Path, *conversations: Callable[[socket.socket], None]) -> Iterator[list[int]]:
    """Listens as a watcher of a project; yields the conversations that took place, each for one connection in turn."""
    path, took = place_of(project), list[int]()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    path.chmod(0o600)
    listener.listen(16)

    def serve() -> None:
        for number, converse in enumerate(conversations):
            with suppress(OSError):
                link, _ = listener.accept()
                took.append(number)
                with link:
                    converse(link)
        listener.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield took
    finally:
        with suppress(OSError):  # it has had its conversations
            listener.shutdown(socket.SHUT_RDWR)
        thread.join(timeout=60)
        listener.close()
        path.unlink(missing_ok=True)


def files_of(process: int) -> list[str]:
    """What a process has open; nothing while that changes."""
    with suppress(FileNotFoundError):
        return [os.readlink(each) for each in Path(f"/proc/{process}/fd").iterdir()]
    return []


def wait_until(happened: Callable[[], bool]) -> None:
    """Waits for something that another process does; a minute without it is a failure."""
    deadline = time.monotonic() + 60
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.002)  # leaves the processor to the one that is waited for
