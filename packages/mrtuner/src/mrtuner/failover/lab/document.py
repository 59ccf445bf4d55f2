"""The lab as JSON: ``mrtuner.failover.lab/1``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from mrtuner.documents import UNSET, Doc, Document, Struct, UnsetType
from mrtuner.failover.lab.outcome import ProbedKind, fits
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
        fits=fits(predicted, hangs, slack=slack, watched=watched),
    )
