"""The same samples in other stores: SQLite, Prometheus and VictoriaMetrics.

Each gets what it would have scraped: the values of counters, not their growth. Times are those of
the recorder, a few milliseconds late, and then exact minutes as well, because Prometheus aligns
scrapes to the exact interval where it can.
promtool makes Prometheus's blocks as long as the recording, which is the best that compaction can
reach; VictoriaMetrics merges all its parts before it is measured.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from history_mix import INSTANCE, STATEMENT, paths_of

from mrtuner.history.recording.source import Kind, Source
from mrtuner.history.store import compaction, layout
from mrtuner.history.store.writer import Writer
from mrtuner.postgres.cluster import free_port

if TYPE_CHECKING:
    from mrtuner.history.store.parquet import Engine

#: The labels that identify a series.
_LABELS = ("instance", "query_id")
_PATIENCE = 120.0


def series(con: Engine, writer: Writer, of: Source, *, exact: bool) -> None:
    """Make the table `series` of one source: counters as values at each time, not as growth."""
    ms = "epoch_ms(time)" + (" // 60000 * 60000" if exact else "")
    keys = ["instance", *(column.name for column in of.of(Kind.KEY))]
    window = f"OVER (PARTITION BY {', '.join(keys)} ORDER BY time)"
    values = [
        f"sum({column.name}) {window} AS {column.name}"
        if column.kind is Kind.COUNTER else column.name
        for column in of.of(Kind.COUNTER, Kind.GAUGE)
    ]  # fmt: skip
    paths = [str(path) for path in paths_of(writer, of.name)]
    con.execute(
        f"""CREATE OR REPLACE TABLE series AS
            SELECT {ms} AS ms, {", ".join(keys)}, {", ".join(values)}
            FROM read_parquet({paths}, hive_partitioning = false) ORDER BY {", ".join(keys)}, ms"""
    )


def _columns(of: Source) -> list[str]:
    return [column.name for column in of.of(Kind.COUNTER, Kind.GAUGE)]


def _fetched(con: Engine, sql: str) -> Iterator[list[tuple[Any, ...]]]:
    found = con.execute(sql)
    while rows := found.fetchmany(100_000):
        yield rows


# The history.


def history(con: Engine, writer: Writer, scratch: Path, exact: bool) -> int:
    """Return the bytes of the monthly files as they are; for exact times, of rewritten ones."""
    if not exact:
        return sum(path.stat().st_size for of in (INSTANCE, STATEMENT)
                   for path in paths_of(writer, of.name))  # fmt: skip
    for of in (INSTANCE, STATEMENT):
        paths = [str(path) for path in paths_of(writer, of.name)]
        query = (
            "SELECT * REPLACE (time_bucket(INTERVAL 1 MINUTE, time) AS time, 60.0 AS seconds) "
            f"FROM read_parquet({paths}, hive_partitioning = false)"
        )
        compaction.write(con, query, scratch / "exact", f"{of.name}/month/1.parquet", of, of.name)
    return _tree(scratch / "exact")


# SQLite.


def sqlite_wide(con: Engine, writer: Writer, scratch: Path, exact: bool) -> int | None:
    """Return the bytes of rows stored as recent ones are, in order of time; None if `exact`."""
    if exact:
        return None
    path = scratch / "wide.sqlite"
    with closing(sqlite3.connect(path)) as db:
        for of in (INSTANCE, STATEMENT):
            db.execute(layout.create_table(of))
            marks = ", ".join("?" * len(layout.column_names(of)))
            paths = [str(path) for path in paths_of(writer, of.name)]
            sql = (
                "SELECT * REPLACE (epoch_us(time) AS time, seconds::DOUBLE AS seconds) "
                f"FROM read_parquet({paths}, hive_partitioning = false) ORDER BY time"
            )
            for rows in _fetched(con, sql):
                db.executemany(f"INSERT INTO {layout.hot_table(of)} VALUES ({marks})", rows)
        db.commit()
    return path.stat().st_size


def sqlite_narrow(con: Engine, writer: Writer, scratch: Path, exact: bool) -> int | None:
    """Return the bytes of a row per value, with key (series, time) and a table of series' names."""
    if exact:
        return None
    path = scratch / "narrow.sqlite"
    number = 0
    with closing(sqlite3.connect(path)) as db:
        db.execute(
            "CREATE TABLE sample (series INTEGER, ms INTEGER, value INTEGER, "
            "PRIMARY KEY (series, ms)) WITHOUT ROWID"
        )
        db.execute("CREATE TABLE series (series INTEGER PRIMARY KEY, name TEXT, labels TEXT)")
        for of in (INSTANCE, STATEMENT):
            series(con, writer, of, exact=False)
            for labels, name, rows in _each_series(con, of):
                number += 1
                db.execute("INSERT INTO series VALUES (?, ?, ?)", (number, name, labels))
                db.executemany(f"INSERT INTO sample VALUES ({number}, ?, ?)", rows)
        db.commit()
    return path.stat().st_size


