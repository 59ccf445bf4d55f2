"""What a round trip does to a hang: worked out by hand from the kernel's rules, or measured."""

from __future__ import annotations

from dataclasses import replace

import pytest
from failover_grid import BY_AGE, FAR, KERNEL, LAN, Row, by_age

from mrtuner.failover.predict.client import Client, defaults
from mrtuner.failover.predict.hang_times import SLACK, Case, Situation, predict
from mrtuner.failover.predict.kernel import Kernel
from mrtuner.failover.predict.path import Path
from mrtuner.failover.predict.tcp_timers import Keepalive, Unacknowledged, Waiting, hang
from mrtuner.failover.predict.timer_wheel import Band
from mrtuner.failover.settings.advice import settings

#: 0.2 to 250 ms, in seconds.
ROUND_TRIPS = (0.0002, 0.001, 0.0039, 0.025, 0.07, 0.14, 0.25)
#: First RTOs [s] at 140 ms, by hand: after the handshake alone, then after 1, 2, 3, 4 … exchanges.
#: 4 x RTTVAR = 280; 280; 280 - 80/4 = 260; 260 - 60/4 = 245; 233.75; … 200.
AGEING = (0.420, 0.420, 0.400, 0.385, 0.37375, 0.340)


def idle(path: Path, kernel: Kernel, client: Client | None = None) -> Band:
    found = predict(Situation(kernel=kernel, client=client or defaults("libpq"), path=path))
    span = next(one.span for one in found if one.case is Case.IDLE)
    assert span is not None
    return span


def test_a_connection_waits_three_round_trips_at_first_and_one_and_200_ms_in_the_end() -> None:
    """140 ms at HZ 250: 420 ms are 105 ticks, 340 are 85; with a round trip five per cent off it is
    133 + 200 = 333 ms (84 ticks) to 3 x 147 = 441 ms (111 ticks)."""
    rtos = Path(rtt=0.14).first_rtos(KERNEL)
    assert (rtos[0], rtos[-1]) == (84, 111)
    for seconds in AGEING:
        assert KERNEL.jiffies(seconds) in rtos


def test_below_100_ms_the_age_of_a_connection_makes_no_difference() -> None:
    """70 ms: twice that is less than 200 ms. By hand: 266.5 to 273.5 ms, 67 to 69 ticks of 4 ms."""
    rtos = Path(rtt=0.07).first_rtos(KERNEL)
    assert (rtos[0], rtos[-1]) == (67, 69)


def test_no_first_timeout_is_longer_than_the_kernels_cap() -> None:
    """250 ms: 0.95 x 250 + 200 = 437.5 ms to 3 x 1.05 x 250 = 787.5 ms; 500 ms would be 1.575 s."""
    rtos = Path(rtt=0.25).first_rtos(replace(KERNEL, tcp_rto_max_ms=1000))
    assert (rtos[0], rtos[-1]) == (110, 197)
    far = Path(rtt=0.5).first_rtos(replace(KERNEL, tcp_rto_max_ms=1000))
    assert far[-1] == 250


def test_the_timeout_of_the_very_socket_is_taken_as_it_is() -> None:
    assert list(Path(rtt=0.14, rto=0.388).first_rtos(KERNEL)) == [97]
    other = Path(rtt=0.14, rto=0.5, same=False).first_rtos(KERNEL)
    assert (other[0], other[-1]) == (84, 125)  # 500 ms: a jittery path, but others may be calmer


@pytest.mark.parametrize(("rtt", "row"), FAR, ids=lambda one: getattr(one, "setting", f"{one} ms"))
def test_a_hang_measured_far_away_lies_in_the_band_of_its_round_trip(rtt: float, row: Row) -> None:
    """At any age of the connection, with requests of 5 bytes and of 64 kB."""
    assert row.predicted.covers(row.low, slack=0.02)
    assert row.predicted.covers(row.high, slack=0.02)


@pytest.mark.parametrize(("rtt", "age", "rto", "low", "high"), BY_AGE)
def test_a_hang_measured_far_away_lies_in_the_narrow_band_of_its_own_timeout(
    rtt: int, age: str, rto: int, low: float, high: float
) -> None:
    """The band is at most 0.5 s wide, around 14 to 25 s."""
    span = by_age(rtt, rto)
    assert span.covers(low, slack=0.02)
    assert span.covers(high, slack=0.02)
    assert span.high - span.low < 0.5


def test_the_hang_of_the_issue_is_predicted() -> None:
    """Measured at 140 ms with tcp_retries2 = 5: 25.3 to 25.5 s, where 22.4 s were promised."""
    span = idle(Path(rtt=0.14), replace(KERNEL, tcp_retries2=5))
    assert span.low <= 25.3
    assert span.high >= 25.5


def test_24_seconds_at_140_ms_are_kept_at_any_age() -> None:
    """By hand, without the wheel's lateness: with 4 retries (6.2 s) and 420 ms the timers come
    0.84, 1.68, 3.36, 6.72 s ... after the request: (2^k - 2) x 0.42 >= 6.2 first for k = 5: 12.6 s,
    13.4 in all; with 5 (12.6 s) and 400 ms k = 6: 24.8 s, 25.6 in all."""
    made = settings("pgjdbc", 24, KERNEL, Path(rtt=0.14))
    assert made.bounds.tcp_retries2 == 4


