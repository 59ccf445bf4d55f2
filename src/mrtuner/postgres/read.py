"""Reading a running server over SQL alone.

What a role may not see, a fork does not have, or a version does not count becomes a Missing
with its reason; it never raises an exception and never counts as "fine".
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import repeat
from math import ceil
from typing import TYPE_CHECKING, Any, Final

from mrtuner.facts import Missing
from mrtuner.postgres.connect import translated
from mrtuner.postgres.local import postmaster
from mrtuner.postgres.model import (
    Activity,
    Archiver,
    FileProblem,
    JitWork,
    Origin,
    Override,
    Pending,
    Platform,
    Relation,
    RoleSpills,
    Server,
    Setting,
    Slot,
    Slru,
)
from mrtuner.postgres.pending import waiting
from mrtuner.postgres.platform import Clues, platform
from mrtuner.postgres.sql import query
from mrtuner.units import Bytes

if TYPE_CHECKING:
    from mrtuner.postgres.connect import Connection

    Row = dict[str, Any]

#: Our names for pg_settings.source. Source: guc_tables.c, GucSource_Names.
_ORIGINS: Final[dict[str, Origin]] = {
    "default": "default",
    "environment variable": "environment",
    "configuration file": "file",
    "command line": "command line",
    "global": "role",  # ALTER ROLE ALL
    "database": "database",
    "user": "role",
    "database user": "role",
    "client": "client",
    "override": "computed",
    "interactive": "session",
    "test": "session",
    "session": "session",
}
_SEE_SETTINGS: Final = "Connect as a superuser, or GRANT pg_read_all_settings to the role."
_SEE_STATS: Final = "Connect as a superuser, or GRANT pg_monitor to the role."


def read(conn: Connection) -> Server:
    """Return everything MrTuner needs to know about the server at `conn`, an autocommit session.

    Only reads. The settings are those of this session, so an override for its role or database
    shows with that origin. Raises ConnectError when the session breaks or the server is lost.
    """
    with translated():
        return _server(_Reader(conn, conn.info.server_version))


def watch(
    conn: Connection,
    seconds: float,
    *,
    every: float = 1.0,
    sleep: Callable[[float], None] = time.sleep,
) -> Activity:
    """Return what the server did in the next `seconds`: the difference of two samples.

    Sessions are counted `every` that many seconds, for their peak. A counter that was reset
    meanwhile is None. WAL is measured by its position, in bytes, so this works on PostgreSQL 13
    too. Raises ConnectError when the session breaks.
    """
    with translated():
        reader = _Reader(conn, conn.info.server_version)
        before = _sample(reader)
        seen = [reader.row("sessions")]
        for pause in _pauses(seconds, every):
            sleep(pause)
            seen.append(reader.row("sessions"))
        return replace(
            _difference(before, _sample(reader)),
            peak_sessions=max(row["sessions"] for row in seen),
            peak_active=max(row["active"] for row in seen),
        )


def _pauses(seconds: float, every: float) -> Iterator[float]:
    """At least one pause; equal ones that add up to `seconds`, none longer than `every`."""
    number = max(1, ceil(seconds / every))
    return repeat(seconds / number, number)


@dataclass(slots=True)
class _Reader:
    """Runs queries by name and records what could not be read."""

    conn: Connection
    version_num: int
    missing: list[Missing] = field(default_factory=list)

    def rows(self, name: str) -> list[Row]:
        """Return all rows of a query that every role may run."""
        from psycopg.rows import dict_row

        with self.conn.cursor(row_factory=dict_row) as cursor:
            return cursor.execute(query(name, self.version_num)).fetchall()

    def row(self, name: str) -> Row:
        """Return the only row of such a query."""
        return self.rows(name)[0]

    def rows_if_allowed(
        self, name: str, fact: str, hint: str | None = None, *, first: str | None = None
    ) -> list[Row]:
        """Return the rows, or none plus a Missing `fact` if the role, a lock or the server forbids.

        The query `first` runs before, in the same transaction.
        """
        from psycopg import errors

        try:
            with self.conn.transaction():
                # Never wait long for a lock, such as another session's ALTER TABLE.
                self.conn.execute("SET LOCAL lock_timeout = '2s'")
                self.conn.execute("SET LOCAL statement_timeout = '30s'")
                if first:
                    self.rows(first)
                return self.rows(name)
        except errors.InsufficientPrivilege as error:
            self.lacks(fact, _reason(error), hint)
        except (errors.LockNotAvailable, errors.QueryCanceled) as error:
            self.lacks(fact, _reason(error), "Run again when the server is less busy.")
        except (errors.UndefinedTable, errors.UndefinedFunction, errors.UndefinedColumn) as error:
            self.lacks(fact, f"not available on this server: {_reason(error)}")
        except (errors.FeatureNotSupported, errors.ObjectNotInPrerequisiteState) as error:
            self.lacks(fact, _reason(error))
        return []

    def lacks(self, fact: str, why: str, hint: str | None = None) -> None:
        self.missing.append(Missing(fact, why, hint=hint))


def _reason(error: Exception) -> str:
    return str(error).partition("\n")[0]


def _server(reader: _Reader) -> Server:
    # Settings first: some later queries run under limits of their own.
    settings = {row["name"]: row for row in reader.rows("settings")}
    about = reader.row("server")
    typed = _settings(settings.values(), _text(settings, "config_file"))
    if not about["reads_settings"]:
        why = "the role may not see where settings come from, nor the value of some settings"
        reader.lacks("sourcefile", why, _SEE_SETTINGS)
        reader.lacks("data_directory", "the role may not see it", _SEE_SETTINGS)
    extensions = reader.rows("extensions")
    problems, pending = _files(reader)
    return Server(
        version_num=about["version_num"],
        version=about["version"],
        settings=typed,
        overrides=tuple(Override(**row) for row in reader.rows("overrides")),
        file_problems=problems,
        pending=pending,
        platform=_platform(reader, typed),
        standby=about["standby"],
        standbys=about["standbys"],
        connections=about["connections"],
        peak_connections=_peak(reader),
        databases=_databases(reader),
        relations=_relations(reader),
        extensions=tuple(row["name"] for row in extensions if row["installed"]),
        available_extensions=frozenset(row["name"] for row in extensions),
        activity=_activity(reader, about, typed),
        data_directory=_text(settings, "data_directory"),
        local_pid=_local_pid(reader),
        superuser=about["superuser"],
        slrus=tuple(Slru(**row) for row in reader.rows_if_allowed("slru", "slrus", _SEE_STATS)),
        slots=tuple(Slot(**row) for row in reader.rows_if_allowed("slots", "slots", _SEE_STATS)),
        archiver=_archiver(reader),
        jit=_jit(reader, extensions),
        role_spills=_role_spills(reader, extensions),
        active=about["active"],
        missing=tuple(reader.missing),
    )


def _text(settings: Mapping[str, Row], name: str) -> str | None:
    """A setting's value, or None if it is hidden from the role."""
    return settings[name]["setting"] if name in settings else None


