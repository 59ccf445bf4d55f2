"""History as JSON: ``mrtuner.history/1``, ``mrtuner.history.compare/1`` and what a store holds."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from mrtuner.documents import Doc, Document, Struct
from mrtuner.history.analysis.active_sessions import HistoryLoad
from mrtuner.history.analysis.gaps import HistoryGap
from mrtuner.history.analysis.host_work import HistoryHost
from mrtuner.history.analysis.incidents import Incident
from mrtuner.history.analysis.period import HistoryPeriod
from mrtuner.history.analysis.statements import HistoryStatement, HistoryStatementChange


class HistoryChangeEntry(Struct):
    """A setting or a schema that changed, or an event."""

    at: Annotated[datetime, Doc("UTC")]
    what: Annotated[
        str,
        Doc("setting, schema, restart, crash, failover, upgrade, reset, clock, lost, gap, full, …"),
    ]
    detail: Annotated[str, Doc("in words")]


class HistoryCheckpoints(Struct):
    """Checkpoints and WAL of a period; null where unknown."""

    timed: Annotated[int | None, Doc("checkpoints started by checkpoint_timeout")]
    requested: Annotated[int | None, Doc("checkpoints started by WAL or a command")]
    write_seconds: Annotated[float | None, Doc("time writing buffers")]
    wal_bytes: Annotated[int | None, Doc("WAL written")]
    peak_wal: Annotated[float | None, Doc("bytes per second, in the busiest sample")]


class HistoryLog(Struct):
    """What the server's log had in a period, by severity; the last three are among the others."""

    seconds: Annotated[float, Doc("how much of the period's log was read, s")]
    panics: Annotated[int, Doc("PANIC: the whole server went down")]
    fatals: Annotated[int, Doc("FATAL: a session ended, or was refused")]
    errors: Annotated[int, Doc("ERROR: a statement failed")]
    warnings: Annotated[int, Doc("WARNING")]
    deadlocks: Annotated[int, Doc("of these, deadlocks")]
    refused: Annotated[int, Doc("of these, sessions refused because there were too many")]
    cancelled: Annotated[int, Doc("of these, cancelled statements, also by a timeout")]


class HistoryWait(Struct):
    """What sessions waited for."""

    event: Annotated[str, Doc("class and event, or CPU")]
    sessions: Annotated[float, Doc("sessions on average")]


class HistoryMinute(Struct):
    """The minute with the most active sessions."""

    at: Annotated[datetime, Doc("UTC")]
    load: Annotated[float, Doc("average active sessions")]
    waits: Annotated[tuple[HistoryWait, ...], Doc("most first")]
    statements: Annotated[tuple[HistoryStatement, ...], Doc("that took most time")]


class HistorySummary(Document, tag="mrtuner.history/1"):
    """What happened to one instance in a period."""

    period: Annotated[HistoryPeriod, Doc("the instance and the time")]
    cpus: Annotated[int | None, Doc("CPUs of the server, if known")]
    sampled: Annotated[float, Doc("share of the period's minutes with samples")]
    average_load: Annotated[float | None, Doc("average active sessions")]
    load: Annotated[tuple[HistoryLoad, ...], Doc("by step")]
    statements: Annotated[tuple[HistoryStatement, ...], Doc("that took most time")]
    checkpoints: Annotated[HistoryCheckpoints, Doc("checkpoints and WAL")]
    host: Annotated[HistoryHost | None, Doc("null: the recorder ran elsewhere")]
    slowest: Annotated[HistoryMinute | None, Doc("the busiest minute; null without load")]
    changes: Annotated[tuple[HistoryChangeEntry, ...], Doc("in the order of time")]
    gaps: Annotated[tuple[HistoryGap, ...], Doc("times without samples")]
    damaged: Annotated[tuple[str, ...], Doc("files that were left out, with the reason")]
    incidents: Annotated[tuple[Incident, ...], Doc("what went wrong, in the order of time")] = ()
    not_looked_for: Annotated[
        tuple[str, ...], Doc("what incidents could not show, a sentence each; empty: nothing")
    ] = ()
    log: Annotated[HistoryLog | None, Doc("errors in it; null: the log was not read")] = None


