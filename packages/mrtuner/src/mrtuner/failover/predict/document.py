"""A prediction as JSON: ``mrtuner.failover.predict/1``; its cases are part of other documents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from mrtuner.catalog.timers import Evidence
from mrtuner.documents import Doc, Document, Struct, convert
from mrtuner.failover.predict.hang_times import Case
from mrtuner.failover.predict.timer_wheel import Band

if TYPE_CHECKING:
    from mrtuner.failover.predict.client import Client
    from mrtuner.failover.predict.hang_times import Prediction, Situation
    from mrtuner.failover.predict.kernel import Kernel


class PredictedCase(Struct):
    """How long a client hangs in one case."""

    case: Annotated[Case, Doc("what the client was doing when the server went away")]
    words: Annotated[str, Doc("the same for people")]
    span: Annotated[Band | None, Doc("from the client's own action; null: for ever")]
    decided_by: Annotated[str, Doc("the setting that ends it")]
    steps: Annotated[list[str], Doc("how it comes about")]
    traps: Annotated[list[str], Doc("what misleads")]
    noticed: Annotated[
        Band | None, Doc("with `away`: when the client notices that the address answers again")
    ]


class KernelSettings(Struct):
    """The kernel of the client's machine."""

    hz: Annotated[int, Doc("ticks per second")]
    release: Annotated[str, Doc("its version, such as 6.12")]
    settings: Annotated[dict[str, int], Doc("sysctls below net.ipv4 by name, in their own units")]
    origin: Annotated[dict[str, str], Doc("where each value that was read comes from, by name")]


class ClientSettings(Struct):
    """The limits of the client; null: no limit, or for keepalives the kernel's."""

    name: Annotated[str, Doc("the driver or pooler")]
    evidence: Annotated[Evidence, Doc("what the driver's defaults rest on")]
    connect_timeout: Annotated[float | None, Doc("seconds")]
    keepalives: Annotated[bool, Doc("whether keepalive probes are sent")]
    keepalives_idle: Annotated[int | None, Doc("seconds")]
    keepalives_interval: Annotated[int | None, Doc("seconds")]
    keepalives_count: Annotated[int | None, Doc("probes")]
    tcp_user_timeout: Annotated[int, Doc("milliseconds; 0: no limit")]
    read_timeout: Annotated[float | None, Doc("the client's own limit on each answer, in seconds")]
    pool_wait: Annotated[
        float | None, Doc("how long a pool lets its caller wait for a connection, in seconds")
    ]
    addresses: Annotated[int, Doc("addresses to try")]
    read_write: Annotated[bool, Doc("whether a read-only server is refused")]
    dns_ttl: Annotated[float, Doc("time to live of the server's name, in seconds")]
    ignored: Annotated[list[str], Doc("settings without effect, and why")]


class NetworkPath(Struct):
    """The path to the server."""

    rtt: Annotated[float, Doc("round-trip time in seconds")]
    rto: Annotated[
        float | None, Doc("retransmission timeout of a live connection in seconds, or null")
    ]


class PredictDocument(Document, tag="mrtuner.failover.predict/1"):
    """Written by `mrtuner failover predict --json`."""

    kernel: Annotated[KernelSettings, Doc("of the client's machine")]
    client: Annotated[ClientSettings, Doc("its settings")]
    path: Annotated[NetworkPath, Doc("how far it is to the server")]
    away: Annotated[float | None, Doc("after how many seconds the address answers again, or null")]
    between: Annotated[
        str | None,
        Doc("a pooler or proxy that answers in the server's place; null: none, or not tested"),
    ]
    cases: Annotated[list[PredictedCase], Doc("one for each case")]


def predict_document(
    situation: Situation, cases: Sequence[Prediction], between: str | None
) -> PredictDocument:
    """Return the prediction and everything that it is made from."""
    return PredictDocument(
        kernel=_kernel(situation.kernel),
        client=_client(situation.client),
        path=convert(situation.path, NetworkPath),
        away=situation.away,
        between=between,
        cases=[predicted_case(case) for case in cases],
    )


def predicted_case(one: Prediction) -> PredictedCase:
    return PredictedCase(
        case=one.case,
        words=one.case.words,
        span=band(one.span) if one.span else None,
        decided_by=one.decided_by,
        steps=list(one.steps),
        traps=list(one.traps),
        noticed=band(one.noticed) if one.noticed else None,
    )


def band(span: Band) -> Band:
    return Band(low=round(span.low, 3), mid=round(span.mid, 3), high=round(span.high, 3))


def _kernel(kernel: Kernel) -> KernelSettings:
    return KernelSettings(
        hz=kernel.hz,
        release=".".join(map(str, kernel.release)),
        settings=kernel.settings,
        origin=dict(kernel.origin),
    )


def _client(client: Client) -> ClientSettings:
    return ClientSettings(
        name=client.driver.name,
        evidence=client.driver.evidence,
        connect_timeout=client.connect_timeout,
        keepalives=client.keepalives,
        keepalives_idle=client.idle,
        keepalives_interval=client.interval,
        keepalives_count=client.count,
        tcp_user_timeout=client.user_timeout,
        read_timeout=client.read_timeout,
        pool_wait=client.pool_wait,
        addresses=client.addresses,
        read_write=client.read_write,
        dns_ttl=client.dns_ttl,
        ignored=list(client.ignored),
    )
