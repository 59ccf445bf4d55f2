"""What went wrong in a period, each told in one sentence: queues, storms, slower statements.

An ordinary period has none. Thresholds are chosen, not measured; what they said of two recordings
is in docs/measured-results.md.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from statistics import median
from typing import Annotated, Any, Final, TypeVar

from mrtuner.described import Doc
from mrtuner.history.analysis.changes import HistoryChange, changes
from mrtuner.history.analysis.period import IN_PERIOD, HistoryPeriod, as_sampled
from mrtuner.history.analysis.plans import plan_changed
from mrtuner.history.identity import settings
from mrtuner.history.reading import History
from mrtuner.history.recording.budget import MOST
from mrtuner.postgres.blocking import STOPPING, roots
from mrtuner.postgres.reserved import OF_RDS, RESERVED
from mrtuner.units import pretty_duration
from mrtuner.wording import as_name, cut, enumerated, first_few, plural, plural_was

T = TypeVar("T")
#: Rows of the source `tables` by the table's name, in order of time.
_TableSamples = Mapping[str, Sequence[Mapping[str, Any]]]
#: A row of the source `sessions`, and when it was sampled.
_Seen = tuple[datetime, Mapping[str, Any]]
#: The search reads every sample of every statement: a day of 500 of them takes 3 s.
_LONGEST: Final = timedelta(days=1)
#: A sample covers the time since the one before, which is up to so many times the interval: what
#: both show went on in between. A queue this long is worth a sentence.
_LATE: Final = 1.5
_QUEUE: Final = timedelta(seconds=5)
#: Who holds a lock is looked for this long around the queue: short idle transactions are not seen.
_AROUND: Final = timedelta(seconds=30)
#: Queues behind one process with pauses of at most this are told as one.
_AGAIN: Final = timedelta(minutes=5)
#: A storm: twice the usual number of sessions, and so many more; or as many as may be, and so many
#: times the usual number.
_TIMES: Final = 2.0
_MORE: Final = 20
_CLEARLY: Final = 1.1
#: A statement is slower: so many times its usual time per call, for so long, and it matters: so
#: many sessions on average that it would not have kept busy before.
_SLOWER: Final = 2.0
_MINUTES: Final = 5
_SESSIONS: Final = 0.25
_CALLS: Final = 20
#: From so many samples on, some are usual; a run of slow ones has no longer pause than this.
_SAMPLES: Final = 2 * _MINUTES
_PAUSE: Final = timedelta(minutes=1)
#: Statements that become slower within this time of each other do so together.
_AT_ONCE: Final = timedelta(minutes=4)
#: The change before it: no older than this, and none that only the recorder or the statistics saw.
#: Some are seen up to a minute later, the others have their own time.
_JUST_BEFORE: Final = timedelta(minutes=10)
_CAUSES: Final = frozenset({
    "crash", "failover", "machine", "replaced", "restart", "schema", "setting", "upgrade",
})  # fmt: skip
_SEEN_LATER: Final = {"schema": timedelta(minutes=1), "machine": timedelta(minutes=1)}
_NAMED: Final = 3
#: Tables are sampled every five minutes. One that is analyzed less often than this [s] has other
#: plans after it; of fewer rows than this, it is small.
_TABLES_LATER: Final = timedelta(minutes=5)
_RARE: Final = 3600.0
_ROWS: Final = 10_000
#: Checkpoints before their time: so many, each within this time of the one before.
_FORCED: Final = 3
_CLOSE: Final = timedelta(minutes=5)
_TEXT: Final = 80
#: Events that are told as they are. Others are changes, or belong to a trouble of ours.
_EVENTS: Final = frozenset({
    "crash", "failover", "full", "lost", "replaced", "restart", "upgrade",
})  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """Something that went wrong."""

    kind: Annotated[
        str,
        Doc(
            "lock queue, connection storm, sessions refused, deadlocks, statement slower, "
            "checkpoints, ceiling, event"
        ),
    ]
    begin: Annotated[datetime, Doc("UTC")]
    end: Annotated[datetime, Doc("UTC")]
    text: Annotated[str, Doc("the same in one sentence, without the time")]
    screen: Annotated[str, Doc("the screen of the viewer that shows it")]


def incidents(
    history: History, about: HistoryPeriod, known: Sequence[HistoryChange] = ()
) -> tuple[Incident, ...]:
    """Return what went wrong, in order of time; `known` are the changes of the period.

    Events are told of all of it, the rest of its last day. What is kept as summaries only, since it
    is older, is not looked at (see `Source.keep`): `not_looked_for` names all of that.
    """
    within = searched(about)
    found = [
        *_lock_queues(history, within),
        *_storms(history, within),
        *_refused(history, within),
        *_deadlocks(history, within),
        *_slow_queries(history, within),
        *_forced_checkpoints(history, within),
        *_events(history, about, known),
    ]
    return tuple(sorted(found, key=lambda one: (one.begin, one.kind, one.text)))


def _events(
    history: History, about: HistoryPeriod, known: Sequence[HistoryChange]
) -> Iterator[Incident]:
    """Yield the events; a server that was lost is so until it answered again."""
    told = [one for one in known if one.what in _EVENTS]
    answered: list[datetime] = []
    if any(one.what == "lost" for one in told):
        rows = history.rows(
            f"SELECT time FROM events WHERE {IN_PERIOD} AND kind = 'connected' ORDER BY time",
            about.parameters, inside=True,
        )  # fmt: skip
        answered = [row["time"].replace(tzinfo=UTC) for row in rows]
    for one in told:
        end = one.at
        if one.what == "lost":
            end = next((at for at in answered if at > one.at), about.end)
        yield Incident(kind="event", begin=one.at, end=end, text=_named(one), screen="changes")


def searched(about: HistoryPeriod) -> HistoryPeriod:
    """Return the part of a period in which samples are searched: its last day."""
    return replace(about, begin=max(about.begin, about.end - _LONGEST))


def _usual_day(about: HistoryPeriod) -> HistoryPeriod:
    """Return the day before a period's end: what is usual in it, whatever part of it is shown.

    A store that is younger has less, which is all there is.
    """
    return replace(about, begin=about.end - _LONGEST)


def without_usual(history: History, about: HistoryPeriod) -> Iterator[str]:
    """Yield what cannot be found since too little was sampled to know what is usual."""
    if not as_sampled(history, "statements", about):
        return
    row = history.row(
        f"""SELECT count(*) AS number, count(seconds) AS grown FROM samples
            WHERE {IN_PERIOD} AND source = 'statements'""",
        _usual_day(about).parameters, inside=True,
    )  # fmt: skip
    if row["number"] and row["grown"] < _SAMPLES:
        yield (
            f"slower statements are not looked for: what is usual is known from {_SAMPLES} samples "
            f"on, and the day has {row['grown']}"
        )


def _named(change: HistoryChange) -> str:
    return f"{change.what}: {change.detail}" if change.what in _EVENTS else change.detail


def _longest(history: History, name: str) -> float:
    """Return the longest time between two samples of a source [s]; a longer one is a gap."""
    return _LATE * MOST * history.source(name).interval


def _near(
    seen: Iterable[tuple[datetime, T]], apart: timedelta
) -> Iterator[list[tuple[datetime, T]]]:
    """Divide what was seen wherever nothing was seen for longer than `apart`."""
    return _divided(seen, apart, lambda one: (one[0], one[0]))


def _divided(
    items: Iterable[T], apart: timedelta, span: Callable[[T], tuple[datetime, datetime]]
) -> Iterator[list[T]]:
    """Divide items wherever one begins later than `apart` after the end of the one before."""
    part: list[T] = []
    for one in items:
        if part and span(one)[0] - span(part[-1])[1] > apart:
            yield part
            part = []
        part.append(one)
    if part:
        yield part


# Lock queues


def _lock_queues(history: History, about: HistoryPeriod) -> Iterator[Incident]:
    if not as_sampled(history, "sessions", about):
        return
    interval, longest = history.source("sessions").interval, _longest(history, "sessions")
    # What went on during a gap is unknown: after one, a sample is as the first.
    rows = history.rows(
        f"""SELECT time, pid, application, role, backend_type, state, wait_event, query_id,
                   statement_seconds, blocked_by,
                   CASE WHEN seconds <= {longest} THEN seconds ELSE {interval} END AS seconds
            FROM sessions
            WHERE {IN_PERIOD} AND (blocked_by IS NOT NULL OR state LIKE 'idle in transaction%')
            ORDER BY time, pid""",
        about.parameters, inside=True,
    )  # fmt: skip
    waiting: dict[str, list[_Seen]] = defaultdict(list)
    idle: dict[str, list[_Seen]] = defaultdict(list)
    for at, sample in _by_time(rows):
        blocked = {
            str(row["pid"]): row["blocked_by"].split(",") for row in sample if row["blocked_by"]
        }
        for row in sample:
            if not row["blocked_by"]:
                idle[str(row["pid"])].append((at, row))
            elif row["wait_event"] is None or row["wait_event"] in STOPPING:
                for root in roots(blocked[str(row["pid"])], blocked):
                    waiting[root].append((at, row))
    for root, seen in waiting.items():
        queues = [
            one for one in map(_Queue, _divided(seen, timedelta(0), _covered))
            if one.end - one.begin >= _QUEUE
        ]  # fmt: skip
        for several in _divided(queues, _AGAIN, lambda one: (one.begin, one.end)):
            yield _told(history, about, root, several, idle[root])


def _covered(one: _Seen) -> tuple[datetime, datetime]:
    """The time of which a sample tells: back to the one before, which may have been late."""
    at, row = one
    return at - timedelta(seconds=_LATE * row["seconds"]), at


@dataclass(frozen=True, slots=True)
class _Queue:
    """Who waited for one process, in samples without a pause."""

    seen: Sequence[_Seen]

    @property
    def first(self) -> datetime:
        return self.seen[0][0]

    @property
    def end(self) -> datetime:
        return self.seen[-1][0]

    @property
    def begin(self) -> datetime:
        """When it may have begun: after the sample before, with the oldest statement that waits."""
        waited = [
            min(row["statement_seconds"] or 0, row["seconds"])
            for at, row in self.seen if at == self.first
        ]  # fmt: skip
        return self.first - timedelta(seconds=max(waited))


def _by_time(
    rows: Iterable[Mapping[str, Any]],
) -> Iterator[tuple[datetime, list[Mapping[str, Any]]]]:
    samples: dict[datetime, list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        samples[row["time"].replace(tzinfo=UTC)].append(row)
    yield from sorted(samples.items())


def _told(
    history: History, about: HistoryPeriod, root: str, queues: Sequence[_Queue],
    idle: Sequence[_Seen],
) -> Incident:  # fmt: skip
    begin, end = queues[0].begin, queues[-1].end
    waits = [one for queue in queues for one in queue.seen]
    most = max(Counter(at for at, _ in waits).values())
    who = sorted({_name(row) or "?" for _, row in waits})
    holder = next((row for at, row in idle if begin - _AROUND <= at <= end + _AROUND), None)
    if holder is None:
        holder = _seen_working(history, about, root, begin, end)
    return Incident(
        kind="lock queue", begin=begin, end=end, screen="moment",
        text=f"{plural(most, 'session')} of {enumerated(who[:3])} waited for a lock that "
        f"{_holder(history, root, holder)} held{_times(queues)}",
    )  # fmt: skip


def _times(queues: Sequence[_Queue]) -> str:
    """How long: as far as samples show it, or as long as it may have been."""
    seen = sum((one.end - one.first for one in queues), timedelta(0))
    maybe = sum((one.end - one.begin for one in queues), timedelta(0))
    length = pretty_duration((seen if seen >= _QUEUE else maybe).total_seconds())
    told = f"{'at least' if seen >= _QUEUE else 'up to'} {length}"
    return f", {len(queues)} times, {told} in all" if queues[1:] else f" for {told}"


def _seen_working(
    history: History, about: HistoryPeriod, pid: str, begin: datetime, end: datetime
) -> Mapping[str, Any] | None:
    rows = history.rows(
        f"""SELECT application, role, backend_type, state, query_id FROM sessions
            WHERE {IN_PERIOD} AND pid = {int(pid)} AND time >= $from AND time <= $to
            ORDER BY time LIMIT 1""",
        about.parameters | {"from": _naive(begin), "to": _naive(end)},
        inside=True,
    )  # fmt: skip
    return next(iter(rows), None)


def _holder(history: History, pid: str, row: Mapping[str, Any] | None) -> str:
    if pid == "0":
        return "a prepared transaction"
    if row is None:
        return f"process {pid}"
    idle = (row["state"] or "").startswith("idle in transaction")
    text = _texts(history, [row["query_id"]]).get(row["query_id"])
    last = f"{'last ' if idle else ''}statement {cut(text, _TEXT)}" if text else ""
    about = ", ".join(filter(None, [f"process {pid}", row["state"], last]))
    return f"{_name(row) or 'a session'} ({about})"


def _name(row: Mapping[str, Any]) -> str:
    """Who a session is; background processes have no names of their own. Empty: unknown."""
    name = row["application"] or row["role"]
    return as_name(name) if name else row["backend_type"] or ""


def _texts(history: History, ids: Sequence[int | None]) -> dict[int, str]:
    wanted = sorted({int(one) for one in ids if one is not None})
    if not wanted:
        return {}
    rows = history.rows(
        "SELECT query_id, text FROM statement_texts "
        f"WHERE query_id IN ({', '.join(map(str, wanted))})"
    )
    return {row["query_id"]: row["text"] for row in rows}


# Sessions


def _storms(history: History, about: HistoryPeriod) -> Iterator[Incident]:
    if not as_sampled(history, "connections", about):
        return
    rows = history.rows(
        f"SELECT time, clients, maximum FROM connections WHERE {IN_PERIOD} ORDER BY time",
        _usual_day(about).parameters, inside=True,
    )  # fmt: skip
    counted = [row for row in rows if row["clients"] is not None]
    if not counted:
        return
    often = median(row["clients"] for row in counted)
    reserved = sum(map(int, settings(history, about, *RESERVED, *OF_RDS).values()))

    def full(row: Mapping[str, Any]) -> bool:
        """Whether ordinary roles can open no more; the recorder's own session is not counted."""
        return bool(row["clients"] + 1 >= row["maximum"] - reserved)

    high = [
        (row["time"].replace(tzinfo=UTC), row) for row in counted
        if row["clients"] >= max(_TIMES * often, often + _MORE)
        or (full(row) and row["clients"] >= _CLEARLY * often)
    ]  # fmt: skip
    for storm in _near(high, timedelta(minutes=2)):
        if storm[-1][0] < about.begin:
            continue
        peak = max((row for _, row in storm), key=lambda row: row["clients"])
        most = f"{peak['maximum']:,}{', as many as ordinary roles may open' * full(peak)}"
        yield Incident(
            kind="connection storm", begin=storm[0][0], end=storm[-1][0], screen="connections",
            text=f"the number of sessions rose to {peak['clients']:,} of {most}; "
            f"usual are {often:,.0f}",
        )  # fmt: skip


