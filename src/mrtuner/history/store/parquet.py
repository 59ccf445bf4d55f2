"""Parquet files by DuckDB, in the process.

DuckDB is only the engine here: any reader of Parquet reads what is written.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mrtuner.extras import require
from mrtuner.files import sync
from mrtuner.history.source import Type
from mrtuner.history.store.layout import FORMAT, PARQUET

if TYPE_CHECKING:
    import duckdb

    Engine = duckdb.DuckDBPyConnection

#: Small row groups: a reader of one instance skips those of the others.
_ROW_GROUP: Final = 61_440
_MAGIC: Final = b"PAR1"
_LONGEST_LINE: Final = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """A Parquet file of the lake, as the list in SQLite has it."""

    number: int
    view: str
    path: str  # below the lake
    first: int  # microseconds since 1970
    last: int
    rows: int
    bytes: int
    sha256: str


def engine(*, memory: str = "512MB") -> Engine:
    """Open DuckDB in memory, with one thread, and never anything from the network.

    Raises:
        MissingPart: it is not installed.
    """
    require("duckdb")
    import duckdb

    return duckdb.connect(
        ":memory:",
        config={
            "threads": "1",
            "memory_limit": memory,
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
        },
    )


def quoted(text: str) -> str:
    """A text as a literal of SQL."""
    return "'" + text.replace("'", "''") + "'"


def load(
    con: Engine, table: str, columns: Sequence[tuple[str, Type]], rows: Iterable[Sequence[Any]]
) -> None:
    """Make a table of rows whose first value is a time in microseconds, the second an instance.

    They pass through a file, since DuckDB reads one a hundred times as fast as single inserts.
    """
    types = {"time": "BIGINT", "instance": "VARCHAR"} | {
        name: PARQUET[kind] for name, kind in columns
    }
    struct = ", ".join(f"{quoted(name)}: {quoted(kind)}" for name, kind in types.items())
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", newline="", suffix=".csv") as file:
        for row in rows:
            file.write(",".join(map(_cell, row)) + "\n")
        file.flush()
        con.execute(
            f"""CREATE OR REPLACE TABLE "{table}" AS
                SELECT * REPLACE (make_timestamp(time) AS time)
                FROM read_csv({quoted(file.name)}, auto_detect = false, header = false, delim = ',',
                              quote = '"', escape = '"', nullstr = '', allow_quoted_nulls = false,
                              max_line_size = {_LONGEST_LINE}, columns = {{{struct}}})"""
        )


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return '"' + value.replace('"', '""') + '"'
    return repr(value)


def write(con: Engine, query: str, lake: Path, path: str, order: Sequence[str]) -> None:
    """Write the rows of a query to a file below the lake: durable, and complete or not there."""
    target = lake / path
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    unfinished = target.with_name(f".{target.name}.unfinished")
    by = ", ".join(f'"{name}"' for name in order)
    con.execute(
        f"""COPY (SELECT * FROM ({query}) ORDER BY {by}) TO {quoted(str(unfinished))}
            (FORMAT parquet, COMPRESSION zstd, PARQUET_VERSION V2, ROW_GROUP_SIZE {_ROW_GROUP},
             KV_METADATA {{"mrtuner.format": '{FORMAT}'}})"""
    )
    number = os.open(unfinished, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(number)
    finally:
        os.close(number)
    unfinished.replace(target)
    sync(target.parent)
    sync(target.parent.parent)
    sync(lake)


def described(con: Engine, lake: Path, path: str, *, number: int, view: str) -> File:
    """What the list keeps of a file that was written."""
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
    """The SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def flaw(lake: Path, file: File) -> str | None:
    """Why a file cannot be read, as far as that shows from outside; None: it looks whole."""
    path = lake / file.path
    try:
        size = path.stat().st_size
        if size != file.bytes:
            return f"has {size} bytes instead of {file.bytes}"
        with path.open("rb") as opened:
            head = opened.read(4)
            opened.seek(-4, os.SEEK_END)
            if head != _MAGIC or opened.read(4) != _MAGIC:
                return "is not a Parquet file"
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    return None


def union(lake: Path, files: Iterable[File]) -> str:
    """The query that reads these files as one table, each column where a file has it."""
    paths = ", ".join(quoted(str(lake / file.path)) for file in files)
    return f"SELECT * FROM read_parquet([{paths}], union_by_name = true, hive_partitioning = false)"


def rollup(query: str, by: Sequence[str], step: int, columns: Mapping[str, str]) -> str:
    """The query that summarizes rows by steps of `step` microseconds and by some columns."""
    keys = ", ".join(f'"{name}"' for name in ("instance", *by))
    values = "".join(f', {sql} AS "{name}"' for name, sql in columns.items())
    return f"""SELECT make_timestamp(epoch_us(time) // {step} * {step}) AS time, {keys},
                      sum(seconds)::DOUBLE AS seconds, count(*) AS samples{values}
               FROM ({query}) AS r GROUP BY ALL"""
