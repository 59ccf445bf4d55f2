"""A server that answers nothing but its first byte: the far end of the self-test.

`python -m mrtuner.failover.selftest.peer` listens until its stdin ends.
"""

from __future__ import annotations

import selectors
import socket
import sys
from contextlib import suppress
from typing import Final

PORT: Final = 5432
#: Echoed to the sender, to show that the connection is open.
HELLO: Final = b"?"


def main() -> None:
    """Accept everyone, echo HELLO, and acknowledge the rest by reading it."""
    with selectors.DefaultSelector() as selector, socket.create_server(("", PORT)) as listening:
        selector.register(listening, selectors.EVENT_READ)
        selector.register(sys.stdin, selectors.EVENT_READ)
        while all(_serve(selector, key.fileobj, listening) for key, _ in selector.select()):
            pass


def _serve(selector: selectors.BaseSelector, ready: object, listening: socket.socket) -> bool:
    """Handle one event; return False when it is time to exit."""
    if ready is listening:
        selector.register(listening.accept()[0], selectors.EVENT_READ)
    elif isinstance(ready, socket.socket):
        with suppress(OSError):
            said = ready.recv(64)
            if said == HELLO:
                ready.send(HELLO)
            if not said:
                selector.unregister(ready)
                ready.close()
    return ready is not sys.stdin


if __name__ == "__main__":
    main()
