"""A period of one instance, and where its rows are: as sampled, or summarized."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final

from mrtuner.described import Doc
from mrtuner.errors import UsageError
from mrtuner.history.reading import History
from mrtuner.history.store.layout import rollup_view
from mrtuner.history.store.opening import require_instance

#: The rows of a period, and those of one instance in it.
DURING: Final = "time >= $begin AND time < $end"
IN_PERIOD: Final = f"instance = $instance AND {DURING}"
#: If a period has at least this many steps of the summary, its whole steps are read from there.
_LONG: Final = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryPeriod:
    """A period of one instance."""

    instance: Annotated[str, Doc("its name in the store")]
    begin: Annotated[datetime, Doc("UTC")]
    end: Annotated[datetime, Doc("UTC")]

    @property
    def seconds(self) -> float:
        return (self.end - self.begin).total_seconds()

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters of queries over the period."""
        return {
            "instance": self.instance,
            "begin": self.begin.replace(tzinfo=None),
            "end": self.end.replace(tzinfo=None),
        }


def instances(history: History) -> tuple[str, ...]:
    return tuple(sorted(history.spans()))


def period(
    history: History, instance: str | None, *, since: float, until: datetime | None = None
) -> HistoryPeriod:
    """The last `since` seconds of an instance up to `until`, or up to its last sample.

    `until` may be in any time zone; without one it is in UTC, as the period is.

    Raises:
        UsageError: there is no such instance, or there are several and none is named.
    """
    known = instances(history)
    if instance is None:
        if len(known) != 1:
            raise UsageError(
                f"the store has {len(known)} instances",
                f"Name one with --instance: {', '.join(known)}." if known else "Record one first.",
            )
        instance = known[0]
    require_instance(instance, known)
    if until is None:
        last = history.last_sample(instance)
        if last is None:
            raise UsageError(f"{instance} has no samples that recent", "Give a longer --since.")
        until = last
    until = until.astimezone(UTC) if until.tzinfo else until.replace(tzinfo=UTC)
    return HistoryPeriod(instance=instance, begin=until - timedelta(seconds=since), end=until)


def since_recorded(history: History, about: HistoryPeriod) -> HistoryPeriod:
    """Return the period without the time before the first sample of its instance."""
    first = history.first_sample(about.instance)
    if first is None or not about.begin < first.replace(tzinfo=UTC) < about.end:
        return about
    return replace(about, begin=first.replace(tzinfo=UTC))


def view_for(history: History, name: str, begin: datetime) -> str:
    """Return the view of a source that reaches back to `begin`: as sampled, or summarized."""
    source = history.source(name)
    newest = history.newest()
    if newest is None:
        return name
    oldest = newest.replace(tzinfo=UTC) - timedelta(seconds=source.keep)
    return name if begin >= oldest else rollup_view(source)


def as_sampled(history: History, name: str, about: HistoryPeriod) -> bool:
    """Whether a source was recorded, and a period is covered by its rows as sampled."""
    return history.has(name) and view_for(history, name, about.begin) == name


def from_minute(about: HistoryPeriod) -> dict[str, Any]:
    """Return the parameters of queries by minute, which include the first minute in full."""
    return replace(about, begin=minute_of(about.begin)).parameters


def minute_of(at: datetime) -> datetime:
    return at.replace(second=0, microsecond=0)


def counted_in(
    history: History, name: str, about: HistoryPeriod, columns: str
) -> tuple[str, dict[str, Any]]:
    """Return SQL for a period's counters, and its parameters.

    The whole steps of a long period are read from their summary.
    """
    source = history.source(name)
    rollup, step = rollup_view(source), source.rollup.seconds
    asked = f"SELECT {columns} FROM {{}} WHERE {IN_PERIOD}"
    if view_for(history, name, about.begin) == rollup:
        return asked.format(rollup), about.parameters
    if about.seconds < _LONG * step:
        return asked.format(name), about.parameters
    begin, end = (int(at.timestamp()) for at in (about.begin, about.end))
    first, last = (-(-begin // step) * step, end // step * step)
    whole = {
        name: datetime.fromtimestamp(at, UTC).replace(tzinfo=None)
        for name, at in (("first", first), ("last", last))
    }
    sql = f"""{asked.format(rollup)} AND time >= $first AND time < $last
              UNION ALL {asked.format(name)} AND (time < $first OR time >= $last)"""
    return sql, about.parameters | whole
