"""A connection that breaks: a relay in front of a server that stops at a given byte, in either direction."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_PIECE = 1 << 14
_RESET = struct.pack("ii", 1, 0)


class Cutter:
    """Relays connections to a port of this machine; `arm` has it cut them."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._held = threading.Lock()
        self._left: int | None = None
        self._stays, self._resets = False, False
        self.bytes = self.cuts = 0
        self._open: set[socket.socket] = set()
        self._half: set[socket.socket] = set()  # from which nothing more comes
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def arm(self, after: int, *, stays: bool = False, resets: bool = False) -> None:
        """Cuts the connection that carries this byte from now on; with `stays`, every later one at once, until `disarm`."""
        with self._held:
            self._left, self._stays, self._resets = after, stays, resets

    def disarm(self) -> None:
        """Lets everything through again."""
        with self._held:
            self._left = None

    def close(self) -> None:
        """Ends it."""
        self._listener.close()
        for each in list(self._open):
            _end(each, resets=False)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                client.close()
                continue
            self._open |= {client, server}
            for ends in ((client, server), (server, client)):
                threading.Thread(target=self._relay, args=ends, daemon=True).start()

    def _allowed(self, size: int) -> tuple[int, bool]:
        """How many bytes may pass, and whether the connection is cut after them."""
        with self._held:
            self.bytes += size
            if self._left is None:
                return size, False
            if self._left > size:
                self._left -= size
                return size, False
            passed, self.cuts = self._left, self.cuts + 1
            self._left = 0 if self._stays else None
            return passed, True

    def _relay(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while piece := source.recv(_PIECE):
                passed, cut = self._allowed(len(piece))
                target.sendall(piece[:passed])
                if cut:
                    _end(source, resets=self._resets)
                    _end(target, resets=self._resets)
                    break
            else:
                target.shutdown(socket.SHUT_WR)
        with self._held:
            ended = not {source, target} & self._half  # the other direction goes on
            self._half ^= {source}
            if ended:
                return
            self._half -= {source, target}
            self._open -= {source, target}
        source.close()
        target.close()


def _end(link: socket.socket, *, resets: bool) -> None:
    with suppress(OSError):
        if resets:
            link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        # This wakes the thread that reads from it; a shutdown of both directions would send an orderly end.
        link.shutdown(socket.SHUT_RD if resets else socket.SHUT_RDWR)
    link.close()


@contextmanager
def cutter(target: int) -> Iterator[Cutter]:
    """A relay to a port of this machine."""
    found = Cutter(target)
    try:
        yield found
    finally:
        found.close()
