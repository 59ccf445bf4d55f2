"""Rows before and after a watch, with their owner's consent: were large values rewritten unchanged?

For every sampled row we remember its version (xmin), and for each large value its size, an MD5 of
its text and, from 17 on, the chunk id under which it is stored (pg_column_toast_chunk_id). A row
with another version was updated; a value with the same MD5 did not change; if its chunk id differs,
it was rewritten all the same. Before 17 there are no chunk ids: the table's statistics are used
instead, since a value that was not rewritten leaves no dead chunk.

Values never leave the server, but reading them costs I/O, and takes the lock of a SELECT.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final

from mrtuner.described import Doc
from mrtuner.errors import ConnectError, UsageError
from mrtuner.postgres.connect import translated, use_role_search_path
from mrtuner.vacuum.model import ToastAmplification

if TYPE_CHECKING:
    from psycopg import sql

    from mrtuner.postgres.connect import Connection

#: From this stored size on, a value is certainly not in its row. Source: TOAST_TUPLE_THRESHOLD.
LARGE: Final = 2_032
#: The most rows compared per table.
ROWS: Final = 10_000
#: With fewer updated rows with a large value, nothing is proved.
FEW: Final = 30
#: From this share of them on, it is the rule and not the exception.
MOST: Final = 0.5
_CHUNK_IDS: Final = 170_000


class ColumnVerdict(StrEnum):
    """What updates do to a column's large values."""

    REWRITTEN = "written again unchanged"
    CHANGED = "changed"
    COPIED = "left alone"
    UNDECIDED = "too few updated rows seen"


@dataclass(frozen=True, slots=True)
class Value:
    """One large value as stored [bytes]; `chunk` is None before 17 and if it is not TOASTed."""

    size: int
    digest: str
    chunk: int | None


@dataclass(frozen=True, slots=True)
class Row:
    """A sampled row's version and its values by column."""

    version: str
    values: Mapping[str, Value]


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnComparison:
    """One column with large values."""

    column: Annotated[str, Doc("its name")]
    updated: Annotated[int, Doc("updated rows with a large value")]
    same: Annotated[int, Doc("of these, with the same value afterwards")]
    rewritten: Annotated[
        int | None, Doc("of those with the same value, under another chunk id; null before 17")
    ]
    verdict: Annotated[ColumnVerdict, Doc("what updates do to its large values")]


#: A large value before and after.
_Pair = tuple[Value, Value | None]


def compare(
    before: Mapping[str, Row], after: Mapping[str, Row], written_again: float | None
) -> tuple[ColumnComparison, ...]:
    """Return what happened to the large values of rows updated in between, by column.

    A column without a large value in these rows is left out. `written_again` is the share of the
    table's updates that write large values, from its statistics (`Amplification.rewritten`); it is
    used if there are no chunk ids.
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
    """Share of the large values that changed, by size, over all columns, as in the statistics."""
    each = [pair for of_column in pairs.values() for pair in of_column]
    whole = sum(was.size for was, _ in each)
    return sum(was.size for was, now in each if not _same(was, now)) / whole if whole else 0.0


def _same(was: Value, now: Value | None) -> bool:
    return now is not None and now.digest == was.digest


def _column(column: str, pairs: Sequence[_Pair], needless: float | None) -> ColumnComparison:
    same = [(was, now) for was, now in pairs if now is not None and _same(was, now)]
    known = all(was.chunk is not None for was, _ in pairs)
    rewritten = sum(1 for was, now in same if now.chunk != was.chunk) if known else None
    return ColumnComparison(
        column=column,
        updated=len(pairs),
        same=len(same),
        rewritten=rewritten,
        verdict=_verdict(len(pairs), len(same), rewritten, needless),
    )


def _verdict(
    updated: int, same: int, rewritten: int | None, needless: float | None
) -> ColumnVerdict:
    """Decide by chunk ids, else by `needless`, the share of large values rewritten unchanged."""
    if updated < FEW:
        return ColumnVerdict.UNDECIDED
    if rewritten is not None:
        needless = rewritten / updated
    elif needless is None:
        return ColumnVerdict.UNDECIDED
    if min(needless, same / updated) >= MOST:
        return ColumnVerdict.REWRITTEN
    return ColumnVerdict.CHANGED if 1 - same / updated >= MOST else ColumnVerdict.COPIED


@dataclass(frozen=True, slots=True, kw_only=True)
class TableComparison:
    """The rows of a table, compared before and after a watch."""

    oid: Annotated[int, Doc("of the table")]
    table: Annotated[str, Doc("its name, quoted as in SQL")]
    rows: Annotated[int, Doc("rows compared")]
    columns: Annotated[tuple[ColumnComparison, ...], Doc("columns with large values")]
    why: Annotated[str | None, Doc("why nothing is proven, or null")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shape:
    oid: int
    relation: str  # as the server writes it, quoted if needed
    estimated: float
    key: str
    key_type: str
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsBefore:
    """A table's rows as they were before the watch."""

    shape: _Shape
    rows: Mapping[str, Row]