def _each_series(con: Engine, of: Source) -> Iterator[tuple[str, str, list[tuple[int, int]]]]:
    """Labels, name and samples of each series of the table `series`."""
    keys = [name for name in _LABELS if name in {"instance", *(c.name for c in of.columns)}]
    for key in con.execute(
        f"SELECT DISTINCT {', '.join(keys)} FROM series ORDER BY ALL"
    ).fetchall():
        labels = ",".join(f'{name}="{value}"' for name, value in zip(keys, key, strict=True))
        where = " AND ".join(f"{name} = ?" for name in keys)
        rows = con.execute(
            f"SELECT ms, {', '.join(_columns(of))} FROM series WHERE {where} ORDER BY ms", key
        ).fetchall()
        for place, column in enumerate(_columns(of), 1):
            yield labels, f"{of.name}_{column}", [(row[0], row[place]) for row in rows]


# Prometheus.


def prometheus(con: Engine, writer: Writer, scratch: Path, exact: bool) -> int | None:
    """Return the bytes of promtool's blocks and their indexes; None if it is not installed."""
    if shutil.which("promtool") is None:
        return None
    text, blocks = scratch / "openmetrics.txt", scratch / f"blocks-{exact}"
    with text.open("w") as file:
        for of in (INSTANCE, STATEMENT):
            series(con, writer, of, exact=exact)
            for labels, name, rows in sorted(_each_series(con, of), key=lambda one: one[1]):
                file.writelines(
                    f"{name}{{{labels}}} {value} {ms / 1000:.3f}\n" for ms, value in rows
                )
        file.write("# EOF\n")
    subprocess.run(
        ["promtool", "tsdb", "create-blocks-from", "openmetrics", "--max-block-duration=744h",
         str(text), str(blocks)],
        check=True, capture_output=True,
    )  # fmt: skip
    text.unlink()
    found = sum(
        json.loads(meta.read_text())["stats"]["numSamples"] for meta in blocks.glob("*/meta.json")
    )
    _check("Prometheus", found, con, writer)
    return _tree(blocks)


def _check(store: str, found: float, con: Engine, writer: Writer) -> None:
    """Exit unless the store holds as many samples as ours."""
    expected = 0
    for of in (INSTANCE, STATEMENT):
        paths = [str(path) for path in paths_of(writer, of.name)]
        row = con.execute(f"SELECT count(*) FROM read_parquet({paths})").fetchone() or (0,)
        expected += row[0] * len(_columns(of))
    if found != expected:
        raise SystemExit(f"{store} holds {found:,.0f} of {expected:,} samples")


# VictoriaMetrics.


def victoria(con: Engine, writer: Writer, scratch: Path, exact: bool) -> int | None:
    """Return the bytes of its data after merging everything; None if it is not installed."""
    if shutil.which("victoria-metrics") is None:
        return None
    data = scratch / f"victoria-{exact}"
    with _victoria(data) as address:
        for of in (INSTANCE, STATEMENT):
            series(con, writer, of, exact=exact)
            for labels, name, rows in _each_series(con, of):
                lines = "".join(f"{name}{{{labels}}} {value} {ms}\n" for ms, value in rows)
                _get(f"{address}/api/v1/import/prometheus", lines.encode())
        _get(f"{address}/internal/force_flush")
        _get(f"{address}/internal/force_merge")
        _await(lambda: _metric(address, "vm_active_force_merges") == 0)
        found = _metric(address, 'vm_rows{type="storage/', add=True)
        _check("VictoriaMetrics", found, con, writer)
    return _tree(data)


@contextmanager
def _victoria(data: Path) -> Iterator[str]:
    """Run it on loopback and yield its address; when it ends, it writes everything to disk."""
    port = free_port()
    command = [
        "victoria-metrics", f"-storageDataPath={data}", f"-httpListenAddr=127.0.0.1:{port}",
        "-retentionPeriod=100y",
    ]  # fmt: skip
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, stdout=quiet, stderr=quiet) as process:
        try:
            address = f"http://127.0.0.1:{port}"
            _await(lambda: _answers(address))
            yield address
        finally:
            process.terminate()
            process.wait(_PATIENCE)


def _answers(address: str) -> bool:
    with suppress(OSError):
        _get(f"{address}/health")
        return True
    return False


def _get(url: str, body: bytes | None = None) -> str:
    with urllib.request.urlopen(url, body, timeout=_PATIENCE) as answer:
        return str(answer.read().decode())


def _metric(address: str, name: str, *, add: bool = False) -> float:
    values = [
        float(line.rpartition(" ")[2])
        for line in _get(f"{address}/metrics").splitlines()
        if line.startswith(name)
    ]
    return sum(values) if add else values[0]


def _await(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + _PATIENCE
    while not condition():
        if time.monotonic() > end:
            raise SystemExit("VictoriaMetrics did not get ready")
        time.sleep(0.2)


def _tree(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())
