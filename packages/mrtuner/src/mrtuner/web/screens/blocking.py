"""Who blocks whom, as a tree: the sessions that nobody blocks, and behind each those that wait."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from mrtuner.history.analysis.period import IN_PERIOD
from mrtuner.history.reading import History
from mrtuner.web.screens.screen import Table

#: The process number of pg_blocking_pids for a transaction that is prepared.
_PREPARED: Final = "0"
#: Queues that look alike are one; of the others, the longest in this number are drawn.
_MOST_QUEUES: Final = 1000
_MOST: Final = 500
_COLUMNS: Final = (
    ("depth", "Depth", "depth"),
    ("pid", "Process", "process"),
    ("application", "Application", "text"),
    ("state", "State", "text"),
    ("transaction_seconds", "Age of the transaction", "s"),
    ("behind", "Sessions behind it", "integer"),
    ("text", "Text", "sql"),
    ("wait", "Waits for", "text"),
    ("statement_seconds", "Age of the statement", "s"),
    ("time", "Last seen", "time"),
    ("waited", "Samples in which it waited", "integer"),
    ("blocked_by", "Blocked by processes", "text"),
    ("role", "Role", "text"),
    ("query_id", "Statement", "statement"),
)


@dataclass(slots=True)
class _Place:
    """A process at its place in a tree, over all samples in which it was there."""

    pid: str
    blocked_by: str | None = None
    waited: int = 0
    last: datetime | None = None
    behind: dict[str, _Place] = field(default_factory=dict)

    def at(self, path: Sequence[str]) -> Iterator[_Place]:
        """Yield the places of a path from here on, which are made where there are none."""
        place = self
        for pid in path:
            place = place.behind.setdefault(pid, _Place(pid))
            yield place

    @property
    def number(self) -> int:
        """How many processes wait behind it."""
        return len(self._all())

    def _all(self) -> set[str]:
        return set(self.behind).union(*(one._all() for one in self.behind.values()))


def blocking(history: History, about: Mapping[str, Any]) -> Table:
    """Return the table `blocked`: the trees of a period, the one with most sessions first.

    `about` is the period as the parameters of a query. Rows as sampled are needed, which are kept
    for a shorter time than their summary.
    """
    found = _rows(history, about) if history.has("sessions") else []
    return Table(
        name="blocked", title="Who blocks whom", columns=_COLUMNS, rows=found[:_MOST],
        missing="no session was seen waiting for a lock",
    )  # fmt: skip


def _rows(history: History, about: Mapping[str, Any]) -> list[dict[str, Any]]:
    queues = history.rows(
        f"""SELECT queue, count(*) AS samples, max(time) AS last FROM (
                SELECT time, count(*) AS number,
                       string_agg(pid || ' ' || blocked_by, ';' ORDER BY pid) AS queue
                FROM sessions WHERE {IN_PERIOD} AND blocked_by IS NOT NULL AND blocked_by <> ''
                GROUP BY time) AS s
            GROUP BY queue ORDER BY max(number) DESC, samples DESC, queue LIMIT {_MOST_QUEUES}""",
        dict(about), inside=True,
    )  # fmt: skip
    if not queues:
        return []
    nobody = _Place("")
    for queue in queues:
        blocked = dict(one.split(" ", 1) for one in queue["queue"].split(";"))
        for pid, others in blocked.items():
            *_, place = nobody.at(_path(pid, blocked))
            place.waited += queue["samples"]
            place.blocked_by = others
            place.last = max(place.last or queue["last"], queue["last"])
    return list(_listed(nobody, _seen(history, about), 0))


def _path(pid: str, blocked: Mapping[str, str]) -> list[str]:
    """Return the processes from the one that nobody blocks to `pid`.

    Of several that block one, it is the nearest: one that waits itself. A deadlock, which lasts
    until deadlock_timeout, is cut where it closes.
    """
    path = [pid]
    while path[-1] in blocked:
        others = [one for one in blocked[path[-1]].split(",") if one not in path]
        if not others:
            break
        path.append(next((one for one in others if one in blocked), others[0]))
    return path[::-1]


def _listed(
    place: _Place, seen: Mapping[str, Mapping[str, Any]], depth: int
) -> Iterator[dict[str, Any]]:
    for one in sorted(place.behind.values(), key=lambda one: (-one.number, -one.waited, one.pid)):
        yield _unknown(one.pid) | dict(seen.get(one.pid, {})) | {
            "depth": depth, "pid": one.pid, "behind": one.number, "waited": one.waited or None,
            "blocked_by": one.blocked_by,
        } | ({"time": one.last} if one.last else {})  # fmt: skip
        yield from _listed(one, seen, depth + 1)


def _unknown(pid: str) -> dict[str, Any]:
    """Return what is said of a process that holds a lock, and of which there is no sample."""
    return {"state": "prepared transaction" if pid == _PREPARED else "not seen in a sample"}


def _seen(history: History, about: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return by process what it was like in the samples in which somebody waited."""
    names = ("application", "role", "state", "query_id")
    latest = ", ".join(f"arg_max(s.{name}, s.time) AS {name}" for name in names)
    rows = history.rows(
        f"""SELECT s.pid::VARCHAR AS pid, s.time, s.application, s.role, s.state, s.wait, s.text,
                   s.query_id::VARCHAR AS query_id, s.transaction_seconds, s.statement_seconds
            FROM (SELECT s.pid, max(s.time) AS time, {latest},
                         mode(s.wait_type || ': ' || s.wait_event)
                             FILTER (WHERE s.blocked_by IS NOT NULL) AS wait,
                         arg_max(t.text, s.time) AS text,
                         max(s.transaction_seconds) AS transaction_seconds,
                         max(s.statement_seconds) AS statement_seconds
                  FROM sessions AS s LEFT JOIN statement_texts AS t ON t.query_id = s.query_id
                  WHERE {IN_PERIOD} AND s.time IN (
                      SELECT time FROM sessions WHERE {IN_PERIOD} AND blocked_by IS NOT NULL)
                  GROUP BY s.pid) AS s""",
        dict(about), inside=True,
    )  # fmt: skip
    return {row["pid"]: row for row in rows}
