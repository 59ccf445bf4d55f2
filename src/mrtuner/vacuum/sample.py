"""Rows before and after a watch, on their owner's consent: were large values written unchanged?

Of every sampled row its version (xmin) is remembered, and of each large value its size, an MD5 of
its text and, from 17, the chunk id under which it is stored (pg_column_toast_chunk_id). A row with
another version was updated; a value with the same MD5 did not change; with another chunk id it was
written again all the same. Before 17 there are no chunk ids: then the statistics of the table stand
in, since a value that was not written again leaves no dead chunk.

Values never leave the server, but reading them costs I/O, and takes the lock of a SELECT.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from mrtuner.errors import ConnectError, UsageError
from mrtuner.postgres.connect import translated
from mrtuner.vacuum.model import Amplification

if TYPE_CHECKING:
    from psycopg import sql

    from mrtuner.postgres.connect import Connection

#: Stored size from which a value is certainly not in its row. Source: TOAST_TUPLE_THRESHOLD.
LARGE: Final = 2_032
#: Of a table, rows that are compared at most.
ROWS: Final = 10_000
#: Updated rows with a large value, below which nothing is proven.
FEW: Final = 30
#: Share of them that makes it the rule and not the exception.
MOST: Final = 0.5
_CHUNK_IDS: Final = 170_000


class Verdict(StrEnum):
    """What updates do to a column's large values."""

    REWRITTEN = "written again unchanged"
    CHANGED = "changed"
    COPIED = "left alone"
    UNDECIDED = "too few updated rows seen"


@dataclass(frozen=True, slots=True)
class Value:
    """One large value as stored [bytes]; `chunk` is None before 17 and where it is not TOASTed."""

    size: int
    digest: str
    chunk: int | None


@dataclass(frozen=True, slots=True)
class Row:
    """A sampled row's version and its values by column."""

    version: str
    values: Mapping[str, Value]


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnProof:
    """One column: of `updated` rows with a large value, in how many it stayed the same."""

    column: str
    updated: int
    same: int
    rewritten: int | None  # the same, but under another chunk id; None before 17
    verdict: Verdict


#: A large value before and after.
_Pair = tuple[Value, Value | None]


def compare(
    before: Mapping[str, Row], after: Mapping[str, Row], written_again: float | None
) -> tuple[ColumnProof, ...]:
    """What became of the large values of rows that were updated in between, by column.

    A column without a large value in these rows has nothing to prove. `written_again` is the share
    of the table's updates that write large values, from its statistics
    (`Amplification.rewritten`): it is used where there are no chunk ids.
    """
    updated = [
        (row, after[key])
        for key, row in before.items()
        if key in after and after[key].version != row.version
    ]
    pairs: dict[str, list[_Pair]] = {}
    for was, now in updated:
        for column, value in was.values.items():
            if value.size >= LARGE:
                pairs.setdefault(column, []).append((value, now.values.get(column)))
    if written_again is not None:
        written_again -= _changed(pairs)  # changed values have to be written
    return tuple(_column(column, pairs[column], written_again) for column in sorted(pairs))


def _changed(pairs: Mapping[str, Sequence[_Pair]]) -> float:
    """Share of the large values that changed, by size: of all columns, as statistics count them."""
    each = [pair for of_column in pairs.values() for pair in of_column]
    whole = sum(was.size for was, _ in each)
    return sum(was.size for was, now in each if not _same(was, now)) / whole if whole else 0.0


def _same(was: Value, now: Value | None) -> bool:
    return now is not None and now.digest == was.digest


def _column(column: str, pairs: Sequence[_Pair], needless: float | None) -> ColumnProof:
    same = [(was, now) for was, now in pairs if now is not None and _same(was, now)]
    known = all(was.chunk is not None for was, _ in pairs)
    rewritten = sum(1 for was, now in same if now.chunk != was.chunk) if known else None
    return ColumnProof(
        column=column,
        updated=len(pairs),
        same=len(same),
        rewritten=rewritten,
        verdict=_verdict(len(pairs), len(same), rewritten, needless),
    )


