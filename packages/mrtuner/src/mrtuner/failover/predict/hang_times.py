"""How long a client hangs in a failover: five cases, each with what decides it and why.

A pure function of the settings in force. Its model of the kernel was measured: some 200 hangs
on Linux 6.18, all within 0.03 s of the bands given here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from mrtuner.failover.predict import path
from mrtuner.failover.predict.client import Client
from mrtuner.failover.predict.kernel import Kernel
from mrtuner.failover.predict.path import Path
from mrtuner.failover.predict.tcp_timers import (
    Connecting,
    Keepalive,
    Trace,
    Unacknowledged,
    Waiting,
    hang,
    noticed,
)
from mrtuner.failover.predict.timer_wheel import Band
from mrtuner.wording import enumerated

#: What libpq's own login and the kernel's scheduling may add [s]; at most 0.03 when measured.
SLACK: Final = 0.1
#: A shorter round trip [s] has no visible effect on a hang.
_FAR: Final = 0.01


class Case(StrEnum):
    """What the client was doing when the server went away."""

    CONNECT = "connect"
    IDLE = "idle"
    FLIGHT = "flight"
    FROZEN = "frozen"
    STALE = "stale"

    @property
    def words(self) -> str:
        return _WORDS[self]


_WORDS: Final = {
    Case.CONNECT: "new connection",
    Case.IDLE: "idle connection, then a query",
    Case.FLIGHT: "query in flight",
    Case.FROZEN: "server frozen, its kernel answers",
    Case.STALE: "reconnected to a read-only server",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """One case. `span` [s] starts at the client's own action; None: forever."""

    case: Case
    span: Band | None
    decided_by: str
    steps: tuple[str, ...]
    traps: tuple[str, ...] = ()
    noticed: Band | None = None  # [s], if the address answers again after a given time


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """A client, its kernel, and its path to the server."""

    kernel: Kernel
    client: Client
    path: Path
    away: float | None = None  # s, after which the address answers again


def predict(situation: Situation) -> tuple[Prediction, ...]:
    """Return all five cases, in order."""
    return (
        connecting(situation),
        idle(situation),
        in_flight(situation),
        frozen(situation),
        stale(situation),
    )


def connecting(now: Situation) -> Prediction:
    """Case 1: the SYN is not answered."""
    client, kernel = now.client, now.kernel
    trace = Connecting(kernel=kernel, user_timeout=client.user_timeout)
    span = hang(trace, kernel)
    steps = list(_syn_steps(trace, span, client))
    decided = (
        _user_timeout(client) if client.user_timeout else kernel.with_origin("tcp_syn_retries")
    )
    if client.connect_timeout is not None and client.connect_timeout < span.high:
        span = span.at_most(Band.exactly(client.connect_timeout))
        decided = client.with_origin("connect_timeout", f"{client.connect_timeout:g}")
        steps.append(f"the client stops waiting after {client.connect_timeout:g} s")
    if client.addresses > 1:
        span = span.times(client.addresses)
        steps.append(f"each of {client.addresses} addresses is tried in turn")
    if client.pool_wait is not None:
        span = Band.exactly(client.pool_wait)
        decided = client.with_origin("pool_wait", f"{client.pool_wait:g}")
        steps.append(
            f"the pool tries again, while its caller waits {client.pool_wait:g} s in total"
        )
    return _with_return(
        Prediction(
            case=Case.CONNECT,
            span=span,
            decided_by=decided,
            steps=tuple(steps),
            traps=tuple(_connect_traps(now)),
        ),
        now,
        trace,
    )


def _syn_steps(trace: Connecting, span: Band, client: Client) -> Iterator[str]:
    kernel = trace.kernel
    even = f", {kernel.linear + 1} times at equal intervals" if kernel.linear else ""
    yield f"the SYN is sent again after 1 s{even}, then at doubling intervals"
    if client.user_timeout:
        yield f"{_user_timeout(client)} counts from the first SYN: {pretty_span(span)}"
    else:
        yield (
            f"{kernel.with_origin('tcp_syn_retries')} gives {trace.limit:g} s by the kernel's "
            f"model; the first timer after that ends it: {pretty_span(span)}"
        )


def _connect_traps(now: Situation) -> Iterator[str]:
    client = now.client
    yield from _doubts(client, "connect_timeout", "tcp_user_timeout")
    if client.addresses > 1:
        yield "connect_timeout applies to each address, not to all together"
        if client.driver.name == "rails":
            yield "before ruby-pg 1.6 the first address that does not answer ends the attempt"
    elif client.named and client.connect_timeout:
        yield "if the name has several addresses, connect_timeout applies to each"
    if client.driver.name == "pgbouncer":
        yield (
            "PgBouncer accepts logins even while a database it knows is down: run a query to be "
            "sure"
        )
    if now.kernel.linear and now.kernel.tcp_syn_retries > 2 and client.connect_timeout is None:
        yield "since Linux 6.5 the same tcp_syn_retries lasts 4 s longer"


