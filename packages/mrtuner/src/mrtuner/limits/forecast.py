"""When will the next ceiling be reached? A line through the busy minutes of each day.

A straight line is fitted to a resource's daily 99th percentile; where the band that holds nine in
ten single days meets the ceiling gives the uncertainty. A resource that was at a ceiling gets no
forecast: it has arrived already, and the cut-off load hides the growth.

Busy minutes above a baseline are what burst credits are for. A day earns back what it spent as long
as its average is below the baseline. So with credits busy minutes are compared with the burst, and
the daily average with the baseline; the earlier of the two is told.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from mrtuner.limits.ceilings import Ceiling, CeilingKind, Resource, binding, peak
from mrtuner.limits.levels import totals
from mrtuner.limits.metrics.series import MetricSeries
from mrtuner.limits.reached import Findings
from mrtuner.stats.plateaus import numpy

if TYPE_CHECKING:
    from mrtuner.stats.plateaus import Values

#: Whole days that a line needs; a week has its own rhythm.
FEWEST_DAYS: Final = 10
#: A line is trusted at most this many times as far ahead as it was fitted.
_AHEAD: Final = 10
_QUANTILE: Final = 0.99
#: The least share of a day's points that must exist.
_FULL: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """When one resource will reach what it can count on; None: not in sight."""

    resource: Resource
    average: bool  # of daily averages, against a baseline below a burst; else of busy minutes
    ceiling: float
    busy: float  # value of the line today: of busy minutes or of the daily average
    daily: float  # growth per day
    days: int  # days the line was fitted to
    earliest: datetime | None  # with `latest`, the bounds of nine cases in ten
    expected: datetime | None
    latest: datetime | None
    because: str


def forecasts(
    series: MetricSeries, known: Sequence[Ceiling], findings: Findings
) -> Iterator[Forecast]:
    """Forecast every resource that has a ceiling, is not at one, and was measured long enough."""
    held = {one.resource for one in findings.pegged}
    for resource, values in totals(series).items():
        least = binding(known, resource)
        if least is None or resource in held:
            continue
        most = peak(known, resource) if _bursts(known, least) else None
        found = [_line(series, resource, (most or least).value, values)]
        if most is not None:
            found.append(_line(series, resource, least.value, values, average=True))
        told = [one for one in found if one is not None]
        if told:
            yield min(told, key=lambda one: (one.expected is None, one.expected or series.end))


def _bursts(known: Sequence[Ceiling], baseline: Ceiling) -> bool:
    """Whether credits let the part go above its baseline."""
    return any(
        one.kind is CeilingKind.BURST
        and (one.part, one.resource) == (baseline.part, baseline.resource)
        for one in known
    )


def _busy(day: Values) -> float:
    return float(numpy().nanquantile(day, _QUANTILE))


def _average(day: Values) -> float:
    return float(numpy().nanmean(day))


def _daily(
    series: MetricSeries, values: Values, of_day: Callable[[Values], float]
) -> tuple[Values, Values]:
    np = numpy()
    length = 86_400 // series.step
    count = len(values) // length if length else 0
    table = values[len(values) - count * length :].reshape(count, length)
    full = np.isfinite(table).mean(axis=1) >= _FULL
    found: Values = np.array([of_day(row) for row in table[full]])
    return np.flatnonzero(full).astype(float) - (count - 1), found


def _line(
    series: MetricSeries,
    resource: Resource,
    ceiling: float,
    values: Values,
    *,
    average: bool = False,
) -> Forecast | None:
    days, busy = _daily(series, values, _average if average else _busy)
    if len(days) < FEWEST_DAYS:
        return None
    line = _fitted(days, busy)
    slope_error = line.error / math.sqrt(line.spread)
    grows = line.slope - _t95(line.count - 2) * slope_error > 0
    because = (
        f"{line.slope:+.3g} per day over {line.count} days"
        if grows
        else f"no growth shown over {line.count} days"
    )
    when = [_reached(series, line, ceiling, side) if grows else None for side in (1, 0, -1)]
    return Forecast(
        resource=resource, average=average, ceiling=ceiling, busy=line.at(0), daily=line.slope,
        days=line.count, earliest=when[0], expected=when[1], latest=when[2], because=because,
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fit:
    """A straight line by least squares; day 0 is the last."""

    count: int
    middle: float
    mean: float
    slope: float
    error: float  # standard deviation of the residuals
    spread: float  # sum of squared distances of the days from their mean

    def at(self, day: float, side: int = 0) -> float:
        """The line's value, or the upper (1) or lower (-1) edge of what nine days in ten hold."""
        away = day - self.middle
        # 1: a single day's own distance from the line.
        wide = self.error * math.sqrt(1 + 1 / self.count + away**2 / self.spread)
        return self.mean + self.slope * away + side * _t95(self.count - 2) * wide


def _fitted(days: Values, busy: Values) -> _Fit:
    np = numpy()
    middle, mean = float(days.mean()), float(busy.mean())
    spread = float(((days - middle) ** 2).sum())
    slope = float(((days - middle) * (busy - mean)).sum() / spread)
    left = busy - mean - slope * (days - middle)
    error = float(np.sqrt((left**2).sum() / (len(days) - 2)))
    return _Fit(
        count=len(days), middle=middle, mean=mean, slope=slope, error=error, spread=spread
    )  # fmt: skip


def _reached(series: MetricSeries, line: _Fit, ceiling: float, side: int) -> datetime | None:
    """When the line or its edge reaches the ceiling, to a tenth of a day; a day counts at noon."""
    steps = (place / 10 for place in range(10 * _AHEAD * line.count + 1))
    found = next((day for day in steps if line.at(day, side) >= ceiling), None)
    return None if found is None else series.end + timedelta(days=found - 0.5)


def _t95(freedom: int) -> float:
    """Student's t at 95 %, from the first terms of its expansion; within 1 % from 8 degrees on."""
    z = 1.6448536269514722
    return (
        z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
    )  # fmt: skip