def _verdict(updated: int, same: int, rewritten: int | None, needless: float | None) -> Verdict:
    """By chunk ids; else by `needless`, the share of large values written without a change."""
    if updated < FEW:
        return Verdict.UNDECIDED
    if rewritten is not None:
        needless = rewritten / updated
    elif needless is None:
        return Verdict.UNDECIDED
    if min(needless, same / updated) >= MOST:
        return Verdict.REWRITTEN
    return Verdict.CHANGED if 1 - same / updated >= MOST else Verdict.COPIED


@dataclass(frozen=True, slots=True, kw_only=True)
class TableProof:
    """What comparing the rows of one table gave; `why` there is nothing, where there is not."""

    oid: int
    table: str
    rows: int  # compared, with a large value
    columns: tuple[ColumnProof, ...]
    why: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shape:
    oid: int
    relation: str  # as the server writes it, quoted where needed
    estimated: float
    key: str
    key_type: str
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """Rows of a table as they were before the watch."""

    shape: _Shape
    rows: Mapping[str, Row]


def take(conn: Connection, table: str, rows: int = ROWS) -> Taken:
    """Read some `rows` of a table with a large value. Call it on the owner's consent only.

    `table` is written as in SQL. UsageError for one that is not there, or without a primary key
    of a single column (the rows could not be found again quickly).
    """
    with translated():
        conn.execute("SET default_transaction_read_only = on")
        conn.execute("SET statement_timeout = '60s'")
        conn.execute("SET lock_timeout = '2s'")
        shape = _shape(conn, table)
        return Taken(shape=shape, rows=_first(conn, shape, rows))


def prove(conn: Connection, taken: Taken, written_again: Mapping[int, float]) -> TableProof:
    """Read the same rows again and compare; a table that cannot be read any more proves nothing.

    `written_again` is, by the table's oid, the share of updates that write large values.
    """
    shape = taken.shape
    columns: tuple[ColumnProof, ...] = ()
    why = None if taken.rows else f"no row has a value of {LARGE:,} bytes or more"
    try:
        with translated():
            again = _again(conn, shape, list(taken.rows))
        columns = compare(taken.rows, again, written_again.get(shape.oid))
    except ConnectError as error:
        why = error.message
    return TableProof(
        oid=shape.oid, table=shape.relation, rows=len(taken.rows), columns=columns, why=why
    )


def unproven(taken: Taken, why: str) -> TableProof:
    """Of a table whose rows could not be read again."""
    return TableProof(
        oid=taken.shape.oid, table=taken.shape.relation, rows=len(taken.rows), columns=(), why=why
    )


def settled(said: Amplification, proof: TableProof) -> Amplification:
    """What statistics suspect of a table after its rows were compared: proven, cleared or open.

    A column of which too few rows were seen leaves it open only if it is large in so many of them
    that it could be the one.
    """
    verdicts = {one.verdict for one in proof.columns}
    waste = [one.column for one in proof.columns if one.verdict is Verdict.REWRITTEN]
    if waste:
        return replace(said, certainty=f"proven by its rows: {', '.join(waste)} had not changed")
    most = max((one.updated for one in proof.columns), default=0)
    if not verdicts or any(
        one.verdict is Verdict.UNDECIDED and one.updated >= MOST * most for one in proof.columns
    ):
        return replace(said, certainty=_open(proof))
    cleared = _CLEARED if Verdict.CHANGED in verdicts else _ALONE
    return replace(said, suspicion=None, certainty=cleared)


_CLEARED: Final = "its rows show that what was written again had changed"
_ALONE: Final = "its rows show that large values were left alone"


def _open(proof: TableProof) -> str:
    if proof.why is not None:
        return f"its rows were compared, and prove nothing: {proof.why}"
    return f"its rows were compared, but fewer than {FEW} of them were updated: watch longer"


