"""A caching resolver for one name, so that its time to live (TTL) matters, as in a real network.

Like the resolver of a cloud's network, it returns a cached address until that is older than the
TTL, then looks again. Wire format: RFC 1035, section 4.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable
from typing import Final

NAME: Final = "db.lab"
_A: Final = 1
_NO_ERROR: Final = 0x8180  # a recursive answer
_NO_NAME: Final = 0x8183
#: A pointer to the question's name.
_SAME: Final = 0xC00C


class Resolver:
    """Answers queries on 127.0.0.1:53 in its own threads until the process ends."""

    def __init__(
        self, address: str, ttl: float, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.ttl = ttl
        self._clock = clock
        self._record = address
        self._cached, self._until = address, 0.0
        self._lock = threading.Lock()

    def start(self, port: int = 53) -> int:
        """Listen on `port`, or on any free one for 0; return the port."""
        listening = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        listening.bind(("127.0.0.1", port))
        threading.Thread(target=self._serve, args=(listening,), daemon=True).start()
        bound: int = listening.getsockname()[1]
        return bound

    def switch(self, address: str) -> None:
        """Point the name elsewhere; clients see it when their cached address is too old."""
        with self._lock:
            self._record = address

    def look(self) -> tuple[str, float]:
        """The address, and how long it may be cached [s]."""
        with self._lock:
            now = self._clock()
            if now >= self._until:
                self._cached, self._until = self._record, now + self.ttl
            return self._cached, self._until - now

    def _serve(self, listening: socket.socket) -> None:
        while True:
            query, client = listening.recvfrom(512)
            listening.sendto(self.answer(query), client)

    def answer(self, query: bytes) -> bytes:
        """Return the reply to a query with one question."""
        end = query.index(b"\0", 12) + 5
        question, (kind,) = query[12:end], struct.unpack(">H", query[end - 4 : end - 2])
        known = question[:-4].lower() == _labels(NAME)
        found = b""
        if known and kind == _A:
            address, left = self.look()
            head = struct.pack(">HHHIH", _SAME, _A, 1, int(left), 4)
            found = head + socket.inet_aton(address)
        flags = _NO_ERROR if known else _NO_NAME
        return query[:2] + struct.pack(">HHHHH", flags, 1, bool(found), 0, 0) + question + found


def _labels(name: str) -> bytes:
    parts = name.encode().split(b".")
    return b"".join(bytes([len(part)]) + part for part in parts) + b"\0"
