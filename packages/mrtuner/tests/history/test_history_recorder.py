"""A real recorder beside a real load, killed and started again."""

from __future__ import annotations

import re
import signal
import threading
from pathlib import Path

import pytest
from conftest import NewCluster
from history_recorder import WAIT, recorder, rows, samples

from command_line import run
from mrtuner.history.recording.recorder import Instance, RecordingLimits, record
from mrtuner.history.recording.source import built_in
from mrtuner.history.store.writer import Writer
from mrtuner.postgres.cluster import Cluster
from servers import counted, sql
from waiting import until


@pytest.fixture
def cluster(new_cluster: NewCluster) -> Cluster:
    cluster = new_cluster(18, {"shared_preload_libraries": "pg_stat_statements"})
    sql(cluster.dsn(), "CREATE EXTENSION pg_stat_statements", "CREATE TABLE t (id int, x int)")
    return cluster


IDLE = (
    "SELECT count(*), count(backend_xmin) FROM pg_stat_activity "
    "WHERE application_name = 'mrtuner record' AND state = 'idle'"
)
INSERT = "INSERT INTO t SELECT n, 0 FROM generate_series(1, 100) AS n"


def test_killed_and_started_again_its_totals_are_those_of_the_server(
    cluster: Cluster, tmp_path: Path
) -> None:
    """1,000 rows: 300 while it records, 400 while it is dead, 300 when it records again."""
    with recorder(tmp_path, cluster.dsn()) as process:
        until(lambda: samples(tmp_path, "tables"))
        counted(cluster.dsn(), *[INSERT] * 3)
        process.kill()
        process.wait(WAIT)
    counted(cluster.dsn(), *[INSERT] * 4)
    with recorder(tmp_path, cluster.dsn()) as process:
        until(lambda: samples(tmp_path, "tables") == 2)
        counted(cluster.dsn(), *[INSERT] * 3)
        process.send_signal(signal.SIGTERM)
        assert process.wait(WAIT) == 0
    with recorder(tmp_path, cluster.dsn(), "--for", "2s") as process:
        assert process.wait(WAIT) == 0
    assert rows(tmp_path, "SELECT sum(inserted) FROM tables WHERE name = 't'") == [(1000,)]
    assert rows(tmp_path, """
        SELECT sum(calls), sum(rows) FROM statements JOIN statement_texts USING (query_id)
        WHERE text LIKE 'INSERT INTO t%'""") == [(10, 1000)]  # fmt: skip
    assert sql(cluster.dsn(), "SELECT n_tup_ins FROM pg_stat_user_tables WHERE relname = 't'") == [
        (1000,)
    ]


def test_sessions_are_sampled_each_second(cluster: Cluster, tmp_path: Path) -> None:
    with recorder(tmp_path, cluster.dsn()) as process:
        until(lambda: samples(tmp_path, "sessions") > 0)
        sql(cluster.dsn(), "SELECT pg_sleep(4)")
        process.send_signal(signal.SIGTERM)
        assert process.wait(WAIT) == 0
    found = rows(tmp_path, "SELECT count(*) FROM sessions WHERE wait_event = 'PgSleep'")
    assert 2 <= found[0][0] <= 6


def test_a_server_that_goes_away_is_a_gap_and_no_end(cluster: Cluster, tmp_path: Path) -> None:
    with recorder(tmp_path, cluster.dsn()) as process:
        until(lambda: samples(tmp_path, "sessions") > 0)
        cluster.restart()
        until(lambda: rows(tmp_path, "SELECT 1 FROM events WHERE kind = 'restart'"))
        process.send_signal(signal.SIGTERM)
        assert process.wait(WAIT) == 0
        assert process.stderr is not None
        told = process.stderr.read()
    assert "trying again" in told
    assert "connected again" in told
    kinds = [row[0] for row in rows(tmp_path, "SELECT kind FROM events ORDER BY time")]
    # A restart has the server's own time: quick ones are over before the recorder notices.
    assert kinds[0] == kinds[-1] == "connected"
    assert sorted(kinds[1:-1]) == ["lost", "restart"]
    assert rows(tmp_path, "SELECT count(*) FROM databases WHERE commits < 0") == [(0,)]


