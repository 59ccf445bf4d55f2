"""Queues for locks: who waited, how long, and for whom."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from mrtuner.escape import printable
from mrtuner.history.analysis.incidents.model import Incident
from mrtuner.history.analysis.incidents.samples import (
    AGAIN,
    LATE,
    TEXT_WIDTH,
    divided,
    longest_interval,
    statement_text,
    without_zone,
)
from mrtuner.history.analysis.period import IN_PERIOD, HistoryPeriod, as_sampled
from mrtuner.history.reading import History
from mrtuner.postgres.lock_queue_roots import STOPPING, roots
from mrtuner.units import pretty_duration
from mrtuner.wording import as_name, cut, enumerated, plural

#: A row of the source `sessions`, and when it was sampled.
_Seen = tuple[datetime, Mapping[str, Any]]
#: When a process was seen to wait.
_Wait = tuple[datetime, int]
#: A queue this long is worth a sentence.
_QUEUE: Final = timedelta(seconds=5)
#: Whoever was not seen in a queue is looked for around it: what is idle for a moment is no row.
_AROUND: Final = timedelta(seconds=30)
#: Applications and relations that are named, the first ones.
_NAMED: Final = 3


def lock_queues(history: History, about: HistoryPeriod) -> Iterator[Incident]:
    if not as_sampled(history, "sessions", about):
        return
    interval, longest = history.source("sessions").interval, longest_interval(history, "sessions")
    # What went on during a gap is unknown: after one, a sample is as the first.
    rows = history.rows(
        f"""SELECT time, pid, application, role, backend_type, state, wait_type, wait_event,
                   query_id, transaction_seconds, statement_seconds, blocked_by,
                   {_stored(history, "lock_relation")}, {_stored(history, "statement")},
                   CASE WHEN seconds <= {longest} THEN seconds ELSE {interval} END AS seconds
            FROM sessions
            WHERE {IN_PERIOD} AND (blocked_by IS NOT NULL OR wait_type = 'Lock'
                                   OR state LIKE 'idle in transaction%')
            ORDER BY time, pid""",
        about.parameters, inside=True,
    )  # fmt: skip
    waiting: dict[str, list[_Seen]] = defaultdict(list)
    idle: dict[str, list[_Seen]] = defaultdict(list)
    unasked: Counter[datetime] = Counter()
    for at, sample in _by_time(rows):
        blocked = roots({
            str(row["pid"]): row["blocked_by"].split(",") for row in sample if row["blocked_by"]
        })  # fmt: skip
        for row in sample:
            if not row["blocked_by"]:
                if row["wait_type"] != "Lock":
                    idle[str(row["pid"])].append((at, row))
                elif row["blocked_by"] is None:
                    unasked[at] += 1
            elif row["wait_event"] is None or row["wait_event"] in STOPPING:
                for root in sorted(blocked[str(row["pid"])]):
                    waiting[root].append((at, row))
    found = []
    for root, seen in waiting.items():
        queues = [
            one for one in map(_Queue, divided(seen, timedelta(0), _covered))
            if one.end - one.begin >= _QUEUE
        ]  # fmt: skip
        found += [
            (root, several) for several in divided(queues, AGAIN, lambda one: (one.begin, one.end))
        ]
    for at_root, several in _merged(found):
        yield _told(history, about, at_root, several, idle[at_root[0]], unasked)


def _merged(
    found: Sequence[tuple[str, Sequence[_Queue]]],
) -> Iterator[tuple[Sequence[str], Sequence[_Queue]]]:
    """Yield processes and their queues: one queue, if whoever waited for one of them waited for the
    other as well, as a DDL does for ten readers.
    """
    merged: list[tuple[list[str], Sequence[_Queue]]] = []
    known: dict[_Wait, list[tuple[set[_Wait], list[str]]]] = defaultdict(list)
    for root, queues in sorted(found, key=lambda one: (-sum(len(q.seen) for q in one[1]), one[0])):
        waits = {(at, row["pid"]) for queue in queues for at, row in queue.seen}
        larger = next((one for one in known[next(iter(waits))] if waits <= one[0]), None)
        if larger is not None:
            larger[1].append(root)
            continue
        merged.append(([root], queues))
        for wait in waits:
            known[wait].append((waits, merged[-1][0]))
    yield from merged


def _covered(one: _Seen) -> tuple[datetime, datetime]:
    """The time of which a sample tells: back to the one before, which may have been late."""
    at, row = one
    return at - timedelta(seconds=LATE * row["seconds"]), at


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
    history: History, about: HistoryPeriod, at_root: Sequence[str], queues: Sequence[_Queue],
    idle: Sequence[_Seen], unasked: Mapping[datetime, int],
) -> Incident:  # fmt: skip
    begin, end = queues[0].begin, queues[-1].end
    waits = [one for queue in queues for one in queue.seen]
    most = max(Counter(at for at, _ in waits).values())
    who = sorted({_name(row) or "?" for _, row in waits})
    first = [row for _, row in waits if {*at_root} & {*row["blocked_by"].split(",")}]
    asked = Counter(row["lock_relation"] for row in first)
    relations = [one for one, _ in asked.most_common() if one]
    of = f" of {enumerated(list(map(printable, relations[:_NAMED])))}" if relations else ""
    holder = _while_held(history, about, at_root[0], idle, begin, end)
    left = max(unasked.get(at, 0) for at, _ in waits)
    more = f"; {left:,} more waited, and for whom was not asked" if left else ""
    others = f" and {plural(len(at_root) - 1, 'other')}" if at_root[1:] else ""
    return Incident(
        kind="lock queue", begin=begin, end=end, screen="moment",
        text=f"{plural(most, 'session')} of {enumerated(who[:_NAMED])} waited for a lock{of} that "
        f"{_holder(history, at_root[0], holder)}{others} held{_times(queues)}{more}",
    )  # fmt: skip


def _times(queues: Sequence[_Queue]) -> str:
    """How long: as far as samples show it, or as long as it may have been."""
    seen = sum((one.end - one.first for one in queues), timedelta(0))
    maybe = sum((one.end - one.begin for one in queues), timedelta(0))
    length = pretty_duration((seen if seen >= _QUEUE else maybe).total_seconds())
    told = f"{'at least' if seen >= _QUEUE else 'up to'} {length}"
    return f", {len(queues)} times, {told} in all" if queues[1:] else f" for {told}"


def _while_held(
    history: History, about: HistoryPeriod, pid: str, idle: Sequence[_Seen],
    begin: datetime, end: datetime,
) -> Mapping[str, Any] | None:  # fmt: skip
    """What a process did while it held a lock: idle in the transaction, at work, or seen idle
    around that time, in a transaction that had begun by its end.
    """
    then = (row for at, row in idle if begin <= at <= end)
    around = (
        row for at, row in idle
        if begin - _AROUND <= at <= end + _AROUND
        and at - timedelta(seconds=row["transaction_seconds"] or 0) <= end
    )  # fmt: skip
    return next(then, None) or _seen_working(history, about, pid, begin, end) or next(around, None)


def _seen_working(
    history: History, about: HistoryPeriod, pid: str, begin: datetime, end: datetime
) -> Mapping[str, Any] | None:
    rows = history.rows(
        f"""SELECT application, role, backend_type, state, query_id,
                   {_stored(history, "statement")} FROM sessions
            WHERE {IN_PERIOD} AND pid = {int(pid)} AND time >= $from AND time <= $to
            ORDER BY time LIMIT 1""",
        about.parameters | {"from": without_zone(begin), "to": without_zone(end)},
        inside=True,
    )  # fmt: skip
    return next(iter(rows), None)


def _holder(history: History, pid: str, row: Mapping[str, Any] | None) -> str:
    if pid == "0":
        return "a prepared transaction"
    if row is None:
        return f"process {pid}"
    idle = (row["state"] or "").startswith("idle in transaction")
    text = statement_text(history, row["query_id"]) or row["statement"]
    last = f"{'last ' if idle else ''}statement {cut(text, TEXT_WIDTH)}" if text else ""
    about = ", ".join(filter(None, [f"process {pid}", row["state"], last]))
    return f"{_name(row) or 'a session'} ({about})"


def _stored(history: History, column: str) -> str:
    """Return a column of sessions in SQL: NULL of recorders that did not store it yet."""
    return column if history.has("sessions", column) else f"NULL AS {column}"


def _name(row: Mapping[str, Any]) -> str:
    """Who a session is; background processes have no names of their own. Empty: unknown."""
    name = row["application"] or row["role"]
    return as_name(name) if name else row["backend_type"] or ""
