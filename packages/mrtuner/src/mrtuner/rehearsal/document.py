"""What the documents of a rehearsed outage share: probes, gaps, the ledger, clients, marks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, TypeVar

from mrtuner.documents import Doc, Struct, convert
from mrtuner.rehearsal.observation import ProbeKind, WriteLedger

if TYPE_CHECKING:
    from mrtuner.rehearsal.observation import Observation, ServerIdentity

_Part = TypeVar("_Part", bound=Struct)
#: Values of `ProbeLog.columns`, in their order. The last is a place in `ProbeLog.servers`.
Row = tuple[ProbeKind, float, float, float | None, float, str | None, int | None]


class AnsweringServer(Struct):
    """A server that answered."""

    started: Annotated[str, Doc("when it was started: ISO 8601, UTC")]
    standby: Annotated[bool, Doc("whether it was in recovery")]
    address: Annotated[
        str | None, Doc("host and port that the client connected to; null for a Unix socket")
    ]
    own: Annotated[str | None, Doc("host and port as the server itself sees them")]
    timeline: Annotated[int | None, Doc("of its WAL; null on a standby or without permission")]
    system: Annotated[str | None, Doc("system identifier; null without permission")]


class AnswerGap(Struct):
    """A time in which one kind of probe got no good answer; seconds since the first probe."""

    kind: Annotated[ProbeKind, Doc("what the probe does")]
    last_answer: Annotated[float | None, Doc("the last good answer before; null: none")]
    began: Annotated[float, Doc("when the first attempt of the gap was due")]
    first_failure: Annotated[float | None, Doc("the first error; null: clients only waited")]
    answer: Annotated[float | None, Doc("the first answer; null: none until the probes ended")]
    least: Annotated[float, Doc("the shortest that the server can have been away [s]")]
    most: Annotated[float | None, Doc("the longest [s]; null while there was no answer")]
    failed: Annotated[int, Doc("attempts that ended with an error")]
    late: Annotated[int, Doc("attempts answered after more than a second")]
    errors: Annotated[list[str], Doc("each message once")]


class ProbeLog(Struct):
    """Everything that the probes saw, in seconds since the first probe."""

    began: Annotated[str, Doc("when the first probe was sent: ISO 8601, UTC")]
    seconds: Annotated[float, Doc("how long probes were sent")]
    interval: Annotated[float, Doc("between two probes of a kind")]
    timeout: Annotated[float, Doc("after which an attempt was given up")]
    kinds: Annotated[list[ProbeKind], Doc("the probes that were sent")]
    skipped: Annotated[int, Doc("attempts left out: too many were still without an answer")]
    lag: Annotated[float, Doc("the most by which an attempt was sent late")]
    restarted: Annotated[bool, Doc("whether servers with different start times answered")]
    went_away: Annotated[bool, Doc("whether anything happened that a client could notice")]
    servers: Annotated[list[AnsweringServer], Doc("in the order in which they first answered")]
    gaps: Annotated[list[AnswerGap], Doc("times without good answers, kind by kind")]
    ledger: Annotated[WriteLedger | None, Doc("null without writes, or if they were not counted")]
    left_behind: Annotated[str | None, Doc("the probes' schema, if it could not be dropped")]
    columns: Annotated[list[str], Doc("names of the values in a row of `attempts`")]
    attempts: Annotated[
        list[Row], Doc("a row for each attempt; `server` is a place in `servers`, from 0")
    ]


class ClientOutage(Struct):
    """The outage for one kind of client, in seconds since it was triggered."""

    kind: Annotated[ProbeKind, Doc("what the client does")]
    words: Annotated[str, Doc("the same in words")]
    last_success: Annotated[float | None, Doc("the last good answer before; null: none")]
    first_failure: Annotated[float | None, Doc("the first error; null: clients only waited")]
    first_success: Annotated[float | None, Doc("the first answer after the last gap; null: none")]
    least: Annotated[float, Doc("the shortest that it can have been without answers, all gaps")]
    most: Annotated[float | None, Doc("the longest; null: still without an answer at the end")]
    gaps: Annotated[int, Doc("number of gaps")]
    failed: Annotated[int, Doc("attempts that ended with an error")]
    late: Annotated[int, Doc("attempts answered after more than a second")]
    errors: Annotated[list[str], Doc("each message once")]


class ProbedRun(Struct):
    """One failover as the clients of one way saw it; seconds since the first probe."""

    asked: Annotated[float, Doc("when it was triggered")]
    accepted: Annotated[float, Doc("when the trigger had returned")]
    settled: Annotated[bool, Doc("whether all was well again in time")]
    observation: Annotated[ProbeLog, Doc("what every probe saw")]


def probe_log(seen: Observation) -> ProbeLog:
    """Return what the probes saw; attempts as short rows, since there are thousands."""
    return ProbeLog(
        began=seen.began.isoformat(),
        seconds=round(seen.seconds, 3),
        interval=seen.interval,
        timeout=seen.timeout,
        kinds=list(seen.kinds),
        skipped=seen.skipped,
        lag=round(seen.lag, 3),
        restarted=seen.restarted,
        went_away=seen.went_away,
        servers=[_server(one) for one in seen.servers],
        gaps=[in_millis(one, AnswerGap) for one in seen.all_gaps()],
        ledger=seen.ledger,
        left_behind=seen.left_behind,
        columns=["kind", "due", "sent", "asked", "ended", "error", "server"],
        attempts=list(_rows(seen)),
    )


def _server(server: ServerIdentity) -> AnsweringServer:
    return AnsweringServer(
        started=server.started.isoformat(),
        standby=server.standby,
        address=server.address,
        own=server.own,
        timeline=server.timeline,
        system=None if server.system is None else str(server.system),
    )


def _rows(seen: Observation) -> Iterator[Row]:
    places = {server: place for place, server in enumerate(seen.servers)}
    for one in seen.attempts:
        yield (
            one.kind,
            round(one.due, 3),
            round(one.sent, 3),
            rounded(one.asked),
            round(one.ended, 3),
            one.error,
            None if one.server is None else places[one.server],
        )


def in_millis(source: object, kind: type[_Part]) -> _Part:
    """Return a part of `source` with its times rounded to milliseconds."""
    part = convert(source, kind)
    for name in part.__struct_fields__:
        if isinstance(value := getattr(part, name), float):
            setattr(part, name, round(value, 3))
    return part


def rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)
