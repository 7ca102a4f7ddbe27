"""
Runs `mulligan` in a process of its own, forked from a server that has loaded the package (`fork_server.py`).

Starting an interpreter and loading the package is most of what a short command costs; what a command does is the same.
Where a command must start as an interpreter does (other settings of Python, another program), there is no fork.
`TEST_MULLIGAN_FORKS=0 pytest …` starts an interpreter for each.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryFile

PACKAGE = Path(__file__).parents[2] / "src"
#: Variables that Python, its loader or the package read when they start, and never again.
_AT_START = ("PYTHON", "LD_", "LC_", "LANG", "COVERAGE", "MULLIGAN_PLATFORM", "MULLIGAN_NATIVE", "TEST_PRELOAD")
_LARGEST = 100_000
#: A server costs as much as some commands, so there are few, and none for what is rare, such as a search path of one test.
_OFTEN, _MOST = 6, 4


class Forked:
    """A command that runs: as much of `subprocess.Popen` as tests use."""

    def __init__(self, report: int) -> None:
        self._report = os.fdopen(report, "rb", buffering=0)
        self.pid = int(self._report.readline())
        self.returncode: int | None = None
        #: Held while the report is read: one thread may wait for the end while another asks for it.
        self._reading = threading.Lock()

    def wait(self, timeout: float = 120) -> int:
        """Returns its exit code, negative for a signal."""
        with self._reading:
            code = self._code(timeout)
        if code is None:
            raise TimeoutError("the command did not end")
        return code

    def poll(self) -> int | None:
        """Returns its exit code, None while it runs."""
        if not self._reading.acquire(blocking=False):
            return self.returncode
        try:
            return self._code(0)
        finally:
            self._reading.release()

    def _code(self, timeout: float) -> int | None:
        if self.returncode is None and select.select([self._report], [], [], timeout)[0]:
            said = self._report.readline()
            self._report.close()
            assert said, "the server of forks is gone"
            self.returncode = int(said)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Sends a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Asks it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Ends it."""
        self.send_signal(signal.SIGKILL)


def _is_harmless(searched: str) -> bool:
    """Returns whether a search path leads to this package and changes nothing at the start of Python."""
    first, *others = searched.split(os.pathsep)
    odd = [f"{path}/{name}" for path in others for name in ("mulligan", "sitecustomize.py", "usercustomize.py")]
    return os.path.samefile(first or "/", PACKAGE) and not any(map(os.path.exists, odd))


class _Servers:
    """The servers of this process, one for each set of variables that is read at the start."""

    def __init__(self) -> None:
        self._links: dict[tuple[tuple[str, str], ...], socket.socket] = {}
        self._processes: list[subprocess.Popen[bytes]] = []
        self._asked: Counter[tuple[tuple[str, str], ...]] = Counter()
        self._lock = threading.Lock()

    def link(self, env: Mapping[str, str]) -> socket.socket | None:
        """Returns the link to a server; None for an environment that is too rare to start one for it."""
        key = tuple(sorted((name, value) for name, value in env.items() if name.startswith(_AT_START)))
        if _is_harmless(env.get("PYTHONPATH", "")):
            key = tuple((name, value) for name, value in key if name != "PYTHONPATH")
        with self._lock:
            self._asked[key] += 1
            often = self._asked[key] >= _OFTEN or "TEST_PRELOAD" in env
            if key not in self._links and often and len(self._links) < _MOST:
                self._links[key], theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                script = str(Path(__file__).with_name("fork_server.py"))
                words = [sys.executable, script, str(theirs.fileno())]
                self._processes.append(subprocess.Popen(words, env=dict(env), pass_fds=[theirs.fileno()], cwd="/"))
                theirs.close()
            return self._links.get(key)

    def end(self) -> None:
        """Closes the links, which ends the servers."""
        for link in self._links.values():
            link.close()
        for process in self._processes:
            process.wait()


_servers = _Servers()
atexit.register(_servers.end)


def start(
    words: Sequence[str],
    *,
    cwd: str | os.PathLike[str],
    env: Mapping[str, str],
    streams: tuple[int, int, int],
    session: bool = False,
) -> Forked | None:
    """Starts a command with these descriptors as its streams; None where it has to be started as an interpreter is."""
    if not hasattr(os, "pidfd_open") or os.environ.get("TEST_MULLIGAN_FORKS") == "0":
        return None
    umask = os.umask(0o022)
    os.umask(umask)
    request = {"words": list(words), "cwd": os.fspath(cwd), "env": dict(env), "umask": umask, "session": session}
    text = json.dumps(request).encode()
    link = _servers.link(env) if len(text) <= _LARGEST else None
    if link is None:
        return None
    report, theirs = os.pipe()
    try:
        socket.send_fds(link, [text], [*streams, theirs])
    finally:
        os.close(theirs)
    return Forked(report)


def run(
    words: Sequence[str], *, cwd: str | os.PathLike[str], env: Mapping[str, str], given: bytes | None = None
) -> tuple[int, bytes, bytes] | None:
    """Runs a command to its end; returns its exit code and both outputs, None as `start` does."""
    with open(os.devnull, "rb") as nothing, TemporaryFile() as typed, TemporaryFile() as out, TemporaryFile() as err:
        if given is not None:
            typed.write(given)
            typed.seek(0)
        source = nothing if given is None else typed
        running = start(words, cwd=cwd, env=env, streams=(source.fileno(), out.fileno(), err.fileno()))
        if running is None:
            return None
        code = running.wait()
        out.seek(0)
        err.seek(0)
        return code, out.read(), err.read()
