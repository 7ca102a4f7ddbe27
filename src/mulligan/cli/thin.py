"""
The way in: a command that a watcher of this workspace can answer is handed to it, everything else goes the long way.

Imports next to nothing: a hook has the time of an interpreter's start, and argparse, json and sqlite3 cost more than that.
A watcher is believed only where nobody else can have put it: a directory of one's own that nobody else may enter, a peer
that is the same user. It is asked twice: it says that it is ready, and only then is told to go; so a command that was
given up here is never run there.
"""

from __future__ import annotations

import io
import os
import sys

TYPE_CHECKING = False  # not from `typing`, which costs more than all the rest here
if TYPE_CHECKING:
    from _socket import socket

    from mulligan.scan.early import Early

# A command that is not here, and a word that is not understood here, go the long way.
HANDED_ON = frozenset({"save", "log", "show", "diff", "restore", "cat", "undo", "redo", "status", "hook"})
# Those that look at everything in the workspace.
_LOOKING = frozenset({"save", "diff", "restore", "undo", "redo", "status"})
# What may be done once more by oneself when a watcher dies over it.
REPEATABLE = HANDED_ON - {"undo", "redo", "hook"}
_WITH_VALUE = ("-C", "--store", "--wait", "--color")
#: Commands whose output may be longer than a screen.
PAGED = frozenset({"log", "diff", "show"})
_VARIABLES = ("HOME", "XDG_", "MULLIGAN_", "NO_COLOR", "TERM", "TMPDIR", "CLAUDE_PROJECT_DIR", "GEMINI_PROJECT_DIR",
              "CURSOR_PROJECT_DIR")  # fmt: skip
LARGEST_REQUEST = 1 << 20
# A watcher that works for somebody else is waited for; one that is stopped (Ctrl-Z, SIGSTOP) is found out at each look.
_READY_WAIT = 5.0
_LOOK = 0.25
_MOST_STOPPED = 8
_INPUT_WAIT = 2_000  # milliseconds; the watcher waits a little longer for it
_NUMBER = 4
_SO_PEERCRED = 17
# What MULLIGAN_WATCH may say: ask no watcher, or only one that is there already; neither starts one.
ALONE = "0"
NO_START = frozenset({ALONE, "found"})
PROTOCOL = b"1"
READY, GO = b"R", b"G"
DONE, DECLINED = b"done", b"declined"

Environ = "os._Environ[str] | dict[str, str]"


def main(argv: list[str] | None = None, *, last: bool = False) -> int:
    """Runs one command and returns its exit code; `last` says that the process ends with it."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        answered = _ask(words) if argv is None else None
    except KeyboardInterrupt:
        return _explained(
            KeyboardInterrupt("Interrupted. What the watcher had begun it ends: nothing is half done."), words
        )
    if answered is not None:
        return answered
    early = _look_early(words) if last else None
    try:
        from mulligan.cli.entry import main as run

        return run(words, last=last, early=early)
    finally:
        if early is not None:
            early.close()


def process() -> int:
    """Runs the command of this process and ends it; returns the exit code where Python itself should end it."""
    last = _understand(sys.argv[1:]).command in HANDED_ON and not sys.flags.dev_mode and sys.gettrace() is None
    if last:
        import gc

        gc.disable()  # it looks for garbage among what was just loaded, and the process ends before there is any
    code = main(last=last)
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    except (OSError, ValueError):
        from mulligan.cli.streams import settle

        settle()
    if not last:
        return code
    os._exit(code)  # everything is written, and taking an interpreter apart costs 5 ms


def _look_early(words: list[str]) -> Early | None:
    """Begins to look at the workspace that a command is probably about, while everything else is being loaded."""
    said = _understand(words)
    named = said.store or os.environ.get("MULLIGAN_STORE")
    if said.command not in _LOOKING or (named and not said.directory):
        return None  # whose store it is says the store itself
    from mulligan.places import find_workspace, places, spot
    from mulligan.scan.early import look_early

    try:
        root = os.path.realpath(said.directory) if said.directory else find_workspace(".", os.environ)
        return look_early(*spot(root, said.store, os.environ, places(os.environ)))
    except (OSError, ValueError):
        return None  # the command itself tells what is wrong


# -- where a watcher listens --------------------------------------------------------------------


def run_directory(environ: dict[str, str]) -> str:
    """Returns the directory of sockets, empty where the user has no place for one."""
    given = environ.get("XDG_RUNTIME_DIR", "")
    if given.startswith("/"):
        return given + "/mulligan"
    state = _state_directory(environ)
    return state + "/mulligan/run" if state else ""


def _state_directory(environ: os._Environ[str] | dict[str, str]) -> str:
    """Returns the user's directory of state, empty where the environment does not say."""
    state, home = environ.get("XDG_STATE_HOME", ""), environ.get("HOME", "")
    if not state.startswith("/"):
        state = home + "/.local/state" if home.startswith("/") else ""
    return state


