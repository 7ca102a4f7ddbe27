"""A port of the loopback interface, for the commands that serve something."""

from __future__ import annotations

import socket

from mulligan.errors import UserError


def listening(port: int, hint: str, last: int = 0) -> socket.socket:
    """Listens at a port; at any free one for 0, best at the last one, where open pages ask for this server."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port or last))
        listener.listen()  # before the address is printed: a client that asks at once waits, and is not refused
    except (OSError, OverflowError) as error:
        listener.close()
        if last and not port:
            return listening(0, hint)
        raise UserError(
            f"Port {port} cannot be used ({getattr(error, 'strerror', '')}). Nothing was started.", hint=hint
        ) from None
    return listener
