"""
The world outside the engine, for tests: the command line in a process of its own, plain git, strace, capabilities.

Nothing here imports the package: what these helpers say about it comes from the outside.
"""

from __future__ import annotations

import functools
import json
import os
import pty
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import forked

PACKAGE = Path(__file__).parents[2] / "src"


def sweep(small: int) -> int:
    """The number of rounds: `small`, times the factor in MULLIGAN_SWEEP when a longer run is wanted."""
    return max(1, int(small * float(os.environ.get("MULLIGAN_SWEEP", "1"))))


def plain_environment(**more: str) -> dict[str, str]:
    """The environment of a child process: this one's, able to import the package, writing no byte code."""
    env = dict(os.environ)
    env["PYTHONPATH"] = str(PACKAGE) + (os.pathsep + env["PYTHONPATH"] if env.get("PYTHONPATH") else "")
    env["PYTHONDONTWRITEBYTECODE"] = "1"
    env.update(more)
    return env


def mulligan_argv(*args: str | os.PathLike[str]) -> list[str]:
    """The command line of `mulligan`, as a list to start; TEST_MULLIGAN may name another program for it."""
    program = os.environ.get("TEST_MULLIGAN")
    return [*([program] if program else [sys.executable, "-m", "mulligan"]), *(os.fspath(arg) for arg in args)]


