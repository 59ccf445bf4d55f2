"""Servers 0.2 to 250 ms away that vanish: predictions come true, and promised bounds hold.

Measured on real TCP through a relay that takes half a round trip each way (failover_far.py).
"""

from __future__ import annotations

import errno
import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import failover_far
import pytest

from machine import needs
from mrtuner.failover.predict.client import Client, defaults
from mrtuner.failover.predict.hang_times import SLACK, Case, Situation, predict
from mrtuner.failover.predict.kernel import Kernel, local
from mrtuner.failover.predict.path import Path
from mrtuner.failover.settings.advice import settings

pytestmark = [
    pytest.mark.timed, pytest.mark.quiet, pytest.mark.usefixtures("asks", "namespaces"),
    needs("/dev/net/tun", "ip"),
]  # fmt: skip

#: From an office network to the far side of an ocean [s].
ROUND_TRIPS = (0.0002, 0.025, 0.07, 0.14, 0.25)
#: The connection's age, as exchanges before the silence, and the size of the request.
IDLE: list[dict[str, Any]] = [
    {"case": "idle", "exchanges": exchanges, "size": size}
    for exchanges in (0, 1, 3, 30)
    for size in (5, 2500, 64_000)
]  # fmt: skip
LIMITED: list[dict[str, Any]] = [
    {"case": "idle", "exchanges": exchanges, "size": size, "user_timeout": 4000}
    for exchanges in (1, 30)
    for size in (5, 64_000)
]  # fmt: skip
FLIGHT: list[dict[str, Any]] = [
    {"case": "flight", "keepalive": [2, 1, 3], "exchanges": exchanges} for exchanges in (1, 5)
]


def measured(
    rtt: float, clients: Sequence[Mapping[str, Any]], sysctls: Mapping[str, int]
) -> list[dict[str, Any]]:
    """Each client's hang [s], with its timeout and round trip."""
    request = {"rtt": rtt, "clients": clients, "sysctls": sysctls}
    done = subprocess.run(
        failover_far.command(), input=json.dumps(request),
        capture_output=True, text=True, check=False, timeout=200,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    print(rtt, sysctls, done.stdout)
    found: list[dict[str, Any]] = json.loads(done.stdout)
    assert {one["errno"] for one in found} == {errno.ETIMEDOUT}
    return found


def band(client: Client, kernel: Kernel, rtt: float, case: Case) -> Any:
    """The span predicted when the round trip is known, but nothing about the socket."""
    found = predict(Situation(kernel=kernel, client=client, path=Path(rtt=rtt)))
    return next(one.span for one in found if one.case is case)


def client_of(one: Mapping[str, Any]) -> Client:
    idle, interval, count = one.get("keepalive", (None, None, None))
    return replace(
        defaults("libpq"), idle=idle, interval=interval, count=count,
        user_timeout=one.get("user_timeout", 0),
    )  # fmt: skip


@pytest.mark.parametrize("rtt", ROUND_TRIPS)
def test_a_hang_lies_in_its_band_at_any_age_and_for_requests_up_to_64_kb(rtt: float) -> None:
    kernel = replace(local(), tcp_retries2=3)
    found = measured(rtt, [*IDLE, *LIMITED, *FLIGHT], {"tcp_retries2": 3})
    for one in found:
        span = band(client_of(one), kernel, rtt, Case(one["case"]))
        assert span.covers(one["hang"], slack=SLACK), one


@pytest.mark.parametrize(("within", "rtt"), [(24.0, 0.14), (12.0, 0.25), (6.0, 0.025)])
def test_what_sysctls_promise_is_never_exceeded(within: float, rtt: float) -> None:
    """For 24 s and 140 ms, 22.4 s were once promised, but 25.3 to 25.5 s measured."""
    made = settings("pgjdbc", within, local(), Path(rtt=rtt))
    keepalive = made.bounds.keepalive
    sysctls = {
        name.removeprefix("net.ipv4."): value for name, value in made.bounds.sysctls().items()
    }
    own = [keepalive.idle, keepalive.interval, keepalive.count]
    clients = [*IDLE, {"case": "flight", "keepalive": own, "exchanges": 2}]
    for one in measured(rtt, clients, sysctls):
        span = made.cases[1 if one["case"] == "idle" else 2].span
        assert span is not None
        assert one["hang"] <= span.high + SLACK, one
        assert one["hang"] <= within, one


@pytest.mark.parametrize(("within", "rtt"), [(24.0, 0.14), (12.0, 0.25), (6.0, 0.025)])
def test_what_a_user_timeout_promises_is_never_exceeded(within: float, rtt: float) -> None:
    made = settings("libpq", within, local(), Path(rtt=rtt))
    keepalive, user = made.bounds.keepalive, made.bounds.user_timeout
    own = {"keepalive": [keepalive.idle, keepalive.interval, keepalive.count], "user_timeout": user}
    clients = [{**one, **own} for one in (*IDLE, {"case": "flight", "exchanges": 2})]
    for one in measured(rtt, clients, {}):
        span = made.cases[1 if one["case"] == "idle" else 2].span
        assert span is not None
        assert one["hang"] <= span.high + SLACK, one
        assert one["hang"] <= within, one
