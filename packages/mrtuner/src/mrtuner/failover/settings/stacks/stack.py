"""The parts of a stack's snippet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from mrtuner.failover.predict.tcp_timers import Keepalive
from mrtuner.failover.settings.bounds import Bounds

#: For a stack whose snippet has not been tested with the real client.
NOT_VERIFIED: Final = "not verified with the real client"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """One client stack. `name` is the driver's in the catalogue of timers."""

    name: str
    title: str
    file: str  # the file that the snippet belongs in
    write: Callable[[Bounds], str]
    sets_socket: bool  # keepalive times and the user timeout, on its own sockets
    read_timeout: bool  # a limit on each answer
    read_write: bool  # refuses a read-only server when connecting
    #: It can refuse one only where it is given several hosts.
    needs_list: bool = False
    #: It goes on to the next host when one does not answer; else a list of them is refused.
    next_host: bool = True
    #: New connections that its pool tries while the caller waits, once it found one dead.
    attempts: int = 0
    #: The keepalive set by its runtime, where that is neither ours nor the kernel's.
    keepalive: Callable[[Bounds], Keepalive] | None = None
    stale: str = "check pg_is_in_recovery() when a connection is taken, or on SQLSTATE 25006"
    #: The real client whose hangs the tests measure (docs/reference/verified-clients.md).
    verified: str = NOT_VERIFIED

    def refuses_read_only(self, hosts: int) -> bool:
        """Whether it does so with a connection string of so many hosts."""
        return self.read_write and (hosts > 1 or not self.needs_list)