def _refused(history: History, about: HistoryPeriod) -> Iterator[Incident]:
    for rows in _counted(history, about, "log_errors", "refused"):
        number = plural_was(int(sum(row["refused"] for row in rows)), "session")
        yield Incident(
            kind="sessions refused", begin=_span(rows[0])[0], end=_span(rows[-1])[1],
            screen="connections", text=f"{number} refused because there were too many",
        )  # fmt: skip


def _deadlocks(history: History, about: HistoryPeriod) -> Iterator[Incident]:
    for rows in _counted(history, about, "databases", "deadlocks"):
        names = sorted({as_name(row["database"]) for row in rows if row["database"]})
        number = plural_was(int(sum(row["deadlocks"] for row in rows)), "deadlock")
        yield Incident(
            kind="deadlocks", begin=_span(rows[0])[0], end=_span(rows[-1])[1],
            screen="connections", text=f"{number} resolved in {first_few(names, 3)}",
        )  # fmt: skip


def _counted(
    history: History, about: HistoryPeriod, source: str, column: str
) -> Iterator[list[dict[str, Any]]]:
    """Yield the rows in which a counter grew, those near each other together."""
    if not as_sampled(history, source, about):
        return
    rows = history.rows(
        f"""SELECT * FROM {source} WHERE {IN_PERIOD} AND {column} > 0
            AND seconds <= {_longest(history, source)} ORDER BY time""",
        about.parameters, inside=True,
    )  # fmt: skip
    yield from _divided(rows, _AGAIN, _span)


