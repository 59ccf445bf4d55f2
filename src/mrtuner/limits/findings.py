"""Which plateaus are ceilings: matched by value, confirmed or contradicted by the queue.

At a ceiling requests wait: the time of one operation rises (Little's law: queue over IOPS). A job
that happens to run at an even pace leaves it as it was, and is not accused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from mrtuner.limits.ceilings import Ceiling, Kind, Resource
from mrtuner.limits.series import Series
from mrtuner.limits.testimony import Testimony, Witness, balances, sessions, waiting
from mrtuner.stats.plateaus import Plateau, inside, numpy, plateaus

if TYPE_CHECKING:
    from mrtuner.stats.plateaus import Mask, Values

#: A plateau is a ceiling's when its level is within these shares of it. An instance gets a little
#: more than nominal (443 of 437.5 in the field), and a little less when minutes are torn.
LOW: Final = 0.965
HIGH: Final = 1.025
#: Where no table names a limit, the queue is the only witness, and must speak up.
WAITS_AT_UNKNOWN: Final = 1.75
#: An unknown level below this share of what was reached is background, not a ceiling.
UNKNOWN_AT_LEAST: Final = 0.1
#: A plateau of another resource in the same minutes explains this one.
SHADOW: Final = 0.7

#: What is added up for a resource.
PARTS: Final[Mapping[Resource, tuple[str, ...]]] = {
    Resource.THROUGHPUT: ("ReadThroughput", "WriteThroughput"),
    Resource.IOPS: ("ReadIOPS", "WriteIOPS"),
    Resource.NETWORK_IN: ("NetworkReceiveThroughput",),
    Resource.NETWORK_OUT: ("NetworkTransmitThroughput",),
    Resource.CPU: ("CPUUtilization",),
    Resource.CONNECTIONS: ("DatabaseConnections",),
}
#: The same for reads and for writes apart; looked at on hosts only.
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
#: Those where requests queue at the disk.
DISK: Final = frozenset({Resource.THROUGHPUT, Resource.IOPS, *DIRECTIONS})


@dataclass(frozen=True, slots=True, kw_only=True)
class Pegged:
    """One ceiling that was reached and held the load down."""

    resource: Resource
    plateau: Plateau
    ceiling: Ceiling | None  # None: an unknown ceiling at this level
    testimony: tuple[Testimony, ...]
    others: tuple[Ceiling, ...] = ()  # ceilings of today at the same level: it may be theirs

    @property
    def confirmed(self) -> bool:
        """Whether another metric says so too."""
        return any(one.says is Witness.CONFIRMS for one in self.testimony)


@dataclass(frozen=True, slots=True, kw_only=True)
class Steady:
    """A flat stretch that is no ceiling, and why it is not."""

    resource: Resource
    plateau: Plateau
    because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What was found at the ceilings, and what was looked at and left."""

    pegged: tuple[Pegged, ...]
    steady: tuple[Steady, ...]


def find(series: Series, known: Sequence[Ceiling]) -> Findings:
    """Look for every ceiling, known or not, in every resource that has its metrics."""
    every = totals(series)
    flat = {
        resource: plateaus(values, at_least=_background(every, known, resource))
        for resource, values in every.items()
    }
    busy = [plateau for resource in DISK for plateau in flat.get(resource, ())]
    pegged: list[Pegged] = []
    steady: list[Steady] = []
    for resource, found in flat.items():
        for plateau in found:
            judged = _judge(series, known, resource, plateau, busy)
            if isinstance(judged, Pegged):
                pegged.append(judged)
            else:
                steady.append(judged)
    real, shadows = _without_shadows(pegged, series.points)
    return Findings(pegged=tuple(real), steady=(*steady, *shadows))


def totals(series: Series) -> dict[Resource, Values]:
    """What each resource carried; only those whose every part was measured."""
    parts = {**PARTS, **DIRECTIONS} if series.apart else PARTS
    found = {resource: series.total(*names) for resource, names in parts.items()}
    return {resource: values for resource, values in found.items() if values is not None}


def _background(
    every: Mapping[Resource, Values], known: Sequence[Ceiling], resource: Resource
) -> float:
    """A fiftieth of the busiest minutes: below, a flat line is an idle one.

    Of reads or writes apart a tenth of both, unless a limit is declared there: a trickle beside
    heavy load is even by nature.
    """
    if resource not in DIRECTIONS:
        return 0.02 * _busiest(every[resource])
    both = every.get(_BOTH[resource], every[resource])
    declared = [LOW * one.value for one in known if one.resource is resource]
    return min([UNKNOWN_AT_LEAST * _busiest(both), *declared])


def _busiest(values: Values) -> float:
    np = numpy()
    finite = values[np.isfinite(values)]
    return float(np.quantile(finite, 0.999)) if len(finite) else 0.0


