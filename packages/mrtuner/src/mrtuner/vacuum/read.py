"""Reading what vacuum advice needs: counters of every table, without locking any of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Final

from mrtuner.facts import Missing
from mrtuner.postgres.connect import any_bytes, ended_session, translated
from mrtuner.postgres.missing_grants import SEE_STATS, not_read, refused
from mrtuner.postgres.model import Override
from mrtuner.postgres.named_queries import Row, rows_of
from mrtuner.postgres.read_server import read_platform
from mrtuner.vacuum.commands import reset
from mrtuner.vacuum.horizon_blockers import ANY, USUAL, Look, Thresholds, blockers, pace
from mrtuner.vacuum.model import Moment, Picture, Sample, Table, ToastTable
from mrtuner.vacuum.wraparound import oldest, unfrozen
from mrtuner.wording import enumerated

if TYPE_CHECKING:
    from mrtuner.postgres.connect import Connection
    from mrtuner.postgres.model import Platform

#: For a server with 8 kB blocks. Source: TOAST_MAX_CHUNK_SIZE, access/heaptoast.h.
USUAL_CHUNK: Final = 1996
CHUNK_SIZE: Final = "TOAST chunk size"
REST: Final = "the rest of the watch"
COSTS: Final = "cost of a vacuum"
#: Facts whose absence changes no verdict: what was seen counts.
DETAILS: Final = frozenset({CHUNK_SIZE, REST})
#: A watch is divided into this many intervals, so that a reset of statistics spoils only one.
INTERVALS: Final = 20
SHORTEST: Final = 5.0  # [s]


class Enough(Exception):
    """Raised by a watch's `sleep` to end it early; what was seen until then counts."""


def read(
    conn: Connection,
    watch: float | None = None,
    *,
    sleep: Callable[[float], None] = time.sleep,
    thresholds: Thresholds = USUAL,
    patience: str = "60s",
    platform: Platform | None = None,
) -> Picture:
    """Read the database of `conn`, an autocommit session; several times with `watch` [s].

    A query that takes longer than `patience` is cancelled, which raises ConnectError. `platform`
    is who runs the server, if that is known; else it is read.

    Only reads; locks no user table and waits for no lock on one. A server that is shut down or
    restarted during the watch ends it early: what was seen until then counts. Raises ConnectError
    if the session breaks before.
    """
    import psycopg

    lost: str | None = None
    with translated(), any_bytes(conn):
        reader = _Reader(conn, patience)
        platform = platform or read_platform(conn)
        samples = [_sample(reader)]
        around = _around(reader)
        if watch is None and thresholds is USUAL and _any_serious(reader.looks):
            sleep(1.0)  # a pace that would make it harmless does not show in less
        end = _moment(reader) if watch is None else samples[0].moment
        try:
            if watch is not None:
                for sample in _further(reader, watch, sleep):
                    samples.append(sample)  # keep what was seen if the next sample fails
                    end = sample.moment
                around = _around(reader)
        except psycopg.OperationalError as error:
            if not conn.closed:
                raise
            lost = refused(error)
        begin = samples[0].moment
        thresholds = thresholds.at(pace(end.next_xid - begin.next_xid, end.at - begin.at))
        return _picture(reader, tuple(samples), around, lost, thresholds, platform)


def _any_serious(looks: Sequence[Look]) -> bool:
    return any(one.serious for one in blockers(looks, 0.0, USUAL))