def run_mulligan(
    words: Sequence[str | os.PathLike[str]], *, cwd: Path, env: dict[str, str], given: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs `mulligan` in a process of its own, without a terminal; `given` is its standard input."""
    texts = [os.fspath(word) for word in words]
    data = None if given is None else given.encode("utf-8", "surrogateescape")
    done = None if "TEST_MULLIGAN" in os.environ else forked.run(texts, cwd=cwd, env=env, given=data)
    if done is not None:
        out, err = (each.decode("utf-8", "surrogateescape").replace("\r\n", "\n") for each in done[1:])
        return subprocess.CompletedProcess(texts, done[0], out, err)
    return _run(mulligan_argv(*texts), cwd, env, given)


def _run(argv: list[str], cwd: Path, env: dict[str, str], given: str | None = None) -> subprocess.CompletedProcess[str]:
    source = {"stdin": subprocess.DEVNULL} if given is None else {"input": given}
    return subprocess.run(
        argv,
        cwd=cwd,
        env=env,
        capture_output=True,
        encoding="utf-8",
        errors="surrogateescape",
        timeout=120,
        check=False,
        **source,
    )


def start_mulligan(
    words: Sequence[str | os.PathLike[str]],
    *,
    cwd: Path,
    env: dict[str, str],
    streams: tuple[int, int, int],
    session: bool = False,
) -> forked.Forked | subprocess.Popen[bytes]:
    """Starts `mulligan` with these descriptors as its streams, in a session of its own if asked for."""
    stdin, stdout, stderr = streams
    texts = [os.fspath(word) for word in words]
    forks = "TEST_MULLIGAN" not in os.environ
    made = forked.start(texts, cwd=cwd, env=env, streams=streams, session=session) if forks else None
    return made or subprocess.Popen(
        mulligan_argv(*texts), cwd=cwd, env=env, stdin=stdin, stdout=stdout, stderr=stderr, start_new_session=session
    )


#: What the servers of pages and of MCP load: most of what it costs to start one.
SERVERS = {"TEST_PRELOAD": "mulligan.mcp.session mulligan.mcp.http mulligan.ui.app mulligan.ui.serving"}


class ServingCommand:
    """A command that serves until it gets a signal, with pipes for what it prints: what tests use of `subprocess.Popen`."""

    def __init__(self, *words: str | os.PathLike[str], cwd: Path, **env: str) -> None:
        (out, theirs_out), (err, theirs_err) = os.pipe(), os.pipe()
        with open(os.devnull, "rb") as nothing:
            streams = (nothing.fileno(), theirs_out, theirs_err)
            self._process = start_mulligan(words, cwd=cwd, env=plain_environment(**SERVERS, **env), streams=streams)
        os.close(theirs_out)
        os.close(theirs_err)
        self.stdout, self.stderr = os.fdopen(out, encoding="utf-8"), os.fdopen(err, encoding="utf-8")
        self.wait, self.kill, self.send_signal = self._process.wait, self._process.kill, self._process.send_signal

    def end(self, number: int = signal.SIGTERM) -> tuple[int, str, str]:
        """Sends it a signal; returns its exit code and the rest of what it printed."""
        self.send_signal(number)
        return self.finish()

    def finish(self) -> tuple[int, str, str]:
        """Waits for its end; returns the same."""
        code = self.wait(60)
        with self.stdout, self.stderr:
            return code, self.stdout.read(), self.stderr.read()


def cli(
    *args: str | os.PathLike[str], cwd: Path, prefix: Sequence[str] = (), **env: str
) -> subprocess.CompletedProcess[str]:
    """Runs `mulligan` in a process of its own, without a terminal; a prefix starts it."""
    if prefix:
        return _run([*prefix, *mulligan_argv(*args)], cwd, plain_environment(**env))
    return run_mulligan(args, cwd=cwd, env=plain_environment(**env))


def cli_json(*args: str | os.PathLike[str], cwd: Path, expect: int = 0, **env: str) -> Any:
    """Runs `mulligan --json`, insists on the exit code, and returns the one document it printed."""
    done = cli("--json", *args, cwd=cwd, **env)
    assert done.returncode == expect, f"exit {done.returncode}: {done.stdout}{done.stderr}"
    return json.loads(done.stdout)


def at_a_terminal(*words: str, cwd: Path, typed: str, **env: str) -> tuple[int, str]:
    """Runs a command with a terminal on all three streams; returns its exit code and everything it showed."""
    ours, theirs = pty.openpty()
    env = plain_environment(TERM="xterm", **env)
    process = start_mulligan(words, cwd=cwd, env=env, streams=(theirs, theirs, theirs))
    os.close(theirs)
    os.write(ours, typed.encode())
    shown = b""
    while True:
        try:
            part = os.read(ours, 4096)
        except OSError:
            break
        if not part:
            break
        shown += part
    os.close(ours)
    return process.wait(), shown.decode()


def git_environment(**more: str) -> dict[str, str]:
    """An environment in which git reads no configuration but the repository's own."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    env |= {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "GIT_OPTIONAL_LOCKS": "0"}
    env |= {f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER") for what, value in IDENTITY.items()}
    return env | more


IDENTITY = {"NAME": "Tester", "EMAIL": "tester@example.org"}


def git(
    *args: str | bytes | os.PathLike[str], cwd: Path | None = None, stdin: bytes = b"", check: bool = True, **env: str
) -> bytes:
    """Runs plain git and returns what it printed."""
    done = subprocess.run(
        ["git", *args], cwd=cwd, env=git_environment(**env), input=stdin, capture_output=True, timeout=120, check=False
    )
    if check and done.returncode:
        raise AssertionError(f"git {args}: exit {done.returncode}: {done.stderr.decode(errors='replace')}")
    return done.stdout


def strace_works() -> bool:
    """Whether strace is here and may trace (containers often forbid it)."""
    if not shutil.which("strace"):
        return False
    return subprocess.run(["strace", "-f", "-o", os.devnull, "true"], capture_output=True, check=False).returncode == 0


def loop_mounts_work() -> bool:
    """Whether this process may loop-mount an ext4 image."""
    if os.geteuid() != 0 or not shutil.which("mkfs.ext4"):
        return False
    with tempfile.TemporaryDirectory() as folder:
        image, point = Path(folder, "image"), Path(folder, "point")
        point.mkdir()
        with image.open("wb") as file:
            file.truncate(4 << 20)
        if subprocess.run(["mkfs.ext4", "-q", "-F", image], capture_output=True, check=False).returncode:
            return False
        if subprocess.run(["mount", "-o", "loop", image, point], capture_output=True, check=False).returncode:
            return False
        subprocess.run(["umount", point], capture_output=True, check=True)
    return True


@functools.cache
def capabilities() -> dict[str, str]:
    """What this machine can do to the engine, as words for the report header."""
    found = (
        subprocess.run(["git", "--version"], capture_output=True, text=True, check=False)
        if shutil.which("git")
        else None
    )
    return {
        "root": "yes" if os.geteuid() == 0 else "no",
        "git": found.stdout.split()[2] if found and found.returncode == 0 else "no",
        "strace": "yes" if strace_works() else "no",
        "loop mounts": "yes" if loop_mounts_work() else "no",
        "mkfs.xfs": "yes" if shutil.which("mkfs.xfs") else "no",
        "mkfs.btrfs": "yes" if shutil.which("mkfs.btrfs") else "no",
    }
