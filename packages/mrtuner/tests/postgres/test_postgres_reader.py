"""What the server refuses is missing, and the rest is read."""

from __future__ import annotations

import psycopg
import pytest
from conftest import NewCluster

from mrtuner.answers import check
from mrtuner.facts import Missing
from mrtuner.postgres.connect import connect
from mrtuner.postgres.reader import Reader
from servers import sql

pytestmark = pytest.mark.timed


def test_what_was_dropped_meanwhile_is_missing_and_the_session_goes_on(
    each_major: int, new_cluster: NewCluster
) -> None:
    """A snapshot has a database that is gone: pg_database_size fails with 3D000."""
    cluster = new_cluster(each_major)
    sql(cluster.dsn(), "CREATE DATABASE gone", "CREATE ROLE watcher LOGIN IN ROLE pg_monitor")
    with connect(cluster.dsn(user="watcher")) as conn:
        reader = Reader(conn, conn.info.server_version)
        conn.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        ((oid,),) = conn.execute("SELECT oid FROM pg_database WHERE datname = 'gone'").fetchall()
        sql(cluster.dsn(), "DROP DATABASE gone")
        assert reader.rows_if_allowed("databases", "databases") == []
        assert reader.missing == [
            Missing(
                "databases", f"database with OID {oid} does not exist",
                hint="Run again: it may have been dropped meanwhile.",
            )
        ]  # fmt: skip
        assert reader.row("check_now")["database"] == "postgres"


def test_a_session_that_ended_is_no_missing_fact(new_cluster: NewCluster) -> None:
    cluster = new_cluster(18)
    with connect(cluster.dsn()) as conn:
        reader = Reader(conn, conn.info.server_version)
        sql(cluster.dsn(), f"SELECT pg_terminate_backend({conn.info.backend_pid}, 5000)")
        with pytest.raises(psycopg.OperationalError):
            reader.rows_if_allowed("databases", "databases")
        assert reader.missing == []


def test_a_name_that_is_not_text_leaves_the_other_checks(new_cluster: NewCluster) -> None:
    """In a database without an encoding, a name may be any bytes."""
    cluster = new_cluster(18)
    sql(cluster.dsn(), "CREATE DATABASE bytes ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0")
    with psycopg.connect(
        cluster.dsn("bytes"), autocommit=True, client_encoding="SQL_ASCII"
    ) as conn:
        conn.execute(b'CREATE TABLE "caf\xe9" (id int)')
        conn.execute(b'INSERT INTO "caf\xe9" SELECT generate_series(1, 2000)')
    sql(cluster.dsn("bytes"), "SELECT pg_stat_force_next_flush()")
    answer = check(cluster.dsn("bytes"), skip=["free-space"])
    unjudged = {one.name: one.why for one in answer.unjudged}
    assert "encoding" in unjudged["never-analyzed"]
    assert "lock-queue" in answer.passed