def idle(now: Situation) -> Prediction:
    """Case 2: the query is sent but never acknowledged."""
    client, kernel = now.client, now.kernel
    trace = Unacknowledged(kernel=kernel, path=now.path, user_timeout=client.user_timeout)
    span = hang(trace, kernel)
    decided = _user_timeout(client) if client.user_timeout else kernel.with_origin("tcp_retries2")
    steps = (*path.describe(now.path, kernel), *_data_steps(trace, span, client))
    predicted = Prediction(
        case=Case.IDLE, span=span, decided_by=decided, steps=steps, traps=tuple(_idle_traps(now))
    )
    return _with_return(_read_bounded(predicted, client), now, trace)


def _data_steps(trace: Unacknowledged, span: Band, client: Client) -> Iterator[str]:
    if client.user_timeout:
        yield f"{_user_timeout(client)} counts from the first retransmission: {pretty_span(span)}"
        return
    kernel = trace.kernel
    cap = f"{kernel.tcp_rto_max_ms / 1000:g} s"
    yield (
        f"{kernel.with_origin('tcp_retries2')} gives {trace.limit:.1f} s by the kernel's model: "
        f"doublings of 0.2 s up to {cap}, whatever the real RTO"
    )
    yield f"the first timer after that ends it: {pretty_span(span)}"


def _idle_traps(now: Situation) -> Iterator[str]:
    kernel, client = now.kernel, now.client
    yield from client.ignored
    yield from _doubts(client, "tcp_user_timeout", "read_timeout")
    if client.driver.name == "sqlalchemy":
        yield "pool_pre_ping moves this hang to the checkout; it does not bound it"
    if client.keepalives and not client.user_timeout:
        yield "keepalive has no effect here: it is off while data is unacknowledged"
    if client.user_timeout:
        return
    same = same_hang(now, kernel.tcp_retries2)
    if same:
        yield f"tcp_retries2 = {enumerated(same)} give equally long hangs here"


def same_hang(now: Situation, retries: int) -> list[int]:
    """Neighbouring values of tcp_retries2 that make no difference on this path."""
    if len(now.path.first_rtos(now.kernel)) > 1:
        return []  # it depends on the age of the connection
    spans = {
        count: hang(
            Unacknowledged(kernel=replace(now.kernel, tcp_retries2=count), path=now.path),
            now.kernel,
        )
        for count in range(max(1, retries - 1), min(retries + 2, 16))
    }
    same = [count for count, span in spans.items() if span == spans.get(retries)]
    return same if len(same) > 1 else []


def in_flight(now: Situation) -> Prediction:
    """Case 3: the query was acknowledged, but its answer never comes."""
    client, kernel = now.client, now.kernel
    keepalive = client.keepalive(kernel)
    if keepalive is None:
        endless = Prediction(
            case=Case.FLIGHT,
            span=None,
            decided_by=client.with_origin("keepalives", "off"),
            steps=(
                "nothing is left to send, so the kernel never checks whether the peer is alive",
            ),
            traps=tuple(_flight_traps(client)),
        )
        return _read_bounded(endless, client)
    trace = Waiting(
        kernel=kernel, keepalive=keepalive, user_timeout=client.user_timeout, path=now.path
    )
    predicted = Prediction(
        case=Case.FLIGHT,
        span=hang(trace, kernel),
        decided_by=_keepalive_source(now, keepalive),
        steps=tuple(_keepalive_steps(trace)),
        traps=tuple(_flight_traps(client)),
    )
    return _with_return(_read_bounded(predicted, client), now, trace)


def _keepalive_steps(trace: Waiting) -> Iterator[str]:
    keepalive = trace.keepalive
    yield (
        f"a probe after {keepalive.idle} s without a segment from the server, "
        f"then one every {keepalive.interval} s"
    )
    if trace.path is not None and trace.path.rtt > _FAR:
        soon, late = (seconds * 1000 for seconds in trace.path.acknowledged())
        yield (
            f"all counted from the acknowledgement of the query, after {soon:.0f} to {late:.0f} ms"
        )
    if trace.user_timeout:
        yield (
            f"given up at the first probe after tcp_user_timeout = {trace.user_timeout} ms; the "
            f"count of {keepalive.count} is ignored"
        )
    else:
        yield f"given up after {keepalive.count} unanswered probes"
    yield f"the kernel's timer wheel fires late: {pretty_span(hang(trace, trace.kernel))}"


def _doubts(client: Client, *names: str) -> Iterator[str]:
    return (client.doubts[name] for name in names if name in client.doubts)


def _flight_traps(client: Client) -> Iterator[str]:
    yield from _doubts(client, "keepalives_idle", "keepalives_interval", "read_timeout")
    if not client.keepalives:
        yield "tcp_user_timeout alone has no effect here: nothing is unacknowledged"
    yield "statement_timeout is enforced by the server, so it ends nothing once the server is gone"
    if client.keepalives:
        yield "long queries are not affected: the kernel of a live server answers the probes"


