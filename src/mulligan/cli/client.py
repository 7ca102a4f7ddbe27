"""
The client of a watcher: a command that a watcher of this workspace can run is handed to it.

`native/client.c` does the same without Python where it was built, and becomes this program where it cannot.
A frame is a length and that many bytes; its items are stored the same way. A conversation is three frames:

1. The watcher greets when it is free: protocol, version, request id.
2. The client sends `run` with the id, the directory, the streams, stdin, the words and the environment.
3. The watcher answers `done` with the exit code and both streams, or `declined`: nothing was run.

Until the second frame is whole, nothing has happened. It is sent once: where the answer is lost, `ask` with the id on a new
connection tells what became of it, `unknown` where nothing is left that could tell.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from mulligan import __version__
from mulligan.cli.commands import ALONE, HANDED_ON, PAGED, READING

if TYPE_CHECKING:
    import socket

PROTOCOL = b"mulligan 2"
VERSION = __version__.encode()
RUN, ASK, STOP = b"run", b"ask", b"stop"
DONE, DECLINED, UNKNOWN = b"done", b"declined", b"unknown"
LARGEST = 64 << 20
_ASKING = frozenset({"undo", "restore", "revert", "hook"})
#: Tells this program that `mulligan-client` asked already, and how that went.
ASKED = "MULLIGAN_ASKED"
_LOST, _STOPPED, _INTERRUPTED = "lost", "stopped", "interrupted"
_NUMBER = 4
# Seconds: between two looks at a watcher that does not answer, for its greeting, stopped over a request, for an event on stdin.
_LOOK = 0.25
_GREETING = 5.0
_STOPPED_FOR = 2.0
_EVENT = 20.0


class Said(NamedTuple):
    """The command among the words, and the directory of `-C`; empty where they are not plain."""

    command: str = ""
    directory: str = ""


def understand(words: Sequence[str]) -> Said:
    """Returns the command and its directory, as far as a watcher may be asked."""
    directory, at = "", 0
    while at < len(words) and words[at].startswith("-"):
        if words[at] in {"-C", "--store"} and at + 1 < len(words):
            at += 1
            directory = words[at] if words[at - 1] == "-C" else directory
        elif words[at] not in {"--json", "--no-pager"}:
            return Said()
        at += 1
    return Said(words[at], directory) if at < len(words) and words[at] in HANDED_ON else Said()


def ask(words: list[str]) -> int | None:
    """Returns the exit code of a command that a watcher ran; None when it has to be run here."""
    said, asked = understand(words), os.environ.pop(ASKED, "")
    if asked:
        return _explained(asked, said.command, words)
    if not said.command or os.environ.get("MULLIGAN_WATCH") == ALONE or not _is_suitable(said.command):
        return None
    event = b""
    try:
        sockets = find_sockets(os.environ, said.directory or ".")
        if sockets and said.command == "hook":
            event, whole = _take_event()
            sockets = sockets if whole else []
        for path in sockets:
            answer = _converse(path, words, event)
            if answer[0] == DONE:
                return _printed(words, said.command, int(answer[1]), answer[2], answer[3])
            if answer[0] != DECLINED:
                return _explained(answer[0].decode(), said.command, words)
    except KeyboardInterrupt:
        return _explained(_INTERRUPTED, said.command, words)
    except (OSError, ValueError, LookupError):
        return None  # nothing was sent
    return None


def _is_suitable(command: str) -> bool:
    """Returns whether all streams are open, and no person is there to be asked."""
    streams = (sys.stdin, sys.stdout, sys.stderr)
    return None not in streams and not (command in _ASKING and sys.stdin.isatty())


def _take_event() -> tuple[bytes, bool]:
    """Returns what stdin holds, and whether that is all; a later `sys.stdin` reads it again."""
    import select

    data = bytearray()
    whole = False
    while not whole and len(data) < LARGEST and select.select([0], [], [], _EVENT)[0]:
        part = os.read(0, 1 << 16)
        data += part
        whole = not part
    sys.stdin = io.TextIOWrapper(io.BytesIO(data), encoding="utf-8")
    return bytes(data), whole


# -- where a watcher listens --------------------------------------------------------------------


def run_directory(environ: Mapping[str, str]) -> str:
    """Returns the directory of sockets, empty where the user has no place for one."""
    runtime, state, home = (environ.get(name, "") for name in ("XDG_RUNTIME_DIR", "XDG_STATE_HOME", "HOME"))
    if runtime.startswith("/"):
        return runtime + "/mulligan"
    if not state.startswith("/"):
        state = home + "/.local/state" if home.startswith("/") else ""
    return state + "/mulligan/run" if state else ""


def name_of(workspace: str) -> str:
    """Returns what the names of a workspace's sockets begin with."""
    found = os.stat(workspace)
    return f"{found.st_dev:x}-{found.st_ino:x}-"


