"""What a real server and a real PgBouncer tell about a load."""

from __future__ import annotations

import time
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest
from conftest import NewCluster

from machine import needs
from mrtuner.errors import BadValue, ConnectError, UsageError
from mrtuner.facts import Fact
from mrtuner.postgres.cluster import Cluster
from mrtuner_pods.connections.model import Rollout
from mrtuner_pods.connections.pgbouncer import pooler
from mrtuner_pods.observed import activity, console
from mrtuner_pods.observed.remembered import of_sessions
from test_connections_real import bouncer, prepared

CONSOLE = "admin_users = app\nignore_startup_parameters = extra_float_digits\n"
ONE = Rollout(desired=Fact(1, "one"), surge=Fact(0, "none"), unavailable=Fact(0, "none"))


def asleep(stack: ExitStack, dsn: str, number: int, **given: Any) -> None:
    """Open sessions that run a statement until the stack closes them."""
    for _ in range(number):
        conn = psycopg.connect(dsn, autocommit=True, **given)
        stack.callback(conn.close)
        conn.pgconn.send_query(b"SELECT pg_sleep(600)")


def await_active(dsn: str, number: int) -> None:
    end = time.monotonic() + 60
    with psycopg.connect(dsn, autocommit=True) as conn:
        query = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%'"
        while conn.execute(query + " AND state = 'active'").fetchone() != (number,):
            assert time.monotonic() < end
            time.sleep(0.05)


def test_sessions_are_told_by_application(new_cluster: NewCluster) -> None:
    """By hand: three of web at work and one in a transaction; 3 / 100 s for each request."""
    cluster = new_cluster(18)
    prepared(cluster)
    dsn = cluster.dsn("shop", user="app")
    with ExitStack() as stack:
        asleep(stack, dsn, 3, application_name="web")
        asleep(stack, dsn, 1, application_name="jobs")
        idle = stack.enter_context(psycopg.connect(dsn, application_name="web"))
        idle.execute("SELECT 1")
        await_active(cluster.dsn(), 4)
        with pytest.raises(BadValue, match="several applications are open: jobs and web"):
            activity.watched(cluster.dsn(), seconds=0.1, rate=100)
        seen = activity.watched(cluster.dsn(), seconds=0.3, rate=100, application="web")
        with pytest.raises(BadValue, match="no session has the application_name 'shop'"):
            activity.watched(cluster.dsn(), seconds=0.1, rate=100, application="shop")
        # A role without the privilege sees neither their states nor their addresses.
        with psycopg.connect(cluster.dsn(), autocommit=True) as admin:
            admin.execute("CREATE ROLE looker LOGIN")
        hidden = activity.watched(cluster.dsn("shop", user="looker"), seconds=0.1)
    rows = {one.application: one for one in seen.sessions}
    assert (rows["web"].sessions, rows["web"].active, rows["web"].in_transaction) == (4, 3, 1)
    assert (rows["web"].role, rows["web"].database) == ("app", "shop")
    assert seen.database_time is not None
    assert seen.database_time.value == pytest.approx(0.03)
    assert any("sessions of other roles are hidden" in text for text in hidden.warnings)


def test_many_sessions_from_one_address_may_be_a_poolers(new_cluster: NewCluster) -> None:
    cluster = new_cluster(18, {"listen_addresses": "127.0.0.1"})
    prepared(cluster, "ALTER ROLE app PASSWORD 'app'")
    host = {"host": "127.0.0.1", "password": "app", "application_name": "web"}
    with ExitStack() as stack:
        asleep(stack, cluster.dsn("shop", user="app"), 10, **host)
        await_active(cluster.dsn(), 10)
        seen = activity.watched(cluster.dsn(), seconds=0.1)
    assert any("come from one address: a pooler hides" in text for text in seen.warnings)


# PgBouncer.


def through(port: int, database: str = "shop") -> str:
    where = f"host=127.0.0.1 port={port} user=app"
    return f"{where} dbname={database}" if database else where


@needs("pgbouncer")
def test_a_running_pooler_tells_its_settings_as_its_file_does(new_cluster: NewCluster) -> None:
    cluster = new_cluster(18)
    prepared(cluster, "CREATE DATABASE stock")
    settings = f"{CONSOLE}max_client_conn = 77\ndefault_pool_size = 6\nreserve_pool_size = 2\n"
    with (
        bouncer(cluster, settings, "pool_size=3") as (text, port),
        console.console(through(port, "")) as connection,
    ):
        running = console.configuration(connection)
    on_disk, live = (pooler(one, "x", ONE, []) for one in (text, running))
    assert live.max_client_conn.value == on_disk.max_client_conn.value == 77
    assert live.servers() == on_disk.servers() == (3 + 2) + (6 + 2)
    assert {one.mode for one in live.pools} == {"transaction"}


