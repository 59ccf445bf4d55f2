"""Values over time in equal steps, as a chart draws them.

A step has None where nothing was sampled or the value is unknown. Long periods are answered from
the summaries, which is what keeps a year as quick as an hour.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final

from mrtuner.history.analysis import GAP, IN_PERIOD, Period, source_named, view_for
from mrtuner.history.reading import History
from mrtuner.history.source import Source
from mrtuner.history.store.layout import last_value, rollup_view

#: Lengths of a step that people read easily [s].
_STEPS: Final = (
    5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400,
    604_800, 2_592_000,
)  # fmt: skip
#: Sessions are sampled each second, or less often on a busy server: a step has several samples.
_SHORTEST: Final = 10.0
#: No chart has more steps: more than a screen has points.
MOST_STEPS: Final = 2000
#: What is not among the largest.
OTHER: Final = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """The steps of a period: `begin` is a multiple of `step`, both in seconds since 1970."""

    about: Period
    begin: int
    step: int
    count: int

    @property
    def times(self) -> list[int]:
        """When each step begins, in seconds since 1970."""
        return [self.begin + n * self.step for n in range(self.count)]

    @property
    def parameters(self) -> dict[str, Any]:
        """What the queries are given: whole steps, so that none is judged by half of it."""
        end = self.begin + self.count * self.step
        return {
            "instance": self.about.instance,
            "begin": datetime.fromtimestamp(self.begin, UTC).replace(tzinfo=None),
            "end": datetime.fromtimestamp(end, UTC).replace(tzinfo=None),
        }


def grid(history: History, about: Period, sources: Sequence[str], *, most: int = 300) -> Grid:
    """Return the finest steps that these sources have for a period, `most` of them or fewer."""
    known = [source for source in history.sources if source.name in sources]
    finest = max((_finest(history, source, about) for source in known), default=60.0)
    fitting = (
        step
        for step in _STEPS
        if step >= finest and -(-about.seconds // step) + 1 <= min(most, MOST_STEPS)
    )
    step = next(fitting, _STEPS[-1])
    begin = int(about.begin.timestamp()) // step * step
    return Grid(
        about=about, begin=begin, step=step,
        count=max(1, -(-(int(about.end.timestamp()) - begin) // step)),
    )  # fmt: skip


def shifted(over: Grid, before: Period) -> Grid:
    """The same steps over an earlier period of the same length."""
    back = round((over.about.begin - before.begin).total_seconds())
    return Grid(about=before, begin=over.begin - back, step=over.step, count=over.count)


def _finest(history: History, source: Source, about: Period) -> float:
    if view_for(history, source.name, about.begin) == source.name:
        return max(source.interval, _SHORTEST)
    return source.rollup.seconds


class Kind(StrEnum):
    """How the rows of a step become one value."""

    RATE = "rate"  # growth of a counter a second
    RATIO = "ratio"  # growth of one counter by that of another
    NUMBER = "number"  # rows at a time: sessions
    AVERAGE = "average"  # of a gauge
    HIGHEST = "highest"
    LOWEST = "lowest"
    LAST = "last"  # of a gauge that is stored only when it changes


#: Of a gauge in SQL; a summary has a column for each.
_FUNCTIONS: Final = {Kind.AVERAGE: "avg", Kind.HIGHEST: "max", Kind.LOWEST: "min"}


@dataclass(frozen=True, slots=True)
class Measure:
    """What a line shows: SQL over a source's counters, or the name of a gauge."""

    kind: Kind
    of: str = ""
    over: str = ""  # of a ratio
    scale: float = 1.0

    def sql(self, summarized: bool) -> str:
        """The aggregate over the rows of a step."""
        match self.kind:
            case Kind.RATE:
                return f"sum({self.of})"
            case Kind.RATIO:
                return f"sum({self.of}) / nullif(sum({self.over}), 0)"
            case Kind.NUMBER:
                return "sum(samples)" if summarized else "count(*)"
            case Kind.AVERAGE | Kind.HIGHEST | Kind.LOWEST:
                function = _FUNCTIONS[self.kind]
                return f"{function}({self.of}{f'_{function}' if summarized else ''})"
            case Kind.LAST:
                return last_value(f"{self.of}_last" if summarized else self.of)


def rate(of: str, *, scale: float = 1.0) -> Measure:
    """Growth of a counter a second, times `scale`."""
    return Measure(Kind.RATE, of, scale=scale)


def ratio(of: str, over: str, *, scale: float = 1.0) -> Measure:
    """Growth of one counter divided by that of another: the time of one call."""
    return Measure(Kind.RATIO, of, over, scale)


@dataclass(frozen=True, slots=True)
class Series:
    """A line of a chart: one value a step."""

    name: str
    values: list[float | None]


def lines(
    history: History, over: Grid, source: str, measures: Mapping[str, Measure], where: str = "true"
) -> list[Series]:
    """Return one series for each measure, over all rows of a source.

    `where` is SQL of ours; values from elsewhere never enter it.
    """
    found = _aggregated(history, over, source, tuple(measures.values()), "''", where)
    seen, longest = _sampled(history, over, source), _longest(history, source)
    rows = found.get("", {})
    return [
        Series(
            name,
            _values(over, measure, {at: row[n] for at, row in rows.items()}, seen, longest=longest),
        )
        for n, (name, measure) in enumerate(measures.items())
    ]


