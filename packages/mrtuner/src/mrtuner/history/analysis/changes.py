"""What changed in a period: settings, schemas, the machine, and events."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from mrtuner.errors import BadValue
from mrtuner.history.analysis.period import IN_PERIOD, HistoryPeriod
from mrtuner.history.analysis.schema_changes import schema_changes
from mrtuner.history.reading import History
from mrtuner.history.unchanged import while_same
from mrtuner.notation import write_integer

#: Facts of a machine or an RDS instance that change only on purpose; the others vary.
_CHANGED: Final = (
    "class_name", "parameter_group", "engine_version", "storage_type", "allocated_storage", "iops",
    "storage_throughput", "multi_az", "memory", "cpus",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryChange:
    """A setting that changed, or an event."""

    at: datetime
    what: str
    detail: str
    name: str | None = None  # of a setting
    before: str | None = None  # its values, in its base unit
    value: str | None = None
    database: str | None = None  # of a schema


def changes(history: History, about: HistoryPeriod) -> tuple[HistoryChange, ...]:
    """Return the changes of settings, schemas and the machine, and events, in order of time."""
    found = [
        HistoryChange(at=row["time"].replace(tzinfo=UTC), what=row["kind"], detail=row["detail"])
        for row in history.rows(
            f"SELECT time, kind, detail FROM events WHERE {IN_PERIOD} AND kind <> 'connected'",
            about.parameters, inside=True,
        )
    ]  # fmt: skip
    found += _settings(history, about)
    found += (
        HistoryChange(at=at, what="schema", detail=detail, database=database)
        for at, database, detail in schema_changes(history, about)
    )
    found += machine_changes(history, about)
    return tuple(sorted(found, key=lambda one: (one.at, one.what, one.detail)))


#: When a setting came into force: not when it was sampled, but when the files were read before.
_LOADED: Final = (
    "least(time, coalesce(make_timestamp("
    "CAST(max(loaded) OVER (PARTITION BY time) * 1000000 AS BIGINT)), time))"
)


def _settings(history: History, about: HistoryPeriod) -> list[HistoryChange]:
    own = _LOADED if history.has("settings", "loaded") else "time"
    return [
        HistoryChange(
            at=at, what="setting",
            detail=f"{name}: {_shown(before, unit)} → {_shown(value, unit)}",
            name=name, before=before, value=value,
        )
        for at, name, before, value, unit in _other_values(history, "settings", "unit", about, own)
    ]  # fmt: skip


def machine_changes(history: History, about: HistoryPeriod) -> list[HistoryChange]:
    """Return changes of the machine: of its class, its volume, its parameter group."""
    return [
        HistoryChange(
            at=at, what="machine", detail=f"{name}: {_shown(before)} → {_shown(value)}",
            name=name, before=before, value=value,
        )
        for at, name, before, value, _ in _other_values(history, "machine", "NULL", about)
        if name in _CHANGED
    ]  # fmt: skip


def _other_values(
    history: History, source: str, more: str, about: HistoryPeriod, own: str = "time"
) -> Iterator[tuple[datetime, str, str | None, str | None, str | None]]:
    """Yield each change of a value in a period: its `own` time, name, both values and `more`.

    An instance has few changes, so all are kept, and each screen takes those of its period.
    """
    if not history.has(source):
        return
    _, rows = while_same(
        history, source, ("other values", about.instance, source), lambda: history.table(
            f"""SELECT own, name, before, value, {more} FROM (
                   SELECT {own} AS own, name, value, {more},
                          lag(value) OVER (PARTITION BY name ORDER BY time) AS before,
                          row_number() OVER (PARTITION BY name ORDER BY time) AS number
                   FROM {source} WHERE instance = $instance) AS s
               WHERE number > 1 AND value IS DISTINCT FROM before""",
            {"instance": about.instance},
        ),
    )  # fmt: skip
    for time, *values in rows:
        when = time.replace(tzinfo=UTC)
        if about.begin <= when < about.end:
            yield when, *values


def _shown(value: str | None, unit: str | None = None) -> str:
    """Return a value as SHOW prints it; numbers are in `unit`, the setting's base unit."""
    if value is None:
        return "?"
    if unit is not None:
        with suppress(ValueError, BadValue):  # A decimal point, or a unit that is not known here.
            return write_integer(int(value), unit)
    return (value + (f" {unit}" if unit else "")) or "''"
