"""Limits as JSON: ``mrtuner.limits/1`` of one server, ``mrtuner.limits.fleet/1`` of many."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Final

from mrtuner.documents import UNSET, Doc, Document, NotJudged, Struct, UnsetType, convert, field
from mrtuner.limits.assess import calendar
from mrtuner.limits.ceilings import CeilingKind, Resource, binding
from mrtuner.limits.confirmation import CeilingEvidence
from mrtuner.limits.fleet import FleetPegged
from mrtuner.limits.what_if import Demand

if TYPE_CHECKING:
    from mrtuner.limits.assess import Limits
    from mrtuner.limits.ceilings import Ceiling
    from mrtuner.limits.fleet import CheckedInstance
    from mrtuner.limits.forecast import Forecast
    from mrtuner.limits.metrics.series import MetricSeries
    from mrtuner.limits.reached import Pegged
    from mrtuner.limits.what_if import Candidate

#: How many candidates are listed.
_SHOWN: Final = 8


class CeilingEntry(Struct):
    """One limit of one part."""

    name: Annotated[str, Doc("part, resource and kind, such as `instance throughput, burst`")]
    resource: Annotated[Resource, Doc("what is limited")]
    part: Annotated[
        str, Doc("what limits it: instance, volume or server; on a host also cgroup or interface")
    ]
    kind: Annotated[
        CeilingKind,
        Doc(
            "`sustained`: permanently; `burst`: while credits last; `former`: of an instance that "
            "was started before December 2019"
        ),
    ]
    value: Annotated[float, Doc("in CloudWatch's unit of the resource")]
    source: Annotated[str, Doc("where the number comes from")]
    note: Annotated[str, Doc("more about the number; may be empty")]
    binding: Annotated[
        bool | UnsetType,
        Doc("in `ceilings` only: whether it is its resource's smallest without burst credits"),
    ] = UNSET


class PeggedResource(Struct):
    """A resource that ran flat at a level and was held down there."""

    resource: Annotated[Resource, Doc("what ran flat")]
    level: Annotated[float, Doc("where")]
    ceiling: Annotated[CeilingEntry | None, Doc("the ceiling there; null where none is known")]
    others: Annotated[list[str], Doc("other ceilings at the same level: it may be one of these")]
    of_ceiling: Annotated[float | None, Doc("the level as a share of the ceiling, or null")]
    confirmed: Annotated[bool, Doc("whether another metric confirms it")]
    minutes: Annotated[float, Doc("time at the ceiling")]
    share: Annotated[float, Doc("the same as a share of all points")]
    longest_minutes: Annotated[float, Doc("the longest time in one go")]
    spread: Annotated[float, Doc("standard deviation relative to the level")]
    edge_above: Annotated[float, Doc("density of points at the level over that just above it")]
    edge_below: Annotated[float, Doc("density of points at the level over that just below it")]
    calm: Annotated[float, Doc("point-to-point noise at the level over that elsewhere")]
    evidence: Annotated[list[CeilingEvidence], Doc("what other metrics say")]
    spans: Annotated[list[tuple[str, str]], Doc("start and end of each stretch, ISO 8601")]
    calendar: Annotated[list[list[float]], Doc("minutes by weekday (Monday first) and hour")]


class SteadyStretch(Struct):
    """A flat stretch that is no ceiling."""

    resource: Annotated[Resource, Doc("what ran flat")]
    level: Annotated[float, Doc("where")]
    because: Annotated[str, Doc("why it is no ceiling")]


class CandidateResource(Struct):
    """One resource of a candidate."""

    resource: Annotated[Resource, Doc("the resource")]
    ceiling: Annotated[CeilingEntry, Doc("its smallest ceiling without burst credits")]
    headroom: Annotated[float | None, Doc("the ceiling over `seen`; null where nothing was seen")]


class ClassCandidate(Struct):
    """A class with a volume, compared with the demand."""

    class_name: Annotated[str, Doc("the instance class")] = field(name="class")
    vcpus: Annotated[int, Doc("its vCPUs")]
    memory: Annotated[int, Doc("its memory in bytes")]
    storage: Annotated[str | None, Doc("the volume, or null")]
    sufficient: Annotated[bool, Doc("whether it carries everything without burst credits")]
    lacks: Annotated[list[Resource], Doc("resources that fall short")]
    resources: Annotated[list[CandidateResource], Doc("how much room each resource has")]


class ResourceForecast(Struct):
    """When a resource will reach its ceiling."""

    resource: Annotated[Resource, Doc("the resource")]
    average: Annotated[
        bool, Doc("of daily averages, which burst credits must pay for; else of busy minutes")
    ]
    ceiling: Annotated[float, Doc("of averages the baseline; of busy minutes the highest limit")]
    busy: Annotated[float, Doc("busy minutes or daily average today, on the fitted line")]
    daily: Annotated[float, Doc("growth per day")]
    days: Annotated[int, Doc("days that the line was fitted to")]
    earliest: Annotated[str | None, Doc("with `latest`, bounds that hold in nine cases of ten")]
    expected: Annotated[str | None, Doc("the most probable time; null: not in sight")]
    latest: Annotated[str | None, Doc("null: no end in sight")]
    because: Annotated[str, Doc("the growth in words")]


class LimitsDocument(Document, tag="mrtuner.limits/1"):
    """One instance, or one server that is not on RDS.

    Written by `mrtuner limits --json` and `Limits.to_dict()`. Values are in CloudWatch's units:
    bytes per second, operations per second, per cent, bytes. Times are ISO 8601 in UTC.
    """

    instance: Annotated[str | None, Doc("its name; of a server host and port")]
    class_name: Annotated[str | None, Doc("the instance class; null for a server")] = field(
        name="class"
    )
    storage: Annotated[str | None, Doc("the volume; of a server the device that was watched")]
    start: Annotated[str, Doc("of the metrics")]
    end: Annotated[str, Doc("of the metrics; as `start` if only ceilings were asked for")]
    step: Annotated[int, Doc("seconds between two points")]
    notices: Annotated[list[str], Doc("about the metrics, and what could not be judged")]
    verdict: Annotated[str, Doc("the answer in one sentence")]
    ceilings: Annotated[list[CeilingEntry], Doc("every known limit")]
    pegged: Annotated[list[PeggedResource], Doc("what was at a ceiling, longest first")]
    steady: Annotated[list[SteadyStretch], Doc("flat stretches that are no ceiling")]
    needs: Annotated[list[Demand], Doc("what each resource must carry")]
    advice: Annotated[list[str], Doc("what to do and what will not help, a sentence each")]
    candidates: Annotated[list[ClassCandidate], Doc("sufficient classes, smallest first")]
    what_if: Annotated[ClassCandidate | None, Doc("the candidate of `--what-if`, or null")]
    forecasts: Annotated[list[ResourceForecast], Doc("when ceilings will be reached")]
    unjudged: Annotated[list[NotJudged], Doc("resources that may have reached a limit")] = field(
        default_factory=list
    )


class FleetInstance(Struct):
    """One instance of the fleet."""

    region: Annotated[str, Doc("where it is")]
    instance: Annotated[str, Doc("its name")]
    class_name: Annotated[str, Doc("the instance class")] = field(name="class")
    storage: Annotated[str | None, Doc("the volume, or null")]
    verdict: Annotated[str | None, Doc("one sentence; null if it could not be judged")]
    pegged: Annotated[list[FleetPegged], Doc("what was at a ceiling, longest first")]
    advice: Annotated[str | None, Doc("the first advice, or null")]
    unknown: Annotated[str | None, Doc("why it could not be judged, or null")]
    unjudged: Annotated[list[NotJudged], Doc("its resources that may have reached a limit")] = (
        field(default_factory=list)
    )


class RegionFailure(Struct):
    """A region that could not be read."""

    region: Annotated[str, Doc("which")]
    error: Annotated[str, Doc("why")]


class FleetDocument(Document, tag="mrtuner.limits.fleet/1"):
    """Many instances, the one longest at a limit first.

    Written by `mrtuner limits --all --json` and `mrtuner.limits.document.fleet_document`. The
    document `mrtuner.limits/1` tells more about each instance.
    """

    start: Annotated[str, Doc("of what CloudWatch was asked for, ISO 8601 in UTC")]
    end: Annotated[str, Doc("of what CloudWatch was asked for")]
    instances: Annotated[list[FleetInstance], Doc("every instance that was found")]
    failures: Annotated[list[RegionFailure], Doc("regions that could not be read")]


def limits_document(found: Limits) -> LimitsDocument:
    return LimitsDocument(
        instance=found.name,
        class_name=found.instance.name if found.instance else None,
        storage=found.storage,
        start=found.series.start.isoformat(),
        end=found.series.end.isoformat(),
        step=found.series.step,
        notices=list(found.notices),
        unjudged=[convert(one, NotJudged) for one in found.unjudged],
        verdict=found.verdict,
        ceilings=[
            _ceiling(one, binding=one is binding(found.ceilings, one.resource))
            for one in found.ceilings
        ],
        pegged=[_pegged(one, found.series) for one in found.pegged],
        steady=[
            SteadyStretch(resource=one.resource, level=one.plateau.level, because=one.because)
            for one in found.findings.steady
        ],
        needs=list(found.needs.values()),
        advice=list(found.advice),
        candidates=[_candidate(one) for one in found.candidates[:_SHOWN]],
        what_if=_candidate(found.what_if) if found.what_if else None,
        forecasts=[_forecast(one) for one in found.forecasts],
    )


def _ceiling(one: Ceiling, binding: bool | UnsetType = UNSET) -> CeilingEntry:
    # Not converted: that would write whole numbers, such as bytes of memory, as 17179869184.0.
    return CeilingEntry(name=one.name, **asdict(one), binding=binding)


def _pegged(one: Pegged, series: MetricSeries) -> PeggedResource:
    flat = one.plateau
    return PeggedResource(
        resource=one.resource,
        level=flat.level,
        ceiling=_ceiling(one.ceiling) if one.ceiling else None,
        others=[other.name for other in one.others],
        of_ceiling=flat.level / one.ceiling.value if one.ceiling else None,
        confirmed=one.confirmed,
        minutes=series.minutes(flat.points),
        share=flat.share,
        longest_minutes=series.minutes(flat.longest),
        spread=flat.spread,
        edge_above=flat.above,
        edge_below=flat.below,
        calm=flat.calm,
        evidence=list(one.evidence),
        spans=[
            (series.at(start).isoformat(), series.at(end).isoformat())
            for start, end in one.plateau.spans
        ],
        calendar=calendar(one, series),
    )


def _candidate(one: Candidate) -> ClassCandidate:
    return ClassCandidate(
        class_name=one.instance.name,
        vcpus=one.instance.vcpus,
        memory=one.instance.memory,
        storage=str(one.volume) if one.volume else None,
        sufficient=one.sufficient,
        lacks=list(one.lacks),
        resources=[
            CandidateResource(
                resource=resource, ceiling=_ceiling(ceiling), headroom=one.headroom.get(resource)
            )
            for resource, ceiling in one.ceilings.items()
        ],
    )


def _forecast(one: Forecast) -> ResourceForecast:
    return ResourceForecast(
        resource=one.resource,
        average=one.average,
        ceiling=one.ceiling,
        busy=one.busy,
        daily=one.daily,
        days=one.days,
        earliest=one.earliest.isoformat() if one.earliest else None,
        expected=one.expected.isoformat() if one.expected else None,
        latest=one.latest.isoformat() if one.latest else None,
        because=one.because,
    )


def fleet_document(
    rows: Sequence[CheckedInstance],
    start: datetime,
    end: datetime,
    failures: Sequence[tuple[str, str]] = (),
) -> FleetDocument:
    """Return the answers for many instances, the longest at a ceiling first."""
    ordered = sorted(rows, key=lambda row: (-row.minutes, row.region, row.instance))
    return FleetDocument(
        start=start.isoformat(timespec="seconds"),
        end=end.isoformat(timespec="seconds"),
        instances=[convert(row, FleetInstance) for row in ordered],
        failures=[RegionFailure(region=region, error=error) for region, error in failures],
    )
