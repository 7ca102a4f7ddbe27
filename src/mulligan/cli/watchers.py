"""Watchers as processes: where they listen, whether one runs, starting and stopping it."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple

from mulligan.cli import client as wire
from mulligan.cli.context import Context
from mulligan.errors import UserError
from mulligan.safefs.platform import HERE

if TYPE_CHECKING:
    from mulligan.model.policy import Settings

#: What a watcher says where it cannot notice changes, before the reason.
UNNOTICED = "The watcher cannot notice changes here, so each command scans all files: "


IDLE = 30 * 60.0
#: Seconds: for a watcher to hear, and to end what is under way.
_PATIENCE, _END = 3.0, 30.0


class WatcherPlace(NamedTuple):
    """The paths of the watcher of one workspace and store."""

    directory: str
    name: str

    @property
    def lock(self) -> str:
        """The file whose lock says that there is one."""
        return f"{self.directory}/{self.name}.lock"

    @property
    def socket(self) -> str:
        """The path of the socket."""
        return f"{self.directory}/{self.name}.sock"


def place_of(settings: Settings, environ: dict[str, str]) -> WatcherPlace:
    """Returns where the watcher of a workspace is found, whether there is one or not."""
    found = os.stat(settings.store)
    return WatcherPlace(
        wire.run_directory(environ), f"{wire.name_of(settings.workspace)}{found.st_dev:x}-{found.st_ino:x}"
    )


def prepare(place: WatcherPlace) -> None:
    """Makes the directory of sockets; UserError where it is not private."""
    with suppress(FileExistsError):
        os.makedirs(os.path.dirname(place.directory), exist_ok=True)
        os.mkdir(place.directory, 0o700)
    if not wire.is_private(place.directory):
        raise UserError(
            f"{place.directory} belongs to another user, or others may enter it; no watcher is started. Nothing was changed.",
            hint=f"chmod 700 {place.directory}",
        )


@contextmanager
def alone(place: WatcherPlace, workspace: str = "") -> Iterator[bool]:
    """Holds the place of a process, a watcher of a workspace if one is named; yields whether it could be had."""
    fd = os.open(place.lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        os.ftruncate(fd, 0)
        os.pwrite(fd, b"%d\n%s\n" % (os.getpid(), os.fsencode(workspace)), 0)
        yield True
    finally:
        os.close(fd)


class Running(NamedTuple):
    """A watcher that runs: its process, and the workspace that it watches."""

    process: int
    workspace: str
    place: WatcherPlace
    #: When its last command began, in seconds since 1970.
    used: float = 0.0


def all_running(environ: dict[str, str]) -> list[Running]:
    """Returns every watcher of this user."""
    directory = wire.run_directory(environ)
    if not directory or not wire.is_private(directory):
        return []
    places = [
        WatcherPlace(directory, name.removesuffix(".lock"))
        for name in sorted(os.listdir(directory))
        if name.endswith(".lock")
    ]
    return [found for place in places if (found := _found(place)).process and found.workspace]


def running(place: WatcherPlace) -> int:
    """Returns the process that watches there, 0 when there is none."""
    return _found(place).process


def _found(place: WatcherPlace) -> Running:
    nothing = Running(0, "", place)
    try:
        fd = os.open(place.lock, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return nothing
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        process, _, workspace = os.pread(fd, 8192, 0).rstrip(b"\n").partition(b"\n")
        # Nothing is written where it begins at this very moment.
        return Running(int(process or 0), os.fsdecode(workspace), place, os.fstat(fd).st_mtime)
    finally:
        os.close(fd)
    return nothing


def stop(place: WatcherPlace) -> bool:
    """Ends a watcher after what is under way, and waits for that; returns whether there was one that heard."""
    if not running(place) or not ask_to_stop(place):
        return False
    deadline = time.monotonic() + _END
    while running(place) and time.monotonic() < deadline:
        time.sleep(0.02)
    return True


def note_use(place: WatcherPlace) -> None:
    """Notes that a command begins, for `end_oldest` of other watchers."""
    with suppress(OSError):  # the directory was emptied: this watcher ends soon
        os.utime(place.lock)


def end_oldest(mine: WatcherPlace, most: int, environ: dict[str, str]) -> list[str]:
    """
    Ends the least recently used watchers until there are at most so many, this one included; returns their workspaces.

    A watcher answers between two commands alone, so one with a command in progress does not hear and is passed over.
    """
    others = sorted((each for each in all_running(environ) if each.place != mine), key=lambda each: each.used)
    ended: list[str] = []
    for each in others:
        if len(others) - len(ended) < most:
            break
        ended += [each.workspace] if ask_to_stop(each.place) else []
    return ended


def keep_warm(settings: Settings, environ: dict[str, str]) -> bool:
    """Returns whether a watcher can be started for the commands to come, and there is none."""
    if not HERE.can.watch or not os.path.isdir(settings.store):
        return False
    place = place_of(settings, environ)
    if not place.directory or running(place):
        return False
    prepare(place)
    return True


def ask_to_stop(place: WatcherPlace) -> bool:
    """Tells a watcher to end after what is under way; returns whether it heard."""
    try:
        link, (_, number) = wire.greet(place.socket)
        with link:
            link.settimeout(_PATIENCE)
            link.sendall(wire.pack(wire.STOP, number))
            return link.recv(1) != b""
    except (OSError, ValueError):
        return False


def start(context: Context, *, idle: float, told: int = subprocess.DEVNULL) -> subprocess.Popen[str]:
    """Starts a watcher that outlives this command; its output goes to `told`, open until it is ready."""
    return start_apart(context.settings, ["watch", "--idle", str(idle)], context.environ, told)


def start_apart(
    settings: Settings, words: Sequence[str], environ: Mapping[str, str], told: int = subprocess.DEVNULL
) -> subprocess.Popen[str]:
    """Starts a command of this program for a workspace, in a session of its own; its errors go to `told`."""
    return subprocess.Popen(  # noqa: S603 - this very program
        [sys.executable, "-m", "mulligan", "-C", settings.workspace, "--store", settings.store, *words],
        cwd="/",
        env=dict(environ),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=told,
        text=True,
        start_new_session=True,
    )


def begin(context: Context, idle: float, place: WatcherPlace) -> tuple[int, str]:
    """Starts a watcher and waits until it is ready; returns its process and why it cannot watch."""
    context.close()
    child = start(context, idle=idle, told=subprocess.PIPE)
    said = child.stderr.readline() if child.stderr is not None else ""
    unnoticed = ""
    if said.startswith(UNNOTICED) and child.stderr is not None:
        unnoticed, said = said.removeprefix(UNNOTICED).strip(), child.stderr.readline()
    process = running(place)
    if not process:
        raise UserError(
            f"The watcher ended right away ({said.strip() or 'without a message'}). Commands work without it.",
            hint="See why: mulligan watch (stays in front)",
        )
    return process, unnoticed
