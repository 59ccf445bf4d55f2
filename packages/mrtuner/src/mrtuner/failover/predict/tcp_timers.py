"""What the kernel's timers do when a peer goes silent, timer by timer.

A trace is the list of jiffies at which the kernel acts; at the last of them it gives up the
connection and the client's call returns. Sources: net/ipv4/tcp_timer.c
(tcp_write_timeout, retransmits_timed_out, tcp_model_timeout, tcp_clamp_rto_to_user_timeout,
tcp_keepalive_timer) and tcp_output.c (tcp_schedule_loss_probe, tcp_send_delayed_ack) of 6.12;
measured on 6.18.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from math import ceil, floor, log2
from typing import Final, Protocol

from mrtuner.failover.predict.kernel import CLAMPED, Kernel
from mrtuner.failover.predict.path import Path
from mrtuner.failover.predict.timer_wheel import PHASES, Band, fires, over_phases

#: TCP_RTO_MIN [s]: the model always uses it, whatever the real timeout.
_MODEL: Final = 0.2
#: TCP_TIMEOUT_INIT [s]: the first SYN's timeout.
_SYN: Final = 1.0
#: However many variants there are, each is tried at this many phases of the wheel.
_LEAST_PHASES: Final = 16
#: How many first timeouts are tried if all give nearly the same result.
_ENOUGH: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Keepalive:
    """The keepalive of one socket."""

    idle: int  # s
    interval: int  # s
    count: int

    def ends_after(self, user_timeout: int = 0) -> int:
        """Seconds after which a silent, idle connection is given up; `user_timeout` in ms.

        The user timeout replaces the count, but is looked at only when a probe is out already.
        Source: tcp_timer.c, tcp_keepalive_timer. The wheel's lateness is left out.
        """
        probes = self.count
        if user_timeout:
            probes = max(1, ceil((user_timeout / 1000 - self.idle) / self.interval))
        return self.idle + self.interval * probes


class Trace(Protocol):
    """A way to wait: yields the jiffies at which the kernel acts; at the last one it gives up."""

    @property
    def longest(self) -> int:
        """An upper bound on its timers [jiffies]."""

    def variants(self) -> Sequence[Trace]:
        """The possible forms of it, as far as the path leaves them open."""

    def run(self, start: int) -> Iterator[int]:
        """Yield jiffies, starting with the client's call at jiffy `start`."""

    def __hash__(self) -> int:
        """Traces are frozen; equal ones hang equally long."""


def model(kernel: Kernel, retries: int, base: float = _MODEL) -> float:
    """The time that the kernel assumes for `retries` [s]: doublings of `base` up to the cap.

    >>> round(model(Kernel(), 15), 1), round(model(Kernel(), 5), 1)
    (924.6, 12.6)
    """
    cap = kernel.tcp_rto_max_ms / 1000
    threshold = floor(log2(cap / base))
    if retries <= threshold:
        return ((2 << retries) - 1) * base
    return ((2 << threshold) - 1) * base + (retries - threshold) * cap


