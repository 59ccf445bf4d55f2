"""The limits of a fleet for a terminal: one line per instance that was at a ceiling."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from mrtuner.limits.document import FleetDocument, FleetInstance
from mrtuner.limits.fleet import FleetPegged
from mrtuner.limits.sentences import lasting, quantity
from mrtuner.tables import aligned

_HEADER: Final = ("region", "instance", "class", "storage", "at", "ceiling", "for")


def lines(told: FleetDocument) -> Iterator[str]:
    """Yield the document ``mrtuner.limits.fleet/1``, line by line."""
    reasons = Counter(why for one in told.instances for why in _unjudged(one))
    yield from (f"not judged: {count} x {why}" for why, count in reasons.most_common())
    rows = [_cells(one, at) for one in told.instances for at in one.pegged]
    if rows:
        yield from aligned([_HEADER, *rows])
        yield ""
    pegged = sum(1 for one in told.instances if one.pegged)
    yield (
        f"{pegged:,} of {len(told.instances):,} instances reached a limit, "
        f"{told.start[:16]} to {told.end[:16]} UTC"
    )
    yield from (f"  failed: {one.region}: {one.error}" for one in told.failures)


def _unjudged(one: FleetInstance) -> Iterator[str]:
    if one.unknown:
        yield one.unknown
    yield from (f"{each.name}: {each.why}" for each in one.unjudged)


def _cells(one: FleetInstance, at: FleetPegged) -> tuple[str, ...]:
    return (
        one.region,
        one.instance,
        one.class_name,
        one.storage or "?",
        quantity(at.resource, at.level),
        at.ceiling or f"unknown {at.resource}",
        lasting(at.minutes),
    )