def _span(row: Mapping[str, Any]) -> tuple[datetime, datetime]:
    """The time in which the counters of a row grew: since the sample before."""
    end: datetime = row["time"].replace(tzinfo=UTC)
    return end - timedelta(seconds=float(row["seconds"] or 0)), end


# Statements


def _slow_queries(history: History, about: HistoryPeriod) -> Iterator[Incident]:
    """Statements that took longer per call for a while, with what changed just before."""
    if not as_sampled(history, "statements", about):
        return
    day = _usual_day(about)
    by_statement: dict[tuple[Any, ...], list[Mapping[str, Any]]] = defaultdict(list)
    for row in _slow_samples(history, day):
        by_statement[row["query_id"], row["database"], row["role"]].append(row)
    runs = [
        (_span(run[0])[0], (key, run, run[0]["usual"]))
        for key, slow in by_statement.items() for run in _divided(slow, _PAUSE, _span)
        if _span(run[-1])[1] >= about.begin and _matters(run)
    ]  # fmt: skip
    known = changes(history, day) if runs else ()
    for group in _near(sorted(runs, key=lambda one: one[0]), _AT_ONCE):
        yield _slower_at_once(history, day, [one for _, one in group], known)


def _slow_samples(history: History, about: HistoryPeriod) -> Sequence[Mapping[str, Any]]:
    """Return the samples in which a call took much longer than `usual` [ms].

    Usual is the lower quartile of all samples, so that half of a day may be slow.
    """
    of = "query_id, database, role"
    return history.rows(
        f"""SELECT {of}, time, calls, ms, seconds, usual FROM (
                SELECT *, max(CASE WHEN 4 * number > samples AND 4 * (number - 1) <= samples
                                   THEN ms / calls END) OVER (PARTITION BY {of}) AS usual
                FROM (SELECT *, row_number() OVER (PARTITION BY {of} ORDER BY ms / calls) AS number,
                             count(*) OVER (PARTITION BY {of}) AS samples
                      FROM (SELECT {of}, time, sum(calls) AS calls, sum(exec_ms) AS ms,
                                   sum(seconds) / count(*) AS seconds
                            FROM statements WHERE {IN_PERIOD} AND calls > 0
                              AND seconds <= {_longest(history, "statements")}
                            GROUP BY {of}, time) AS t) AS r) AS s
            WHERE samples >= {_SAMPLES} AND ms / calls >= {_SLOWER} * usual AND ms / calls >= 0.01
            ORDER BY {of}, time""",
        about.parameters, inside=True,
    )  # fmt: skip


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
    begin = min(_span(run[0])[0] for _, run, _ in group)
    end = max(_span(run[-1])[1] for _, run, _ in group)
    key, run, usual = max(group, key=lambda one: _more_load(one[1], one[2]))
    mean = sum(row["ms"] for row in run) / sum(row["calls"] for row in run)
    text = _texts(history, [key[0]]).get(key[0]) or f"statement {key[0]}"
    told = f"{cut(text, _TEXT)} took {_ms(mean)} per call instead of {_ms(usual)}"
    if len(group) > 1:
        told = f"{len(group)} statements took longer; {told}"
    if plan := plan_changed(
        history, about, key[0], key[1], _span(run[0])[0], _span(run[-1])[1]
    ):  # fmt: skip
        told += f", {plan}"
    tables = _tables(history, about, key[1], text, begin)
    for change in _grown(tables):
        told += f"; {change}"
    seen = min(_span(run[0])[1] for _, run, _ in group)
    places = {None, *(where for (_, where, _), *_ in group)}
    causes = [
        *(
            (one.at, _named(one)) for one in known
            if one.what in _CAUSES and one.database in places
            and begin - _JUST_BEFORE <= one.at <= seen + _SEEN_LATER.get(one.what, timedelta(0))
        ),
        *(one for one in _analyzed(tables) if begin - _JUST_BEFORE <= one[0] <= seen),
    ]  # fmt: skip
    nearest = [text for _, text in sorted(causes, key=lambda one: abs(one[0] - begin))]
    cause = f"; just before: {enumerated(nearest[:_NAMED])}" if nearest else ""
    return Incident(
        kind="statement slower", begin=begin, end=end, text=told + cause, screen="statements"
    )


