"""What happened in a period: load, statements, checkpoints, the slowest minute, changes, gaps.

The queries keep to a part of SQL that other engines understand as well. A period that begins before
the rows as sampled are kept is answered from their summaries.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from mrtuner.errors import BadValue, UsageError
from mrtuner.history.reading import History
from mrtuner.history.source import Source
from mrtuner.history.store.layout import rollup_view
from mrtuner.history.store.summaries import AT_WORK
from mrtuner.history.unchanged import while_same
from mrtuner.notation import write_integer

#: The class of load of a session that waits for nothing.
CPU: Final = "CPU"
#: Steps of a chart in a terminal.
_STEPS: Final = 60
#: More than so many intervals without a sample is a gap.
GAP: Final = 3
#: Of a period of so many hours or more, the whole hours are taken from their summary.
_LONG: Final = 12
#: More statements than pg_stat_statements keeps.
_EVERY: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """A period of one instance, in UTC."""

    instance: str
    begin: datetime
    end: datetime

    @property
    def seconds(self) -> float:
        """Its length."""
        return (self.end - self.begin).total_seconds()

    @property
    def parameters(self) -> dict[str, Any]:
        """What the queries are given."""
        return {
            "instance": self.instance,
            "begin": self.begin.replace(tzinfo=None),
            "end": self.end.replace(tzinfo=None),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadStep:
    """Average active sessions of one step, by wait class; empty: nobody was at work.

    None where nothing was sampled.
    """

    at: datetime
    classes: dict[str, float] | None

    @property
    def total(self) -> float | None:
        """All classes."""
        return None if self.classes is None else sum(self.classes.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementWork:
    """What one statement did in a period."""

    query_id: int
    text: str | None
    database: str | None
    role: str | None
    calls: int
    seconds: float
    rows: int
    blocks_read: int
    temp_blocks: int
    wal_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointWork:
    """Checkpoints and WAL of a period; None where unknown."""

    timed: int | None
    requested: int | None
    write_seconds: float | None
    wal_bytes: int | None
    peak_wal: float | None  # bytes a second, of the busiest sample


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFigure:
    """A figure of a period: its average, and that of the highest sample.

    Of a time from which only summaries are kept, the highest is that of an hour.
    """

    average: float
    highest: float


@dataclass(frozen=True, slots=True, kw_only=True)
class HostWork:
    """What the server's host did in a period; None where it is not counted."""

    cpus: int | None  # that the server can use
    cpu: HostFigure | None  # share of the CPU time that was used
    iowait: HostFigure | None  # share that was idle while a disk was waited for
    steal: HostFigure | None  # share that the hypervisor took away
    throttled: HostFigure | None  # share of the time for which a CPU quota held the server back
    reads: HostFigure | None  # of the data directory's disk, a second
    writes: HostFigure | None
    read_seconds: HostFigure | None  # of one read
    write_seconds: HostFigure | None
    least_memory: int | None  # bytes available


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowestMinute:
    """The minute with the most sessions at work: what they waited for, and what ran."""

    at: datetime
    load: float
    waits: tuple[tuple[str, float], ...]  # event and sessions, most first
    statements: tuple[StatementWork, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryChange:
    """A setting that changed, or an event."""

    at: datetime
    what: str
    detail: str
    name: str | None = None  # of a setting
    before: str | None = None  # its values, in its base unit
    value: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """A time without samples."""

    begin: datetime
    end: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What happened to one instance in a period."""

    period: Period
    cpus: int | None
    sampled: float  # share of the period
    load: tuple[LoadStep, ...]
    statements: tuple[StatementWork, ...]
    checkpoints: CheckpointWork
    host: HostWork | None
    slowest: SlowestMinute | None
    changes: tuple[HistoryChange, ...]
    gaps: tuple[Gap, ...]
    damaged: tuple[str, ...]

    @property
    def average_load(self) -> float | None:
        """Average active sessions, over the steps that were sampled."""
        known = [step.total for step in self.load if step.total is not None]
        return sum(known) / len(known) if known else None


def instances(history: History) -> tuple[str, ...]:
    """The instances of a store, by name."""
    return tuple(sorted(history.spans()))


def period(
    history: History, instance: str | None, *, since: float, until: datetime | None = None
) -> Period:
    """The last `since` seconds of an instance up to `until`, or up to its last sample.

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
    if instance not in known:
        raise UsageError(
            f"the store has no instance {instance}",
            f"It has {', '.join(known)}." if known else "Record one first.",
        )
    if until is None:
        last = history.last_sample(instance)
        if last is None:
            raise UsageError(
                f"nothing of {instance} is as recent as that", "Give a longer --since."
            )
        until = last.replace(tzinfo=UTC)
    return Period(instance=instance, begin=until - timedelta(seconds=since), end=until)


def summary(history: History, about: Period, *, top: int = 10, cpus: int | None = None) -> Summary:
    """Return what happened in a period."""
    load = load_by_step(history, about, max(60.0, about.seconds / _STEPS))
    beats = beats_by_minute(history, about)
    host = host_work(history, about)
    return Summary(
        period=about,
        cpus=cpus if cpus is not None or host is None else host.cpus,
        sampled=min(1.0, len(beats) * 60 / max(about.seconds, 60.0)),
        load=load,
        statements=statements(history, about, top),
        checkpoints=checkpoints(history, about),
        host=host,
        slowest=slowest_minute(history, about),
        changes=changes(history, about),
        gaps=gaps(history, about),
        damaged=history.damaged,
    )


def view_for(history: History, name: str, begin: datetime) -> str:
    """The view of a source that reaches back so far: the rows as sampled, or their summary."""
    source = source_named(history, name)
    newest = history.newest()
    if newest is None:
        return name
    oldest = newest.replace(tzinfo=UTC) - timedelta(seconds=source.keep)
    return name if begin >= oldest else rollup_view(source)


def source_named(history: History, name: str) -> Source:
    """The source of a store with this name.

    Raises:
        UsageError: it has none.
    """
    for source in history.sources:
        if source.name == name:
            return source
    raise UsageError(f"the store has no {name}", "Record them, or name another directory.")


#: The rows of a period, and those of one instance in it.
DURING: Final = "time >= $begin AND time < $end"
IN_PERIOD: Final = f"instance = $instance AND {DURING}"
#: What a session waits for, with its class.
WAIT_EVENT: Final = f"coalesce(wait_type || ': ' || wait_event, '{CPU}')"


def beats_by_minute(history: History, about: Period) -> dict[datetime, int]:
    """How often sessions were sampled in each minute, the first one as a whole."""
    rows = history.rows(
        f"""SELECT time AS minute, sum(session_samples) AS beats FROM samples_by_minute
            WHERE {IN_PERIOD} AND session_samples > 0 GROUP BY 1""",
        _from_minute(about), inside=True,
    )  # fmt: skip
    return {row["minute"].replace(tzinfo=UTC): row["beats"] for row in rows}


def load_by_step(history: History, about: Period, seconds: float) -> tuple[LoadStep, ...]:
    """Average active sessions by wait class, in steps of whole minutes."""
    minutes = max(1, round(seconds / 60))
    beats = beats_by_minute(history, about)
    rows = history.rows(
        f"""SELECT time AS minute, coalesce(wait_type, '{CPU}') AS class, sum(samples) AS samples
            FROM sessions_by_minute WHERE {IN_PERIOD} AND {AT_WORK} GROUP BY 1, 2""",
        _from_minute(about), inside=True,
    )  # fmt: skip
    steps: list[LoadStep] = []
    at = _minute(about.begin)
    while at < about.end:
        inside = [at + timedelta(minutes=n) for n in range(minutes)]
        sampled = sum(beats.get(minute, 0) for minute in inside)
        classes: dict[str, float] = {}
        for row in rows:
            if at <= row["minute"].replace(tzinfo=UTC) < at + timedelta(minutes=minutes):
                classes[row["class"]] = classes.get(row["class"], 0) + row["samples"]
        shares = {name: count / sampled for name, count in classes.items()} if sampled else None
        steps.append(LoadStep(at=at, classes=shares))
        at += timedelta(minutes=minutes)
    return tuple(steps)


def _from_minute(about: Period) -> dict[str, Any]:
    """What queries by minute are given: the first minute is asked for as a whole."""
    return replace(about, begin=_minute(about.begin)).parameters


def _minute(at: datetime) -> datetime:
    return at.replace(second=0, microsecond=0)


def statements(history: History, about: Period, top: int) -> tuple[StatementWork, ...]:
    """The statements that took most time; without pg_stat_statements there are none."""
    if not history.has("statements"):
        return ()
    counted, parameters = _counted(
        history, "statements", about,
        "query_id, database, role, calls, exec_ms, rows, blocks_read, temp_blocks_read, "
        "temp_blocks_written, wal_bytes",
    )  # fmt: skip
    rows = history.rows(
        f"""SELECT s.query_id, t.text, s.database, s.role, s.calls, s.ms / 1000 AS seconds, s.rows,
                   s.blocks_read, s.temp_blocks, s.wal_bytes
            FROM (SELECT c.query_id, c.database, c.role, sum(c.calls) AS calls,
                         sum(c.exec_ms) AS ms, sum(c.rows) AS rows,
                         sum(c.blocks_read) AS blocks_read,
                         sum(c.temp_blocks_read) + sum(c.temp_blocks_written) AS temp_blocks,
                         sum(c.wal_bytes) AS wal_bytes
                  FROM ({counted}) AS c WHERE c.calls IS NOT NULL
                  GROUP BY c.query_id, c.database, c.role
                  ORDER BY sum(c.exec_ms) DESC, c.query_id LIMIT {int(top)}) AS s
            LEFT JOIN statement_texts AS t ON t.query_id = s.query_id
            ORDER BY s.ms DESC, s.query_id""",
        parameters, inside=True,
    )  # fmt: skip
    return tuple(_statement(row) for row in rows)


def _counted(
    history: History, name: str, about: Period, columns: str
) -> tuple[str, dict[str, Any]]:
    """SQL of a period's rows of counters: a long one's whole hours from their summary."""
    source = source_named(history, name)
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


def _statement(row: dict[str, Any]) -> StatementWork:
    whole = ("calls", "rows", "blocks_read", "temp_blocks", "wal_bytes")
    return StatementWork(**(row | {name: int(row[name] or 0) for name in whole}))


def checkpoints(history: History, about: Period) -> CheckpointWork:
    """Checkpoints and WAL of a period."""
    view, wal = (view_for(history, name, about.begin) for name in ("checkpoints", "wal"))
    rate = "bytes / nullif(seconds, 0)" if wal == "wal" else "bytes_peak"
    done = history.row(
        f"""SELECT sum(timed) AS timed, sum(requested) AS requested,
                   sum(write_ms) / 1000 AS write_seconds FROM {view} WHERE {IN_PERIOD}""",
        about.parameters, inside=True,
    )  # fmt: skip
    written = history.row(
        f"SELECT sum(bytes) AS wal_bytes, max({rate}) AS peak_wal FROM {wal} WHERE {IN_PERIOD}",
        about.parameters, inside=True,
    )  # fmt: skip
    return CheckpointWork(
        timed=_whole(done["timed"]), requested=_whole(done["requested"]),
        write_seconds=done["write_seconds"], wal_bytes=_whole(written["wal_bytes"]),
        peak_wal=written["peak_wal"],
    )  # fmt: skip


#: CPU time that was used, and all there was, over the columns of the host.
CPU_USED: Final = "(cpu_user + cpu_system + cpu_steal)"
CPU_ALL: Final = f"({CPU_USED} + cpu_iowait + cpu_idle)"
#: What is divided by what, over all samples and in each.
_HOST_FIGURES: Final = {
    "cpu": (CPU_USED, CPU_ALL),
    "iowait": ("cpu_iowait", CPU_ALL),
    "steal": ("cpu_steal", CPU_ALL),
    "throttled": ("group_throttled", "seconds"),
    "reads": ("disk_reads", "seconds"),
    "writes": ("disk_writes", "seconds"),
    "read_seconds": ("disk_read_time", "disk_reads"),
    "write_seconds": ("disk_write_time", "disk_writes"),
}


#: What CloudWatch tells of an instance of RDS, and what its values are divided by.
_CLOUDWATCH_FIGURES: Final = {
    "cpu": ("cpu", 100),
    "reads": ("read_iops", 1),
    "writes": ("write_iops", 1),
    "read_seconds": ("read_latency", 1),
    "write_seconds": ("write_latency", 1),
}


def host_work(history: History, about: Period) -> HostWork | None:
    """What the server's host did, by its kernel or by CloudWatch; None if neither was sampled."""
    return _kernel_work(history, about) or _cloudwatch_work(history, about)


def _cloudwatch_work(history: History, about: Period) -> HostWork | None:
    if not history.has("cloudwatch"):
        return None
    view = view_for(history, "cloudwatch", about.begin)
    suffixes = ("", "", "") if view == "cloudwatch" else ("_avg", "_max", "_min")
    average, highest, lowest = suffixes
    figures = ", ".join(
        f"""avg({column}{average}) / {whole} AS {name}_average,
            max({column}{highest}) / {whole} AS {name}_highest"""
        for name, (column, whole) in _CLOUDWATCH_FIGURES.items()
    )
    row = history.row(
        f"""SELECT count(*) AS samples, min(free_memory{lowest}) AS least_memory, {figures}
            FROM {view} WHERE {IN_PERIOD}""",
        about.parameters, inside=True,
    )  # fmt: skip
    if not row["samples"]:
        return None
    return HostWork(
        cpus=None, iowait=None, steal=None, throttled=None,
        least_memory=_whole(row["least_memory"]),
        **{name: _figure(row, name) for name in _CLOUDWATCH_FIGURES},
    )  # fmt: skip


def _kernel_work(history: History, about: Period) -> HostWork | None:
    if not history.has("host"):
        return None
    view = view_for(history, "host", about.begin)
    cpus, memory = (
        ("cpus", "memory_available") if view == "host" else ("cpus_last", "memory_available_min")
    )
    figures = ", ".join(
        f"""sum({part}) / nullif(sum({whole}) FILTER (WHERE {part} IS NOT NULL), 0)
                AS {name}_average,
            max({part} / nullif({whole}, 0)) AS {name}_highest"""
        for name, (part, whole) in _HOST_FIGURES.items()
    )
    row = history.row(
        f"""SELECT count(*) AS samples, max({cpus}) AS cpus, min({memory}) AS least_memory,
                   {figures}
            FROM {view} WHERE {IN_PERIOD}""",
        about.parameters, inside=True,
    )  # fmt: skip
    if not row["samples"]:
        return None
    return HostWork(
        cpus=row["cpus"],
        least_memory=row["least_memory"],
        **{name: _figure(row, name) for name in _HOST_FIGURES},
    )


def _figure(row: dict[str, Any], name: str) -> HostFigure | None:
    average, highest = row[f"{name}_average"], row[f"{name}_highest"]
    return None if average is None else HostFigure(average=average, highest=highest)


def _whole(value: Any) -> int | None:
    return None if value is None else int(value)


def busiest_minute(history: History, about: Period) -> tuple[datetime, float] | None:
    """The minute with the most sessions at work, and how many; None if nobody worked."""
    rows = history.rows(
        f"""SELECT w.minute, CAST(w.samples AS DOUBLE) / b.beats AS load
            FROM (SELECT time AS minute, sum(samples) AS samples FROM sessions_at_work_by_minute
                  WHERE {IN_PERIOD} GROUP BY 1) AS w
            JOIN (SELECT time AS minute, sum(session_samples) AS beats FROM samples_by_minute
                  WHERE {IN_PERIOD} AND session_samples > 0 GROUP BY 1) AS b ON b.minute = w.minute
            ORDER BY load DESC, w.minute DESC LIMIT 1""",
        _from_minute(about), inside=True,
    )  # fmt: skip
    return (rows[0]["minute"].replace(tzinfo=UTC), rows[0]["load"]) if rows else None


def slowest_minute(history: History, about: Period) -> SlowestMinute | None:
    """What the busiest minute's sessions waited for, and what ran; None if nobody worked."""
    busiest = busiest_minute(history, about)
    if busiest is None:
        return None
    minute, load = busiest
    within = Period(instance=about.instance, begin=minute, end=minute + timedelta(minutes=1))
    waits = history.rows(
        f"""SELECT {WAIT_EVENT} AS event,
                   sum(samples) AS samples
            FROM sessions_by_minute WHERE {IN_PERIOD} AND {AT_WORK}
            GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 5""",
        within.parameters, inside=True,
    )  # fmt: skip
    beats = beats_by_minute(history, within)[minute]
    # A sample of statements tells of the minute before it.
    after = Period(instance=about.instance, begin=minute, end=minute + timedelta(minutes=2))
    return SlowestMinute(
        at=minute,
        load=load,
        waits=tuple((row["event"], row["samples"] / beats) for row in waits),
        statements=statements(history, after, 3),
    )


def changes(history: History, about: Period) -> tuple[HistoryChange, ...]:
    """Settings and machines that changed, and events, in the order of time."""
    found = [
        HistoryChange(at=row["time"].replace(tzinfo=UTC), what=row["kind"], detail=row["detail"])
        for row in history.rows(
            f"SELECT time, kind, detail FROM events WHERE {IN_PERIOD} AND kind <> 'connected'",
            about.parameters, inside=True,
        )
    ]  # fmt: skip
    found += _settings(history, about)
    found += machine_changes(history, about)
    return tuple(sorted(found, key=lambda one: (one.at, one.what, one.detail)))


def _settings(history: History, about: Period) -> list[HistoryChange]:
    return [
        HistoryChange(
            at=at, what="setting",
            detail=f"{name}: {_shown(before, unit)} → {_shown(value, unit)}",
            name=name, before=before, value=value,
        )
        for at, name, before, value, unit in _other_values(history, "settings", "unit", about)
    ]  # fmt: skip


def _other_values(
    history: History, source: str, more: str, about: Period
) -> Iterator[tuple[datetime, str, str | None, str | None, str | None]]:
    """When a value was another one than before in a period: time, name, both values and `more`.

    They are few, and each screen shows those of its period.
    """
    if not history.has(source):
        return
    _, rows = while_same(
        history, source, ("other values", about.instance, source), lambda: history.table(
            f"""SELECT time, name, before, value, {more} FROM (
                   SELECT time, name, value, {more},
                          lag(value) OVER (PARTITION BY name ORDER BY time) AS before,
                          row_number() OVER (PARTITION BY name ORDER BY time) AS number
                   FROM {source} WHERE instance = $instance) AS s
               WHERE number > 1 AND value IS DISTINCT FROM before""",
            {"instance": about.instance},
        ),
    )  # fmt: skip
    for time, *values in rows:
        at = time.replace(tzinfo=UTC)
        if about.begin <= at < about.end:
            yield at, *values


#: Of a machine or an instance of RDS: what somebody changes. The rest of its facts varies.
_CHANGED: Final = (
    "class_name", "parameter_group", "engine_version", "storage_type", "allocated_storage", "iops",
    "storage_throughput", "multi_az", "memory", "cpus",
)  # fmt: skip


def machine_changes(history: History, about: Period) -> list[HistoryChange]:
    """What became of the machine: its class, its volume, its parameter group."""
    return [
        HistoryChange(
            at=at, what="machine", detail=f"{name}: {_shown(before)} → {_shown(value)}",
            name=name, before=before, value=value,
        )
        for at, name, before, value, _ in _other_values(history, "machine", "NULL", about)
        if name in _CHANGED
    ]  # fmt: skip


def _shown(value: str | None, unit: str | None = None) -> str:
    """A value as SHOW prints it, of a number in a setting's base unit."""
    if value is None:
        return "?"
    if unit is not None:
        with suppress(ValueError, BadValue):  # A decimal point, or a unit that is not known here.
            return write_integer(int(value), unit)
    return (value + (f" {unit}" if unit else "")) or "''"


def gaps(history: History, about: Period) -> tuple[Gap, ...]:
    """Times without samples of sessions, inside the period."""
    interval = source_named(history, "sessions").interval if history.has("sessions") else 60.0
    longest = max(GAP * interval, 60.0)
    # No gap fits into a minute, so the first and the last sample of each are enough. Of the minute
    # in which the period begins only the last counts, and of that in which it ends the first.
    rows = history.rows(
        f"""SELECT begin, time FROM (
                SELECT time, lag(last) OVER (ORDER BY time) AS begin FROM (
                    SELECT min(earliest) AS time, max(latest) AS last FROM samples_by_minute
                    WHERE {IN_PERIOD} GROUP BY samples_by_minute.time) AS m
                WHERE last >= $first AND time < $end
            ) AS s WHERE date_diff('second', begin, time) > {longest} ORDER BY time""",
        _from_minute(about) | {"first": about.parameters["begin"]}, inside=True,
    )  # fmt: skip
    return tuple(
        Gap(begin=row["begin"].replace(tzinfo=UTC), end=row["time"].replace(tzinfo=UTC))
        for row in rows
    )


# Two periods.


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementChange:
    """One statement in two periods; None where it did not run."""

    text: str | None
    before: StatementWork | None
    after: StatementWork | None
    more_load: float  # sessions that it keeps busy on average, after minus before


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two periods side by side."""

    before: Summary
    after: Summary
    statements: tuple[StatementChange, ...]


def compare(
    history: History, before: Period, after: Period, *, top: int = 10, cpus: int | None = None
) -> Comparison:
    """Return two periods and what changed between them, statement by statement."""
    return Comparison(
        before=summary(history, before, cpus=cpus),
        after=summary(history, after, cpus=cpus),
        statements=statement_changes(history, before, after, top=top),
    )


def statement_changes(
    history: History, before: Period, after: Period, *, top: int
) -> tuple[StatementChange, ...]:
    """The statements whose load changed most.

    Statements are the same if their texts are: identifiers may differ after an upgrade.
    """
    works = [_by_text(statements(history, one, _EVERY)) for one in (before, after)]
    changed = [
        StatementChange(
            text=next(side[key].text for side in works if key in side),
            before=works[0].get(key),
            after=works[1].get(key),
            more_load=_load(works[1].get(key), after) - _load(works[0].get(key), before),
        )
        for key in works[0].keys() | works[1].keys()
    ]
    changed.sort(key=lambda one: (-abs(one.more_load), one.text or ""))
    return tuple(changed[:top])


def _by_text(works: Sequence[StatementWork]) -> dict[tuple[Any, ...], StatementWork]:
    """Statements by text, database and role; those with several identifiers are added up."""
    found: dict[tuple[Any, ...], StatementWork] = {}
    for work in works:
        key = (work.text or work.query_id, work.database, work.role)
        found[key] = _sum(found[key], work) if key in found else work
    return found


def _sum(one: StatementWork, other: StatementWork) -> StatementWork:
    added = ("calls", "seconds", "rows", "blocks_read", "temp_blocks", "wal_bytes")
    return replace(one, **{name: getattr(one, name) + getattr(other, name) for name in added})


def _load(work: StatementWork | None, about: Period) -> float:
    return work.seconds / about.seconds if work else 0.0
