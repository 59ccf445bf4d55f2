"""Limits as lines for a terminal, from ``mrtuner.limits/1`` or ``mrtuner.limits.fleet/1`` alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

from mrtuner.limits.ceilings import Resource
from mrtuner.limits.document import (
    CeilingEntry,
    ClassCandidate,
    FleetDocument,
    FleetInstance,
    LimitsDocument,
    PeggedResource,
    ResourceForecast,
    SteadyStretch,
)
from mrtuner.limits.fleet import FleetPegged
from mrtuner.limits.levels import DISK
from mrtuner.limits.sentences import lasting, quantity
from mrtuner.limits.what_if import Demand
from mrtuner.text_tables import aligned, bulleted
from mrtuner.wording import enumerated, not_judged

DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
#: Shortest duration [s] for which a calendar is shown.
_CALENDAR_FROM: Final = 6 * 3600
#: Shades for an hour in the calendar, from no minute at a ceiling to as many as in the worst.
_SHADES: Final = (" ", ".", ":", "+", "#")
_FLEET_HEADER: Final = ("region", "instance", "class", "storage", "at", "ceiling", "for")


def lines(told: LimitsDocument) -> Iterator[str]:
    """Yield the answer (``mrtuner.limits/1``) for a terminal, line by line."""
    yield from (not_judged(one.name, one.why, one.supply) for one in told.unjudged)
    yield f"{told.instance or told.class_name}: {told.verdict}"
    yield (
        f"  {told.class_name or 'server'}, storage {told.storage or 'not given'}, "
        f"{told.start[:16]} to {told.end[:16]} UTC, one point every {told.step} s"
    )
    yield from (f"  note: {text}" for text in told.notices)
    yield ""
    yield from _ceilings(told.ceilings)
    for one in told.pegged:
        yield ""
        yield from _pegged(one)
        if is_long(told):
            yield from _calendar(one.calendar)
    yield from bulleted("hidden demand", [demand_words(one) for one in told.needs if one.hidden])
    yield from bulleted("what to do", told.advice)
    yield from _candidates("enough, smallest first", told.candidates)
    if told.what_if is not None:
        yield from _candidates("what if", [told.what_if])
    yield from bulleted("when", [forecast_words(one) for one in told.forecasts])
    yield from bulleted("flat, but no ceiling", [steady_words(one) for one in told.steady])


def _ceilings(found: Sequence[CeilingEntry]) -> Iterator[str]:
    if not found:
        return
    yield "ceilings (reads and writes together; > is the tightest without burst credits)"
    rows = (
        (f"{'>' if one.binding else ' '} {one.name}", quantity(one.resource, one.value), one.note)
        for one in found
    )
    yield from aligned(rows, right={1})


def _pegged(one: PeggedResource) -> Iterator[str]:
    resource = one.resource
    ceiling = one.ceiling
    at = quantity(resource, one.level)
    if ceiling is None:
        yield f"{resource}: an unknown ceiling at {at}"
    else:
        names = enumerated([ceiling.name, *one.others], "or")
        yield f"{resource} at {at}: {one.of_ceiling:.1%} of {names}"
    surely = "confirmed by other metrics" if one.confirmed else "no other metric confirms it"
    yield (
        f"  {lasting(one.minutes)} in all ({one.share:.0%} of the time), "
        f"longest stretch {lasting(one.longest_minutes)}; {surely}"
    )
    yield from (f"  {said.says}: {said.because}" for said in one.evidence)


def is_long(told: LimitsDocument) -> bool:
    """Whether the data are long enough for a calendar of the week."""
    start, end = (datetime.fromisoformat(at) for at in (told.start, told.end))
    return (end - start).total_seconds() >= _CALENDAR_FROM


def _calendar(table: Sequence[Sequence[float]]) -> Iterator[str]:
    """Yield hours across, weekdays down; the more minutes at the ceiling, the darker."""
    most = max(max(row) for row in table)
    yield "       hour of the day, UTC"
    yield "       0     6     12    18"
    for day, row in zip(DAYS, table, strict=True):
        cells = "".join(_shade(value, most) for value in row)
        yield f"  {day}  {cells}".rstrip()


def _shade(value: float, most: float) -> str:
    place = -int(-value * (len(_SHADES) - 1) // most) if most else 0
    return _SHADES[place]


def _candidates(title: str, found: Sequence[ClassCandidate]) -> Iterator[str]:
    if not found:
        return
    yield ""
    yield title
    for one in found:
        room = ", ".join(
            f"{entry.resource} {entry.headroom:.2f}x" for entry in one.resources
            if entry.headroom is not None and entry.resource in DISK
        )  # fmt: skip
        short = f"  lacks {', '.join(one.lacks)}" if one.lacks else ""
        memory = quantity(Resource.MEMORY, one.memory)
        yield f"  {one.class_name:<18} {one.vcpus:>3} vCPUs {memory:>9}  {room}{short}"
        if one.storage:
            yield f"  {'':<18} over {one.storage}"


def demand_words(one: Demand) -> str:
    """Describe in a sentence the demand that a ceiling cut off, as far as known."""
    resource = one.resource
    served = f"{resource}: {quantity(resource, one.seen)} were served in the busiest minutes"
    if one.at_most is None:
        return f"{served}; how much more was requested is unknown"
    most = quantity(resource, one.at_most)
    return f"{served}; more was requested, at most {most} if waiting sessions never paused"


def forecast_words(one: ResourceForecast) -> str:
    """Describe one forecast in a sentence."""
    resource = one.resource
    measure = "daily average" if one.average else "busy minutes"
    what = f"{resource}: {measure} at {quantity(resource, one.busy)} of "
    what += f"{quantity(resource, one.ceiling)}"
    if one.average:
        what += ", above which burst credits run out"
    if one.busy >= one.ceiling:
        return f"{what}; reached already"
    # The upper edge of the line is there first: with `expected`, `earliest` is known.
    if one.expected is None or one.earliest is None:
        return (
            f"{what}; {one.because}"
            if one.daily <= 0
            else f"{what}; not reached in the foreseeable future"
        )
    last = one.latest
    until = f"to {last[:10]}" if last else "with no upper bound"
    return f"{what}; reached about {one.expected[:10]}, from {one.earliest[:10]} {until}"


def steady_words(one: SteadyStretch) -> str:
    """Describe in a sentence a flat stretch that is not a ceiling."""
    resource = one.resource
    return f"{resource} at {quantity(resource, one.level)}: {one.because}"


def fleet_lines(told: FleetDocument) -> Iterator[str]:
    """Yield the document ``mrtuner.limits.fleet/1``, line by line."""
    reasons = Counter(why for one in told.instances for why in _reasons(one))
    yield from (f"not judged: {count} x {why}" for why, count in reasons.most_common())
    rows = [_fleet_cells(one, at) for one in told.instances for at in one.pegged]
    if rows:
        yield from aligned([_FLEET_HEADER, *rows])
        yield ""
    pegged = sum(1 for one in told.instances if one.pegged)
    yield (
        f"{pegged:,} of {len(told.instances):,} instances reached a limit, "
        f"{told.start[:16]} to {told.end[:16]} UTC"
    )
    yield from (f"  failed: {one.region}: {one.error}" for one in told.failures)


def _reasons(one: FleetInstance) -> Iterator[str]:
    if one.unknown:
        yield one.unknown
    yield from (f"{each.name}: {each.why}" for each in one.unjudged)


def _fleet_cells(one: FleetInstance, at: FleetPegged) -> tuple[str, ...]:
    return (
        one.region,
        one.instance,
        one.class_name,
        one.storage or "?",
        quantity(at.resource, at.level),
        at.ceiling or f"unknown {at.resource}",
        lasting(at.minutes),
    )