def take(conn: Connection, table: str, rows: int = ROWS) -> RowsBefore:
    """Read `rows` rows of a table that have a large value. Only with the owner's consent.

    `table` is written as in SQL. UsageError if it does not exist or has no single-column primary
    key (the rows could not be found again quickly).
    """
    with translated():
        conn.execute("SET default_transaction_read_only = on")
        conn.execute("SET statement_timeout = '60s'")
        conn.execute("SET lock_timeout = '2s'")
        shape = _shape(conn, table)
        return RowsBefore(shape=shape, rows=_first(conn, shape, rows))


def prove(
    conn: Connection, taken: RowsBefore, written_again: Mapping[int, float]
) -> TableComparison:
    """Read the same rows again and compare; a table that can no longer be read proves nothing.

    `written_again` is, by the table's oid, the share of updates that write large values.
    """
    shape = taken.shape
    columns: tuple[ColumnComparison, ...] = ()
    why = None if taken.rows else f"no row has a value of {LARGE:,} bytes or more"
    try:
        with translated():
            again = _again(conn, shape, list(taken.rows))
        columns = compare(taken.rows, again, written_again.get(shape.oid))
    except ConnectError as error:
        why = error.message
    return TableComparison(
        oid=shape.oid, table=shape.relation, rows=len(taken.rows), columns=columns, why=why
    )


def unproven(taken: RowsBefore, why: str) -> TableComparison:
    """The result for a table whose rows could not be read again."""
    return TableComparison(
        oid=taken.shape.oid, table=taken.shape.relation, rows=len(taken.rows), columns=(), why=why
    )


def settled(said: ToastAmplification, proof: TableComparison) -> ToastAmplification:
    """Update the suspicion from statistics after comparing rows: proved, cleared or open.

    A column with too few rows leaves it open only if it is large in enough of them to be the
    cause.
    """
    verdicts = {one.verdict for one in proof.columns}
    waste = [one.column for one in proof.columns if one.verdict is ColumnVerdict.REWRITTEN]
    if waste:
        return replace(
            said, certainty=f"proven by comparing rows: {', '.join(waste)} had not changed"
        )
    most = max((one.updated for one in proof.columns), default=0)
    if not verdicts or any(
        one.verdict is ColumnVerdict.UNDECIDED and one.updated >= MOST * most
        for one in proof.columns
    ):
        return replace(said, certainty=_open(proof))
    cleared = _CLEARED if ColumnVerdict.CHANGED in verdicts else _ALONE
    return replace(said, suspicion=None, certainty=cleared)


_CLEARED: Final = "comparing rows shows that the values written again had changed"
_ALONE: Final = "comparing rows shows that large values were not written again"


