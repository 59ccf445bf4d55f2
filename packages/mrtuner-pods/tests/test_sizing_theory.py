"""The simulation agrees with theory within 2 %, the recursion with its sums."""

from __future__ import annotations

from random import Random
from statistics import fmean

import pytest

from mrtuner.errors import BadValue
from mrtuner_pods.waiting.erlang import erlang_c, screen, wait_beyond
from mrtuner_pods.waiting.queues import Accepting, Layout, quantile, settled, waits
from mrtuner_pods.waiting.routing import Routing
from mrtuner_pods.waiting.service_times import Times, arrivals
from queueing_theory import (
    mean_wait_mg1,
    mean_wait_mmc,
    p95_wait_mmc,
    share_that_waits,
    wait_beyond_md1,
)

COUNT = 500_000
#: With so many, the means of two seeds differ by 1 % for eight servers that are often idle.
MANY = 1_200_000


def simulated(
    layout: Layout, load: float, variation: float, seed: int, count: int = COUNT
) -> list[float]:
    """`load` is of all slots together; the mean service time is 1."""
    chance = Random(seed)
    arriving = arrivals(load, count, chance)
    times = Times(mean=1.0, variation=variation).draw(chance, count)
    return list(settled(waits(arriving, times, layout, Routing.RANDOM, chance)))


@pytest.mark.parametrize(("servers", "busy"), [(1, 0.5), (2, 0.7), (8, 0.7), (8, 0.8)])
def test_equal_servers_wait_as_erlang_says(servers: int, busy: float) -> None:
    load = servers * busy
    found = simulated(Layout(pods=1, workers=servers), load, 1, seed=servers, count=MANY)
    assert fmean(found) == pytest.approx(mean_wait_mmc(servers, load), rel=0.02)
    assert quantile(found, 0.95) == pytest.approx(p95_wait_mmc(servers, load), rel=0.02)
    waiting = sum(wait > 0 for wait in found) / len(found)
    assert waiting == pytest.approx(share_that_waits(servers, load), rel=0.02)


@pytest.mark.parametrize("variation", [0.0, 0.5, 1.5])
def test_one_server_waits_as_pollaczek_and_khinchine_say(variation: float) -> None:
    found = simulated(Layout(pods=1, workers=1), 0.5, variation, seed=5)
    assert fmean(found) == pytest.approx(mean_wait_mg1(0.5, variation**2), rel=0.02)


def test_constant_times_have_the_tail_of_1909() -> None:
    found = simulated(Layout(pods=1, workers=1), 0.6, 0, seed=6)
    for time in (0.5, 1.5, 2.5):
        beyond = sum(wait > time for wait in found) / len(found)
        assert beyond == pytest.approx(wait_beyond_md1(0.6, time), rel=0.02)


def test_random_routing_makes_a_queue_of_its_own_of_every_pod() -> None:
    """Four pods of two: each an M/M/2 of a quarter of the requests."""
    found = simulated(Layout(pods=4, workers=2), 5.6, 1, seed=7)
    assert quantile(found, 0.95) == pytest.approx(p95_wait_mmc(2, 1.4), rel=0.02)


def test_workers_that_accept_while_busy_have_a_queue_each() -> None:
    """Two workers of three threads: each an M/M/3 of half of the requests."""
    layout = Layout(pods=1, workers=2, threads=3, accepting=Accepting.ANY)
    found = simulated(layout, 4.2, 1, seed=8)
    assert quantile(found, 0.95) == pytest.approx(p95_wait_mmc(3, 2.1), rel=0.02)


@pytest.mark.parametrize(("servers", "load"), [(1, 0.7), (2, 1.0), (8, 5.6), (30, 27.0)])
def test_the_recursion_gives_the_sums(servers: int, load: float) -> None:
    assert erlang_c(servers, load) == pytest.approx(share_that_waits(servers, load), rel=1e-9)


def test_many_servers_neither_overflow_nor_cancel() -> None:
    """A load of 5,000 on 5,100 servers; the factorial has 16,000 digits."""
    assert 0.05 < erlang_c(5100, 5000) < 0.25


@pytest.mark.parametrize(("servers", "load"), [(0, 0.5), (2, 2.0), (2, 3.0), (2, -1.0)])
def test_no_share_waits_where_a_queue_grows_for_ever(servers: int, load: float) -> None:
    with pytest.raises(BadValue, match="cannot serve"):
        erlang_c(servers, load)


def test_nobody_in_the_last_twentieth_waits_with_room_to_spare() -> None:
    assert wait_beyond(0.05, 8, 1.0, 1.0, 1.0) == 0.0


def screened(**given: object) -> tuple[float, str]:
    usual = {"rate": 5.6, "service": 1.0, "variation": 1.0, "pods": 1, "servers": 8}
    found = screen(**(usual | {"routing": Routing.RANDOM} | given))  # type: ignore[arg-type]
    return found.p95, "; ".join(found.doubts)


def test_the_screen_says_the_figures_of_the_reference_and_when_not_to_trust_it() -> None:
    """Table of the research: 0.35, 0.70 and 1.76 service times for c² = 0, 1, 4."""
    for variation, expected in ((1.0, 0.70), (0.0, 0.35)):
        p95, doubts = screened(variation=variation)
        assert p95 == pytest.approx(expected, abs=0.005)
        assert doubts == ""
    p95, doubts = screened(variation=2.0)
    assert p95 == pytest.approx(1.76, abs=0.005)
    assert "vary a lot (c = 2)" in doubts
    assert "lower bound" in screened(pods=4, servers=2, routing=Routing.LEAST_CONNECTIONS)[1]
    assert "bursts" in screened(arrival_variation=2.0)[1]
    assert "steady state" in screened(rate=7.8)[1]


def test_the_screen_takes_each_pod_by_itself_under_random_routing() -> None:
    assert screened(pods=4, servers=2)[0] == pytest.approx(p95_wait_mmc(2, 1.4), rel=1e-9)