@dataclass(frozen=True, slots=True, kw_only=True)
class Unacknowledged:
    """Data was sent and nothing came back: case 2."""

    kernel: Kernel
    path: Path
    user_timeout: int = 0  # ms; 0: tcp_retries2 decides
    several: bool | None = None  # whether the request has several segments; None: unknown

    @property
    def limit(self) -> float:
        """The time from the first retransmission that counts to the end [s]."""
        if self.user_timeout:
            return self.user_timeout / 1000
        return model(self.kernel, self.kernel.tcp_retries2)

    @property
    def longest(self) -> int:
        return _last_doubling(self.kernel, self.limit)

    def variants(self) -> Sequence[Unacknowledged]:
        """Every first timeout that the path allows, with requests of one and of several segments.

        With a user timeout the hang grows with the first timeout, apart from the last timer's
        lateness, so trying some of them is enough.
        """
        rtos = self.path.first_rtos(self.kernel)
        if self.user_timeout and self.kernel.release >= CLAMPED and len(rtos) > _ENOUGH:
            rtos = range(rtos[-1], rtos[0] - 1, -((len(rtos) - 1) // _ENOUGH + 1))[::-1]
        sizes = (False, True) if self.several is None else (self.several,)
        return tuple(
            replace(self, path=self.path.exactly(rto, self.kernel, late=not several),
                    several=several)
            for rto in rtos
            for several in sizes
        )  # fmt: skip

    def run(self, start: int) -> Iterator[int]:
        """The tail loss probe, then timeouts that double, for one variant."""
        kernel, rto = self.kernel, self.path.first_rtos(self.kernel)[-1]
        now = start
        if kernel.tail_loss_probe:
            probe = self.path.probe(kernel, several=bool(self.several))
            now = fires(now, probe, wheel=kernel.wheel)
            yield now
        first = now = fires(now, rto, wheel=kernel.wheel)
        yield now
        cap = kernel.jiffies(kernel.tcp_rto_max_ms / 1000)
        while (now - first) / kernel.hz < self.limit:
            rto = min(2 * rto, cap)
            delay = clamped(kernel, self.user_timeout, rto, now - first)
            now = fires(now, delay, wheel=kernel.wheel)
            yield now


def _last_doubling(kernel: Kernel, limit: float) -> int:
    return min(kernel.jiffies(kernel.tcp_rto_max_ms / 1000), kernel.jiffies(limit) + 1)


def clamped(kernel: Kernel, user_timeout: int, rto: int, elapsed: int) -> int:
    """The timeout, cut to the rest of the user timeout [ms] if the kernel does that."""
    if not user_timeout or kernel.release < CLAMPED:
        return rto
    left = user_timeout * kernel.hz / 1000 - elapsed
    return 1 if left <= 0 else min(rto, ceil(left))


@dataclass(frozen=True, slots=True, kw_only=True)
class Connecting:
    """SYNs that are not answered: case 1."""

    kernel: Kernel
    user_timeout: int = 0  # ms

    @property
    def limit(self) -> float:
        """The time from the first SYN to the end [s]."""
        if self.user_timeout:
            return self.user_timeout / 1000
        return model(self.kernel, self.kernel.tcp_syn_retries, _SYN)

    @property
    def longest(self) -> int:
        return _last_doubling(self.kernel, self.limit)

    def variants(self) -> Sequence[Connecting]:
        """Only this one: nothing is known about the path yet."""
        return (self,)

    def run(self, start: int) -> Iterator[int]:
        """Even intervals first, then doubling ones."""
        kernel = self.kernel
        rto, cap = kernel.jiffies(_SYN), kernel.jiffies(kernel.tcp_rto_max_ms / 1000)
        now, sent = fires(start, rto, wheel=kernel.wheel), 0
        yield now
        while not self._over(sent, now - start):
            sent += 1
            if sent > kernel.linear:
                rto = min(2 * rto, cap)
            delay = clamped(kernel, self.user_timeout, rto, now - start)
            now = fires(now, delay, wheel=kernel.wheel)
            yield now

    def _over(self, sent: int, elapsed: int) -> bool:
        """Whether the retries or the model's time for them are used up; never before the first."""
        if sent >= self.kernel.tcp_syn_retries + self.kernel.linear:
            return True
        return sent > 0 and elapsed / self.kernel.hz >= self.limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """Everything was acknowledged but the answer does not come: case 3, with keepalive."""

    kernel: Kernel
    keepalive: Keepalive
    user_timeout: int = 0  # ms; replaces the count
    path: Path | None = None  # None: counted from the acknowledgement
    acknowledged: int = 0  # jiffies from the query to its acknowledgement, the last sign of life

    @property
    def longest(self) -> int:
        return self.kernel.jiffies(max(self.keepalive.idle, self.keepalive.interval))

    def variants(self) -> Sequence[Waiting]:
        """With the earliest and the latest acknowledgement."""
        if self.path is None:
            return (self,)
        soon, late = self.path.acknowledged()
        whole = (int(soon * self.kernel.hz), self.kernel.jiffies(late))
        return tuple(replace(self, path=None, acknowledged=jiffies) for jiffies in whole)

    def run(self, start: int) -> Iterator[int]:
        """The idle time, then one probe per interval."""
        kernel, start = self.kernel, start + self.acknowledged
        now, probes = fires(start, kernel.jiffies(self.keepalive.idle), wheel=kernel.wheel), 0
        yield now
        while not self._over(probes, now - start):
            probes += 1
            now = fires(now, kernel.jiffies(self.keepalive.interval), wheel=kernel.wheel)
            yield now

    def _over(self, probes: int, elapsed: int) -> bool:
        if not self.user_timeout:
            return probes >= self.keepalive.count
        return probes > 0 and elapsed * 1000 >= self.user_timeout * self.kernel.hz


@lru_cache(maxsize=1024)
def hang(trace: Trace, kernel: Kernel) -> Band:
    """How long the client's call lasts [s]."""

    return _over_variants(trace, kernel, _last)


def keeps(trace: Trace, kernel: Kernel, limit: float) -> bool:
    """Whether no variant of it hangs longer than `limit` [s]; faster than `hang` if not."""
    variants = trace.variants()
    spans = (_over_phases(one, len(variants), kernel, _last) for one in reversed(variants))
    return all(span.high <= limit for span in spans)


def _last(one: Trace, start: int) -> int:
    *_, last = one.run(start)
    return last


def noticed(trace: Trace, kernel: Kernel, away: float) -> Band:
    """When the client notices [s] if the address answers again after `away` s.

    The kernel tries again at its next timer, and is answered, unless it has given up before.
    """
    gone = kernel.jiffies(away)

    def end(one: Trace, start: int) -> int:
        last = start
        for last in one.run(start):
            if last - start >= gone:
                break
        return last

    return _over_variants(trace, kernel, end)


def _over_variants(trace: Trace, kernel: Kernel, end: Callable[[Trace, int], int]) -> Band:
    """The span over everything that is left to chance: the path's part, and the wheel's phase."""
    variants = trace.variants()
    return Band.over(_over_phases(one, len(variants), kernel, end) for one in variants)


def _over_phases(one: Trace, among: int, kernel: Kernel, end: Callable[[Trace, int], int]) -> Band:
    phases = max(_LEAST_PHASES, PHASES // among)
    return over_phases(partial(end, one), longest=one.longest, hz=kernel.hz, phases=phases)