def _keepalive_source(now: Situation, keepalive: Keepalive) -> str:
    text = f"{keepalive.idle}/{keepalive.interval}/{keepalive.count}"
    own = (now.client.idle, now.client.interval, now.client.count)
    if any(own):
        source = now.client.origin.get("keepalives_idle", f"default of {now.client.driver.title}")
        return f"keepalives_idle/_interval/_count = {text} ({source})"
    source = now.kernel.origin.get("tcp_keepalive_time", "kernel default")
    return f"tcp_keepalive_time/_intvl/_probes = {text} ({source})"


def frozen(now: Situation) -> Prediction:
    """Case 4: the process is stopped, but its kernel acknowledges everything."""
    client = now.client
    login = "forever" if client.login is None else f"{client.login:g} s"
    endless = Prediction(
        case=Case.FROZEN,
        span=None,
        decided_by=client.with_origin("read_timeout", "none"),
        steps=(
            "the server's kernel acknowledges the query and answers keepalive probes",
            f"a new connection's login hangs {login}",
        ),
        traps=("no TCP setting helps, only a limit in the client on each answer",),
    )
    return _read_bounded(endless, client)


def stale(now: Situation) -> Prediction:
    """Case 5: a server answers, but it is read-only or the old one."""
    client = now.client
    if client.read_write:
        most = client.dns_ttl + client.dns_cache
        ttl = f"the name's TTL = {client.dns_ttl:g} s ({client.origin.get('dns_ttl', 'assumed')})"
        whose = client.origin.get("networkaddress.cache.ttl", "default of the JVM")
        cache = f"networkaddress.cache.ttl = {client.dns_cache:g} ({whose})"
        return Prediction(
            case=Case.STALE,
            span=Band(0.0, most / 2, most),
            decided_by=f"{client.chooses}, then {ttl}"
            + (f" and {cache}" if client.dns_cache else ""),
            steps=(
                "a read-only server is rejected when connecting, so a retry tries the next one",
                f"the name may point there for its TTL, {client.dns_ttl:g} s",
                *_cached(client),
            ),
        )
    return Prediction(
        case=Case.STALE,
        span=None,
        decided_by=client.chooses,
        steps=("every query is answered, but every write fails with SQLSTATE 25006",),
        traps=("a pool keeps such a connection, because SELECT 1 succeeds on it",),
    )


def _cached(client: Client) -> Iterator[str]:
    if client.dns_cache:
        yield f"the JVM keeps what it looked up last for {client.dns_cache:g} s more"


def _read_bounded(predicted: Prediction, client: Client) -> Prediction:
    """Apply the client's limit on each answer, which ends what the kernel would let continue."""
    limit, wait = client.read_timeout, client.driver.cancel_wait
    if limit is None or (predicted.span is not None and predicted.span.high <= limit):
        return predicted
    steps = [*predicted.steps, f"the client stops waiting for the answer after {limit:g} s"]
    bound = Band.exactly(limit)
    if wait is None:
        span = bound if predicted.span is None else predicted.span.at_most(bound)
    else:
        span = bound.plus(_cancelling(predicted.case, client, wait))
        steps.append(
            "it then opens a connection to cancel the query: connect_timeout if nothing answers, "
            f"and up to {wait:g} s more for the server to react"
        )
    return replace(
        predicted,
        span=span,
        decided_by=client.with_origin("read_timeout", f"{limit:g}"),
        steps=tuple(steps),
    )


def _cancelling(case: Case, client: Client, wait: float) -> Band:
    """What cancelling takes: a vanished server lets no connection through, a frozen one does."""
    connect = client.connect_timeout or 0.0
    if case is Case.FROZEN:
        return Band(min(wait, connect), connect, connect + wait)
    return Band.exactly(connect)


def _with_return(predicted: Prediction, now: Situation, trace: Trace) -> Prediction:
    """Add when the client notices that the address answers again, if `away` is given."""
    client = now.client
    again = predicted.case is Case.CONNECT and (client.pool_wait or client.addresses > 1)
    if now.away is None or predicted.span is None or again:
        return predicted  # a new attempt restarts its timers
    found = noticed(trace, now.kernel, now.away).at_most(predicted.span)
    return replace(predicted, noticed=found)


def _user_timeout(client: Client) -> str:
    return client.with_origin("tcp_user_timeout", client.user_timeout)


def pretty_span(span: Band | None) -> str:
    """Format for display: ``45.4 to 47.4 s``, ``15 min 38 s``.

    >>> pretty_span(Band(45.36, 46.4, 47.41)), pretty_span(Band.exactly(3)), pretty_span(None)
    ('45.4 to 47.4 s', '3.0 s', 'forever')
    """
    if span is None:
        return "forever"
    low, high = _clock(span.low), _clock(span.high)
    if low == high:
        return low
    return f"{low.removesuffix(' s')} to {high}" if span.high < 120 else f"{low} to {high}"


def _clock(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 120:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"
