"""Parquet files by DuckDB, in the process.

DuckDB is only the engine here: any reader of Parquet reads what is written.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mrtuner.extras import require
from mrtuner.files import sync
from mrtuner.history.recording.sampler import DECIMALS
from mrtuner.history.recording.source import Type
from mrtuner.history.store.layout import FORMAT, PARQUET

if TYPE_CHECKING:
    import sqlite3

    import duckdb

    Engine = duckdb.DuckDBPyConnection

#: Small row groups: a reader of one instance skips those of the others.
_ROW_GROUP: Final = 61_440
#: Least number of distinct values up to which a dictionary of a column is tried. It suits repeated
#: values, such as a name or `seconds`. For numbers that vary it takes up to half as much again as
#: an encoding of their differences, which DuckDB uses only without a dictionary.
_DICTIONARY: Final = 128
#: DuckDB's own limit.
_LARGEST_DICTIONARY: Final = _ROW_GROUP // 5
#: Recorded floats have three decimals: milliseconds are whole microseconds. A column of this type
#: has them as integers, whose differences take less room than DOUBLE does.
_DECIMAL: Final = f"DECIMAL(18,{DECIMALS})"
MAGIC: Final = b"PAR1"
_LONGEST_LINE: Final = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """A Parquet file of the lake, as listed in SQLite."""

    number: int
    view: str
    path: str  # below the lake
    first: int  # microseconds since 1970
    last: int
    rows: int
    bytes: int
    sha256: str


def engine(*, memory: str = "512MB") -> Engine:
    """Open DuckDB in memory, with one thread; it downloads no extensions.

    Raises:
        MissingPart: it is not installed.
    """
    require("duckdb")
    import duckdb

    con = duckdb.connect(
        ":memory:",
        config={
            "threads": "1",
            "memory_limit": memory,
            # What does not fit into memory goes to the directory of our own temporary files.
            "temp_directory": str(Path(tempfile.gettempdir()) / f"mrtuner-{secrets.token_hex(8)}"),
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
        },
    )
    # Files never change, so their footers are read once.
    con.execute("SET parquet_metadata_cache = true")
    con.execute("SET GLOBAL TimeZone = 'UTC'")
    return con


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def load(
    con: Engine, table: str, columns: Sequence[tuple[str, Type]], db: sqlite3.Connection,
    query: str, parameters: Sequence[Any] = (),
) -> None:  # fmt: skip
    """Copy the rows of a query for SQLite to a table: `time` in µs, `instance` and these columns.

    They pass through a CSV file, which DuckDB reads a hundred times as fast as single inserts.
    SQLite formats its lines, faster than Python would.
    """
    kinds = {"instance": Type.TEXT} | dict(columns)
    types = {"time": "BIGINT"} | {name: PARQUET[kind] for name, kind in kinds.items()}
    cells = ", ".join(["time", *(_CELL[kind].format(f'"{name}"') for name, kind in kinds.items())])
    form = ",".join(["%s"] * len(types)) + "\n"
    lines = db.execute(f"SELECT CAST(printf('{form}', {cells}) AS BLOB) FROM ({query})", parameters)
    struct = ", ".join(f"{quoted(name)}: {quoted(kind)}" for name, kind in types.items())
    with tempfile.NamedTemporaryFile(suffix=".csv") as file:
        file.writelines(line for (line,) in lines)
        file.flush()
        if not file.tell():
            types |= {"time": "TIMESTAMP"}
            names = ", ".join(f'"{name}" {kind}' for name, kind in types.items())
            con.execute(f'CREATE OR REPLACE TABLE "{table}" ({names})')
            return
        con.execute(
            f"""CREATE OR REPLACE TABLE "{table}" AS
                SELECT * REPLACE (make_timestamp(time) AS time)
                FROM read_csv({quoted(file.name)}, auto_detect = false, header = false, delim = ',',
                              quote = '"', escape = '"', nullstr = '', allow_quoted_nulls = false,
                              max_line_size = {_LONGEST_LINE}, columns = {{{struct}}})"""
        )


_TEXT_CELL: Final = "iif({0} IS NULL, NULL, printf('\"%w\"', {0}))"
#: SQL for a value of SQLite as a CSV cell: a float with every digit, a text with its quotes
#: doubled, a null as nothing.
_CELL: Final = {
    Type.INTEGER: "{0}",
    Type.BOOLEAN: "{0}",
    Type.FLOAT: "iif({0} IS NULL, NULL, printf('%!.17g', {0}))",
    Type.TEXT: _TEXT_CELL,
    Type.STATEMENT: _TEXT_CELL,
}


def write(
    con: Engine, query: str, lake: Path, path: str, *, order: Sequence[str], names: Sequence[str],
    floats: Sequence[str] = (),
) -> None:  # fmt: skip
    """Write the rows of a query to a file below the lake: durably, and completely or not at all.

    `order` is SQL. `names` are the columns that identify what a row measures, as opposed to the
    measurements. `floats` are those of type DOUBLE that are recorded to three decimals: they are
    written as decimals, except for one that would lose a digit.
    """
    target = lake / path
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    unfinished = target.with_name(f".{target.name}.unfinished")
    dictionary, exact = _looked_at(con, query, names, floats)
    types = {"time": "TIMESTAMP_MS"} | dict.fromkeys(exact, _DECIMAL)
    casts = ", ".join(f'"{name}"::{kind} AS "{name}"' for name, kind in types.items())
    con.execute(
        f"""COPY (SELECT * REPLACE ({casts}) FROM ({query}) ORDER BY {", ".join(order)})
            TO {quoted(str(unfinished))}
            (FORMAT parquet, COMPRESSION zstd, PARQUET_VERSION V2, ROW_GROUP_SIZE {_ROW_GROUP},
             DICTIONARY_SIZE_LIMIT {dictionary},
             KV_METADATA {{"mrtuner.format": '{FORMAT}'}})"""
    )
    sync(unfinished)
    unfinished.replace(target)
    sync(target.parent)
    sync(target.parent.parent)
    sync(lake)


def _looked_at(
    con: Engine, query: str, names: Sequence[str], floats: Sequence[str]
) -> tuple[int, Sequence[str]]:
    """Return up to how many distinct values a column gets a dictionary: enough for `names`.

    And which of the floats are the same after they were decimals, in every row. Files of an
    earlier version may lack some.
    """
    has = {name for name, *_ in con.execute(f"DESCRIBE ({query})").fetchall()}
    floats = [name for name in floats if name in has]
    counts = [f'approx_count_distinct("{name}")' for name in names]
    same = [
        f'coalesce(bool_and(TRY_CAST("{name}" AS {_DECIMAL})::DOUBLE '
        f'IS NOT DISTINCT FROM "{name}"), true)'
        for name in floats
    ]
    found = con.execute(f"SELECT {', '.join([*counts, *same])} FROM ({query})").fetchone() or ()
    most = max(found[: len(names)], default=0)
    kept = [name for name, is_same in zip(floats, found[len(names) :], strict=True) if is_same]
    # Twice as many, since counts are approximate.
    return min(max(_DICTIONARY, 2 * most), _LARGEST_DICTIONARY), kept


def described(con: Engine, lake: Path, path: str, *, number: int, view: str) -> File:
    """Return the list's entry for a file that was written."""
    target = lake / path
    row = con.execute(
        f"SELECT epoch_us(min(time)), epoch_us(max(time)), count(*) "
        f"FROM read_parquet({quoted(str(target))})"
    ).fetchone()
    first, last, rows = row or (0, 0, 0)
    return File(
        number=number, view=view, path=path, first=first, last=last, rows=rows,
        bytes=target.stat().st_size, sha256=checksum(target),
    )  # fmt: skip


def checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def flaw(lake: Path, file: File) -> str | None:
    """Return why a file cannot be read, judged by its size and ends; None if it looks whole."""
    # Plain system calls: a history may have a thousand files, and opening it checks each.
    try:
        number = os.open(f"{lake}/{file.path}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    try:
        size = os.fstat(number).st_size
        if size != file.bytes:
            return f"has {size} bytes instead of {file.bytes}"
        length = len(MAGIC)
        if not os.pread(number, length, 0) == os.pread(number, length, size - length) == MAGIC:
            return "is not a Parquet file"
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    finally:
        os.close(number)
    return None


def union(lake: Path | str, files: Iterable[File]) -> str:
    """Return a query that reads these files as one table; columns that a file lacks are null."""
    paths = ", ".join(quoted(f"{lake}/{file.path}") for file in files)
    return f"SELECT * FROM read_parquet([{paths}], union_by_name = true, hive_partitioning = false)"


def rollup(query: str, by: Sequence[str], step: int, columns: Mapping[str, str]) -> str:
    """Return a query that summarizes rows by steps of `step` microseconds and by some columns."""
    keys = ", ".join(f'"{name}"' for name in ("instance", *by))
    values = "".join(f', {sql} AS "{name}"' for name, sql in columns.items())
    return f"""SELECT make_timestamp(epoch_us(time) // {step} * {step}) AS time, {keys},
                      sum(seconds)::DOUBLE AS seconds, count(*) AS samples{values}
               FROM ({query}) AS r GROUP BY ALL"""
