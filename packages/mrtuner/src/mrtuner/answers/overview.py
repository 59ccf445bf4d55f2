"""The state of each instance of a store in its last hour; each query covers all instances."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from mrtuner.answers.fleet_shares import recorded_cpus, used
from mrtuner.answers.last_hour import DAY, HOUR, by_instance, last_hours, sessions_at_work
from mrtuner.history.reading import History
from mrtuner.history.recorded.machine import Facts, facts_by_instance
from mrtuner.history.recorded.server import machine_of
from mrtuner.history.recording.rounds import PACE


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceOverview:
    """An instance in its last recorded hour; None where a value is not known."""

    instance: str
    first: datetime
    last: datetime
    load: float | None  # active sessions on average
    cpus: int | None
    used: Mapping[str, float]  # share of each limit
    changes: int  # settings and events of its last day

    @property
    def tightest(self) -> str | None:
        """The limit with the highest share in use; None if none is known."""
        return max(self.used, key=lambda name: self.used[name], default=None)


def overview(history: History) -> list[InstanceOverview]:
    """Return every instance of a store, the one with the least headroom first."""
    return history.once("overview", lambda: _overview(history))


def _overview(history: History) -> list[InstanceOverview]:
    last = _last_samples(history)
    at_work = sessions_at_work(history)
    machines = facts_by_instance(history)
    shares, cpus = used(history, machines), recorded_cpus(history)
    changed = _changes(history)
    found = [
        InstanceOverview(
            instance=name,
            first=first.replace(tzinfo=UTC),
            last=last.get(name, hour).replace(tzinfo=UTC),
            load=at_work.get(name),
            cpus=cpus.get(name) or _cpus(machines.get(name, {})),
            used=shares.get(name, {}),
            changes=changed.get(name, 0),
        )
        for name, (first, hour) in history.spans().items()
    ]
    return sorted(found, key=lambda one: (-max(one.used.values(), default=0.0), one.instance))


def _last_samples(history: History) -> dict[str, datetime]:
    """The last sample of each instance that has one in the store's last day."""
    hours = last_hours(history)
    found = {name: history.recently_sampled(name) for name in hours}
    latest = max(hours.values(), default=datetime.min)
    sealed = {
        name: hour for name, hour in hours.items() if found[name] is None and latest - hour <= DAY
    }
    rows = by_instance(history, "samples", {"last": "max(time)"}, of=sealed, sealed=True)
    known = {name: last for name, last in found.items() if last is not None}
    return known | {row["instance"]: row["last"] for row in rows}


def _cpus(known: Facts) -> int | None:
    """Return the CPUs of the machine, or of an RDS instance's class; None if unknown."""
    found = machine_of(known).cpus
    return None if found is None else found.value


def _changes(history: History) -> dict[str, int]:
    """Count the events and changed settings in the last day of each instance."""
    events = by_instance(
        history,
        "events",
        {"number": "count(*)"},
        f"kind NOT IN ('connected', '{PACE}')",
        before=DAY - HOUR,
    )
    found = {row["instance"]: row["number"] for row in events}
    hours = last_hours(history)
    for name, at in _changed_settings(history):
        if name in hours and hours[name] - (DAY - HOUR) <= at < hours[name] + HOUR:
            found[name] = found.get(name, 0) + 1
    return found


def _changed_settings(history: History) -> Sequence[Sequence[Any]]:
    """The instance and time of each change of a setting."""
    if not history.has("settings"):
        return []
    # Most settings have no row but the first.
    return history.during(
        """SELECT instance, time FROM (
               SELECT instance, time, value,
                      lag(value) OVER w AS before, row_number() OVER w AS number
               FROM settings SEMI JOIN (
                   SELECT instance, name FROM settings GROUP BY 1, 2 HAVING count(*) > 1) AS several
               USING (instance, name) WHERE time >= $begin AND time < $end
               WINDOW w AS (PARTITION BY instance, name ORDER BY time)) AS s
           WHERE number > 1 AND value IS DISTINCT FROM before""",
        "settings", {"begin": datetime.min, "end": datetime.max},
    )  # fmt: skip
