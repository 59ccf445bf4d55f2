"""The lab as JSON: ``mrtuner.failover.lab/1``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from mrtuner.documents import UNSET, Doc, Document, Struct, UnsetType
from mrtuner.failover.predict.document import band
from mrtuner.failover.predict.hang_times import SLACK
from mrtuner.failover.predict.timer_wheel import Band
from mrtuner.rehearsal.document import rounded


class KnownScenario(Struct):
    """A scenario that can be played."""

    name: Annotated[str, Doc("its name")]
    words: Annotated[str, Doc("what breaks")]


class PlayedCase(Struct):
    """One case as predicted and measured."""

    case: Annotated[str, Doc("what the clients were doing")]
    predicted: Annotated[Band | None, Doc("null: for ever")]
    decided_by: Annotated[str, Doc("the setting that ends it")]
    measured: Annotated[list[float | None], Doc("each hang; null: it did not end")]
    watched: Annotated[float, Doc("how long hangs that did not end were watched")]
    slack: Annotated[float, Doc("how far beside the band a hang may lie")]
    fits: Annotated[
        bool | None, Doc("whether all hangs lie in the band; null: not watched for long enough")
    ]


class ProbedKind(Struct):
    """What one kind of probe saw."""

    kind: Annotated[str, Doc("what the probe does")]
    outage: Annotated[
        float | None, Doc("the longest time without a good answer; null: it did not end")
    ]
    failed: Annotated[int, Doc("attempts that ended with an error")]
    late: Annotated[int, Doc("attempts answered after more than a second")]
    stale: Annotated[int, Doc("attempts answered by the old primary after the new one was there")]


class CountedWrites(Struct):
    """What became of the writes."""

    acknowledged: Annotated[int, Doc("writes that were acknowledged")]
    lost: Annotated[int, Doc("of these, missing at the end")]


class PlayedScenario(Struct):
    """One scenario that was played."""

    scenario: Annotated[str, Doc("its name")]
    words: Annotated[str, Doc("what broke")]
    release: Annotated[str, Doc("version of the kernel")]
    hz: Annotated[int, Doc("its ticks per second")]
    parameters: Annotated[dict[str, str], Doc("libpq's, of every client")]
    sysctls: Annotated[dict[str, int], Doc("of the clients' network namespace")]
    fits: Annotated[bool, Doc("false when a hang lies outside its band")]
    cases: Annotated[list[PlayedCase], Doc("what was predicted and what was measured")]
    probes: Annotated[list[ProbedKind], Doc("what the probes saw")]
    writes: Annotated[CountedWrites, Doc("what became of the writes")]
    fenced: Annotated[float | None, Doc("from the fault until the old primary was killed, or null")]


class LabDocument(Document, tag="mrtuner.failover.lab/1"):
    """Written by `mrtuner failover lab --json`. Durations are seconds."""

    known: Annotated[list[KnownScenario] | UnsetType, Doc("only with `--list`: every scenario")] = (
        UNSET
    )
    enter: Annotated[
        str | UnsetType,
        Doc("only of a lab that stays open: what to write before a client's command line"),
    ] = UNSET
    dsns: Annotated[
        dict[str, str] | UnsetType,
        Doc("only of a lab that stays open: connection strings by the way that they take"),
    ] = UNSET
    scenarios: Annotated[
        list[PlayedScenario] | UnsetType, Doc("only with `--scenario`: in the order of playing")
    ] = UNSET


def played_case(
    case: str, predicted: Band | None, decided_by: str, hangs: Sequence[float | None], *,
    watched: float = 0.0, slack: float = SLACK,
) -> PlayedCase:  # fmt: skip
    """Return a case, and whether it is as predicted. All times are seconds."""
    return PlayedCase(
        case=case,
        predicted=band(predicted) if predicted else None,
        decided_by=decided_by,
        measured=[rounded(hang) for hang in hangs],
        watched=round(watched, 1),
        slack=slack,
        fits=_fits(predicted, hangs, slack=slack, watched=watched),
    )


def _fits(
    predicted: Band | None, hangs: Sequence[float | None], *, slack: float, watched: float
) -> bool | None:
    """Whether all hangs [s] are within `slack` of the band; None if not `watched` long enough.

    A band of None is for ever; a hang of None did not end.
    """
    if predicted is None:
        return all(hang is None for hang in hangs)
    ended = [hang for hang in hangs if hang is not None]
    if len(ended) < len(hangs):
        return None if predicted.low > watched else False
    return all(predicted.covers(hang, slack=slack) for hang in ended)