def test_a_server_that_was_never_reached_is_no_healthy_recording(
    embedded: Cluster, tmp_path: Path
) -> None:
    """Next to a server that is reached, status reports it; alone, it is an error in the end."""
    gone, store = f"host={tmp_path} user=nobody", tmp_path / "store"
    fleet = tmp_path / "fleet.toml"
    fleet.write_text(f'[instances]\ngone = "{gone}"\n', encoding="utf-8")
    with recorder(store, embedded.dsn(), "--config", str(fleet)) as process:
        until(lambda: samples(store, "sessions") > 0)
        told = run("history", "status", "--check", "--dir", store)
        process.send_signal(signal.SIGTERM)
        assert process.wait(WAIT) == 0
    assert told.exit_code == 3
    assert "connection: nothing is listening there" in told.stdout
    other = str(tmp_path / "other")
    alone = run("record", gone, "--dir", other, "--for", "1s")
    assert alone.exit_code == 1
    assert "nothing was recorded" in alone.stderr
    assert f"HINT: See why with mrtuner history status --dir {other}." in alone.stderr


def test_no_password_is_stored_or_told(new_cluster: NewCluster, tmp_path: Path) -> None:
    cluster = new_cluster(18, {"shared_preload_libraries": "pg_stat_statements"}, listen=True)
    sql(cluster.dsn(), "CREATE EXTENSION pg_stat_statements",
        "CREATE ROLE app LOGIN PASSWORD 'hunter2hunter2'")  # fmt: skip
    with recorder(tmp_path, cluster.dsn()) as process:
        until(lambda: samples(tmp_path, "statements") > 0)
        process.send_signal(signal.SIGTERM)
        process.wait(WAIT)
    whole = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"CREATE ROLE app LOGIN PASSWORD" in whole
    assert b"hunter2" not in whole


def test_a_store_that_cannot_be_written_is_told_tried_again_and_an_event(
    cluster: Cluster, tmp_path: Path
) -> None:
    """The database file of the store may not grow at first, and then it may."""
    told: list[str] = []
    stop = threading.Event()
    with Writer(tmp_path, built_in().values()) as writer:
        pages = writer.db.execute("PRAGMA page_count").fetchone()[0]
        writer.db.execute(f"PRAGMA max_page_count = {pages}")

        def tell(sentence: str) -> None:
            told.append(sentence)
            if "nothing can be stored" in sentence:
                writer.db.execute("PRAGMA max_page_count = 1000000")
            if "stored again" in sentence:
                stop.set()

        threading.Timer(WAIT, stop.set).start()
        record(writer, [Instance(name="db", dsn=cluster.dsn())], stop, tell=tell)
    assert any("nothing can be stored" in sentence for sentence in told)
    assert any("stored again" in sentence for sentence in told)
    assert samples(tmp_path, "sessions") > 0
    ((detail,),) = rows(tmp_path, "SELECT detail FROM events WHERE kind = 'full'")
    assert re.fullmatch(r"nothing could be stored for \d+ s: database or disk is full", detail)


def test_many_instances_begin_one_after_the_other(cluster: Cluster, tmp_path: Path) -> None:
    """Half a minute apart here, so only the first is sampled, and the end does not wait."""
    instances = [Instance(name=name, dsn=cluster.dsn()) for name in ("first", "second")]
    stop = threading.Event()

    def end_when_sampled() -> None:
        until(lambda: samples(tmp_path, "sessions") > 1)
        stop.set()

    watching = threading.Thread(target=end_when_sampled)
    with Writer(tmp_path, [built_in()["sessions"]]) as writer:
        watching.start()
        record(writer, instances, stop, limits=RecordingLimits(apart=3600.0))
    watching.join()
    assert rows(tmp_path, "SELECT DISTINCT instance FROM samples") == [("first",)]


def test_the_recorder_is_idle_in_no_transaction(cluster: Cluster, tmp_path: Path) -> None:
    """A session that stays in a transaction holds back vacuum."""
    with recorder(tmp_path, cluster.dsn()):
        until(lambda: samples(tmp_path, "tables") > 0)
        states = until(lambda: [row for row in sql(cluster.dsn(), IDLE) if row != (0, 0)])
    assert states == [(1, 0)]
