"""Which plateaus are ceilings: matched by value, confirmed or contradicted by the queue.

At a ceiling requests wait: the time of one operation rises (Little's law: queue over IOPS). A job
that merely runs at an even pace leaves it unchanged, and is not reported. A balance of burst
credits that is used up proves a baseline by itself; a full one refutes it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from mrtuner.limits.ceilings import Ceiling, CeilingKind, Resource, binding
from mrtuner.limits.confirmation import (
    DOES_NOT_WAIT,
    REQUEST_RATE,
    REQUEST_RATE_AT_UNKNOWN,
    CeilingEvidence,
    Support,
    balances,
    nearby,
    sessions,
    waiting,
)
from mrtuner.limits.levels import (
    DISK,
    HIGH,
    LOW,
    UNKNOWN_AT_LEAST,
    busiest,
    fitting,
    flat,
    held,
    totals,
)
from mrtuner.limits.metrics.series import MetricSeries
from mrtuner.stats.plateaus import BAND, Plateau, inside, numpy, united

if TYPE_CHECKING:
    from mrtuner.stats.plateaus import Mask, Values

#: Where no table lists a limit, the queue is the only evidence and must be clear: operations take
#: this many times as long as their bytes explain, while this many wait at the same moment.
AT_UNKNOWN: Final = ((1.6, 4.0), (2.0, 2.0), (4.0, 1.0))
#: And it has to last: minutes in total, and in a row; where they are shorter, points.
LASTS_AT_UNKNOWN: Final = (30, 15)
#: A rough level at a known ceiling counts without a clear wait if it lasts: minutes in total, and
#: in a row.
LASTS: Final = (30, 15)
#: Two known ceilings of the disk are not reached at once: this share of the minutes of one in those
#: of the other makes it an echo, which operations of one size carry from one to the other.
ECHO: Final = 0.75
#: Echoes are less flat than what they echo, by the scatter of the sizes. Of two equally flat levels
#: the one nearer to its ceiling's value counts: a per cent off weighs as much as this much spread.
OFF: Final = 0.25
#: Of two unknown levels in the same minutes, the one farther from its known ceiling counts only if
#: it is so many times as flat.
FLATTER: Final = 2.0
#: An unknown level from this share of a known ceiling on, which was reached as well, is what that
#: ceiling gave in minutes that it did not fill.
JUST_BELOW: Final = 0.88
#: A plateau of another resource in the same minutes explains this one, also this many points
#: around it, while a queue drains.
AROUND: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Pegged:
    """One ceiling that was reached and held the load down."""

    resource: Resource
    plateau: Plateau
    ceiling: Ceiling | None  # None: an unknown ceiling at this level
    evidence: tuple[CeilingEvidence, ...]
    others: tuple[Ceiling, ...] = ()  # current ceilings at the same level: it may be one of them

    @property
    def confirmed(self) -> bool:
        return any(one.says is Support.CONFIRMS for one in self.evidence)


@dataclass(frozen=True, slots=True, kw_only=True)
class Steady:
    """A flat stretch that is not a ceiling, and the reason."""

    resource: Resource
    plateau: Plateau
    because: str
    #: Something other than a ceiling here makes it even: a balance, the queue, or pauses show it.
    refuted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """The ceilings found, and the plateaus that were examined and rejected."""

    pegged: tuple[Pegged, ...]
    steady: tuple[Steady, ...]


def reached_ceilings(series: MetricSeries, known: Sequence[Ceiling]) -> Findings:
    """Find every ceiling, known or not, in every resource with metrics."""
    every = totals(series)
    often, rarely = flat(series, known, every), held(series, known, every)
    calm = ~_busy(every, [(one, level) for some in (often, rarely) for one in DISK
                          for level in some.get(one, ())], series.points)  # fmt: skip

    def judged(levels: Mapping[Resource, Sequence[Plateau]]) -> list[Pegged | Steady]:
        return [
            _judge(series, known, resource, plateau, calm & (every[resource] < LOW * plateau.level))
            for resource, found in levels.items()
            for plateau in found
        ]

    usual = judged(often)
    pegged = [one for one in usual if isinstance(one, Pegged)]
    rare = [one for one in judged(rarely) if isinstance(one, Pegged)]
    sure = [one for one in pegged if not _doubtful(one)]
    sure += [one for one in rare if _by_the_queue(one) or _held_long(one, series)]
    pegged = [one for one in pegged if not _doubtful(one) or _sibling(one, sure)]
    pegged += [one for one in rare if one in sure or _sibling(one, sure)]
    steady = [_steady(one) for one in usual if isinstance(one, Steady) or one not in pegged]
    each = _one_each(pegged, every)
    unfilled = [(one, _unfilled(one, each)) for one in each]
    steady += [found for _, found in unfilled if found]
    full = [one for one, found in unfilled if found is None]
    real, shadows = _without_shadows(full, steady, every, known)
    return Findings(pegged=tuple(real), steady=(*steady, *shadows))


def _unfilled(one: Pegged, pegged: Sequence[Pegged]) -> Steady | None:
    """An unknown level just below a known ceiling that was reached too, as no ceiling."""
    above = [
        other.ceiling.name for other in pegged
        if one.ceiling is None and other.ceiling is not None and other.resource is one.resource
        and JUST_BELOW <= one.plateau.level / other.ceiling.value < LOW
    ]  # fmt: skip
    if not above:
        return None
    because = f"just below {above[0]}, which was reached too: minutes that pauses did not fill"
    return Steady(resource=one.resource, plateau=one.plateau, because=because, refuted=True)


def _by_the_queue(one: Pegged) -> bool:
    """Whether requests waited longer than elsewhere."""
    return any(said.ratio and said.says is Support.CONFIRMS for said in one.evidence)


def _held_long(one: Pegged, series: MetricSeries) -> bool:
    """Whether a current ceiling held for long and requests waited, if less than is clear."""
    minutes, run = LASTS
    lasted = (
        series.minutes(one.plateau.points) >= minutes
        and series.minutes(one.plateau.longest) >= run
    )  # fmt: skip
    return _is_current(one) and lasted and any(said.ratio > DOES_NOT_WAIT for said in one.evidence)


def _doubtful(one: Pegged) -> bool:
    """Whether this is a former limit that the queue, although known, does not confirm.

    The remedy is to stop the instance, so such a finding must be beyond doubt.
    """
    known = any(said.ratio for said in one.evidence)
    return _is_former(one) and known and not _by_the_queue(one)


def _is_former(one: Pegged) -> bool:
    return one.ceiling is not None and one.ceiling.kind is CeilingKind.FORMER


def _is_current(one: Pegged) -> bool:
    return one.ceiling is not None and not _is_former(one)


#: The kind of ceiling that the same part has beside one of this kind.
_OTHER_LEVEL: Final = {
    CeilingKind.FORMER: CeilingKind.FORMER,
    CeilingKind.BURST: CeilingKind.SUSTAINED,
}


def _sibling(one: Pegged, sure: Sequence[Pegged]) -> bool:
    """Whether the same part also was at its other level: former limits come in pairs.

    And a baseline reached after a burst shows that there was a burst.
    """
    of = one.ceiling
    return of is not None and any(
        other.ceiling is not None
        and (other.ceiling.part, other.resource) == (of.part, one.resource)
        and _OTHER_LEVEL.get(of.kind) is other.ceiling.kind
        for other in sure
    )


def _steady(one: Pegged | Steady) -> Steady:
    """Turn a ceiling too doubtful to report into a steady stretch."""
    if isinstance(one, Steady):
        return one
    said = next(said for said in one.evidence if said.ratio)
    because = (
        "it matches a limit from before December 2019, but operations hardly waited: "
        f"{said.because}"
    )
    return Steady(resource=one.resource, plateau=one.plateau, because=because)


def _one_each(pegged: Sequence[Pegged], every: Mapping[Resource, Values]) -> list[Pegged]:
    """Merge findings of one ceiling; of unknown ceilings, those at the same level."""
    kept: list[Pegged] = []
    for one in sorted(pegged, key=lambda each: -each.plateau.points):
        same = next((other for other in kept if _same(one, other)), None)
        if same is None:
            kept.append(one)
        else:
            whole = united(every[one.resource], (same.plateau, one.plateau))
            kept[kept.index(same)] = replace(same, plateau=whole)
    return kept


def _same(one: Pegged, other: Pegged) -> bool:
    if one.resource is not other.resource or one.ceiling is not other.ceiling:
        return False
    near = abs(one.plateau.level / other.plateau.level - 1) <= 2 * BAND
    return near or one.ceiling is not None


def _judge(
    series: MetricSeries,
    known: Sequence[Ceiling],
    resource: Resource,
    plateau: Plateau,
    calm: Mask,
) -> Pegged | Steady:
    fitting = within(plateau.level, known, resource)
    rate = REQUEST_RATE if fitting else REQUEST_RATE_AT_UNKNOWN
    of_the_disk = tuple(_of_the_disk(series, resource, plateau, calm, rate))
    ceiling, said = _named(series, resource, plateau, fitting, known)
    evidence = (*of_the_disk, *said)
    because = _no_ceiling(series, resource, plateau, ceiling, evidence)
    if because is not None:
        refuted = any(one.decisive for one in evidence)
        return Steady(resource=resource, plateau=plateau, because=because, refuted=refuted)
    others = tuple(
        one for one in fitting if one is not ceiling and one.kind is not CeilingKind.FORMER
    )  # fmt: skip
    return Pegged(
        resource=resource, plateau=plateau, ceiling=ceiling, evidence=evidence, others=others
    )


def _named(
    series: MetricSeries, resource: Resource, plateau: Plateau, fitting: Sequence[Ceiling],
    known: Sequence[Ceiling],
) -> tuple[Ceiling | None, tuple[CeilingEvidence, ...]]:  # fmt: skip
    """The first of these ceilings that no balance refutes, and what its balance says."""
    bursts = {one.part for one in known
              if one.resource is resource and one.kind is CeilingKind.BURST}  # fmt: skip
    said: tuple[CeilingEvidence, ...] = ()
    for one in fitting:
        # Where nothing bursts, a balance stays full and the baseline applies all the same.
        said = tuple(balances(series, resource, plateau, one)) if one.part in bursts else ()
        if not any(each.decisive for each in said):
            return one, said
    return None, said


def within(level: float, known: Sequence[Ceiling], resource: Resource) -> list[Ceiling]:
    """Every ceiling that a level may belong to: current before former ones, then the nearest."""
    fitting = (
        one for one in known if one.resource is resource and LOW <= level / one.value <= HIGH
    )
    return sorted(
        fitting, key=lambda one: (one.kind is CeilingKind.FORMER, abs(level / one.value - 1))
    )  # fmt: skip


def _no_ceiling(
    series: MetricSeries,
    resource: Resource,
    plateau: Plateau,
    ceiling: Ceiling | None,
    evidence: Sequence[CeilingEvidence],
) -> str | None:
    """Why a plateau is not a ceiling, or None if it is one."""
    said = {one.says for one in evidence}
    against = [one for one in evidence if one.says is Support.CONTRADICTS]
    if any(one.decisive for one in against) or (against and Support.CONFIRMS not in said):
        return max(against, key=lambda one: one.decisive).because
    if ceiling is not None:
        return None
    return _no_unknown_one(series, resource, plateau, evidence)


def _no_unknown_one(
    series: MetricSeries, resource: Resource, plateau: Plateau, evidence: Sequence[CeilingEvidence]
) -> str | None:
    """Why a plateau is not an unknown ceiling, where no table lists a limit; None if it is."""
    if resource not in DISK:
        return "no limit is known at this level, and programs can run at a steady pace"
    if plateau.level < UNKNOWN_AT_LEAST * busiest(totals(series)[resource]):
        return "far below what was reached at other times"
    if not evidence:
        return (
            "no limit is known at this level; DiskQueueDepth or latencies would show whether there "
            "is one"
        )
    step = max(series.step / 60, 1)  # a host is watched by the second
    lengths = [(end - start) * step for start, end in plateau.spans]
    if sum(lengths) < LASTS_AT_UNKNOWN[0] or max(lengths) < LASTS_AT_UNKNOWN[1]:
        return "no limit is known at this level, and it was too short for an unknown one"
    if any(
        one.ratio >= waits and one.requests >= queue
        for one in evidence
        for waits, queue in AT_UNKNOWN
    ):
        return None
    return f"no limit is known at this level, and operations hardly waited: {evidence[0].because}"


def _of_the_disk(
    series: MetricSeries, resource: Resource, plateau: Plateau, calm: Mask, rate: float
) -> Iterator[CeilingEvidence]:
    """The queue's evidence, compared with the calm time around.

    Calm is where nothing was flat and less was carried: what is at the level as well, but too
    noisy to be flat, waits just as long.
    """
    if resource in DISK:
        there = inside(plateau.spans, series.points)
        elsewhere = nearby(there, calm)
        yield from waiting(series, there, elsewhere, rate)
        yield from sessions(series, there, elsewhere)


def _busy(
    every: Mapping[Resource, Values], flat_: Sequence[tuple[Resource, Plateau]], length: int
) -> Mask:
    """Every flat stretch, a few points around it while a queue drains, and what is at its level."""
    busy = inside([(max(a - 3, 0), b + 3) for _, one in flat_ for a, b in one.spans], length)
    for resource, one in flat_:
        busy |= fitting(every[resource], one.level)
    return busy


def _without_shadows(
    pegged: Sequence[Pegged], steady: Sequence[Steady], every: Mapping[Resource, Values],
    known: Sequence[Ceiling],
) -> tuple[list[Pegged], list[Steady]]:  # fmt: skip
    """Drop shadows: throughput at a ceiling makes IOPS flat in the same minutes, or vice versa.

    So does whatever keeps throughput even without a ceiling.
    """
    real: list[Pegged] = []
    shadows: list[Steady] = []
    for one in sorted(pegged, key=lambda one: _weight(one, every, known)):
        others: tuple[Pegged | Steady, ...] = (*real, *steady)
        over = next((each for each in others if _repeats(one, each, every)), None)
        if over is None:
            real.append(one)
            continue
        because = f"{over.resource} is at its ceiling in the same minutes"
        if isinstance(over, Steady):
            because = f"{over.resource} is steady in the same minutes ({over.because})"
        if _is_current(one):
            because = f"an echo: {because}, and operations of one size make both flat"
        else:
            because += ", which explains it"
        shadows.append(Steady(resource=one.resource, plateau=one.plateau, because=because))
    return real, shadows


def _weight(
    one: Pegged, every: Mapping[Resource, Values], known: Sequence[Ceiling]
) -> tuple[bool, bool, bool, float]:
    """Sort known current ceilings first, then former, then unknown ones, the flattest first.

    What a balance confirms is a ceiling of its own.
    """
    if one.ceiling is None:  # several echoes can lie in one ceiling: the surest level counts
        flat_ = one.plateau.spread / one.plateau.points**0.5
        return True, False, True, flat_ * (FLATTER if _farther(one, every, known) else 1)
    flat_ = one.plateau.spread + OFF * abs(one.plateau.level / one.ceiling.value - 1)
    return False, _is_former(one), not _by_a_balance(one), flat_


def _farther(
    one: Pegged, every: Mapping[Resource, Values], known: Sequence[Ceiling]
) -> bool:  # fmt: skip
    """Whether the other resource was nearer to its known ceiling meanwhile.

    Requests of one size make throughput and IOPS equally flat. Limits in no table have about the
    proportion of the known ones: small requests reach one of IOPS, large ones one of throughput.
    """
    there = inside(one.plateau.spans, len(every[one.resource]))
    near = {
        each: float(numpy().nanmedian(every[each][there])) / limit.value
        for each in (Resource.THROUGHPUT, Resource.IOPS)
        if each in every and (limit := binding(known, each)) is not None
    }
    return near.get(one.resource, math.inf) < max(near.values(), default=0.0)


def _by_a_balance(one: Pegged) -> bool:
    return any(said.says is Support.CONFIRMS and not said.ratio for said in one.evidence)


def _repeats(under: Pegged, over: Pegged | Steady, every: Mapping[Resource, Values]) -> bool:
    """Whether too little of `under` remains outside the time of `over` to be a ceiling itself.

    That time includes rough points at its level, which are in no run, and minutes not filled.
    """
    if over.resource is under.resource or not {over.resource, under.resource} <= DISK:
        return False
    explains = over.refuted if isinstance(over, Steady) else True
    if _is_current(under):
        explains = isinstance(over, Pegged) and _is_current(over) and not _by_a_balance(under)
    if not explains:
        return False
    values, level = every[over.resource], over.plateau.level
    there = inside(under.plateau.spans, len(values))
    around = 0 if _is_current(under) else AROUND
    spans = [(max(a - around, 0), b + around) for a, b in over.plateau.spans]
    low, alone = (JUST_BELOW, LASTS_AT_UNKNOWN[0]) if under.ceiling is None else (LOW, 1)
    at = (values >= low * level) & (values <= HIGH * level)
    left = (there & ~inside(spans, len(values)) & ~at).sum()
    return bool(left < alone or left <= (1 - ECHO) * there.sum() + 1)


def pegged_mask(pegged: Sequence[Pegged], resources: Collection[Resource], length: int) -> Mask:
    """The points at which any of these resources was at a ceiling."""
    spans = [span for one in pegged if one.resource in resources for span in one.plateau.spans]
    return inside(spans, length)