def name_of(workspace: str) -> str:
    """Returns what the names of a workspace's sockets begin with."""
    found = os.stat(workspace)
    return f"{found.st_dev:x}-{found.st_ino:x}-"


def build() -> bytes:
    """Returns what tells this installation from another, and from itself after an upgrade."""
    import mulligan

    found = os.stat(mulligan.__file__)
    return f"{mulligan.__version__} {sys.hexversion:x} {found.st_ino} {found.st_mtime_ns}".encode()


# -- frames: a count, then each item behind its length --------------------------------------------


def pack(items: list[bytes]) -> bytes:
    """Returns a message as one frame."""
    parts = [len(items).to_bytes(_NUMBER, "big")]
    for item in items:
        parts += (len(item).to_bytes(_NUMBER, "big"), item)
    body = b"".join(parts)
    return len(body).to_bytes(_NUMBER, "big") + body


def unpack(body: bytes) -> list[bytes]:
    """Returns the items of a frame without its length; ValueError when it is not one."""
    count, at, items = int.from_bytes(body[:_NUMBER], "big"), _NUMBER, []
    while at < len(body):
        size = int.from_bytes(body[at : at + _NUMBER], "big")
        at += _NUMBER
        items.append(body[at : at + size])
        at += size
    if len(items) != count or at != len(body) or len(body) < _NUMBER:
        raise ValueError("not a message")
    return items


# -- asking ---------------------------------------------------------------------------------------


def _ask(words: list[str]) -> int | None:
    """Returns the exit code of a command that a watcher ran; None when it has to be run here."""
    environ = dict(os.environ)
    said = _understand(words)
    command, directory = said.command, said.directory
    if command not in HANDED_ON or environ.get("MULLIGAN_WATCH") == ALONE or sys.flags.dev_mode:
        return None
    try:
        if _needs_a_person(command, words):
            return None
        sockets = _sockets(environ, directory)
        if not sockets:
            return None
        return _converse(sockets, command, words, environ)
    except (OSError, ValueError):
        return None  # whatever stands in the way, the long way is open: nothing was begun


class _Said:
    """What the words say, as far as it matters here; each is empty, and the store None, where they do not say it."""

    def __init__(self, command: str = "", directory: str = "", store: str | None = None) -> None:
        self.command, self.directory, self.store = command, directory, store


def _understand(words: list[str]) -> _Said:
    """Returns the command, the directory of `-C` and the store of `--store`."""
    said, at = {"-C": "", "--store": ""}, 0
    while at < len(words) and words[at].startswith("-"):
        if words[at] in _WITH_VALUE:
            said[words[at]] = words[at + 1] if at + 1 < len(words) else ""
            at += 1
        elif words[at] not in {"--json", "--no-pager"}:
            return _Said()
        at += 1
    if at >= len(words) or "-h" in words or "--help" in words or "--wait" in words:
        return _Said()
    rest = words[at + 1 :]
    for option in ("-C", "--store"):
        if option in rest:
            said[option] = rest[rest.index(option) + 1] if rest.index(option) + 1 < len(rest) else ""
    return _Said(words[at], said["-C"], said["--store"] or None)


def _needs_a_person(command: str, words: list[str]) -> bool:
    """Returns whether somebody is there to be asked, or typed a hook: agents call it by its plain name, and send the event."""
    if command == "hook":
        return sys.stdin is None or sys.stdin.isatty() or words[0] != "hook" or any(w.startswith("-") for w in words)
    options = words[: words.index("--")] if "--" in words else words
    asks = command == "restore" and not {"-y", "--yes", "--dry-run", "--json"}.intersection(options)
    return asks and sys.stdin is not None and sys.stdin.isatty()


