"""Messages for a monitoring system, on disk until delivered.

A receiver that was down for an hour gets what it missed, in order. If too many messages wait, the
oldest are deleted and counted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mrtuner import files
from mrtuner.errors import MrTunerError, UsageError

#: A day of messages, one a minute.
MOST: Final = 1440
_NAME: Final = re.compile(r"(\d{12})\.message")


class Undelivered(MrTunerError):
    """A message could not be delivered now; it may be later."""


class Rejected(MrTunerError):
    """A message will never be taken."""


@dataclass(slots=True)
class Outbox:
    """Messages in a directory, oldest first."""

    directory: Path
    most: int = MOST
    left_out: int = 0  # the oldest, deleted because more than `most` waited
    rejected: int = 0

    def __post_init__(self) -> None:
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(
                f"cannot keep messages in {self.directory}: {error.strerror}",
                "Name another directory with --dir.",
            ) from None

    def put(self, message: bytes) -> None:
        """Keep a message until it is delivered."""
        waiting = [number for number, _ in self._waiting()]
        number = 1 + max(waiting, default=0)
        files.replace(self.directory / f"{number:012}.message", message, mode=0o600)
        for _, path in list(self._waiting())[: -self.most]:
            path.unlink()
            self.left_out += 1

    def deliver(self, send: Callable[[bytes], None]) -> int:
        """Send all waiting messages in order; return how many were accepted.

        Raises:
            Undelivered: `send` raised it; that message and all after it are kept.
        """
        taken = 0
        for _, path in list(self._waiting()):
            try:
                send(path.read_bytes())
                taken += 1
            except Rejected:
                self.rejected += 1
            path.unlink()
        return taken

    def __len__(self) -> int:
        return len(list(self._waiting()))

    def _waiting(self) -> Iterator[tuple[int, Path]]:
        found = (
            (int(match[1]), path)
            for path in self.directory.iterdir()
            if (match := _NAME.fullmatch(path.name))
        )
        yield from sorted(found)