def textbook(rto: float, retries: int) -> float:
    """Two timeouts, then doublings until the kernel's limit has passed; no timer is ever late [s].

    A timer up to 4 per cent before the limit ends the hang, too, because the wheel fires it late:
    with 204 ms the fourth doubling is at 6.12 s, the limit is 6.2 s, and measured hangs end there.
    """
    elapsed, gap, limit = 0.0, 2 * rto, 0.2 * (2 ** (retries + 1) - 1)
    while elapsed < 0.96 * limit:
        elapsed += gap
        gap *= 2
    return 2 * rto + elapsed


@pytest.mark.parametrize("hz", [250, 1000])
@pytest.mark.parametrize("rtt", ROUND_TRIPS)
@pytest.mark.parametrize("within", [10, 24, 60])
def test_no_first_timeout_of_the_path_exceeds_a_promised_bound(
    within: float, rtt: float, hz: int
) -> None:
    """Every timeout from an old connection to a fresh one, tick by tick, by plain arithmetic."""
    made = settings("pgjdbc", within, Kernel(release=(6, 18), hz=hz), Path(rtt=rtt))
    span = made.cases[1].span
    assert span is not None
    assert span.high <= within
    old, fresh = 0.2 + rtt, rtt + max(0.2, 2 * rtt)
    for ticks in range(int(old * hz) + 1, int(fresh * hz) + 2):
        assert textbook(ticks / hz, made.bounds.tcp_retries2) <= span.high + SLACK


def test_a_tick_of_the_timeout_is_in_the_band_where_the_round_trip_is_near_one() -> None:
    """204 and 208 ms at HZ 250. Measured for 204: 26.59 to 26.84 s. By hand for 208: 2 + 126 times
    4 ms more, 0.51 s. Five per cent more than 3.9 ms cross the tick, than 2 ms do not."""
    kernel = replace(KERNEL, tcp_retries2=6)
    near = idle(Path(rtt=0.0039), kernel)
    assert near.low <= 26.59
    assert near.high >= 26.84 + 0.51
    assert idle(Path(rtt=0.002), kernel).high == pytest.approx(26.84, abs=0.03)


@pytest.mark.parametrize(("rtt", "sooner"), [(0.0001, 0.2), (0.025, 0.172)])
def test_a_request_of_several_segments_gives_up_sooner(rtt: float, sooner: float) -> None:
    """The tail loss probe waits 2 RTT + 2 ms instead of 2 RTT + 200 ms or the timeout.

    By hand in ticks of 4 ms: 1 instead of 51; 13 (52 ms) instead of 57 (225 ms is the timeout,
    228 in ticks), which is 176 ms, 4 less for what may lie between two ticks."""
    kernel = replace(KERNEL, tcp_retries2=5)
    path = Path(rtt=rtt, rto=0.204 if rtt < 0.001 else 0.228)
    one, several = (
        hang(Unacknowledged(kernel=kernel, path=path, several=many), kernel)
        for many in (False, True)
    )
    assert one.mid - several.mid == pytest.approx(sooner, abs=0.03)


def test_the_band_holds_for_requests_of_one_and_of_several_segments() -> None:
    """Measured on a local network with tcp_retries2=3: 6.62 to 6.87 s; several: 0.2 s sooner."""
    span = idle(LAN, replace(KERNEL, tcp_retries2=3))
    assert span.covers(6.42, slack=0.01)
    assert span.covers(6.87, slack=0.01)
    assert span.high - span.low < 0.5


@pytest.mark.parametrize(
    ("rtt", "late"), [(0.0001, 0.04), (0.025, 0.04), (0.14, 0.14), (0.25, 0.2)]
)
def test_a_query_in_flight_counts_from_its_acknowledgement(rtt: float, late: float) -> None:
    """Keepalive 5/2/3 takes 11.05 to 11.30 s from the last segment of the server. That is its
    acknowledgement: a round trip after the query, or up to 40 ms later (on a long path: a round
    trip, at most 200 ms) if no answer carries it."""
    keepalive = Keepalive(idle=5, interval=2, count=3)
    span = hang(Waiting(kernel=KERNEL, keepalive=keepalive, path=Path(rtt=rtt)), KERNEL)
    assert span.low == pytest.approx(11.05 + rtt, abs=0.02)
    assert span.high == pytest.approx(11.30 + rtt + late, abs=0.04)


def test_a_slow_answer_makes_the_round_trip_seem_longer_and_the_promise_holds() -> None:
    """A server that takes more than 40 ms acknowledges after 40 ms: that is the SRTT, and the
    timeout is 244 ms. By hand with 9 s: 2 x 0.244 + 9 = 9.5 s plus the last timer's lateness."""
    made = settings("libpq", 10, KERNEL, LAN)
    assert made.bounds.user_timeout == 9000
    span = made.cases[1].span
    assert span is not None
    assert 2 * 0.244 + 9.0 <= span.high <= 10
