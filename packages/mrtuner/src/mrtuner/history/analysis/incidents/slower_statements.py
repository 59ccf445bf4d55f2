"""Slow queries that used to be faster, with what changed just before."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import groupby, islice
from statistics import median
from typing import Any, Final

from mrtuner.history.analysis.changes import HistoryChange, changes
from mrtuner.history.analysis.incidents.events import told_as
from mrtuner.history.analysis.incidents.model import Incident
from mrtuner.history.analysis.incidents.samples import (
    TEXT_WIDTH,
    divided,
    longest_interval,
    near,
    span_of,
    statement_text,
    usual_day,
    without_zone,
)
from mrtuner.history.analysis.period import IN_PERIOD, HistoryPeriod, as_sampled
from mrtuner.history.analysis.plans import plan_changed
from mrtuner.history.reading import History
from mrtuner.units import pretty_duration
from mrtuner.wording import as_name, cut, enumerated

#: Rows of the source `tables` by the table's name, in order of time.
_TableSamples = Mapping[str, Sequence[Mapping[str, Any]]]
#: A statement is slower: so many times its usual time per call, for so long, and it matters: so
#: many sessions on average that it would not have kept busy before.
_SLOWER: Final = 2.0
_MINUTES: Final = 5
_SESSIONS: Final = 0.25
_CALLS: Final = 20
#: From so many samples on, some are usual. A run of slow ones ends with a pause, or with a sample
#: that took less than so many times the usual; one of its level that soon follows continues it.
_SAMPLES: Final = 2 * _MINUTES
_PAUSE: Final = timedelta(minutes=1)
_USUAL_AGAIN: Final = 1.5
_SOON: Final = timedelta(minutes=2.5)
_ALIKE: Final = 3.0
#: A run begins and ends with a sample of at least this part of its level.
_PART: Final = 0.1
#: Statements that become slower within this time of each other do so together.
_AT_ONCE: Final = timedelta(minutes=4)
#: The change before it: no older than this, and none that only the recorder or the statistics saw.
#: Some are seen up to a minute later, the others have their own time.
_JUST_BEFORE: Final = timedelta(minutes=10)
_CAUSES: Final = frozenset({
    "crash", "failover", "machine", "replaced", "restart", "schema", "setting", "upgrade",
})  # fmt: skip
#: What these do shows at once: a sample that began after them and was as usual clears them.
_AT_ONCE_SLOW: Final = frozenset({"crash", "failover", "replaced", "restart", "upgrade"})
_SEEN_LATER: Final = {"schema": timedelta(minutes=1), "machine": timedelta(minutes=1)}
_NAMED: Final = 3
#: Tables are sampled every five minutes. One that is analyzed less often than this [s] has other
#: plans after it. One has grown to so many times its rows; of fewer than this, it is small.
_TABLES_LATER: Final = timedelta(minutes=5)
_RARE: Final = 3600.0
_GROWN: Final = 2.0
_ROWS: Final = 10_000


def slow_queries(history: History, about: HistoryPeriod) -> Iterator[Incident]:
    """Statements that took longer per call for a while, with what changed just before."""
    if not as_sampled(history, "statements", about):
        return
    day = usual_day(about)
    by_statement: dict[tuple[Any, ...], list[Mapping[str, Any]]] = defaultdict(list)
    for row in _slow_samples(history, day):
        by_statement[row["query_id"], row["database"], row["role"]].append(row)
    runs = [
        (span_of(run[0])[0], (key, run, run[0]["usual"]))
        for key, slow in by_statement.items()
        for run in _runs(slow)
        if span_of(run[-1])[1] >= about.begin and _matters(run)
    ]  # fmt: skip
    known = changes(history, day) if runs else ()
    for group in near(sorted(runs, key=lambda one: one[0]), _AT_ONCE):
        yield _slower_at_once(history, day, [one for _, one in group], known)


def without_usual(history: History, about: HistoryPeriod) -> Iterator[str]:
    """Yield what cannot be found since too little was sampled to know what is usual."""
    if not as_sampled(history, "statements", about):
        return
    row = history.row(
        f"""SELECT count(*) AS number, count(seconds) AS grown FROM samples
            WHERE {IN_PERIOD} AND source = 'statements'""",
        usual_day(about).parameters, inside=True,
    )  # fmt: skip
    if row["number"] and row["grown"] < _SAMPLES:
        yield (
            f"slower statements are not looked for: what is usual is known from {_SAMPLES} samples "
            f"on, and the day has {row['grown']}"
        )


def _slow_samples(history: History, about: HistoryPeriod) -> Sequence[Mapping[str, Any]]:
    """Return the samples in which a call took much longer than `usual` [ms].

    Usual is the lower quartile of all samples, so that half of a day may be slow. `quiet` counts
    the samples until then that were as usual; `before` [ms] is what the last sample had, slow or
    not, and `since` when it was taken, over `length` seconds.
    """
    of = "query_id, database, role"
    window = f"OVER (PARTITION BY {of} ORDER BY time)"
    return history.rows(
        f"""SELECT {of}, time, calls, ms, seconds, usual, quiet, before, since, length FROM (
                SELECT *, lag(ms / calls) {window} AS before, lag(time) {window} AS since,
                       lag(seconds) {window} AS length,
                       sum(CASE WHEN ms / calls < {_USUAL_AGAIN} * usual THEN 1 ELSE 0 END)
                           {window} AS quiet
                FROM (SELECT *, max(CASE WHEN 4 * number > samples AND 4 * (number - 1) <= samples
                                   THEN ms / calls END) OVER (PARTITION BY {of}) AS usual
                FROM (SELECT *, row_number() OVER (PARTITION BY {of} ORDER BY ms / calls) AS number,
                             count(*) OVER (PARTITION BY {of}) AS samples
                      FROM (SELECT {of}, time, sum(calls) AS calls, sum(exec_ms) AS ms,
                                   sum(seconds) / count(*) AS seconds
                            FROM statements WHERE {IN_PERIOD} AND calls > 0
                              AND seconds <= {longest_interval(history, "statements")}
                            GROUP BY {of}, time) AS t) AS r) AS u) AS s
            WHERE samples >= {_SAMPLES} AND ms / calls >= {_SLOWER} * usual AND ms / calls >= 0.01
            ORDER BY {of}, time""",
        about.parameters, inside=True,
    )  # fmt: skip


def _runs(slow: Sequence[Mapping[str, Any]]) -> Sequence[Sequence[Mapping[str, Any]]]:
    """Divide the slow samples of a statement into runs, each of one level."""
    runs: list[list[Mapping[str, Any]]] = []
    for _, between in groupby(slow, lambda row: row["quiet"]):
        for part in map(_at_its_level, divided(between, _PAUSE, span_of)):
            if runs and _goes_on(runs[-1], part):
                runs[-1] += part
            else:
                runs.append([*part])
    return runs


def _goes_on(run: Sequence[Mapping[str, Any]], part: Sequence[Mapping[str, Any]]) -> bool:
    pause = span_of(part[0])[0] - span_of(run[-1])[1]
    return pause <= _SOON and 1 / _ALIKE <= _level(part) / _level(run) <= _ALIKE


def _at_its_level(run: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """Return a run without those at its ends that are far below the level of most."""
    least = _PART * _level(run)
    high = [number for number, row in enumerate(run) if row["ms"] / row["calls"] >= least]
    return run[high[0] : high[-1] + 1]


def _level(run: Sequence[Mapping[str, Any]]) -> float:
    """Return the time per call of most samples [ms]: one with both has many more fast calls."""
    return median(float(row["ms"] / row["calls"]) for row in run)


def _step(run: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return the sample that was slower than the one before by most times, before any as usual."""
    first = [row for row in run if row["quiet"] == run[0]["quiet"]]
    return max(first, key=lambda row: row["ms"] / row["calls"] / (row["before"] or row["usual"]))