def _grown(tables: _TableSamples) -> Iterator[str]:
    """Yield which tables that a statement names had grown until it became slower."""
    for name, seen in tables.items():
        before, after = (row["live"] for row in (seen[0], seen[-1]))
        # From nothing: it was filled, or its statistics began anew.
        if before and after and after >= max(_TIMES * before, _ROWS):
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
    """Return the tables that a statement names, with what was sampled of each until it slowed."""
    found: defaultdict[str, list[Mapping[str, Any]]] = defaultdict(list)
    if not as_sampled(history, "tables", about):
        return found
    words = sorted(set(re.findall(r"\w+", text.lower())))
    for row in history.rows(
        f"""SELECT * FROM tables WHERE {IN_PERIOD} AND database = $database AND time <= $slow
            AND list_contains($words, lower(name)) ORDER BY time""",
        about.parameters
        | {"database": database, "words": words, "slow": _naive(begin + _TABLES_LATER)},
        inside=True,
    ):
        found[as_name(row["schema"], row["name"])].append(row)
    return found


def _naive(time: datetime) -> datetime:
    """As views have it: UTC, and no zone."""
    return time.replace(tzinfo=None)


def _more_load(rows: Sequence[Mapping[str, Any]], usual: float) -> float:
    """Sessions that were kept busy beyond what the usual time per call would have."""
    seconds = sum(float(row["seconds"]) for row in rows)
    more = sum(row["ms"] - row["calls"] * usual for row in rows) / 1000
    return float(more / max(seconds, 1.0))


def _ms(value: float) -> str:
    return f"{value:.3g} ms" if value < 1000 else pretty_duration(value / 1000)


# Checkpoints


def _forced_checkpoints(history: History, about: HistoryPeriod) -> Iterator[Incident]:
    if not as_sampled(history, "checkpoints", about):
        return
    # Those of a longer time each, as over a gap, need not have come close together.
    rows = history.rows(
        f"""SELECT time, seconds, requested FROM checkpoints
            WHERE {IN_PERIOD} AND requested > 0 AND seconds <= {_CLOSE.seconds} * requested
            ORDER BY time""",
        about.parameters, inside=True,
    )  # fmt: skip
    for run in _near(((_span(row)[1], row) for row in rows), _CLOSE):
        number = int(sum(row["requested"] for _, row in run))
        if number >= _FORCED:
            begin, end = _span(run[0][1])[0], run[-1][0]
            length = pretty_duration((end - begin).total_seconds())
            yield Incident(
                kind="checkpoints",
                begin=begin,
                end=end,
                screen="wal",
                text=f"{number} checkpoints came before their time within {length}: WAL reached "
                "max_wal_size, or somebody asked for them",
            )
