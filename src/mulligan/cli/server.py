"""
The watcher as a process: keeps one workspace open and watched, and runs commands for clients of the same user.

One per workspace and store, held by a lock that dies with it. It listens on a socket in a directory that only the user may
enter, asks the kernel who is at the other end, and reads no more than a bounded request within a bounded time (`client.py`
has the protocol). A command is run as the command line runs it, with the client's directory, environment and screens, so
answers are the same byte for byte. The watcher ends after some idle time, and when the workspace, the store or the installed
program is not what it was.
"""

from __future__ import annotations

import io
import os
import selectors
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple

from mulligan.cli import client as wire
from mulligan.cli.arguments import wants
from mulligan.cli.context import Declined
from mulligan.cli.idle_push import IdlePushes
from mulligan.cli.watchers import IDLE, WatcherPlace, note_use
from mulligan.engine import watching
from mulligan.errors import MulliganError
from mulligan.safefs.platform import HERE

if TYPE_CHECKING:
    from mulligan.engine.workspace import Workspace
    from mulligan.model.policy import Settings

_PATIENCE = 3.0
_MOST_CLIENTS = 64
_LOOK = 2.0
_ANSWERS = 64
_LARGEST_ANSWER = 1 << 20


class ClientRequest(NamedTuple):
    """A client's command and its directory."""

    words: list[str]
    directory: str
    identity: str
    terminals: tuple[bool, bool]
    columns: int
    environ: dict[str, str]
    event: bytes


def parse_request(items: list[bytes]) -> ClientRequest:
    """Returns a request; Declined when the client has to run it, ValueError or LookupError when it makes no sense."""
    directory, identity, screens, event, *texts = items
    terminals, columns, count = screens.decode().split()
    decoded = [os.fsdecode(text) for text in texts]
    words, environ = decoded[: int(count)], dict(pair.split("=", 1) for pair in decoded[int(count) :] if "=" in pair)
    if len(words) != int(count) or len(terminals) != 2 or not words:
        raise ValueError("not a request")
    # Another time zone or encoding would give other answers; help is as wide as the client's terminal; a command that waits blocks others.
    if (
        environ.get("TZ", "") != os.environ.get("TZ", "")
        or not _is_utf8(environ)
        or wants(words, "-h", "--help", "--wait")
    ):
        raise Declined
    return ClientRequest(
        words,
        os.fsdecode(directory),
        identity.decode(),
        (terminals[0] == "1", terminals[1] == "1"),
        int(environ.get("COLUMNS") or columns),
        environ,
        event,
    )


def _is_utf8(environ: dict[str, str]) -> bool:
    """Returns whether Python would write UTF-8 in an environment: it does so without a locale, too."""
    locale = next((found for name in ("LC_ALL", "LC_CTYPE", "LANG") if (found := environ.get(name))), "C")
    plain = locale in {"C", "POSIX"} or locale.lower().replace("-", "").endswith("utf8")
    return plain and not environ.get("PYTHONIOENCODING")


class Connection:
    """One connection: the id of its request, bytes so far, and until when they must be whole."""

    def __init__(self, link: socket.socket, number: bytes) -> None:
        self.link, self.number = link, number
        self.data = bytearray()
        self.deadline = time.monotonic() + _PATIENCE

    def frame(self) -> bytes | None:
        """Returns the request once it is whole; ValueError when it never can be."""
        if len(self.data) < 4:
            return None
        size = int.from_bytes(self.data[:4], "big")
        if size > wire.LARGEST or len(self.data) > size + 4:
            raise ValueError("too large")
        return bytes(self.data[4:]) if len(self.data) == size + 4 else None


class Answers:
    """The last answers by request id, for clients that lost theirs."""

    def __init__(self) -> None:
        self._token, self._given, self._forgotten = os.urandom(8).hex().encode(), 0, 0
        self._kept: dict[bytes, bytes] = {}

    def next_number(self) -> bytes:
        """Returns a request id that no other watcher gives."""
        self._given += 1
        return b"%s-%d" % (self._token, self._given)

    def begin(self, number: bytes) -> None:
        """Notes that a command begins: until it has an answer, it is not known what became of it."""
        self._kept[number] = wire.pack(wire.UNKNOWN)
        if len(self._kept) > _ANSWERS:
            oldest = next(iter(self._kept))
            del self._kept[oldest]
            self._forgotten = max(self._forgotten, int(oldest.rpartition(b"-")[2]))

    def keep(self, number: bytes, answer: bytes) -> None:
        """Keeps an answer, unless it is large."""
        if len(answer) <= _LARGEST_ANSWER:
            self._kept[number] = answer

    def find(self, number: bytes) -> bytes:
        """Returns what became of a request: its answer, declined where it was never begun, unknown where that is unclear."""
        token, _, count = number.partition(b"-")
        if number in self._kept:
            return self._kept[number]
        never = token == self._token and count.isdigit() and self._forgotten < int(count) <= self._given
        return wire.pack(wire.DECLINED if never else wire.UNKNOWN)


