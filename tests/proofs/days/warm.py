"""
Commands without the start of an interpreter: a process that has loaded the program forks for each of them.

Each command is a process of its own, with its own directory, environment, input and output, and can be killed. An agent is
such a loaded process too: the hooks are its children, as they are with the real clients, and killing it is a real kill.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

sys.path.insert(0, str(Path(__file__).parents[2] / "support"))

from tools import plain_environment

_PACKAGES = ("cli", "cli.commands", "hooks", "model", "present", "restore", "scan", "store", "timeline")
_LARGEST = 1 << 17


class Running:
    """A command at work."""

    def __init__(self, program: Program, args: list[str], files: list[IO[bytes]]) -> None:
        self._program, self._args, self._files = program, args, files
        self.pid = int(program.link.recv(64))

    def kill(self) -> None:
        """Kills it; it may have ended by itself."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> subprocess.CompletedProcess[str]:
        """Returns how it ended and what it printed."""
        code = int(self._program.link.recv(64))
        said = []
        for file in self._files:
            with file:
                file.seek(0)
                said.append(file.read().decode("utf-8", "surrogateescape"))
        return subprocess.CompletedProcess(self._args, code, said[1], said[2])


class Program:
    """A process that has loaded the program; `pid` is that process."""

    def __init__(self, link: socket.socket, pid: int) -> None:
        self.link, self.pid = link, pid

    @classmethod
    def start(cls) -> Program:
        """Starts an interpreter and loads the program."""
        here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with there:
            process = subprocess.Popen([sys.executable, __file__, str(there.fileno())], pass_fds=[there.fileno()],
                                       env=plain_environment(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)  # fmt: skip
        return cls(here, process.pid)

    def another(self) -> Program:
        """Returns another process like this one: the process of an agent."""
        here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with there:
            socket.send_fds(self.link, [json.dumps({}).encode()], [there.fileno()])
        return Program(here, int(self.link.recv(64)))

    def begin(self, *args: str, cwd: Path, text: str = "", **env: str) -> Running:
        """Starts `mulligan` with these words."""
        files = [os.fdopen(os.memfd_create(name), "w+b") for name in ("in", "out", "err")]
        files[0].write(text.encode())
        files[0].seek(0)
        order = {"args": list(args), "cwd": str(cwd), "env": plain_environment(**env)}
        socket.send_fds(self.link, [json.dumps(order).encode()], [file.fileno() for file in files])
        return Running(self, list(args), files)

    def run(self, *args: str, cwd: Path, text: str = "", **env: str) -> subprocess.CompletedProcess[str]:
        """Runs `mulligan` with these words."""
        return self.begin(*args, cwd=cwd, text=text, **env).wait()

    def end(self) -> None:
        """Ends the process, as its user does who closes it."""
        self.link.close()

    def kill(self) -> None:
        """Kills the process between two commands."""
        os.kill(self.pid, signal.SIGKILL)
        self.link.close()


# -- in the process that has loaded the program -----------------------------------------------------


def _load() -> None:
    """Imports what commands need, so that a fork has it."""
    import importlib
    import pkgutil

    for name in _PACKAGES:
        package = importlib.import_module(f"mulligan.{name}")
        for found in pkgutil.iter_modules(package.__path__, f"mulligan.{name}."):
            try:
                importlib.import_module(found.name)
            except ImportError:
                continue  # an extra that is not installed


def _serve(link: socket.socket) -> None:
    """Does what is ordered, one order after the other, until there are no more."""
    while True:
        order, files, _, _ = socket.recv_fds(link, _LARGEST, 4)
        _reap()
        if not order:
            os._exit(0)
        pid = os.fork()
        if not pid:
            link.close()
            said = json.loads(order)
            if not said:
                return _serve(socket.socket(fileno=files[0]))
            _become(said, files)
        for file in files:
            os.close(file)
        link.send(str(pid).encode())
        if json.loads(order):
            _, status = os.waitpid(pid, 0)
            link.send(str(os.waitstatus_to_exitcode(status)).encode())


def _reap() -> None:
    """Lets agents that were killed go."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return


def _become(order: dict[str, Any], files: list[int]) -> None:
    """Runs one command in this process, which ends with it."""
    code = 70
    try:
        os.chdir(order["cwd"])
        os.environ.clear()
        os.environ.update(order["env"])
        for number, file in enumerate(files):
            os.dup2(file, number)
            os.close(file)
        sys.argv = ["mulligan", *order["args"]]
        from mulligan.cli import process

        code = process()
        sys.stdout.flush()
    finally:
        os._exit(code)


if __name__ == "__main__":
    _load()
    _serve(socket.socket(fileno=int(sys.argv[1])))