def _matters(run: Sequence[Mapping[str, Any]]) -> bool:
    seconds = sum(float(row["seconds"]) for row in run)
    calls = sum(row["calls"] for row in run)
    long = seconds >= _MINUTES * 60 * 0.9
    return long and calls >= _CALLS and _more_load(run, run[0]["usual"]) >= _SESSIONS


def _slower_at_once(
    history: History,
    about: HistoryPeriod,
    group: Sequence[tuple[Any, ...]],
    known: Sequence[HistoryChange],
) -> Incident:
    """One sentence for statements that became slower together: they have one cause."""
    begin = min(span_of(run[0])[0] for _, run, _ in group)
    end = max(span_of(run[-1])[1] for _, run, _ in group)
    key, run, usual = max(group, key=lambda one: _more_load(one[1], one[2]))
    text = statement_text(history, key[0]) or f"statement {key[0]}"
    told = f"{cut(text, TEXT_WIDTH)} took {_ms(_level(run))} per call instead of {_ms(usual)}"
    if len(group) > 1:
        told = f"{len(group)} statements took longer; {told}"
    if plan := plan_changed(
        history, about, key[0], key[1], span_of(run[0])[0], span_of(run[-1])[1]
    ):  # fmt: skip
        told += f", {plan}"
    steps = [_step(run) for _, run, _ in group]
    first = min(steps, key=lambda row: row["time"])
    slower, seen = span_of(first)
    usual_since = slower if first["since"] is None else span_of(
        {"time": first["since"], "seconds": first["length"]}
    )[0]  # fmt: skip
    tables = _tables(history, about, key[1], text, slower)
    for change in islice(_grown_tables(tables), _NAMED):
        told += f"; {change}"
    places = {None, *(where for (_, where, _), *_ in group)}
    causes = [
        *(
            (one.at, told_as(one)) for one in known
            if one.what in _CAUSES and one.database in places
            and slower - _JUST_BEFORE <= one.at <= seen + _SEEN_LATER.get(one.what, timedelta(0))
            and not (one.what in _AT_ONCE_SLOW and one.at < usual_since)
        ),
        *(one for one in _analyzed(tables) if slower - _JUST_BEFORE <= one[0] <= seen),
    ]  # fmt: skip
    nearest = [text for _, text in sorted(causes, key=lambda one: abs(one[0] - slower))]
    cause = f"; just before: {enumerated(nearest[:_NAMED])}" if nearest else ""
    return Incident(
        kind="statement slower", begin=begin, end=end, text=told + cause, screen="statements",
        query_id=key[0] if len(group) == 1 else None,
    )  # fmt: skip


