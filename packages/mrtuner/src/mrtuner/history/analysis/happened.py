"""What happened in a period, and how two periods differ: for `mrtuner history show` and `compare`.

The queries use only SQL that other engines understand as well. A period that begins before the
oldest rows kept as sampled is answered from their summaries.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Any, Final

from mrtuner.described import Doc
from mrtuner.history.analysis.active_sessions import (
    WAIT_EVENT,
    HistoryLoad,
    beats_by_minute,
    busiest_minute,
    load_by_step,
)
from mrtuner.history.analysis.changes import HistoryChange, changes
from mrtuner.history.analysis.gaps import HistoryGap, gaps
from mrtuner.history.analysis.host_work import HistoryHost, host_work
from mrtuner.history.analysis.incidents import Incident, incidents
from mrtuner.history.analysis.not_looked_for import not_looked_for
from mrtuner.history.analysis.period import IN_PERIOD, HistoryPeriod, view_for
from mrtuner.history.analysis.statements import (
    HistoryStatement,
    HistoryStatementChange,
    statement_changes,
    statements,
)
from mrtuner.history.reading import History
from mrtuner.history.store.summaries import AT_WORK

#: Steps of a chart in a terminal.
_STEPS: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryCheckpoints:
    """Checkpoints and WAL of a period; null where unknown."""

    timed: Annotated[int | None, Doc("checkpoints started by checkpoint_timeout")]
    requested: Annotated[int | None, Doc("checkpoints started by WAL or a command")]
    write_seconds: Annotated[float | None, Doc("time writing buffers")]
    wal_bytes: Annotated[int | None, Doc("WAL written")]
    peak_wal: Annotated[float | None, Doc("bytes per second, in the busiest sample")]


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryWait:
    """What sessions waited for."""

    event: Annotated[str, Doc("class and event, or CPU")]
    sessions: Annotated[float, Doc("sessions on average")]


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryMinute:
    """The minute with the most active sessions."""

    at: Annotated[datetime, Doc("UTC")]
    load: Annotated[float, Doc("average active sessions")]
    waits: Annotated[tuple[HistoryWait, ...], Doc("most first")]
    statements: Annotated[tuple[HistoryStatement, ...], Doc("that took most time")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What happened to one instance in a period."""

    period: HistoryPeriod
    cpus: int | None
    sampled: float  # share of the period
    load: tuple[HistoryLoad, ...]
    statements: tuple[HistoryStatement, ...]
    checkpoints: HistoryCheckpoints
    host: HistoryHost | None
    slowest: HistoryMinute | None
    changes: tuple[HistoryChange, ...]
    gaps: tuple[HistoryGap, ...]
    damaged: tuple[str, ...]
    incidents: tuple[Incident, ...] = ()
    not_looked_for: tuple[str, ...] = ()  # by the search for incidents, one sentence each

    @property
    def average_load(self) -> float | None:
        """Average active sessions, over the steps that were sampled."""
        known = [step.total for step in self.load if step.total is not None]
        return sum(known) / len(known) if known else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two periods side by side."""

    before: Summary
    after: Summary
    statements: tuple[HistoryStatementChange, ...]


def summary(
    history: History, about: HistoryPeriod, *, top: int = 10, cpus: int | None = None
) -> Summary:
    """Return what happened in a period."""
    load = load_by_step(history, about, max(60.0, about.seconds / _STEPS))
    changed = changes(history, about)
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
        changes=changed,
        gaps=gaps(history, about),
        damaged=history.damaged,
        incidents=incidents(history, about, changed),
        not_looked_for=not_looked_for(history, about),
    )


def checkpoints(history: History, about: HistoryPeriod) -> HistoryCheckpoints:
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
    return HistoryCheckpoints(
        timed=_whole(done["timed"]), requested=_whole(done["requested"]),
        write_seconds=done["write_seconds"], wal_bytes=_whole(written["wal_bytes"]),
        peak_wal=written["peak_wal"],
    )  # fmt: skip


def _whole(value: Any) -> int | None:
    return None if value is None else int(value)


def slowest_minute(history: History, about: HistoryPeriod) -> HistoryMinute | None:
    """What the busiest minute's sessions waited for, and what ran; None if none was active."""
    busiest = busiest_minute(history, about)
    if busiest is None:
        return None
    minute, load = busiest
    within = HistoryPeriod(instance=about.instance, begin=minute, end=minute + timedelta(minutes=1))
    waits = history.rows(
        f"""SELECT {WAIT_EVENT} AS event,
                   sum(samples) AS samples
            FROM sessions_by_minute WHERE {IN_PERIOD} AND {AT_WORK}
            GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 5""",
        within.parameters, inside=True,
    )  # fmt: skip
    beats = beats_by_minute(history, within)[minute]
    # A sample of statements covers the minute before it.
    after = HistoryPeriod(instance=about.instance, begin=minute, end=minute + timedelta(minutes=2))
    return HistoryMinute(
        at=minute,
        load=load,
        waits=tuple(
            HistoryWait(event=row["event"], sessions=row["samples"] / beats) for row in waits
        ),
        statements=statements(history, after, 3),
    )


def compare(
    history: History,
    before: HistoryPeriod,
    after: HistoryPeriod,
    *,
    top: int = 10,
    cpus: int | None = None,
) -> Comparison:
    """Return two periods and what changed between them, statement by statement."""
    return Comparison(
        before=summary(history, before, cpus=cpus),
        after=summary(history, after, cpus=cpus),
        statements=statement_changes(history, before, after, top=top),
    )
