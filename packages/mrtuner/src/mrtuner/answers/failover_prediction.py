"""How long a client hangs when its server goes away, and what is in force against it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from mrtuner.errors import MrTunerError, UsageError
from mrtuner.units import parse_duration

if TYPE_CHECKING:
    from mrtuner.failover.audit.check import Audit
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
    its machine, by default this one. With `dsn`, libpq's string or a JDBC URL, its parameters are
    used, and without `rtt` it connects to read the round trip and the retransmission timeout from
    the live socket.
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


def audit(
    dsn: str | None = None,
    *,
    pid: int | None = None,
    port: int | None = None,
    within: float | str = "60s",
) -> Audit:
    """Judge what is in force on live connections against the longest hang allowed.

    Either of one connection that `dsn` opens, and of its server; or of all that process `pid` of
    this machine has open; or of all that lead from here to `port`.

    Raises:
        UsageError: not exactly one of them is given.
        MrTunerError: no such connection is open on this machine.
        ConnectError: the server cannot be reached.
    """
    from mrtuner.failover.audit import connections, session
    from mrtuner.failover.audit.check import audit as judged
    from mrtuner.failover.predict.kernel import local

    longest = parse_duration(within)
    if [dsn, pid, port].count(None) != 2:
        raise UsageError("nothing to audit", "Give a connection string, a PID, or --port 5432.")
    if dsn is not None:
        seen = session.look(dsn)
        return judged(
            [seen.connection], local(), longest, server=seen.settings, between=seen.between
        )
    found = connections.to_port(port) if port is not None else connections.of_process(pid or 0)
    if not found:
        whose = f"of process {pid}" if port is None else f"to port {port}"
        raise MrTunerError(
            f"no open TCP connection {whose} on this machine",
            "For a container, use its network namespace: nsenter -t PID -n mrtuner failover "
            "audit …",
        )
    return judged(found, local(), longest)


def _seconds(length: Time) -> float | None:
    return None if length is None else parse_duration(length)


def _client(name: str, dsn: str | None, rtt: float | None) -> tuple[Client, Path, str | None]:
    """The client, its path to the server (given, measured or usual), and what is in between."""
    from mrtuner.failover.predict.client import client_with, defaults
    from mrtuner.failover.predict.jdbc_url import PREFIX, JdbcUrl
    from mrtuner.failover.predict.path import Path

    if dsn is None:
        return defaults(name), Path() if rtt is None else Path(rtt=rtt), None
    if dsn.startswith(PREFIX):
        url = JdbcUrl.read(dsn)
        client, dsn = url.client(name), url.conninfo()
    else:
        client = client_with(name, dsn)
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