def _grown_tables(tables: _TableSamples) -> Iterator[str]:
    """Yield which tables that a statement names had grown until it became slower."""
    for name, seen in tables.items():
        before, after = (row["live"] for row in (seen[0], seen[-1]))
        # From nothing: it was filled, or its statistics began anew.
        if before and after and after >= max(_GROWN * before, _ROWS):
            yield f"{name} grew from {before:,} to {after:,} rows"


def _analyzed(tables: _TableSamples) -> Iterator[tuple[datetime, str]]:
    """Yield when tables that a statement names were last analyzed, if that is rare."""
    for name, seen in tables.items():
        # Older recorders did not store it.
        *before, last = [row.get("last_analyze") or 0 for row in seen]
        earlier = [one for one in before if one < last]
        if earlier and last - max(earlier) >= _RARE:
            at = datetime.fromtimestamp(last, UTC)
            yield at, f"{name} was analyzed at {at:%H:%M:%S}"


def _tables(
    history: History, about: HistoryPeriod, database: str, text: str, begin: datetime
) -> _TableSamples:
    """Return the tables that a statement names, with what was sampled of each until it slowed.

    Which of several schemas it means is not known unless it says so.
    """
    found: defaultdict[str, list[Mapping[str, Any]]] = defaultdict(list)
    named = set(_named(text))
    if not named or not as_sampled(history, "tables", about):
        return found
    rows = history.rows(
        f"""SELECT * FROM tables WHERE {IN_PERIOD} AND database = $database AND time <= $slow
            AND list_contains($names, lower(name)) ORDER BY time""",
        about.parameters | {
            "database": database, "names": sorted({name for _, name in named}),
            "slow": without_zone(begin + _TABLES_LATER),
        },
        inside=True,
    )  # fmt: skip
    schemas: defaultdict[str, set[str]] = defaultdict(set)
    for row in rows:
        schemas[row["name"].lower()].add(row["schema"].lower())
    for row in rows:
        schema, name = row["schema"].lower(), row["name"].lower()
        if (schema, name) in named or ((None, name) in named and len(schemas[name]) == 1):
            found[as_name(row["schema"], row["name"])].append(row)
    return found


def _named(text: str) -> Iterator[tuple[str | None, str]]:
    """Yield schema and name of what stands where a statement names tables, in lower case.

    >>> list(_named('SELECT kind FROM shop.orders AS o, "Users" WHERE id IN (SELECT id FROM new)'))
    [('shop', 'orders'), (None, 'users'), (None, 'new')]
    """
    for listed in _LISTS.findall(text.lower()):
        for one in listed.split(","):
            if found := _TABLE.match(one):
                schema, name = found.groups()
                yield schema and schema.strip('"'), name.strip('"')


#: Tables stand behind these words, up to the next clause or bracket.
_LISTS: Final = re.compile(
    r"\b(?:from|join|update|into|using)\s+([^()]*?)(?=[();]|$|\b(?:cross|full|group|having|inner|join|"
    r"left|limit|natural|offset|on|order|returning|right|select|set|union|using|values|where)\b)"
)
_IDENTIFIER: Final = r'("[^"]+"|[\w$]+)'
_TABLE: Final = re.compile(rf"\s*(?:only\s+)?(?:{_IDENTIFIER}\.)?{_IDENTIFIER}")


def _more_load(rows: Sequence[Mapping[str, Any]], usual: float) -> float:
    """Sessions that were kept busy beyond what the usual time per call would have."""
    seconds = sum(float(row["seconds"]) for row in rows)
    more = sum(row["ms"] - row["calls"] * usual for row in rows) / 1000
    return float(more / max(seconds, 1.0))


def _ms(value: float) -> str:
    return f"{value:.3g} ms" if value < 1000 else pretty_duration(value / 1000)
