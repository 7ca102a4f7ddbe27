"""
A server that has the package loaded and forks a process for each command, so that tests start no interpreter each time.

`forked.py` starts one for each process of pytest and sends it requests over a socket: the words, the directory, the
environment, and four descriptors, three of them the streams of the command. The child is what `python -m mulligan` is
after its imports. Its number and its exit code go to the fourth descriptor. The server ends with its socket.
TEST_PRELOAD names more modules to load.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import io
import json
import os
import pkgutil
import selectors
import signal
import socket
import sys
import time
from contextlib import suppress
from typing import Any, NoReturn

#: They need other libraries, or do something when they are imported.
LEFT_OUT = ("mulligan.adapters", "mulligan.compat", "mulligan.mcp", "mulligan.ui", "mulligan.__main__")
#: What commands import when they need it.
USUAL = ("argparse", "difflib", "fnmatch", "hashlib", "importlib.metadata", "json", "select", "shutil", "sqlite3")
USUAL += ("struct", "subprocess", "textwrap", "tomllib", "traceback", "uuid", "zlib")
LARGEST = 1 << 20
#: Where Python was told to look for modules when this server began.
AT_START = frozenset(os.environ.get("PYTHONPATH", "").split(os.pathsep))


def preload() -> None:
    """Imports the package and what its commands use; objects that are there now are never collected in a child."""
    import mulligan

    for name in USUAL:
        importlib.import_module(name)
    for found in pkgutil.walk_packages(mulligan.__path__, "mulligan."):
        if not found.name.startswith(LEFT_OUT) and ".safefs.platform." not in found.name:
            importlib.import_module(found.name)
    for name in os.environ.get("TEST_PRELOAD", "").split():
        importlib.import_module(name)
    gc.collect()
    gc.freeze()


def become(request: dict[str, Any], streams: list[int]) -> NoReturn:
    """Runs the command of a request in this process, which ends with it."""
    for number, fd in enumerate(streams):
        os.dup2(fd, number)
    if request["session"]:
        os.setsid()
    os.chdir(request["cwd"])
    os.umask(request["umask"])
    os.environ.clear()
    os.environ.update(request["env"])
    time.tzset()
    sys.argv = [sys.modules["mulligan"].__file__ or "", *request["words"]]
    searched = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    sys.path[:] = [os.getcwd(), *searched, *(path for path in sys.path[1:] if path not in AT_START)]
    sys.stdin, sys.stdout, sys.stderr = _streams()
    from mulligan.cli import process

    try:
        code = process()
    except SystemExit as left:
        code = left.code if isinstance(left.code, int) else 1
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)


def _streams() -> list[io.TextIOWrapper]:
    """Returns the standard streams as Python opens them in this locale."""
    kinds = ((0, "r", sys.stdin), (1, "w", sys.stdout), (2, "w", sys.stderr))
    return [
        open(number, mode, encoding=old.encoding, errors=old.errors, buffering=1 if number == 2 else -1)
        for number, mode, old in kinds
    ]


def serve(link: socket.socket) -> None:
    """Forks a process for each request, and reports how it ended."""
    running: dict[int, tuple[int, int]] = {}
    with selectors.DefaultSelector() as selector:
        selector.register(link, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is not link:
                    pid, report = running.pop(key.fd)
                    selector.unregister(key.fd)
                    os.close(key.fd)
                    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                    with suppress(BrokenPipeError):  # the test did not wait for it
                        os.write(report, b"%d\n" % code)
                    os.close(report)
                    continue
                text, fds, _, _ = socket.recv_fds(link, LARGEST, 4)
                if not text:
                    return
                pid = os.fork()
                if not pid:
                    link.close()
                    become(json.loads(text), fds[:3])
                os.write(fds[3], b"%d\n" % pid)
                for fd in fds[:3]:
                    os.close(fd)
                watched = os.pidfd_open(pid)
                running[watched] = (pid, fds[3])
                selector.register(watched, selectors.EVENT_READ)


if __name__ == "__main__":
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        assert signal.getsignal(each) is not signal.SIG_IGN
    preload()
    serve(socket.socket(fileno=int(sys.argv[1])))
