"""Values over time in equal steps, as a chart draws them.

A step has None where nothing was sampled or the value is unknown. Long periods are answered from
the summaries, so that a year is as quick as an hour.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any, Final

from mrtuner.described import Doc, document_name
from mrtuner.history.analysis.gaps import longest_pause
from mrtuner.history.analysis.period import IN_PERIOD, HistoryPeriod, view_for
from mrtuner.history.reading import History
from mrtuner.history.recording.source import Source
from mrtuner.history.store import summaries
from mrtuner.history.store.layout import last_value, rollup_view

_WORD: Final = re.compile(r"\w+")
#: Lengths of a step that people read easily [s].
_STEPS: Final = (
    5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400,
    604_800, 2_592_000,
)  # fmt: skip
#: Shortest step [s]: sessions are sampled each second or less often, and a step needs several.
_SHORTEST: Final = 10.0
#: No chart has more steps, since no screen has as many points.
MOST_STEPS: Final = 2000
#: Name of the sum of what is not among the largest.
OTHER: Final = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """The steps of a period: `begin` is a multiple of `step`, both in seconds since 1970."""

    about: HistoryPeriod
    begin: int
    step: int
    count: int

    @property
    def times(self) -> list[int]:
        return [self.begin + n * self.step for n in range(self.count)]

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters of queries: whole steps, so that no value covers only a part of one."""
        end = self.begin + self.count * self.step
        return {
            "instance": self.about.instance,
            "begin": datetime.fromtimestamp(self.begin, UTC).replace(tzinfo=None),
            "end": datetime.fromtimestamp(end, UTC).replace(tzinfo=None),
        }


def grid(
    history: History, about: HistoryPeriod, sources: Sequence[str], *, most: int = 300
) -> Grid:
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


def shifted(over: Grid, before: HistoryPeriod) -> Grid:
    """Return the same steps over an earlier period of the same length."""
    back = round((over.about.begin - before.begin).total_seconds())
    return Grid(about=before, begin=over.begin - back, step=over.step, count=over.count)


def _finest(history: History, source: Source, about: HistoryPeriod) -> float:
    if view_for(history, source.name, about.begin) == source.name:
        return max(source.interval, _SHORTEST)
    return source.rollup.seconds


class Kind(StrEnum):
    """How the rows of a step become one value."""

    RATE = "rate"  # growth of a counter per second
    RATIO = "ratio"  # growth of one counter divided by that of another
    NUMBER = "number"  # average number of rows in a sample, such as sessions
    AVERAGE = "average"  # of a gauge
    HIGHEST = "highest"
    LOWEST = "lowest"
    LAST = "last"  # of a gauge that is stored only when it changes


#: SQL functions of a gauge; a summary has a column for each.
_FUNCTIONS: Final = {Kind.AVERAGE: "avg", Kind.HIGHEST: "max", Kind.LOWEST: "min"}


@dataclass(frozen=True, slots=True)
class Measure:
    """What a line shows: SQL over a source's counters, or the name of a gauge."""

    kind: Kind
    of: str = ""
    over: str = ""  # divisor of a ratio
    scale: float = 1.0

    @property
    def columns(self) -> str:
        """SQL that contains the columns it needs."""
        return f"{self.of} {self.over}"

    def sql(self, summarized: bool) -> str:
        """Return SQL for the aggregate over the rows of a step."""
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

    def value(self, found: float | None, times: int, seconds: float) -> float | None:
        """Return the value of a step from its aggregate `found`; None if it is unknown.

        The source was sampled `times` times in the step, which covers `seconds`.
        """
        if found is not None and self.kind is Kind.RATE:
            found = found / seconds if seconds else None
        elif found is not None and self.kind is Kind.NUMBER:
            found = found / times if times else None
        return None if found is None else float(found) * self.scale


def rate(of: str, *, scale: float = 1.0) -> Measure:
    """Growth of a counter per second, times `scale`."""
    return Measure(Kind.RATE, of, scale=scale)


def ratio(of: str, over: str, *, scale: float = 1.0) -> Measure:
    """Growth of one counter divided by that of another, such as the time of one call."""
    return Measure(Kind.RATIO, of, over, scale)


@document_name("ChartSeries")
@dataclass(frozen=True, slots=True)
class ChartLine:
    """A line of a chart."""

    name: Annotated[str, Doc("what it is of")]
    values: Annotated[list[float | None], Doc("one a step; null: not sampled, or unknown")]


def lines(
    history: History, over: Grid, source: str, measures: Mapping[str, Measure], where: str = "true"
) -> list[ChartLine]:
    """Return one series for each measure, over all rows of a source.

    `where` is our own SQL; it must never contain values from elsewhere.
    """
    of = _Rows(history, over, source, "''", where)
    rows = of.aggregated(tuple(measures.values())).get("", {})
    return [
        of.series(measure, name, {at: row[n] for at, row in rows.items()}, absent=None)
        for n, (name, measure) in enumerate(measures.items())
    ]


