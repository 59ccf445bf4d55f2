"""Reading what vacuum is about: counters of every table, without a lock on any of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final

from mrtuner.facts import Missing
from mrtuner.postgres.connect import translated
from mrtuner.postgres.sql import query
from mrtuner.vacuum.blockers import feedback, prepared, sessions, slots
from mrtuner.vacuum.model import Blocker, Moment, Picture, Sample, Table, Toast

if TYPE_CHECKING:
    from mrtuner.postgres.connect import Connection

    Row = dict[str, Any]

#: Of a server with 8 kB blocks. Source: TOAST_MAX_CHUNK_SIZE, access/heaptoast.h.
USUAL_CHUNK: Final = 1996
#: A watch is cut into so many intervals, so that a reset of statistics spoils only one.
INTERVALS: Final = 20
SHORTEST: Final = 5.0  # [s]
_SEE_STATS: Final = "Connect as a superuser, or GRANT pg_monitor to the role."


class Enough(Exception):
    """Raised by the `sleep` of a watch to end it early; what was seen until then counts."""


def read(
    conn: Connection,
    watch: float | None = None,
    *,
    sleep: Callable[[float], None] = time.sleep,
) -> Picture:
    """Read the database of `conn`, an autocommit session; with `watch` [s], several times.

    Reads only; takes no lock on a user's table and waits for none. Raises ConnectError when the
    session breaks.
    """
    with translated():
        reader = _Reader(conn)
        samples = list(_samples(reader, watch, sleep))
        return _picture(reader, tuple(samples))


class _Reader:
    def __init__(self, conn: Connection) -> None:
        self.conn = conn
        self.version_num = conn.info.server_version
        self.missing: list[Missing] = []
        # A giant catalog, or somebody's lock on it, must not hold us for long.
        conn.execute("SET statement_timeout = '60s'")
        conn.execute("SET lock_timeout = '2s'")
        conn.execute("SET default_transaction_read_only = on")

    def rows(self, name: str) -> list[Row]:
        from psycopg.rows import dict_row

        with self.conn.cursor(row_factory=dict_row) as cursor:
            return cursor.execute(query(name, self.version_num)).fetchall()

    def rows_if_allowed(self, name: str, fact: str) -> list[Row]:
        from psycopg import errors

        try:
            return self.rows(name)
        except (errors.InsufficientPrivilege, errors.UndefinedFunction) as error:
            self.missing.append(Missing(fact, str(error).partition("\n")[0], _SEE_STATS))
            return []


def _samples(
    reader: _Reader, watch: float | None, sleep: Callable[[float], None]
) -> Iterator[Sample]:
    yield _sample(reader)
    count = 0 if watch is None else max(1, min(INTERVALS, int(watch / SHORTEST)))
    for _ in range(count):
        try:
            sleep((watch or 0.0) / count)
        except Enough:
            yield _sample(reader)
            return
        yield _sample(reader)


def _sample(reader: _Reader) -> Sample:
    (moment,) = reader.rows("vacuum_moment")
    tables = tuple(_table(row) for row in reader.rows("vacuum_tables"))
    return Sample(moment=Moment(**moment), tables=tables)


_OWN: Final = frozenset(field.name for field in fields(Table)) - {"rows", "options", "toast"}


def _table(row: Row) -> Table:
    kept = {name: row[name] for name in _OWN}
    counted, estimated = row["live"], round(row["rows_estimated"])
    kept["live"] = counted or estimated  # 0 after a reset of statistics
    kept["rows"] = estimated or counted
    return Table(**kept, options=_options(row["options"]), toast=_toast(row))


def _toast(row: Row) -> Toast | None:
    if row["toast_name"] is None:
        return None
    names = {field.name for field in fields(Toast)} - {"options"}
    kept = {name: row[f"toast_{name}"] for name in names}
    return Toast(**kept, options=_options(row["toast_options"]))


def _options(given: list[str]) -> dict[str, str]:
    """reloptions as a mapping: ``{fillfactor=90}``."""
    return {name: value for name, _, value in (text.partition("=") for text in given)}


def _picture(reader: _Reader, samples: tuple[Sample, ...]) -> Picture:
    settings = {row["name"]: row["setting"] for row in reader.rows("vacuum_settings")}
    (sight,) = reader.rows("vacuum_sight")
    reader.missing += _unseen(sight, settings)
    databases = tuple(
        (row["name"], row["age"], row["multixact_age"]) for row in reader.rows("vacuum_databases")
    )
    return Picture(
        version_num=reader.version_num,
        database=reader.conn.info.dbname,
        samples=samples,
        settings=settings,
        databases=databases,
        blockers=_blockers(reader),
        chunk=_chunk(reader),
        missing=tuple(reader.missing),
    )


def _unseen(sight: Row, settings: Mapping[str, str]) -> Iterator[Missing]:
    """What cannot be known here, so that it is not taken for nothing."""
    if settings.get("track_counts") == "off":
        why = "track_counts is off, so autovacuum does not run but against wraparound"
        yield Missing("rates", why, "Turn track_counts on.")
    if sight["in_recovery"]:
        why = "this is a standby: rows are counted, and vacuumed, where they are written"
        yield Missing("rates", why, "Connect to the primary.")
    if not sight["sees_all"]:
        why = "the role may not see other roles' snapshots, on this server or its standbys"
        yield Missing("what holds back dead rows", why, _SEE_STATS)


def _blockers(reader: _Reader) -> tuple[Blocker, ...]:
    database = reader.conn.info.dbname
    found = [
        *sessions(reader.rows_if_allowed("vacuum_sessions", "sessions"), database),
        *slots(reader.rows_if_allowed("vacuum_slots", "replication slots")),
        *prepared(reader.rows_if_allowed("vacuum_prepared", "prepared transactions")),
        *feedback(reader.rows_if_allowed("vacuum_feedback", "standby feedback")),
    ]
    return tuple(sorted(found, key=lambda one: (not one.serious, -(one.age or 0))))


def _chunk(reader: _Reader) -> int:
    rows = reader.rows_if_allowed("vacuum_chunk", "TOAST chunk size")
    return int(rows[0]["chunk"]) if rows else USUAL_CHUNK
