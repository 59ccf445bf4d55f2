"""The last recorded hour of each instance, queried for all at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from mrtuner.history.analysis.period import DURING
from mrtuner.history.reading import BEATS, History
from mrtuner.history.store.layout import MICRO
from mrtuner.history.store.summaries import AT_WORK

DAY: Final = timedelta(days=1)
HOUR: Final = timedelta(hours=1)
NOTHING: Final = timedelta()


def last_hours(history: History) -> dict[str, datetime]:
    return {name: hour for name, (_, hour) in history.spans().items()}


def by_instance(
    history: History, view: str, columns: Mapping[str, str], where: str = "true", *,
    of: Mapping[str, datetime] | None = None, before: timedelta = NOTHING, after: timedelta = HOUR,
    by: str = "instance", sealed: bool = False,
) -> list[dict[str, Any]]:  # fmt: skip
    """Return aggregates over the last hour of each instance; empty without the source.

    Args:
        history: The store.
        view: The source's rows as sampled, or their summary by hour (``…_by_hour``).
        columns: SQL of the aggregates, by name.
        where: SQL of the rows that count.
        of: Instances, and their last hours; all of them by default.
        before: How much time before that hour to include, in whole hours.
        after: How much time to include from the beginning of that hour on, in whole hours.
        by: Columns to group by.
        sealed: Count only rows that are in files.
    """
    source = view.removesuffix("_by_hour")
    if not history.has(source):
        return []
    sql = f"""SELECT instance, {", ".join(columns.values())}
              FROM {view} JOIN (SELECT unnest($names) AS which, unnest($hours) AS hour) AS h
                ON instance = which
              WHERE {DURING} AND time >= hour - INTERVAL {before // HOUR} HOUR
                AND time < hour + INTERVAL {after // HOUR} HOUR AND ({where})
              GROUP BY {by}"""
    ask = history.sealed if sealed else history.during
    return [
        dict(zip(("instance", *columns), row, strict=True))
        for hours in _by_age(last_hours(history) if of is None else of)
        for row in ask(sql, source, _parameters(hours, before, after))
    ]


def sessions_at_work(history: History) -> dict[str, float]:
    """Return the average number of active sessions of each instance that was sampled.

    Rows that are in no file yet are counted inside SQLite, since there may be millions of them.
    """
    beats = _counted(history, "samples", BEATS)
    sessions = _counted(history, "sessions", AT_WORK)
    return {name: sessions.get(name, 0) / number for name, number in beats.items()}


def _counted(history: History, source: str, where: str) -> dict[str, int]:
    """Count the rows in each instance's last hour that meet a condition; no entry for none."""
    if not history.has(source):
        return {}
    number = {"number": "sum(samples)"}
    rows = by_instance(history, f"{source}_by_hour", number, where, sealed=True)
    found = {row["instance"]: int(row["number"]) for row in rows}
    recent = history.recent_hours(source, where)
    for name, hour in last_hours(history).items():
        counted = recent.get((name, int(hour.replace(tzinfo=UTC).timestamp()) * MICRO))
        if counted is not None and counted.rows:
            found[name] = found.get(name, 0) + counted.rows
    return found


def _parameters(
    hours: Mapping[str, datetime], before: timedelta, after: timedelta
) -> dict[str, Any]:
    return {
        "begin": min(hours.values()) - before, "end": max(hours.values()) + after,
        "names": list(hours), "hours": list(hours.values()),
    }  # fmt: skip


def _by_age(hours: Mapping[str, datetime]) -> Iterator[Mapping[str, datetime]]:
    """Group instances whose last hours are near each other, so that queries read few files."""
    latest = max(hours.values(), default=datetime.min)
    left = dict(hours)
    for age in (NOTHING, HOUR, DAY, latest - datetime.min):
        found = {name: hour for name, hour in left.items() if latest - hour <= age}
        if found:
            yield found
        left = {name: hour for name, hour in left.items() if name not in found}
