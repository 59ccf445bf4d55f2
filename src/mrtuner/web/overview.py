"""How each instance of a store is in its last hour: one query for all, however many there are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from mrtuner.history.analysis import AT_WORK, DURING
from mrtuner.history.headroom import LIMITS, RecordedLimit
from mrtuner.history.reading import History

_DAY: Final = timedelta(days=1)
_HOUR: Final = timedelta(hours=1)
_NOTHING: Final = timedelta()


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceOverview:
    """An instance, in the last hour that was recorded of it; None where that is not known."""

    instance: str
    first: datetime
    last: datetime
    load: float | None  # sessions at work on average
    cpus: int | None
    used: Mapping[str, float]  # share of each limit
    changes: int  # settings and events of its last day

    @property
    def tightest(self) -> str | None:
        """The limit that is nearest."""
        return max(self.used, key=lambda name: self.used[name], default=None)


def overview(history: History) -> list[InstanceOverview]:
    """Return every instance of a store, the one with the least headroom first."""
    recent = _recent(history)
    sessions = _by_instance(history, "sessions_by_minute", "sum(samples) AS samples", AT_WORK)
    beats = _by_instance(
        history, "samples_by_hour", "sum(samples) AS samples", "source = 'sessions'"
    )
    cpus = _by_instance(history, "host_by_hour", "max(cpus_last) AS cpus")
    used = _used(history)
    changed = _changes(history)
    found = [
        InstanceOverview(
            instance=name,
            first=first.replace(tzinfo=UTC),
            last=(recent.get(name) or hour).replace(tzinfo=UTC),
            load=_load(sessions.get(name), beats.get(name)),
            cpus=cpus.get(name, {}).get("cpus"),
            used=used.get(name, {}),
            changes=changed.get(name, 0),
        )
        for name, (first, hour) in history.spans().items()
    ]
    return sorted(found, key=lambda one: (-max(one.used.values(), default=0.0), one.instance))


#: The last hour that each instance has in a period, in which everything else is asked.
_LAST_HOUR: Final = f"""(SELECT instance AS which, max(time) AS hour FROM samples_by_hour
    WHERE {DURING} GROUP BY 1) AS h"""


def _by_instance(
    history: History, view: str, columns: str, where: str = "true"
) -> dict[str, dict[str, Any]]:
    """Aggregates over the last hour of each instance; none where the store has no such source."""
    source = view.removesuffix("_by_hour").removesuffix("_by_minute")
    if not history.has(source):
        return {}
    sql = f"""SELECT instance, {columns} FROM {view} JOIN {_LAST_HOUR} ON instance = which
              WHERE {DURING} AND time >= hour AND time < hour + INTERVAL 1 HOUR AND ({where})
              GROUP BY 1"""
    found: dict[str, dict[str, Any]] = {}
    for since, names in _by_age(history).items():
        span = {"begin": since, "end": datetime.max}
        rows = history.rows(sql, span, inside=since > datetime.min)
        found |= {row["instance"]: row for row in rows if row["instance"] in names}
    return found


def _by_age(history: History) -> dict[datetime, set[str]]:
    """The instances by the time from which on their last hour is found: mostly a short one."""
    return history.once("by age", lambda: _grouped_by_age(history))


def _grouped_by_age(history: History) -> dict[datetime, set[str]]:
    spans = history.spans()
    latest = max((hour for _, hour in spans.values()), default=datetime.min)
    found: dict[datetime, set[str]] = {}
    for name, (_, hour) in spans.items():
        since = (latest - age for age in (_NOTHING, _HOUR, _DAY) if hour >= latest - age)
        found.setdefault(next(since, datetime.min), set()).add(name)
    return found


def _recent(history: History) -> dict[str, datetime]:
    """The last sample of each instance that has one in the store's last day."""
    found: dict[str, datetime] = {}
    for since, names in _by_age(history).items():
        if since > datetime.min:
            rows = history.rows(
                f"SELECT instance, max(time) AS time FROM samples WHERE {DURING} GROUP BY 1",
                {"begin": since, "end": datetime.max}, inside=True,
            )  # fmt: skip
            found |= {row["instance"]: row["time"] for row in rows if row["instance"] in names}
    return found


def _load(sessions: Mapping[str, Any] | None, beats: Mapping[str, Any] | None) -> float | None:
    if not beats or not beats["samples"]:
        return None
    return float(sessions["samples"] if sessions else 0) / float(beats["samples"])


def _used(history: History) -> dict[str, dict[str, float]]:
    """Shares of limits by instance and limit."""
    found: dict[str, dict[str, float]] = {}
    for limit in LIMITS:
        for name, share in _shares(history, limit).items():
            if share is not None:
                found.setdefault(name, {})[limit.name] = float(share)
    return found


def _shares(history: History, limit: RecordedLimit) -> dict[str, Any]:
    """The share of one limit, by instance."""
    share = limit.share_of_hour
    if limit.by is None:
        rows = _by_instance(history, f"{limit.source}_by_hour", f"{share} AS share")
        return {name: row["share"] for name, row in rows.items()}
    if not history.has(limit.source):
        return {}
    # What is stored only when it changes may have no row in the last hour.
    _, found = history.table(
        f"""SELECT instance, max(share) FROM (
                SELECT instance, {share} AS share FROM {limit.source}_by_hour
                GROUP BY instance, {limit.by}) AS d
            GROUP BY 1"""
    )
    return dict(found)


def _changes(history: History) -> dict[str, int]:
    """How many events and changed settings the last day of each instance has."""
    settings = """UNION ALL SELECT instance, time FROM (
                      SELECT instance, time, value,
                             lag(value) OVER w AS before, row_number() OVER w AS number
                      FROM settings WINDOW w AS (PARTITION BY instance, name ORDER BY time)) AS s
                  WHERE number > 1 AND value IS DISTINCT FROM before"""
    rows = history.rows(
        f"""SELECT instance, count(*) AS changes FROM (
                SELECT instance, time FROM events WHERE kind <> 'connected'
                {settings if history.has("settings") else ""}) AS c
            JOIN {_LAST_HOUR} ON instance = which
            WHERE time >= hour - INTERVAL 23 HOUR AND time < hour + INTERVAL 1 HOUR GROUP BY 1""",
        {"begin": datetime.min, "end": datetime.max},
    )
    return {row["instance"]: row["changes"] for row in rows}
