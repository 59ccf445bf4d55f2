"""What a stack's snippet is made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from mrtuner.failover.predict.timer_trace import Keepalive
from mrtuner.failover.settings.bounds import Bounds

#: For a stack whose snippet no test has held against the real client.
NOT_VERIFIED: Final = "not verified with the real client"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """One client stack. `name` is the driver's in the catalogue of timers."""

    name: str
    title: str
    file: str  # where the snippet goes
    write: Callable[[Bounds], str]
    sets_socket: bool  # keepalive times and the user timeout, on its own sockets
    read_timeout: bool  # a limit on each answer
    read_write: bool  # refuses a read-only server at connecting
    #: New connections that its pool tries in the caller's time once it found one dead.
    attempts: int = 0
    #: What its runtime makes of the keepalive, where that is neither ours nor the kernel's.
    keepalive: Callable[[Bounds], Keepalive] | None = None
    stale: str = "check pg_is_in_recovery() when a connection is taken, or on SQLSTATE 25006"
    #: With which real client; the tests measure its hangs (docs/reference/verified-clients.md).
    verified: str = NOT_VERIFIED
