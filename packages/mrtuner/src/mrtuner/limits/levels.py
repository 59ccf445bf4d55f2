"""Levels at which a resource may have been at a ceiling, before they are judged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from mrtuner.limits.ceilings import Ceiling, CeilingKind, Resource
from mrtuner.limits.confirmation import used_up
from mrtuner.limits.metrics.series import Series
from mrtuner.stats.plateaus import (
    LONGEST_RUN_AT_LEAST,
    Plateau,
    densest,
    numpy,
    plateaus,
    stretches,
)

if TYPE_CHECKING:
    from mrtuner.stats.plateaus import Mask, Values

#: A plateau belongs to a ceiling if its level is within these shares of it. An instance gets a bit
#: more than nominal (443 of 437.5 in the field), and a bit less if minutes are incomplete.
LOW: Final = 0.965
HIGH: Final = 1.025
#: For a known ceiling reached repeatedly for only a few points, as bursts are in five-minute
#: averages: minutes of a stretch, total minutes, and the largest spread of its points.
AGAIN: Final = (10, 30, 0.005)
#: A known ceiling is also looked for in this many minutes in a row that stay near it, however
#: noisy: about as many as those among which a level has to stand out.
HELD: Final = 180
NOISE: Final = 0.02
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
    series: Series, known: Sequence[Ceiling], every: Mapping[Resource, Values]
) -> dict[Resource, list[Plateau]]:
    """Where each resource ran flat, or was at a baseline without credits."""
    return {
        resource: [
            *plateaus(values, at_least=_background(every, known, resource)),
            *_without_credits(series, known, resource, values),
        ]
        for resource, values in every.items()
    }


def again(
    series: Series, known: Sequence[Ceiling], every: Mapping[Resource, Values]
) -> dict[Resource, list[Plateau]]:
    """Levels of known ceilings that are reached often but never for long, or with much noise."""
    return {
        resource: [
            *_again(series, known, resource, every[resource]),
            *_held(series, known, resource, every[resource]),
        ]
        for resource in DISK & every.keys()
    }


def totals(series: Series) -> dict[Resource, Values]:
    """What each resource carried; only those with all parts measured."""
    parts = {**PARTS, **DIRECTIONS} if series.apart else PARTS
    found = {resource: series.total(*names) for resource, names in parts.items()}
    return {resource: values for resource, values in found.items() if values is not None}


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
    series: Series, known: Sequence[Ceiling], resource: Resource, values: Values
) -> Iterator[Plateau]:
    """Stretches at a baseline while its balance was used up, whatever the level looks like."""
    for one in known:
        if one.resource is not resource or (empty := used_up(series, one)) is None:
            continue
        if (found := stretches(values, empty & _fitting(values, one))) is not None:
            yield found


def _again(
    series: Series, known: Sequence[Ceiling], resource: Resource, values: Values
) -> Iterator[Plateau]:
    """Levels of known ceilings that are reached often but never for long.

    A few points within half a per cent of each other are not a plateau by themselves: they need
    a queue that confirms them.
    """
    run, whole, apart = AGAIN
    for one in known:
        if one.resource is not resource:
            continue
        shortest = max(-(-run * 60 // series.step), 3)
        fewest = max(-(-whole * 60 // series.step), 6)
        if (found := _near(values, _fitting(values, one), apart, (shortest, fewest))) is not None:
            yield found


def _held(
    series: Series, known: Sequence[Ceiling], resource: Resource, values: Values
) -> Iterator[Plateau]:
    """Long stretches near a known ceiling, whose noise hides that they are flat.

    Where a load is at its ceiling most of the time, nothing around it makes the level stand out.
    """
    least = max(-(-HELD * 60 // series.step), LONGEST_RUN_AT_LEAST)
    for one in known:
        if one.resource is resource and one.kind is not CeilingKind.FORMER:
            fitting = _fitting(values, one)
            found = _near(values, fitting, NOISE, (least, least), counted=fitting)
            if found is not None:
                yield found


def _near(
    values: Values, fitting: Mask, apart: float, least: tuple[int, int], counted: Mask | None = None
) -> Plateau | None:
    """Stretches within a share `apart` of the level where most of the fitting points are."""
    level = densest(values[fitting], apart)
    if level is None:
        return None
    near = fitting & (numpy().abs(values / level - 1) <= apart)
    return stretches(values, near, shortest=least[0], fewest=least[1], counted=counted)


def _fitting(values: Values, ceiling: Ceiling) -> Mask:
    at: Mask = (values >= LOW * ceiling.value) & (values <= HIGH * ceiling.value)
    return at