def find_sockets(environ: Mapping[str, str], directory: str) -> list[str]:
    """Returns the sockets of the nearest workspace upward that has any."""
    place, here = run_directory(environ), os.path.realpath(directory)
    names = [name for name in os.listdir(place) if name.endswith(".sock")] if place and is_private(place) else []
    while names:
        begins = name_of(here)
        found = [f"{place}/{name}" for name in names if name.startswith(begins)]
        if found or here == "/":
            return found
        here = os.path.dirname(here)
    return []


def is_private(place: str) -> bool:
    """Returns whether a directory is this user's, and no other user may enter it."""
    try:
        found = os.lstat(place)
    except OSError:
        return False
    return found.st_uid == os.geteuid() and found.st_mode & 0o170077 == 0o040000


# -- frames -------------------------------------------------------------------------------------


def pack(*items: bytes) -> bytes:
    """Returns items as one frame."""
    body = b"".join(len(item).to_bytes(_NUMBER, "big") + item for item in items)
    return len(body).to_bytes(_NUMBER, "big") + body


def unpack(body: bytes) -> list[bytes]:
    """Returns the items of a frame without its length; ValueError when it is not one."""
    at, items = 0, []
    while at < len(body):
        end = at + _NUMBER + int.from_bytes(body[at : at + _NUMBER], "big")
        items.append(body[at + _NUMBER : end])
        at = end
    if at != len(body) or not items:
        raise ValueError("not a message")
    return items


# -- a conversation -----------------------------------------------------------------------------


def greet(path: str) -> tuple[socket.socket, list[bytes]]:
    """Connects to a watcher of this user; returns the connection, the version and the request id; OSError otherwise."""
    import socket
    import stat

    found = os.lstat(path)
    if found.st_uid != os.geteuid() or not stat.S_ISSOCK(found.st_mode) or found.st_mode & 0o077:
        raise OSError("not a private socket of this user")
    link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    # By a descriptor of the directory: the path of a socket has at most 107 bytes.
    folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        link.settimeout(_GREETING)
        link.connect(f"/proc/self/fd/{folder}/{os.path.basename(path)}")
        if peer_of(link)[1] != os.geteuid():
            raise OSError("another user's")
        protocol, *rest = unpack(_receive_frame(link, sent=False))
        if protocol != PROTOCOL or len(rest) != 2 or not 0 < len(rest[1]) < 64:
            raise OSError("another protocol")
    except BaseException:
        link.close()
        raise
    finally:
        os.close(folder)
    return link, rest


