"""
Malformed messages for the MCP server, by the hundred thousand.

    python tests/proofs/hostile/mcp_fuzz.py --size 1000000

A real server process gets lines that are no JSON, JSON that is no message, messages with every value replaced by another kind,
unknown tools, paths that lead outside, deep nesting, frames of 64 MiB, bytes that are not UTF-8. Between them it gets good ones.
It must answer all good ones, write nothing but messages, live on, grow by less than 64 MiB, change nothing outside the
workspace or in its `.git`, and lose no checkpoint.
"""

from __future__ import annotations

import copy
import hashlib
import json
import os
import random
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "support"))

import tally
from tools import cli, cli_json
from tree import put
from wire import HELLO, Wire, own_process

BATCH = 250
#: Every so many messages, one of 64 MiB.
HUGE = 50_000
MOST_GROWTH = 64 << 20

TOOLS = ("save", "list", "show", "diff", "read", "plan_restore", "apply_restore", "undo", "redo", "status")
NO_TOOLS = (
    "delete",
    "rm",
    "forget",
    "gc",
    "prune",
    "trim",
    "adopt",
    "run",
    "eval",
    "../save",
    "save\0",
    "SAVE",
    "",
    "__class__",
)
METHODS = (
    *("tools/call", "tools/list", "resources/read", "resources/list", "resources/templates/list", "prompts/get"),
    *("prompts/list", "ping", "initialize", "server/discover", "completion/complete", "logging/setLevel"),
    *(
        "resources/subscribe",
        "subscriptions/listen",
        "tools/delete",
        "notifications/cancelled",
        "sampling/createMessage",
    ),
    *("notifications/progress", "notifications/initialized", "notifications/roots/list_changed", "", "\0", "a" * 5000),
)
PATHS = (
    *(
        "../outside.txt",
        "/etc/passwd",
        "..",
        ".",
        "",
        "a/../../outside.txt",
        ".git/config",
        ".GIT/config",
        "git~1/config",
    ),
    *(
        "a.txt\0",
        "a\nb",
        "x" * 300,
        "x/" * 2000,
        "link/outside.txt",
        "\u202egpj.exe",
        "-rf",
        "~/.ssh/id_rsa",
        "a.txt",
        "\ud800",
    ),
    *(
        ".g\u200cit/hooks/pre-commit",
        "C:\\windows",
        "\\\\host\\share",
        "file:///etc/passwd",
        "%2e%2e/outside.txt",
        "mulligan.toml",
    ),
)
URIS = (
    "mulligan://",
    "mulligan://checkpoint/",
    "file:///",
    "http://127.0.0.1/",
    "",
    "mulligan://checkpoint/@/file/",
    "mulligan://diff",
)
ODD = (
    *(
        None,
        True,
        False,
        0,
        -1,
        1e308,
        10**30,
        -(10**400),
        "",
        "\0",
        "\ud83d",
        "a" * 10_000,
        [],
        [[]],
        {},
        {"": {}},
        0.1,
    ),
    *(
        "@",
        "latest",
        "latest~999999999",
        "latest~-1",
        "first",
        "plan-0",
        "__proto__",
        "${HOME}",
        "{{7*7}}",
        "' OR 1=1 --",
    ),
)