def _settings(rows: Iterable[Row], config_file: str | None) -> dict[str, Setting]:
    return {row["name"]: _setting(row, config_file) for row in rows}


def _setting(row: Row, config_file: str | None) -> Setting:
    kept = {name: value for name, value in row.items() if name != "source"}
    origin = _origin(row["source"], row["sourcefile"], config_file)
    return Setting(**{**kept, "enumvals": tuple(row["enumvals"]), "origin": origin})


def _origin(source: str, sourcefile: str | None, config_file: str | None) -> Origin:
    """Where a value comes from; a file that the role may not see is just a "file"."""
    origin = _ORIGINS.get(source, "session")
    if origin != "file" or sourcefile is None or sourcefile == config_file:
        return origin
    auto = sourcefile.rpartition("/")[2] == "postgresql.auto.conf"
    return "postgresql.auto.conf" if auto else "include"


def _files(reader: _Reader) -> tuple[tuple[FileProblem, ...], tuple[Pending, ...]]:
    """Return the lines that the server could not use and, separately, those waiting for a restart.

    Reading pg_file_settings tries every line, which flags the waiting ones in this session. For
    a role that may not read it, only what the server has already flagged is known.
    """
    lacking = len(reader.missing)
    rows = reader.rows_if_allowed("file_problems", "file_problems", _SEE_FILES)
    flagged = {row["name"] for row in reader.rows("pending")}
    if len(reader.missing) > lacking:
        return (), tuple(Pending(name=name, value=None) for name in sorted(flagged))
    problems, pending = [], []
    for row in rows:
        if one := waiting(row["name"], row["setting"], row["error"], flagged):
            pending.append(one)
        else:
            problems.append(_problem(row))
    return tuple(problems), tuple(pending)


