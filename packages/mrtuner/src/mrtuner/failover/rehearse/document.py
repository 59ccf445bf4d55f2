"""A rehearsed failover as JSON: ``mrtuner.failover.rehearsal/1``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from mrtuner.documents import UNSET, Doc, Document, NotJudged, Struct, UnsetType, convert, field
from mrtuner.failover.predict.document import PredictedCase, predicted_case
from mrtuner.failover.predict.hang_times import Case
from mrtuner.failover.rehearse.report import findings, headline, limits, moments
from mrtuner.failover.rehearse.takeover import RehearsalEffect, StaleAnswers
from mrtuner.rehearsal.document import ClientOutage, ProbedRun, in_millis, probe_log, rounded
from mrtuner.rehearsal.run import TimelineMark

if TYPE_CHECKING:
    from mrtuner.failover.rehearse.hangs import Hang
    from mrtuner.failover.rehearse.report import Rehearsed


class Moments(Struct):
    """The turning points, in seconds since it was triggered; null: it did not happen."""

    last_success: Annotated[float | None, Doc("the last good answer before")]
    first_failure: Annotated[float | None, Doc("the first error")]
    reconnect: Annotated[float | None, Doc("a held connection was replaced")]
    first_read: Annotated[
        float | UnsetType | None, Doc("the first on a new connection; only if reads had to wait")
    ] = UNSET
    first_write: Annotated[
        float | UnsetType | None, Doc("the first on a new connection; only if writes had to wait")
    ] = UNSET


class MeasuredHang(Struct):
    """The longest wait of one client in one case."""

    case: Annotated[Case, Doc("what the client was doing")]
    words: Annotated[str, Doc("the same for people")]
    longest: Annotated[float | None, Doc("the longest wait in seconds; null: no client met it")]
    at_least: Annotated[bool, Doc("whether it would have lasted longer: the probe gave up")]
    met: Annotated[int, Doc("attempts that ended late or with an error")]
    predicted: Annotated[PredictedCase | None, Doc("if the server vanishes; null: no prediction")]


class WayPhases(Struct):
    """The outage for each kind of client."""

    clients: Annotated[list[ClientOutage], Doc("one for each kind that noticed anything")]


class RehearsedWay(ProbedRun):
    """One way to the server; times are seconds since the first probe."""

    way: Annotated[str, Doc("direct or pool")]
    place: Annotated[str, Doc("host, port and database")]
    between: Annotated[str | None, Doc("who answers there in the server's place; null: the server")]
    unpredicted: Annotated[str | None, Doc("why there are no predictions, or null")]
    outcome: Annotated[
        RehearsalEffect,
        Doc(
            "`moved`: another server took over; `restarted`: the same one was restarted; "
            "`interrupted`: the same one answers as before, but clients met errors"
        ),
    ]
    verdict: Annotated[str, Doc("the finding that decides")]
    findings: Annotated[list[str], Doc("a sentence each")]
    kept: Annotated[bool, Doc("as in the whole document, for this way")]
    moments: Annotated[Moments, Doc("the turning points")]
    hangs: Annotated[list[MeasuredHang], Doc("the longest waits, by case")]
    stale: Annotated[StaleAnswers, Doc("what went to the wrong server")]
    phases: Annotated[WayPhases, Doc("the outage for each kind of client")]
    marks: Annotated[list[TimelineMark], Doc("what was reported")]


class RehearsalDocument(Document, tag="mrtuner.failover.rehearsal/1"):
    """Written by `mrtuner failover rehearse --json`."""

    trigger: Annotated[str, Doc("what set it off")]
    within: Annotated[float | None, Doc("the longest acceptable wait in seconds, or null")]
    cautions: Annotated[
        list[str], Doc("what makes it doubtful that the probes saw what was set off")
    ]
    failed_over: Annotated[
        bool,
        Doc("whether, on every way, another server or the same one, restarted, answers in the end"),
    ]
    kept: Annotated[
        bool,
        Doc(
            "whether no client waited longer than `within`, every write is there exactly once, "
            "and none went to the old primary"
        ),
    ]
    ways: Annotated[
        list[RehearsedWay], Doc("the connection string, and that of `--through` if there is one")
    ]
    limits: Annotated[list[str], Doc("what this does not show")]
    unjudged: Annotated[list[NotJudged], Doc("cases that no probe experienced")] = field(
        default_factory=list
    )


def rehearsal_document(
    found: Sequence[Rehearsed], *, trigger: str, within: float | None, cautions: Sequence[str] = ()
) -> RehearsalDocument:
    """Return the whole rehearsal, from which its page is made."""
    return RehearsalDocument(
        trigger=trigger,
        within=within,
        cautions=list(cautions),
        failed_over=all(one.failed_over for one in found),
        kept=all(one.kept(within) for one in found),
        ways=[_way(one, within) for one in found],
        limits=list(limits(found)),
        unjudged=[convert(each, NotJudged) for one in found for each in one.unjudged(within)],
    )


def _way(one: Rehearsed, within: float | None) -> RehearsedWay:
    run = one.run
    return RehearsedWay(
        asked=round(run.asked, 3),
        accepted=round(run.accepted, 3),
        settled=run.settled,
        observation=probe_log(run.observation),
        way=one.name,
        place=one.way.place,
        between=one.way.between,
        unpredicted=one.way.unpredicted,
        outcome=one.outcome,
        verdict=headline(one, within),
        findings=list(findings(one, within)),
        kept=one.kept(within),
        moments=Moments(**{name: rounded(at) for name, at in moments(one).items()}),
        hangs=[_hang(each) for each in one.hangs],
        stale=replace(one.stale, until=rounded(one.stale.until)),
        phases=WayPhases(clients=[in_millis(client, ClientOutage) for client in one.clients]),
        marks=[replace(mark, at=round(mark.at, 3)) for mark in run.marks],
    )


def _hang(one: Hang) -> MeasuredHang:
    return MeasuredHang(
        case=one.case,
        words=one.case.words,
        longest=rounded(one.longest),
        at_least=one.at_least,
        met=one.met,
        predicted=predicted_case(one.predicted) if one.predicted else None,
    )