def _judge(
    series: Series,
    known: Sequence[Ceiling],
    resource: Resource,
    plateau: Plateau,
    busy: Sequence[Plateau],
) -> Pegged | Steady:
    ceiling = matched(plateau.level, known, resource)
    testimony = tuple(_testimony(series, resource, plateau, ceiling, busy))
    because = _no_ceiling(series, resource, plateau, ceiling, testimony)
    if because is not None:
        return Steady(resource=resource, plateau=plateau, because=because)
    others = tuple(
        one
        for one in within(plateau.level, known, resource)
        if one is not ceiling and one.kind is not Kind.FORMER
    )
    return Pegged(
        resource=resource, plateau=plateau, ceiling=ceiling, testimony=testimony, others=others
    )


def matched(level: float, known: Sequence[Ceiling], resource: Resource) -> Ceiling | None:
    """The ceiling at this level: today's before former ones, then the nearest."""
    return min(
        within(level, known, resource),
        key=lambda one: (one.kind is Kind.FORMER, abs(level / one.value - 1)),
        default=None,
    )


def within(level: float, known: Sequence[Ceiling], resource: Resource) -> list[Ceiling]:
    """Every ceiling that a level may be of."""
    return [one for one in known if one.resource is resource and LOW <= level / one.value <= HIGH]


def _no_ceiling(
    series: Series,
    resource: Resource,
    plateau: Plateau,
    ceiling: Ceiling | None,
    testimony: Sequence[Testimony],
) -> str | None:
    """Why a plateau is none, or None for one that is."""
    said = {one.says for one in testimony}
    if Witness.CONTRADICTS in said and Witness.CONFIRMS not in said:
        return next(one.because for one in testimony if one.says is Witness.CONTRADICTS)
    if ceiling is not None:
        return None
    return _no_unknown_one(series, resource, plateau, testimony)


def _no_unknown_one(
    series: Series, resource: Resource, plateau: Plateau, testimony: Sequence[Testimony]
) -> str | None:
    """The same where no table names a limit."""
    if resource not in DISK:
        return "no limit is known there; programs can run at an even pace"
    if plateau.level < UNKNOWN_AT_LEAST * _reached(series, resource):
        return "far below what was reached at other times"
    if not testimony:
        return "no limit is there; DiskQueueDepth or the latencies would tell whether one is"
    if any(one.ratio >= WAITS_AT_UNKNOWN for one in testimony):
        return None
    return f"no limit is there, and operations waited little: {testimony[0].because}"


def _reached(series: Series, resource: Resource) -> float:
    np = numpy()
    return float(np.nanquantile(totals(series)[resource], 0.999))


def _testimony(
    series: Series,
    resource: Resource,
    plateau: Plateau,
    ceiling: Ceiling | None,
    busy: Sequence[Plateau],
) -> Iterator[Testimony]:
    if resource in DISK:
        there = inside(plateau.spans, series.points)
        elsewhere = ~_widened(busy, series.points)
        yield from waiting(series, there, elsewhere)
        yield from sessions(series, there, elsewhere)
    if ceiling is not None:
        yield from balances(series, resource, plateau, ceiling)


def _widened(busy: Sequence[Plateau], length: int) -> Mask:
    """Every flat stretch, with a few points around it where a queue drains."""
    spans = [(max(a - 3, 0), b + 3) for one in busy for a, b in one.spans]
    return inside(spans, length)


def _without_shadows(pegged: Sequence[Pegged], length: int) -> tuple[list[Pegged], list[Steady]]:
    """Throughput at a ceiling makes IOPS flat in the same minutes, and the other way round."""
    real: list[Pegged] = []
    shadows: list[Steady] = []
    for one in sorted(pegged, key=_weight):
        over = next((other for other in real if _shadows(other, one, length)), None)
        if over is None:
            real.append(one)
        else:
            because = f"{over.resource} is at its ceiling in the same minutes, which explains it"
            shadows.append(Steady(resource=one.resource, plateau=one.plateau, because=because))
    return real, shadows


def _weight(one: Pegged) -> tuple[bool, bool, float]:
    """Known ceilings of today first, then former, then the unknown; the flattest of those."""
    former = one.ceiling is not None and one.ceiling.kind is Kind.FORMER
    return one.ceiling is None, former, one.plateau.spread


def _shadows(over: Pegged, under: Pegged, length: int) -> bool:
    if over.resource is under.resource or not {over.resource, under.resource} <= DISK:
        return False
    if under.ceiling is not None:
        return False
    there = inside(under.plateau.spans, length)
    both = there & inside(over.plateau.spans, length)
    return bool(both.sum() >= SHADOW * there.sum())


def pegged_mask(pegged: Sequence[Pegged], resource: Resource, length: int) -> Mask:
    """The points at which this resource was at a ceiling."""
    spans = [span for one in pegged if one.resource is resource for span in one.plateau.spans]
    return inside(spans, length)


__all__ = [
    "DIRECTIONS",
    "DISK",
    "PARTS",
    "Findings",
    "Pegged",
    "Steady",
    "Testimony",
    "Witness",
    "find",
    "matched",
    "pegged_mask",
    "totals",
]
