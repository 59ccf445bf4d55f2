"""Settings really in force: on live connections, at the server, and in between.

Judged by the sockets' own options, not by files. A finding is a hang longer than the bound, or
a server that keeps backends whose clients are gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from mrtuner.catalog.timers import driver
from mrtuner.facts import Missing
from mrtuner.failover.audit.connections import Connection
from mrtuner.failover.predict.client import Client
from mrtuner.failover.predict.hang_times import (
    Case,
    Prediction,
    Situation,
    idle,
    in_flight,
    pretty_span,
)
from mrtuner.failover.predict.kernel import Kernel
from mrtuner.failover.predict.path import Path
from mrtuner.failover.predict.tcp_timers import Keepalive
from mrtuner.failover.sockets import Options
from mrtuner.units import pretty_duration

#: Server settings that decide how long a backend outlives its client.
SERVER: Final = (
    "tcp_keepalives_idle",
    "tcp_keepalives_interval",
    "tcp_keepalives_count",
    "tcp_user_timeout",
    "client_connection_check_interval",
)
#: The longest that a backend without its client may remain [s]; chosen, not measured.
IDLE: Final = 300
_ORIGIN: Final = dict.fromkeys(("keepalives", "keepalives_idle", "tcp_user_timeout"), "socket")


@dataclass(frozen=True, slots=True, kw_only=True)
class Audited:
    """One connection, and what a silent server would do to it."""

    connection: Connection
    cases: tuple[Prediction, ...]  # idle and in flight; empty if the options are unknown
    findings: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """Everything that was examined."""

    within: float
    connections: tuple[Audited, ...]
    server: Mapping[str, str]  # its settings; empty without a session
    findings: tuple[str, ...]  # about the server, and about what is in between

    @property
    def found(self) -> bool:
        return bool(self.findings) or any(one.findings for one in self.connections)

    @property
    def unjudged(self) -> tuple[Missing, ...]:
        """Connections of which only the armed timer is known, not when it gives up."""
        return tuple(
            Missing(
                f"{one.connection.local} - {one.connection.peer}", "its socket could not be read",
                hint="Run as root, on a kernel that has pidfd_getfd.",
            )
            for one in self.connections if not one.cases and not one.findings
        )  # fmt: skip


def audit(
    connections: Iterable[Connection],
    kernel: Kernel,
    within: float,
    *,
    server: Mapping[str, str] | None = None,
    between: str | None = None,
) -> Audit:
    """Judge connections and the server. A hang longer than `within` [s] is a finding.

    `server`: its settings in base units; `between`: what answers in its place.
    """
    settings = server or {}
    return Audit(
        within=within,
        connections=tuple(judged(one, kernel, within) for one in connections),
        server=settings,
        findings=(*_between(between), *_server(settings)),
    )


def judged(connection: Connection, kernel: Kernel, within: float) -> Audited:
    seen = connection.options
    if seen is None:  # without the socket, only one thing is known
        forever = f"{Case.FLIGHT.words}: forever, no keepalive timer is armed"
        said = (forever,) if connection.timer is None else ()
        return Audited(connection=connection, cases=(), findings=said)
    path = Path(rtt=seen.rtt, rto=max(seen.rto, 1 / kernel.hz))
    situation = Situation(kernel=kernel, client=client_of(seen), path=path)
    cases = (idle(situation), in_flight(situation))
    findings = tuple(
        f"{case.case.words}: {pretty_span(case.span)}, by {case.decided_by}"
        for case in cases
        if case.span is None or case.span.high > within
    )
    return Audited(connection=connection, cases=cases, findings=findings)


def client_of(seen: Options) -> Client:
    """The client that has a socket's options."""
    return Client(
        driver=driver("libpq"),
        connect_timeout=None,
        keepalives=seen.keepalives,
        idle=seen.idle,
        interval=seen.interval,
        count=seen.count,
        user_timeout=seen.user_timeout,
        origin=_ORIGIN,
    )


def _between(name: str | None) -> Iterator[str]:
    if name is not None:
        yield (
            f"{name} stands in between: a login through it proves nothing, and its own "
            "connections to the server cannot be seen from here; audit it on its host"
        )


def _server(settings: Mapping[str, str]) -> Iterator[str]:
    """Report that vanished clients' backends stay, with locks and slots of max_connections."""
    if not settings:
        return
    if settings.get("client_connection_check_interval") == "0":
        yield (
            "client_connection_check_interval = 0: the server finishes queries even if the client "
            "has disconnected"
        )
    idle, interval, count, user = (int(settings.get(name, "0")) for name in SERVER[:4])
    if not (idle and interval and count):  # a Unix socket; over TCP these are the values in force
        return
    stays = Keepalive(idle=idle, interval=interval, count=count).ends_after(user)
    if stays > IDLE:
        besides = f", tcp_user_timeout = {user / 1000:g} s" if user else ""
        yield (
            f"tcp_keepalives_idle = {idle} s, _interval = {interval} s, _count = {count}{besides} "
            f"at the server: backends stay {pretty_duration(stays)} after their clients vanished"
        )