def _problem(row: Row) -> FileProblem:
    return FileProblem(**{name: value for name, value in row.items() if name != "setting"})


_SEE_FILES: Final = (
    "Connect as a superuser, or GRANT SELECT ON pg_file_settings and "
    "EXECUTE ON FUNCTION pg_show_all_file_settings() to the role."
)


def _platform(reader: _Reader, settings: Mapping[str, Setting]) -> Platform:
    row = reader.row("clues")
    clues = Clues(
        settings=settings,
        roles=frozenset(row["roles"]),
        schemas=frozenset(row["schemas"]),
        applications=frozenset(row["applications"]),
        aurora=row["aurora"],
    )
    return platform(clues)


def _peak(reader: _Reader) -> int | None:
    """Report the peak number of sessions as missing: PostgreSQL does not record it."""
    why = "PostgreSQL does not record the highest number of connections"
    reader.lacks(
        "peak_connections", why, "Give the number from your monitoring with --connections."
    )
    return None


def _databases(reader: _Reader) -> dict[str, Bytes]:
    rows = reader.rows_if_allowed("databases", "databases", _SEE_STATS)
    hidden = [row["name"] for row in rows if row["size"] is None]
    if hidden:
        why = f"the role may not see the size of {', '.join(hidden)}"
        reader.lacks("databases", why, _SEE_STATS)
    return {row["name"]: Bytes(row["size"]) for row in rows if row["size"] is not None}


def _relations(reader: _Reader) -> tuple[Relation, ...]:
    rows = reader.rows_if_allowed("relations", "relations")
    return tuple(Relation(**{**row, "options": tuple(row["options"])}) for row in rows)


def _archiver(reader: _Reader) -> Archiver | None:
    rows = reader.rows_if_allowed("archiver", "archiver", _SEE_STATS)
    return Archiver(**rows[0]) if rows else None


def _jit(reader: _Reader, extensions: Iterable[Row]) -> JitWork | None:
    rows = _statements(reader, extensions, "statements_jit", "jit")
    return JitWork(**rows[0]) if rows else None


def _role_spills(reader: _Reader, extensions: Iterable[Row]) -> tuple[RoleSpills, ...]:
    rows = _statements(reader, extensions, "statements_spills", "role_spills")
    return tuple(RoleSpills(**row) for row in rows)


def _statements(reader: _Reader, extensions: Iterable[Row], name: str, fact: str) -> list[Row]:
    """Rows of pg_stat_statements, if the current database has it."""
    if not any(row["name"] == "pg_stat_statements" and row["installed"] for row in extensions):
        return []
    return reader.rows_if_allowed(name, fact, _SEE_STATS, first="extension_schema")


def _local_pid(reader: _Reader) -> int | None:
    row = reader.row("backend")
    return postmaster(row["pid"], row["age"])


#: Activity's counters. live_rows is a state, not a counter.
_COUNTERS: Final = (
    "wal_bytes", "checkpoints_timed", "checkpoints_requested", "temp_files", "temp_bytes",
    "dead_rows", "blocks_read", "blocks_hit", "commits", "backend_writes", "clean_stops",
    "background_writes", "backend_fsyncs", "evictions", "wal_buffers_full", "active_ms",
    "parallel_planned", "parallel_launched",
)  # fmt: skip

