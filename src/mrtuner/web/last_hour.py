"""The last hour that was recorded of each instance, asked of all at once."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final

from mrtuner.history.analysis import DURING
from mrtuner.history.reading import History

DAY: Final = timedelta(days=1)
HOUR: Final = timedelta(hours=1)
_NOTHING: Final = timedelta()

#: The last hour that each instance has in a period, in which everything else is asked.
LAST_HOUR: Final = f"""(SELECT instance AS which, max(time) AS hour FROM samples_by_hour
    WHERE {DURING} GROUP BY 1) AS h"""


def by_instance(
    history: History, view: str, columns: str, where: str = "true"
) -> dict[str, dict[str, Any]]:
    """Aggregates over the last hour of each instance; none where the store has no such source."""
    source = view.removesuffix("_by_hour").removesuffix("_by_minute")
    if not history.has(source):
        return {}
    sql = f"""SELECT instance, {columns} FROM {view} JOIN {LAST_HOUR} ON instance = which
              WHERE {DURING} AND time >= hour AND time < hour + INTERVAL 1 HOUR AND ({where})
              GROUP BY 1"""
    found: dict[str, dict[str, Any]] = {}
    for since, names in by_age(history).items():
        span = {"begin": since, "end": datetime.max}
        rows = history.rows(sql, span, inside=since > datetime.min)
        found |= {row["instance"]: row for row in rows if row["instance"] in names}
    return found


def by_age(history: History) -> dict[datetime, set[str]]:
    """The instances by the time from which on their last hour is found: mostly a short one."""
    return history.once("by age", lambda: _grouped_by_age(history))


def _grouped_by_age(history: History) -> dict[datetime, set[str]]:
    spans = history.spans()
    latest = max((hour for _, hour in spans.values()), default=datetime.min)
    found: dict[datetime, set[str]] = {}
    for name, (_, hour) in spans.items():
        since = (latest - age for age in (_NOTHING, HOUR, DAY) if hour >= latest - age)
        found.setdefault(next(since, datetime.min), set()).add(name)
    return found
