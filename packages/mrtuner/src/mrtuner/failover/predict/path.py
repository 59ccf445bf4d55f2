"""The path to the server, and how its round trip affects the kernel's first timeout.

The timeout is SRTT + max(rto_min, 4 x RTTVAR). A single sample, the handshake, makes RTTVAR half of
it: a fresh connection waits three round trips. Each further round trip of an even path removes a
quarter of what is above SRTT + rto_min. At 140 ms that gives 420 ms, again 420, then 400, 385 and
so on down to 340; below 100 ms it is the same at any age. Source: net/ipv4/tcp_input.c
(tcp_rtt_estimator, tcp_set_rto) of 6.12; measured on 6.18.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from mrtuner.failover.predict.kernel import Kernel

#: How much another connection's smoothed round trip may differ from one given or seen once.
TOLERANCE: Final = 0.05
#: TCP_DELACK_MIN and TCP_DELACK_MAX [s]: a Linux server with no answer ready delays its
#: acknowledgement by one of these, or by its own round trip between them. Source:
#: tcp_send_delayed_ack.
DELAYED: Final = (0.04, 0.2)
#: TCP_TIMEOUT_MIN_US [s]: what a probe waits in addition to two round trips. Source: 6.7, tcp.h.
_PROBE: Final = 0.002
#: At another time a path may be this many times slower, or as fast as one within a machine [s].
_SLOWER: Final = 2
_FASTEST: Final = 0.00005


@dataclass(frozen=True, slots=True, kw_only=True)
class Path:
    """The path to the server."""

    rtt: float = 0.0005  # s, smoothed round trip
    rto: float | None = None  # s, tcpi_rto of a live connection; None: computed from rtt
    same: bool = True  # whether `rto` is from the connection in question
    most: float | None = None  # s, for any round trip up to this; None: as it is

    def at_its_worst(self) -> Path:
        """The path with every round trip for which the advised limits must hold.

        It may be slower or faster than it was. Also, a server that takes longer than 40 ms for
        every answer acknowledges late, which the kernel counts as part of the round trip.
        """
        return replace(self, rto=None, most=_SLOWER * self.rtt + DELAYED[0])

    @property
    def bounds(self) -> tuple[float, float]:
        """The smoothed round trip: minimum, maximum [s]."""
        if self.rto is not None and self.same:
            return self.rtt, self.rtt
        most = (1 + TOLERANCE) * self.rtt
        if self.most is not None:
            return min(_FASTEST, self.rtt), max(most, self.most)
        return (1 - TOLERANCE) * self.rtt, most

    def first_rtos(self, kernel: Kernel) -> range:
        """The first retransmission timeouts that a connection may have [jiffies]."""
        seen = () if self.rto is None else (round(self.rto * kernel.hz),)
        if seen and self.same:
            return range(seen[0], seen[0] + 1)
        least, (low, high) = rto_min(kernel), self.bounds
        cap = kernel.tcp_rto_max_ms / 1000
        old = kernel.jiffies(min(cap, least + low))
        fresh = kernel.jiffies(min(cap, high + max(least, 2 * high)))
        return range(min((old, *seen)), max((fresh, *seen)) + 1)

    def exactly(self, rto: int, kernel: Kernel, *, late: bool) -> Path:
        """The path with one of these timeouts, and the longest or shortest matching round trip."""
        low, high = self.bounds
        seconds = rto / kernel.hz
        longest = min(high, max(low, seconds - rto_min(kernel)))
        return Path(rtt=longest if late else low, rto=seconds)

    def probe(self, kernel: Kernel, *, several: bool) -> int:
        """How long the tail loss probe waits [jiffies]: longer if only one segment is in flight.

        The acknowledgement of one segment may be delayed, that of a second one is not.
        """
        wait = kernel.jiffies(2 * self.rtt + (_PROBE if several else rto_min(kernel)))
        return min(wait, self.first_rtos(kernel)[-1])

    def acknowledged(self) -> tuple[float, float]:
        """The earliest and latest time at which a live server acknowledges a running query [s]."""
        low, high = self.bounds
        return low, high + max(DELAYED[0], min(high, DELAYED[1]))


def rto_min(kernel: Kernel) -> float:
    """The least retransmission timeout in addition to the round trip [s], in whole ticks."""
    return kernel.jiffies(kernel.tcp_rto_min_us / 1e6) / kernel.hz


def describe(path: Path, kernel: Kernel) -> Iterator[str]:
    """Describe the first timeout, the probe before it, and where they come from."""
    rtos = path.first_rtos(kernel)
    ticks = f"in ticks of {1000 / kernel.hz:g} ms"
    yield f"first RTO {_milliseconds(rtos[0], rtos[-1], kernel)}: {_source(path, kernel)}, {ticks}"
    if not kernel.tail_loss_probe:
        return
    soon, late = (path.exactly(rtos[place], kernel, late=bool(place)) for place in (0, -1))
    several = soon.probe(kernel, several=True) / kernel.hz * 1000
    one = _milliseconds(
        soon.probe(kernel, several=False), late.probe(kernel, several=False), kernel
    )
    yield (
        f"a tail loss probe after {one}, or from {several:g} ms if the request takes several "
        "segments; it is not counted, and the first timeout follows"
    )


def _milliseconds(low: int, high: int, kernel: Kernel) -> str:
    """Format jiffies as ``204 ms``, ``340 to 420 ms``."""
    first, last = (jiffies / kernel.hz * 1000 for jiffies in (low, high))
    return f"{last:g} ms" if low == high else f"{first:g} to {last:g} ms"


def _source(path: Path, kernel: Kernel) -> str:
    if path.rto is not None and path.same:
        return "TCP_INFO of a live connection"
    minimum = kernel.with_origin("tcp_rto_min_us")
    if path.most is not None:
        return f"any round trip up to {path.most * 1000:g} ms + {minimum}"
    told = f"round trip {path.rtt * 1000:g} ms + {minimum}"
    fresh = 2 * path.bounds[1] > rto_min(kernel)
    return f"{told}, and three round trips while the connection is new" if fresh else told