def _sockets(environ: dict[str, str], directory: str) -> list[str]:
    """Returns the sockets of the nearest workspace, from where the command is about upward, that has any."""
    place = run_directory(environ)
    if not place or not is_private(place):
        return []
    names = [name for name in os.listdir(place) if name.endswith(".sock")]
    here = os.path.realpath(directory or ".")
    while names:
        begins = name_of(here)
        found = [f"{place}/{name}" for name in names if name.startswith(begins)]
        above = os.path.dirname(here)
        if found or above == here:
            return found
        here = above
    return []


def is_private(place: str) -> bool:
    """Returns whether a directory is one's own, and nobody else may enter it."""
    try:
        found = os.lstat(place)
    except OSError:
        return False
    return found.st_uid == os.geteuid() and found.st_mode & 0o170077 == 0o040000


def _converse(sockets: list[str], command: str, words: list[str], environ: dict[str, str]) -> int | None:
    import _socket

    for path in sockets:
        link = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        try:
            if not _connected(link, path):
                continue
            code = _order(link, command, words, environ)
            if code is not None:
                return code
        finally:
            link.close()
    return None


def _connected(link: socket, path: str) -> bool:
    """Connects; by a descriptor of the directory, since a socket's path has little room."""
    folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        link.settimeout(_READY_WAIT)
        link.connect(f"/proc/self/fd/{folder}/{os.path.basename(path)}")
    except OSError:
        return False
    finally:
        os.close(folder)
    return peer_of(link) == os.geteuid()


def peer_of(link: socket) -> int:
    """Returns the user at the other end."""
    found = link.getsockopt(1, _SO_PEERCRED, 12)
    return int.from_bytes(found[4:8], sys.byteorder)


def is_stopped(link: socket) -> bool:
    """Returns whether the process at the other end is stopped: it is there, and answers nobody."""
    process = int.from_bytes(link.getsockopt(1, _SO_PEERCRED, 12)[:4], sys.byteorder)
    try:
        with open(f"/proc/{process}/stat", "rb") as found:
            return found.read().rpartition(b")")[2].split()[0] in {b"T", b"t"}
    except (OSError, IndexError):
        return False  # it ended, or this system does not tell


class Stopped(OSError):
    """The watcher is stopped, and would keep whoever waits for it for ever."""


def _is_ready(link: socket) -> bool:
    """Waits until a watcher is ready."""
    link.settimeout(_LOOK)
    for _ in range(int(_READY_WAIT / _LOOK)):
        try:
            return link.recv(1) == READY
        except TimeoutError:
            if is_stopped(link):
                return False  # nothing was begun there
    return False


def _order(link: socket, command: str, words: list[str], environ: dict[str, str]) -> int | None:
    request = pack(_request(words, environ))
    if len(request) > LARGEST_REQUEST:
        return None
    link.sendall(request)
    if not _is_ready(link):
        return None
    data, whole = _event() if command == "hook" and len(words) == 2 else (b"", True)
    if not whole:
        _give_back(data, io.FileIO(0, closefd=False))
        return None
    begun = False
    try:
        link.settimeout(_READY_WAIT)
        link.sendall(GO + len(data).to_bytes(_NUMBER, "big") + data)
        begun = True
        link.settimeout(_LOOK)
        size = int.from_bytes(_receive(link, _NUMBER), "big")
        answer = unpack(_receive(link, size))
    except Stopped:
        return _stopped_over_it(words)
    except (OSError, ValueError):
        return _cut_short(command, data, begun=begun)
    if answer[0] != DONE:
        _give_back(data)
        return None
    return _print_answer(words, command, int(answer[1]), answer[2], answer[3])


def is_wanted(command: str, words: list[str]) -> bool:
    """Returns whether the output of a command goes through a pager: a long one, on a terminal, as text."""
    options = words[: words.index("--")] if "--" in words else words
    if command not in PAGED or "--no-pager" in options or "--json" in options:
        return False
    return sys.stdout is not None and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def _print_answer(words: list[str], command: str, code: int, out: bytes, err: bytes) -> int:
    """Prints what a watcher's command printed; returns the exit code."""
    if command in PAGED and out and is_wanted(command, words):
        from mulligan.cli.paging import page

        page(out, os.environ)
        out = b""
    unwritten = _write(1, out)
    _write(2, err)
    if unwritten is None:
        return code
    from mulligan.cli.entry import unprinted

    return unprinted(unwritten, code, command)


