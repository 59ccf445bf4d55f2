"""Hangs measured on Linux 6.18 at HZ 250, up to 12 of each.

Namespaces for client, router and server; the router drops. Seconds from the client's own action to
its error, shortest and longest. None of these figures comes from the code under test.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from mrtuner.failover.predict.kernel import Kernel
from mrtuner.failover.predict.path import Path
from mrtuner.failover.predict.tcp_timers import (
    Connecting,
    Keepalive,
    Trace,
    Unacknowledged,
    Waiting,
    hang,
)
from mrtuner.failover.predict.timer_wheel import Band

#: A virtual link, with almost no round trip.
LAN = Path(rtt=0.0001)
KERNEL = Kernel(release=(6, 18), hz=250)


@dataclass(frozen=True, slots=True)
class Row:
    """One measured setting."""

    case: int
    setting: str
    trace: Trace
    kernel: Kernel
    low: float
    high: float

    @property
    def predicted(self) -> Band:
        return hang(self.trace, self.kernel)


def data(setting: str, low: float, high: float, user_timeout: int = 0, **sysctl: int) -> Row:
    """A row of case 2: an idle connection, then a query."""
    kernel = replace(KERNEL, **sysctl)  # type: ignore[arg-type]
    trace = Unacknowledged(kernel=kernel, path=LAN, user_timeout=user_timeout, several=False)
    return Row(2, setting, trace, kernel, low, high)


def syn(setting: str, low: float, high: float, user_timeout: int = 0, **sysctl: int) -> Row:
    """A row of case 1: a new connection."""
    kernel = replace(KERNEL, **sysctl)  # type: ignore[arg-type]
    return Row(1, setting, Connecting(kernel=kernel, user_timeout=user_timeout), kernel, low, high)


def answer(numbers: tuple[int, int, int], low: float, high: float, user_timeout: int = 0) -> Row:
    """A row of case 3: a query in flight."""
    idle, interval, count = numbers
    keepalive = Keepalive(idle=idle, interval=interval, count=count)
    trace = Waiting(kernel=KERNEL, keepalive=keepalive, user_timeout=user_timeout, path=LAN)
    text = f"keepalive {idle}/{interval}/{count}"
    if user_timeout:
        text += f", tcp_user_timeout {user_timeout // 1000} s"
    return Row(3, text, trace, KERNEL, low, high)


GRID = (
    syn("tcp_syn_retries=1, linear 4", 3.05, 3.08, tcp_syn_retries=1),
    syn("tcp_syn_retries=2, linear 4", 7.11, 7.15, tcp_syn_retries=2),
    syn("tcp_syn_retries=3, linear 4", 19.35, 19.53, tcp_syn_retries=3),
    syn("tcp_syn_retries=1, linear 0", 3.02, 3.05, tcp_syn_retries=1, tcp_syn_linear_timeouts=0),
    syn("tcp_syn_retries=2, linear 0", 7.06, 7.24, tcp_syn_retries=2, tcp_syn_linear_timeouts=0),
    syn("tcp_syn_retries=3, linear 0", 15.26, 15.43, tcp_syn_retries=3, tcp_syn_linear_timeouts=0),
    syn("tcp_user_timeout 2 s", 2.01, 2.05, user_timeout=2000),
    syn("tcp_user_timeout 5 s", 5.01, 5.03, user_timeout=5000),
    syn("tcp_user_timeout 10 s", 10.06, 10.25, user_timeout=10_000),
    data("tcp_retries2=3", 6.62, 6.87, tcp_retries2=3),
    data("tcp_retries2=4", 6.62, 6.87, tcp_retries2=4),
    data("tcp_retries2=5", 13.28, 13.53, tcp_retries2=5),
    data("tcp_retries2=6", 26.59, 26.84, tcp_retries2=6),
    data("tcp_retries2=8", 106.20, 108.09, tcp_retries2=8),
    data("tcp_retries2=5, no tail loss probe", 13.10, 13.29, tcp_retries2=5, tcp_early_retrans=0),
    data("tcp_retries2=5, rto_min 195 ms", 13.18, 13.37, tcp_retries2=5, tcp_rto_min_us=195_000),
    data("tcp_retries2=5, rto_min 300 ms", 20.09, 20.28, tcp_retries2=5, tcp_rto_min_us=300_000),
    data("tcp_retries2=15, rto_max 1 s", 14.97, 15.02, tcp_rto_max_ms=1000),
    data("tcp_user_timeout 1 s", 1.42, 1.45, user_timeout=1000),
    data("tcp_user_timeout 5 s", 5.42, 5.60, user_timeout=5000),
    data("tcp_user_timeout 10 s", 10.46, 10.64, user_timeout=10_000),
    data("tcp_user_timeout 30 s", 30.43, 30.61, user_timeout=30_000),
    answer((5, 2, 3), 11.11, 11.31),
    answer((10, 3, 3), 19.28, 19.50),
    answer((30, 3, 5), 45.45, 46.45),
    answer((5, 2, 3), 7.08, 7.28, user_timeout=1000),
    answer((5, 2, 3), 9.09, 9.29, user_timeout=8000),
    answer((5, 2, 3), 31.25, 31.47, user_timeout=30_000),
)


def far(milliseconds: float, *measured: tuple[float, float]) -> Iterator[tuple[float, Row]]:
    """Rows for a known round trip, an unknown socket: tcp_retries2=5, a user timeout, keepalive."""
    path, five = Path(rtt=milliseconds / 1000), replace(KERNEL, tcp_retries2=5)
    keepalive = Keepalive(idle=5, interval=2, count=3)
    traces: tuple[tuple[int, str, Trace], ...] = (
        (2, "tcp_retries2=5", Unacknowledged(kernel=five, path=path)),
        (2, "tcp_user_timeout 5 s", Unacknowledged(kernel=five, path=path, user_timeout=5000)),
        (3, "keepalive 5/2/3", Waiting(kernel=five, keepalive=keepalive, path=path)),
    )
    for (case, setting, trace), (low, high) in zip(traces, measured, strict=True):
        yield milliseconds, Row(case, setting, trace, five, low, high)


#: Through a relay that takes half of the round trip each way (failover_far.py): connections after
#: 0, 3 or 30 exchanges, requests of 5 bytes and of 64 kB; 12, 5 and 3 hangs.
FAR = (
    *far(0.2, (13.10, 13.47), (5.38, 5.57), (11.13, 11.13)),
    *far(2, (13.09, 13.52), (5.32, 5.62), (11.10, 11.10)),
    *far(25, (14.66, 15.07), (5.31, 5.49), (11.12, 11.12)),
    *far(70, (17.96, 18.29), (5.50, 5.61), (11.29, 11.29)),
    *far(140, (13.71, 25.38), (5.73, 6.14), (11.46, 11.46)),
    *far(250, (14.80, 24.64), (6.09, 6.48), (11.56, 11.56)),
)
#: The same hangs with tcp_retries2=5: the first RTO [ms] that each socket reported, by its age.
BY_AGE = (
    (140, "a handshake", 424, 13.71, 14.01),
    (140, "3 exchanges", 388, 25.27, 25.38),
    (140, "30 exchanges", 344, 22.56, 22.67),
    (250, "a handshake", 752, 24.35, 24.64),
    (250, "3 exchanges", 640, 21.05, 21.16),
    (250, "30 exchanges", 452, 14.80, 15.02),
)


def by_age(milliseconds: float, rto: float) -> Band:
    """The hang predicted if the socket's own RTO is known."""
    kernel = replace(KERNEL, tcp_retries2=5)
    path = Path(rtt=milliseconds / 1000, rto=rto / 1000)
    return hang(Unacknowledged(kernel=kernel, path=path), kernel)