class _Reader:
    def __init__(self, conn: Connection, patience: str) -> None:
        self.conn = conn
        self.version_num = conn.info.server_version
        self.database = conn.pgconn.db.decode(errors="replace")
        self.role = conn.pgconn.user.decode(errors="replace")
        self.missing: dict[str, Missing] = {}  # by name: a watch queries many times
        self.looks: list[Look] = []
        # A huge catalog, or someone's lock on it, must not block us for long.
        conn.execute("SELECT set_config('statement_timeout', %s, false)", [patience])
        conn.execute("SET lock_timeout = '2s'")
        conn.execute("SET default_transaction_read_only = on")

    def rows(self, name: str) -> list[Row]:
        return rows_of(self.conn, name, self.version_num)

    def rows_if_allowed(self, name: str, fact: str) -> list[Row]:
        import psycopg

        try:
            return self.rows(name)
        except psycopg.DatabaseError as error:
            # A watch then tells what it has seen so far; a query that takes too long ends it.
            if ended_session(error) or isinstance(error, psycopg.errors.QueryCanceled):
                raise
            self.missing[fact] = not_read(fact, error, SEE_STATS)
            return []

    def look(self) -> Look:
        """Return everything that may hold back the horizon now."""
        return Look(
            sessions=self.rows_if_allowed("vacuum_sessions", "sessions"),
            slots=self.rows_if_allowed("vacuum_slots", "replication slots"),
            prepared=self.rows_if_allowed("vacuum_prepared", "prepared transactions"),
            feedback=self.rows_if_allowed("vacuum_feedback", "standby feedback"),
        )


def _further(reader: _Reader, watch: float, sleep: Callable[[float], None]) -> Iterator[Sample]:
    """Yield the samples after the first, until the watch is over or `sleep` raises Enough."""
    count = max(1, min(INTERVALS, int(watch / SHORTEST)))
    for _ in range(count):
        try:
            sleep(watch / count)
        except Enough:
            yield _sample(reader)
            return
        yield _sample(reader)


def _sample(reader: _Reader) -> Sample:
    moment = _moment(reader)
    tables = tuple(_table(row) for row in reader.rows("vacuum_tables"))
    reader.looks.append(reader.look())
    return Sample(moment=moment, tables=tables)


def _moment(reader: _Reader) -> Moment:
    (row,) = reader.rows("vacuum_moment")
    return Moment(**row)


_OWN: Final = frozenset(field.name for field in fields(Table)) - {"rows", "options", "toast"}
_OF_TOAST: Final = frozenset(field.name for field in fields(ToastTable)) - {"options"}


def _table(row: Row) -> Table:
    kept = {name: row[name] for name in _OWN}
    counted, estimated = row["live"], round(row["rows_estimated"])
    kept["live"] = counted or estimated  # 0 after a reset of statistics
    kept["rows"] = estimated or counted
    return Table(**kept, options=_options(row["options"]), toast=_toast(row))


def _toast(row: Row) -> ToastTable | None:
    if row["toast_name"] is None:
        return None
    kept = {name: row[f"toast_{name}"] for name in _OF_TOAST}
    return ToastTable(**kept, options=_options(row["toast_options"]))


def _options(given: list[str]) -> dict[str, str]:
    """Parse reloptions into a mapping: ``{fillfactor=90}``."""
    return {name: value for name, _, value in (text.partition("=") for text in given)}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Around:
    """What is read once: before a watch, in case the server goes down, and again after it."""

    settings: Mapping[str, str]
    of_session: tuple[str, ...]  # costs that are set for our session, not for autovacuum's
    uncounted: Override | None  # what switches track_counts off here, over the server's value
    sight: Row
    databases: tuple[tuple[str, int, int], ...]
    relations: Sequence[Row]  # the oldest, and those that no autovacuum may freeze
    chunk: int


def _around(reader: _Reader) -> _Around:
    (sight,) = reader.rows("vacuum_sight")
    rows = reader.rows("vacuum_settings")
    settings = {row["name"]: row["setting"] for row in rows}
    uncounted, of_session = _uncounted(reader, rows), _of_session(rows, settings)
    others = {*of_session, uncounted.name if uncounted else ""}
    return _Around(
        settings={name: value for name, value in settings.items() if name not in others},
        of_session=of_session,
        uncounted=uncounted,
        sight=sight,
        databases=tuple(
            (row["name"], row["age"], row["multixact_age"])
            for row in reader.rows("vacuum_databases")
        ),
        relations=reader.rows("vacuum_oldest"),
        chunk=_chunk(reader),
    )


