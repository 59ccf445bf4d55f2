"""How each instance of a store is in its last hour: one query for all, however many there are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from mrtuner.history.analysis import DURING
from mrtuner.history.machine import Facts, facts_by_instance
from mrtuner.history.reading import History
from mrtuner.history.recorded_server import machine_of
from mrtuner.history.store.summaries import AT_WORK
from mrtuner.web.fleet_shares import used
from mrtuner.web.last_hour import LAST_HOUR, by_age, by_instance


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
    sessions = by_instance(history, "sessions_by_hour", "sum(samples) AS samples", AT_WORK)
    beats = by_instance(
        history, "samples_by_hour", "sum(samples) AS samples", "source = 'sessions'"
    )
    cpus = by_instance(history, "host_by_hour", "max(cpus_last) AS cpus")
    machines = facts_by_instance(history)
    shares = used(history, machines)
    changed = _changes(history)
    found = [
        InstanceOverview(
            instance=name,
            first=first.replace(tzinfo=UTC),
            last=(recent.get(name) or hour).replace(tzinfo=UTC),
            load=_load(sessions.get(name), beats.get(name)),
            cpus=cpus.get(name, {}).get("cpus") or _cpus(machines.get(name, {})),
            used=shares.get(name, {}),
            changes=changed.get(name, 0),
        )
        for name, (first, hour) in history.spans().items()
    ]
    return sorted(found, key=lambda one: (-max(one.used.values(), default=0.0), one.instance))


def _recent(history: History) -> dict[str, datetime]:
    """The last sample of each instance that has one in the store's last day."""
    found: dict[str, datetime] = {}
    for since, names in by_age(history).items():
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


def _cpus(known: Facts) -> int | None:
    """Those of the machine, or of the class of an instance of RDS."""
    found = machine_of(known).cpus
    return None if found is None else found.value


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
            JOIN {LAST_HOUR} ON instance = which
            WHERE time >= hour - INTERVAL 23 HOUR AND time < hour + INTERVAL 1 HOUR GROUP BY 1""",
        {"begin": datetime.min, "end": datetime.max},
    )
    return {row["instance"]: row["changes"] for row in rows}
