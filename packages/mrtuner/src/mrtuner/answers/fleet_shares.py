"""How near each instance of a store is to its limits in its last hour; see `answers.shares`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import Any, Final

from mrtuner.answers.ceilings import ceilings_at, judged
from mrtuner.answers.host_charts import HOST_CHARTS, SOURCES
from mrtuner.answers.last_hour import DAY, HOUR, NOTHING, by_instance, last_hours
from mrtuner.answers.shares import CARRIED, ceiling_range, is_former
from mrtuner.history.analysis.headroom import RecordedLimit, highest, recorded
from mrtuner.history.analysis.period import DURING, HistoryPeriod
from mrtuner.history.analysis.series import Kind, Measure
from mrtuner.history.reading import History
from mrtuner.history.recorded.host_metrics import ceilings_by_instance
from mrtuner.history.recorded.machine import Facts
from mrtuner.limits.ceilings import Ceiling, CeilingKind, Resource
from mrtuner.limits.levels import HIGH, LOW

#: The key of a measure: the name of a limit or chart, and of one of its parts.
Part = tuple[str, str]
_CPUS: Final = "cpus", ""
#: The charts whose lines add up to what was carried.
_CHARTS: Final = tuple(one for one in HOST_CHARTS if one.name in {name for _, name, _ in CARRIED})


def used(history: History, machines: Mapping[str, Facts]) -> dict[str, dict[str, float]]:
    """Return the share in use of each limit, by instance and name of the limit."""
    found: dict[str, dict[str, float]] = {}
    for name, what, share in _recorded(history):
        if share is not None:
            known = found.setdefault(name, {})
            known[what] = highest((known.get(what), share)) or 0.0
    for name, what, share in _of_ceilings(history, machines):
        found.setdefault(name, {}).setdefault(what, share)
    return found


def recorded_cpus(history: History) -> dict[str, int]:
    """Return the CPUs of each instance on whose host a recorder runs."""
    found = {name: values[_CPUS] for name, values in _values(history, "host").items()}
    return {name: int(number) for name, number in found.items() if number is not None}


def _values(history: History, source: str) -> dict[str, dict[Part, float | None]]:
    """Return all measures of a source over the last hour of each instance; queried once."""
    return history.once(("last hour", source), lambda: _asked(history, source))


def _asked(history: History, source: str) -> dict[str, dict[Part, float | None]]:
    measures = dict(_measures(history, source))
    sql = {f"{of} {part}": one.sql(summarized=True) for (of, part), one in measures.items()}
    more = {"times": "sum(samples)", "covered": "sum(seconds)"}
    found = {}
    for row in by_instance(history, f"{source}_by_hour", sql | more):
        name, *values = row.values()
        found[name] = {
            part: one.value(value, int(row["times"] or 0), float(row["covered"] or 0))
            for (part, one), value in zip(measures.items(), values, strict=False)
        }
    return found


def _measures(history: History, source: str) -> Iterator[tuple[Part, Measure]]:
    for limit in recorded(history):
        if limit.source == source and limit.by is None:
            yield from (((limit.name, part), one) for part, one in limit.measures.items())
    if source in SOURCES:
        for chart in _CHARTS:
            yield from (((chart.name, line), one) for line, one in chart.by(source).items())
    if source == "host":
        yield _CPUS, Measure(Kind.LAST, "cpus")


def _recorded(history: History) -> Iterator[tuple[str, str, float | None]]:
    """Yield instance, limit and share for each recorded limit, repeated per count if several."""
    limits = recorded(history)
    for limit in limits:
        if limit.by is None:
            for name, values in _values(history, limit.source).items():
                share = limit.share(**{part: values[limit.name, part] for part in limit.measures})
                yield name, limit.name, share
    apart = sorted((one for one in limits if one.by), key=_counts)
    for (source, by), alike in groupby(apart, _counts):
        yield from _recorded_apart(history, source, by, list(alike))


def _counts(limit: RecordedLimit) -> tuple[str, str]:
    """Return the source of a limit, and the SQL by which its counts are kept apart."""
    return limit.source, limit.by or ""


def _recorded_apart(
    history: History, source: str, by: str, limits: Sequence[RecordedLimit]
) -> Iterator[tuple[str, str, float | None]]:
    """Yield the shares of limits with several counts, which are stored only when they change."""
    columns = ", ".join(one.used.sql(summarized=True) for one in limits)
    rows = history.latest(
        f"""SELECT instance, {by}, {columns} FROM {source}_by_hour
            WHERE {DURING} GROUP BY instance, {by}""",
        source, 2, instance=None, end=datetime.max,
    )  # fmt: skip
    for name, _, *values in rows:
        for limit, value in zip(limits, values, strict=True):
            yield name, limit.name, limit.share(limit.used.value(value, 1, 0.0))


def _of_ceilings(
    history: History, machines: Mapping[str, Facts]
) -> Iterator[tuple[str, str, float]]:
    """Yield instance, what is limited and share in use: disk and CPU, in the last hour."""
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
        for name, values in _values(history, source).items():
            if name not in found:
                found[name] = dict(_totals(source, values))
    return found


def _totals(source: str, values: Mapping[Part, float | None]) -> Iterator[tuple[str, float]]:
    """Yield name and total of each chart whose lines are all known, in the ceilings' units."""
    for chart in _CHARTS:
        parts = [values[chart.name, line] for line in chart.by(source)]
        known = [value for value in parts if value is not None]
        if known and len(known) == len(parts):
            yield chart.name, sum(known) / chart.scale


def _former(history: History, known: Mapping[str, Sequence[Ceiling]]) -> set[str]:
    """The instances that still have their limits from before December 2019.

    The metrics of a day are judged to find that out, but only if an hour was at such a limit.
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
    return {name for name in doubtful if _is_former(history, name, known[name])}


def _throughput_by_hour(history: History) -> list[dict[str, Any]]:
    """Return the throughput of each hour in the day before the last hour of each instance."""
    throughput = next(one for one in HOST_CHARTS if one.name == "throughput")
    carried = " + ".join(one.sql(summarized=True) for one in throughput.cloudwatch.values())
    return by_instance(
        history, "cloudwatch_by_hour", {"carried": carried}, before=DAY, after=NOTHING,
        by="instance, time",
    )  # fmt: skip


def _is_former(history: History, name: str, known: Sequence[Ceiling]) -> bool:
    """Judge the hours before the last one; kept until their rows or the ceilings change."""
    end = last_hours(history)[name]
    rows = [history.version(source, end - DAY, end, name) for source in SOURCES]
    return history.work.keep(
        ("former", name), (end, tuple(known), rows),
        lambda: _judged_former(history, name, end.replace(tzinfo=UTC)),
    )  # fmt: skip


def _judged_former(history: History, name: str, end: datetime) -> bool:
    found = judged(history, HistoryPeriod(instance=name, begin=end - HOUR, end=end)).limits
    return found is not None and is_former(found.pegged, Resource.THROUGHPUT)
