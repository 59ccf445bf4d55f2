"""Every source gives what it declares, on every major."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest
from conftest import NewCluster
from history_data import sampled
from psycopg.pq import PGconn

from mrtuner.history.recording.sampler import Sampler, SourceSample
from mrtuner.history.recording.source import Source, built_in, in_directory, parse
from mrtuner.history.text import _LETTERS
from mrtuner.postgres.cluster import Cluster
from mrtuner.postgres.connect import connect
from mrtuner.postgres.secret_settings import SECRET, shown
from servers import counted, sql
from waiting import until

#: Sources that no version before this major has.
SINCE = {"statements_info": 14, "io": 16}
#: No row on a server alone: nobody is at work, it is no standby, and subscribes to nothing.
MAY_BE_EMPTY = {
    "sessions", "progress", "replication", "sessions_by_role", "locks", "receiver", "conflicts",
    "subscriptions", "plans",
}  # fmt: skip
#: Columns that are null before this major.
COLUMNS_SINCE = {
    ("sessions", "query_id"): 14,
    ("databases", "session_ms"): 14,
    ("databases", "active_ms"): 14,
    ("databases", "sessions"): 14,
    ("databases", "parallel_planned"): 18,
    ("wal", "records"): 14,
    ("wal", "full_page_images"): 14,
    ("wal", "buffers_full"): 14,
    ("statements", "jit_ms"): 15,
}


def value(sample: SourceSample, column: str, **keys: Any) -> Any:
    """Return a column of the only row with these keys."""
    names = [one.name for one in sample.source.columns]
    found = [
        dict(zip(names, row.values, strict=True))
        for row in sample.rows
        if all(row.values[names.index(name)] == wanted for name, wanted in keys.items())
    ]
    assert len(found) == 1, found
    return found[0][column]


@pytest.fixture
def cluster(every_major: int, new_cluster: NewCluster) -> Cluster:
    cluster = new_cluster(
        every_major, {"shared_preload_libraries": "pg_stat_statements", "wal_level": "logical"}
    )
    sql(cluster.dsn(), "CREATE EXTENSION pg_stat_statements", "CREATE TABLE t (id int, long text)",
        "CREATE SEQUENCE numbers", "CREATE INDEX ON t (id)",
        "SELECT pg_create_physical_replication_slot('spare', true)")  # fmt: skip
    return cluster


def test_every_source_gives_what_it_declares(every_major: int, cluster: Cluster) -> None:
    counted(cluster.dsn(), "INSERT INTO t SELECT n, 'x' FROM generate_series(1, 500) AS n",
            "SELECT count(*) FROM t")  # fmt: skip
    with connect(cluster.dsn()) as conn:
        sampler = Sampler(conn)
        identity = sampler.prepare()
        samples = {name: sampler.sample(source) for name, source in built_in().items()}
    assert identity.version_num // 10000 == every_major
    assert identity.system is not None
    assert {name for name, found in samples.items() if found is None} == {
        name for name, since in SINCE.items() if every_major < since
    }
    assert set(sampler.missing) == {name for name, since in SINCE.items() if every_major < since}
    for name, column in _columns(samples):
        values = _values(samples, name, column)
        if every_major < COLUMNS_SINCE.get((name, column), 0):
            assert set(values) <= {None}, (name, column)
    rows = {name: found.rows for name, found in samples.items() if found is not None}
    for name in rows.keys() - MAY_BE_EMPTY:
        assert rows[name], f"{name} has no row"
    for (name, column), since in COLUMNS_SINCE.items():
        if every_major >= since and rows.get(name) and name != "sessions":
            assert any(one is not None for one in _values(samples, name, column)), (name, column)


def _columns(samples: dict[str, SourceSample | None]) -> Iterator[tuple[str, str]]:
    for name, found in samples.items():
        if found is not None:
            yield from ((name, column.name) for column in found.source.columns)


def _values(samples: dict[str, SourceSample | None], name: str, column: str) -> list[Any]:
    found = samples[name]
    assert found is not None
    place = [one.name for one in found.source.columns].index(column)
    return [row.values[place] for row in found.rows]


def test_counters_count_what_was_done(cluster: Cluster) -> None:
    """500 rows inserted, 100 of them updated and 50 deleted, in a table of the test."""
    before = sampled(cluster, "tables")
    counted(
        cluster.dsn(), "INSERT INTO t SELECT n, 'x' FROM generate_series(1, 500) n",
        "UPDATE t SET long = 'y' WHERE id <= 100", "DELETE FROM t WHERE id > 450",
    )  # fmt: skip
    after = sampled(cluster, "tables")
    grown = {
        name: value(after, name, name="t") - value(before, name, name="t")
        for name in ("inserted", "updated", "deleted")
    }
    assert grown == {"inserted": 500, "updated": 100, "deleted": 50}
    assert value(after, "live", name="t") == 450


@pytest.fixture
def since_19(new_cluster: NewCluster) -> Cluster:
    return new_cluster(19)


def test_a_repack_in_progress_is_called_by_its_name(since_19: Cluster) -> None:
    """It takes as long as its index, whose function waits."""
    sql(
        since_19.dsn(),
        "CREATE FUNCTION slow(int) RETURNS int IMMUTABLE LANGUAGE plpgsql"
        " AS 'BEGIN PERFORM pg_sleep(current_setting(''test.wait'')::float); RETURN 1; END'",
        "ALTER DATABASE postgres SET test.wait = 0",
    )
    sql(since_19.dsn(), "CREATE TABLE t (id int)", "INSERT INTO t VALUES (1)",
        "CREATE INDEX ON t (slow(id))")  # fmt: skip
    with psycopg.connect(since_19.dsn(), autocommit=True) as conn:
        conn.execute("SET test.wait = 60")
        repack = threading.Thread(target=_until_cancelled, args=(conn, "REPACK t"))
        repack.start()
        try:
            deadline = time.monotonic() + 20
            while not (found := sampled(since_19, "progress").rows):
                assert time.monotonic() < deadline
                time.sleep(0.05)
        finally:
            conn.cancel_safe()
            repack.join()
    command = [one.name for one in sampled(since_19, "progress").source.columns].index("command")
    assert [row.values[command] for row in found] == ["REPACK"]


def _until_cancelled(conn: psycopg.Connection[Any], statement: str) -> None:
    with contextlib.suppress(psycopg.errors.QueryCanceled):
        conn.execute(statement.encode())


@pytest.mark.parametrize("major", [18, 19])
def test_each_class_of_waits_has_a_letter_in_the_chart(major: int, new_cluster: NewCluster) -> None:
    """Background processes that wait for work are not sampled."""
    types = sql(new_cluster(major).dsn(), "SELECT DISTINCT type FROM pg_wait_events")
    assert {one for (one,) in types} - {"Activity"} <= _LETTERS.keys()


def test_statements_are_counted_with_their_texts(cluster: Cluster) -> None:
    for _ in range(3):
        sql(cluster.dsn(), "SELECT count(*) FROM t WHERE id = 4711")
    with connect(cluster.dsn()) as conn:
        sampler = Sampler(conn)
        sampler.prepare()
        found = sampler.sample(built_in()["statements"])
        assert found is not None
        texts = sampler.texts(
            row.values[[one.name for one in found.source.columns].index("query_id")]
            for row in found.rows
        )
    assert texts is not None
    (number,) = [one for one, text in texts.items() if text.startswith("SELECT count(*) FROM t")]
    assert value(found, "calls", query_id=number) == 3
    assert "4711" not in texts[number]


def test_texts_that_cannot_be_read_are_missing_until_they_can(cluster: Cluster) -> None:
    with connect(cluster.dsn()) as conn, psycopg.connect(cluster.dsn()) as holder:
        sampler = Sampler(conn)
        sampler.prepare()
        holder.execute("LOCK TABLE pg_stat_statements")
        assert sampler.texts([1]) is None
        assert "lock timeout" in sampler.missing["statement_texts"].why
        holder.rollback()
        assert sampler.texts([1]) == {}
        assert sampler.missing == {}


def test_only_the_first_hundred_sessions_that_wait_name_who_blocks_them(
    new_cluster: NewCluster,
) -> None:
    """103 wait for one: the three that came last are sampled without it. The one waits itself,
    and came last of all: it is asked, since it blocks the others.
    """
    cluster = new_cluster(settings={"max_connections": 150})
    sql(cluster.dsn(), "CREATE TABLE t ()", "CREATE TABLE u ()")
    with contextlib.ExitStack() as ended, psycopg.connect(cluster.dsn()) as root:
        root.execute("LOCK TABLE u")
        first = str(root.info.backend_pid)
        holder = PGconn.connect(f"{cluster.dsn()} application_name=holder".encode())
        ended.callback(holder.finish)
        holder.exec_(b"BEGIN; LOCK TABLE t")
        for place in range(103):
            waiter = PGconn.connect(f"{cluster.dsn()} application_name={place}".encode())
            ended.callback(waiter.finish)
            waiter.send_query(b"SELECT FROM t")
            if place == 99:
                until(lambda: _waiting(cluster) == 100)
        until(lambda: _waiting(cluster) == 103)
        holder.send_query(b"LOCK TABLE u")
        until(lambda: _waiting(cluster) == 104)
        found = sampled(cluster, "sessions")
        names = [one.name for one in found.source.columns]
        rows = [dict(zip(names, row.values, strict=True)) for row in found.rows]
    waits = {row["application"]: row["blocked_by"] for row in rows if row["wait_type"] == "Lock"}
    assert len(waits) == 104
    assert waits["holder"] == first
    assert {one for one, by in waits.items() if by is None} == {"100", "101", "102"}


def _waiting(cluster: Cluster) -> int:
    query = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    number: int = sql(cluster.dsn(), query)[0][0]
    return number


def test_a_session_that_waits_names_who_blocks_it(cluster: Cluster) -> None:
    with psycopg.connect(cluster.dsn()) as holder, psycopg.connect(cluster.dsn()) as waiter:
        holder.execute("LOCK TABLE t")
        pid, blocker = waiter.info.backend_pid, holder.info.backend_pid
        waiting = threading.Thread(target=waiter.execute, args=("LOCK TABLE t",))
        waiting.start()
        for _ in range(200):
            found = sampled(cluster, "sessions")
            pids = [row.values[0] for row in found.rows]
            if pid in pids and value(found, "wait_type", pid=pid) == "Lock":
                break
        holder.rollback()
        waiting.join()
    assert value(found, "blocked_by", pid=pid) == str(blocker)
    assert value(found, "wait_event", pid=pid) == "relation"
    assert value(found, "lock_mode", pid=pid) == "AccessExclusiveLock"
    assert value(found, "lock_relation", pid=pid) == "public.t"


def test_who_waits_and_who_is_waited_for_have_their_text_without_literals(cluster: Cluster) -> None:
    """One that waits for a table is not analyzed yet, so that it has no identifier either."""
    with (
        psycopg.connect(cluster.dsn()) as holder, psycopg.connect(cluster.dsn()) as waiter,
        ThreadPoolExecutor() as pool,
    ):  # fmt: skip
        holder.execute("LOCK TABLE t")
        pid, other = waiter.info.backend_pid, holder.info.backend_pid
        waiting = pool.submit(waiter.execute, "UPDATE t SET long = 'hunter2' -- mine")
        until(lambda: _waiting(cluster) == 1)
        working = pool.submit(holder.execute, "SELECT pg_sleep(2)")
        until(lambda: other in [row.values[0] for row in sampled(cluster, "sessions").rows])
        found = sampled(cluster, "sessions")
        working.result()
        holder.rollback()
        waiting.result()
    assert value(found, "query_id", pid=pid) is None
    assert value(found, "statement", pid=pid) == "UPDATE t SET long = ?"
    assert value(found, "statement", pid=other) == "SELECT pg_sleep(?)"


def test_a_session_that_waits_for_a_row_names_its_table_and_one_elsewhere_names_none(
    cluster: Cluster,
) -> None:
    """A name in another database is not known here; what runs and does not wait has no lock."""
    sql(cluster.dsn(), "INSERT INTO t VALUES (1, 'x')", "CREATE DATABASE other")
    sql(cluster.dsn("other"), "CREATE TABLE t2 (id int)")
    row, table = "UPDATE t SET long = 'y'", "LOCK TABLE t2"
    with (
        psycopg.connect(cluster.dsn()) as one, psycopg.connect(cluster.dsn()) as two,
        psycopg.connect(cluster.dsn("other")) as three,
        psycopg.connect(cluster.dsn("other")) as four,
        ThreadPoolExecutor() as pool,
    ):  # fmt: skip
        one.execute(row)
        three.execute(table)
        waiting = [pool.submit(two.execute, row), pool.submit(four.execute, table)]
        number = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        until(lambda: sql(cluster.dsn(), number) == [(2,)])
        found = sampled(cluster, "sessions")
        known = [
            (value(found, "lock_mode", pid=pid), value(found, "lock_relation", pid=pid))
            for pid in (two.info.backend_pid, four.info.backend_pid)
        ]
        for holder in (one, three):
            holder.rollback()
        for each in waiting:
            each.result()
    assert known == [("ShareLock", "public.t"), ("AccessExclusiveLock", None)]


def test_while_a_catalog_is_locked_a_session_that_waits_is_sampled_without_a_name(
    cluster: Cluster,
) -> None:
    """The recorder has not seen the table before: its name would be read from pg_class.

    A lock of pg_class in another database keeps nobody here from reading it.
    """
    name = "seen"
    sql(cluster.dsn(), f"CREATE TABLE {name} (id int)", f"INSERT INTO {name} VALUES (1)",
        f"CREATE DATABASE {name}")  # fmt: skip
    update = f"UPDATE {name} SET id = 1"
    with (
        connect(cluster.dsn()) as conn, psycopg.connect(cluster.dsn()) as holder,
        psycopg.connect(cluster.dsn(), options="-c lock_timeout=30s") as waiter,
        psycopg.connect(cluster.dsn()) as catalog, psycopg.connect(cluster.dsn(name)) as elsewhere,
        ThreadPoolExecutor() as pool,
    ):  # fmt: skip
        sampler = Sampler(conn)
        sampler.prepare()
        sampler.sample(built_in()["sessions"])
        waiter.execute(update)
        waiter.rollback()
        holder.execute(update)
        catalog.execute("LOCK TABLE pg_class")
        elsewhere.execute("LOCK TABLE pg_class")
        waiting = pool.submit(waiter.execute, update)
        pid = waiter.info.backend_pid
        locked = _name_of_what_is_waited_for(sampler, pid)
        catalog.rollback()
        free = _name_of_what_is_waited_for(sampler, pid)
        holder.rollback()
        waiting.result()
    assert (locked, free) == (None, f"public.{name}")


def _name_of_what_is_waited_for(sampler: Sampler, pid: int) -> object:
    found: list[SourceSample] = []

    def waits() -> bool:
        one = sampler.sample(built_in()["sessions"])
        assert one is not None, sampler.missing
        found.append(one)
        return any(row.values[0] == pid for row in one.rows) and (
            value(one, "lock_mode", pid=pid) == "ShareLock"
        )

    until(waits)
    return value(found[-1], "lock_relation", pid=pid)


def test_a_setting_of_the_recorders_own_session_is_told_as_it_was(cluster: Cluster) -> None:
    sql(cluster.dsn(), "ALTER SYSTEM SET lock_timeout = '77s'", "SELECT pg_reload_conf()")
    for _ in range(100):
        found = sampled(cluster, "settings")
        if value(found, "value", name="lock_timeout") == "77000":
            break
    assert value(found, "value", name="lock_timeout") == "77000"
    names = {row.values[0] for row in found.rows}
    assert "application_name" not in names
    assert {"jit", "max_parallel_workers_per_gather", "TimeZone"} <= names


def test_a_secret_in_a_setting_stays_at_the_server(
    each_major: int, new_cluster: NewCluster
) -> None:
    """Of every such setting only whether it is set, and a hash that tells a change."""
    secrets = dict.fromkeys(SECRET, "key=hunter2 true")
    cluster = new_cluster(each_major, {"archive_mode": "on", **secrets})
    found = sampled(cluster, "settings")
    told = {name: value(found, "value", name=name) for name in SECRET}
    assert told == {name: shown(name, "key=hunter2 true") for name in SECRET}
    assert told["archive_command"] == "(set, cb)"
    assert "hunter2" not in repr(found)


def test_what_a_role_may_not_read_is_named_and_the_rest_is_read(new_cluster: NewCluster) -> None:
    cluster = new_cluster()
    sql(cluster.dsn(), "CREATE ROLE plain LOGIN",
        "REVOKE ALL ON pg_stat_replication FROM PUBLIC")  # fmt: skip
    with connect(cluster.dsn(user="plain")) as conn:
        sampler = Sampler(conn)
        sampler.prepare()
        samples = {name: sampler.sample(source) for name, source in built_in().items()}
    assert set(sampler.missing) == {
        "replication", "sessions", "sessions_by_role", "statements", "statements_info",
        "wal_directory",
    }  # fmt: skip
    assert "permission denied" in sampler.missing["replication"].why
    assert sampler.missing["replication"].hint == "GRANT pg_monitor TO the role."
    assert "not installed" in sampler.missing["statements"].why
    assert samples["wal"] is not None


def own(text: str) -> Source:
    header = 'help = "x"\ninterval = "1s"\ntimeout = "500ms"\n[gauges]\nn = { help = "a number" }'
    return parse("own", {130000: f"/*\n{header}\n*/\n{text}"})


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("SELECT 1 AS m", "returns no column n"),
        ("SELECT 'x' AS n", "a value is no integer"),
        ("SELECT 'Infinity'::float AS n", "a value is no integer"),
        ("SELECT 2::numeric ^ 63 AS n", "a value is no integer"),
        ("SELECT 1/0 AS n", "division by zero"),
        ("SELECT pg_sleep(30) IS NULL AS n", "statement timeout"),
        ("DELETE FROM public.t RETURNING id AS n", "read-only transaction"),
        ("SELECT n FROM nowhere", "does not exist"),
    ],
)
def test_a_source_that_fails_is_named_and_harms_nothing(
    embedded: Cluster, text: str, why: str
) -> None:
    sql(embedded.dsn(), "CREATE TABLE IF NOT EXISTS t (id int)")
    try:
        with connect(embedded.dsn()) as conn:
            sampler = Sampler(conn)
            sampler.prepare()
            assert sampler.sample(own(text)) is None
            assert why in sampler.missing["own"].why
            assert sampler.sample(built_in()["wal"]) is not None
    finally:
        sql(embedded.dsn(), "DROP TABLE t")


def test_a_user_s_own_query_finds_names_as_the_role_does(embedded: Cluster, tmp_path: Path) -> None:
    header = 'help = "x"\ninterval = "1s"\ntimeout = "500ms"\n[gauges]\nn = { help = "a number" }'
    (tmp_path / "queue.sql").write_text(f"/*\n{header}\n*/\nSELECT n FROM queued")
    (source,) = in_directory(tmp_path).values()
    sql(embedded.dsn(), "CREATE SCHEMA app", "CREATE TABLE app.queued AS SELECT 7 AS n")
    try:
        with connect(f"{embedded.dsn()} options=-csearch_path=app") as conn:
            sampler = Sampler(conn)
            sampler.prepare()
            found = sampler.sample(source)
            assert found is not None, sampler.missing
            assert value(found, "n") == 7
            assert conn.execute("SHOW search_path").fetchone() == ("",)
    finally:
        sql(embedded.dsn(), "DROP SCHEMA app CASCADE")


def test_the_recorder_waits_for_no_lock(embedded: Cluster) -> None:
    """Another session holds a lock that a source needs; the recorder gives up at once."""
    sql(embedded.dsn(), "CREATE TABLE held (n int)")
    try:
        with psycopg.connect(embedded.dsn()) as holder, connect(embedded.dsn()) as conn:
            holder.execute("LOCK TABLE held IN ACCESS EXCLUSIVE MODE")
            sampler = Sampler(conn)
            sampler.prepare()
            assert sampler.sample(own("SELECT n FROM public.held")) is None
            assert "lock timeout" in sampler.missing["own"].why
    finally:
        sql(embedded.dsn(), "DROP TABLE held")
