"""What is in force on live connections, as JSON: ``mrtuner.failover.audit/1``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from mrtuner.documents import Doc, Document, NotJudged, Struct, convert, field
from mrtuner.failover.predict.document import PredictedCase, predicted_case

if TYPE_CHECKING:
    from mrtuner.failover.audit.check import Audit, Audited


class SocketOptions(Struct):
    """The options and timers of a socket."""

    keepalives: Annotated[bool, Doc("whether keepalive probes are sent")]
    idle: Annotated[int, Doc("seconds")] = field(name="keepalives_idle")
    interval: Annotated[int, Doc("seconds")] = field(name="keepalives_interval")
    count: Annotated[int, Doc("probes")] = field(name="keepalives_count")
    user_timeout: Annotated[int, Doc("milliseconds; 0: no limit")] = field(name="tcp_user_timeout")
    rto: Annotated[float, Doc("retransmission timeout in seconds")]
    rtt: Annotated[float, Doc("smoothed round-trip time in seconds")]


class AuditedConnection(Struct):
    """One connection, and what a silent server would do to it."""

    local: Annotated[str, Doc("its end here")]
    peer: Annotated[str, Doc("its other end")]
    process: Annotated[str | None, Doc("who has it; null: another user's")]
    pid: Annotated[int | None, Doc("of that process; null: another user's")]
    timer: Annotated[str | None, Doc("what the kernel has armed: keepalive, on, …; or null")]
    options: Annotated[SocketOptions | None, Doc("null when they may not be read")]
    cases: Annotated[list[PredictedCase], Doc("idle and flight; empty without options")]
    findings: Annotated[list[str], Doc("hangs longer than `within`")]


class AuditDocument(Document, tag="mrtuner.failover.audit/1"):
    """Written by `mrtuner failover audit --json`."""

    within: Annotated[float, Doc("longer hangs are findings [s]")]
    connections: Annotated[list[AuditedConnection], Doc("every connection that was examined")]
    server: Annotated[
        dict[str, str],
        Doc("settings against ghost backends by name, in base units; empty without a session"),
    ]
    findings: Annotated[list[str], Doc("about the server, and about what is in between")]
    unjudged: Annotated[list[NotJudged], Doc("connections that could not be judged")] = field(
        default_factory=list
    )


def audit_document(done: Audit) -> AuditDocument:
    return AuditDocument(
        within=done.within,
        connections=[_connection(one) for one in done.connections],
        server=dict(done.server),
        findings=list(done.findings),
        unjudged=[convert(one, NotJudged) for one in done.unjudged],
    )


def _connection(one: Audited) -> AuditedConnection:
    seen = one.connection
    return AuditedConnection(
        local=seen.local,
        peer=seen.peer,
        process=seen.process,
        pid=seen.pid,
        timer=seen.timer,
        options=convert(seen.options, SocketOptions) if seen.options else None,
        cases=[predicted_case(case) for case in one.cases],
        findings=list(one.findings),
    )
