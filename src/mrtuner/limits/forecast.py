"""When will the next ceiling be reached? A line through the busy minutes of each day.

The daily 99th percentile of a resource is fitted with a straight line; Student's t on the slope
gives the uncertainty. Days at a ceiling hide growth and end the forecast: it is reached already.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from mrtuner.limits.ceilings import Ceiling, Resource, binding
from mrtuner.limits.findings import Findings, totals
from mrtuner.limits.series import Series
from mrtuner.stats.plateaus import numpy

if TYPE_CHECKING:
    from mrtuner.stats.plateaus import Values

#: Whole days that a line needs; a week has its own rhythm.
FEWEST_DAYS: Final = 10
#: A line is not believed further ahead than so many times what it was fitted to.
_AHEAD: Final = 10
_QUANTILE: Final = 0.99
#: Of a day's points, those that must be there.
_FULL: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """When one resource reaches what it can count on. None is not within sight."""

    resource: Resource
    ceiling: float
    busy: float  # the line today
    daily: float  # growth a day
    days: int  # that the line was fitted to
    earliest: datetime | None  # nine in ten lie between these
    expected: datetime | None
    latest: datetime | None
    because: str

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        texts = {
            name: None if moment is None else moment.isoformat()
            for name in ("earliest", "expected", "latest")
            for moment in (getattr(self, name),)
        }
        return {**asdict(self), **texts}


def forecasts(series: Series, known: Sequence[Ceiling], findings: Findings) -> Iterator[Forecast]:
    """One for every resource that has a ceiling, is not at one, and was measured long enough."""
    held = {one.resource for one in findings.pegged}
    for resource, values in totals(series).items():
        ceiling = binding(known, resource)
        if ceiling is None or resource in held:
            continue
        days, busy = _daily(series, values)
        if len(days) >= FEWEST_DAYS:
            yield _line(series, resource, ceiling.value, days, busy)


def _daily(series: Series, values: Values) -> tuple[Values, Values]:
    np = numpy()
    length = 86_400 // series.step
    count = len(values) // length
    table = values[-count * length :].reshape(count, length) if count else values.reshape(0, 1)
    full = np.isfinite(table).mean(axis=1) >= _FULL if count else np.zeros(0, dtype=bool)
    busy: Values = np.array([np.nanquantile(row, _QUANTILE) for row in table[full]])
    return np.flatnonzero(full).astype(float) - (count - 1), busy


def _line(
    series: Series, resource: Resource, ceiling: float, days: Values, busy: Values
) -> Forecast:
    np = numpy()
    middle = days.mean()
    spread = ((days - middle) ** 2).sum()
    slope = float(((days - middle) * (busy - busy.mean())).sum() / spread)
    today = float(busy.mean() - slope * middle)
    left = busy - (today + slope * days)
    error = float(np.sqrt((left**2).sum() / (len(days) - 2) / spread))
    wide = _t95(len(days) - 2) * error
    grows = slope - wide > 0
    because = (
        f"{slope:+.3g} a day over {len(days)} days" if grows
        else f"no growth shown over {len(days)} days"
    )  # fmt: skip
    fast, slow = (slope + wide, slope - wide) if grows else (0.0, 0.0)
    when = [_reached(series, today, each, ceiling, len(days)) for each in (fast, slope, slow)]
    if not grows:
        when = [None, None, None]
    return Forecast(
        resource=resource, ceiling=ceiling, busy=today, daily=slope, days=len(days),
        earliest=when[0], expected=when[1], latest=when[2], because=because,
    )  # fmt: skip


def _reached(
    series: Series, today: float, daily: float, ceiling: float, days: int
) -> datetime | None:
    if daily <= 0:
        return None
    ahead = max((ceiling - today) / daily, 0.0)
    return series.end + timedelta(days=ahead) if ahead <= _AHEAD * days else None


def _t95(freedom: int) -> float:
    """Student's t at 95 %, by the first terms of its expansion; within 1 % from 8 degrees on."""
    z = 1.6448536269514722
    return (
        z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
    )  # fmt: skip