class HistoryComparison(Document, tag="mrtuner.history.compare/1"):
    """Two periods of an instance."""

    before: Annotated[HistorySummary, Doc("the first period")]
    after: Annotated[HistorySummary, Doc("the second period")]
    statements: Annotated[tuple[HistoryStatementChange, ...], Doc("the largest changes first")]


class HistoryRows(Document, tag="mrtuner.history.rows/1"):
    """The rows of a query."""

    columns: Annotated[list[str], Doc("names")]
    rows: Annotated[list[list[Any]], Doc("values; times as text in UTC")]
    damaged: Annotated[tuple[str, ...], Doc("files that were left out, with the reason")]


class HistoryView(Struct):
    """What one view takes on disk."""

    view: Annotated[str, Doc("its name")]
    files: Annotated[int, Doc("Parquet files")]
    rows: Annotated[int, Doc("rows in them")]
    bytes: Annotated[int, Doc("their size")]
    recent: Annotated[int, Doc("rows in SQLite")]
    first: Annotated[datetime | None, Doc("the oldest row, UTC")]
    per_day: Annotated[int | None, Doc("bytes added per day; null: too short to tell")]
    at_most: Annotated[
        int | None, Doc("bytes once retention deletes rows; null: too short to tell")
    ]


class HistorySize(Document, tag="mrtuner.history.size/1"):
    """What a store takes on disk, and will take."""

    directory: Annotated[str, Doc("the store")]
    bytes: Annotated[int, Doc("all its files")]
    recent_bytes: Annotated[int, Doc("of these, SQLite's")]
    at_most: Annotated[int | None, Doc("forecast; null: too short to tell")]
    views: Annotated[list[HistoryView], Doc("largest first")]
    estimated: Annotated[
        bool, Doc("whether the forecast is estimated, from less than a quarter of a day in files")
    ] = False


class HistoryCheck(Document, tag="mrtuner.history.verify/1"):
    """Whether a store is whole."""

    directory: Annotated[str, Doc("the store")]
    files: Annotated[int, Doc("Parquet files that were read")]
    rows: Annotated[int, Doc("rows in them")]
    problems: Annotated[list[str], Doc("what is wrong; empty: nothing")]


class HistoryCompacted(Document, tag="mrtuner.history.compacted/1"):
    """What was done to the files of a store."""

    directory: Annotated[str, Doc("the store")]
    moved: Annotated[int, Doc("rows that were moved from SQLite into files")]
    merged: Annotated[int, Doc("files that were merged into others")]
    deleted: Annotated[int, Doc("files that were deleted, past their retention or the size")]


class HistoryFetched(Document, tag="mrtuner.history.fetched/1"):
    """What came from a lake on S3."""

    directory: Annotated[str, Doc("the copy")]
    writers: Annotated[int, Doc("recorders that publish there")]
    files: Annotated[int, Doc("files that were not here before")]
    bytes: Annotated[int, Doc("their size")]


class HistoryLag(Struct):
    """How up to date one source of an instance is."""

    instance: Annotated[str, Doc("the instance")]
    source: Annotated[str, Doc("the source")]
    last: Annotated[datetime | None, Doc("its last sample, UTC; null: none")]
    lag: Annotated[float | None, Doc("seconds since then")]
    late: Annotated[bool, Doc("whether more than three intervals have passed")]
    cost: Annotated[float | None, Doc("share of one session's time that its latest samples took")]
    why: Annotated[str | None, Doc("why it cannot be read")]
    hint: Annotated[str | None, Doc("what to do")]


class HistoryStatus(Document, tag="mrtuner.history.status/1"):
    """Whether recording goes on."""

    directory: Annotated[str, Doc("the store")]
    recording: Annotated[bool, Doc("whether a recorder is running")]
    sources: Annotated[list[HistoryLag], Doc("by instance and source")]
