"""Levels at which a resource may have been at a ceiling, before they are judged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from mrtuner.limits.burst_balances import used_up
from mrtuner.limits.ceilings import Ceiling, Resource
from mrtuner.limits.metrics.series import FEWEST, MetricSeries
from mrtuner.stats.plateaus import (
    BAND,
    HOLE,
    SOLID,
    Plateau,
    crowded,
    inside,
    numpy,
    plateaus,
    runs,
    stretches,
)

if TYPE_CHECKING:
    from mrtuner.stats.plateaus import Mask, Values

#: A plateau belongs to a ceiling if its level is within these shares of it. An instance gets a bit
#: more than nominal (443 of 437.5 in the field), and a bit less if minutes are incomplete.
LOW: Final = 0.965
HIGH: Final = 1.025
#: A known ceiling is also looked for in runs that stay near it, however rough or short: minutes of
#: a run and in total, and the largest share of a run's points above the level. Demand that a
#: ceiling does not cut off goes above as often as below.
HELD: Final = (10, 15)
ABOVE: Final = 0.1
#: A job that pauses does not fill all of its minutes: a run at a known ceiling may have holes of
#: this many minutes, if so large a share of it is at the level.
PAUSES: Final = 5
FILLED: Final = 0.5
#: Rough levels stand out in moving means of so many points.
MEANS: Final = 5
#: An unknown level below this share of the peak is background, not a ceiling.
UNKNOWN_AT_LEAST: Final = 0.1

#: The metrics that add up to a resource.
PARTS: Final[Mapping[Resource, tuple[str, ...]]] = {
    Resource.THROUGHPUT: ("ReadThroughput", "WriteThroughput"),
    Resource.IOPS: ("ReadIOPS", "WriteIOPS"),
    Resource.NETWORK_IN: ("NetworkReceiveThroughput",),
    Resource.NETWORK_OUT: ("NetworkTransmitThroughput",),
    Resource.CPU: ("CPUUtilization",),
    Resource.CONNECTIONS: ("DatabaseConnections",),
}
#: The same for reads and writes separately; used on hosts only.
DIRECTIONS: Final[Mapping[Resource, tuple[str, ...]]] = {
    Resource.READ_THROUGHPUT: ("ReadThroughput",),
    Resource.WRITE_THROUGHPUT: ("WriteThroughput",),
    Resource.READ_IOPS: ("ReadIOPS",),
    Resource.WRITE_IOPS: ("WriteIOPS",),
}
_BOTH: Final = {
    Resource.READ_THROUGHPUT: Resource.THROUGHPUT,
    Resource.WRITE_THROUGHPUT: Resource.THROUGHPUT,
    Resource.READ_IOPS: Resource.IOPS,
    Resource.WRITE_IOPS: Resource.IOPS,
}
#: The resources for which requests queue at the disk.
DISK: Final = frozenset({Resource.THROUGHPUT, Resource.IOPS, *DIRECTIONS})


def flat(
    series: MetricSeries, known: Sequence[Ceiling], every: Mapping[Resource, Values]
) -> dict[Resource, list[Plateau]]:
    """Where each resource ran flat, or was at a baseline without credits."""
    return {
        resource: [
            *plateaus(values, at_least=_background(every, known, resource)),
            *_without_credits(series, known, resource, values),
        ]
        for resource, values in every.items()
    }


def held(
    series: MetricSeries, known: Sequence[Ceiling], every: Mapping[Resource, Values]
) -> dict[Resource, list[Plateau]]:
    """Runs of the disk that are too short or too rough to stand out by themselves.

    They are near a known ceiling, or flat in moving means. Each needs a queue that confirms it.
    """
    least = tuple(max(-(-minutes * 60 // series.step), 3) for minutes in HELD)
    found: dict[Resource, list[Plateau]] = {}
    for resource in DISK & every.keys():
        values = every[resource]
        means = plateaus(_means(values), at_least=_background(every, known, resource))
        near = [
            inside(one.spans, len(values)) & fitting(values, one.level) for one in means
        ]  # fmt: skip
        levels = [one.value for one in known if one.resource is resource]
        runs_ = [_cut_off(values, fitting(values, level), least) for level in levels]
        runs_ += [_cut_off(values, each, least) for each in near]
        levels += crowded(values, at_least=_background(every, known, resource))
        runs_ += [
            _with_pauses(values, level, least, PAUSES * 60 // series.step) for level in levels
        ]
        found[resource] = [one for one in runs_ if one is not None]
    return found


def _with_pauses(values: Values, level: float, least: tuple[int, ...], hole: int) -> Plateau | None:
    """Runs at a level with minutes in between that a job did not fill, and next to none above."""
    np = numpy()
    shortest, fewest = least
    near = fitting(values, level)
    if near.sum() < fewest:
        return None
    level = float(np.median(values[near]))
    at, known = np.abs(values / level - 1) <= BAND, np.isfinite(values)
    solid = inside(runs(at, hole=HOLE, shortest=3), len(values))  # without what is there by chance
    spans = []
    for start, end in runs(solid, hole=hole, shortest=shortest):
        run = values[start:end][known[start:end]]
        if at[start:end].sum() >= max(FILLED * len(run), shortest) and (
            run > (1 + BAND) * level
        ).sum() <= ABOVE * len(run):
            spans.append((start, end))
    there = inside(spans, len(values))
    return stretches(values, there, shortest=shortest, fewest=fewest, counted=at & there)


def _cut_off(values: Values, near: Mask, least: tuple[int, ...]) -> Plateau | None:
    """Those runs of these points that stay at their level, with next to nothing above it."""
    np = numpy()
    shortest, fewest = least
    if near.sum() < fewest:
        return None
    level = float(np.median(values[near]))
    kept: Mask = np.zeros(len(values), dtype=bool)
    for start, end in runs(near, hole=HOLE, shortest=shortest):
        inner, run = near[start:end], values[start:end]
        off = np.abs(run / np.median(run[inner]) - 1)
        kept[start:end] = inner & (off <= max(BAND / 2, 3 * 1.4826 * float(np.median(off[inner]))))
    near = kept
    known = np.isfinite(values)
    spans = [
        (start, end) for start, end in runs(near, hole=HOLE, shortest=shortest)
        if near[start:end].sum() >= SOLID * (points := known[start:end].sum())
        and (values[start:end] > HIGH * level).sum() <= ABOVE * points
    ]  # fmt: skip
    at = inside(spans, len(values))
    return stretches(values, at, shortest=shortest, fewest=fewest, counted=near)


def _means(values: Values) -> Values:
    """Moving means of the points that exist; a series of very few stays as it is."""
    np = numpy()
    if len(values) < MEANS:
        return values
    known, window = np.isfinite(values), np.ones(MEANS)
    total = np.convolve(np.where(known, values, 0.0), window, "same")
    count = np.convolve(known, window, "same")
    means: Values = np.where(known, total / np.maximum(count, 1), np.nan)
    return means


def totals(series: MetricSeries) -> dict[Resource, Values]:
    """What each resource carried; only those with all parts measured in enough points."""
    np = numpy()
    parts = {**PARTS, **DIRECTIONS} if series.apart else PARTS
    found = {resource: series.total(*names) for resource, names in parts.items()}
    return {
        resource: values
        for resource, values in found.items()
        if values is not None and np.isfinite(values).sum() >= FEWEST
    }


def _background(
    every: Mapping[Resource, Values], known: Sequence[Ceiling], resource: Resource
) -> float:
    """A fiftieth of the peak: below it, a flat line is an idle one.

    For reads or writes alone a tenth of both together, unless a limit is declared there: a trickle
    beside heavy load is naturally even.
    """
    if resource not in DIRECTIONS:
        return 0.02 * busiest(every[resource])
    both = every.get(_BOTH[resource], every[resource])
    declared = [LOW * one.value for one in known if one.resource is resource]
    return min([UNKNOWN_AT_LEAST * busiest(both), *declared])


def busiest(values: Values) -> float:
    """The level that all but one in a thousand points stay below; 0 without points."""
    np = numpy()
    finite = values[np.isfinite(values)]
    return float(np.quantile(finite, 0.999)) if len(finite) else 0.0


def _without_credits(
    series: MetricSeries, known: Sequence[Ceiling], resource: Resource, values: Values
) -> Iterator[Plateau]:
    """Stretches at a baseline while its balance was used up, whatever the level looks like."""
    for one in known:
        if one.resource is not resource or (empty := used_up(series, one)) is None:
            continue
        if (found := stretches(values, empty & fitting(values, one.value))) is not None:
            yield found


def fitting(values: Values, level: float) -> Mask:
    """The points that belong to a ceiling at this level."""
    at: Mask = (values >= LOW * level) & (values <= HIGH * level)
    return at
