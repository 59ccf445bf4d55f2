"""What went wrong in a recorded period, the ceilings that its load ran flat at among it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from mrtuner.answers import ceilings
from mrtuner.history.analysis import incidents as recorded
from mrtuner.history.analysis import not_looked_for as unrecorded
from mrtuner.history.analysis.changes import changes
from mrtuner.history.analysis.incidents import Incident
from mrtuner.history.analysis.period import HistoryPeriod
from mrtuner.history.reading import History
from mrtuner.limits.metrics.series import MetricSeries
from mrtuner.limits.reached import Pegged
from mrtuner.limits.sentences import lasting, level


def incidents(history: History, about: HistoryPeriod) -> tuple[Incident, ...]:
    """Return what went wrong, in order of time."""
    found = (*without_ceilings(history, about), *_ceilings(history, about))
    return tuple(sorted(found, key=lambda one: (one.begin, one.kind, one.text)))


def without_ceilings(history: History, about: HistoryPeriod) -> tuple[Incident, ...]:
    """Return what went wrong but for ceilings, in order of time."""
    return recorded.incidents(history, about, changes(history, about))


def not_looked_for(history: History, about: HistoryPeriod) -> tuple[str, ...]:
    """Return what `incidents` could not look for, a sentence each; empty if that is nothing."""
    return (*unrecorded.not_looked_for(history, about), *_lacking_for_ceilings(history, about))


def _lacking_for_ceilings(history: History, about: HistoryPeriod) -> tuple[str, ...]:
    found = ceilings.judged(history, about)
    if found.limits is None or not found.limits.series.points:
        return (f"ceilings are not looked for: {found.why}",)
    return tuple(
        f"ceilings of {one.name} are not looked for: {one.why}" for one in found.limits.unjudged
    )


def _ceilings(history: History, about: HistoryPeriod) -> Iterator[Incident]:
    """Yield each ceiling that held the load down within the period."""
    limits = ceilings.judged(history, about).limits
    if limits is None:
        return
    for one in limits.findings.pegged:
        spans = list(_within(limits.series, one, about))
        if not spans:
            continue
        minutes = sum((end - begin).total_seconds() for begin, end in spans) / 60
        known = one.ceiling
        limit = f"the limit of {known.name}" if known else "which no known limit explains"
        yield Incident(
            kind="ceiling", begin=spans[0][0], end=spans[-1][1], screen="headroom",
            text=f"{one.resource} ran flat at {level(one)}, {limit}, for {lasting(minutes)}",
        )  # fmt: skip


def _within(
    series: MetricSeries, one: Pegged, about: HistoryPeriod
) -> Iterator[tuple[datetime, datetime]]:
    for first, end in one.plateau.spans:
        span = max(series.at(first), about.begin), min(series.at(end), about.end)
        if span[0] < span[1]:
            yield span