def peer_of(link: socket.socket) -> tuple[int, int]:
    """Returns the process and the user at the other end."""
    import socket
    import struct

    process, user, _ = struct.unpack("3i", link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return process, user


def _converse(path: str, words: list[str], event: bytes) -> list[bytes]:
    """Has the watcher behind a socket run a command; returns its answer, or why there is none."""
    try:
        link, (version, number) = greet(path)
    except (OSError, ValueError):
        return [DECLINED]
    with link:
        request = pack(RUN, number, *_request(words, event))
        try:
            if version != VERSION or len(request) > LARGEST:
                return [DECLINED]
            link.settimeout(_GREETING)
            link.sendall(request)
        except OSError:
            return [DECLINED]  # a frame that is not whole is never run
        try:
            return _receive_answer(link)
        except _Stopped:
            return [_STOPPED.encode()]
        except (OSError, ValueError):
            return _what_became_of(path, number)


def _what_became_of(path: str, number: bytes) -> list[bytes]:
    """Asks again for an answer that was lost."""
    try:
        link, _ = greet(path)
        with link:
            link.sendall(pack(ASK, number))
            return _receive_answer(link)
    except (OSError, ValueError):
        return [_LOST.encode()]


def _receive_answer(link: socket.socket) -> list[bytes]:
    answer = unpack(_receive_frame(link, sent=True))
    if answer != [DECLINED] and not (len(answer) == 4 and answer[0] == DONE and answer[1].isdigit()):
        raise ValueError("not an answer")
    return answer


def _request(words: list[str], event: bytes) -> list[bytes]:
    here = os.stat(".")
    terminals = "".join(str(int(stream.isatty())) for stream in (sys.stdout, sys.stderr))
    columns = os.get_terminal_size(1).columns if terminals[0] == "1" else 0
    told = [f"{key}={value}" for key, value in os.environ.items()]
    return [
        os.fsencode(os.getcwd()),
        f"{here.st_dev} {here.st_ino}".encode(),
        f"{terminals} {columns} {len(words)}".encode(),
        event,
        *map(os.fsencode, [*words, *told]),
    ]


class _Stopped(OSError):
    """The watcher is stopped over a request."""


def _is_stopped(link: socket.socket) -> bool:
    try:
        with open(f"/proc/{peer_of(link)[0]}/stat", "rb") as found:
            return found.read().rpartition(b")")[2].split()[0] in {b"T", b"t"}
    except (OSError, IndexError):
        return False  # it ended, or this system does not tell


def _receive_frame(link: socket.socket, *, sent: bool) -> bytes:
    return _receive(link, int.from_bytes(_receive(link, _NUMBER, sent=sent), "big"), sent=sent)


def _receive(link: socket.socket, size: int, *, sent: bool) -> bytes:
    """Receives bytes; once it was sent a request, a watcher has all the time it needs, unless it is stopped."""
    data, waited = bytearray(), 0.0
    link.settimeout(_LOOK)
    while len(data) < size:
        try:
            part = link.recv(min(size - len(data), 1 << 20))
        except TimeoutError:
            stopped = _is_stopped(link)
            waited = waited + _LOOK if stopped or not sent else 0.0
            if waited >= (_STOPPED_FOR if sent else _GREETING) or (stopped and not sent):
                raise _Stopped from None
            continue
        if not part:
            raise OSError("the watcher ended")
        data += part
    return bytes(data)


# -- afterwards ---------------------------------------------------------------------------------


def _printed(words: list[str], command: str, code: int, out: bytes, err: bytes) -> int:
    """Prints what a watcher's command printed; returns the exit code."""
    if out and command in PAGED:
        from mulligan.cli.screen import is_paged

        if is_paged(command, words):
            from mulligan.cli.pager import page

            page(out, os.environ)
            out = b""
    unwritten = _write(1, out)
    _write(2, err)
    if unwritten is None:
        return code
    from mulligan.cli.failure import unprinted

    return unprinted(unwritten, code, command)


def _write(fd: int, data: bytes) -> OSError | None:
    """Writes all of it; returns what stopped it, unless the reader has left."""
    view = memoryview(data)
    try:
        while view:
            view = view[os.write(fd, view) :]
    except OSError as error:
        return None if isinstance(error, BrokenPipeError) else error
    return None


def _explained(how: str, command: str, words: list[str]) -> int | None:
    """Says why there is no answer, and returns the exit code; None where the command is to be run here."""
    from mulligan.cli.failure import explain
    from mulligan.errors import Busy, UserError

    if how == _INTERRUPTED:
        said = "Interrupted. What the watcher had begun it ends: nothing is half done."
        return explain(KeyboardInterrupt(said), words)
    if how == _STOPPED:
        said = "The watcher is stopped (Ctrl-Z, SIGSTOP) while it works on this, and ends it when it goes on."
        hint = "Let it go on: fg, or kill -CONT; which process: mulligan watch --status"
        return explain(Busy(said, hint=hint), words)
    # An event that is handled twice is harmless, and one that is lost is a step without a checkpoint.
    if how != _LOST or command in READING or command == "hook":
        return None
    said = "The watcher ended while it worked on this. Nothing is lost: the next command that writes finishes an interrupted restore."
    return explain(UserError(said, hint="See where you are: mulligan status; mulligan log"), words)
