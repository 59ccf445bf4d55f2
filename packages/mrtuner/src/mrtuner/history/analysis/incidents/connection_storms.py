"""Storms of connections: many more sessions than usual, and sessions that were refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, timedelta
from statistics import median
from typing import Any, Final

from mrtuner.history.analysis.incidents.model import Incident
from mrtuner.history.analysis.incidents.samples import (
    grown_together,
    near,
    span_of,
    usual_day,
)
from mrtuner.history.analysis.period import IN_PERIOD, HistoryPeriod, as_sampled
from mrtuner.history.reading import History
from mrtuner.history.recorded.settings import settings
from mrtuner.postgres.reserved import OF_RDS, RESERVED
from mrtuner.wording import plural_was

#: A storm: twice the usual number of sessions, and so many more; or as many as may be, and so many
#: times the usual number.
_TIMES: Final = 2.0
_MORE: Final = 20
_CLEARLY: Final = 1.1


def connection_storms(history: History, about: HistoryPeriod) -> Iterator[Incident]:
    if not as_sampled(history, "connections", about):
        return
    rows = history.rows(
        f"SELECT time, clients, maximum FROM connections WHERE {IN_PERIOD} ORDER BY time",
        usual_day(about).parameters, inside=True,
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
    for storm in near(high, timedelta(minutes=2)):
        if storm[-1][0] < about.begin:
            continue
        peak = max((row for _, row in storm), key=lambda row: row["clients"])
        most = f"{peak['maximum']:,}{', as many as ordinary roles may open' * full(peak)}"
        yield Incident(
            kind="connection storm", begin=storm[0][0], end=storm[-1][0], screen="connections",
            text=f"the number of sessions rose to {peak['clients']:,} of {most}; "
            f"usual are {often:,.0f}",
        )  # fmt: skip


def refused_sessions(history: History, about: HistoryPeriod) -> Iterator[Incident]:
    for rows in grown_together(history, about, "log_errors", "refused"):
        number = plural_was(int(sum(row["refused"] for row in rows)), "session")
        yield Incident(
            kind="sessions refused", begin=span_of(rows[0])[0], end=span_of(rows[-1])[1],
            screen="connections", text=f"{number} refused because there were too many",
        )  # fmt: skip