_RELATION: Final = (
    "SELECT c.oid, c.oid::regclass::text, greatest(c.reltuples, 1)::float8 "
    "FROM pg_catalog.pg_class AS c WHERE c.oid = to_regclass(%s::text)"
)
_KEY: Final = (
    "SELECT a.attname, format_type(a.atttypid, a.atttypmod) "
    "FROM pg_catalog.pg_index AS i "
    "JOIN pg_catalog.pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey) "
    "WHERE i.indrelid = %s AND i.indisprimary"
)
_COLUMNS: Final = (
    "SELECT attname FROM pg_catalog.pg_attribute "
    "WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped AND attlen = -1 "
    "AND attstorage <> 'p' ORDER BY attnum"
)


def _shape(conn: Connection, table: str) -> _Shape:
    found = conn.execute(_RELATION, (table,)).fetchone()
    if found is None:
        raise UsageError(f"there is no table {table}", "Write it as in SQL, with its schema.")
    oid, relation, estimated = found
    key = conn.execute(_KEY, (oid,)).fetchall()
    if len(key) != 1:
        raise UsageError(
            f"{relation} has no primary key of a single column",
            "Its rows cannot be found again; compare UPDATE statements instead.",
        )
    ((name, type_name),) = key
    columns = tuple(row[0] for row in conn.execute(_COLUMNS, (oid,)).fetchall() if row[0] != name)
    return _Shape(
        oid=oid,
        relation=relation,
        estimated=estimated,
        key=name,
        key_type=type_name,
        columns=columns,
    )


def _first(conn: Connection, shape: _Shape, rows: int) -> dict[str, Row]:
    """Rows with a large value, from pages taken at random."""
    from psycopg import sql

    if not shape.columns:
        return {}
    share = min(100.0, 100.0 * rows / shape.estimated)
    large = sql.SQL(" OR ").join(
        sql.SQL("pg_column_size({}) >= {}").format(sql.Identifier(column), sql.Literal(LARGE))
        for column in shape.columns
    )
    source = sql.SQL("{} TABLESAMPLE SYSTEM ({}) WHERE {} LIMIT {}").format(
        _relation(shape), sql.Literal(share), large, sql.Literal(rows)
    )
    return _rows(conn, shape, source, ())


def _again(conn: Connection, shape: _Shape, keys: Sequence[str]) -> dict[str, Row]:
    """The same rows, found by their keys."""
    from psycopg import sql

    if not keys:
        return {}
    # The type's name is the server's own, written for use in SQL.
    array = sql.SQL(f"%s::text[]::{shape.key_type}[]")
    source = sql.SQL("{} WHERE {} = ANY ({})").format(
        _relation(shape), sql.Identifier(shape.key), array
    )
    return _rows(conn, shape, source, (list(keys),))


def _relation(shape: _Shape) -> sql.SQL:
    """The table as the server writes its name, quoted where it has to be."""
    from psycopg import sql

    return sql.SQL(shape.relation.replace("%", "%%"))


def _rows(
    conn: Connection, shape: _Shape, source: sql.Composable, parameters: tuple[Any, ...]
) -> dict[str, Row]:
    from psycopg import sql

    chunk = "pg_column_toast_chunk_id({0})::int8"
    if conn.info.server_version < _CHUNK_IDS:
        chunk = "NULL::int8"
    each = sql.SQL(f"pg_column_size({{0}}), md5({{0}}::text), {chunk}")
    wanted = [each.format(sql.Identifier(column)) for column in shape.columns]
    query = sql.SQL("SELECT {}::text, xmin::text, {} FROM {}").format(
        sql.Identifier(shape.key), sql.SQL(", ").join(wanted), source
    )
    found = conn.execute(query, parameters).fetchall()
    return {row[0]: _row(row, shape.columns) for row in found}


def _row(row: Sequence[Any], columns: Sequence[str]) -> Row:
    """Three fields a column after the key and the version; a NULL is no value."""
    values = {
        column: Value(*row[start : start + 3])
        for column, start in zip(columns, range(2, len(row), 3), strict=True)
        if row[start] is not None
    }
    return Row(row[1], values)