@needs("pgbouncer")
def test_a_poolers_load_is_the_time_of_its_statements(new_cluster: NewCluster) -> None:
    """Statements that sleep for 20 ms, counted by the test and by the pooler."""
    cluster = new_cluster(18)
    prepared(cluster)
    with bouncer(cluster, f"{CONSOLE}default_pool_size = 2\n") as (_, port), ExitStack() as stack:
        client = stack.enter_context(psycopg.connect(through(port), autocommit=True))
        client.prepare_threshold = None
        ran: list[float] = []

        def work(_: float) -> None:
            began = time.monotonic()
            for _number in range(10):
                client.execute("SELECT pg_sleep(0.02)")
            ran.append(time.monotonic() - began)

        seen = console.watched(through(port, ""), rate=50, sleep=work)
        with pytest.raises(BadValue, match="no statement went through"):
            console.watched(through(port, ""), seconds=0.1)
    assert seen.database_time is not None
    # Busy for most of the time: ten statements of 20 ms at least, over what the loop took.
    assert 0.2 / (ran[0] + 5) / 50 < seen.database_time.value <= 1.05 / 50
    (pool,) = seen.pools
    assert (pool.database, pool.user, pool.mode, pool.waiting) == ("shop", "app", "transaction", 0)


@needs("pgbouncer")
def test_clients_that_wait_for_a_server_are_told(new_cluster: NewCluster) -> None:
    cluster = new_cluster(18)
    prepared(cluster)
    with bouncer(cluster, f"{CONSOLE}default_pool_size = 1\n") as (_, port), ExitStack() as stack:
        for _ in range(3):
            conn = stack.enter_context(psycopg.connect(through(port)))
            conn.pgconn.send_query(b"BEGIN")
            stack.callback(conn.close)
        with console.console(through(port, "")) as connection:
            end = time.monotonic() + 60
            while True:
                pools = console.pools_now(console.shown(connection, "POOLS"))
                if pools and pools[0].waiting == 2:
                    break
                assert time.monotonic() < end, pools
                time.sleep(0.05)
    assert (pools[0].clients, pools[0].servers) == (1, 1)


def test_what_is_no_console_is_refused(embedded: Cluster) -> None:
    with pytest.raises(UsageError, match="is not the console of PgBouncer"):
        console.console(embedded.dsn("postgres"))
    with pytest.raises(ConnectError):
        console.console("host=127.0.0.1 port=1 user=app")


# A history.


def test_a_history_gives_the_time_in_the_database() -> None:
    """By hand: eight sessions at work over 400 requests a second are 20 ms each."""
    row = {"role": "app", "database": "shop", "in_transaction": 1.0}
    both = [{"application": "web", "active": 8.0, **row}, {"application": "", "active": 1.0, **row}]
    known = {
        "begin": datetime(2026, 11, 24, 9, tzinfo=UTC), "max_connections": 200, "cpus": 8,
        "rate": 400.0, "where": "db in history",
    }  # fmt: skip
    with pytest.raises(BadValue, match="sessions of several applications: one without a name and"):
        of_sessions(applications=both, application=None, **known)  # type: ignore[arg-type]
    seen = of_sessions(applications=both[:1], application="web", **known)  # type: ignore[arg-type]
    assert seen.database_time is not None
    assert seen.database_time.value == pytest.approx(0.020)
    assert seen.database_cpus == Fact(8, "CPUs of the server, db in history")


def test_workers_of_a_ruby_server_are_one_application(embedded: Cluster) -> None:
    """Their sessions are named by the titles of their processes."""
    titles = ("puma: cluster worker 0: 7 [a1]", "puma: cluster worker 12: 7 [a1]",
              "puma: cluster worker 0: 7 [b2]",
              "unicorn worker[0] -D", "unicorn worker[1] -D")  # fmt: skip
    with ExitStack() as stack:
        for title in titles:
            stack.enter_context(psycopg.connect(embedded.dsn(), application_name=title))
        seen = activity.watched(embedded.dsn(), seconds=0.1).sessions
    found = {one.application: one.sessions for one in seen}
    assert found["puma: cluster worker [a1]"] == found["unicorn worker -D"] == 2
    assert found["puma: cluster worker [b2]"] == 1
