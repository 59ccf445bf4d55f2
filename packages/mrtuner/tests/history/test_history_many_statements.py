"""Many distinct statements, as many as pg_stat_statements keeps and more."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import NewCluster
from history_recorder import PROGRAM, rows, samples

from mrtuner.history.recording.recorder import Instance, record
from mrtuner.history.recording.source import Kind, built_in
from mrtuner.history.store.writer import Writer
from mrtuner.postgres.cluster import Cluster
from servers import sql
from waiting import until

#: Columns of the table: statements that read different columns have different identifiers.
COLUMNS = 224
MB = 2**20


def cluster_of(new_cluster: NewCluster, major: int, most: int) -> Cluster:
    cluster = new_cluster(major, {
        "shared_preload_libraries": "pg_stat_statements", "pg_stat_statements.max": most,
        "pg_stat_statements.track": "all", "autovacuum": "off", "fsync": "off",
    })  # fmt: skip
    columns = ", ".join(f"c{n} int" for n in range(1, COLUMNS + 1))
    sql(cluster.dsn(), "CREATE EXTENSION pg_stat_statements", "CREATE DATABASE shop")
    sql(cluster.dsn("shop"), f"CREATE TABLE wide ({columns})")
    return cluster


def run(cluster: Cluster, first: int, second: int) -> None:
    """Read each of the `first` columns beside each of the `second`: a statement each."""
    sql(cluster.dsn("shop"), f"""
        DO $$ BEGIN
            FOR i IN 1..{first} LOOP FOR j IN 1..{second} LOOP
                EXECUTE format('SELECT c%s, c%s FROM wide', i, j);
            END LOOP; END LOOP;
        END $$""")  # fmt: skip


CALLS = """SELECT count(*), sum(calls)::bigint FROM pg_stat_statements(false)
           WHERE dbid = (SELECT oid FROM pg_database WHERE datname = 'shop')"""


def record_once(cluster: Cluster, store: Path) -> resource.struct_rusage:
    """Record until statements were sampled once more; return the recorder's resource usage."""
    already = samples(store, "statements")
    command = [sys.executable, "-c", PROGRAM, "record", cluster.dsn(), "--dir", str(store)]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        until(lambda: samples(store, "statements") > already)
    finally:
        process.send_signal(signal.SIGTERM)
        _, state, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(state)
    assert process.returncode == 0
    return usage


@pytest.mark.parametrize(
    "columns", [24, pytest.param(224, marks=[pytest.mark.slow, pytest.mark.timeout(900)])]
)
def test_none_of_many_statements_is_lost(
    new_cluster: NewCluster, tmp_path: Path, columns: int
) -> None:
    """576 or 50,176 of them: recorded before they run, after, and after half of them ran again.

    Each costs the recorder at most 5 kB and half a millisecond of a CPU, beyond 50 MB and 2 s.
    """
    many = columns * columns
    cluster = cluster_of(new_cluster, 18, many + 5000)
    store = tmp_path / "store"
    least = record_once(cluster, store)
    ((_, before),) = sql(cluster.dsn(), CALLS)
    run(cluster, columns, columns)
    taken = [record_once(cluster, store)]
    run(cluster, columns // 2, columns)
    taken.append(record_once(cluster, store))
    ((kept, after),) = sql(cluster.dsn(), CALLS)
    assert kept >= many
    assert sql(cluster.dsn(), "SELECT dealloc FROM pg_stat_statements_info") == [(0,)]
    assert rows(store, """SELECT count(DISTINCT query_id), sum(calls), count(*) - count(calls)
                          FROM statements WHERE database = 'shop'""") == [
        (kept - 1, after - before, 0)  # all but CREATE TABLE
    ]  # fmt: skip
    texts = "SELECT count(*) FROM statement_texts WHERE text LIKE 'SELECT c%, c% FROM wide'"
    assert rows(store, texts) == [(many,)]
    for one in taken:
        assert (one.ru_maxrss - least.ru_maxrss) * 1024 < 50 * MB + 5000 * many
        assert cpu(one) - cpu(least) < 2.0 + 0.0005 * many


def cpu(usage: resource.struct_rusage) -> float:
    return usage.ru_utime + usage.ru_stime


def test_texts_that_cost_much_are_read_less_often(new_cluster: NewCluster, tmp_path: Path) -> None:
    """The server reads 40 MB for each new text: that is slowed down first, and loses none."""
    cluster = cluster_of(new_cluster, 18, 5000)
    sql(cluster.dsn("shop"), f"""
        DO $$ BEGIN
            FOR i IN 1..20 LOOP FOR j IN 1..20 LOOP
                EXECUTE format('SELECT c%s, c%s /* {"x" * 100_000} */ FROM wide', i, j);
            END LOOP; END LOOP;
        END $$""")  # fmt: skip
    new = (f"SELECT c{n}, c{n + 1}, c{n + 2} FROM wide" for n in range(1, COLUMNS - 1))
    stop, last = threading.Event(), ""

    def paces() -> list[tuple[str]]:
        nonlocal last
        last = next(new)
        sql(cluster.dsn("shop"), last)
        return rows(tmp_path, "SELECT detail FROM events WHERE kind = 'pace' ORDER BY time")

    def watch() -> None:
        try:
            until(lambda: samples(tmp_path, "statements"))
            found: list[tuple[str]] = []
            while not found:
                time.sleep(0.5)
                found = paces()
            assert found[0] == ("statement_texts is sampled every 1 s",)
            until(lambda: rows(tmp_path, f"SELECT 1 FROM statement_texts WHERE text = '{last}'"))
        finally:
            stop.set()

    sources = [replace(built_in()["statements"], interval=0.5)]
    with ThreadPoolExecutor(1) as pool, Writer(tmp_path, sources) as writer:
        watched = pool.submit(watch)
        record(writer, [Instance(name="db", dsn=cluster.dsn())], stop)
        watched.result()


def test_a_statement_that_was_evicted_is_a_gap_and_never_negative(
    new_cluster: NewCluster, tmp_path: Path, each_major: int
) -> None:
    """Two ran three times, were evicted, and ran again: one once, the other nine times.

    Before 17, the server does not say since when it counts, so the growth of the other is taken as
    six, which is too low. It sleeps longer then, because a counter that fell would reveal the gap.
    """
    cluster = cluster_of(new_cluster, each_major, 100)
    store = tmp_path / "store"
    less, more = "SELECT c1, c2, c3 FROM wide", "SELECT pg_sleep($1)"
    sql(cluster.dsn("shop"), *[less, more.replace("$1", "0.00")] * 3)
    record_once(cluster, store)
    there = f"SELECT count(*) FROM pg_stat_statements WHERE query IN ('{less}', '{more}')"
    assert sql(cluster.dsn(), there) == [(2,)]

    def evicted() -> bool:
        run(cluster, 12, 12)
        return sql(cluster.dsn(), there) == [(0,)]

    until(evicted)
    sql(cluster.dsn("shop"), less, *[more.replace("$1", "0.05")] * 9)
    record_once(cluster, store)
    asked = """SELECT calls, seconds > 0 FROM statements JOIN statement_texts USING (query_id)
               WHERE text = '{}'"""
    assert rows(store, asked.format(less)) == [(None, True)]
    expected = None if each_major >= 17 else 6
    assert rows(store, asked.format(more)) == [(expected, True)]
    for column in built_in()["statements"].of(Kind.COUNTER):
        ((least,),) = rows(store, f"SELECT min({column.name}) FROM statements")
        assert least is None or least >= 0, column.name
