"""How long a client hangs when its server goes away."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from mrtuner.units import parse_duration

if TYPE_CHECKING:
    from mrtuner.failover.predict.client import Client
    from mrtuner.failover.predict.hang_times import Prediction, Situation
    from mrtuner.failover.predict.kernel import Kernel
    from mrtuner.failover.predict.path import Path

    Time = float | str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HangTimes:
    """The five cases of a failover, and what they were computed from."""

    situation: Situation
    cases: tuple[Prediction, ...]
    between: str | None  # a pooler or proxy between client and server


def failover(
    dsn: str | None = None,
    *,
    client: str = "libpq",
    kernel: Kernel | None = None,
    rtt: Time = None,
    user_timeout: Time = None,
    read_timeout: Time = None,
    dns_ttl: Time = None,
    away: Time = None,
) -> HangTimes:
    """Predict how long a client hangs in each of five cases, what decides it, and why.

    Times are seconds or texts such as ``"30s"``. `client` is a driver or pooler, `kernel` that of
    its machine, by default this one. With `dsn` its parameters are used, and without `rtt` it
    connects to read the round trip and the retransmission timeout from the live socket.
    `user_timeout`, `read_timeout` and `dns_ttl` are limits that the client has besides; `away` is
    after how long the address answers again. Nothing is changed.

    Raises:
        BadValue: there is no such client, or a value cannot be used.
        ConnectError: the server cannot be reached.
    """
    from mrtuner.failover.predict.hang_times import Situation, predict
    from mrtuner.failover.predict.kernel import local

    who, way, between = _client(client, dsn, _seconds(rtt))
    limits = {
        "user_timeout": user_timeout, "read_timeout": read_timeout, "dns_ttl": dns_ttl,
    }  # fmt: skip
    situation = Situation(
        kernel=kernel or local(), client=_limited(who, limits), path=way, away=_seconds(away)
    )
    return HangTimes(situation=situation, cases=tuple(predict(situation)), between=between)


def _seconds(length: Time) -> float | None:
    return None if length is None else parse_duration(length)


def _client(name: str, dsn: str | None, rtt: float | None) -> tuple[Client, Path, str | None]:
    """The client, its path to the server (given, measured or usual), and what is in between."""
    from mrtuner.failover.predict.client import configured, defaults, parameters_of
    from mrtuner.failover.predict.path import Path

    if dsn is None:
        return defaults(name), Path() if rtt is None else Path(rtt=rtt), None
    client = configured(name, parameters_of(dsn))
    if rtt is not None:
        return client, Path(rtt=rtt), None
    from mrtuner.failover.audit.session import met

    live, between = met(dsn)
    return client, Path(rtt=live.rtt, rto=live.rto, same=False), between


def _limited(client: Client, limits: dict[str, Time]) -> Client:
    """Return the client with the limits that were given besides its own."""
    given: dict[str, Any] = {
        name: parse_duration(value) for name, value in limits.items() if value is not None
    }
    if "user_timeout" in given:
        given["user_timeout"] = round(given["user_timeout"] * 1000)
    names = {"user_timeout": "tcp_user_timeout"}
    told = {names.get(name, name): "command line" for name in given}
    return replace(client, **given, origin={**client.origin, **told})