#: For whom ALTER ROLE or ALTER DATABASE sets a value: the role, the database.
#: Source: guc_tables.c, GucSource_Names.
_OVERRIDES: Final = {
    "global": (False, False), "database": (False, True), "user": (True, False),
    "database user": (True, True),
}  # fmt: skip


#: Sources of values that autovacuum's workers do not have: they run as the bootstrap superuser.
_OURS: Final = frozenset({"user", "database user", "client", "session"})


def _of_session(rows: Sequence[Row], settings: Mapping[str, str]) -> tuple[str, ...]:
    """Return the costs in force here alone, unless autovacuum has a value of its own."""
    return tuple(
        row["name"] for row in rows
        if row["name"].startswith("vacuum_cost_") and row["source"] in _OURS
        and settings.get(f"autovacuum_{row['name']}", "-1") == "-1"
    )  # fmt: skip


def _uncounted(reader: _Reader, rows: Sequence[Row]) -> Override | None:
    row = next(row for row in rows if row["name"] == "track_counts")
    if row["setting"] != "off" or row["source"] not in _OVERRIDES:
        return None
    of_role, of_database = _OVERRIDES[row["source"]]
    return Override(
        role=reader.role if of_role else None,
        database=reader.database if of_database else None,
        name=row["name"], value=row["setting"],
    )  # fmt: skip


def _picture(
    reader: _Reader,
    samples: tuple[Sample, ...],
    around: _Around,
    lost: str | None,
    thresholds: Thresholds,
    platform: Platform,
) -> Picture:
    seconds = samples[-1].moment.at - samples[0].moment.at
    return Picture(
        version_num=reader.version_num,
        database=reader.database,
        samples=samples,
        settings=around.settings,
        databases=around.databases,
        blockers=(
            *unfrozen(around.relations, around.settings),
            *blockers(reader.looks, seconds, thresholds),
        ),
        oldest=oldest(around.relations),
        chunk=around.chunk,
        missing=(
            *reader.missing.values(),
            *_missing(around, lost, platform),
        ),
        platform=platform,
        lost=lost,
        young=blockers(reader.looks, seconds, ANY),
    )


def _missing(around: _Around, lost: str | None, platform: Platform) -> Iterator[Missing]:
    """Report what cannot be known here, so that it is not taken for zero."""
    settings, sight, own = around.settings, around.sight, around.uncounted
    if lost is not None:
        why = f"the connection to the server was lost: {lost}"
        hint = "The server may have restarted; run again."
        yield Missing(REST, why, hint=hint)
    if settings.get("track_counts") == "off":
        why = "track_counts is off, so autovacuum runs only to prevent wraparound"
        yield Missing("rates", why, hint=str(platform.remedy(track_counts="on")))
    elif own is not None:
        whose, what = ("this role", "it changes") if own.role else ("this database", "changes")
        if not (own.role or own.database):
            whose = "all roles"
        why = f"track_counts is off for {whose}, so autovacuum does not see what {what}"
        yield Missing("rates", why, hint=str(reset(own)))
    if around.of_session:
        why = (
            f"{enumerated(around.of_session)}: set for this session only, so the server's values, "
            "which autovacuum uses, are not known"
        )
        yield Missing(COSTS, why, hint="Connect as a role without them.")
    if sight["in_recovery"]:
        why = "this is a standby; only the primary counts and vacuums rows"
        yield Missing("rates", why, hint="Connect to the primary.")
    if not sight["sees_all"]:
        why = "the role may not see other roles' snapshots, on this server or its standbys"
        yield Missing("what holds back dead rows", why, hint=SEE_STATS)


def _chunk(reader: _Reader) -> int:
    rows = reader.rows_if_allowed("vacuum_chunk", CHUNK_SIZE)
    return int(rows[0]["chunk"]) if rows else USUAL_CHUNK