def _event() -> tuple[bytes, bool]:
    """Returns what stdin holds, and whether that is all: an agent that leaves it open is not waited for here."""
    import select

    parts: list[bytes] = []
    waiting = select.poll()
    waiting.register(0, select.POLLIN)
    while waiting.poll(_INPUT_WAIT):
        part = os.read(0, 1 << 16)
        if not part:
            return b"".join(parts), True
        parts.append(part)
    return b"".join(parts), False


def _request(words: list[str], environ: dict[str, str]) -> list[bytes]:
    here = os.stat(".")
    screens = "".join(str(int(stream is not None and stream.isatty())) for stream in (sys.stdout, sys.stderr))
    columns = str(os.get_terminal_size(1).columns) if screens[0] == "1" else "0"
    facts = [
        PROTOCOL, build(), os.fsencode(os.getcwd()), f"{here.st_dev} {here.st_ino}".encode(),
        f"{screens} {environ.get('COLUMNS') or columns}".encode(), environ.get("TZ", "").encode(),
        *[(getattr(stream, "encoding", "") or "utf-8").encode() for stream in (sys.stdout, sys.stderr)],
    ]  # fmt: skip
    told = [f"{key}={value}" for key, value in environ.items() if key.startswith(_VARIABLES)]
    return [*facts, str(len(words)).encode(), *map(os.fsencode, words), *map(os.fsencode, told)]


def _receive(link: socket, size: int) -> bytes:
    parts, left, stopped = [], size, 0
    while left:
        try:
            part = link.recv(min(left, 1 << 20))
        except TimeoutError:
            # It works for as long as it takes. Stopped over its work, it holds the store: nobody else could do it.
            stopped = stopped + 1 if is_stopped(link) else 0
            if stopped >= _MOST_STOPPED:
                raise Stopped from None
            continue
        if not part:
            raise OSError("the watcher ended")
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def _cut_short(command: str, data: bytes, *, begun: bool) -> int | None:
    """The watcher died over it: what may be repeated is done here; of the rest nobody knows how far it came."""
    if not begun or command in REPEATABLE or command == "hook":
        _give_back(data)
        return None
    _write(
        2,
        b"mulligan: The watcher ended while it worked on this. Nothing is lost: the next command that writes ends what was cut"
        b" short.\nhint: See where you are: mulligan status; mulligan log\n",
    )
    return 1


def _stopped_over_it(words: list[str]) -> int:
    from mulligan.errors import Busy

    said = "The watcher is stopped (Ctrl-Z, SIGSTOP) while it works on this, and ends it when it goes on."
    return _explained(Busy(said, hint="Let it go on: fg, or kill -CONT; which process: mulligan watch --status"), words)


def _give_back(data: bytes, rest: io.RawIOBase | None = None) -> None:
    """Makes stdin what it was before it was read."""
    if data or rest is not None:
        sys.stdin = io.TextIOWrapper(io.BufferedReader(_Again(data, rest)), encoding="utf-8")


class _Again(io.RawIOBase):
    """Bytes that were read once, and whatever comes behind them."""

    def __init__(self, data: bytes, rest: io.RawIOBase | None) -> None:
        self._data, self._rest = io.BytesIO(data), rest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray) -> int | None:  # type: ignore[override]  # the buffer is any writable one
        return self._data.readinto(buffer) or (self._rest.readinto(buffer) if self._rest is not None else 0)


def _explained(error: BaseException, words: list[str]) -> int:
    """Says what went wrong on the way from or to the watcher, as any command would; returns the exit code."""
    from mulligan.cli.entry import explain

    return explain(error, words)


def _write(fd: int, data: bytes) -> OSError | None:
    """Writes all of it; returns what stopped it, unless the stream is closed or its reader has left."""
    view = memoryview(data)
    try:
        while view:
            view = view[os.write(fd, view) :]
    except OSError as error:
        import errno

        return error if error.errno not in {errno.EBADF, errno.EPIPE} else None
    return None
