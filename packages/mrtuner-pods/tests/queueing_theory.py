"""Waiting times by textbook formulas, written independently of the code that they test."""

from __future__ import annotations

from math import exp, factorial, log


def share_that_waits(servers: int, load: float) -> float:
    """Erlang C by its sums; the code uses a recursion."""
    last = load**servers / factorial(servers) * servers / (servers - load)
    return last / (sum(load**k / factorial(k) for k in range(servers)) + last)


def mean_wait_mmc(servers: int, load: float) -> float:
    """In units of the mean service time."""
    return share_that_waits(servers, load) / (servers - load)


def p95_wait_mmc(servers: int, load: float) -> float:
    """From P(W > t) = C exp(-(c - a) t)."""
    return log(share_that_waits(servers, load) / 0.05) / (servers - load)


def mean_wait_mg1(load: float, squared_variation: float) -> float:
    """Pollaczek and Khinchine."""
    return load * (1 + squared_variation) / 2 / (1 - load)


def wait_beyond_md1(load: float, time: float) -> float:
    """P(W > t) of M/D/1 (Erlang 1909), for the time in units of the service time."""
    below = (1 - load) * sum(
        (load * (k - time)) ** k / factorial(k) * exp(-load * (k - time))
        for k in range(int(time) + 1)
    )
    return 1 - below
