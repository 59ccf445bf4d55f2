"""Who blocks whom: a tree for each queue, from the session that nobody blocks on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from mrtuner.history.analysis.active_sessions import session_statement
from mrtuner.history.analysis.incidents.samples import LATE, divided, longest_interval
from mrtuner.history.analysis.period import IN_PERIOD
from mrtuner.history.reading import History
from mrtuner.web.screens.screen import Table

#: Said if there is no queue.
NOBODY: Final = "no session was seen waiting for a lock"
#: The process number of pg_blocking_pids for a transaction that is prepared.
_PREPARED: Final = "0"
#: Of times in which the same sessions waited, so many are looked at: those of the longest queues.
_MOST_RUNS: Final = 10_000
_MOST: Final = 500
_COLUMNS: Final = (
    ("depth", "Depth", "depth"),
    ("begin", "From", "time"),
    ("end", "To", "time"),
    ("pid", "Process", "process"),
    ("behind", "Sessions behind it", "integer"),
    ("application", "Application", "text"),
    ("state", "State", "text"),
    ("wait", "Waits for", "text"),
    ("transaction_seconds", "Age of the transaction", "s"),
    ("text", "Text", "sql"),
    ("statement_seconds", "Age of the statement", "s"),
    ("waited", "Samples in which it waited", "integer"),
    ("blocked_by", "Blocked by processes", "text"),
    ("role", "Role", "text"),
    ("query_id", "Statement", "statement"),
)


@dataclass(frozen=True, slots=True)
class _Run:
    """Samples without a pause between them in which the same sessions waited for the same."""

    begin: datetime
    end: datetime
    samples: int
    pause: timedelta  # the time before the first sample that it tells of
    blocked: Mapping[str, str]  # who blocks it, by process that waits

    @property
    def covered(self) -> tuple[datetime, datetime]:
        return self.begin - self.pause, self.end


@dataclass(slots=True)
class _Place:
    """A process at its place in the tree of one queue."""

    pid: str
    begin: datetime | None = None
    end: datetime | None = None
    blocked_by: str | None = None
    waited: int = 0
    behind: dict[str, _Place] = field(default_factory=dict)

    def at(self, path: Sequence[str]) -> _Place:
        """Return the place at the end of a path from here on, which is made if there is none."""
        place = self
        for pid in path:
            place = place.behind.setdefault(pid, _Place(pid))
        return place

    @property
    def number(self) -> int:
        """How many processes wait behind it."""
        return len(self._all())

    @property
    def order(self) -> tuple[Any, ...]:
        """Orders queues: the longest first, then the one with the most sessions."""
        length = self.end - self.begin if self.begin and self.end else timedelta(0)
        return -length, -self.number, self.begin, self.pid

    def _all(self) -> set[str]:
        return set(self.behind).union(*(one._all() for one in self.behind.values()))


def blocking(history: History, about: Mapping[str, Any], *, missing: str = NOBODY) -> Table:
    """Return the table `blocked`: the queues of a period, the longest first, as trees.

    `about` is the period as the parameters of a query. Rows as sampled are needed, which are kept
    for a shorter time than their summary: `missing` says why there are none.
    """
    known = history.has("sessions")
    left = _unasked(history, about) if known else 0
    more = f" (for whom {left:,} more waited was not asked)" if left else ""
    return Table(
        name="blocked", title=f"Who blocks whom, the longest queue first{more}", columns=_COLUMNS,
        rows=_rows(history, about) if known else [],
        missing=missing,
    )  # fmt: skip


def _unasked(history: History, about: Mapping[str, Any]) -> int:
    """How many sessions at once, at most, waited beyond those that were asked for whom."""
    [row] = history.rows(
        f"""SELECT max(number) AS most FROM (
                SELECT count(*) AS number FROM sessions
                WHERE {IN_PERIOD} AND blocked_by IS NULL AND wait_type = 'Lock' GROUP BY time)""",
        dict(about), inside=True,
    )  # fmt: skip
    return row["most"] or 0


def _rows(history: History, about: Mapping[str, Any]) -> list[dict[str, Any]]:
    runs = _runs(history, about)
    if not runs:
        return []
    queues = sorted(_queues(runs), key=lambda one: one.order)
    listed = [one for queue in queues[:_MOST] for one in _listed(queue, 0)][:_MOST]
    seen = _seen(history, about, [place for _, place in listed])
    return [
        _unknown(place.pid) | found | {
            "depth": depth, "pid": place.pid, "behind": place.number, "begin": place.begin,
            "end": place.end, "waited": place.waited or None, "blocked_by": place.blocked_by,
        }
        for (depth, place), found in zip(listed, seen, strict=True)
    ]  # fmt: skip


def _runs(history: History, about: Mapping[str, Any]) -> list[_Run]:
    interval, longest = history.source("sessions").interval, longest_interval(history, "sessions")
    rows = history.rows(
        f"""WITH waits AS (
                SELECT time, string_agg(pid || ' ' || blocked_by, ';' ORDER BY pid) AS queue,
                       {LATE} * max(CASE WHEN seconds <= {longest} THEN seconds
                                         ELSE {interval} END) AS pause
                FROM sessions WHERE {IN_PERIOD} AND blocked_by IS NOT NULL AND blocked_by <> ''
                GROUP BY time),
            marked AS (
                SELECT *, CASE WHEN queue = lag(queue) OVER w THEN 0 ELSE 1 END AS other,
                       CASE WHEN epoch(time) - epoch(lag(time) OVER w) <= pause
                            THEN 0 ELSE 1 END AS later FROM waits WINDOW w AS (ORDER BY time)),
            numbered AS (
                SELECT *, sum(greatest(other, later)) OVER w AS run, sum(later) OVER w AS stretch
                FROM marked WINDOW w AS (ORDER BY time))
            SELECT any_value(queue) AS queue, min(time) AS begin, max(time) AS end_,
                   count(*) AS samples, arg_min(pause, time) AS pause
            FROM numbered GROUP BY stretch, run
            ORDER BY sum(count(*)) OVER (PARTITION BY stretch) DESC, begin LIMIT {_MOST_RUNS}""",
        dict(about), inside=True,
    )  # fmt: skip
    return [
        _Run(
            row["begin"], row["end_"], row["samples"], timedelta(seconds=float(row["pause"])),
            dict(one.split(" ", 1) for one in row["queue"].split(";")),
        )
        for row in sorted(rows, key=lambda row: row["begin"])
    ]  # fmt: skip


def _queues(runs: Iterable[_Run]) -> Iterator[_Place]:
    """Yield the root of each queue: who waits for the same process without a pause."""
    at_root: dict[str, list[tuple[_Run, list[list[str]]]]] = defaultdict(list)
    for run in runs:
        paths: dict[str, list[list[str]]] = defaultdict(list)
        for pid in run.blocked:
            path = _path(pid, run.blocked)
            paths[path[0]].append(path)
        for pid, some in paths.items():
            at_root[pid].append((run, some))
    for pid, waits in at_root.items():
        for queue in divided(waits, timedelta(0), lambda one: one[0].covered):
            root = _Place(pid)
            for run, paths_in in queue:
                for path in paths_in:
                    place = root.at(path[1:])
                    place.waited += run.samples
                    place.blocked_by = run.blocked[path[-1]]
                    place.begin, place.end = place.begin or run.begin, run.end
            root.begin, root.end = queue[0][0].begin, queue[-1][0].end
            yield root


def _path(pid: str, blocked: Mapping[str, str]) -> list[str]:
    """Return the processes from the one that nobody blocks to `pid`.

    Of several that block one, it is the nearest: one that waits itself. A deadlock, which lasts
    until deadlock_timeout, has none: its least number is as good as any.

    >>> _path("3", {"2": "1", "3": "1,2"}), _path("7", {"7": "8", "8": "7"})
    (['1', '2', '3'], ['7'])
    """
    path = [pid]
    while path[-1] in blocked:
        around = blocked[path[-1]].split(",")
        first = next((one for one in around if one not in path), None)
        if first is None:
            cycle = path[min(map(path.index, around)) :]
            del path[path.index(min(cycle, key=int)) + 1 :]
            break
        path.append(next((one for one in around if one in blocked and one not in path), first))
    return path[::-1]


def _listed(place: _Place, depth: int) -> Iterator[tuple[int, _Place]]:
    yield depth, place
    for one in sorted(place.behind.values(), key=lambda one: (-one.number, -one.waited, one.pid)):
        yield from _listed(one, depth + 1)


def _unknown(pid: str) -> dict[str, Any]:
    """Return what is said of a process that holds a lock, and of which there is no sample."""
    return {"state": "prepared transaction" if pid == _PREPARED else "not seen in a sample"}


def _seen(
    history: History, about: Mapping[str, Any], places: Sequence[_Place]
) -> list[dict[str, Any]]:
    """Return what each was like in its queue: when it waited last; else in the last sample."""
    rows = history.rows(
        f"""SELECT p.place, arg_max({{
                       'application': s.application, 'role': s.role, 'state': s.state,
                       'wait': s.wait_type || ': ' || s.wait_event,
                       'query_id': s.query_id::VARCHAR, 'text': {session_statement(history)},
                       'transaction_seconds': s.transaction_seconds,
                       'statement_seconds': s.statement_seconds }}, s.time) AS seen
            FROM (SELECT unnest($places) AS place, unnest($pids) AS pid, unnest($first) AS first,
                         unnest($last) AS last) AS p
            JOIN sessions AS s ON s.pid = p.pid AND s.time >= p.first AND s.time <= p.last
            LEFT JOIN statement_texts AS t ON t.query_id = s.query_id
            WHERE {IN_PERIOD} GROUP BY p.place""",
        dict(about) | {
            "places": list(range(len(places))), "pids": [int(one.pid) for one in places],
            "first": [one.end if one.waited else one.begin for one in places],
            "last": [one.end for one in places],
        },
        inside=True,
    )  # fmt: skip
    found = {row["place"]: row["seen"] for row in rows}
    return [found.get(place, {}) for place in range(len(places))]
