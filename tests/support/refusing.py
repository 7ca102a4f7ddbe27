"""An object store that refuses: a relay in front of one that answers chosen requests with an error, as S3 words it."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_HOP = {"connection", "transfer-encoding", "content-length", "server", "date"}


class Refuser:
    """Refuses what `refuse` says, and hands everything else on."""

    def __init__(self) -> None:
        self._rule: tuple[re.Pattern[str], int, str] | None = None

    def refuse(self, what: str, status: int, code: str) -> None:
        """From now on, requests whose `METHOD /path` matches get this error; an empty `what` ends it."""
        self._rule = (re.compile(what), status, code) if what else None

    def answer(self, request: str) -> tuple[int, bytes] | None:
        """The error for a request, None where it is handed on."""
        if self._rule is None or not self._rule[0].search(request):
            return None
        _, status, code = self._rule
        text = (
            f'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>{code}</Code><Message>of the test</Message></Error>'
        )
        return status, text.encode()


@contextmanager
def refusing(address: str) -> Iterator[tuple[Refuser, str]]:
    """A relay to an object store; yields what makes it refuse, and its own address."""
    refuser, target = Refuser(), address.removeprefix("http://")

    class Relay(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def relay(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            refused = refuser.answer(f"{self.command} {self.path}")
            if refused is not None:
                self.reply(refused[0], {"content-type": "application/xml"}, refused[1])
                return
            link = HTTPConnection(target)
            link.request(self.command, self.path, body, dict(self.headers))
            answer = link.getresponse()
            data = answer.read()
            length = answer.headers.get("content-length") if self.command == "HEAD" else None
            self.reply(answer.status, {k: v for k, v in answer.headers.items() if k.lower() not in _HOP}, data, length)
            link.close()

        def reply(self, status: int, headers: dict[str, str], data: bytes, length: str | None = None) -> None:
            self.send_response_only(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("content-length", length or str(len(data)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data)

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = relay  # noqa: N815 - these are the names

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Relay)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield refuser, f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
