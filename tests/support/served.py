"""A real server of the web timeline on a real port, and a plain HTTP client that lies as it is told to."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPResponse
from typing import Any

from mulligan.engine.workspace import Workspace
from mulligan.ui.app import Page, build
from mulligan.ui.logins import Logins
from mulligan.ui.serving import serve


class Answer:
    """What came back."""

    def __init__(self, response: HTTPResponse) -> None:
        self.status, self.headers, self.body = response.status, response.headers, response.read()

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Client:
    """A client of one server: by default as our own page would ask, and logged in."""

    def __init__(self, port: int, page: Page) -> None:
        self.port, self.page = port, page
        self.host = f"127.0.0.1:{port}"
        self.cookie = f"{page.logins.cookie}={page.logins.enter(page.logins.new_link())}"
        #: What is to be done before the server ends: an open page would report each request that it cuts off.
        self.before_end: list[Callable[[], object]] = []

    def ask(self, method: str, address: str, body: object = None, **headers: str | None) -> Answer:
        """Sends a request; a header given as None is left out."""
        sent: dict[str, str | None] = {"host": self.host, "cookie": self.cookie}
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        if method == "POST":
            data = b"{}" if data is None else data
            sent |= {
                "origin": f"http://{self.host}",
                "sec_fetch_site": "same-origin",
                "content_type": "application/json",
            }
        sent |= headers
        link = HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            link.putrequest(method, address, skip_host=True, skip_accept_encoding=True)
            for name, value in sent.items():
                if value is not None:
                    link.putheader(name.replace("_", "-"), value)
            if data is not None and "content_length" not in sent:
                link.putheader("Content-Length", str(len(data)))
            link.endheaders(data)
            return Answer(link.getresponse())
        finally:
            link.close()

    def get(self, address: str, **headers: str | None) -> Answer:
        return self.ask("GET", address, None, **headers)

    def post(self, address: str, body: object = None, **headers: str | None) -> Answer:
        return self.ask("POST", address, body, **headers)

    @contextmanager
    def stream(self, after: str = "", **headers: str) -> Iterator[Iterator[tuple[str, str, Any]]]:
        """Opens the stream of events; yields (name, id, data) of each."""
        link = HTTPConnection("127.0.0.1", self.port, timeout=30)
        link.request("GET", f"/api/events?after={after}", headers={"Cookie": self.cookie, **headers})
        response = link.getresponse()
        assert response.status == 200, response.status
        try:
            yield _events(response)
        finally:
            response.close()
            link.close()


def _events(response: HTTPResponse) -> Iterator[tuple[str, str, Any]]:
    told: dict[str, str] = {}
    while line := response.readline().decode():
        if line.strip():
            name, _, value = line.strip().partition(": ")
            told[name] = value
        elif "data" in told:
            yield told.get("event", ""), told.get("id", ""), json.loads(told["data"])
            told = {}


@contextmanager
def served(workspace: Workspace, *, read_only: bool = False, idle: float = 600.0) -> Iterator[Client]:
    """Serves a workspace for as long as the block runs."""
    failures: list[BaseException] = []
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        page = Page(workspace, Logins(port), read_only=read_only, version="0", unforeseen=failures.append)
        thread = threading.Thread(target=serve, args=(build(page, port), page.live, listener), kwargs={"idle": idle})
        listener.listen()
        thread.start()
        client = Client(port, page)
        try:
            yield client
        finally:
            for each in client.before_end:
                each()
            page.live.stop()
            thread.join(60)
    assert not thread.is_alive()
    assert not failures, failures
