"""A server goes away and comes back under another major version, at the same address."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from conftest import PASSWORD, NewCluster
from history_recorder import WAIT, recorder, rows, samples

from mrtuner.history.recording.source import Kind, built_in
from mrtuner.postgres.cluster import Cluster
from servers import counted, sql
from waiting import until

SETTINGS = {"shared_preload_libraries": "pg_stat_statements", "autovacuum": "off"}


def work(cluster: Cluster, times: int) -> None:
    """Create a table, and run `times` statements on it."""
    sql(cluster.dsn(), "CREATE EXTENSION pg_stat_statements", "CREATE TABLE t (id int)",
        *["INSERT INTO t SELECT n FROM generate_series(1, 100) AS n"] * times)  # fmt: skip


def test_an_upgrade_is_a_gap_and_an_event_and_other_queries(
    new_cluster: NewCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old server has counted more than the new one, so differences would be negative."""
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    old = new_cluster(15, SETTINGS, listen=True)
    work(old, 50)
    new = new_cluster(18, SETTINGS, listen=True)
    work(new, 3)
    new.stop()
    new.configure({"port": old.port})
    new.port = old.port
    with recorder(tmp_path, old.dsn(tcp=True)) as process:
        until(lambda: samples(tmp_path, "statements"))
        old.stop()
        until(lambda: rows(tmp_path, "SELECT 1 FROM events WHERE kind = 'lost'"))
        new.start()
        until(lambda: rows(tmp_path, "SELECT 1 FROM events WHERE kind = 'upgrade'"))
        until(lambda: samples(tmp_path, "statements") > 1 and samples(tmp_path, "io"))
        process.send_signal(signal.SIGTERM)
        assert process.wait(WAIT) == 0
    counted(new.dsn(), "INSERT INTO t VALUES (1)")
    with recorder(tmp_path, new.dsn(tcp=True)) as process:
        until(lambda: samples(tmp_path, "statements") > 2)
        process.send_signal(signal.SIGTERM)
        assert process.wait(WAIT) == 0

    assert rows(tmp_path, "SELECT DISTINCT instance FROM samples") == [(f"127.0.0.1:{old.port}",)]
    assert rows(tmp_path, "SELECT detail FROM events WHERE kind = 'upgrade'") == [("15 to 18",)]
    ((lost,),) = rows(tmp_path, "SELECT time FROM events WHERE kind = 'lost'")
    # pg_stat_io exists since 16, and a database's parallel workers are counted since 18.
    sampled = "SELECT DISTINCT time > TIMESTAMP '{}' FROM samples WHERE source = '{}' ORDER BY 1"
    assert rows(tmp_path, sampled.format(lost, "wal")) == [(False,), (True,)]
    assert rows(tmp_path, sampled.format(lost, "io")) == [(True,)]
    counted_workers = f"""SELECT DISTINCT time > TIMESTAMP '{lost}' FROM databases
                          WHERE parallel_planned IS NOT NULL"""
    assert rows(tmp_path, counted_workers) == [(True,)]
    # What the two servers counted is not compared; what the new one counted then is.
    assert rows(tmp_path, "SELECT sum(inserted) FROM tables WHERE name = 't'") == [(1,)]
    for source in built_in().values():
        for column in source.of(Kind.COUNTER):
            least = rows(tmp_path, f'SELECT min("{column.name}") FROM "{source.name}"')[0][0]
            assert least is None or least >= 0, (source.name, column.name)
    # In the first sample of each server, the growth is not known.
    assert rows(tmp_path, "SELECT count(*) FROM wal WHERE bytes IS NULL") == [(2,)]
