"""Waiting by formula: exact for Poisson arrivals and exponential times, a first look otherwise.

Erlang C gives the share of requests that wait; the time follows an exponential law, stretched by
Allen and Cunneen's factor k = (c_a² + c_s²) / 2 (Allen, Probability, Statistics and Queueing
Theory, 2nd ed. 1990, section 5.2).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Final

from mrtuner.described import Doc
from mrtuner.errors import BadValue
from mrtuner_pods.waiting.routing import Routing

#: Above this c_s², the formula's tail is too long: by a quarter at 4 (bench/waiting_simulated.py).
_EVEN_ENOUGH: Final = 1.25
#: Nearer to its capacity a queue is rarely in its steady state, which the formula describes.
_NEAR_CAPACITY: Final = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class PodsScreen:
    """What the formulas of Erlang C and Allen and Cunneen give, before the simulation."""

    utilisation: Annotated[float, Doc("of the slots")]
    waits: Annotated[float, Doc("share of the requests that wait")]
    p95: Annotated[float, Doc("p95 wait")]
    doubts: Annotated[tuple[str, ...], Doc("why it may be unreliable here")]


def erlang_c(servers: int, load: float) -> float:
    """Return the share of requests that wait at `servers` equal servers; `load` is λS.

    By the recursion of Erlang B, which neither overflows nor cancels.

    >>> round(erlang_c(1, 0.7), 12), round(erlang_c(2, 1.0), 12) == round(1 / 3, 12)
    (0.7, True)
    """
    if servers < 1 or not 0 <= load < servers:
        raise BadValue(
            f"{servers} servers cannot serve a load of {load:g}", "Give more servers than load."
        )
    blocked = 1.0
    for count in range(1, servers + 1):
        blocked = load * blocked / (count + load * blocked)
    return servers * blocked / (servers - load * (1 - blocked))


def wait_beyond(share: float, servers: int, load: float, service: float, stretch: float) -> float:
    """Return the wait that this share of the requests exceeds; 0 if fewer wait at all."""
    waits = erlang_c(servers, load)
    if waits <= share:
        return 0.0
    return math.log(waits / share) * stretch * service / (servers - load)


def screen(
    *,
    rate: float,
    service: float,
    variation: float,
    pods: int,
    servers: int,
    routing: Routing,
    arrival_variation: float = 1.0,
) -> PodsScreen:
    """Return the p95 wait by formula for `pods` queues of `servers` each.

    With random routing, arrivals at a pod are nearer to Poisson: 1 + (c_a² - 1) / pods.
    Round robin gives each pod every n-th request, so c_a² is divided by the pods. If the shorter
    queue is chosen, the formula gives only a lower bound: one queue for all. Raises BadValue if the
    load is not below the capacity.
    """
    shares, spread = pods, arrival_variation**2
    if routing is Routing.RANDOM:
        spread = 1 + (spread - 1) / pods
    elif routing is Routing.ROUND_ROBIN:
        spread /= pods
    else:
        shares = 1
    count, load = servers * pods // shares, rate * service / shares
    return PodsScreen(
        utilisation=load / count,
        waits=erlang_c(count, load),
        p95=wait_beyond(0.05, count, load, service, (spread + variation**2) / 2),
        doubts=tuple(_doubts(variation, arrival_variation, load / count, pods, routing)),
    )


def _doubts(
    variation: float, arrivals: float, utilisation: float, pods: int, routing: Routing
) -> list[str]:
    found = []
    if variation**2 > _EVEN_ENOUGH:
        found.append(f"service times vary a lot (c = {variation:.2g}): its tail is too long")
    if arrivals > 1:
        found.append(f"requests arrive in bursts (c = {arrivals:.2g})")
    if pods > 1 and routing in {Routing.TWO_CHOICES, Routing.LEAST_CONNECTIONS}:
        found.append(f"{routing.words} is between one queue and many: this is the lower bound")
    elif pods > 1 and routing is Routing.ROUND_ROBIN:
        found.append("with round robin, arrivals at a pod are more even than it assumes")
    if utilisation > _NEAR_CAPACITY:
        found.append("so close to capacity, a queue is rarely in a steady state")
    return found