def far_page() -> Iterator[str]:
    """The two tables of far servers on the same page."""
    yield "| Round trip (ms) | Case | Setting | Predicted (s) | Measured (s) |"
    yield "|--:|:--|:--|--:|--:|"
    for milliseconds, row in FAR:
        span = row.predicted
        measured = f"{row.low:.2f} – {row.high:.2f}" if row.low < row.high else f"{row.low:.2f}"
        yield (
            f"| {milliseconds:g} | {row.case} | {row.setting} | {span.low:.2f} – {span.high:.2f} "
            f"| {measured} |"
        )
    yield ""
    yield "| Round trip (ms) | After | First RTO (ms) | Predicted (s) | Measured (s) |"
    yield "|--:|:--|--:|--:|--:|"
    for milliseconds, age, rto, low, high in BY_AGE:
        span = by_age(milliseconds, rto)
        yield (
            f"| {milliseconds} | {age} | {rto} | {span.low:.2f} – {span.high:.2f} "
            f"| {low:.2f} – {high:.2f} |"
        )


def page() -> Iterator[str]:
    """The table of docs/concepts/failover.md."""
    yield "| Case | Setting | Predicted (s) | Measured (s) |"
    yield "|:--|:--|--:|--:|"
    for row in GRID:
        span = row.predicted
        yield (
            f"| {row.case} | {row.setting} | {span.low:.2f} – {span.high:.2f} "
            f"| {row.low:.2f} – {row.high:.2f} |"
        )