def split(
    history: History, over: Grid, source: str, measure: Measure, by: str, *,
    where: str = "true", top: int = 8,
) -> list[ChartLine]:  # fmt: skip
    """Return one series for each value of `by`, the largest first; the rest is `OTHER`.

    Values that cannot be added up, such as ages, have no `OTHER`.
    """
    return splits(history, over, source, {"": measure}, by, where=where, top=top)[""]


def splits(
    history: History, over: Grid, source: str, measures: Mapping[str, Measure], by: str, *,
    where: str = "true", top: int = 8,
) -> dict[str, list[ChartLine]]:  # fmt: skip
    """Return what `split` returns, for several measures by name."""
    of = _Rows(history, over, source, by, where)
    kept = {name: one for name, one in measures.items() if one.kind is Kind.LAST}
    last = of.last(kept, top) if kept else {}
    return {
        name: last[name] if name in last else of.largest(measure, top)
        for name, measure in measures.items()
    }


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows of a source over the steps of a period, by the values of `by`.

    There may be thousands of values, so only the largest ones get a series.
    """

    history: History
    over: Grid
    source: str
    by: str
    where: str

    def largest(self, measure: Measure, top: int) -> list[ChartLine]:
        """Return series of any measure but LAST; of what adds up, the sum of the rest as well."""
        adds = measure.kind in {Kind.RATE, Kind.NUMBER}
        weight, rest = ("sum", f"'{_REST}'") if adds else ("max", "NULL")
        view, where, sql = self._asked([measure])
        _, rows = self.history.table(
            f"""WITH cells AS (
                    SELECT coalesce(({self.by})::VARCHAR, '?') AS name, {_step(self.over)} AS step,
                           {sql} AS value
                    FROM {view} WHERE {IN_PERIOD} AND ({where}) GROUP BY 1, 2),
                places AS (
                    SELECT name, row_number() OVER (ORDER BY weight DESC NULLS LAST, name) AS place
                    FROM (SELECT name, {weight}(value) AS weight FROM cells GROUP BY 1) AS w)
                SELECT CASE WHEN place <= {top} THEN cells.name ELSE {rest} END, step,
                       {weight}(value)
                FROM cells JOIN places ON places.name = cells.name
                WHERE {adds} OR place <= {top} GROUP BY 1, 2""",
            self.over.parameters,
            inside=True,
        )
        found: dict[str, dict[int, Any]] = {}
        for name, at, value in rows:
            found.setdefault(name, {})[at] = value
        series = [self.series(measure, name, cells) for name, cells in found.items()]
        return sorted(series, key=lambda one: (one.name == _REST, *_order(measure, one)))

    def last(self, measures: Mapping[str, Measure], top: int) -> dict[str, list[ChartLine]]:
        """Return series of what is stored when it changes, even if it did not in this period."""
        kept = tuple(measures.values())
        before = self._before(kept)
        highest = self.aggregated(
            [replace(measure, kind=Kind.HIGHEST) for measure in kept], step="0"
        )
        chosen = []
        for place in range(len(kept)):
            most = {
                name: max(
                    row[place] or 0
                    for row in (before.get(name), highest.get(name, {}).get(0))
                    if row is not None
                )
                for name in before.keys() | highest.keys()
            }
            chosen.append(sorted(most, key=lambda name: (-most[name], name))[:top])
        cells = self.aggregated(kept, names=sorted({name for names in chosen for name in names}))
        answer = {}
        for place, (title, measure) in enumerate(measures.items()):
            series = [
                self.series(
                    measure, name, {at: row[place] for at, row in cells.get(name, {}).items()},
                    before[name][place] if name in before else None,
                )
                for name in chosen[place]
            ]  # fmt: skip
            answer[title] = sorted(series, key=lambda one: _order(measure, one))
        return answer

    def series(
        self, measure: Measure, name: str, cells: Mapping[int, Any], before: Any = None, *,
        absent: float | None = 0.0,
    ) -> ChartLine:  # fmt: skip
        seen = _sampled(self.history, self.over, self.source)
        longest = longest_pause(self.history, self.source)
        values = _values(self.over, measure, cells, seen, before, absent=absent, longest=longest)
        return ChartLine(OTHER if name == _REST else name, values)

    def aggregated(
        self, measures: Sequence[Measure], *, names: Sequence[str] | None = None, step: str = ""
    ) -> dict[str, dict[int, tuple[Any, ...]]]:
        """Return aggregates by the value of `by` (all, or only `names`), and number of the step."""
        view, where, sums = self._asked(measures)
        name = f"coalesce(({self.by})::VARCHAR, '?')"
        some = "" if names is None else f"AND list_contains($names, {name})"
        _, rows = self.history.table(
            f"""SELECT {name}, {step or _step(self.over)}, {sums}
                FROM {view} WHERE {IN_PERIOD} AND ({where}) {some} GROUP BY 1, 2""",
            self.over.parameters | ({} if names is None else {"names": names}),
            inside=True,
        )
        found: dict[str, dict[int, tuple[Any, ...]]] = {}
        for key, at, *values in rows:
            found.setdefault(key, {})[at] = tuple(values)
        return found

    def _before(self, measures: Sequence[Measure]) -> dict[str, tuple[Any, ...]]:
        """Return the last values before the period, by the value of `by`."""
        view, where, last = self._asked(measures)
        rows = self.history.latest(
            f"""SELECT coalesce(({self.by})::VARCHAR, '?'), {last}
                FROM {view} WHERE {IN_PERIOD} AND ({where}) GROUP BY 1""",
            self.source, 1, instance=self.over.about.instance, end=self.over.parameters["begin"],
        )  # fmt: skip
        return {name: tuple(values) for name, *values in rows}

    def _asked(self, measures: Sequence[Measure]) -> tuple[str, str, str]:
        """Return the view to query, the condition on its rows, and the aggregates."""
        asked = " ".join([self.by, *(measure.columns for measure in measures)])
        where, of = self.where, self.history.source(self.source)
        view = _view(self.history, self.over, self.source, f"{asked} {where}")
        if where != "true" and view == rollup_view(of) and not _columns(of, asked):
            for one in summaries.of_source(self.source):
                # It has just these rows, without the columns in the condition.
                if (one.of, one.where, one.step) == (view, where, of.rollup):
                    view, where = one.view, "true"
                    break
        return view, where, ", ".join(one.sql(summarized=view != self.source) for one in measures)


#: In a query, the name of what is not among the largest; no real name has such a character.
_REST: Final = "\x01"


def _order(measure: Measure, of: ChartLine) -> tuple[float, str]:
    weight = sum if measure.kind in {Kind.RATE, Kind.NUMBER} else max
    return -weight(value or 0 for value in of.values), of.name


def _view(history: History, over: Grid, name: str, asked: str = "") -> str:
    """Return the view of rows as sampled, or of a summary that has all that the steps need.

    `asked` is SQL that contains the columns to be read.
    """
    source = history.source(name)
    columns = _columns(source, asked)
    for one in summaries.of_source(name):
        if one.by and columns <= set(one.by) and over.step % one.step.seconds == 0:
            return one.view
    if over.step % source.rollup.seconds == 0:
        return rollup_view(source)
    return view_for(history, name, over.about.begin)


def _columns(source: Source, asked: str) -> set[str]:
    return set(_WORD.findall(asked)) & {column.name for column in source.columns}


def _step(over: Grid) -> str:
    return f"(epoch_us(time) // 1000000 - {over.begin}) // {over.step}"


def _sampled(history: History, over: Grid, source: str) -> dict[int, tuple[int, float]]:
    """Return how often a source was sampled in each step, and how many seconds that covers."""
    found = history.once(
        ("sampled", over.about.instance, over.begin, over.step, over.count),
        lambda: _all_sampled(history, over),
    )
    return found.get(source, {})


def _all_sampled(history: History, over: Grid) -> dict[str, dict[int, tuple[int, float]]]:
    """Return what `_sampled` returns, of every source: the charts of a screen share it."""
    view = _view(history, over, "samples", "source")
    count = "count(*)" if view == "samples" else "sum(samples)"
    _, rows = history.table(
        f"""SELECT source, {_step(over)}, {count}, sum(seconds) FROM {view}
            WHERE {IN_PERIOD} GROUP BY 1, 2""",
        over.parameters,
        inside=True,
    )
    found: dict[str, dict[int, tuple[int, float]]] = {}
    for source, at, times, seconds in rows:
        found.setdefault(source, {})[at] = (int(times), float(seconds or 0))
    return found


def _values(
    over: Grid, measure: Measure, rows: Mapping[int, Any], seen: Mapping[int, tuple[int, float]],
    before: Any = None, *, absent: float | None = None, longest: float,
) -> list[float | None]:  # fmt: skip
    """Return a value per step; of rates and numbers, `absent` if there was a sample but no row.

    Beyond `longest` seconds without a sample there is a gap.
    """
    values: list[float | None] = []
    last, since = before, 0
    for n in range(over.count):
        times, seconds = seen.get(n, (0, 0.0))
        since = 0 if times else since + over.step
        if measure.kind is Kind.LAST:
            # What is gone has left a null.
            last = rows.get(n, last)
            value = measure.value(last, times, seconds) if since <= longest else None
        elif n in rows:
            value = measure.value(rows[n], times, seconds)
        else:
            # The first sample of a rate covers no time.
            known = seconds if measure.kind is Kind.RATE else measure.kind is Kind.NUMBER
            value = absent if times and known else None
        values.append(value)
        if times and seconds <= longest:
            _fill(values, seen, int(seconds // over.step))
    return values


def _fill(values: list[float | None], seen: Mapping[int, tuple[int, float]], steps: int) -> None:
    """Copy the last value to the steps before it that its sample covers as well."""
    last = len(values) - 1
    for n in range(last - 1, max(-1, last - 1 - steps), -1):
        if n in seen:
            return
        values[n] = values[last]