class Messages:
    """A source of lines, good and bad."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def line(self) -> bytes:
        """The next line, without its end."""
        make = self.rng.choice(
            (self._noise, self._torn, self._twisted, self._twisted, self._called, self._called, self._raw)
        )
        return make().replace(b"\n", b" ")

    def _noise(self) -> bytes:
        return self.rng.randbytes(self.rng.randrange(200))

    def _torn(self) -> bytes:
        whole = self._called()
        at = self.rng.randrange(len(whole) + 1)
        return (
            whole[:at]
            + self.rng.choice((b"", b"}", b"\xff", b"\0", whole[:20], b'"'))
            + self.rng.choice((b"", whole[at + 1 :]))
        )

    def _raw(self) -> bytes:
        deep = self.rng.choice((3, 100, 1000, 20_000))
        return self.rng.choice(
            (
                b"[" * deep,
                b"[" * deep + b"]" * deep,
                b'{"a":' * deep + b"1" + b"}" * deep,
                b'{"jsonrpc":"2.0","id":1,"method":"ping","params":' + b'{"a":' * deep + b"1" + b"}" * deep + b"}",
                b"\xef\xbb\xbf{}",
                b"null",
                b"NaN",
                b"1e999",
                b'"' + b"\\ud800" * 10 + b'"',
                b'{"jsonrpc":"2.0","id":' + b"9" * 5000 + b',"method":"ping"}',
                b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping","method":"tools/list"}',
                b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]',
            )
        )

    def _called(self) -> bytes:
        """A request that looks right, about the wrong things."""
        arguments = {self._word(): self._value() for _ in range(self.rng.randrange(4))}
        tool = self.rng.choice(TOOLS if self.rng.random() < 0.7 else NO_TOOLS)
        params: dict[str, Any] = {"name": tool, "arguments": arguments}
        method = "tools/call"
        if self.rng.random() < 0.2:
            method, params = "resources/read", {"uri": self.rng.choice(URIS) + self.rng.choice(PATHS)}
        elif self.rng.random() < 0.1:
            method, params = "prompts/get", {"name": self._word(), "arguments": {self._word(): self._word()}}
        return self._encoded({"jsonrpc": "2.0", "id": self.rng.randrange(10**6), "method": method, "params": params})

    def _twisted(self) -> bytes:
        """A message with some of its parts replaced, left out or doubled."""
        message: dict[Any, Any] = {
            "jsonrpc": "2.0",
            "id": self.rng.randrange(10**6),
            "method": self.rng.choice(METHODS),
            "params": {
                "name": self.rng.choice(TOOLS),
                "arguments": {},
                "requestId": self.rng.randrange(100),
                "_meta": {},
            },
        }
        for _ in range(self.rng.randrange(1, 4)):
            part = (
                message if self.rng.random() < 0.5 or not isinstance(message.get("params"), dict) else message["params"]
            )
            key = self.rng.choice([*part, "result", "error", "_meta", "cursor", "root"])
            if self.rng.random() < 0.3:
                part.pop(key, None)
            else:
                part[key] = self._value()
        return self._encoded(message)

    def _word(self) -> str:
        names = (
            "ref",
            "path",
            "paths",
            "from",
            "to",
            "patch",
            "offset",
            "limit",
            "kind",
            "plan_id",
            "name",
            "root",
            "store",
            "force",
        )
        return self.rng.choice(names)

    def _value(self) -> Any:
        choice = self.rng.random()
        if choice < 0.4:
            return self.rng.choice(PATHS)
        if choice < 0.6:
            return [self.rng.choice(PATHS) for _ in range(self.rng.randrange(3))]
        return copy.deepcopy(self.rng.choice(ODD))

    def _encoded(self, value: Any) -> bytes:
        return json.dumps(value).encode("utf-8", "surrogatepass")


class Ears(threading.Thread):
    """Reads everything that the server says; whatever is no message is a finding."""

    def __init__(self, wire: Wire) -> None:
        super().__init__(daemon=True)
        self.wire = wire
        self.heard = 0
        self.findings: list[str] = []
        self.answered: set[Any] = set()
        self.news = threading.Condition()

    def run(self) -> None:
        while True:
            try:
                line = self.wire.line(600)
            except Exception as error:  # noqa: BLE001 - the end, whatever it looks like
                with self.news:
                    self.answered.add(None)
                    if self.wire.process.poll() not in (None, 0):
                        self.findings.append(f"the server ended: {error!r}, exit {self.wire.process.poll()}")
                    self.news.notify_all()
                return
            with self.news:
                self.heard += 1
                self.findings += [f"{found}: {line[:200]!r}" for found in unlike_a_message(line)]
                self.answered.add(json.loads(line).get("id") if not self.findings else None)
                self.news.notify_all()

    def wait_for(self, request: Any) -> bool:
        """Waits for an answer; False if the server is gone, or silent for ten minutes."""
        with self.news:
            return self.news.wait_for(lambda: request in self.answered or self.findings, 600) and not self.findings


def unlike_a_message(line: bytes) -> Iterator[str]:
    """Says what is wrong with a line of the server."""
    try:
        message = json.loads(line.decode("utf-8"))
    except ValueError:
        yield "not JSON"
        return
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
        yield "not a message"
    elif ("method" in message) + ("result" in message) + ("error" in message) != 1:
        yield "neither notice nor answer"
    if len(line) > 1 << 20:
        yield "longer than a mebibyte"
    if any(text in line for text in (b"SECRET-OUTSIDE", b"Traceback")):
        yield "says what it must not"


def digest(folder: Path) -> str:
    """One value for everything below a folder, links not followed."""
    found = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        state = os.lstat(path)
        data = os.readlink(path).encode() if path.is_symlink() else path.read_bytes() if path.is_file() else b""
        found.update(repr((str(path), state.st_mode, data)).encode())
    return found.hexdigest()


def growth_of(process: int, before: int = 0) -> int:
    """The most memory that a process ever used, less what it used before."""
    with open(f"/proc/{process}/status", encoding="ascii") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith("VmHWM")) - before


def prepared(place: Path) -> tuple[Path, Path, set[str]]:
    """A project with some history, something outside to be found, and a store."""
    project, store = place / "outer" / "project", place / "store"
    put(place / "outer", "outside.txt", "SECRET-OUTSIDE")
    put(project, "a.txt", "one\n")
    put(project, ".git/config", "[core]\n\trepositoryformatversion = 0\n")
    put(project, ".git/HEAD", "ref: refs/heads/main\n")
    os.symlink("..", project / "link")
    for name in ("first", "second", "third"):
        put(project, "a.txt", f"{name}\n")
        cli("--store", store, "save", name, cwd=project)
    known = {row["id"] for row in cli_json("--store", store, "log", cwd=project)["checkpoints"]}
    return project, store, known


def fuzz(place: Path, size: int, seed: int, enough: int) -> int:
    """Runs one server against `size` messages."""
    rng = random.Random(seed)
    messages, tried = Messages(rng), tally.Tally("mcp messages", size, enough=enough)
    project, store, known = prepared(place)
    outside, git = digest_outside(place, project, store), digest(project / ".git")
    with own_process(project, store=store, hello=False) as wire:
        ears = Ears(wire)
        ears.start()
        wire.send({"jsonrpc": "2.0", "id": "hello", "method": "initialize", "params": HELLO})
        wire.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        ears.wait_for("hello")
        before, since = growth_of(wire.process.pid), 0
        while not tried.over and not ears.findings:
            count = min(BATCH, size - tried.tried)
            lines = [messages.line() for _ in range(count)]
            since += count
            if since >= HUGE or tried.tried == 0:
                since = 0
                lines.append(b'{"jsonrpc":"2.0","id":1,"method":"' + b"x" * (64 << 20) + b'"}')
            mark = f"mark {tried.tried}"
            lines.append(json.dumps({"jsonrpc": "2.0", "id": mark, "method": "ping"}).encode())
            wire.put(b"\n".join(lines) + b"\n")
            if not ears.wait_for(mark):
                tried.broke(ears.findings or ["the server does not answer"])
                break
            tried.did(count)
        grown = growth_of(wire.process.pid, before)
        if grown > MOST_GROWTH:
            tried.broke(f"the server grew by {grown >> 20} MiB")
        wire.hang_up()
        if wire.process.wait(600) != 0:
            tried.broke(f"the server ended with {wire.process.returncode}")
    tried.counts.update(answers=ears.heard, grown_mib=grown >> 20)
    if digest_outside(place, project, store) != outside:
        tried.broke("something outside the workspace changed")
    if digest(project / ".git") != git:
        tried.broke("the repository's own files changed")
    left = {row["id"] for row in cli_json("--store", store, "log", cwd=project)["checkpoints"]}
    if known - left:
        tried.broke(f"checkpoints are gone: {sorted(known - left)}")
    if not cli_json("--store", store, "check", cwd=project)["ok"]:
        tried.broke("the store is damaged")
    return tried.end()


def digest_outside(place: Path, project: Path, store: Path) -> str:
    """One value for everything that is neither workspace nor store nor home."""
    whole = hashlib.sha256()
    for path in sorted(place.rglob("*")):
        if (
            not path.is_relative_to(project)
            and not path.is_relative_to(store)
            and not path.is_relative_to(place / "home")
        ):
            whole.update(repr((str(path), path.read_bytes() if path.is_file() else b"")).encode())
    return whole.hexdigest()


def main() -> int:
    """Runs the sweep."""
    given = tally.parser(__doc__, 5000).parse_args()
    try:
        import mcp  # noqa: F401 - is it there?
    except ImportError:
        return tally.cannot("the package mcp is not installed")
    with tally.workplace(given.base) as place:
        return fuzz(place, given.size, given.seed, given.enough)


if __name__ == "__main__":
    sys.exit(main())
