"""How near each instance of a store is to its limits in its last hour, as `shares` has it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from mrtuner.history.analysis import DURING, Period
from mrtuner.history.headroom import RecordedLimit, highest, recorded
from mrtuner.history.host_metrics import ceilings_by_instance
from mrtuner.history.machine import Facts
from mrtuner.history.reading import History
from mrtuner.history.series import Measure
from mrtuner.limits.ceilings import Ceiling, CeilingKind, Resource
from mrtuner.limits.levels import HIGH, LOW
from mrtuner.web.ceilings import ceilings_at, judged
from mrtuner.web.host_charts import HOST_CHARTS, SOURCES
from mrtuner.web.last_hour import DAY, HOUR, LAST_HOUR, by_age, by_instance
from mrtuner.web.shares import CARRIED, ceiling_range, is_former


def used(history: History, machines: Mapping[str, Facts]) -> dict[str, dict[str, float]]:
    """Shares of limits by instance and limit."""
    found: dict[str, dict[str, float]] = {}
    for limit in recorded(history):
        for name, share in _recorded(history, limit):
            if share is not None:
                known = found.setdefault(name, {})
                known[limit.name] = highest((known.get(limit.name), share)) or 0.0
    for name, what, share in _of_ceilings(history, machines):
        found.setdefault(name, {}).setdefault(what, share)
    return found


def _recorded(history: History, limit: RecordedLimit) -> Iterator[tuple[str, float | None]]:
    """The share of a limit that is recorded, by instance, of some several times."""
    columns = _columns(limit.measures)
    if limit.by is None:
        rows = list(by_instance(history, f"{limit.source}_by_hour", columns).values())
    elif history.has(limit.source):
        # What is stored only when it changes may have no row in the last hour.
        rows = history.rows(
            f"SELECT instance, {columns} FROM {limit.source}_by_hour GROUP BY instance, {limit.by}"
        )
    else:
        rows = []
    for row in rows:
        yield row["instance"], limit.share(**_values(limit.measures, row))


def _columns(measures: Mapping[str, Measure]) -> str:
    """SQL of an hour's aggregates, from a summary."""
    parts = [f'{one.sql(summarized=True)} AS "{name}"' for name, one in measures.items()]
    return ", ".join([*parts, "sum(samples) AS times", "sum(seconds) AS covered"])


def _values(measures: Mapping[str, Measure], row: Mapping[str, Any]) -> dict[str, float | None]:
    return {
        name: one.value(row[name], int(row["times"] or 0), float(row["covered"] or 0))
        for name, one in measures.items()
    }


def _of_ceilings(
    history: History, machines: Mapping[str, Facts]
) -> Iterator[tuple[str, str, float]]:
    """Instance, what is limited and its share: what disk and CPU carried in the last hour."""
    declared = ceilings_by_instance(history)
    known = {
        name: ceilings_at(machines.get(name, {}), declared.get(name, ()))
        for name in machines.keys() | declared.keys()
    }
    if not any(known.values()):
        return
    former = _former(history, known)
    for name, levels in _carried(history).items():
        for what, chart, resource in CARRIED:
            held = ceiling_range(known.get(name, ()), resource, former=name in former)
            if held is not None and chart in levels:
                yield name, what, levels[chart] / held.at(levels[chart]).value


def _carried(history: History) -> dict[str, dict[str, float]]:
    """What each instance carried in its last hour, by chart, in the ceilings' units."""
    found: dict[str, dict[str, float]] = {}
    for source in SOURCES:
        measures = {
            f"{chart.name} {line}": measure
            for chart in HOST_CHARTS
            for line, measure in chart.by(source).items()
        }
        for name, row in by_instance(history, f"{source}_by_hour", _columns(measures)).items():
            if name not in found:
                found[name] = dict(_totals(source, _values(measures, row)))
    return found


def _totals(source: str, values: Mapping[str, float | None]) -> Iterator[tuple[str, float]]:
    """Of each chart all of whose lines are known."""
    for chart in HOST_CHARTS:
        parts = [values[f"{chart.name} {line}"] for line in chart.by(source)]
        known = [value for value in parts if value is not None]
        if known and len(known) == len(parts):
            yield chart.name, sum(known) / chart.scale


def _former(history: History, known: Mapping[str, Sequence[Ceiling]]) -> set[str]:
    """The instances that still have their limits from before December 2019.

    To find that out, the metrics of a day are judged: only where an hour stood at such a limit.
    """
    levels = {
        name: [one.value for one in ceilings if one.kind is CeilingKind.FORMER]
        for name, ceilings in known.items()
    }
    if not any(levels.values()):
        return set()
    doubtful = {
        row["instance"]
        for row in _throughput_by_hour(history)
        for level in levels.get(row["instance"], ())
        if row["carried"] is not None and LOW * level <= row["carried"] <= HIGH * level
    }
    return {name for name in doubtful if _is_former(history, name)}


def _throughput_by_hour(history: History) -> Iterator[dict[str, Any]]:
    """Of the last day of each instance."""
    if not history.has("cloudwatch"):
        return
    throughput = next(one for one in HOST_CHARTS if one.name == "throughput")
    carried = " + ".join(one.sql(summarized=True) for one in throughput.cloudwatch.values())
    sql = f"""SELECT instance, time, {carried} AS carried
              FROM cloudwatch_by_hour JOIN {LAST_HOUR} ON instance = which
              WHERE {DURING} AND time > hour - INTERVAL 1 DAY AND time <= hour
              GROUP BY instance, time"""
    for since, names in by_age(history).items():
        begin = since if since == datetime.min else since - DAY
        for row in history.rows(sql, {"begin": begin, "end": datetime.max}, inside=True):
            if row["instance"] in names:
                yield row


def _is_former(history: History, name: str) -> bool:
    last = history.last_sample(name)
    if last is None:
        return False
    end = last.replace(tzinfo=UTC)
    found = judged(history, Period(instance=name, begin=end - HOUR, end=end)).limits
    return found is not None and is_former(found.pegged, Resource.THROUGHPUT)
