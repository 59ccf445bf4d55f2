"""After a failover every connection is reopened, as fast as the database accepts logins.

The share of connections that are back grows evenly, and with it the capacity. Requests that arrive
meanwhile queue up; later, the spare capacity clears the queue.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from mrtuner.described import Doc


@dataclass(frozen=True, slots=True, kw_only=True)
class PodsStorm:
    """Reconnecting after a failover; times from the first login."""

    connections: Annotated[int, Doc("that are reopened")]
    logins: Annotated[float, Doc("a second")]
    back: Annotated[float, Doc("until all are open")]
    backlog: Annotated[float, Doc("requests that wait at the worst moment")]
    caught_up: Annotated[float, Doc("until none of them waits any more")]


def storm(*, connections: int, logins: float, rate: float, capacity: float) -> PodsStorm:
    """Return how requests queue up while `connections` log in; `capacity` is with all of them.

    Capacity after t seconds is C t / T, with T = connections / logins. The backlog is largest when
    that reaches the load, after ρT, and is then λρT / 2. Up to half load (ρ = λ / C) it is gone
    after 2ρT; else the rest is cleared after T, at C - λ.
    """
    back, busy = connections / logins, rate / capacity
    if busy <= 0.5:
        gone = 2 * busy * back
    else:
        gone = back + (rate - capacity / 2) * back / (capacity - rate)
    return PodsStorm(
        connections=connections,
        logins=logins,
        back=back,
        backlog=rate * busy * back / 2,
        caught_up=gone,
    )