class Server:
    """Serves one workspace until a stop request or a signal."""

    def __init__(self, workspace: Workspace, place: WatcherPlace, *, idle: float = IDLE) -> None:
        self.workspace = workspace
        self.served = 0
        self._place, self._idle = place, idle
        self._started = self._last = time.monotonic()
        self._build = _installed()
        self._answers = Answers()
        self._stopped = False
        self._identities = self._now()
        self._clients: dict[int, Connection] = {}
        self._pushes = IdlePushes()
        self._selector = selectors.DefaultSelector()

    def _now(self) -> tuple[tuple[int, int], ...]:
        found = [os.stat(path) for path in (self.workspace.root, self.workspace.store_path)]
        return tuple((each.st_dev, each.st_ino) for each in found)

    def stop(self) -> None:
        """Ends it after what is under way."""
        self._stopped = True

    def run(self, ready: Callable[[], None] = lambda: None) -> None:
        """Listens and serves; `ready` is called when clients can come."""
        with suppress(FileNotFoundError):
            os.unlink(self._place.socket)
        folder = os.open(self._place.directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        mine = -1
        try:
            listener.bind(f"{HERE.path_of(folder)}/{self._place.name}.sock")
            os.chmod(self._place.socket, 0o600)
            mine = os.lstat(self._place.socket).st_ino
            listener.listen(_MOST_CLIENTS)
            listener.setblocking(False)
            self._selector.register(listener, selectors.EVENT_READ)
            self.workspace.watch()
            with suppress(MulliganError):
                self.workspace.not_captured()  # the first scan, so that no command has to wait for it
            ready()
            while not self._stopped and self._as_it_was(mine):
                self._turn(listener)
        finally:
            self._pushes.end()
            for client in list(self._clients.values()):
                self._drop(client)
            listener.close()
            with suppress(OSError):
                if os.lstat(self._place.socket).st_ino == mine:
                    os.unlink(self._place.socket)
            os.close(folder)
            self.workspace.close()

    def _as_it_was(self, mine: int) -> bool:
        """Whether workspace, socket and program are unchanged, and the idle time is not over."""
        try:
            same = self._now() == self._identities and os.lstat(self._place.socket).st_ino == mine
            return same and _installed() == self._build and time.monotonic() - self._last < self._idle
        except OSError:
            return False

    # -- the loop -------------------------------------------------------------------------------

    def _turn(self, listener: socket.socket) -> None:
        happened = self._wait(_LOOK)
        self._pushes.turn(self.workspace, time.monotonic() - self._last)
        if not happened and not self._clients:
            self._tidy()
        for key, _ in happened:
            if key.fileobj is listener:
                self._welcome(listener)
            elif key.data is None:
                watching.catch_up(self.workspace.bench)
            else:
                self._hear(key.data)
        now = time.monotonic()
        for client in [each for each in self._clients.values() if each.deadline < now]:
            self._drop(client)

    def _tidy(self) -> None:
        """Does a portion after the other of what has time, until something happens."""
        watching.patience(self.workspace.bench, 0.0)
        with suppress(MulliganError):  # another process writes, or the store has a problem: a command will report it
            while self.workspace.tidy() and not self._wait(0.0):
                pass

    def _wait(self, seconds: float) -> list[tuple[selectors.SelectorKey, int]]:
        """Waits for clients, and for the kernel's notices too, so that their queue does not run over."""
        queue = watching.notices(self.workspace.bench)
        if queue < 0:
            return self._selector.select(seconds)
        # For this wait alone: a command may close the queue, and its number is another file's, or another queue's, by then.
        self._selector.register(queue, selectors.EVENT_READ)
        try:
            return self._selector.select(seconds)
        finally:
            self._selector.unregister(queue)

    def _welcome(self, listener: socket.socket) -> None:
        try:
            link, _ = listener.accept()
        except OSError:
            return  # gone again
        if wire.peer_of(link)[1] != os.geteuid() or len(self._clients) >= _MOST_CLIENTS or _installed() != self._build:
            link.close()
            return
        link.setblocking(False)
        client = self._clients[link.fileno()] = Connection(link, self._answers.next_number())
        self._selector.register(link, selectors.EVENT_READ, client)
        try:
            link.sendall(wire.pack(wire.PROTOCOL, wire.VERSION, client.number))
        except OSError:
            self._drop(client)  # gone again

    def _drop(self, client: Connection) -> None:
        fd = client.link.fileno()
        if fd >= 0:
            self._clients.pop(fd, None)
            with suppress(KeyError, ValueError):
                self._selector.unregister(client.link)
            client.link.close()

    def _hear(self, client: Connection) -> None:
        try:
            part = client.link.recv(1 << 20)
            client.data += part
            frame = client.frame()
            if frame is None:
                if not part:
                    self._drop(client)
                return
            self._answer(client, frame)
        except (OSError, ValueError, LookupError, OverflowError, Declined):
            pass  # a client that says nothing sensible, went away, or wants more than a frame holds: it does its work itself
        self._drop(client)

    # -- one command ----------------------------------------------------------------------------

    def _answer(self, client: Connection, frame: bytes) -> None:
        (kind, number, *items), link = wire.unpack(frame), client.link
        if kind == wire.ASK:
            answer = self._answers.find(number)
        elif kind == wire.STOP:
            self.stop()
            answer = wire.pack(wire.DONE)
        elif kind != wire.RUN or number != client.number or _is_gone(link):
            return
        else:
            answer = self._run(number, items, wire.peer_of(link)[0])
        self._last = time.monotonic()
        link.settimeout(60.0)
        link.sendall(answer)

    def _run(self, number: bytes, items: list[bytes], caller: int) -> bytes:
        try:
            request = parse_request(items)
            self._answers.begin(number)
            note_use(self._place)
            code, out, err = self._run_command(request, caller)
        except Declined:
            answer = wire.pack(wire.DECLINED)
        else:
            answer = wire.pack(wire.DONE, str(code).encode(), out, err)
        self._answers.keep(number, answer)
        self.served += 1
        return answer

    def _run_command(self, request: ClientRequest, caller: int) -> tuple[int, bytes, bytes]:
        from mulligan.cli.dispatch import run
        from mulligan.cli.failure import INTERRUPTED

        try:
            os.chdir(request.directory)
            here = os.stat(".")
        except OSError as error:
            raise Declined from error
        try:
            if f"{here.st_dev} {here.st_ino}" != request.identity:
                raise Declined  # the same path leads the client elsewhere: another container, another mount
            with _own_signals(), _screens(request) as (out, err):
                code = run(request.words, request.environ, self._lend, caller)
                sys.stdout.flush()
                sys.stderr.flush()
                if code == INTERRUPTED:
                    self.stop()  # a client's Ctrl-C does not come here: it was meant for the watcher
                return code, out.getvalue(), err.getvalue()
        finally:
            os.chdir("/")

    def _lend(self, settings: Settings) -> Workspace:
        """Returns the workspace that is open here, by the client's settings; Declined when it is about another."""
        mine = self.workspace.settings
        if (settings.workspace, settings.store) != (mine.workspace, mine.store):
            raise Declined
        if settings != mine._replace(wait=settings.wait):
            from mulligan.engine.workspace import Workspace

            self.workspace.close()
            self.workspace = Workspace(settings)
        watching.patience(self.workspace.bench, settings.wait)
        self.workspace.watch()
        return self.workspace


def _installed() -> tuple[int, int]:
    """Returns what tells the installed program from itself after an upgrade."""
    import mulligan

    found = os.stat(mulligan.__file__)
    return found.st_ino, found.st_mtime_ns


def _is_gone(link: socket.socket) -> bool:
    """Returns whether a client went away after its request: nothing is run for it."""
    try:
        return link.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
    except BlockingIOError:
        return False


class ClientScreen(io.TextIOWrapper):
    """Collects the output for a client's screen, and says whether that screen is a terminal."""

    def __init__(self, *, terminal: bool, columns: int) -> None:
        self.taken = io.BytesIO()
        super().__init__(self.taken, encoding="utf-8", errors="backslashreplace", newline="\n")
        self.columns = columns
        self._terminal = terminal

    def isatty(self) -> bool:
        """Whether the client's stream is a terminal."""
        return self._terminal


@contextmanager
def _own_signals() -> Iterator[None]:
    """Resets the signal handlers after a command, because this process goes on."""
    numbers = (signal.SIGALRM, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _screens(request: ClientRequest) -> Iterator[tuple[io.BytesIO, io.BytesIO]]:
    before = sys.stdin, sys.stdout, sys.stderr
    screens = [ClientScreen(terminal=terminal, columns=request.columns) for terminal in request.terminals]
    sys.stdin = io.TextIOWrapper(io.BytesIO(request.event), encoding="utf-8")
    sys.stdout, sys.stderr = screens
    try:
        yield screens[0].taken, screens[1].taken
    finally:
        sys.stdin, sys.stdout, sys.stderr = before
