"""What a screen is made of: charts and tables over one period of one instance."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from mrtuner.history.analysis.coverage import recorded
from mrtuner.history.analysis.period import IN_PERIOD, HistoryPeriod, as_sampled
from mrtuner.history.analysis.series import ChartLine, Grid, Measure, lines, splits
from mrtuner.history.reading import History

#: Over at most this long [s], what is seldom is counted by minute.
_SHORT: Final = 3600.0
_DAY: Final = 86_400.0
#: SQL for the name of a row of the source `databases`: one is of no database.
DATABASE: Final = "coalesce(database, 'shared objects')"
#: Shown if a source has no rows in the period, or none in the store.
NOT_RECORDED: Final = "not recorded in this period"


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """Lines over the steps of a screen, in one unit."""

    name: str
    title: str
    unit: str
    series: Sequence[ChartLine]
    help: str = ""
    stacked: bool = False
    limits: Sequence[tuple[str, float]] = ()
    reached: Sequence[str] = ()  # names of limits that held the load down
    bands: Sequence[tuple[float, float]] = ()  # when they did, in seconds since 1970
    missing: str = NOT_RECORDED
    zero: str | None = None  # what it means that every value is 0, if that is not just 0

    @property
    def empty(self) -> bool:
        """Whether there is nothing to draw."""
        return not known(self.series)


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows under headings: (name, title, unit) of each column."""

    name: str
    title: str
    columns: Sequence[tuple[str, str, str]]
    rows: Sequence[Mapping[str, Any]]
    missing: str = "nothing in this period"


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """The input of a screen: a history, a period in steps, and what the address names."""

    history: History
    grid: Grid
    statement: int | None = None
    change: int | None = None  # an entry of the journal
    process: int | None = None  # whose samples are listed
    before: HistoryPeriod | None = None  # the period to compare with

    @property
    def about(self) -> HistoryPeriod:
        return self.grid.about

    @property
    def seldom(self) -> tuple[str, float]:
        """Unit of the rate of what is seldom, and its scale: by the hour only over hours."""
        return ("/min", 60.0) if self.about.seconds <= _SHORT else ("/h", 3600.0)

    def has(self, source: str) -> bool:
        return self.history.has(source)

    def unless_unrecorded(self, reason: str) -> str:
        """Return why nothing is shown: `reason`, if anything was recorded in the period."""
        key = "recorded", self.about
        found = self.history.once(key, lambda: recorded(self.history, self.about))
        return NOT_RECORDED if found is None else reason

    def unless_gone(self, reason: str) -> str:
        """Return why no sample of sessions is shown: they are kept for a shorter time than sums."""
        if self.has("sessions") and not as_sampled(self.history, "sessions", self.about):
            days = self.history.source("sessions").keep / _DAY
            return f"unknown: each sample of sessions is kept for {days:.0f} days"
        return self.unless_unrecorded(reason)

    def latest(
        self, source: str, keys: Mapping[str, str], columns: Sequence[str]
    ) -> list[dict[str, Any]]:
        """Return the last row for each key of a source; empty without the source.

        An object that did not change has no row in the period, but is included. The columns of an
        object that no longer exists are None. `keys` maps names in the result to SQL.
        """
        if not self.has(source):
            return []
        by = ", ".join(f'{sql} AS "{name}"' for name, sql in keys.items())
        names = ", ".join(f'"{name}"' for name in keys)
        last = ", ".join(f"last.{name} AS {name}" for name in columns)
        whole = ", ".join(f"'{name}': {name}" for name in columns)
        found = self.history.latest(
            f"""SELECT {names}, {last} FROM (
                    SELECT {by}, arg_max({{ {whole} }}, time) AS last
                    FROM {source} WHERE {IN_PERIOD} GROUP BY ALL) AS t""",
            source, len(keys), instance=self.about.instance, end=self.grid.parameters["end"],
        )  # fmt: skip
        return [dict(zip((*keys, *columns), row, strict=True)) for row in found]

    def lines(
        self, source: str, measures: Mapping[str, Measure], where: str = "true"
    ) -> list[ChartLine]:
        """See `mrtuner.history.analysis.series.lines`; without the source there are none."""
        return lines(self.history, self.grid, source, measures, where) if self.has(source) else []

    def split(
        self, source: str, measure: Measure, by: str, *, where: str = "true", top: int = 8
    ) -> list[ChartLine]:
        """See `mrtuner.history.analysis.series.splits`; without the source there are none."""
        return self.splits(source, {"": measure}, by, where=where, top=top)[""]

    def splits(
        self, source: str, measures: Mapping[str, Measure], by: str, *, where: str = "true",
        top: int = 8,
    ) -> dict[str, list[ChartLine]]:  # fmt: skip
        """See `mrtuner.history.analysis.series.splits`; without the source there are none."""
        if not self.has(source):
            return {name: [] for name in measures}
        return splits(self.history, self.grid, source, measures, by, where=where, top=top)


@dataclass(frozen=True, slots=True, kw_only=True)
class Screen:
    """A page of the viewer: its name, what it shows, the sources it needs, and how to build it."""

    name: str
    title: str
    help: str
    sources: tuple[str, ...]
    build: Callable[[View], tuple[Sequence[Chart], Sequence[Table]]] = field(repr=False)
    story: bool = False  # whether it begins with what went wrong


def as_spent(series: Sequence[ChartLine], crashes: Collection[int] = ()) -> Sequence[ChartLine]:
    """Return shares of the time of work that is counted when it ends, as it was spent.

    More than all of a step's time was spent in the steps before; what has no place there, before
    the period or what was recorded, is left out. After the last work that was counted, up to the
    end, to what was not recorded or to the step of a crash, it is unknown: work that has not ended
    is not counted.

    >>> as_spent([ChartLine("writing", [0.0, 0.5, 0.25, 2.0, 0.0])])[0].values
    [0.0, 0.75, 1.0, 1.0, None]
    """
    counted: list[bool] = []
    ended = False
    for place, values in reversed([*enumerate(zip(*(one.values for one in series), strict=True))]):
        ended = ended and place + 1 not in crashes
        ended = None not in values and (ended or any(values))
        counted.insert(0, ended)
    return [
        ChartLine(one.name, _spread_back([
            value if known else None for value, known in zip(one.values, counted, strict=True)
        ], crashes))
        for one in series
    ]  # fmt: skip


def _spread_back(values: Sequence[float | None], crashes: Collection[int]) -> list[float | None]:
    spent, more = list(values), 0.0
    for place in reversed(range(len(spent))):
        value = spent[place]
        if place + 1 in crashes:
            more = 0.0
        if value is None:
            more = 0.0
            continue
        spent[place] = min(value + more, 1.0)
        more = value + more - min(value + more, 1.0)
    return spent


def known(series: Sequence[ChartLine]) -> Sequence[ChartLine]:
    """Return the lines if any of them has a value, else none."""
    return series if any(value is not None for one in series for value in one.values) else ()


def highest(series: Iterable[ChartLine]) -> float:
    """Return the highest value of any of them; 0 without one."""
    return max((value or 0 for one in series for value in one.values), default=0)
