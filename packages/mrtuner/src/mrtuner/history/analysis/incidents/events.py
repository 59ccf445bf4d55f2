"""Events that went wrong by themselves, such as a crash or a server that was lost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

from mrtuner.history.analysis.changes import HistoryChange
from mrtuner.history.analysis.incidents.model import Incident
from mrtuner.history.analysis.period import IN_PERIOD, HistoryPeriod
from mrtuner.history.reading import History

#: Events that are told as they are. Others are changes, or belong to a trouble of ours.
_EVENTS: Final = frozenset({
    "crash", "failover", "full", "lost", "replaced", "restart", "upgrade",
})  # fmt: skip


def events(
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
        yield Incident(kind="event", begin=one.at, end=end, text=told_as(one), screen="changes")


def told_as(change: HistoryChange) -> str:
    return f"{change.what}: {change.detail}" if change.what in _EVENTS else change.detail
