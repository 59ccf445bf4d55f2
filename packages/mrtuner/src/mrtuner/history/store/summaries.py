"""Summaries chosen by the recorder, besides the one that each source declares.

They answer what would otherwise take a second or more for a year: what sessions waited for, which
minute was the busiest, and when nothing was recorded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from mrtuner.history.recording.source import Rollup, Source
from mrtuner.history.store import layout

_DAY: Final = 86_400.0
#: SQL condition for a client or a process of the server that is at work. When the checkpointer and
#: vacuum sleep on purpose, or logical walsenders have sent all, they are no load. Source:
#: walsender.c, exec_replication_command and WalSndWaitForWal; the last two names since 17.
AT_WORK: Final = (
    "(state = 'active' OR state IS NULL) AND coalesce(wait_event, '') NOT IN "
    "('CheckpointWriteDelay', 'VacuumDelay', 'WalSenderWaitForWAL', 'WalSenderWaitForWal', "
    "'WaitForStandbyConfirmation')"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryView:
    """A summary of another view's rows by step, with their number as `samples`."""

    view: str
    source: str
    of: str  # the view that is summarized: the source's rows, or their finer summary
    help: str
    step: Rollup
    keep: float  # seconds
    by: tuple[str, ...] = ()  # columns to group by
    where: str = "true"
    columns: tuple[tuple[str, str, str], ...] = ()  # name, SQL over the rows, meaning

    def query(self, rows: str) -> str:
        """Return the query that summarizes `rows`, itself a query."""
        step = layout.step(self.step)
        keys = "".join(f', "{name}"' for name in self.by)
        number = "count(*)" if self.of == self.source else "sum(samples)::BIGINT"
        more = "".join(f', {sql} AS "{name}"' for name, sql, _ in self.columns)
        return f"""SELECT make_timestamp(epoch_us(time) // {step} * {step}) AS time, instance{keys},
                          {number} AS samples{more}
                   FROM ({rows}) AS r WHERE {self.where} GROUP BY ALL"""


SUMMARIES: Final = (
    SummaryView(
        view="sessions_by_hour",
        source="sessions",
        of="sessions_by_minute",
        help="What sessions waited for, by hour",
        step=Rollup.HOUR,
        by=("state", "wait_type", "wait_event"),
        keep=1826 * _DAY,
    ),
    SummaryView(
        view="sessions_at_work_by_minute",
        source="sessions",
        of="sessions_by_minute",
        help="Active sessions, by minute",
        step=Rollup.MINUTE,
        where=AT_WORK,
        keep=400 * _DAY,
    ),
    SummaryView(
        view="samples_by_minute",
        source="samples",
        of="samples",
        help="Number of samples, by minute",
        step=Rollup.MINUTE,
        columns=(
            (
                "session_samples",
                "count(*) FILTER (WHERE source = 'sessions')",
                "how often sessions were sampled",
            ),
            ("earliest", "min(time)::TIMESTAMP_MS", "when the first sample was taken"),
            ("latest", "max(time)::TIMESTAMP_MS", "when the last sample was taken"),
        ),
        keep=400 * _DAY,
    ),
)


def of_source(name: str) -> tuple[SummaryView, ...]:
    return tuple(one for one in SUMMARIES if one.source == name)


def views_of(source: Source) -> tuple[str, ...]:
    """Return the view of a source's rows, and the views of all its summaries."""
    return (source.name, layout.rollup_view(source), *(one.view for one in of_source(source.name)))


def named(view: str) -> SummaryView | None:
    """Return the summary with this view; None if it is not among these summaries."""
    return next((one for one in SUMMARIES if one.view == view), None)