def _open(proof: TableComparison) -> str:
    if proof.why is not None:
        return f"its rows were compared without proof: {proof.why}"
    return f"its rows were compared, but fewer than {FEW} of them were updated: watch longer"


_RELATION: Final = (
    "SELECT c.oid, c.oid::regclass::text, greatest(c.reltuples, 1)::float8 "
    "FROM pg_catalog.pg_class AS c WHERE c.oid = %s"
)
_KEY: Final = (
    "SELECT a.attname, format_type(a.atttypid, a.atttypmod) "
    "FROM pg_catalog.pg_index AS i "
    "JOIN pg_catalog.pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0] "
    "WHERE i.indrelid = %s AND i.indisprimary AND i.indnkeyatts = 1"  # without INCLUDE
)
_COLUMNS: Final = (
    "SELECT attname FROM pg_catalog.pg_attribute "
    "WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped AND attlen = -1 "
    "AND attstorage <> 'p' ORDER BY attnum"
)


def _shape(conn: Connection, table: str) -> _Shape:
    with conn.transaction():
        use_role_search_path(conn)  # the table is named as the user does
        oid = conn.execute("SELECT pg_catalog.to_regclass(%s)::pg_catalog.oid", (table,)).fetchone()
    found = conn.execute(_RELATION, oid).fetchone()
    if found is None:
        raise UsageError(f"table {table} does not exist", "Write it as in SQL, with its schema.")
    oid, relation, estimated = found
    key = conn.execute(_KEY, (oid,)).fetchall()
    if len(key) != 1:
        raise UsageError(
            f"{relation} has no single-column primary key",
            "Its rows cannot be found again; check the UPDATE statements instead.",
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
    """Rows with a large value, from randomly chosen pages."""
    from psycopg import sql

    if not shape.columns:
        return {}
    share = min(100.0, 100.0 * rows / shape.estimated)
    large = sql.SQL(" OR ").join(
        sql.SQL("pg_catalog.pg_column_size({}) OPERATOR(pg_catalog.>=) {}").format(
            sql.Identifier(column), sql.Literal(LARGE)
        )
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
    # The server itself wrote the type's name, for use in SQL.
    array = sql.SQL(f"%s::text[]::{shape.key_type}[]")
    source = sql.SQL("{} WHERE {} = ANY ({})").format(
        _relation(shape), sql.Identifier(shape.key), array
    )
    return _rows(conn, shape, source, (list(keys),))


def _relation(shape: _Shape) -> sql.SQL:
    """The table's name as the server writes it, quoted where necessary."""
    from psycopg import sql

    return sql.SQL(shape.relation.replace("%", "%%"))


def _rows(
    conn: Connection, shape: _Shape, source: sql.Composable, parameters: tuple[Any, ...]
) -> dict[str, Row]:
    from psycopg import sql

    chunk = "pg_catalog.pg_column_toast_chunk_id({0})::int8"
    if conn.info.server_version < _CHUNK_IDS:
        chunk = "NULL::int8"
    each = sql.SQL(
        f"pg_catalog.pg_column_size({{0}}), pg_catalog.md5({{0}}::pg_catalog.text), {chunk}"
    )
    wanted = [each.format(sql.Identifier(column)) for column in shape.columns]
    query = sql.SQL("SELECT {}::text, xmin::text, {} FROM {}").format(
        sql.Identifier(shape.key), sql.SQL(", ").join(wanted), source
    )
    with conn.transaction():
        # Operators of the key's type and functions of row security may be anywhere.
        use_role_search_path(conn)
        found = conn.execute(query, parameters).fetchall()
    return {row[0]: _row(row, shape.columns) for row in found}


def _row(row: Sequence[Any], columns: Sequence[str]) -> Row:
    """Three fields per column after the key and the version; NULL counts as no value."""
    values = {
        column: Value(*row[start : start + 3])
        for column, start in zip(columns, range(2, len(row), 3), strict=True)
        if row[start] is not None
    }
    return Row(row[1], values)