def split(
    history: History, over: Grid, source: str, measure: Measure, by: str, *,
    where: str = "true", top: int = 8, parameters: Mapping[str, Any] | None = None,
) -> list[Series]:  # fmt: skip
    """Return one series for each value of `by`, the largest first; what is left is `OTHER`.

    What cannot be added up, such as ages, has no rest.
    """
    found = _aggregated(history, over, source, (measure,), by, where, parameters=parameters)
    seen = _sampled(history, over, source)
    before = _before(history, over, source, measure, by, where) if measure.kind is Kind.LAST else {}
    series = [
        Series(
            name,
            _values(
                over, measure, {at: row[0] for at, row in found.get(name, {}).items()}, seen,
                before.get(name), absent=0.0, longest=_longest(history, source),
            ),
        )
        for name in found.keys() | before.keys()
    ]  # fmt: skip
    adds = measure.kind in {Kind.RATE, Kind.NUMBER}
    weight = sum if adds else max
    series.sort(key=lambda one: (-weight(value or 0 for value in one.values), one.name))
    shown, rest = series[:top], series[top:]
    if rest and adds:
        shown.append(
            Series(OTHER, [_sum(one.values[n] for one in rest) for n in range(over.count)])
        )
    return shown


def _sum(values: Any) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _view(history: History, over: Grid, name: str) -> str:
    """Rows as sampled, or their summary where that has all that the steps need."""
    source = source_named(history, name)
    if over.step % source.rollup.seconds == 0:
        return rollup_view(source)
    return view_for(history, name, over.about.begin)


def _aggregated(
    history: History, over: Grid, source: str, measures: Sequence[Measure], by: str, where: str,
    *, parameters: Mapping[str, Any] | None = None,
) -> dict[str, dict[int, tuple[Any, ...]]]:  # fmt: skip
    """Aggregates by the value of `by` and by the number of the step."""
    view = _view(history, over, source)
    sums = ", ".join(measure.sql(summarized=view != source) for measure in measures)
    _, rows = history.table(
        f"""SELECT coalesce(({by})::VARCHAR, '?'), {_step(over)}, {sums}
            FROM {view} WHERE {IN_PERIOD} AND ({where}) GROUP BY 1, 2""",
        over.parameters | dict(parameters or {}),
    )
    found: dict[str, dict[int, tuple[Any, ...]]] = {}
    for name, at, *values in rows:
        found.setdefault(name, {})[at] = tuple(values)
    return found


def _step(over: Grid) -> str:
    return f"(epoch_us(time) // 1000000 - {over.begin}) // {over.step}"


def _longest(history: History, source: str) -> float:
    """How long nothing may be sampled before there is a gap [s], as `analysis.gaps` has it."""
    return max(GAP * source_named(history, source).interval, 60.0)


def _sampled(history: History, over: Grid, source: str) -> dict[int, tuple[int, float]]:
    """How often the source was sampled in each step, and how many seconds that covers."""
    view = _view(history, over, "samples")
    count = "count(*)" if view == "samples" else "sum(samples)"
    _, rows = history.table(
        f"""SELECT {_step(over)}, {count}, sum(seconds) FROM {view}
            WHERE {IN_PERIOD} AND source = '{source}' GROUP BY 1""",
        over.parameters,
    )
    return {at: (int(times), float(seconds or 0)) for at, times, seconds in rows}


def _before(
    history: History, over: Grid, source: str, measure: Measure, by: str, where: str
) -> dict[str, Any]:
    """The last value before the period, by the value of `by`."""
    view = _view(history, over, source)
    _, rows = history.table(
        f"""SELECT coalesce(({by})::VARCHAR, '?'), {measure.sql(summarized=view != source)}
            FROM {view} WHERE instance = $instance AND time < $begin AND ({where}) GROUP BY 1""",
        {name: over.parameters[name] for name in ("instance", "begin")},
    )
    return dict(rows)


def _values(
    over: Grid, measure: Measure, rows: Mapping[int, Any], seen: Mapping[int, tuple[int, float]],
    before: Any = None, *, absent: float | None = None, longest: float,
) -> list[float | None]:  # fmt: skip
    """One value a step; `absent` where there was a sample but no row.

    Beyond `longest` seconds without a sample there is a gap.
    """
    values: list[float | None] = []
    last, since = before, 0
    for n in range(over.count):
        times, seconds = seen.get(n, (0, 0.0))
        since = 0 if times else since + over.step
        if measure.kind is Kind.LAST:
            # A null is what is left of something that is gone.
            last = rows.get(n, last)
            value = last if since <= longest else None
        elif n not in rows:
            value = absent if times and measure.kind in {Kind.RATE, Kind.NUMBER} else None
        elif measure.kind is Kind.RATE:
            value = None if rows[n] is None or not seconds else rows[n] / seconds
        elif measure.kind is Kind.NUMBER:
            value = rows[n] / times if times else None
        else:
            value = rows[n]
        values.append(None if value is None else float(value) * measure.scale)
        if times and seconds <= longest:
            _fill(values, seen, int(seconds // over.step))
    return values


def _fill(values: list[float | None], seen: Mapping[int, tuple[int, float]], steps: int) -> None:
    """Give the last value to the steps before it that its sample covers, too."""
    last = len(values) - 1
    for n in range(last - 1, max(-1, last - 1 - steps), -1):
        if n in seen:
            return
        values[n] = values[last]
