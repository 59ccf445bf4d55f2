"""What the resolver answers while a server moves: a source of marks for the timeline."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from queue import Empty, SimpleQueue
from typing import Final

from mrtuner.rehearsal.run import News

_EVERY: Final = 1.0  # s, between two queries


class Names:
    """Looks up names in its own thread, since a resolver may hang as well."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        self._heard: SimpleQueue[News] = SimpleQueue()
        self._stop = threading.Event()

    def __enter__(self) -> Names:
        for name in self.names:
            threading.Thread(target=self._ask, args=(name,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()

    def news(self) -> Iterator[News]:
        """Yield every answer that differs from the one before."""
        while True:
            try:
                yield self._heard.get_nowait()
            except Empty:
                return

    def _ask(self, name: str) -> None:
        before = addresses(name)
        while not self._stop.wait(_EVERY):
            now = addresses(name)
            if now != before:
                self._heard.put(News(f"{name} is {now}, was {before}", "name", datetime.now(UTC)))
                before = now


def addresses(name: str) -> str:
    """The addresses of a name, or why there are none."""
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except OSError as error:
        return str(error.strerror).lower()
    return ", ".join(sorted({str(one[4][0]) for one in found}))
