"""Events that went wrong by themselves, such as a crash or a server that was lost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from mrtuner.history.analysis.changes import HistoryChange
from mrtuner.history.analysis.incidents.model import Incident
from mrtuner.history.analysis.period import IN_PERIOD, HistoryPeriod
from mrtuner.history.reading import History

#: Events that are told as they are. Others are changes, or belong to a trouble of ours.
_EVENTS: Final = frozenset({
    "crash", "failover", "full", "lost", "replaced", "restart", "upgrade",
})  # fmt: skip
#: How far two events of one thing may be apart: the server's clock and the recorder's differ.
_SECONDS: Final = timedelta(seconds=5)


def events(
    history: History, about: HistoryPeriod, known: Sequence[HistoryChange]
) -> Iterator[Incident]:
    """Yield the events; a server that was lost is so until it answered again.

    What is known to have happened to it then tells why, and is told instead.
    """
    told = [one for one in known if one.what in _EVENTS]
    lost = [one for one in told if one.what == "lost"]
    answered: list[datetime] = []
    if lost:
        rows = history.rows(
            f"SELECT time FROM events WHERE {IN_PERIOD} AND kind = 'connected' ORDER BY time",
            about.parameters, inside=True,
        )  # fmt: skip
        answered = [row["time"].replace(tzinfo=UTC) for row in rows]
    away = [(one.at, next((at for at in answered if at > one.at), None)) for one in lost]
    explained = set()
    for one in told:
        if one.what == "lost":
            continue
        begin = end = one.at
        for at, back in away:
            if back and at - _SECONDS <= one.at <= back + _SECONDS:
                begin, end = min(begin, at), max(end, back)
                explained.add(at)
        yield _incident(one, begin, end)
    for one, (at, back) in zip(lost, away, strict=True):
        if at not in explained:
            yield _incident(one, at, back or about.end)


def _incident(one: HistoryChange, begin: datetime, end: datetime) -> Incident:
    kind = "crash" if one.what == "crash" else "event"
    return Incident(kind=kind, begin=begin, end=end, text=told_as(one), screen="changes")


def told_as(change: HistoryChange) -> str:
    return f"{change.what}: {change.detail}" if change.what in _EVENTS else change.detail