#: Views reset together, or with the creation of the cluster, differ by no more than this.
_SAME_SECONDS: Final = 10
_SAME_SHARE: Final = 0.01


@dataclass(frozen=True, slots=True)
class _Counts:
    """Counters with a common reset: how long ago [s], or None if never reset."""

    seconds: float | None
    counts: Mapping[str, int | None]


def _counts(row: Row) -> _Counts:
    counts = {name: value for name, value in row.items() if name != "seconds"}
    return _Counts(row["seconds"], counts)


def _views(reader: _Reader) -> list[_Counts]:
    """The statistics views, starting with the one that sets the window."""
    one_row = [
        row
        for name in ("wal", "checkpoints", "backend_writes")
        for row in reader.rows_if_allowed(name, f"activity: {name}", _SEE_STATS)
    ]
    return [_counts(row) for row in (*one_row, *reader.rows("database_counters"))]


def _activity(reader: _Reader, about: Row, settings: Mapping[str, Setting]) -> Activity:
    """Return counters since the last reset of statistics.

    Views may have been reset at different times. The window is that of WAL and checkpoints;
    others are scaled to it at their own average rate.
    """
    views = _views(reader)
    window = next((view.seconds for view in views if view.seconds), 0.0)
    totals = _total(_brought_to(view, window) for view in views)
    live = reader.row("live_rows")["live_rows"]
    _note_gaps(reader, about)
    if about["standby"]:
        totals["wal_bytes"] = None
    if settings["track_counts"].setting == "off":
        reader.lacks("activity: rows", "track_counts is off", "Turn track_counts on.")
        totals["dead_rows"] = live = None
    if settings["track_activities"].setting == "off":
        reader.lacks("activity: sessions", "track_activities is off", "Turn track_activities on.")
        totals["active_ms"] = None
    return _as_activity(window, totals, live)


def _note_gaps(reader: _Reader, about: Row) -> None:
    if about["standby"]:
        reader.lacks("activity: wal", "a standby writes no WAL of its own", "Use the primary.")
    elif reader.version_num < 140000:
        reader.lacks(
            "activity: wal", "PostgreSQL 13 does not count WAL", "Measure it with --watch."
        )


def _brought_to(view: _Counts, window: float) -> _Counts:
    """Scale the counts to another window, unless it is the same one."""
    if not view.seconds or abs(view.seconds - window) <= max(_SAME_SECONDS, _SAME_SHARE * window):
        return view
    scale = window / view.seconds
    scaled = {
        name: None if count is None else round(count * scale) for name, count in view.counts.items()
    }
    return _Counts(window, scaled)


def _total(views: Iterable[_Counts]) -> dict[str, int | None]:
    """Sums by name over all views; a counter that no view has is None."""
    totals: dict[str, int | None] = dict.fromkeys(_COUNTERS)
    for view in views:
        for name, count in view.counts.items():
            if count is not None:
                totals[name] = (totals[name] or 0) + count
    return totals


def _as_activity(window: float, totals: Mapping[str, int | None], live: int | None) -> Activity:
    wal, temp = totals["wal_bytes"], totals["temp_bytes"]
    sizes = {
        "wal_bytes": None if wal is None else Bytes(wal),
        "temp_bytes": None if temp is None else Bytes(temp),
    }
    return Activity(window=window, live_rows=live, **{**totals, **sizes})  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class _Sample:
    at: float  # server time, in seconds
    totals: Mapping[str, int | None]
    live_rows: int


def _sample(reader: _Reader) -> _Sample:
    now = reader.row("now")
    totals = {**_total(_views(reader)), "wal_bytes": now["written"]}
    return _Sample(now["at"], totals, reader.row("live_rows")["live_rows"])


def _difference(before: _Sample, after: _Sample) -> Activity:
    grown = {name: _growth(before.totals[name], after.totals[name]) for name in _COUNTERS}
    return _as_activity(after.at - before.at, grown, after.live_rows)


def _growth(before: int | None, after: int | None) -> int | None:
    if before is None or after is None or after < before:
        return None
    return after - before
